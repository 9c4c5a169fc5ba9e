/*
 * The communicator of GPU ranks: NCCL moves the data on the queue's stream, the CPU communicator's
 * control plane joins, watches and ends the ranks. Collectives are put into the stream and not
 * waited for; a thread looks every TICK_MS whether the oldest has ended, whether NCCL has failed
 * and whether the run must end, and then aborts NCCL, which ends what hangs on the device.
 */
#include "engine/base/sys.h"
#include "engine/base/thread.h"
#include "trainer/comm/comm_cpu.h"
#include "trainer/comm/nccl_api.h"
#include "trainer/comm/nccl_env.h"
#include "trainer/comm/nccl_own.h"
#include "trainer/comm/nccl_turn.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TICK_MS = 100, PENDING = 64, ABORT_TICKS = 10, LATER_MS = 5000 };

/* A collective in a stream that may not have ended. */
struct pending {
    int64_t seq, since_ms;
    char text[64];          /* "all_gather 'layer 3'" */
    struct tr_event *event; /* owns */
    bool recorded;          /* the event was recorded after the collective */
};

struct nccl {
    struct tr_comm *comm;       /* borrows: the communicator whose self this is */
    struct tr_nccl_turn turn;   /* not of a group */
    struct tr_nccl_turn *turns; /* borrows: the world's */
    struct tr_control *control; /* borrows: host's, of a group the world's */
    struct tr_nccl_api api;
    tr_nccl_comm link;
    bool check;
    int64_t timeout_ms;

    pthread_t thread;
    bool thread_runs;
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t changed;
    bool leaving, issuing, aborted; /* aborted: link is gone */
    struct pending pending[PENDING];
    size_t first, count; /* ring; when it is full, further collectives are not watched */
};

/* ---- the watcher ---- */

static void wait_tick(struct nccl *c)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_nsec += TICK_MS * 1000000L;
    t.tv_sec += t.tv_nsec / 1000000000L;
    t.tv_nsec %= 1000000000L;
    pthread_cond_timedwait(&c->changed, &c->lock, &t);
}

/* Aborts the run when the oldest collective exceeds its time limit. Rank 0 has the heartbeats of
 * all ranks, so rank 0 reports first. */
static void watch_pending(struct nccl *c)
{
    int64_t limit = c->timeout_ms + (c->comm->rank == 0 ? 0 : LATER_MS);
    struct tr_backend *be = c->comm->be;
    struct fr_buf text = {0};
    struct pending *p;

    while (c->count > 0 && c->pending[c->first].recorded &&
           be->queues->event_done(be->device, c->pending[c->first].event)) {
        c->first = (c->first + 1) % PENDING;
        c->count--;
    }
    p = &c->pending[c->first];
    if (c->count == 0 || fr_sys.mono_ms() - p->since_ms <= limit)
        return;
    fr_buf_fmt(&text, "collective %lld %s has not ended for %lld s (--ddp_timeout); behind: ",
               (long long)p->seq, p->text, (long long)(limit / 1000));
    if (tr_control_behind(c->control, &text) == 0)
        fr_buf_text(&text, "no rank, a device or a link does not answer");
    tr_control_abort(c->control, FR_TIMEOUT, text.bad ? "a collective timed out" : text.p);
    fr_buf_finish(&text);
}

static void watch_errors(struct nccl *c)
{
    char text[160];
    int result = TR_NCCL_OK, rc = c->api.get_async_error(c->link, &result);

    if (rc == TR_NCCL_OK)
        rc = result;
    if (rc == TR_NCCL_OK || rc == TR_NCCL_IN_PROGRESS)
        return;
    /* When a rank ends, NCCL loses its connections too; the control plane soon names that rank. */
    for (int i = 0; i < ABORT_TICKS && tr_control_check(c->control, NULL) == FR_OK; i++)
        wait_tick(c);
    snprintf(text, sizeof(text), "NCCL on rank %d: %s", c->comm->rank, c->api.error_string(rc));
    tr_control_abort(c->control, FR_PEER, text);
}

/* Waits a moment for a call of the main thread inside NCCL to return. */
static void abort_link(struct nccl *c)
{
    tr_nccl_comm link = c->link;

    for (int i = 0; i < ABORT_TICKS && c->issuing; i++)
        wait_tick(c);
    c->aborted = true;
    c->link = NULL;
    pthread_mutex_unlock(&c->lock);
    (void)c->api.comm_abort(link);
    pthread_mutex_lock(&c->lock);
}

