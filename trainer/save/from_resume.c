#include "trainer/save/from_resume.h"

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/sys.h"
#include "trainer/config/arch.h"
#include "trainer/config/folder.h"
#include "trainer/save/export.h"
#include "trainer/save/export_model.h"
#include "trainer/save/identity.h"
#include "trainer/save/model_files.h"
#include "trainer/save/quantize.h"
#include "trainer/save/resume_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 4096, JSON_MOST = 64 << 20 };

/* Elements [first, first+n) of a tensor's master, in a part. */
struct piece {
    const char *name;
    int64_t first, n;
    const struct tr_st *st;
    const struct tr_st_tensor *tensor;
    struct source *source; /* of a tensor's first piece */
};

struct writing {
    const struct tr_from_resume *o;
    struct tr_from_resume_done *done;
    struct fr_arena arena;
    const char *above;  /* the folder that the states' folder lies in */
    char dir[PATH_MAX]; /* of the state */
    int64_t step;
    json_t *state, *args; /* state.json; training_args.json, NULL: none */
    struct tr_st **parts; /* owns */
    size_t nparts;
    struct piece *pieces; /* by name, then first */
    size_t npieces;
    struct tr_model_config config;
    struct tr_st *st; /* the base */
    struct source {   /* a tensor of the base that is trained */
        struct writing *w;
        const struct piece *first;
        size_t n;
        int64_t elements;
    } * sources;
    size_t nsources;
    enum tr_dtype type; /* of the files */
    int64_t rows;       /* of embedding and head, where --resize_vocab added some; 0: the base's */
};

/* ---- which state ---- */

/* The step of a folder's name; -1: it is none of a state. */
static int64_t step_of(const char *name)
{
    int64_t step;

    return fr_has_prefix(name, "step-") && fr_parse_i64(fr_str_of(name + 5), &step, NULL) == FR_OK
               ? step
               : -1;
}

static int64_t newest_in(const char *dir)
{
    char **names = NULL;
    int64_t newest = -1;
    size_t n = 0;

    if (fr_sys.list(dir, &names, &n) != 0)
        return -1;
    for (size_t i = 0; i < n; i++)
        newest = step_of(names[i]) > newest ? step_of(names[i]) : newest;
    fr_sys_names_free(names, n);
    return newest;
}

/* path without its last name; "." of a name alone. */
static const char *above_of(struct fr_arena *arena, const char *path)
{
    const char *slash = strrchr(path, '/');

    if (slash == NULL)
        return ".";
    return fr_arena_text(arena, path, slash == path ? 1 : (size_t)(slash - path));
}

static enum fr_rc choose_state(struct writing *w, struct fr_err *err)
{
    size_t n = strlen(w->o->from);
    char real[PATH_MAX];
    const char *states;
    char *from;

    while (n > 1 && w->o->from[n - 1] == '/')
        n--;
    if ((from = fr_arena_text(&w->arena, w->o->from, n)) == NULL || n >= PATH_MAX - 64)
        return fr_fail(err, FR_USAGE, "--from: the folder's name is too long");
    w->step = step_of(strrchr(from, '/') != NULL ? strrchr(from, '/') + 1 : from);
    states = w->step >= 0 ? above_of(&w->arena, from) : from;
    if (w->step < 0)
        w->step = newest_in(from);
    if (w->step < 0)
        return fr_fail(err, FR_NOTFOUND,
                       "--from %s: no step-N folder of a resume state is there; expected "
                       "OUTPUT_DIR/resume, or a step-N in it",
                       from);
    (void)snprintf(w->dir, sizeof(w->dir), "%s/step-%lld", states, (long long)w->step);
    if (strchr(states, '/') == NULL && realpath(states, real) != NULL)
        states = fr_arena_dup(&w->arena, real);
    w->above = states != NULL ? above_of(&w->arena, states) : NULL;
    return w->above != NULL ? FR_OK : fr_fail(err, FR_NOMEM, "no memory for a folder's name");
}

/* ---- its parts ---- */

