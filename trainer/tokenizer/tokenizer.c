#include "trainer/tokenizer/tok.h"

#include "engine/base/json.h"
#include "engine/base/sys.h"
#include "trainer/text/text.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MAX_BYTES = 256 << 20, IDS_MAX = 1 << 24 };

void tr_ids_finish(struct tr_ids *ids)
{
    fr_sys.free(ids->v);
    *ids = (struct tr_ids){NULL, 0, 0};
}

enum fr_rc tr_ids_add(struct tr_ids *ids, const int32_t *v, size_t n, struct fr_err *err)
{
    if (n == 0)
        return FR_OK;
    void *p = fr_grow(ids->v, ids->n + n, &ids->cap, sizeof(ids->v[0]));
    if (p == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %zu token ids", ids->n + n);
    ids->v = p;
    memcpy(ids->v + ids->n, v, n * sizeof(v[0]));
    ids->n += n;
    return FR_OK;
}

static enum fr_rc no_memory(struct fr_err *err)
{
    return fr_fail(err, FR_NOMEM, "no memory for the tokenizer");
}

/* The largest id of the vocab, checked, and room for added tokens after it. */
static enum fr_rc find_size(struct tr_tokenizer *t, const json_t *vocab,
                            const struct tr_tok_files *f, struct fr_err *err)
{
    const json_t *added = json_object_get(f->root, "added_tokens");
    size_t more = json_array_size(added) + tr_tok_config_tokens(f) + TR_TOK_SPARE + 1, room;
    const char *key;
    json_t *v;
    size_t i;

    json_object_foreach((json_t *)vocab, key, v)
    {
        if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) >= IDS_MAX)
            return fr_fail(err, FR_USAGE, "vocab: the id of '%s' is no number of a vocabulary",
                           key);
        if (json_integer_value(v) >= t->size)
            t->size = (int32_t)json_integer_value(v) + 1;
    }
    json_array_foreach((json_t *)added, i, v)
    {
        const json_t *id = json_object_get(v, "id");
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= IDS_MAX)
            return fr_fail(err, FR_USAGE, "added_tokens: entry %zu has no id", i);
    }
    room = (size_t)t->size + more;
    t->nvocab = (int32_t)json_object_size(vocab);
    t->tokens = fr_arena_array(&t->arena, room, sizeof(t->tokens[0]));
    t->special = fr_arena_array(&t->arena, room, sizeof(t->special[0]));
    t->added = fr_arena_array(&t->arena, more, sizeof(t->added[0]));
    if (t->tokens == NULL || t->special == NULL || t->added == NULL ||
        !tr_tok_map_init(&t->vocab, &t->arena, json_object_size(vocab) + 1) ||
        !tr_tok_map_init(&t->added_at, &t->arena, more))
        return no_memory(err);
    return FR_OK;
}

static enum fr_rc read_vocab(struct tr_tokenizer *t, const json_t *vocab, struct fr_err *err)
{
    for (void *it = json_object_iter((json_t *)vocab); it != NULL;
         it = json_object_iter_next((json_t *)vocab, it)) {
        struct fr_str key = fr_json_key(it);
        int32_t id = (int32_t)json_integer_value(json_object_iter_value(it));
        key.p = fr_arena_text(&t->arena, key.p, key.n);
        if (key.p == NULL)
            return no_memory(err);
        tr_tok_map_put(&t->vocab, key, id);
        t->tokens[id] = t->chars ? key : tr_tok_bytes_of(&t->arena, key);
        if (t->tokens[id].p == NULL)
            t->tokens[id] = key;
    }
    for (int b = 0; b < 256 && !t->chars; b++) {
        char text[2];
        int n = tr_tok_byte_char((uint8_t)b, text);
        t->bytes[b] = tr_tok_map_get(&t->vocab, (struct fr_str){text, (size_t)n});
    }
    return FR_OK;
}

/* How characters that are no token are written, in a vocabulary of characters. */
static enum fr_rc read_unknown(struct tr_tokenizer *t, const json_t *model, struct fr_err *err)
{
    bool bytes = json_is_true(json_object_get(model, "byte_fallback"));
    const json_t *unk = json_object_get(model, "unk_token");

