/* A cluster's commands: their order, their budget and errors, by a clock of the test's own. */
#include "engine/slurm/cluster.h"

#include "engine/base/file.h"
#include "engine/submit/environ.h"
#include "tests/unit/check.h"
#include "tests/unit/slurm/virtual_loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { SECOND = 1000, MINUTE = 60 * SECOND };

/* A cluster whose programs are scripts in a folder; what has ended, as text. */
static struct bed {
    char folder[64];
    struct virtual_loop loop;
    struct fr_cluster *c;
    struct fr_buf said;
    int64_t began_ms;
    int changes;
} bed;

static const char *path_of(const char *name)
{
    static char path[200];

    snprintf(path, sizeof(path), "%s/%s", bed.folder, name);
    return path;
}

/* A program of Slurm: a script for sh, in whose folder it runs. */
static void program(const char *name, const char *script)
{
    FILE *f = fopen(path_of(name), "w");

    fprintf(f, "#!/bin/sh\ncd %s\n%s\n", bed.folder, script);
    fclose(f);
    chmod(path_of(name), 0700);
}

static void on_change(void *arg)
{
    ((struct bed *)arg)->changes++;
}

static void ended(void *arg, const struct fr_command_end *end)
{
    struct fr_str out = end->out, errors = end->errors;

    while (out.n > 0 && out.p[out.n - 1] == '\n')
        out.n--;
    while (errors.n > 0 && errors.p[errors.n - 1] == '\n')
        errors.n--;
    fr_buf_fmt(&bed.said, "%s%lld:%s=%d", bed.said.n > 0 ? " " : "",
               (long long)(bed.loop.now_ms - bed.began_ms) / SECOND, (const char *)arg, end->code);
    if (out.n > 0)
        fr_buf_fmt(&bed.said, " %.*s", (int)out.n, out.p);
    if (errors.n > 0)
        fr_buf_fmt(&bed.said, " (%.*s)", (int)errors.n, errors.p);
    program("told", "");
}

static void run(const char *const *argv, bool asks, bool repeat, const char *mark)
{
    struct fr_command command = {
        .argv = argv, .asks = asks, .repeat = repeat, .ended = ended, .arg = (void *)mark};
    struct fr_err err = {0};

    CHECK_INT(fr_cluster_run(bed.c, &command, &err), FR_OK);
}

static void ask(const char *mark)
{
    static const char *const argv[] = {"squeue", "-h", NULL};

    run(argv, true, true, mark);
}

static void submit(const char *mark)
{
    static const char *const argv[] = {"sbatch", "x", NULL};

    run(argv, true, false, mark);
}

static void open_bed(const char *row, int rpc)
{
    struct fr_cluster_args args = {
        .loop = &bed.loop.loop, .path = bed.folder, .rpc = rpc, .changed = on_change, .arg = &bed};
    struct fr_err err = {0};

    check_row(row);
    bed = (struct bed){.folder = "/tmp/flowrun-slurm-XXXXXX"};
    CHECK(mkdtemp(bed.folder) != NULL);
    virtual_loop_open(&bed.loop, path_of("hanging"));
    bed.began_ms = bed.loop.now_ms;
    CHECK_INT(fr_cluster_create(&args, &bed.c, &err), FR_OK);
    program("squeue", "echo \"$@\"");
    program("sbatch", "echo 7");
}

static void close_bed(void)
{
    struct fr_err err = {0};

    fr_cluster_destroy(bed.c);
    fr_buf_finish(&bed.said);
    virtual_loop_close(&bed.loop);
    CHECK_INT(fr_remove_tree(bed.folder, &err), FR_OK);
}

static void until(int64_t s)
{
    virtual_loop_until(&bed.loop, bed.began_ms + s * SECOND);
}

static void check_said(const char *want)
{
    CHECK_TEXT(bed.said.n > 0 ? bed.said.p : "", want);
    fr_buf_cut(&bed.said, bed.said.n);
}

static void check_part(const char *want)
{
    check_row(want);
    CHECK(bed.said.n > 0 && strstr(bed.said.p, want) != NULL);
}

static void test_ends(void)
{
    static const char *const hosts[] = {"scontrol", "show", NULL};
    static const char *const none[] = {"scantcel", NULL};

    open_bed("ends are told in order", 0);
    program("sbatch", "echo 7; echo no >&2; exit 3");
    program("scontrol", "kill -9 $$");
    submit("a");
    ask("b");
    run(none, true, true, "c");
    until(0);
    check_said("0:a=3 7 (no) 0:b=0 -h 0:c=127 (there is no program scantcel in PATH that could be "
               "started (login nodes often need `module load slurm`: set slurm.path))");
    run(hosts, false, false, "d");
    until(0);
    check_said("0:d=-1 (scontrol: ended with signal 9)");
    CHECK_INT(fr_cluster_asked(bed.c), 3);
    CHECK_INT(bed.changes, 0);
    close_bed();
}

