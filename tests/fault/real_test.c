/*
 * Kill at transitions of the real programs, under tracer.h: flowrun, a serve, a supervisor, or the
 * sshd by which a node is reached, is killed just before or just after one of its writing system
 * calls, then the run is resumed. Two other flowruns hand runs over to it that share its nodes; and
 * one that follows another host and takes over when that is killed (taker) is itself killed from
 * its first write to the lock on. Each attempt's command appends its id to a file, so that one that
 * ran twice shows; states and attempts are in the end those of the undisturbed run.
 *
 *     real_test FLOWRUN [COUNT [SEED]]        a sample over all kinds, of a short pipeline
 *     real_test FLOWRUN long COUNT|all [SEED] of one of 40 tasks, with a cancel; all: every point
 *     real_test FLOWRUN short|long KIND POINT one case; its folder is kept
 *
 * Exit status 77: ptrace is not allowed here. Without sshd, that kind is left out and it is said.
 */
#include "tests/fault/left.h"
#include "tests/fault/real.h"
#include "tests/unit/check.h"

#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* AT_ONCE: much of a case is waiting. An sshd has few points, and a login takes its time. */
enum { CASES = 100, SEED = 1, AT_ONCE = 4, SSHD_EVERY = 8 };

static const char *const kind_names[TRACER_KINDS] = {"flowrun", "serve", "supervisor", "sshd",
                                                     "taker"};

