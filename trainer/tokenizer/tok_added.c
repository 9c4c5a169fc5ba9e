#include "trainer/tokenizer/tok.h"

#include "engine/base/sys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXTRA "extra_special_tokens"

static enum fr_rc no_memory(struct fr_err *err)
{
    return fr_fail(err, FR_NOMEM, "no memory for the tokenizer");
}

static struct tr_tok_added *find(const struct tr_tokenizer *t, struct fr_str content)
{
    int32_t at = tr_tok_map_get(&t->added_at, content);

    return at >= 0 ? &t->added[at] : NULL;
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

/* The normalizer's text of a token, which stays what it decodes to whatever its flags become. */
static enum fr_rc set_normal(struct tr_tokenizer *t, struct tr_tok_added *a, struct fr_err *err)
{
    struct fr_buf normal = {0};
    enum fr_rc rc = tr_tok_normalize(t, a->content, &normal, err);

    if (rc == FR_OK && !fr_str_eq(a->content, (struct fr_str){normal.p, normal.n})) {
        a->normal = (struct fr_str){fr_arena_text(&t->arena, normal.p, normal.n), normal.n};
        rc = a->normal.p != NULL ? FR_OK : no_memory(err);
    }
    fr_buf_finish(&normal);
    return rc;
}

/* Puts the token into the automaton of its kind. */
static enum fr_rc index_token(struct tr_tokenizer *t, const struct tr_tok_added *a, int32_t index,
                              struct fr_err *err)
{
    struct fr_str decoded = a->normal.p != NULL ? a->normal : a->content;
    struct fr_str text = a->normalized ? decoded : a->content;
    /* the reference looks among the special contents for the text that a token decodes to */
    const struct tr_tok_added *same = a->normal.p != NULL ? find(t, decoded) : a;

    t->special[a->id] = same != NULL && same->was_special;
    if (text.n > 0 && !tr_tok_trie_add(a->normalized ? &t->normal : &t->raw, text, index))
        return no_memory(err);
    return set_decoded(t, a->id, decoded, err);
}

static bool flag(const json_t *v, const char *key, bool def)
{
    const json_t *b = json_object_get(v, key);

    return json_is_boolean(b) ? json_is_true(b) : def;
}

/* A token to add. */
struct wanted {
    struct tr_tok_added a; /* no id yet; no content where the file has none */
    bool is_text;          /* a special token of which its text alone is written */
    bool says_normalized;
};

static struct wanted token_of(const json_t *v)
{
    const json_t *content = json_is_object(v) ? json_object_get(v, "content") : v;
    struct wanted w = {
        .a = {.content = {json_string_value(content), json_string_length(content)},
              .single_word = flag(v, "single_word", false),
              .lstrip = flag(v, "lstrip", false),
              .rstrip = flag(v, "rstrip", false),
              .special = flag(v, "special", json_is_string(v))},
        .is_text = json_is_string(v),
        .says_normalized = json_is_boolean(json_object_get(v, "normalized")),
    };

    w.a.normalized = flag(v, "normalized", !w.a.special);
    if (w.a.content.p == NULL)
        w.a.content.n = 0;
    return w;
}

int32_t tr_tok_id(const struct tr_tokenizer *t, struct fr_str content)
{
    int32_t id = tr_tok_map_get(&t->vocab, content);
    const struct tr_tok_added *a = id < 0 ? find(t, content) : NULL;

    return a != NULL ? a->id : id;
}

/* After the last added token, or after the vocabulary where all of them are in it. */
static int32_t next_id(const struct tr_tokenizer *t)
{
    int32_t last = -1;

    for (size_t i = 0; i < t->nadded; i++)
        if (t->added[i].id > last)
            last = t->added[i].id;
    return last >= t->nvocab ? last + 1 : t->nvocab;
}

/* A place of the list for a new token. *next is its number unless the vocabulary has it. */
static enum fr_rc new_place(struct tr_tokenizer *t, struct fr_str content, int32_t *next,
                            struct tr_tok_added **out, struct fr_err *err)
{
    struct tr_tok_added *a = &t->added[t->nadded];

    *a = (struct tr_tok_added){
        .content = {fr_arena_text(&t->arena, content.p, content.n), content.n},
        .id = tr_tok_map_get(&t->vocab, content)};
    if (a->content.p == NULL)
        return no_memory(err);
    if (a->id < 0) {
        a->id = (*next)++;
        if (t->tokens[a->id].p != NULL)
            return fr_fail(err, FR_USAGE, "added token '%s' has the id %d of another", a->content.p,
                           a->id);
        t->tokens[a->id] = a->content;
        if (a->id >= t->size)
            t->size = a->id + 1;
    }
    tr_tok_map_put(&t->added_at, a->content, (int32_t)t->nadded++);
    *out = a;
    return FR_OK;
}

/* Puts a token into the list, with its flags in the place of one with its text. One that was
 * special stays so. */
static enum fr_rc put(struct tr_tokenizer *t, const struct tr_tok_added *a, int32_t *next,
                      struct fr_err *err)
{
    struct tr_tok_added *mine = find(t, a->content);
    enum fr_rc rc = mine != NULL ? FR_OK : new_place(t, a->content, next, &mine, err);

