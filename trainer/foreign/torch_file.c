#include "trainer/foreign/torch_file.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"

#include <stdio.h>
#include <string.h>

enum { PICKLE_MAX = 1 << 28 };

static enum fr_rc read_entry(struct tr_torch_file *f, const struct tr_zip_entry *e,
                             struct fr_str *out, struct fr_err *err)
{
    char *p = fr_arena_alloc(&f->arena, (size_t)e->bytes + 1);
    enum fr_rc rc;

    if (p == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %s", tr_zip_path(f->zip));
    *out = (struct fr_str){p, (size_t)e->bytes};
    rc = tr_zip_check(f->zip, e, err);
    return rc == FR_OK ? tr_zip_read(f->zip, e->at, p, (size_t)e->bytes, err) : rc;
}

/* Older versions of torch do not say it: then it is little. */
static enum fr_rc check_order(struct tr_torch_file *f, struct fr_err *err)
{
    const struct tr_zip_entry *e = tr_zip_find(f->zip, "byteorder");
    struct fr_str order;
    enum fr_rc rc;

    if (e == NULL)
        return FR_OK;
    if (e->bytes > 16)
        return fr_fail(err, FR_CORRUPT, "%s: entry byteorder is no word", tr_zip_path(f->zip));
    if ((rc = read_entry(f, e, &order, err)) == FR_OK && !fr_str_is(order, "little"))
        rc = fr_fail(err, FR_USAGE, "%s has the byte order '%s', expected little",
                     tr_zip_path(f->zip), order.p);
    return rc;
}

enum fr_rc tr_torch_open(struct tr_torch_file *f, const char *path, struct fr_err *err)
{
    struct tr_pickle p = {.file = path, .arena = &f->arena};
    const struct tr_zip_entry *e;
    enum fr_rc rc = tr_zip_open(path, &f->zip, err);

    f->path = path;
    if (rc == FR_OK)
        rc = check_order(f, err);
    if (rc != FR_OK)
        goto out;
    if ((e = tr_zip_find(f->zip, "data.pkl")) == NULL)
        rc = fr_fail(err, FR_USAGE, "%s has no data.pkl: no file of torch.save", path);
    else if (e->bytes > PICKLE_MAX)
        rc = fr_fail(err, FR_UNSUPPORTED, "%s: a pickle of %lld bytes, at most %d are read", path,
                     (long long)e->bytes, PICKLE_MAX);
    else
        rc = read_entry(f, e, &p.bytes, err);
    if (rc == FR_OK)
        rc = tr_pickle_read(&p, &f->root, err);
out:
    if (rc != FR_OK)
        tr_torch_close(f);
    return rc;
}

void tr_torch_close(struct tr_torch_file *f)
{
    tr_zip_close(f->zip);
    fr_arena_finish(&f->arena);
    *f = (struct tr_torch_file){0};
}

enum fr_rc tr_torch_run(const struct tr_torch_file *f, const struct tr_pv *tensor,
                        struct tr_run *out, struct fr_err *err)
{
    const struct tr_pv_tensor *t = tensor->tensor;
    const char *path = f->path;
    const struct tr_zip_entry *e;
    char name[64];
    int64_t size = tr_st_type_bits(t->storage->name->type) / 8;

    (void)snprintf(name, sizeof(name), "data/%s", t->storage->text.p);
    *out = (struct tr_run){.path = path, .type = t->storage->name->type, .n = 1};
    for (int i = 0; i < t->ndim; i++)
        out->n *= t->shape[i];
    if (out->n == 0)
        return FR_OK;
    if ((e = tr_zip_find(f->zip, name)) == NULL)
        return fr_fail(err, FR_CORRUPT, "%s has no %s", path, name);
    if (t->first + out->n > e->bytes / size)
        return fr_fail(err, FR_CORRUPT, "%s: %s has %lld bytes, a tensor ends at %lld", path, name,
                       (long long)e->bytes, (long long)((t->first + out->n) * size));
    out->at = e->at + t->first * size;
    return f->check ? tr_zip_check(f->zip, e, err) : FR_OK;
}

void tr_runs_close(struct tr_runs_file *f)
{
    if (f->path != NULL)
        (void)fr_sys.close(f->fd);
    f->path = NULL;
}

static enum fr_rc open_run(struct tr_runs_file *f, const struct tr_run *run, struct fr_err *err)
{
    enum fr_rc rc;

    if (f->path == run->path)
        return FR_OK;
    tr_runs_close(f);
    if ((rc = fr_file_open(run->path, &f->fd, NULL, err)) == FR_OK)
        f->path = run->path;
    return rc;
}

enum fr_rc tr_runs_read(struct tr_runs_file *f, const struct tr_runs *runs, const int64_t range[2],
                        void *dst, struct fr_err *err)
{
    int64_t at = 0, first = range[0], end = first + range[1];
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; i < runs->n && at < end && rc == FR_OK; i++) {
        const struct tr_run *run = &runs->p[i];
        int64_t from = first > at ? first : at, to = end < at + run->n ? end : at + run->n;
        int64_t size = (int64_t)tr_st_type_bits(run->type) / 8;

        if (from < to && (rc = open_run(f, run, err)) == FR_OK)
            rc = tr_st_pread(f->fd, f->path, (char *)dst + (from - first) * size,
                             (size_t)((to - from) * size), run->at + (from - at) * size, err);
        at += run->n;
    }
    return rc;
}
