/*
 * What a run leaves for others: the adapter in PEFT's format (adapter_config.json,
 * adapter_model.safetensors with f32 masters) and the tokenizer's files, in
 * output_dir and in checkpoint-N folders. An adapter with an empty, missing or non-finite tensor is
 * refused. Source: PEFT's documentation of its checkpoint format.
 */
#ifndef TR_SAVE_EXPORT_H
#define TR_SAVE_EXPORT_H

#include "trainer/config/args.h"
#include "trainer/config/lora_config.h"
#include "trainer/model/model.h"
#include "trainer/tensor/safetensors.h"

/* The 2 * p->n tensors of all adapters, A then B of each: "PREFIX.MODULE.lora_A.weight", (r, in)
 * and (out, r) f32 in flat (padded). Names live in the arena. */
enum fr_rc tr_adapter_items(const struct tr_params *p, const float *flat, const char *prefix,
                            struct fr_arena *arena, struct tr_st_item *out, struct fr_err *err);

/* Writes adapter and companions to dir, making it; flat (padded) are the masters, whole. */
enum fr_rc tr_export_adapter(const char *dir, const struct tr_params *p, const float *flat,
                             const struct tr_args *a, const struct tr_lora_config *lora,
                             struct fr_err *err);

/* Reads an adapter folder into flat (padded elements; what is no adapter's stays as it is). Key set
 * and shapes must be exactly those of p. */
enum fr_rc tr_import_adapter(const char *dir, const struct tr_params *p, float *flat,
                             struct fr_err *err);

/* A checkpoint-N folder carries this in front of its name until it is whole. */
#define TR_EXPORT_TMP ".tmp-"

/* Removes what a killed run left of a checkpoint that was not whole. */
void tr_export_sweep(const char *output_dir);

/* The steps of the checkpoint-N folders that are there, at most cap; how many. */
size_t tr_export_steps(const char *output_dir, int64_t *steps, size_t cap);

/* Removes the oldest checkpoint-N folders but `keep` of them; keep < 0 keeps all. That of step
 * `best` is kept; 0: none is. */
void tr_export_rotate(const char *output_dir, int64_t keep, int64_t best);

#endif
