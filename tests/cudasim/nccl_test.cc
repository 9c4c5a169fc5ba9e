/*
 * The NCCL transport between processes, each with a simulated device: what arrives where, the same
 * sums as in rank order, the end of a rank, a rank that is late, an environment that is refused.
 */
#include "trainer/backend/cuda/cuda.h"
#include "trainer/backend/module.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C" {
#include "engine/base/file.h"
#include "tests/unit/check.h"
#include "trainer/comm/comm.h"
#include "trainer/comm/join.h"
#include "trainer/comm/nccl_env.h"
}

enum { RANKS = 3, N = 24 };

struct world {
    const char *library;
    int port, device;
    int64_t timeout_ms;
    bool check;
    enum { NCCL, THROUGH_HOST, CPU } transport;
};

struct rank {
    struct tr_comm *comm;
    struct tr_backend *be;
    struct tr_queue *q;
};

/* What a rank does; its exit status is the number of wrong things. */
typedef int body_fn(const struct rank *r);

static float value(int from, int to, int i)
{
    return (float)((from * 31 + to * 7 + i) % 64) / 8;
}

static struct tr_view view2(void *p, enum tr_dtype t, int64_t rows, int64_t cols)
{
    return tr_view2(p, t, rows, cols);
}

/* Memory of n floats that the device and the host see. */
static float *floats(const struct rank *r, size_t n)
{
    void *p = NULL;

    return tr_mem_alloc(r->be, TR_MEM_PINNED, n * sizeof(float), &p, NULL) == FR_OK
               ? static_cast<float *>(p)
               : NULL;
}

static int settled(const struct rank *r, enum fr_rc rc, const struct fr_err *err)
{
    struct fr_err late = {};

    if (rc == FR_OK && tr_sync(r->be, r->q, &late) == FR_OK)
        return 0;
    printf("rank %d: %s\n", r->comm->rank, rc != FR_OK ? err->msg : late.msg);
    return 1;
}

static int gather(const struct rank *r)
{
    int me = r->comm->rank, bad = 0;
    float *a = floats(r, RANKS * N), *b = floats(r, RANKS), *mine = floats(r, 1);
    struct tr_gather_item items[] = {{a, a + me * N, N * sizeof(float)}, {b, mine, sizeof(float)}};
    struct tr_allgather x = {items, 2, "two things"};
    struct fr_err err = {};

    for (int i = 0; i < N; i++)
        a[me * N + i] = value(me, 0, i);
    *mine = (float)me;
    bad += settled(r, tr_comm_all_gather(r->comm, r->q, &x, &err), &err);
    for (int k = 0; k < RANKS; k++) {
        bad += b[k] != (float)k;
        for (int i = 0; i < N; i++)
            bad += a[k * N + i] != value(k, 0, i);
    }
    tr_mem_free(r->be, TR_MEM_PINNED, a);
    tr_mem_free(r->be, TR_MEM_PINNED, b);
    tr_mem_free(r->be, TR_MEM_PINNED, mine);
    return bad;
}

/* Rank `from` sends rank `to` from*to floats: nothing at all to and from rank 0. */
static int exchange(const struct rank *r)
{
    int me = r->comm->rank, bad = 0;
    float *in = floats(r, RANKS * N), *out = floats(r, RANKS * N);
    size_t at[RANKS], bytes[RANKS];
    struct tr_alltoallv x = {out, in, at, bytes, at, bytes, "rows"};
    struct fr_err err = {};

    for (int k = 0; k < RANKS; k++) {
        at[k] = (size_t)k * N * sizeof(float);
        bytes[k] = (size_t)(me * k) * sizeof(float);
        for (int i = 0; i < N; i++)
            in[k * N + i] = value(me, k, i);
    }
    bad += settled(r, tr_comm_all_to_allv(r->comm, r->q, &x, &err), &err);
    for (int k = 0; k < RANKS; k++)
        for (int i = 0; i < me * k; i++)
            bad += out[k * N + i] != value(k, me, i);
    tr_mem_free(r->be, TR_MEM_PINNED, in);
    tr_mem_free(r->be, TR_MEM_PINNED, out);
    return bad;
}

