#include "trainer/data/tok.h"

#include "engine/base/sys.h"

#include <stdlib.h>
#include <string.h>

/* Named special tokens in the order in which the reference adds them. */
static const char *const names[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                    "pad_token", "cls_token", "mask_token"};
static const char *const lists[] = {"model_specific_special_tokens", "extra_special_tokens"};

enum { NAMES = sizeof(names) / sizeof(names[0]), LISTS = sizeof(lists) / sizeof(lists[0]) };

static enum fr_rc no_memory(struct fr_err *err)
{
    return fr_fail(err, FR_NOMEM, "no memory for the tokenizer");
}

/* What an added token decodes to: its characters as bytes, where each stands for one, as the
 * reference's decoder takes them. */
static enum fr_rc set_decoded(struct tr_tokenizer *t, int32_t id, struct fr_str text,
                              struct fr_err *err)
{
    struct fr_str bytes = {NULL, 0};

    if (!t->chars)
        bytes = tr_tok_bytes_of(&t->arena, text);

    if (bytes.p == NULL)
        bytes = (struct fr_str){fr_arena_text(&t->arena, text.p, text.n), text.n};
    t->tokens[id] = bytes;
    return bytes.p != NULL ? FR_OK : no_memory(err);
}

/* Puts the token into the automaton of its kind. */
static enum fr_rc index_token(struct tr_tokenizer *t, const struct tr_tok_added *a, int32_t index,
                              struct fr_err *err)
{
    struct fr_buf normal = {0};
    enum fr_rc rc;

    if (!a->normalized) {
        if (!tr_tok_trie_add(&t->raw, a->content, index))
            return no_memory(err);
        return set_decoded(t, a->id, a->content, err);
    }
    rc = tr_tok_normalize(t, a->content, &normal, err);
    if (rc == FR_OK && normal.n > 0) {
        struct fr_str text = {normal.p, normal.n};
        rc = tr_tok_trie_add(&t->normal, text, index) ? set_decoded(t, a->id, text, err)
                                                      : no_memory(err);
    }
    fr_buf_finish(&normal);
    return rc;
}

static bool flag(const json_t *v, const char *key, bool def)
{
    const json_t *b = json_object_get(v, key);

    return json_is_boolean(b) ? json_is_true(b) : def;
}

/* A token as either file writes it: an object, or of a special one its text alone. No id yet; no
 * content where it is neither. */
static struct tr_tok_added token_of(const json_t *v, bool special)
{
    const json_t *content = json_is_object(v) ? json_object_get(v, "content") : v;
    struct tr_tok_added a = {
        .content = {json_string_value(content), json_string_length(content)},
        .id = -1,
        .single_word = flag(v, "single_word", false),
        .lstrip = flag(v, "lstrip", false),
        .rstrip = flag(v, "rstrip", false),
        .special = flag(v, "special", special) || special,
    };

    a.normalized = flag(v, "normalized", !a.special);
    if (a.content.p == NULL)
        a.content.n = 0;
    return a;
}

static struct tr_tok_added *find(const struct tr_tokenizer *t, struct fr_str content)
{
    for (size_t i = 0; i < t->nadded; i++)
        if (fr_str_eq(t->added[i].content, content))
            return &t->added[i];
    return NULL;
}

/* Behind the last added token, or behind the vocabulary where all of them are in it. */
static int32_t next_id(const struct tr_tokenizer *t)
{
    int32_t last = -1;

    for (size_t i = 0; i < t->nadded; i++)
        if (t->added[i].id > last)
            last = t->added[i].id;
    return last >= t->nvocab ? last + 1 : t->nvocab;
}

/* Puts a token into the list, in the place of one with its text. id is taken where the vocabulary
 * has none for it; -1: the next. */
static enum fr_rc put(struct tr_tokenizer *t, struct tr_tok_added a, int32_t id, struct fr_err *err)
{
    struct tr_tok_added *old = find(t, a.content);

    if (old != NULL) {
        a.content = old->content;
        a.id = old->id;
        *old = a;
        t->special[a.id] = a.special;
        return FR_OK;
    }
    if ((a.content.p = fr_arena_text(&t->arena, a.content.p, a.content.n)) == NULL)
        return no_memory(err);
    a.id = tr_tok_map_get(&t->vocab, a.content);
    if (a.id < 0) {
        a.id = id >= 0 ? id : next_id(t);
        if (t->tokens[a.id].p != NULL)
            return fr_fail(err, FR_USAGE, "added token '%s' has the id %d of another", a.content.p,
                           a.id);
        tr_tok_map_put(&t->vocab, a.content, a.id);
        t->tokens[a.id] = a.content;
        if (a.id >= t->size)
            t->size = a.id + 1;
    }
    t->special[a.id] = a.special;
    t->added[t->nadded++] = a;
    return FR_OK;
}

/* An entry of added_tokens_decoder and its number. */
struct numbered {
    long id;
    const json_t *token;
};

static int by_id(const void *a, const void *b)
{
    long x = ((const struct numbered *)a)->id, y = ((const struct numbered *)b)->id;

    return x < y ? -1 : x > y;
}

/* Special tokens by their names, then those of the lists, as the files write them. */
struct specials {
    const json_t **v;
    size_t n, named; /* all; those that have names, a model's own among them */
};

