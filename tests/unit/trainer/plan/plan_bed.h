/* Plans of small models for the tests of trainer/plan: machines, and comparisons. */
#ifndef TESTS_UNIT_PLAN_BED_H
#define TESTS_UNIT_PLAN_BED_H

#include "tests/unit/check.h"
#include "tests/unit/trainer/model/tiny_model.h"
#include "trainer/plan/plan.h"

static inline bool near(double got, double want, double part)
{
    if (fabs(got - want) <= part * fabs(want))
        return true;
    printf("   got %.12g, want %.12g\n", got, want);
    return false;
}

static inline bool same(double got, double want)
{
    return near(got, want, 1e-9);
}

static inline bool moves(struct tr_plan_moves got, double self, double node, double far)
{
    return same(got.self, self) && same(got.node, node) && same(got.far, far);
}

static inline struct tr_cluster a_cluster(int64_t nodes, int64_t gpus)
{
    return (struct tr_cluster){.nodes = nodes,
                               .gpus = gpus,
                               .gpu = {.name = "gpu",
                                       .flops = 1e9,
                                       .memory = 1e10,
                                       .stream = 1e12,
                                       .link = 1e9,
                                       .swap = 1e9,
                                       .host = 1e9},
                               .network = 1e8,
                               .disk = 1e9,
                               .failure_s = 1e5};
}

static inline double bytes_of(const struct tr_plan_layout *l, const char *name)
{
    for (size_t i = 0; i < l->n_rows; i++)
        if (strcmp(l->rows[i].name, name) == 0)
            return (double)l->rows[i].bytes;
    return 0;
}

static inline bool make(struct tr_plan *p, const struct tr_plan_job *job,
                        const struct tr_cluster *c)
{
    struct fr_err err = {0};

    if (CHECK_INT(tr_plan_make(job, c, p, &err), FR_OK))
        return true;
    printf("   message: %s\n", err.msg);
    return false;
}

/* Rings of so many ranks on some nodes, each with a part. */
static inline bool rings(struct tr_plan_moves m, double count, double ranks, double nodes,
                         double part)
{
    double all = count * ranks * (ranks - 1) * part, far = nodes > 1 ? all * nodes / ranks : 0;

    return moves(m, count * ranks * part, all - far, far);
}

#endif
