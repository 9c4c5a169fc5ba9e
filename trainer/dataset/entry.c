#include "trainer/dataset/records.h"

#include "engine/base/file.h"
#include "trainer/dataset/columns.h"
#include "trainer/dataset/csv.h"
#include "trainer/text/pyjson.h"
#include "trainer/text/text.h"
#include "trainer/dataset/unpack.h"
#include "engine/base/sys.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INFO_MAX_BYTES = 64 << 20 };
static const size_t DATA_MAX_BYTES = (size_t)16 << 30;

/* A name of columns or tags: the default only where the whole object is absent. */
struct name_row {
    const char *key, *def;
    const char **at;
};

static enum fr_rc read_names(const json_t *object, const struct name_row *rows, size_t n,
                             struct fr_arena *arena, struct fr_err *err)
{
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_object_get(object, rows[i].key);
        if (object == NULL || json_is_null(object))
            *rows[i].at = rows[i].def;
        else if (v == NULL || json_is_null(v))
            *rows[i].at = NULL;
        else if (!json_is_string(v))
            return fr_fail(err, FR_USAGE, "%s: expected a name", rows[i].key);
        else if ((*rows[i].at = fr_arena_dup(arena, json_string_value(v))) == NULL)
            return fr_fail(err, FR_NOMEM, "no memory for a data set's entry");
    }
    return FR_OK;
}

/* A key that is nearly one of the words is a slip; others are passed over, as by the reference. */
static enum fr_rc check_keys(const json_t *object, const char *what, const char *const *words,
                             size_t n, struct fr_err *err)
{
    const char *key;
    json_t *v;

    json_object_foreach((json_t *)object, key, v)
    {
        const char *near = fr_suggest(key, words, n);

        if (near != NULL && strcmp(near, key) != 0)
            return fr_fail(err, FR_USAGE, "unknown key '%s'%s: did you mean '%s'?", key, what,
                           near);
    }
    return FR_OK;
}

/* The same for columns and tags: those of the rows, and of pictures and preferences. */
static enum fr_rc check_names(const json_t *object, const char *what, const struct name_row *rows,
                              size_t n, struct fr_err *err)
{
    enum { MOST = 16 };
    const char *words[MOST] = {"images", "videos", "audios", "chosen", "rejected", "kto_tag"};
    size_t k = 6;

    for (size_t i = 0; i < n && k < MOST; i++)
        words[k++] = rows[i].key;
    return check_keys(object, what, words, k, err);
}

static enum fr_rc check_entry(const json_t *v, struct fr_err *err)
{
    static const char *const keys[] = {"hf_hub_url",      "ms_hub_url", "om_hub_url", "script_url",
                                       "cloud_file_name", "file_name",  "formatting", "ranking",
                                       "subset",          "split",      "folder",     "num_samples",
                                       "columns",         "tags"};
    const json_t *count = json_object_get(v, "num_samples");
    enum fr_rc rc = check_keys(v, "", keys, sizeof(keys) / sizeof(keys[0]), err);

    if (rc == FR_OK && count != NULL && !json_is_null(count) &&
        (!json_is_integer(count) || json_integer_value(count) < 1))
        rc = fr_fail(err, FR_USAGE, "num_samples: expected a number of records, 1 or more");
    return rc;
}

static enum fr_rc read_columns(const json_t *v, struct tr_data_entry *e, struct fr_arena *arena,
                               struct fr_err *err)
{
    const struct name_row columns[] = {
        {"prompt", "instruction", &e->prompt},
        {"query", "input", &e->query},
        {"response", "output", &e->response},
        {"history", NULL, &e->history},
        {"messages", "conversations", &e->messages},
        {"system", NULL, &e->system},
        {"tools", NULL, &e->tools},
    };
    const struct name_row tags[] = {
        {"role_tag", "from", &e->role_tag},
        {"content_tag", "value", &e->content_tag},
        {"user_tag", "human", &e->user_tag},
        {"assistant_tag", "gpt", &e->assistant_tag},
        {"observation_tag", "observation", &e->observation_tag},
        {"function_tag", "function_call", &e->function_tag},
        {"system_tag", "system", &e->system_tag},
    };
    const json_t *named = json_object_get(v, "columns"), *tagged = json_object_get(v, "tags");
    enum fr_rc rc = check_names(named, " of columns", columns, 7, err);

    if (rc == FR_OK)
        rc = check_names(tagged, " of tags", tags, 7, err);
    if (rc == FR_OK)
        rc = read_names(named, columns, 7, arena, err);
    return rc == FR_OK ? read_names(tagged, tags, 7, arena, err) : rc;
}

