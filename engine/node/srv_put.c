/* Files received into the store. */
#include "engine/base/file.h"
#include "engine/node/private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

enum {
    SLICE_BYTES = 1 << 20, /* hashed in one turn of the loop, 5 ms: else a ping waits too long */
    SYNC_BYTES = 2 << 20   /* written, above which it is synced: serve stands still meanwhile */
};

static struct srv_put *find_put(struct srv *s, uint64_t ref)
{
    struct srv_put *p = s->puts;

    while (p != NULL && p->ref != ref)
        p = p->next;
    return p;
}

static void drop_put(struct srv *s, struct srv_put *p)
{
    struct srv_put **at = &s->puts;

    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    fr_fd_close(&p->fd);
    fr_hash_close(p->hash);
    fr_sys.free(p);
}

void srv_put_leave(struct srv *s, struct fr_id run)
{
    for (struct srv_put *p = s->puts, *next; p != NULL; p = next) {
        next = p->next;
        if (fr_id_eq(p->run, run))
            drop_put(s, p);
    }
}

void srv_put_cancel(struct srv *s, uint64_t ref)
{
    struct srv_put *p = find_put(s, ref);

    if (p != NULL)
        drop_put(s, p);
}

void srv_put_finish(struct srv *s)
{
    while (s->puts != NULL)
        drop_put(s, s->puts);
}

static void send_state(struct srv *s, const struct srv_put *p, bool done)
{
    struct fr_msg m = {.type = FR_MSG_PUT_STATE};

    m.put_state = (struct fr_put_state){p->ref, p->at, done, fr_str_of(p->path)};
    srv_send(s, &m);
}

static void fail_put(struct srv *s, struct srv_put *p, const struct fr_err *err)
{
    srv_send_error(s, p->ref, err);
    drop_put(s, p);
}

static bool is_hash(struct fr_str h)
{
    for (size_t i = 0; i < h.n; i++)
        if (!strchr("0123456789abcdef", h.p[i]))
            return false;
    return h.n == 64;
}

static bool may_be_there(const struct srv_put *p)
{
    struct stat st;

    return fr_sys.lstat(p->path, &st) == 0 && S_ISREG(st.st_mode) &&
           (uint64_t)st.st_size == p->size && (st.st_mode & 0777) == p->mode;
}

/* Opens the unfinished file of an earlier connection, or a new one. */
static enum fr_rc open_put(struct srv_put *p, struct fr_err *err)
{
    struct stat st;

    p->fd = fr_sys.open(p->tmp, O_RDWR | O_CREAT | O_NOFOLLOW, p->mode);
    if (p->fd < 0)
        return fr_fail_errno(err, errno, "cannot make %s", p->tmp);
    if (fr_sys.fstat(p->fd, &st) != 0)
        return fr_fail_errno(err, errno, "cannot read %s", p->tmp);
    p->at = (uint64_t)st.st_size;
    if ((p->at > p->size || (st.st_mode & 0777) != p->mode)) {
        fr_sys.close(p->fd);
        fr_sys.unlink(p->tmp);
        p->at = 0;
        p->fd = fr_sys.open(p->tmp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, p->mode);
    }
    return p->fd >= 0 ? FR_OK : fr_fail_errno(err, errno, "cannot make %s", p->tmp);
}

/* Synced now, not before it was hashed: another connection may write the same bytes to it. */
static enum fr_rc keep_put(struct srv_put *p, struct fr_err *err)
{
    char *slash = strrchr(p->path, '/');
    enum fr_rc rc;

    if (fr_sys.fdatasync(p->fd) != 0)
        return fr_fail_errno(err, errno, "cannot write %s", p->tmp);
    *slash = '\0';
    rc = fr_mkdirs(p->path, 0700, err);
    *slash = '/';
    if (rc == FR_OK && fr_sys.rename(p->tmp, p->path) != 0)
        rc = fr_fail_errno(err, errno, "cannot rename %s to %s", p->tmp, p->path);
    return rc;
}

static void put_done(struct srv *s, struct srv_put *p)
{
    send_state(s, p, true);
    drop_put(s, p);
}

/* The look is done: the file is whole at its place, or the engine has to send it. */
static void looked(struct srv *s, struct srv_put *p, enum srv_look look, bool whole)
{
    if (look == SRV_LOOK_TWICE && whole) {
        put_done(s, p);
    } else if (look == SRV_LOOK_TWICE) {
        fail_put(s, p, &p->err);
    } else if (whole) {
        p->at = p->size;
        fr_sys.touch(p->path); /* used again: it stays (prune.h) */
        send_state(s, p, false);
    } else if (open_put(p, &p->err) == FR_OK) {
        send_state(s, p, false);
    } else {
        fail_put(s, p, &p->err);
    }
}

/* Looks at the file's place, from the next turn on. */
static void look_for(struct srv *s, struct srv_put *p, enum srv_look look)
{
    struct fr_err err;

    p->look = SRV_LOOK_NOT;
    if (may_be_there(p) && fr_hash_open(p->path, &p->hash, &err) == FR_OK)
        p->look = look;
    else
        looked(s, p, look, false);
}

