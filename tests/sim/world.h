/*
 * A host with runs of a pipeline and three nodes on simulated machines (sim.h), and the rules that
 * hold at every moment, whatever strikes:
 *
 *   - no attempt's command runs twice, and none that the store does not know
 *   - never two attempts of one instance at once, nor two generations of a gang, nor one twice
 *   - a task starts only after all that it needs succeeded
 *   - the runs together never use more slots of a node than it has
 *   - at most one attempt of an instance succeeds, and it did exit with 0
 *   - the copy of a log at home is byte for byte what the command wrote
 *   - a file gets its name only once its bytes are safe
 *   - the runs of a host share one link to each machine
 *   - in the end the database is sound, nothing is left running, and no file lies about of which no
 *     row knows
 *
 * A test gives a pipeline, and looks at the world between the turns: there it strikes, asks for
 * things as a user does, and says when it is enough. Commands of a pipeline are
 *
 *     argv: [sim, MS, CODE, MODE]
 *
 * MODE: once (only the first attempt takes MS and CODE, later ones succeed), wild (ignores SIGTERM
 * and leaves a child in a session of its own), out (gives the output v=TASK.NODE.$IN), side (a
 * sidecar), stuck (no signal ends it before its time), loud (it writes more than a piece of a link
 * holds just before its end), nest (`flowrun FILE`; FILE is the next word).
 */
#ifndef TESTS_SIM_WORLD_H
#define TESTS_SIM_WORLD_H

#include "engine/host/host.h"
#include "engine/run/run.h"
#include "tests/sim/client.h"
#include "tests/sim/sim.h"

#include <sqlite3.h>

/* For retry.on: the causes of attempts that a fault of a node, a link or flowrun ends. A task that
 * lists them gets through any fault. */
#define WORLD_FAULTS "signal, timeout, node_lost, lost, start_failed"

enum {
    WORLD_RECORDS = 1024,
    WORLD_TASKS = 96,
    WORLD_NEEDS = 16,
    WORLD_RUNS = 8,
    WORLD_ASKS = 8,
    WORLD_HOSTS = 64,
    WORLD_CLIENTS = 128,
    WORLD_PAUSES = 16,
    WORLD_DBS = 64 /* connections to the store at once */
};

/* What truly happened to one attempt. */
struct record {
    char attempt[40], run[40], task[16], node[16], generation[12];
    char item[12]; /* its number; "": the task has none */
    bool exited;   /* by itself, with 0 */
    bool side;     /* its sidecar was started, too */
    int64_t spawned_us;
    char written[8192];
    size_t n_written;
};

struct world_task { /* of the plan that the engine made */
    char name[16];
    bool gang;
    uint32_t count, slots;
    bool awaited; /* its instances are those of a list that gets known */
    enum fr_run_if run_if;
    bool best_effort;
    size_t n_needs, needs[WORLD_NEEDS];
    unsigned states[WORLD_NEEDS]; /* in which these must end; 0: as run_if says */
};

struct world_ask { /* a request of a client to the host */
    char path[64], body[256];
    bool answered;
};