static enum fr_rc collect(struct tr_tokenizer *t, const json_t *config, struct specials *out,
                          struct fr_err *err)
{
    *out = (struct specials){.n = 0};
    out->v = fr_arena_array(&t->arena, tr_tok_config_tokens(config), sizeof(*out->v));
    if (out->v == NULL)
        return no_memory(err);
    for (size_t i = 0; i < NAMES; i++)
        out->v[out->n++] = json_object_get(config, names[i]);
    for (size_t i = 0; i < LISTS; i++) {
        const json_t *list = json_object_get(config, lists[i]);
        for (size_t k = 0; k < json_array_size(list); k++)
            out->v[out->n++] = json_array_get(list, k);
        out->named = i == 0 ? out->n : out->named;
    }
    return FR_OK;
}

static bool has_name(const struct specials *s, struct fr_str content)
{
    for (size_t i = 0; i < s->named; i++)
        if (fr_str_eq(token_of(s->v[i], true).content, content))
            return true;
    return false;
}

static bool same_flags(const struct tr_tok_added *a, const struct tr_tok_added *b)
{
    return a->special == b->special && a->normalized == b->normalized && a->lstrip == b->lstrip &&
           a->rstrip == b->rstrip && a->single_word == b->single_word;
}

/* The decoder's tokens; one that says something new and has a name is special. */
static enum fr_rc add_decoder(struct tr_tokenizer *t, const json_t *decoder,
                              const struct specials *s, struct fr_err *err)
{
    size_t n = 0, size = json_object_size(decoder);
    struct numbered *list = fr_arena_array(&t->arena, size + 1, sizeof(*list));
    const char *key;
    json_t *v;
    enum fr_rc rc = FR_OK;

    if (list == NULL)
        return no_memory(err);
    json_object_foreach((json_t *)decoder, key, v) list[n++] =
        (struct numbered){strtol(key, NULL, 10), v};
    qsort(list, n, sizeof(*list), by_id);
    for (size_t i = 0; i < n && rc == FR_OK; i++) {
        struct tr_tok_added a = token_of(list[i].token, false), *old = find(t, a.content);
        if (old == NULL || !same_flags(old, &a))
            a.special = a.special || has_name(s, a.content);
        if (!json_is_object(list[i].token) || a.content.p == NULL)
            rc =
                fr_fail(err, FR_USAGE,
                        "tokenizer_config.json: added_tokens_decoder: %ld is no token", list[i].id);
        else if (a.content.n > 0)
            rc = put(t, a, -1, err);
    }
    return rc;
}

/* Those that are no added tokens yet. Of one that is written in several ways the last one counts,
 * in the order of their first places. plain: at last all lose their flags. */
static enum fr_rc add_specials(struct tr_tokenizer *t, const struct specials *s, bool plain,
                               struct fr_err *err)
{
    size_t there = t->nadded;
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; i < s->n && rc == FR_OK; i++) {
        struct tr_tok_added a = token_of(s->v[i], json_is_string(s->v[i])), *old;
        bool again = false;

        old = a.content.n > 0 ? find(t, a.content) : NULL;
        for (size_t k = 0; k < i && !again; k++)
            again = json_equal(s->v[k], s->v[i]);
        if (a.content.n == 0 || again || (old != NULL && old < t->added + there))
            continue;
        a.special = a.special || has_name(s, a.content);
        rc = put(t, a, -1, err);
    }
    for (size_t i = 0; i < s->n && plain && rc == FR_OK; i++) {
        struct tr_tok_added a = {.content = token_of(s->v[i], true).content, .special = true};

        if (a.content.n > 0)
            rc = put(t, a, -1, err);
    }
    return rc;
}

size_t tr_tok_config_tokens(const json_t *config)
{
    size_t n = NAMES + json_object_size(json_object_get(config, "added_tokens_decoder"));

    for (size_t i = 0; i < LISTS; i++)
        n += json_array_size(json_object_get(config, lists[i]));
    return n;
}

/* The automata of all added tokens. */
static enum fr_rc index_all(struct tr_tokenizer *t, struct fr_err *err)
{
    struct tr_tok_trie *both[] = {&t->raw, &t->normal};
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; i < 2; i++) {
        fr_sys.free(both[i]->nodes);
        *both[i] = (struct tr_tok_trie){.nodes = NULL};
    }
    for (size_t i = 0; i < t->nadded && rc == FR_OK; i++)
        rc = index_token(t, &t->added[i], (int32_t)i, err);
    return rc;
}

enum fr_rc tr_tok_read_added(struct tr_tokenizer *t, const struct tr_tok_files *f,
                             struct fr_err *err)
{
    const json_t *list = json_object_get(f->root, "added_tokens");
    struct specials s;
    enum fr_rc rc = collect(t, f->config, &s, err);
    json_t *v;
    size_t i;

    json_array_foreach((json_t *)list, i, v)
    {
        struct tr_tok_added a = token_of(v, false);
        if (rc == FR_OK && a.content.n > 0)
            rc = put(t, a, (int32_t)json_integer_value(json_object_get(v, "id")), err);
    }
    if (rc == FR_OK)
        rc = add_decoder(t, json_object_get(f->config, "added_tokens_decoder"), &s, err);
    if (rc == FR_OK)
        rc = add_specials(t, &s, f->plain, err);
    return rc == FR_OK ? index_all(t, err) : rc;
}

enum fr_rc tr_tok_add_special(struct tr_tokenizer *t, const char *content, struct fr_err *err)
{
    struct tr_tok_added a = {.content = fr_str_of(content), .id = -1, .special = true};
    bool is_new = find(t, a.content) == NULL;
    enum fr_rc rc;

    if (is_new && t->spare == 0)
        return fr_fail(err, FR_UNSUPPORTED, "no room for the token '%s'", content);
    t->spare -= is_new;
    rc = put(t, a, -1, err);
    return rc == FR_OK ? index_all(t, err) : rc;
}
