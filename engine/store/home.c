#include "engine/store/home.h"

#include "engine/base/file.h"
#include "engine/base/owner.h"
#include "engine/base/sys.h"
#include "engine/store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    WHO_BYTES = 256, /* of a host.lock; the largest numbers fit */
    AGAIN_MS = 10,   /* between two looks whether a host listens */
};

enum fr_rc fr_home_find(struct fr_buf *out, struct fr_err *err)
{
    static const struct {
        const char *var, *below;
    } places[] = {
        {"FLOWRUN_HOME", ""}, {"XDG_STATE_HOME", "/flowrun"}, {"HOME", "/.local/state/flowrun"}};

    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        const char *value = getenv(places[i].var);
        char here[PATH_MAX];

        if (value == NULL || value[0] == '\0')
            continue;
        if (value[0] != '/') {
            if (getcwd(here, sizeof(here)) == NULL)
                return fr_fail_errno(err, errno, "finding the current folder");
            fr_buf_fmt(out, "%s/", here);
        }
        fr_buf_fmt(out, "%s%s", value, places[i].below);
        return out->bad ? fr_fail(err, FR_NOMEM, "no memory for a path") : FR_OK;
    }
    return fr_fail(err, FR_USAGE, "no place for the state of runs: set FLOWRUN_HOME to a folder");
}

enum fr_rc fr_home_resolve(struct fr_buf *home, struct fr_err *err)
{
    char real[PATH_MAX];
    enum fr_rc rc = fr_mkdirs(home->p, 0700, err);

    if (rc != FR_OK)
        return fr_while(err, "the home");
    if (realpath(home->p, real) == NULL)
        return fr_fail_errno(err, errno, "finding where %s is", home->p);
    home->n = 0;
    fr_buf_text(home, real);
    return home->bad ? fr_fail(err, FR_NOMEM, "no memory for a path") : FR_OK;
}

/* The folder of local nodes may be a link: to a larger disk, by the home's user. */
static enum fr_rc check_nodes(const char *home, struct fr_err *err)
{
    struct fr_buf path = {0};
    struct stat st;
    enum fr_rc rc = FR_OK;

    fr_buf_fmt(&path, "%s/nodes", home);
    if (path.bad)
        rc = fr_fail(err, FR_NOMEM, "no memory for a path");
    else if (fr_sys.lstat(path.p, &st) == 0 && !fr_owner_trusted(&st))
        rc = fr_fail(err, FR_DENIED, "%s belongs to uid %u (mode %04o), not to flowrun: remove it",
                     path.p, (unsigned)st.st_uid, (unsigned)st.st_mode & 07777);
    fr_buf_finish(&path);
    return rc;
}

static enum fr_rc check_home(const char *home, struct fr_err *err)
{
    enum fr_rc rc = fr_check_local(home, "set FLOWRUN_HOME to", err);

    if (rc == FR_OK)
        rc = fr_check_private(home, "the home", "set FLOWRUN_HOME to a folder of your own", err);
    if (rc == FR_OK)
        rc = fr_check_above(home, err);
    return rc == FR_OK ? check_nodes(home, err) : rc;
}

enum fr_rc fr_home_make(const char *home, struct fr_err *err)
{
    static const char *const below[] = {"", "/blobs", "/begun", "/runs", "/spool"};
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; rc == FR_OK && i < sizeof(below) / sizeof(below[0]); i++) {
        struct fr_buf path = {0};

        fr_buf_fmt(&path, "%s%s", home, below[i]);
        rc = path.bad ? fr_fail(err, FR_NOMEM, "no memory for a path")
                      : fr_mkdirs(path.p, 0700, err);
        if (rc == FR_OK && i > 0)
            rc = fr_check_unlinked(path.p, strlen(home), err);
        fr_buf_finish(&path);
        if (rc == FR_OK && i == 0)
            rc = check_home(home, err);
    }
    return rc;
}

void fr_home_at(const char *home, enum fr_home_file what, struct fr_id run, struct fr_buf *out)
{
    static const char *const dirs[] = {[FR_HOME_RUN] = "runs", [FR_HOME_SPOOL] = "spool"};
    char id[FR_ID_TEXT];

    fr_id_text(run, id);
    fr_buf_fmt(out, "%s/%s/%s", home, dirs[what], id);
}

