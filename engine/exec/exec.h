/*
 * An executor starts attempts on nodes and reports on them. It knows nothing of pipelines: run
 * calls its commands, and it posts events.
 *
 * A command never blocks. The executor copies what it is given and remembers the command: it sends
 * the command when the node is connected, and again after each reconnection, until the node has
 * answered. A node knows attempts by id, so a repeated command changes nothing. A returned error
 * means that nothing was remembered (no memory, a bad argument); every later result is an event.
 * Events are posted only from the loop's turn.
 *
 * A lost connection says nothing about attempts. FR_EXEC_DOWN reports it, and FR_EXEC_UP reports
 * the next connection.
 */
#ifndef FR_EXEC_EXEC_H
#define FR_EXEC_EXEC_H

#include "engine/base/arena.h"
#include "engine/base/err.h"
#include "engine/base/str.h"
#include "engine/link/link.h"
#include "engine/link/runner.h"
#include "engine/loop/loop.h"
#include "engine/ship/file.h"
#include "engine/wire/wire.h"

enum fr_exec_kind {
    /* of a node */
    FR_EXEC_UP = 1, /* up: connected; the remembered commands have just been sent (again) */
    FR_EXEC_DOWN,   /* down: not connected, or a ping was not answered */
    FR_EXEC_NOTE,   /* text: "installing flownode (1.2 MiB)", or the chosen transport and the reason
                     */
    FR_EXEC_CONFIG, /* text: the directives of ssh's configuration in force, one a line. Posted when
                       the transport is chosen */
    FR_EXEC_LEASED, /* leased: all leases of the node now end at leased.boot_ms + T (node's clock)
                     */
    /* of an attempt */
    FR_EXEC_PREPARED, /* prepared; rc != 0: refused; nothing of it is left */
    FR_EXEC_BUSY, /* busy: another attempt of the instance is alive there; this one did not start */
    FR_EXEC_LAUNCHED, /* launched */
    FR_EXEC_LOG,      /* log: the next bytes, without gap or overlap, from the attached offset on */
    FR_EXEC_METRICS,  /* metrics: the next bytes, likewise */
    FR_EXEC_TAIL,     /* tail: bytes after a full log, in order; some may be missing */
    FR_EXEC_ENDED,    /* ended; log bytes may still follow. May come more than once */
    FR_EXEC_LOG_END,  /* after ENDED: every byte of log and metrics up to ended.log_bytes and
                         ended.metrics_bytes was posted */
    FR_EXEC_STATE,    /* state: answer to query, tombstone, attach, or to a prepare or go that came
                         twice */
    /* of a transfer or question, by ref */
    FR_EXEC_PUT_DONE, /* put: all files are there */
    FR_EXEC_GET_DONE, /* get: the file is complete at its local path */
    FR_EXEC_FACTS,    /* facts */
    FR_EXEC_FAILED    /* err: the request ref failed for good: a repetition would not help */
};

struct fr_exec_up {
    struct fr_id home;  /* random id of the node's home: a different id means another disk */
    struct fr_str boot; /* boot id: a different one means that the machine was rebooted */
    struct fr_str build;
    uint64_t epoch;
    int64_t offset_ms;      /* node's mono_ms - ours, at hello; each pong measures it again */
    int64_t wall_offset_ms; /* node's wall_ms - ours: clock skew */
    int64_t rtt_ms;
    struct fr_str how; /* "local", "libssh2", "openssh", "srun" */
};

/* Posted after each failed try, and once when a connection is lost. err names the cause. For a
 * fault that a person has to mend (a wrong port, an unknown name, a shell that runs no command) err
 * also names where to look. These faults are tried again, too, unless retry_ms is -1. */
struct fr_exec_down {
    int64_t retry_ms; /* until the next try; -1: none, until connect() is called again */
    int64_t since_ms; /* mono_ms() when the connection was lost or the first try began */
    int64_t until_ms; /* since_ms + the node's connect.retry_for: tasks that have not started wait
                         until then; -1: for ever. Tries go on after it */
    bool silent;      /* connected, but no byte for FR_ANSWER_MS after a ping */
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
        struct fr_tail_piece tail;
        struct fr_metrics_piece metrics;
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
        struct fr_facts_are facts;
    };
    struct fr_err err;
    struct fr_arena arena;      /* owns the memory of all fields */
    struct fr_exec_event *next; /* for the sink's queue */
};

void fr_exec_event_free(struct fr_exec_event *ev); /* NULL is fine */

