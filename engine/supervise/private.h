/*
 * Inside of a supervisor: its state, shared by supervise.c (phases and loop), launch.c (prepare and
 * start), sup_end.c (the end), oom.c, stream.c (output, input, metrics) and sockets.c (sockets).
 * Nobody else includes this.
 */
#ifndef FR_SUPERVISE_PRIVATE_H
#define FR_SUPERVISE_PRIVATE_H

#include "engine/base/sys.h"
#include "engine/supervise/home.h"
#include "engine/supervise/logfile.h"
#include "engine/supervise/mask.h"
#include "engine/supervise/metrics.h"
#include "engine/supervise/supervise.h"
#include "engine/supervise/table.h"
#include "engine/supervise/tree.h"

enum {
    SUP_CONNS = 4,
    SUP_SIDECARS = 8,
    SUP_POLL = SUP_CONNS + SUP_SIDECARS + 5,
    SUP_TICK_MS = 50,
    SUP_QUICK_MS = 20, /* a command that ends sooner is reported once */
};

enum sup_phase { SUP_WAITING, SUP_RUNNING, SUP_LEAVING, SUP_CLOSING, SUP_RECORDING, SUP_OVER };

/* Output of the command (name "") or of a sidecar. */
struct sup_stream {
    int fd; /* read end, -1 once it ended */
    struct fr_str name;
    struct fr_mask mask;
    struct fr_buf line; /* owns: unfinished line of a sidecar */
};

struct sup_conn {
    int fd; /* -1: free */
    struct fr_wire_in in;
    struct fr_buf out;
    bool grew; /* the log grew since the last GREW */
    bool own;  /* the process's own: it brings attempts */
};

/* State of a supervisor's process across attempts. */
struct sup_process {
    struct fr_node_home home; /* owns */
    struct fr_proc self;      /* pid 0: not yet a subreaper */
    int socket_fd;            /* owns: listens at socket_id; -1: this process takes one attempt */
    struct fr_id socket_id;
    char cgroup[FR_NODE_PATH]; /* of this process and all that it starts; "": no own one */
    int sock;                  /* owns: to the serve that gives attempts; -1: gone */
    int64_t oom_kills, oom_ms; /* of sup_oom_look: the count, and when it was read */
    struct fr_id spare_dir;    /* attempt whose folder is empty and free for the next; zero: none */
    struct fr_wire_in in;
};

struct sup {
    const struct fr_supervise *a;
    struct sup_process *process;
    const struct fr_request *req; /* of a */
    struct fr_arena arena;
    struct fr_node_home home; /* of this process */
    struct fr_table table;
    struct fr_logfile log;
    struct fr_metrics metrics;
    enum sup_phase phase;
    struct fr_proc child;
    int child_fd, input_fd;
    int port_fd, claim_fd; /* bound until the launch; claimed until the end */
    int listen_fd;         /* of this attempt alone; -1: process->socket_fd serves it */
    uint32_t port;
    size_t input_at;       /* bytes of input written */
    struct fr_buf input;   /* owns */
    struct fr_strs masked; /* values hidden in the log */
    struct fr_strs go_env;
    char dir[FR_NODE_PATH];    /* of the attempt; "" before it is prepared */
    char output[FR_NODE_PATH]; /* FLOWRUN_OUTPUT */
    struct sup_stream streams[1 + SUP_SIDECARS];
    pid_t sidecars[SUP_SIDECARS]; /* also their sessions */
    size_t n_streams, n_sidecars;
    struct sup_conn conns[SUP_CONNS];
    struct fr_stopper stopper;
    bool alive; /* the command */
    bool go;
    int64_t expires_ms, timeout_ms; /* mono_ms; INT64_MAX: never */
    int64_t notice_ms;              /* mono_ms of the stop before the job's limit; likewise */
    int64_t lease_ms;               /* boot_ms; INT64_MAX: never */
    int64_t retry_ms;               /* next try to record the end */
    int64_t metrics_ms;             /* next look at the metrics; INT64_MAX: there are none */
    int64_t launch_due_ms;          /* latest time to send LAUNCHED; INT64_MAX: it was sent */
    struct fr_ended end;
    bool stopping; /* a stop has set end.cause already */
    bool exited;   /* the command ended by itself, with a status: its outputs count, and the last
                    * line of a built-in task is its reason */
};

/* launch.c */
enum fr_rc sup_prepare(struct sup *s, struct fr_err *err);
/* Journals LAUNCHED and starts the command; FR_STOPPED: a tombstone came first. */
enum fr_rc sup_launch(struct sup *s, struct fr_err *err);

/* sup_end.c. Journals the exit, together with the outputs so far. */
void sup_journal_exit(struct sup *s);
/* All processes are gone, or named as survivors: completes s->end, which is recorded next. */
void sup_gather_end(struct sup *s);
void sup_record(struct sup *s); /* tried again while the disk is full */
/* Removes the attempt's folder if it is empty, or keeps it for this process's next attempt. Called
 * after the end was sent, because it takes time and nothing waits for it. */
void sup_drop_dir(struct sup *s);

/* stream.c */
void sup_stream_add(struct sup *s, int fd, struct fr_str name);
void sup_stream_read(struct sup *s, struct sup_stream *st);
void sup_stream_end(struct sup *s, struct sup_stream *st);
void sup_input_write(struct sup *s);
void sup_metrics_look(struct sup *s);

/* sockets.c */
void sup_accept(struct sup *s, int listen_fd);
void sup_conn_read(struct sup *s, struct sup_conn *c);
void sup_conn_take(struct sup *s, struct sup_conn *c); /* the messages that were read already */
void sup_conn_write(struct sup *s, struct sup_conn *c);
void sup_conn_close(struct sup_conn *c);
void sup_send_prepared(struct sup *s, enum fr_rc rc, const char *text);
void sup_send_launched(struct sup *s);

/* oom.c: reads the machine's count of OOM kills before a command starts, at most once in
 * OOM_FRESH_MS: reading costs a share of a short task. */
void sup_oom_look(struct sup_process *process);
/* Whether the count grew since the last look: then a SIGKILL that was not ours is taken for the
 * kernel's. */
bool sup_oom_grew(struct sup_process *process);

/* supervise.c: an attempt from its beginning to its end. */
int sup_attempt(struct sup_process *process, const struct fr_supervise *a);
/* Begins to stop the command, for cause. */
void sup_stop(struct sup *s, enum fr_end_cause cause, uint32_t stop_cause, int64_t grace_ms);

#endif
