/*
 * The result of a run: the adapter in PEFT's format (adapter_config.json, adapter_model.safetensors
 * with f32 masters, of modules trained whole "base_model.model.MODULE.weight") and the tokenizer's
 * files, in output_dir and in checkpoint-N folders. An
 * adapter with an empty, missing or non-finite tensor is refused. Source: PEFT's documentation of
 * its checkpoint format.
 */
#ifndef TR_SAVE_EXPORT_H
#define TR_SAVE_EXPORT_H

#include "trainer/config/args.h"
#include "trainer/config/lora_config.h"
#include "trainer/save/trained_out.h"
#include "trainer/tensor/safetensors.h"

/* The 2 * p->n tensors of all adapters, A then B of each: "PREFIX.MODULE.lora_A.weight", (r, in)
 * and (out, r) f32 in flat (padded). Names live in the arena. */
enum fr_rc tr_adapter_items(const struct tr_params *p, const float *flat, const char *prefix,
                            struct fr_arena *arena, struct tr_st_item *out, struct fr_err *err);

struct tr_adapter_out {
    const struct tr_params *params;
    const float *flat; /* (padded) the masters, whole */
    const struct tr_args *args;
    const struct tr_lora_config *lora;
    const struct tr_st_item *whole; /* tensors that train beside, f32, by their names in the base */
    size_t nwhole;
};

/* Writes adapter and companions to dir, making it. */
enum fr_rc tr_export_adapter(const char *dir, const struct tr_adapter_out *o, struct fr_err *err);

/* The same where weights train beside the adapters: every rank calls, between steps, and rank 0
 * writes. Shapes are those of st. An error is the same on every rank. */
enum fr_rc tr_export_adapter_beside(const char *dir, const struct tr_adapter_out *o,
                                    const struct tr_trained_out *beside, const struct tr_st *st,
                                    struct fr_err *err);

/* Writes training_args.json. */
enum fr_rc tr_export_args(const char *dir, const struct tr_args *a, struct fr_err *err);

/* Reads an adapter folder into flat (padded elements; padding is not written). Names and shapes
 * must be exactly those of p, but for tensors of modules that lora saves, which come another way
 * (tr_lora_settle). */
enum fr_rc tr_import_adapter(const char *dir, const struct tr_params *p,
                             const struct tr_lora_config *lora, float *flat, struct fr_err *err);

/* Prefix of a checkpoint-N folder's name while it is being written. */
#define TR_EXPORT_TMP ".tmp-"

/* Removes unfinished checkpoints of a killed run. */
void tr_export_sweep(const char *output_dir);

/* Writes the steps of the existing checkpoint-N folders to steps, at most cap; returns their
 * number. */
size_t tr_export_steps(const char *output_dir, int64_t *steps, size_t cap);

/* Removes the oldest checkpoint-N folders until `keep` are left; 0 and below keep all, as in the
 * Trainer. Never removes that of step `best` (0: none). */
void tr_export_rotate(const char *output_dir, int64_t keep, int64_t best);

#endif