/* Receives events. The sink owns the event from then on, and only queues it. */
struct fr_exec_sink {
    void (*post)(void *arg, struct fr_exec_event *ev);
    void *arg;
};

struct fr_exec_member {
    size_t node;
    struct fr_prepare prepare; /* go_now is set by the call, not by the caller */
    struct fr_strs go_env;     /* go: "K=V" known only now (the rendezvous address) */
};

/* ref, here and below: chosen by the caller, not 0, unique among its open requests to that node. */
struct fr_exec_put {
    size_t node;
    uint64_t ref;
    const struct fr_ship_file *v;
    size_t n;
};

struct fr_exec_get {
    size_t node;
    uint64_t ref;
    const char *path;   /* on the node; a relative one is below its home */
    const char *local;  /* path here; the file is LOCAL.part until it is complete */
    uint64_t max_bytes; /* a larger file is refused (FR_USAGE), and LOCAL.part is removed */
};

struct fr_exec_attempt {
    size_t node;
    struct fr_id attempt;
};

/* How many bytes of an attempt this process has. */
struct fr_exec_have {
    uint64_t log, metrics;
};

struct fr_exec_ops {
    const char *name; /* "node", "slurm"; "fake" in tests */
    /* Connects and stays connected; tries again after growing pauses. Every other command connects,
     * too. */
    enum fr_rc (*connect)(void *self, size_t node, struct fr_err *err);
    /* Prepares an attempt that go() will start: its gang starts when all members are prepared. */
    enum fr_rc (*prepare)(void *self, const struct fr_exec_member *m, struct fr_err *err);
    enum fr_rc (*go)(void *self, const struct fr_exec_member *m, struct fr_err *err);
    /* Prepare and go in one, for an attempt without a gang. Answers: PREPARED only when refused,
     * BUSY, LAUNCHED. */
    enum fr_rc (*start)(void *self, const struct fr_exec_member *m, struct fr_err *err);
    /* Follows log, metrics and end from there on, for good: also after reconnections. */
    enum fr_rc (*attach)(void *self, struct fr_exec_attempt a, struct fr_exec_have have,
                         struct fr_err *err);
    enum fr_rc (*query)(void *self, const struct fr_exec_attempt *v, size_t n, struct fr_err *err);
    enum fr_rc (*stop)(void *self, struct fr_exec_attempt a, int64_t grace_ms, uint32_t stop_cause,
                       struct fr_err *err);
    enum fr_rc (*tombstone)(void *self, struct fr_exec_attempt a, struct fr_err *err);
    /* The attempt's end and log are stored here, so the node may remove it. There is no answer. */
    enum fr_rc (*ack_end)(void *self, struct fr_exec_attempt a, struct fr_err *err);
    enum fr_rc (*lease)(void *self, size_t node, struct fr_err *err); /* sent once, not repeated */
    enum fr_rc (*put)(void *self, const struct fr_exec_put *p, struct fr_err *err);
    /* Copies a file of the node: written to LOCAL.part, synced, then renamed. Resumes after a
     * lost connection. */
    enum fr_rc (*get)(void *self, const struct fr_exec_get *g, struct fr_err *err);
    enum fr_rc (*facts)(void *self, size_t node, uint64_t ref, struct fr_err *err);
    /* The newest measurement of node's mono_ms - ours; 0 before the first hello. */
    int64_t (*clock_offset)(void *self, size_t node);
    void (*destroy)(void *self); /* closes connections; attempts go on */
};

struct fr_exec {
    const struct fr_exec_ops *ops;
    void *self;
};

void fr_exec_destroy(struct fr_exec *ex); /* NULL or a zeroed one is fine; zeroes it */

/* One node of the "node" executor. */
struct fr_exec_node {
    const char *name; /* for errors and the local home */
    enum fr_transport transport;
    struct fr_id run; /* of a place: whose allocation it is of; else zero */
    bool login;       /* it runs commands of Slurm (login.h), and no attempts */
    struct fr_ssh_target ssh;
    const char
        *work; /* folder on the node for its home and programs; NULL: the user's cache folder */
    /* How long acknowledged attempts stay in the node's home (node/prune.h). 0 days: not at all;
     * 0 bytes: any size. */
    int keep_days;
    int64_t keep_bytes;
    int64_t connect_ms;   /* of one try, until flownode answers; 0: 60 s */
    int64_t retry_for_ms; /* for fr_exec_down.until_ms; 0: no end */
};

