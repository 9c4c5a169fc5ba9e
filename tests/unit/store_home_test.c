/* The folder of all state: where it is looked for, on which file systems, and who owns a run in it.
 */
#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "engine/store/home.h"
#include "engine/store/store.h"
#include "tests/unit/check.h"

#include <sys/wait.h>
#include <unistd.h>

static const struct fr_id ONE = {{1}}, TWO = {{2}}, THREE = {{3}};

static char home[256];

static void make_home(void)
{
    struct fr_err err;
    const char *tmp = getenv("TMPDIR");

    snprintf(home, sizeof(home), "%s/flowrun-store-XXXXXX", tmp != NULL ? tmp : "/tmp");
    CHECK(mkdtemp(home) != NULL);
    struct fr_buf real = {0};
    fr_buf_text(&real, home);
    CHECK_INT(fr_home_resolve(&real, &err), FR_OK); /* TMPDIR may be behind a link */
    snprintf(home, sizeof(home), "%s", real.p);
    fr_buf_finish(&real);
    CHECK_INT(fr_home_make(home, &err), FR_OK);
}

static int64_t nfs(const char *path)
{
    (void)path;
    return 0x6969;
}

static void test_far_home(void)
{
    struct fr_err err = {0};

    fr_sys.fs_type = nfs;
    CHECK_INT(fr_home_make(home, &err), FR_UNSUPPORTED);
    CHECK(strstr(err.msg, "network file system (NFS)") != NULL);
    CHECK(strstr(err.msg, "set FLOWRUN_HOME to a local folder") != NULL);
    fr_sys = fr_sys_real;
}

static void test_owner(void)
{
    struct fr_err err = {0};
    int fd = -1, second = -1;

    CHECK(!fr_home_owned(home, ONE));
    CHECK_INT(fr_home_own(home, ONE, &fd, &err), FR_OK);
    CHECK(fr_home_owned(home, ONE));
    CHECK(!fr_home_owned(home, TWO));
    CHECK_INT(fr_home_own(home, ONE, &second, &err), FR_BUSY);
    CHECK_INT(second, -1);
    CHECK_INT(fr_home_notify(home, ONE, &err), FR_NOTFOUND);
    fr_sys.close(fd);
    CHECK(!fr_home_owned(home, ONE));
}

static int child_waits[2];
static pid_t child;

/* Instead of a wait: the child lets go of what it was forked with. */
static int let_go(struct pollfd *v, nfds_t n, int timeout_ms)
{
    (void)v;
    (void)n;
    (void)timeout_ms;
    close(child_waits[1]);
    return waitpid(child, NULL, 0) == child ? 0 : -1;
}

/* An owner dies while what it has forked is not yet another program. */
static void test_owner_outlived(void)
{
    int (*poll)(struct pollfd * v, nfds_t n, int timeout_ms) = fr_sys.poll;
    struct fr_err err = {0};
    int fd = -1;
    char c;

    CHECK(pipe(child_waits) == 0);
    CHECK_INT(fr_home_own(home, THREE, &fd, &err), FR_OK);
    if ((child = fork()) == 0) {
        close(child_waits[1]);
        _exit(read(child_waits[0], &c, 1) == 0 ? 0 : 1);
    }
    close(child_waits[0]);
    fr_sys.close(fd);
    CHECK(fr_home_owned(home, THREE));
    fr_sys.poll = let_go;
    CHECK_INT(fr_home_own(home, THREE, &fd, &err), FR_OK);
    fr_sys.poll = poll;
    fr_sys.close(fd);
}

static void test_find_home(void)
{
    static const struct {
        const char *flowrun, *xdg, *user, *want;
    } cases[] = {
        {"/a", "/b", "/c", "/a"},         {"", "/b", "/c", "/b/flowrun"},
        {NULL, "/b", "/c", "/b/flowrun"}, {NULL, NULL, "/c", "/c/.local/state/flowrun"},
        {NULL, NULL, NULL, NULL},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fr_buf got = {0};
        struct fr_err err = {0};
        const char *const vars[] = {"FLOWRUN_HOME", "XDG_STATE_HOME", "HOME"};
        const char *const values[] = {cases[i].flowrun, cases[i].xdg, cases[i].user};

        for (int v = 0; v < 3; v++)
            CHECK((values[v] ? setenv(vars[v], values[v], 1) : unsetenv(vars[v])) == 0);
        CHECK_INT(fr_home_find(&got, &err), cases[i].want != NULL ? FR_OK : FR_USAGE);
        if (cases[i].want != NULL)
            CHECK_TEXT(got.p, cases[i].want);
        fr_buf_finish(&got);
    }
}

/* The home and a folder above it are links; a folder inside it that is a link stays refused. */
static void test_linked_home(void)
{
    static const char *const made[] = {"real", "real/h", "far"};
    static const struct {
        const char *at, *to;
    } links[] = {{"up", "real"}, {"real/link", "h"}};
    char path[512];
    struct fr_buf got = {0};
    struct fr_err err = {0};
    struct fr_store *st = NULL;

    for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", home, made[i]);
        CHECK_INT(mkdir(path, 0700), 0);
    }
    for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", home, links[i].at);
        CHECK_INT(symlink(links[i].to, path), 0);
    }
    fr_buf_fmt(&got, "%s/up/link", home);
    CHECK_INT(fr_home_resolve(&got, &err), FR_OK);
    snprintf(path, sizeof(path), "%s/real/h", home);
    CHECK_TEXT(got.p, path);
    CHECK_INT(fr_home_make(got.p, &err), FR_OK);
    CHECK_INT(fr_store_open(got.p, &st, &err), FR_OK);
    fr_store_close(st);

    snprintf(path, sizeof(path), "%s/real/h/spool", home);
    CHECK_INT(rmdir(path), 0);
    CHECK_INT(symlink("../../far", path), 0);
    CHECK_INT(fr_home_make(got.p, &err), FR_DENIED);
    CHECK(strstr(err.msg, "real/h/spool is a symbolic link") != NULL);

    got.n = 0;
    fr_buf_fmt(&got, "%s/dangling", home);
    CHECK_INT(symlink("nowhere", got.p), 0);
    CHECK(fr_home_resolve(&got, &err) != FR_OK);
    CHECK(strstr(err.msg, "/dangling") != NULL);
    fr_buf_finish(&got);
}

int main(void)
{
    struct fr_err err = {0};

    make_home();
    test_far_home();
    test_owner();
    test_owner_outlived();
    test_find_home();
    test_linked_home();
    CHECK_INT(fr_remove_tree(home, &err), FR_OK);
    return check_done();
}