static void test_budget(void)
{
    static const char *const hosts[] = {"scontrol", "show", NULL};

    open_bed("six at once, then one in 5 s", 0);
    program("squeue", "");
    program("scontrol", "");
    CHECK(fr_cluster_may_ask(bed.c));
    for (int i = 0; i < 9; i++)
        ask("a");
    CHECK_INT(fr_cluster_may_ask_ms(bed.c), INT64_MAX);
    until(4);
    check_said("0:a=0 0:a=0 0:a=0 0:a=0 0:a=0 0:a=0");
    run(hosts, false, false, "b");
    until(15);
    check_said("4:b=0 5:a=0 10:a=0 15:a=0");
    CHECK(!fr_cluster_may_ask(bed.c));
    CHECK_INT(fr_cluster_may_ask_ms(bed.c), bed.began_ms + 20 * SECOND);
    check_row("places come back, at most six");
    until(20);
    CHECK(fr_cluster_may_ask(bed.c));
    until(600);
    for (int i = 0; i < 7; i++)
        ask("a");
    until(605);
    check_said("600:a=0 600:a=0 600:a=0 600:a=0 600:a=0 600:a=0 605:a=0");
    check_row("the cluster allows less");
    fr_cluster_limit(bed.c, 100);
    fr_cluster_limit(bed.c, 0);
    fr_cluster_limit(bed.c, 6);
    ask("a");
    ask("a");
    until(700);
    check_said("615:a=0 625:a=0");
    close_bed();

    open_bed("there are never more than six places", 0);
    program("squeue", "");
    ask("a");
    until(600);
    for (int i = 0; i < 7; i++)
        ask("a");
    until(605);
    check_said("0:a=0 600:a=0 600:a=0 600:a=0 600:a=0 600:a=0 600:a=0 605:a=0");
    close_bed();

    open_bed("60 a minute", 60);
    program("squeue", "");
    for (int i = 0; i < 8; i++)
        ask("a");
    until(10);
    check_said("0:a=0 0:a=0 0:a=0 0:a=0 0:a=0 0:a=0 1:a=0 2:a=0");
    close_bed();
}

static void account(const char *mark)
{
    static const char *const argv[] = {"sacct", "x", NULL};
    struct fr_command command = {
        .argv = argv, .accounts = true, .ended = ended, .arg = (void *)mark};
    struct fr_err err = {0};

    CHECK_INT(fr_cluster_run(bed.c, &command, &err), FR_OK);
}

static void test_accounting(void)
{
    const char *why;

    open_bed("slurmdbd is away: the controller is not", 0);
    program("sacct",
            "echo 'sacct: error: Sending PersistInit msg: Connection refused' >&2; exit 1");
    account("a");
    ask("b");
    until(0);
    /* in either order: they run side by side */
    check_part("0:a=1 (sacct: error: Sending PersistInit msg: Connection refused)");
    check_part("0:b=0 -h");
    fr_buf_cut(&bed.said, bed.said.n);
    CHECK_INT(fr_cluster_away(bed.c, &why), 0);
    CHECK_INT(bed.changes, 0);
    CHECK_INT(fr_cluster_asked(bed.c), 2);
    check_row("sacct takes places of the budget");
    program("sacct", "");
    for (int i = 0; i < 6; i++)
        account("a");
    until(5);
    check_said("0:a=0 0:a=0 0:a=0 0:a=0 5:a=0");
    CHECK(!fr_cluster_may_ask(bed.c));
    close_bed();

    open_bed("one that hangs holds no other command up", 0);
    program("sacct", "until [ -e told ]; do sleep 0.01; done; touch hanging; exec sleep 1000");
    account("a");
    ask("b");
    until(40);
    check_said("0:b=0 -h 30:a=-1 (sacct: no end within 30 s)");
    close_bed();
}

#define AWAY "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"

