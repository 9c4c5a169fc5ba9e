/*
 * Schedules over a simulated year: what is planned (fires_plan.c), and whether the host does that
 * (fires_judge.c). What is right follows from the rules of the schedules, the lists of their fires
 * (tests/sim/almanac.h) and what happened; nothing of it from the program.
 */
#ifndef TESTS_FAULT_FIRES_H
#define TESTS_FAULT_FIRES_H

#include "tests/sim/almanac.h"
#include "tests/sim/world.h"

enum { FIRES_FILES = 6, FIRES_EACH = 4, FIRES_VERSIONS = 24, FIRES_JUDGED = 64 };

/* ---- what is planned ---- */

enum { CATCH_NONE, CATCH_LAST, CATCH_ALL };
enum { OVER_SKIP, OVER_QUEUE, OVER_CANCEL, OVER_PARALLEL, OVER_N };

struct fires_version { /* of a schedule, as its file has it at a time */
    struct almanac_rule rule;
    struct almanac fires; /* owns */
    int64_t jitter_s, delay_ms, grace_s;
    int catchup, limit, overlap, queue_max, pause_after, priority;
    int64_t takes_ms; /* its runs */
    int code;         /* … and how they end */
};

struct fires_schedule {
    char name[8];
    bool there; /* in its file */
    struct fires_version versions[FIRES_VERSIONS];
    size_t n;
};

struct fires_file {
    int no;
    char path[40], pipeline[8];
    bool there, broken;
    struct fires_schedule schedules[FIRES_EACH];
    size_t n;
};

/* Draws the file's schedules, and writes it. */
void fires_plan(struct fires_file *f, int no, uint64_t *rng, int64_t now_s);
/* Draws again what may be edited without a new beginning; else the rule, too. */
void fires_edit(struct fires_file *f, size_t i, bool rule, uint64_t *rng, int64_t now_s);
/* The file as it is now is written to its machine, broken or whole, or removed from there. */
void fires_write(const struct fires_file *f, struct sim_machine *m);
void fires_free(struct fires_file *f);

/* ---- what becomes of it: new rows fires_judge.c, all others fires_store.c, tasks fires_task.c
 * ---- */

struct fires_row { /* of the store */
    int64_t schedule, at_ms, first_ms, count, run, decided_wall;
    char decision[12], outcome[12];
};

struct fires_judged { /* a schedule of the store */
    int64_t id, seen_ms, since_ms, gone_wall, state_wall;
    char source[40], name[8], print[72];
    bool paused;
    struct fires_file *file;
    struct fires_schedule *plan;
    size_t oldest; /* of the versions that the host may go by */
    size_t rule;   /* the version whose rule it took */
    struct fires_row *rows;
    size_t n_rows;
    int asked;        /* a pause or resume was asked for, and is not seen yet: */
    bool ask_pause;   /* … of these the newest */
    bool ask_catchup; /* … with what was paused */
    int64_t ended_us; /* a run of it succeeded last */
};

struct fires_live { /* a run that is not over */
    int64_t no, schedule;
    char pipeline[8], origin[12], state[12];
};

struct fires_run {       /* by its number */
    int64_t previous_ms; /* of the newest instant that had succeeded when it was made; 0: none */
    bool racing;         /* one of before ended about then */
    int executed;        /* so often its task began */
    char attempt[40];
};

struct fires_court {
    struct world *w;
    struct fires_file files[FIRES_FILES];
    struct fires_judged judged[FIRES_JUDGED];
    size_t n_judged;
    struct fires_live *live, *before; /* now, and before the newest commit */
    size_t n_live, n_before;
    bool touched, dirty; /* the commit under way, the one before: concerns what is judged */
    int64_t steady_us;   /* since then nothing happened to the host, its clock and its files */
    int64_t back_us;     /* the clock was last set back; -1: it was not */
    struct fires_run *runs;
    size_t n_runs;
    size_t decisions, executed;
};

struct fires_rows {
    struct fires_row *rows;
    size_t n, cap;
};

/* Whether a host may know that version of a schedule, and its rule is the one that the store has.
 */
bool fires_may_go_by(const struct fires_judged *j, size_t v);
/* fires_judge.c: the rows are new, of one schedule and one commit. */
void fires_wrong(struct fires_court *c, const struct fires_judged *j, const struct fires_row *r,
                 const char *why);
void fires_judge(struct fires_court *c, struct fires_judged *j, const struct fires_rows *news);
void fires_read_live(struct fires_court *c);                   /* those of before become before */
int64_t fires_wall_ms(void);                                   /* of the machine with the host */
bool fires_is_steady(const struct fires_court *c, int64_t us); /* for so long */
/* within it, a host has looked at its folders twice */
#define FIRES_SETTLE_US ((int64_t)130 * 1000000)

struct fires_run *fires_run(struct fires_court *c, int64_t no);
/* A statement of a flowrun; before its commit; between two steps: what is new is looked at. */
void fires_on_statement(struct world *w, const char *sql);
void fires_look(struct fires_court *c);
/* Something happens, until then or at once, that the host has to notice first. */
void fires_unsteady(struct fires_court *c, int64_t until_us);
/* What should have been decided five minutes ago is. */
void fires_check_lost(struct fires_court *c);
/* The host knows each schedule as its file has it. */
void fires_check_known(struct fires_court *c);
/* The next instant that is due, as a time of the simulation; INT64_MAX: none. */
int64_t fires_next_us(struct fires_court *c);
bool fires_all_over(const struct fires_court *c); /* no run is live */
/* A task of a run begins: beside whom, and what its environment says. arg: of the program. */
void fires_check_task(struct fires_court *c, const void *arg);
/* In the end: each run is over, and as its task was. */
void fires_check_end(struct fires_court *c);
void fires_court_free(struct fires_court *c);

#endif
