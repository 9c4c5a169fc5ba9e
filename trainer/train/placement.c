/* Files by which experts are placed: counts of rows, and owners. */
#include "trainer/train/experts.h"

#include "engine/base/json.h"
#include "engine/base/log.h"
#include "engine/base/sys.h"

#include <stdlib.h>

enum { FILE_MAX = 64 << 20 };

/* ---- reading ---- */

struct reader {
    const char *path;
    const struct tr_model_config *config;
    struct tr_expert_places *out;
};

static const char *key_of(const struct tr_expert_places *p)
{
    return p->ranks > 0 ? "ranks" : "rows";
}

static enum fr_rc read_layer(const struct reader *r, const json_t *layer, int64_t i,
                             struct fr_err *err)
{
    const char *key = key_of(r->out);
    const json_t *list = json_object_get(layer, key);
    int64_t E = r->config->n_routed_experts, l = tr_experts_layer(r->config, i);
    int64_t below = r->out->ranks > 0 ? r->out->ranks : INT64_MAX;

    if (json_integer_value(json_object_get(layer, "layer")) != l ||
        (int64_t)json_array_size(list) != E)
        return fr_fail(err, FR_USAGE,
                       "%s: layers[%lld] is not layer %lld with the %s of %lld experts: take the "
                       "counts of a run of this model",
                       r->path, (long long)i, (long long)l, key, (long long)E);
    for (int64_t e = 0; e < E; e++) {
        const json_t *v = json_array_get(list, (size_t)e);
        int64_t n = json_integer_value(v);

        if (!json_is_integer(v) || n < 0 || n >= below)
            return fr_fail(err, FR_USAGE,
                           "%s: layers[%lld].%s[%lld] is not a number of %s, 0 or more%s", r->path,
                           (long long)i, key, (long long)e, r->out->ranks > 0 ? "a rank" : "rows",
                           r->out->ranks > 0 ? " and below the file's ranks" : "");
        r->out->numbers[i * E + e] = n;
    }
    return FR_OK;
}

/* Of one layer: each rank has an expert, and none has more than its share. */
static enum fr_rc check_shares(const struct reader *r, int64_t i, struct fr_err *err)
{
    int64_t E = r->config->n_routed_experts, P = r->out->ranks;

    for (int64_t k = 0; k < P; k++) {
        int64_t n = 0;

        for (int64_t e = 0; e < E; e++)
            n += r->out->numbers[i * E + e] == k;
        if (n < 1 || n > (E + P - 1) / P)
            return fr_fail(err, FR_USAGE,
                           "%s: layers[%lld].ranks gives rank %lld %lld of %lld experts, expected "
                           "1 to %lld",
                           r->path, (long long)i, (long long)k, (long long)n, (long long)E,
                           (long long)((E + P - 1) / P));
    }
    return FR_OK;
}

static enum fr_rc read_layers(const struct reader *r, const json_t *root, struct fr_err *err)
{
    const json_t *layers = json_object_get(root, "layers");
    int64_t L = tr_model_moe_count(r->config), E = r->config->n_routed_experts;
    enum fr_rc rc = FR_OK;

    r->out->ranks = json_integer_value(json_object_get(root, "ranks"));
    if (r->out->ranks < 0 || r->out->ranks > E)
        return fr_fail(err, FR_USAGE, "%s: ranks is %lld, expected 1 to %lld, the experts", r->path,
                       (long long)r->out->ranks, (long long)E);
    if ((int64_t)json_array_size(layers) != L)
        return fr_fail(err, FR_USAGE,
                       "%s: has %zu layers, the model has %lld with experts: take the counts of a "
                       "run of this model",
                       r->path, json_array_size(layers), (long long)L);
    r->out->numbers = fr_sys.alloc((size_t)(L * E) * sizeof(*r->out->numbers));
    if (r->out->numbers == NULL)
        return fr_fail(err, FR_NOMEM, "counts of experts");
    for (int64_t i = 0; i < L && rc == FR_OK; i++) {
        rc = read_layer(r, json_array_get(layers, (size_t)i), i, err);
        if (rc == FR_OK && r->out->ranks > 0)
            rc = check_shares(r, i, err);
    }
    return rc;
}

