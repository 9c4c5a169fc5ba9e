/*
 * Regular expressions of adapter configurations (Python's syntax, by PCRE2).
 */
#ifndef TR_CONFIG_REGEX_H
#define TR_CONFIG_REGEX_H

#include "engine/base/err.h"

#include <stdbool.h>

/* *hit: pattern matches the whole of text. FR_USAGE names what is wrong with the pattern. */
enum fr_rc tr_regex_whole(const char *pattern, const char *text, bool *hit, struct fr_err *err);

#endif