static enum fr_rc open_part(struct writing *w, int k, const json_t *list, struct fr_err *err)
{
    const char *want, *host;
    char path[PATH_MAX], sha[FR_SHA256_TEXT];
    json_int_t bytes;
    struct stat st;

    resume_part_path(w->dir, k, (int)json_array_size(list), path);
    if (json_unpack(json_array_get(list, (size_t)k), "{s:I, s:s, s:s}", "bytes", &bytes, "sha256",
                    &want, "host", &host) != 0)
        return fr_fail(err, FR_CORRUPT, "%s/state.json: part %d is not described", w->dir, k);
    if (fr_sys.lstat(path, &st) != 0)
        return fr_fail(err, FR_NOTFOUND,
                       "%s, which %s wrote, is not here: copy all parts of the state into one "
                       "folder",
                       path, host);
    if (st.st_size != bytes)
        return fr_fail(err, FR_CORRUPT, "%s has not the %lld bytes that were written", path,
                       (long long)bytes);
    if (fr_sha256_file(path, sha, err) != FR_OK)
        return err->rc;
    if (strcmp(sha, want) != 0)
        return fr_fail(err, FR_CORRUPT, "%s does not match its checksum", path);
    return tr_st_open(path, &w->parts[k], err);
}

static enum fr_rc of_lora(const struct writing *w, struct fr_err *err)
{
    return fr_fail(err, FR_USAGE,
                   "%s is of a LoRA run: its adapter is in the output folder and in checkpoint-N",
                   w->dir);
}

static enum fr_rc open_parts(struct writing *w, struct fr_err *err)
{
    const json_t *list = json_object_get(w->state, "parts");
    enum fr_rc rc = FR_OK;

    if (json_array_size(list) == 0)
        return of_lora(w, err);
    w->nparts = json_array_size(list);
    w->parts = fr_arena_array(&w->arena, w->nparts, sizeof(struct tr_st *));
    if (w->parts == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %zu parts", w->nparts);
    for (size_t k = 0; k < w->nparts; k++)
        w->parts[k] = NULL;
    for (size_t k = 0; k < w->nparts && rc == FR_OK; k++)
        rc = open_part(w, (int)k, list, err);
    return rc;
}

static int by_place(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    int order = strcmp(x->name, y->name);

    return order != 0 ? order : x->first < y->first ? -1 : x->first > y->first;
}

/* Those of "master:NAME@FIRST". */
static enum fr_rc add_pieces(struct writing *w, const struct tr_st *st, struct fr_err *err)
{
    static const char prefix[] = "master:";

    for (size_t i = 0; i < tr_st_count(st); i++) {
        const struct tr_st_tensor *t = tr_st_at(st, i);
        const char *end = strrchr(t->name, '@'), *name = t->name + sizeof(prefix) - 1;
        struct piece *p = &w->pieces[w->npieces];

        if (!fr_has_prefix(t->name, prefix))
            continue;
        *p = (struct piece){.n = t->elements, .st = st, .tensor = t};
        if (end == NULL || t->type != TR_ST_F32 ||
            fr_parse_i64(fr_str_of(end + 1), &p->first, NULL) != FR_OK)
            return fr_fail(err, FR_CORRUPT, "%s: %s is no part of a state", w->dir, t->name);
        if ((p->name = fr_arena_text(&w->arena, name, (size_t)(end - name))) == NULL)
            return fr_fail(err, FR_NOMEM, "no memory for tensors");
        w->npieces++;
    }
    return FR_OK;
}

static enum fr_rc list_pieces(struct writing *w, struct fr_err *err)
{
    size_t n = 0;
    enum fr_rc rc = FR_OK;

    for (size_t k = 0; k < w->nparts; k++)
        n += tr_st_count(w->parts[k]);
    if ((w->pieces = fr_arena_array(&w->arena, n + 1, sizeof(*w->pieces))) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %zu tensors", n);
    for (size_t k = 0; k < w->nparts && rc == FR_OK; k++)
        rc = add_pieces(w, w->parts[k], err);
    if (rc == FR_OK && w->npieces > 0)
        qsort(w->pieces, w->npieces, sizeof(*w->pieces), by_place);
    return rc;
}

/* ---- its base ---- */

static const char *arg_text(const struct writing *w, const char *key)
{
    return json_string_value(json_object_get(w->args, key));
}

static enum fr_rc read_words(struct writing *w, struct fr_err *err)
{
    char *path = fr_arena_fmt(&w->arena, "%s/state.json", w->dir);
    const char *text;
    enum fr_rc rc;

