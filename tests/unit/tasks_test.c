/* Built-in tasks: the real flownode (argv[1]) runs them as a supervisor would. */
#include "engine/base/arena.h"
#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "engine/node/home.h"
#include "engine/node/journal.h"
#include "tasks/command.h"
#include "tasks/gpu.h"
#include "tests/unit/check.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define FIXTURES SOURCE_ROOT "/tests/unit/fixtures"
#define DEAD "00000000000000000000000000000d0a"
#define LIVE "0000000000000000000000000000011e"

struct bed { /* one folder and the program under test */
    const char *flownode;
    char dir[64];
    struct fr_arena *arena;
};

struct said { /* what a task printed */
    int code;
    struct fr_buf out, err;
};

/* fmt has two %s: the folder, and more. */
static char *text_at(const struct bed *b, const char *fmt, const char *more)
{
    struct fr_buf t = {0};
    char *text;

    fr_buf_fmt(&t, fmt, b->dir, more);
    text = fr_arena_text(b->arena, t.p, t.n);
    fr_buf_finish(&t);
    return text;
}

static void put(const char *path, const char *text)
{
    struct fr_err err;

    CHECK(fr_file_write(path, text, strlen(text), 0755, &err) == FR_OK);
}

static struct said run_task(const struct bed *b, const char *name, const char *with)
{
    const char *argv[] = {b->flownode, "task", name, with, NULL};
    struct fr_command c = {.argv = argv, .timeout_ms = 60000};
    struct fr_err err;
    enum fr_rc rc = fr_command_run(&c, &err);

    if (!CHECK(rc == FR_OK))
        printf("%s\n", err.msg);
    return (struct said){c.signaled ? -1 : c.code, c.out, c.err};
}

static bool says(const struct fr_buf *b, const char *text)
{
    return b->p != NULL && strstr(b->p, text) != NULL;
}

static void said_finish(struct said *s)
{
    fr_buf_finish(&s->out);
    fr_buf_finish(&s->err);
}

/* The last line is one JSON object; the caller's. */
static json_t *last_json(const struct said *s)
{
    struct fr_str line = fr_last_line(&s->out);

    return json_loadb(line.p, line.n, 0, NULL);
}

/* ---- wrong inputs ---- */

static void test_wrong_inputs(const struct bed *b)
{
    static const struct {
        const char *task, *with, *message;
        int code;
    } rows[] = {
        {"train", "[]", "inputs: expected a JSON object", FR_JOB_USAGE},
        {"train", "{", "inputs", FR_JOB_USAGE},
        {"train", "{\"output_dir\": \"/x\"}", "input 'model' is missing", FR_JOB_USAGE},
        {"train", "{\"output_dir\": \"/x\", \"nproc_per_node\": 0}", "'nproc_per_node' is 0",
         FR_JOB_USAGE},
        {"train", "{\"port\": 70000}", "port 70000 is not", FR_JOB_USAGE},
        {"train", "{\"dry_run\": \"yes\"}", "input 'dry_run' is not true or false", FR_JOB_USAGE},
        {"nccl-probe", "{\"iterations\": 0}", "'iterations' is 0", FR_JOB_USAGE},
        {"cleanup", "{\"globs\": [\"/etc/*\"]}", "not below /dev/shm, /tmp or ~/.nv", FR_JOB_USAGE},
        {"cleanup", "{\"globs\": [\"/tmp/../etc/x\"]}", "empty, . or ..", FR_JOB_USAGE},
        {"cleanup", "{\"globs\": \"/tmp/x\"}", "input 'globs' is not a list of texts",
         FR_JOB_USAGE},
        {"cleanup", "{\"processes\": [\"/bin/sh\"]}", "no name of a program", FR_JOB_USAGE},
        {"cleanup", "{\"owner\": \"nobody-like-this\"}", "no user 'nobody-like-this'", 1},
        {"cleanup", "{\"port\": 70000}", "'port' is 70000", FR_JOB_USAGE},
        {"preflight", "{\"ports\": 1000}", "expected at most", FR_JOB_USAGE},
        {"preflight", "{\"gpus\": 4}", "GPUs are wanted, and there is no nvidia-smi", 1},
        {"preflight", "{\"ports\": 0, \"commands\": [\"no-such-command\"]}", "is not in PATH", 1},
        {"preflight", "{\"ports\": 0, \"disk\": 4611686018427387904}", "free space in", 1},
        {"container", "{\"runtime\": \"podman\"}", "podman is not installed", 1},
        {"gather-adapters", "{}", "input 'from' is missing", FR_JOB_USAGE},
        {"gather-adapters", "{\"from\": \"/x\", \"files\": [\"../y\"]}", "not a path below",
         FR_JOB_USAGE},
        {"gather-adapters", "{\"from\": \"/nowhere\", \"to\": \"/tmp/flowrun-none/a\"}",
         "is not there", 1},
        {"publish", "{\"to\": \"/x\"}", "input 'from' is missing", FR_JOB_USAGE},
        {"publish", "{\"from\": \"/nowhere\", \"to\": \"/x\"}", "cannot publish /nowhere", 1},
        {"publish", "{\"from\": \"/x\", \"to\": \"/y\", \"version\": \"a/b\"}", "plain name",
         FR_JOB_USAGE},
        {"janitor", "{}", "input 'dir' is missing", FR_JOB_USAGE},
        {"janitor", "{\"dir\": \"/x\", \"interval\": 0}", "interval 0 ms", FR_JOB_USAGE},
    };

    setenv("PATH", text_at(b, "%s%s", "/empty"), 1);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct said s = run_task(b, rows[i].task, rows[i].with);
        json_t *line = last_json(&s);

        check_row(rows[i].with);
        CHECK_INT(s.code, rows[i].code);
        if (!CHECK(says(&s.err, rows[i].message)))
            printf("said: %s\n", s.err.p != NULL ? s.err.p : "");
        CHECK(json_is_false(json_object_get(line, "ok")));
        json_decref(line);
        said_finish(&s);
    }
    check_row("");
    setenv("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", 1);
    fr_remove_tree("/tmp/flowrun-none", NULL);
}

