/* What the files of the folders say: a look at them in a thread, and what changes with it. */
#include "engine/timetable/backfilling.h"
#include "engine/timetable/schedules.h"

#include "engine/base/log.h"

enum { LOOK_MS = 60000 }; /* between two looks, where nothing says that something changed */

struct host_look { /* at the folders, in a thread */
    struct fr_work work;
    struct fr_folder_look look;
    struct host_schedules *all;
    size_t taken; /* files */
};

/* It has nothing that another look could take from it. */
static bool is_empty(const struct host_file *file)
{
    bool empty = file->spec == NULL && file->text == NULL;

    for (size_t i = 0; empty && i < file->n; i++)
        empty = file->own[i]->row.gone_wall != 0;
    return empty;
}

/* ---- what a file says ---- */

/* Another one means another schedule: the past is not judged by a new rule. */
static bool fingerprint(const struct fr_schedule *s, const struct fr_timetable *t,
                        char out[FR_SHA256_TEXT])
{
    struct fr_buf b = {0};

    fr_buf_fmt(&b, "%d %s %lld %d %lld", (int)s->kind, t->zone.name, (long long)s->every_ms,
               (int)s->cron.days, (long long)t->rule.start_ms);
    if (s->kind == FR_RULE_CRON)
        fr_buf_fmt(&b, " %s", s->cron_text);
    for (size_t i = 0; i < t->rule.n_at; i++)
        fr_buf_fmt(&b, " %lld", (long long)t->rule.at[i]);
    if (!b.bad)
        fr_sha256(b.p, b.n, out);
    bool ok = !b.bad;
    fr_buf_finish(&b);
    return ok;
}

static bool set_text(struct host_schedule *s, const char **slot, const char *text)
{
    if (strcmp(*slot, text) == 0)
        return true;
    s->dirty = true;
    return schedules_text(slot, text);
}

/* From now on its instants count; those before are not judged. Where the clock was set back
 * meanwhile, clock_rollback() takes seen to now, and what is decided behind it. */
static void begin_anew(struct host_schedules *all, struct host_schedule *s, bool other_rule)
{
    s->row.since_ms = fr_sys.wall_ms();
    if (s->row.seen_ms > s->row.since_ms) {
        s->other_rule = s->other_rule || other_rule;
        all->back = true;
        all->back_at = 0;
    } else {
        s->row.seen_ms = s->row.since_ms;
    }
    s->dirty = true;
}

/* Its zone is of another version of the database: what has passed by the one of before, with
 * nothing left to decide, is not judged by this one. */
static void leave_past(struct host_schedule *s, const struct fr_zone *zone)
{
    const struct fr_zone *old = &s->t->zone;
    int64_t now = fr_sys.wall_ms(), at;

    if (old->file.inode == zone->file.inode && old->file.size == zone->file.size &&
        old->file.mtime_ns == zone->file.mtime_ns)
        return;
    if (s->row.seen_ms >= now || (fr_rule_next(&s->t->rule, s->row.seen_ms, &at) && at <= now))
        return;
    s->row.seen_ms = now;
    s->dirty = true;
}

/* No served file has it. */
static void set_gone(struct host_schedule *s)
{
    if (s->row.gone_wall != 0)
        return;
    s->row.gone_wall = fr_sys.wall_ms();
    s->dirty = true;
    fr_log(FR_LOG_INFO, "schedules", "%s of %s is gone", s->row.name, s->file->path);
}

static struct host_schedule *own_of(const struct host_file *file, const char *name)
{
    for (size_t i = 0; i < file->n; i++)
        if (strcmp(file->own[i]->row.name, name) == 0)
            return file->own[i];
    return NULL;
}

/* The file has the schedule: its row says so. false: no memory. */
static bool bind(struct host_schedules *all, struct host_file *file, size_t at)
{
    const struct fr_schedule *spec = &file->spec->schedules[at];
    const struct fr_timetable *t = &file->tables[at];
    struct host_schedule *s = own_of(file, spec->name);
    struct fr_schedule_row row = {.name = spec->name,
                                  .pipeline = file->spec->name,
                                  .rule = "",
                                  .fingerprint = "",
                                  .state = FR_SCHEDULE_ACTIVE,
                                  .state_wall = fr_sys.wall_ms(),
                                  .note = ""};
    char home[FR_ID_TEXT], print[FR_SHA256_TEXT];
    struct fr_buf words = {0};
    bool ok = s != NULL || (s = schedules_add(all, file, &row)) != NULL;

    fr_rule_words(&t->rule, &words);
    ok = ok && !words.bad && fingerprint(spec, t, print);
    bool other = ok && strcmp(s->row.fingerprint, print) != 0;
    if (ok && (s->row.gone_wall != 0 || other))
        begin_anew(all, s, other);
    else if (ok && s->t != NULL)
        leave_past(s, &t->zone);
    ok = ok && set_text(s, &s->row.rule, words.p) && set_text(s, &s->row.fingerprint, print) &&
         set_text(s, &s->row.pipeline, file->spec->name);
    fr_buf_finish(&words);
    if (!ok)
        return false;
    s->row.gone_wall = 0;
    s->s = spec;
    s->t = t;
    s->ended = all->ended = true;
    s->retry_ms = s->backoff_ms = 0;
    fr_id_text(fr_store_home_id(all->host->env.store), home);
    s->delay_ms =
        fr_jitter_ms(&(struct fr_jitter_of){home, s->row.pipeline, s->row.name}, spec->jitter_ms);
    return true;
}

