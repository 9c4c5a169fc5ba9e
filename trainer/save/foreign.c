#include "trainer/save/foreign.h"

#include "engine/base/json.h"
#include "engine/base/sys.h"
#include "trainer/config/arch.h"
#include "trainer/config/folder.h"
#include "trainer/foreign/left.h"
#include "trainer/save/resume_private.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 1 << 20 /* elements read at once */, STATE_MAX = 1 << 28 };

/* A checkpoint that is being read, by one rank. */
struct going {
    const struct tr_foreign_run *run;
    struct tr_optim *o;
    struct tr_left left;
    struct tr_st *st; /* owns: of the Trainer: its weights */
    struct wanted {
        struct tr_model_tensor t;
        size_t at; /* in the order of the forward pass */
    } * wanted;    /* owns: what trains, in the order of named_parameters() */
    struct tr_left_want *wants;
    size_t n, cap;
    struct fr_arena arena;
};

/* ---- what trains here ---- */

/* Modules of a layer in the order in which their classes in transformers make them. */
static int64_t place_in_layer(const struct tr_model_tensor *t)
{
    if (t->role != TR_ROLE_NORM)
        return t->kind < TR_LIN_ATTENTION ? 0 : 2;
    return t->norm == TR_NORM_ATTENTION ? 3 : t->norm == TR_NORM_FFN ? 4 : 1;
}

static int64_t place(const struct tr_model_tensor *t)
{
    if (t->layer >= 0)
        return 8 * t->layer + place_in_layer(t);
    return t->role == TR_ROLE_EMBED ? -1 : INT64_MAX - (t->role == TR_ROLE_NORM);
}

static int by_place(const void *a, const void *b)
{
    const struct wanted *x = a, *y = b;
    int64_t p = place(&x->t), q = place(&y->t);

    return p != q ? (p < q ? -1 : 1) : x->at < y->at ? -1 : x->at > y->at;
}

static enum fr_rc add(void *arg, const struct tr_model_tensor *t, struct fr_err *err)
{
    struct going *g = arg;
    void *grown;

    if (!tr_trained_has(g->run->trained, t))
        return FR_OK;
    if ((grown = fr_grow(g->wanted, g->n + 1, &g->cap, sizeof(*g->wanted))) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %zu parameters", g->n);
    g->wanted = grown;
    g->wanted[g->n] = (struct wanted){*t, g->n};
    g->n++;
    return FR_OK;
}

static enum fr_rc list_wanted(struct going *g, struct fr_err *err)
{
    enum fr_rc rc = tr_model_tensors(g->run->config, add, g, err);

    if (rc != FR_OK)
        return rc;
    if ((g->wants = fr_arena_array(&g->arena, g->n + 1, sizeof(*g->wants))) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %zu parameters", g->n);
    if (g->n > 0)
        qsort(g->wanted, g->n, sizeof(*g->wanted), by_place);
    for (size_t i = 0; i < g->n; i++) {
        const struct tr_model_tensor *t = &g->wanted[i].t;

        g->wants[i] = (struct tr_left_want){.name = t->name,
                                            .ndim = t->ndim,
                                            .shape = {t->shape[0], t->shape[1]},
                                            .decays = tr_optim_decays(t->name)};
    }
    return FR_OK;
}

/* ---- whether this run can take it ---- */

static enum fr_rc check_kind(const struct going *g, struct fr_err *err)
{
    const struct tr_optim *o = g->o;
    const struct tr_model_config *c = g->run->config;
    const char *dir = g->run->from->dir;
    bool experts = tr_model_moe_count(c) > 0 || tr_arch_of(c)->attention != TR_ATTENTION_gqa;

    if (o->grads == NULL || o->params.n > 0)
        return fr_fail(err, FR_USAGE,
                       "%s is a checkpoint of another trainer, from which runs of "
                       "--finetuning_type full and freeze go on. Adapters begin with their "
                       "weights: --adapter_name_or_path %s --overwrite_output_dir, without "
                       "--resume_from_checkpoint",
                       dir, dir);
    if (tr_grads_block(o->grads) > 0 || tr_grads_muon(o->grads))
        return fr_fail(err, FR_UNSUPPORTED,
                       "%s has f32 moments of AdamW, this run keeps %s: give --optim adamw_torch "
                       "as there, or begin with its weights alone",
                       dir, tr_grads_muon(o->grads) ? "Muon's momentum" : "moments of 8 bits");
    if (g->run->from->kind == TR_FOREIGN_TRAINER && experts)
        return fr_fail(err, FR_UNSUPPORTED,
                       "%s/optimizer.pt numbers its parameters, whose order is known of dense "
                       "models of Llama's family: begin with its weights alone, "
                       "--model_name_or_path %s without --resume_from_checkpoint",
                       dir, dir);
    return FR_OK;
}

/* What a model computes; the Trainer sets its special tokens by those of the tokenizer, and what
 * the weights decide is compared with them. */
static enum fr_rc check_config(const struct going *g, struct fr_err *err)
{
    const struct tr_model_config *c = g->run->config;
    const char *dir = g->run->from->dir;
    char path[PATH_MAX + 16];
    struct tr_model_config there;
    struct stat st;
    enum fr_rc rc;

