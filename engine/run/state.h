/* The data of a run. Only engine/run includes this header. */
#ifndef FR_RUN_STATE_H
#define FR_RUN_STATE_H

#include "engine/base/json.h"
#include "engine/base/sys.h"
#include "engine/ship/shipment.h"
#include "engine/run/shipped.h"
#include "engine/run/run.h"
#include "engine/store/blob.h"
#include "engine/store/home.h"

/* The exit code of an attempt whose command ended with 0 but wrote outputs that cannot be read. */
enum { RUN_EXIT_OUTPUTS = 65 };

/* After its end the run waits for its last logs: this long, and again while bytes arrive. */
enum { RUN_LINGER_MS = 10000 };

struct run_start; /* start.c */

/* The copy of an attempt's output: runs/<id>/<name>, and <name>.idx with (offset, wall) pairs.
 * While the node's log is full and has no end, <name>.tail has the newest bytes (base/tail.h). */
struct run_log {
    char *name; /* in the run's arena */
    int fd, idx_fd;
    uint64_t size;       /* bytes here, a prefix of those on the node */
    uint64_t idx_offset; /* of the newest pair */
    uint64_t idx_size;
    int64_t idx_wall;
    bool failed;      /* could not be written; reported once */
    bool tail_failed; /* the tail could not be written; reported once */
    bool full;        /* its newer output comes as a tail; reported once */
    bool cut;         /* the node sent more than the task's limit: the rest is not kept */
    bool refetch;     /* control lost power since: the node's copy replaces this one */
};

/* The copy of an attempt's metrics: runs/<id>/metrics/<name> */
struct run_metrics {
    uint64_t size;                 /* bytes here, a prefix of those on the node */
    bool failed;                   /* could not be written; reported once */
    bool cut;                      /* the node sent more than the limit: the rest is not kept */
    bool refetch;                  /* as run_log.refetch */
    bool judged;                   /* chain.c has seen its first row */
    struct run_progress *progress; /* owns: state from its rows; NULL: none came */
};

struct run_remark {            /* an event about an instance that keeps its state */
    uint32_t inst, attempt_no; /* FR_PLAN_NONE, 0: of the run */
    const char *kind;          /* of its event row */
    struct fr_buf text;        /* owns */
    int64_t wall_ms, seq;
};

#define RUN_OCCASION_ID(id, word) OCCASION_##id,
enum { FR_OCCASIONS(RUN_OCCASION_ID) RUN_OCCASION_N }; /* places in fr_run.occasion */
#undef RUN_OCCASION_ID

struct run_block {                 /* of a task, while it waits for a secret of a variable */
    const struct fr_secret *lacks; /* NULL: it does not */
    const char *text;              /* the same in words, in the run's arena; NULL: not needed yet */
    int64_t until_ms;              /* the wait ends then; INT64_MAX: never, or no instance waits */
};

/* An attempt that is not yet acknowledged: the newest of its instance, or an older one whose log is
 * still coming. */
struct run_attempt {
    struct run_attempt *next;
    struct fr_id id;
    uint32_t inst, no, generation;
    struct run_start *start; /* owns: being staged, not yet sent; NULL afterwards */
    bool sent;               /* the node may know it */
    bool booked;             /* its row is committed, its start is still to come */
    bool followed;           /* the node sends its log */
    bool busy;               /* an older attempt still runs in its place and is being stopped */
    bool ended, log_end;     /* its end, and the end of its log, were posted */
    enum fr_cause displaced; /* by its keeper (node_lost), or before its limit (time_limit): its
                              * end waits for the allocation's. NONE: it is not */
    bool missing_said;       /* users know that its output does not come */
    bool ack;                /* its end is committed */
    uint64_t log_bytes, metrics_bytes; /* once ended */
    struct run_log log;
    struct run_metrics metrics;
    struct fr_id home_id;
    char boot_id[40];
    int port; /* on the head, for the rendezvous */
    char reason[256];
    bool outputs_new;       /* to be written with the next row */
    struct fr_strs outputs; /* "K=V", in the run's arena */
};