void fr_home_sock(const char *home, struct fr_buf *out)
{
    fr_buf_fmt(out, "%s/host.sock", home);
}

/* ---- the host ---- */

/* The inode number of a namespace of this process: its link reads "mnt:[4026531841]". */
static uint64_t namespace_of(const char *link)
{
    char text[64];
    ssize_t n = readlink(link, text, sizeof(text) - 1);
    const char *digits;

    if (n <= 0)
        return 0;
    text[n] = '\0';
    digits = strchr(text, '[');
    return digits != NULL ? strtoull(digits + 1, NULL, 10) : 0;
}

struct fr_home_who fr_home_self(void)
{
    struct fr_home_who out = {.uid = (int64_t)fr_sys.uid(),
                              .mnt = namespace_of("/proc/self/ns/mnt"),
                              .net = namespace_of("/proc/self/ns/net"),
                              .pid_ns = namespace_of("/proc/self/ns/pid"),
                              .schema = fr_store_newest()};
    struct fr_proc self = {0};

    if (fr_sys.self(&self) == 0)
        out.pid = self.pid;
    if (fr_sys.boot_id(out.boot) != 0)
        out.boot[0] = '\0';
    return out;
}

static int open_lock(const char *home, int flags, struct fr_err *err)
{
    struct fr_buf path = {0};
    int fd = -1;

    fr_buf_fmt(&path, "%s/host.lock", home);
    if (path.bad)
        fr_fail(err, FR_NOMEM, "no memory for a path");
    else if ((fd = fr_sys.open(path.p, flags | O_NOFOLLOW, 0600)) < 0)
        fr_fail_errno(err, errno, "opening %s", path.p);
    fr_buf_finish(&path);
    return fd;
}

/* The file always has the same size: truncating it costs more than writing it. */
static enum fr_rc write_who(int fd, const struct fr_home_who *w, struct fr_err *err)
{
    char text[WHO_BYTES];
    int n;

    n = snprintf(text, sizeof(text),
                 "pid %" PRId64 "\nuid %" PRId64 "\nboot %s\nmnt %" PRIu64 "\nnet %" PRIu64
                 "\npid_ns %" PRIu64 "\nschema %" PRId64 "\n",
                 w->pid, w->uid, w->boot[0] != '\0' ? w->boot : "-", w->mnt, w->net, w->pid_ns,
                 w->schema);
    memset(text + n, '\n', sizeof(text) - (size_t)n);
    return fr_pwrite_full(fd, text, sizeof(text), 0)
               ? FR_OK
               : fr_fail_errno(err, errno, "writing who the host is");
}

/* Zeroes: who holds the lock has not said yet who it is, also where the file names one of before
 * this machine began. */
static void read_who(int fd, struct fr_home_who *w)
{
    struct fr_home_who self = fr_home_self();
    char text[WHO_BYTES + 1];
    ssize_t n = fr_sys.pread(fd, text, sizeof(text) - 1, 0);

    *w = (struct fr_home_who){0};
    text[n > 0 ? n : 0] = '\0';
    if (sscanf(text,
               "pid %" SCNd64 " uid %" SCNd64 " boot %39s mnt %" SCNu64 " net %" SCNu64
               " pid_ns %" SCNu64 " schema %" SCNd64,
               &w->pid, &w->uid, w->boot, &w->mnt, &w->net, &w->pid_ns, &w->schema) != 7 ||
        strcmp(w->boot, self.boot[0] != '\0' ? self.boot : "-") != 0)
        *w = (struct fr_home_who){0};
}

enum fr_rc fr_home_lead(const char *home, int *fd, struct fr_err *err)
{
    struct fr_err local;
    struct fr_err *why = err != NULL ? err : &local;
    struct fr_home_who self;
    enum fr_rc rc;

    *fd = open_lock(home, O_RDWR | O_CREAT, why);
    if (*fd < 0)
        return why->rc;
    if (fr_sys.lock(*fd) != 0) {
        int e = errno;
        struct fr_home_who host;

        read_who(*fd, &host);
        fr_sys.close(*fd);
        *fd = -1;
        if (e != EAGAIN && e != EACCES)
            return fr_fail_errno(err, e, "locking %s/host.lock", home);
        return fr_fail(err, FR_BUSY, "another flowrun (pid %" PRId64 ") is the host of %s",
                       host.pid, home);
    }
    self = fr_home_self();
    rc = write_who(*fd, &self, err);
    if (rc != FR_OK) {
        fr_sys.close(*fd);
        *fd = -1;
    }
    return rc;
}

