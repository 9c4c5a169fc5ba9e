/* Rows of schedules and of their files, as the host has them. */
#include "engine/timetable/schedules.h"

#include "engine/base/log.h"

enum {
    DAY_MS = 86400000,
    GONE_DAYS = 30,
    OCCURRENCE_DAYS = 400,
    OCCURRENCE_DAYS_OFTEN = 30, /* of schedules with more than OFTEN occurrences a day */
    OFTEN = 100,
    PRUNE_ROWS = 500,
    PRUNE_SCHEDULES = 100,
    PRUNE_EVERY_MS = 60000
};

bool schedules_text(const char **slot, const char *text)
{
    size_t n = strlen(text) + 1;
    char *copy = fr_sys.alloc(n);

    if (copy == NULL)
        return false;
    memcpy(copy, text, n);
    fr_sys.free((void *)*slot);
    *slot = copy;
    return true;
}

/* ---- the table ---- */

struct host_file *schedules_file(struct host_schedules *all, const char *path)
{
    size_t from = 0, to = all->n_files;
    struct host_file **files, *file;
    const char *own = NULL;

    while (from < to) {
        size_t mid = from + (to - from) / 2;
        int way = strcmp(path, all->files[mid]->path);

        if (way == 0)
            return all->files[mid];
        if (way < 0)
            to = mid;
        else
            from = mid + 1;
    }
    files = fr_grow(all->files, all->n_files + 1, &all->cap_files, sizeof(*files));
    if (files == NULL)
        return NULL;
    all->files = files;
    if ((file = fr_sys.alloc(sizeof(*file))) == NULL || !schedules_text(&own, path)) {
        fr_sys.free(file);
        return NULL;
    }
    *file = (struct host_file){.path = own};
    memmove(files + from + 1, files + from, (all->n_files - from) * sizeof(*files));
    files[from] = file;
    all->n_files++;
    return file;
}

static void free_schedule(struct host_schedule *s)
{
    const char *const texts[] = {s->row.name, s->row.pipeline, s->row.rule, s->row.fingerprint,
                                 s->row.note};

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        fr_sys.free((void *)texts[i]);
    fr_sys.free(s);
}

void schedules_free_file(struct host_file *file)
{
    for (size_t i = 0; i < file->n; i++) {
        occurrences_forget(file->own[i]);
        free_schedule(file->own[i]);
    }
    fr_folder_tables_close(file->tables, file->spec != NULL ? file->spec->n_schedules : 0);
    fr_spec_destroy(file->spec);
    fr_sys.free(file->own);
    fr_sys.free((void *)file->path);
    fr_sys.free((void *)file->name);
    fr_sys.free((void *)file->error);
    fr_sys.free((void *)file->text);
    fr_sys.free(file);
}

/* A schedule with these texts, of no list yet; NULL: no memory. */
static struct host_schedule *make(struct host_file *file, const struct fr_schedule_row *row)
{
    struct host_schedule *s = fr_sys.alloc(sizeof(*s));

    if (s == NULL)
        return NULL;
    *s = (struct host_schedule){.file = file, .row = *row, .due_wall = INT64_MAX};
    s->row.source = file->path;
    s->row.name = s->row.pipeline = s->row.rule = s->row.fingerprint = s->row.note = NULL;
    if (schedules_text(&s->row.name, row->name) &&
        schedules_text(&s->row.pipeline, row->pipeline) &&
        schedules_text(&s->row.rule, row->rule) &&
        schedules_text(&s->row.fingerprint, row->fingerprint) &&
        schedules_text(&s->row.note, row->note))
        return s;
    free_schedule(s);
    return NULL;
}

struct host_schedule *schedules_add(struct host_schedules *all, struct host_file *file,
                                    const struct fr_schedule_row *row)
{
    struct host_schedule *s = make(file, row), **own, **list;

    if (s == NULL)
        return NULL;
    own = fr_grow(file->own, file->n + 1, &file->cap, sizeof(struct host_schedule *));
    list = fr_grow(all->list, all->n + 1, &all->cap, sizeof(struct host_schedule *));
    file->own = own != NULL ? own : file->own;
    all->list = list != NULL ? list : all->list;
    if (own == NULL || list == NULL || !fr_heap_reserve(&all->due, 2 * all->n + 2)) {
        free_schedule(s);
        return NULL;
    }
    s->place = (uint32_t)all->n;
    file->own[file->n++] = s;
    all->list[all->n++] = s;
    return s;
}

static enum fr_rc take_rows(struct host_schedules *all, const struct fr_schedule_rows *rows,
                            const struct fr_schedule_file_rows *files, struct fr_err *err)
{
    for (size_t i = 0; i < files->n; i++) {
        struct host_file *file = schedules_file(all, files->rows[i].path);

        if (file == NULL || !schedules_text(&file->text, files->rows[i].text))
            return fr_fail(err, FR_NOMEM, "no memory for schedules");
        if (files->rows[i].error[0] != '\0' && !schedules_text(&file->error, files->rows[i].error))
            return fr_fail(err, FR_NOMEM, "no memory for schedules");
        file->error_wall = files->rows[i].error_wall;
    }
    for (size_t i = 0; i < rows->n; i++) {
        struct host_file *file = schedules_file(all, rows->rows[i].source);

        struct host_schedule *s = file != NULL ? schedules_add(all, file, &rows->rows[i]) : NULL;

        if (s == NULL)
            return fr_fail(err, FR_NOMEM, "no memory for schedules");
        s->stored = true;
    }
    return FR_OK;
}