static void test_away(void)
{
    const char *why;

    open_bed("a question is asked again until there is an answer", 0);
    program("squeue", "[ -e back ] || { echo '" AWAY "' >&2; exit 1; }");
    ask("a");
    submit("b");
    until(0);
    check_said("");
    CHECK_INT(fr_cluster_away(bed.c, &why), bed.loop.now_ms + bed.loop.wall_offset_ms);
    CHECK_TEXT(why, AWAY);
    CHECK_INT(bed.changes, 1);
    CHECK(!fr_cluster_may_ask(bed.c));
    check_row("after 10, 20, 40, 80 and 120 s");
    for (int64_t s = 10, n = 2; s < 400; s += s < 150 ? s + 10 : 120, n++) {
        until(s - 1);
        CHECK_INT(fr_cluster_asked(bed.c), n - 1);
        until(s);
        CHECK_INT(fr_cluster_asked(bed.c), n);
    }
    CHECK_INT(fr_cluster_away(bed.c, &why),
              bed.began_ms + bed.loop.wall_offset_ms); /* since the first of these */
    check_row("then the others follow");
    program("back", "");
    until(600);
    check_said("510:a=0 510:b=0 7");
    CHECK_INT(fr_cluster_away(bed.c, &why), 0);
    CHECK_TEXT(why, "");
    CHECK(fr_cluster_may_ask(bed.c));
    close_bed();

    open_bed("the end of an sbatch is told", 0);
    program("sbatch", "echo 'sbatch: error: Socket timed out on send/recv operation' >&2; exit 1");
    submit("a");
    ask("b");
    until(30);
    check_said("0:a=1 (sbatch: error: Socket timed out on send/recv operation) 10:b=0 -h");
    check_row("a refusal is an answer");
    program("sbatch", "echo 'sbatch: error: Invalid account' >&2; exit 1");
    bed.changes = 0;
    submit("a");
    ask("b");
    until(60);
    check_said("30:a=1 (sbatch: error: Invalid account) 30:b=0 -h");
    CHECK_INT(bed.changes, 0);
    close_bed();
}

static void test_hanging(void)
{
    const char *why;

    open_bed("one that hangs is killed", 0);
    program("sbatch", "echo $$ > pid; : > hanging; exec sleep 1000");
    submit("a");
    ask("b");
    until(29);
    check_said("");
    until(100);
    check_said("30:a=-1 (sbatch: no end within 30 s) 40:b=0 -h");
    CHECK_INT(fr_cluster_away(bed.c, &why), 0);
    program("killed", "kill -0 $(cat pid) 2>/dev/null && echo lives");
    CHECK(system(path_of("killed")) != 0);
    close_bed();
}

static void test_forget(void)
{
    static char one[] = "one", two[] = "two";

    open_bed("calls that are forgotten", 0);
    ask(one);
    ask(two);
    ask(one);
    ask(two);
    fr_cluster_forget(bed.c, one);
    until(0);
    check_said("0:two=0 -h 0:two=0 -h");
    CHECK_INT(fr_cluster_asked(bed.c), 2);
    check_row("one that runs");
    program("sbatch", ": > hanging; exec sleep 1000");
    submit(one);
    ask(two);
    until(1);
    fr_cluster_forget(bed.c, one);
    until(100);
    check_said("40:two=0 -h");
    check_row("destroyed as one runs");
    submit(one);
    ask(two);
    until(101);
    close_bed();
}

/* What commands find in their environment. */
static void test_environ(void)
{
    static const char *const argv[] = {"squeue", NULL};

    setenv("SLURM_CONF", "/s/slurm.conf", 1);
    setenv("SLURM_JOB_ID", "1", 1);
    setenv("SBATCH_EXPORT", "ALL", 1);
    setenv("PMI_RANK", "0", 1);
    setenv("LANG", "de_DE.UTF-8", 1);
    setenv("LC_TIME", "de_DE.UTF-8", 1);
    setenv("SECRET", "x", 1);
    setenv("HOME", "/h", 1);
    setenv("USER", "u", 1);
    setenv("LOGNAME", "u", 1);
    setenv("TZ", "Europe/Berlin", 1);
    open_bed("the environment", 0);
    program("squeue",
            "env | grep -v -e ^PATH= -e ^PWD= -e ^OLDPWD= -e ^SHLVL= -e ^_= | sort | tr '\\n' ' '; "
            "echo ${PATH%%:*}");
    run(argv, true, true, "a");
    until(0);
    CHECK(bed.said.n > 0 && strstr(bed.said.p, bed.folder) != NULL);
    if (bed.said.n > strlen(bed.folder))
        bed.said.p[bed.said.n -= strlen(bed.folder)] = '\0';
    check_said("0:a=0 HOME=/h LANG=de_DE.UTF-8 LC_ALL=C LOGNAME=u SLURM_CONF=/s/slurm.conf TZ=UTC "
               "USER=u ");
    close_bed();
}

