/*
 * What datasets makes of a column of answers whose texts all look like another type: of numbers or
 * true and false in a .csv file (pandas' rules), of dates and times in .json and .jsonl files
 * (pyarrow's: 2024-01-31, 2024-01-31T12:30:00Z). LLaMA-Factory keeps answers that are text and
 * drops the records of such a column; here the text is trained on, and a line says so.
 */
#ifndef TR_DATASET_ANSWERS_H
#define TR_DATASET_ANSWERS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct tr_answers {
    int64_t seen;                     /* answers that are text and not empty */
    bool no_number, no_bool, no_time; /* one of them cannot be that */
};

void tr_answers_note(struct tr_answers *a, bool csv, const json_t *answer);
/* "numbers", "true and false", "dates and times"; NULL: they stay text. */
const char *tr_answers_are(const struct tr_answers *a);

#endif
