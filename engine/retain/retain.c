#include "engine/retain/retain.h"

#include "engine/base/file.h"
#include "engine/base/map.h"
#include "engine/base/sys.h"
#include "engine/run/run.h"
#include "engine/store/home.h"

#include <errno.h>
#include <string.h>

enum { STEP_FILES = 500, STEP_RUNS = 24 };

static const int64_t DAY_MS = 86400000;

/* ---- which ---- */

struct pipeline {
    const char *name;
    struct fr_keep_runs keep; /* the home's, where it does not say its own */
    int64_t own_bytes;        /* of its own keep; 0: no limit */
    int ended;
    bool succeeded, failed; /* has been seen: its newest */
};

struct fate { /* of a run */
    const struct pipeline *of;
    bool always, goes;
    int64_t bytes;
};

struct choice {
    struct fr_store *st;
    const struct fr_keep_runs *keep;
    struct fr_arena *arena;
    struct fr_map by_name;
    struct pipeline **pipelines;
    size_t n;
    int64_t now;
};

static uint64_t hash_of(const char *text)
{
    uint64_t h = 14695981039346656037u; /* FNV-1a */

    for (; *text != '\0'; text++)
        h = (h ^ (unsigned char)*text) * 1099511628211u;
    return h;
}

/* What its newest run says. One that cannot be read says nothing. */
static void read_own_keep(struct choice *c, struct pipeline *p, struct fr_id newest)
{
    struct fr_arena arena = {0};
    struct fr_stored stored = {0};
    struct fr_run_row row;
    char id[FR_ID_TEXT];

    fr_id_text(newest, id);
    p->keep = *c->keep;
    if (fr_store_run_find(c->st, id, &arena, &row, NULL) == FR_OK &&
        fr_run_stored(c->st, &row, &stored, NULL) == FR_OK) {
        const struct fr_keep_runs *own = &stored.spec->keep_runs;

        p->keep.runs = own->runs != 0 ? own->runs : p->keep.runs;
        p->keep.failed_days = own->failed_days != 0 ? own->failed_days
                              : own->days != 0      ? own->days
                                                    : p->keep.failed_days;
        p->keep.days = own->days != 0 ? own->days : p->keep.days;
        p->own_bytes = own->bytes;
    }
    fr_run_stored_finish(&stored);
    fr_arena_finish(&arena);
}

static struct pipeline *pipeline_of(struct choice *c, const struct fr_over_row *row)
{
    const char *name = row->name;
    uint64_t key = hash_of(name), *value;
    struct pipeline *p;

    for (size_t at = 0; (value = fr_map_next(&c->by_name, key, &at)) != NULL;)
        if (strcmp(c->pipelines[*value]->name, name) == 0)
            return c->pipelines[*value];
    c->pipelines = fr_arena_grow(c->arena, c->pipelines, c->n, sizeof(*c->pipelines));
    p = fr_arena_alloc(c->arena, sizeof(*p));
    if (c->pipelines == NULL || p == NULL || !fr_map_add(&c->by_name, key, c->n))
        return NULL;
    *p = (struct pipeline){.name = name};
    read_own_keep(c, p, row->id); /* the newest comes first */
    c->pipelines[c->n++] = p;
    return p;
}

/* Whether the run is one that always stays. Counts it. */
static bool stays(struct pipeline *p, const struct fr_over_row *row)
{
    bool succeeded = row->outcome == FR_OUT_SUCCEEDED;
    bool failed = row->outcome == FR_OUT_FAILED;
    bool newest = (succeeded && !p->succeeded) || (failed && !p->failed);

    p->ended++;
    p->succeeded |= succeeded;
    p->failed |= failed;
    return newest || row->pinned != 0;
}

static bool too_old(const struct choice *c, const struct pipeline *p, const struct fr_over_row *row)
{
    const struct fr_keep_runs *k = &p->keep;
    int days = row->outcome == FR_OUT_FAILED ? k->failed_days : k->days;

    return (k->runs > 0 && p->ended > k->runs) ||
           (days > 0 && c->now != 0 && c->now - row->ended_wall > days * DAY_MS);
}

/* The oldest go until the others fit: those of a pipeline, or (NULL) of all. */
static void fit(const struct pipeline *of, int64_t most, size_t n, struct fate *fates)
{
    int64_t bytes = 0;

    for (size_t i = 0; i < n; i++)
        if (!fates[i].goes && (of == NULL || fates[i].of == of))
            bytes += fates[i].bytes;
    for (size_t i = n; i-- > 0 && bytes > most;)
        if (!fates[i].goes && !fates[i].always && (of == NULL || fates[i].of == of)) {
            fates[i].goes = true;
            bytes -= fates[i].bytes;
        }
}

