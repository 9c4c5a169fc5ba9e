#include "engine/view/curves.h"

#include "engine/base/json.h"
#include "engine/base/sys.h"
#include "engine/run/metrics.h"
#include "engine/store/home.h"
#include "engine/store/store.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS = 12 };

struct piece { /* a part, and whose it is */
    struct fr_curve_span span;
    const struct fr_inst_row *inst;
    const struct fr_attempt_row *attempt;
};

struct look {
    const struct host_curves *ask;
    struct fr_curves *cache;
    struct fr_arena arena;
    struct fr_buf dir; /* owns: of the run */
    struct fr_inst_rows insts;
    struct fr_attempt_rows attempts;
    struct piece *pieces; /* in the arena, by instance and attempt */
    size_t n;
    double from, to, bucket;
    uint64_t bad, left_out;
};

/* ---- what there is ---- */

static enum fr_rc read_rows(struct look *l, const char *home, struct fr_err *err)
{
    struct fr_store *st = NULL;
    enum fr_rc rc = fr_store_open_read(home, &st, err);

    fr_home_at(home, FR_HOME_RUN, l->ask->run, &l->dir);
    if (rc == FR_OK && l->dir.bad)
        rc = fr_fail(err, FR_NOMEM, "no memory for curves");
    if (rc == FR_OK)
        rc = fr_store_insts(st, l->ask->run, &l->arena, &l->insts, err);
    if (rc == FR_OK)
        rc = fr_store_attempts(st, l->ask->run, &l->arena, &l->attempts, err);
    fr_store_close(st);
    return rc;
}

static enum fr_rc add_parts(struct look *l, const struct fr_inst_row *inst,
                            const struct fr_attempt_row *attempt, struct fr_err *err)
{
    struct fr_buf path = {0};
    const struct fr_curve *curve = NULL;
    struct piece *pieces;
    enum fr_rc rc;

    fr_buf_fmt(&path, "%s/", l->dir.p);
    fr_run_metrics_name(&path, inst->key, (uint32_t)attempt->no);
    rc = path.bad ? fr_fail(err, FR_NOMEM, "no memory for curves")
                  : fr_curves_get(l->cache, attempt->id, path.p, &curve, err);
    fr_buf_finish(&path);
    if (rc != FR_OK)
        return rc;
    l->bad += curve->bad;
    l->left_out += curve->left_out;
    for (size_t i = 0; i < curve->n_parts; i++) {
        if ((pieces = fr_arena_grow(&l->arena, l->pieces, l->n, sizeof(*pieces))) == NULL)
            return fr_fail(err, FR_NOMEM, "no memory for curves");
        l->pieces = pieces;
        l->pieces[l->n++] = (struct piece){{curve, curve->parts[i], INFINITY}, inst, attempt};
    }
    return FR_OK;
}

static bool is_asked(const struct look *l, const struct fr_inst_row *inst)
{
    return l->ask->task == NULL || fr_inst_named(inst, l->ask->task);
}

static enum fr_rc find_parts(struct look *l, struct fr_err *err)
{
    size_t i = 0;
    enum fr_rc rc = FR_OK;

    for (size_t a = 0; rc == FR_OK && a < l->attempts.n; a++) {
        const struct fr_attempt_row *attempt = &l->attempts.rows[a];

        while (i < l->insts.n && l->insts.rows[i].idx < attempt->idx)
            i++;
        if (i < l->insts.n && l->insts.rows[i].idx == attempt->idx &&
            is_asked(l, &l->insts.rows[i]))
            rc = add_parts(l, &l->insts.rows[i], attempt, err);
    }
    if (l->n > FR_CURVES_PARTS) {
        l->pieces += l->n - FR_CURVES_PARTS;
        l->n = FR_CURVES_PARTS;
    }
    return rc;
}

/* Within each instance, later parts replace earlier ones. */
static enum fr_rc replace(struct look *l, struct fr_err *err)
{
    struct fr_curve_span *spans = fr_arena_array(&l->arena, l->n + 1, sizeof(*spans));

    if (spans == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for curves");
    for (size_t from = 0, to; from < l->n; from = to) {
        for (to = from; to < l->n && l->pieces[to].inst == l->pieces[from].inst; to++)
            spans[to - from] = l->pieces[to].span;
        fr_curve_replace(spans, to - from);
        for (size_t i = from; i < to; i++)
            l->pieces[i].span = spans[i - from];
    }
    return FR_OK;
}

static void set_window(struct look *l)
{
    l->from = INFINITY;
    l->to = -INFINITY;
    for (size_t i = 0; i < l->n; i++)
        fr_curve_extent(&l->pieces[i].span, l->ask->x, &l->from, &l->to);
    if (!(l->from <= l->to))
        l->from = l->to = 0;
    if (!isnan(l->ask->from))
        l->from = l->ask->from;
    if (!isnan(l->ask->to))
        l->to = l->ask->to;
    l->bucket = fr_curve_bucket(l->from, l->to, l->ask->width);
}

/* ---- the answer ---- */

static json_t *json_of_part(const struct piece *p)
{
    const struct fr_curve_part *part = p->span.part;
    char id[FR_ID_TEXT];

    fr_id_text(p->attempt->id, id);
    return json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:o, s:o, s:o, s:b}", "instance", p->inst->key,
                     "node", p->attempt->node, "attempt", id, "attempt_no",
                     (json_int_t)p->attempt->no, "started_wall",
                     (json_int_t)p->attempt->started_wall, "rows", (json_int_t)part->n, "first",
                     fr_json_real(part->n > 0 ? part->step[0] : NAN), "last",
                     fr_json_real(part->n > 0 ? part->step[part->n - 1] : NAN), "until",
                     fr_json_real(p->span.until), "full", part->full);
}

