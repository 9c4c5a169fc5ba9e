/* The task cleanup: which processes, listeners and files it ends and removes, and which it spares.
 */
#include "engine/supervise/home.h"
#include "engine/supervise/journal.h"
#include "tests/unit/tasks/tasks_bed.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define DEAD "00000000000000000000000000000d0a"
#define LIVE "0000000000000000000000000000011e"
#define UNKNOWN "0000000000000000000000000000011f"

extern char **environ;

/* A process called name (a copy of sleep) that is there once this returns. attempt: NULL none. */
static pid_t start_sleeper(struct bed *b, const char *name, const char *attempt)
{
    const char *argv[] = {text_at(b, "%s/%s", name), "600", NULL};
    struct fr_proc p = {0};
    struct fr_buf bytes = {0};

    CHECK(fr_file_read("/bin/sleep", 64 << 20, &bytes, NULL) == FR_OK);
    if (access(argv[0], F_OK) != 0)
        CHECK(fr_file_write(argv[0], bytes.p, bytes.n, 0755, NULL) == FR_OK);
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
static int make_home(struct bed *b)
{
    struct fr_node_home h;
    char path[FR_NODE_PATH];
    struct fr_rec rec = {.kind = FR_REC_PREPARED};
    const char *const ids[] = {DEAD, LIVE};
    int fd = -1;

    CHECK(fr_home_open(&h, text_at(b, "%s/%s", "home"), NULL) == FR_OK);
    for (int i = 0; i < 2; i++) {
        CHECK(fr_id_parse(fr_str_of(ids[i]), &rec.attempt));
        CHECK(fr_journal_append(h.journal, &rec, NULL) == FR_OK);
    }
    fr_home_path(h.path, FR_HOME_LOG, rec.attempt, path);
    fd = fr_sys.open(path, O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0 && fr_sys.lock(fd) == 0);
    fr_home_close(&h);
    return fd;
}

static void test_cleanup_processes(struct bed *b)
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

    /* other nodes or jobs are there, too: only what carries an attempt of this home */
    setenv("FLOWRUN_EXECUTOR", "slurm", 1);
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

static void test_cleanup_port(struct bed *b)
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

static void test_cleanup_files(struct bed *b)
{
    char *inner = text_at(b, "%s/leftover-a/%s", "x"), *link = text_at(b, "%s/%s", "leftover-link");
    char *precious = text_at(b, "%s/%s", "precious");
    char *open_one = text_at(b, "%s/%s", "leftover-open");
    char *through = text_at(b, "%s/%s", "into");
    struct fr_buf with = {0};

    CHECK(fr_mkdirs(text_at(b, "%s/%s", "leftover-a"), 0755, NULL) == FR_OK);
    CHECK(fr_mkdirs(precious, 0755, NULL) == FR_OK);
    put(inner, "x");
    put(text_at(b, "%s/precious/%s", "leftover-b"), "y");
    put(open_one, "z");
    put(text_at(b, "%s/%s", "leftover-ope"), "another's name begins so");
    CHECK(fr_mkdirs(text_at(b, "%s/%s", "leftover-in"), 0755, NULL) == FR_OK);
    put(text_at(b, "%s/%s", "leftover-in/x"), "open inside");
    put(text_at(b, "%s/%s", "leftover-theirs"), "another user's");
    CHECK(fr_mkdirs(text_at(b, "%s/%s", "leftover-of"), 0755, NULL) == FR_OK);
    put(text_at(b, "%s/%s", "leftover-of/x"), "another user's below a folder of ours");
    bool root = geteuid() == 0;
    CHECK(!root || chown(text_at(b, "%s/%s", "leftover-of/x"), 65534, 65534) == 0);
    CHECK(!root || chown(text_at(b, "%s/%s", "leftover-theirs"), 65534, 65534) == 0);
    CHECK(symlink(precious, link) == 0 && symlink(precious, through) == 0);
    int fd = fr_sys.open(open_one, O_RDONLY, 0);
    int inside = fr_sys.open(text_at(b, "%s/%s", "leftover-in/x"), O_RDONLY, 0);
    fr_buf_fmt(&with, "{\"globs\": [\"%s/leftover-*\", \"%s/into/leftover-*\"]}", b->dir, b->dir);
    struct said s = run_task(b, "cleanup", with.p);
    CHECK_INT(s.code, 0);
    CHECK(access(inner, F_OK) != 0);
    CHECK(access(link, F_OK) != 0); /* the link itself */
    CHECK(access(text_at(b, "%s/precious/%s", "leftover-b"), F_OK) == 0);
    CHECK(access(open_one, F_OK) == 0);
    CHECK(says(&s.out, "a process has it open"));
    CHECK(access(text_at(b, "%s/%s", "leftover-ope"), F_OK) != 0);
    CHECK(access(text_at(b, "%s/%s", "leftover-in/x"), F_OK) == 0);
    CHECK((access(text_at(b, "%s/%s", "leftover-theirs"), F_OK) == 0) == root);
    CHECK((access(text_at(b, "%s/%s", "leftover-of/x"), F_OK) == 0) == root);
    fr_sys.close(fd);
    fr_sys.close(inside);
    fr_buf_finish(&with);
    said_finish(&s);
}

/* A folder in which a file is open stays whole; one whose name begins or ends like it does not. */
static void test_cleanup_open_inside(struct bed *b)
{
    const char *copy = fr_arena_fmt(&b->arena, "z%s/left-c/x", b->dir); /* its own path again */
    const char *const open_in[] = {"left-a/sub/deep", "left-b2/x", copy};
    static const char *const gone[] = {"left-b/x", "left-c/x", "left-d"};
    struct fr_buf with = {0};
    int fds[3];

    for (int i = 0; i < 3; i++) {
        const char *folders[] = {open_in[i], gone[i]};

        for (int k = 0; k < 2; k++) {
            char *path = text_at(b, "%s/%s", folders[k]);

            *strrchr(path, '/') = '\0';
            CHECK(fr_mkdirs(path, 0755, NULL) == FR_OK);
            put(text_at(b, "%s/%s", folders[k]), "x");
        }
        fds[i] = fr_sys.open(text_at(b, "%s/%s", open_in[i]), O_RDONLY, 0);
        CHECK(fds[i] >= 0);
    }
    put(text_at(b, "%s/%s", "left-a/beside"), "x");
    fr_buf_fmt(&with, "{\"globs\": [\"%s/left-*\"]}", b->dir);
    struct said s = run_task(b, "cleanup", with.p);
    CHECK_INT(s.code, 0);
    for (int i = 0; i < 3; i++) {
        check_row(open_in[i]);
        CHECK(access(text_at(b, "%s/%s", open_in[i]), F_OK) == 0);
        check_row(gone[i]);
        CHECK(access(text_at(b, "%s/%s", gone[i]), F_OK) != 0);
        fr_sys.close(fds[i]);
    }
    check_row("");
    CHECK(access(text_at(b, "%s/%s", "left-a/beside"), F_OK) == 0);
    fr_buf_finish(&with);
    said_finish(&s);
}

/* Files named by attempts: those of a live one stay on every node, also beside the id of an ended
 * one; those of an ended one go; on a local node nothing else goes. */
static void test_cleanup_names(struct bed *b)
{
    static const struct {
        const char *name;
        bool local, other; /* is it removed, on a local node and on another */
    } rows[] = {{"of-" DEAD, true, true},
                {"of-" LIVE, false, false},
                {"of-" DEAD "-" LIVE, false, false},
                {"of-" LIVE "." DEAD, false, false},
                {"of-nobody", false, true},
                {"of-" UNKNOWN, false, true}};
    enum { N = sizeof(rows) / sizeof(rows[0]) };
    int held = make_home(b);
    struct fr_buf with = {0};

    setenv("FLOWRUN_NODE_HOME", text_at(b, "%s/%s", "home"), 1);
    fr_buf_fmt(&with, "{\"globs\": [\"%s/of-*\"]}", b->dir);
    for (int local = 1; local >= 0; local--) {
        for (size_t i = 0; i < N; i++)
            put(text_at(b, "%s/%s", rows[i].name), "x");
        if (local)
            setenv("FLOWRUN_EXECUTOR", "local", 1);
        struct said s = run_task(b, "cleanup", with.p);
        unsetenv("FLOWRUN_EXECUTOR");
        CHECK_INT(s.code, 0);
        for (size_t i = 0; i < N; i++) {
            check_row(rows[i].name);
            CHECK((access(text_at(b, "%s/%s", rows[i].name), F_OK) != 0) ==
                  (local ? rows[i].local : rows[i].other));
        }
        check_row("");
        CHECK(says(&s.out, "its name is that of a live attempt"));
        said_finish(&s);
    }
    fr_sys.close(held);
    unsetenv("FLOWRUN_NODE_HOME");
    fr_buf_finish(&with);
}

int main(int argc, char **argv)
{
    struct bed b;

    if (!bed_begin(&b, argc, argv))
        return EXIT_FAILURE;
    test_cleanup_processes(&b);
    test_cleanup_port(&b);
    test_cleanup_files(&b);
    test_cleanup_open_inside(&b);
    test_cleanup_names(&b);
    bed_end(&b);
    return check_done();
}