struct run_inst {
    struct fr_strs outputs; /* of its newest ended attempt: "K=V", in the run's arena */
    int64_t started_wall, ended_wall, unreachable_wall;
    int64_t launched_wall,
        end_wall;              /* of its newest attempt, as reported by its node; 0: not known */
    const char *reason;        /* in the run's arena; never NULL */
    const char *no_when;       /* why its when: has none; in the arena; NULL: it has */
    struct fr_attempt_row row; /* of its newest attempt, as stored; texts in the arena */
    enum fr_state_of state;    /* of its newest event row, committed or prepared */
    bool unreachable;          /* likewise */
    size_t last_act;           /* its newest row among the prepared acts */
    size_t changed_attempt;    /* 1 + the place of row in run->changed_attempts; 0: not there */
};

struct run_node {
    bool up, refused;
    bool known;         /* home and boot are those of the newest hello */
    bool foreign_shown; /* users know that it reported an attempt of another node */
    struct fr_id home_id;
    char boot_id[40];
    const char *boot_kept; /* boot_id in the arena, for rows; NULL until one needs it */
    const char *address;   /* of a place, in the arena; NULL: nowhere yet */
    int64_t deadline_wall; /* of its allocation; 0: none, or not known */
    char *store;           /* absolute path of its store folder; NULL until a put was answered */
    int64_t down_wall;     /* unreachable since; 0: it is not */
    int64_t away_wall;     /* likewise, of the host before, until this one reaches it */
    bool dirty;            /* to be written with the next commit */
    char reason[256];      /* why it is unreachable, or refused */
};

/* A put or get whose answer is awaited, by ref. */
struct run_job {
    struct run_job *next;
    uint64_t ref;
    struct run_attempt *at; /* NULL: its attempt is gone, the answer is dropped */
};

struct run_other { /* an older attempt that is stopped because it runs in the place of ours */
    struct run_other *next;
    struct fr_id id, attempt;
    uint32_t inst;
};

/*
 * A transition of an instance or of the run. It is prepared once, when its commit is tried for the
 * first time, and stays until the commit succeeded: a further try writes the same.
 */
struct run_change {
    size_t act;       /* its row among the acts */
    const char *text; /* its reason; in the run's arena */
    int64_t wall_ms;
    int64_t seq;        /* of its newest event row; 0: it has none */
    bool state, reach;  /* an event row for the new state; for unreachable or reachable */
    uint64_t log_bytes; /* at the end of an attempt: output that it wrote */
};

/* The list of a task with foreach: that is known and not yet in the plan, or not wholly in rows. */
struct run_list {
    struct run_list *next;
    uint32_t task;
    struct fr_items *items; /* at least one */
    const char *text;       /* JSON; all in the run's arena */
};

struct run_growth {               /* the first list enters the rows */
    const struct fr_plan *before; /* the plan without it; NULL: none does */
    struct fr_arena arena;        /* of that plan, until views have the new one */
    bool stored;                  /* list and new numbers are committed, with the first rows */
    uint32_t next, end, put;      /* its rows that are not committed; those of this commit */
};

struct run_done {
    uint32_t inst, no;
    struct fr_id id;
};

