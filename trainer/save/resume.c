#include "trainer/save/resume.h"

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "trainer/save/export.h"
#include "trainer/tensor/safetensors.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEEP = 2, STEPS_MAX = 4096, JSON_MAX = 64 * 1024 * 1024, VERSION = 1 };
enum { NO_STATE = -1, ALL_DAMAGED = -2 }; /* in place of a step */

static const struct {
    enum tr_optim_what what;
    const char *name;
} states[] = {{TR_OPTIM_MASTER, "master"}, {TR_OPTIM_M, "exp_avg"}, {TR_OPTIM_V, "exp_avg_sq"}};

enum { STATES = 3 };

static void state_dir(const struct tr_resume *r, int64_t step, const char *prefix,
                      char out[PATH_MAX])
{
    snprintf(out, PATH_MAX, "%s/resume/%sstep-%lld", r->output_dir, prefix, (long long)step);
}

/* The steps of the states in this node's folder, newest first; the newest cap of them. */
static size_t list_steps(const char *output_dir, int64_t *steps, size_t cap)
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

    return list_steps(output_dir, &step, 1) > 0;
}

enum fr_rc tr_resume_clear(const char *output_dir, struct fr_err *err)
{
    char dir[PATH_MAX];

    snprintf(dir, sizeof(dir), "%s/resume", output_dir);
    return fr_remove_tree(dir, err);
}

enum fr_rc tr_resume_room(const struct tr_resume *r, const struct tr_params *p, int64_t checkpoints,
                          struct fr_buf *notes, struct fr_err *err)
{
    int64_t adapter = p->elements * (int64_t)sizeof(float), state = STATES * adapter;
    int64_t least = (KEEP + 1) * state, most = least + checkpoints * (state + adapter);
    int64_t room = fr_sys.disk_free(r->output_dir);
    char dir[PATH_MAX], has[24], one[24], all[24];

    if (room < 0)
        return FR_OK;
    snprintf(dir, sizeof(dir), "%s/resume", r->output_dir);
    room += fr_tree_bytes(dir); /* of an earlier start, which this one replaces */
    fr_show_size(room, has);
    fr_show_size(state, one);
    fr_show_size(room < least ? least : most, all);
    if (room < least)
        return fr_fail(
            err, FR_FULL,
            "--output_dir %s has %s free, its resume states need %s (%d of %s each): make "
            "room, give another folder, or set --no_resume_state",
            r->output_dir, has, all, KEEP + 1, one);
    if (room < most && notes != NULL)
        fr_buf_fmt(
            notes,
            "--output_dir %s has %s free, %lld checkpoints with their resume states need %s: "
            "set --save_total_limit or --save_only_model, or make room\n",
            r->output_dir, has, (long long)checkpoints, all);
    return FR_OK;
}

static json_t *progress_json(const struct tr_resume *r, const struct tr_optim *o,
                             const struct tr_progress *p, const char *sha)
{
    const struct tr_scaler *s = &p->scaler;

    return json_pack(
        "{s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:I, s:f, s:I, s:I, s:f, s:O,"
        " s:{s:f, s:I, s:I, s:I}, s:{s:s, s:s, s:s, s:s}, s:s, s:{s:I, s:f, s:I}, s:I}",
        "version", VERSION, "step", (json_int_t)p->step, "updates", (json_int_t)p->updates, "epoch",
        (json_int_t)p->epoch, "micro", (json_int_t)p->micro, "accumulation",
        (json_int_t)r->accumulation, "adam_step", (json_int_t)o->steps, "loss_since_log",
        p->loss_since_log, "steps_since_log", (json_int_t)p->steps_since_log, "loss_total",
        p->loss_total, "padded_tokens", (json_int_t)p->padded_tokens, "tokens",
        (json_int_t)p->tokens, "seconds", p->seconds, "history", p->history, "scaler", "scale",
        s->scale, "hysteresis", (json_int_t)s->hysteresis, "step", (json_int_t)s->step,
        "last_overflow", (json_int_t)s->last_overflow, "digests", "model", r->digests.model, "data",
        r->digests.data, "tokenizer", r->digests.tokenizer, "config", r->digests.config, "sha256",
        sha, "best", "step", (json_int_t)p->best_step, "metric", p->best_metric, "not_better",
        (json_int_t)p->not_better, "empty", (json_int_t)p->empty);
}

