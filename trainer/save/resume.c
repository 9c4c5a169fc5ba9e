#include "trainer/save/resume.h"

#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "trainer/config/folder.h"
#include "trainer/save/export.h"
#include "trainer/save/resume_private.h"
#include "trainer/tensor/safetensors.h"

#include <stdio.h>
#include <string.h>

static const struct {
    enum tr_optim_what what;
    const char *name;
} states[] = {{TR_OPTIM_MASTER, "master"}, {TR_OPTIM_M, "exp_avg"}, {TR_OPTIM_V, "exp_avg_sq"}};

/* Fills items for all three states; flat holds 3 * padded elements, one state after the other. */
static enum fr_rc make_items(const struct tr_params *p, const float *flat, struct fr_arena *arena,
                             struct tr_st_item **out, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    if ((*out = fr_arena_array(arena, p->n * 2 * RESUME_STATES, sizeof(**out))) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %zu adapters", p->n);
    for (size_t s = 0; rc == FR_OK && s < RESUME_STATES; s++)
        rc = tr_adapter_items(p, flat + (int64_t)s * p->padded, states[s].name, arena,
                              *out + s * 2 * p->n, err);
    return rc;
}

static enum fr_rc write_tensors(const struct tr_resume *r, const struct tr_optim *o,
                                const char *dir, char sha[FR_SHA256_TEXT], struct fr_err *err)
{
    struct fr_arena arena = {0};
    struct tr_st_item *items;
    char path[PATH_MAX + 32];
    enum fr_rc rc = make_items(&o->params, r->flat, &arena, &items, err);

    snprintf(path, sizeof(path), "%s/state.safetensors", dir);
    if (rc == FR_OK)
        rc = fr_mkdirs(dir, 0700, err);
    if (rc == FR_OK)
        rc = tr_st_write(path, items, o->params.n * 2 * RESUME_STATES, NULL, 0, err);
    if (rc == FR_OK)
        rc = fr_sha256_file(path, sha, err);
    fr_arena_finish(&arena);
    return rc;
}

static enum fr_rc write_state(const struct tr_resume *r, const struct tr_optim *o,
                              const struct tr_progress *p, struct fr_err *err)
{
    char tmp[PATH_MAX], sha[FR_SHA256_TEXT];
    enum fr_rc rc = resume_begin(r, p->step, err);

    resume_dir(r, p->step, ".tmp-", tmp);
    if (rc == FR_OK)
        rc = write_tensors(r, o, tmp, sha, err);
    if (rc == FR_OK)
        rc = resume_publish(r, o, p, "sha256", json_string(sha), err);
    if (rc != FR_OK) {
        fr_remove_tree(tmp, NULL);
        return fr_while(err, "writing resume state of step %lld", (long long)p->step);
    }
    return FR_OK;
}

/* Where state s lies in host memory: ranks that only pass it on have room for one. */
static float *room(const struct tr_resume *r, const struct tr_optim *o, size_t s)
{
    return r->flat + (int64_t)(s % r->flat_states) * o->params.padded;
}

static enum fr_rc save_whole(const struct tr_resume *r, struct tr_optim *o,
                             const struct tr_progress *p, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;
    double failed;

    for (size_t s = 0; s < RESUME_STATES && rc == FR_OK; s++)
        rc = tr_optim_whole(o, states[s].what, room(r, o, s), err);
    if (rc != FR_OK)
        return rc;
    if (tr_resume_writes(r, o->world))
        rc = write_state(r, o, p, err);
    failed = rc != FR_OK;
    enum fr_rc summed = tr_comm_host_sum(o->world, &failed, 1, rc == FR_OK ? err : NULL);
    if (rc == FR_OK && summed == FR_OK && failed > 0)
        return fr_fail(err, FR_PEER, "another node could not write its resume state");
    return rc != FR_OK ? rc : summed;
}

enum fr_rc tr_resume_save(struct tr_resume *r, struct tr_optim *o, const struct tr_progress *p,
                          struct fr_err *err)
{
    enum fr_rc rc = o->grads == NULL      ? save_whole(r, o, p, err)
                    : r->whole != p->step ? resume_parts_save(r, o, p, err)
                                          : FR_OK;

    if (rc == FR_OK)
        r->whole = p->step;
    return rc;
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

    resume_dir(r, step, "", dir);
    snprintf(path, sizeof(path), "%s/state.safetensors", dir);
    rc = fr_sha256_file(path, sha, err);
    if (rc == FR_OK && (want == NULL || strcmp(want, sha) != 0))
        rc = fr_fail(err, FR_CORRUPT, "%s does not match its checksum", path);
    if (rc == FR_OK)
        rc = tr_st_open(path, &st, err);
    if (rc == FR_OK)
        rc = make_items(p, r->flat, &arena, &items, err);
    for (size_t i = 0; rc == FR_OK && i < p->n * 2 * RESUME_STATES; i++) {
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

/* *step = the newest <= limit that this node holds whole (its JSON and tensors read); RESUME_NONE
 * or RESUME_ALL_DAMAGED when there is none. Damaged ones are logged and skipped; one of another run
 * is FR_USAGE. */
static enum fr_rc newest_here(struct resume_search *h, json_t **root, int64_t *step,
                              struct fr_err *err)
{
    int64_t steps[RESUME_STEPS_MAX];
    size_t n = resume_steps(h->r->output_dir, steps, RESUME_STEPS_MAX);
    struct fr_err why;

    *step = RESUME_NONE;
    for (size_t i = 0; i < n; i++) {
        if (steps[i] > h->limit)
            continue;
        enum fr_rc rc = resume_read_json(h->r, steps[i], root, &why);
        if (rc == FR_OK && (rc = resume_same_run(h->r, h->o, *root, &why)) == FR_USAGE)
            return fr_fail(err, rc, "%s", why.msg);
        if (rc == FR_OK)
            rc = read_tensors(h->r, &h->o->params, steps[i], *root, &why);
        if (rc == FR_OK) {
            *step = steps[i];
            return FR_OK;
        }
        json_decref(*root);
        *root = NULL;
        *step = RESUME_ALL_DAMAGED;
        fr_buf_fmt(&h->damaged, "%s%s", h->damaged.n > 0 ? "; " : ": ", why.msg);
        fr_log(FR_LOG_WARN, "resume", "state of step %lld is not usable: %s", (long long)steps[i],
               why.msg);
    }
    return FR_OK;
}

/* Agrees on the newest state of any node, held by *root_rank; else RESUME_ALL_DAMAGED if a node
 * reports it. */
static enum fr_rc agree(struct tr_optim *o, int64_t mine, int64_t *step, int *root_rank,
                        struct fr_err *err)
{
    int64_t *all = fr_sys.alloc((size_t)o->comm->size * sizeof(*all));
    enum fr_rc rc = all == NULL ? fr_fail(err, FR_NOMEM, "no memory")
                                : tr_comm_host_all_gather(o->world, all, &mine, sizeof(mine), err);

    *step = RESUME_NONE;
    *root_rank = 0;
    for (int r = 0; rc == FR_OK && r < o->comm->size; r++)
        if ((all[r] > *step && all[r] >= 0) ||
            (*step == RESUME_NONE && all[r] == RESUME_ALL_DAMAGED)) {
            *step = all[r];
            *root_rank = r;
        }
    fr_sys.free(all);
    return rc;
}

/* All ranks report the same text about damaged states, so the order of reports does not matter. */
static enum fr_rc share_damaged(struct resume_search *h, int root_rank, struct fr_err *err)
{
    char why[600];
    enum fr_rc rc;

    (void)snprintf(why, sizeof(why), "%s", h->damaged.n > 0 ? h->damaged.p : "");
    if ((rc = tr_comm_host_broadcast(h->o->world, why, sizeof(why), root_rank, err)) != FR_OK)
        return rc;
    h->damaged.n = 0;
    fr_buf_text(&h->damaged, why);
    return FR_OK;
}

/* A state that some node holds whole; the other arguments are those of resume_parts_find. */
static enum fr_rc find_whole(struct resume_search *h, int64_t *step, json_t **root, int *root_rank,
                             struct fr_err *err)
{
    int64_t mine = RESUME_NONE;
    enum fr_rc rc = FR_OK;

    if (h->o->world->local_rank == 0)
        rc = newest_here(h, root, &mine, err);
    if (rc == FR_OK)
        rc = agree(h->o, mine, step, root_rank, err);
    if (rc == FR_OK && *step == RESUME_ALL_DAMAGED)
        rc = share_damaged(h, *root_rank, err);
    if (rc == FR_OK && *step >= 0)
        rc = resume_share_json(h->o, *root_rank, root, err);
    return rc == FR_OK && *step >= 0 ? resume_same_run(h->r, h->o, *root, err) : rc;
}

static enum fr_rc take_whole(const struct tr_resume *r, struct tr_optim *o, int root_rank,
                             struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (size_t s = 0; s < RESUME_STATES && rc == FR_OK; s++) {
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
    char hint[2 * PATH_MAX + 128] = "", model[PATH_MAX];

    (void)snprintf(model, sizeof(model), "%s/checkpoint-%lld", r->output_dir, (long long)want);
    if (before >= 0)
        (void)snprintf(hint, sizeof(hint), "; the newest before it is of step %lld",
                       (long long)before);
    else if (tr_folder_has_weights(model))
        (void)snprintf(hint, sizeof(hint),
                       "; %s holds weights alone: --model_name_or_path %s without "
                       "--resume_from_checkpoint begins with them",
                       model, model);
    return fr_fail(err, FR_USAGE, "no node holds a whole resume state of step %lld in %s/resume%s",
                   (long long)want, r->output_dir, hint);
}

/* Refuses what was found if it is not what is wanted; want < 0: any state. */
static enum fr_rc check_found(const struct resume_search *h, const char *from, int64_t want,
                              int64_t step, struct fr_err *err)
{
    const char *dir = h->r->output_dir;

    if (step == RESUME_ALL_DAMAGED && want < 0)
        return fr_fail(err, FR_CORRUPT,
                       "no resume state in %s/resume can be used%s; put whole ones there, or begin "
                       "anew by --overwrite_output_dir without --resume_from_checkpoint",
                       dir, h->damaged.p);
    if (step < 0 && want < 0 && strcmp(from, "last") != 0)
        return fr_fail(err, FR_USAGE,
                       "--resume_from_checkpoint %s: there is no resume state in %s/resume; take "
                       "last to start from the beginning where there is none",
                       from, dir);
    return want >= 0 && step != want ? none_of_step(h->r, want, step, err) : FR_OK;
}

enum fr_rc tr_resume_load(struct tr_resume *run, const char *from, struct tr_optim *o,
                          struct tr_progress *p, bool *found, struct fr_err *err)
{
    struct tr_resume there = *run;
    struct resume_search h = {.r = &there, .o = o};
    struct resume_parts *parts = NULL;
    char folder[PATH_MAX];
    int64_t want, step = RESUME_NONE;
    int root_rank = 0;
    json_t *root = NULL;
    enum fr_rc rc = wanted_step(from, &want, err);

    *found = false;
    if (rc != FR_OK)
        return rc;
    if (want >= 0 && folder_of(from, folder))
        there.output_dir = folder;
    h.limit = want >= 0 ? want : INT64_MAX;
    memset(there.flat, 0, (size_t)o->params.padded * there.flat_states * sizeof(float));
    rc = o->grads != NULL ? resume_parts_find(&h, &step, &root, &parts, err)
                          : find_whole(&h, &step, &root, &root_rank, err);
    if (rc == FR_OK)
        rc = check_found(&h, from, want, step, err);
    if (rc == FR_OK && step >= 0) {
        rc = resume_read_progress(&there, root, o, p, err);
        if (rc == FR_OK)
            rc = parts != NULL ? resume_parts_take(parts, o, err)
                               : take_whole(&there, o, root_rank, err);
        *found = rc == FR_OK;
        if (rc == FR_OK && there.output_dir == run->output_dir)
            run->whole = step;
    }
    resume_parts_destroy(parts);
    json_decref(root);
    fr_buf_finish(&h.damaged);
    return rc;
}
