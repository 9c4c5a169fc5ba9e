#include "engine/words/causes.h"

static const struct {
    const char *meaning, *reason;
    uint32_t end;
    enum fr_cause_phase phase;
    bool retryable, preset;
} causes[] = {
#define ROW(name, word, end, phase, retryable, preset, meaning, reason)                            \
    {meaning, reason, end, FR_PHASE_##phase, retryable, preset},
    {"", "", 0, FR_PHASE_CUT, false, false}, FR_CAUSES(ROW)
#undef ROW
};

#define WORD(name, word, ...) word,
FR_WORDS(fr_cause_words, "", FR_CAUSES(WORD));

const char *fr_cause_name(enum fr_cause cause)
{
    return fr_word(&fr_cause_words, cause);
}

bool fr_cause_parse(struct fr_str s, enum fr_cause *out)
{
    int found = fr_word_find(&fr_cause_words, s);

    if (found > FR_CAUSE_NONE)
        *out = (enum fr_cause)found;
    return found > FR_CAUSE_NONE;
}

bool fr_cause_ran(enum fr_cause cause)
{
    return cause < FR_CAUSE_N && causes[cause].phase == FR_PHASE_RAN;
}

bool fr_cause_unstarted(enum fr_cause cause)
{
    return cause < FR_CAUSE_N && causes[cause].phase == FR_PHASE_UNSTARTED;
}

bool fr_cause_retryable(enum fr_cause cause)
{
    return cause < FR_CAUSE_N && causes[cause].retryable;
}

unsigned fr_causes_preset(void)
{
    unsigned bits = 0;

    for (int i = 0; i < FR_CAUSE_N; i++)
        bits |= (unsigned)causes[i].preset << i;
    return bits;
}

const char *fr_cause_meaning(enum fr_cause cause)
{
    return causes[cause].meaning;
}

const char *fr_cause_reason(enum fr_cause cause)
{
    return causes[cause].reason;
}

enum fr_cause fr_cause_of_end(uint32_t end)
{
    int i = FR_CAUSE_NONE + 1;

    while (i < FR_CAUSE_N && (end == 0 || causes[i].end != end))
        i++;
    return (enum fr_cause)i;
}