    if (rc != FR_OK)
        return rc;
    mine->single_word = a->single_word;
    mine->lstrip = a->lstrip;
    mine->rstrip = a->rstrip;
    mine->normalized = a->normalized;
    mine->special = a->special;
    mine->was_special = mine->was_special || a->special;
    if (a->normalized)
        rc = set_normal(t, mine, err);
    return rc;
}

/* Tokens that are added together, in their order. */
struct batch {
    struct wanted *v;
    size_t n;
};

static enum fr_rc put_all(struct tr_tokenizer *t, const struct batch *b, struct fr_err *err)
{
    int32_t next = next_id(t);
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; i < b->n && rc == FR_OK; i++)
        if (b->v[i].a.content.n > 0)
            rc = put(t, &b->v[i].a, &next, err);
    return rc;
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

static bool same_flags(const struct tr_tok_added *a, const struct tr_tok_added *b)
{
    return a->special == b->special && a->normalized == b->normalized && a->lstrip == b->lstrip &&
           a->rstrip == b->rstrip && a->single_word == b->single_word;
}

/* The decoder's tokens, by their numbers. */
static enum fr_rc collect_decoder(struct tr_tokenizer *t, const json_t *decoder, struct batch *b,
                                  struct fr_err *err)
{
    struct numbered *list = fr_arena_array(&t->arena, json_object_size(decoder) + 1, sizeof(*list));
    size_t n = 0;
    const char *key;
    json_t *v;

    if (list == NULL)
        return no_memory(err);
    json_object_foreach((json_t *)decoder, key, v) list[n++] =
        (struct numbered){strtol(key, NULL, 10), v};
    qsort(list, n, sizeof(*list), by_id);
    for (size_t i = 0; i < n; i++) {
        struct wanted w = token_of(list[i].token);

        if (!json_is_object(list[i].token) || w.a.content.p == NULL)
            return fr_fail(err, FR_USAGE,
                           "tokenizer_config.json: added_tokens_decoder: %ld is no token",
                           list[i].id);
        b->v[b->n++] = w;
    }
    return FR_OK;
}

/* Special tokens whose text is no added token yet, nor one of the first `decoder` of the batch: all
 * forms of one that is written in several ways. The last one counts, in the first one's place. */
static void collect_special(const struct tr_tokenizer *t, const json_t *list, size_t decoder,
                            struct batch *b)
{
    json_t *v;
    size_t i;