/* ---- train ---- */

static void test_train_command(const struct bed *b)
{
    static const char with[] =
        "{\"dry_run\": true, \"model\": \"/m\", \"dataset\": \"d\", \"dataset_dir\": \"/d\","
        " \"output_dir\": \"out\", \"learning_rate\": 5e-05, \"bf16\": true, \"max_steps\": 40,"
        " \"ddp_timeout\": 120000, \"args\": [\"--plot_loss\"]}";
    static const char *const words[] = {
        "launch --nproc_per_node 2 --nnodes 3 --node_rank 1 --master_port 41234 "
        "--master_addr 10.0.0.1 --rdzv_id run1 -- train --do_train true",
        "--model_name_or_path /m",
        "--learning_rate 5e-05",
        "--bf16 true",
        "--max_steps 40",
        "--output_dir /w/out",
        "--ddp_timeout 120",
        "--plot_loss"};

    setenv("FLOWRUN_WORK", "/w", 1);
    setenv("FLOWRUN_RUN", "run1", 1);
    setenv("FLOWRUN_GPUS", "2", 1);
    setenv("NNODES", "3", 1);
    setenv("NODE_RANK", "1", 1);
    setenv("MASTER_ADDR", "10.0.0.1", 1);
    setenv("MASTER_PORT", "41234", 1);
    struct said first = run_task(b, "train", with);
    setenv("FLOWRUN_ATTEMPT_NO", "2", 1);
    struct said second = run_task(b, "train", with);
    unsetenv("FLOWRUN_ATTEMPT_NO");
    setenv("FLOWRUN_GENERATION", "2", 1);
    struct said third = run_task(b, "train", with);

    CHECK_INT(first.code, 0);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (!CHECK(says(&first.out, words[i])))
            printf("missing: %s\n", words[i]);
    CHECK(!says(&first.out, "resume_from_checkpoint"));
    CHECK(says(&second.out, "--resume_from_checkpoint last"));
    CHECK(says(&third.out, "--resume_from_checkpoint last"));
    CHECK(access("/w", F_OK) != 0);
    static const char *const vars[] = {"FLOWRUN_WORK",       "FLOWRUN_RUN", "FLOWRUN_GPUS",
                                       "FLOWRUN_GENERATION", "NNODES",      "NODE_RANK",
                                       "MASTER_ADDR",        "MASTER_PORT"};
    for (size_t i = 0; i < sizeof(vars) / sizeof(vars[0]); i++)
        unsetenv(vars[i]);
    said_finish(&first);
    said_finish(&second);
    said_finish(&third);
}

