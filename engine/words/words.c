#include "engine/words/words.h"

const char *fr_word(const struct fr_words *words, int value)
{
    return value >= 0 && value < words->n ? words->of[value] : "";
}

int fr_word_find(const struct fr_words *words, struct fr_str word)
{
    int i = words->n - 1;

    while (i >= 0 && !fr_str_is(word, words->of[i]))
        i--;
    return i;
}
