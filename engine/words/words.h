/*
 * The words of an enum, by its values: what files, columns of the store and the API have for them.
 */
#ifndef FR_WORDS_WORDS_H
#define FR_WORDS_WORDS_H

#include "engine/base/str.h"

struct fr_words {
    const char *const *of; /* "": the value that stands for none */
    int n;
};

/* Of X(id, word, …) in the list of an enum. */
#define FR_WORD_ID(id, word, ...) id,
#define FR_WORD_TEXT(id, word, ...) word,
#define FR_WORD_SPACED(id, word) " " word

/* Defines words of that name, from the texts. */
#define FR_WORDS(name, ...)                                                                        \
    static const char *const name##_of[] = {__VA_ARGS__};                                          \
    const struct fr_words name = {name##_of, sizeof(name##_of) / sizeof(name##_of[0])}

const char *fr_word(const struct fr_words *words, int value);       /* "": there is no such value */
int fr_word_find(const struct fr_words *words, struct fr_str word); /* -1: there is none */

#endif
