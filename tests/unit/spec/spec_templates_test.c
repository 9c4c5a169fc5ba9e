/* templates: and extends: what a task gets of them, and what is wrong in them. */
#include "tests/unit/spec/spec_rows.h"

/* Of each task its name, script, tries, time-out in seconds, variables and outputs; or the
 * mistakes, with line ends. */
static const struct spec_row rows[] = {
    {"its keys and the template's",
     "templates: {t: {run: x, timeout: 5s}}\ntasks: {a: {extends: t, retry: {times: 2}}}",
     "a(x,2,5)"},
    {"its own replace", "templates: {t: {run: x, timeout: 5s}}\ntasks: {a: {extends: t, run: y}}",
     "a(y,0,5)"},
    {"maps are merged",
     "templates: {t: {run: x, env: {A: 1, B: 1}, retry: {times: 2, delay: 1s}}}\n"
     "tasks: {a: {extends: t, env: {B: 2, C: 2}, retry: {times: 3}}}",
     "a(x,3,0 A=1 B=2 C=2)"},
    {"lists replace",
     "templates: {t: {run: x, outputs: [k, l]}}\ntasks: {a: {extends: t, outputs: [m]}}",
     "a(x,0,0 m)"},
    {"a map in place of a scalar",
     "templates: {t: {run: x, needs: b}}\n"
     "tasks: {a: {extends: t, needs: {task: c}}, b: {run: x}, c: {run: y, extends: []}}",
     "p.yaml:2:78: extends is an empty list; expected a name under templates:, or a list of them"},
    {"one need alone is a list",
     "templates: {t: {run: x, needs: {task: b, item: same}}}\n"
     "tasks: {a: {extends: t, needs: {task: c}}, b: {run: x, matrix: {i: [1]}}, c: {run: y}}",
     "a(x,0,0) b(x,0,0) c(y,0,0)"},
    {"and so is one row left out, or more",
     "templates: {t: {run: x, matrix: {i: [1, 2], exclude: {z: 1}, include: {l: [1]}}}}\n"
     "tasks: {a: {extends: t, matrix: {exclude: {i: 2}, include: {k: 2}}}}",
     "a(x,0,0)"},
    {"null removes",
     "templates: {t: {run: x, timeout: 5s, env: {A: 1, B: 1}}}\n"
     "tasks: {a: {extends: t, timeout: null, env: {A: ~}}}",
     "a(x,0,0 B=1)"},
    {"null removes, and another one comes",
     "templates: {t: {run: x}}\ntasks: {a: {extends: t, run: ~, argv: [y]}}", "a(,0,0)"},
    {"null of what is not there", "templates: {t: {run: x}}\ntasks: {a: {extends: t, env: {A: ~}}}",
     "a(x,0,0 A=)"},
    {"a list, the later one wins",
     "templates: {t: {run: x, timeout: 5s}, u: {run: y, retry: {times: 1}}}\n"
     "tasks: {a: {extends: [t, u]}, b: {extends: [u, t]}}",
     "a(y,1,5) b(x,1,5)"},
    {"a template that extends another",
     "templates: {t: {extends: u, timeout: 6s}, u: {run: y, timeout: 5s, retry: {times: 1}}}\n"
     "tasks: {a: {extends: t}}",
     "a(y,1,6)"},
    {"both of a diamond",
     "templates: {t: {extends: v, run: x}, u: {extends: v, timeout: 1s}, v: {run: v, timeout: "
     "9s}}\n"
     "tasks: {a: {extends: [t, u]}}",
     "a(v,0,1)"},
    {"a template twice", "templates: {t: {run: x}}\ntasks: {a: {extends: [t, t]}}", "a(x,0,0)"},
    {"after defaults",
     "defaults: {timeout: 9s, retry: {times: 4}}\ntemplates: {t: {run: x, timeout: 5s}}\n"
     "tasks: {a: {extends: t}}",
     "a(x,4,5)"},
    {"by a param",
     "params: {p: {default: u}}\ntemplates: {t: {run: x}, u: {run: y}}\n"
     "tasks: {a: {extends: '${{ params.p }}'}}",
     "a(y,0,0)"},
    {"with a matrix and an expression of it",
     "templates: {t: {run: x, matrix: {i: [1, 2]}, env: {I: '${{ matrix.i }}'}}}\n"
     "tasks: {a: {extends: t, matrix: {i: [3]}}}",
     "a(x,0,0 I=?)"},
    {"none is used", "templates: {t: {run: x}}\ntasks: {a: {run: y}}", "a(y,0,0)"},
    {"no templates", "templates: ~\ntasks: {a: {run: y}}", "a(y,0,0)"},
    {"a key x-, and a merge key",
     "x-t: &t {timeout: 5s}\ntemplates: {t: {<<: *t, run: x, x-why: 1}}\ntasks: {a: {extends: t}}",
     "a(x,0,5)"},

    {"unknown", "templates: {base: {run: x}}\ntasks: {a: {extends: bsae, run: y}}",
     "p.yaml:2:22: there is no template 'bsae'; expected a name under templates:; did you mean "
     "'base'?"},
    {"null of what there is not",
     "templates: {t: {run: x, retry: {times: 2}}, z: {timeout: ~}}\n"
     "tasks: {a: {extends: [z, t], grace: ~}, b: {extends: [t, z]}}",
     "a(x,2,0) b(x,2,0)"},
    {"unknown, in one that is not used", "templates: {t: {extends: u}}\ntasks: {a: {run: y}}",
     "p.yaml:1:26: there is no template 'u'; expected a name under templates:"},
    {"itself, not used", "templates: {t: {extends: t}}\ntasks: {a: {run: y}}",
     "p.yaml:1:26: template 't' extends itself"},
    {"unknown, of none", "tasks: {a: {extends: t, run: y}}",
     "p.yaml:1:22: there is no template 't'; expected a name under templates:"},
    {"itself", "templates: {t: {extends: t, run: x}}\ntasks: {a: {extends: t, run: y}}",
     "p.yaml:1:26: template 't' extends itself"},
    {"each other",
     "templates: {t: {extends: u}, u: {extends: v}, v: {extends: t}}\n"
     "tasks: {a: {extends: t, run: y}}",
     "p.yaml:1:60: template 't' extends itself"},
    {"a mistake in one that is used twice, once",
     "templates: {t: {run: x, retry: {tims: 1}}}\ntasks: {a: {extends: t}, b: {extends: t}}",
     "p.yaml:1:33: retry has no key 'tims'; did you mean 'times'?"},
    {"a key that no task has, in one that is not used",
     "templates: {t: {rn: x}}\ntasks: {a: {run: y}}",
     "p.yaml:1:17: a template has no key 'rn'; did you mean 'run'?"},
    {"no map", "templates: {t: x}\ntasks: {a: {run: y}}",
     "p.yaml:1:16: a template is 'x'; expected a map of its keys"},
    {"no maps", "templates: [t]\ntasks: {a: {run: y}}",
     "p.yaml:1:12: templates is a list; expected a map of parts of tasks by name"},
    {"a wrong name", "templates: {'1t': {run: x}}\ntasks: {a: {run: y}}",
     "p.yaml:1:13: '1t' cannot be the name of a template; expected a letter, then letters, digits, "
     "'_' and '-', at most 64"},
    {"a map of names", "templates: {t: {run: x}}\ntasks: {a: {extends: {t: 1}, run: y}}",
     "p.yaml:2:22: extends is a map; expected a text"},
    {"nothing", "templates: {t: {run: x}}\ntasks: {a: {extends: , run: y}}",
     "p.yaml:2:22: extends is nothing; expected a name under templates:, or a list of them"},
    {"of a hook", "templates: {t: {run: x}}\ntasks: {a: {run: y}}\non_exit: [{extends: t, run: x}]",
     "p.yaml:3:12: a hook has no key 'extends'; expected name, uses, run, argv, shell, with, "
     "env_file, env, login, cwd, needs_program, retry, timeout, lost_after, grace, notice, log, "
     "become, description, on, best_effort, when, slots, files or sidecars"},
};