static int reduce(const struct rank *r)
{
    int me = r->comm->rank, bad = 0;
    float *in = floats(r, RANKS * N), *slices = floats(r, RANKS * N), *out = floats(r, N);
    struct tr_reduce_scatter x = {tr_view1(out, TR_F32, N), view2(in, TR_F32, RANKS, N),
                                  view2(slices, TR_F32, RANKS, N), false, "gradients"};
    struct fr_err err = {};

    for (int k = 0; k < RANKS; k++)
        for (int i = 0; i < N; i++)
            in[k * N + i] = value(me, k, i) / 3;
    bad += settled(r, tr_comm_reduce_scatter(r->comm, r->q, &x, &err), &err);
    for (int i = 0; i < N; i++) {
        float sum = 0;

        for (int k = 0; k < RANKS; k++)
            sum += value(k, me, i) / 3;
        bad += out[i] != sum;
    }
    tr_mem_free(r->be, TR_MEM_PINNED, in);
    tr_mem_free(r->be, TR_MEM_PINNED, slices);
    tr_mem_free(r->be, TR_MEM_PINNED, out);
    return bad;
}

/* Everywhere the sum in the order of the ranks of c, whose numbers in the world are `of`; another
 * order has other bits. */
static int reduce_all(const struct rank *r, struct tr_comm *c, const int *of)
{
    int bad = 0;
    size_t n = (size_t)c->size * N;
    float *p = floats(r, n), *slices = floats(r, n);
    struct tr_all_reduce x = {view2(p, TR_F32, c->size, N), view2(slices, TR_F32, c->size, N),
                              "norms"};
    struct fr_err err = {};

    for (size_t i = 0; i < n; i++)
        p[i] = value(of[c->rank], 3, (int)i) / 3;
    bad += settled(r, tr_comm_all_reduce(c, r->q, &x, &err), &err);
    for (size_t i = 0; i < n; i++) {
        float sum = 0;

        for (int k = 0; k < c->size; k++)
            sum += value(of[k], 3, (int)i) / 3;
        bad += p[i] != sum;
    }
    x.p.dtype = TR_BF16;
    bad += tr_comm_all_reduce(c, r->q, &x, NULL) != FR_DTYPE;
    x = {view2(p, TR_F32, 1, c->size * N), view2(slices, TR_F32, 1, N / 2), "norms"};
    bad += tr_comm_all_reduce(c, r->q, &x, NULL) != FR_SHAPE;
    tr_mem_free(r->be, TR_MEM_PINNED, p);
    tr_mem_free(r->be, TR_MEM_PINNED, slices);
    return bad;
}

static int broadcast(const struct rank *r, int root)
{
    int bad = 0;
    float *p = floats(r, N);
    struct tr_broadcast x = {p, N * sizeof(float), root, "weights"};
    struct fr_err err = {};

    for (int i = 0; i < N; i++)
        p[i] = r->comm->rank == root ? value(root, 1, i) : 0;
    bad += settled(r, tr_comm_broadcast(r->comm, r->q, &x, &err), &err);
    for (int i = 0; i < N; i++)
        bad += p[i] != value(root, 1, i);
    tr_mem_free(r->be, TR_MEM_PINNED, p);
    return bad;
}

static int all_calls(const struct rank *r)
{
    static const int world[] = {0, 1, 2};
    int bad = 0;
    double sum = r->comm->rank + 1;

    for (int round = 0; round < 3; round++)
        bad += gather(r) + exchange(r) + reduce(r) + reduce_all(r, r->comm, world) +
               broadcast(r, round);
    bad += tr_comm_host_sum(r->comm, &sum, 1, NULL) != FR_OK || sum != 6;
    return bad;
}

