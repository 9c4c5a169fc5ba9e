#include "trainer/save/export_model.h"

#include "engine/base/arena.h"
#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/sys.h"
#include "trainer/save/export.h"
#include "trainer/save/model_files.h"
#include "trainer/save/quantize.h"

#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DONE = -1, NONE = -2 };

/* Rank 0 writes files and asks the other ranks for one part of the weights after the other. */
struct writing {
    const struct tr_export_model *o;
    struct tr_grads *grads;
    const struct tr_grads_piece *pieces;
    size_t n;
    struct trained *trained; /* by name */
    size_t tensors;
    struct brought {
        char *bytes; /* owns */
        int part;
    } norms, last; /* norms lie between the tensors of every layer */
};

/* A trained tensor: its pieces. */
struct trained {
    struct writing *w;
    const char *name;
    size_t first, n;
};

static enum tr_dtype saved_type(const struct writing *w)
{
    return w->o->masters != NULL ? TR_F32 : w->o->type;
}

static enum fr_rc read_masters(void *self, int64_t at, int64_t n, void *to, struct fr_err *err)
{
    return tr_optim_read(self, &(struct tr_optim_part){TR_OPTIM_MASTER, at, n}, to, err);
}

static enum fr_rc take(struct writing *w, int part, char *host, struct fr_err *err)
{
    struct tr_queue *q = tr_model_queue(w->o->model);
    struct tr_grads_states s = {part, read_masters, w->o->masters, (float *)(void *)host};

    return w->o->masters != NULL ? tr_grads_whole_states(w->grads, q, &s, err)
                                 : tr_grads_whole(w->grads, q, part, host, err);
}

static enum fr_rc ask(struct writing *w, int part, char *host, struct fr_err *err)
{
    int32_t number = part;
    enum fr_rc rc = tr_comm_host_broadcast(w->o->world, &number, sizeof(number), 0, err);

    if (rc != FR_OK || number == DONE)
        return rc;
    return take(w, number, host, err);
}

static size_t part_bytes(const struct writing *w, int part)
{
    return tr_grads_part_bytes(w->grads, part) / tr_dtype_bytes(w->o->type) *
           tr_dtype_bytes(saved_type(w));
}

static enum fr_rc bring(struct writing *w, struct brought *b, int part, struct fr_err *err)
{
    if (b->part == part)
        return FR_OK;
    fr_sys.free(b->bytes);
    b->part = NONE;
    if ((b->bytes = fr_sys.alloc(part_bytes(w, part))) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a part of the weights");
    b->part = part;
    return ask(w, part, b->bytes, err);
}

static bool is_small(const struct writing *w, int part)
{
    return part_bytes(w, part) <= 1 << 24;
}

static enum fr_rc fill_trained(void *arg, const struct tr_st_item *item, int64_t at, void *dst,
                               size_t n, struct fr_err *err)
{
    const struct trained *t = arg;
    int64_t size = (int64_t)tr_dtype_bytes(saved_type(t->w)), end = at + (int64_t)n;
    enum fr_rc rc = FR_OK;

    for (size_t i = t->first; i < t->first + t->n && rc == FR_OK; i++) {
        const struct tr_grads_piece *p = &t->w->pieces[i];
        struct brought *b = is_small(t->w, p->part) ? &t->w->norms : &t->w->last;
        int64_t first = p->first * size, last = first + p->n * size;
        int64_t from = at > first ? at : first, to = end < last ? end : last;

        if (from >= to)
            continue;
        if ((rc = bring(t->w, b, p->part, err)) == FR_OK)
            memcpy((char *)dst + (from - at), b->bytes + p->at * size + (from - first),
                   (size_t)(to - from));
    }
    if (rc == FR_OK)
        rc = tr_model_files_finite(tr_view1(dst, saved_type(t->w), (int64_t)n / size), item->name,
                                   err);
    return rc;
}

static int by_name(const void *a, const void *b)
{
    const struct trained *x = a, *y = b;

    return strcmp(x->name, y->name);
}

/* Pieces of one tensor follow each other. */
static enum fr_rc index_pieces(struct writing *w, struct fr_arena *arena, struct fr_err *err)
{
    struct trained *t;

    if ((w->trained = fr_arena_array(arena, w->n + 1, sizeof(*w->trained))) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %zu tensors", w->n);
    for (size_t i = 0; i < w->n; i += t->n) {
        t = &w->trained[w->tensors++];
        *t = (struct trained){.w = w, .name = w->pieces[i].name, .first = i};
        while (i + t->n < w->n && strcmp(w->pieces[i + t->n].name, t->name) == 0)
            t->n++;
    }
    qsort(w->trained, w->tensors, sizeof(*w->trained), by_name);
    return FR_OK;
}

static bool set_trained(void *self, struct tr_st_item *item)
{
    const struct writing *w = self;
    const struct trained want = {.name = item->name};
    struct trained *found = bsearch(&want, w->trained, w->tensors, sizeof(want), by_name);

    if (found == NULL)
        return false;
    item->fill = fill_trained;
    item->arg = found;
    return true;
}

static enum fr_rc write_weights(struct writing *w, const char *dir, struct fr_err *err)
{
    struct tr_model_files files = {.st = w->o->st,
                                   .type = saved_type(w),
                                   .shard_bytes = w->o->shard_bytes,
                                   .tied = w->o->tied,
                                   .trained = set_trained,
                                   .self = w};
    struct fr_arena arena = {0};
    enum fr_rc rc = index_pieces(w, &arena, err);

