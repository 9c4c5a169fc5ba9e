/* Files of a machine: names to inodes, and what is lost at a reboot. */
#include "tests/sim/sim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

static size_t hash_of(const char *path)
{
    uint64_t h = 14695981039346656037u; /* FNV-1a */

    for (; *path != '\0'; path++)
        h = (h ^ (uint8_t)*path) * 1099511628211u;
    return (size_t)h & (SIM_NAMES - 1);
}

/* Names are never moved: a removed name keeps its path and has inode NULL, so that searches go on,
 * until a new one takes its place. */
static struct sim_name *find_name(struct sim_machine *m, const char *path)
{
    size_t i = hash_of(path), first = i;

    do {
        if (m->names[i].path == NULL || strcmp(m->names[i].path, path) == 0)
            return &m->names[i];
        i = (i + 1) & (SIM_NAMES - 1);
    } while (i != first);
    return NULL;
}

static bool is_renamed(const struct sim_machine *m, const struct sim_name *n)
{
    for (size_t i = 0; i < m->n_renames; i++)
        if (m->renames[i].from == n || m->renames[i].to == n)
            return true;
    return false;
}

/* The name of that path, a new one if there is none. */
static struct sim_name *make_name(struct sim_machine *m, const char *path)
{
    struct sim_name *n = find_name(m, path);

    if (n != NULL && n->path != NULL)
        return n;
    for (size_t i = hash_of(path), k = 0; k < SIM_NAMES; k++, i = (i + 1) & (SIM_NAMES - 1)) {
        n = &m->names[i];
        if (n->path == NULL || (n->inode == NULL && !is_renamed(m, n))) {
            free(n->path);
            n->path = strdup(path);
            return n;
        }
    }
    abort(); /* more names than a test can need */
}

struct sim_inode *sim_lookup(const struct sim_machine *m, const char *path)
{
    const struct sim_name *n = find_name((struct sim_machine *)(uintptr_t)m, path);

    return n != NULL ? n->inode : NULL;
}

bool sim_has_name(const struct sim_machine *m, const char *part)
{
    for (int k = 0; k < SIM_NAMES; k++)
        if (m->names[k].inode != NULL && !m->names[k].inode->dir &&
            strstr(m->names[k].path, part) != NULL)
            return true;
    return false;
}

void sim_unref_inode(struct sim_inode *i)
{
    if (i == NULL || --i->refs > 0)
        return;
    free(i->data);
    free(i);
}

static struct sim_inode *add_name(struct sim_machine *m, const char *path, bool dir, mode_t mode)
{
    struct sim_name *n = make_name(m, path);

    n->inode = calloc(1, sizeof(*n->inode));
    n->inode->refs = 1;
    n->inode->birth = sim->steps;
    n->inode->dir = dir;
    n->inode->mode = (dir ? S_IFDIR : S_IFREG) | mode;
    n->inode->mtime_ms = fr_sys.wall_ms();
    return n->inode;
}

static void write_at(struct sim_inode *i, size_t at, const void *p, size_t n)
{
    if (at + n > i->cap) {
        i->cap = 2 * (at + n);
        i->data = realloc(i->data, i->cap);
    }
    if (at > i->n)
        memset(i->data + i->n, 0, at - i->n);
    if (at < i->synced && memcmp(i->data + at, p, n < i->synced - at ? n : i->synced - at) != 0)
        i->synced = at; /* rewritten: old and new may be mixed */
    memcpy(i->data + at, p, n);
    if (at + n > i->n)
        i->n = at + n;
    i->mtime_ms = fr_sys.wall_ms();
}

void sim_put_bytes(struct sim_machine *m, const char *path, const void *p, size_t n)
{
    struct sim_inode *i = add_name(m, path, p == NULL, 0700);

    if (p != NULL)
        write_at(i, 0, p, n);
    i->synced = i->n;
}

void sim_put_file(struct sim_machine *m, const char *path, const char *text)
{
    sim_put_bytes(m, path, text, text != NULL ? strlen(text) : 0);
}

void sim_remove_file(struct sim_machine *m, const char *path)
{
    struct sim_name *n = find_name(m, path);

    if (n == NULL)
        return;
    sim_unref_inode(n->inode);
    n->inode = NULL;
}

/* ---- renames that may be undone ---- */

/* The renames from first to last are forgotten: they are safe, or undone. */
static void drop_renames(struct sim_machine *m, size_t first, size_t last)
{
    for (size_t i = first; i < last; i++) {
        sim_unref_inode(m->renames[i].moved);
        sim_unref_inode(m->renames[i].replaced);
    }
    memmove(m->renames + first, m->renames + last, (m->n_renames - last) * sizeof(*m->renames));
    m->n_renames -= last - first;
}

