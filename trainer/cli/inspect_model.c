#include "trainer/cli/inspect.h"

#include "engine/base/sys.h"
#include "trainer/config/folder.h"
#include "trainer/text/text.h"
#include "trainer/tokenizer/tokenizer.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { PIECE_BYTES = 1 << 20 };

static bool all_zero(struct tr_view v)
{
    for (int64_t i = 0; i < tr_view_count(v); i++)
        if (tr_get(v, i) != 0)
            return false;
    return true;
}

enum fr_rc tr_inspect_finite(const struct tr_st *st, const struct tr_st_tensor *t, bool *zero,
                             struct fr_err *err)
{
    enum tr_dtype dtype;
    char *piece;
    enum fr_rc rc = FR_OK;

    if (tr_st_dtype(t->type, &dtype, NULL) != FR_OK)
        return FR_OK;
    if ((piece = fr_sys.alloc(PIECE_BYTES)) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory to read tensor '%s'", t->name);
    for (int64_t at = 0; rc == FR_OK && at < t->bytes; at += PIECE_BYTES) {
        size_t n = t->bytes - at < PIECE_BYTES ? (size_t)(t->bytes - at) : PIECE_BYTES;
        struct tr_view v = tr_view1(piece, dtype, (int64_t)(n / tr_dtype_bytes(dtype)));

        if ((rc = tr_st_read(st, t, at, piece, n, err)) != FR_OK)
            break;
        *zero = *zero && all_zero(v);
        if (!tr_view_finite(v))
            rc = fr_fail(err, FR_CORRUPT, "tensor '%s' holds a number that is not finite", t->name);
    }
    fr_sys.free(piece);
    return rc;
}

static enum fr_rc put_counts(const struct tr_model_config *c, json_t *out, struct fr_err *err)
{
    struct tr_model_counts n;

    tr_model_count(c, &n);
    const struct {
        const char *key;
        int64_t value;
    } rows[] = {
        {"parameters", n.total},
        {"activated", n.activated},
        {"layers", c->num_hidden_layers},
        {"attention_layer", n.attention_layer},
        {"attention_norms", n.attention_norms},
        {"dense_ffn", n.dense_ffn},
        {"expert", n.expert},
        {"shared_expert", n.shared_expert},
        {"router", n.router},
        {"router_bias", n.router_bias},
        {"dense_layer", n.dense_layer},
        {"moe_layer", n.moe_layer},
        {"embedding", n.embedding},
        {"head", n.head},
        {"mtp_unique", n.mtp_unique},
        {"on_disk", n.disk},
        {"on_disk_scales", n.disk_scales},
        {"on_disk_bytes", n.disk_bytes},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (json_object_set_new(out, rows[i].key, json_integer(rows[i].value)) != 0)
            return fr_fail(err, FR_NOMEM, "no memory for the counts");
    return FR_OK;
}

struct check {
    const struct tr_st *st;
    const struct tr_model_config *c;
    int64_t checked;
};

static enum fr_rc check_tensor(void *arg, const struct tr_model_tensor *want, struct fr_err *err)
{
    struct check *k = arg;
    const struct tr_st_tensor *t = tr_st_find(k->st, want->name);
    char scale[TR_NAME_MAX + 16];
    bool zero = true;
    enum fr_rc rc;

    if (t == NULL)
        return fr_fail(err, FR_CORRUPT, "tensor '%s' is missing", want->name);
    if ((rc = tr_st_want_shape(t, want->ndim, want->shape, err)) != FR_OK ||
        (rc = tr_inspect_finite(k->st, t, &zero, err)) != FR_OK)
        return rc;
    k->checked++;
    if (t->type != TR_ST_F8_E4M3)
        return FR_OK;
    (void)snprintf(scale, sizeof(scale), "%s_scale_inv", want->name);
    if ((t = tr_st_find(k->st, scale)) == NULL)
        return fr_fail(err, FR_CORRUPT, "tensor '%s' is missing", scale);
    return tr_inspect_finite(k->st, t, &zero, err);
}

/* Takes value. */
static enum fr_rc put(json_t *out, const char *key, json_t *value, struct fr_err *err)
{
    return json_object_set_new(out, key, value) == 0
               ? FR_OK
               : fr_fail(err, FR_NOMEM, "no memory for what is found");
}

static enum fr_rc put_files(const struct tr_st *st, const struct tr_model_config *c, bool verify,
                            json_t *out, struct fr_err *err)
{
    struct check k = {.c = c, .st = st};
    int64_t bytes = 0;
    enum fr_rc rc;

    for (size_t i = 0; i < tr_st_count(st); i++)
        bytes += tr_st_at(st, i)->bytes;
    if ((rc = put(out, "files", json_integer((json_int_t)tr_st_files(st)), err)) != FR_OK ||
        (rc = put(out, "tensors", json_integer((json_int_t)tr_st_count(st)), err)) != FR_OK ||
        (rc = put(out, "tensor_bytes", json_integer(bytes), err)) != FR_OK || !verify)
        return rc;
    rc = tr_model_tensors(c, check_tensor, &k, err);
    return rc == FR_OK ? put(out, "verified", json_integer(k.checked), err) : rc;
}

/* Adds the disagreements of the tokenizer's files after those of the model, or the reason why it
 * cannot be read. */
static enum fr_rc put_tokenizer(const char *path, json_t *out, struct fr_err *err)
{
    struct tr_tokenizer *t = NULL;
    struct fr_err why = {0};
    enum fr_rc rc = tr_tokenizer_load(path, &t, &why);
    json_t *rows;

    if (rc == FR_NOTFOUND)
        return FR_OK;
    if (rc != FR_OK)
        return put(out, "tokenizer", json_string(why.msg), err);
    rows = tr_twice_list(tr_tokenizer_twice(t));
    rc = rows != NULL && json_array_extend(json_object_get(out, "said_twice"), rows) == 0
             ? put(out, "tokens", json_integer(tr_tokenizer_size(t)), err)
             : fr_fail(err, FR_NOMEM, "no memory for what is found");
    json_decref(rows);
    tr_tokenizer_destroy(t);
    return rc;
}

enum fr_rc tr_inspect_model(const char *path, bool verify, json_t *out, struct fr_err *err)
{
    const struct tr_folder f = {.dir = path};
    bool is_file = tr_ends(path, ".json");
    struct tr_model_said said = {.values = NULL};
    struct tr_model_config c;
    struct tr_st *st = NULL;
    /* a config.json alone is counted, not checked */
    enum fr_rc rc = !is_file && (verify || tr_folder_has_weights(path))
                        ? tr_folder_read(&f, &c, &st, &said, err)
                        : tr_model_config_read(path, &c, &said, err);

    if (rc == FR_OK && (rc = put_counts(&c, out, err)) == FR_OK &&
        (rc = put(out, "config", json_incref(said.values), err)) == FR_OK)
        rc = put(out, "said_twice", tr_twice_list(&said.twice), err);
    if (rc == FR_OK && !is_file)
        rc = put_tokenizer(path, out, err);
    if (rc == FR_OK && st != NULL)
        rc = put_files(st, &c, verify, out, err);
    tr_st_close(st);
    tr_model_said_finish(&said);
    return rc;
}