    if (rc == FR_OK)
        rc = tr_model_files_write(dir, &files, err);
    fr_arena_finish(&arena);
    return rc;
}

enum fr_rc tr_export_model_type(const char *dir, enum tr_dtype type, struct fr_err *err)
{
    const char *name = type == TR_BF16 ? "bfloat16" : type == TR_F16 ? "float16" : "float32";
    const char *key = "dtype", *old;
    char path[PATH_MAX];
    json_t *config = NULL;
    enum fr_rc rc;

    snprintf(path, sizeof(path), "%s/config.json", dir);
    if ((rc = fr_json_load(path, 1 << 24, &config, err)) != FR_OK)
        return rc;
    if (json_object_get(config, key) == NULL)
        key = "torch_dtype";
    old = json_string_value(json_object_get(config, key));
    if (old == NULL || strcmp(old, name) != 0) {
        json_object_set_new(config, key, json_string(name));
        rc = fr_json_save(config, path, JSON_INDENT(2), 0644, err);
    }
    json_decref(config);
    return rc;
}

static enum fr_rc write_folder(struct writing *w, const char *dir, struct fr_err *err)
{
    enum fr_rc rc = fr_mkdirs(dir, 0755, err);

    if (rc == FR_OK)
        rc = write_weights(w, dir, err);
    if (rc == FR_OK)
        rc = tr_copy_companions(w->o->args->model_name_or_path, dir, err);
    if (rc == FR_OK)
        rc = tr_export_model_type(dir, saved_type(w), err);
    return rc == FR_OK ? tr_export_args(dir, w->o->args, err) : rc;
}

/* The other ranks: parts of the weights as rank 0 asks. */
static enum fr_rc serve(struct writing *w, struct fr_err *err)
{
    int32_t part;
    enum fr_rc rc;

    while ((rc = tr_comm_host_broadcast(w->o->world, &part, sizeof(part), 0, err)) == FR_OK &&
           part != DONE)
        if ((rc = take(w, part, NULL, err)) != FR_OK)
            break;
    return rc;
}

enum fr_rc tr_export_model(const char *dir, const struct tr_export_model *o, struct fr_err *err)
{
    struct writing w = {
        .o = o, .grads = tr_model_grads(o->model), .norms = {.part = NONE}, .last = {.part = NONE}};
    struct fr_err result = {0};
    enum fr_rc rc = FR_OK, sent;

    w.pieces = tr_grads_pieces(w.grads, &w.n);
    if (o->world->rank == 0) {
        rc = write_folder(&w, dir, &result);
        result.rc = rc;
        sent = ask(&w, DONE, NULL, err);
    } else {
        sent = serve(&w, err);
    }
    fr_sys.free(w.norms.bytes);
    fr_sys.free(w.last.bytes);
    if (sent == FR_OK)
        sent = tr_comm_host_broadcast(o->world, &result, sizeof(result), 0, err);
    if (sent != FR_OK)
        return sent;
    if (result.rc != FR_OK)
        return fr_fail(err, result.rc, "saving the model to %s: %s", dir, result.msg);
    return FR_OK;
}

/* ---- into the output folder ---- */

static const char index_name[] = "model.safetensors.index.json";

static bool is_weights(const char *name)
{
    size_t n = strlen(name), end = sizeof(".safetensors") - 1;

    /* transformers would put an adapter that was there on the model */
    return strcmp(name, index_name) == 0 || strcmp(name, "adapter_config.json") == 0 ||
           ((strncmp(name, "model", 5) == 0 || strncmp(name, "adapter_model", 13) == 0) &&
            n > end && strcmp(name + n - end, ".safetensors") == 0);
}

enum move { REMOVE_INDEX, REMOVE_WEIGHTS, MOVE, MOVE_INDEX };

static enum fr_rc each(enum move move, const char *from, const char *to, struct fr_err *err)
{
    const char *dir = move == REMOVE_INDEX || move == REMOVE_WEIGHTS ? to : from;
    char **names = NULL, a[PATH_MAX], b[PATH_MAX];
    enum fr_rc rc = FR_OK;
    size_t n = 0;

    if (fr_sys.list(dir, &names, &n) != 0)
        return fr_fail(err, FR_IO, "cannot read the folder %s", dir);
    for (size_t i = 0; i < n && rc == FR_OK; i++) {
        bool index = strcmp(names[i], index_name) == 0;

        snprintf(a, sizeof(a), "%s/%s", dir, names[i]);
        snprintf(b, sizeof(b), "%s/%s", to, names[i]);
        if (move == REMOVE_INDEX ? index : move == REMOVE_WEIGHTS && is_weights(names[i])) {
            if (fr_sys.unlink(b) != 0)
                rc = fr_fail(err, FR_IO, "cannot remove %s", b);
        } else if ((move == MOVE && !index) || (move == MOVE_INDEX && index)) {
            if (fr_sys.rename(a, b) != 0)
                rc = fr_fail(err, FR_IO, "cannot rename %s to %s", a, b);
        }
    }
    fr_sys_names_free(names, n);
    return rc == FR_OK ? fr_sync_dir(to, err) : rc;
}

enum fr_rc tr_export_model_move(const char *dir, const char *output_dir, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (int m = REMOVE_INDEX; m <= MOVE_INDEX && rc == FR_OK; m++)
        rc = each(m, dir, output_dir, err);
    return rc == FR_OK ? fr_remove_tree(dir, err) : rc;
}

enum fr_rc tr_export_model_clear(const char *output_dir, struct fr_err *err)
{
    enum fr_rc rc = each(REMOVE_INDEX, NULL, output_dir, err);

    return rc == FR_OK ? each(REMOVE_WEIGHTS, NULL, output_dir, err) : rc;
}
