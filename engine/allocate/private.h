/* Inside engine/allocate. */
#ifndef FR_ALLOCATE_PRIVATE_H
#define FR_ALLOCATE_PRIVATE_H

#include "engine/allocate/allocate.h"
#include "engine/allocate/folder.h"
#include "engine/exec/login.h"
#include "engine/slurm/accounting.h"
#include "engine/slurm/cluster.h"
#include "engine/slurm/commands.h"
#include "engine/store/allocations.h"

/* A cluster that inventories name, as this host asks it. */
struct host_cluster {
    struct host_cluster *next;
    struct fr_host *host; /* borrows */
    struct fr_arena arena;
    struct fr_login *login;     /* owns: where its commands run; NULL: on this machine */
    struct fr_cluster *cluster; /* owns */
    const char *path;           /* "": PATH */
    const char *login_text;     /* as in rows; "": there is none */
    int64_t ask_ms;   /* mono_ms() when its jobs are asked for; INT64_MAX: none waits for that */
    bool asking;      /* squeue runs */
    bool known;       /* what it says of itself: nothing is submitted before */
    char name[64];    /* ClusterName; "": it has not said it yet */
    bool introduces;  /* that is being asked */
    char broken[400]; /* why it cannot be asked from here; "": it can */
    enum { PYXIS_UNKNOWN, PYXIS_ASKED, PYXIS_THERE, PYXIS_ABSENT } pyxis; /* the plugin of srun */
    int64_t kill_wait_ms;
    bool cgroups;    /* a job's processes end with it, for sure */
    bool binds;      /* as of fr_slurm_submit */
    bool accounting; /* slurmdbd keeps what jobs had */
    bool accounts;   /* sacct runs */
    bool cancels;    /* scancel runs */
    bool submits;    /* sbatch of an array runs, or is about to: one at a time */
    int max_array;   /* an index of an array is less */
    int open;        /* jobs that it may have of this host; counted once a turn */
    size_t chunk;    /* so many elements of an array at most, as a limit of Slurm was met; 0: any */
    int64_t later_ms; /* nothing is submitted before, for that limit */
};

enum folder_call { FOLDER_MAKE, FOLDER_READ, FOLDER_REMOVE };

/* A call on the folder of an allocation. */
struct folder_job {
    struct fr_work work;
    struct host_allocation *al; /* borrows */
    enum folder_call call;
    bool there;            /* it runs on the login node */
    bool array;            /* MAKE: for an array */
    struct fr_arena arena; /* owns all texts */
    const char *folder;
    struct fr_allocation_spec spec; /* MAKE: what the script needs of it */
    const char *flownode;           /* MAKE: path of the program on this machine … */
    const char *program;            /* … and, once it is made, of its copy */
    int64_t job, kill_wait_ms, lease_ms;
    bool binds;
    size_t n;            /* places */
    struct fr_buf files; /* READ: what fr_folder_read() added */
    bool answers;        /* it was begun after an answer of Slurm */
    enum fr_rc rc;
    struct fr_err err;
};

enum { ALLOC_SEEN_MOST = 4 }; /* jobs of one tag */

struct host_allocation {
    struct host_allocation *next;
    struct fr_host *host;                  /* borrows */
    struct host_run *h;                    /* NULL: the host does not drive its run */
    int64_t run_no;                        /* of the run; 0: the host never drove it */
    struct host_cluster *cluster;          /* borrows */
    const struct fr_allocation_spec *spec; /* of the run's pipeline; NULL while h is */
    struct fr_allocation a;
    struct fr_allocation_row row; /* as stored, its texts in arena */
    struct fr_arena arena;
    unsigned due; /* actions that wait for the row to be written */
    bool stored;  /* the row is in the store */
    bool dirty;
    bool made;           /* its folder is there, for the submit that comes */
    bool ask_now, asked; /* squeue is to be asked for it; is */
    bool answered;       /* it has: seen is told once the folder is read */
    struct fr_slurm_job seen[ALLOC_SEEN_MOST];
    size_t n_seen;
    int64_t twin;
    int failed;                   /* so many in a row did not begin */
    bool leaves;                  /* its run is over, or has another one: it goes once it is done */
    bool pauses;                  /* OVER: until used_ms */
    int64_t used_ms;              /* something last needed it; OVER: when the next may be taken */
    bool moves;                   /* it goes to another place, once its row says so */
    int64_t moved_ms;             /* it did then */
    struct host_allocation *lead; /* SUBMITTING: the element whose sbatch asks for this one, too */
    bool cancels, cancelled;      /* scancel is due; runs */
    struct folder_job *job;       /* owns; NULL: none runs */
    int64_t look_ms;              /* the folder is read then; INT64_MAX: not */
    struct alloc_place *places;   /* texts in arena; NULL: not all are known */
    size_t n_places;
    bool closed;      /* all keepers have written that nothing is left */
    bool removes;     /* its folder is to be removed */
    bool tells, told; /* its end: the run has yet to decide on it; it has */
    /* The newest note to the run's users: of one that is wanted, of others. Of copies of all. */
    char said[2][FR_ALLOCATION_NOTE];
    int64_t account_ms; /* accounting is asked for it then */
    int account_tries;  /* answers so far, useful or not */
    bool account_asked;
    struct fr_account account; /* of the answer that is read */
};