/* More than goes through the host at once: LARGE floats are not a whole number of pieces. */
static int large(const struct rank *r)
{
    enum { LARGE = 300001 };
    int me = r->comm->rank, bad = 0;
    float *in = floats(r, RANKS * LARGE), *out = floats(r, RANKS * LARGE);
    size_t at[RANKS], bytes[RANKS];
    struct tr_gather_item item = {out, in, LARGE * sizeof(float)};
    struct tr_allgather g = {&item, 1, "large"};
    struct tr_alltoall a = {out, in, LARGE * sizeof(float), "large"};
    struct tr_alltoallv v = {out, in, at, bytes, at, bytes, "large"};
    struct tr_broadcast b = {in, LARGE * sizeof(float), 2, "large"};
    struct fr_err err = {};

    for (int k = 0; k < RANKS; k++) {
        at[k] = (size_t)k * LARGE * sizeof(float);
        bytes[k] = (size_t)(me + k) * 75000 * sizeof(float);
        for (int i = 0; i < LARGE; i++)
            in[k * LARGE + i] = value(me, k, i);
    }
    bad += settled(r, tr_comm_all_gather(r->comm, r->q, &g, &err), &err);
    for (int k = 0; k < RANKS; k++)
        for (int i = 0; i < LARGE; i++)
            bad += out[k * LARGE + i] != value(k, 0, i);
    bad += settled(r, tr_comm_all_to_all(r->comm, r->q, &a, &err), &err);
    for (int k = 0; k < RANKS; k++)
        for (int i = 0; i < LARGE; i++)
            bad += out[k * LARGE + i] != value(k, me, i);
    memset(out, 0, RANKS * LARGE * sizeof(float));
    bad += settled(r, tr_comm_all_to_allv(r->comm, r->q, &v, &err), &err);
    for (int k = 0; k < RANKS; k++)
        for (int i = 0; i < LARGE; i++)
            bad += out[k * LARGE + i] != (i < (me + k) * 75000 ? value(k, me, i) : 0);
    bad += settled(r, tr_comm_broadcast(r->comm, r->q, &b, &err), &err);
    for (int i = 0; i < LARGE; i++)
        bad += in[i] != value(2, 0, i);
    tr_mem_free(r->be, TR_MEM_PINNED, in);
    tr_mem_free(r->be, TR_MEM_PINNED, out);
    return bad != 0;
}

/* The calls of a group of `size` ranks whose numbers in the world are `of`. */
static int in_group(const struct rank *r, struct tr_comm *g, const int *of)
{
    int bad = 0, me = g->rank, size = g->size;
    float *in = floats(r, RANKS * N), *out = floats(r, RANKS * N);
    struct tr_gather_item item = {out, in, N * sizeof(float)};
    struct tr_allgather gather = {&item, 1, "of a group"};
    struct tr_alltoall slices = {out, in, N * sizeof(float), "of a group"};
    struct tr_broadcast b = {in, N * sizeof(float), size - 1, "of a group"};
    struct fr_err err = {};

    for (int k = 0; k < size * N; k++)
        in[k] = value(r->comm->rank, of[k / N], k % N);
    bad += settled(r, tr_comm_all_gather(g, r->q, &gather, &err), &err);
    for (int k = 0; k < size * N; k++)
        bad += out[k] != value(of[k / N], of[0], k % N);
    bad += settled(r, tr_comm_all_to_all(g, r->q, &slices, &err), &err);
    for (int k = 0; k < size * N; k++)
        bad += out[k] != value(of[k / N], of[me], k % N);
    bad += settled(r, tr_comm_broadcast(g, r->q, &b, &err), &err);
    for (int i = 0; i < N; i++)
        bad += in[i] != value(of[size - 1], of[0], i);
    bad += reduce_all(r, g, of);
    bad += tr_comm_host_barrier(g, NULL) != FR_UNSUPPORTED;
    tr_mem_free(r->be, TR_MEM_PINNED, in);
    tr_mem_free(r->be, TR_MEM_PINNED, out);
    return bad;
}