static void keep_rename(struct sim_machine *m, struct sim_name *from, struct sim_name *to)
{
    if (m->n_renames == SIM_RENAMES)
        drop_renames(m, 0, 1);
    m->renames[m->n_renames++] = (struct sim_rename){from, to, from->inode, to->inode};
    from->inode->refs++;
    if (to->inode != NULL)
        to->inode->refs++;
}

/* The folder is synced. */
static void sync_names(struct sim_machine *m, const char *dir)
{
    size_t n = strlen(dir);

    for (size_t i = m->n_renames; i-- > 0;) {
        const char *to = m->renames[i].to->path;

        if (strncmp(to, dir, n) == 0 && to[n] == '/' && strchr(to + n + 1, '/') == NULL)
            drop_renames(m, i, i + 1);
    }
}

/* A name that was used again since then keeps its new file. */
static void undo_renames(struct sim_machine *m)
{
    for (size_t i = m->n_renames; i-- > 0;) {
        struct sim_rename *r = &m->renames[i];

        if (r->to->inode != r->moved || r->from->inode != NULL)
            continue;
        m->renames_lost = true;
        r->from->inode = r->moved;
        r->to->inode = r->replaced;
        if (r->replaced != NULL)
            r->replaced->refs++;
    }
    drop_renames(m, 0, m->n_renames);
}

/* What a file loses depends on when it was made, not on its place among the names: names of control
 * lie below a real folder whose name differs from process to process. */
void sim_lose_unsynced(struct sim *s, struct sim_machine *m)
{
    const uint64_t luck = sim_random(s);

    undo_renames(m);

    for (int k = 0; k < SIM_NAMES; k++) {
        struct sim_inode *i = m->names[k].inode;
        uint64_t rng = i != NULL ? luck ^ i->birth : 0;
        if (i != NULL && !i->dir && i->n > i->synced)
            i->n = i->synced + (size_t)(sim_draw(&rng) % (i->n - i->synced + 1));
        if (i != NULL)
            i->synced = i->n;
    }
}

void sim_wipe(struct sim_machine *m)
{
    for (int k = 0; k < SIM_NAMES; k++) {
        if (m->names[k].path != NULL && strcmp(m->names[k].path, "/") != 0) {
            sim_unref_inode(m->names[k].inode);
            m->names[k].inode = NULL;
        }
    }
    m->wiped = true;
}

/* Absolute, without a slash at its end. */
static bool clean(const char *path, char out[1024])
{
    size_t n = strlen(path);

    if (path[0] != '/' || n >= 1024) {
        errno = ENOENT;
        return false;
    }
    memcpy(out, path, n + 1);
    while (n > 1 && out[n - 1] == '/')
        out[--n] = '\0';
    return true;
}

static bool has_parent(struct sim_machine *m, const char *path)
{
    char up[1024];
    char *slash;

    memcpy(up, path, strlen(path) + 1);
    slash = strrchr(up, '/');
    slash[slash == up ? 1 : 0] = '\0';
    struct sim_inode *i = sim_lookup(m, up);
    if (i != NULL && i->dir)
        return true;
    errno = i == NULL ? ENOENT : ENOTDIR;
    return false;
}

bool sim_read_only(void)
{
    if (sim->cur->m->read_only)
        errno = EROFS;
    return sim->cur->m->read_only;
}

static int fs_open(const char *path, int flags, mode_t mode)
{
    char p[1024];

    sim_step();
    if (!clean(path, p))
        return -1;
    struct sim_machine *m = sim->cur->m;
    struct sim_inode *i = sim_lookup(m, p);
    if (i != NULL && (flags & O_CREAT) && (flags & O_EXCL)) {
        errno = EEXIST;
        return -1;
    }
    if (i == NULL && !(flags & O_CREAT)) {
        errno = ENOENT;
        return -1;
    }
    if (i == NULL && !has_parent(m, p))
        return -1;
    if ((i == NULL || (flags & O_ACCMODE) != O_RDONLY) && sim_read_only())
        return -1;
    if (i == NULL && m->full) {
        errno = ENOSPC;
        return -1;
    }
    if (i != NULL && i->dir && (flags & O_ACCMODE) != O_RDONLY) {
        errno = EISDIR;
        return -1;
    }
    if (i == NULL)
        i = add_name(m, p, false, mode);
    if (flags & O_TRUNC)
        i->n = i->synced = 0;
    struct sim_file *f = calloc(1, sizeof(*f));
    *f = (struct sim_file){.kind = SIM_FILE, .flags = flags, .inode = i};
    if (i->dir)
        f->path = strdup(p);
    i->refs++;
    return sim_fd_new(sim->cur, f);
}