/* By size, of which each run is measured once. */
static void fit_all(struct choice *c, const struct fr_over_rows *rows, struct fate *fates)
{
    bool any = c->keep->bytes > 0;

    for (size_t i = 0; i < c->n; i++)
        any = any || c->pipelines[i]->own_bytes > 0;
    for (size_t i = 0; any && i < rows->n; i++)
        if (!fates[i].goes)
            fates[i].bytes = fr_retain_bytes(c->st, rows->rows[i].id);
    for (size_t i = 0; i < c->n; i++)
        if (c->pipelines[i]->own_bytes > 0)
            fit(c->pipelines[i], c->pipelines[i]->own_bytes, rows->n, fates);
    if (c->keep->bytes > 0)
        fit(NULL, c->keep->bytes, rows->n, fates);
}

static enum fr_rc choose(struct choice *c, const struct fr_over_rows *rows, struct fate *fates,
                         struct fr_err *err)
{
    for (size_t i = 0; i < rows->n; i++) {
        const struct fr_over_row *row = &rows->rows[i];
        struct pipeline *p = pipeline_of(c, row);

        if (p == NULL)
            return fr_fail(err, FR_NOMEM, "no memory for runs");
        fates[i] = (struct fate){.of = p, .always = stays(p, row)};
        fates[i].goes = !fates[i].always && too_old(c, p, row);
    }
    return FR_OK;
}

enum fr_rc fr_retain_choose(struct fr_store *st, const struct fr_keep_by *by,
                            struct fr_arena *arena, struct fr_over_rows *out, struct fr_err *err)
{
    struct choice c = {.st = st, .keep = &by->keep, .arena = arena, .now = by->now_ms};
    struct fate *fates;
    size_t n = 0;
    enum fr_rc rc = fr_store_runs_over(st, arena, out, err);

    if (rc != FR_OK)
        return rc;
    fates = fr_arena_array(arena, out->n + 1, sizeof(*fates));
    rc = fates != NULL ? choose(&c, out, fates, err) : fr_fail(err, FR_NOMEM, "no memory for runs");
    if (rc == FR_OK)
        fit_all(&c, out, fates);
    for (size_t i = 0; rc == FR_OK && i < out->n; i++)
        if (fates[i].goes)
            out->rows[n++] = out->rows[i];
    out->n = n;
    fr_map_finish(&c.by_name);
    return rc;
}

/* ---- one run ---- */

int64_t fr_retain_bytes(const struct fr_store *st, struct fr_id run)
{
    struct fr_buf path = {0};
    int64_t bytes;

    fr_home_at(fr_store_home(st), FR_HOME_RUN, run, &path);
    bytes = path.bad ? 0 : fr_tree_bytes(path.p);
    fr_buf_finish(&path);
    return bytes;
}

enum fr_rc fr_retain_remove(struct fr_store *st, struct fr_id run, struct fr_err *err)
{
    return fr_store_run_remove(st, run, err);
}

/* The run's files, at most *left of them. */
static enum fr_rc remove_files(const char *home, struct fr_id run, size_t *left, struct fr_err *err)
{
    static const char *const ends[] = {"", ".sock", ".lock"}; /* of its folder; of old flowruns */
    struct fr_buf path = {0};
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; rc == FR_OK && i < sizeof(ends) / sizeof(ends[0]); i++) {
        path.n = 0;
        fr_home_at(home, FR_HOME_RUN, run, &path);
        fr_buf_text(&path, ends[i]);
        rc = path.bad ? fr_fail(err, FR_NOMEM, "no memory for a path")
                      : fr_remove_some(path.p, left, err);
    }
    fr_buf_finish(&path);
    return rc;
}

/* Rows of runs whose files are gone, in one commit. Where that fails, each by itself: one that
 * cannot go holds up no other. *gone: some went. */
static enum fr_rc drop(struct fr_store *st, const struct fr_id *runs, size_t n, bool *gone,
                       struct fr_err *err)
{
    enum fr_rc rc = fr_store_runs_drop(st, runs, n, err), failed = FR_OK;

    *gone = rc == FR_OK;
    for (size_t i = 0; !*gone && n > 1 && i < n; i++) {
        rc = fr_store_runs_drop(st, &runs[i], 1, err);
        *gone = rc == FR_OK;
        failed = rc;
    }
    return *gone ? FR_OK : n > 1 ? failed : rc;
}

enum fr_rc fr_retain_step(struct fr_store *st, bool *more, struct fr_err *err)
{
    struct fr_id run = {{0}}, runs[STEP_RUNS];
    size_t n = 0, left = STEP_FILES;
    enum fr_rc rc = fr_store_removed(st, &run, err), failed = FR_OK;

