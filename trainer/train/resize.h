/* --resize_vocab: rows of embedding and head for all tokens of the tokenizer. */
#ifndef TR_TRAIN_RESIZE_H
#define TR_TRAIN_RESIZE_H

#include "trainer/config/args.h"
#include "trainer/config/lora_config.h"
#include "trainer/config/model_config.h"
#include "trainer/tokenizer/tokenizer.h"

/* Sets m->vocab_size to a multiple of 64 that has all tokens of t, which has the template's, if
 * the flag is given and they are more than there are rows. Returns the rows before; 0: none are
 * added. */
int64_t tr_resize_vocab(const struct tr_args *a, const struct tr_tokenizer *t,
                        struct tr_model_config *m);

/* tr_resize_vocab by the tokenizer in the model's folder, which is read if the flag is given. */
enum fr_rc tr_resize_planned(const struct tr_args *a, struct tr_model_config *m, int64_t *before,
                             struct fr_err *err);

/* FR_USAGE: rows are added to weights that the adapter does not hold. */
enum fr_rc tr_resize_held(const struct tr_lora_config *c, const struct tr_model_config *m,
                          struct fr_err *err);

#endif
