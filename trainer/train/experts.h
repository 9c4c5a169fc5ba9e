/*
 * How the tokens of a run are spread over its routed experts: counted in training, written to
 * OUTPUT_DIR/expert_counts.json, and read by a later run that places experts on ranks by it.
 */
#ifndef TR_TRAIN_EXPERTS_H
#define TR_TRAIN_EXPERTS_H

#include "trainer/comm/comm.h"
#include "trainer/model/model.h"

/* Of all ranks since the start of this process. Every rank calls it; rank 0 writes the file, and
 * with `say` prints how busy the busiest rank is beside the mean, as experts lie and as they would
 * lie placed by these counts. Nothing happens where experts do not stay. */
struct tr_expert_report {
    struct tr_comm *world;        /* borrows */
    const struct tr_comm *group;  /* borrows: the ranks that own experts; NULL: none */
    const struct tr_model *model; /* borrows */
    const struct tr_model_config *config;
    const char *output_dir;
    bool say;
};
enum fr_rc tr_experts_report(const struct tr_expert_report *r, struct fr_err *err);

/* The counts of such a file, (MoE layers, E), owned by the caller. FR_USAGE names the file, and the
 * layer where it is of another model. */
enum fr_rc tr_experts_read(const char *path, const struct tr_model_config *c, int64_t **rows,
                           struct fr_err *err);

#endif
