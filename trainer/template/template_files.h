/*
 * The tokenizer's files as a template changes them: its stop word is eos, eos is the pad token
 * where there is none, and missing stop words are added tokens. With these files an adapter or a
 * merged model encodes and stops as in training. Source: LLaMA-Factory's fix_special_tokens, and
 * what transformers saves after it.
 */
#ifndef TR_TEMPLATE_TEMPLATE_FILES_H
#define TR_TEMPLATE_TEMPLATE_FILES_H

#include "trainer/template/template.h"

/* New contents of files; empty: the file does not change. Zero it to start. */
struct tr_template_files {
    struct fr_buf tokenizer, config, map; /* tokenizer.json, tokenizer_config.json,
                                             special_tokens_map.json */
};

/* tok is the tokenizer of model_dir after tr_template_fix. Without a tokenizer_config.json in
 * model_dir, no file changes. */
enum fr_rc tr_template_files_make(const struct tr_template *t, const struct tr_tokenizer *tok,
                                  const char *model_dir, struct tr_template_files *out,
                                  struct fr_err *err);
/* Overwrites the copies in dir. */
enum fr_rc tr_template_files_write(const struct tr_template_files *f, const char *dir,
                                   struct fr_err *err);
void tr_template_files_finish(struct tr_template_files *f);

#endif
