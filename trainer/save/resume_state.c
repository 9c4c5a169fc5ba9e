#include "trainer/save/resume_private.h"

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/sys.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TMP ".tmp-"

enum { JSON_MAX = 64 * 1024 * 1024, VERSION = 1 };

void resume_dir(const struct tr_resume *r, int64_t step, const char *prefix, char out[PATH_MAX])
{
    snprintf(out, PATH_MAX, "%s/resume/%sstep-%lld", r->output_dir, prefix, (long long)step);
}

size_t resume_steps(const char *output_dir, int64_t *steps, size_t cap)
{
    char dir[PATH_MAX], **names = NULL;
    size_t n = 0, count = 0;

    snprintf(dir, sizeof(dir), "%s/resume", output_dir);
    if (fr_sys.list(dir, &names, &n) != 0)
        return 0;
    for (size_t i = 0; i < n; i++) {
        int64_t step;
        if (!fr_has_prefix(names[i], "step-") ||
            fr_parse_i64(fr_str_of(names[i] + 5), &step, NULL) != FR_OK ||
            (count == cap && step < steps[cap - 1]))
            continue;
        size_t at = count < cap ? count++ : cap - 1;
        for (; at > 0 && steps[at - 1] < step; at--)
            steps[at] = steps[at - 1];
        steps[at] = step;
    }
    fr_sys_names_free(names, n);
    return count;
}

bool tr_resume_any(const char *output_dir)
{
    int64_t step;

    return resume_steps(output_dir, &step, 1) > 0;
}

bool tr_resume_writes(const struct tr_resume *r, const struct tr_comm *world)
{
    return world->local_rank == 0 && (r->folders == NULL || r->folders[world->node] == world->node);
}

enum fr_rc tr_resume_clear(const char *output_dir, struct fr_err *err)
{
    char dir[PATH_MAX];

    snprintf(dir, sizeof(dir), "%s/resume", output_dir);
    return fr_remove_tree(dir, err);
}

enum fr_rc tr_resume_room(const struct tr_resume *r, const struct tr_resume_size *s,
                          struct fr_buf *notes, struct fr_err *err)
{
    int64_t least = s->at_once * s->state;
    int64_t most = least + s->checkpoints * (s->state + s->checkpoint);
    int64_t room = fr_sys.disk_free(r->output_dir);
    char dir[PATH_MAX], has[24], one[24], all[24];

    if (room < 0)
        return FR_OK;
    snprintf(dir, sizeof(dir), "%s/resume", r->output_dir);
    room += fr_tree_bytes(dir); /* of an earlier start, which this one replaces */
    fr_show_size(room, has);
    fr_show_size(s->state, one);
    fr_show_size(room < least ? least : most, all);
    if (room < least)
        return fr_fail(
            err, FR_FULL,
            "--output_dir %s has %s free, its resume states need %s (%d of %s each): make "
            "room, give another folder, or set --no_resume_state",
            r->output_dir, has, all, s->at_once, one);
    if (room < most && notes != NULL)
        fr_buf_fmt(
            notes,
            "--output_dir %s has %s free, %lld checkpoints with their resume states need %s: "
            "set --save_total_limit or --save_only_model, or make room\n",
            r->output_dir, has, (long long)s->checkpoints, all);
    return FR_OK;
}

static json_t *progress_json(const struct tr_resume *r, const struct tr_optim *o,
                             const struct tr_progress *p)
{
    const struct tr_scaler *s = &p->scaler;

    return json_pack(
        "{s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:I, s:f, s:I, s:I, s:f, s:O,"
        " s:{s:f, s:I, s:I, s:I}, s:{s:s, s:s, s:s, s:s}, s:{s:I, s:f, s:I}, s:I}",
        "version", VERSION, "step", (json_int_t)p->step, "updates", (json_int_t)p->updates, "epoch",
        (json_int_t)p->epoch, "micro", (json_int_t)p->micro, "accumulation",
        (json_int_t)r->accumulation, "adam_step", (json_int_t)o->steps, "loss_since_log",
        p->loss_since_log, "steps_since_log", (json_int_t)p->steps_since_log, "loss_total",
        p->loss_total, "padded_tokens", (json_int_t)p->padded_tokens, "tokens",
        (json_int_t)p->tokens, "seconds", p->seconds, "history", p->history, "scaler", "scale",
        s->scale, "hysteresis", (json_int_t)s->hysteresis, "step", (json_int_t)s->step,
        "last_overflow", (json_int_t)s->last_overflow, "digests", "model", r->digests.model, "data",
        r->digests.data, "tokenizer", r->digests.tokenizer, "config", r->digests.config, "best",
        "step", (json_int_t)p->best_step, "metric", p->best_metric, "not_better",
        (json_int_t)p->not_better, "empty", (json_int_t)p->empty);
}

