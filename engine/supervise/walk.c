#include "engine/supervise/walk.h"

#include "engine/base/arena.h"

#include <errno.h>
#include <string.h>

struct fr_walk_dir {
    char **names;
    size_t n, at;
    size_t length; /* of its path */
};

enum fr_rc fr_walk_begin(struct fr_walk *w, const char *path, struct fr_err *err)
{
    size_t n = strlen(path);

    *w = (struct fr_walk){0};
    if (n >= sizeof(w->path))
        return fr_fail(err, FR_IO, "%s: the path is too long", path);
    memcpy(w->path, path, n + 1);
    return FR_OK;
}

static enum fr_rc enter(struct fr_walk *w, struct fr_err *err)
{
    struct fr_walk_dir d = {.length = strlen(w->path)};
    struct fr_walk_dir *more = fr_grow(w->dirs, w->depth + 1, &w->cap, sizeof(*more));

    if (more == NULL)
        return fr_fail(err, FR_NOMEM, "no memory to look through %s", w->path);
    w->dirs = more;
    if (fr_sys.list(w->path, &d.names, &d.n) != 0)
        return fr_fail_errno(err, errno, "cannot list %s", w->path);
    w->dirs[w->depth++] = d;
    return FR_OK;
}

/* Looks at path; *entry stays FR_WALK_END when it is gone. */
static enum fr_rc look(struct fr_walk *w, enum fr_walk_entry *entry, struct fr_err *err)
{
    if (fr_sys.lstat(w->path, &w->st) != 0)
        return errno == ENOENT ? FR_OK : fr_fail_errno(err, errno, "cannot look at %s", w->path);
    *entry = S_ISDIR(w->st.st_mode) ? FR_WALK_ENTER : FR_WALK_FILE;
    return *entry == FR_WALK_ENTER ? enter(w, err) : FR_OK;
}

enum fr_rc fr_walk_next(struct fr_walk *w, enum fr_walk_entry *entry, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    *entry = FR_WALK_END;
    if (!w->begun) {
        w->begun = true;
        return look(w, entry, err);
    }
    while (rc == FR_OK && *entry == FR_WALK_END && w->depth > 0) {
        struct fr_walk_dir *d = &w->dirs[w->depth - 1];
        w->path[d->length] = '\0';
        if (d->at == d->n) {
            fr_sys_names_free(d->names, d->n);
            w->depth--;
            *entry = FR_WALK_LEAVE;
            break;
        }
        const char *name = d->names[d->at++];
        size_t n = strlen(name);
        if (d->length + n + 2 > sizeof(w->path))
            return fr_fail(err, FR_IO, "%s/%s: the path is too long", w->path, name);
        w->path[d->length] = '/';
        memcpy(w->path + d->length + 1, name, n + 1);
        rc = look(w, entry, err);
    }
    return rc;
}

void fr_walk_finish(struct fr_walk *w)
{
    while (w->depth > 0) {
        w->depth--;
        fr_sys_names_free(w->dirs[w->depth].names, w->dirs[w->depth].n);
    }
    fr_sys.free(w->dirs);
    w->dirs = NULL;
    w->cap = 0;
    w->begun = false;
}
