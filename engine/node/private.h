/*
 * Inside of serve: its state, shared by serve.c (loop, frames, hello), srv_run.c (the runs of the
 * connection), srv_attempt.c (commands of the engine), start.c (starts, and those that wait),
 * srv_live.c (supervisors), srv_bulk.c (logs and gets), srv_keep.c (removal), srv_put.c
 * (files received), srv_pipe.c (commands of Slurm), facts.c. Nobody else includes this.
 */
#ifndef FR_NODE_PRIVATE_H
#define FR_NODE_PRIVATE_H

#include "engine/base/sys.h"
#include "engine/supervise/home.h"
#include "engine/node/prune.h"
#include "engine/node/serve.h"
#include "engine/supervise/table.h"
#include "engine/supervise/tree.h"

enum {
    SRV_RETRY_MS = 20,      /* between tries to reach a supervisor's socket */
    SRV_SHIM_MS = 30000,    /* for a container to start the shim */
    SRV_SYNC_MS = 200,      /* journal writes are synced together */
    SRV_LOOK_MS = 4000,     /* between looks for a newer connection */
    SRV_STALLED_MS = 15000, /* after a stop's grace period: the supervisor is stalled */
    SRV_TAIL_MS = 200,      /* in each, FR_TAIL_MAX bytes of a tail are sent at most */
    SRV_IDLE_MS = 120000,   /* without a frame, the connection is given up */
    SRV_SPARE = 32,         /* idle supervisors kept for the next attempts */
    SRV_CTL_MAX = 1 << 20   /* control bytes in the queue above which no input is read */
};

/* A run that joined. */
struct srv_run {
    struct srv_run *next;
    struct fr_id id;
    int fd;            /* owns: its lock */
    int64_t leased_ms; /* boot clock: when the engine last renewed its leases; 0: not yet */
    uint64_t turn;     /* of its newest bulk message: the longest wait goes first */
};

/* An attempt that this connection deals with. */
struct srv_live {
    struct srv_live *next;
    struct fr_attempt *a; /* the table's */
    struct srv_run *run;  /* its run; NULL: it has left */
    uint64_t turn;        /* of its newest bulk message */
    int fd;               /* to its supervisor, -1 */
    struct fr_wire_in in;
    struct fr_buf out;      /* for the supervisor; kept until there is one */
    struct fr_buf order;    /* the handover until a supervisor answers it */
    uint64_t queued;        /* place in the queue for descriptors; 0: not queued */
    bool handed_over;       /* to a new supervisor process, not to a spare one */
    bool report;            /* the engine gets a message at its end */
    bool starting;          /* a prepare is not answered yet */
    bool waits;             /* its supervisor reported prepared, and no go has come */
    int64_t due_ms;         /* next look, INT64_MAX: none */
    int64_t stop_by_ms;     /* deadline of a stop that was sent; 0: none was */
    int64_t shim_until_ms;  /* 0: no shim awaited */
    struct fr_proc runtime; /* RUNTIME exec -d, pid 0: none */
    char box[65];           /* name of its container, cut to fit */
    uint32_t pid, port;
    bool sweeping;
    struct fr_stopper stopper;
    bool follow; /* its log is sent, from offset on */
    uint64_t offset;
    int log_fd, index_fd;
    bool more;       /* the log may have bytes from offset on, or the tail from tail_at on */
    bool tail;       /* the tail of a full log is sent, too */
    bool tail_ended; /* the end of the tail was sent */
    bool tail_waits; /* no more of the tail is sent before tail_ms */
    int tail_fd;
    uint64_t tail_at, tail_sent; /* tail_sent: since SRV_TAIL_MS before tail_ms */
    int64_t tail_ms;
    bool metrics; /* the metrics are sent, too, from metrics_at on */
    bool metrics_more, metrics_turn;
    uint64_t metrics_at;
    int metrics_fd;
};

