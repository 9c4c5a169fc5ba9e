/* What a terminal shows of trainings: a line of each, and curves, from files in a home. */
#include "engine/show/curves.h"

#include "engine/base/file.h"
#include "engine/run/metrics.h"
#include "engine/store/home.h"
#include "tests/unit/check.h"

#include <stdlib.h>
#include <string.h>

static const char yaml[] = "name: p\n"
                           "tasks:\n"
                           "  a: {run: x, metrics: true}\n"
                           "  b: {run: x, metrics: true}\n"
                           "  c: {run: x}\n"
                           "  d: {run: x, metrics: true}\n"
                           "  e: {run: x, metrics: true}\n"
                           "  f: {run: x, metrics: true}\n";

static char home[] = "/tmp/watch_curves_test.XXXXXX";
static struct cli_model model = {.id = {{7}}};
static struct fr_arena arena;
static struct fr_spec *spec;
static struct fr_plan *plan;

static void make_plan(void)
{
    const struct fr_source source = {"p.yaml", FR_STR(yaml)};
    const struct fr_spec_opts opts = {
        .path = "p.yaml", .cwd = "/", .sources = &source, .n_sources = 1};
    struct fr_issues issues = {0};

    CHECK_INT(fr_spec_load(&opts, &spec, &issues, NULL), FR_OK);
    CHECK_INT(fr_plan_make(spec, &arena, &plan, NULL), FR_OK);
    model.plan = plan;
    CHECK_INT(cli_model_begin(&model, NULL), FR_OK);
    fr_issues_finish(&issues);
}

/* The attempt has written that, too. */
static void feed(uint32_t inst, uint32_t no, const char *text)
{
    struct fr_buf path = {0}, dir = {0};
    FILE *f;

    fr_home_at(home, FR_HOME_RUN, model.id, &path);
    fr_buf_text(&path, "/");
    fr_run_metrics_name(&path, plan->insts[inst].key, no);
    fr_buf_add(&dir, path.p, (size_t)(strrchr(path.p, '/') - path.p));
    fr_buf_add(&dir, "", 1);
    CHECK_INT(fr_mkdirs(dir.p, 0700, NULL), FR_OK);
    if (CHECK((f = fopen(path.p, "a")) != NULL)) {
        fputs(text, f);
        fclose(f);
    }
    if (model.insts[inst].began < no)
        model.insts[inst].began = no;
    fr_buf_finish(&path);
    fr_buf_finish(&dir);
}

/* What is told of what came since the last look; "": nothing. */
static void check_told(struct cli_curves *c, const char *want)
{
    struct fr_buf got = {0};
    size_t before;

    check_row(want);
    CHECK(cli_curves_look(c) == (want[0] != '\0'));
    fr_buf_text(&got, "");
    do {
        before = got.n;
        if (cli_curves_tell(c, &got))
            fr_buf_text(&got, "\n");
    } while (got.n > before);
    CHECK_TEXT(got.p, want);
    fr_buf_finish(&got);
}

static void check_drawn(const struct cli_curves *c, unsigned columns, unsigned rows,
                        const char *want)
{
    const struct cli_curves_size size = {columns, rows, "<", ">"};
    struct fr_buf got = {0};
    unsigned n, lines = 0;

    fr_buf_text(&got, "");
    n = cli_curves_draw(c, &size, &got);
    CHECK_TEXT(got.p, want);
    for (const char *p = got.p; (p = strchr(p, '\n')) != NULL; p++)
        lines++;
    CHECK_INT(n, lines);
    fr_buf_finish(&got);
}

