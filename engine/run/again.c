/* A run that is over is made again as a new one: with its own copy of the pipeline and of the small
 * files that this names, by the rules of then. */
#include "engine/run/inside.h"
#include "engine/base/json.h"
#include "engine/spec/fence.h"

#include <stdio.h>
#include <string.h>

enum fr_rc fr_run_again(struct fr_store *st, const struct fr_run_row *row, struct fr_arena *arena,
                        struct fr_again *out, struct fr_err *err)
{
    long long no = row->no;
    enum fr_rc rc;

    *out = (struct fr_again){.row = *row};
    if (row->state != FR_RUN_OVER)
        return fr_fail(err, FR_USAGE,
                       "run %lld is not over: 'flowrun cancel %lld' ends it, 'flowrun attach %lld' "
                       "shows it",
                       no, no, no);
    if (row->spec_hash[0] == '\0')
        return fr_fail(
            err, FR_USAGE,
            "run %lld has no pipeline that could be run: 'flowrun run %s' takes the file "
            "as it is now",
            no, row->source);
    rc = fr_store_files(st, row->id, arena, &out->files, err);
    return rc == FR_OK ? fr_store_shipped(st, row->id, arena, &out->shipped, err) : rc;
}

/* ---- parameters ---- */

static size_t name_bytes(const char *param)
{
    return strcspn(param, "=");
}

/* "name=value", where a relative path counts from the shell's folder: those that are stored count
 * from the folder of the run before. */
static const char *from_here(struct fr_run *run, const struct fr_spec *before, const char *param)
{
    size_t n = name_bytes(param);
    const char *value = param[n] != '\0' ? param + n + 1 : "";

    for (size_t i = 0; i < before->n_params; i++) {
        const struct fr_param *p = &before->params[i];

        if (p->type == FR_T_PATH && strlen(p->name) == n && memcmp(p->name, param, n) == 0 &&
            value[0] != '\0' && value[0] != '/' && !fr_has_prefix(value, "node:"))
            return fr_arena_fmt(&run->arena, "%s=%s/%s", p->name, run->env.shell.cwd, value);
    }
    return param;
}

/* Becomes the last of the list. */
static void give(json_t *list, const char *param)
{
    for (size_t i = json_array_size(list); i-- > 0;) {
        const char *old = json_string_value(json_array_get(list, i));
        size_t n = name_bytes(param);

        if (old != NULL && name_bytes(old) == n && memcmp(old, param, n) == 0)
            json_array_remove(list, i);
    }
    json_array_append_new(list, json_string(param));
}

/* The stored parameters followed by the new ones, which win; *n are new. */
static enum fr_rc merge(struct fr_run *run, const struct fr_spec_opts *now,
                        const struct fr_spec *before, struct fr_run_row *row, size_t *n,
                        struct fr_err *err)
{
    json_t *doc = NULL;
    enum fr_rc rc = fr_json_parse(fr_str_of(row->params), "stored parameters", &doc, err);

    for (size_t i = 0; rc == FR_OK && i < now->n_params; i++) {
        const char *param = from_here(run, before, now->params[i]);

        if (param == NULL) {
            rc = fr_fail(err, FR_NOMEM, "no memory for parameters");
        } else if (!fr_json_has(json_object_get(doc, "params"), param)) {
            give(json_object_get(doc, "params"), param);
            ++*n;
        }
    }
    if (rc == FR_OK) {
        row->params = run_json_text(run, doc);
        rc = row->params != NULL ? FR_OK : fr_fail(err, FR_NOMEM, "no memory for parameters");
    }
    json_decref(doc);
    return rc;
}

static enum fr_rc load(struct fr_run *run, const struct fr_submit *submit, struct fr_run_row *row,
                       struct fr_issues *issues, struct fr_err *err)
{
    struct run_source from = {.row = row, .home = run->home, .arena = &run->arena};
    struct fr_fence fence = {0}; /* only of what is new */
    size_t n = 0;
    struct fr_spec *before = NULL;
    enum fr_rc rc = FR_OK;

