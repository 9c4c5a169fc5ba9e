#include "trainer/config/lora_saves.h"

#include "trainer/config/arch.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

static bool ends_in(const char *text, size_t n, const char *end)
{
    size_t k = strlen(end);

    return n >= k && memcmp(text + n - k, end, k) == 0;
}

static bool names_path(const struct tr_lora_config *c, const char *path, size_t n)
{
    for (size_t i = 0; i < c->nsaves; i++)
        if (ends_in(path, n, c->saves[i]))
            return true;
    return false;
}

bool tr_lora_saves(const struct tr_lora_config *c, const char *module)
{
    return names_path(c, module, strlen(module));
}

bool tr_lora_saves_tensor(const struct tr_lora_config *c, const char *tensor)
{
    const char *dot = strrchr(tensor, '.');

    return dot != NULL && (strcmp(dot, ".weight") == 0 || strcmp(dot, ".bias") == 0) &&
           names_path(c, tensor, (size_t)(dot - tensor));
}

/* ---- against a model ---- */

/* Of one name, what is found. */
struct search {
    const char *name;
    bool found;
};

static enum fr_rc look(void *arg, const struct tr_model_tensor *t, struct fr_err *err)
{
    struct search *s = arg;
    const char *end = strrchr(t->name, '.');

    for (const char *p = t->name; end != NULL && (p = strchr(p, '.')) != NULL && p < end; p++)
        if (ends_in(t->name, (size_t)(p - t->name), s->name))
            return fr_fail(err, FR_UNSUPPORTED,
                           "additional_target %s: %.*s is a module with parts: name those of them "
                           "that are to train",
                           s->name, (int)(p - t->name), t->name);
    if (end == NULL || !ends_in(t->name, (size_t)(end - t->name), s->name))
        return FR_OK;
    s->found = true;
    if (t->role == TR_ROLE_ROUTER || t->role == TR_ROLE_ROUTER_BIAS || t->expert >= 0)
        return fr_fail(err, FR_UNSUPPORTED,
                       "additional_target %s: %s is of %s, which trains with --finetuning_type "
                       "full or freeze alone",
                       s->name, t->name, t->expert >= 0 ? "a routed expert" : "a router");
    return FR_OK;
}

enum fr_rc tr_lora_check_saves(const struct tr_lora_config *c, const struct tr_model_config *m,
                               struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; i < c->nsaves && rc == FR_OK; i++) {
        struct search s = {c->saves[i], false};

        rc = tr_model_tensors(m, look, &s, err);
        if (rc == FR_OK && !s.found)
            rc = fr_fail(err, FR_USAGE,
                         "additional_target %s is the name of no module of this model: expected "
                         "embed_tokens, lm_head, norm, or that of a linear, as o_proj",
                         s.name);
    }
    return rc;
}

/* ---- against weights ---- */

static bool saves_end(const struct tr_lora_config *c, const struct tr_tensor_names *names)
{
    return tr_lora_saves_tensor(c, names->embed) || tr_lora_saves_tensor(c, names->head);
}

struct laying {
    const struct tr_lora_config *c;
    const struct tr_st *from;
    struct tr_st *st;
};

static enum fr_rc lay_over(void *arg, const struct tr_model_tensor *t, struct fr_err *err)
{
    const struct laying *l = arg;
    const struct tr_st_tensor *base, *mine;
    char name[TR_NAME_MAX + sizeof(TR_PEFT_PREFIX)];

    if (!tr_lora_saves_tensor(l->c, t->name))
        return FR_OK;
    (void)snprintf(name, sizeof(name), TR_PEFT_PREFIX "%s", t->name);
    if ((mine = tr_st_find(l->from, name)) == NULL)
        return fr_fail(err, FR_USAGE, "adapter %s: it lacks %s", l->c->dir, name);
    base = tr_st_find(l->st, t->name);
    if (base != NULL && base->type == TR_ST_F8_E4M3 && !base->absent)
        return fr_fail(err, FR_UNSUPPORTED,
                       "adapter %s: it has a whole %s, which is FP8 in the base: flowtrain convert "
                       "--to bf16 first",
                       l->c->dir, t->name);
    return tr_st_lay_over(l->st, l->from, mine, t->name, err);
}

/* An embedding with rows of its own has more than the base's. */
static void take_rows(const struct tr_lora_config *c, struct tr_model_config *m,
                      const struct tr_st *from)
{
    const char *embed = tr_names_of(m)->embed;
    char name[TR_NAME_MAX + sizeof(TR_PEFT_PREFIX)];
    const struct tr_st_tensor *t;

    (void)snprintf(name, sizeof(name), TR_PEFT_PREFIX "%s", embed);
    t = tr_lora_saves_tensor(c, embed) ? tr_st_find(from, name) : NULL;
    if (t != NULL && t->ndim == 2 && t->shape[0] > m->vocab_size)
        m->vocab_size = t->shape[0];
}

enum fr_rc tr_lora_settle(const struct tr_lora_config *c, struct tr_model_config *m,
                          struct tr_st *st, struct fr_err *err)
{
    const struct tr_tensor_names *names = tr_names_of(m);
    const struct tr_st_tensor *embed = st != NULL ? tr_st_find(st, names->embed) : NULL;
    struct laying l = {.c = c, .st = st};
    struct tr_st *from = NULL;
    enum fr_rc rc = FR_OK;

    if (m->tie_word_embeddings && saves_end(c, names)) {
        m->tie_word_embeddings = false;
        if (embed != NULL && tr_st_find(st, names->head) == NULL)
            rc = tr_st_alias(st, embed, names->head, err);
    }
    if (rc != FR_OK || c->nsaves == 0 || c->dir == NULL)
        return rc;
    rc = tr_lora_weights(c->dir, &from, err);
    l.from = from;
    if (rc == FR_OK)
        take_rows(c, m, from);
    if (rc == FR_OK && st != NULL)
        rc = tr_model_tensors(m, lay_over, &l, err);
    tr_st_close(from);
    return rc;
}
