#include "trainer/optim/optim_private.h"

#include "engine/base/sys.h"
#include "trainer/backend/philox.h"

#include <math.h>
#include <string.h>

static struct tr_view slice_of(const struct tr_optim *o, struct tr_view whole)
{
    struct tr_view v = tr_view1(whole.p, whole.dtype, o->n);

    v.p = (char *)whole.p + (size_t)o->comm->rank * (size_t)o->n * tr_dtype_bytes(whole.dtype);
    return v;
}

void tr_optim_bytes(const struct tr_model *model, int world, struct tr_optim_bytes *out)
{
    const struct tr_grads *g = tr_model_grads(model);
    bool hosted = g != NULL && tr_grads_host(g)->be != NULL;
    bool muon = g != NULL && tr_grads_muon(g);
    size_t states = g != NULL && !hosted ? tr_optim_states(g) : 0;
    struct tr_params p;

    tr_model_params(model, &p);
    out->device =
        ((size_t)p.padded / (size_t)world * 4 + (size_t)p.padded) * sizeof(float) + states + 512;
    out->matrices = muon ? optim_muon_bytes(g) : 0;
    out->scratch = muon ? optim_muon_scratch(model) : 0;
    out->host = out->disk = out->again = 0;
    if (hosted)
        optim_host_bytes(g, out);
}

static enum fr_rc take(struct tr_optim *o, struct tr_view *v, enum tr_dtype t, int64_t n,
                       struct fr_err *err)
{
    void *p = NULL;
    size_t bytes = (size_t)n * tr_dtype_bytes(t);
    enum fr_rc rc = tr_mem_alloc(o->be, TR_MEM_DEVICE, bytes, &p, err);

    if (rc == FR_OK)
        rc = tr_zero(o->be, o->q, p, bytes);
    *v = tr_view1(p, t, n);
    return rc;
}

/* Where the states of each range are. A block has one owner, or its codes had two maxima. */
static enum fr_rc place_states(struct tr_optim *o, struct fr_err *err)
{
    int64_t block = tr_grads_block(o->grads);
    const struct tr_grads_range *r;
    struct optim_sizes sizes;
    size_t n;

    r = tr_grads_ranges(o->grads, &n);
    if ((o->places = fr_sys.alloc((n + 1) * sizeof(*o->places))) == NULL)
        return fr_fail(err, FR_NOMEM, "places of %zu tensors", n);
    optim_places(o->grads, o->places, &sizes);
    for (size_t i = 0; i < n; i++)
        if (o->places[i].coded && (r[i].first % block != 0 || r[i].at % block != 0))
            return fr_fail(err, FR_BUG, "%s is divided within a block of %lld elements", r[i].name,
                           (long long)block);
    return FR_OK;
}

enum fr_rc tr_optim_create(struct tr_optim *o, struct tr_model *model, struct tr_comm *comm,
                           struct tr_backend *be, struct fr_err *err)
{
    enum fr_rc rc;

    if ((rc = optim_check_states(tr_model_grads(model), err)) != FR_OK)
        return rc;
    *o = (struct tr_optim){.model = model, .be = be, .comm = comm, .q = tr_model_queue(model)};
    o->world = tr_comm_world(comm);
    tr_model_params(model, &o->params);
    o->n = o->params.padded / comm->size;
    o->grads = tr_model_grads(model);
    bool hosted = o->grads != NULL && tr_grads_host(o->grads)->be != NULL;
    struct tr_view *const slices[] = {&o->master, &o->m, &o->v, &o->grad};
    rc = take(o, &o->spread, TR_F32, o->params.padded, err);
    for (size_t i = 0; i < sizeof(slices) / sizeof(slices[0]) && rc == FR_OK; i++)
        rc = take(o, slices[i], TR_F32, o->n, err);
    if (rc == FR_OK && o->grads != NULL)
        rc = place_states(o, err);
    if (rc == FR_OK && o->grads != NULL && !hosted)
        rc = optim_take_states(o, TR_MEM_DEVICE, err);
    if (rc == FR_OK)
        rc = take(o, &o->found, TR_I64, 1, err);
    if (rc == FR_OK)
        rc = take(o, &o->sumsq, TR_I64, TR_EXACT_LIMBS, err);
    if (rc == FR_OK && o->grads != NULL)
        tr_grads_watch(o->grads, o->sumsq, o->found);
    o->spread = tr_view2(o->spread.p, TR_F32, comm->size, o->n);
    if (rc == FR_OK)
        rc = optim_list_ranges(o, err);
    if (rc == FR_OK && o->grads != NULL && tr_grads_muon(o->grads))
        rc = optim_muon_create(o, err);
    if (rc != FR_OK)
        return fr_while(err, "memory of the optimizer");
    return hosted ? optim_host_create(o, err) : FR_OK;
}

