/*
 * Private to the tokenizer: the structs that loading, encoding and decoding share.
 */
#ifndef TR_TOKENIZER_TOK_H
#define TR_TOKENIZER_TOK_H

#include "engine/base/arena.h"
#include "engine/base/heap.h"
#include "engine/base/map.h"
#include "engine/base/file.h"
#include "trainer/tokenizer/tok_class.h"
#include "trainer/tokenizer/tokenizer.h"

#include <jansson.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/* Text to id. */
struct tr_tok_map {
    struct tr_tok_key {
        struct fr_str key;
        int32_t id;
    } * v;                /* in the arena */
    struct fr_map places; /* owns: in v, by tr_tok_hash of the key */
};

bool tr_tok_map_init(struct tr_tok_map *m, struct fr_arena *arena, size_t keys);
/* A key that is there keeps its id. At most as many keys as init was given. */
void tr_tok_map_put(struct tr_tok_map *m, struct fr_str key, int32_t id);
int32_t tr_tok_map_get(const struct tr_tok_map *m, struct fr_str key); /* -1: none */

/* The last n bytes of a text as a number that differs where they do, n < 8. */
static inline uint64_t tr_tok_rest(const char *p, size_t n)
{
    uint32_t a, b;

    if (n < 4)
        return n == 0 ? 0
                      : (uint32_t)(uint8_t)p[0] | (uint32_t)(uint8_t)p[n / 2] << 8 |
                            (uint32_t)(uint8_t)p[n - 1] << 16;
    memcpy(&a, p, 4);
    memcpy(&b, p + n - 4, 4);
    return (uint64_t)b << 32 | a;
}

static inline uint64_t tr_tok_hash(const char *p, size_t n)
{
    uint64_t h = 0x9e3779b97f4a7c15u ^ n * 0xff51afd7ed558ccdu, word;

    for (; n >= 8; p += 8, n -= 8) {
        memcpy(&word, p, 8);
        h = (h ^ word) * 0xbf58476d1ce4e5b9u;
        h ^= h >> 29;
    }
    h = (h ^ tr_tok_rest(p, n)) * 0x94d049bb133111ebu;
    return h ^ h >> 32;
}

/* Whether two texts of n bytes are the same. */
static inline bool tr_tok_same(const char *a, const char *b, size_t n)
{
    uint64_t x, y;

    for (; n >= 8; a += 8, b += 8, n -= 8) {
        memcpy(&x, a, 8);
        memcpy(&y, b, 8);
        if (x != y)
            return false;
    }
    return tr_tok_rest(a, n) == tr_tok_rest(b, n);
}

/* Matching of added tokens: a node's children are a list. */
struct tr_tok_node {
    int32_t child, sibling; /* 0: none; node 0 is the root */
    int32_t added;          /* index of the added token that ends here, -1 */
    uint8_t byte;
};

struct tr_tok_added {
    struct fr_str content;
    struct fr_str normal; /* what the normalizer made of it when it was last normalized; {NULL}: the
                             same, or it never was */
    int32_t id;
    bool single_word, lstrip, rstrip, normalized, special;
    bool was_special; /* in one of its forms */
};

struct tr_tok_trie {
    struct tr_tok_node *nodes;
    size_t n, cap;
    bool starts[256]; /* bytes that an added token begins with */
    int start;        /* the only one, -1: there are others */
};

enum tr_tok_form_kind {
    TR_TOK_NFC,
    TR_TOK_NFD,
    TR_TOK_NFKC,
    TR_TOK_NFKD,
    TR_TOK_PREPEND, /* `to` before text that is not empty */
    TR_TOK_REPLACE  /* every `from` becomes `to` */
};

struct tr_tok_form {
    enum tr_tok_form_kind kind;
    struct fr_str from, to; /* in the arena */
};

enum tr_tok_step_kind {
    TR_TOK_SPLIT,    /* matches and gaps are pieces */
    TR_TOK_REMOVE,   /* gaps are pieces */
    TR_TOK_PREFIX,   /* a blank before a piece that has none */
    TR_TOK_METASPACE /* blanks become marks; one before a piece that has none */
};

enum tr_tok_scheme { TR_TOK_ALWAYS, TR_TOK_FIRST, TR_TOK_NEVER };

/* The next match of a pattern in [p, end), where p < end: found[0] is where it begins, end where
 * there is none. False: the pattern itself has to be asked. */
typedef bool tr_tok_scan(const char *p, const char *end, const char *found[2]);

struct tr_tok_step {
    enum tr_tok_step_kind kind;
    pcre2_code *re;    /* owned */
    tr_tok_scan *scan; /* the same by hand; NULL: none */
    /* of a metaspace: the mark, the pieces that get one in front (first: where the text begins),
     * and whether a piece begins at each mark */
    struct fr_str mark;
    enum tr_tok_scheme scheme;
    bool split;
};

/* How a vocabulary of characters is written as text (Llama 2's kind): marks become blanks, then the
 * first ones go. */