static struct sim_file *regular(int fd)
{
    struct sim_file *f = sim_fd(fd);

    if (f != NULL && f->kind == SIM_FILE)
        return f;
    errno = f == NULL ? EBADF : ESPIPE;
    return NULL;
}

static ssize_t fs_pread(int fd, void *p, size_t n, off_t at)
{
    sim_step();
    struct sim_file *f = regular(fd);
    if (f == NULL)
        return -1;
    size_t have = (size_t)at < f->inode->n ? f->inode->n - (size_t)at : 0, k = n < have ? n : have;
    if (k > 0)
        memcpy(p, f->inode->data + at, k);
    return (ssize_t)k;
}

static ssize_t fs_pwrite(int fd, const void *p, size_t n, off_t at)
{
    sim_step();
    struct sim_file *f = regular(fd);
    if (f == NULL || sim_read_only())
        return -1;
    if (sim->cur->m->full && n > 1 && sim_random(sim) % 2 == 0) {
        n = (size_t)sim_between(sim, 1, (int64_t)n - 1); /* what just fits */
    } else if (sim->cur->m->full) {
        errno = ENOSPC;
        return -1;
    }
    write_at(f->inode, (size_t)at, p, n);
    return (ssize_t)n;
}

static int fs_fdatasync(int fd)
{
    sim_step();
    struct sim_file *f = sim_fd(fd);
    if (f == NULL)
        return -1;
    if (f->kind == SIM_FILE)
        f->inode->synced = f->inode->n;
    if (f->kind == SIM_FILE && f->path != NULL)
        sync_names(sim->cur->m, f->path);
    return 0;
}

static int fs_ftruncate(int fd, off_t size)
{
    sim_step();
    struct sim_file *f = regular(fd);
    if (f == NULL || sim_read_only())
        return -1;
    if ((size_t)size < f->inode->n)
        f->inode->n = (size_t)size;
    if (f->inode->synced > f->inode->n)
        f->inode->synced = f->inode->n;
    return 0;
}

static int fs_reserve(int fd, off_t size)
{
    sim_step();
    struct sim_file *f = regular(fd);
    if (f == NULL || sim_read_only())
        return -1;
    if (sim->cur->m->full) {
        errno = ENOSPC;
        return -1;
    }
    if ((size_t)size > f->inode->n)
        write_at(f->inode, (size_t)size - 1, "", 1);
    return 0;
}

static void fill_stat(const struct sim_inode *i, struct stat *st)
{
    memset(st, 0, sizeof(*st));
    st->st_mode = i->mode;
    st->st_size = (off_t)i->n;
    st->st_ino = (ino_t)(uintptr_t)i;
    st->st_nlink = 1;
    st->st_mtim = (struct timespec){i->mtime_ms / 1000, i->mtime_ms % 1000 * 1000000};
}

static int fs_fstat(int fd, struct stat *st)
{
    sim_step();
    struct sim_file *f = sim_fd(fd);
    if (f == NULL)
        return -1;
    memset(st, 0, sizeof(*st));
    st->st_mode = S_IFIFO;
    if (f->kind == SIM_FILE)
        fill_stat(f->inode, st);
    return 0;
}

static int fs_lstat(const char *path, struct stat *st)
{
    char p[1024];

    sim_step();
    struct sim_inode *i = clean(path, p) ? sim_lookup(sim->cur->m, p) : NULL;
    if (i == NULL) {
        errno = ENOENT;
        return -1;
    }
    fill_stat(i, st);
    return 0;
}

static int fs_mkdir(const char *path, mode_t mode)
{
    char p[1024];

    sim_step();
    if (!clean(path, p) || !has_parent(sim->cur->m, p))
        return -1;
    if (sim_lookup(sim->cur->m, p) != NULL) {
        errno = EEXIST;
        return -1;
    }
    if (sim_read_only())
        return -1;
    add_name(sim->cur->m, p, true, mode);
    return 0;
}

static int fs_rename(const char *from, const char *to)
{
    char a[1024], b[1024];

    sim_step();
    if (!clean(from, a) || !clean(to, b) || !has_parent(sim->cur->m, b))
        return -1;
    struct sim_name *x = find_name(sim->cur->m, a), *y;
    if (x == NULL || x->inode == NULL || x->inode->dir) { /* nobody here renames folders */
        errno = x == NULL || x->inode == NULL ? ENOENT : EISDIR;
        return -1;
    }
    if (sim_read_only())
        return -1;
    y = make_name(sim->cur->m, b);
    if (x->inode->synced < x->inode->n && sim->on_unsynced != NULL)
        sim->on_unsynced(sim, a);
    keep_rename(sim->cur->m, x, y);
    sim_unref_inode(y->inode);
    y->inode = x->inode;
    x->inode = NULL;
    return 0;
}

