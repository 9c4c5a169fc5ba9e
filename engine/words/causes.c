#include "engine/words/causes.h"

static const struct {
    const char *word, *meaning, *reason;
    uint32_t end;
    bool retryable, preset;
} causes[] = {
#define ROW(name, word, end, retryable, preset, meaning, reason)                                   \
    {word, meaning, reason, end, retryable, preset},
    FR_CAUSES(ROW)
#undef ROW
};

const char *fr_cause_name(enum fr_cause cause)
{
    return causes[cause].word;
}

bool fr_cause_parse(struct fr_str s, enum fr_cause *out)
{
    for (int i = FR_CAUSE_NONE + 1; i < FR_CAUSE_N; i++)
        if (fr_str_is(s, causes[i].word)) {
            *out = (enum fr_cause)i;
            return true;
        }
    return false;
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
