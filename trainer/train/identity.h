/*
 * What makes a run the same run: the digest of its model, and the values of its configuration that
 * decide the numbers, as "name=value" lines. Ranks compare them at the start, a resume state
 * carries them. How many ranks share a step's samples, and how long the run is, are not among them.
 */
#ifndef TR_TRAIN_IDENTITY_H
#define TR_TRAIN_IDENTITY_H

#include "engine/base/err.h"
#include "engine/base/str.h"
#include "trainer/config/ds_config.h"
#include "trainer/config/lora_config.h"
#include "trainer/config/model_config.h"
#include "trainer/tensor/safetensors.h"

enum { TR_IDENTITY_TEXT = 4096, TR_IDENTITY_DIGEST = 65 };

struct tr_identity {
    const struct tr_args *args;
    const struct tr_derived *derived;
    const struct tr_ds_config *ds;
    const struct tr_lora_config *lora;
};

/* Long values (module lists, patterns) stand there as their SHA-256. */
enum fr_rc tr_identity_config(const struct tr_identity *id, char out[TR_IDENTITY_TEXT],
                              struct fr_err *err);

/* The first line that differs: "--lora_rank is 8 there, 16 here". */
void tr_identity_difference(const char *there, const char *here, struct fr_buf *out);

/* The configuration, the tensors' names, types and shapes, and the first bytes of some tensors:
 * models of one shape that were trained apart differ there. */
enum fr_rc tr_identity_model(const struct tr_model_config *c, const struct tr_st *st,
                             char out[TR_IDENTITY_DIGEST], struct fr_err *err);

#endif