/* ---- GPUs ---- */

static void read_fixture(const char *name, struct fr_buf *out)
{
    struct fr_buf path = {0};
    struct fr_err err;

    fr_buf_fmt(&path, FIXTURES "/%s", name);
    CHECK(fr_file_read(path.p, 1 << 20, out, &err) == FR_OK);
    fr_buf_finish(&path);
}

static void test_gpus(void)
{
    static const struct {
        const char *fabric;
        bool switches, fails;
        const char *word;
    } rows[] = {
        {"", false, false, ""},
        {"", true, true, "no Fabric Manager"},
        {"fabric-manager.txt", true, false, ""},
        {"fabric-manager-old.txt", true, true, "535.104.05 is not the driver's 535.129.03"},
        {"fabric-manager-old.txt", false, true, "nvidia-fabricmanager-535 in version 535.129.03"},
    };
    struct fr_gpus g = {.n = 0};
    struct fr_buf csv = {0}, banner = {0};
    struct fr_err err;
    char why[512];

    read_fixture("nvidia-smi-query.csv", &csv);
    read_fixture("nvidia-smi-banner.txt", &banner);
    CHECK(fr_gpus_parse(&g, csv.p, &err) == FR_OK);
    fr_gpus_parse_banner(&g, banner.p);
    CHECK_INT(g.n, 3);
    CHECK_TEXT(g.v[0].bus, "00000000:07:00.0"); /* by PCI address, not by number */
    CHECK_INT(g.v[0].index, 1);
    CHECK_TEXT(g.v[1].name, "NVIDIA A100-PCIE-40GB");
    CHECK_INT(g.v[2].memory_mib, 81920);
    CHECK_TEXT(g.driver, "535.129.03");
    CHECK_TEXT(g.cuda, "12.2");
    CHECK(fr_gpus_parse(&g, "No devices were found\n", &err) == FR_PROTO);
    CHECK(fr_gpus_parse(&g, csv.p, &err) == FR_OK);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fr_buf text = {0};
        g.fabric[0] = '\0';
        if (rows[i].fabric[0] != '\0') {
            read_fixture(rows[i].fabric, &text);
            fr_gpus_parse_fabric(&g, text.p);
        }
        g.switches = rows[i].switches;
        check_row(rows[i].word);
        CHECK_INT(fr_gpus_error_802(&g, why), rows[i].fails);
        CHECK(strstr(why, rows[i].word) != NULL);
        fr_buf_finish(&text);
    }
    check_row("");
    CHECK(fr_version_compare("535.104.05", "535.129.03") < 0);
    CHECK(fr_version_compare("550.54", "535.129.03") > 0);
    CHECK(fr_version_compare("12.2", "12.2") == 0);
    CHECK(fr_version_compare("12", "12.1") < 0);
    fr_buf_finish(&csv);
    fr_buf_finish(&banner);
}

/* ---- cleanup ---- */

extern char **environ;

/* A process called name (a copy of sleep) that is there once this returns. attempt: NULL none. */
static pid_t start_sleeper(const struct bed *b, const char *name, const char *attempt)
{
    const char *argv[] = {text_at(b, "%s/%s", name), "600", NULL};
    struct fr_proc p = {0};
    struct fr_err err;
    struct fr_buf bytes = {0};

    CHECK(fr_file_read("/bin/sleep", 64 << 20, &bytes, &err) == FR_OK);
    if (access(argv[0], F_OK) != 0)
        CHECK(fr_file_write(argv[0], bytes.p, bytes.n, 0755, &err) == FR_OK);
    fr_buf_finish(&bytes);
    if (attempt != NULL)
        setenv("FLOWRUN_ATTEMPT", attempt, 1);
    struct fr_spawn s = {.argv = argv,
                         .envp = (const char *const *)environ,
                         .fds = {-1, -1, -1},
                         .die_with_parent = true};
    CHECK(fr_sys.spawn(&s, &p) == 0);
    unsetenv("FLOWRUN_ATTEMPT");
    return p.pid;
}