enum file_type { TYPE_JSON, TYPE_CSV, TYPE_TEXT, TYPE_COLUMNS, TYPE_OTHER };

static enum file_type type_of(const char *path)
{
    struct fr_str name = tr_unpacked_name(path);

    if (tr_is_columns(fr_str_of(path)))
        return TYPE_COLUMNS;
    if (fr_str_ends(name, ".json") || fr_str_ends(name, ".jsonl"))
        return TYPE_JSON;
    if (fr_str_ends(name, ".txt"))
        return TYPE_TEXT;
    return fr_str_ends(name, ".csv") ? TYPE_CSV : TYPE_OTHER;
}

/* file_name is a file, or a folder of files of one type. */
static enum fr_rc list_files(const char *path, struct tr_data_entry *e, struct fr_arena *arena,
                             struct fr_err *err)
{
    char **names = NULL;
    size_t n = 0;
    struct stat st;
    enum fr_rc rc = FR_OK;
    int fd = fr_sys.open(path, O_RDONLY | O_NONBLOCK, 0);

    if (fd < 0 || fr_sys.fstat(fd, &st) != 0) {
        rc = fr_fail_errno(err, errno, "data file %s", path);
        if (fd >= 0)
            fr_sys.close(fd);
        return rc;
    }
    fr_sys.close(fd);
    if (S_ISDIR(st.st_mode) &&
        ((rc = tr_columns_saved(path, arena, &e->files, &e->nfiles, err)) != FR_OK ||
         e->files != NULL))
        return rc;
    if (S_ISDIR(st.st_mode) && fr_sys.list(path, &names, &n) != 0)
        return fr_fail_errno(err, errno, "data folder %s", path);
    e->files = fr_arena_array(arena, n + 1, sizeof(e->files[0]));
    for (size_t i = 0; rc == FR_OK && e->files != NULL && i < (names != NULL ? n : 1); i++) {
        const char *file = names != NULL ? fr_arena_fmt(arena, "%s/%s", path, names[i])
                                         : fr_arena_dup(arena, path);
        if (file == NULL)
            rc = fr_fail(err, FR_NOMEM, "no memory for the list of data files");
        else if (type_of(file) == TYPE_OTHER)
            rc = fr_fail(err, FR_UNSUPPORTED,
                         "%s: only .json, .jsonl, .csv and .txt files are done, also packed as "
                         ".gz or .zst, and .parquet and .arrow files",
                         file);
        else if (e->nfiles > 0 && type_of(file) != type_of(e->files[0]))
            rc = fr_fail(err, FR_USAGE, "%s: the files of a folder are of one type, as %s is", file,
                         e->files[0]);
        else
            e->files[e->nfiles++] = file;
    }
    if (e->files == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for the list of data files");
    if (names != NULL)
        fr_sys_names_free(names, n);
    if (rc == FR_OK)
        qsort(e->files, e->nfiles, sizeof(e->files[0]), fr_by_text);
    return rc;
}

static enum fr_rc read_entry(const json_t *v, const char *dir, struct tr_data_entry *e,
                             struct fr_arena *arena, struct fr_err *err)
{
    static const char *const remote[] = {"hf_hub_url", "ms_hub_url", "om_hub_url", "script_url",
                                         "cloud_file_name"};
    static const char *const forms[] = {"alpaca", "sharegpt", "openai"};
    const char *form = json_string_value(json_object_get(v, "formatting"));
    const char *file = json_string_value(json_object_get(v, "file_name"));
    const json_t *count = json_object_get(v, "num_samples");
    char path[PATH_MAX];
    int i = 0;
    enum fr_rc rc;