void tr_optim_finish(struct tr_optim *o)
{
    if (o == NULL || o->be == NULL)
        return;
    tr_comm_leave(o->comm, o->q);
    optim_free_states(o);
    optim_muon_finish(o);
    if (o->host.be != NULL)
        optim_host_finish(o);
    void *const all[] = {o->master.p, o->m.p,     o->v.p,    o->grad.p,
                         o->spread.p, o->found.p, o->sumsq.p};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        tr_mem_free(o->be, TR_MEM_DEVICE, all[i]);
    fr_arena_finish(&o->arena);
    *o = (struct tr_optim){0};
}

void tr_optim_draw(const struct tr_params *p, uint64_t seed, float *flat)
{
    memset(flat, 0, (size_t)p->padded * sizeof(*flat));
    for (size_t i = 0; i < p->n; i++) {
        const struct tr_adapter *a = &p->adapters[i];
        double bound = 1 / sqrt((double)a->in);
        uint64_t key = tr_mix64(seed ^ tr_mix64(a->id));
        for (int64_t k = 0; k < a->r * a->in; k++) {
            double u = (double)(tr_mix64(key ^ (uint64_t)k) >> 11) * 0x1p-53; /* [0, 1) */
            flat[a->a_at + k] = (float)(bound * (2 * u - 1));
        }
    }
}

static enum fr_rc gather_work(struct tr_optim *o, struct fr_err *err)
{
    struct tr_view mine = slice_of(o, o->params.work);
    struct tr_gather_item item = {o->params.work.p, mine.p, tr_view_bytes(mine)};
    struct tr_allgather x = {&item, 1, "adapters"};

    return tr_comm_all_gather(o->comm, o->q, &x, err);
}

enum fr_rc optim_round_adapters(struct tr_optim *o, struct fr_err *err)
{
    struct tr_cast round = {.y = slice_of(o, o->params.work), .x = o->master};
    enum fr_rc rc = o->n > 0 ? tr_cast(o->be, o->q, &round, err) : FR_OK;

    return rc == FR_OK && o->n > 0 ? gather_work(o, err) : rc;
}

enum fr_rc tr_optim_set(struct tr_optim *o, const float *flat, struct fr_err *err)
{
    struct tr_view whole = tr_view1(o->spread.p, TR_F32, o->params.padded);
    struct tr_cast round = {.y = o->params.work, .x = whole};
    struct tr_cast widen = {.y = o->master, .x = slice_of(o, o->params.work)};
    enum fr_rc rc = tr_copy(o->be, o->q, whole.p, flat, tr_view_bytes(whole));

    if (rc == FR_OK)
        rc = tr_cast(o->be, o->q, &round, err);
    if (rc == FR_OK)
        rc = tr_cast(o->be, o->q, &widen, err);
    return rc == FR_OK ? tr_sync(o->be, o->q, err) : rc;
}

/* Nothing is found so far. */
static enum fr_rc forget_found(struct tr_optim *o, struct fr_err *err)
{
    if (tr_zero(o->be, o->q, o->found.p, tr_view_bytes(o->found)) == FR_OK &&
        tr_zero(o->be, o->q, o->sumsq.p, tr_view_bytes(o->sumsq)) == FR_OK)
        return FR_OK;
    return fr_fail(err, FR_IO, "cannot clear the sum of squares");
}

enum fr_rc tr_optim_zero_grad(struct tr_optim *o, struct fr_err *err)
{
    if (o->grads != NULL)
        tr_grads_reset(o->grads);
    if (tr_zero(o->be, o->q, o->params.grad.p, tr_view_bytes(o->params.grad)) != FR_OK)
        return fr_fail(err, FR_IO, "cannot clear the gradients");
    return forget_found(o, err);
}

/* Looks at the gradients of adapters, and at sums that were not looked at when they became whole,
 * or at all. */
static enum fr_rc look_at(struct tr_optim *o, bool again, struct fr_err *err)
{
    struct tr_sumsq sq = {.out = o->sumsq, .x = o->grad, .found = o->found};
    struct tr_grads_look l = {o->be, o->q, o->sumsq, o->found};
    enum fr_rc rc = o->n > 0 ? tr_sumsq(o->be, o->q, &sq, err) : FR_OK;