/* Whether the child is still there; reaps it when not. */
static bool lives(pid_t pid)
{
    struct fr_wait w;

    return fr_sys.wait(pid, &w, FR_WAIT_NOHANG) == 0 && w.pid == 0;
}

/* A node home whose journal knows two attempts; LIVE's supervisor lock is held: by us. */
static int make_home(const struct bed *b)
{
    struct fr_node_home h;
    struct fr_err err;
    char path[FR_NODE_PATH];
    struct fr_rec rec = {.kind = FR_REC_PREPARED};
    const char *const ids[] = {DEAD, LIVE};
    int fd = -1;

    CHECK(fr_home_open(&h, text_at(b, "%s/%s", "home"), &err) == FR_OK);
    for (int i = 0; i < 2; i++) {
        CHECK(fr_id_parse(fr_str_of(ids[i]), &rec.attempt));
        CHECK(fr_journal_append(h.journal, &rec, &err) == FR_OK);
    }
    fr_home_path(h.path, FR_HOME_LOG, rec.attempt, path);
    fd = fr_sys.open(path, O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0 && fr_sys.lock(fd) == 0);
    fr_home_close(&h);
    return fd;
}

static void test_cleanup_processes(const struct bed *b)
{
    /* another copy of this test may run: the names are this one's own */
    char name[16], longer[20], dry_with[80], with[80];
    int held = make_home(b);

    snprintf(name, sizeof(name), "stale%d", (int)getpid());
    snprintf(longer, sizeof(longer), "%s2", name);
    snprintf(dry_with, sizeof(dry_with), "{\"processes\": [\"%s\"], \"dry_run\": true}", name);
    snprintf(with, sizeof(with), "{\"processes\": [\"%s\"], \"grace\": 2000}", name);
    setenv("FLOWRUN_NODE_HOME", text_at(b, "%s/%s", "home"), 1);
    pid_t free_one = start_sleeper(b, name, NULL), like = start_sleeper(b, longer, NULL);
    pid_t live = start_sleeper(b, name, LIVE), dead = start_sleeper(b, name, DEAD);

    struct said dry = run_task(b, "cleanup", dry_with);
    CHECK_INT(dry.code, 0);
    CHECK(lives(free_one) && lives(like) && lives(live) && lives(dead));

    setenv("FLOWRUN_EXECUTOR", "local", 1); /* only what carries an attempt of this home */
    struct said local = run_task(b, "cleanup", with);
    CHECK_INT(local.code, 0);
    CHECK(lives(free_one) && lives(like) && lives(live));
    CHECK(!lives(dead));
    unsetenv("FLOWRUN_EXECUTOR");

    struct said ssh = run_task(b, "cleanup", with);
    json_t *line = last_json(&ssh);
    CHECK_INT(ssh.code, 0);
    CHECK(!lives(free_one));
    CHECK(lives(like) && lives(live));
    CHECK(says(&ssh.out, "it belongs to the live attempt " LIVE));
    CHECK_INT(json_integer_value(json_object_get(line, "ended")), 1);

    /* once its supervisor is gone it is stale, too */
    fr_sys.close(held);
    struct said after = run_task(b, "cleanup", with);
    CHECK_INT(after.code, 0);
    CHECK(!lives(live) && lives(like));
    kill(like, SIGKILL);
    waitpid(like, NULL, 0);
    unsetenv("FLOWRUN_NODE_HOME");
    json_decref(line);
    said_finish(&dry);
    said_finish(&local);
    said_finish(&ssh);
    said_finish(&after);
}