/* Makes one from the node of a pipeline or inventory, and borrows its text. run: that of a place.
 */
struct fr_node;
struct fr_exec_node fr_exec_node_of(const struct fr_node *n, struct fr_id run);

/* How a place is reached now: by a command whose input and output are those of a serve there. */
struct fr_exec_place {
    const char *what;               /* the subject of errors: "srun to nid003" */
    const char *const *argv;        /* NULL-terminated */
    const struct fr_runner *runner; /* runs it; outlives the connection */
};

/* At most this many nodes connect at once (sshd's MaxStartups). */
enum { FR_EXEC_CONNECTS = 4 };

/*
 * All connections of a process. A run joins with the list of its nodes and gets an executor of its
 * own. Two runs share a connection where every field of the node is equal; otherwise each has one
 * of its own, also to the same machine. A run gets the events of its own attempts and requests, and
 * those of a node from its first command to that node on: UP at once if the node is connected.
 * Destroying the executor takes back the commands of that run; a connection closes when its last
 * run has left, and none came again for linger_ms.
 */
struct fr_nodes;

/* The newest measurement of a node's machine. */
struct fr_exec_sampled {
    const char *node;            /* its name, in the first run that used it */
    const struct fr_exec_up *up; /* of its hello; … */
    int64_t offset_ms, rtt_ms;   /* … these are measured since */
    const struct fr_sample *sample;
};

struct fr_nodes_args {
    struct fr_loop *loop;
    struct fr_id control; /* id of the store: each store has a home of its own on a node */
    uint32_t epoch; /* committed before the first connection; the upper half of each connection's
                       epoch. 0: this process only asks, so nodes need not fence others off */
    const char *flownode_dir; /* folder of flownode, and flownode-ARCH for other machines */
    /* Control's home: local nodes have HOME/nodes/NAME. Each is a node of its own, though all are
     * on this machine; a node over SSH has the home of its machine, user and work folder
     * (ship.h). */
    const char *home;
    int64_t linger_ms; /* a connection stays up so long without runs; 0: not at all */
    /* Makes the link instead of link.h (the simulator); the node needs no boot dialogue. NULL:
     * none. */
    enum fr_rc (*make_link)(void *arg, const struct fr_exec_node *node, struct fr_link *out,
                            struct fr_err *err);
    void *make_link_arg;
    void (*sample)(void *arg, const struct fr_exec_sampled *s); /* NULL: nodes send no samples */
    void *sample_arg;
};

enum fr_rc fr_nodes_create(struct fr_nodes **out, const struct fr_nodes_args *args,
                           struct fr_err *err);
void fr_nodes_destroy(struct fr_nodes *nodes); /* every run has left; NULL is fine */

struct fr_nodes_run {
    struct fr_id id;
    const struct fr_exec_node *nodes; /* copied; commands and events name them by index */
    size_t n;
    struct fr_exec_sink sink;
};

/*
 * The agents that logins may use: paths of their sockets, as in SSH_AUTH_SOCK; copied. Until the
 * first call it is the one of this process's environment. All runs share a connection, so it is not
 * one shell's: each try to connect takes the next agent, and a login is refused for good only when
 * it was with each of them. A node that is refused is tried again once there is an agent that was
 * not there before. A connection that is up needs none.
 */
enum fr_rc fr_nodes_agents(struct fr_nodes *nodes, const char *const *paths, size_t n,
                           struct fr_err *err);

/*
 * Where places are (nodes of FR_TRANSPORT_PLACE): find is called before each try to connect, and
 * fills out with texts in arena. FR_BUSY: it is nowhere now; the node then waits without a try or
 * an event until fr_nodes_moved(). A connection that ends so has the error's text as its reason.
 * Other errors end the try. Without find every place is nowhere.
 */
typedef enum fr_rc fr_place_fn(void *arg, const struct fr_exec_node *node, struct fr_arena *arena,
                               struct fr_exec_place *out, struct fr_err *err);
void fr_nodes_places(struct fr_nodes *nodes, fr_place_fn *find, void *arg);
/* find may know more, or places that it knew are nowhere now: those are disconnected. */
void fr_nodes_moved(struct fr_nodes *nodes);
const char *fr_nodes_program_dir(const struct fr_nodes *nodes); /* flownode_dir of its args */

/* The "node" executor of a run. */
enum fr_rc fr_nodes_join(struct fr_nodes *nodes, const struct fr_nodes_run *run,
                         struct fr_exec *out, struct fr_err *err);

#endif