struct srv_get {
    struct srv_get *next;
    struct srv_run *run;
    uint64_t turn;
    uint64_t ref, at, end, size;
    uint64_t until; /* the bytes before it may be sent */
    int fd;
    uint32_t mode;
};

enum srv_look {
    SRV_LOOK_NOT,
    SRV_LOOK_THERE, /* before the transfer: is the file there already? */
    SRV_LOOK_CAME,  /* after the transfer: has the file the right hash? */
    SRV_LOOK_TWICE  /* the hash is wrong: an older connection may have finished the file */
};

struct srv_put {
    struct srv_put *next;
    struct fr_id run;
    uint64_t ref, at, size;
    int fd;
    uint32_t mode;
    enum srv_look look;
    struct fr_hash *hash; /* owns: hashes the file, a slice a turn */
    struct fr_err err;    /* SRV_LOOK_TWICE: the answer if the file is not there */
    char sha256[65];
    char tmp[FR_NODE_PATH], path[FR_NODE_PATH];
};

/* A command of Slurm that runs for the engine. */
struct srv_pipe {
    struct srv_pipe *next;
    uint64_t ref, turn;
    struct fr_proc proc;  /* pid 0: it is reaped */
    int fd[3];            /* owns: our ends of its stdin, stdout and stderr; -1: closed */
    size_t at[3];         /* of fd in the poll list; 0: not there */
    struct fr_buf in;     /* for its stdin */
    bool in_ends;         /* no more follows in */
    bool gone;            /* the engine hears no more of it; it is still to be reaped */
    bool ready;           /* its stdout may have bytes */
    int64_t until_ms;     /* it is killed then; INT64_MAX: never */
    int64_t closed_ms;    /* since when its stdout is closed; 0: it is open */
    char why[FR_ERR_MAX]; /* it was killed, or has not begun; "": neither */
    char errors[FR_PIPE_ERRORS];
    size_t n_errors;
    int code; /* once it is reaped */
};

struct srv_samples { /* samples.c */
    int64_t due_ms;  /* INT64_MAX: none is; 0: the engine takes none */
    int64_t at_ms;   /* of the readings below */
    uint64_t cpu_busy, cpu_all, rx, tx;
    bool facts_told, gpus_asked;
    struct fr_proc gpu; /* nvidia-smi */
    int gpu_fd;         /* owns: its output; -1: there is none */
    struct fr_buf gpu_text;
};

struct srv {
    const struct fr_serve_args *a;
    struct fr_node_home home;
    struct fr_table table;
    struct fr_arena arena; /* for the whole connection: the base environment */
    struct fr_strs environ;
    struct fr_wire_in in;
    struct fr_buf ctl, out;      /* messages waiting; bytes being written */
    uint64_t credit;             /* bulk bytes that the engine still takes */
    uint64_t owed;               /* bulk bytes received and not yet granted again */
    bool hello, over, answered;  /* answered: a piece of the message that comes */
    struct fr_id store, channel; /* of hello: whose connection this is */
    uint64_t epoch;
    struct srv_run *runs; /* owns */
    uint64_t turns;       /* bulk messages so far */
    uint32_t keep_days;   /* of hello */
    bool same_disk;
    uint64_t keep_bytes, kept_bytes;
    int64_t swept_ms; /* wall clock; when the home was last scanned, and how */
    bool swept_alone;
    bool kept_more;             /* kept_bytes grew since it was written to the disk */
    struct fr_pruning *pruning; /* owns: a scan of the home under way; NULL: none */
    struct fr_buf acked;        /* owns: ids of acknowledged attempts whose files are left */
    size_t acked_at;            /* bytes of acked that are done */
    struct fr_prune_one removing;
    bool pruned_alone;      /* the whole scan held the exclusive lock */
    bool alone;             /* holds the exclusive lock: nothing is started */
    int64_t alone_until_ms; /* then the lock is shared again */
    int64_t received_ms;
    int64_t read_ms, before_ms; /* boot_ms of the last two reads: a message of the last read was
                                 * received after before_ms */
    int64_t look_ms;            /* the next look for a newer connection */
    int64_t sync_ms;            /* INT64_MAX: the journal is clean */
    struct srv_live *lives;
    size_t n_lives, n_queued; /* n_queued of them wait */
    uint64_t last_queued;     /* the newest turn that was given */
    struct pollfd *polls;     /* owns */
    struct srv_live **polled; /* owns: whose descriptors polls has */
    size_t cap_polls, cap_polled;
    char cgroup[FR_NODE_PATH]; /* serve's own; "": not looked for yet */
    bool no_cgroups;           /* none can be made below it */
    int spare[SRV_SPARE];      /* owns: sockets of supervisors without an attempt */
    size_t n_spare;
    struct srv_samples samples;
    struct srv_get *gets;
    struct srv_put *puts;
    struct srv_pipe *pipes; /* owns */
    size_t n_pipes;
    struct fr_err err; /* why it is over, rc 0: the input ended */
};

