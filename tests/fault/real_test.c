/*
 * Kill at a sample of transitions of the real programs, under tracer.h: flowrun, a serve or a
 * supervisor is killed just before or just after one of its writing system calls, then the run is
 * resumed. Each attempt's command appends its id to a file, so that one that ran twice shows.
 *
 *     real_test FLOWRUN [CASES [SEED]]     a sample over all kinds
 *     real_test FLOWRUN KIND POINT         one case; its folder is kept
 *
 * Exit status 77: ptrace is not allowed here.
 */
#include "tests/fault/tracer.h"
#include "tests/unit/check.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CASES = 36, SEED = 1, OVER = 2 /* flowrun: nothing to resume */ };

static const char *const kind_names[TRACER_KINDS] = {"flowrun", "serve", "supervisor"};

static const char pipeline[] =
    "name: real\n"
    "nodes:\n"
    "  - {name: n1, executor: local}\n"
    "  - {name: n2, executor: local}\n"
    "  - {name: n3, executor: local}\n"
    "defaults: {retry: {times: 3, delay: 20ms, on: [signal, lost, start_failed, exit]}}\n"
    "env: {W: \"${{ env.W }}\"}\n"
    "tasks:\n"
    "  a: {on: n1, run: 'echo $FLOWRUN_ATTEMPT >> $W/ran; echo v=x1 >> $FLOWRUN_OUTPUT', outputs: "
    "[v]}\n"
    "  b: {on: n2, needs: [a], env: {IN: \"${{ tasks.a.outputs.v }}\"}, run: 'echo "
    "$FLOWRUN_ATTEMPT >> $W/ran; test \"$IN\" = x1'}\n"
    "  c: {on: all, gang: true, needs: [a], run: 'echo $FLOWRUN_ATTEMPT >> $W/ran; echo rank "
    "$NODE_RANK'}\n"
    "  d: {on: n3, run: 'echo $FLOWRUN_ATTEMPT >> $W/ran; test $FLOWRUN_ATTEMPT_NO != 1'}\n"
    "  e: {on: n1, needs: [b], run: 'echo $FLOWRUN_ATTEMPT >> $W/ran', sidecars: [{run: 'exec "
    "sleep 600'}]}\n"
    "  f: {on: all, needs: [c, d, e], run: 'echo $FLOWRUN_ATTEMPT >> $W/ran'}\n";

struct env {
    const char *flowrun;
    char base[128], dir[200], yaml[220], out[220];
    bool keep;
};

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

static void put_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    CHECK(f != NULL && fputs(text, f) >= 0);
    if (f != NULL)
        fclose(f);
}

static void fresh_dir(struct env *e, const char *name)
{
    char home[220];

    snprintf(e->dir, sizeof(e->dir), "%s/%s", e->base, name);
    mkdir(e->dir, 0700);
    snprintf(e->yaml, sizeof(e->yaml), "%s/real.yaml", e->dir);
    snprintf(e->out, sizeof(e->out), "%s/out", e->dir);
    snprintf(home, sizeof(home), "%s/home", e->dir);
    put_text(e->yaml, pipeline);
    setenv("FLOWRUN_HOME", home, 1);
    setenv("W", e->dir, 1);
}

/* ---- what must be so in the end ---- */

static long ask(const struct env *e, const char *sql)
{
    char path[220];
    sqlite3 *db = NULL;
    sqlite3_stmt *st = NULL;
    long v = -1;

    snprintf(path, sizeof(path), "%s/home/state.db", e->dir);
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK &&
        sqlite3_prepare_v2(db, sql, -1, &st, NULL) == SQLITE_OK && sqlite3_step(st) == SQLITE_ROW)
        v = (long)sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    sqlite3_close(db);
    return v;
}

static bool none_twice(const struct env *e, long *ran)
{
    char path[220], line[64], seen[64][64];
    bool ok = true;

    *ran = 0;
    snprintf(path, sizeof(path), "%s/ran", e->dir);
    FILE *f = fopen(path, "r");
    while (f != NULL && *ran < 64 && fgets(line, sizeof(line), f) != NULL) {
        for (long i = 0; i < *ran; i++)
            ok = ok && strcmp(seen[i], line) != 0;
        memcpy(seen[(*ran)++], line, sizeof(line));
    }
    if (f != NULL)
        fclose(f);
    return ok;
}

/* Processes whose environment names the folder. */
static int left_running(const struct env *e)
{
    char want[220];
    DIR *d = opendir("/proc");
    int n = 0;

    snprintf(want, sizeof(want), "W=%s", e->dir);
    for (struct dirent *x; (x = readdir(d)) != NULL;) {
        static char text[65536];
        char path[300];
        ssize_t k;

        snprintf(path, sizeof(path), "/proc/%.20s/environ", x->d_name);
        int fd =
            x->d_name[0] >= '0' && x->d_name[0] <= '9' && strtol(x->d_name, NULL, 10) != getpid()
                ? open(path, O_RDONLY | O_CLOEXEC)
                : -1;
        if (fd < 0)
            continue;
        k = read(fd, text, sizeof(text) - 1);
        close(fd);
        for (ssize_t at = 0; at < k; at += (ssize_t)strlen(text + at) + 1) {
            text[k] = '\0';
            if (strcmp(text + at, want) == 0) {
                n++;
                break;
            }
        }
    }
    closedir(d);
    return n;
}