static uint64_t next_random(uint64_t *s)
{
    /* splitmix64, Steele et al. 2014 */
    uint64_t z = *s += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static void remove_tree(const char *path)
{
    char command[256];

    snprintf(command, sizeof(command), "rm -rf '%s'", path);
    CHECK(system(command) == 0);
}

/* ---- a case ---- */

/* Cancels the run when all but `hang` and what waits for it is done. */
static void start_cancel(void)
{
    if (fork() == 0) {
        execl("/bin/sh", "sh", "-c",
              "until test -e $W/last; do test -d $W || exit; sleep 0.05; done; "
              "exec $FLOWRUN cancel $($FLOWRUN runs --json | sed -n "
              "'/\"real\"/s/.*\"no\":\\([0-9]*\\).*/\\1/p') > $W/cancel 2>&1",
              (char *)NULL);
        _exit(98);
    }
}

/* The number of the run of that pipeline, "" if there is none. */
static void name_run(const struct env *e, const char *pipeline, char no[24])
{
    char sql[100];

    snprintf(sql, sizeof(sql), "SELECT no FROM run WHERE name = '%s'", pipeline);
    long n = real_ask(e, sql);
    no[0] = '\0';
    if (n > 0)
        snprintf(no, 24, "%ld", n);
}

static void put_free(const struct env *e)
{
    char path[220];

    snprintf(path, sizeof(path), "%s/free", e->dir);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    close(fd);
}

/* A serve whose engine ended goes, too; all that it left is waited for. */
static bool run_case(struct env *e, struct tracer *t)
{
    const char *run[] = {e->flowrun, e->yaml, NULL};
    /* By its number: resume alone passes over a run that is over, whose socket then stays. */
    char no[24], lock[220];
    const char *resume[] = {e->flowrun, "resume", no, NULL};
    const char *sshd[] = {SSHD, "-i", "-e", "-f", e->config, NULL};

    if (e->complete)
        start_cancel();
    if (t->victim == TRACER_TAKER) {
        snprintf(lock, sizeof(lock), "%s/home/host.lock", e->dir);
        t->begins = lock;
        real_others(e, t);
    }
    if (t->victim == TRACER_SSHD ? !tracer_door(t, e->door, sshd, e->out)
                                 : !tracer_start(t, run, e->out))
        return false;
    if (t->victim == TRACER_SSHD)
        tracer_beside(t, run, e->out);
    else if (t->victim != TRACER_TAKER)
        real_others(e, t);
    tracer_run(t, false);
    if (t->root_ended && WIFSIGNALED(t->root_status)) { /* perhaps before its first commit */
        name_run(e, "real", no);
        tracer_beside(t, no[0] != '\0' ? resume : run, e->out);
        tracer_run(t, false);
    }
    if (t->victim == TRACER_TAKER) {
        put_free(e);
        name_run(e, "others", no);
        tracer_beside(t, resume, e->out);
        tracer_run(t, false);
    }
    tracer_run(t, true);
    if (t->point < 0)
        real_record(e, t);
    real_check_end(e, t);
    return true;
}

static void show_out(const struct env *e)
{
    char line[512];
    FILE *f = fopen(e->out, "r");

    while (f != NULL && fgets(line, sizeof(line), f) != NULL)
        printf("    %s", line);
    if (f != NULL)
        fclose(f);
}

static bool one(struct env *e, enum tracer_kind kind, long point, struct tracer *t)
{
    static char row[40];
    char name[60];
    int before = check_counts.failed;

    snprintf(row, sizeof(row), "%s.%ld", kind_names[kind], point);
    snprintf(name, sizeof(name), "%s.%d", row, (int)getpid());
    check_row(row);
    real_fresh(e, name, kind == TRACER_SSHD);
    memset(t, 0, sizeof(*t));
    t->victim = kind;
    t->point = point;
    snprintf(name, sizeof(name), "fr-real.%d", (int)getpid());
    left_cgroup_make(name, e->cgroup);
    t->cgroup = e->cgroup;
    bool ok = run_case(e, t);
    if (check_counts.failed > before) {
        show_out(e);
        real_show(e);
    }
    if (!e->keep)
        remove_tree(e->dir);
    return ok;
}

/* ---- many cases, some at a time ---- */

struct plan {
    long n;
    struct {
        enum tracer_kind kind;
        long point;
    } * cases;
};

struct result {
    int passed, failed, struck;
};

/* n chosen by rng, of all kinds; or every point. */
static struct plan make_plan(const struct env *e, long n, uint64_t rng)
{
    struct plan p = {.n = n};
    long all = 0, at = 0;

    for (int k = 0; k < TRACER_KINDS; k++)
        all += e->recorded[k].points;
    if (n < 0)
        p.n = all;
    p.cases = calloc((size_t)p.n, sizeof(*p.cases));
    for (int k = 0; n < 0 && k < TRACER_KINDS; k++)
        for (long i = 0; i < e->recorded[k].points; i++, at++) {
            p.cases[at].kind = (enum tracer_kind)k;
            p.cases[at].point = i;
        }
    for (; at < p.n; at++) {
        static const int kinds[] = {TRACER_FLOWRUN, TRACER_SERVE, TRACER_SUPERVISOR, TRACER_TAKER};
        int k = e->sshd && at % SSHD_EVERY == 0 ? TRACER_SSHD : kinds[at % 4];
        p.cases[at].kind = (enum tracer_kind)k;
        p.cases[at].point = (long)(next_random(&rng) % (uint64_t)e->recorded[k].points);
    }
    return p;
}

/* Every AT_ONCE-th case from the first on; what came of them goes to fd. */
static void work(struct env *e, const struct plan *p, long first, int fd)
{
    static struct tracer t;
    struct result r = {0};

    check_counts.passed = check_counts.failed = 0;
    if (e->sshd)
        real_listen(e);
    for (long i = first; i < p->n; i += AT_ONCE) {
        one(e, p->cases[i].kind, p->cases[i].point, &t);
        r.struck += t.struck;
    }
    r.passed = check_counts.passed;
    r.failed = check_counts.failed;
    if (write(fd, &r, sizeof(r)) != sizeof(r))
        _exit(1);
    _exit(0);
}

static void run_plan(struct env *e, const struct plan *p)
{
    struct result r;
    int fds[2], struck = 0, told = 0;

    CHECK(pipe(fds) == 0);
    for (long i = 0; i < AT_ONCE; i++)
        if (fork() == 0)
            work(e, p, i, fds[1]);
    close(fds[1]);
    while (read(fds[0], &r, sizeof(r)) == sizeof(r)) {
        check_counts.passed += r.passed;
        check_counts.failed += r.failed;
        struck += r.struck;
        told++;
    }
    CHECK_INT(told, AT_ONCE);
    while (wait(NULL) > 0)
        ;
    printf(
        "%d kills of %ld cases; points: %ld of flowrun, %ld of serve, %ld of supervisors, %ld of "
        "sshd, %ld of who takes over\n",
        struck, p->n, e->recorded[TRACER_FLOWRUN].points, e->recorded[TRACER_SERVE].points,
        e->recorded[TRACER_SUPERVISOR].points, e->recorded[TRACER_SSHD].points,
        e->recorded[TRACER_TAKER].points);
}

static bool record_all(struct env *e)
{
    static struct tracer t;

    e->sshd = real_keys(e);
    if (e->sshd)
        real_listen(e);
    else
        puts("no sshd is killed: there is none, or not for this user");
    for (int k = 0; k < TRACER_KINDS; k++)
        if (k != TRACER_SSHD && !one(e, (enum tracer_kind)k, -1, &t))
            return false;
    for (int i = 0; e->sshd && i < 2; i++) /* flownode is sent by the first one alone */
        one(e, TRACER_SSHD, -1, &t);
    return true;
}

static int kind_named(const char *name)
{
    int k = 0;

    while (k < TRACER_KINDS && strcmp(name, kind_names[k]) != 0)
        k++;
    return k;
}

int main(int argc, char **argv)
{
    struct env e = {.flowrun = argc > 1 ? argv[1] : "", .door = -1};
    bool named = argc > 2 && strtol(argv[2], NULL, 10) == 0;
    const char *count = argc > 2 + named ? argv[2 + named] : "",
               *last = argc > 3 + named ? argv[3 + named] : "";
    long n = strtol(count, NULL, 10);
    static struct tracer t;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (access(e.flowrun, X_OK) != 0) {
        printf("%s is no program\n", e.flowrun);
        return 1;
    }
    e.complete = named && strcmp(argv[2], "long") == 0;
    snprintf(e.base, sizeof(e.base), "%s/fr-real.XXXXXX",
             getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (mkdtemp(e.base) == NULL)
        return 1;
    setenv("NO_COLOR", "1", 1);
    if (!record_all(&e)) {
        puts("skipped: ptrace is not allowed here");
        return 77;
    }
    if (kind_named(count) < TRACER_KINDS) {
        e.keep = true;
        one(&e, (enum tracer_kind)kind_named(count), strtol(last, NULL, 10), &t);
        printf("kept: %s\n", e.dir);
        return check_done();
    }
    struct plan p = make_plan(&e,
                              strcmp(count, "all") == 0 ? -1
                              : n > 0                   ? n
                                                        : CASES,
                              *last != '\0' ? strtoull(last, NULL, 10) : SEED);
    run_plan(&e, &p);
    free(p.cases);
    remove_tree(e.base);
    return check_done();
}
