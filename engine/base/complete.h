/*
 * Completion of a program's command line in bash, zsh and fish. The scripts know nothing of the
 * program: they call `PROGRAM complete WORD…` with the words typed so far. The last WORD is the one
 * at the cursor; it is "" if the user has not begun to type it. The program prints one candidate a
 * line: the word, a tab, and its meaning. For the value of an option (--name=…) the candidate is
 * the value without "--name=". The lines FR_COMPLETE_* ask the shell
 * for names of files.
 */
#ifndef FR_BASE_COMPLETE_H
#define FR_BASE_COMPLETE_H

#include "engine/base/err.h"
#include "engine/base/str.h"

#define FR_COMPLETE_FILES ":files"
#define FR_COMPLETE_YAML ":yaml" /* files *.yaml and *.yml */
#define FR_COMPLETE_FOLDERS ":folders"

/* Prints the candidate word if it begins with typed. meaning "": the line has no tab. */
void fr_complete_say(const char *typed, const char *word, const char *meaning);
/* fr_complete_say() for each word of words, which spaces separate, without a meaning. */
void fr_complete_words(const char *typed, const char *words);

/* Appends the script of shell for program. FR_USAGE: shell is not bash, zsh or fish. */
enum fr_rc fr_complete_script(const char *shell, const char *program, struct fr_buf *out,
                              struct fr_err *err);

#endif
