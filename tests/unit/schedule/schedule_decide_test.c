/*
 * Which fires run: a row for each cell of the tables of catch-up and overlap, clocks that are set,
 * jitter; and random lives of a schedule, in which no fire is lost and none runs twice.
 */
#include "tests/unit/check.h"
#include "tests/unit/schedule/schedule_bed.h"

#include "engine/schedule/decide.h"

#include <stdio.h>

enum { HOUR_MS = 3600000, MINUTE_MS = 60000, DAY_MS = 24 * HOUR_MS, OUT_MAX = 12 };

static int64_t ms(const char *text)
{
    return bed_time(text) * 1000;
}

/* "missed 2026-03-01T02:00-2026-03-03T02:00 x3, ran 2026-03-04T02:00" */
static void show(const struct fr_decision *list, size_t n, struct fr_buf *out)
{
    for (size_t i = 0; i < n; i++) {
        char first[FR_TIME_TEXT], last[FR_TIME_TEXT];

        fr_time_text(list[i].first_ms / 1000, 0, first);
        fr_time_text(list[i].at_ms / 1000, 0, last);
        fr_buf_fmt(out, "%s%s%s ", i > 0 ? ", " : "", fr_fate_name(list[i].fate),
                   list[i].late ? " late" : "");
        if (list[i].first_ms != list[i].at_ms)
            fr_buf_fmt(out, "%.11s-", first + 5);
        fr_buf_fmt(out, "%.11s", last + 5);
        if (list[i].count != 1)
            fr_buf_fmt(out, " x%lld", (long long)list[i].count);
    }
    if (n == 0)
        fr_buf_text(out, "nothing");
}

static const struct {
    const char *name, *cron;
    enum fr_catchup catchup;
    size_t limit;
    const char *seen, *now, *want;
} lates[] = {
    {"in time", "0 2 * * *", FR_CATCHUP_NONE, 10, "2026-03-01T01:00", "2026-03-01T02:00:01",
     "ran 03-01T02:00"},
    {"not due yet", "0 2 * * *", FR_CATCHUP_ALL, 10, "2026-03-01T01:00", "2026-03-01T01:59:59",
     "nothing"},
    {"due at its instant", "0 2 * * *", FR_CATCHUP_NONE, 10, "2026-03-01T01:00", "2026-03-01T02:00",
     "ran 03-01T02:00"},
    {"seen already", "0 2 * * *", FR_CATCHUP_ALL, 10, "2026-03-01T02:00", "2026-03-01T03:00",
     "nothing"},
    {"down, none", "0 2 * * *", FR_CATCHUP_NONE, 10, "2026-03-01T01:00", "2026-03-04T09:00",
     "missed 03-01T02:00-03-04T02:00 x4"},
    {"down, last", "0 2 * * *", FR_CATCHUP_LAST, 10, "2026-03-01T01:00", "2026-03-04T09:00",
     "missed 03-01T02:00-03-03T02:00 x3, ran late 03-04T02:00"},
    {"down, all", "0 2 * * *", FR_CATCHUP_ALL, 10, "2026-03-01T01:00", "2026-03-04T09:00",
     "ran late 03-01T02:00, ran late 03-02T02:00, ran late 03-03T02:00, ran late 03-04T02:00"},
    {"down, all, at most 2", "0 2 * * *", FR_CATCHUP_ALL, 2, "2026-03-01T01:00", "2026-03-04T09:00",
     "dropped 03-01T02:00-03-02T02:00 x2, ran late 03-03T02:00, ran late "
     "03-04T02:00"},
    {"down, all, as many as the limit", "0 2 * * *", FR_CATCHUP_ALL, 4, "2026-03-01T01:00",
     "2026-03-04T09:00",
     "ran late 03-01T02:00, ran late 03-02T02:00, ran late 03-03T02:00, "
     "ran late 03-04T02:00"},
    {"down, one that is late, all", "0 2 * * *", FR_CATCHUP_ALL, 1, "2026-03-01T01:00",
     "2026-03-01T09:00", "ran late 03-01T02:00"},
    {"back within grace, none", "0 2 * * *", FR_CATCHUP_NONE, 10, "2026-03-01T01:00",
     "2026-03-04T02:08", "missed 03-01T02:00-03-03T02:00 x3, ran 03-04T02:00"},
    {"grace is inclusive", "0 2 * * *", FR_CATCHUP_NONE, 10, "2026-03-04T01:00", "2026-03-04T02:10",
     "ran 03-04T02:00"},
    {"beyond grace", "0 2 * * *", FR_CATCHUP_NONE, 10, "2026-03-04T01:00", "2026-03-04T02:10:01",
     "missed 03-04T02:00"},
    {"back within grace, all", "0 2 * * *", FR_CATCHUP_ALL, 2, "2026-03-01T01:00",
     "2026-03-04T02:08",
     "dropped 03-01T02:00-03-02T02:00 x2, ran late 03-03T02:00, ran "
     "03-04T02:00"},
    {"minutely, 7 minutes", "* * * * *", FR_CATCHUP_NONE, 10, "2026-03-01T01:00",
     "2026-03-01T01:07:30", "missed 03-01T01:01-03-01T01:06 x6, ran 03-01T01:07"},
    {"minutely, a year, none", "* * * * *", FR_CATCHUP_NONE, 10, "2025-03-01T00:00",
     "2026-03-01T00:00", "missed 03-01T00:01-02-28T23:59 x525599, ran 03-01T00:00"},
    {"minutely, a year, all", "* * * * *", FR_CATCHUP_ALL, 2, "2025-03-01T00:00",
     "2026-03-01T00:00",
     "dropped 03-01T00:01-02-28T23:58 x525598, ran late 02-28T23:59, ran 03-01T00:00"},
};