enum fr_rc fr_home_keep(const char *home, int *fd, struct fr_err *err)
{
    int named = open_lock(home, O_RDWR, NULL), fresh;
    struct stat own, other;
    bool same = named >= 0 && fr_sys.fstat(*fd, &own) == 0 && fr_sys.fstat(named, &other) == 0 &&
                own.st_dev == other.st_dev && own.st_ino == other.st_ino;
    enum fr_rc rc = same ? FR_OK : fr_home_lead(home, &fresh, err);

    if (named >= 0)
        fr_sys.close(named);
    if (same || rc != FR_OK)
        return rc;
    fr_sys.close(*fd);
    *fd = fresh;
    return FR_OK;
}

enum fr_rc fr_home_leader(const char *home, struct fr_home_who *out, struct fr_err *err)
{
    int fd = open_lock(home, O_RDWR, NULL);
    bool held = fd >= 0 && fr_sys.locked(fd) == 1;

    *out = (struct fr_home_who){0};
    if (held)
        read_who(fd, out);
    if (fd >= 0)
        fr_sys.close(fd);
    return held ? FR_OK : fr_fail(err, FR_NOTFOUND, "%s has no host", home);
}

/* EAGAIN: too many wait to be accepted. */
static bool listens(const char *home)
{
    struct fr_buf sock = {0};
    int fd = -1, e = ENOMEM;

    fr_home_sock(home, &sock);
    if (!sock.bad) {
        fd = fr_sys.connect_unix(sock.p);
        e = errno;
    }
    if (fd >= 0)
        fr_sys.close(fd);
    fr_buf_finish(&sock);
    return fd >= 0 || (e != ENOENT && e != ECONNREFUSED);
}

bool fr_home_await(const char *home, int64_t until_ms)
{
    if (fr_sys.mono_ms() >= until_ms || listens(home))
        return false;
    (void)fr_sys.poll(NULL, 0, AGAIN_MS);
    return true;
}

enum fr_rc fr_home_may_share(const char *home, const struct fr_home_who *self,
                             const struct fr_home_who *host, struct fr_err *err)
{
    const char *what = NULL;

    if (host->uid != self->uid)
        what = "belongs to another user";
    else if (host->mnt != self->mnt)
        what = "sees other folders (it is in another mount namespace, as in a container)";
    else if (host->net != self->net)
        what = "has another network (it is in another network namespace)";
    else if (host->pid_ns != self->pid_ns)
        what = "sees other processes (it is in another pid namespace)";
    if (what != NULL)
        return fr_fail(err, FR_DENIED,
                       "the host of %s (pid %" PRId64 ") %s: set FLOWRUN_HOME to a home of your "
                       "own",
                       home, host->pid, what);
    if (host->schema == self->schema)
        return FR_OK;
    return fr_fail(err, FR_UNSUPPORTED,
                   "the host of %s (pid %" PRId64 ") is %s flowrun (schema %" PRId64
                   ", this one has %" PRId64 "): use the same one, wait for its end, or set "
                   "FLOWRUN_HOME to another home",
                   home, host->pid, host->schema < self->schema ? "an older" : "a newer",
                   host->schema, self->schema);
}

enum fr_rc fr_home_old_owner(const char *home, struct fr_id run, int *fd, struct fr_err *err)
{
    struct fr_buf path = {0};
    char id[FR_ID_TEXT];
    enum fr_rc rc = FR_OK;

    fr_id_text(run, id);
    fr_buf_fmt(&path, "%s/runs/%s.lock", home, id);
    *fd = path.bad ? -1 : fr_sys.open(path.p, O_RDWR | O_NOFOLLOW, 0600);
    if (*fd >= 0 && fr_sys.lock(*fd) != 0) {
        fr_sys.close(*fd);
        *fd = -1;
        rc = fr_fail(err, FR_BUSY,
                     "%s is still used by an older flowrun, which drives run %.8s ('fuser %s' "
                     "names its process): wait for its end, or stop it; its tasks go on and "
                     "'flowrun resume %.8s' takes them over",
                     home, id, path.p, id);
    }
    fr_buf_finish(&path);
    return rc;
}
