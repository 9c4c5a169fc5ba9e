/* Names in lists, paths, and counts as text. */
#ifndef TR_TEXT_TEXT_H
#define TR_TEXT_TEXT_H

#include "engine/base/err.h"
#include "engine/base/str.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

/* The next name of a list "a, b" at *at, which moves after it; blanks around names do not count,
 * and empty names are passed over. false: there is none. */
bool tr_next_name(const char **at, struct fr_str *name);

/* "DIR/NAME". FR_USAGE where that is too long for a path. */
enum fr_rc tr_path(char out[PATH_MAX], const char *dir, const char *name, struct fr_err *err);

/* A file name or path that is longer than its ending, such as ".json". */
bool tr_ends(const char *name, const char *ending);

/* 12345 as "12,345". */
void tr_show_count(int64_t v, char out[32]);

#endif