    *more = false;
    while (rc == FR_OK && !fr_id_zero(run) && n < STEP_RUNS && left > 0) {
        enum fr_rc one = remove_files(fr_store_home(st), run, &left, err);

        if (one != FR_OK)
            failed = one; /* it does not hold up those behind it */
        else if (left > 0)
            runs[n++] = run;
        *more = *more || one == FR_OK;
        rc = fr_store_removed(st, &run, NULL);
    }
    if (rc == FR_OK && n > 0)
        rc = drop(st, runs, n, more, err);
    return rc == FR_OK && !*more ? failed : rc;
}

/* ---- what no row knows ---- */

struct sweep {
    struct fr_store *st;
    bool dry;
    struct fr_swept *out;
    struct fr_arena arena;
    struct fr_id *used; /* attempts of runs that are not over */
    size_t n_used;
};

static enum fr_rc sweep_path(struct sweep *s, const char *folder, const char *name,
                             struct fr_err *err)
{
    struct fr_buf path = {0};
    enum fr_rc rc = FR_OK;

    fr_buf_fmt(&path, "%s/%s/%s", fr_store_home(s->st), folder, name);
    if (path.bad)
        return fr_fail(err, FR_NOMEM, "no memory for a path");
    s->out->files++;
    s->out->bytes += fr_tree_bytes(path.p);
    if (!s->dry)
        rc = fr_remove_tree(path.p, err);
    fr_buf_finish(&path);
    return rc;
}

/* The id that a name is, with that ending. */
static bool id_in(const char *name, const char *ending, struct fr_id *id)
{
    struct fr_str text = {name, FR_ID_TEXT - 1};

    return strlen(name) >= text.n && fr_id_parse(text, id) && strcmp(name + text.n, ending) == 0;
}

static enum fr_rc unknown_run(struct sweep *s, const char *name, bool *yes, struct fr_err *err)
{
    struct fr_id id;
    bool known = true;
    enum fr_rc rc = FR_OK;

    if (id_in(name, "", &id) || id_in(name, ".lock", &id) || id_in(name, ".sock", &id))
        rc = fr_store_run_known(s->st, id, &known, err);
    *yes = !known;
    return rc;
}

static enum fr_rc unused_spool(struct sweep *s, const char *name, bool *yes, struct fr_err *err)
{
    struct fr_id id;

    (void)err;
    *yes = id_in(name, "", &id);
    for (size_t i = 0; *yes && i < s->n_used; i++)
        *yes = !fr_id_eq(s->used[i], id);
    return FR_OK;
}

/* Names are listed before rows are read: a row is there before its files. */
static enum fr_rc sweep_folder(struct sweep *s, const char *folder, char *const *names, size_t n,
                               struct fr_err *err)
{
    bool runs = strcmp(folder, "runs") == 0, yes = false;
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; rc == FR_OK && i < n; i++) {
        rc = runs ? unknown_run(s, names[i], &yes, err) : unused_spool(s, names[i], &yes, err);
        if (rc == FR_OK && yes)
            rc = sweep_path(s, folder, names[i], err);
    }
    return rc;
}

static enum fr_rc read_used(struct sweep *s, struct fr_err *err)
{
    struct fr_run_rows open = {0};
    enum fr_rc rc = fr_store_runs_open(s->st, &s->arena, &open, err);

    for (size_t i = 0; rc == FR_OK && i < open.n; i++) {
        struct fr_attempt_rows rows = {0};

        rc = fr_store_attempts(s->st, open.rows[i].id, &s->arena, &rows, err);
        for (size_t k = 0; rc == FR_OK && k < rows.n; k++) {
            s->used = fr_arena_grow(&s->arena, s->used, s->n_used, sizeof(*s->used));
            if (s->used == NULL)
                return fr_fail(err, FR_NOMEM, "no memory for attempts");
            s->used[s->n_used++] = rows.rows[k].id;
        }
    }
    return rc;
}

enum fr_rc fr_retain_sweep(struct fr_store *st, bool dry, struct fr_swept *out, struct fr_err *err)
{
    static const char *const folders[] = {"runs", "spool"};
    struct sweep s = {.st = st, .dry = dry, .out = out};
    enum fr_rc rc = fr_blob_sweep(st, dry, out, err);

    for (size_t i = 0; rc == FR_OK && i < sizeof(folders) / sizeof(folders[0]); i++) {
        struct fr_buf path = {0};
        char **names = NULL;
        size_t n = 0;

        fr_buf_fmt(&path, "%s/%s", fr_store_home(st), folders[i]);
        if (path.bad)
            rc = fr_fail(err, FR_NOMEM, "no memory for a path");
        else if (fr_sys.list(path.p, &names, &n) != 0)
            rc = fr_fail_errno(err, errno, "listing %s", path.p);
        if (rc == FR_OK && i == 1 && n > 0)
            rc = read_used(&s, err);
        if (rc == FR_OK)
            rc = sweep_folder(&s, folders[i], names, n, err);
        fr_sys_names_free(names, n);
        fr_buf_finish(&path);
    }
    fr_arena_finish(&s.arena);
    return rc;
}
