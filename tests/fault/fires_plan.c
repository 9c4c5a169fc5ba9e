/* Random schedules, and the pipelines that have them. */
#include "tests/fault/fires.h"

#include "engine/base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DAY_S = 86400 };

static const char *const catchups[] = {FR_CATCHUPS(FR_WORD_TEXT)};
static const char *const overlaps[] = {FR_OVERLAPS(FR_WORD_TEXT)};
_Static_assert((int)OVER_N == (int)FR_OVERLAP_N, "fires_judge.c knows every policy");

static int64_t below(uint64_t *rng, int64_t n)
{
    return (int64_t)(sim_draw(rng) % (uint64_t)n);
}

/* ---- rules ---- */

static void bound(struct almanac_rule *r, int64_t from_s, int64_t for_s)
{
    r->has_start = r->has_end = true;
    r->start_s = almanac_first(r->zone, from_s / 60 * 60);
    r->end_s = almanac_first(r->zone, (from_s + for_s) / 60 * 60 + 60);
}

/* Some days around a change of the zone's offset in the year to come, if there is one. */
static int64_t near_change(const struct almanac_rule *r, uint64_t *rng, int64_t now_s)
{
    int64_t t = now_s + below(rng, 365) * DAY_S, change = almanac_change(r->zone, t);

    return change > now_s + DAY_S ? change : t;
}

static uint32_t some_bits(uint64_t *rng, int lo, int hi, int n)
{
    uint32_t bits = 0;

    for (int i = 0; i < n; i++)
        bits |= 1u << (lo + below(rng, hi - lo + 1));
    return bits;
}

/* Some nights around a change. */
static void draw_nights(struct almanac_rule *r, uint64_t *rng, int64_t now_s)
{
    int64_t change = near_change(r, rng, now_s), days = 1 + below(rng, 4);

    r->minutes = 1ull << 15 * below(rng, 4);
    r->hours = some_bits(rng, 0, below(rng, 2) == 0 ? 3 : 23, 1 + (int)below(rng, 2));
    bound(r, change - days * DAY_S, (2 * days + 1) * DAY_S);
}

/* Often, for some hours around a change. */
static void draw_often(struct almanac_rule *r, uint64_t *rng, int64_t now_s)
{
    static const int steps[] = {7, 15, 20, 30, 40, 60};
    int step = steps[below(rng, 6)];
    int64_t change = near_change(r, rng, now_s);

    r->minutes = 0;
    for (int m = 0; m < 60; m += step)
        r->minutes |= 1ull << m;
    if (below(rng, 3) == 0) /* not each hour */
        r->hours = 0x555555;
    bound(r, change - 2 * 3600, (2 + step / 10) * 3600);
}

/* Some days of a month or a week, for ever. */
static void draw_days(struct almanac_rule *r, uint64_t *rng)
{
    r->minutes = 1ull << below(rng, 60);
    r->hours = some_bits(rng, 0, 23, 1);
    r->some_days = below(rng, 2) == 0;
    r->some_weekdays = !r->some_days || below(rng, 3) == 0;
    if (r->some_days) {
        r->days = some_bits(rng, 1, 28, (int)below(rng, 3));
        r->last_day = r->days == 0 || below(rng, 3) == 0;
    }
    if (r->some_weekdays)
        r->weekdays = some_bits(rng, 0, 6, 1);
    r->both_days = r->some_days && r->some_weekdays && below(rng, 2) == 0;
    if (below(rng, 2) == 0)
        r->months = some_bits(rng, 1, 12, 5);
    if (r->both_days) /* else it may never fire */
        r->days |= 0x7f << 1;
}

static void draw_cron(struct almanac_rule *r, uint64_t *rng, int64_t now_s)
{
    r->minutes = 1;
    r->hours = 0xffffff;
    r->months = 0x1ffe;
    switch (below(rng, 4)) {
    case 0:
        draw_often(r, rng, now_s);
        break;
    case 1:
        draw_nights(r, rng, now_s);
        break;
    default:
        draw_days(r, rng);
    }
}

static void draw_rule(struct almanac_rule *r, uint64_t *rng, int64_t now_s)
{
    *r = (struct almanac_rule){.zone = (int)below(rng, ALMANAC_ZONES)};
    switch (below(rng, 5)) {
    case 0:
        r->kind = ALMANAC_IS_AT;
        r->n_at = 1 + (int)below(rng, ALMANAC_AT);
        for (int i = 0; i < r->n_at; i++)
            r->at[i] = almanac_first(r->zone, (now_s + below(rng, 300 * DAY_S)) / 60 * 60);
        break;
    case 1:
        r->kind = ALMANAC_IS_EVERY;
        r->every_s = 3600 * (200 + below(rng, 700));
        if (below(rng, 2) == 0) {
            r->every_s = 10 + below(rng, 7200);
            bound(r, now_s + below(rng, 300 * DAY_S), r->every_s * (2 + below(rng, 12)));
        }
        break;
    default:
        r->kind = ALMANAC_IS_CRON;
        draw_cron(r, rng, now_s);
    }
}

/* ---- the rest of a schedule ---- */

