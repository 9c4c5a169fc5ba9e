/* States and causes: what each table says of a row, and what shows of several. */
#include "engine/schedule/decide.h"
#include "engine/words/causes.h"
#include "engine/words/states.h"

#include "engine/view/task_summary.h"
#include "tests/unit/check.h"

#include <string.h>

/* The most urgent first, what failed, what goes on, the rest. */
static const enum fr_state_of urgent[] = {
    FR_ST_STOP_UNPROVEN,   FR_ST_FAILED,  FR_ST_TIMED_OUT, FR_ST_LOST,   FR_ST_RETRYING,
    FR_ST_STOPPING,        FR_ST_RUNNING, FR_ST_STARTING,  FR_ST_READY,  FR_ST_CANCELLED,
    FR_ST_UPSTREAM_FAILED, FR_ST_WAITING, FR_ST_SUCCEEDED, FR_ST_SKIPPED};

static char letter_of(enum fr_state_of a, enum fr_state_of b)
{
    struct fr_count_row rows[] = {{"t", "", a, 1}, {"t", "", b, 2}};
    struct task_summary tally;

    task_summary_make(&(struct fr_count_rows){rows, 2}, &tally);
    CHECK(tally.n[a] == (a == b ? 3 : 1) && tally.n[b] == (a == b ? 3 : 2));
    return tally.letters[0];
}

static void test_pairs(void)
{
    for (int i = 0; i < FR_ST_N; i++)
        for (int k = 0; k < FR_ST_N; k++) {
            enum fr_state_of a = urgent[i], b = urgent[k], shown = urgent[i < k ? i : k];

            check_row(fr_state_name(a));
            CHECK_INT(fr_state_shown(a, b), shown);
            CHECK_INT(fr_state_at(i), a);
            CHECK_INT(letter_of(a, b), fr_state_letter(shown));
        }
}

static void test_states(void)
{
    enum fr_state_of parsed;

    for (int i = 0; i < FR_ST_N; i++) {
        enum fr_state_of s = (enum fr_state_of)i;

        check_row(fr_state_name(s));
        CHECK(fr_state_parse(fr_state_name(s), &parsed) && parsed == s);
        CHECK_INT(fr_state_ended(s),
                  strstr("succeeded failed timed_out cancelled lost stop_unproven "
                         "skipped upstream_failed",
                         fr_state_name(s)) != NULL);
        CHECK_INT(fr_state_failed(s), s == FR_ST_FAILED || s == FR_ST_TIMED_OUT ||
                                          s == FR_ST_LOST || s == FR_ST_STOP_UNPROVEN);
        for (int k = 0; k < i; k++)
            CHECK(fr_state_letter(s) != fr_state_letter((enum fr_state_of)k));
    }
    CHECK(!fr_state_parse("", &parsed) && !fr_state_parse("none", &parsed));
    CHECK_TEXT(fr_state_name(FR_ST_NONE), "");
}