    if (!json_is_object(v))
        return fr_fail(err, FR_USAGE, "expected an object");
    if ((rc = check_entry(v, err)) != FR_OK)
        return rc;
    for (size_t k = 0; k < sizeof(remote) / sizeof(remote[0]); k++)
        if (json_is_string(json_object_get(v, remote[k])))
            return fr_fail(err, FR_UNSUPPORTED, "%s: nothing is downloaded, give file_name",
                           remote[k]);
    if (file == NULL)
        return fr_fail(err, FR_USAGE, "file_name is missing");
    if (json_is_true(json_object_get(v, "ranking")))
        return fr_fail(err, FR_UNSUPPORTED, "ranking data does not go with stage sft");
    while (form != NULL && i < 3 && strcmp(forms[i], form) != 0)
        i++;
    if (i == 3)
        return fr_fail(err, FR_USAGE, "formatting '%s', expected alpaca, sharegpt or openai", form);
    e->form = (enum tr_data_form)i;
    e->num_samples = json_is_integer(count) ? json_integer_value(count) : -1;
    bool whole = file[0] == '/'; /* as os.path.join has it */
    if (snprintf(path, sizeof(path), "%s%s%s", whole ? "" : dir, whole ? "" : "/", file) >=
        PATH_MAX)
        return fr_fail(err, FR_USAGE, "file name too long: %s", file);
    if ((rc = read_columns(v, e, arena, err)) != FR_OK)
        return rc;
    return list_files(path, e, arena, err);
}

static enum fr_rc undefined(const json_t *root, const char *name, const char *path,
                            struct fr_err *err)
{
    enum { NAMES = 256 };
    const char *names[NAMES], *key, *near;
    size_t n = 0;
    json_t *v;

    json_object_foreach((json_t *)root, key, v) if (n < NAMES) names[n++] = key;
    near = fr_suggest(name, names, n);
    return fr_fail(err, FR_USAGE, "Undefined dataset %s in dataset_info.json. (%s%s%s%s)", name,
                   path, near != NULL ? ": did you mean '" : "", near != NULL ? near : "",
                   near != NULL ? "'?" : "");
}

enum fr_rc tr_entry_read(const char *dir, const char *name, struct fr_arena *arena,
                         struct tr_data_entry *out, struct fr_err *err)
{
    char path[PATH_MAX];
    json_t *root = NULL;
    const json_t *v;
    enum fr_rc rc;

    *out = (struct tr_data_entry){.name = fr_arena_dup(arena, name), .num_samples = -1};
    if ((rc = tr_path(path, dir, "dataset_info.json", err)) != FR_OK)
        return rc;
    if (strncmp(dir, "REMOTE:", 7) == 0 || strcmp(dir, "ONLINE") == 0)
        return fr_fail(err, FR_USAGE,
                       "--dataset_dir %s: nothing is downloaded, give a local folder with a "
                       "dataset_info.json",
                       dir);
    if ((rc = fr_json_load(path, INFO_MAX_BYTES, &root, err)) != FR_OK)
        return fr_while(err, "--dataset_dir %s", dir);
    v = json_object_get(root, name);
    if (!json_is_object(root))
        rc = fr_fail(err, FR_USAGE, "%s: expected an object of data sets by name", path);
    else if (v == NULL)
        rc = undefined(root, name, path, err);
    else if ((rc = read_entry(v, dir, out, arena, err)) != FR_OK)
        fr_while(err, "%s: data set '%s'", path, name);
    json_decref(root);
    return rc;
}

/* A walk through the members of an object, which is known to be well formed. */
struct members {
    const char *p, *end;
    int depth;
    struct fr_str key; /* of the member: as it is written, quotes included */
};

/* False after the last member. */
static bool next_member(struct members *m)
{
    for (; m->p < m->end; m->p++) {
        char c = *m->p;

        if (c == '"') {
            const char *string = m->p;

            for (m->p++; m->p < m->end && *m->p != '"'; m->p++)
                m->p += *m->p == '\\';
            m->key = (struct fr_str){string, (size_t)(m->p + 1 - string)};
        } else if (c == '{' || c == '[') {
            m->depth++;
        } else if (c == '}' || c == ']') {
            m->depth--;
        } else if (c == ':' && m->depth == 1) {
            m->p++;
            return true;
        }
    }
    return false;
}

static size_t count_members(struct fr_str text)
{
    struct members m = {.p = text.p, .end = text.p + text.n};
    size_t n = 0;

    while (next_member(&m))
        n++;
    return n;
}

/* Names the first key that is there twice. */
static enum fr_rc twice(struct fr_str text, const char *where, struct fr_err *err)
{
    struct members m = {.p = text.p, .end = text.p + text.n};
    json_t *seen = json_object(), *name = NULL;

    while (next_member(&m)) {
        json_decref(name);
        name = json_loadb(m.key.p, m.key.n, JSON_DECODE_ANY, NULL);
        if (name == NULL || json_object_get(seen, json_string_value(name)) != NULL)
            break;
        (void)json_object_set_new(seen, json_string_value(name), json_true());
    }
    fr_fail(err, FR_USAGE,
            "%s: the key '%.80s' stands twice in the record, and datasets refuses such a file: "
            "keep one of them",
            where, name != NULL ? json_string_value(name) : "");
    json_decref(name);
    json_decref(seen);
    return FR_USAGE;
}

enum fr_rc tr_record_parse(struct fr_str line, const char *where, json_t **out, struct fr_err *err)
{
    enum fr_rc rc = tr_pyjson_parse(line, where, out, err);