/* A child that ignores SIGTERM and listens on a port. */
static pid_t start_listener(int *port)
{
    int fd = fr_sys.hold_port(0, port), fds[2];
    char c;

    CHECK(fd >= 0 && pipe(fds) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        signal(SIGTERM, SIG_IGN);
        if (listen(fd, 1) != 0 || write(fds[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    CHECK(read(fds[0], &c, 1) == 1);
    close(fds[0]);
    close(fds[1]);
    close(fd);
    return pid;
}

static void test_cleanup_port(const struct bed *b)
{
    int port;
    pid_t pid = start_listener(&port);
    char with[96];

    snprintf(with, sizeof(with), "{\"port\": %d, \"grace\": 100}", port);
    setenv("FLOWRUN_EXECUTOR", "local", 1);
    struct said spared = run_task(b, "cleanup", with);
    unsetenv("FLOWRUN_EXECUTOR");
    CHECK_INT(spared.code, 0);
    CHECK(lives(pid));
    struct said ended = run_task(b, "cleanup", with);
    CHECK_INT(ended.code, 0);
    CHECK(says(&ended.out, "it listens on port"));
    CHECK(!lives(pid));
    said_finish(&spared);
    said_finish(&ended);
}

static void test_cleanup_files(const struct bed *b)
{
    char *inner = text_at(b, "%s/leftover-a/%s", "x"), *link = text_at(b, "%s/%s", "leftover-link");
    char *precious = text_at(b, "%s/%s", "precious");
    char *open_one = text_at(b, "%s/%s", "leftover-open");
    char *through = text_at(b, "%s/%s", "into");
    struct fr_buf with = {0};
    struct fr_err err;

    CHECK(fr_mkdirs(text_at(b, "%s/%s", "leftover-a"), 0755, &err) == FR_OK);
    CHECK(fr_mkdirs(precious, 0755, &err) == FR_OK);
    put(inner, "x");
    put(text_at(b, "%s/precious/%s", "leftover-b"), "y");
    put(open_one, "z");
    CHECK(symlink(precious, link) == 0 && symlink(precious, through) == 0);
    int fd = fr_sys.open(open_one, O_RDONLY, 0);
    fr_buf_fmt(&with, "{\"globs\": [\"%s/leftover-*\", \"%s/into/leftover-*\"]}", b->dir, b->dir);
    struct said s = run_task(b, "cleanup", with.p);
    CHECK_INT(s.code, 0);
    CHECK(access(inner, F_OK) != 0);
    CHECK(access(link, F_OK) != 0); /* the link itself */
    CHECK(access(text_at(b, "%s/precious/%s", "leftover-b"), F_OK) == 0);
    CHECK(access(open_one, F_OK) == 0);
    CHECK(says(&s.out, "a process has it open"));
    fr_sys.close(fd);
    fr_buf_finish(&with);
    said_finish(&s);
}

/* ---- preflight ---- */

/* A folder with nvidia-smi and nv-fabricmanager that print recorded output. */
static char *plant_gpus(const struct bed *b, const char *fabric)
{
    char *dir = text_at(b, "%s/%s", "planted");
    struct fr_buf path = {0}, script = {0};
    struct fr_err err;

    CHECK(fr_mkdirs(dir, 0755, &err) == FR_OK);
    fr_buf_fmt(&path, "%s/nvidia-smi", dir);
    put(path.p, "#!/bin/sh\ncase $1 in\n--query-gpu*) cat " FIXTURES
                "/nvidia-smi-query.csv;;\n--query-compute*) cat " FIXTURES
                "/nvidia-smi-apps.csv;;\n*) cat " FIXTURES "/nvidia-smi-banner.txt;;\nesac\n");
    path.n = 0;
    fr_buf_fmt(&path, "%s/nv-fabricmanager", dir);
    fr_buf_fmt(&script, "#!/bin/sh\ncat " FIXTURES "/%s\n", fabric);
    put(path.p, script.p);
    fr_buf_finish(&path);
    fr_buf_finish(&script);
    return dir;
}

/* Node n2, in a process of its own, with planted GPUs. Its exit status is the task's. */
static pid_t start_second(const struct bed *b, const char *with, const char *planted)
{
    pid_t pid = fork();

    if (pid == 0) {
        struct fr_buf path = {0};
        fr_buf_fmt(&path, "%s:%s", planted, getenv("PATH"));
        setenv("PATH", path.p, 1);
        setenv("NODE_RANK", "1", 1);
        setenv("FLOWRUN_NODE", "n2", 1);
        struct said s = run_task(b, "preflight", with);
        _exit(s.code);
    }
    return pid;
}

static void test_preflight_gang(const struct bed *b)
{
    static const char with[] = "{\"disk\": 1, \"fabric_manager\": \"require\"}";
    char *planted = plant_gpus(b, "fabric-manager-old.txt"), port_text[16];
    int port, status = 0, fd = fr_sys.hold_port(0, &port);

    fr_sys.close(fd);
    snprintf(port_text, sizeof(port_text), "%d", port);
    setenv("NNODES", "2", 1);
    setenv("FLOWRUN_RUN", "r1", 1);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("MASTER_PORT", port_text, 1);
    pid_t second = start_second(b, with, planted);
    setenv("NODE_RANK", "0", 1);
    setenv("FLOWRUN_NODE", "n1", 1);
    struct said s = run_task(b, "preflight", with);
    waitpid(second, &status, 0);
    CHECK_INT(s.code, 1);
    CHECK_INT(WEXITSTATUS(status), 1);
    CHECK(says(&s.out, "*535.129.03")); /* n2's driver, marked */
    CHECK(says(&s.out, "problem: n2: driver 535.129.03, n1 has -"));
    CHECK(says(&s.out,
               "problem: n2: Fabric Manager 535.104.05 is not the driver's 535.129.03: CUDA "
               "fails with error 802"));
    CHECK(says(&s.out, "warning: n2: nvidia-smi's order is not that of PCI"));
    CHECK(says(&s.out, "note: n1: no nvidia-smi here"));
    said_finish(&s);

    second = start_second(b, "{\"disk\": 1, \"same\": false}", planted);
    s = run_task(b, "preflight", "{\"disk\": 1, \"same\": false}");
    waitpid(second, &status, 0);
    CHECK_INT(s.code, 0);
    CHECK_INT(status, 0);
    CHECK(says(&s.out, "warning: n2: Fabric Manager"));
    static const char *const vars[] = {"NNODES",      "NODE_RANK",    "MASTER_ADDR",
                                       "MASTER_PORT", "FLOWRUN_NODE", "FLOWRUN_RUN"};
    for (size_t i = 0; i < sizeof(vars) / sizeof(vars[0]); i++)
        unsetenv(vars[i]);
    said_finish(&s);
}

/* ---- gather, janitor ---- */

static void test_gather(const struct bed *b)
{
    struct fr_buf with = {0};
    struct fr_err err;

    CHECK(fr_mkdirs(text_at(b, "%s/%s", "trained"), 0755, &err) == FR_OK);
    put(text_at(b, "%s/trained/%s", "one"), "1");
    put(text_at(b, "%s/trained/%s", "empty"), "");
    fr_buf_fmt(&with,
               "{\"from\": \"%s/trained\", \"to\": \"%s/adapter\", \"files\": [\"one\"], "
               "\"verify\": false}",
               b->dir, b->dir);
    for (int i = 0; i < 2; i++) {
        struct said s = run_task(b, "gather-adapters", with.p);
        CHECK_INT(s.code, 0);
        CHECK(access(text_at(b, "%s/adapter/%s", "one"), F_OK) == 0);
        said_finish(&s);
    }
    with.n = 0;
    fr_buf_fmt(&with,
               "{\"from\": \"%s/trained\", \"to\": \"%s/adapter\", \"files\": [\"empty\"], "
               "\"verify\": false}",
               b->dir, b->dir);
    struct said s = run_task(b, "gather-adapters", with.p);
    CHECK_INT(s.code, 1);
    CHECK(says(&s.err, "is empty"));
    CHECK(access(text_at(b, "%s/adapter/%s", "one"), F_OK) == 0); /* the old one stays */
    CHECK(access(text_at(b, "%s/%s", "adapter.gather-hand"), F_OK) != 0);
    said_finish(&s);
    fr_buf_finish(&with);
}

static void test_janitor(const struct bed *b)
{
    static const int steps[] = {2, 10, 30};
    struct fr_buf with = {0};
    struct fr_err err;
    char name[64];

    for (size_t i = 0; i < 3; i++) {
        snprintf(name, sizeof(name), "out/checkpoint-%d", steps[i]);
        CHECK(fr_mkdirs(text_at(b, "%s/%s", name), 0755, &err) == FR_OK);
    }
    CHECK(fr_mkdirs(text_at(b, "%s/%s", "out/resume/step-1"), 0755, &err) == FR_OK);
    fr_buf_fmt(&with,
               "{\"dir\": \"%s/out\", \"max_size\": 1, \"keep_checkpoints\": 2, "
               "\"dry_run\": true}",
               b->dir);
    struct said s = run_task(b, "janitor", with.p);
    CHECK_INT(s.code, 0);
    CHECK(says(&s.out, "would: remove") && says(&s.out, "checkpoint-2 ("));
    CHECK(!says(&s.out, "checkpoint-10") && !says(&s.out, "resume"));
    said_finish(&s);

    /* the same as a sidecar: it looks, and ends well when it is stopped */
    with.n = 0;
    fr_buf_fmt(&with,
               "{\"dir\": \"%s/out\", \"max_size\": 1, \"keep_checkpoints\": 2, "
               "\"interval\": 600000}",
               b->dir);
    int fds[2], status;
    char c;
    CHECK(pipe(fds) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(fds[1], 1);
        execl(b->flownode, b->flownode, "task", "janitor", with.p, (char *)NULL);
        _exit(9);
    }
    close(fds[1]);
    CHECK(read(fds[0], &c, 1) == 1); /* its line about checkpoint-2 */
    kill(pid, SIGTERM);
    waitpid(pid, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(access(text_at(b, "%s/%s", "out/checkpoint-2"), F_OK) != 0);
    CHECK(access(text_at(b, "%s/%s", "out/checkpoint-10"), F_OK) == 0);
    CHECK(access(text_at(b, "%s/%s", "out/resume/step-1"), F_OK) == 0);
    close(fds[0]);
    fr_buf_finish(&with);
}

/* ---- publish ---- */

static void read_text(const char *path, char *out, size_t cap)
{
    int fd = fr_sys.open(path, O_RDONLY, 0);
    ssize_t n = fd >= 0 ? fr_sys.read(fd, out, cap - 1) : 0;

    out[n > 0 ? n : 0] = '\0';
    if (fd >= 0)
        fr_sys.close(fd);
}

/* pub/ with version v1, which `latest` points to, and new/ with other content. */
static void make_published(const struct bed *b)
{
    struct fr_err err;

    CHECK(fr_remove_tree(text_at(b, "%s/%s", "pub"), &err) == FR_OK);
    CHECK(fr_mkdirs(text_at(b, "%s/%s", "pub/v1"), 0755, &err) == FR_OK);
    CHECK(fr_mkdirs(text_at(b, "%s/%s", "new"), 0755, &err) == FR_OK);
    put(text_at(b, "%s/%s", "pub/v1/a"), "old");
    put(text_at(b, "%s/%s", "new/a"), "new");
    CHECK(symlink("v1", text_at(b, "%s/%s", "pub/latest")) == 0);
}

/* Runs publish and kills it as it enters its nth system call; false: it ended before. */
static bool publish_killed(const struct bed *b, const char *with, int n)
{
    int status, stops = 0;
    pid_t pid = fork();

    if (pid == 0) {
        int null = open("/dev/null", O_WRONLY);
        dup2(null, 1);
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        raise(SIGSTOP);
        execl(b->flownode, b->flownode, "task", "publish", with, (char *)NULL);
        _exit(9);
    }
    CHECK(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status));
    ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
    for (;;) {
        ptrace(PTRACE_SYSCALL, pid, NULL, NULL);
        if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
            return false;
        stops += WSTOPSIG(status) == (SIGTRAP | 0x80);
        if (stops == 2 * n - 1) { /* entries and returns take turns */
            kill(pid, SIGKILL);
            waitpid(pid, &status, 0);
            return true;
        }
    }
}

static bool is_whole(const struct bed *b)
{
    char link[64], content[16];
    ssize_t n = readlink(text_at(b, "%s/%s", "pub/latest"), link, sizeof(link) - 1);
    json_t *manifest = json_load_file(text_at(b, "%s/%s", "pub/latest/manifest.json"), 0, NULL);
    bool whole;

    link[n > 0 ? n : 0] = '\0';
    read_text(text_at(b, "%s/%s", "pub/latest/a"), content, sizeof(content));
    if (strcmp(link, "v1") == 0)
        whole = strcmp(content, "old") == 0;
    else
        whole = strcmp(link, "v2") == 0 && strcmp(content, "new") == 0 &&
                json_array_size(json_object_get(manifest, "files")) == 1;
    json_decref(manifest);
    return whole;
}

static void test_publish_killed(const struct bed *b)
{
    struct fr_buf with = {0};
    int n = 1, olds = 0, news = 0;
    bool killed = true;

    fr_buf_fmt(&with, "{\"from\": \"%s/new\", \"to\": \"%s/pub\", \"version\": \"v2\"}", b->dir,
               b->dir);
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1); /* its leak check cannot run while traced */
    for (; killed; n++) {
        char link[8] = "";
        make_published(b);
        killed = publish_killed(b, with.p, n);
        if (!CHECK(is_whole(b)))
            printf("killed at system call %d\n", n);
        CHECK(readlink(text_at(b, "%s/%s", "pub/latest"), link, sizeof(link) - 1) == 2);
        olds += strcmp(link, "v1") == 0;
        news += strcmp(link, "v2") == 0;
        if (killed && n % 16 == 0) { /* what is left does not hinder the next */
            struct said s = run_task(b, "publish", with.p);
            CHECK_INT(s.code, 0);
            CHECK(readlink(text_at(b, "%s/%s", "pub/latest"), link, sizeof(link) - 1) == 2);
            CHECK_TEXT(link, "v2");
            said_finish(&s);
        }
    }
    unsetenv("ASAN_OPTIONS");
    CHECK(olds > 10 && news >= 2);
    printf("publish killed at %d system calls: %d times the old version, %d times the new\n", n - 2,
           olds, news);
    fr_buf_finish(&with);
}

static void test_publish_twice(const struct bed *b)
{
    struct fr_buf with = {0};
    char first[64] = "", second[64] = "";

    make_published(b);
    setenv("FLOWRUN_RUN", "0123456789abcdef0123456789abcdef", 1);
    fr_buf_fmt(&with, "{\"from\": \"%s/new\", \"to\": \"%s/pub\"}", b->dir, b->dir);
    struct said s = run_task(b, "publish", with.p);
    CHECK_INT(s.code, 0);
    CHECK(readlink(text_at(b, "%s/%s", "pub/latest"), first, sizeof(first) - 1) > 0);
    said_finish(&s);
    s = run_task(b, "publish", with.p);
    CHECK_INT(s.code, 0);
    CHECK(says(&s.out, "\"changed\":false"));
    CHECK(readlink(text_at(b, "%s/%s", "pub/latest"), second, sizeof(second) - 1) > 0);
    CHECK_TEXT(second, first);
    said_finish(&s);

    put(text_at(b, "%s/%s", "new/a"), "newer"); /* other content: another version */
    s = run_task(b, "publish", with.p);
    CHECK_INT(s.code, 0);
    memset(second, 0, sizeof(second));
    CHECK(readlink(text_at(b, "%s/%s", "pub/latest"), second, sizeof(second) - 1) > 0);
    CHECK(strcmp(first, second) != 0);
    said_finish(&s);

    with.n = 0;
    fr_buf_fmt(&with, "{\"from\": \"%s/new\", \"to\": \"%s/pub\", \"version\": \"v1\"}", b->dir,
               b->dir);
    s = run_task(b, "publish", with.p);
    CHECK_INT(s.code, FR_JOB_USAGE);
    CHECK(says(&s.err, "already there with other content"));
    said_finish(&s);
    unsetenv("FLOWRUN_RUN");
    fr_buf_finish(&with);
}

int main(int argc, char **argv)
{
    struct fr_arena arena = {0};
    struct bed b = {argc > 1 ? argv[1] : "", "/tmp/flowrun-tasks-XXXXXX", &arena};
    struct fr_err err;

    if (access(b.flownode, X_OK) != 0 || mkdtemp(b.dir) == NULL) {
        printf("usage: tasks_test FLOWNODE\n");
        return EXIT_FAILURE;
    }
    setenv("TMPDIR", b.dir, 1);
    test_wrong_inputs(&b);
    test_train_command(&b);
    test_gpus();
    test_cleanup_processes(&b);
    test_cleanup_port(&b);
    test_cleanup_files(&b);
    test_preflight_gang(&b);
    test_gather(&b);
    test_janitor(&b);
    test_publish_twice(&b);
    test_publish_killed(&b);
    CHECK(fr_remove_tree(b.dir, &err) == FR_OK);
    fr_arena_finish(&arena);
    return check_done();
}
