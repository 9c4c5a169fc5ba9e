#include "engine/run/shipped.h"

#include "engine/run/inside.h"

#include <string.h>

/* A line each. NULL: no memory. */
static const char *exclude_text(struct fr_arena *arena, const struct fr_excludes *ex)
{
    struct fr_buf b = {0};
    const char *text;

    for (size_t i = 0; ex != NULL && i < ex->n; i++)
        fr_buf_fmt(&b, "%s\n", ex->v[i]);
    text = b.bad ? NULL : fr_arena_text(arena, b.p != NULL ? b.p : "", b.n);
    fr_buf_finish(&b);
    return text;
}

static struct run_shipped_once *find(const struct run_shipping *s, const char *path,
                                     const char *exclude, bool own)
{
    for (size_t i = 0; i < s->n; i++)
        if ((s->v[i].no == 0) == own && strcmp(s->v[i].row.path, path) == 0 &&
            strcmp(s->v[i].row.exclude, exclude) == 0)
            return &s->v[i];
    return NULL;
}

bool run_shipped_before(const struct fr_run *run, const char *path)
{
    for (size_t i = 0; i < run->shipping.n; i++)
        if (strcmp(run->shipping.v[i].row.path, path) == 0)
            return true;
    return false;
}

static enum fr_rc add(struct fr_run *run, const struct run_shipped_once *one, struct fr_err *err)
{
    struct run_shipping *s = &run->shipping;
    struct run_shipped_once *v = fr_arena_grow(&run->arena, s->v, s->n, sizeof(*v));
    struct fr_shipped_row row;

    if (v != NULL) {
        row = (struct fr_shipped_row){.path = fr_arena_dup(&run->arena, one->row.path),
                                      .exclude = fr_arena_dup(&run->arena, one->row.exclude),
                                      .hash = fr_arena_dup(&run->arena, one->row.hash)};
        s->v = v;
        v[s->n] = *one;
        v[s->n].row = row;
    }
    if (v == NULL || row.path == NULL || row.exclude == NULL || row.hash == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for what is shipped");
    s->n++;
    return FR_OK;
}

static void compare(struct fr_run *run, uint32_t inst, struct run_shipped_once *before,
                    const char *hash)
{
    if (before == NULL || before->told || strcmp(before->row.hash, hash) == 0)
        return;
    before->told = true;
    if (before->no != 0)
        run_trouble(run, inst, "%s is not as run %lld shipped it: no copy of it was kept",
                    before->row.path, (long long)before->no);
    else
        run_trouble(run, inst, "%s is not as this run shipped it first: no copy of it was kept",
                    before->row.path);
}

static enum fr_rc see(struct fr_run *run, uint32_t inst, const struct fr_shipment_item *item,
                      struct fr_err *err)
{
    struct run_shipping *s = &run->shipping;
    const char *exclude, *hash = item->manifest->hash;
    struct run_shipped_once *own;

    if (run_kept(run, item->path))
        return FR_OK;
    if ((exclude = exclude_text(&run->arena, item->exclude)) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for what is shipped");
    own = find(s, item->path, exclude, true);
    compare(run, inst, own, hash);
    if (own != NULL)
        return FR_OK;
    compare(run, inst, find(s, item->path, exclude, false), hash);
    s->dirty = true;
    return add(run, &(struct run_shipped_once){.row = {item->path, exclude, hash}}, err);
}

enum fr_rc run_ship(struct fr_run *run, uint32_t inst, const char *path,
                    const struct fr_excludes *exclude, struct fr_shipment_item **out,
                    struct fr_err *err)
{
    enum fr_rc rc = fr_shipment_path(&run->shipment, path, exclude, out, err);

    return rc == FR_OK ? see(run, inst, *out, err) : rc;
}

enum fr_rc run_shipping_write(struct fr_run *run, struct fr_err *err)
{
    struct run_shipping *s = &run->shipping;
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; s->dirty && rc == FR_OK && i < s->n; i++)
        if (s->v[i].no == 0 && !s->v[i].put)
            rc = fr_store_shipped_put(run->env.store, run->id, &s->v[i].row, err);
    return rc;
}

void run_shipping_written(struct fr_run *run)
{
    for (size_t i = 0; run->shipping.dirty && i < run->shipping.n; i++)
        run->shipping.v[i].put = true;
    run->shipping.dirty = false;
}

enum fr_rc run_shipping_add(struct fr_run *run, const struct fr_shipped_rows *rows, int64_t no,
                            struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; rc == FR_OK && i < rows->n; i++)
        rc = add(run, &(struct run_shipped_once){.row = rows->rows[i], .no = no, .put = true}, err);
    return rc;
}
