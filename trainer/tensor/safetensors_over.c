/* Tensors of an open checkpoint under further names, and those of another in their places. */
#include "trainer/tensor/safetensors_open.h"

#include "engine/base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

/* A tensor with the values of t, under a name of its own. */
static enum fr_rc add(struct tr_st *st, const struct tr_st_tensor *t, const char *name,
                      struct fr_err *err)
{
    struct tr_st_tensor copy = *t; /* which may lie in what is grown */
    void *p = fr_grow(st->tensors, st->ntensors + 1, &st->cap, sizeof(st->tensors[0]));

    copy.name = fr_arena_dup(&st->arena, name);
    if (p != NULL)
        st->tensors = p;
    if (p == NULL || copy.name == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the name %s", name);
    st->tensors[st->ntensors++] = copy;
    st_sort(st);
    return FR_OK;
}

enum fr_rc tr_st_alias(struct tr_st *st, const struct tr_st_tensor *t, const char *name,
                       struct fr_err *err)
{
    return add(st, t, name, err);
}

/* Opens the other checkpoint's file as one more of st. */
static enum fr_rc add_file(struct tr_st *st, const struct st_file *from, int *file,
                           struct fr_err *err)
{
    struct st_file *files, *last = &st->files[st->nfiles];

    if (st->nfiles > 0 && strcmp(last[-1].path, from->path) == 0) {
        *file = (int)st->nfiles - 1;
        return FR_OK;
    }
    files = fr_arena_array(&st->arena, st->nfiles + 1, sizeof(*files));
    if (files == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the name of %s", from->path);
    memcpy(files, st->files, st->nfiles * sizeof(*files));
    last = &files[st->nfiles];
    *last = *from;
    if ((last->path = fr_arena_dup(&st->arena, from->path)) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the name of %s", from->path);
    if ((last->fd = fr_sys.open(last->path, O_RDONLY | O_NONBLOCK, 0)) < 0)
        return fr_fail_errno(err, errno, "cannot open %s", last->path);
    st->files = files;
    *file = (int)st->nfiles++;
    return FR_OK;
}

enum fr_rc tr_st_lay_over(struct tr_st *st, const struct tr_st *from, const struct tr_st_tensor *t,
                          const char *name, struct fr_err *err)
{
    const struct tr_st_tensor *old = tr_st_find(st, name);
    struct tr_st_tensor new = *t;
    enum fr_rc rc = add_file(st, &from->files[t->file], &new.file, err);

    if (rc != FR_OK)
        return rc;
    new.over = old != NULL && !old->absent;
    new.under = old != NULL ? old->type : t->type;
    if (old == NULL)
        return add(st, &new, name, err);
    new.name = old->name;
    st->tensors[old - st->tensors] = new;
    return FR_OK;
}