static void table_of_catch_up(void)
{
    struct fr_zone utc = {.name = "UTC"};

    for (size_t i = 0; i < sizeof(lates) / sizeof(lates[0]); i++) {
        struct fr_rule rule = bed_rule(lates[i].cron, &utc);
        struct fr_due due = {.rule = &rule,
                             .seen_ms = ms(lates[i].seen),
                             .now_ms = ms(lates[i].now),
                             .grace_ms = FR_GRACE_MS,
                             .catchup = lates[i].catchup,
                             .limit = lates[i].limit};
        struct fr_decision out[OUT_MAX];
        struct fr_buf got = {0};
        int64_t seen, fire;
        size_t n = fr_decide(&due, out, &seen);

        check_row(lates[i].name);
        show(out, n, &got);
        CHECK_TEXT(got.p, lates[i].want);
        CHECK_INT(seen, n > 0 ? out[n - 1].at_ms : due.seen_ms);
        due.seen_ms = seen;
        CHECK_INT(fr_decide(&due, out, &seen), 0);
        CHECK(fr_next_due(&due) > due.now_ms);
        CHECK(fr_rule_next(&rule, due.now_ms, &fire) && fr_next_due(&due) == fire);
        due.paused = true;
        due.seen_ms = ms(lates[i].seen);
        n = fr_decide(&due, out, &seen);
        CHECK(n == 0 || (n == 1 && out[0].fate == FR_FATE_PAUSED && out[0].at_ms == seen));
        fr_buf_finish(&got);
    }
}

static void delays(void)
{
    static const struct fr_jitter_of nightly = {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "deepseek-lora",
                                                "nightly"},
                                     weekly = {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "deepseek-lora",
                                               "weekly"};
    struct fr_zone utc = {.name = "UTC"};
    struct fr_rule rule = bed_rule("0 2 * * *", &utc);
    struct fr_due due = {.rule = &rule, .grace_ms = 1000, .delay_ms = 432705, .limit = 1};
    struct fr_decision out[2];
    int64_t seen;

    check_row("jitter");
    CHECK_INT(fr_jitter_ms(&nightly, 600000), 432705);
    CHECK_INT(fr_jitter_ms(&weekly, 600000), 187770);
    CHECK_INT(fr_jitter_ms(&nightly, 0), 0);
    CHECK_INT(fr_jitter_ms(&nightly, 1), 0);
    due.seen_ms = ms("2026-03-01T01:00");
    CHECK_INT(fr_next_due(&due), ms("2026-03-01T02:00") + 432705);
    due.now_ms = ms("2026-03-01T02:00") + 432704;
    CHECK_INT(fr_decide(&due, out, &seen), 0);
    due.now_ms++;
    CHECK_INT(fr_decide(&due, out, &seen), 1);
    CHECK(out[0].fate == FR_FATE_RAN && !out[0].late && out[0].at_ms == ms("2026-03-01T02:00"));
    due.now_ms += 1001; /* grace counts from when it was due */
    CHECK_INT(fr_decide(&due, out, &seen), 1);
    CHECK_INT(out[0].fate, FR_FATE_MISSED);
}

