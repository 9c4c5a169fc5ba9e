/* Routed experts that stay on their ranks: who owns which, and the exchange of tokens. */
#include "engine/base/sys.h"
#include "trainer/model/state.h"

/* Blocks of neighbours, in the order of ranks: expert e is owned by rank e*P / E. */
static enum fr_rc share_out(struct tr_model *m, struct fr_err *err)
{
    int64_t E = m->config.n_routed_experts, P = m->o.experts->size, local = 0;
    int32_t *rank = fr_sys.alloc(2 * (size_t)E * sizeof(*rank));

    if (rank == NULL)
        return fr_fail(err, FR_NOMEM, "owners of %lld experts", (long long)E);
    m->owner_table = rank;
    for (int64_t e = 0; e < E; e++) {
        rank[e] = (int32_t)(e * P / E);
        local = e > 0 && rank[e] == rank[e - 1] ? local + 1 : 0;
        rank[E + e] = (int32_t)local;
    }
    m->owners = (struct tr_owners){E, rank, rank + E};
    return FR_OK;
}

static int64_t moe_layers(const struct tr_model_config *c)
{
    int64_t n = 0;

    for (int64_t l = 0; l < c->num_hidden_layers; l++)
        n += tr_model_is_moe(c, l);
    return n;
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
        o.plans *= moe_layers(c);
    o.row_bytes = o.row_bytes > weights ? o.row_bytes : weights;
    if ((rc = share_out(m, err)) != FR_OK)
        return rc;
    return tr_exchange_create(&o, &m->exchange, err);
}

void tr_experts_destroy(struct tr_model *m)
{
    tr_exchange_destroy(m->exchange);
    fr_sys.free(m->owner_table);
}

bool tr_experts_here(const struct tr_model *m, int64_t e)
{
    return m->exchange == NULL || m->owners.rank[e] == m->o.experts->rank;
}