struct host_allocations {
    struct host_allocation *first; /* owns; those not over, and the newest of each name of a run */
    struct host_cluster *clusters; /* owns */
    int64_t retry_ms;              /* rows could not be written; 0: none failed */
    bool drains;                   /* nodes were drained or undrained: all runs are looked at */
};

/* Index of its first place among the nodes of its run's spec. */
static inline int alloc_first(const struct host_allocation *al)
{
    return al->spec->first + (al->row.copy > 0 ? (int)al->row.copy - 1 : 0);
}

/* rows.c */
struct host_allocations *allocations_of(const struct fr_host *host);
/* Applies ev; the host writes the row in this turn, and then performs the actions. */
void alloc_apply(struct host_allocation *al, const struct fr_allocation_event *ev);
void alloc_life(const struct fr_allocation_row *row, struct fr_allocation_life *l); /* as stored */
enum fr_rc alloc_write(struct fr_host *host, struct fr_err *err); /* rows that have changed */

/* allocations.c */
/* The allocation of each first place of a run that counts; others are NULL. NULL: no memory. */
struct host_allocation **alloc_newest(const struct host_run *h, struct fr_arena *arena);
/* copy: which one; 0: it has none. before: the one that it follows, which leaves; NULL: none. */
enum fr_rc alloc_take(struct host_run *h, const struct fr_allocation_spec *spec, int copy,
                      struct host_allocation *before, struct fr_err *err);
void alloc_leave(struct host_allocation *al); /* its run has another one, or none */

/* needs.c */
enum fr_rc alloc_look(struct host_run *h, struct fr_err *err);

/* drive.c */
void alloc_act(struct host_allocation *al);               /* al->due */
void alloc_turn(struct host_allocation *al, int64_t now); /* what has become due */
int64_t alloc_due(const struct host_allocation *al);      /* mono_ms; INT64_MAX */
int64_t alloc_ask_ms(const struct host_allocation *al);   /* INT64_MAX: it needs no answer */
void alloc_forget(struct host_allocation *al);            /* nothing answers any more */
/* Slurm has told al->seen. log: the end of what its job wrote. */
void alloc_answer(struct host_allocation *al, struct fr_str log);

/* submit.c */
/* When it may be submitted; INT64_MAX: something else comes first. */
int64_t alloc_begin_ms(const struct host_allocation *al);
void alloc_begin(struct host_allocation *al);  /* it is, once its row is written */
void alloc_submit(struct host_allocation *al); /* FR_ALLOCATION_DO_SUBMIT */
void alloc_made(struct host_allocation *al, struct folder_job *j);
void alloc_refuse(struct host_allocation *al, const struct fr_err *err);

void alloc_job_over(struct host_allocation *al, struct folder_job *j); /* it is freed then */

/* job.c */
void alloc_job_start(struct host_allocation *al, enum folder_call call);
void alloc_job_forget(struct host_allocation *al);

/* clusters.c */
/* The cluster with Slurm's commands there: of the row, its path, its login node and its budget.
 * NULL: no memory. */
struct host_cluster *alloc_cluster(struct fr_host *host, const struct fr_allocation_row *row);
void alloc_cluster_destroy(struct host_cluster *c);
void alloc_cluster_again(struct host_cluster *c);    /* asks what it says of itself */
void alloc_ask(struct host_cluster *c, int64_t now); /* squeue, if it is due */
void alloc_cancel(struct host_cluster *c);           /* scancel of all that are to be cancelled */

/* container.c */
/* Whether a job of it may be submitted as far as its container is concerned. FR_BUSY: its cluster
 * is being asked; FR_UNSUPPORTED: it has no pyxis. */
enum fr_rc alloc_container_ok(struct host_allocation *al, struct fr_err *err);
/* Copies what the script needs of the container. False without memory. */
bool alloc_container_copy(const struct fr_slurm_container *from, struct fr_arena *arena,
                          struct fr_slurm_container *to);

/* accounting.c */
/* Before a row is written: what is over is asked for where its cluster has accounting. */
void alloc_account_begin(struct host_allocation *al);
void alloc_account(struct host_cluster *c, int64_t now);     /* sacct, if it is due */
int64_t alloc_account_due(const struct host_allocation *al); /* mono_ms; INT64_MAX: not asked */
bool alloc_account_owed(const struct host_allocation *al);   /* an answer may come soon */

/* login.c */
const char *alloc_login_text(const struct fr_node *login, struct fr_arena *arena); /* for rows */
enum fr_rc alloc_login_create(struct host_cluster *c, const char *text, struct fr_err *err);
/* Its commands can be run. */
static inline bool alloc_login_up(const struct host_cluster *c)
{
    return fr_runner_ready(fr_cluster_runner(c->cluster));
}

/* places.c */
fr_place_fn alloc_find;
void alloc_places_known(struct host_allocation *al); /* al->places: they may be connected */
void alloc_moved(struct host_allocation *al);        /* its row says where it is now */
void alloc_places_gone(struct host_allocation *al);  /* it is over: the run hears of it */
void alloc_displace(struct host_allocation *al);     /* what lived in it has ended with it */
/* Why its cluster cannot be asked now. False: it can. */
bool alloc_is_away(const struct host_allocation *al, struct fr_buf *out);
/* What it waits for, if that is news. True: it waits. */
bool alloc_say(struct host_allocation *al);

/* left.c */
/* Lines about the jobs of Slurm that nobody looks after once the host has ended. */
void alloc_say_left(const struct fr_host *host, struct fr_buf *out);

#endif