static void clock_steps(void)
{
    struct fr_zone utc = {.name = "UTC"};
    struct fr_rule rule = bed_rule("0 2 * * *", &utc);
    struct fr_decided stored[] = {
        {FR_FATE_RAN, ms("2026-03-02T02:00"), ms("2026-03-02T02:00"), ms("2026-03-02T02:00")},
        {FR_FATE_MISSED, ms("2026-03-03T02:00"), ms("2026-03-05T02:00"), ms("2026-03-01T03:00")},
    };
    struct fr_due due = {.rule = &rule,
                         .grace_ms = FR_GRACE_MS,
                         .limit = 10,
                         .catchup = FR_CATCHUP_ALL,
                         .decided = stored,
                         .n_decided = 2};
    struct fr_decision out[OUT_MAX];
    int64_t since, seen;
    struct fr_buf got = {0};

    check_row("back by a second");
    since = 1000;
    CHECK_INT(fr_seen_back(5000, 4000, &since), 4000);
    CHECK_INT(fr_seen_back(5000, 6000, &since), 5000);
    CHECK_INT(since, 1000);
    check_row("never below the first sight");
    since = 4500;
    CHECK_INT(fr_seen_back(5000, 4700, &since), 4700);
    CHECK_INT(since, 4500);
    check_row("unless that lies ahead");
    CHECK_INT(fr_seen_back(5000, 4000, &since), 4000);
    CHECK_INT(since, 4000);
    check_row("what is decided stays so");
    due.seen_ms = ms("2026-03-01T12:00");
    due.now_ms = ms("2026-03-06T12:00");
    show(out, fr_decide(&due, out, &seen), &got);
    CHECK_TEXT(got.p, "ran late 03-06T02:00");
    CHECK_INT(fr_next_due(&due), ms("2026-03-06T02:00"));
    got.n = 0;
    due.limit = 1;
    stored[1].first_ms = ms("2026-03-04T02:00");
    due.now_ms = ms("2026-03-07T12:00");
    show(out, fr_decide(&due, out, &seen), &got);
    CHECK_TEXT(got.p, "dropped 03-03T02:00-03-06T02:00 x2, ran late 03-07T02:00");
    CHECK_INT(fr_next_due(&due), ms("2026-03-03T02:00"));
    got.n = 0;
    stored[0].first_ms = due.seen_ms; /* an overlap of two counts once */
    stored[0].at_ms = ms("2026-03-04T02:00");
    show(out, fr_decide(&due, out, &seen), &got);
    CHECK_TEXT(got.p, "dropped 03-06T02:00, ran late 03-07T02:00");
    fr_buf_finish(&got);
}

static void decided_anew(void)
{
    static const struct {
        enum fr_fate fate;
        bool anew;
    } rows[] = {{FR_FATE_RAN, false},       {FR_FATE_MISSED, true},  {FR_FATE_DROPPED, true},
                {FR_FATE_SKIPPED, false},   {FR_FATE_PAUSED, false}, {FR_FATE_INVALID, false},
                {FR_FATE_SUPERSEDED, false}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fr_decided d = {rows[i].fate, 1, 2, 1000};

        check_row(fr_fate_name(rows[i].fate));
        CHECK_INT(fr_decide_anew(&d, 999), rows[i].anew);
        CHECK_INT(fr_decide_anew(&d, 1000), false);
    }
}