/* The SHA-256 of all members but "checksum", which is not there. */
static enum fr_rc checksum(const json_t *root, char out[FR_SHA256_TEXT], struct fr_err *err)
{
    struct fr_buf text = {0};
    enum fr_rc rc = FR_OK;

    fr_json_add(&text, root, JSON_COMPACT | JSON_SORT_KEYS);
    if (text.bad)
        rc = fr_fail(err, FR_NOMEM, "no memory for state.json");
    else
        fr_sha256(text.p, text.n, out);
    fr_buf_finish(&text);
    return rc;
}

static enum fr_rc seal(json_t *root, struct fr_err *err)
{
    char sha[FR_SHA256_TEXT];
    enum fr_rc rc = checksum(root, sha, err);

    if (rc == FR_OK && json_object_set_new(root, "checksum", json_string(sha)) != 0)
        rc = fr_fail(err, FR_NOMEM, "no memory for state.json");
    return rc;
}

/* Takes the checksum out. States of before it was written have none; what that of another version
 * is of is not known. */
static enum fr_rc unseal(json_t *root, const char *path, struct fr_err *err)
{
    const char *said = json_string_value(json_object_get(root, "checksum"));
    char want[FR_SHA256_TEXT] = "", sha[FR_SHA256_TEXT];
    enum fr_rc rc;

    if (said == NULL || json_integer_value(json_object_get(root, "version")) != VERSION)
        return FR_OK;
    (void)snprintf(want, sizeof(want), "%s", said);
    (void)json_object_del(root, "checksum");
    if ((rc = checksum(root, sha, err)) == FR_OK && strcmp(want, sha) != 0)
        rc = fr_fail(err, FR_CORRUPT, "%s does not match its checksum", path);
    return rc;
}

/* The same step of the epoch for this number of ranks: the samples of a step are the same. */
static int64_t micro_now(const struct tr_resume *r, int64_t micro, int64_t accumulation)
{
    int64_t steps = (micro + accumulation - 1) / accumulation, now = steps * r->accumulation;

    return now < r->micro_per_epoch ? now : r->micro_per_epoch;
}

enum fr_rc resume_read_progress(const struct tr_resume *r, const json_t *root, struct tr_optim *o,
                                struct tr_progress *p, struct fr_err *err)
{
    json_int_t version, step, updates, epoch, micro, adam, since, padded, tokens, hyst, sstep, last;
    json_int_t accumulation, best = 0, not_better = 0, empty = 0;
    json_t *history;
    json_error_t e;

    if (json_unpack_ex((json_t *)root, &e, 0,
                       "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:F, s:I, s:F, s:I, s:I, s:F, s:o,"
                       " s:{s:F, s:I, s:I, s:I}, s?:{s:I, s:F, s:I}, s?:I}",
                       "version", &version, "step", &step, "updates", &updates, "epoch", &epoch,
                       "micro", &micro, "accumulation", &accumulation, "adam_step", &adam,
                       "loss_since_log", &p->loss_since_log, "steps_since_log", &since,
                       "loss_total", &p->loss_total, "padded_tokens", &padded, "tokens", &tokens,
                       "seconds", &p->seconds, "history", &history, "scaler", "scale",
                       &p->scaler.scale, "hysteresis", &hyst, "step", &sstep, "last_overflow",
                       &last, "best", "step", &best, "metric", &p->best_metric, "not_better",
                       &not_better, "empty", &empty) != 0)
        return fr_fail(err, FR_CORRUPT, "state.json: %s", e.text);
    if (accumulation < 1)
        return fr_fail(err, FR_CORRUPT, "state.json: accumulation is %lld",
                       (long long)accumulation);
    if (version != VERSION)
        return fr_fail(err, FR_UNSUPPORTED, "state.json has version %d, expected %d", (int)version,
                       VERSION);
    p->step = step;
    p->updates = updates;
    p->epoch = epoch;
    p->micro = micro_now(r, micro, accumulation);
    o->steps = adam;
    p->steps_since_log = since;
    p->empty = empty;
    p->padded_tokens = padded;
    p->tokens = tokens;
    p->scaler.hysteresis = hyst;
    p->scaler.step = sstep;
    p->scaler.last_overflow = last;
    p->best_step = best;
    p->not_better = not_better;
    json_decref(p->history);
    p->history = json_incref(history);
    return FR_OK;
}

