/* The folder of all state: where it is looked for, on which file systems, and who its host is. */
#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "engine/store/home.h"
#include "engine/store/store.h"
#include "tests/unit/check.h"

#include <fcntl.h>
#include <unistd.h>

static const struct fr_id ONE = {{1}};

static char home[256];

static void make_home(void)
{
    const char *tmp = getenv("TMPDIR");

    snprintf(home, sizeof(home), "%s/flowrun-store-XXXXXX", tmp != NULL ? tmp : "/tmp");
    CHECK(mkdtemp(home) != NULL);
    struct fr_buf real = {0};
    fr_buf_text(&real, home);
    CHECK_INT(fr_home_resolve(&real, NULL), FR_OK); /* TMPDIR may be behind a link */
    snprintf(home, sizeof(home), "%s", real.p);
    fr_buf_finish(&real);
    CHECK_INT(fr_home_make(home, NULL), FR_OK);
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

static bool other_boot;

static int boot_id(char out[40])
{
    int rc = fr_sys_real.boot_id(out);

    if (other_boot)
        out[0] = out[0] == 'x' ? 'y' : 'x';
    return rc;
}

static void test_host(void)
{
    struct fr_home_who self = fr_home_self(), host;
    struct fr_err err = {0};
    int fd = -1, second = -1;
    char want[64];

    fr_sys.boot_id = boot_id;
    CHECK_INT(fr_home_leader(home, &host, &err), FR_NOTFOUND);
    CHECK_INT(fr_home_lead(home, &fd, &err), FR_OK);
    CHECK_INT(fr_home_leader(home, &host, &err), FR_OK);
    CHECK_INT(host.pid, getpid());
    CHECK_INT(host.uid, getuid());
    CHECK_TEXT(host.boot, self.boot);
    CHECK(host.mnt == self.mnt && host.net == self.net && host.pid_ns == self.pid_ns);
    CHECK(host.mnt != 0 && host.schema == fr_store_newest());
    CHECK_INT(fr_home_may_share(home, &self, &host, &err), FR_OK);
    CHECK_INT(fr_home_lead(home, &second, &err), FR_BUSY);
    CHECK_INT(second, -1);
    snprintf(want, sizeof(want), "another flowrun (pid %d) is the host", (int)getpid());
    CHECK(strstr(err.msg, want) != NULL);
    other_boot = true; /* as a new host finds it that has not written yet */
    CHECK_INT(fr_home_leader(home, &host, &err), FR_OK);
    CHECK(host.pid == 0 && host.uid == 0 && host.boot[0] == '\0');
    CHECK_INT(fr_home_lead(home, &second, &err), FR_BUSY);
    CHECK(strstr(err.msg, "another flowrun (pid 0) is the host") != NULL);
    other_boot = false;
    fr_sys.close(fd);
    CHECK_INT(fr_home_leader(home, &host, &err), FR_NOTFOUND);
    CHECK_INT(fr_home_lead(home, &fd, &err), FR_OK); /* over what the one before wrote */
    fr_sys.close(fd);
    fr_sys = fr_sys_real;
}

/* Who may not share a home's host, and what it is told. */
static void test_strangers(void)
{
    static const struct {
        struct fr_home_who host;
        enum fr_rc rc;
        const char *why;
    } cases[] = {
        {{7, 1, "b", 2, 3, 4, 5}, FR_OK, NULL},
        {{7, 9, "b", 2, 3, 4, 5}, FR_DENIED, "another user"},
        {{7, 1, "b", 9, 3, 4, 5}, FR_DENIED, "mount namespace"},
        {{7, 1, "b", 2, 9, 4, 5}, FR_DENIED, "network namespace"},
        {{7, 1, "b", 2, 3, 9, 5}, FR_DENIED, "pid namespace"},
        {{7, 1, "b", 2, 3, 4, 6}, FR_UNSUPPORTED, "a newer flowrun (schema 6, this one has 5)"},
        {{7, 1, "b", 2, 3, 4, 4}, FR_UNSUPPORTED, "an older flowrun (schema 4, this one has 5)"},
    };
    const struct fr_home_who self = {8, 1, "b", 2, 3, 4, 5};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fr_err err = {0};

        CHECK_INT(fr_home_may_share("/h", &self, &cases[i].host, &err), cases[i].rc);
        if (cases[i].why != NULL)
            CHECK(strstr(err.msg, cases[i].why) != NULL && strstr(err.msg, "FLOWRUN_HOME") != NULL);
    }
}

/* A flowrun of before hosts holds the lock of its run: its home is not migrated under it. */
static void test_old_owner(void)
{
    struct fr_err err = {0};
    char path[512], id[FR_ID_TEXT];
    int old, fd = -1;

    CHECK_INT(fr_home_old_owner(home, ONE, &fd, &err), FR_OK);
    CHECK_INT(fd, -1);
    fr_id_text(ONE, id);
    snprintf(path, sizeof(path), "%s/runs/%s.lock", home, id);
    CHECK((old = fr_sys.open(path, O_RDWR | O_CREAT, 0600)) >= 0);
    CHECK_INT(fr_home_old_owner(home, ONE, &fd, &err), FR_OK);
    CHECK(fd >= 0 && fr_sys.locked(old) == 1);
    fr_sys.close(fd);
    CHECK_INT(fr_sys.lock(old), 0);
    CHECK_INT(fr_home_old_owner(home, ONE, &fd, &err), FR_BUSY);
    CHECK_INT(fd, -1);
    CHECK(strstr(err.msg, "an older flowrun, which drives run") != NULL);
    fr_sys.close(old);
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
        const char *const vars[] = {"FLOWRUN_HOME", "XDG_STATE_HOME", "HOME"};
        const char *const values[] = {cases[i].flowrun, cases[i].xdg, cases[i].user};

        for (int v = 0; v < 3; v++)
            CHECK((values[v] ? setenv(vars[v], values[v], 1) : unsetenv(vars[v])) == 0);
        CHECK_INT(fr_home_find(&got, NULL), cases[i].want != NULL ? FR_OK : FR_USAGE);
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
    make_home();
    test_far_home();
    test_host();
    test_strangers();
    test_old_owner();
    test_find_home();
    test_linked_home();
    CHECK_INT(fr_remove_tree(home, NULL), FR_OK);
    return check_done();
}