/* What seen has passed of a decision, beside others. */
static void parts(void)
{
    static const struct {
        const char *name, *upto, *want;
    } rows[] = {
        {"none", "2026-03-01T01:59", ""},
        {"the first", "2026-03-01T02:00", "03-01T02:00 x1"},
        {"one that is decided already", "2026-03-02T12:00", "03-01T02:00 x1"},
        {"up to one", "2026-03-04T02:00", "03-01T02:00-03-04T02:00 x2"},
        {"one that another decision has", "2026-03-07T02:00", "03-01T02:00-03-05T02:00 x3"},
    };
    struct fr_zone utc = {.name = "UTC"};
    struct fr_rule rule = bed_rule("0 2 * * *", &utc);
    struct fr_decided beside[] = {
        {FR_FATE_RAN, ms("2026-03-02T02:00"), ms("2026-03-02T02:00"), 0},
        {FR_FATE_PAUSED, ms("2026-03-03T02:00"), ms("2026-03-03T02:00"), 0},
        {FR_FATE_PAUSED, ms("2026-03-06T02:00"), ms("2026-03-09T02:00"), 0},
    };
    struct fr_due due = {
        .rule = &rule, .seen_ms = ms("2026-03-01T02:00") - 1, .decided = beside, .n_decided = 3};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[80] = "", first[FR_TIME_TEXT], last[FR_TIME_TEXT];
        struct fr_decision d;

        check_row(rows[i].name);
        if (fr_undecided_upto(&due, ms(rows[i].upto), &d)) {
            fr_time_text(d.first_ms / 1000, 0, first);
            fr_time_text(d.at_ms / 1000, 0, last);
            snprintf(text, sizeof(text), "%.11s%s%.11s x%d", first + 5,
                     d.first_ms < d.at_ms ? "-" : "", d.first_ms < d.at_ms ? last + 5 : "",
                     (int)d.count);
        }
        CHECK_TEXT(text, rows[i].want);
    }
}

/* The rows that a life leaves behind, as the host would store them. */
struct life {
    struct fr_decided rows[400];
    size_t n;
    int64_t fates[FR_FATE_N]; /* fires by fate */
    int twice;
};

static void store_rows(struct life *life, const struct fr_decision *out, size_t n, int64_t now)
{
    for (size_t i = 0; i < n && life->n < 400; i++) {
        for (size_t k = 0; k < life->n; k++)
            life->twice += out[i].fate == FR_FATE_RAN && life->rows[k].first_ms <= out[i].at_ms &&
                           out[i].at_ms <= life->rows[k].at_ms;
        life->fates[out[i].fate] += out[i].count;
        life->rows[life->n++] =
            (struct fr_decided){out[i].fate, out[i].first_ms, out[i].at_ms, now};
    }
}

/* Sleeps and steps of the clock at random, with every fire decided once in the end. */
static void random_life(uint64_t *rng, const struct fr_rule *rule)
{
    static struct life life;
    struct fr_due due = {.rule = rule, .grace_ms = MINUTE_MS, .limit = 3, .decided = life.rows};
    int64_t since = ms("2026-03-01"), highest = since, total = 0;

    life = (struct life){0};
    due.seen_ms = due.now_ms = since;
    due.catchup = (enum fr_catchup)bed_draw(rng, 3);
    for (int i = 0; i < 60; i++) {
        struct fr_decision out[4];
        int64_t step = bed_draw(rng, 5) == 0 ? -(int64_t)bed_draw(rng, 30 * MINUTE_MS)
                                             : (int64_t)bed_draw(rng, 2 * HOUR_MS);
        size_t n;

        due.now_ms += step;
        if (step < 0)
            due.seen_ms = fr_seen_back(due.seen_ms, due.now_ms, &since);
        due.paused = bed_draw(rng, 8) == 0;
        due.n_decided = life.n;
        n = fr_decide(&due, out, &due.seen_ms);
        store_rows(&life, out, n, due.now_ms);
        highest = due.now_ms > highest ? due.now_ms : highest;
    }
    for (int f = 0; f < FR_FATE_N; f++)
        total += life.fates[f];
    CHECK_INT(life.twice, 0);
    CHECK_INT(total, fr_rule_count(rule, since, highest)); /* since fell with the clock */
}