/* Takes what the file says now; what is NULL: nothing. false: no memory. */
static bool adopt(struct host_schedules *all, struct host_file *file, struct fr_folder_file *what)
{
    struct fr_spec *old = file->spec;
    struct fr_timetable *tables = file->tables;
    bool ok = true;

    file->spec = what != NULL ? what->spec : NULL;
    file->tables = what != NULL ? what->tables : NULL;
    if (what != NULL) {
        what->spec = NULL;
        what->tables = NULL;
    }
    for (size_t i = 0; i < file->n; i++) {
        file->own[i]->s = NULL; /* its t is that of before, until bind() */
        file->own[i]->turn++;
    }
    for (size_t i = 0; ok && file->spec != NULL && i < file->spec->n_schedules; i++)
        ok = bind(all, file, i);
    for (size_t i = 0; i < file->n; i++) {
        if (file->own[i]->s == NULL)
            file->own[i]->t = NULL;
        if (file->own[i]->s == NULL && ok)
            set_gone(file->own[i]);
        schedules_rearm(all, file->own[i]); /* those with a row to be written: behind that */
    }
    fr_folder_tables_close(tables, old != NULL ? old->n_schedules : 0);
    fr_spec_destroy(old);
    fr_sys.free((void *)file->text);
    file->text = NULL;
    file->dirty = all->dirty = true;
    return ok;
}

/* The file of now can be used. */
static void clear_error(struct host_schedules *all, struct host_file *file)
{
    if (file->error == NULL)
        return;
    fr_sys.free((void *)file->error);
    file->error = NULL;
    file->error_wall = 0;
    file->dirty = all->dirty = true;
}

/* It cannot be used. false: no memory. */
static bool set_error(struct host_schedules *all, struct host_file *file, const char *error)
{
    if (file->error != NULL && strcmp(file->error, error) == 0)
        return true;
    file->dirty = all->dirty = true;
    file->error_wall = fr_sys.wall_ms();
    fr_log(FR_LOG_WARN, "schedules", "%s cannot be used%s: %s", file->path,
           file->spec != NULL ? ", its schedules stay as they were" : "", error);
    return schedules_text(&file->error, error);
}

/* No file has the pipeline any more. */
static void drop_name(struct host_file *file)
{
    fr_sys.free((void *)file->name);
    file->name = NULL;
}

static bool take_file(struct host_schedules *all, struct fr_folder_file *f)
{
    struct host_file *file = schedules_file(all, f->path);

    if (file == NULL || (f->name != NULL && !schedules_text(&file->name, f->name)))
        return false;
    file->found = true;
    if (f->found == FR_FOUND_NONE && f->name == NULL)
        drop_name(file);
    switch (f->found) {
    case FR_FOUND_SAME:
        return true;
    case FR_FOUND_FRESH:
        schedules_look_soon(all, FR_FOLDER_QUIET_MS);
        return true;
    case FR_FOUND_BROKEN:
        file->mark = f->mark;
        return (f->spec == NULL || file->spec != NULL || adopt(all, file, f)) &&
               set_error(all, file, f->error);
    case FR_FOUND_NONE:
        file->mark = f->mark;
        clear_error(all, file);
        return is_empty(file) || adopt(all, file, NULL);
    default:
        file->mark = f->mark;
        clear_error(all, file);
        return adopt(all, file, f);
    }
}

/* ---- looking at the folders ---- */

/* Files that are there no more: their schedules are gone. Those that had none are forgotten. */
static bool leave_others(struct host_schedules *all)
{
    size_t n = 0;
    bool ok = true;

    for (size_t i = 0; i < all->n_files; i++) {
        struct host_file *file = all->files[i];

        if (ok && !file->found) {
            clear_error(all, file);
            ok = is_empty(file) || adopt(all, file, NULL);
        }
        if (!file->found && file->n == 0 && !file->dirty) {
            schedules_free_file(file);
            continue;
        }
        if (!file->found) {
            file->mark = (struct fr_folder_mark){0};
            drop_name(file);
        }
        all->files[n++] = file;
    }
    all->n_files = n;
    return ok;
}