    (void)snprintf(path, sizeof(path), "%s/config.json", dir);
    if (g->run->from->kind == TR_FOREIGN_DEEPSPEED && fr_sys.lstat(path, &st) != 0)
        return FR_OK;
    if ((rc = tr_model_config_load(dir, &there, err)) != FR_OK)
        return rc;
    there.torch_dtype = c->torch_dtype;
    there.tie_word_embeddings = c->tie_word_embeddings;
    there.bos_token_id = c->bos_token_id;
    there.eos_token_id = c->eos_token_id;
    there.initializer_range = c->initializer_range;
    return memcmp(&there, c, sizeof(there)) == 0
               ? FR_OK
               : fr_fail(err, FR_USAGE,
                         "%s describes another model than --model_name_or_path %s: give the model "
                         "that the training began with",
                         path, g->run->model_dir);
}

static enum fr_rc open_weights(struct going *g, struct fr_err *err)
{
    const char *dir = g->run->from->dir;
    enum fr_rc rc;

    if (!tr_folder_has_weights(dir))
        return fr_fail(err, FR_USAGE,
                       "%s has optimizer.pt, but no model.safetensors: it is of a run with "
                       "adapters, or its weights are pickled; such states are not taken over",
                       dir);
    rc = tr_st_open_folder(dir, false, NULL, &g->st, err);
    return rc == FR_OK ? tr_folder_names(g->run->config, g->st, NULL, err) : rc;
}

static bool same(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fabs(b);
}

/* The arguments that the optimizer's groups say as well. */
static enum fr_rc check_groups(const struct going *g, struct fr_err *err)
{
    const struct tr_adam_group *first = &g->left.groups[0];
    double decay = NAN;

    for (size_t i = 0; i < g->left.n_groups; i++)
        decay = fmax(decay, g->left.groups[i].weight_decay);
    const struct {
        const char *flag;
        double there, here;
    } rows[] = {{"adam_beta1", first->beta1, g->o->beta1},
                {"adam_beta2", first->beta2, g->o->beta2},
                {"adam_epsilon", first->eps, g->o->eps},
                {"weight_decay", decay, g->o->weight_decay},
                {"learning_rate", first->initial_lr, g->run->peak_lr}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (!isnan(rows[i].there) && !isnan(rows[i].here) && !same(rows[i].there, rows[i].here))
            return fr_fail(err, FR_USAGE,
                           "--%s is %.12g in %s, %.12g here: give what the training began with, "
                           "or begin anew with its weights, without --resume_from_checkpoint",
                           rows[i].flag, rows[i].there, g->run->from->dir, rows[i].here);
    return FR_OK;
}

/* What remains of a state that cannot be taken over. */
static enum fr_rc advise(const struct going *g, enum fr_rc rc, struct fr_err *err)
{
    const struct fr_err why = *err;
    const char *dir = g->run->from->dir;

    if (rc != FR_UNSUPPORTED)
        return rc;
    if (g->run->from->kind == TR_FOREIGN_DEEPSPEED)
        return fr_fail(err, rc,
                       "%s; its weights alone become a model by flowtrain convert "
                       "--from-deepspeed %s --to FOLDER",
                       why.msg, dir);
    return fr_fail(err, rc,
                   "%s; --model_name_or_path %s without --resume_from_checkpoint begins with its "
                   "weights alone",
                   why.msg, dir);
}

static enum fr_rc open_left(struct going *g, struct fr_err *err)
{
    struct tr_left_opts opts = {.dir = g->run->from->dir};
    enum fr_rc rc = check_kind(g, err);

    if (rc == FR_OK)
        rc = check_config(g, err);
    if (rc == FR_OK)
        rc = list_wanted(g, err);
    if (rc == FR_OK && g->run->from->kind == TR_FOREIGN_TRAINER)
        rc = open_weights(g, err);
    if (rc != FR_OK)
        return rc;
    opts.wants = g->wants;
    opts.n = g->n;
    opts.st = g->st;
    rc = g->run->from->kind == TR_FOREIGN_TRAINER ? tr_left_open_trainer(&opts, &g->left, err)
                                                  : tr_left_open_deepspeed(&opts, &g->left, err);
    return rc == FR_OK ? check_groups(g, err) : advise(g, rc, err);
}

/* ---- progress ---- */

/* trainer_state.json: FR_NOTFOUND where DeepSpeed was called without the Trainer. */
static enum fr_rc read_state(const struct going *g, struct tr_progress *p, double *epoch,
                             struct fr_err *err)
{
    char path[PATH_MAX + 24];
    json_t *root = NULL, *history;
    enum fr_rc rc;