static void random_lives(void)
{
    struct fr_zone zone = bed_zone("America/New_York");
    struct fr_rule rule = bed_rule("*/7 * * * *", &zone);
    uint64_t rng = 424242;

    check_row("random lives");
    for (int i = 0; i < 300; i++)
        random_life(&rng, &rule);
    fr_zone_finish(&zone);
}

/* Live runs are written as words: no, s (same schedule), o (other), m (by hand), b (backfill),
 * c (catch-up of the same), d (catch-up of the other), then q when it is queued. */
static size_t read_live(const char *text, struct fr_live *out)
{
    size_t n = 0;

    for (const char *p = text; *p != '\0'; p += strcspn(p, " "), p += *p == ' ') {
        char *end;
        int64_t no = strtol(p, &end, 10);
        char kind = *end;

        out[n++] = (struct fr_live){.no = no,
                                    .schedule = strchr("sc", kind)    ? "mine"
                                                : strchr("odb", kind) ? "other"
                                                                      : "",
                                    .origin = strchr("cd", kind)   ? FR_ORIGIN_CATCHUP
                                              : strchr("so", kind) ? FR_ORIGIN_SCHEDULE
                                              : kind == 'b'        ? FR_ORIGIN_BACKFILL
                                                                   : FR_ORIGIN_CLI,
                                    .queued = end[1] == 'q'};
    }
    return n;
}

static void show_enter(const struct fr_overlap_of *of, struct fr_buf *out)
{
    struct fr_overlap_out o = fr_overlap_enter(of);

    if (o.act == FR_SKIP) {
        fr_buf_fmt(out, "skip %lld", (long long)o.by);
        return;
    }
    fr_buf_text(out, "enter");
    if (o.supersede != 0)
        fr_buf_fmt(out, " for %lld", (long long)o.supersede);
    for (size_t i = 0; i < of->n_live; i++)
        if (fr_overlap_cancels(of, &of->live[i]))
            fr_buf_fmt(out, " cancel %lld", (long long)of->live[i].no);
    fr_buf_fmt(out, " behind %lld", (long long)fr_overlap_blocker(of, 99));
}

