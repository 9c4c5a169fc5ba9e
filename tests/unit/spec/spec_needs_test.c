/* needs:, run_if:, states: and skip_with: what they mean, and what is wrong in them. */
#include "tests/unit/spec/spec_rows.h"

#define STATES                                                                                     \
    "expected succeeded, failed, timed_out, cancelled, lost, stop_unproven, skipped or "           \
    "upstream_failed"

/* Of the last task its run_if and its needs in the plan's order, with the letters of their states;
 * ~ for skip_with. Or the mistakes, with line ends. */
static const struct spec_row rows[] = {
    {"as ever", "tasks: {a: {run: x}, b: {run: x, needs: a}}", "success a"},
    {"success", "tasks: {a: {run: x}, b: {run: x, needs: a, run_if: success}}", "success a"},
    {"failure", "tasks: {a: {run: x}, b: {run: x, needs: a, run_if: failure}}", "failure a"},
    {"any", "tasks: {a: {run: x}, b: {run: x, needs: a, run_if: any}}", "any a"},
    {"always", "tasks: {a: {run: x}, b: {run: x, needs: a, run_if: always}}", "always a"},
    {"always, without needs", "tasks: {b: {run: x, run_if: always}}", "always"},
    {"by a param",
     "params: {p: {default: any}}\ntasks: {a: {run: x}, b: {run: x, needs: a, run_if: '${{ "
     "params.p }}'}}",
     "any a"},
    {"when: with failure()", "tasks: {a: {run: x}, b: {run: x, needs: a, when: failure()}}",
     "always a"},
    {"when: with success()", "tasks: {a: {run: x}, b: {run: x, needs: a, when: success()}}",
     "success a"},
    {"when: with failure(), and run_if",
     "tasks: {a: {run: x}, b: {run: x, needs: a, when: failure(), run_if: any}}", "any a"},
    {"when: of another task",
     "tasks: {a: {run: x, when: always()}, b: {run: x, needs: a, run_if: success}}", "success a"},
    {"states",
     "tasks: {a: {run: x}, b: {run: x, needs: [{task: a, states: [succeeded, skipped]}]}}",
     "success a/sk"},
    {"one state", "tasks: {a: {run: x}, b: {run: x, needs: {task: a, states: failed}}}",
     "success a/f"},
    {"all states",
     "tasks: {a: {run: x}, b: {run: x, needs: {task: a, states: [succeeded, failed, timed_out, "
     "cancelled, lost, stop_unproven, skipped, upstream_failed]}}}",
     "success a/sftclukp"},
    {"in the plan's order, which is the file's",
     "tasks: {a: {run: x}, c: {run: x}, d: {run: x}, b: {run: x, needs: [{task: d, states: "
     "failed}, "
     "c, {task: a, states: skipped}], skip_with: [d, c]}}",
     "success a/k c~ d~/f"},
    {"of items",
     "tasks: {a: {run: x, matrix: {i: 1}}, b: {run: x, matrix: {i: 1}, needs: {task: a, "
     "item: same, states: failed}}}",
     "success a/f"},
    {"skip_with", "tasks: {a: {run: x}, b: {run: x, needs: a, skip_with: a}}", "success a~"},
    {"skip_with none", "tasks: {a: {run: x}, b: {run: x, needs: a, skip_with: []}}", "success a"},

    {"another word", "tasks: {a: {run: x}, b: {run: x, needs: a, run_if: succes}}",
     "p.yaml:1:52: run_if is 'succes'; expected success, failure, any or always; did you mean "
     "'success'?"},
    {"an expression", "tasks: {a: {run: x}, b: {run: x, needs: a, run_if: 'failure()'}}",
     "p.yaml:1:52: run_if is 'failure()'; expected success, failure, any or always; did you mean "
     "'failure'?"},
    {"the word of another tool",
     "tasks: {a: {run: x}, b: {run: x, needs: a, trigger_rule: all_done}}",
     "p.yaml:1:44: a task has no key 'trigger_rule'; expected run_if: success, failure, any or "
     "always"},
    {"of a hook", "tasks: {a: {run: x}}\non_exit: [{run: x, run_if: always, skip_with: a}]",
     "p.yaml:2:20: a hook has no key 'run_if'; expected name, uses, run, argv, shell, with, "
     "env_file, env, login, cwd, needs_program, retry, timeout, lost_after, grace, notice, log, "
     "become, description, on, best_effort, when, slots, files or sidecars\n"
     "p.yaml:2:36: a hook has no key 'skip_with'; expected name, uses, run, argv, shell, with, "
     "env_file, env, login, cwd, needs_program, retry, timeout, lost_after, grace, notice, log, "
     "become, description, on, best_effort, when, slots, files or sidecars"},
    {"failure, without needs", "tasks: {b: {run: x, run_if: failure}}",
     "p.yaml:1:29: run_if: failure is about what 'b' needs, and there is nothing; expected needs: "
     "[TASK], one at least without states:"},
    {"any, of needs with states alone",
     "tasks: {a: {run: x}, b: {run: x, needs: {task: a, states: failed}, run_if: any}}",
     "p.yaml:1:76: run_if: any is about what 'b' needs, and there is nothing; expected needs: "
     "[TASK], one at least without states:"},
    {"failure, of an unknown need",
     "tasks: {a: {run: x}, b: {run: x, needs: [c], run_if: failure}}",
     "p.yaml:1:42: task 'b' needs unknown task 'c'"},
    {"success, and a when: that asks for failures",
     "tasks: {a: {run: x}, b: {run: x, needs: a, run_if: success, when: failure()}}",
     "p.yaml:1:52: run_if: success starts 'b' where nothing that it needs failed, but its when: "
     "calls failure() or always(); expected failure, any or always, or no run_if:"},
    {"no state", "tasks: {a: {run: x}, b: {run: x, needs: {task: a, states: []}}}",
     "p.yaml:1:59: states is an empty list; " STATES},
    {"a map of states", "tasks: {a: {run: x}, b: {run: x, needs: {task: a, states: {s: 1}}}}",
     "p.yaml:1:59: states is a map; " STATES},
    {"a state of tasks that go on",
     "tasks: {a: {run: x}, b: {run: x, needs: {task: a, states: [failed, running]}}}",
     "p.yaml:1:68: no task ends as 'running'; " STATES},
    {"states: twice the same",
     "tasks: {b: {run: x}, a: {run: x, needs: [{task: b, states: [failed, lost, failed]}]}}",
     "p.yaml:1:75: 'failed' stands in states twice"},
    {"an unknown state", "tasks: {a: {run: x}, b: {run: x, needs: {task: a, states: suceeded}}}",
     "p.yaml:1:59: no task ends as 'suceeded'; " STATES "; did you mean 'succeeded'?"},
    {"skip_with what is not needed",
     "tasks: {a: {run: x}, c: {run: x}, b: {run: x, needs: [a], skip_with: [c]}}",
     "p.yaml:1:71: skip_with: 'b' does not need 'c'; expected one that it needs: a"},
    {"skip_with, without needs", "tasks: {a: {run: x}, b: {run: x, skip_with: a}}",
     "p.yaml:1:45: skip_with: 'b' does not need 'a'; expected a task that stands under its needs:, "
     "too"},
    {"skip_with something unknown", "tasks: {a: {run: x}, b: {run: x, needs: a, skip_with: aa}}",
     "p.yaml:1:55: skip_with: 'b' does not need 'aa'; expected one that it needs: a; did you mean "
     "'a'?"},
    {"skip_with twice", "tasks: {a: {run: x}, b: {run: x, needs: a, skip_with: [a, a]}}",
     "p.yaml:1:59: 'a' stands in skip_with twice"},
    {"skip_with what must be skipped",
     "tasks: {a: {run: x}, b: {run: x, needs: {task: a, states: skipped}, skip_with: a}}",
     "p.yaml:1:80: 'b' would never run: states: wants 'a' skipped, and skip_with: skips it then; "
     "expected one of the two"},
};

static void put_rules(const struct fr_spec *spec, struct fr_buf *out)
{
    struct fr_arena arena = {0};
    struct fr_plan *plan;
    struct fr_err err = {0};
    const struct fr_plan_task *task;

    if (!CHECK_INT(fr_plan_make(spec, &arena, &plan, &err), FR_OK))
        return;
    task = &plan->tasks[spec->n_tasks - 1];
    fr_buf_text(out, fr_run_if_name(task->spec->run_if));
    for (uint32_t i = 0; i < task->n_needs; i++) {
        unsigned states = task->rules != NULL ? task->rules[i].states : 0;

        fr_buf_fmt(out, " %s%s", plan->tasks[task->needs[i]].name,
                   task->rules != NULL && task->rules[i].skip_with ? "~" : "");
        for (int st = 0; st < FR_ST_N; st++)
            if (states & 1u << st)
                fr_buf_fmt(out, "%s%c", (states & ((1u << st) - 1)) == 0 ? "/" : "",
                           fr_state_letter((enum fr_state_of)st));
    }
    fr_arena_finish(&arena);
}

int main(void)
{
    check_spec_rows(rows, sizeof(rows) / sizeof(rows[0]), put_rules);
    return check_done();
}
