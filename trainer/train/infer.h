/*
 * A model for use without training: a checkpoint, with an adapter or without, on all ranks. More
 * than one rank share the weights as ZeRO stage 3 does; routed experts may stay on their ranks.
 */
#ifndef TR_TRAIN_INFER_H
#define TR_TRAIN_INFER_H

#include "trainer/config/ds_config.h"
#include "trainer/config/lora_config.h"
#include "trainer/model/model.h"

struct tr_infer_opts {
    struct tr_backend *be; /* borrows */
    struct tr_comm *comm;  /* borrows */
    const char *model_dir;
    const char *adapter_dir; /* PEFT's format; NULL: none */
    enum tr_dtype compute;
    int64_t tokens_max, samples_max;       /* of one call */
    int64_t cache_sequences, cache_tokens; /* generation; 0: none */
    bool score, logits;
    bool stay;                   /* routed experts are owned by ranks, tokens move */
    enum tr_expert_group owners; /* with stay: node or world */
};

struct tr_infer {
    struct tr_model_config config;
    struct tr_lora_config lora;
    struct tr_st *st;               /* owns */
    struct tr_model *model;         /* owns */
    struct tr_comm *experts, *rest; /* owns: groups, where experts stay */
};

/* Collective over o->comm. Rank 0 logs how far the weights are read. Errors name the file. Call
 * tr_infer_finish() after a failure as well. */
enum fr_rc tr_infer_open(struct tr_infer *x, const struct tr_infer_opts *o, struct fr_err *err);
void tr_infer_finish(struct tr_infer *x);

#endif