static bool is_kept(const struct tr_resume *r, int64_t step)
{
    for (size_t i = 0; i < r->n_kept; i++)
        if (r->kept[i] == step)
            return true;
    return false;
}

void resume_drop(const struct tr_resume *r, int64_t now, size_t keep)
{
    int64_t steps[RESUME_STEPS_MAX];
    size_t n = resume_steps(r->output_dir, steps, RESUME_STEPS_MAX), kept = 0, names_n = 0;
    char dir[PATH_MAX], **names = NULL;

    for (size_t i = 0; i < n; i++) {
        if (steps[i] <= now && (kept++ < keep || is_kept(r, steps[i])))
            continue;
        resume_dir(r, steps[i], "", dir);
        fr_remove_tree(dir, NULL);
    }
    snprintf(dir, sizeof(dir), "%s/resume", r->output_dir);
    if (fr_sys.list(dir, &names, &names_n) != 0)
        return;
    for (size_t i = 0; i < names_n; i++)
        if (fr_has_prefix(names[i], ".tmp-")) {
            snprintf(dir, sizeof(dir), "%s/resume/%s", r->output_dir, names[i]);
            fr_remove_tree(dir, NULL);
        }
    fr_sys_names_free(names, names_n);
}

enum fr_rc resume_begin(const struct tr_resume *r, int64_t step, struct fr_err *err)
{
    char tmp[PATH_MAX], parent[PATH_MAX];
    enum fr_rc rc;

    resume_dir(r, step, TMP, tmp);
    snprintf(parent, sizeof(parent), "%s/resume", r->output_dir);
    rc = fr_mkdirs(parent, 0700, err);
    if (rc == FR_OK)
        rc = fr_sync_dir(r->output_dir, err);
    return rc == FR_OK ? fr_remove_tree(tmp, err) : rc;
}

/* A state of this step that is there already stays until the new one has its name. */
static enum fr_rc rename_state(const struct tr_resume *r, int64_t step, struct fr_err *err)
{
    char tmp[PATH_MAX], dir[PATH_MAX], old[PATH_MAX], parent[PATH_MAX];
    enum fr_rc rc;

    resume_dir(r, step, TMP, tmp);
    resume_dir(r, step, "", dir);
    resume_dir(r, step, TMP "old-", old);
    snprintf(parent, sizeof(parent), "%s/resume", r->output_dir);
    rc = fr_remove_tree(old, err);
    if (rc == FR_OK && fr_sys.rename(dir, old) != 0 && errno != ENOENT)
        rc = fr_fail_errno(err, errno, "cannot rename %s to %s", dir, old);
    if (rc == FR_OK && fr_sys.rename(tmp, dir) != 0)
        rc = fr_fail_errno(err, errno, "cannot rename %s to %s", tmp, dir);
    if (rc == FR_OK)
        rc = fr_sync_dir(parent, err);
    return rc;
}

enum fr_rc resume_publish(const struct tr_resume *r, const struct tr_optim *o,
                          const struct tr_progress *p, const char *key, json_t *more,
                          struct fr_err *err)
{
    json_t *root = progress_json(r, o, p);
    char dir[PATH_MAX], path[PATH_MAX + 32];
    enum fr_rc rc = FR_OK;

