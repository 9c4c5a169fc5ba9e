/*
 * Prompts and their answers, for generate and eval: prompts made by a template or taken from a data
 * set, answered by all ranks, and brought to rank 0.
 */
#ifndef TR_CLI_ANSWERS_H
#define TR_CLI_ANSWERS_H

#include "trainer/cli/session.h"
#include "trainer/train/generate.h"

struct tr_answer_flags {
    int64_t max_new_tokens, seed, top_k; /* top_k -1: not given */
    int sample;                          /* 0: false, 1: true, -1: not given */
    double temperature, top_p;           /* -1: not given */
    struct tr_list stops;
};

#define TR_ANSWER_DEFAULTS                                                                         \
    {                                                                                              \
        .max_new_tokens = 256, .seed = 42, .top_k = -1, .sample = -1, .temperature = -1,           \
        .top_p = -1                                                                                \
    }

#define TR_ANSWER_FLAGS(type, f)                                                                   \
    TR_FLAG("max_new_tokens", TR_INT, offsetof(type, f.max_new_tokens),                            \
            "tokens of an answer, at most [256]", .least = 1, .most = 1 << 24),                    \
        TR_FLAG("do_sample", TR_BOOL, offsetof(type, f.sample),                                    \
                "true: draw, by 0.95, 50 and 0.7 where nothing is said"),                          \
        TR_FLAG("temperature", TR_REAL, offsetof(type, f.temperature),                             \
                "0: the most likely token; else draw [0]", .high = 1e6),                           \
        TR_FLAG("top_k", TR_INT, offsetof(type, f.top_k),                                          \
                "draw from the k most likely; 0: all [0]", .most = INT32_MAX),                     \
        TR_FLAG("top_p", TR_REAL, offsetof(type, f.top_p),                                         \
                "draw from the fewest of this share [1]", .low = 1e-9, .high = 1),                 \
        TR_FLAG("seed", TR_INT, offsetof(type, f.seed), "of what is drawn [42]",                   \
                .most = INT64_MAX),                                                                \
        TR_FLAG("stop", TR_LIST, offsetof(type, f.stops),                                          \
                "text that ends an answer; may be repeated")

/* In a file, temperature, top_k and top_p turn sampling on, as in LLaMA-Factory. Call it after the
 * words are read. */
void tr_answer_flags_fill(struct tr_answer_flags *f, const struct tr_call *call);

/* A prompt and its answer. Zero it to start. */
struct tr_task {
    struct tr_ids ids;       /* owns */
    char *prompt;            /* owns: for the output */
    char *label;             /* owns: the answer of the data set; NULL: none */
    struct tr_answer answer; /* whole on rank 0 once answered */
};

struct tr_tasks {
    struct tr_task *v; /* owns */
    int64_t n;
    size_t cap;
};

void tr_tasks_finish(struct tr_tasks *t);

/* Adds a prompt made of a user's text. */
enum fr_rc tr_tasks_prompt(struct tr_tasks *t, const struct tr_session *s, const char *system,
                           struct fr_str text, struct fr_err *err);

/* Adds one prompt a sample: the ids before the last trained part, which becomes the label. */
enum fr_rc tr_tasks_data(struct tr_tasks *t, const struct tr_session *s,
                         const struct tr_dataset *data, struct fr_err *err);

/* Writes one JSON object a line to path (NULL: prints): prompt, predict, finish, and label if
 * known. Names are those of LLaMA-Factory's generated_predictions.jsonl. */
enum fr_rc tr_tasks_write(const struct tr_tasks *t, const char *path, struct fr_err *err);

/* A generation of answers: the options, and eos from the tokenizer and generation_config.json. */
struct tr_asking {
    const struct tr_session *session;
    struct tr_infer *infer; /* made with these caches */
    struct tr_generate_opts o;
    int32_t eos[TR_FLAG_MANY];
};
enum fr_rc tr_asking_read(struct tr_asking *a, const struct tr_session *s,
                          const struct tr_answer_flags *f, struct fr_err *err);
/* Sizes the caches for a's answers to t. */
void tr_asking_size(struct tr_asking *a, const struct tr_tasks *t, struct tr_infer_opts *o);

/* Generates all answers; rank 0 gets all of them. Collective. */
enum fr_rc tr_ask(struct tr_asking *a, struct tr_tasks *t, struct fr_err *err);

#endif
