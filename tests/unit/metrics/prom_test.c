/* Figures as text: families in the table's order, escapes, buckets, and labels that cannot grow. */
#include "engine/metrics/prom.h"
#include "tests/unit/check.h"

#include <math.h>
#include <string.h>

enum { RUNS, LIVE, TOOK, LAST, N };

static const struct fr_prom_family table[N] = {
    [RUNS] = {"runs_total", "Runs\\ of a\nhome.", FR_PROM_COUNTER, {"pipeline", "outcome"}, 3, {0}},
    [LIVE] = {"live", "Live \"runs\".", FR_PROM_GAUGE, {NULL}, 0, {0}},
    [TOOK] = {"took_seconds", "Time.", FR_PROM_HISTOGRAM, {"pipeline"}, 0, {0.5, 10}},
    [LAST] = {"last", "Never set.", FR_PROM_GAUGE, {NULL}, 0, {0}},
};

#define AT(family_, ...) ((struct fr_prom_at){.family = (family_), .values = {__VA_ARGS__}})

static void check_figures(const struct fr_prom *p, const char *want)
{
    struct fr_buf got = {0};

    fr_prom_text(p, &got);
    CHECK_TEXT(got.p != NULL ? got.p : "", want);
    fr_buf_finish(&got);
}

static void test_text(void)
{
    struct fr_prom *p = fr_prom_create(table, N);

    check_row("nothing");
    check_figures(p, "");
    check_row("all kinds");
    fr_prom_observe(p, AT(TOOK, "a"), 0.5);
    fr_prom_observe(p, AT(TOOK, "a"), 7);
    fr_prom_observe(p, AT(TOOK, "a"), 70);
    fr_prom_set(p, AT(LIVE), 3);
    fr_prom_add(p, AT(LIVE), -1);
    fr_prom_add(p, AT(RUNS, "a", "ok"), 1);
    fr_prom_add(p, AT(RUNS, "a", "ok"), 1);
    fr_prom_add(p, AT(RUNS, "b\"\\\n", "failed"), 1e15);
    check_figures(p, "# HELP runs_total Runs\\\\ of a\\nhome.\n"
                     "# TYPE runs_total counter\n"
                     "runs_total{pipeline=\"a\",outcome=\"ok\"} 2\n"
                     "runs_total{pipeline=\"b\\\"\\\\\\n\",outcome=\"failed\"} 1e+15\n"
                     "# HELP live Live \"runs\".\n"
                     "# TYPE live gauge\n"
                     "live 2\n"
                     "# HELP took_seconds Time.\n"
                     "# TYPE took_seconds histogram\n"
                     "took_seconds_bucket{pipeline=\"a\",le=\"0.5\"} 1\n"
                     "took_seconds_bucket{pipeline=\"a\",le=\"10\"} 2\n"
                     "took_seconds_bucket{pipeline=\"a\",le=\"+Inf\"} 3\n"
                     "took_seconds_sum{pipeline=\"a\"} 77.5\n"
                     "took_seconds_count{pipeline=\"a\"} 3\n");
    check_row("what is no number; a family without series");
    fr_prom_clear(p, RUNS);
    fr_prom_clear(p, TOOK);
    fr_prom_set(p, AT(LIVE), NAN);
    check_figures(p, "# HELP live Live \"runs\".\n# TYPE live gauge\nlive NaN\n");
    fr_prom_destroy(p);
}

static void test_limit(void)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "a"};
    struct fr_prom *p = fr_prom_create(table, N);

    check_row("a fourth pipeline, and a fifth, are others");
    for (size_t i = 0; i < 6; i++) {
        fr_prom_add(p, AT(RUNS, names[i], "ok"), 1);
        fr_prom_add(p, AT(RUNS, names[i], "failed"), 1);
    }
    check_figures(p, "# HELP runs_total Runs\\\\ of a\\nhome.\n"
                     "# TYPE runs_total counter\n"
                     "runs_total{pipeline=\"a\",outcome=\"ok\"} 2\n"
                     "runs_total{pipeline=\"a\",outcome=\"failed\"} 2\n"
                     "runs_total{pipeline=\"b\",outcome=\"ok\"} 1\n"
                     "runs_total{pipeline=\"b\",outcome=\"failed\"} 1\n"
                     "runs_total{pipeline=\"c\",outcome=\"ok\"} 1\n"
                     "runs_total{pipeline=\"c\",outcome=\"failed\"} 1\n"
                     "runs_total{pipeline=\"other\",outcome=\"ok\"} 2\n"
                     "runs_total{pipeline=\"other\",outcome=\"failed\"} 2\n");
    fr_prom_destroy(p);
    check_row("");
}

int main(void)
{
    test_text();
    test_limit();
    return check_done();
}