    if (path == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a file's name");
    if ((rc = resume_load_json(path, &w->state, err)) != FR_OK)
        return rc;
    if ((path = fr_arena_fmt(&w->arena, "%s/training_args.json", w->above)) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a file's name");
    rc = fr_json_load(path, JSON_MOST, &w->args, err);
    if (rc != FR_OK && rc != FR_NOTFOUND)
        return rc;
    text = w->o->model_dir != NULL ? w->o->model_dir : arg_text(w, "model_name_or_path");
    if (text == NULL)
        return fr_fail(err, FR_USAGE, "%s is not there to name the base: give --model_name_or_path",
                       path);
    (void)snprintf(w->done->model_dir, sizeof(w->done->model_dir), "%s", text);
    text = w->o->out_dir != NULL ? w->o->out_dir : w->above;
    (void)snprintf(w->done->out_dir, sizeof(w->done->out_dir), "%s", text);
    text = arg_text(w, "template");
    (void)snprintf(w->done->template_name, sizeof(w->done->template_name), "%s",
                   text != NULL ? text : "");
    return FR_OK;
}

/* Where the flags that the state was made with have this line, or what it begins with. */
static const char *flag_line(const struct writing *w, const char *line)
{
    const json_t *digests = json_object_get(w->state, "digests");
    const char *text = json_string_value(json_object_get(digests, "config"));

    return text != NULL ? strstr(text, line) : NULL;
}

static enum fr_rc choose_type(struct writing *w, struct fr_err *err)
{
    const char *precision = flag_line(w, "\nprecision=");
    const char *save = w->o->save_dtype != NULL ? w->o->save_dtype : arg_text(w, "save_dtype");

    if (precision == NULL)
        return fr_fail(err, FR_CORRUPT, "%s/state.json does not say the type of the run", w->dir);
    w->type = fr_has_prefix(precision + 11, "bf16")   ? TR_BF16
              : fr_has_prefix(precision + 11, "fp16") ? TR_F16
                                                      : TR_F32;
    if (save != NULL && strcmp(save, "float32") == 0)
        w->type = TR_F32;
    return FR_OK;
}

static enum fr_rc open_base(struct writing *w, struct fr_err *err)
{
    const struct tr_folder f = {.dir = w->done->model_dir};
    const json_t *digests = json_object_get(w->state, "digests");
    const char *want = json_string_value(json_object_get(digests, "model"));
    char digest[TR_IDENTITY_DIGEST];
    enum fr_rc rc;

    if (tr_folder_same(w->done->model_dir, w->done->out_dir))
        return fr_fail(err, FR_USAGE, "--output %s is the base itself: give another folder",
                       w->done->out_dir);
    if ((rc = tr_folder_load(&f, &w->config, &w->st, err)) != FR_OK)
        return rc;
    if ((rc = tr_identity_model(w->o->self, &w->config, w->st, digest, err)) != FR_OK)
        return rc;
    if (want == NULL || strcmp(want, digest) != 0)
        return fr_fail(err, FR_USAGE,
                       "%s is not the model that %s was trained from: give that one with "
                       "--model_name_or_path",
                       w->done->model_dir, w->dir);
    return FR_OK;
}

/* ---- its weights ---- */

static struct piece *find(const struct writing *w, const char *name)
{
    size_t low = 0, high = w->npieces;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (strcmp(w->pieces[mid].name, name) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low < w->npieces && strcmp(w->pieces[low].name, name) == 0 ? &w->pieces[low] : NULL;
}

/* Whether --resize_vocab adds rows to a tensor. */
static bool is_end(const struct writing *w, const char *name)
{
    const struct tr_tensor_names *names = tr_names_of(&w->config);

    return strcmp(name, names->embed) == 0 ||
           (strcmp(name, names->head) == 0 && !w->config.tie_word_embeddings);
}

/* A tensor with more elements than the base has: embedding and head get as many rows. */
static enum fr_rc take_rows(struct writing *w, const struct tr_st_tensor *t, int64_t elements,
                            struct fr_err *err)
{
    int64_t rows = t->ndim == 2 ? elements / t->shape[1] : 0;

    if (flag_line(w, "\n--resize_vocab=1\n") == NULL || !is_end(w, t->name) ||
        rows * t->shape[1] != elements || (w->rows > 0 && rows != w->rows))
        return fr_fail(err, FR_CORRUPT, "%s has %lld elements of %s, %s has %lld", w->dir,
                       (long long)elements, t->name, w->done->model_dir, (long long)t->elements);
    w->rows = rows;
    return FR_OK;
}

/* With --resize_vocab rows of what did not train are in no state, nor whether there are any. */
static enum fr_rc check_rows(const struct writing *w, struct fr_err *err)
{
    if (flag_line(w, "\n--resize_vocab=1\n") == NULL)
        return FR_OK;
    for (size_t i = 0; i < tr_st_count(w->st); i++) {
        const struct tr_st_tensor *t = tr_st_at(w->st, i);
        const struct piece *p = is_end(w, t->name) ? find(w, t->name) : NULL;

        if (is_end(w, t->name) && p == NULL)
            return fr_fail(err, FR_UNSUPPORTED,
                           "%s is of a run with --resize_vocab, in which %s did not train: its new "
                           "rows are in no state; take the model that the training saved",
                           w->dir, t->name);
        if (p != NULL && w->rows > 0 && p->source->elements == t->elements)
            return fr_fail(err, FR_CORRUPT, "%s has new rows, but none of %s", w->dir, t->name);
    }
    return FR_OK;
}

/* Pieces of every trained tensor follow each other and are all of it; none is left over. */
static enum fr_rc list_sources(struct writing *w, struct fr_err *err)
{
    size_t n = tr_st_count(w->st), used = 0;

    if ((w->sources = fr_arena_array(&w->arena, n + 1, sizeof(*w->sources))) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %zu tensors", n);
    for (size_t i = 0; i < n; i++) {
        const struct tr_st_tensor *t = tr_st_at(w->st, i);
        struct piece *p = find(w, t->name), *end = w->pieces + w->npieces;
        struct source *s = &w->sources[w->nsources];
        int64_t at = 0;

        if (p == NULL)
            continue;
        *s = (struct source){.w = w, .first = p};
        p->source = s;
        for (; p < end && strcmp(p->name, t->name) == 0 && p->first == at; p++, s->n++)
            at += p->n;
        s->elements = at;
        if (at > t->elements && take_rows(w, t, at, err) != FR_OK)
            return err->rc;
        if (at < t->elements)
            return fr_fail(err, FR_CORRUPT, "%s lacks %s from element %lld on", w->dir, t->name,
                           (long long)at);
        used += s->n;
        w->nsources++;
    }
    for (size_t i = 0; used != w->npieces && i < w->npieces; i++)
        if (strstr(w->pieces[i].name, ".lora_") != NULL)
            return of_lora(w, err);
        else if (tr_st_find(w->st, w->pieces[i].name) == NULL)
            return fr_fail(err, FR_CORRUPT, "%s has %s, which %s lacks", w->dir, w->pieces[i].name,
                           w->done->model_dir);
    if (used != w->npieces)
        return fr_fail(err, FR_CORRUPT, "%s has a tensor twice", w->dir);
    return check_rows(w, err);
}

static enum fr_rc fill(void *arg, const struct tr_st_item *item, int64_t at, void *dst, size_t n,
                       struct fr_err *err)
{
    const struct source *s = arg;
    enum tr_dtype type = s->w->type;
    int64_t size = (int64_t)tr_dtype_bytes(type), begin = at / size,
            end = begin + (int64_t)n / size;
    float raw[PIECE];
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; i < s->n && rc == FR_OK; i++) {
        const struct piece *p = &s->first[i];
        int64_t from = begin > p->first ? begin : p->first;
        int64_t to = end < p->first + p->n ? end : p->first + p->n;

        for (int64_t k = from, m; k < to && rc == FR_OK; k += m) {
            m = to - k < PIECE ? to - k : PIECE;
            rc = tr_st_read(p->st, p->tensor, (k - p->first) * 4, raw, (size_t)m * 4, err);
            if (rc == FR_OK)
                tr_view_copy(tr_view1((char *)dst + (k - begin) * size, type, m),
                             tr_view1(raw, TR_F32, m));
        }
    }
    if (rc == FR_OK)
        rc = tr_model_files_finite(tr_view1(dst, type, (int64_t)n / size), item->name, err);
    return rc;
}

static bool set_trained(void *self, struct tr_st_item *item)
{
    struct writing *w = self;
    const struct piece *p = find(w, item->name);

    if (p == NULL)
        return false;
    if (is_end(w, item->name) && w->rows > 0)
        item->shape[0] = w->rows;
    item->fill = fill;
    item->arg = p->source;
    return true;
}

/* All of it is written to a folder inside of the output folder, and then moved there. */
static enum fr_rc write_folder(struct writing *w, struct fr_err *err)
{
    char *temp = fr_arena_fmt(&w->arena, "%s/" TR_EXPORT_TMP "model", w->done->out_dir);
    const json_t *size = json_object_get(w->args, "max_shard_size");
    struct tr_model_files files = {.st = w->st,
                                   .type = w->type,
                                   .shard_bytes = w->o->shard_bytes,
                                   .tied = w->config.tie_word_embeddings,
                                   .trained = set_trained,
                                   .self = w};
    enum fr_rc rc;

    if (files.shard_bytes == 0)
        files.shard_bytes =
            json_integer_value(size) > 0 ? json_integer_value(size) : TR_SHARD_BYTES;
    if (temp == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a folder's name");
    if ((rc = fr_remove_tree(temp, err)) != FR_OK || (rc = fr_mkdirs(temp, 0755, err)) != FR_OK)
        return rc;
    rc = tr_model_files_write(temp, &files, err);
    if (rc == FR_OK)
        rc = tr_copy_companions(w->done->model_dir, temp, err);
    if (rc == FR_OK)
        rc = tr_export_model_type(temp, w->type, err);
    if (rc == FR_OK && w->rows > 0)
        rc = tr_export_config(temp, "vocab_size", json_integer(w->rows), err);
    if (rc == FR_OK)
        rc = tr_export_model_move(temp, w->done->out_dir, err);
    if (rc != FR_OK)
        (void)fr_remove_tree(temp, NULL);
    return rc;
}

enum fr_rc tr_from_resume(const struct tr_from_resume *o, struct tr_from_resume_done *done,
                          struct fr_buf *said, struct fr_err *err)
{
    struct writing w = {.o = o, .done = done};
    enum fr_rc rc = choose_state(&w, err);

    if (rc == FR_OK)
        rc = read_words(&w, err);
    if (rc == FR_OK)
        rc = open_parts(&w, err);
    if (rc == FR_OK)
        rc = list_pieces(&w, err);
    if (rc == FR_OK)
        rc = choose_type(&w, err);
    if (rc == FR_OK)
        rc = open_base(&w, err);
    if (rc == FR_OK)
        rc = list_sources(&w, err);
    if (rc == FR_OK)
        rc = write_folder(&w, err);
    if (rc == FR_OK)
        fr_buf_fmt(said, "wrote the model of step %lld, %zu trained tensors of %zu, to %s in %s\n",
                   (long long)w.step, w.nsources, tr_st_count(w.st), done->out_dir,
                   w.type == TR_F32   ? "float32"
                   : w.type == TR_F16 ? "float16"
                                      : "bfloat16");
    for (size_t k = 0; w.parts != NULL && k < w.nparts; k++)
        tr_st_close(w.parts[k]);
    tr_st_close(w.st);
    json_decref(w.state);
    json_decref(w.args);
    fr_arena_finish(&w.arena);
    return rc;
}