/* serve.c */
enum fr_rc srv_home(struct srv *s,
                    struct fr_err *err); /* opens s->a->home, and reads its journal */
void srv_send(struct srv *s, const struct fr_msg *m);
void srv_send_error(struct srv *s, uint64_t ref, const struct fr_err *err);
void srv_fail(struct srv *s, const struct fr_err *err); /* the connection ends */
void srv_end(struct srv *s,
             const struct fr_err *err); /* the same, and sends the error to the engine */
/* Appends the record and reads the journal. The table then says which record counts. */
enum fr_rc srv_journal(struct srv *s, const struct fr_rec *rec, struct fr_err *err);
uint64_t srv_epoch_of(const struct srv *s, struct fr_id id); /* the newest that is known */
bool srv_superseded(const struct srv *s);                    /* a newer connection has the node */

/* srv_run.c */
void srv_join(struct srv *s, struct fr_id run);
void srv_leave(struct srv *s, struct fr_id run);
struct srv_run *srv_run_find(const struct srv *s, struct fr_id run); /* NULL: it has not joined */
void srv_run_finish(struct srv *s);

/* srv_attempt.c: takes a message about attempts. */
void srv_attempt_message(struct srv *s, const struct fr_msg *m);
void srv_send_state(struct srv *s, struct fr_id id);
void srv_send_ended(struct srv *s, const struct fr_attempt *a);

/* srv_keep.c: at the first hello, before any attempt is looked at; when one was acknowledged. */
enum { FR_KEEP_DAYS_MAX = 1000000 };
void srv_keep_begin(struct srv *s, const struct fr_hello *h);
void srv_keep_acked(struct srv *s, struct fr_id attempt); /* queues the work for the steps */
void srv_keep_step(struct srv *s);                        /* scans and removes a slice */
bool srv_keep_busy(const struct srv *s);                  /* step() has work to do */
void srv_keep_finish(struct srv *s);

/* srv_live.c */
struct srv_live *srv_live_get(struct srv *s,
                              struct fr_attempt *a);  /* made when missing; NULL: no memory */
void srv_live_load(struct srv *s, struct fr_id run);  /* all of the run that are not over */
void srv_live_tidy(struct srv *s);                    /* removes sockets of the dead */
void srv_live_unlink(struct srv *s, struct fr_id id); /* the socket of a killed supervisor */
void srv_live_step(struct srv *s, struct srv_live *l);
void srv_live_read(struct srv *s, struct srv_live *l);
void srv_live_put(struct srv *s, struct srv_live *l, const struct fr_msg *m);
void srv_live_sweep(struct srv *s, struct srv_live *l, int64_t grace_ms);
void srv_live_drop(struct srv *s, struct srv_live *l); /* frees it */
void srv_live_finish(struct srv *s);

/* spare.c: gives the attempt to a supervisor, an idle one when there is one. */
struct fr_supervise;
enum fr_rc srv_hand_over(struct srv *s, struct srv_live *l, const struct fr_supervise *sup,
                         struct fr_err *err);
