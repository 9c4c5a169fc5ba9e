#include "trainer/cli/example.h"

#include "engine/base/arena.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/*
 * Byte-pair encoding learned the plain way (Sennrich et al. 2016): the most frequent pair of
 * neighbours becomes a token, until the vocabulary is full. Ties go to the pair with smaller ids.
 */
enum {
    SPECIALS = 3, /* begin, end, pad: ids 0..2 */
    FIRST_BYTE = SPECIALS,
    FIRST_MERGE = SPECIALS + 256,
    WORD_MAX = 24
};

struct word {
    int16_t ids[WORD_MAX];
    int n;
    int64_t count;
    const char *text;
    size_t len;
};

struct learn {
    struct fr_arena arena;
    struct word *words;
    size_t n;
    int16_t left[TR_EXAMPLE_VOCAB], right[TR_EXAMPLE_VOCAB]; /* of merged ids */
    int next;                                                /* the next id */
};

static int by_text(const void *a, const void *b)
{
    const struct word *x = a, *y = b;
    size_t n = x->len < y->len ? x->len : y->len;
    int d = memcmp(x->text, y->text, n);

    return d != 0 ? d : (x->len > y->len) - (x->len < y->len);
}

/* Runs of letters with the blank before them, if there is one. */
static bool split(struct learn *l, struct fr_str text)
{
    size_t most = text.n / 2 + 1, n = 0;

    l->words = fr_arena_array(&l->arena, most, sizeof(l->words[0]));
    if (l->words == NULL)
        return false;
    for (size_t i = 0; i < text.n;) {
        size_t start = i;
        if (text.p[i] == ' ' && i + 1 < text.n)
            i++;
        size_t letters = i;
        while (i < text.n && isalpha((unsigned char)text.p[i]))
            i++;
        if (i - letters >= 1 && i - start >= 2 && i - start <= WORD_MAX)
            l->words[n++] = (struct word){.text = text.p + start, .len = i - start, .count = 1};
        if (i == letters)
            i = start + 1;
    }
    qsort(l->words, n, sizeof(l->words[0]), by_text);
    for (size_t i = 0; i < n; i++) {
        if (l->n > 0 && by_text(&l->words[l->n - 1], &l->words[i]) == 0) {
            l->words[l->n - 1].count++;
            continue;
        }
        struct word *w = &l->words[l->n++];
        *w = l->words[i];
        for (w->n = 0; w->n < (int)w->len; w->n++)
            w->ids[w->n] = (int16_t)(FIRST_BYTE + (uint8_t)w->text[w->n]);
    }
    return true;
}

/* The most frequent pair into *a, *b; false when none occurs twice. counts has V*V entries. */
static bool best_pair(const struct learn *l, int32_t *counts, int *a, int *b)
{
    int64_t best = 1;

    memset(counts, 0, sizeof(counts[0]) * TR_EXAMPLE_VOCAB * TR_EXAMPLE_VOCAB);
    for (size_t i = 0; i < l->n; i++)
        for (int k = 0; k + 1 < l->words[i].n; k++)
            counts[l->words[i].ids[k] * TR_EXAMPLE_VOCAB + l->words[i].ids[k + 1]] +=
                (int32_t)l->words[i].count;
    for (int i = 0; i < TR_EXAMPLE_VOCAB * TR_EXAMPLE_VOCAB; i++)
        if (counts[i] > best) {
            best = counts[i];
            *a = i / TR_EXAMPLE_VOCAB;
            *b = i % TR_EXAMPLE_VOCAB;
        }
    return best > 1;
}

static void merge(struct word *w, int a, int b, int id)
{
    int n = 0;

    for (int k = 0; k < w->n; k++)
        if (k + 1 < w->n && w->ids[k] == a && w->ids[k + 1] == b) {
            w->ids[n++] = (int16_t)id;
            k++;
        } else
            w->ids[n++] = w->ids[k];
    w->n = n;
}

/* The character that stands for a byte in a byte-level vocabulary, as UTF-8 (GPT-2's table). */
static void put_byte(struct fr_buf *b, unsigned byte)
{
    unsigned code = byte;

    if (byte <= 0x20)
        code = 0x100 + byte;
    else if (byte >= 0x7f && byte <= 0xa0)
        code = 0x121 + byte - 0x7f;
    else if (byte == 0xad)
        code = 0x143;
    if (code < 0x80) {
        if (code == '"' || code == '\\')
            fr_buf_text(b, "\\");
        fr_buf_add(b, &(char){(char)code}, 1);
        return;
    }
    fr_buf_add(b, &(char){(char)(0xc0 | code >> 6)}, 1);
    fr_buf_add(b, &(char){(char)(0x80 | (code & 0x3f))}, 1);
}