struct world {
    struct sim sim;
    uint64_t seed;
    const char *yaml;
    char home[128];
    size_t runs; /* of the pipeline, at once; 0: one */
    int64_t priorities[WORLD_RUNS];
    const char *folder;    /* of pipelines with schedules, on control; NULL: none … */
    int64_t until_wall_ms; /* … and a host that stays has to do with them until then */
    bool stays;            /* the host does, until no run is open nor is to run again by itself */
    bool removes;          /* runs are: no row knows what their nodes keep of them */
    bool own_tasks;        /* what tasks do is the test's own: no records are kept of them */
    int64_t give_up_us;    /* it has not ended so late; 0: 40 hours */
    void (*turned)(struct world *w, struct fr_host *host); /* it was; NULL: nobody looks */
    void (*statement)(struct world *w, const char *sql);   /* of a flowrun; it is about to be run */
    bool others; /* the runs behind the first one are of /others.yaml, whose tasks have other names
                  */
    struct sim_slurm *slurm; /* a cluster that places are of (slurm.h); NULL: there is none */
    struct world_task tasks[WORLD_TASKS];
    size_t n_tasks;
    uint32_t slots[SIM_MACHINES];
    sqlite3 *db;             /* the checker's own look at the store */
    struct sim_proc *engine; /* NULL: none lives */
    pid_t engine_pid;
    int64_t restart_us; /* flowrun resume; INT64_MAX */
    int64_t restart_max_us;
    bool over, failed, quiet;
    bool settled;      /* the home's database is made: a run begins with its submit */
    int64_t refuse_us; /* commits of flowrun fail before */
    bool veto;         /* the commit under way fails … */
    bool condemned;    /* … and flowrun is killed at its next call */
    bool powerless;    /* … by a power cut of control */
    bool committing;   /* flowrun is inside of a commit: it is condemned, not killed at once … */
    bool committed;    /* … at the second of its two points */
    bool may_fail;     /* flowrun may end with an error that says why; then it is resumed */
    int64_t look_us;   /* look is wanted then at the latest; INT64_MAX */
    bool retry;        /* the next resume is a retry */
    int starts, asked; /* engines; requests that a host granted */
    struct world_ask asks[WORLD_ASKS];
    size_t n_asks;
    enum fr_outcome outcome; /* once over */
    struct client clients[WORLD_CLIENTS];
    size_t n_clients;
    struct client_pause pauses[WORLD_PAUSES];
    size_t n_pauses;
    pid_t hosts[WORLD_HOSTS]; /* that committed, in their order; of the newest ones */
    size_t n_hosts;
    struct fr_buf story;           /* faults so far, for a report */
    char why[512];                 /* the first rule that was broken */
    void (*look)(struct world *w); /* before each turn; may strike */
    void *test;
    size_t n_records;
    struct record records[WORLD_RECORDS];
};

struct world *world_of(struct sim *s);

/* Takes fr_sys. */
void world_setup(void);

/* Runs the pipeline from its submit to its end and 200 s beyond; false: a rule was broken, w->why.
 * Before it, w->look, w->test, w->runs and w->settled may be set; begin is called once the machines
 * stand. yaml NULL: no engine begins; the test starts clients (client.h), and says w->over. */
bool world_run(struct world *w, const char *yaml, uint64_t seed, void (*begin)(struct world *w));
void world_finish(struct world *w); /* frees what is left of a run, not w */
void world_clean(void);             /* the folder of the store */

__attribute__((format(printf, 2, 3))) void world_violated(struct world *w, const char *fmt, ...);
__attribute__((format(printf, 2, 3))) void world_tell(struct world *w, const char *fmt, ...);

/* Kills. Each may be called from within any simulated process, also of itself. */
void world_kill(struct world *w, struct sim_proc *p, const char *why);
void world_kill_engine(struct world *w, bool reboot);
/* The power of control fails: its processes, what was not synced of its files and of the store. */
void world_lose_power(struct world *w);
struct sim_proc *world_pick(struct world *w, struct sim_machine *m, const char *comm,
                            uint64_t choice); /* NULL: none */

/* Asks the host, as `flowrun cancel` does: by a process of its own, later. */
void world_request(struct world *w, const char *kind, const char *arg);
/* The same with any POST. It is asked again until a host answers. */
void world_ask(struct world *w, const char *path, const char *body);

/* A client knocks at the host's door: it takes a turn. */
void world_knock(struct world *w);

/* world.c, for clients: the link to the machine of a node by its name, n1 to n3; any other is
 * control. What a plan says of its tasks, unless their names are known. */
int world_machine(const char *node);
enum fr_rc world_link(void *arg, const struct fr_exec_node *node, struct fr_link *out,
                      struct fr_err *err);
void world_know(struct world *w, const struct fr_plan *plan);

/* world_db.c: whether the process is in the middle of a transaction. Its connections end with it.
 */
bool world_writes(const struct sim_proc *p);
void world_db_leave(const struct sim_proc *p);
int world_db_open(sqlite3 *db, char **err, const struct sqlite3_api_routines *api);

/* world_program.c: what a simulated process of a task runs; its exit code. */
int world_program(void *arg);

/* world_check.c */
void world_on_spawn(struct sim *s, struct sim_machine *m, const struct fr_spawn *sp);
struct record *world_record(struct world *w, const char *attempt);
const struct world_task *world_task(const struct world *w, const char *name);
void world_wrote(struct world *w, const struct sim_proc *host); /* it commits */
int world_succeeded(const struct world *w, const char *task, const char *node);
void world_check_end(struct world *w);
/* The rows of a query over the store as text, a line each; columns by '|'. */
void world_rows(struct world *w, const char *sql, struct fr_buf *out);
long world_number(struct world *w, const char *sql); /* of its only row and column */
sqlite3 *world_db(struct world *w);                  /* NULL: none yet */

#endif