    if (submit->spec.n_params > 0 &&
        (rc = run_load_file(&from, NULL, &before, issues, err)) == FR_OK)
        rc = merge(run, &submit->spec, before, row, &n, err);
    fr_spec_destroy(before);
    if (submit->spec.fence != NULL) {
        fence = *submit->spec.fence;
        fence.n_params = n;
        from.fence = &fence;
    }
    return rc == FR_OK ? run_load_file(&from, NULL, &run->spec, issues, err) : rc;
}

/* ---- parts of the repeated run ---- */

static enum fr_rc take_row(struct fr_run *run, const struct fr_run_row *from, struct fr_err *err)
{
    struct fr_run_row *row = &run->row;

    row->origin = FR_ORIGIN_RETRY;
    row->source = fr_arena_dup(&run->arena, from->source);
    row->folder = fr_arena_dup(&run->arena, from->folder);
    row->params = fr_arena_dup(&run->arena, from->params);
    row->retry_of = from->no;
    row->reruns = run->reruns;
    row->schedule = from->schedule;
    row->at_ms = from->at_ms;
    return row->source != NULL && row->folder != NULL && row->params != NULL
               ? FR_OK
               : fr_fail(err, FR_NOMEM, "no memory for a run");
}

static enum fr_rc take_files(struct fr_run *run, const struct fr_file_rows *from,
                             struct fr_err *err)
{
    for (size_t i = 0; i < from->n; i++) {
        struct fr_file_row *rows =
            fr_arena_grow(&run->arena, run->files.rows, run->files.n, sizeof(*rows));

        if (rows == NULL)
            return fr_fail(err, FR_NOMEM, "no memory for the files of a run");
        run->files.rows = rows;
        rows[i] = from->rows[i];
        rows[i].path = fr_arena_dup(&run->arena, from->rows[i].path);
        rows[i].hash = fr_arena_dup(&run->arena, from->rows[i].hash);
        if (rows[i].path == NULL || rows[i].hash == NULL)
            return fr_fail(err, FR_NOMEM, "no memory for the files of a run");
        run->files.n++;
    }
    return FR_OK;
}

enum fr_rc run_again_make(struct fr_run *run, const struct fr_submit *submit,
                          struct fr_issues *issues, struct fr_err *err)
{
    struct fr_run_row row = submit->again->row;
    enum fr_rc rc;

    run->reruns = submit->by_itself ? row.reruns + 1 : 0;
    rc = load(run, submit, &row, issues, err);

    if (rc == FR_OK && (rc = take_row(run, &row, err)) == FR_OK &&
        (rc = take_files(run, &submit->again->files, err)) == FR_OK &&
        (rc = run_shipping_add(run, &submit->again->shipped, row.no, err)) == FR_OK &&
        (rc = run_make_parts(run, err)) == FR_OK && (rc = run_occasion_read(run, err)) == FR_OK)
        rc = run_shell_load(run, err);
    return rc;
}

enum fr_rc run_again_check(struct fr_run *run, const struct fr_submit *submit, struct fr_err *err)
{
    struct fr_run_row row;
    char id[FR_ID_TEXT];
    enum fr_rc rc;

    fr_id_text(submit->again->row.id, id);
    rc = fr_store_run_find(run->env.store, id, &run->arena, &row, err);
    if (rc == FR_NOTFOUND)
        return fr_fail(err, rc, "run %lld has been removed meanwhile",
                       (long long)submit->again->row.no);
    if (rc == FR_OK && submit->by_itself && row.rerun_wall == 0)
        return fr_fail(err, FR_STOPPED, "run %lld is not due any more", (long long)row.no);
    return rc;
}

enum fr_rc run_again_put(struct fr_run *run, const struct fr_submit *submit, struct fr_err *err)
{
    char text[40];

    snprintf(text, sizeof(text), "run %lld repeats it", (long long)run->row.no);
    return fr_store_rerun_drop(run->env.store, submit->again->row.id, text, err);
}