    if (rc == FR_OK && o->grads != NULL && o->host.be == NULL)
        rc = tr_grads_look(o->grads, &l, again, err);
    return rc;
}

/* Adds what all ranks found; the sum of squares has the same bits for every number of ranks. */
static enum fr_rc add_up(struct tr_optim *o, struct optim_found *mine, struct fr_err *err)
{
    struct optim_found *all = fr_sys.alloc((size_t)o->world->size * sizeof(*all));
    enum fr_rc rc = all != NULL ? tr_comm_host_all_gather(o->world, all, mine, sizeof(*mine), err)
                                : fr_fail(err, FR_NOMEM, "sums of %d ranks", o->world->size);

    *mine = (struct optim_found){0};
    for (int k = 0; k < o->world->size && rc == FR_OK; k++) {
        mine->count += all[k].count;
        for (int i = 0; i < TR_EXACT_LIMBS; i++)
            mine->limbs[i] += all[k].limbs[i];
    }
    tr_exact_carry(mine->limbs);
    fr_sys.free(all);
    return rc;
}

/* Sum of squares and number of non-finite gradients, over all ranks. again: sums were changed since
 * they were looked at. */
static enum fr_rc look_at_gradients(struct tr_optim *o, bool again, double *sumsq, int64_t *found,
                                    struct fr_err *err)
{
    struct optim_found l = {0};
    enum fr_rc rc = again ? forget_found(o, err) : FR_OK;

    if (rc == FR_OK)
        rc = look_at(o, again, err);
    if (rc == FR_OK)
        rc = tr_copy(o->be, o->q, &l.count, o->found.p, sizeof(l.count));
    if (rc == FR_OK)
        rc = tr_copy(o->be, o->q, l.limbs, o->sumsq.p, sizeof(l.limbs));
    if (rc == FR_OK)
        rc = tr_sync(o->be, o->q, err);
    if (rc == FR_OK && o->host.be != NULL)
        rc = optim_host_look(o, again, &l, err);
    if (rc == FR_OK)
        rc = add_up(o, &l, err);
    *sumsq = tr_exact_value(l.limbs);
    *found = l.count;
    return rc;
}

/* Updates the elements [from, to) of the flat order that lie in this rank's slice. */
static enum fr_rc update_range(struct tr_optim *o, const struct tr_adamw *a, int64_t from,
                               int64_t to, struct fr_err *err)
{
    int64_t first = (int64_t)o->comm->rank * o->n, begin = from > first ? from : first;
    int64_t end = to < first + o->n ? to : first + o->n, n = end - begin;
    struct tr_adamw part = *a;

    if (n <= 0)
        return FR_OK;
    part.p = optim_part(a->p, begin - first, n);
    part.m = optim_part(a->m, begin - first, n);
    part.v = optim_part(a->v, begin - first, n);
    part.g = optim_part(a->g, begin - first, n);
    part.copy = optim_part(a->copy, begin - first, n);
    return tr_adamw(o->be, o->q, &part, err);
}

/* Updates A with the rate a->lr, B with b_ratio times that rate. */
static enum fr_rc update_halves(struct tr_optim *o, const struct tr_adamw *a, struct fr_err *err)
{
    struct tr_adamw b = *a;
    enum fr_rc rc = FR_OK;

    b.lr = (float)((double)a->lr * o->b_ratio);
    for (size_t i = 0; i < o->params.n && rc == FR_OK; i++) {
        const struct tr_adapter *x = &o->params.adapters[i];

        rc = update_range(o, a, x->a_at, x->a_at + x->r * x->in, err);
        if (rc == FR_OK)
            rc = update_range(o, &b, x->b_at, x->b_at + x->r * x->out, err);
    }
    return rc;
}

/* Whether a name has this word between dots or at an end. */
static bool has_word(const char *name, const char *word)
{
    size_t n = strlen(word);

    for (const char *p = strstr(name, word); p != NULL; p = strstr(p + 1, word))
        if (p[n] == '.' || p[n] == '\0')
            return true;
    return false;
}

bool tr_optim_decays(const char *name)
{
    return strstr(name, "bias") == NULL && strstr(name, "layernorm") == NULL &&
           strstr(name, "rmsnorm") == NULL && !has_word(name, ".norm") &&
           !has_word(name, "_norm") && strncmp(name, "norm.", 5) != 0;
}