    if (rc == FR_OK && json_is_object(*out) && json_object_size(*out) != count_members(line)) {
        json_decref(*out);
        *out = NULL;
        rc = twice(line, where, err);
    }
    return rc;
}

/* One object a line; blank lines are passed over. */
static enum fr_rc read_lines(const char *path, struct fr_str text,
                             const struct tr_record_sink *sink, struct fr_err *err)
{
    const char *end = text.p + text.n;
    enum fr_rc rc = FR_OK;
    char where[PATH_MAX + 32];
    int64_t line = 1;

    for (const char *p = text.p; rc == FR_OK && p < end; line++) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        json_t *v = NULL;
        stop = stop != NULL ? stop : end;
        const char *first = p;
        while (first < stop && isspace((unsigned char)*first))
            first++;
        if (first < stop) {
            (void)snprintf(where, sizeof(where), "%s:%lld", path, (long long)line);
            struct fr_str one = {p, (size_t)(stop - p)};
            if (sink->line != NULL)
                rc = sink->line(sink->arg, one, where, err);
            else if ((rc = tr_record_parse(one, where, &v, err)) == FR_OK)
                rc = sink->each(sink->arg, v, where, err);
            json_decref(v);
        }
        p = stop + 1;
    }
    return rc;
}

static enum fr_rc read_list(const char *path, struct fr_str text, const struct tr_record_sink *sink,
                            struct fr_err *err)
{
    json_t *root = NULL;
    char where[PATH_MAX + 32];
    enum fr_rc rc = tr_pyjson_parse(text, path, &root, err);

    for (size_t i = 0; rc == FR_OK && i < json_array_size(root); i++) {
        (void)snprintf(where, sizeof(where), "%s, record %zu", path, i + 1);
        rc = sink->each(sink->arg, json_array_get(root, i), where, err);
    }
    json_decref(root);
    return rc;
}

/* Each line, without what ends it (LF, CR LF or CR), blank ones too. */
static enum fr_rc read_text(const char *path, struct fr_str text, const struct tr_record_sink *sink,
                            struct fr_err *err)
{
    const char *end = text.p + text.n;
    char where[PATH_MAX + 32];
    enum fr_rc rc = FR_OK;

    for (long line = 1; rc == FR_OK && text.p < end; line++) {
        const char *stop = text.p;
        json_t *record;

        while (stop < end && *stop != '\n' && *stop != '\r')
            stop++;
        (void)snprintf(where, sizeof(where), "%s:%ld", path, line);
        record = json_pack("{s:s%}", "text", text.p, (size_t)(stop - text.p));
        rc = record != NULL ? sink->each(sink->arg, record, where, err)
                            : fr_fail(err, FR_USAGE, "%s: text is not UTF-8", where);
        json_decref(record);
        text.p = stop + (stop < end) + (stop + 1 < end && stop[0] == '\r' && stop[1] == '\n');
    }
    return rc;
}

enum fr_rc tr_records_read(const char *path, const struct tr_record_sink *sink, struct fr_err *err)
{
    struct fr_buf *b = sink->bytes;
    size_t i = 0;
    enum fr_rc rc;

    b->n = 0;
    rc = type_of(path) == TYPE_COLUMNS ? tr_columns_read(path, DATA_MAX_BYTES, b, err)
                                       : tr_file_unpack(path, DATA_MAX_BYTES, b, err);
    if (rc != FR_OK)
        return rc;
    size_t mark = b->n >= 3 && memcmp(b->p, "\xef\xbb\xbf", 3) == 0 ? 3 : 0; /* of UTF-8 */
    i = mark;
    while (i < b->n && isspace((unsigned char)b->p[i]))
        i++;
    if (i == b->n)
        return fr_fail(err, FR_USAGE, "%s holds no records", path);
    struct fr_str text = {b->p + mark, b->n - mark};
    if (type_of(path) == TYPE_CSV)
        return tr_csv_read(path, text, sink, err);
    if (type_of(path) == TYPE_TEXT)
        return read_text(path, text, sink, err);
    return b->p[i] == '[' ? read_list(path, text, sink, err) : read_lines(path, text, sink, err);
}
