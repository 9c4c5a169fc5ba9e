/* A data set in memory for score_test.c, apart from it: models have their own struct tr_tokens. */
#ifndef TESTS_UNIT_SCORE_DATA_H
#define TESTS_UNIT_SCORE_DATA_H

#include "trainer/dataset/dataset.h"

/* n samples of so many tokens, at most 17, of which those up to prompts[i] are no targets; NULL: an
 * error. */
struct tr_dataset *score_data(const int64_t *lengths, const int64_t *prompts, int64_t n);

#endif
