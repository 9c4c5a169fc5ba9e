#include "engine/timetable/folders.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "engine/base/yaml.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

enum { ERROR_LINES = 3 };

void fr_folder_tables_close(struct fr_timetable *tables, size_t n)
{
    for (size_t i = 0; tables != NULL && i < n; i++)
        fr_timetable_close(&tables[i]);
    fr_sys.free(tables);
}

void fr_folders_finish(struct fr_folder_look *look)
{
    for (size_t i = 0; i < look->n_files; i++) {
        struct fr_folder_file *f = &look->files[i];

        fr_folder_tables_close(f->tables, f->spec != NULL ? f->spec->n_schedules : 0);
        fr_spec_destroy(f->spec);
    }
    fr_sys.free(look->files);
    fr_arena_finish(&look->arena);
}

static bool no_memory(struct fr_folder_look *look)
{
    fr_fail(&look->err, FR_NOMEM, "no memory to look at the folders");
    return false;
}

/* ---- one file ---- */

static struct fr_folder_mark mark_of(const struct stat *st)
{
    return (struct fr_folder_mark){st->st_ino, st->st_size,
                                   st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec};
}

static bool same_mark(const struct fr_folder_mark *a, const struct fr_folder_mark *b)
{
    return a->inode == b->inode && a->size == b->size && a->mtime_ns == b->mtime_ns;
}

/* A clock that was set back makes a file of the future, which is as good as an old one. */
static bool is_fresh(const struct fr_folder_look *look, const struct fr_folder_mark *mark)
{
    int64_t age_ms = look->zones.now_ms - mark->mtime_ns / 1000000;

    return age_ms >= 0 && age_ms < FR_FOLDER_QUIET_MS;
}

static bool zones_replaced(const struct fr_folder_look *look, const struct fr_folder_known *known)
{
    for (size_t i = 0; i < known->n_zones; i++)
        if (fr_zone_replaced(&known->zones[i], look->zones.folder))
            return true;
    return false;
}

/* A text with neither is no pipeline, whatever else it is. */
static bool may_be_pipeline(const char *path)
{
    struct fr_buf text = {0};
    enum fr_rc rc = fr_file_read(path, FR_YAML_MAX_BYTES, &text, NULL);
    bool may = rc != FR_NOTFOUND; /* it went meanwhile */

    if (rc == FR_OK)
        may = text.p != NULL &&
              (strstr(text.p, "schedule") != NULL || fr_has_prefix(text.p, "tasks:") ||
               strstr(text.p, "\ntasks:") != NULL);
    fr_buf_finish(&text);
    return may;
}

/* What is wrong, in the first lines of all that is. */
static const char *say_wrong(struct fr_folder_look *look, const struct fr_issues *issues,
                             const struct fr_err *err)
{
    struct fr_buf b = {0};
    const char *text;

    for (size_t i = 0; i < issues->n && i < ERROR_LINES; i++)
        fr_buf_fmt(&b, "%s%s", i > 0 ? "; " : "", issues->lines[i]);
    if (issues->n > ERROR_LINES)
        fr_buf_fmt(&b, "; and %zu more: 'flowrun validate' lists all", issues->n - ERROR_LINES);
    if (issues->n == 0)
        fr_buf_text(&b, err->msg);
    text = b.bad ? NULL : fr_arena_dup(&look->arena, b.p);
    fr_buf_finish(&b);
    return text != NULL ? text : "no memory to say what is wrong";
}

/* The rules of its schedules, which point into themselves: they stay where they are made. */
static enum fr_rc open_tables(const struct fr_folder_look *look, struct fr_folder_file *f,
                              struct fr_err *err)
{
    size_t n = f->spec->n_schedules, bytes = 0;
    enum fr_rc rc = FR_OK;

    if (fr_mul_size(n + 1, sizeof(*f->tables), &bytes))
        f->tables = fr_sys.alloc(bytes);
    if (f->tables == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for schedules");
    memset(f->tables, 0, bytes);
    for (size_t i = 0; rc == FR_OK && i < n; i++)
        rc = fr_timetable_open(&f->tables[i], &f->spec->schedules[i], &look->zones, err);
    return rc;
}

static const char *folder_of(struct fr_folder_look *look, const char *path)
{
    size_t n = (size_t)(strrchr(path, '/') - path);

    return fr_arena_text(&look->arena, path, n > 0 ? n : 1);
}

/* From the file, or from a text that it once had. */
static enum fr_rc load(struct fr_folder_look *look, struct fr_folder_file *f, const char *text,
                       struct fr_issues *issues, struct fr_err *err)
{
    struct fr_source source = {f->path, fr_str_of(text)};
    struct fr_spec_opts opts = {.path = f->path,
                                .cwd = folder_of(look, f->path),
                                .zones = &look->zones,
                                .scheduled = true,
                                .sources = &source,
                                .n_sources = text != NULL,
                                .getenv = look->getenv,
                                .getenv_self = look->getenv_self};
    enum fr_rc rc = opts.cwd != NULL ? fr_spec_load(&opts, &f->spec, issues, err)
                                     : fr_fail(err, FR_NOMEM, "no memory for a path");

