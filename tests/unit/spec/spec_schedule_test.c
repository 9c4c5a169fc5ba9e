/*
 * schedule: of a pipeline: what it may say and what that means, what is refused and how, and that a
 * stored file is read again on a machine without zones.
 */
#include "tests/unit/schedule/schedule_bed.h"
#include "tests/unit/spec/spec_load.h"

#include "engine/base/sys.h"

#include <stdlib.h>

static char folder[] = "/tmp/flowrun-schedules-XXXXXX";

#define TASKS                                                                                      \
    "params:\n"                                                                                    \
    "  steps: {type: int, default: 3}\n"                                                           \
    "  mode: {default: a, choices: [a, b]}\n"                                                      \
    "  model: {type: path, default: m}\n"                                                          \
    "tasks: {a: {run: x}}\n"

static enum fr_rc load_at(const char *text, const char *zones, struct fr_spec **spec,
                          struct fr_issues *issues)
{
    struct fr_source source = {"p.yaml", fr_str_of(text)};
    struct fr_zones where = {zones, "Europe/Berlin", bed_time("2026-03-01") * 1000};
    struct fr_spec_opts opts = {.path = "p.yaml",
                                .cwd = "/w",
                                .sources = &source,
                                .n_sources = 1,
                                .zones = zones != NULL ? &where : NULL,
                                .getenv = variable};
    struct fr_err err = {0};

    return fr_spec_load(&opts, spec, issues, &err);
}