static const struct {
    enum fr_overlap policy;
    const char *live; /* the new one is 99 */
    bool catchup;
    int queue_max;
    const char *want;
} overlaps[] = {
    {FR_OVERLAP_SKIP, "", false, 1, "enter behind 0"},
    {FR_OVERLAP_SKIP, "4s", false, 1, "skip 4"},
    {FR_OVERLAP_SKIP, "4o", false, 1, "skip 4"},
    {FR_OVERLAP_SKIP, "4m 5s", false, 1, "skip 4"},
    {FR_OVERLAP_SKIP, "4sq", false, 1, "skip 4"},
    {FR_OVERLAP_SKIP, "4b", false, 1, "enter behind 0"},
    {FR_OVERLAP_SKIP, "4c", false, 1, "skip 4"},
    {FR_OVERLAP_SKIP, "4c", true, 1, "enter behind 4"},
    {FR_OVERLAP_SKIP, "4d", true, 1, "skip 4"},
    {FR_OVERLAP_SKIP, "4c 5m", true, 1, "skip 5"},
    {FR_OVERLAP_SKIP, "4oq", false, 1, "skip 4"},
    {FR_OVERLAP_SKIP, "4mq", false, 1, "skip 4"},
    {FR_OVERLAP_SKIP, "4cq", false, 1, "skip 4"},
    {FR_OVERLAP_SKIP, "4d", false, 1, "skip 4"},
    {FR_OVERLAP_SKIP, "", true, 1, "enter behind 0"},
    {FR_OVERLAP_SKIP, "4s", true, 1, "skip 4"},
    {FR_OVERLAP_SKIP, "4sq", true, 1, "skip 4"},
    {FR_OVERLAP_SKIP, "4o", true, 1, "skip 4"},
    {FR_OVERLAP_SKIP, "4m", true, 1, "skip 4"},
    {FR_OVERLAP_SKIP, "4b", true, 1, "enter behind 0"},
    {FR_OVERLAP_SKIP, "4cq", true, 1, "enter behind 4"},
    {FR_OVERLAP_QUEUE, "", false, 1, "enter behind 0"},
    {FR_OVERLAP_QUEUE, "4s", false, 1, "enter behind 4"},
    {FR_OVERLAP_QUEUE, "4m", false, 1, "enter behind 4"},
    {FR_OVERLAP_QUEUE, "4b", false, 1, "enter behind 0"},
    {FR_OVERLAP_QUEUE, "4s 5sq", false, 1, "enter for 5 behind 4"},
    {FR_OVERLAP_QUEUE, "4s 5sq", false, 2, "enter behind 4"},
    {FR_OVERLAP_QUEUE, "4s 5sq 6sq", false, 2, "enter for 5 behind 4"},
    {FR_OVERLAP_QUEUE, "4s 5oq", false, 1, "enter behind 4"},
    {FR_OVERLAP_QUEUE, "4s 5cq", false, 1, "enter behind 4"},
    {FR_OVERLAP_QUEUE, "4s 5sq", true, 1, "enter behind 4"},
    {FR_OVERLAP_QUEUE, "5cq", true, 1, "enter behind 5"},
    {FR_OVERLAP_QUEUE, "100mq", false, 1, "enter behind 0"},
    {FR_OVERLAP_QUEUE, "100m", false, 1, "enter behind 100"},
    {FR_OVERLAP_QUEUE, "4o", false, 1, "enter behind 4"},
    {FR_OVERLAP_QUEUE, "4oq", false, 1, "enter behind 4"},
    {FR_OVERLAP_QUEUE, "4mq", false, 1, "enter behind 4"},
    {FR_OVERLAP_QUEUE, "4c", false, 1, "enter behind 4"},
    {FR_OVERLAP_QUEUE, "4d", false, 1, "enter behind 4"},
    {FR_OVERLAP_QUEUE, "4sq", false, 1, "enter for 4 behind 4"},
    {FR_OVERLAP_QUEUE, "", true, 1, "enter behind 0"},
    {FR_OVERLAP_QUEUE, "4s", true, 1, "enter behind 4"},
    {FR_OVERLAP_QUEUE, "4o", true, 1, "enter behind 4"},
    {FR_OVERLAP_QUEUE, "4m", true, 1, "enter behind 4"},
    {FR_OVERLAP_QUEUE, "4b", true, 1, "enter behind 0"},
    {FR_OVERLAP_QUEUE, "4c", true, 1, "enter behind 4"},
    {FR_OVERLAP_QUEUE, "4d", true, 1, "enter behind 4"},
    {FR_OVERLAP_CANCEL, "", false, 1, "enter behind 0"},
    {FR_OVERLAP_CANCEL, "4s", false, 1, "enter cancel 4 behind 4"},
    {FR_OVERLAP_CANCEL, "4s 5sq", false, 1, "enter cancel 4 cancel 5 behind 4"},
    {FR_OVERLAP_CANCEL, "4m", false, 1, "skip 4"},
    {FR_OVERLAP_CANCEL, "4s 5o", false, 1, "skip 5"},
    {FR_OVERLAP_CANCEL, "4b", false, 1, "enter behind 0"},
    {FR_OVERLAP_CANCEL, "4c", false, 1, "enter cancel 4 behind 4"},
    {FR_OVERLAP_CANCEL, "4cq", true, 1, "enter behind 4"},
    {FR_OVERLAP_CANCEL, "4o", false, 1, "skip 4"},
    {FR_OVERLAP_CANCEL, "4oq", false, 1, "skip 4"},
    {FR_OVERLAP_CANCEL, "4mq", false, 1, "skip 4"},
    {FR_OVERLAP_CANCEL, "4d", false, 1, "skip 4"},
    {FR_OVERLAP_CANCEL, "4sq", false, 1, "enter cancel 4 behind 4"},
    {FR_OVERLAP_CANCEL, "4cq", false, 1, "enter cancel 4 behind 4"},
    {FR_OVERLAP_CANCEL, "", true, 1, "enter behind 0"},
    {FR_OVERLAP_CANCEL, "4s", true, 1, "enter cancel 4 behind 4"},
    {FR_OVERLAP_CANCEL, "4sq", true, 1, "enter cancel 4 behind 4"},
    {FR_OVERLAP_CANCEL, "4c", true, 1, "enter behind 4"},
    {FR_OVERLAP_CANCEL, "4o", true, 1, "skip 4"},
    {FR_OVERLAP_CANCEL, "4m", true, 1, "skip 4"},
    {FR_OVERLAP_CANCEL, "4d", true, 1, "skip 4"},
    {FR_OVERLAP_CANCEL, "4b", true, 1, "enter behind 0"},
    {FR_OVERLAP_PARALLEL, "4s 5m", false, 1, "enter behind 0"},
    {FR_OVERLAP_PARALLEL, "4s 5cq", false, 1, "enter behind 0"},
    {FR_OVERLAP_PARALLEL, "4s 5cq", true, 1, "enter behind 5"},
    {FR_OVERLAP_PARALLEL, "100cq", true, 1, "enter behind 0"},
    {FR_OVERLAP_PARALLEL, "", false, 1, "enter behind 0"},
    {FR_OVERLAP_PARALLEL, "4s", false, 1, "enter behind 0"},
    {FR_OVERLAP_PARALLEL, "4sq", false, 1, "enter behind 0"},
    {FR_OVERLAP_PARALLEL, "4o", false, 1, "enter behind 0"},
    {FR_OVERLAP_PARALLEL, "4m", false, 1, "enter behind 0"},
    {FR_OVERLAP_PARALLEL, "4b", false, 1, "enter behind 0"},
    {FR_OVERLAP_PARALLEL, "4c", false, 1, "enter behind 0"},
    {FR_OVERLAP_PARALLEL, "4d", false, 1, "enter behind 0"},
    {FR_OVERLAP_PARALLEL, "", true, 1, "enter behind 0"},
    {FR_OVERLAP_PARALLEL, "4s", true, 1, "enter behind 0"},
    {FR_OVERLAP_PARALLEL, "4o", true, 1, "enter behind 0"},
    {FR_OVERLAP_PARALLEL, "4m", true, 1, "enter behind 0"},
    {FR_OVERLAP_PARALLEL, "4b", true, 1, "enter behind 0"},
    {FR_OVERLAP_PARALLEL, "4c", true, 1, "enter behind 4"},
    {FR_OVERLAP_PARALLEL, "4d", true, 1, "enter behind 0"},
};