/* Ranks 0 and 2, rank 1 alone; both groups at once, between calls of the world. */
static int groups(const struct rank *r)
{
    static const int pair[] = {0, 2}, one[] = {1};
    int me = r->comm->rank, bad = 0;
    struct tr_comm *g = NULL;
    struct fr_err err = {};
    int64_t before;

    if (tr_comm_split(r->comm, me == 1, &g, &err) != FR_OK) {
        printf("rank %d: %s\n", me, err.msg);
        return 1;
    }
    bad += g->size != (me == 1 ? 1 : 2) || g->rank != (me == 2);
    before = r->comm->collectives;
    for (int round = 0; round < 2; round++)
        bad += in_group(r, g, me == 1 ? one : pair) + gather(r);
    bad += r->comm->collectives != before + 2 * (5 + 1);
    tr_comm_destroy(g);
    return bad + gather(r);
}

/* The error that a rank meets when it goes on with collectives. */
static struct fr_err fails(const struct rank *r)
{
    struct fr_err err = {};
    float *p = floats(r, N);
    struct tr_broadcast x = {p, N * sizeof(float), 1, "weights"};
    enum fr_rc rc = FR_OK;

    while (rc == FR_OK) {
        rc = tr_comm_broadcast(r->comm, r->q, &x, &err);
        if (rc == FR_OK)
            rc = tr_sync(r->be, r->q, &err);
    }
    tr_mem_free(r->be, TR_MEM_PINNED, p);
    return err;
}

static int dies(const struct rank *r)
{
    struct fr_err err;

    if (gather(r) != 0)
        return 1;
    (void)tr_comm_host_barrier(r->comm, NULL); /* behind it all have gathered */
    if (r->comm->rank == 1)
        _exit(7);
    err = fails(r);
    if (err.rc == FR_PEER && strstr(err.msg, "rank 1 (") != NULL)
        return 0;
    printf("rank %d: %s\n", r->comm->rank, err.msg);
    return 1;
}

static int late(const struct rank *r)
{
    struct fr_err err = {};

    if (gather(r) + exchange(r) != 0)
        return 1;
    if (r->comm->rank == 1)
        (void)tr_comm_host_barrier(r->comm, &err); /* the others never come */
    else
        err = fails(r);
    if (err.rc == FR_TIMEOUT && strstr(err.msg, "(--ddp_timeout); behind: rank 1 (") != NULL &&
        strstr(err.msg, "broadcast 'weights'") != NULL)
        return 0;
    printf("rank %d: %s\n", r->comm->rank, err.msg);
    return 1;
}

/* Rank 1 has counted otherwise: checking mode says so on all ranks, before anything is sent. */
static int miscounted(const struct rank *r)
{
    int me = r->comm->rank;
    float *p = floats(r, 2 * RANKS * N);
    size_t at[RANKS], sends[RANKS], takes[RANKS];
    struct tr_alltoallv x = {p + RANKS * N, p, at, takes, at, sends, "rows"};
    struct fr_err err = {};
    enum fr_rc rc;

    for (int k = 0; k < RANKS; k++) {
        at[k] = (size_t)k * N * sizeof(float);
        sends[k] = takes[k] = sizeof(float);
    }
    sends[2] += me == 1 ? sizeof(float) : 0;
    rc = tr_comm_all_to_allv(r->comm, r->q, &x, &err);
    tr_mem_free(r->be, TR_MEM_PINNED, p);
    return rc != FR_PROTO ||
           strstr(err.msg, "'rows': rank 1 sends 8 bytes to rank 2, which takes 4") == NULL;
}

static int differ(const struct rank *r)
{
    struct fr_err err = {};
    float *p = floats(r, N);
    struct tr_broadcast x = {p, N * sizeof(float), 0, r->comm->rank == 2 ? "others" : "weights"};
    enum fr_rc rc = tr_comm_broadcast(r->comm, r->q, &x, &err);

    tr_mem_free(r->be, TR_MEM_PINNED, p);
    return rc != FR_PROTO || strstr(err.msg, "ranks differ") == NULL;
}

