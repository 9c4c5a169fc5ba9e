/* Lists of runs: whatever index a filter goes by, it finds what a look at each run finds. */
#include "engine/base/file.h"
#include "engine/store/lists.h"
#include "tests/unit/store/store_bed.h"

#include <string.h>

static char home[BED_HOME];

enum { RUNS = 120 };

static const struct {
    enum fr_run_state state;
    enum fr_outcome outcome;
} became[] = {{FR_RUN_OVER, FR_OUT_SUCCEEDED}, {FR_RUN_OVER, FR_OUT_FAILED},
              {FR_RUN_OVER, FR_OUT_CANCELLED}, {FR_RUN_RUNNING, FR_OUT_NONE},
              {FR_RUN_QUEUED, FR_OUT_NONE},    {FR_RUN_HOOKS, FR_OUT_NONE},
              {FR_RUN_REMOVED, FR_OUT_FAILED}, {FR_RUN_OVER, FR_OUT_SUCCEEDED}};
static const char *const names[] = {"nightly", "train", "Eval"};
static const enum fr_origin origins[] = {FR_ORIGIN_CLI, FR_ORIGIN_API, FR_ORIGIN_SCHEDULE};
static const char *const reasons[] = {"", "task train: exit code 1", "Out of memory"};

static struct fr_run_row rows[RUNS];

static void add_runs(struct fr_store *st)
{
    CHECK_INT(fr_store_begin(st, NULL), FR_OK);
    for (int i = 0; i < RUNS; i++) {
        struct fr_run_row *r = &rows[i];

        *r = (struct fr_run_row){.id = {{(uint8_t)i, 1}},
                                 .name = names[i % 3],
                                 .source = "/p",
                                 .folder = "/",
                                 .spec_hash = "aa",
                                 .params = "{}",
                                 .state = became[i * 7 % 8].state,
                                 .outcome = became[i * 7 % 8].outcome,
                                 .reason = reasons[i / 5 % 3],
                                 .origin = origins[i / 2 % 3],
                                 .queued_wall = 1000 + i,
                                 .started_wall = i % 4 == 0 ? 0 : 1001 + i,
                                 .schedule = i % 5 == 0 ? 3 : 0,
                                 .round = 1};
        CHECK_INT(fr_store_run_add(st, r, NULL), FR_OK);
        CHECK_INT(r->no, i + 1);
    }
    CHECK_INT(fr_store_commit(st, NULL), FR_OK);
}

static bool has_text(const struct fr_run_row *r, const char *text)
{
    return text[0] == '\0' || strcasestr(r->name, text) != NULL ||
           strcasestr(r->reason, text) != NULL || r->no == atoll(text);
}

static bool has_state(const struct fr_run_row *r, const char *state)
{
    if (r->state == FR_RUN_REMOVED)
        return false;
    return state[0] == '\0' || (r->state != FR_RUN_OVER && strcmp(state, "live") == 0) ||
           strcmp(fr_run_word(r->state, r->outcome), state) == 0;
}

static bool fits(const struct fr_run_row *r, const struct fr_run_filter *f)
{
    int64_t wall = r->started_wall != 0 ? r->started_wall : r->queued_wall;

    return has_state(r, f->state) && has_text(r, f->text) &&
           (f->pipeline[0] == '\0' || strcmp(f->pipeline, r->name) == 0) &&
           (f->origin[0] == '\0' || strcmp(f->origin, fr_origin_name(r->origin)) == 0) &&
           (f->schedule == 0 || f->schedule == r->schedule) &&
           (f->since_wall == 0 || wall >= f->since_wall) &&
           (f->until_wall == 0 || wall < f->until_wall);
}

static void check_filter(struct fr_store *st, const struct fr_run_filter *f)
{
    struct fr_arena arena = {0};
    struct fr_run_rows got = {0};
    int64_t n = 0, all = 0;
    size_t at = 0;

    CHECK_INT(fr_store_runs_where(st, f, &arena, &got, NULL), FR_OK);
    CHECK_INT(fr_store_runs_count(st, f, &n, NULL), FR_OK);
    for (int i = RUNS - 1; i >= 0; i--) {
        if (!fits(&rows[i], f))
            continue;
        all++;
        if (rows[i].no < f->before && at < f->limit)
            CHECK_INT(at < got.n ? got.rows[at].no : -1, rows[i].no), at++;
    }
    CHECK_INT(got.n, at);
    CHECK_INT(n, all);
    fr_arena_finish(&arena);
}

static void test_filters(void)
{
    static const char *const states[] = {"",       "live",    "succeeded", "failed",
                                         "queued", "removed", "running",   "no such"};
    static const char *const texts[] = {"", "TRAIN", "memory", "17"};
    struct fr_store *st = open_store(home);

    add_runs(st);
    for (size_t i = 0; i < 8 * 4 * 4 * 8 * 4; i++) {
        size_t odd = i / 128 % 8;
        struct fr_run_filter f = {.state = states[i % 8],
                                  .pipeline = i / 8 % 4 < 3 ? names[i / 8 % 4] : "",
                                  .text = texts[i / 32 % 4],
                                  .origin = odd & 1 ? "api" : "",
                                  .schedule = odd & 2 ? 3 : 0,
                                  .since_wall = odd & 4 ? 1030 : 0,
                                  .until_wall = i / 1024 % 2 ? 1090 : 0,
                                  .before = i / 2048 % 2 ? 70 : INT64_MAX,
                                  .limit = i / 2048 % 2 ? 4 : 200};

        check_filter(st, &f);
    }
    fr_store_close(st);
}

static void test_priority(void)
{
    struct fr_store *st = open_store(home);
    struct fr_arena arena = {0};
    struct fr_run_row got;

    add_runs(st);
    for (int i = 0; i < RUNS; i++)
        CHECK_INT(fr_store_run_priority(st, rows[i].id, 7 + i, NULL),
                  rows[i].state == FR_RUN_QUEUED ? FR_OK : FR_BUSY);
    CHECK_INT(fr_store_run_find(st, "5", &arena, &got, NULL), FR_OK);
    CHECK_INT(got.state, FR_RUN_QUEUED);
    CHECK_INT(got.priority, 7 + 4);
    fr_arena_finish(&arena);
    fr_store_close(st);
}

int main(void)
{
    make_home(home);
    test_filters();
    remove_store(home);
    test_priority();
    CHECK_INT(fr_remove_tree(home, NULL), FR_OK);
    return check_done();
}