void srv_supervisor_cgroup(struct srv *s, struct fr_id socket_id,
                           char path[FR_NODE_PATH]); /* "": none */
/* A spare supervisor died before it took the attempt. True: a new supervisor has it now. */
bool srv_hand_over_again(struct srv *s, struct srv_live *l);
void srv_spare_keep(struct srv *s, struct srv_live *l); /* l's supervisor has ended its attempt */
void srv_spare_gone(struct srv *s, int fd);             /* a spare supervisor ended */
void srv_cgroup_tidy(struct srv *s);                    /* removes cgroups without a supervisor */
void srv_spare_finish(struct srv *s);

/* start.c: starts the attempt, whose PREPARED stands in the journal at journal_at or later. Where
 * there are no descriptors for it, it waits for its turn: until then it counts as prepared. */
void srv_start(struct srv *s, const struct fr_prepare *p, uint64_t journal_at);
void srv_start_queued(struct srv *s); /* starts those whose turn has come */
void srv_unqueue(struct srv *s, struct srv_live *l);
/* Answers a prepare: nothing was started, and nothing will be. */
void srv_refuse(struct srv *s, struct fr_id id, const struct fr_err *err);

/* shim.c: starts RUNTIME exec -d …; l->out then begins with the handover. */
enum fr_rc srv_shim_start(struct srv *s, struct srv_live *l, const struct fr_supervise *sup,
                          struct fr_err *err);

/* srv_bulk.c: puts one bulk message into s->out, or nothing. */
void srv_bulk_next(struct srv *s);
/* Sends the rest of a log that ends at end, if it is short: the last lines come before ENDED. */
void srv_bulk_rest(struct srv *s, struct srv_live *l, uint64_t end);
void srv_get_begin(struct srv *s, const struct fr_get *g);
void srv_get_more(struct srv *s, const struct fr_get_more *m);
void srv_bulk_leave(struct srv *s, const struct srv_run *run); /* ends its gets */
void srv_bulk_cancel(struct srv *s, uint64_t ref);
void srv_bulk_finish(struct srv *s);

/* srv_put.c */
void srv_put_begin(struct srv *s, const struct fr_put_begin *p);
void srv_put_data(struct srv *s, const struct fr_put_data *p);
void srv_put_end(struct srv *s, uint64_t ref);
bool srv_put_looking(const struct srv *s); /* step() has something to do */
void srv_put_step(struct srv *s);
void srv_put_leave(struct srv *s, struct fr_id run); /* ends its puts */
void srv_put_cancel(struct srv *s, uint64_t ref);
void srv_put_finish(struct srv *s);

/* srv_pipe.c */
void srv_pipe_open(struct srv *s, const struct fr_pipe_open *m);
void srv_pipe_data(struct srv *s, const struct fr_pipe_data *m);
void srv_pipe_close(struct srv *s, const struct fr_pipe_close *m);
enum { SRV_PIPE_POLLS = 3 }; /* descriptors of one */
/* Adds those that are waited for to the n in polls, and returns how many there are then. */
nfds_t srv_pipe_wanted(struct srv *s, struct pollfd *polls, nfds_t n);
void srv_pipe_step(struct srv *s, const struct pollfd *polls); /* after a poll of these */
/* Puts a piece of its stdout into s->out. False: there is none now. */
bool srv_pipe_send(struct srv *s, struct srv_pipe *p);
int64_t srv_pipe_due(const struct srv *s);     /* mono_ms of the next step; INT64_MAX */
void srv_pipe_finish(struct srv *s);           /* kills them */
void srv_granted(struct srv *s, size_t bytes); /* bulk bytes came: grants as many again */

/* facts.c */
void srv_facts(struct srv *s, uint64_t ref);
void srv_facts_list(const struct srv *s, struct fr_arena *arena, struct fr_strs *out);

/* samples.c: at a hello that takes them */
void srv_samples_begin(struct srv *s);
void srv_samples_step(struct srv *s);
void srv_samples_finish(struct srv *s);

#endif
