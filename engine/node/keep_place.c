#include "engine/node/keep_place.h"

#include "engine/base/arena.h"
#include "engine/base/file.h"
#include "engine/base/owner.h"
#include "engine/base/sys.h"
#include "engine/supervise/environ.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PLACES_MAX = 4096, PLACE_FILE_MAX = 64 << 10, ROUTE_PORT = 9 };

enum fr_rc keep_folder_check(const char *folder, struct fr_err *err)
{
    static const char remedy[] = "give --alloc a folder of your own";
    struct stat st;
    enum fr_rc rc;

    if (folder[0] != '/' || folder[strlen(folder) - 1] == '/' || strlen(folder) >= FR_HOME_MAX)
        return fr_fail(err, FR_USAGE,
                       "--alloc needs the absolute path of a folder without a slash at its end: "
                       "\"%s\"",
                       folder);
    if (fr_sys.lstat(folder, &st) != 0)
        return fr_fail_errno(err, errno, "the folder of the allocation, %s", folder);
    if (!S_ISDIR(st.st_mode))
        return fr_fail(err, FR_DENIED, "%s is no folder: %s", folder, remedy);
    if ((rc = fr_check_private(folder, "the folder of the allocation,", remedy, err)) != FR_OK)
        return rc;
    return fr_check_above(folder, err);
}

bool keep_host(const char *slurm, char out[256])
{
    if (slurm != NULL && slurm[0] != '\0')
        return snprintf(out, 256, "%s", slurm) < 256;
    return gethostname(out, 256) == 0 && memchr(out, '\0', 256) != NULL;
}

/* A number of Slurm's variables. */
static enum fr_rc number(const struct fr_keep_args *a, const char *name, int64_t max, int64_t *out,
                         struct fr_err *err)
{
    const char *text = fr_environ_value(a->environ, name);

    if (text[0] == '\0')
        return fr_fail(err, FR_USAGE,
                       "%s is not set: flownode keep is started by srun, in a job of Slurm", name);
    if (fr_parse_i64(fr_str_of(text), out, NULL) != FR_OK || *out < 0 || *out > max)
        return fr_fail(err, FR_USAGE, "%s is not a number from 0 to %" PRId64 ": \"%s\"", name, max,
                       text);
    return FR_OK;
}

enum fr_rc keep_places(const struct fr_keep_args *a, int64_t *places, struct fr_err *err)
{
    static const char name[] = "SLURM_JOB_NUM_NODES";
    enum fr_rc rc = number(a, name, PLACES_MAX, places, err);

    if (rc == FR_OK && *places == 0)
        rc = fr_fail(err, FR_USAGE, "%s is 0", name);
    return rc;
}

/* The own address on the route to a host. Nothing is sent. */
static enum fr_rc own_address(struct keep_place *p, const char *to, struct fr_err *err)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(ROUTE_PORT)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(ROUTE_PORT)};
    bool is_v4 = inet_pton(AF_INET, to, &v4.sin_addr) == 1;
    struct fr_endpoint own;
    int fd, e = 0;

    if (!is_v4 && inet_pton(AF_INET6, to, &v6.sin6_addr) != 1)
        return fr_fail(err, FR_USAGE, "SLURM_LAUNCH_NODE_IPADDR is not an address: \"%s\"", to);
    fd = socket(is_v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 ||
        connect(fd, is_v4 ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6,
                is_v4 ? sizeof(v4) : sizeof(v6)) != 0 ||
        fr_sys.endpoint(fd, false, &own) != 0)
        e = errno;
    fr_fd_close(&fd);
    if (e != 0)
        return fr_fail_errno(err, e, "there is no route to %s, SLURM_LAUNCH_NODE_IPADDR", to);
    snprintf(p->address, sizeof(p->address), "%s", own.host);
    return FR_OK;
}