static bool decays(const struct tr_optim *o, const char *name)
{
    if (o->room != NULL)
        return true;
    return o->b_ratio > 0 ? strstr(name, "bias") == NULL : tr_optim_decays(name);
}

struct tr_adamw optim_update(const struct tr_optim *o, const struct tr_adamw *a,
                             const struct optim_piece *p)
{
    struct tr_adamw x = *a;

    x.p = optim_state(o, TR_OPTIM_MASTER, p);
    x.m = optim_state(o, TR_OPTIM_M, p);
    x.v = optim_state(o, TR_OPTIM_V, p);
    x.m_max = optim_state(o, TR_OPTIM_M_MAX, p);
    x.v_max = optim_state(o, TR_OPTIM_V_MAX, p);
    x.g = optim_part(tr_grads_sums(o->grads), p->at, p->n);
    x.wd = decays(o, p->r->name) ? a->wd : 0;
    if (o->b_ratio > 0 && p->r->rank == 1)
        x.lr = (float)((double)a->lr * o->b_ratio);
    x.device_bits = !o->be->memory->is_host;
    return x;
}

static enum fr_rc update_weights(struct tr_optim *o, const struct tr_adamw *a, struct fr_err *err)
{
    const struct tr_grads_range *r;
    enum fr_rc rc = FR_OK;
    size_t n;

    r = tr_grads_ranges(o->grads, &n);
    for (size_t i = 0; i < n && rc == FR_OK; i++) {
        const struct optim_piece all = {&r[i], r[i].at, r[i].n};

        if (o->places[i].matrix)
            continue;
        struct tr_adamw x = optim_update(o, a, &all);

        x.copy = o->weights.are_masters ? (struct tr_view){0} : r[i].weight;
        rc = tr_adamw(o->be, o->q, &x, err);
    }
    return rc;
}

enum fr_rc optim_agree(struct tr_optim *o, enum fr_rc mine, struct fr_err *err)
{
    struct fr_err first, own = {0};
    enum fr_rc rc;

    if (mine != FR_OK) {
        own = *err;
        (void)fr_while(&own, "rank %d", o->world->rank);
    }
    rc = tr_comm_host_first_error(o->world, &own, &first, err);
    return rc != FR_OK || first.rc == FR_OK ? rc : fr_fail(err, first.rc, "%s", first.msg);
}

/* Names a tensor whose gradient is not finite: of those that ranks name, the model's last. */
static enum fr_rc blame(struct tr_optim *o, struct tr_optim_result *out, struct fr_err *err)
{
    struct optim_found count = {0};
    struct tr_grads_look device = {o->be, o->q, o->sumsq, o->found};
    struct tr_grads_look l = o->host.be != NULL ? optim_host_looks(o, &count) : device;
    struct tr_grads_blame mine, *all = fr_sys.alloc((size_t)o->world->size * sizeof(*all));
    int unit = -1;
    enum fr_rc rc = all != NULL ? tr_grads_blame(o->grads, &l, &mine, err)
                                : fr_fail(err, FR_NOMEM, "names of %d ranks", o->world->size);

    if (rc == FR_OK)
        rc = tr_comm_host_all_gather(o->world, all, &mine, sizeof(mine), err);
    for (int k = 0; k < o->world->size && rc == FR_OK; k++) {
        if (all[k].name[0] == '\0' || (out->where[0] != '\0' && all[k].unit <= unit))
            continue;
        unit = all[k].unit;
        memcpy(out->where, all[k].name, sizeof(out->where));
    }
    fr_sys.free(all);
    return rc;
}

/* The norm of gradients that are finite, before clipping; with Muon's norm_after of its updates,
 * which are in their places then. */
static enum fr_rc measure(struct tr_optim *o, double scale, struct tr_optim_result *out,
                          struct fr_err *err)
{
    double sumsq = 0;
    int64_t found = 0;
    enum fr_rc rc = look_at_gradients(o, false, &sumsq, &found, err);

    if (rc == FR_OK && found == 0 && o->room != NULL && o->muon.norm_after) {
        rc = optim_muon_updates(o, 1 / scale, scale, err);
        if (rc == FR_OK)
            rc = look_at_gradients(o, true, &sumsq, &found, err);
    }
    out->grad_norm = found > 0 ? NAN : sqrt(sumsq) / scale;
    out->skipped = found > 0;
    return rc == FR_OK && found > 0 && o->grads != NULL ? blame(o, out, err) : rc;
}

