#include "trainer/config/untrained.h"

#include <math.h>

static const float ROUTER_BIAS_SPAN = 0.05f;

static float deviation(const struct tr_model_config *c, const struct tr_model_tensor *t)
{
    float s = fmaxf((float)c->initializer_range, 1 / sqrtf((float)t->shape[1]));
    bool to_residual = t->role == TR_ROLE_LINEAR && (t->kind == TR_LIN_O || t->kind == TR_LIN_DOWN);

    return to_residual ? s / sqrtf(2 * (float)c->num_hidden_layers) : s;
}

struct tr_untrained tr_untrained_of(const struct tr_model_config *c,
                                    const struct tr_model_tensor *t, uint64_t seed)
{
    struct tr_untrained u = {.how = TR_UNTRAINED_CONSTANT, .draw = tr_draw_of(seed, t->name)};

    switch (t->role) {
    case TR_ROLE_NORM:
        u.scale = 1;
        break;
    case TR_ROLE_BIAS:
        break;
    case TR_ROLE_ROUTER_BIAS:
        u.how = TR_UNTRAINED_UNIFORM;
        u.scale = ROUTER_BIAS_SPAN;
        break;
    case TR_ROLE_EMBED:
    case TR_ROLE_HEAD:
    case TR_ROLE_ROUTER:
    case TR_ROLE_LINEAR:
        u.how = TR_UNTRAINED_NORMAL;
        u.scale = deviation(c, t);
        break;
    }
    return u;
}

float tr_untrained_at(const struct tr_untrained *u, int64_t i)
{
    switch (u->how) {
    case TR_UNTRAINED_NORMAL:
        return u->scale * tr_draw_normal(u->draw, (uint64_t)i);
    case TR_UNTRAINED_UNIFORM:
        return u->scale * (2 * tr_draw_uniform(u->draw, (uint64_t)i) - 1);
    case TR_UNTRAINED_CONSTANT:
        break;
    }
    return u->scale;
}
