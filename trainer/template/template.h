/*
 * Chat templates as tables of slots: how a conversation becomes pairs of (source, target) token
 * ids. One template is one row. Literals, names and the rules of truncation are LLaMA-Factory's.
 */
#ifndef TR_TEMPLATE_TEMPLATE_H
#define TR_TEMPLATE_TEMPLATE_H

#include "engine/base/err.h"
#include "trainer/tokenizer/tokenizer.h"
#include "trainer/template/tools.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tr_role { TR_USER, TR_ASSISTANT, TR_OBSERVATION, TR_FUNCTION };

struct tr_message {
    enum tr_role role;
    struct fr_str text;
};

/* One example: an even number of messages, user and assistant side in turn. Text is borrowed. */
struct tr_example {
    const struct tr_message *messages;
    size_t n;
    struct fr_str system; /* empty: the template's default */
    struct fr_str tools;  /* JSON list, empty: none */
};

struct tr_template;

/* FR_USAGE with a suggestion when there is no such template. */
enum fr_rc tr_template_find(const char *name, const struct tr_template **out, struct fr_err *err);
/* As tr_template_find; "auto" selects the template that equals the chat template in the model's
 * folder. FR_USAGE: that chat template is unknown. */
enum fr_rc tr_template_choose(const char *name, const char *model_dir,
                              const struct tr_template **out, struct fr_err *err);
const char *tr_template_name(const struct tr_template *t);
/* Appends all names, one a line. */
void tr_template_names(struct fr_buf *out);

/* Appends the chat template of the model's folder: chat_template.jinja, else the one in
 * tokenizer_config.json, else nothing. */
enum fr_rc tr_template_read_chat(const char *model_dir, struct fr_buf *out, struct fr_err *err);
/* Appends the template as a chat template in Jinja, with the special tokens of tok. Appends nothing
 * if the model's folder has a chat template that this template does not replace. */
enum fr_rc tr_template_chat(const struct tr_template *t, const struct tr_tokenizer *tok,
                            const char *model_dir, struct fr_buf *out, struct fr_err *err);

/* Applies the template to a tokenizer: its stop word becomes eos; without a stop word and without
 * an eos, <|endoftext|> does. Stop words that the tokenizer lacks are added. */
enum fr_rc tr_template_fix(const struct tr_template *t, struct tr_tokenizer *tok,
                           struct fr_err *err);

struct tr_template_opts {
    int64_t cutoff_len;
    bool mask_history, train_on_prompt;
    const char *default_system;       /* NULL: the template's own */
    const enum tr_tool_format *tools; /* NULL: the template's own */
    /* for templates whose answers begin with a thought: no_thinking drops thoughts;
     * preserve_thinking keeps those of earlier answers with a masked history */
    bool no_thinking, preserve_thinking;
};

enum { TR_IGNORE = -100 };

/* Where examples are appended: ids and, of equal length, labels. */
struct tr_encoded {
    struct tr_ids *ids, *labels;
};

/* Appends the example's ids and labels (TR_IGNORE where not trained; not shifted), cut to
 * cutoff_len. */
enum fr_rc tr_template_encode(const struct tr_template *t, struct tr_encoder *e,
                              const struct tr_example *x, const struct tr_template_opts *o,
                              struct tr_encoded out, struct fr_err *err);

/* Appends the ids of a conversation that waits for an answer: an odd number of messages, the last
 * one from the user side. With no_thinking, a template that reasons appends an empty thought. */
enum fr_rc tr_template_prompt(const struct tr_template *t, struct tr_encoder *e,
                              const struct tr_example *x, const struct tr_template_opts *o,
                              struct tr_ids *ids, struct fr_err *err);

/* Truncation to c ids: *source of s source ids and *target of t target ids are kept. */
void tr_fit(int64_t s, int64_t t, int64_t c, int64_t *source, int64_t *target);

#endif