static void test_told(struct cli_curves *c)
{
    check_told(c, "");
    check_drawn(c, 80, 10, "");
    feed(0, 1, "{\"step\":1,\"loss\":4,\"time\":1,\"total_steps\":10}\n");
    check_told(c, "a@local: step 1 of 10, loss 4\n");
    check_told(c, "");
    feed(0, 1, "{\"step\":2,\"loss\":2.34567,\"time\":61,\"throughput\":99.94,\"checkpoint\":2}\n");
    feed(1, 1, "{\"step\":5,\"eval_loss\":1.5,\"eval_accuracy\":0.25,\"throughput\":1234.5}\n");
    check_told(c, "a@local: step 2 of 10, loss 2.346, 99.9 tokens/s, checkpoint 2, 8m00s left\n"
                  "b@local: step 5, eval_loss 1.5, eval_accuracy 0.25, 1234 tokens/s\n");
    feed(0, 1, "{\"step\":3,\"loss\":NaN,\"time\":62}\n");
    check_told(c,
               "a@local: step 3 of 10, loss not finite since step 3, 99.9 tokens/s, checkpoint 2, "
               "3m33s left\n");
    check_row("the next attempt counts, once it has a row");
    feed(0, 2, "");
    CHECK(!cli_curves_look(c));
    feed(0, 2, "{\"step\":2,\"loss\":3,\"throughput\":50}\n");
    check_told(c, "a@local: step 2, loss 3, 50.0 tokens/s\n");
}

static void test_drawn(const struct cli_curves *c)
{
    check_row("lines alone");
    check_drawn(c, 40, 5,
                "a@local: step 2, loss 3, 50.0 tokens/s\nb@local: step 5, eval_loss 1.5\n");
    check_row("below each other, beside each other, the first alone");
    check_drawn(c, 40, 10,
                "         loss                          \n"
                "<       4 **********                    >\n"
                "<                  ************         >\n"
                "<       3                     **********>\n"
                "         tokens/s                      \n"
                "<      50                               >\n"
                "<                        *              >\n"
                "<      50                               >\n"
                "a@local: step 2, loss 3, 50.0 tokens/s\n"
                "b@local: step 5, eval_loss 1.5\n");
    check_drawn(c, 72, 7,
                "         loss                               tokens/s                  \n"
                "<       4 ******                    ><      50                           >\n"
                "<               *******             ><                      *            >\n"
                "<                      *******      ><                                   >\n"
                "<       3                     ******><      50                           >\n"
                "a@local: step 2, loss 3, 50.0 tokens/s\n"
                "b@local: step 5, eval_loss 1.5, eval_accuracy 0.25, 1234 tokens/s\n");
    check_drawn(c, 40, 8,
                "         loss                          \n"
                "<       4 ******                        >\n"
                "<              *******                  >\n"
                "<                     ******            >\n"
                "<                           *******     >\n"
                "<       3                         ******>\n"
                "a@local: step 2, loss 3, 50.0 tokens/s\n"
                "b@local: step 5, eval_loss 1.5\n");
    check_drawn(c, 19, 20,
                "a@local: step 2\n"
                "b@local: step 5\n");
}

static size_t count(const char *text, const char *what)
{
    size_t n = 0;

    for (const char *p = text; (p = strstr(p, what)) != NULL; p++)
        n++;
    return n;
}

/* How much of it there is: rows of curves beside each other count once for each. */
static void test_shapes(struct cli_curves *c)
{
    static const struct {
        unsigned columns, rows;
        size_t titles, curves, lines, used;
    } shapes[] = {
        {80, 30, 2, 14, 4, 12}, {72, 30, 2, 14, 4, 12}, {71, 30, 2, 14, 4, 20},
        {71, 11, 1, 6, 4, 11},  {71, 12, 2, 6, 4, 12},  {72, 8, 2, 6, 4, 8},
        {72, 7, 0, 0, 4, 4},    {72, 4, 0, 0, 4, 4},    {72, 3, 0, 0, 3, 3},
        {72, 1, 0, 0, 1, 1},    {72, 0, 0, 0, 0, 0},    {19, 30, 0, 0, 4, 4},
        {20, 30, 2, 14, 4, 20},
    };

    feed(3, 1, "{\"step\":1}\n");
    feed(4, 1, "{\"step\":1}\n");
    feed(5, 1, "{\"step\":1}\n");
    feed(0, 2, "{\"step\":4,\"loss\":2}\n");
    CHECK(cli_curves_look(c));
    check_row("the training that has grown last has no curves");
    check_drawn(c, 40, 8,
                "a@local: step 4, loss 2, 50.0 tokens/s\n"
                "b@local: step 5, eval_loss 1.5\n"
                "d@local: step 1\n"
                "e@local: step 1\n");
    feed(0, 2, "{\"step\":5,\"loss\":1,\"tokens_per_second\":7}\n");
    CHECK(cli_curves_look(c));
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        const struct cli_curves_size size = {shapes[i].columns, shapes[i].rows, "<", ">"};
        struct fr_buf got = {0};
        char row[40];

        (void)snprintf(row, sizeof(row), "%u columns, %u rows", size.columns, size.rows);
        check_row(row);
        fr_buf_text(&got, "");
        CHECK_INT(cli_curves_draw(c, &size, &got), shapes[i].used);
        CHECK_INT(count(got.p, "  loss ") + count(got.p, "  tokens/s "), shapes[i].titles);
        CHECK_INT(count(got.p, "<"), shapes[i].curves);
        CHECK_INT(count(got.p, "@local: "), shapes[i].lines);
        fr_buf_finish(&got);
    }
}

