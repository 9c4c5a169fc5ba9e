/*
 * Lines that commands of Slurm print: fields with "|" between them. Texts are borrowed.
 */
#ifndef FR_SLURM_FIELDS_H
#define FR_SLURM_FIELDS_H

#include "engine/base/err.h"
#include "engine/base/str.h"

#include <stdbool.h>
#include <stdint.h>

#define FR_DIGITS "0123456789"
#define FR_CAPITALS "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define FR_NAME_CHARACTERS "abcdefghijklmnopqrstuvwxyz" FR_CAPITALS FR_DIGITS "._-"

enum { FR_SLURM_TAG = 32, FR_SLURM_INDEX = 5 };

struct fr_str fr_field_trimmed(struct fr_str s); /* without white space at its ends */
/* Whether it has nothing but those characters, and at least one. */
bool fr_field_only(struct fr_str s, const char *characters);
/* The first n fields of a line; the last of them goes to the line's end. False: there are fewer. */
bool fr_fields(struct fr_str line, struct fr_str *f, size_t n);
bool fr_field_number(struct fr_str s, int64_t *n); /* digits alone */
/* A time in UTC, in ms; words such as N/A are no time: 0. False: it is another text. */
bool fr_field_time(struct fr_str s, int64_t *wall);
/* Of the name fr-TAG of a job; false: it has another name. */
bool fr_field_tag(struct fr_str name, char tag[FR_SLURM_TAG + 1]);
/* "4711": job, element 0. "4711_7", of an array: its job, and 1 + the index. */
bool fr_field_job(struct fr_str s, int64_t *job, int64_t *element);

/* FR_CORRUPT, with the beginning of that line of the program. */
enum fr_rc fr_fields_refuse(struct fr_err *err, const char *program, struct fr_str line);

#endif