    (void)snprintf(path, sizeof(path), "%s/trainer_state.json", g->run->from->dir);
    if ((rc = fr_json_load(path, STATE_MAX, &root, err)) != FR_OK)
        return rc;
    history = json_object_get(root, "log_history");
    p->step = json_integer_value(json_object_get(root, "global_step"));
    if (!json_is_integer(json_object_get(root, "global_step")) || p->step < 0 ||
        !json_is_array(history)) {
        rc = fr_fail(err, FR_CORRUPT, "%s has no global_step and log_history", path);
    } else {
        json_decref(p->history);
        p->history = json_incref(history);
        *epoch = json_is_number(json_object_get(root, "epoch"))
                     ? json_number_value(json_object_get(root, "epoch"))
                     : NAN;
        if (json_is_integer(json_object_get(root, "best_global_step"))) {
            p->best_step = json_integer_value(json_object_get(root, "best_global_step"));
            p->best_metric = json_number_value(json_object_get(root, "best_metric"));
        }
    }
    json_decref(root);
    return rc;
}

static enum fr_rc read_progress(struct going *g, struct tr_progress *p,
                                struct tr_foreign_said *said, struct fr_err *err)
{
    bool deepspeed = g->run->from->kind == TR_FOREIGN_DEEPSPEED;
    struct fr_err why = {0};
    enum fr_rc rc = read_state(g, p, &said->epoch, &why);

    if (rc == FR_NOTFOUND && deepspeed && g->left.step >= 0)
        p->step = g->left.step;
    else if (rc != FR_OK)
        return fr_fail(err, rc, "%s", why.msg);
    p->updates = g->o->steps = g->left.updates;
    rc = tr_left_schedule(g->run->from->dir, &p->updates, &why);
    if (rc != FR_OK && rc != FR_NOTFOUND)
        return fr_fail(err, rc, "%s", why.msg);
    p->empty = p->step; /* their losses are in no sum of this run */
    said->lr = g->left.groups[0].lr;
    (void)snprintf(said->what, sizeof(said->what), "%s", g->left.what);
    for (size_t i = 0; i < g->n; i++) {
        double decay = g->left.params[i].group->weight_decay;

        said->other_decay +=
            !isnan(decay) && !same(decay, g->wants[i].decays ? g->o->weight_decay : 0);
    }
    return FR_OK;
}

/* ---- states ---- */

static enum fr_rc take_range(struct going *g, const struct tr_grads_range *r, float *host,
                             struct fr_err *err)
{
    static const enum tr_optim_what whats[] = {TR_OPTIM_MASTER, TR_OPTIM_M, TR_OPTIM_V};
    const struct tr_left_param *p = tr_left_find(&g->left, r->name);
    enum fr_rc rc = FR_OK;

    if (p == NULL)
        return fr_fail(err, FR_CORRUPT, "%s has no %s", g->run->from->dir, r->name);
    for (int s = 0; s < TR_LEFT_STATES; s++)
        for (int64_t done = 0, n; done < r->n && rc == FR_OK; done += n) {
            n = r->n - done < PIECE ? r->n - done : PIECE;
            struct tr_optim_part part = {whats[s], r->at + done, n};

            rc = tr_left_read(&g->left, p, (enum tr_left_state)s, (int64_t[]){r->first + done, n},
                              host, err);
            if (rc == FR_OK)
                rc = tr_optim_write(g->o, &part, tr_view1(host, TR_F32, n), err);
        }
    return rc;
}

static enum fr_rc take(struct going *g, struct fr_err *err)
{
    float *host = fr_sys.alloc((size_t)PIECE * sizeof(*host));
    const struct tr_grads_range *r;
    enum fr_rc rc = FR_OK;
    size_t n;

    if (host == NULL)
        return fr_fail(err, FR_NOMEM, "no memory to read %s", g->run->from->dir);
    r = tr_optim_ranges(g->o, &n);
    for (size_t i = 0; i < n && rc == FR_OK; i++)
        rc = take_range(g, &r[i], host, err);
    fr_sys.free(host);
    return rc;
}

/* Each rank reads for itself: with several nodes the folder has to be on each. */
static enum fr_rc agree(const struct going *g, struct fr_err *mine, struct fr_err *err)
{
    struct fr_err first;
    enum fr_rc rc;

    if (mine->rc != FR_OK && g->o->world->nodes > 1)
        resume_name_host(mine);
    rc = tr_comm_host_first_error(g->o->world, mine, &first, err);
    return rc != FR_OK || first.rc == FR_OK
               ? rc
               : fr_fail(err, first.rc, "--resume_from_checkpoint: %s", first.msg);
}

enum fr_rc tr_foreign_load(const struct tr_foreign_run *run, struct tr_optim *o,
                           struct tr_progress *p, struct tr_foreign_said *out, struct fr_err *err)
{
    struct going g = {.run = run, .o = o};
    struct fr_err mine = {0};
    enum fr_rc rc;

    *out = (struct tr_foreign_said){.lr = NAN, .epoch = NAN};
    mine.rc = open_left(&g, &mine);
    if (mine.rc == FR_OK)
        mine.rc = read_progress(&g, p, out, &mine);
    rc = agree(&g, &mine, err);
    if (rc == FR_OK) {
        mine.rc = take(&g, &mine);
        rc = agree(&g, &mine, err);
    }
    tr_left_close(&g.left);
    tr_st_close(g.st);
    fr_sys.free(g.wanted);
    fr_arena_finish(&g.arena);
    return rc == FR_OK ? tr_optim_round(o, err) : rc;
}
