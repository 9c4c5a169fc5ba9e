/*
 * Kill at transitions of the real programs, under tracer.h: flowrun, a serve, a supervisor, or the
 * sshd by which a node is reached, is killed just before or just after one of its writing system
 * calls, then the run is resumed. Each attempt's command appends its id to a file, so that one that
 * ran twice shows; states and attempts are in the end those of the undisturbed run.
 *
 *     real_test FLOWRUN [COUNT [SEED]]        a sample over all kinds, of a short pipeline
 *     real_test FLOWRUN long COUNT|all [SEED] of one of 40 tasks, with a cancel; all: every point
 *     real_test FLOWRUN short|long KIND POINT one case; its folder is kept
 *
 * Exit status 77: ptrace is not allowed here. Without sshd, that kind is left out and it is said.
 */
#include "tests/fault/killed.h"
#include "tests/fault/left.h"
#include "tests/fault/tracer.h"
#include "tests/unit/check.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* AT_ONCE: much of a case is waiting. An sshd has few points, and a login takes its time. */
enum { CASES = 200, SEED = 1, AT_ONCE = 4, SSHD_EVERY = 8, RAN_MAX = 128, TEXT = 8192 };

#define SSHD "/usr/sbin/sshd"

static const char *const kind_names[TRACER_KINDS] = {"flowrun", "serve", "supervisor", "sshd"};

#define RAN "echo $FLOWRUN_ATTEMPT >> $W/ran"
#define NEEDS_V(from) "needs: [" from "], env: {IN: \"${{ tasks." from ".outputs.v }}\"}, "

static const char head[] =
    "  - {name: n2, executor: local}\n"
    "  - {name: n3, executor: local}\n"
    "defaults: {retry: {times: 3, delay: 20ms, on: [signal, lost, start_failed, exit]}}\n"
    "env: {W: \"${{ env.W }}\"}\n"
    "tasks:\n"
    "  a: {on: n1, run: '" RAN "; echo v=x1 >> $FLOWRUN_OUTPUT', outputs: [v]}\n"
    "  b: {on: n2, " NEEDS_V("a") "run: '" RAN "; test \"$IN\" = x1'}\n"
                                  "  c: {on: all, gang: true, needs: [a], run: '" RAN
                                  "; echo rank $NODE_RANK'}\n"
                                  "  d: {on: n3, run: '" RAN "; test $FLOWRUN_ATTEMPT_NO != 1'}\n"
                                  "  e: {on: n1, needs: [b], run: '" RAN
                                  "', sidecars: [{run: 'exec sleep 600'}]}\n"
                                  "  f: {on: all, needs: [c, d, e], run: '" RAN "'}\n";

/* Two chains with outputs, a fan-out, and a task on all nodes that is cancelled: 40 tasks. */
static const char tail[] =
    "  join: {on: n2, needs: [fan1, fan2, fan3, fan4, fan5, fan6, fan7, fan8, fan9, fan10, fan11, "
    "fan12, fan13, fan14, fan15, fan16, fan17, fan18], run: '" RAN "'}\n"
    "  flaky: {on: n2, needs: [join], run: '" RAN "; test $FLOWRUN_ATTEMPT_NO != 1'}\n"
    "  again: {on: all, gang: true, needs: [flaky, c], run: '" RAN "'}\n"
    "  last: {on: n3, needs: [again, f, x5, y5], run: '" RAN "; touch $W/last; exec sleep 600'}\n"
    "  hang: {on: all, run: '" RAN "; exec sleep 600'}\n"
    "  after: {on: n1, needs: [hang], run: 'false'}\n";

/* What an undisturbed run came to. */
struct recording {
    char states[TEXT], counts[TEXT]; /* counts: attempts of each instance */
    long points, attempts, ran;
};