static enum fr_rc find_home(struct keep_place *p, const struct fr_keep_args *a, struct fr_err *err)
{
    static const char *const names[] = {"SLURM_TMPDIR", "TMPDIR"};
    const char *base = a->base != NULL ? a->base : "", *tag = strrchr(p->folder, '/') + 1;

    for (size_t i = 0; i < 2 && base[0] == '\0'; i++)
        base = fr_environ_value(a->environ, names[i]);
    if (base[0] == '\0')
        base = "/tmp";
    if (base[0] != '/')
        return fr_fail(err, FR_USAGE, "SLURM_TMPDIR or TMPDIR is not an absolute path: %s", base);
    if (strlen(base) >= sizeof(p->disk))
        return fr_fail(err, FR_USAGE, "SLURM_TMPDIR or TMPDIR is too long a path");
    memcpy(p->disk, base, strlen(base) + 1);
    int n = snprintf(p->base, sizeof(p->base), "%s/flowrun-%u", base, (unsigned)fr_sys.uid());
    int m = n < 0 || (size_t)n >= sizeof(p->base)
                ? -1
                : snprintf(p->home, sizeof(p->home), "%s/%s-%d", p->base, tag, p->place);
    if (m < 0 || (size_t)m >= sizeof(p->home))
        return fr_fail(err, FR_USAGE, "the path of the node's home is too long, below %s", base);
    return FR_OK;
}

enum fr_rc keep_place_init(struct keep_place *p, const struct fr_keep_args *a, struct fr_err *err)
{
    const char *launcher = fr_environ_value(a->environ, "SLURM_LAUNCH_NODE_IPADDR");
    int64_t node;
    enum fr_rc rc;

    *p = (struct keep_place){.folder = a->folder};
    if ((rc = number(a, "SLURM_JOB_ID", INT64_MAX, &p->own, err)) != FR_OK ||
        (rc = number(a, "SLURM_NODEID", PLACES_MAX - 1, &node, err)) != FR_OK)
        return rc;
    p->job = p->own;
    if (fr_environ_value(a->environ, "SLURM_ARRAY_JOB_ID")[0] != '\0' &&
        (rc = number(a, "SLURM_ARRAY_JOB_ID", INT64_MAX, &p->job, err)) != FR_OK)
        return rc;
    if (fr_environ_value(a->environ, "SLURM_RESTART_COUNT")[0] != '\0' &&
        (rc = number(a, "SLURM_RESTART_COUNT", INT64_MAX, &p->restarts, err)) != FR_OK)
        return rc;
    p->place = (int)node + 1;
    if (!keep_host(fr_environ_value(a->environ, "SLURMD_NODENAME"), p->host) ||
        p->host[strcspn(p->host, " \n")] != '\0')
        return fr_fail(err, FR_USAGE, "this node has no usable name");
    if (launcher[0] == '\0')
        return fr_fail(
            err, FR_USAGE,
            "SLURM_LAUNCH_NODE_IPADDR is not set: flownode keep is started by srun, in a "
            "job of Slurm");
    if ((rc = own_address(p, launcher, err)) != FR_OK)
        return rc;
    return find_home(p, a, err);
}

static void path_of(const char *folder, int place, const char *suffix, char out[FR_NODE_PATH])
{
    snprintf(out, FR_NODE_PATH, "%s/place.%d%s", folder, place, suffix);
}

/* That link(2) failed may be an error of the network alone: the number of links says whether it was
 * done. */
enum fr_rc keep_make_once(const struct keep_place *p, const char *path, struct fr_str text,
                          struct fr_err *err)
{
    char own[FR_NODE_PATH + 100];
    struct stat st;
    int e;
    enum fr_rc rc;

    snprintf(own, sizeof(own), "%s.%" PRId64 ".%" PRId64 ".%d.%d", path, p->job, p->restarts,
             p->place, (int)getpid());
    if ((rc = fr_file_write(own, text.p, text.n, 0600, err)) != FR_OK)
        return rc;
    e = link(own, path) == 0 ? 0 : errno;
    if (e != 0 && e != EEXIST && (fr_sys.lstat(own, &st) != 0 || st.st_nlink != 2))
        rc = fr_fail_errno(err, e, "cannot make %s", path);
    fr_sys.unlink(own);
    return rc;
}