    resume_dir(r, p->step, TMP, dir);
    snprintf(path, sizeof(path), "%s/state.json", dir);
    if (json_object_set_new(root, key, more) != 0)
        rc = fr_fail(err, FR_NOMEM, "no memory for state.json");
    if (rc == FR_OK)
        rc = seal(root, err);
    if (rc == FR_OK)
        rc = fr_json_save(root, path, JSON_INDENT(1) | JSON_SORT_KEYS, 0600, err);
    if (rc == FR_OK)
        rc = rename_state(r, p->step, err);
    json_decref(root);
    if (rc == FR_OK)
        resume_drop(r, p->step, RESUME_KEEP);
    return rc;
}

enum fr_rc resume_same_run(const struct tr_resume *r, const struct tr_optim *o, const json_t *root,
                           struct fr_err *err)
{
    const struct {
        const char *key, *mine, *what;
    } rows[] = {{"model", r->digests.model, "the model differs"},
                {"data", r->digests.data, "the data set differs"},
                {"tokenizer", r->digests.tokenizer, "the tokenizer differs"},
                {"config", r->digests.config, NULL}};
    const json_t *d = json_object_get(root, "digests");
    bool parts = json_object_get(root, "parts") != NULL;
    const char *config = json_string_value(json_object_get(d, "config"));
    bool full = config != NULL && strstr(config, "--finetuning_type=") != NULL;
    struct fr_buf what = {0};

    if (full != (strstr(r->digests.config, "--finetuning_type=") != NULL))
        fr_buf_fmt(&what, "step-%lld is of a %s run",
                   (long long)json_integer_value(json_object_get(root, "step")),
                   full ? "full" : "LoRA");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && what.n == 0; i++) {
        const char *theirs = json_string_value(json_object_get(d, rows[i].key));
        if (theirs == NULL)
            return fr_fail(err, FR_CORRUPT, "state.json lacks digests.%s", rows[i].key);
        if (strcmp(theirs, rows[i].mine) != 0 && rows[i].what != NULL)
            fr_buf_text(&what, rows[i].what);
        else if (strcmp(theirs, rows[i].mine) != 0)
            tr_identity_difference(theirs, rows[i].mine, &what);
    }
    if (what.n == 0 && parts != (o->grads != NULL))
        return fr_fail(err, FR_CORRUPT, "state.json lacks its parts");
    if (what.n == 0)
        return FR_OK;
    fr_fail(
        err, FR_USAGE,
        "the resume state in %s/resume belongs to another run: %s; give another --output_dir, or "
        "--overwrite_output_dir without --resume_from_checkpoint to start again",
        r->output_dir, what.p);
    fr_buf_finish(&what);
    return FR_USAGE;
}

enum fr_rc resume_load_json(const char *path, json_t **root, struct fr_err *err)
{
    enum fr_rc rc = fr_json_load(path, JSON_MAX, root, err);

    if (rc == FR_OK && (rc = unseal(*root, path, err)) != FR_OK) {
        json_decref(*root);
        *root = NULL;
    }
    return rc;
}

enum fr_rc resume_read_json(const struct tr_resume *r, int64_t step, json_t **root,
                            struct fr_err *err)
{
    char dir[PATH_MAX], path[PATH_MAX + 32];

    resume_dir(r, step, "", dir);
    snprintf(path, sizeof(path), "%s/state.json", dir);
    return resume_load_json(path, root, err);
}

enum fr_rc resume_share_json(const struct tr_optim *o, int root_rank, json_t **root,
                             struct fr_err *err)
{
    bool mine = o->world->rank == root_rank;
    char *text = mine ? json_dumps(*root, JSON_COMPACT) : NULL;
    uint64_t n = text != NULL ? strlen(text) : 0;
    enum fr_rc rc = tr_comm_host_broadcast(o->world, &n, sizeof(n), root_rank, err);
    char *copy = rc == FR_OK ? fr_sys.alloc(n + 1) : NULL;

    if (rc == FR_OK && (copy == NULL || n == 0))
        rc = fr_fail(err, FR_NOMEM, "no memory for state.json");
    if (rc == FR_OK) {
        if (mine)
            memcpy(copy, text, n);
        rc = tr_comm_host_broadcast(o->world, copy, n, root_rank, err);
    }
    if (rc == FR_OK && !mine) {
        json_decref(*root);
        *root = NULL;
        rc = fr_json_parse((struct fr_str){copy, n}, "state.json", root, err);
    }
    free(text);
    fr_sys.free(copy);
    return rc;
}
