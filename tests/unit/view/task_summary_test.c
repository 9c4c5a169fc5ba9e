/* What lists of runs show of their tasks: counts and letters, and those of ended runs from a cache.
 */
#include "engine/view/task_summary.h"
#include "tests/unit/check.h"

static void test_letters(void)
{
    struct fr_count_row rows[SUMMARY_TASKS + 3] = {
        {.task = "hook", .hook = "always", .state = FR_ST_FAILED, .n = 7},
        {.task = "a", .hook = "", .state = FR_ST_SUCCEEDED, .n = 3},
        {.task = "a", .hook = "", .state = FR_ST_FAILED, .n = 2}};
    char names[SUMMARY_TASKS][12], want[SUMMARY_TASKS + 1];
    struct task_summary all, first;
    json_t *tasks;

    for (int i = 3; i < SUMMARY_TASKS + 3; i++) {
        snprintf(names[i - 3], sizeof(names[0]), "t%03d", i);
        rows[i] = (struct fr_count_row){
            .task = names[i - 3], .hook = "", .state = FR_ST_SUCCEEDED, .n = 1};
    }
    task_summary_make(&(struct fr_count_rows){rows, SUMMARY_TASKS + 3}, &all);
    CHECK_INT(all.n[FR_ST_SUCCEEDED], 3 + SUMMARY_TASKS);
    CHECK_INT(all.n[FR_ST_FAILED], 2);
    memset(want, fr_state_letter(FR_ST_SUCCEEDED), SUMMARY_TASKS);
    want[SUMMARY_TASKS] = '\0';
    want[0] = fr_state_letter(FR_ST_FAILED);
    CHECK_TEXT(all.letters, want);

    task_summary_make(&(struct fr_count_rows){rows + 1, 3}, &first);
    CHECK(first.names != all.names);
    tasks = task_summary_tasks(&(struct fr_count_rows){rows, SUMMARY_TASKS + 3});
    CHECK_INT(json_array_size(tasks), SUMMARY_TASKS);
    CHECK_TEXT(json_string_value(json_array_get(tasks, 1)), "t003");
    json_decref(tasks);
}

static void test_ended(void)
{
    struct task_summaries *k = task_summaries_create();
    struct fr_run_row run = {.id = {{1}}, .no = 5, .state = FR_RUN_OVER, .ended_wall = 10};
    struct fr_run_row live = {.id = {{1}}, .no = 5, .state = FR_RUN_RUNNING, .ended_wall = 10};
    struct fr_run_row next = {.id = {{2}}, .no = 5 + 1024, .state = FR_RUN_OVER, .ended_wall = 10};
    struct task_summary in = {.names = 3}, out = {0};

    task_summaries_put(k, &live, &in);
    CHECK(!task_summaries_get(k, &run, &out)); /* a run that goes on changes yet */
    task_summaries_put(k, &run, &in);
    CHECK(task_summaries_get(k, &run, &out) && out.names == 3);
    CHECK(!task_summaries_get(k, &live, &out)); /* its retry goes on */
    run.ended_wall = 20;
    CHECK(!task_summaries_get(k, &run, &out)); /* its retry has ended */
    run.ended_wall = 10;
    CHECK(!task_summaries_get(k, &next, &out)); /* it has the same place */
    task_summaries_put(k, &next, &(struct task_summary){.names = 4});
    CHECK(task_summaries_get(k, &next, &out) && out.names == 4);
    CHECK(!task_summaries_get(k, &run, &out));
    task_summaries_leave(k);
}

int main(void)
{
    test_letters();
    test_ended();
    return check_done();
}
