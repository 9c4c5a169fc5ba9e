/*
 * Ranks as threads of one process: a communicator over shared memory and a barrier, for tests of
 * what is built on comm.h. It checks what transports promise: every rank makes the same calls with
 * the same sizes and subject, in the same order. With a seed, messages of an exchange arrive in an
 * order and with pauses that it decides.
 */
#ifndef TESTS_UNIT_RANKS_H
#define TESTS_UNIT_RANKS_H

#include "trainer/comm/comm.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS_MAX = 8 };

struct ranks {
    int size;
    pthread_barrier_t barrier;
    const void *arg[RANKS_MAX]; /* what each rank called with */
    char call[RANKS_MAX][128];
    int node[RANKS_MAX];
};

struct rank_self {
    struct ranks *all;
    int rank;
    uint64_t seed; /* 0: messages arrive in the order of ranks */
    bool group;    /* made by a split, which allocated it */
};

/* All ranks meet here with their arguments; false when they did not make the same call. */
static inline bool ranks_meet(struct rank_self *s, const void *arg, const char *call)
{
    bool same = true;

    s->all->arg[s->rank] = arg;
    (void)snprintf(s->all->call[s->rank], sizeof(s->all->call[0]), "%s", call);
    pthread_barrier_wait(&s->all->barrier);
    for (int k = 0; k < s->all->size; k++)
        same = same && strcmp(s->all->call[k], call) == 0;
    if (!same && s->rank == 0)
        printf("ranks differ: rank 0 calls '%s', another does not\n", call);
    return same;
}

static inline enum fr_rc ranks_part(struct rank_self *s, bool same, struct fr_err *err)
{
    pthread_barrier_wait(&s->all->barrier);
    return same ? FR_OK : fr_fail(err, FR_PROTO, "ranks made different calls");
}

static inline enum fr_rc ranks_all_gather(void *self, struct tr_queue *q,
                                          const struct tr_allgather *x, struct fr_err *err)
{
    struct rank_self *s = self;
    char call[128];
    bool same;

    (void)q;
    (void)snprintf(call, sizeof(call), "gather %zu %zu %s", x->n, x->items[0].bytes, x->what);
    same = ranks_meet(s, x, call);
    for (int k = 0; k < s->all->size && same; k++) {
        const struct tr_allgather *other = s->all->arg[k];

        for (size_t i = 0; i < x->n; i++)
            memcpy((char *)x->items[i].out + (size_t)k * x->items[i].bytes, other->items[i].in,
                   x->items[i].bytes);
    }
    return ranks_part(s, same, err);
}

static inline enum fr_rc ranks_all_to_all(void *self, struct tr_queue *q,
                                          const struct tr_alltoall *x, struct fr_err *err)
{
    struct rank_self *s = self;
    char call[128];
    bool same;

    (void)q;
    (void)snprintf(call, sizeof(call), "all-to-all %zu %s", x->bytes, x->what);
    same = ranks_meet(s, x, call);
    for (int k = 0; k < s->all->size && same; k++) {
        const struct tr_alltoall *other = s->all->arg[k];

        memcpy((char *)x->out + (size_t)k * x->bytes,
               (const char *)other->in + (size_t)s->rank * x->bytes, x->bytes);
    }
    return ranks_part(s, same, err);
}

/* 0 without a seed. */
static inline int ranks_draw(struct rank_self *s)
{
    if (s->seed == 0)
        return 0;
    s->seed = s->seed * 6364136223846793005U + 1442695040888963407U;
    return (int)(s->seed >> 60);
}

static inline enum fr_rc ranks_all_to_allv(void *self, struct tr_queue *q,
                                           const struct tr_alltoallv *x, struct fr_err *err)
{
    struct rank_self *s = self;
    char call[128];
    bool same;

    (void)q;
    (void)snprintf(call, sizeof(call), "all-to-allv %s", x->what);
    same = ranks_meet(s, x, call);
    for (int i = 0, first = ranks_draw(s), k; i < s->all->size && same; i++) {
        const struct tr_alltoallv *other = s->all->arg[k = (first + i) % s->all->size];

        for (int wait = ranks_draw(s); wait > 0; wait--)
            (void)sched_yield();
        same = other->in_bytes[s->rank] == x->out_bytes[k];
        if (same)
            memcpy((char *)x->out + x->out_at[k], (const char *)other->in + other->in_at[s->rank],
                   x->out_bytes[k]);
    }
    return ranks_part(s, same, err);
}

