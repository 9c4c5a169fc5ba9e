/*
 * The identity of a run: the digest of its model, and the configuration values that decide its
 * numbers, as "name=value" lines. Ranks compare identities at the start. A resume state carries
 * its run's identity. The number of ranks and the length of the run do not belong to it.
 */
#ifndef TR_SAVE_IDENTITY_H
#define TR_SAVE_IDENTITY_H

#include "engine/base/err.h"
#include "engine/base/str.h"
#include "trainer/comm/comm.h"
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
    bool weights; /* train, beside adapters or without */
};

/* Long values (module lists, patterns) are replaced by their SHA-256. FR_NOMEM: the lines are
 * longer than out. */
enum fr_rc tr_identity_config(const struct tr_identity *id, char out[TR_IDENTITY_TEXT],
                              struct fr_err *err);

/* Appends the first line that differs, "--lora_rank is 8 there, 16 here"; nothing if both are
 * equal. */
void tr_identity_difference(const char *there, const char *here, struct fr_buf *out);

/* A digest of the configuration, of the names, types and shapes of the tensors that the model
 * reads, and of the first bytes of some of them. The bytes tell models of one shape apart. Tensors
 * that the model does not read (further prediction layers, rotary tables) do not count, so their
 * files may be missing. Collective: ranks that have a file supply its part to the others. */
enum fr_rc tr_identity_model(struct tr_comm *world, const struct tr_model_config *c,
                             const struct tr_st *st, char out[TR_IDENTITY_DIGEST],
                             struct fr_err *err);

#endif
