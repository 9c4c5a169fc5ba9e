#include "engine/metrics/machine_file.h"

#include "engine/base/arena.h"
#include "engine/base/file.h"
#include "engine/base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    HEAD_BYTES = 4096,
    KEPT_MS = FR_LOAD_MEANS * FR_LOAD_MEAN_MS,
    RECORD = sizeof(struct fr_load),
    MEANS_AT = HEAD_BYTES + FR_MACHINE_FINE * RECORD,
    WHOLE = MEANS_AT + FR_LOAD_MEANS * RECORD
};

static bool path_of(const char *dir, struct fr_id home, struct fr_buf *out)
{
    char id[FR_ID_TEXT];

    fr_id_text(home, id);
    fr_buf_fmt(out, "%s/%s", dir, id);
    return !out->bad;
}

static int open_file(const char *dir, struct fr_id home, int flags)
{
    struct fr_buf path = {0};
    int fd = -1;

    if (path_of(dir, home, &path)) {
        fd = fr_sys.open(path.p, flags | O_NOFOLLOW, 0600);
        if (fd < 0 && errno == ENOENT && (flags & O_CREAT) != 0 && fr_sys.mkdir(dir, 0700) == 0)
            fd = fr_sys.open(path.p, flags | O_NOFOLLOW, 0600);
    }
    fr_buf_finish(&path);
    return fd;
}

static void put(const char *dir, struct fr_id home, struct fr_str bytes, uint64_t at)
{
    int fd = open_file(dir, home, O_RDWR | O_CREAT);

    if (fd < 0)
        return;
    (void)fr_pwrite_full(fd, bytes.p, bytes.n, at);
    fr_sys.close(fd);
}

void fr_machine_put_sample(const char *dir, struct fr_id home, const struct fr_load *l)
{
    uint64_t place = (uint64_t)(l->wall_ms / FR_SAMPLE_MS) % FR_MACHINE_FINE;

    put(dir, home, (struct fr_str){(const char *)l, RECORD}, HEAD_BYTES + place * RECORD);
}

void fr_machine_put_mean(const char *dir, struct fr_id home, const struct fr_load *mean)
{
    uint64_t place = (uint64_t)(mean->wall_ms / FR_LOAD_MEAN_MS) % FR_LOAD_MEANS;

    put(dir, home, (struct fr_str){(const char *)mean, RECORD}, MEANS_AT + place * RECORD);
}

/* ---- the head ---- */

void fr_machine_put_head(const char *dir, const struct fr_machine *m)
{
    char head[HEAD_BYTES] = "";
    json_t *doc = json_pack("{s:s, s:s, s:s, s:s, s:I, s:O*}", "name", m->name, "boot", m->boot,
                            "build", m->build, "how", m->how, "memory_bytes",
                            (json_int_t)m->mem_bytes, "facts", m->facts);

    if (doc != NULL && json_dumpb(doc, NULL, 0, JSON_COMPACT) >= HEAD_BYTES)
        json_object_del(doc, "facts");
    if (doc != NULL && json_dumpb(doc, head, HEAD_BYTES - 1, JSON_COMPACT) < HEAD_BYTES)
        put(dir, m->home, (struct fr_str){head, HEAD_BYTES}, 0);
    json_decref(doc);
}

static void take_head(const json_t *doc, struct fr_machine *m)
{
    const char *name = "", *boot = "", *build = "", *how = "";
    json_int_t memory = 0;
    json_t *facts = NULL;

    if (json_unpack((json_t *)doc, "{s:s, s:s, s:s, s:s, s:I, s?o}", "name", &name, "boot", &boot,
                    "build", &build, "how", &how, "memory_bytes", &memory, "facts", &facts) != 0)
        return;
    snprintf(m->name, sizeof(m->name), "%s", name);
    snprintf(m->boot, sizeof(m->boot), "%s", boot);
    snprintf(m->build, sizeof(m->build), "%s", build);
    snprintf(m->how, sizeof(m->how), "%s", how);
    m->mem_bytes = memory > 0 ? (uint64_t)memory : 0;
    if (json_is_object(facts)) {
        json_decref(m->facts);
        m->facts = json_incref(facts);
    }
}