static void drop_look(void *arg)
{
    struct host_look *look = arg;

    fr_folders_finish(&look->look);
    fr_sys.free(look);
}

static void on_looked(void *arg)
{
    struct host_schedules *all = ((struct host_look *)arg)->all;

    all->taking = true;
    all->host->woken = true;
    for (size_t i = 0; i < all->n_files; i++)
        all->files[i]->found = false;
}

void folder_scan_take(struct host_schedules *all)
{
    struct host_look *look = all->look;
    bool ok = look->look.err.rc != FR_NOMEM;

    for (size_t n = 0; ok && look->taken < look->look.n_files; n++) {
        if (schedules_spent(all, n))
            return;
        ok = take_file(all, &look->look.files[look->taken++]);
    }
    ok = ok && leave_others(all);
    if (!ok)
        fr_fail(&all->err, FR_NOMEM, "no memory for schedules");
    else if (look->look.err.rc != FR_OK && !all->unread)
        fr_log(FR_LOG_WARN, "schedules", "%s", look->look.err.msg);
    all->unread = look->look.err.rc != FR_OK;
    all->looked = true;
    all->taking = false;
    all->look = NULL;
    backfill_changed(all->host);
    drop_look(look);
}

static void look_in_thread(void *arg)
{
    fr_folders_look(&((struct host_look *)arg)->look);
}

/* Copies, as a thread may look longer than the host lives. */
static bool copy_zones(struct fr_folder_look *look, const struct host_file *file,
                       struct fr_folder_known *out)
{
    size_t n = file->spec != NULL ? file->spec->n_schedules : 0;
    struct fr_zone *zones = fr_arena_array(&look->arena, n + 1, sizeof(*zones));

    for (size_t i = 0; zones != NULL && i < n; i++) {
        memcpy(zones[i].name, file->tables[i].zone.name, sizeof(zones[i].name));
        zones[i].file = file->tables[i].zone.file;
    }
    out->zones = zones;
    out->n_zones = n;
    return zones != NULL;
}

static bool copy_known(struct host_schedules *all, struct fr_folder_look *look)
{
    struct fr_folder_known *known = fr_arena_array(&look->arena, all->n_files + 1, sizeof(*known));
    bool ok = known != NULL;

    for (size_t i = 0; ok && i < all->n_files; i++) {
        const struct host_file *file = all->files[i];
        struct fr_folder_known *k = &known[i];

        *k = (struct fr_folder_known){.path = fr_arena_dup(&look->arena, file->path),
                                      .scheduled = !is_empty(file),
                                      .mark = file->mark};
        if (file->text != NULL)
            k->text = fr_arena_dup(&look->arena, file->text);
        ok =
            k->path != NULL && (file->text == NULL || k->text != NULL) && copy_zones(look, file, k);
    }
    look->known = known;
    look->n_known = all->n_files;
    return ok;
}

static bool copy_folders(struct host_schedules *all, struct fr_folder_look *look)
{
    struct fr_zones zones = host_zones(all->host);
    const char **folders = fr_arena_array(&look->arena, all->n_folders, sizeof(*folders));
    bool ok = folders != NULL;

    for (size_t i = 0; ok && i < all->n_folders; i++)
        ok = (folders[i] = fr_arena_dup(&look->arena, all->folders[i])) != NULL;
    look->folders = folders;
    look->n_folders = all->n_folders;
    look->zones = zones;
    look->zones.home = fr_arena_dup(&look->arena, zones.home);
    look->getenv = all->host->config.schedule_shell.getenv;
    look->getenv_self = all->host->config.schedule_shell.self;
    return ok && look->zones.home != NULL;
}

enum fr_rc folder_scan_begin(struct host_schedules *all, struct fr_err *err)
{
    struct host_look *look = fr_sys.alloc(sizeof(*look));

    all->look_ms = fr_sys.mono_ms() + LOOK_MS;
    if (look == NULL)
        return fr_fail(err, FR_NOMEM, "no memory to look at the folders");
    *look = (struct host_look){.all = all};
    look->work =
        (struct fr_work){.run = look_in_thread, .over = on_looked, .drop = drop_look, .arg = look};
    if (!copy_folders(all, &look->look) || !copy_known(all, &look->look) ||
        fr_loop_work(all->host->env.loop, &look->work) != FR_OK) {
        drop_look(look);
        return fr_fail(err, FR_NOMEM, "no memory to look at the folders");
    }
    all->look = look;
    return FR_OK;
}

void folder_scan_end(struct host_schedules *all)
{
    if (all->look != NULL && (all->taking || fr_loop_forget(all->host->env.loop, &all->look->work)))
        drop_look(all->look);
    all->look = NULL;
    all->taking = false;
}
