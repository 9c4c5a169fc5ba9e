/*
 * What a tokenizer's folder says, in one form. transformers 5.24 reads tokenizer.json, and then
 *
 *   - where tokenizer_config.json has no added_tokens_decoder: special_tokens_map.json over its
 *     names, a null too, and added_tokens.json;
 *   - more special tokens by extra_special_tokens, or by additional_special_tokens where those are
 *     none, and by names that a model has of its own: those that end in "_token", the object
 *     model_specific_special_tokens that it saves, and an object in extra_special_tokens. Of a name
 *     of its own the configuration's text counts, not the map's token;
 *   - and adds every special token that is no added token yet, with the flags of the last of its
 *     forms. Numbers are those after the vocabulary in this order, whatever a file has;
 *   - where its class is one that builds its pipeline itself: vocabulary and merges of
 *     tokenizer.json alone, the class's normalizer, pre-tokenizer and decoder, and added tokens of
 *     the configuration. The class is tokenizer_class, or what config.json's model_type stands for.
 *
 * Source: AutoTokenizer.from_pretrained and convert_to_native_format as they behave;
 * tests/golden/folder.py records it.
 */
#ifndef TR_TOKENIZER_TOK_CLASS_H
#define TR_TOKENIZER_TOK_CLASS_H

#include "engine/base/err.h"
#include "trainer/tensor/twice.h"

#include <jansson.h>

/* Whether a class adds its special tokens a second time, as they are or plain, without flags. */
enum tr_tok_again { TR_TOK_ONCE, TR_TOK_AGAIN, TR_TOK_PLAIN };

/* The files, parsed; NULL where there is none but root. Settled in place. */
struct tr_tok_files {
    json_t *root, *config, *map, *added, *model; /* tokenizer.json, tokenizer_config.json,
                                                    special_tokens_map.json, added_tokens.json,
                                                    config.json */
    json_t *own;   /* the model's own names for tokens and their tokens */
    json_t *named; /* out: special tokens that have names, in the order in which they are added */
    const char *rebuilt; /* out: the class whose pipeline differs from tokenizer.json's; or NULL */
    enum tr_tok_again again; /* out */
    const char *foreign;     /* out: a class that builds one which is not done here; or NULL */
    bool legacy;             /* out: the configuration lists no added tokens: map and added count */
    bool merged;             /* out: one of them said something */
};

/* Settles f in place: afterwards only root and config matter. Each difference between files gets a
 * row in twice. */
enum fr_rc tr_tok_settle(struct tr_tok_files *f, struct tr_twice *twice, struct fr_err *err);

/* tok_class.c: writes the pipeline of the folder's tokenizer class, if it is known here, into root
 * and config. */
enum fr_rc tr_tok_apply_class(struct tr_tok_files *f, struct tr_twice *twice, struct fr_err *err);

void tr_tok_files_finish(struct tr_tok_files *f);

#endif