/* Ranks 0 and 2 are a group: rank 2 calls another thing in it. Rank 1 hears of it where it is:
 * perhaps while it still leaves the split. */
static int group_differs(const struct rank *r)
{
    struct fr_err err = {};
    float *p = floats(r, N);
    struct tr_broadcast x = {p, N * sizeof(float), 0, r->comm->rank == 2 ? "others" : "experts"};
    struct tr_comm *g = NULL;
    enum fr_rc rc = tr_comm_split(r->comm, r->comm->rank == 1, &g, &err);
    bool told;

    if (rc == FR_OK)
        rc = tr_comm_broadcast(g, r->q, &x, &err);
    while (rc == FR_OK)
        rc = tr_comm_host_barrier(r->comm, &err);
    told =
        rc == FR_PROTO && strstr(err.msg, "ranks differ: rank 0 calls broadcast 'experts'") != NULL;
    if (!told)
        printf("rank %d: %s\n", r->comm->rank, err.msg);
    tr_comm_destroy(g);
    tr_mem_free(r->be, TR_MEM_PINNED, p);
    return !told;
}

static int run_rank(const struct world *w, int rank, body_fn *body)
{
    static decltype(tr_comm_nccl) *const create[] = {tr_comm_nccl, tr_comm_host, tr_comm_cpu};
    struct tr_comm_opts o = {};
    struct rank r = {};
    struct fr_err err;
    int bad = 99;

    o.rank = o.local_rank = rank;
    o.size = o.local_size = RANKS;
    o.nodes = 1;
    snprintf(o.addr, sizeof o.addr, "127.0.0.1");
    o.port = w->port;
    o.job = 9;
    o.join_ms = 60000;
    o.timeout_ms = w->timeout_ms;
    o.exit_code = 44;
    o.check = w->check;
    o.nccl = w->library;
    cudasim_device(90, 1);
    if (tr_cuda_open(TR_TABLE_BYTES, w->device, false, &r.be, &err) == FR_OK &&
        tr_queue_create(r.be, 0, &r.q, &err) == FR_OK &&
        create[w->transport](r.be, &o, &r.comm, &err) == FR_OK)
        bad = body(&r);
    else
        printf("rank %d: %s\n", rank, err.msg);
    tr_comm_destroy(r.comm);
    if (r.q != NULL)
        tr_queue_destroy(r.be, r.q);
    if (r.be != NULL)
        tr_backend_destroy(r.be);
    return bad;
}

static int free_port(void)
{
    struct sockaddr_in6 a;
    socklen_t n = sizeof a;
    int fd, port = 0;

    if (tr_listen(0, 1, &fd, NULL) == FR_OK && getsockname(fd, (struct sockaddr *)&a, &n) == 0)
        port = ntohs(a.sin6_port);
    close(fd);
    return port;
}

/* Rank `dead` must end with status 7, all others with 0. */
static void run_world(struct world w, body_fn *body, int dead)
{
    pid_t pids[RANKS];

    w.port = free_port();
    fflush(stdout);
    for (int r = 0; r < RANKS; r++)
        if ((pids[r] = fork()) == 0) {
            int bad = run_rank(&w, r, body);

            fflush(stdout);
            _exit(bad);
        }
    for (int r = 0; r < RANKS; r++) {
        int status = 0;

        waitpid(pids[r], &status, 0);
        CHECK_INT(WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status),
                  r == dead ? 7 : 0);
    }
}