static void test_causes(void)
{
    static const enum fr_cause ends[] = {
        FR_CAUSE_N,       FR_CAUSE_EXIT,         FR_CAUSE_SIGNAL, FR_CAUSE_TIMEOUT,
        FR_CAUSE_OOM,     FR_CAUSE_START_FAILED, FR_CAUSE_LOST,   FR_CAUSE_NODE_LOST,
        FR_CAUSE_STOPPED, FR_CAUSE_TIME_LIMIT,   FR_CAUSE_N};
    enum fr_cause parsed;

    for (uint32_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        CHECK_INT(fr_cause_of_end(i), ends[i]);
    CHECK(!fr_cause_parse(fr_str_of("none"), &parsed) && !fr_cause_parse(fr_str_of(""), &parsed));
    for (int i = 1; i < FR_CAUSE_N; i++) {
        enum fr_cause c = (enum fr_cause)i;

        check_row(fr_cause_name(c));
        CHECK(fr_cause_parse(fr_str_of(fr_cause_name(c)), &parsed) && parsed == c);
        CHECK(fr_cause_meaning(c)[0] != '\0');
        CHECK_INT(fr_cause_retryable(c),
                  c != FR_CAUSE_GANG_PEER && c != FR_CAUSE_STOPPED && c != FR_CAUSE_EXPRESSION &&
                      c != FR_CAUSE_SUBMIT_FAILED && c != FR_CAUSE_QUEUE_TIME &&
                      c != FR_CAUSE_NO_PROGRESS && c != FR_CAUSE_FAIL_FAST);
        CHECK_INT(fr_cause_ran(c), c == FR_CAUSE_EXIT || c == FR_CAUSE_SIGNAL ||
                                       c == FR_CAUSE_TIMEOUT || c == FR_CAUSE_OOM);
        CHECK_INT(fr_cause_unstarted(c), c == FR_CAUSE_START_FAILED || c == FR_CAUSE_UNREACHABLE ||
                                             c == FR_CAUSE_EXPRESSION ||
                                             c == FR_CAUSE_SUBMIT_FAILED ||
                                             c == FR_CAUSE_QUEUE_TIME);
        CHECK_INT(fr_causes_preset() >> i & 1, fr_cause_retryable(c) && c != FR_CAUSE_OOM &&
                                                   c != FR_CAUSE_CANCELLED_OUTSIDE &&
                                                   c != FR_CAUSE_SUBMIT_FAILED);
    }
    CHECK(!fr_cause_retryable(FR_CAUSE_NONE) && !fr_cause_retryable(FR_CAUSE_N));
    CHECK(!fr_cause_unstarted(FR_CAUSE_NONE) && !fr_cause_unstarted(FR_CAUSE_N));
}

/* Each value of an enum has a word of its own, and no other word has one. */
static void test_words(void)
{
    static const struct {
        const char *name;
        const struct fr_words *words;
        int n, none; /* values; the one that stands for none, or -1 */
    } rows[] = {
        {"states", &fr_state_words, FR_ST_N, -1},
        {"states, or none", &fr_state_or_none_words, FR_ST_N + 1, FR_ST_NONE},
        {"causes", &fr_cause_words, FR_CAUSE_N, FR_CAUSE_NONE},
        {"states of runs", &fr_run_state_words, FR_RUN_N + 1, -1},
        {"outcomes", &fr_outcome_words, FR_OUT_N, FR_OUT_NONE},
        {"outcomes, or live", &fr_outcome_or_live_words, FR_OUT_N + 1, FR_OUT_NONE},
        {"decisions", &fr_fate_words, FR_FATE_N, -1},
        {"origins", &fr_origin_words, FR_ORIGIN_N, -1},
        {"states of schedules", &fr_schedule_state_words, FR_SCHEDULE_PAUSED + 1, -1},
        {"states of backfills", &fr_backfill_state_words, FR_BACKFILL_CANCELLED + 1, -1},
        {"what exists", &fr_existing_words, FR_EXISTING_ALL + 1, -1},
        {"states of deliveries", &fr_delivery_state_words, FR_DELIVERY_QUIET + 1, -1},
        {"states of allocations", &fr_allocation_state_words, FR_ALLOCATION_OVER + 1, -1},
        {"accounting", &fr_accounting_words, FR_ACCOUNTING_MISSING + 1, FR_ACCOUNTING_NONE},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        check_row(rows[i].name);
        CHECK_INT(rows[i].words->n, rows[i].n);
        for (int v = 0; v < rows[i].n; v++) {
            CHECK_INT(fr_word_find(rows[i].words, fr_str_of(fr_word(rows[i].words, v))), v);
            CHECK_INT(fr_word(rows[i].words, v)[0] == '\0', v == rows[i].none);
        }
        CHECK_INT(fr_word_find(rows[i].words, FR_STR("no such")), -1);
        CHECK_INT(fr_word_find(rows[i].words, FR_STR("")), rows[i].none);
        CHECK_TEXT(fr_word(rows[i].words, -1), "");
        CHECK_TEXT(fr_word(rows[i].words, rows[i].n), "");
    }
}

static bool is_word(struct fr_str word)
{
    static const struct fr_words *const tables[] = {
        &fr_state_words,          &fr_cause_words,           &fr_run_state_words,
        &fr_fate_words,           &fr_outcome_or_live_words, &fr_schedule_state_words,
        &fr_delivery_state_words, &fr_backfill_state_words,  &fr_accounting_words};
    static const char *const kinds[] = {"asked", "stalled", "progress", "not_finite"};

    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
        if (fr_word_find(tables[i], word) >= 0)
            return true;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (fr_str_is(word, kinds[i]))
            return true;
    return false;
}

/* Statements quote words of these tables, and what failed is what the table says. */
static void test_statements(void)
{
    static const char *const texts[] = {
#define SQL(name, text) text,
#include "engine/store/statements.h"
#undef SQL
    };
    struct fr_buf failed = {0};
    int found = 0;

    for (int i = 0; i < FR_ST_N; i++)
        if (fr_state_failed((enum fr_state_of)i))
            fr_buf_fmt(&failed, "%s'%s'", failed.n > 0 ? ", " : "state IN (",
                       fr_state_name((enum fr_state_of)i));
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        check_row(texts[i]);
        found += strstr(texts[i], failed.p) != NULL;
        for (const char *at = texts[i], *end; (at = strchr(at, '\'')) != NULL; at = end + 1) {
            end = strchr(++at, '\'');
            CHECK(is_word((struct fr_str){at, (size_t)(end - at)}));
        }
    }
    CHECK_INT(found, 1);
    fr_buf_finish(&failed);
}

int main(void)
{
    test_statements();
    test_words();
    test_pairs();
    test_states();
    test_causes();
    return check_done();
}