struct fr_run {
    struct fr_run_env env; /* borrows all */
    struct fr_arena arena;
    const char *home;
    char *dir; /* runs/<id> */
    struct fr_id id;
    struct fr_run_row row;
    const char *occasion[RUN_OCCASION_N]; /* schedule.*; NULL: an older flowrun made the run */
    struct fr_spec *spec;                 /* owns */
    struct fr_plan *plan;
    struct fr_arena plan_arena; /* of plan alone */
    struct fr_sched *sched;     /* owns */
    struct fr_exec exec;        /* owns */
    struct run_inst *insts;     /* owns: n_insts */
    struct run_node *nodes;     /* n_nodes, in arena */
    struct run_remark *remarks; /* to be written, and shown after the commit; fr_sys */
    size_t n_remarks, cap_remarks;
    struct fr_event_rows *told;           /* of earlier processes, in arena; NULL: not read yet */
    struct run_attempt *attempts, *spare; /* spare: dropped, to be used again */
    struct run_job *jobs;
    struct fr_shipment shipment;
    struct run_shipping shipping;
    struct run_other *others;
    struct fr_file_rows files; /* staged at submit */
    uint64_t last_ref;
    int64_t seq; /* of the newest event row, written or prepared */

    struct fr_exec_event *posted, **posted_last; /* posted, not yet looked at */
    struct fr_event *events;                     /* for the scheduler, not yet applied; fr_sys */
    size_t n_events, cap_events;
    struct fr_acts acts;        /* of this drain */
    size_t looked;              /* acts up to here: EVAL performed */
    size_t early;               /* likewise: effects that need not wait performed */
    size_t prepared;            /* likewise: their changes are in the list */
    struct run_change *changes; /* to be written, and shown after the commit; fr_sys */
    size_t n_changes, cap_changes;
    struct fr_attempt_row *changed_attempts; /* to be written, one row an attempt; fr_sys */
    size_t n_changed_attempts, cap_changed_attempts;

    struct fr_strs shell_env; /* of fr_run_inherited(), "K=V"; in the arena */
    uint32_t shell_umask;     /* as fr_spawn.umask */
    bool nodes_changed;       /* a node is dirty */
    bool marked;              /* begun/ID: it has stored blobs that no row names yet */
    bool found;               /* some of its blobs were stored before: sync their folder, too */
    bool added;               /* its row is committed */
    bool moved;               /* its stored rows have numbers of another plan */
    uint32_t put, putting;    /* instances with a committed row; further ones of this commit */
    struct run_list *lists;   /* in the order in which they were evaluated */
    struct run_growth growth;
    uint32_t n_lists;         /* in the plan */
    bool unput;               /* the host before did not write all rows of a list */
    bool queued;              /* waits for fr_run_admit() */
    bool retries;             /* queued for a further round: it was over before */
    bool resetting;           /* its row is marked: a retry has not reset all instances yet */
    int64_t reruns;           /* automatic reruns before its next round; of a new run: before it */
    const char *retry_from;   /* a task; NULL: from all failures */
    bool secrets_ready;       /* a secret's command has answered */
    bool shell_changed;       /* the shell has more values */
    struct run_block *blocks; /* one a task, in the arena; NULL: the pipeline has no secrets */
    int64_t block_due_ms;     /* the first wait for a secret ends then */
    bool no_value;            /* the last expression that run_value() saw has no value */
    bool sent_early;          /* in this drain */
    void (*wake)(void *arg);
    void *wake_arg;
    int64_t commit_ms;                    /* how long the last one took */
    int64_t lease_every_ms, lease_due_ms; /* 0: no task has a lease */
    int64_t log_due_ms;    /* a log could not be written: follow it again then; INT64_MAX: none */
    int64_t stall_due_ms;  /* a task may be stalled then, or the run late */
    bool late_waits;       /* a look came long after the run was late: reports may lie unread */
    struct run_done *done; /* acknowledged since the last commit; fr_sys */
    size_t n_done, cap_done;
    int64_t held_ms;   /* since when decisions wait for their commit; 0: none waits */
    bool over;         /* FR_ACT_OVER was performed, here or by an earlier host */
    bool late;         /* it was over before this process loaded it to fetch output */
    int64_t over_ms;   /* when; moved on while logs still arrive */
    size_t late_bytes; /* of logs that arrived since then */
    bool fatal;        /* the scheduler is unusable */
    struct fr_err fatal_err;
};

#endif