enum fr_rc tr_optim_step(struct tr_optim *o, double lr, double scale, struct tr_optim_result *out,
                         struct fr_err *err)
{
    struct tr_reduce_scatter rs = {
        .out = o->grad,
        .in = tr_view2(o->params.grad.p, TR_F32, o->comm->size, o->n),
        .slices = o->spread,
        .what = "gradients of adapters",
    };
    enum fr_rc rc = o->n > 0 ? tr_comm_reduce_scatter(o->comm, o->q, &rs, err) : FR_OK;

    *out = (struct tr_optim_result){0};
    if (rc == FR_OK)
        rc = measure(o, scale, out, err);
    if (rc != FR_OK || out->skipped)
        return rc;
    double over = o->clip > 0 ? (out->grad_norm + 1e-6) / o->clip : 1;
    o->steps++;
    struct tr_adamw a = {
        .p = o->master,
        .m = o->m,
        .v = o->v,
        .g = o->grad,
        .copy = slice_of(o, o->params.work),
        .lr = (float)lr,
        .wd = (float)o->weight_decay,
        .step = o->steps,
        .scale = (float)(1 / (scale * (over > 1 ? over : 1))),
        .b1 = o->beta1,
        .b2 = o->beta2,
        .eps = o->eps,
    };
    if (o->room != NULL)
        rc = optim_muon_step(o, lr, &a, err);
    if (rc == FR_OK && o->grads != NULL)
        rc = o->host.be != NULL ? optim_host_update(o, &a, err) : update_weights(o, &a, err);
    if (o->host.disk != NULL)
        rc = optim_agree(o, rc, err);
    if (rc == FR_OK && o->grads != NULL)
        rc = tr_grads_updated(o->grads, o->q, err);
    if (rc != FR_OK || o->n == 0)
        return rc;
    rc = o->b_ratio > 0 ? update_halves(o, &a, err) : tr_adamw(o->be, o->q, &a, err);
    return rc == FR_OK ? gather_work(o, err) : rc;
}

static struct tr_view state_of(const struct tr_optim *o, enum tr_optim_what what)
{
    return what == TR_OPTIM_MASTER ? o->master : what == TR_OPTIM_M ? o->m : o->v;
}

enum fr_rc tr_optim_whole(struct tr_optim *o, enum tr_optim_what what, float *flat,
                          struct fr_err *err)
{
    struct tr_view mine = state_of(o, what);
    struct tr_gather_item item = {o->spread.p, mine.p, tr_view_bytes(mine)};
    struct tr_allgather x = {&item, 1, "optimizer state"};
    enum fr_rc rc = tr_comm_all_gather(o->comm, o->q, &x, err);

    if (rc == FR_OK)
        rc = tr_copy(o->be, o->q, flat, o->spread.p, (size_t)o->params.padded * sizeof(float));
    return rc == FR_OK ? tr_sync(o->be, o->q, err) : rc;
}

enum fr_rc tr_optim_load(struct tr_optim *o, enum tr_optim_what what, const float *flat,
                         struct fr_err *err)
{
    struct tr_view mine = state_of(o, what);
    enum fr_rc rc =
        tr_copy(o->be, o->q, mine.p, flat + (int64_t)o->comm->rank * o->n, tr_view_bytes(mine));

    if (rc == FR_OK && what == TR_OPTIM_MASTER)
        rc = optim_round_adapters(o, err);
    return rc == FR_OK ? tr_sync(o->be, o->q, err) : rc;
}

/* The state may be gigabytes: the data plane forwards it round the ring. */
enum fr_rc tr_optim_share(struct tr_optim *o, int root_rank, float *flat, struct fr_err *err)
{
    size_t bytes = (size_t)o->params.padded * sizeof(float);
    struct tr_broadcast b = {
        .p = o->spread.p, .bytes = bytes, .root = root_rank, .what = "state of the adapters"};
    enum fr_rc rc = FR_OK;

    if (o->comm->rank == root_rank)
        rc = tr_copy(o->be, o->q, b.p, flat, bytes);
    if (rc == FR_OK)
        rc = tr_comm_broadcast(o->comm, o->q, &b, err);
    if (rc == FR_OK)
        rc = tr_copy(o->be, o->q, flat, b.p, bytes);
    return rc == FR_OK ? tr_sync(o->be, o->q, err) : rc;
}