static void put_tasks(const struct fr_spec *spec, struct fr_buf *out)
{
    for (size_t t = 0; t < spec->n_tasks; t++) {
        const struct fr_task *task = &spec->tasks[t];

        fr_buf_fmt(out, "%s%s(%s,%d,%lld", t > 0 ? " " : "", task->act.name,
                   task->act.run != NULL ? task->act.run : "", task->retry.times,
                   (long long)task->timeout_ms / 1000);
        for (size_t i = 0; i < task->act.n_env; i++)
            fr_buf_fmt(out, " %s=%s", task->act.env[i].name,
                       task->act.env[i].value.expr != NULL ? "?" : task->act.env[i].value.s);
        for (size_t i = 0; i < task->n_outputs; i++)
            fr_buf_fmt(out, " %s", task->outputs[i]);
        fr_buf_text(out, ")");
    }
}

/* Chains and sizes that are refused before memory is taken for them. */
static void test_limits(void)
{
    struct fr_buf text = {0};
    struct fr_issues issues = {0};
    struct fr_spec *spec;
    size_t said = 0;

    check_row("a long chain");
    fr_buf_text(&text, "tasks: {a: {extends: t0}}\ntemplates:\n");
    for (int i = 0; i < 100; i++)
        fr_buf_fmt(&text, "  t%d: {extends: t%d}\n", i, i + 1);
    fr_buf_text(&text, "  t100: {run: x}\n");
    CHECK_INT(load(text.p, NULL, 0, &spec, &issues), FR_USAGE);
    CHECK(issues.n > 0 &&
          strstr(issues.lines[issues.n - 1], "template 't64' ends a chain of more than 64"));
    fr_issues_finish(&issues);
    check_row("too many values");
    text.n = 0;
    fr_buf_text(&text, "templates: {t: {run: x, x-m: {");
    for (int i = 0; i < 2000; i++)
        fr_buf_fmt(&text, "A%d: 1, ", i);
    fr_buf_text(&text, "}}}\ntasks:\n");
    for (int i = 0; i < 1000; i++)
        fr_buf_fmt(&text, "  a%d: {extends: t, x-m: {B: 1}}\n", i);
    CHECK_INT(load(text.p, NULL, 0, &spec, &issues), FR_USAGE);
    for (size_t i = 0; i < issues.n; i++)
        said += strstr(issues.lines[i], "templates give more than 1500000 values") != NULL;
    CHECK_INT(said, 1);
    fr_issues_finish(&issues);
    fr_buf_finish(&text);
    check_row("");
}

int main(void)
{
    check_spec_rows(rows, sizeof(rows) / sizeof(rows[0]), put_tasks);
    test_limits();
    return check_done();
}