enum fr_rc schedules_load(struct host_schedules *all, struct fr_err *err)
{
    struct fr_arena arena = {0};
    struct fr_schedule_rows rows = {0};
    struct fr_schedule_file_rows files = {0};
    enum fr_rc rc = fr_store_schedules(all->host->env.store, &arena, &rows, err);

    if (rc == FR_OK)
        rc = fr_store_schedule_files(all->host->env.store, &arena, &files, err);
    if (rc == FR_OK)
        rc = take_rows(all, &rows, &files, err);
    fr_arena_finish(&arena);
    return rc;
}

/* ---- writing ---- */

static enum fr_rc write_file(struct fr_store *st, const struct host_file *file, struct fr_err *err)
{
    struct fr_schedule_file_row row = {
        .path = file->path, .error = file->error, .error_wall = file->error_wall};

    if (file->spec == NULL && file->error == NULL)
        return fr_store_schedule_file_drop(st, file->path, err);
    row.text = file->spec != NULL ? file->spec->sources[0].text.p : file->text;
    return fr_store_schedule_file_put(st, &row, err);
}

static bool is_dirty(const struct host_file *file)
{
    bool dirty = file->dirty;

    for (size_t i = 0; !dirty && i < file->n; i++)
        dirty = file->own[i]->dirty;
    return dirty;
}

/* Its row and those of its schedules. */
static enum fr_rc write_rows_of(struct fr_store *st, const struct host_file *file,
                                struct fr_err *err)
{
    enum fr_rc rc = file->dirty ? write_file(st, file, err) : FR_OK;

    for (size_t i = 0; rc == FR_OK && i < file->n; i++) {
        struct host_schedule *s = file->own[i];

        if (s->dirty)
            rc = s->stored ? fr_store_schedule_set(st, &s->row, err)
                           : fr_store_schedule_add(st, &s->row, err);
    }
    return rc;
}

static void set_written(struct host_schedules *all, struct host_file *file)
{
    file->dirty = false;
    for (size_t i = 0; i < file->n; i++) {
        struct host_schedule *s = file->own[i];

        if (!s->dirty)
            continue;
        s->dirty = false;
        s->stored = true;
        schedules_rearm(all, s);
    }
}

enum fr_rc schedules_write(struct host_schedules *all, struct fr_err *err)
{
    struct fr_store *st = all->host->env.store;
    enum fr_rc rc = fr_store_begin(st, err);
    size_t n = 0, written = 0;

    if (rc != FR_OK)
        return rc;
    for (; rc == FR_OK && n < all->n_files; n++) {
        if (!is_dirty(all->files[n]))
            continue;
        if (schedules_spent(all, written++))
            break;
        rc = write_rows_of(st, all->files[n], err);
    }
    if ((rc = fr_store_end(st, rc, err)) != FR_OK)
        return rc;
    for (size_t i = 0; i < n; i++)
        set_written(all, all->files[i]);
    all->dirty = n < all->n_files;
    return FR_OK;
}

/* ---- what is too old ---- */

static int64_t days_of(const struct host_schedule *s, int64_t now)
{
    bool often = s->t != NULL && fr_rule_count(&s->t->rule, now - DAY_MS, now) > OFTEN;

    return often ? OCCURRENCE_DAYS_OFTEN : OCCURRENCE_DAYS;
}

/* A row that seen has not passed tells of an instant that is due (the clock was set back to before
 * it, and forward again): without it that would be decided anew. */
static int64_t old_before(const struct host_schedule *s, int64_t now)
{
    int64_t before = now - days_of(s, now) * DAY_MS;

    return before <= s->row.seen_ms ? before : s->row.seen_ms + 1;
}

/* *dropped: the schedule itself goes, too. */
static enum fr_rc prune_one(struct fr_store *st, const struct host_schedule *s, int64_t now,
                            bool *dropped, struct fr_err *err)
{
    bool gone = s->row.gone_wall != 0 && now - s->row.gone_wall > GONE_DAYS * (int64_t)DAY_MS;
    struct fr_occurrence_page old = {s->row.id, gone ? INT64_MAX : old_before(s, now), PRUNE_ROWS};
    int64_t n = 0;
    enum fr_rc rc = fr_store_occurrences_prune(st, &old, &n, err);

    if (rc != FR_OK || !gone || n == PRUNE_ROWS || s->occurrence != NULL)
        return rc;
    *dropped = true;
    return fr_store_schedule_drop(st, s->row.id, err);
}

void schedules_prune(struct host_schedules *all)
{
    struct fr_store *st = all->host->env.store;
    int64_t now = fr_sys.wall_ms();
    struct host_schedule *gone[PRUNE_SCHEDULES];
    size_t n_gone = 0;
    struct fr_err err = {0};
    enum fr_rc rc;

    all->prune_ms = fr_sys.mono_ms() + PRUNE_EVERY_MS;
    if (all->n == 0 || (rc = fr_store_begin_soft(st, &err)) != FR_OK)
        return; /* the next time */
    for (size_t i = 0; rc == FR_OK && i < PRUNE_SCHEDULES && i < all->n; i++) {
        struct host_schedule *s = all->list[all->prune_at++ % all->n];
        bool dropped = false;

        if (s->stored)
            rc = prune_one(st, s, now, &dropped, &err);
        if (dropped)
            gone[n_gone++] = s;
    }
    if (fr_store_end(st, rc, &err) != FR_OK) {
        fr_log(FR_LOG_WARN, "schedules", "old decisions are not removed: %s", err.msg);
        return;
    }
    while (n_gone > 0)
        gone[--n_gone]->stored = false; /* should its file come back, it is a new one */
}