static int remove_name(const char *path, bool dir)
{
    char p[1024];

    sim_step();
    struct sim_name *n = clean(path, p) ? find_name(sim->cur->m, p) : NULL;
    if (n == NULL || n->inode == NULL || n->inode->dir != dir) {
        errno = n == NULL || n->inode == NULL ? ENOENT : dir ? ENOTDIR : EISDIR;
        return -1;
    }
    if (sim_read_only())
        return -1;
    sim_unref_inode(n->inode);
    n->inode = NULL;
    return 0;
}

static int fs_unlink(const char *path)
{
    return remove_name(path, false);
}

static int fs_rmdir(const char *path)
{
    return remove_name(path, true);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int fs_list(const char *dir, char ***names, size_t *n)
{
    char p[1024];
    struct sim_machine *m = sim->cur->m;
    size_t len;

    sim_step();
    *n = 0;
    *names = NULL;
    struct sim_inode *d = clean(dir, p) ? sim_lookup(m, p) : NULL;
    if (d == NULL || !d->dir) {
        errno = d == NULL ? ENOENT : ENOTDIR;
        return -1;
    }
    len = strlen(p);
    *names = fr_sys.alloc(SIM_NAMES * sizeof(char *));
    for (int k = 0; k < SIM_NAMES; k++) {
        const char *path = m->names[k].path;
        if (m->names[k].inode == NULL || strncmp(path, p, len) != 0 || path[len] != '/' ||
            path[len + 1] == '\0' || strchr(path + len + 1, '/') != NULL)
            continue;
        char *copy = fr_sys.alloc(strlen(path + len));
        memcpy(copy, path + len + 1, strlen(path + len));
        (*names)[(*n)++] = copy;
    }
    qsort(*names, *n, sizeof(char *), by_name); /* whatever the names in front of it are */
    return 0;
}

static int64_t fs_disk_free(const char *path)
{
    (void)path;
    return (int64_t)1 << 40;
}

static int64_t fs_fs_type(const char *path)
{
    (void)path;
    return 0xef53; /* ext4 */
}

static int fs_lock(int fd)
{
    sim_step();
    struct sim_file *f = regular(fd);
    if (f == NULL)
        return -1;
    if ((f->inode->locker != NULL && f->inode->locker != f) || f->inode->sharers > f->shares) {
        errno = EAGAIN;
        return -1;
    }
    f->inode->sharers -= f->shares;
    f->shares = false;
    f->inode->locker = f;
    return 0;
}

static int fs_lock_shared(int fd)
{
    sim_step();
    struct sim_file *f = regular(fd);
    if (f == NULL)
        return -1;
    if (f->inode->locker != NULL && f->inode->locker != f) {
        errno = EAGAIN;
        return -1;
    }
    f->inode->locker = NULL;
    f->inode->sharers += !f->shares;
    f->shares = true;
    return 0;
}

static int fs_locked(int fd)
{
    sim_step();
    struct sim_file *f = regular(fd);
    if (f == NULL)
        return -1;
    return (f->inode->locker != NULL && f->inode->locker != f) || f->inode->sharers > f->shares;
}

static int fs_touch(const char *path)
{
    char p[1024];

    sim_step();
    struct sim_inode *i = clean(path, p) ? sim_lookup(sim->cur->m, p) : NULL;
    if (i == NULL) {
        errno = ENOENT;
        return -1;
    }
    if (sim_read_only())
        return -1;
    i->mtime_ms = fr_sys.wall_ms();
    return 0;
}

/* Nothing here waits for ever, and there is one thread. */
static int fs_within(int64_t ms, void (*run)(void *arg), void (*drop)(void *arg), void *arg)
{
    (void)ms, (void)drop;
    run(arg);
    return 1;
}

void sim_sys_fs(struct fr_sys *t)
{
    t->within = fs_within;
    t->open = fs_open;
    t->pread = fs_pread;
    t->pwrite = fs_pwrite;
    t->fdatasync = fs_fdatasync;
    t->ftruncate = fs_ftruncate;
    t->reserve = fs_reserve;
    t->fstat = fs_fstat;
    t->lstat = fs_lstat;
    t->mkdir = fs_mkdir;
    t->rename = fs_rename;
    t->unlink = fs_unlink;
    t->rmdir = fs_rmdir;
    t->list = fs_list;
    t->disk_free = fs_disk_free;
    t->fs_type = fs_fs_type;
    t->lock = fs_lock;
    t->lock_shared = fs_lock_shared;
    t->locked = fs_locked;
    t->touch = fs_touch;
}
