/* Routed experts that stay on their ranks: their owners, and the exchange of tokens. */
#include "trainer/model/private.h"

#include <string.h>

/* Makes the tables of owners of all layers. */
static enum fr_rc share_out(struct tr_model *m, struct fr_err *err)
{
    int64_t E = m->config.n_routed_experts, L = tr_model_moe_count(&m->config);
    size_t numbers = (size_t)(L * E);
    enum fr_rc rc = FR_OK;

    m->owners = fr_arena_array(&m->arena, (size_t)L + 1, sizeof(*m->owners));
    m->owner_table = fr_arena_array(&m->arena, 2 * numbers + 1, sizeof(*m->owner_table));
    m->expert_rows = fr_arena_array(&m->arena, numbers + 1, sizeof(*m->expert_rows));
    if (m->owners == NULL || m->owner_table == NULL || m->expert_rows == NULL)
        return fr_fail(err, FR_NOMEM, "owners of %lld experts", (long long)(L * E));
    for (int64_t i = 0; i < L && rc == FR_OK; i++) {
        int32_t *rank = m->owner_table + 2 * i * E;

        m->owners[i] = (struct tr_owners){E, rank, rank + E};
        rc = tr_owners_place(E, m->o.experts->size, NULL, rank, rank + E, err);
        if (rc == FR_OK && m->o.expert_ranks != NULL) {
            memcpy(rank, m->o.expert_ranks + i * E, (size_t)E * sizeof(*rank));
            tr_owners_number(E, rank, rank + E);
        }
    }
    return rc;
}

enum fr_rc tr_experts_create(struct tr_model *m, struct fr_err *err)
{
    const struct tr_model_config *c = &m->config;
    struct tr_exchange_opts o = {
        .be = m->o.be,
        .comm = m->o.experts,
        .per_token = c->num_experts_per_tok,
        .tokens_max = m->o.tokens_max,
        .row_bytes = c->hidden_size * (int64_t)tr_dtype_bytes(m->o.compute),
        .rows_max = m->o.exchange_rows,
        .plans = m->o.in_flight,
    };
    int64_t weights = o.per_token * (int64_t)sizeof(double);
    enum fr_rc rc;

    if (m->o.experts == NULL)
        return FR_OK;
    if (c->n_routed_experts < o.comm->size || c->n_routed_experts >= TR_ROUTE_NONE)
        return fr_fail(err, FR_USAGE,
                       "%lld experts a layer cannot be owned by %d ranks: each needs one, and more "
                       "than %d are not counted",
                       (long long)c->n_routed_experts, o.comm->size, TR_ROUTE_NONE - 1);
    if (m->o.train)
        o.plans *= tr_model_moe_count(c);
    o.row_bytes = o.row_bytes > weights ? o.row_bytes : weights;
    rc = share_out(m, err);
    m->o.expert_ranks = NULL;
    if (rc != FR_OK)
        return rc;
    return tr_exchange_create(&o, &m->exchange, err);
}

bool tr_experts_here(const struct tr_model *m, int64_t e)
{
    return m->exchange == NULL || m->owners[m->moe_layers].rank[e] == m->o.experts->rank;
}

const struct tr_owners *tr_model_owners(const struct tr_model *m, int64_t i)
{
    return &m->owners[i];
}

const int64_t *tr_model_expert_rows(const struct tr_model *m)
{
    return m->expert_rows;
}

void tr_model_moved(const struct tr_model *m, struct tr_model_moved *out)
{
    struct tr_shard_stats s;

    *out = (struct tr_model_moved){.rows_bytes = {0}};
    tr_shard_stats(m->shard, &s);
    memcpy(out->rows_bytes, s.rows_bytes, sizeof(out->rows_bytes));
    if (m->exchange != NULL)
        tr_exchange_routes(m->exchange, &out->routes);
}

int tr_model_exchange_rounds(const struct tr_model *m)
{
    return tr_exchange_most_rounds(m->exchange);
}