static const struct {
    const char *name, *text, *want;
} wrong[] = {
    {"nothing", "schedule:\n",
     "p.yaml:1:10: schedule is nothing; expected one schedule, like {cron: 0 2 * * *}, or a list "
     "of 1 to 100"},
    {"a text", "schedule: 0 2 * * *\n",
     "p.yaml:1:11: schedule is '0 2 * * *'; expected one schedule, like {cron: 0 2 * * *}, or a "
     "list of 1 to 100"},
    {"a text in a list", "schedule: ['@daily']\n",
     "p.yaml:1:12: a schedule is '@daily'; expected a map of its keys, like {cron: @daily}"},
    {"no rule", "schedule: {zone: UTC}\n",
     "p.yaml:1:11: schedule 'default' has no rule; expected exactly one of cron, every and at"},
    {"two rules", "schedule: {cron: '@daily', every: 1h}\n",
     "p.yaml:1:11: schedule 'default' has several rules; expected exactly one of cron, every and "
     "at"},
    {"a mistake in an expression", "schedule: {cron: '0 2 * * 5-1'}\n",
     "p.yaml:1:27: cron: day-of-week: '5-1' runs backwards; write 5-6,0-1"},
    {"the same without quotes", "schedule:\n  cron: 0 2 * foo *\n",
     "p.yaml:2:15: cron: month: 'foo' is not understood; expected 1-12 or jan-dec"},
    {"the same from a param", "schedule: {cron: '0 ${{ params.steps }}1 * * *'}\n",
     "p.yaml:1:18: cron: hour 31 is not within 0-23"},
    {"never", "schedule: {cron: 0 0 30 2 *}\n",
     "p.yaml:1:18: cron: '0 0 30 2 *' never fires: no month it names has such a day"},
    {"two ways", "schedule: {cron: 0 0 */2 * 1}\n",
     "p.yaml:1:22: cron: day-of-month '*/2' beside a restricted day-of-week is read in two ways; "
     "say days: any (one of the two matches) or days: all (both do)"},
    {"days elsewhere", "schedule: {every: 1h, days: all}\n",
     "p.yaml:1:29: days says nothing here; expected it with cron:"},
    {"too short a period", "schedule: {every: 9s}\n",
     "p.yaml:1:19: every is '9s'; expected a duration of 10s or more, like 1h30m"},
    {"a list without times", "schedule: {at: []}\n",
     "p.yaml:1:16: at is an empty list; expected one time or a list of 1 to 1000"},
    {"a time that is none", "schedule: {at: [2026-12-24, 2026-13-01]}\n",
     "p.yaml:1:29: '2026-13-01' is not a time such as 2026-12-24T02:00, 2026-12-24 or "
     "2026-12-24T01:00Z"},
    {"an end before its start", "schedule: {every: 1h, start: 2026-12-02, end: 2026-12-02}\n",
     "p.yaml:1:11: schedule 'default': its end is not behind its start"},
    {"nothing between", "schedule: {cron: 0 2 1 * *, start: 2026-12-02, end: 2026-12-03}\n",
     "p.yaml:1:11: schedule 'default': it never fires between its start and its end"},
    {"too much jitter", "schedule: {cron: '*/5 * * * *', jitter: 5m}\n",
     "p.yaml:1:11: schedule 'default': its jitter is not below the shortest distance of its "
     "fires, 5m00s"},
    {"too much jitter on the day of a gap", "schedule: {cron: '30 1,2,3 * * *', jitter: 1h}\n",
     "p.yaml:1:11: schedule 'default': its jitter is not below the shortest distance of its "
     "fires, 1h00m"},
    {"a zone", "schedule: {cron: '@daily', zone: CEST}\n",
     "p.yaml:1:34: zone: 'CEST' is an abbreviation, not a zone; write a place such as "
     "Europe/Berlin, or UTC"},
    {"a zone and an expression", "schedule: {cron: '@dayly', zone: UTC+1}\n",
     "p.yaml:1:19: cron: '@dayly' is not known; expected @hourly, @daily, @midnight, @weekly, "
     "@monthly, @yearly or @annually\n"
     "p.yaml:1:34: zone: 'UTC+1' is a fixed offset, not a zone; write a place such as "
     "Europe/Berlin, or UTC"},
    {"names", "schedule: [{name: Nightly, cron: '@daily'}, {name: -a, cron: '@daily'}]\n",
     "p.yaml:1:19: the name of a schedule is 'Nightly'; expected lower-case letters, digits and "
     "'-', at most 63\n"
     "p.yaml:1:52: the name of a schedule is '-a'; expected lower-case letters, digits and '-', at "
     "most 63"},
    {"a name twice", "schedule: [{cron: '@daily'}, {every: 1h}]\n",
     "p.yaml:1:30: two schedules are called 'default'; expected a name: of its own"},
    {"choices", "schedule: {cron: '@daily', overlap: cancel, catchup: some}\n",
     "p.yaml:1:37: overlap is 'cancel'; expected skip, queue, cancel_previous or parallel; did you "
     "mean 'cancel_previous'?\n"
     "p.yaml:1:54: catchup is 'some'; expected none, last or all; did you mean 'none'?"},
    {"params",
     "schedule:\n"
     "  cron: '@daily'\n"
     "  params: {step: 4, steps: many, mode: c}\n",
     "p.yaml:3:12: the pipeline has no param 'step'; expected a name under params:\n"
     "p.yaml:3:28: param 'steps' is 'many'; expected a whole number\n"
     "p.yaml:3:40: param 'mode' is 'c'; expected a or b"},
};

static void refusals(void)
{
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct fr_spec *spec = NULL;
        struct fr_issues issues = {0};
        struct fr_buf text = {0}, got = {0};

        check_row(wrong[i].name);
        fr_buf_fmt(&text, "%s" TASKS, wrong[i].text);
        CHECK_INT(load_at(text.p, folder, &spec, &issues), FR_USAGE);
        for (size_t k = 0; k < issues.n; k++)
            fr_buf_fmt(&got, "%s%s", k > 0 ? "\n" : "", issues.lines[k]);
        CHECK_TEXT(got.n > 0 ? got.p : "", wrong[i].want);
        fr_spec_destroy(spec);
        fr_issues_finish(&issues);
        fr_buf_finish(&text);
        fr_buf_finish(&got);
    }
}