static void table_of_overlap(void)
{

    for (size_t i = 0; i < sizeof(overlaps) / sizeof(overlaps[0]); i++) {
        struct fr_live live[8];
        struct fr_overlap_of of = {.policy = overlaps[i].policy,
                                   .schedule = "mine",
                                   .origin =
                                       overlaps[i].catchup ? FR_ORIGIN_CATCHUP : FR_ORIGIN_SCHEDULE,
                                   .queue_max = overlaps[i].queue_max,
                                   .live = live};
        struct fr_buf got = {0};

        of.n_live = read_live(overlaps[i].live, live);
        check_row(overlaps[i].live);
        show_enter(&of, &got);
        if (!CHECK_TEXT(got.p, overlaps[i].want))
            printf("row %zu\n", i);
        fr_buf_finish(&got);
    }
}

/* Whatever live and waiting runs there are, one of the queue may start once the others are over. */
static void no_deadlock(void)
{
    static const char *const queues[] = {"4sq 5sq 6cq 7cq", "4cq 5cq 6sq", "4mq 5sq 6oq 7bq"};

    for (size_t q = 0; q < 3; q++)
        for (int policy = 0; policy < FR_OVERLAP_N; policy++) {
            struct fr_live live[8];
            struct fr_overlap_of of = {.policy = (enum fr_overlap)policy,
                                       .schedule = "mine",
                                       .queue_max = 9,
                                       .live = live};
            int free_ones = 0;

            check_row(queues[q]);
            of.n_live = read_live(queues[q], live);
            for (size_t i = 0; i < of.n_live; i++) {
                of.origin = live[i].origin;
                free_ones += fr_overlap_blocker(&of, live[i].no) == 0;
            }
            CHECK(free_ones > 0);
        }
}

int main(void)
{
    table_of_catch_up();
    delays();
    clock_steps();
    decided_anew();
    parts();
    random_lives();
    table_of_overlap();
    no_deadlock();
    return check_done();
}
