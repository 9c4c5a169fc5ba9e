/* What merge and export share: a model written as its weights and an adapter give it, or as it is,
 * for LLaMA-Factory's files of arguments for export. */
#ifndef TR_CLI_MERGE_H
#define TR_CLI_MERGE_H

#include "trainer/cli/arg_map.h"

struct tr_merge_words {
    const char *model_dir, *output;
    const char *adapter_dir;   /* NULL: the model is copied, in shards of shard_bytes */
    const char *template_name; /* NULL: its files stay as they are */
    int64_t shard_bytes;
};

enum { TR_MERGE_RULES = 22 };
extern const struct tr_arg_rule tr_merge_rules[TR_MERGE_RULES];

/* Prints what was done. */
enum fr_rc tr_merge_run(struct tr_call *call, const struct tr_merge_words *w, struct fr_err *err);

/* Writes the template as chat template of a model folder where its base has none of its own, and
 * the tokenizer's files that the template changes. */
enum fr_rc tr_merge_template(const char *name, const char *model_dir, const char *out_dir,
                             struct fr_err *err);

#endif