static enum fr_rc read_claim(const struct keep_place *p, const char *path, bool *twin,
                             struct fr_err *err)
{
    struct fr_buf b = {0};
    int64_t job, restarts;
    char end;
    enum fr_rc rc = fr_file_read(path, PLACE_FILE_MAX, &b, err);

    if (rc == FR_OK &&
        (b.bad || b.n == 0 ||
         sscanf(b.p, "%" SCNd64 " %" SCNd64 "%c", &job, &restarts, &end) != 3 || end != '\n'))
        rc = fr_fail(err, FR_CORRUPT, "%s is no claim", path);
    fr_buf_finish(&b);
    if (rc == FR_OK)
        *twin = job != p->job || restarts != p->restarts;
    return rc;
}

enum fr_rc keep_claim(const struct keep_place *p, bool *found, bool *twin, struct fr_err *err)
{
    char path[FR_NODE_PATH], text[64];
    enum fr_rc rc = FR_OK;

    snprintf(path, sizeof(path), "%s/claim", p->folder);
    snprintf(text, sizeof(text), "%" PRId64 " %" PRId64 "\n", p->job, p->restarts);
    if (p->place == 1)
        rc = keep_make_once(p, path, fr_str_of(text), err);
    if (rc == FR_OK)
        rc = read_claim(p, path, twin, err);
    *found = rc == FR_OK;
    return rc == FR_NOTFOUND && p->place != 1 ? FR_OK : rc;
}

/* Makes one folder that nobody else may look into. */
static enum fr_rc make_own(const char *path, struct fr_err *err)
{
    struct stat st;

    if (fr_sys.mkdir(path, 0700) != 0 && errno != EEXIST)
        return fr_fail_errno(err, errno, "cannot make %s", path);
    if (fr_sys.lstat(path, &st) != 0)
        return fr_fail_errno(err, errno, "looking at %s", path);
    if (!S_ISDIR(st.st_mode) || st.st_uid != fr_sys.uid() || (st.st_mode & 077) != 0)
        return fr_fail(err, FR_DENIED,
                       "%s (uid %u, mode %04o) is not a folder that only uid %u may use: remove it",
                       path, (unsigned)st.st_uid, (unsigned)st.st_mode & 07777,
                       (unsigned)fr_sys.uid());
    return FR_OK;
}

enum fr_rc keep_base_make(const struct keep_place *p, struct fr_err *err)
{
    enum fr_rc rc = make_own(p->base, err);

    return rc == FR_OK ? fr_check_local(p->base, "set TMPDIR in the job to", err) : rc;
}

enum fr_rc keep_home_make(const struct keep_place *p, struct fr_err *err)
{
    enum fr_rc rc = keep_base_make(p, err);

    return rc == FR_OK ? make_own(p->home, err) : rc;
}

static enum fr_rc write_place(const struct keep_place *p, const char *suffix,
                              const struct fr_buf *b, struct fr_err *err)
{
    char path[FR_NODE_PATH];

    path_of(p->folder, p->place, suffix, path);
    return b->bad ? fr_fail(err, FR_NOMEM, "no memory for %s", path)
                  : fr_file_write(path, b->p, b->n, 0600, err);
}

static void put_job(const struct keep_place *p, struct fr_buf *b)
{
    fr_buf_fmt(b, "job %" PRId64 "\nrestarts %" PRId64 "\n", p->job, p->restarts);
}

enum fr_rc keep_write_up(const struct keep_place *p, struct fr_err *err)
{
    struct fr_buf b = {0};
    enum fr_rc rc;

