/*
 * Executors: what starts attempts and reports on them, and knows nothing of pipelines. run gives
 * commands; an executor makes them happen on nodes, over lost connections, and posts what it
 * learned.
 *
 * Commands never block and are remembered: each is sent when its node is connected and sent again
 * after a reconnection until its answer came (the node knows attempts by id, so a repeat changes
 * nothing). An error returned means nothing was remembered (no memory, a bad argument); everything
 * later is an event. A command copies what it is given. Events are posted only from the loop's
 * turn.
 *
 * Nothing is concluded from a lost node: FR_EXEC_DOWN says what is known, and FR_EXEC_UP comes when
 * it is back.
 */
#ifndef FR_EXEC_EXEC_H
#define FR_EXEC_EXEC_H

#include "engine/base/arena.h"
#include "engine/base/err.h"
#include "engine/base/str.h"
#include "engine/exec/link.h"
#include "engine/exec/loop.h"
#include "engine/wire/wire.h"

enum fr_exec_kind {
    /* of a node */
    FR_EXEC_UP = 1, /* up: connected, hello done; what was remembered has just been sent (again) */
    FR_EXEC_DOWN,   /* down: not connected, or a ping was not answered */
    FR_EXEC_NOTE,   /* text: "installing flownode (1.2 MiB)", the transport taken and why */
    FR_EXEC_LEASED, /* leased: all leases of the node now end at leased.boot_ms + T (node's clock)
                     */
    /* of an attempt */
    FR_EXEC_PREPARED, /* prepared; rc != 0: refused, nothing is left of it */
    FR_EXEC_BUSY, /* busy: another attempt of the instance lives there; this one was not started */
    FR_EXEC_LAUNCHED, /* launched */
    FR_EXEC_LOG,      /* log: the next bytes, without gap or overlap from the attached offset on */
    FR_EXEC_ENDED,    /* ended; log bytes may still follow. May come more than once */
    FR_EXEC_LOG_END,  /* after ENDED: every byte of the log up to ended.log_bytes was posted */
    FR_EXEC_STATE,    /* state: answer to query, tombstone, attach, or to a prepare or go that came
                         twice */
    /* of a transfer or question, by ref */
    FR_EXEC_PUT_DONE, /* put: all files are there */
    FR_EXEC_GET_DONE, /* get: the file is complete at its local path */
    FR_EXEC_LISTING,  /* listing */
    FR_EXEC_FACTS,    /* facts */
    FR_EXEC_FAILED    /* err: what ref asked for did not work, and will not by trying again */
};

struct fr_exec_up {
    struct fr_id home;  /* random, made once: another one is another disk */
    struct fr_str boot; /* another one: the machine was rebooted */
    struct fr_str build;
    uint64_t epoch;
    int64_t
        offset_ms; /* node's mono_ms - ours, measured at hello; renewed by each pong (not posted) */
    int64_t wall_offset_ms; /* node's wall_ms - ours: clock skew */
    int64_t rtt_ms;
    struct fr_str how; /* "local", "libssh2", "openssh" */
};

struct fr_exec_down {
    int64_t retry_ms; /* until the next try; -1: none, until connect() is called again */
    bool silent;      /* connected, but no byte for FR_ANSWER_MS behind a ping */
};

struct fr_exec_event {
    enum fr_exec_kind kind;
    size_t node;
    struct fr_id attempt; /* zero where it is of a node or ref */
    uint64_t ref;
    union {
        struct fr_exec_up up;
        struct fr_exec_down down; /* and err */
        struct fr_str text;
        struct fr_leased leased;
        struct fr_prepared prepared;
        struct fr_busy busy;
        struct fr_launched launched;
        struct fr_log_piece log;
        struct fr_ended ended;
        struct fr_state state;
        struct {
            struct fr_str dir;
        } put; /* absolute path of the node's store folder */
        struct {
            uint64_t size;
            uint32_t mode;
            char sha256[65];
        } get;
        struct fr_listing listing;
        struct fr_facts_are facts;
    };
    struct fr_err err;
    struct fr_arena arena;      /* owns what the fields point to */
    struct fr_exec_event *next; /* for the sink's queue */
};

void fr_exec_event_free(struct fr_exec_event *ev); /* NULL is fine */

/* Where events go. The sink takes the event over, and only queues it. */
struct fr_exec_sink {
    void (*post)(void *arg, struct fr_exec_event *ev);
    void *arg;
};

struct fr_exec_member {
    size_t node;
    struct fr_prepare prepare; /* go_now is set by the call, not by the caller */
    struct fr_strs go_env;     /* go: "K=V" known only now (the rendezvous address) */
};

struct fr_exec_gang {
    const struct fr_exec_member *v;
    size_t n;
};

/* One file of a put: local (a path, or bytes when local is NULL) becomes STORE/path on the node. */
struct fr_exec_file {
    const char *local;
    struct fr_str bytes;
    const char *path;   /* relative: "HASH/bin/flowtrain" */
    const char *sha256; /* 64 hex digits */
    uint64_t size;
    uint32_t mode; /* 0644 or 0755 */
};