static void check_end(const struct env *e, const struct tracer *t)
{
    long ran, attempts = ask(e, "SELECT count(*) FROM attempt");
    long lost = ask(e, "SELECT count(*) FROM attempt WHERE cause = 'lost'");

    CHECK(none_twice(e, &ran));
    CHECK_INT(ask(e, "SELECT count(*) FROM pragma_integrity_check(1) WHERE integrity_check = 'ok'"),
              1);
    CHECK_INT(ask(e, "SELECT count(*) FROM pragma_foreign_key_check"), 0);
    CHECK_INT(ask(e, "SELECT count(*) FROM run WHERE state = 'over' AND outcome = 'succeeded'"), 1);
    CHECK_INT(ask(e, "SELECT count(*) FROM instance WHERE state <> 'succeeded'"), 0);
    CHECK_INT(ask(e, "SELECT count(*) FROM instance"), 10);
    CHECK_INT(ask(e, "SELECT count(DISTINCT idx) FROM attempt WHERE state = 'succeeded'"), 10);
    CHECK_INT(ask(e, "SELECT count(*) FROM instance WHERE live <> 0"), 0);
    if (t->victim == TRACER_SUPERVISOR) {
        CHECK(lost <= 1);
        CHECK(attempts >= 11 && attempts <= 14);
    } else {
        CHECK_INT(lost, 0);
        CHECK_INT(attempts, 11); /* ten instances, one of which fails once */
        CHECK_INT(ran, 11);
    }
    CHECK_INT(left_running(e), 0);
}

/* ---- a case ---- */

/* A serve whose engine ended goes, too; all that it left is waited for. */
static bool run_case(struct env *e, struct tracer *t)
{
    const char *run[] = {e->flowrun, e->yaml, NULL};
    const char *resume[] = {e->flowrun, "resume", NULL};

    if (!tracer_start(t, run, e->out))
        return false;
    tracer_run(t, false);
    if (WIFSIGNALED(t->root_status)) {
        tracer_beside(t, resume, e->out);
        tracer_run(t, false);
        if (ask(e, "SELECT count(*) FROM run") <= 0) { /* it was killed before its first commit */
            tracer_beside(t, run, e->out);
            tracer_run(t, false);
        } else if (!CHECK(WIFEXITED(t->extra_status) && (WEXITSTATUS(t->extra_status) == 0 ||
                                                         WEXITSTATUS(t->extra_status) == OVER))) {
            printf("resume: status %d\n", t->extra_status);
        }
    } else {
        CHECK(WIFEXITED(t->root_status) && WEXITSTATUS(t->root_status) == 0);
    }
    tracer_run(t, true);
    check_end(e, t);
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
    char name[40];
    int before = check_counts.failed;

    snprintf(name, sizeof(name), "%s.%ld", kind_names[kind], point);
    check_row(name);
    fresh_dir(e, name);
    memset(t, 0, sizeof(*t));
    t->victim = kind;
    t->point = point;
    bool ok = run_case(e, t);
    if (check_counts.failed > before)
        show_out(e);
    if (!e->keep)
        remove_tree(e->dir);
    return ok;
}

int main(int argc, char **argv)
{
    struct env e = {.flowrun = argc > 1 ? argv[1] : ""};
    long points[TRACER_KINDS], n = argc > 2 ? strtol(argv[2], NULL, 10) : CASES;
    uint64_t rng = argc > 3 ? strtoull(argv[3], NULL, 10) : SEED;
    static struct tracer t;
    int struck = 0;

    snprintf(e.base, sizeof(e.base), "%s/fr-real.XXXXXX",
             getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (mkdtemp(e.base) == NULL)
        return 1;
    setenv("NO_COLOR", "1", 1);
    if (argc > 3 && n == 0) {
        for (int k = 0; k < TRACER_KINDS; k++)
            if (strcmp(argv[2], kind_names[k]) == 0) {
                e.keep = true;
                one(&e, (enum tracer_kind)k, strtol(argv[3], NULL, 10), &t);
                printf("kept: %s\n", e.dir);
            }
        return check_done();
    }
    for (int k = 0; k < TRACER_KINDS; k++) { /* undisturbed: how many points there are */
        if (!one(&e, (enum tracer_kind)k, -1, &t)) {
            puts("skipped: ptrace is not allowed here");
            return 77;
        }
        points[k] = t.counts[k];
    }
    for (long i = 0; i < n; i++) {
        int k = (int)(i % TRACER_KINDS);
        one(&e, (enum tracer_kind)k, (long)(next_random(&rng) % (uint64_t)points[k]), &t);
        struck += t.struck;
    }
    rmdir(e.base);
    printf("%d kills; points: %ld of flowrun, %ld of serve, %ld of supervisors\n", struck,
           points[0], points[1], points[2]);
    return check_done();
}
