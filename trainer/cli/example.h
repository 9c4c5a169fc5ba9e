/*
 * A small example that needs no download: a tiny model of the DeepSeek-V3 or the Llama architecture
 * with a tokenizer learned from the generated text, and a data set of arithmetic exercises. All of
 * it follows from a seed.
 */
#ifndef TR_CLI_EXAMPLE_H
#define TR_CLI_EXAMPLE_H

#include "engine/base/err.h"
#include "engine/base/str.h"

#include <stdbool.h>
#include <stdint.h>

enum { TR_EXAMPLE_CHATS = 4 };

/* A model, and the tokens of its tokenizer that are not learned. */
struct tr_example_kind {
    const char *name, *config;          /* "deepseek"; config.json */
    const char *begin, *end, *pad;      /* ids 0, 1, 2 */
    const char *chat[TR_EXAMPLE_CHATS]; /* after the last merge */
    int chats;
    bool chat_special;
};

/* Looks a kind up by its --model name. FR_USAGE: unknown name. */
enum fr_rc tr_example_find(const char *name, const struct tr_example_kind **out,
                           struct fr_err *err);

/*
 * Writes DIR/model (config.json, tokenizer.json, tokenizer_config.json, model.safetensors) and
 * DIR/data (dataset_info.json, arithmetic.jsonl with `records` records in alpaca form).
 * DIR/data/dataset_info.json is written last; if it exists and overwrite is false, nothing is done.
 */
enum fr_rc tr_example_write(const char *dir, const struct tr_example_kind *kind, uint64_t seed,
                            int64_t records, bool overwrite, struct fr_err *err);

/* Generates the exercises: *lines gets JSON lines, *text their plain text, from which merges are
 * learned. */
enum fr_rc tr_exercises(uint64_t seed, int64_t records, struct fr_buf *lines, struct fr_buf *text,
                        struct fr_err *err);

enum { TR_EXAMPLE_VOCAB = 512 };

/* A byte-level BPE tokenizer.json into *json: 256 bytes, merges learned from the words of text
 * (letters with at most one blank in front), special tokens; ids below TR_EXAMPLE_VOCAB. */
enum fr_rc tr_learn_tokenizer(const struct tr_example_kind *kind, struct fr_str text,
                              struct fr_buf *json, struct fr_err *err);

#endif
