/* Matrices that Muon updates: in which order, on which rank, and what that takes. */
#include "engine/base/sys.h"
#include "trainer/optim/newton.h"
#include "trainer/optim/optim_private.h"

#include <stdlib.h>
#include <string.h>

enum { WORDS = 64 /* elements: pieces begin at multiples of so many */, SHAPES = 16 };

bool tr_muon_takes(const char *name, int rank)
{
    return rank == 2 && strstr(name, "embed") == NULL && strstr(name, "lm_head") == NULL;
}

static int larger_first(const void *a, const void *b)
{
    const struct tr_grads_piece *x = *(const struct tr_grads_piece *const *)a;
    const struct tr_grads_piece *y = *(const struct tr_grads_piece *const *)b;

    if (x->n != y->n)
        return x->n > y->n ? -1 : 1;
    return x < y ? -1 : x > y; /* neighbours of one array */
}

size_t optim_list_matrices(const struct tr_grads *g, const struct tr_grads_piece **list)
{
    size_t n, count = 0;
    const struct tr_grads_piece *p = tr_grads_pieces(g, &n);

    for (size_t i = 0; i < n; i++)
        if (tr_muon_takes(p[i].name, p[i].rank)) {
            if (list != NULL)
                list[count] = &p[i];
            count++;
        }
    if (list != NULL && count > 0)
        qsort(list, count, sizeof(*list), larger_first);
    return count;
}

/* ---- memory ---- */

static int64_t round_up(int64_t n)
{
    return tr_div_up(n, WORDS) * WORDS;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

struct optim_matrices optim_matrices(const struct tr_grads *g)
{
    bool hosted = tr_grads_host(g)->be != NULL;
    struct optim_matrices s = {0};
    size_t n;
    const struct tr_grads_piece *p = tr_grads_pieces(g, &n);

    for (size_t i = 0; i < n; i++) {
        int64_t least = p[i].shape[0] < p[i].shape[1] ? p[i].shape[0] : p[i].shape[1];
        struct tr_grads_span mine = tr_grads_span(g, &p[i], tr_grads_rank(g));

        if (!tr_muon_takes(p[i].name, p[i].rank))
            continue;
        s.whole = most(s.whole, round_up(p[i].n));
        s.square = most(s.square, round_up(least * least));
        s.state = hosted ? most(s.state, round_up(mine.n)) : 0;
    }
    s.stage = s.state * (hosted ? tr_grads_ranks(g) : 0);
    return s;
}

size_t optim_muon_bytes(const struct tr_grads *g)
{
    struct optim_matrices s = optim_matrices(g);

    return (size_t)(s.whole + s.stage + s.state) * sizeof(float) +
           (size_t)(2 * s.whole + TR_NEWTON_SQUARES * s.square) * sizeof(uint16_t);
}

/* Whether a shape is new; the first SHAPES of them are known again. */
static bool is_new(int64_t known[SHAPES][2], size_t *n, const int64_t shape[2])
{
    for (size_t k = 0; k < *n; k++)
        if (known[k][0] == shape[0] && known[k][1] == shape[1])
            return false;
    if (*n < SHAPES)
        memcpy(known[(*n)++], shape, sizeof(known[0]));
    return true;
}

size_t optim_muon_scratch(const struct tr_model *model)
{
    const struct tr_scratch *has = tr_model_scratch(model);
    struct tr_scratch all = *has;
    int64_t known[SHAPES][2];
    size_t n, shapes = 0;
    const struct tr_grads_piece *p = tr_grads_pieces(tr_model_grads(model), &n);

    for (size_t i = 0; i < n; i++)
        if (tr_muon_takes(p[i].name, p[i].rank) && is_new(known, &shapes, p[i].shape))
            tr_newton_scratch(tr_model_backend(model), p[i].shape, &all);
    return all.op - has->op + all.product - has->product;
}

/* ---- ways ---- */

/* What each rank and node has of the moves. */
struct tallies {
    const int *node_of;   /* NULL: all are on one node */
    double *near, *flops; /* of each rank */
    double *out;          /* of each node */
};

static int node_of(const struct tallies *t, int rank)
{
    return t->node_of != NULL ? t->node_of[rank] : 0;
}

/* The shares of a matrix, to its owner and back. */
static void move(const struct tr_grads *g, const struct tr_grads_piece *p, int owner,
                 const struct tallies *t, struct tr_muon_moves *m)
{
    int to = node_of(t, owner), ranks = tr_grads_ranks(g);

    for (int k = tr_grads_first(g, p); k < ranks; k++) {
        double bytes = (double)tr_grads_span(g, p, k).n * sizeof(float);
        int from = node_of(t, k);

        if (bytes <= 0)
            break;
        if (k == owner) {
            m->self += 2 * bytes;
        } else if (from == to) {
            m->node += 2 * bytes;
            t->near[k] += bytes;
            t->near[owner] += bytes;
        } else {
            m->far += 2 * bytes;
            t->out[from] += bytes;
            t->out[to] += bytes;
        }
    }
}

static double largest(const double *x, int n)
{
    double most = 0;

    for (int i = 0; i < n; i++)
        most = x[i] > most ? x[i] : most;
    return most;
}

enum fr_rc tr_muon_moves(const struct tr_grads *g, const struct tr_comm *comm, bool gram,
                         struct tr_muon_moves *out, struct fr_err *err)
{
    size_t n = optim_list_matrices(g, NULL), ranks = (size_t)tr_grads_ranks(g);
    const struct tr_grads_piece **list = fr_sys.alloc((n + 1) * sizeof(*list));
    double *sums = fr_sys.alloc(3 * ranks * sizeof(*sums));
    struct tallies t = {comm->node_of, sums, sums + ranks, sums + 2 * ranks};

    *out = (struct tr_muon_moves){0};
    if (list != NULL && sums != NULL) {
        memset(sums, 0, 3 * ranks * sizeof(*sums));
        (void)optim_list_matrices(g, list);
        for (size_t i = 0; i < n; i++) {
            move(g, list[i], (int)(i % ranks), &t, out);
            t.flops[i % ranks] +=
                tr_newton_flops((double)list[i]->shape[0], (double)list[i]->shape[1], gram);
        }
        out->rank_near = largest(t.near, (int)ranks);
        out->node_far = largest(t.out, comm->nodes);
        out->rank_flops = largest(t.flops, (int)ranks);
    }
    fr_sys.free(list);
    fr_sys.free(sums);
    return list != NULL && sums != NULL
               ? FR_OK
               : fr_fail(err, FR_NOMEM, "ways of %zu matrices of %zu ranks", n, ranks);
}