    t->unk = -1;
    t->fuse_unk = json_is_true(json_object_get(model, "fuse_unk"));
    for (int b = 0; b < 256; b++) {
        char text[8];

        (void)snprintf(text, sizeof(text), "<0x%02X>", (unsigned)b);
        t->bytes[b] = bytes ? tr_tok_map_get(&t->vocab, fr_str_of(text)) : -1;
    }
    if (!json_is_string(unk))
        return FR_OK;
    t->unk =
        tr_tok_map_get(&t->vocab, (struct fr_str){json_string_value(unk), json_string_length(unk)});
    return t->unk >= 0 ? FR_OK
                       : fr_fail(err, FR_USAGE, "unk_token '%s' is no token of the vocab",
                                 json_string_value(unk));
}

static void put_merge(struct tr_tokenizer *t, int32_t a, int32_t b, int32_t rank, int32_t id)
{
    uint64_t pair = (uint64_t)(uint32_t)a << 32 | (uint32_t)b, *old;
    uint64_t merge = (uint64_t)(uint32_t)rank << 32 | (uint32_t)id;
    size_t at = 0;

    if ((old = fr_map_next(&t->merges, pair, &at)) != NULL)
        *old = merge; /* a repeated pair: the later rank wins */
    else
        (void)fr_map_add(&t->merges, pair, merge); /* read_merges made room */
}

/* The two sides of one entry: "A B" or ["A", "B"]. */
static bool merge_sides(const json_t *v, struct fr_str *a, struct fr_str *b)
{
    if (json_is_array(v) && json_array_size(v) == 2) {
        const json_t *x = json_array_get(v, 0), *y = json_array_get(v, 1);
        *a = (struct fr_str){json_string_value(x), json_string_length(x)};
        *b = (struct fr_str){json_string_value(y), json_string_length(y)};
        return a->p != NULL && b->p != NULL;
    }
    const char *text = json_string_value(v), *blank = text != NULL ? strchr(text, ' ') : NULL;
    if (blank == NULL || strchr(blank + 1, ' ') != NULL)
        return false;
    *a = (struct fr_str){text, (size_t)(blank - text)};
    *b = fr_str_of(blank + 1);
    return true;
}

static enum fr_rc read_merges(struct tr_tokenizer *t, const json_t *merges, struct fr_err *err)
{
    struct fr_buf both = {0};
    int32_t rank = 0;
    enum fr_rc rc = FR_OK;
    json_t *v;
    size_t i;

    if (!fr_map_reserve(&t->merges, json_array_size(merges)))
        return no_memory(err);
    json_array_foreach((json_t *)merges, i, v)
    {
        struct fr_str a, b;
        if (json_is_string(v) && fr_has_prefix(json_string_value(v), "#version"))
            continue;
        if (!merge_sides(v, &a, &b)) {
            rc = fr_fail(err, FR_USAGE, "merges: entry %zu is not two tokens", i);
            break;
        }
        both.n = 0;
        fr_buf_add(&both, a.p, a.n);
        fr_buf_add(&both, b.p, b.n);
        int32_t ia = tr_tok_map_get(&t->vocab, a), ib = tr_tok_map_get(&t->vocab, b);
        int32_t id = both.bad ? -1 : tr_tok_map_get(&t->vocab, (struct fr_str){both.p, both.n});
        if (ia < 0 || ib < 0 || id < 0) {
            rc = fr_fail(err, FR_USAGE, "merges: entry %zu names a token outside the vocab", i);
            break;
        }
        put_merge(t, ia, ib, rank++, id);
    }
    fr_buf_finish(&both);
    return rc;
}

