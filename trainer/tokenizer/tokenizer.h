/*
 * tokenizer.json: byte-pair encoding with the normalizers and pre-tokenizers of the DeepSeek,
 * GPT-2, Llama-3 and Qwen2 families, over bytes, and of Llama 2 and Mistral, over characters.
 * Regular expressions are PCRE2's with JIT, Unicode forms utf8proc's. A tokenizer is const once
 * loaded; each thread encodes through its own cache.
 * Source: the tokenizers library's documentation of its JSON; Sennrich et al. 2016.
 */
#ifndef TR_TOKENIZER_TOKENIZER_H
#define TR_TOKENIZER_TOKENIZER_H

#include "engine/base/err.h"
#include "engine/base/str.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tr_tokenizer;
struct tr_twice;
struct tr_encoder; /* one thread's cache, match data and work memory */

/* A growing list of ids; zero it to start. */
struct tr_ids {
    int32_t *v;
    size_t n, cap;
};

void tr_ids_finish(struct tr_ids *ids);
enum fr_rc tr_ids_add(struct tr_ids *ids, const int32_t *v, size_t n, struct fr_err *err);

/* path is a tokenizer.json, or a folder that holds one; tokenizer_config.json beside it names the
 * special tokens. Other files of the folder are read as transformers reads them (tok_class.h). The
 * caller destroys *out. FR_USAGE or FR_UNSUPPORTED names the wrong or unknown part of the file. */
enum fr_rc tr_tokenizer_load(const char *path, struct tr_tokenizer **out, struct fr_err *err);
void tr_tokenizer_destroy(struct tr_tokenizer *t);

/* Ids of special tokens, -1 when there is none. */
int32_t tr_tokenizer_bos(const struct tr_tokenizer *t);
int32_t tr_tokenizer_eos(const struct tr_tokenizer *t);
int32_t tr_tokenizer_pad(const struct tr_tokenizer *t);
/* The id of a token by its content, -1 when unknown. */
int32_t tr_tokenizer_id(const struct tr_tokenizer *t, const char *content);
/* The text of an added token (special tokens are added tokens); NULL: id is no added token. */
const char *tr_tokenizer_added(const struct tr_tokenizer *t, int32_t id);
/* All added tokens in order of id, as added_tokens of a tokenizer.json, so that its readers give
 * them the same ids. Owned by the caller; NULL: no memory. */
json_t *tr_tokenizer_added_list(const struct tr_tokenizer *t);
/* Highest id + 1. */
int32_t tr_tokenizer_size(const struct tr_tokenizer *t);
/* The settings on which the folder's files disagree; borrowed from t. tr_tokenizer_notes appends a
 * warning line about each of them. */
const struct tr_twice *tr_tokenizer_twice(const struct tr_tokenizer *t);
void tr_tokenizer_notes(const struct tr_tokenizer *t, struct fr_buf *lines);
/* SHA-256 over tokenizer.json, tokenizer_config.json and everything else that changed the ids: 64
 * hexadecimal digits. */
const char *tr_tokenizer_digest(const struct tr_tokenizer *t);

/* Adds a special token (a template's stop word) after the last id. A token that exists keeps its
 * id: it becomes special, and its other flags are cleared. tr_tokenizer_set_eos also makes the
 * token eos, and does nothing if it is eos already. Call before any encoding. FR_UNSUPPORTED: more
 * than 8 new tokens. The caller checks that the model has an embedding row for the token. */
enum fr_rc tr_tokenizer_add(struct tr_tokenizer *t, const char *content, struct fr_err *err);
enum fr_rc tr_tokenizer_set_eos(struct tr_tokenizer *t, const char *content, struct fr_err *err);

/* From now on the text of special tokens is encoded as ordinary text. Call before any encoding. */
void tr_tokenizer_split_special(struct tr_tokenizer *t);
bool tr_tokenizer_splits(const struct tr_tokenizer *t); /* whether that was called */

enum fr_rc tr_encoder_create(const struct tr_tokenizer *t, struct tr_encoder **out,
                             struct fr_err *err);
void tr_encoder_destroy(struct tr_encoder *e);
const struct tr_tokenizer *tr_encoder_tokenizer(const struct tr_encoder *e);

/* Scratch buffers for the encoder's user; they keep their memory from one text to the next. */
struct tr_encoder_room {
    struct fr_buf text[4];
    struct tr_ids ids[2];
};
struct tr_encoder_room *tr_encoder_room(struct tr_encoder *e);

/* Appends the ids of text (UTF-8; FR_USAGE otherwise). No special tokens are added; the text of
 * added tokens in it becomes their ids. The ids do not depend on earlier calls. */
enum fr_rc tr_encode(struct tr_encoder *e, struct fr_str text, struct tr_ids *ids,
                     struct fr_err *err);

/* Appends the text of ids; bytes that are not UTF-8 become U+FFFD. */
enum fr_rc tr_tokenizer_decode(const struct tr_tokenizer *t, const int32_t *ids, size_t n,
                               bool skip_special, struct fr_buf *out, struct fr_err *err);

#endif
