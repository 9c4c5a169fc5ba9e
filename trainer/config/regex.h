/*
 * Regular expressions of adapter configurations (Python's syntax, by PCRE2).
 */
#ifndef TR_CONFIG_REGEX_H
#define TR_CONFIG_REGEX_H

#include "engine/base/err.h"

#include <stdbool.h>

/* Sets *hit if pattern matches the whole text. FR_USAGE: the pattern does not compile. */
enum fr_rc tr_regex_whole(const char *pattern, const char *text, bool *hit, struct fr_err *err);

#endif
