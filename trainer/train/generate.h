/*
 * Generation: prompts become answers, token by token, through the model's caches. Prompt i belongs
 * to rank i mod W; each rank keeps up to `sequences` answers in work and takes up its next prompt
 * when one ends. An answer is the same whatever else is in work.
 */
#ifndef TR_TRAIN_GENERATE_H
#define TR_TRAIN_GENERATE_H

#include "trainer/comm/comm.h"
#include "trainer/tokenizer/tokenizer.h"
#include "trainer/model/model.h"
#include "trainer/train/sample.h"

#include <stdbool.h>
#include <stdint.h>

struct tr_prompt {
    const int32_t *ids; /* borrows; n of them, 1 <= n <= tokens_max */
    int64_t n;
};

enum tr_answer_end {
    TR_ANSWER_EOS,    /* the model ended it */
    TR_ANSWER_STOP,   /* a stop string */
    TR_ANSWER_LENGTH, /* max_new_tokens, or the cache is full */
};
const char *tr_answer_end_name(enum tr_answer_end end); /* "eos", "stop", "length" */

/* Zero it to start. */
struct tr_answer {
    struct tr_ids ids; /* owns: what was generated, without the token that ended it */
    char *text;        /* owns: decoded, cut before a stop string; NULL without a tokenizer */
    size_t text_n;     /* its bytes, which may be NUL too; one more stands after them */
    enum tr_answer_end end;
};
void tr_answer_finish(struct tr_answer *a);

struct tr_generate_opts {
    struct tr_model *model; /* made with caches */
    struct tr_comm *comm;
    const struct tr_tokenizer *tokenizer; /* NULL: ids alone, no stop strings */
    int64_t vocab_size, tokens_max;       /* of the model */
    int64_t sequences, cache_tokens;      /* caches of the model */
    int64_t max_new_tokens;
    struct tr_sampling sampling;
    const int32_t *eos; /* ids that end an answer */
    size_t neos;
    const char *const *stops; /* text that ends an answer */
    size_t nstops;
    /* Called with each piece of an answer's text once it is final; NULL: never. */
    void (*piece)(void *arg, int64_t prompt, struct fr_str text);
    void *arg;
};

/* Fills the answers of this rank's prompts in answers[0..n); the others do not change. Every rank
 * calls it with the same number of prompts. Without `piece`, rank 0 logs progress. FR_USAGE: a
 * prompt is empty or longer than the caches. */
enum fr_rc tr_generate(const struct tr_generate_opts *o, const struct tr_prompt *prompts, int64_t n,
                       struct tr_answer *answers, struct fr_err *err);

#endif