/* The same step of the epoch for this number of ranks: the samples of a step are the same. */
static int64_t micro_now(const struct tr_resume *r, int64_t micro, int64_t accumulation)
{
    int64_t steps = (micro + accumulation - 1) / accumulation, now = steps * r->accumulation;

    return now < r->micro_per_epoch ? now : r->micro_per_epoch;
}

static enum fr_rc read_progress(const struct tr_resume *r, const json_t *root, struct tr_optim *o,
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

/* Fills items for all three states; flat holds 3 * padded elements, one state after the other. */
static enum fr_rc make_items(const struct tr_params *p, const float *flat, struct fr_arena *arena,
                             struct tr_st_item **out, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    if ((*out = fr_arena_array(arena, p->n * 2 * STATES, sizeof(**out))) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %zu adapters", p->n);
    for (size_t s = 0; rc == FR_OK && s < STATES; s++)
        rc = tr_adapter_items(p, flat + (int64_t)s * p->padded, states[s].name, arena,
                              *out + s * 2 * p->n, err);
    return rc;
}

static enum fr_rc write_files(const struct tr_resume *r, const struct tr_optim *o,
                              const struct tr_progress *p, const char *dir, struct fr_err *err)
{
    struct fr_arena arena = {0};
    struct tr_st_item *items;
    char path[PATH_MAX + 32], sha[FR_SHA256_TEXT];
    enum fr_rc rc = make_items(&o->params, r->flat, &arena, &items, err);

    snprintf(path, sizeof(path), "%s/state.safetensors", dir);
    if (rc == FR_OK)
        rc = fr_mkdirs(dir, 0700, err);
    if (rc == FR_OK)
        rc = tr_st_write(path, items, o->params.n * 2 * STATES, NULL, 0, err);
    if (rc == FR_OK)
        rc = fr_sha256_file(path, sha, err);
    json_t *root = rc == FR_OK ? progress_json(r, o, p, sha) : NULL;
    if (rc == FR_OK && root == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for state.json");
    snprintf(path, sizeof(path), "%s/state.json", dir);
    if (rc == FR_OK)
        rc = fr_json_save(root, path, JSON_INDENT(1) | JSON_SORT_KEYS, 0600, err);
    json_decref(root);
    fr_arena_finish(&arena);
    return rc;
}

static bool is_kept(const struct tr_resume *r, int64_t step)
{
    for (size_t i = 0; i < r->n_kept; i++)
        if (r->kept[i] == step)
            return true;
    return false;
}

/* Keeps the states of this step, of the one before and of checkpoints. Removes half-written states,
 * and newer ones, which remain when a run resumes from an older state. Failed removals are tried
 * again next time. */
static void drop_old(const struct tr_resume *r, int64_t now)
{
    int64_t steps[STEPS_MAX];
    size_t n = list_steps(r->output_dir, steps, STEPS_MAX), kept = 0, names_n = 0;
    char dir[PATH_MAX], **names = NULL;

    for (size_t i = 0; i < n; i++) {
        if (steps[i] <= now && (kept++ < KEEP || is_kept(r, steps[i])))
            continue;
        state_dir(r, steps[i], "", dir);
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

static enum fr_rc write_state(const struct tr_resume *r, const struct tr_optim *o,
                              const struct tr_progress *p, struct fr_err *err)
{
    char tmp[PATH_MAX], dir[PATH_MAX], parent[PATH_MAX];
    enum fr_rc rc;

    state_dir(r, p->step, ".tmp-", tmp);
    state_dir(r, p->step, "", dir);
    snprintf(parent, sizeof(parent), "%s/resume", r->output_dir);
    rc = fr_mkdirs(parent, 0700, err);
    if (rc == FR_OK)
        rc = fr_sync_dir(r->output_dir, err);
    if (rc == FR_OK)
        rc = fr_remove_tree(tmp, err);
    if (rc == FR_OK)
        rc = write_files(r, o, p, tmp, err);
    if (rc == FR_OK)
        rc = fr_remove_tree(dir, err);
    if (rc == FR_OK && fr_sys.rename(tmp, dir) != 0)
        rc = fr_fail(err, FR_IO, "cannot rename %s to %s", tmp, dir);
    if (rc == FR_OK)
        rc = fr_sync_dir(parent, err);
    if (rc != FR_OK) {
        fr_remove_tree(tmp, NULL);
        return fr_while(err, "writing resume state of step %lld", (long long)p->step);
    }
    drop_old(r, p->step);
    return FR_OK;
}

/* Where state s lies in host memory: ranks that only pass it on have room for one. */
static float *room(const struct tr_resume *r, const struct tr_optim *o, size_t s)
{
    return r->flat + (int64_t)(s % r->flat_states) * o->params.padded;
}

enum fr_rc tr_resume_save(const struct tr_resume *r, struct tr_optim *o,
                          const struct tr_progress *p, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;
    double failed;

    for (size_t s = 0; s < STATES && rc == FR_OK; s++)
        rc = tr_optim_whole(o, states[s].what, room(r, o, s), err);
    if (rc != FR_OK)
        return rc;
    if (o->world->local_rank == 0)
        rc = write_state(r, o, p, err);
    failed = rc != FR_OK;
    enum fr_rc summed = tr_comm_host_sum(o->world, &failed, 1, rc == FR_OK ? err : NULL);
    if (rc == FR_OK && summed == FR_OK && failed > 0)
        return fr_fail(err, FR_PEER, "another node could not write its resume state");
    return rc != FR_OK ? rc : summed;
}

static enum fr_rc same_run(const struct tr_resume *r, const json_t *root, struct fr_err *err)
{
    const struct {
        const char *key, *mine, *what;
    } rows[] = {{"model", r->digests.model, "the model differs"},
                {"data", r->digests.data, "the data set differs"},
                {"tokenizer", r->digests.tokenizer, "the tokenizer differs"},
                {"config", r->digests.config, NULL}};
    const json_t *d = json_object_get(root, "digests");
    struct fr_buf what = {0};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && what.n == 0; i++) {
        const char *theirs = json_string_value(json_object_get(d, rows[i].key));
        if (theirs == NULL)
            return fr_fail(err, FR_CORRUPT, "state.json lacks digests.%s", rows[i].key);
        if (strcmp(theirs, rows[i].mine) != 0 && rows[i].what != NULL)
            fr_buf_text(&what, rows[i].what);
        else if (strcmp(theirs, rows[i].mine) != 0)
            tr_identity_difference(theirs, rows[i].mine, &what);
    }
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

static enum fr_rc read_json(const struct tr_resume *r, int64_t step, json_t **root,
                            struct fr_err *err)
{
    char dir[PATH_MAX], path[PATH_MAX + 32];

    state_dir(r, step, "", dir);
    snprintf(path, sizeof(path), "%s/state.json", dir);
    return fr_json_load(path, JSON_MAX, root, err);
}

/* Reads the tensors of one state of this node into flat. */
static enum fr_rc read_tensors(const struct tr_resume *r, const struct tr_params *p, int64_t step,
                               const json_t *root, struct fr_err *err)
{
    const char *want = json_string_value(json_object_get(root, "sha256"));
    char dir[PATH_MAX], path[PATH_MAX + 32], sha[FR_SHA256_TEXT];
    struct fr_arena arena = {0};
    struct tr_st_item *items;
    struct tr_st *st = NULL;
    enum fr_rc rc;

    state_dir(r, step, "", dir);
    snprintf(path, sizeof(path), "%s/state.safetensors", dir);
    rc = fr_sha256_file(path, sha, err);
    if (rc == FR_OK && (want == NULL || strcmp(want, sha) != 0))
        rc = fr_fail(err, FR_CORRUPT, "%s does not match its checksum", path);
    if (rc == FR_OK)
        rc = tr_st_open(path, &st, err);
    if (rc == FR_OK)
        rc = make_items(p, r->flat, &arena, &items, err);
    for (size_t i = 0; rc == FR_OK && i < p->n * 2 * STATES; i++) {
        const struct tr_st_tensor *t = tr_st_find(st, items[i].name);
        if (t == NULL || t->type != TR_ST_F32)
            rc = fr_fail(err, FR_CORRUPT, "%s lacks %s in f32", path, items[i].name);
        else if ((rc = tr_st_want_shape(t, 2, items[i].shape, err)) == FR_OK)
            rc = tr_st_read(st, t, 0, (void *)items[i].data, (size_t)t->bytes, err);
    }
    tr_st_close(st);
    fr_arena_finish(&arena);
    return rc;
}

/* Arguments of newest_here. */
struct here {
    const struct tr_resume *r;
    const struct tr_params *p;
    int64_t limit;
    struct fr_buf damaged; /* owns: the reason for each unusable state */
};

/* *step = the newest <= limit that this node holds whole (its JSON and tensors read); NO_STATE or
 * ALL_DAMAGED when there is none. Damaged ones are logged and skipped; one of another run is
 * FR_USAGE. */
static enum fr_rc newest_here(struct here *h, json_t **root, int64_t *step, struct fr_err *err)
{
    int64_t steps[STEPS_MAX];
    size_t n = list_steps(h->r->output_dir, steps, STEPS_MAX);
    struct fr_err why;

    *step = NO_STATE;
    for (size_t i = 0; i < n; i++) {
        if (steps[i] > h->limit)
            continue;
        enum fr_rc rc = read_json(h->r, steps[i], root, &why);
        if (rc == FR_OK && (rc = same_run(h->r, *root, &why)) == FR_USAGE)
            return fr_fail(err, rc, "%s", why.msg);
        if (rc == FR_OK)
            rc = read_tensors(h->r, h->p, steps[i], *root, &why);
        if (rc == FR_OK) {
            *step = steps[i];
            return FR_OK;
        }
        json_decref(*root);
        *root = NULL;
        *step = ALL_DAMAGED;
        fr_buf_fmt(&h->damaged, "%s%s", h->damaged.n > 0 ? "; " : ": ", why.msg);
        fr_log(FR_LOG_WARN, "resume", "state of step %lld is not usable: %s", (long long)steps[i],
               why.msg);
    }
    return FR_OK;
}

/* Agrees on the newest state of any node, held by *root_rank; else ALL_DAMAGED if a node reports
 * it. */
static enum fr_rc agree(struct tr_optim *o, int64_t mine, int64_t *step, int *root_rank,
                        struct fr_err *err)
{
    int64_t *all = fr_sys.alloc((size_t)o->comm->size * sizeof(*all));
    enum fr_rc rc = all == NULL ? fr_fail(err, FR_NOMEM, "no memory")
                                : tr_comm_host_all_gather(o->world, all, &mine, sizeof(mine), err);

    *step = NO_STATE;
    *root_rank = 0;
    for (int r = 0; rc == FR_OK && r < o->comm->size; r++)
        if ((all[r] > *step && all[r] >= 0) || (*step == NO_STATE && all[r] == ALL_DAMAGED)) {
            *step = all[r];
            *root_rank = r;
        }
    fr_sys.free(all);
    return rc;
}

/* state.json from the root to all. */
static enum fr_rc share_json(struct tr_optim *o, int root_rank, json_t **root, struct fr_err *err)
{
    bool mine = o->comm->rank == root_rank;
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
    if (rc == FR_OK && !mine)
        rc = fr_json_parse((struct fr_str){copy, n}, "state.json", root, err);
    free(text);
    fr_sys.free(copy);
    return rc;
}

static enum fr_rc take_state(const struct tr_resume *r, struct tr_optim *o, int root_rank,
                             json_t *root, struct tr_progress *p, struct fr_err *err)
{
    enum fr_rc rc = same_run(r, root, err);

    if (rc == FR_OK)
        rc = read_progress(r, root, o, p, err);
    for (size_t s = 0; s < STATES && rc == FR_OK; s++) {
        float *flat = room(r, o, s);
        rc = tr_optim_share(o, root_rank, flat, err);
        if (rc == FR_OK)
            rc = tr_optim_load(o, states[s].what, flat, err);
    }
    return rc;
}

/* "last", "true" -> no limit; "…/step-40", "…/checkpoint-40", "40" -> exactly that step. */
static enum fr_rc wanted_step(const char *from, int64_t *step, struct fr_err *err)
{
    const char *name = strrchr(from, '/') != NULL ? strrchr(from, '/') + 1 : from;
    const char *dash = strrchr(name, '-');

    *step = -1;
    if (strcmp(from, "last") == 0 || strcmp(from, "true") == 0 || strcmp(from, "True") == 0)
        return FR_OK;
    if (fr_parse_i64(fr_str_of(dash != NULL ? dash + 1 : name), step, NULL) != FR_OK || *step < 0)
        return fr_fail(err, FR_USAGE,
                       "--resume_from_checkpoint '%s': expected true, last, a number of steps, or "
                       "a checkpoint-N folder",
                       from);
    return FR_OK;
}

/* The output folder that a checkpoint-N or resume/step-N folder lies in; false: from is none. */
static bool folder_of(const char *from, char out[PATH_MAX])
{
    const char *name = strrchr(from, '/');
    size_t n = name != NULL ? (size_t)(name - from) : 0;

    if (name == NULL || n >= PATH_MAX)
        return false;
    if (fr_has_prefix(name, "/step-") && n > 7 && strncmp(from + n - 7, "/resume", 7) == 0)
        n -= 7;
    (void)snprintf(out, PATH_MAX, "%.*s", n > 0 ? (int)n : 1, from);
    return true;
}

static enum fr_rc none_of_step(const struct tr_resume *r, int64_t want, int64_t before,
                               struct fr_err *err)
{
    char hint[64] = "";

    if (before >= 0)
        (void)snprintf(hint, sizeof(hint), "; the newest before it is of step %lld",
                       (long long)before);
    return fr_fail(err, FR_USAGE, "no node holds a whole resume state of step %lld in %s/resume%s",
                   (long long)want, r->output_dir, hint);
}

/* All ranks report the same text about damaged states, so the order of reports does not matter. */
static enum fr_rc all_damaged(const struct here *h, struct tr_optim *o, int root_rank,
                              struct fr_err *err)
{
    char why[600];
    enum fr_rc rc;

    (void)snprintf(why, sizeof(why), "%s", h->damaged.n > 0 ? h->damaged.p : "");
    if ((rc = tr_comm_host_broadcast(o->world, why, sizeof(why), root_rank, err)) != FR_OK)
        return rc;
    return fr_fail(err, FR_CORRUPT,
                   "no resume state in %s/resume can be used%s; put whole ones there, or begin "
                   "anew by --overwrite_output_dir without --resume_from_checkpoint",
                   h->r->output_dir, why);
}

enum fr_rc tr_resume_load(const struct tr_resume *run, const char *from, struct tr_optim *o,
                          struct tr_progress *p, bool *found, struct fr_err *err)
{
    struct tr_resume there = *run;
    const struct tr_resume *r = &there;
    char folder[PATH_MAX];
    int64_t want, mine = NO_STATE, step = NO_STATE;
    int root_rank = 0;
    json_t *root = NULL;
    struct here here = {.r = r, .p = &o->params};
    enum fr_rc rc = wanted_step(from, &want, err);

    *found = false;
    if (rc != FR_OK)
        return rc;
    if (want >= 0 && folder_of(from, folder))
        there.output_dir = folder;
    here.limit = want >= 0 ? want : INT64_MAX;
    memset(r->flat, 0, (size_t)o->params.padded * r->flat_states * sizeof(float));
    if (o->world->local_rank == 0)
        rc = newest_here(&here, &root, &mine, err);
    if (rc == FR_OK)
        rc = agree(o, mine, &step, &root_rank, err);
    if (rc == FR_OK && step == ALL_DAMAGED && want < 0)
        rc = all_damaged(&here, o, root_rank, err);
    if (rc == FR_OK && step < 0 && want < 0 && strcmp(from, "last") != 0)
        rc = fr_fail(err, FR_USAGE,
                     "--resume_from_checkpoint %s: there is no resume state in %s/resume; take "
                     "last to start from the beginning where there is none",
                     from, r->output_dir);
    if (rc == FR_OK && want >= 0 && step != want)
        rc = none_of_step(r, want, step, err);
    if (rc == FR_OK && step >= 0) {
        if (o->comm->rank != root_rank) {
            json_decref(root);
            root = NULL;
        }
        rc = share_json(o, root_rank, &root, err);
        if (rc == FR_OK)
            rc = take_state(r, o, root_rank, root, p, err);
        *found = rc == FR_OK;
    }
    json_decref(root);
    fr_buf_finish(&here.damaged);
    return rc;
}