struct tr_tok_decoder {
    struct fr_str mark;
    bool byte_tokens; /* <0x0A> stands for a byte */
    int strip;        /* blanks taken off the front */
    bool strip_token; /* all marks of the first token go */
};

/* What ByteLevel splits by when use_regex is true (GPT-2). */
#define TR_TOK_GPT2                                                                                \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

/* tok_scan.c: of a pattern as tokenizer.json has it; NULL: none. */
tr_tok_scan *tr_tok_scan_of(const char *pattern);

enum { TR_TOK_STEPS = 16, TR_TOK_FORMS = 8, TR_TOK_SPARE = 8 };

struct tr_tokenizer {
    struct fr_arena arena;
    struct tr_tok_map vocab; /* the model's own; keys as in the file: bytes as characters */
    struct fr_str *tokens;   /* by id: its bytes, or its text where that stands for none */
    bool *special;           /* by id: what decoding may leave out */
    int32_t size;            /* highest id + 1 */
    int32_t nvocab;          /* entries of the model's own vocabulary */
    struct fr_map merges;    /* owns: a pair of ids a<<32 | b to rank<<32 | id of both */
    int32_t bytes[256];      /* ids of single bytes, -1 */
    bool ignore_merges;
    bool chars;                    /* the vocabulary is of characters, not of bytes */
    bool fuse_unk;                 /* of chars: unknown neighbours are one token */
    int32_t unk;                   /* of chars: -1: unknown characters are dropped */
    struct tr_tok_decoder decoder; /* of chars */
    struct tr_tok_added *added;
    size_t nadded;
    struct tr_tok_map added_at;     /* by content: in added */
    int spare;                      /* tokens that may still be added */
    struct tr_tok_trie raw, normal; /* of tokens matched before and after the normalizer */
    struct tr_tok_form forms[TR_TOK_FORMS];
    int nforms;
    struct tr_tok_step steps[TR_TOK_STEPS];
    int nsteps;
    int32_t bos, eos, pad;
    bool split_special; /* the text of special tokens is text like any other */
    char digest[FR_SHA256_TEXT];
    struct tr_twice twice; /* owns: what the folder says twice */
    const char *foreign;   /* a class whose pipeline is not done here; or NULL */
};

/* The character that stands for a byte in byte-level vocabularies (GPT-2's table), as UTF-8 into
 * out[0..n), n is returned (1 or 2). */
int tr_tok_byte_char(uint8_t byte, char out[2]);

/* The bytes that key's characters stand for, in the arena; {NULL} when one stands for no byte. */
struct fr_str tr_tok_bytes_of(struct fr_arena *arena, struct fr_str key);

/* text in normal forms, one after the other, into out. */
enum fr_rc tr_tok_normalize(const struct tr_tokenizer *t, struct fr_str text, struct fr_buf *out,
                            struct fr_err *err);

/* Longest added token that begins at p, its length into *n; -1: none. */
int32_t tr_tok_trie_match(const struct tr_tok_trie *trie, const char *p, const char *end,
                          size_t *n);
bool tr_tok_trie_add(struct tr_tok_trie *trie, struct fr_str content, int32_t added);

/* The added tokens of tokenizer.json, then those that stand only in tokenizer_config.json: of its
 * added_tokens_decoder, its named special tokens and its list of more. Their numbers are the
 * reference's: after the last one, whatever number a file has. t->added has room for
 * tr_tok_config_tokens of them more. */
enum fr_rc tr_tok_read_added(struct tr_tokenizer *t, const struct tr_tok_files *f,
                             struct fr_err *err);
size_t tr_tok_config_tokens(const struct tr_tok_files *f);
/* The id of a token by its content, of the vocabulary or added; -1. */
int32_t tr_tok_id(const struct tr_tokenizer *t, struct fr_str content);
/* normalizer, pre_tokenizer and decoder of the file; chars: whether no pre-tokenizer makes bytes of
 * the text. */
enum fr_rc tr_tok_read_normalizer(struct tr_tokenizer *t, const json_t *v, struct fr_err *err);
enum fr_rc tr_tok_read_steps(struct tr_tokenizer *t, const json_t *v, struct fr_err *err);
enum fr_rc tr_tok_read_decoder(struct tr_tokenizer *t, const json_t *v, struct fr_err *err);
bool tr_tok_is_chars(const json_t *pre_tokenizer);

/* Merges of neighbours: ids[0..n) in place, the new count is returned. */
struct tr_tok_work {
    int32_t *ids, *ranks, *next, *prev;
    struct fr_heap heap; /* owns: pairs by rank and position of the left */
    size_t cap;
};

bool tr_tok_work_reserve(struct tr_tok_work *w, size_t n);
void tr_tok_work_finish(struct tr_tok_work *w);
size_t tr_tok_merge_word(const struct tr_tokenizer *t, struct tr_tok_work *w, size_t n);

#endif