static void put_token(const struct learn *l, struct fr_buf *b, int id)
{
    if (id < FIRST_MERGE) {
        put_byte(b, (unsigned)(id - FIRST_BYTE));
        return;
    }
    put_token(l, b, l->left[id]);
    put_token(l, b, l->right[id]);
}

static void put_added(struct fr_buf *b, int id, const char *content, bool special)
{
    fr_buf_fmt(b,
               "%s\n{\"id\": %d, \"content\": \"%s\", \"single_word\": false, "
               "\"lstrip\": false, \"rstrip\": false, \"normalized\": false, "
               "\"special\": %s}",
               id > 0 ? "," : "", id, content, special ? "true" : "false");
}

static void write_json(const struct learn *l, const struct tr_example_kind *kind, struct fr_buf *b)
{
    const char *const first[SPECIALS] = {kind->begin, kind->end, kind->pad};

    fr_buf_text(b, "{\"version\": \"1.0\", \"truncation\": null, \"padding\": null,\n"
                   "\"added_tokens\": [");
    for (int i = 0; i < SPECIALS; i++)
        put_added(b, i, first[i], true);
    for (int i = 0; i < kind->chats; i++)
        put_added(b, l->next + i, kind->chat[i], kind->chat_special);
    fr_buf_text(b, "],\n\"normalizer\": null,\n\"pre_tokenizer\": {\"type\": \"ByteLevel\", "
                   "\"add_prefix_space\": false, \"trim_offsets\": true, \"use_regex\": true},\n"
                   "\"post_processor\": {\"type\": \"ByteLevel\", \"add_prefix_space\": true, "
                   "\"trim_offsets\": false, \"use_regex\": true},\n"
                   "\"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": true, "
                   "\"trim_offsets\": true, \"use_regex\": true},\n"
                   "\"model\": {\"type\": \"BPE\", \"dropout\": null, \"unk_token\": null, "
                   "\"continuing_subword_prefix\": null, \"end_of_word_suffix\": null, "
                   "\"fuse_unk\": false, \"byte_fallback\": false, \"ignore_merges\": false,\n"
                   "\"vocab\": {");
    for (int i = 0; i < SPECIALS; i++)
        fr_buf_fmt(b, "\"%s\": %d,\n", first[i], i);
    for (int id = FIRST_BYTE; id < l->next; id++) {
        fr_buf_text(b, "\"");
        put_token(l, b, id);
        fr_buf_fmt(b, "\": %d%s", id, id + 1 < l->next ? ",\n" : "},\n\"merges\": [");
    }
    for (int id = FIRST_MERGE; id < l->next; id++) {
        fr_buf_text(b, id > FIRST_MERGE ? ",\n[\"" : "\n[\"");
        put_token(l, b, l->left[id]);
        fr_buf_text(b, "\", \"");
        put_token(l, b, l->right[id]);
        fr_buf_text(b, "\"]");
    }
    fr_buf_text(b, "]}}\n");
}

enum fr_rc tr_learn_tokenizer(const struct tr_example_kind *kind, struct fr_str text,
                              struct fr_buf *json, struct fr_err *err)
{
    struct learn l = {.next = FIRST_MERGE};
    int32_t *counts =
        fr_arena_array(&l.arena, (size_t)TR_EXAMPLE_VOCAB * TR_EXAMPLE_VOCAB, sizeof(*counts));
    bool ok = counts != NULL && split(&l, text);
    int a = 0, b = 0, last = TR_EXAMPLE_VOCAB - kind->chats;

    while (ok && l.next < last && best_pair(&l, counts, &a, &b)) {
        l.left[l.next] = (int16_t)a;
        l.right[l.next] = (int16_t)b;
        for (size_t i = 0; i < l.n; i++)
            merge(&l.words[i], a, b, l.next);
        l.next++;
    }
    if (ok)
        write_json(&l, kind, json);
    fr_arena_finish(&l.arena);
    return ok && !json->bad ? FR_OK : fr_fail(err, FR_NOMEM, "no memory to learn a tokenizer");
}