/* ref, here and elsewhere: the caller's, not 0, unique among its refs in flight on that node. */
struct fr_exec_put {
    size_t node;
    uint64_t ref;
    const struct fr_exec_file *v;
    size_t n;
};

struct fr_exec_get {
    size_t node;
    uint64_t ref;
    const char *path;  /* on the node; a relative one is below its home */
    const char *local; /* here; LOCAL.part beside it while it is not whole */
    uint64_t
        max_bytes; /* a file that is larger is refused (FR_USAGE) and what came of it removed */
};

struct fr_exec_attempt {
    size_t node;
    struct fr_id attempt;
};

struct fr_exec_ops {
    const char *name; /* "node", "slurm"; "fake" in tests */
    /* Connects and stays connected, trying again with growing pauses. Other commands connect too.
     */
    enum fr_rc (*connect)(void *self, size_t node, struct fr_err *err);
    enum fr_rc (*prepare)(void *self, const struct fr_exec_gang *gang, struct fr_err *err);
    enum fr_rc (*go)(void *self, const struct fr_exec_gang *gang, struct fr_err *err);
    /* prepare and go in one: for what is no gang. Answers: PREPARED only when refused, BUSY,
     * LAUNCHED. */
    enum fr_rc (*start)(void *self, const struct fr_exec_member *m, struct fr_err *err);
    /* Follows log and end from offset on, for good: also after reconnections. */
    enum fr_rc (*attach)(void *self, struct fr_exec_attempt a, uint64_t offset, struct fr_err *err);
    enum fr_rc (*query)(void *self, const struct fr_exec_attempt *v, size_t n, struct fr_err *err);
    enum fr_rc (*stop)(void *self, struct fr_exec_attempt a, int64_t grace_ms, uint32_t stop_cause,
                       struct fr_err *err);
    enum fr_rc (*tombstone)(void *self, struct fr_exec_attempt a, struct fr_err *err);
    /* Its end and log are safe here: the node may remove it. No answer; forgets the attempt. */
    enum fr_rc (*ack_end)(void *self, struct fr_exec_attempt a, struct fr_err *err);
    enum fr_rc (*lease)(void *self, size_t node, struct fr_err *err); /* once; not sent again */
    enum fr_rc (*put)(void *self, const struct fr_exec_put *p, struct fr_err *err);
    /* Copies a file of the node (made whole beside local, then renamed). Resumes where it was cut.
     */
    enum fr_rc (*get)(void *self, const struct fr_exec_get *g, struct fr_err *err);
    enum fr_rc (*list)(void *self, size_t node, uint64_t ref, const char *path, struct fr_err *err);
    enum fr_rc (*facts)(void *self, size_t node, uint64_t ref, struct fr_err *err);
    /* Node's mono_ms - ours, newest measurement; 0 before the first hello. */
    int64_t (*clock_offset)(void *self, size_t node);
    void (*destroy)(void *self); /* closes connections; attempts go on */
};

struct fr_exec {
    const struct fr_exec_ops *ops;
    void *self;
};

void fr_exec_destroy(struct fr_exec *ex); /* NULL or a zeroed one is fine; zeroes it */

/* One node of the "node" executor. Text is borrowed for the executor's life. */
struct fr_exec_node {
    const char *name; /* for errors and the local home */
    enum fr_transport transport;
    struct fr_ssh_target ssh;
    const char
        *work; /* folder on the node for its home and programs; NULL: the user's cache folder */
    /* What of acknowledged attempts stays in its home, and for how long: node/prune.h. 0 days:
     * nothing; 0 bytes: any size. */
    int keep_days;
    int64_t keep_bytes;
};

/* The same of a node as a pipeline or an inventory has it; its text is borrowed. */
struct fr_node;
struct fr_exec_node fr_exec_node_of(const struct fr_node *n);

struct fr_exec_node_args {
    struct fr_loop *loop;
    struct fr_exec_sink sink;
    const struct fr_exec_node *nodes; /* borrowed */
    size_t n;
    struct fr_id control; /* id of the store: the home on a node is one for each control home */
    struct fr_id run;     /* sent in hello: a node fences older owners of this run, not of others */
    uint32_t
        base_epoch; /* committed by the caller for this process; connection epochs count below it */
    const char
        *flownode_dir; /* where flownode (and flownode-ARCH for other machines) lies on control */
    const char *home;  /* control's home: local nodes live in HOME/nodes/NAME */
    /* A link of the caller's instead of those of link.h (the simulator); serve speaks at once.
     * NULL: none. */
    enum fr_rc (*make_link)(void *arg, size_t node, struct fr_link *out, struct fr_err *err);
    void *make_link_arg;
};

/* At most this many nodes connect at once (sshd's MaxStartups). */
enum { FR_EXEC_CONNECTS = 4 };

enum fr_rc fr_exec_node_create(struct fr_exec *out, const struct fr_exec_node_args *args,
                               struct fr_err *err);

#endif
