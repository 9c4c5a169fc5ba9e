/*
 * Counts of tokens per routed expert. Training writes them to OUTPUT_DIR/expert_counts.json. A
 * later run places experts on ranks by them; `flowtrain plan --placement` turns them into a table
 * of owners.
 */
#ifndef TR_TRAIN_EXPERTS_H
#define TR_TRAIN_EXPERTS_H

#include "trainer/comm/comm.h"
#include "trainer/model/model.h"

/* Sums the counts of all ranks since this process began. Every rank calls it; rank 0 writes the
 * file. With `say` rank 0 prints the load of the busiest rank over the mean, for the current
 * placement and for the placement that these counts give. Without expert parallelism (experts stay,
 * tokens move) it does nothing. */
struct tr_expert_report {
    struct tr_comm *world;        /* borrows */
    const struct tr_comm *group;  /* borrows: the ranks that own experts; NULL: none */
    const struct tr_model *model; /* borrows */
    const struct tr_model_config *config;
    const char *output_dir;
    bool say;
};
enum fr_rc tr_experts_report(const struct tr_expert_report *r, struct fr_err *err);

/* The number among all layers of MoE layer i, counted from 0 among MoE layers. */
int64_t tr_experts_layer(const struct tr_model_config *c, int64_t i);

/* Input of a placement: counted rows per expert, or owners computed from them for groups of
 * `ranks`. */
struct tr_expert_places {
    int64_t *numbers; /* owns: (MoE layers, E); NULL: none, experts lie in order */
    int64_t ranks;    /* ranks of a group, and numbers are owners; 0: numbers are counted rows */
};

/* Reads expert_counts.json or the output of tr_experts_print_places; the caller frees numbers.
 * FR_USAGE names the file, and the layer if the file is of another model. */
enum fr_rc tr_experts_read(const char *path, const struct tr_model_config *c,
                           struct tr_expert_places *out, struct fr_err *err);

/* The owner of each expert in a group of P ranks: *ranks (MoE layers, E), freed by the caller.
 * FR_USAGE: they were made for groups of another size. */
enum fr_rc tr_experts_place(const struct tr_expert_places *p, const struct tr_model_config *c,
                            int P, int32_t **ranks, struct fr_err *err);

/* Prints the owners as JSON and, for each layer, the load of the busiest rank over the mean: with
 * experts in order, and with this placement. p holds rows. */
enum fr_rc tr_experts_print_places(const struct tr_expert_places *p,
                                   const struct tr_model_config *c, int P, struct fr_err *err);

#endif