static json_t *json_of_points(const struct fr_curve_points *points, bool y)
{
    json_t *list = json_array();

    for (size_t i = 0; i < points->n; i++)
        json_array_append_new(list, fr_json_real(y ? points->v[i].y : points->v[i].x));
    return list;
}

/* What a part has of a key: nothing, or a series. */
static bool add_series(const struct look *l, size_t part, const char *key, bool lost, json_t *all)
{
    struct fr_curve_ask ask = {key, l->ask->x, l->from, l->to, l->bucket, lost};
    struct fr_curve_points points = {0};

    fr_curve_reduce(&l->pieces[part].span, &ask, &points);
    if (points.n > 0)
        json_array_append_new(all, json_pack("{s:s, s:I, s:b, s:o, s:o}", "key", key, "part",
                                             (json_int_t)part, "lost", lost, "x",
                                             json_of_points(&points, false), "y",
                                             json_of_points(&points, true)));
    fr_sys.free(points.v);
    return !points.no_memory;
}

static bool in_list(const char *list, const char *name)
{
    size_t n = strlen(name);

    for (const char *p = list; p != NULL; p = strchr(p, ',')) {
        p += *p == ',';
        if (strncmp(p, name, n) == 0 && (p[n] == ',' || p[n] == '\0'))
            return true;
    }
    return list == NULL;
}

/* Every key once, in the order in which they came. */
static json_t *all_keys(const struct look *l)
{
    json_t *seen = json_object(), *keys = json_array();

    for (size_t i = 0; i < l->n; i++) {
        const struct fr_curve *c = l->pieces[i].span.curve;

        for (size_t k = 0; k < c->n_names; k++)
            if (json_object_get(seen, c->names[k]) == NULL) {
                json_object_set_new(seen, c->names[k], json_true());
                json_array_append_new(keys, json_string(c->names[k]));
            }
    }
    json_decref(seen);
    return keys;
}

/* NULL: no memory. */
static json_t *all_series(const struct look *l, const json_t *keys)
{
    json_t *series = json_array(), *item;
    bool ok = series != NULL;
    size_t i;

    json_array_foreach(keys, i, item)
    {
        const char *key = json_string_value(item);

        if (!in_list(l->ask->keys, key))
            continue;
        for (size_t part = 0; part < l->n; part++)
            ok = ok && add_series(l, part, key, false, series) &&
                 add_series(l, part, key, true, series);
    }
    if (ok)
        return series;
    json_decref(series);
    return NULL;
}

/* The attempt that began last. */
static json_t *json_of_head(const struct look *l)
{
    const struct piece *newest = NULL;
    const struct fr_curve_head *h;

    for (size_t i = 0; i < l->n; i++)
        if (newest == NULL || l->pieces[i].attempt->started_wall >= newest->attempt->started_wall)
            newest = &l->pieces[i];
    if (newest == NULL)
        return json_null();
    h = &newest->span.curve->head;
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I}",
                     "instance", newest->inst->key, "step", fr_json_real(h->step), "total",
                     fr_json_real(h->total), "loss", fr_json_real(h->loss), "loss_smooth",
                     fr_json_real(h->smooth), "rate", fr_json_real(h->rate), "rate_median",
                     fr_json_real(fr_curve_head_rate(h)), "epoch", fr_json_real(h->epoch),
                     "elapsed_s", fr_json_real(h->elapsed_s), "eta_s",
                     fr_json_real(fr_curve_head_eta_s(h)), "bad_since", fr_json_real(h->bad_since),
                     "checkpoint", fr_json_real(h->checkpoint), "checkpoint_age_s",
                     fr_json_real(h->elapsed_s - h->checkpoint_s), "wall",
                     (json_int_t)newest->span.curve->wall_ms);
}

static enum fr_rc put_answer(const struct look *l, struct fr_buf *out, struct fr_err *err)
{
    static const char *const axes[] = {"step", "tokens", "time", "epoch"};
    json_t *keys = all_keys(l), *parts = json_array(), *series = all_series(l, keys), *doc;

    for (size_t i = 0; i < l->n; i++)
        json_array_append_new(parts, json_of_part(&l->pieces[i]));
    doc = json_pack("{s:s, s:f, s:f, s:f, s:o, s:o, s:o*, s:o, s:I, s:I}", "x", axes[l->ask->x],
                    "from", l->from, "to", l->to, "bucket", l->bucket, "keys", keys, "parts", parts,
                    "series", series, "head", json_of_head(l), "bad_lines", (json_int_t)l->bad,
                    "left_out", (json_int_t)l->left_out);
    fr_json_add(out, series != NULL ? doc : NULL, JSON_COMPACT | JSON_REAL_PRECISION(DIGITS));
    json_decref(doc);
    return out->bad ? fr_fail(err, FR_NOMEM, "no memory for curves") : FR_OK;
}

enum fr_rc host_curves_read(const char *home, const struct host_curves *ask,
                            struct fr_curves *cache, struct fr_buf *out, struct fr_err *err)
{
    struct look l = {.ask = ask, .cache = cache};
    enum fr_rc rc = read_rows(&l, home, err);

    if (rc == FR_OK)
        rc = find_parts(&l, err);
    if (rc == FR_OK)
        rc = replace(&l, err);
    if (rc == FR_OK) {
        set_window(&l);
        rc = put_answer(&l, out, err);
    }
    fr_curves_trim(cache);
    fr_buf_finish(&l.dir);
    fr_arena_finish(&l.arena);
    return rc;
}