    if (rc == FR_OK && (f->name = fr_arena_dup(&look->arena, f->spec->name)) == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for a name");
    if (rc == FR_OK)
        rc = open_tables(look, f, err);
    if (rc != FR_OK || f->spec->n_schedules == 0) {
        fr_folder_tables_close(f->tables, f->spec != NULL ? f->spec->n_schedules : 0);
        fr_spec_destroy(f->spec);
        f->tables = NULL;
        f->spec = NULL;
    }
    if (rc == FR_NOMEM)
        no_memory(look);
    return rc;
}

/* A file that cannot be used: what it held when it last could. */
static void load_kept(struct fr_folder_look *look, struct fr_folder_file *f, const char *text)
{
    struct fr_issues issues = {0};
    struct fr_err err = {0};

    if (text != NULL && text[0] != '\0')
        (void)load(look, f, text, &issues, &err);
    fr_issues_finish(&issues);
}

static void load_file_of(struct fr_folder_look *look, struct fr_folder_file *f,
                         const struct fr_folder_known *known)
{
    struct fr_issues issues = {0};
    struct fr_err err = {0};
    enum fr_rc rc = load(look, f, NULL, &issues, &err);

    if (rc == FR_OK) {
        f->found = f->spec != NULL ? FR_FOUND_LOADED : FR_FOUND_NONE;
    } else if ((known != NULL && known->scheduled) || may_be_pipeline(f->path)) {
        f->found = FR_FOUND_BROKEN;
        f->error = say_wrong(look, &issues, &err);
        load_kept(look, f, known != NULL ? known->text : NULL);
    } else {
        f->found = FR_FOUND_NONE;
    }
    fr_issues_finish(&issues);
}

/* ---- the folders ---- */

static const struct fr_folder_known *known_of(const struct fr_folder_look *look, const char *path)
{
    for (size_t from = 0, to = look->n_known; from < to;) {
        size_t mid = from + (to - from) / 2;
        int way = strcmp(path, look->known[mid].path);

        if (way == 0)
            return &look->known[mid];
        if (way < 0)
            to = mid;
        else
            from = mid + 1;
    }
    return NULL;
}

static bool add_file(struct fr_folder_look *look, const char *path, const struct stat *st)
{
    struct fr_folder_file *files =
        fr_grow(look->files, look->n_files + 1, &look->cap_files, sizeof(*files));
    const struct fr_folder_known *known = known_of(look, path);
    struct fr_folder_file f = {.path = path, .mark = mark_of(st)};

    if (files == NULL)
        return no_memory(look);
    look->files = files;
    if (known != NULL && same_mark(&known->mark, &f.mark) && !zones_replaced(look, known))
        f.found = FR_FOUND_SAME;
    else if (is_fresh(look, &f.mark))
        f.found = FR_FOUND_FRESH;
    else
        load_file_of(look, &f, known);
    look->files[look->n_files++] = f;
    return look->err.rc != FR_NOMEM;
}

static bool is_pipeline_name(const char *name)
{
    const char *dot = strrchr(name, '.');

    return name[0] != '.' && dot != NULL && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0);
}

/* A link counts as what it leads to; whatever is no file, or goes meanwhile, is none. */
static bool look_up(const char *path, struct stat *st)
{
    int fd = -1;
    bool ok = fr_sys.lstat(path, st) == 0;

    if (ok && S_ISLNK(st->st_mode)) {
        fd = fr_sys.open(path, O_RDONLY | O_NONBLOCK, 0);
        ok = fd >= 0 && fr_sys.fstat(fd, st) == 0;
    }
    if (fd >= 0)
        fr_sys.close(fd);
    return ok && S_ISREG(st->st_mode);
}

static bool is_below(const char *path, const char *dir)
{
    size_t n = strcmp(dir, "/") == 0 ? 0 : strlen(dir);

    return strncmp(path, dir, n) == 0 && path[n] == '/' && strchr(path + n + 1, '/') == NULL;
}

/* The files of a folder that cannot be listed: they may be there. */
static bool keep_unread(struct fr_folder_look *look, size_t folder)
{
    for (size_t i = 0; i < look->n_known; i++) {
        const struct fr_folder_known *known = &look->known[i];
        struct fr_folder_file f = {
            .path = known->path, .found = FR_FOUND_BROKEN, .mark = known->mark};
        struct fr_folder_file *files;

        if (!known->scheduled || !is_below(known->path, look->folders[folder]))
            continue;
        if ((f.error = fr_arena_dup(&look->arena, look->err.msg)) == NULL)
            return no_memory(look);
        files = fr_grow(look->files, look->n_files + 1, &look->cap_files, sizeof(*files));
        if (files == NULL)
            return no_memory(look);
        look->files = files;
        load_kept(look, &f, known->text);
        look->files[look->n_files++] = f;
    }
    return look->err.rc != FR_NOMEM;
}

static bool look_into(struct fr_folder_look *look, size_t folder)
{
    const char *dir = look->folders[folder];
    char **names = NULL;
    size_t n = 0;
    bool ok = true;

    if (fr_sys.list(dir, &names, &n) != 0) {
        fr_fail_errno(&look->err, errno, "looking into %s", dir);
        return look->err.rc != FR_NOMEM && keep_unread(look, folder);
    }
    if (n > 0)
        qsort(names, n, sizeof(*names), fr_by_text);
    for (size_t i = 0; ok && i < n; i++) {
        struct stat st;
        const char *path;

        if (!is_pipeline_name(names[i]))
            continue;
        path = fr_arena_fmt(&look->arena, "%s/%s", strcmp(dir, "/") == 0 ? "" : dir, names[i]);
        if (path == NULL)
            ok = no_memory(look);
        else if (look_up(path, &st))
            ok = add_file(look, path, &st);
    }
    fr_sys_names_free(names, n);
    return ok;
}

void fr_folders_look(struct fr_folder_look *look)
{
    bool ok = true;

    for (size_t i = 0; ok && i < look->n_folders; i++)
        ok = look_into(look, i);
}
