/*
 * For tests of engine/exec: a loop on a clock that only moves when the test says so, and nodes that
 * answer as the test wants, reached by links of their own. Nothing here waits.
 */
#ifndef TESTS_UNIT_EXEC_PEER_H
#define TESTS_UNIT_EXEC_PEER_H

#include "engine/base/sys.h"
#include "engine/exec/exec.h"
#include "tests/unit/check.h"

enum { PEER_TIMERS = 64, PEER_NODES = 12 };

struct fr_timer {
    bool used;
    int64_t due_ms;
    fr_due_fn *fn;
    void *arg;
};

struct peer_loop { /* its threads run at once, or hang */
    struct fr_timer timers[PEER_TIMERS];
    struct fr_post *first, **last;
    struct fr_loop loop;
    bool hangs;           /* threads that start now get nowhere until peer_release() */
    struct fr_work *hung; /* the first of them */
};

/* One node of the test, and the link to it. */
struct peer {
    struct peer_loop *loop;
    struct fr_link_events ev;
    struct fr_post up;
    bool open, up_now;
    bool silent;            /* takes bytes, says nothing: not even pongs */
    bool reads_nothing;     /* takes nothing */
    int opens;              /* connections so far */
    enum fr_rc refuse;      /* how the next opens end */
    struct fr_wire_in in;   /* what the engine sent */
    struct fr_arena arena;  /* of m */
    struct fr_buf out;      /* what the node says next */
    struct fr_msg got[256]; /* all but pings, credit and who joins, of all connections */
    size_t n_got;
    int pings;
    int answers;      /* credits of 0 bytes */
    size_t taken;     /* bytes of all connections */
    const char *boot; /* NULL: "boot-1" */
    uint32_t proto;   /* its maximum; 0: FR_PROTO_MAX */
    uint64_t epoch;   /* of the newest hello, and whose connection it is */
    struct fr_id fence, channel;
    struct fr_id runs[4]; /* joined on this connection */
    size_t n_runs;
    bool linked;         /* a link leads here: one more of that name leads to the next such node */
    uint64_t credit;     /* granted to the node, less what it sent */
    uint64_t credit_max; /* its highest value */
    int64_t clock;       /* node's mono_ms - ours */
};

struct peer_world {
    struct peer_loop loop;
    struct peer nodes[PEER_NODES];
    struct fr_exec_node infos[PEER_NODES];
    size_t n;
    struct fr_nodes *all;
    struct fr_exec ex; /* of the first run */
    struct fr_exec_event *events, **events_last;
    bool nowhere; /* a place is */
};

/* A further run of the same process. */
struct peer_other {
    struct fr_exec ex;
    struct fr_exec_event *events, **events_last;
};

/* Joins with those nodes of the world's list; fr_exec_destroy(&o->ex) leaves. */
void peer_join(struct peer_world *w, struct peer_other *o, const struct fr_exec_node *nodes,
               size_t n);
/* As peer_event() and peer_events(), of the other run. */
const struct fr_exec_event *peer_other_event(struct peer_other *o, enum fr_exec_kind kind);
size_t peer_other_events(const struct peer_other *o, enum fr_exec_kind kind);
void peer_other_finish(struct peer_other *o);

void peer_linger(int64_t ms); /* fr_nodes_args.linger_ms of the worlds that follow */
void peer_setup(struct peer_world *w, size_t nodes);
/* With that connect.timeout and connect.retry_for, instead of 30 s and 120 s. */
void peer_setup_limits(struct peer_world *w, size_t nodes, int64_t connect_ms,
                       int64_t retry_for_ms);
/* One node, a place of an allocation. */
void peer_setup_place(struct peer_world *w);
void peer_finish(struct peer_world *w);

/* Brings the connection to a node up, and takes the event that says so. */
void peer_connect(struct peer_world *w, size_t node);

/* Runs all that is due; peer_wait() first moves the clock on, timer by timer. */
void peer_run(struct peer_world *w);
void peer_wait(struct peer_world *w, int64_t ms);
/* The engine was held up for so long: all that was due meanwhile runs late. */
void peer_hold_up(struct peer_world *w, int64_t ms);

/* The first thread that hangs goes on, and ends; what its loop has forgotten is dropped then. */
void peer_release(struct peer_world *w);

/* The node says m (in the next run). */
void peer_say(struct peer *p, const struct fr_msg *m);
/* The connection breaks. */
void peer_cut(struct peer *p, enum fr_rc rc);

/* The nth allocation of the engine from now on fails (0: none). Calls of ops count only between
 * peer_engine(+1) and peer_engine(-1). */
void peer_fail(long nth);
bool peer_failed(void);
void peer_engine(int enter);

/* The next message of that type which the engine sent, or NULL; taken off together with those
 * before. */
const struct fr_msg *peer_got(struct peer *p, enum fr_msg_type type);
/* The next event of that kind, or NULL; it and those before are taken off. Valid until the next
 * call. */
const struct fr_exec_event *peer_event(struct peer_world *w, enum fr_exec_kind kind);
size_t peer_events(const struct peer_world *w, enum fr_exec_kind kind);

#endif