struct env {
    const char *flowrun;
    char base[128], dir[200], yaml[220], out[220], config[220], cgroup[256];
    bool keep, complete /* the long pipeline */, sshd;
    int door, port; /* listens for the connections to n1; -1, 0 */
    struct recording recorded[TRACER_KINDS];
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

/* ---- the pipeline, and the way to its nodes ---- */

static void put_complete(FILE *f)
{
    for (int c = 'x'; c <= 'y'; c++)
        for (int i = 1; i <= 5; i++) {
            fprintf(f, "  %c%d: {on: n%d, ", c, i, (i + c) % 3 + 1);
            if (i > 1)
                fprintf(f, NEEDS_V("%c%d"), c, i - 1, c, i - 1);
            fprintf(f, "run: '" RAN "; echo v=%c$IN >> $FLOWRUN_OUTPUT', outputs: [v]}\n", c);
        }
    for (int i = 1; i <= 18; i++)
        fprintf(f, "  fan%d: {on: n%d, needs: [a], run: '" RAN "'}\n", i, i % 3 + 1);
    fputs(tail, f);
}

static void put_pipeline(const struct env *e, bool far)
{
    FILE *f = fopen(e->yaml, "w");

    if (!CHECK(f != NULL))
        return;
    /* A gang's port behind sshd is a fixed one, and others run this at the same time. */
    fprintf(f, "name: real\nrendezvous: {port: %d}\nnodes:\n", 20000 + (int)(getpid() % 10000));
    if (far)
        fprintf(f,
                "  - {name: n1, address: 127.0.0.1, port: %d, user: %s, key: %s/id, known_hosts: "
                "%s/known.%d, ssh_config: %s/none}\n",
                e->port, getpwuid(getuid())->pw_name, e->base, e->base, e->port, e->base);
    else
        fputs("  - {name: n1, executor: local}\n", f);
    fputs(head, f);
    if (e->complete)
        put_complete(f);
    fclose(f);
}

static void put_sshd_config(const struct env *e)
{
    char text[1200];

    snprintf(text, sizeof(text),
             "HostKey %s/host\nAuthorizedKeysFile %s/id.pub\nPidFile none\nStrictModes no\n"
             "PermitRootLogin prohibit-password\nPasswordAuthentication no\n"
             "KbdInteractiveAuthentication no\nUsePAM no\nUseDNS no\nPrintMotd no\n"
             "SetEnv W=%s XDG_STATE_HOME=%s/far XDG_CACHE_HOME=%s/cache\n",
             e->base, e->base, e->dir, e->dir, e->base);
    put_text(e->config, text);
}

/* Keys for all cases. false: no sshd can be had here. */
static bool make_keys(const struct env *e)
{
    char command[600];

    if (getuid() != 0 || access(SSHD, X_OK) != 0)
        return false;
    mkdir("/run/sshd", 0755); /* as the service does when it starts */
    snprintf(command, sizeof(command),
             "cd '%s' && : > none && ssh-keygen -q -t ed25519 -N '' -f id && "
             "ssh-keygen -q -t ed25519 -N '' -f host",
             e->base);
    return CHECK(system(command) == 0);
}

static void listen_for_node(struct env *e)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof(at);
    char command[600];

    e->door = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(e->door, (struct sockaddr *)&at, n) == 0 && listen(e->door, 16) == 0);
    CHECK(getsockname(e->door, (struct sockaddr *)&at, &n) == 0);
    e->port = ntohs(at.sin_port);
    snprintf(command, sizeof(command),
             "cd '%s' && echo \"[127.0.0.1]:%d $(cut -d' ' -f1,2 host.pub)\" > known.%d", e->base,
             e->port, e->port);
    CHECK(system(command) == 0);
}

static void fresh_dir(struct env *e, const char *name, bool far)
{
    char home[220];

    snprintf(e->dir, sizeof(e->dir), "%s/%s", e->base, name);
    mkdir(e->dir, 0700);
    snprintf(e->yaml, sizeof(e->yaml), "%s/real.yaml", e->dir);
    snprintf(e->out, sizeof(e->out), "%s/out", e->dir);
    snprintf(e->config, sizeof(e->config), "%s/sshd_config", e->dir);
    snprintf(home, sizeof(home), "%s/home", e->dir);
    put_pipeline(e, far);
    if (far)
        put_sshd_config(e);
    setenv("FLOWRUN_HOME", home, 1);
    setenv("FLOWRUN", e->flowrun, 1);
    setenv("W", e->dir, 1);
}

/* ---- what must be so in the end ---- */

/* Rows of one column, a line each, into text. */
static void read_rows(const struct env *e, const char *sql, char text[TEXT])
{
    char path[220];
    sqlite3 *db = NULL;
    sqlite3_stmt *st = NULL;
    size_t n = 0;

    text[0] = '\0';
    snprintf(path, sizeof(path), "%s/home/state.db", e->dir);
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK &&
        sqlite3_prepare_v2(db, sql, -1, &st, NULL) == SQLITE_OK)
        while (n < TEXT && sqlite3_step(st) == SQLITE_ROW)
            n += (size_t)snprintf(text + n, TEXT - n, "%s\n",
                                  (const char *)sqlite3_column_text(st, 0));
    sqlite3_finalize(st);
    sqlite3_close(db);
}

static long ask(const struct env *e, const char *sql)
{
    char text[TEXT];

    read_rows(e, sql, text);
    return text[0] != '\0' ? strtol(text, NULL, 10) : -1;
}