/* A runner that is ready when the test says so, and then runs commands here. */
static struct {
    struct fr_runner here;
    bool ready, falls; /* falls: it is not ready any more when a command ends */
} gate;

static enum fr_rc gate_make(void *self, const struct fr_runner_command *command,
                            struct fr_link *out, struct fr_err *err)
{
    (void)self;
    CHECK(gate.ready);
    return gate.here.ops->make(gate.here.self, command, out, err);
}

static int gate_code(const struct fr_link *link, struct fr_str *errors)
{
    gate.ready = gate.ready && !gate.falls;
    return gate.here.ops->code(link, errors);
}

static bool gate_ready(void *self)
{
    (void)self;
    return gate.ready;
}

static void test_runner(void)
{
    static const struct fr_runner_ops ops = {
        .name = "gate", .make = gate_make, .code = gate_code, .ready = gate_ready};
    static const struct fr_runner runner = {&ops, NULL};
    static const char *const other[] = {"scontrol", NULL};
    struct fr_arena arena = {0};
    struct fr_cluster_args args = {
        .loop = &bed.loop.loop, .runner = &runner, .changed = on_change, .arg = &bed};
    const char *why;

    open_bed("a runner that is not ready", 0);
    fr_cluster_destroy(bed.c);
    CHECK_INT(fr_runner_local_create(&gate.here, &bed.loop.loop,
                                     fr_slurm_environ(bed.folder, &arena), NULL),
              FR_OK);
    CHECK_INT(fr_cluster_create(&args, &bed.c, NULL), FR_OK);
    program("scontrol", "echo here");
    CHECK(!fr_cluster_may_ask(bed.c) && fr_cluster_may_ask_ms(bed.c) == INT64_MAX);
    ask("a");
    run(other, false, false, "b");
    until(100);
    check_said("");
    gate.ready = true;
    fr_cluster_ready(bed.c);
    until(100);
    check_part("100:b=0 here");
    check_part("100:a=0 -h");
    fr_buf_cut(&bed.said, bed.said.n);
    CHECK(fr_cluster_may_ask(bed.c));
    check_row("an end that is lost with its runner");
    program("squeue", "kill -9 $$");
    gate.falls = true;
    ask("c");
    bed.changes = 0;
    until(101);
    check_said("");
    CHECK(!gate.ready && fr_cluster_away(bed.c, &why) == 0 && bed.changes == 0);
    program("squeue", "echo again");
    gate.ready = true;
    gate.falls = false;
    fr_cluster_ready(bed.c);
    until(101);
    check_said("101:c=0 again");
    close_bed();
    fr_runner_destroy(&gate.here);
    fr_arena_finish(&arena);
}

static void count(void *arg, const struct fr_command_end *end)
{
    CHECK_INT(end->code, 0);
    ++*(int *)arg;
}

/* The loop of a real process. */
static void test_real_loop(void)
{
    static const char *const argv[] = {"squeue", NULL}, *const other[] = {"scontrol", NULL};
    struct fr_cluster_args args = {0};
    struct fr_loop loop;
    struct fr_cluster *c = NULL;
    struct fr_err err = {0};
    int ends = 0;

    check_row("a real loop");
    bed = (struct bed){.folder = "/tmp/flowrun-slurm-XXXXXX"};
    CHECK(mkdtemp(bed.folder) != NULL);
    program("squeue", "echo one; echo two >&2");
    program("scontrol", "echo node1");
    CHECK_INT(fr_loop_event_create(&loop, &err), FR_OK);
    args = (struct fr_cluster_args){.loop = &loop, .path = bed.folder};
    CHECK_INT(fr_cluster_create(&args, &c, &err), FR_OK);
    for (int i = 0; i < 6; i++) {
        const struct fr_command command = {
            .argv = i % 2 ? argv : other, .asks = i % 2, .ended = count, .arg = &ends};

        CHECK_INT(fr_cluster_run(c, &command, &err), FR_OK);
    }
    while (ends < 6 && fr_loop_turn(&loop, true, &err) == FR_OK)
        ;
    CHECK_INT(ends, 6);
    fr_cluster_destroy(c);
    fr_loop_destroy(&loop);
    CHECK_INT(fr_remove_tree(bed.folder, &err), FR_OK);
}

int main(void)
{
    test_ends();
    test_budget();
    test_accounting();
    test_away();
    test_hanging();
    test_forget();
    test_environ();
    test_runner();
    test_real_loop();
    return check_done();
}
