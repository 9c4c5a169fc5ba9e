/*
 * Modules that are trained whole beside adapters: --additional_target, modules_to_save of
 * adapter_config.json. As PEFT has it, each name is the end of a module's path, with or without a
 * dot before it: "norm" is the norms of all layers as well. Such a module has no adapter.
 *
 * Where head and embedding are one tensor, PEFT trains a copy of the one that is named, and the
 * other stays as it was: they are two tensors from then on.
 *
 * Source: PEFT 0.21, utils/other.py (_set_trainable, ModulesToSaveWrapper).
 */
#ifndef TR_CONFIG_LORA_SAVES_H
#define TR_CONFIG_LORA_SAVES_H

#include "trainer/config/lora_config.h"

/* What PEFT puts before the names of a model's tensors. */
#define TR_PEFT_PREFIX "base_model.model."

/* module is a path without ".weight". */
bool tr_lora_saves(const struct tr_lora_config *c, const char *module);

/* Whether a tensor of this name, weight or bias, belongs to such a module. */
bool tr_lora_saves_tensor(const struct tr_lora_config *c, const char *tensor);

/* FR_USAGE: a name is the end of no module's path. FR_UNSUPPORTED: it is that of a module with
 * parts, of a router or of a routed expert. */
enum fr_rc tr_lora_check_saves(const struct tr_lora_config *c, const struct tr_model_config *m,
                               struct fr_err *err);

/*
 * To be called before a model is made with c. Makes head and embedding two tensors, in m and in st,
 * where one of them is saved. If c is of a folder, its tensors take the places of those of st:
 * whoever reads st gets the trained ones, and m as many rows of the embedding as they have. st may
 * be NULL. FR_USAGE: the adapter lacks one.
 * FR_UNSUPPORTED: one is FP8 in the base.
 */
enum fr_rc tr_lora_settle(const struct tr_lora_config *c, struct tr_model_config *m,
                          struct tr_st *st, struct fr_err *err);

#endif