    json_array_foreach((json_t *)list, i, v)
    {
        struct wanted w = token_of(v);
        bool again = w.a.content.n == 0 || find(t, w.a.content) != NULL;

        for (size_t k = 0; k < b->n && !again; k++)
            again = fr_str_eq(b->v[k].a.content, w.a.content) &&
                    (k < decoder || (b->v[k].is_text == w.is_text && same_flags(&b->v[k].a, &w.a)));
        if (!again)
            b->v[b->n++] = w;
    }
}

/* A token that has a name is special, and so not normalized unless its file says so. */
static void name_special(const json_t *named, struct batch *b)
{
    json_t *v;
    size_t i;

    json_array_foreach((json_t *)named, i, v)
    {
        struct fr_str content = token_of(v).a.content;

        for (size_t k = 0; k < b->n; k++) {
            struct wanted *w = &b->v[k];

            if (w->a.special || !fr_str_eq(w->a.content, content))
                continue;
            w->a.special = true;
            w->a.normalized = w->a.normalized && w->says_normalized;
        }
    }
}

/* All special tokens once more; plain: without flags. */
static void special_again(const json_t *list, bool plain, struct batch *b)
{
    json_t *v;
    size_t i;

    json_array_foreach((json_t *)list, i, v)
    {
        struct wanted w = token_of(v);

        if (plain)
            w = (struct wanted){.a = {.content = w.a.content}};
        w.a.special = true;
        w.a.normalized = w.a.normalized && w.says_normalized;
        b->v[b->n++] = w;
    }
}

size_t tr_tok_config_tokens(const struct tr_tok_files *f)
{
    return json_object_size(json_object_get(f->config, "added_tokens_decoder")) +
           json_array_size(f->named) + json_array_size(json_object_get(f->config, EXTRA));
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

/* The file that has the number of a token in added_tokens_decoder. */
static const char *number_file(const struct tr_tok_files *f, const char *text, long number)
{
    const json_t *v = json_object_get(f->added, text);

    return !f->legacy                                              ? "tokenizer_config.json"
           : json_is_integer(v) && json_integer_value(v) == number ? "added_tokens.json"
                                                                   : "tokenizer.json";
}

/* The first token whose number in its file is not the one of the order: so are all after it. */
static void tell_number(struct tr_tokenizer *t, const struct tr_tok_files *f)
{
    const char *key, *text;
    char what[96], value[16];
    json_t *v;

    json_object_foreach(json_object_get(f->config, "added_tokens_decoder"), key, v)
    {
        text = json_string_value(json_object_get(v, "content"));
        if (text == NULL || strtol(key, NULL, 10) == tr_tok_id(t, fr_str_of(text)))
            continue;
        (void)snprintf(what, sizeof(what), "number of %.64s and of what follows", text);
        (void)snprintf(value, sizeof(value), "%d", tr_tok_id(t, fr_str_of(text)));
        tr_twice_add(&t->twice,
                     &(struct tr_twice_row){.what = what,
                                            .from = "order of added tokens",
                                            .value = value,
                                            .over = number_file(f, text, strtol(key, NULL, 10)),
                                            .other = key});
        return;
    }
}

enum fr_rc tr_tok_read_added(struct tr_tokenizer *t, const struct tr_tok_files *f,
                             struct fr_err *err)
{
    const json_t *list = json_object_get(f->root, "added_tokens");
    const json_t *extra = json_object_get(f->config, EXTRA);
    size_t room = json_array_size(list) + tr_tok_config_tokens(f) + 1, decoder;
    struct batch b = {fr_arena_array(&t->arena, room, sizeof(*b.v)), 0};
    enum fr_rc rc;
    json_t *v;
    size_t i;

    if (b.v == NULL)
        return no_memory(err);
    json_array_foreach((json_t *)list, i, v) b.v[b.n++] = token_of(v);
    if ((rc = put_all(t, &b, err)) != FR_OK)
        return rc;
    b.n = 0;
    rc = collect_decoder(t, json_object_get(f->config, "added_tokens_decoder"), &b, err);
    if (rc != FR_OK)
        return rc;
    decoder = b.n;
    collect_special(t, f->named, decoder, &b);
    collect_special(t, extra, decoder, &b);
    name_special(f->named, &b);
    rc = put_all(t, &b, err);
    if (rc == FR_OK && f->again != TR_TOK_ONCE) {
        b.n = 0;
        special_again(f->named, f->again == TR_TOK_PLAIN, &b);
        special_again(extra, f->again == TR_TOK_PLAIN, &b);
        rc = put_all(t, &b, err);
    }
    tell_number(t, f);
    return rc == FR_OK ? index_all(t, err) : rc;
}

enum fr_rc tr_tokenizer_add(struct tr_tokenizer *t, const char *content, struct fr_err *err)
{
    struct tr_tok_added a = {.content = fr_str_of(content), .special = true};
    int32_t next = next_id(t);
    bool is_new = find(t, a.content) == NULL;
    enum fr_rc rc;

    if (is_new && t->spare == 0)
        return fr_fail(err, FR_UNSUPPORTED, "no room for the token '%s'", content);
    t->spare -= is_new;
    rc = put(t, &a, &next, err);
    return rc == FR_OK ? index_all(t, err) : rc;
}

static int by_number(const void *a, const void *b)
{
    const struct tr_tok_added *x = *(const struct tr_tok_added *const *)a,
                              *y = *(const struct tr_tok_added *const *)b;

    return x->id < y->id ? -1 : x->id > y->id;
}

json_t *tr_tokenizer_added_list(const struct tr_tokenizer *t)
{
    const struct tr_tok_added **v = fr_sys.alloc((t->nadded + 1) * sizeof(const void *));
    json_t *list = v != NULL ? json_array() : NULL;
    int failed = list == NULL;

    for (size_t i = 0; i < t->nadded && !failed; i++)
        v[i] = &t->added[i];
    if (!failed)
        qsort(v, t->nadded, sizeof(const void *), by_number);
    for (size_t i = 0; i < t->nadded && !failed; i++)
        failed = json_array_append_new(
            list, json_pack("{s:i, s:s%, s:b, s:b, s:b, s:b, s:b}", "id", (int)v[i]->id, "content",
                            v[i]->content.p, v[i]->content.n, "single_word", (int)v[i]->single_word,
                            "lstrip", (int)v[i]->lstrip, "rstrip", (int)v[i]->rstrip, "normalized",
                            (int)v[i]->normalized, "special", (int)v[i]->special));
    fr_sys.free(v);
    if (!failed)
        return list;
    json_decref(list);
    return NULL;
}