enum fr_rc tr_experts_read(const char *path, const struct tr_model_config *c,
                           struct tr_expert_places *out, struct fr_err *err)
{
    const struct reader r = {path, c, out};
    json_t *root = NULL;
    enum fr_rc rc = fr_json_load(path, FILE_MAX, &root, err);

    *out = (struct tr_expert_places){.numbers = NULL};
    if (rc != FR_OK)
        return fr_while(err, "moe.expert_placement");
    rc = read_layers(&r, root, err);
    json_decref(root);
    if (rc != FR_OK) {
        fr_sys.free(out->numbers);
        out->numbers = NULL;
    }
    return rc;
}

/* ---- placing: tables have room for a layer more, where it is scratch ---- */

enum fr_rc tr_experts_place(const struct tr_expert_places *p, const struct tr_model_config *c,
                            int P, int32_t **ranks, struct fr_err *err)
{
    int64_t E = c->n_routed_experts, L = tr_model_moe_count(c);
    int32_t *to = fr_sys.alloc((size_t)((L + 1) * E) * sizeof(*to));
    enum fr_rc rc = FR_OK;

    *ranks = to;
    if (to == NULL)
        return fr_fail(err, FR_NOMEM, "owners of %lld experts", (long long)(L * E));
    if (p->ranks > 0 && p->ranks != P)
        return fr_fail(err, FR_USAGE,
                       "moe.expert_placement was made for groups of %lld ranks, those of this run "
                       "have %d: make it anew by `flowtrain plan --placement`",
                       (long long)p->ranks, P);
    for (int64_t i = 0; p->ranks > 0 && i < L * E; i++)
        to[i] = (int32_t)p->numbers[i];
    for (int64_t i = 0; p->ranks == 0 && i < L && rc == FR_OK; i++)
        rc = tr_owners_place(E, P, p->numbers + i * E, to + i * E, to + L * E, err);
    return rc;
}

static json_t *json_of_layer(const struct tr_expert_places *p, const struct tr_model_config *c,
                             int64_t i, int P, int32_t *ranks)
{
    int64_t E = c->n_routed_experts, *rows = p->numbers + i * E;
    int32_t *in_order = ranks + tr_model_moe_count(c) * E;
    json_t *list = json_array();

    ranks += i * E;
    for (int64_t e = 0; e < E; e++) {
        in_order[e] = (int32_t)(e * P / E);
        (void)json_array_append_new(list, json_integer(ranks[e]));
    }
    return json_pack("{s:I, s:f, s:f, s:o}", "layer", (json_int_t)tr_experts_layer(c, i),
                     "busiest_in_order", tr_owners_skew(E, P, rows, in_order), "busiest_placed",
                     tr_owners_skew(E, P, rows, ranks), "ranks", list);
}

enum fr_rc tr_experts_print_places(const struct tr_expert_places *p,
                                   const struct tr_model_config *c, int P, struct fr_err *err)
{
    int64_t E = c->n_routed_experts;
    json_t *layers = json_array(), *root;
    int32_t *ranks = NULL;
    enum fr_rc rc = tr_experts_place(p, c, P, &ranks, err);

    for (int64_t i = 0; i < tr_model_moe_count(c) && rc == FR_OK; i++)
        (void)json_array_append_new(layers, json_of_layer(p, c, i, P, ranks));
    root = json_pack("{s:I, s:i, s:o}", "experts", (json_int_t)E, "ranks", P, "layers", layers);
    if (rc == FR_OK)
        rc = fr_json_print(root, JSON_REAL_PRECISION(6), err);
    json_decref(root);
    fr_sys.free(ranks);
    return rc;
}
