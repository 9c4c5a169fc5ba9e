/*
 * The state of the cluster that fakeslurm.c plays: jobs in a file, which one process at a time has.
 */
#ifndef TESTS_E2E_FAKESLURM_H
#define TESTS_E2E_FAKESLURM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { FAKE_PATH = 300, FAKE_GROUPS = 64, FAKE_JOBS = 2000 };

struct fake_job {
    int64_t id;
    int64_t array; /* of an element: what squeue names it by, with its index; else id */
    int index;     /* -1: it is no element */
    char name[80], state[20], reason[40];
    char then[20]; /* COMPLETING: its state once its processes are gone */
    char output[FAKE_PATH];
    int64_t submit_ms;
    int64_t known_ms; /* squeue shows it from then on */
    int64_t start_ms; /* PENDING: not before */
    int64_t end_ms;   /* its limit, or when it ended */
    int64_t limit_ms, kill_ms;
    uint64_t hosts; /* a bit each */
    int nodes, restarts;
    bool forgotten;
    pid_t groups[FAKE_GROUPS]; /* process groups: its script, and its hosts */
    int n_groups;
};

struct fake {
    char folder[FAKE_PATH];
    bool virtual_time; /* the file `now` has the time: nothing happens between two commands */
    int64_t now_ms;
    int nodes;
    int64_t kill_wait_ms, min_age_ms;
    bool accounting;
    int max_array, max_submit; /* max_submit: jobs that have not ended, at most; 0: any number */
    int lock;
    struct fake_job *jobs;
    size_t n;
};

const char *fake_path(const struct fake *f, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void fake_read(struct fake *f); /* the time and slurm.conf */
/* Takes the lock, loads the jobs, and does what has become due. */
void fake_enter(struct fake *f);
void fake_leave(struct fake *f); /* stores the jobs */

/* Whether the switch is on; a count in it goes down. arg, of 200 bytes: what else it says. */
bool fake_switch(const struct fake *f, const char *name, char *arg);

bool fake_ended(const struct fake_job *job);
struct fake_job *fake_find(struct fake *f, int64_t id); /* NULL: it is not known */
struct fake_job *fake_add(struct fake *f);              /* a new one, which waits */
/* Whether a command that is given that word means the job: its id, "4711_7", or its array's id. */
bool fake_meant(const struct fake_job *job, const char *word);
bool fake_hidden(const struct fake *f, const struct fake_job *job); /* squeue does not show it */
void fake_add_group(struct fake_job *job, pid_t group);
/* Its processes get TERM, and KILL after KillWait; then it is in that state. */
void fake_end(struct fake *f, struct fake_job *job, const char *state);
void fake_requeue(struct fake *f, struct fake_job *job);
void fake_stop(struct fake *f); /* kills all that any job started */
/* fakeslurm_show.c: commands that only show something, and what all commands need. */
const char *fake_option(const char *arg, const char *name); /* of "--name=value"; NULL: another */
bool fake_is_away(const struct fake *f, const char *before);
bool fake_listed(const char *list, const char *word);
void fake_copy(char *to, size_t cap, const char *text);
void fake_print_config(const struct fake *f);
int fake_squeue(struct fake *f, char **argv);
int fake_sacct(struct fake *f, char **argv);
int fake_sinfo(struct fake *f, char **argv);

/* "node[1,3]" */
void fake_hosts(uint64_t hosts, char *out, size_t cap);

#endif
