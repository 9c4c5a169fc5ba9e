/* The logs of a run as one text, line by line by their time. */
#include "engine/view/merge.h"
#include "engine/view/view.h"
#include "engine/store/home.h"

enum { MERGED_BYTES = 8 << 20 }; /* of an answer; what is older than its lines is left out first */

static bool take_lines(void *arg, struct fr_str lines)
{
    struct fr_buf *out = arg;

    fr_buf_add(out, lines.p, lines.n);
    return !out->bad && out->n < MERGED_BYTES;
}

enum fr_rc view_each_attempt(struct view *v, const char *name, view_attempt_fn *fn, void *arg,
                             struct fr_err *err)
{
    struct fr_inst_rows insts = {0};
    struct fr_attempt_rows rows = {0};
    bool more = true;
    enum fr_rc rc = fr_store_insts(v->st, v->run.id, &v->arena, &insts, err);

    if (rc == FR_OK)
        rc = fr_store_attempts(v->st, v->run.id, &v->arena, &rows, err);
    for (size_t i = 0, k = 0; rc == FR_OK && more && i < rows.n; i++) {
        const struct fr_inst_row *inst;

        while (k < insts.n && insts.rows[k].idx < rows.rows[i].idx)
            k++;
        inst = &insts.rows[k];
        if (k < insts.n && inst->idx == rows.rows[i].idx &&
            (name == NULL || fr_inst_named(inst, name)))
            more = fn(arg, &rows.rows[i], inst->key, &rc, err);
    }
    return rc;
}

static bool add_attempt(void *arg, const struct fr_attempt_row *row, const char *key,
                        enum fr_rc *rc, struct fr_err *err)
{
    struct fr_merge *m = arg;
    struct fr_buf label = {0};

    fr_buf_text(&label, key);
    if (row->no > 1)
        fr_buf_fmt(&label, "#%lld", (long long)row->no);
    *rc = label.bad ? fr_fail(err, FR_NOMEM, "no memory for logs")
                    : fr_merge_add(m, row->id, label.p, row->log, err);
    fr_buf_finish(&label);
    if (*rc == FR_OK)
        fr_merge_set(m, fr_merge_find(m, row->id), row->started_wall, row->ended_wall != 0,
                     row->done != 0);
    return true;
}

enum fr_rc view_merged(struct view *v, struct fr_err *err)
{
    struct fr_merge_opts opts = {.put = take_lines,
                                 .put_arg = &v->text->json,
                                 .times = (enum fr_merge_times)v->text->numbers[1],
                                 .n_tail = (size_t)v->text->numbers[0]};
    struct fr_merge *m = NULL;
    struct fr_buf dir = {0};
    enum fr_rc rc;

    fr_home_at(v->home, FR_HOME_RUN, v->run.id, &dir);
    rc = dir.bad ? fr_fail(err, FR_NOMEM, "no memory for a path")
                 : fr_check_unlinked(dir.p, strlen(v->home), err);
    if (rc == FR_OK)
        rc = fr_merge_create(&m, dir.p, &opts, err);
    if (rc == FR_OK)
        rc = view_each_attempt(v, v->text->args[0], add_attempt, m, err);
    if (rc == FR_OK)
        rc = fr_merge_print(m, true, err);
    fr_merge_destroy(m);
    fr_buf_finish(&dir);
    return rc == FR_OK && v->text->json.bad ? fr_fail(err, FR_NOMEM, "no memory for logs") : rc;
}