static void environments(void)
{
    static const struct {
        const char *set;
        int local_size;
        bool allow;
        enum fr_rc want;
    } rows[] = {
        {"NCCL_DEBUG=INFO", 8, false, FR_OK},       {"NCCL_P2P_DISABLE=1", 8, false, FR_USAGE},
        {"NCCL_P2P_DISABLE=0", 8, false, FR_OK},    {"NCCL_P2P_DISABLE=1", 8, true, FR_OK},
        {"NCCL_P2P_DISABLE=1", 1, false, FR_OK},    {"NCCL_SHM_DISABLE=1", 2, false, FR_USAGE},
        {"NCCL_P2P_LEVEL=LOC", 2, false, FR_USAGE}, {"NCCL_P2P_LEVEL=SYS", 2, false, FR_OK},
        {"XNCCL_P2P_DISABLE=1", 2, false, FR_OK},
    };

    for (const auto &row : rows) {
        char text[64];
        char *env[] = {text, NULL};
        struct tr_nccl_vars vars = {env, NULL, "/none"};
        struct fr_err err = {};

        snprintf(text, sizeof text, "%s", row.set);
        CHECK_INT(tr_nccl_env(&vars, row.local_size, row.allow, &err), row.want);
        if (row.want != FR_OK)
            CHECK(strstr(err.msg, row.set) != NULL && strstr(err.msg, "--allow_slow_links"));
    }
}

/* The first that sets a variable counts: the environment, the user's file, the system's. */
static void files(void)
{
    static const struct {
        const char *env, *user, *system;
        const char *where; /* NULL: nothing is refused */
    } rows[] = {
        {"NCCL_DEBUG=WARN", "#NCCL_SHM_DISABLE=1\nNCCL_SHM\n", "", NULL},
        {"A=1", "", "NCCL_DEBUG=WARN\nNCCL_P2P_DISABLE=1\n", "/system turns off"},
        {"A=1", "NCCL_SHM_DISABLE=1", "NCCL_SHM_DISABLE=0\n", "/user turns off"},
        {"NCCL_P2P_LEVEL=NVL", "NCCL_P2P_LEVEL=LOC\n", "NCCL_P2P_LEVEL=LOC\n", NULL},
    };
    char dir[] = "/tmp/nccl_test.XXXXXX", text[64], user[64], system[64];
    char *env[] = {text, NULL};

    CHECK(mkdtemp(dir) != NULL);
    snprintf(user, sizeof user, "%s/user", dir);
    snprintf(system, sizeof system, "%s/system", dir);
    for (const auto &row : rows) {
        struct tr_nccl_vars vars = {env, user, system};
        struct fr_err err = {};

        snprintf(text, sizeof text, "%s", row.env);
        CHECK(fr_file_write(user, row.user, strlen(row.user), 0600, NULL) == FR_OK);
        CHECK(fr_file_write(system, row.system, strlen(row.system), 0600, NULL) == FR_OK);
        CHECK_INT(tr_nccl_env(&vars, 2, false, &err), row.where != NULL ? FR_USAGE : FR_OK);
        CHECK(row.where == NULL || strstr(err.msg, row.where) != NULL);
    }
    CHECK(fr_remove_tree(dir, NULL) == FR_OK);
}

int main(int argc, char **argv)
{
    struct world w = {argc > 1 ? argv[1] : NULL, 0, 0, 60000, false, world::NCCL};

    environments();
    files();
    run_world(w, all_calls, -1);
    w.device = 2; /* work runs as late as possible */
    w.check = true;
    run_world(w, all_calls, -1);
    run_world(w, differ, -1);
    run_world(w, group_differs, -1);
    run_world(w, miscounted, -1);
    run_world(w, groups, -1);
    w.transport = world::THROUGH_HOST;
    run_world(w, all_calls, -1);
    run_world(w, large, -1);
    run_world(w, differ, -1);
    run_world(w, group_differs, -1);
    run_world(w, miscounted, -1);
    run_world(w, groups, -1);
    w.check = false;
    run_world(w, groups, -1);
    w.transport = world::CPU;
    w.device = 0;
    run_world(w, groups, -1);
    w.transport = world::NCCL;
    run_world(w, groups, -1);
    run_world(w, dies, 1);
    w.timeout_ms = 5000;
    run_world(w, late, -1);
    return check_done();
}
