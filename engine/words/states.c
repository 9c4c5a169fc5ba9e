#include "engine/words/states.h"

#include <stddef.h>
#include <string.h>

static const struct {
    const char *word;
    char letter;
    int concern;
    bool failed;
} states[] = {
#define ROW(name, word, letter, concern, failed) {word, letter, concern, failed},
    FR_STATES(ROW)
#undef ROW
};

const char *fr_state_name(enum fr_state_of state)
{
    return (size_t)state < FR_ST_N ? states[state].word : "";
}

bool fr_state_parse(const char *name, enum fr_state_of *state)
{
    for (int i = 0; i < FR_ST_N; i++)
        if (strcmp(name, states[i].word) == 0) {
            *state = (enum fr_state_of)i;
            return true;
        }
    return false;
}

bool fr_state_ended(enum fr_state_of state)
{
    return state >= FR_ST_SUCCEEDED;
}

bool fr_state_failed(enum fr_state_of state)
{
    return states[state].failed;
}

char fr_state_letter(enum fr_state_of state)
{
    return states[state].letter;
}

enum fr_state_of fr_state_shown(enum fr_state_of a, enum fr_state_of b)
{
    return states[a].concern <= states[b].concern ? a : b;
}

enum fr_state_of fr_state_at(int concern)
{
    int i = 0;

    while (states[i].concern != concern)
        i++;
    return (enum fr_state_of)i;
}

#define WORD(name, word) word,
static const char *const run_states[] = {FR_RUN_STATES(WORD)};
static const char *const outcomes[] = {FR_OUTCOMES(WORD)};

const char *fr_run_state_name(enum fr_run_state state)
{
    return (size_t)state < FR_RUN_N ? run_states[state] : "";
}

const char *fr_outcome_name(enum fr_outcome outcome)
{
    return (size_t)outcome < FR_OUT_N ? outcomes[outcome] : "";
}

void fr_run_state_parse(const char *name, enum fr_run_state *out)
{
    for (int i = 0; i < FR_RUN_N; i++)
        if (strcmp(name, run_states[i]) == 0)
            *out = (enum fr_run_state)i;
}

void fr_outcome_parse(const char *name, enum fr_outcome *out)
{
    for (int i = FR_OUT_NONE + 1; i < FR_OUT_N; i++)
        if (strcmp(name, outcomes[i]) == 0)
            *out = (enum fr_outcome)i;
}