static bool none_twice(const struct env *e, long *ran)
{
    char path[220], line[64], seen[RAN_MAX][64];
    bool ok = true;

    *ran = 0;
    snprintf(path, sizeof(path), "%s/ran", e->dir);
    FILE *f = fopen(path, "r");
    while (f != NULL && *ran < RAN_MAX && fgets(line, sizeof(line), f) != NULL) {
        for (long i = 0; i < *ran; i++)
            ok = ok && strcmp(seen[i], line) != 0;
        memcpy(seen[(*ran)++], line, sizeof(line));
    }
    if (f != NULL)
        fclose(f);
    return ok;
}

static void take_states(const struct env *e, char text[TEXT])
{
    read_rows(
        e,
        "SELECT key || ' ' || state || ' ' || cause FROM instance UNION ALL SELECT idx || '=' "
        "|| value FROM output UNION ALL SELECT state || ' ' || outcome FROM run",
        text);
}

/* A supervisor may die of a task that is being cancelled: of that one no end is known. */
static void lost_is_cancelled(char text[TEXT])
{
    static const char was[] = " lost lost\n", is[] = " cancelled stopped\n";
    char *at = strstr(text, was), rest[TEXT];

    if (at == NULL)
        return;
    snprintf(rest, sizeof(rest), "%s", at + strlen(was));
    snprintf(at, (size_t)(text + TEXT - at), "%s%s", is, rest);
}

/* The journal that knows the killed supervisor, of whichever node. */
static void read_journals(const struct env *e, struct killed *k)
{
    char command[300], path[300];

    snprintf(command, sizeof(command), "ls %s/home/nodes/*/journal", e->dir);
    FILE *f = popen(command, "r");
    while (CHECK(f != NULL) && fgets(path, sizeof(path), f) != NULL) {
        path[strcspn(path, "\n")] = '\0';
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        CHECK(fd >= 0 && killed_read(k, fd));
        close(fd);
    }
    if (f != NULL)
        pclose(f);
}

/* Of a killed supervisor the records say what must follow, to the attempt: killed.h. */
static void check_killed(const struct env *e, const struct tracer *t)
{
    struct killed k = {.pid = t->killed};
    char rows[TEXT], hex[40], lost[64] = "";
    const char *wrong;

    if (t->struck)
        read_journals(e, &k);
    fr_id_text(k.newest, hex);
    if (k.open)
        snprintf(lost, sizeof(lost), "%s lost\n", hex);
    read_rows(e, "SELECT lower(hex(id)) || ' ' || state FROM attempt WHERE cause = 'lost'", rows);
    CHECK_TEXT(rows, lost);
    CHECK(ask(e, "SELECT count(*) FROM attempt d WHERE " KILLED_NOTHING) <= 1);
    read_rows(e, KILLED_ATTEMPTS("'c', 'again'"), rows);
    wrong = killed_wrong(rows, e->recorded[t->victim].counts);
    if (!CHECK(wrong == NULL))
        printf("attempts, and how many they must be: %.*s\n", (int)strcspn(wrong, "\n"), wrong);
}

/* Nothing lies about that no row knows. */
static void check_left(const struct env *e, enum tracer_kind victim)
{
    char known[TEXT], path[220];
    int later;

    read_rows(
        e,
        "SELECT lower(hex(id)) FROM attempt UNION SELECT lower(hex(id)) FROM run UNION SELECT "
        "log FROM attempt UNION SELECT spec_hash FROM run UNION SELECT inventory_hash FROM run "
        "UNION SELECT hash FROM file",
        known);
    CHECK_INT(left_running(e->dir), 0);
    snprintf(path, sizeof(path), "%s/home", e->dir);
    if (victim == TRACER_SUPERVISOR && left_files(path, known) == 1) {
        char command[600]; /* it died behind serve, which had nothing to clear up yet: the next has
                            */
        snprintf(command, sizeof(command), "%s nodes --check %s > /dev/null", e->flowrun, e->yaml);
        CHECK(system(command) == 0);
    }
    CHECK_INT(left_files(path, known), 0);
    snprintf(path, sizeof(path), "%s/far", e->dir);
    CHECK_INT(left_files(path, known), 0);
    CHECK_INT(left_cgroup_remove(e->cgroup, &later), 0);
    CHECK(later <= 1);
}