static enum fr_rc read_model(struct tr_tokenizer *t, const struct tr_tok_files *f,
                             struct fr_err *err)
{
    static const char *const empty[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    const json_t *model = json_object_get(f->root, "model");
    const json_t *vocab = json_object_get(model, "vocab");
    const json_t *merges = json_object_get(model, "merges");
    const char *type = json_string_value(json_object_get(model, "type"));
    enum fr_rc rc;

    if (type != NULL && strcmp(type, "BPE") != 0)
        return fr_fail(err, FR_UNSUPPORTED, "model type '%s': only BPE is done", type);
    if (!json_is_object(vocab) || !json_is_array(merges))
        return fr_fail(err, FR_USAGE, "the model has no vocab or no merges");
    for (size_t i = 0; i < 2; i++) {
        const char *text = json_string_value(json_object_get(model, empty[i]));
        if (text != NULL && *text != '\0')
            return fr_fail(err, FR_UNSUPPORTED, "%s '%s' is not done", empty[i], text);
    }
    if (json_number_value(json_object_get(model, "dropout")) != 0)
        return fr_fail(err, FR_UNSUPPORTED, "BPE dropout is not done");
    t->ignore_merges = json_is_true(json_object_get(model, "ignore_merges"));
    t->chars = tr_tok_is_chars(json_object_get(f->root, "pre_tokenizer"));
    if ((rc = find_size(t, vocab, f, err)) != FR_OK || (rc = read_vocab(t, vocab, err)) != FR_OK ||
        (t->chars && (rc = read_unknown(t, model, err)) != FR_OK))
        return rc;
    return read_merges(t, merges, err);
}

/* The id that a special token has in tokenizer_config.json: text, or an object with content. */
static int32_t named(const struct tr_tokenizer *t, const json_t *config, const char *key)
{
    const json_t *v = json_object_get(config, key);

    if (json_is_object(v))
        v = json_object_get(v, "content");
    if (!json_is_string(v))
        return -1;
    return tr_tok_id(t, (struct fr_str){json_string_value(v), json_string_length(v)});
}

/* Reads and parses one file; its bytes go after those in all. */
static enum fr_rc parse(const char *path, struct fr_buf *all, json_t **root, struct fr_err *err)
{
    size_t start = all->n;
    enum fr_rc rc = fr_file_read(path, FILE_MAX_BYTES, all, err);

    return rc == FR_OK
               ? fr_json_parse((struct fr_str){all->p + start, all->n - start}, path, root, err)
               : rc;
}

/* A file beside tokenizer.json, where there is one. */
static enum fr_rc parse_beside(const char *path, const char *name, struct fr_buf *all,
                               json_t **root, struct fr_err *err)
{
    const char *slash = strrchr(path, '/');
    char other[PATH_MAX];
    struct stat st;

    if (snprintf(other, sizeof(other), "%.*s%s", slash != NULL ? (int)(slash + 1 - path) : 0, path,
                 name) >= PATH_MAX ||
        fr_sys.lstat(other, &st) != 0)
        return FR_OK;
    return parse(other, all, root, err);
}

/* tokenizer.json and what is beside it, in one form. all gets the bytes that determine ids; other
 * files and the class are added if they change something. */
static enum fr_rc parse_files(const char *path, struct fr_buf *all, struct tr_tok_files *f,
                              struct tr_twice *twice, struct fr_err *err)
{
    struct fr_buf more = {0}, config = {0};
    struct stat st;
    enum fr_rc rc;

    if (fr_sys.lstat(path, &st) != 0 && errno == ENOENT)
        return fr_fail(err, FR_NOTFOUND,
                       "%s does not exist: a tokenizer.model alone is not read, save_pretrained() "
                       "of transformers' AutoTokenizer writes a tokenizer.json",
                       path);
    if ((rc = parse(path, all, &f->root, err)) == FR_OK &&
        (rc = parse_beside(path, "tokenizer_config.json", all, &f->config, err)) == FR_OK &&
        (rc = parse_beside(path, "special_tokens_map.json", &more, &f->map, err)) == FR_OK &&
        (rc = parse_beside(path, "added_tokens.json", &more, &f->added, err)) == FR_OK &&
        (rc = parse_beside(path, "config.json", &config, &f->model, err)) == FR_OK)
        rc = tr_tok_settle(f, twice, err);
    if (f->merged)
        fr_buf_add(all, more.p, more.n);
    if (f->rebuilt != NULL)
        fr_buf_text(all, f->rebuilt);
    fr_buf_finish(&more);
    fr_buf_finish(&config);
    return rc;
}

static enum fr_rc read_files(struct tr_tokenizer *t, const struct tr_tok_files *f,
                             struct fr_err *err)
{
    const char *version = json_string_value(json_object_get(f->root, "version"));
    enum fr_rc rc = FR_OK;