    put_job(p, &b);
    fr_buf_fmt(&b, "own %" PRId64 "\nhost %s\naddress %s\nhome %s\npid %d\n", p->own, p->host,
               p->address, p->home, (int)getpid());
    rc = write_place(p, "", &b, err);
    fr_buf_finish(&b);
    return rc;
}

enum fr_rc keep_write_closed(const struct keep_place *p, int64_t lease_ms, struct fr_err *err)
{
    struct fr_buf b = {0};
    enum fr_rc rc;

    put_job(p, &b);
    if (lease_ms > 0)
        fr_buf_fmt(&b, "lease %" PRId64 "\n", lease_ms);
    rc = write_place(p, ".closed", &b, err);
    fr_buf_finish(&b);
    return rc;
}

void keep_write_error(const struct keep_place *p, const struct fr_err *why)
{
    struct fr_buf b = {0};

    fr_buf_fmt(&b, "%s\n", why->msg);
    write_place(p, ".error", &b, NULL);
    fr_buf_finish(&b);
}

enum fr_rc keep_leave_streams(struct fr_err *err)
{
    int null = fr_sys.open("/dev/null", O_RDWR, 0);
    bool done = null >= 0;

    for (int fd = 0; fd <= 2 && done; fd++)
        done = null == fd || dup2(null, fd) == fd;
    if (!done)
        return fr_fail_errno(err, errno, "cannot open /dev/null");
    if (null > 2)
        fr_sys.close(null);
    return FR_OK;
}

bool keep_has_error(const struct keep_place *p)
{
    char path[FR_NODE_PATH];
    struct stat st;

    path_of(p->folder, p->place, ".error", path);
    return fr_sys.lstat(path, &st) == 0;
}

/* The value of the line "NAME VALUE". False: there is none, or it does not fit. */
static bool take_line(struct fr_str text, const char *name, char *out, size_t cap)
{
    size_t n = strlen(name);
    struct fr_str line;

    while (fr_next_line(&text, &line))
        if (line.n > n + 1 && memcmp(line.p, name, n) == 0 && line.p[n] == ' ' &&
            line.n - n - 1 < cap)
            return snprintf(out, cap, "%.*s", (int)(line.n - n - 1), line.p + n + 1) > 0;
    return false;
}

/* There is no keeper: says what it wrote of itself before it ended. */
static enum fr_rc no_keeper(const char *folder, int place, struct fr_err *err)
{
    char path[FR_NODE_PATH];
    struct fr_buf b = {0};

    path_of(folder, place, ".error", path);
    if (fr_file_read(path, PLACE_FILE_MAX, &b, NULL) == FR_OK && !b.bad && b.n > 1)
        fr_fail(err, FR_NOTFOUND, "no keeper has come up at place %d: %.*s", place, (int)b.n - 1,
                b.p);
    else
        fr_fail(err, FR_NOTFOUND, "no keeper has come up at place %d", place);
    fr_buf_finish(&b);
    return FR_NOTFOUND;
}

enum fr_rc keep_read_place(const char *folder, int place, struct keep_place *p, struct fr_err *err)
{
    char path[FR_NODE_PATH];
    struct fr_buf b = {0};
    enum fr_rc rc;

    *p = (struct keep_place){.folder = folder, .place = place};
    path_of(folder, place, "", path);
    rc = fr_file_read(path, PLACE_FILE_MAX, &b, err);
    if (rc == FR_NOTFOUND)
        rc = no_keeper(folder, place, err);
    else if (rc == FR_OK &&
             (b.bad || !take_line((struct fr_str){b.p, b.n}, "host", p->host, sizeof(p->host)) ||
              !take_line((struct fr_str){b.p, b.n}, "home", p->home, sizeof(p->home)) ||
              p->home[0] != '/'))
        rc = fr_fail(err, FR_CORRUPT, "%s does not name host and home", path);
    fr_buf_finish(&b);
    return rc;
}

void keep_socket(const char *home, char out[FR_NODE_PATH])
{
    snprintf(out, FR_NODE_PATH, "%s/s/keep", home);
}
