#include "trainer/comm/collective_check.h"

#include "engine/base/sys.h"

#include <string.h>

/* The state of one rank. */
struct said {
    bool here;
    struct tr_announced_call call;
    size_t *slices; /* owns: 2 * call.size; NULL: equal slices */
    const char *elsewhere;
};

struct tr_collective_check {
    int n;
    struct said *said; /* owns: n */
};

enum fr_rc tr_collective_check_create(int ranks, struct tr_collective_check **out,
                                      struct fr_err *err)
{
    struct tr_collective_check *v = fr_sys.alloc(sizeof(*v));
    struct said *said = fr_sys.alloc((size_t)ranks * sizeof(*said));

    *out = NULL;
    if (v == NULL || said == NULL) {
        fr_sys.free(v);
        fr_sys.free(said);
        return fr_fail(err, FR_NOMEM, "no memory to compare collectives");
    }
    memset(said, 0, (size_t)ranks * sizeof(*said));
    *v = (struct tr_collective_check){ranks, said};
    *out = v;
    return FR_OK;
}

static void forget(struct said *s)
{
    fr_sys.free(s->slices);
    s->slices = NULL;
    s->here = false;
}

void tr_collective_check_destroy(struct tr_collective_check *v)
{
    if (v == NULL)
        return;
    for (int r = 0; r < v->n; r++)
        forget(&v->said[r]);
    fr_sys.free(v->said);
    fr_sys.free(v);
}

enum fr_rc tr_collective_check_announce(struct tr_collective_check *v, int rank, struct fr_str body,
                                        struct fr_err *err)
{
    struct said *s = &v->said[rank];
    struct tr_announced_call call;
    size_t bytes;

    if (s->here || body.n < sizeof(call))
        return fr_fail(err, FR_PROTO, "rank %d says its next collective wrongly", rank);
    memcpy(&call, body.p, sizeof(call));
    call.what[sizeof(call.what) - 1] = '\0';
    bytes = call.slices != 0 ? 2 * (size_t)call.size * sizeof(size_t) : 0;
    if (call.size < 1 || call.size > v->n || call.first < 0 || call.first > rank ||
        body.n != sizeof(call) + bytes)
        return fr_fail(err, FR_PROTO, "rank %d says its next collective wrongly", rank);
    if (bytes > 0 && (s->slices = fr_sys.alloc(bytes)) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory to compare collectives");
    if (bytes > 0)
        memcpy(s->slices, body.p + sizeof(call), bytes);
    s->call = call;
    s->here = true;
    return FR_OK;
}

void tr_collective_check_elsewhere(struct tr_collective_check *v, int rank, const char *what)
{
    v->said[rank].elsewhere = what;
}

/* Whether both ranks have announced calls of the same communicator. */
static bool together(const struct said *a, const struct said *b)
{
    return a->here && b->here && a->call.comm == b->call.comm && a->call.first == b->call.first;
}

/* The first rank from `from` on with an announced call of rank r's communicator; n: none. */
static int member(const struct tr_collective_check *v, int r, int from)
{
    while (from < v->n && !together(&v->said[r], &v->said[from]))
        from++;
    return from;
}

/* Whether r is the first rank of a communicator whose ranks have all announced a call. */
static bool complete(const struct tr_collective_check *v, int r)
{
    int n = 0;

    if (!v->said[r].here || v->said[r].call.first != r)
        return false;
    for (int k = member(v, r, 0); k < v->n; k = member(v, r, k + 1))
        n++;
    return n == v->said[r].call.size;
}

static bool same_call(const struct said *a, const struct said *b)
{
    return a->call.hash == b->call.hash && a->call.size == b->call.size &&
           (a->slices == NULL) == (b->slices == NULL);
}

/* Compares slices within r's communicator; the error names the first two ranks that differ. */
static enum fr_rc compare_slices(const struct tr_collective_check *v, int r, struct fr_err *err)
{
    int size = v->said[r].call.size, from = member(v, r, 0);

    for (int i = 0; i < size; i++, from = member(v, r, from + 1)) {
        int to = member(v, r, 0);

        for (int k = 0; k < size; k++, to = member(v, r, to + 1)) {
            size_t sends = v->said[from].slices[k], takes = v->said[to].slices[size + i];

            if (sends != takes)
                return fr_fail(err, FR_PROTO,
                               "%s: rank %d sends %zu bytes to rank %d, which takes %zu",
                               v->said[r].call.what, from, sends, to, takes);
        }
    }
    return FR_OK;
}

/* FR_OK if all ranks of r's communicator, which is complete, have announced the same call. */
static enum fr_rc agree(const struct tr_collective_check *v, int r, struct fr_err *err)
{
    const struct said *s = &v->said[r];

    for (int k = member(v, r, 0); k < v->n; k = member(v, r, k + 1))
        if (!same_call(s, &v->said[k]))
            return fr_fail(err, FR_PROTO, "ranks differ: rank %d calls %s, rank %d %s", r,
                           s->call.what, k, v->said[k].call.what);
    return s->slices != NULL ? compare_slices(v, r, err) : FR_OK;
}

void tr_collective_check_release(struct tr_collective_check *v, bool *go)
{
    memset(go, 0, (size_t)v->n * sizeof(*go));
    for (int r = 0; r < v->n; r++) {
        bool good = complete(v, r) && agree(v, r, NULL) == FR_OK;

        for (int k = r; good && k < v->n; k = member(v, r, k + 1))
            go[k] = true;
    }
    for (int r = 0; r < v->n; r++)
        if (go[r])
            forget(&v->said[r]);
}

static const char *place_of(const struct said *s)
{
    return s->here ? s->call.what : s->elsewhere;
}

/* A deadlock: names rank 0 and a rank that waits in another call. */
static enum fr_rc stuck(const struct tr_collective_check *v, struct fr_err *err)
{
    const struct said *a = &v->said[0];
    int k = 1;

    while (k + 1 < v->n && a->here && v->said[k].here && a->call.comm == v->said[k].call.comm)
        k++;
    return fr_fail(err, FR_PROTO, "ranks differ: rank 0 calls %s, rank %d %s: none can go on",
                   place_of(a), k, place_of(&v->said[k]));
}

enum fr_rc tr_collective_check_judge(const struct tr_collective_check *v, struct fr_err *err)
{
    int waiting = 0, said = 0;
    enum fr_rc rc = FR_OK;

    for (int r = 0; r < v->n && rc == FR_OK; r++) {
        said += v->said[r].here;
        waiting += v->said[r].here || v->said[r].elsewhere != NULL;
        if (complete(v, r))
            rc = agree(v, r, err);
    }
    return rc == FR_OK && said > 0 && waiting == v->n ? stuck(v, err) : rc;
}