    if (version == NULL || strcmp(version, "1.0") != 0)
        rc = fr_fail(err, FR_USAGE, "version is '%s', expected '1.0'", version ? version : "");
    if (rc == FR_OK)
        rc = read_model(t, f, err);
    if (rc == FR_OK)
        rc = tr_tok_read_normalizer(t, json_object_get(f->root, "normalizer"), err);
    if (rc == FR_OK)
        rc = tr_tok_read_steps(t, json_object_get(f->root, "pre_tokenizer"), err);
    if (rc == FR_OK)
        rc = tr_tok_read_decoder(t, json_object_get(f->root, "decoder"), err);
    if (rc == FR_OK)
        rc = tr_tok_read_added(t, f, err);
    t->bos = named(t, f->config, "bos_token");
    t->eos = named(t, f->config, "eos_token");
    t->pad = named(t, f->config, "pad_token");
    return rc;
}

enum fr_rc tr_tokenizer_load(const char *path, struct tr_tokenizer **out, struct fr_err *err)
{
    struct tr_tokenizer *t = fr_sys.alloc(sizeof(*t));
    bool is_file = tr_ends(path, ".json");
    struct fr_buf all = {0};
    struct tr_tok_files f = {NULL};
    char file[PATH_MAX];
    enum fr_rc rc;

    *out = NULL;
    if (t == NULL)
        return no_memory(err);
    *t = (struct tr_tokenizer){.spare = TR_TOK_SPARE};
    if (snprintf(file, sizeof(file), is_file ? "%s" : "%s/tokenizer.json", path) >= PATH_MAX)
        rc = fr_fail(err, FR_USAGE, "folder name too long: %s", path);
    else
        rc = parse_files(file, &all, &f, &t->twice, err);
    if (rc == FR_OK && (rc = read_files(t, &f, err)) != FR_OK)
        fr_while(err, "%s", file);
    t->foreign = f.foreign;
    tr_tok_files_finish(&f);
    if (rc == FR_OK) {
        fr_sha256(all.p, all.n, t->digest);
        *out = t;
    } else
        tr_tokenizer_destroy(t);
    fr_buf_finish(&all);
    return rc;
}

void tr_tokenizer_destroy(struct tr_tokenizer *t)
{
    if (t == NULL)
        return;
    for (int i = 0; i < t->nsteps; i++)
        pcre2_code_free(t->steps[i].re);
    fr_map_finish(&t->vocab.places);
    fr_map_finish(&t->added_at.places);
    fr_map_finish(&t->merges);
    fr_sys.free(t->raw.nodes);
    fr_sys.free(t->normal.nodes);
    tr_twice_finish(&t->twice);
    fr_arena_finish(&t->arena);
    fr_sys.free(t);
}

const struct tr_twice *tr_tokenizer_twice(const struct tr_tokenizer *t)
{
    return &t->twice;
}

void tr_tokenizer_notes(const struct tr_tokenizer *t, struct fr_buf *lines)
{
    tr_twice_notes(&t->twice, lines);
    if (t->foreign != NULL)
        fr_buf_fmt(lines,
                   "tokenizer_class %s: transformers puts a pipeline of the class's own in place "
                   "of tokenizer.json's, which is read here: ids may differ\n",
                   t->foreign);
}

int32_t tr_tokenizer_bos(const struct tr_tokenizer *t)
{
    return t->bos;
}

int32_t tr_tokenizer_eos(const struct tr_tokenizer *t)
{
    return t->eos;
}

int32_t tr_tokenizer_pad(const struct tr_tokenizer *t)
{
    return t->pad >= 0 ? t->pad : t->eos;
}

int32_t tr_tokenizer_id(const struct tr_tokenizer *t, const char *content)
{
    return tr_tok_id(t, fr_str_of(content));
}

const char *tr_tokenizer_added(const struct tr_tokenizer *t, int32_t id)
{
    for (size_t i = 0; i < t->nadded; i++)
        if (t->added[i].id == id)
            return t->added[i].content.p;
    return NULL;
}

int32_t tr_tokenizer_size(const struct tr_tokenizer *t)
{
    return t->size;
}

const char *tr_tokenizer_digest(const struct tr_tokenizer *t)
{
    return t->digest;
}

enum fr_rc tr_tokenizer_set_eos(struct tr_tokenizer *t, const char *content, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    if (t->eos >= 0 && t->eos == tr_tokenizer_id(t, content))
        return FR_OK;
    if ((rc = tr_tokenizer_add(t, content, err)) == FR_OK)
        t->eos = tr_tokenizer_id(t, content);
    return rc;
}

void tr_tokenizer_split_special(struct tr_tokenizer *t)
{
    t->split_special = true;
}

bool tr_tokenizer_splits(const struct tr_tokenizer *t)
{
    return t->split_special;
}
