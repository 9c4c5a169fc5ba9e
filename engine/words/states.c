#include "engine/words/states.h"

static const struct {
    char letter;
    int concern;
    bool failed;
} states[] = {
#define ROW(name, word, letter, concern, failed) {letter, concern, failed},
    FR_STATES(ROW)
#undef ROW
};

bool fr_state_ended(enum fr_state_of state)
{
    return state >= FR_ST_SUCCEEDED;
}

bool fr_state_lives(enum fr_state_of state)
{
    return state == FR_ST_STARTING || state == FR_ST_RUNNING || state == FR_ST_STOPPING;
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

#define WORD(name, word, ...) word,
FR_WORDS(fr_state_words, FR_STATES(WORD));
FR_WORDS(fr_state_or_none_words, FR_STATES(WORD) "");
FR_WORDS(fr_run_state_words, FR_RUN_STATES(WORD) "removed");
FR_WORDS(fr_outcome_words, "", FR_OUTCOMES(WORD));
FR_WORDS(fr_outcome_or_live_words, "", FR_OUTCOMES(WORD) "live");
FR_WORDS(fr_schedule_state_words, FR_SCHEDULE_STATES(FR_WORD_TEXT));
FR_WORDS(fr_backfill_state_words, FR_BACKFILL_STATES(FR_WORD_TEXT));
FR_WORDS(fr_existing_words, FR_EXISTINGS(FR_WORD_TEXT));
FR_WORDS(fr_delivery_state_words, FR_DELIVERY_STATES(FR_WORD_TEXT));
FR_WORDS(fr_allocation_state_words, FR_ALLOCATION_STATES(FR_WORD_TEXT));
FR_WORDS(fr_accounting_words, FR_ACCOUNTINGS(FR_WORD_TEXT));

const char *fr_state_name(enum fr_state_of state)
{
    return fr_word(&fr_state_words, state);
}

bool fr_state_parse(const char *name, enum fr_state_of *state)
{
    int found = fr_word_find(&fr_state_words, fr_str_of(name));

    if (found >= 0)
        *state = (enum fr_state_of)found;
    return found >= 0;
}

void fr_states_add(unsigned bits, struct fr_buf *out)
{
    for (int st = 0; st < FR_ST_N; st++)
        if (bits & 1u << st)
            fr_buf_fmt(out, "%s%s", (bits & ((1u << st) - 1)) != 0 ? ", " : "",
                       fr_state_name((enum fr_state_of)st));
}

const char *fr_run_state_name(enum fr_run_state state)
{
    return fr_word(&fr_run_state_words, state);
}

const char *fr_outcome_name(enum fr_outcome outcome)
{
    return fr_word(&fr_outcome_words, outcome);
}

const char *fr_run_word(enum fr_run_state state, enum fr_outcome outcome)
{
    return state == FR_RUN_OVER ? fr_outcome_name(outcome) : fr_run_state_name(state);
}