bool fr_machine_read_head(const char *dir, struct fr_id home, struct fr_machine *m)
{
    char head[HEAD_BYTES];
    int fd = open_file(dir, home, O_RDONLY);
    struct stat st;
    json_t *doc;
    bool read = fd >= 0 && fr_sys.pread(fd, head, sizeof(head), 0) == HEAD_BYTES &&
                fr_sys.fstat(fd, &st) == 0;

    if (fd >= 0)
        fr_sys.close(fd);
    if (!read || memchr(head, '\0', sizeof(head)) == NULL ||
        (doc = json_loads(head, JSON_REJECT_DUPLICATES, NULL)) == NULL)
        return false;
    take_head(doc, m);
    json_decref(doc);
    if (m->name[0] == '\0')
        return false;
    m->seen_wall = (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000;
    return true;
}

/* ---- samples ---- */

static int by_time(const void *a, const void *b)
{
    const struct fr_load *one = a, *other = b;

    return (one->wall_ms > other->wall_ms) - (one->wall_ms < other->wall_ms);
}

/* Those of a ring that are of its last span_ms, by time, to v. Returns how many. */
static size_t take_ring(const char *p, size_t places, int64_t span_ms, struct fr_load *v)
{
    int64_t newest = 0;
    size_t n = 0, from = 0;

    memcpy(v, p, places * RECORD);
    for (size_t i = 0; i < places; i++) {
        newest = v[i].wall_ms > newest ? v[i].wall_ms : newest;
        if (v[i].wall_ms > 0)
            v[n++] = v[i];
    }
    qsort(v, n, RECORD, by_time);
    while (from < n && v[from].wall_ms <= newest - span_ms)
        from++;
    memmove(v, v + from, (n - from) * RECORD);
    return n - from;
}

bool fr_machine_read_samples(const char *dir, struct fr_machine *m)
{
    int fd = open_file(dir, m->home, O_RDONLY);
    char *bytes = fd >= 0 ? fr_sys.alloc(WHOLE) : NULL;
    struct fr_load *fine = NULL, *means = NULL;
    size_t n = 0;
    ssize_t k = 1;

    while (bytes != NULL && n < WHOLE && k > 0) {
        k = fr_sys.pread(fd, bytes + n, WHOLE - n, (off_t)n);
        n += k > 0 ? (size_t)k : 0;
    }
    if (fd >= 0)
        fr_sys.close(fd);
    if (bytes != NULL && k >= 0 && n >= HEAD_BYTES) {
        memset(bytes + n, 0, WHOLE - n);
        fine = fr_sys.alloc(FR_MACHINE_FINE * RECORD);
        means = fr_sys.alloc(FR_LOAD_MEANS * RECORD);
    }
    if (fine != NULL && means != NULL) {
        fr_sys.free(m->fine);
        fr_sys.free(m->means);
        m->fine = fine;
        m->means = means;
        m->n_fine = take_ring(bytes + HEAD_BYTES, FR_MACHINE_FINE, FR_LOAD_FINE_MS, fine);
        m->cap_fine = FR_MACHINE_FINE;
        m->n_means = take_ring(bytes + MEANS_AT, FR_LOAD_MEANS, KEPT_MS, means);
    } else {
        fr_sys.free(fine);
        fr_sys.free(means);
    }
    fr_sys.free(bytes);
    return fine != NULL && means != NULL;
}

/* ---- all of them ---- */

/* Whether the file of that name is one of a machine; one that is too old is removed. */
static bool is_kept(const char *dir, const char *name, struct fr_id *home)
{
    struct fr_buf path = {0};
    struct stat st;
    bool kept = fr_id_parse(fr_str_of(name), home);

    fr_buf_fmt(&path, "%s/%s", dir, name);
    if (kept && !path.bad && fr_sys.lstat(path.p, &st) == 0 &&
        (int64_t)st.st_mtim.tv_sec * 1000 < fr_sys.wall_ms() - KEPT_MS) {
        fr_sys.unlink(path.p);
        kept = false;
    }
    fr_buf_finish(&path);
    return kept;
}

struct fr_id *fr_machine_files(const char *dir, size_t *n)
{
    char **names = NULL;
    size_t n_names = 0;
    struct fr_id *homes = NULL;

    *n = 0;
    if (fr_sys.list(dir, &names, &n_names) != 0)
        return NULL;
    if (n_names > 0 && n_names <= SIZE_MAX / sizeof(*homes))
        homes = fr_sys.alloc(n_names * sizeof(*homes));
    for (size_t i = 0; homes != NULL && i < n_names; i++)
        *n += is_kept(dir, names[i], &homes[*n]);
    fr_sys_names_free(names, n_names);
    return homes;
}
