/* The task publish: a version is there as a whole or not at all, killed at every system call of it.
 * The task janitor: a checkpoint likewise.
 */
#include "tasks/task.h"
#include "tests/unit/sync_guard.h"
#include "tests/unit/tasks/tasks_bed.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

static void read_text(const char *path, char *out, size_t cap)
{
    int fd = fr_sys.open(path, O_RDONLY, 0);
    ssize_t n = fd >= 0 ? fr_sys.read(fd, out, cap - 1) : 0;

    out[n > 0 ? n : 0] = '\0';
    if (fd >= 0)
        fr_sys.close(fd);
}

/* pub/ with version v1, which `latest` points to, and new/ with other content. */
static void make_published(struct bed *b)
{
    CHECK(fr_remove_tree(text_at(b, "%s/%s", "pub"), NULL) == FR_OK);
    CHECK(fr_mkdirs(text_at(b, "%s/%s", "pub/v1"), 0755, NULL) == FR_OK);
    CHECK(fr_mkdirs(text_at(b, "%s/%s", "new"), 0755, NULL) == FR_OK);
    put(text_at(b, "%s/%s", "pub/v1/a"), "old");
    put(text_at(b, "%s/%s", "new/a"), "new");
    CHECK(symlink("v1", text_at(b, "%s/%s", "pub/latest")) == 0);
}

/* Runs publish and kills it as it enters its nth system call; false: it ended before. */
static bool publish_killed(struct bed *b, const char *with, int n)
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

static bool is_whole(struct bed *b)
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

static void test_publish_killed(struct bed *b)
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

/* A version gets its name only once all in it is safe, and `latest` names it only then. */
static void test_publish_synced(struct bed *b)
{
    char name[] = "publish", link[8] = "", *argv[] = {name, NULL, NULL};
    struct fr_buf with = {0};
    size_t renames;

    make_published(b);
    CHECK(fr_mkdirs(text_at(b, "%s/%s", "new/sub/deep"), 0755, NULL) == FR_OK);
    put(text_at(b, "%s/%s", "new/sub/deep/b"), "below");
    fr_buf_fmt(&with, "{\"from\": \"%s/new\", \"to\": \"%s/pub\", \"version\": \"v3\"}", b->dir,
               b->dir);
    argv[1] = with.p;
    sync_guard_begin();
    CHECK_INT(fr_task_publish(2, argv), 0);
    CHECK_INT(sync_guard_end(true, &renames), 0);
    CHECK_INT(renames, 3); /* the manifest, the version, latest */
    CHECK(readlink(text_at(b, "%s/%s", "pub/latest"), link, sizeof(link) - 1) == 2);
    CHECK_TEXT(link, "v3");
    CHECK(fr_remove_tree(text_at(b, "%s/%s", "new"), NULL) == FR_OK);
    fr_buf_finish(&with);
}

static void test_publish_twice(struct bed *b)
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

    setenv("FLOWRUN_RUN", "fedcba9876543210fedcba9876543210",
           1); /* a run has versions of its own */
    s = run_task(b, "publish", with.p);
    CHECK_INT(s.code, 0);
    CHECK(says(&s.out, "\"changed\":true"));
    memset(second, 0, sizeof(second));
    CHECK(readlink(text_at(b, "%s/%s", "pub/latest"), second, sizeof(second) - 1) > 0);
    CHECK(strcmp(first, second) != 0);
    said_finish(&s);
    setenv("FLOWRUN_RUN", "0123456789abcdef0123456789abcdef", 1);

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

static int no_unlink(const char *path)
{
    (void)path;
    errno = EIO;
    return -1;
}

/* The janitor is asked to stop after one look. */
static int stop_asked(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    (void)fds;
    (void)timeout_ms;
    return (int)n;
}

/* A checkpoint that cannot be removed as a whole is not there as a half. */
static void test_janitor_stopped(struct bed *b)
{
    char name[] = "janitor", *argv[] = {name, NULL, NULL};
    struct fr_buf with = {0};
    sigset_t set;

    sigprocmask(SIG_SETMASK, NULL, &set);
    CHECK(fr_mkdirs(text_at(b, "%s/%s", "half/checkpoint-1"), 0755, NULL) == FR_OK);
    CHECK(fr_mkdirs(text_at(b, "%s/%s", "half/checkpoint-2"), 0755, NULL) == FR_OK);
    put(text_at(b, "%s/%s", "half/checkpoint-1/x"), "x");
    fr_buf_fmt(&with, "{\"dir\": \"%s/half\", \"max_size\": 1, \"keep_checkpoints\": 1}", b->dir);
    argv[1] = with.p;
    fr_sys.unlink = no_unlink;
    fr_sys.poll = stop_asked;
    CHECK_INT(fr_task_janitor(2, argv), 0);
    fr_sys.unlink = fr_sys_real.unlink;
    fr_sys.poll = fr_sys_real.poll;
    sigprocmask(SIG_SETMASK, &set, NULL);
    CHECK(access(text_at(b, "%s/%s", "half/checkpoint-1"), F_OK) != 0);
    CHECK(access(text_at(b, "%s/%s", "half/.checkpoint-1.removing/x"), F_OK) == 0);
    CHECK(access(text_at(b, "%s/%s", "half/checkpoint-2"), F_OK) == 0);
    fr_buf_finish(&with);
}

int main(int argc, char **argv)
{
    struct bed b;

    if (!bed_begin(&b, argc, argv))
        return EXIT_FAILURE;
    test_publish_twice(&b);
    test_publish_synced(&b);
    test_publish_killed(&b);
    test_janitor_stopped(&b);
    bed_end(&b);
    return check_done();
}