/* The file was received and hashed; else rc and p->err have the reason. */
static void came(struct srv *s, struct srv_put *p, enum fr_rc rc, const char *hash)
{
    if (rc == FR_OK && strcmp(hash, p->sha256) != 0) {
        fr_sys.unlink(p->tmp);
        rc = fr_fail(&p->err, FR_CORRUPT, "%s arrived with SHA-256 %s, expected %s", p->path, hash,
                     p->sha256);
    }
    if (rc == FR_OK && keep_put(p, &p->err) == FR_OK)
        put_done(s, p);
    else
        look_for(s, p, SRV_LOOK_TWICE);
}

static void step(struct srv *s, struct srv_put *p)
{
    char hash[FR_SHA256_TEXT];
    enum srv_look look = p->look;
    bool done = false;
    struct fr_err err;
    enum fr_rc rc = fr_hash_step(p->hash, SLICE_BYTES, &done, hash, &err);

    if (rc == FR_OK && !done)
        return;
    fr_hash_close(p->hash);
    p->hash = NULL;
    p->look = SRV_LOOK_NOT;
    if (look != SRV_LOOK_CAME) {
        looked(s, p, look, rc == FR_OK && strcmp(hash, p->sha256) == 0);
        return;
    }
    if (rc != FR_OK)
        p->err = err;
    came(s, p, rc, hash);
}

static struct srv_put *looking(const struct srv *s)
{
    struct srv_put *p = s->puts;

    while (p != NULL && p->look == SRV_LOOK_NOT)
        p = p->next;
    return p;
}

bool srv_put_looking(const struct srv *s)
{
    return looking(s) != NULL;
}

void srv_put_step(struct srv *s)
{
    struct srv_put *p = looking(s);

    if (p != NULL)
        step(s, p);
}

void srv_put_begin(struct srv *s, const struct fr_put_begin *m)
{
    struct srv_put *p = fr_sys.alloc(sizeof(*p));
    struct fr_err err;

    if (p == NULL || !fr_path_is_inner(m->path) || !is_hash(m->sha256)) {
        fr_fail(&err, p == NULL ? FR_NOMEM : FR_USAGE, "cannot receive \"%.*s\"", (int)m->path.n,
                m->path.p);
        fr_sys.free(p);
        srv_send_error(s, m->ref, &err);
        return;
    }
    /* owner only, like all of the home; a program stays executable */
    *p = (struct srv_put){.next = s->puts, .run = m->run, .ref = m->ref, .size = m->size, .fd = -1};
    p->mode = (m->mode & 0100) != 0 ? 0700 : 0600;
    memcpy(p->sha256, m->sha256.p, 64);
    snprintf(p->path, sizeof(p->path), "%s/store/%.*s", s->home.path, (int)m->path.n, m->path.p);
    snprintf(p->tmp, sizeof(p->tmp), "%s/tmp/%s", s->home.path, p->sha256);
    s->puts = p;
    if (!fr_home_plain(s->home.path, p->path)) {
        fr_fail(&err, FR_DENIED, "a folder on the way to %s is none: links are not followed",
                p->path);
        fail_put(s, p, &err);
    } else {
        look_for(s, p, SRV_LOOK_THERE);
    }
}

/* Every SYNC_BYTES are synced at once. */
static enum fr_rc write_put(struct srv_put *p, const struct fr_put_data *m, struct fr_err *err)
{
    if (p->fd < 0 || p->look != SRV_LOOK_NOT || m->offset != p->at || m->bytes.n > p->size - p->at)
        return fr_fail(err, FR_PROTO, "bytes %llu to %llu do not go on at %llu of %llu",
                       (unsigned long long)m->offset, (unsigned long long)(m->offset + m->bytes.n),
                       (unsigned long long)p->at, (unsigned long long)p->size);
    if (!fr_pwrite_full(p->fd, m->bytes.p, m->bytes.n, p->at))
        return fr_fail_errno(err, errno, "cannot write %s", p->tmp);
    p->at += m->bytes.n;
    if (m->offset / SYNC_BYTES != p->at / SYNC_BYTES && fr_sys.fdatasync(p->fd) != 0)
        return fr_fail_errno(err, errno, "cannot write %s", p->tmp);
    return FR_OK;
}

void srv_put_data(struct srv *s, const struct fr_put_data *m)
{
    struct srv_put *p = find_put(s, m->ref);
    struct fr_err err;

    srv_granted(s, m->bytes.n);
    /* one that was refused meanwhile: its bytes were still on their way */
    if (p != NULL && write_put(p, m, &err) != FR_OK)
        fail_put(s, p, &err);
}

void srv_put_end(struct srv *s, uint64_t ref)
{
    struct srv_put *p = find_put(s, ref);
    enum fr_rc rc = FR_OK;

    if (p == NULL || p->look != SRV_LOOK_NOT)
        return;
    if (p->fd < 0) {
        put_done(s, p); /* it was there */
        return;
    }
    if (p->at != p->size)
        rc = fr_fail(&p->err, FR_PROTO, "%s ended at byte %llu of %llu", p->path,
                     (unsigned long long)p->at, (unsigned long long)p->size);
    else
        rc = fr_hash_open(p->tmp, &p->hash, &p->err);
    if (rc == FR_OK)
        p->look = SRV_LOOK_CAME;
    else
        look_for(s, p, SRV_LOOK_TWICE);
}