static void check_end(const struct env *e, const struct tracer *t)
{
    const struct recording *r = &e->recorded[t->victim];
    long ran, attempts = ask(e, "SELECT count(*) FROM attempt");
    char states[TEXT];

    take_states(e, states);
    CHECK(none_twice(e, &ran));
    CHECK_INT(ask(e, "SELECT count(*) FROM pragma_integrity_check(1) WHERE integrity_check = 'ok'"),
              1);
    CHECK_INT(ask(e, "SELECT count(*) FROM pragma_foreign_key_check"), 0);
    CHECK_INT(ask(e, "SELECT count(*) FROM instance WHERE live <> 0"), 0);
    if (t->victim == TRACER_SUPERVISOR) {
        lost_is_cancelled(states);
        check_killed(e, t);
    } else {
        CHECK_INT(ask(e, "SELECT count(*) FROM attempt WHERE cause = 'lost'"), 0);
        CHECK_INT(attempts, r->attempts);
        CHECK_INT(ran, r->ran);
    }
    CHECK_TEXT(states, r->states);
    check_left(e, t->victim);
}

/* What an undisturbed run must come to is counted by hand. */
static void record(struct env *e, const struct tracer *t)
{
    struct recording *r = &e->recorded[t->victim];

    take_states(e, r->states);
    read_rows(e,
              "SELECT i.key || '|' || count(*) FROM attempt a JOIN instance i ON i.idx = a.idx "
              "GROUP BY i.key",
              r->counts);
    r->points = t->counts[t->victim];
    r->attempts = r->ran = e->complete ? 49 : 11;
    CHECK_INT(ask(e, "SELECT count(*) FROM instance WHERE state = 'succeeded'"),
              e->complete ? 43 : 10);
    CHECK_INT(ask(e, "SELECT count(*) FROM run WHERE state = 'over'"), 1);
    CHECK(r->points > 0);
}

/* ---- a case ---- */

/* Cancels the run when all but `hang` and what waits for it is done. */
static void start_cancel(void)
{
    if (fork() == 0) {
        execl("/bin/sh", "sh", "-c",
              "until test -e $W/last; do test -d $W || exit; sleep 0.05; done; "
              "exec $FLOWRUN cancel 1 > $W/cancel 2>&1",
              (char *)NULL);
        _exit(98);
    }
}

/* A serve whose engine ended goes, too; all that it left is waited for. */
static bool run_case(struct env *e, struct tracer *t)
{
    const char *run[] = {e->flowrun, e->yaml, NULL};
    const char *resume[] = {e->flowrun, "resume", NULL};
    const char *sshd[] = {SSHD, "-i", "-e", "-f", e->config, NULL};

    if (e->complete)
        start_cancel();
    if (t->victim == TRACER_SSHD ? !tracer_door(t, e->door, sshd, e->out)
                                 : !tracer_start(t, run, e->out))
        return false;
    if (t->victim == TRACER_SSHD)
        tracer_beside(t, run, e->out);
    tracer_run(t, false);
    if (t->root_ended && WIFSIGNALED(t->root_status)) {
        tracer_beside(t, resume, e->out);
        tracer_run(t, false);
        if (ask(e, "SELECT count(*) FROM run") <= 0) { /* it was killed before its first commit */
            tracer_beside(t, run, e->out);
            tracer_run(t, false);
        }
    }
    tracer_run(t, true);
    if (t->point < 0)
        record(e, t);
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
    static char row[40];
    char name[60];
    int before = check_counts.failed;

    snprintf(row, sizeof(row), "%s.%ld", kind_names[kind], point);
    snprintf(name, sizeof(name), "%s.%d", row, (int)getpid());
    check_row(row);
    fresh_dir(e, name, kind == TRACER_SSHD);
    memset(t, 0, sizeof(*t));
    t->victim = kind;
    t->point = point;
    snprintf(name, sizeof(name), "fr-real.%d", (int)getpid());
    left_cgroup_make(name, e->cgroup);
    t->cgroup = e->cgroup;
    bool ok = run_case(e, t);
    if (check_counts.failed > before)
        show_out(e);
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
        int k = e->sshd && at % SSHD_EVERY == 0 ? TRACER_SSHD : (int)(at % TRACER_SSHD);
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
        listen_for_node(e);
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
        "sshd\n",
        struck, p->n, e->recorded[TRACER_FLOWRUN].points, e->recorded[TRACER_SERVE].points,
        e->recorded[TRACER_SUPERVISOR].points, e->recorded[TRACER_SSHD].points);
}

static bool record_all(struct env *e)
{
    static struct tracer t;

    e->sshd = make_keys(e);
    if (e->sshd)
        listen_for_node(e);
    else
        puts("no sshd is killed: there is none, or not for this user");
    for (int k = 0; k < TRACER_SSHD; k++)
        if (!one(e, (enum tracer_kind)k, -1, &t))
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
