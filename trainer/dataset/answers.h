/*
 * Detects answer columns to which the datasets library would give another type than text. In a .csv
 * file these are numbers and booleans (pandas' rules). In .json and .jsonl files they are dates and
 * times (pyarrow's rules: 2024-01-31, 2024-01-31T12:30:00Z). LLaMA-Factory drops the records of
 * such a column. Here the text is trained on, with a warning.
 */
#ifndef TR_DATASET_ANSWERS_H
#define TR_DATASET_ANSWERS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct tr_answers {
    int64_t seen;                     /* answers that are text and not empty */
    bool no_number, no_bool, no_time; /* an answer excludes this type */
};

void tr_answers_note(struct tr_answers *a, bool csv, const json_t *answer);
/* "numbers", "true and false", "dates and times"; NULL: they stay text. */
const char *tr_answers_are(const struct tr_answers *a);

#endif