static inline enum fr_rc ranks_broadcast(void *self, struct tr_queue *q,
                                         const struct tr_broadcast *x, struct fr_err *err)
{
    struct rank_self *s = self;
    bool same = ranks_meet(s, x, x->what);
    const struct tr_broadcast *root = s->all->arg[x->root];

    (void)q;
    if (same && s->rank != x->root)
        memcpy(x->p, root->p, x->bytes);
    return ranks_part(s, same, err);
}

static inline enum fr_rc ranks_host_all_gather(void *self, void *out, const void *mine,
                                               size_t bytes, struct fr_err *err)
{
    struct rank_self *s = self;
    bool same = ranks_meet(s, mine, "host gather");

    for (int k = 0; k < s->all->size; k++)
        memcpy((char *)out + (size_t)k * bytes, s->all->arg[k], bytes);
    return ranks_part(s, same, err);
}

static inline void ranks_abort(void *self, const char *why)
{
    (void)self;
    (void)why;
}

static inline size_t ranks_bytes(void *self)
{
    (void)self;
    return 0;
}

/* All of a group leave together; its first rank frees what they share. */
static inline void ranks_destroy(void *self)
{
    struct rank_self *s = self;

    if (!s->group)
        return;
    pthread_barrier_wait(&s->all->barrier);
    if (s->rank == 0) {
        pthread_barrier_destroy(&s->all->barrier);
        free(s->all);
    }
    free(s);
}

static inline enum fr_rc ranks_split(void *self, const struct tr_group *g, struct tr_comm *group,
                                     struct fr_err *err);

static const struct tr_comm_ops ranks_ops = {
    .name = "threads",
    .all_gather = ranks_all_gather,
    .all_to_all = ranks_all_to_all,
    .all_to_allv = ranks_all_to_allv,
    .broadcast = ranks_broadcast,
    .host_all_gather = ranks_host_all_gather,
    .split = ranks_split,
    .abort = ranks_abort,
    .bytes = ranks_bytes,
    .destroy = ranks_destroy,
};

static inline enum fr_rc ranks_split(void *self, const struct tr_group *g, struct tr_comm *group,
                                     struct fr_err *err)
{
    struct rank_self *s = self, *mine = malloc(sizeof(*mine));
    struct ranks *all = NULL;
    bool same;

    if (g->ranks[0] == s->rank) {
        all = calloc(1, sizeof(*all));
        all->size = g->size;
        pthread_barrier_init(&all->barrier, NULL, (unsigned)g->size);
    }
    same = ranks_meet(s, all, "split");
    *mine = (struct rank_self){(struct ranks *)(uintptr_t)s->all->arg[g->ranks[0]], group->rank,
                               s->seed, true};
    group->ops = &ranks_ops;
    group->self = mine;
    return ranks_part(s, same, err);
}

static inline struct tr_comm ranks_comm(struct rank_self *s, struct tr_backend *be)
{
    return (struct tr_comm){.ops = &ranks_ops,
                            .self = s,
                            .be = be,
                            .rank = s->rank,
                            .size = s->all->size,
                            .local_rank = s->rank,
                            .local_size = s->all->size,
                            .node = s->all->node[s->rank],
                            .nodes = s->all->node[s->all->size - 1] + 1};
}

struct rank_thread {
    struct rank_self self;
    void (*body)(struct rank_self *self, void *arg);
    void *arg;
    pthread_t thread;
};

static inline void *ranks_main(void *arg)
{
    struct rank_thread *t = arg;

    t->body(&t->self, t->arg);
    return NULL;
}

/* Runs body on n threads, args[k] for rank k of node[k] (NULL: one node), and waits for all. */
static inline void ranks_run_on(int n, const int *node, uint64_t seed,
                                void (*body)(struct rank_self *self, void *arg), void **args)
{
    struct ranks all = {.size = n};
    struct rank_thread t[RANKS_MAX];

    for (int k = 0; k < n && node != NULL; k++)
        all.node[k] = node[k];
    pthread_barrier_init(&all.barrier, NULL, (unsigned)n);
    for (int k = 0; k < n; k++) {
        t[k] = (struct rank_thread){
            .self = {&all, k, seed == 0 ? 0 : seed + (uint64_t)k}, .body = body, .arg = args[k]};
        pthread_create(&t[k].thread, NULL, ranks_main, &t[k]);
    }
    for (int k = 0; k < n; k++)
        pthread_join(t[k].thread, NULL);
    pthread_barrier_destroy(&all.barrier);
}

static inline void ranks_run(int n, void (*body)(struct rank_self *self, void *arg), void **args)
{
    ranks_run_on(n, NULL, 0, body, args);
}

#endif
