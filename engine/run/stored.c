/* The pipeline of a stored run, made again from its copy. */
#include "engine/run/inside.h"
#include "engine/run/growth.h"
#include "engine/run/metrics.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_KEY_MAX = 160 /* bytes of a key with an item in the name of a file */ };

static const char *stored_env(void *self, const char *name)
{
    return json_string_value(json_object_get(self, name));
}

static enum fr_rc get_source(const struct run_source *from, const char *hash, const char *path,
                             struct fr_source *out, struct fr_err *err)
{
    struct fr_buf text = {0};
    enum fr_rc rc = fr_blob_get(from->home, hash, &text, err);

    if (rc == FR_OK) {
        out->path = path;
        out->text =
            (struct fr_str){fr_arena_text(from->arena, text.p ? text.p : "", text.n), text.n};
        if (out->text.p == NULL)
            rc = fr_fail(err, FR_NOMEM, "no memory for %s", path);
    }
    fr_buf_finish(&text);
    return rc;
}

/* Of a changed file: the environment of now counts where none was stored. */
struct both_env {
    json_t *stored;
    const struct fr_run_shell *shell;
};

static const char *stored_or_own_env(void *self, const char *name)
{
    const struct both_env *env = self;
    const char *stored = stored_env(env->stored, name);

    return stored != NULL ? stored : env->shell->getenv(env->shell->self, name);
}

/* The absolute folder of a file that is named on the command line. */
static const char *folder_of(const struct run_source *from, const char *file)
{
    const char *slash = strrchr(file, '/');
    int n = slash == NULL ? 0 : slash == file ? 1 : (int)(slash - file);

    return file[0] == '/' ? fr_arena_fmt(from->arena, "%.*s", n, file)
           : n > 0        ? fr_arena_fmt(from->arena, "%s/%.*s", from->shell->cwd, n, file)
                          : from->shell->cwd;
}

/* The stored file is read by the rules that it was submitted under. */
static enum fr_rc stored_rules(const struct fr_run_row *row, const json_t *doc,
                               struct fr_spec_opts *opts, struct fr_err *err)
{
    const json_t *rules = json_object_get(doc, "rules");

    opts->rules = rules == NULL ? 1 : (int)json_integer_value(rules);
    opts->folder = json_string_value(json_object_get(doc, "folder"));
    if (opts->rules >= 1 && opts->rules <= FR_SPEC_RULES)
        return FR_OK;
    return fr_fail(err, FR_UNSUPPORTED,
                   "run %lld was begun by a newer flowrun: its file follows rules %d, this flowrun "
                   "knows up to %d; go on with the newer one, or give a file of your own with "
                   "'flowrun resume %lld --file FILE'",
                   (long long)row->no, opts->rules, FR_SPEC_RULES, (long long)row->no);
}

enum fr_rc run_load_file(const struct run_source *from, const char *file, struct fr_spec **out,
                         struct fr_issues *issues, struct fr_err *err)
{
    const struct fr_run_row *row = from->row;
    struct fr_source sources[2];
    struct fr_spec_opts opts = {.path = file != NULL ? file : row->source,
                                .cwd = row->folder,
                                .sources = sources,
                                .getenv = file != NULL ? stored_or_own_env : stored_env};
    struct both_env both = {.shell = from->shell};
    json_t *doc = NULL, *list, *item;
    const char **params = NULL;
    size_t i;
    enum fr_rc rc = fr_json_parse(fr_str_of(row->params), "stored parameters", &doc, err);