/* No time is left at the end; a large speed has no digits behind the point. */
static void test_end(struct cli_curves *c)
{
    struct fr_buf told = {0};

    while (cli_curves_tell(c, &told))
        ;
    fr_buf_finish(&told);
    feed(1, 1,
         "{\"step\":6,\"time\":1}\n{\"step\":7,\"time\":2,\"total_steps\":8,\"throughput\":100}\n");
    check_told(
        c, "b@local: step 7 of 8, eval_loss 1.5, eval_accuracy 0.25, 100 tokens/s, 1.0s left\n");
    feed(1, 1, "{\"step\":8,\"time\":3}\n");
    check_told(c, "b@local: step 8 of 8, eval_loss 1.5, eval_accuracy 0.25, 100 tokens/s\n");
}

/* Dots where the terminal takes them. */
static void test_locale(void)
{
    static const struct {
        const char *all, *ctype, *lang;
        bool dots;
    } locales[] = {{"C", "C.UTF-8", "C.UTF-8", false},
                   {"C.UTF-8", "C", "C", true},
                   {"", "en_US.utf8", "C", true},
                   {NULL, NULL, "de_DE.UTF-8", true},
                   {NULL, "", "", false},
                   {NULL, NULL, NULL, false}};
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};

    feed(5, 1, "{\"step\":2,\"loss\":2}\n{\"step\":3,\"loss\":1}\n");
    for (size_t i = 0; i < sizeof(locales) / sizeof(locales[0]); i++) {
        const char *const values[] = {locales[i].all, locales[i].ctype, locales[i].lang};
        const struct cli_curves_size size = {72, 30, "<", ">"};
        struct cli_curves *c;
        struct fr_buf got = {0};

        check_row(values[2] != NULL ? values[2] : "no locale");
        for (size_t k = 0; k < 3; k++)
            CHECK((values[k] != NULL ? setenv(names[k], values[k], 1) : unsetenv(names[k])) == 0);
        c = cli_curves_create(home, &model);
        CHECK(cli_curves_look(c));
        CHECK(cli_curves_draw(c, &size, &got) > 0);
        fr_buf_add(&got, "", 1);
        CHECK((strstr(got.p, "\xe2\xa0") != NULL || strstr(got.p, "\xe2\xa1") != NULL ||
               strstr(got.p, "\xe2\xa2") != NULL) == locales[i].dots);
        cli_curves_destroy(c);
        fr_buf_finish(&got);
    }
}

int main(void)
{
    struct cli_curves *c;

    CHECK(setenv("LC_ALL", "C", 1) == 0);
    CHECK(mkdtemp(home) != NULL);
    make_plan();
    c = cli_curves_create(home, &model);
    test_told(c);
    test_drawn(c);
    test_shapes(c);
    test_end(c);
    test_locale();
    cli_curves_destroy(c);
    cli_model_finish(&model);
    fr_spec_destroy(spec);
    fr_arena_finish(&arena);
    CHECK_INT(fr_remove_tree(home, NULL), FR_OK);
    return check_done();
}