static const char full_schedule[] =
    "schedule:\n"
    "  - {name: nightly, cron: 30 2 * * mon-fri, zone: America/New_York, jitter: 10m, grace: 20m,\n"
    "     params: {steps: 500, model: other, mode: b}}\n"
    "  - {name: sweep-2, every: 6h, start: 2026-12-01T00:00, end: 2027-02-01T00:00,\n"
    "     overlap: queue, queue_max: 3, priority: -5, catchup: all, catchup_limit: 2}\n"
    "  - {name: once, at: [2026-12-25T02:00+01:00, 2026-12-24T02:00, 2026-12-24T02:00],\n"
    "     zone: UTC, overlap: cancel_previous, pause_after: 3}\n"
    "  - {cron: 0 0 1 * 1, days: all, overlap: parallel, catchup: last}\n" TASKS;

/* The first fire behind an instant. */
static int64_t next_of(const struct fr_schedule *s, const char *after)
{
    struct fr_zones zones = {folder, "Europe/Berlin", bed_time("2026-03-01") * 1000};
    struct fr_timetable t;
    struct fr_err err;
    int64_t at = 0;

    if (!CHECK_INT(fr_timetable_open(&t, s, &zones, &err), FR_OK))
        printf("%s\n", err.msg);
    CHECK(fr_rule_next(&t.rule, bed_time(after) * 1000, &at));
    fr_timetable_close(&t);
    return at / 1000;
}

static void all_keys(void)
{
    struct fr_spec *spec = NULL;
    struct fr_issues issues = {0};
    const struct fr_schedule *s;

    check_row("all keys");
    if (!CHECK_INT(load_at(full_schedule, folder, &spec, &issues), FR_OK)) {
        printf("%s\n", issues.n > 0 ? issues.lines[0] : "");
        fr_issues_finish(&issues);
        return;
    }
    CHECK_INT(spec->n_schedules, 4);
    s = spec->schedules;
    CHECK_TEXT(s->name, "nightly");
    CHECK_TEXT(s->cron_text, "30 2 * * mon-fri");
    CHECK(s->jitter_ms == 600000 && s->grace_ms == 1200000 && s->pos.line == 2);
    CHECK(s->catchup == FR_CATCHUP_NONE && s->overlap == FR_OVERLAP_SKIP && s->queue_max == 1 &&
          s->catchup_limit == FR_CATCHUP_LIMIT && s->priority == 0 && s->pause_after == 0);
    CHECK_INT(s->n_params, 3);
    CHECK_TEXT(s->params[0], "steps=500");
    CHECK_TEXT(s->params[1], "model=other");
    CHECK_INT(next_of(s, "2026-03-06T12:00"), bed_time("2026-03-09T06:30"));
    s = &spec->schedules[1];
    CHECK(s->kind == FR_RULE_EVERY && s->overlap == FR_OVERLAP_QUEUE && s->queue_max == 3 &&
          s->priority == -5 && s->catchup == FR_CATCHUP_ALL && s->catchup_limit == 2);
    CHECK_INT(next_of(s, "2026-03-01"), bed_time("2026-11-30T23:00")); /* in the home's zone */
    CHECK_INT(next_of(s, "2026-11-30T23:00"), bed_time("2026-12-01T05:00"));
    s = &spec->schedules[2];
    CHECK(s->kind == FR_RULE_AT && s->n_at == 3 && s->overlap == FR_OVERLAP_CANCEL &&
          s->pause_after == 3);
    CHECK_INT(next_of(s, "2026-03-01"), bed_time("2026-12-24T02:00"));
    CHECK_INT(next_of(s, "2026-12-24T02:00"), bed_time("2026-12-25T01:00"));
    s = &spec->schedules[3];
    CHECK_TEXT(s->name, "default");
    CHECK(s->zone == NULL && s->overlap == FR_OVERLAP_PARALLEL && s->catchup == FR_CATCHUP_LAST);
    CHECK_INT(next_of(s, "2026-03-01"), bed_time("2026-05-31T22:00"));
    CHECK_INT(spec->n_notes, 0);
    fr_spec_destroy(spec);
    fr_issues_finish(&issues);
}

