/*
 * Which weights of a model train: --finetuning_type full and freeze, or beside adapters those of
 * --additional_target (lora_saves.h). Router biases never do: they are buffers, not parameters.
 *
 * freeze, as LLaMA-Factory means it (model/adapter.py, _setup_freeze_tuning): the last n layers
 * (n < 0: the first -n), of each the modules named, or all of it; and every parameter whose name
 * contains an extra module's: "norm" is also the norms of all layers.
 */
#ifndef TR_CONFIG_TRAINED_H
#define TR_CONFIG_TRAINED_H

#include "engine/base/err.h"
#include "engine/base/str.h"
#include "trainer/config/args.h"
#include "trainer/config/lora_config.h"
#include "trainer/config/model_config.h"

#include <stdbool.h>

struct tr_trained {
    bool all; /* weights train instead of adapters: all, or those of the members below */
    const struct tr_lora_config *beside; /* borrows: adapters whose modules_to_save train beside
                                            them; NULL: none do */
    bool freeze, tied;
    bool save_masters;   /* saved as f32 masters, not as weights of the run's type */
    int64_t first, last; /* layers [first, last) */
    const char *modules; /* borrows: comma list of direct children of a layer; NULL: all */
    const char *extra;   /* borrows: comma list of parts of names; NULL: none */
};

/* FR_USAGE: a module that the model does not have, or nothing trains. notes: how many tensors an
 * extra module means. a is borrowed. */
enum fr_rc tr_trained_read(const struct tr_args *a, const struct tr_model_config *c,
                           struct tr_trained *out, struct fr_buf *notes, struct fr_err *err);

/* With adapters whose names are settled: what trains beside them. l is borrowed. */
void tr_trained_beside(struct tr_trained *r, const struct tr_lora_config *l);

/* Whether any weight trains. */
bool tr_trained_any(const struct tr_trained *r);

bool tr_trained_has(const struct tr_trained *r, const struct tr_model_tensor *t);

#endif
