/*
 * How several data sets become one, as the reference's data library mixes them.
 * Source: the documentation of datasets.interleave_datasets and numpy's Generator.choice.
 */
#ifndef TR_DATASET_MIX_H
#define TR_DATASET_MIX_H

#include "trainer/config/args.h"

#include <stdint.h>

enum { TR_MIX_SETS = 64 }; /* at most */

struct tr_mix_opts {
    enum tr_mix_strategy strategy;
    const double *probs; /* one a set, of sum 1; NULL: by turns */
    uint64_t seed;
};

/*
 * (*out)[0..*count): records of the sets laid end to end, set i having lengths[i] of them, in the
 * order of the mixture. The caller frees it by fr_sys.free. FR_USAGE when a set is empty.
 */
enum fr_rc tr_mix(const int64_t *lengths, size_t n, const struct tr_mix_opts *o, int64_t **out,
                  int64_t *count, struct fr_err *err);

/* The set that a draw x in [0, 1) selects: the first whose cumulative share exceeds x. */
size_t tr_mix_set(const double *probs, size_t n, double x);

/* "0.7, 0.3": n numbers of sum 1. */
enum fr_rc tr_mix_probs(const char *text, size_t n, double *out, struct fr_err *err);

#endif
