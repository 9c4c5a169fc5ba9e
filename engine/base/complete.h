/*
 * Completion of a program's command line in bash, zsh and fish. The scripts know nothing of the
 * program: they hand the words so far to `PROGRAM complete WORD…`, the last of which is the one at
 * the cursor, "" where it is new. That prints a candidate a line, with a tab and its meaning
 * behind; of an option's value (--name=…) the value alone. A line of these asks for names of files.
 */
#ifndef FR_BASE_COMPLETE_H
#define FR_BASE_COMPLETE_H

#include "engine/base/err.h"
#include "engine/base/str.h"

#define FR_COMPLETE_FILES ":files"
#define FR_COMPLETE_YAML ":yaml" /* files *.yaml and *.yml */
#define FR_COMPLETE_FOLDERS ":folders"

/* Prints word and its meaning unless word begins otherwise than what is typed. */
void fr_complete_say(const char *typed, const char *word, const char *meaning);
/* The same of each of words, which spaces part. */
void fr_complete_words(const char *typed, const char *words);

/* Appends the script of shell (bash, zsh, fish). FR_USAGE. */
enum fr_rc fr_complete_script(const char *shell, const char *program, struct fr_buf *out,
                              struct fr_err *err);

#endif