    if (rc == FR_OK && file == NULL && row->spec_hash[0] == '\0')
        rc = fr_fail(err, FR_USAGE,
                     "run %lld has no pipeline that could be read: 'flowrun run %s' takes the file "
                     "as it is now",
                     (long long)row->no, row->source);
    if (rc == FR_OK && file == NULL)
        rc = get_source(from, row->spec_hash, row->source, &sources[opts.n_sources++], err);
    if (rc == FR_OK && row->inventory_hash[0] != '\0')
        rc = get_source(from, row->inventory_hash, row->inventory, &sources[opts.n_sources++], err);
    if (rc == FR_OK && file != NULL && (opts.folder = folder_of(from, file)) == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for a path");
    if (rc == FR_OK && file == NULL)
        rc = stored_rules(row, doc, &opts, err);
    list = json_object_get(doc, "params");
    if (rc == FR_OK &&
        (params = fr_arena_array(from->arena, json_array_size(list) + 1, sizeof(*params))) == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for parameters");
    if (rc == FR_OK) {
        json_array_foreach(list, i, item) params[opts.n_params++] = json_string_value(item);
        opts.params = params;
        opts.fence = from->fence;
        both.stored = json_object_get(doc, "env");
        opts.getenv_self = file != NULL ? (void *)&both : both.stored;
        rc = fr_spec_load(&opts, out, issues, err);
    }
    if (rc == FR_OK && from->st != NULL)
        rc = run_lists_load(from, *out, err);
    json_decref(doc);
    return rc;
}

enum fr_rc fr_run_stored(struct fr_store *st, const struct fr_run_row *row, struct fr_stored *out,
                         struct fr_err *err)
{
    struct run_source from = {
        .row = row, .home = fr_store_home(st), .st = st, .arena = &out->arena};
    struct fr_issues issues = {0};
    struct fr_err why = {0};
    enum fr_rc rc;

    *out = (struct fr_stored){0};
    rc = run_load_file(&from, NULL, &out->spec, &issues, &why);
    if (rc == FR_OK)
        rc = fr_plan_make(out->spec, &out->arena, &out->plan, &why);
    if (rc == FR_USAGE) /* its rules have changed in spite of their number, or its copy has */
        rc = fr_fail(err, FR_CORRUPT, "run %lld: its stored file cannot be read: %s",
                     (long long)row->no, issues.n > 0 ? issues.lines[0] : why.msg);
    else if (rc != FR_OK)
        fr_fail(err, rc, "%s", why.msg);
    if (rc != FR_OK)
        fr_run_stored_finish(out);
    fr_issues_finish(&issues);
    return rc;
}

void fr_run_stored_finish(struct fr_stored *s)
{
    fr_spec_destroy(s->spec);
    fr_arena_finish(&s->arena);
    *s = (struct fr_stored){0};
}

/* Of an instance with an item, which may hold any text: what is no part of a file's name, or too
 * long for one, is replaced, and the key's hash added. */
static void item_name(struct fr_buf *out, const char *key)
{
    char hash[FR_SHA256_TEXT];
    size_t n = strlen(key);
    bool whole = n <= NAME_KEY_MAX;

    for (size_t i = 0; i < n && i < NAME_KEY_MAX; i++) {
        bool good = isalnum((unsigned char)key[i]) || strchr("[]=,._-@+", key[i]) != NULL;

        fr_buf_add(out, good ? &key[i] : "_", 1);
        whole = whole && good;
    }
    if (whole || out->bad)
        return;
    fr_sha256(key, n, hash);
    fr_buf_fmt(out, "-%.16s", hash);
}

static void file_name(struct fr_buf *out, const char *key, uint32_t no, const char *ending)
{
    size_t from = out->n;

    if (key[strcspn(key, "[@")] == '[')
        item_name(out, key);
    else
        fr_buf_text(out, key);
    fr_buf_fmt(out, ".%u.%s", no, ending);
    for (size_t i = from; !out->bad && i < out->n; i++)
        if (out->p[i] == '/')
            out->p[i] = '_';
}

void fr_run_log_name(struct fr_buf *out, const char *key, uint32_t no)
{
    file_name(out, key, no, "log");
}

void fr_run_metrics_name(struct fr_buf *out, const char *key, uint32_t no)
{
    fr_buf_text(out, "metrics/");
    file_name(out, key, no, "jsonl");
}