static void *watch(void *arg)
{
    struct nccl *c = arg;

    pthread_mutex_lock(&c->lock);
    while (!c->leaving && !c->aborted) {
        wait_tick(c);
        if (c->leaving)
            break;
        watch_pending(c);
        if (!c->issuing)
            watch_errors(c);
        if (tr_control_check(c->control, NULL) != FR_OK)
            abort_link(c);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* ---- collectives ---- */

/* Waits until NCCL has accepted the work; the device runs it later. */
static enum fr_rc settle(struct nccl *c, struct fr_err *err)
{
    for (;;) {
        int result = TR_NCCL_OK, rc;
        enum fr_rc failed = tr_control_check(c->control, err);

        if (failed != FR_OK)
            return failed;
        pthread_mutex_lock(&c->lock);
        rc = c->aborted ? TR_NCCL_IN_PROGRESS : c->api.get_async_error(c->link, &result);
        pthread_mutex_unlock(&c->lock);
        if (rc == TR_NCCL_OK)
            rc = result;
        if (rc == TR_NCCL_OK)
            return FR_OK;
        if (rc != TR_NCCL_IN_PROGRESS)
            return fr_fail(err, FR_PEER, "NCCL: %s", c->api.error_string(rc));
        sched_yield();
    }
}

/* Begins a group: from here to end() the main thread is inside NCCL. */
static enum fr_rc begin(struct nccl *c, struct tr_queue *q, const struct tr_call *call,
                        struct fr_err *err)
{
    enum fr_rc rc = tr_control_check(c->control, err);
    struct pending *p;

    if (rc == FR_OK)
        rc = tr_nccl_wait_turn(c->turns, q, err);
    if (rc == FR_OK && c->check)
        rc = tr_comm_cpu_check(c->control, c->comm, c->comm->ranks != NULL ? c->comm->ranks[0] : 0,
                               call, err);
    if (rc != FR_OK)
        return rc;
    tr_control_note(c->control, tr_comm_seq(c->comm), call->what);
    pthread_mutex_lock(&c->lock);
    c->issuing = !c->aborted;
    if (c->issuing && c->count < PENDING) {
        p = &c->pending[(c->first + c->count++) % PENDING];
        p->seq = tr_comm_seq(c->comm);
        p->since_ms = fr_sys.mono_ms();
        p->recorded = false;
        snprintf(p->text, sizeof(p->text), "%s '%.40s'", call->name, call->what);
    }
    pthread_mutex_unlock(&c->lock);
    return c->issuing ? FR_OK : tr_control_check(c->control, err);
}

/* Ends the group; `result`: the first error of its calls. */
static enum fr_rc end(struct nccl *c, struct tr_queue *q, int result, struct fr_err *err)
{
    struct tr_backend *be = c->comm->be;
    int last = c->api.group_end();
    struct pending *p = NULL;
    enum fr_rc rc;

    pthread_mutex_lock(&c->lock);
    c->issuing = false;
    if (c->count > 0)
        p = &c->pending[(c->first + c->count - 1) % PENDING];
    if (p != NULL && (p->recorded || p->seq != tr_comm_seq(c->comm)))
        p = NULL;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    if (result != TR_NCCL_OK || (last != TR_NCCL_OK && last != TR_NCCL_IN_PROGRESS)) {
        rc = tr_control_check(c->control, err);
        return rc != FR_OK ? rc
                           : fr_fail(err, FR_PEER, "NCCL: %s",
                                     c->api.error_string(result != TR_NCCL_OK ? result : last));
    }
    if ((rc = settle(c, err)) != FR_OK || (rc = tr_nccl_end_turn(c->turns, q, err)) != FR_OK ||
        p == NULL)
        return rc;
    rc = tr_event_record(be, q, p->event);
    pthread_mutex_lock(&c->lock);
    p->recorded = true;
    pthread_mutex_unlock(&c->lock);
    return rc;
}

/* The first error of two results. */
static int both(int a, int b)
{
    return a != TR_NCCL_OK && a != TR_NCCL_IN_PROGRESS ? a
           : b == TR_NCCL_IN_PROGRESS                  ? TR_NCCL_OK
                                                       : b;
}

static void *stream_of(struct nccl *c, struct tr_queue *q)
{
    return c->comm->be->queues->stream(c->comm->be->device, q);
}

static enum fr_rc nccl_all_gather(void *self, struct tr_queue *q, const struct tr_allgather *x,
                                  struct fr_err *err)
{
    struct nccl *c = self;
    struct tr_call call = {"all_gather", x->what, 0, NULL};
    enum fr_rc rc;
    int result;

    for (size_t i = 0; i < x->n; i++)
        call.bytes += x->items[i].bytes;
    if ((rc = begin(c, q, &call, err)) != FR_OK)
        return rc;
    result = c->api.group_start();
    for (size_t i = 0; i < x->n; i++)
        result = both(result, c->api.all_gather(x->items[i].in, x->items[i].out, x->items[i].bytes,
                                                TR_NCCL_BYTES, c->link, stream_of(c, q)));
    return end(c, q, result, err);
}

/* Sends and receives a slice; empty slices are skipped on both sides. */
static int exchange(struct nccl *c, void *stream, int peer, struct fr_str give, struct fr_str take)
{
    int result = TR_NCCL_OK;

    if (give.n > 0)
        result = c->api.send(give.p, give.n, TR_NCCL_BYTES, peer, c->link, stream);
    if (take.n > 0)
        result = both(result, c->api.recv((void *)(uintptr_t)take.p, take.n, TR_NCCL_BYTES, peer,
                                          c->link, stream));
    return result;
}

static enum fr_rc nccl_all_to_all(void *self, struct tr_queue *q, const struct tr_alltoall *x,
                                  struct fr_err *err)
{
    struct nccl *c = self;
    const struct tr_call call = {"all_to_all", x->what, x->bytes, NULL};
    enum fr_rc rc = begin(c, q, &call, err);
    int result;

    if (rc != FR_OK)
        return rc;
    result = c->api.group_start();
    for (int k = 0; k < c->comm->size; k++) {
        size_t at = (size_t)k * x->bytes;

        result = both(result, exchange(c, stream_of(c, q), k,
                                       (struct fr_str){(const char *)x->in + at, x->bytes},
                                       (struct fr_str){(char *)x->out + at, x->bytes}));
    }
    return end(c, q, result, err);
}

static enum fr_rc nccl_all_to_allv(void *self, struct tr_queue *q, const struct tr_alltoallv *x,
                                   struct fr_err *err)
{
    struct nccl *c = self;
    const struct tr_call call = {"all_to_allv", x->what, 0, x};
    enum fr_rc rc = begin(c, q, &call, err);
    int result;

    if (rc != FR_OK)
        return rc;
    result = c->api.group_start();
    for (int k = 0; k < c->comm->size; k++)
        result =
            both(result,
                 exchange(c, stream_of(c, q), k,
                          (struct fr_str){(const char *)x->in + x->in_at[k], x->in_bytes[k]},
                          (struct fr_str){(const char *)x->out + x->out_at[k], x->out_bytes[k]}));
    return end(c, q, result, err);
}

static enum fr_rc nccl_broadcast(void *self, struct tr_queue *q, const struct tr_broadcast *x,
                                 struct fr_err *err)
{
    struct nccl *c = self;
    const struct tr_call call = {"broadcast", x->what, x->bytes, NULL};
    enum fr_rc rc = begin(c, q, &call, err);
    int result;

    if (rc != FR_OK)
        return rc;
    result = c->api.group_start();
    result = both(result, c->api.broadcast(x->p, x->p, x->bytes, TR_NCCL_BYTES, x->root, c->link,
                                           stream_of(c, q)));
    return end(c, q, result, err);
}

static size_t nccl_bytes(void *self)
{
    struct tr_comm *host = ((struct nccl *)self)->comm->host;

    return host != NULL ? host->ops->bytes(host->self) : 0;
}

static void nccl_destroy(void *self)
{
    struct nccl *c = self;

    pthread_mutex_lock(&c->lock);
    c->leaving = true;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    if (c->thread_runs)
        pthread_join(c->thread, NULL);
    if (c->link != NULL && tr_control_check(c->control, NULL) == FR_OK) {
        (void)c->api.comm_finalize(c->link);
        (void)settle(c, NULL);
        (void)c->api.comm_destroy(c->link);
    } else if (c->link != NULL) {
        (void)c->api.comm_abort(c->link);
    }
    for (size_t i = 0; i < PENDING; i++)
        if (c->pending[i].event != NULL)
            tr_event_destroy(c->comm->be, c->pending[i].event);
    tr_nccl_turn_finish(&c->turn);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    fr_sys.free(c);
}

static enum fr_rc nccl_split(void *self, const struct tr_group *g, struct tr_comm *group,
                             struct fr_err *err);

static const struct tr_comm_ops nccl_ops = {
    .name = "nccl",
    .all_gather = nccl_all_gather,
    .all_to_all = nccl_all_to_all,
    .all_to_allv = nccl_all_to_allv,
    .broadcast = nccl_broadcast,
    .split = nccl_split,
    .bytes = nccl_bytes,
    .destroy = nccl_destroy,
};

/* Creates the NCCL communicator of the ranks with this id, which the first of them made. */
static enum fr_rc connect_ranks(struct nccl *c, struct tr_nccl_id id, struct fr_err *err)
{
    struct tr_nccl_config config = {sizeof(config), TR_NCCL_MAGIC, TR_NCCL_VERSION, 0};
    int result = c->api.comm_init(&c->link, c->comm->size, id, c->comm->rank, &config);

    if (result != TR_NCCL_OK && result != TR_NCCL_IN_PROGRESS)
        return fr_fail(err, FR_IO, "NCCL: %s", c->api.error_string(result));
    return settle(c, err);
}

/* Gathers the ids of all ranks of the world; *id: that of this communicator's first rank, whose
 * number in the world is `first`. */
static enum fr_rc share_id(struct nccl *c, struct tr_comm *host, int first, struct tr_nccl_id *id,
                           struct fr_err *err)
{
    struct tr_nccl_id mine = {{0}}, *all;
    int result = c->comm->rank == 0 ? c->api.get_unique_id(&mine) : TR_NCCL_OK;
    enum fr_rc rc;

    if (result != TR_NCCL_OK)
        return fr_fail(err, FR_IO, "NCCL: %s", c->api.error_string(result));
    if ((all = fr_sys.alloc((size_t)host->size * sizeof(*all))) == NULL)
        return fr_fail(err, FR_NOMEM, "ids of %d ranks", host->size);
    rc = tr_comm_host_all_gather(host, all, &mine, sizeof(mine), err);
    *id = all[first];
    fr_sys.free(all);
    return rc;
}

/* Initialises the lock and the events, which every communicator has. */
static enum fr_rc prepare(struct nccl *c, struct fr_err *err)
{
    pthread_condattr_t attr;
    enum fr_rc rc = FR_OK;

    pthread_mutex_init(&c->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&c->changed, &attr);
    pthread_condattr_destroy(&attr);
    for (size_t i = 0; i < PENDING && rc == FR_OK; i++)
        rc = tr_event_create(c->comm->be, &c->pending[i].event, err);
    return rc;
}

static enum fr_rc start_watch(struct nccl *c, struct fr_err *err)
{
    c->thread_runs = fr_thread_start(&c->thread, NULL, watch, c) == 0;
    return c->thread_runs ? FR_OK : fr_fail(err, FR_NOMEM, "no thread to watch NCCL");
}

/* Connects the ranks of c, starts the watcher and measures own_bytes. host: the world on the CPU;
 * first: the number of c's first rank in the world; room: free device memory before. */
static enum fr_rc join(struct nccl *c, struct tr_comm *host, int first, size_t room,
                       struct fr_err *err)
{
    struct tr_nccl_id id;
    enum fr_rc rc = share_id(c, host, first, &id, err);

    if (rc == FR_OK)
        rc = connect_ranks(c, id, err);
    if (rc == FR_OK)
        rc = start_watch(c, err);
    return rc == FR_OK ? tr_nccl_own(c->comm, room, err) : rc;
}

static enum fr_rc start(struct nccl *c, const struct tr_comm_opts *o, struct fr_err *err)
{
    char path[PATH_MAX];
    struct tr_nccl_vars vars = tr_nccl_vars_here(path, sizeof(path));
    size_t room = tr_mem_room(c->comm->be);
    enum fr_rc rc = prepare(c, err);

    if (rc == FR_OK)
        rc = tr_nccl_env(&vars, o->local_size, o->allow_slow_links, err);
    if (rc == FR_OK)
        rc = tr_nccl_open(o->nccl, &c->api, err);
    if (rc == FR_OK)
        rc = tr_nccl_turn_init(&c->turn, &c->api, c->comm->be, err);
    return rc == FR_OK ? join(c, c->comm->host, 0, room, err) : rc;
}

static enum fr_rc nccl_split(void *self, const struct tr_group *g, struct tr_comm *group,
                             struct fr_err *err)
{
    const struct nccl *world = self;
    struct nccl *c = fr_sys.alloc(sizeof(*c));
    size_t room = tr_mem_room(group->be);
    enum fr_rc rc;

    if (c == NULL)
        return fr_fail(err, FR_NOMEM, "a group of ranks");
    group->ops = &nccl_ops;
    group->self = c;
    *c = (struct nccl){.comm = group,
                       .turns = world->turns,
                       .control = world->control,
                       .api = world->api,
                       .check = world->check,
                       .timeout_ms = world->timeout_ms};
    rc = prepare(c, err);
    return rc == FR_OK ? join(c, world->comm->host, g->ranks[0], room, err) : rc;
}

enum fr_rc tr_comm_nccl_over(struct tr_backend *be, const struct tr_comm_opts *o,
                             struct tr_comm *host, struct tr_comm **out, struct fr_err *err)
{
    struct tr_comm *comm = tr_comm_over(be, &nccl_ops, host, sizeof(struct nccl), err);
    struct nccl *c;

    *out = NULL;
    if (comm == NULL)
        return FR_NOMEM;
    c = comm->self;
    *c = (struct nccl){.comm = comm,
                       .turns = &c->turn,
                       .control = tr_comm_cpu_control(host),
                       .check = o->check,
                       .timeout_ms = o->timeout_ms};
    return tr_comm_over_end(comm, start(c, o, err), out, err);
}