/* The fixed delay of a schedule: the first 8 bytes of a SHA-256, modulo the jitter. */
static int64_t delay_of(const struct fires_file *f, const char *name, int64_t jitter_s)
{
    static const char home[] = "0123456789abcdef0123456789abcdef"; /* of the simulated home */
    char hash[FR_SHA256_TEXT];
    char text[120];
    int n = snprintf(text, sizeof(text), "flowrun-jitter-1%c%s%c%s%c%s", 0, home, 0, f->pipeline, 0,
                     name);

    fr_sha256(text, (size_t)n, hash);
    hash[16] = '\0';
    return jitter_s == 0 ? 0 : (int64_t)(strtoull(hash, NULL, 16) % (uint64_t)(jitter_s * 1000));
}

static void draw_policy(const struct fires_file *f, const char *name, struct fires_version *v,
                        uint64_t *rng)
{
    static const int64_t graces[] = {1, 60, 600, 7200, 3 * DAY_S};
    static const int64_t takes[] = {50, 800, 2000, 2000, 300000, 900000, 2400000};
    int64_t shortest = almanac_shortest(&v->fires);

    v->jitter_s = 0;
    if (shortest == 0)
        shortest = 3600;
    if (below(rng, 3) == 0 && shortest > 2)
        v->jitter_s = 1 + below(rng, shortest > 7200 ? 7200 : shortest - 1);
    v->delay_ms = delay_of(f, name, v->jitter_s);
    v->grace_s = graces[below(rng, 5)];
    v->catchup = (int)below(rng, 3);
    v->limit = 1 + (int)below(rng, 6);
    v->overlap = (int)below(rng, FR_OVERLAP_N);
    v->queue_max = 1 + (int)below(rng, 3);
    v->pause_after = below(rng, 4) == 0 ? 1 + (int)below(rng, 3) : 0;
    v->priority = (int)below(rng, 11) - 5;
    v->takes_ms = takes[below(rng, 7)];
    v->code = below(rng, 4) == 0 ? 3 : 0;
}

void fires_edit(struct fires_file *f, size_t i, bool rule, uint64_t *rng, int64_t now_s)
{
    struct fires_schedule *s = &f->schedules[i];
    struct fires_version *v = &s->versions[s->n];

    if (s->n == FIRES_VERSIONS)
        return;
    s->n++;
    if (rule || s->n == 1)
        draw_rule(&v->rule, rng, now_s);
    else
        v->rule = v[-1].rule;
    almanac_make(&v->rule, &v->fires);
    draw_policy(f, s->name, v, rng);
}

void fires_plan(struct fires_file *f, int no, uint64_t *rng, int64_t now_s)
{
    *f = (struct fires_file){.no = no, .there = true, .n = 1 + (size_t)below(rng, FIRES_EACH)};
    snprintf(f->path, sizeof(f->path), "/served/p%d.yaml", no);
    snprintf(f->pipeline, sizeof(f->pipeline), "p%d", no);
    for (size_t i = 0; i < f->n; i++) {
        snprintf(f->schedules[i].name, sizeof(f->schedules[i].name), "s%zu", i);
        f->schedules[i].there = true;
        fires_edit(f, i, true, rng, now_s);
    }
}

void fires_free(struct fires_file *f)
{
    for (size_t i = 0; i < f->n; i++)
        for (size_t k = 0; k < f->schedules[i].n; k++)
            almanac_free(&f->schedules[i].versions[k].fires);
}

/* ---- the file ---- */

static void put_schedule(const struct fires_schedule *s, struct fr_buf *out)
{
    const struct fires_version *v = &s->versions[s->n - 1];

    fr_buf_fmt(out, "  - {name: %s, ", s->name);
    almanac_text(&v->rule, out);
    if (v->jitter_s > 0)
        fr_buf_fmt(out, ", jitter: %llds", (long long)v->jitter_s);
    fr_buf_fmt(out,
               ", grace: %llds, catchup: %s, catchup_limit: %d, overlap: %s, queue_max: %d, "
               "priority: %d",
               (long long)v->grace_s, catchups[v->catchup], v->limit, overlaps[v->overlap],
               v->queue_max, v->priority);
    if (v->pause_after > 0)
        fr_buf_fmt(out, ", pause_after: %d", v->pause_after);
    fr_buf_fmt(out, ", params: {ms: \"%lld\", code: \"%d\"}}\n", (long long)v->takes_ms, v->code);
}

void fires_write(const struct fires_file *f, struct sim_machine *m)
{
    struct fr_buf text = {0};
    bool any = false;

    sim_remove_file(m, f->path);
    if (!f->there)
        return;
    fr_buf_fmt(&text, "name: %s\nschedule:%s\n", f->pipeline, f->broken ? " [" : "");
    for (size_t i = 0; i < f->n; i++)
        if (f->schedules[i].there) {
            put_schedule(&f->schedules[i], &text);
            any = true;
        }
    if (!any) /* a file of before */
        text.n = 0;
    fr_buf_fmt(&text, "params: {ms: {default: \"1\"}, code: {default: \"0\"}}\n"
                      "tasks: {t: {argv: [sim], env: {MS: '${{ params.ms }}', CODE: '${{ "
                      "params.code }}'}}}\n");
    sim_put_file(m, f->path, text.p);
    fr_buf_finish(&text);
}