static void a_note(void)
{
    struct fr_spec *spec = NULL;
    struct fr_issues issues = {0};

    check_row("a note");
    CHECK_INT(load_at("schedule: {cron: '*/40 * * * *'}\n" TASKS, folder, &spec, &issues), FR_OK);
    CHECK_INT(spec->n_notes, 1);
    CHECK_TEXT(spec->notes[0], "p.yaml:1:18: note: cron: minute */40 begins anew after the last of "
                               "60 values, so its distances are not even; every: has even ones");
    fr_spec_destroy(spec);
    fr_issues_finish(&issues);
}

static void without_zones(void)
{
    struct fr_spec *spec = NULL;
    struct fr_issues issues = {0};

    check_row("a stored file");
    CHECK_INT(load_at(full_schedule, NULL, &spec, &issues), FR_OK);
    CHECK(spec != NULL && spec->n_schedules == 4);
    fr_spec_destroy(spec);
    spec = NULL;
    check_row("a machine without zones");
    CHECK_INT(load_at(full_schedule, "/nonexistent", &spec, &issues), FR_USAGE);
    CHECK(issues.n > 0 && strstr(issues.lines[0], "2:51: zone: no time zones in /nonexistent: "
                                                  "install the package tzdata") != NULL);
    fr_spec_destroy(spec);
    fr_issues_finish(&issues);
}

/* ---- params that schedules give ---- */

static const struct {
    const char *name, *schedule;
    bool scheduled;
    const char *want; /* the value; or the mistake */
} givens[] = {
    {"by -p or a default alone", "{every: 1h, params: {n: 3}}", false,
     "p.yaml:2:10: param 'n' has no value; expected -p NAME=VALUE or a default"},
    {"by its schedule", "{every: 1h, params: {n: 3}}", true, "3"},
    {"by each: the first one's",
     "[{name: a, every: 1h, params: {n: 3}}, {name: b, every: 2h, params: {n: 4}}]", true, "3"},
    {"by some", "[{name: a, every: 1h, params: {n: 3}}, {name: b, every: 2h}]", true,
     "p.yaml:2:10: param 'n' has no value; expected a default, or a value in params: of each "
     "schedule"},
    {"of another type", "{every: 1h, params: {n: x}}", true,
     "p.yaml:1:35: param 'n' is 'x'; expected a whole number"},
};

static void given_by_schedules(void)
{
    for (size_t i = 0; i < sizeof(givens) / sizeof(givens[0]); i++) {
        struct fr_buf text = {0};
        struct fr_issues issues = {0};
        struct fr_spec *spec = NULL;
        struct fr_zones zones = {folder, "UTC", 0};
        struct fr_err err = {0};
        struct fr_source source = {.path = "p.yaml"};
        struct fr_spec_opts opts = {.path = "p.yaml",
                                    .cwd = "/w",
                                    .sources = &source,
                                    .n_sources = 1,
                                    .scheduled = givens[i].scheduled,
                                    .zones = &zones};

        check_row(givens[i].name);
        fr_buf_fmt(&text, "schedule: %s\nparams: {n: {type: int}}\ntasks: {a: {run: x}}\n",
                   givens[i].schedule);
        source.text = fr_str_of(text.p);
        if (fr_spec_load(&opts, &spec, &issues, &err) == FR_OK)
            CHECK_TEXT(spec->params[0].value, givens[i].want);
        else
            CHECK_TEXT(issues.n > 0 ? issues.lines[0] : err.msg, givens[i].want);
        fr_spec_destroy(spec);
        fr_issues_finish(&issues);
        fr_buf_finish(&text);
    }
}

int main(void)
{
    if (!CHECK(mkdtemp(folder) != NULL))
        return check_done();
    bed_database(folder);
    refusals();
    all_keys();
    a_note();
    given_by_schedules();
    without_zones();
    CHECK_INT(fr_remove_tree(folder, NULL), FR_OK);
    return check_done();
}
