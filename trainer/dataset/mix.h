/*
 * How several data sets become one, as the reference's data library mixes them.
 * Source: the documentation of datasets.interleave_datasets and numpy's Generator.choice.
 */
#ifndef TR_DATASET_MIX_H
#define TR_DATASET_MIX_H

#include "trainer/config/args.h"

#include <stdint.h>

enum { TR_MIX_SETS = 64 }; /* the most sets of a mixture */

struct tr_mix_opts {
    enum tr_mix_strategy strategy;
    const double *probs; /* (n) the share of each set, sum 1; NULL: sets take turns */
    uint64_t seed;
};

/*
 * Record j of set i has the number lengths[0] + ... + lengths[i-1] + j. (*out)[0..*count) are the
 * numbers in the order of the mixture; the caller frees *out by fr_sys.free. FR_USAGE: a set is
 * empty, a set with share 0 would have to be used up, or n is above TR_MIX_SETS.
 */
enum fr_rc tr_mix(const int64_t *lengths, size_t n, const struct tr_mix_opts *o, int64_t **out,
                  int64_t *count, struct fr_err *err);

/* The set that a draw x in [0, 1) selects: the first whose cumulative share exceeds x. */
size_t tr_mix_set(const double *probs, size_t n, double x);

/* Reads n shares, "0.7, 0.3", into out. FR_USAGE: not n numbers from 0 to 1, or their sum is not 1.
 */
enum fr_rc tr_mix_probs(const char *text, size_t n, double *out, struct fr_err *err);

#endif
