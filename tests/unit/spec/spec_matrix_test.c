/* The rows of a matrix, their keys, and what is wrong in one. */
#include "tests/unit/spec/spec_rows.h"

/* The keys of all instances, with blanks between them; or the mistakes, with line ends. */
static const struct spec_row rows[] = {
    {"the product, the last name fastest",
     "tasks: {a: {run: x, matrix: {lr: [1e-5, 5e-5], rank: [8, 16]}}}",
     "a[lr=1e-05,rank=8] a[lr=1e-05,rank=16] a[lr=5e-05,rank=8] a[lr=5e-05,rank=16]"},
    {"one value instead of a list", "tasks: {a: {run: x, matrix: {i: 1}}}", "a[i=1]"},
    {"excluded rows", "tasks: {a: {run: x, matrix: {i: [1, 2], k: [a, b], exclude: {i: 2, k: a}}}}",
     "a[i=1,k=a] a[i=1,k=b] a[i=2,k=b]"},
    {"excluded by one name",
     "tasks: {a: {run: x, matrix: {i: [1, 2], k: [a, b], exclude: [{i: 2}]}}}",
     "a[i=1,k=a] a[i=1,k=b]"},
    {"numbers are equal by value",
     "tasks: {a: {run: x, matrix: {i: [1, 2.0], exclude: [{i: 2}, {i: '1'}]}}}", "a[i=1]"},
    {"no row is left", "tasks: {a: {run: x, matrix: {i: [1], exclude: [{i: 1}]}}}", "a"},
    {"an included name of all rows",
     "tasks: {a: {run: x, matrix: {i: [1, 2], include: [{note: n}]}}}",
     "a[i=1,note=n] a[i=2,note=n]"},
    {"an included name of rows that agree, and a later one replaces it",
     "tasks: {a: {run: x, matrix: {i: [1, 2], include: [{i: 2, note: m}, {note: n}]}}}",
     "a[i=1,note=n] a[i=2,note=n]"},
    {"included rows",
     "tasks: {a: {run: x, matrix: {i: [1], include: [{i: 3, note: m}, {i: 3}, {i: 1}]}}}",
     "a[i=1] a[i=3,note=m] a[i=3]"},
    {"an excluded row can be included again",
     "tasks: {a: {run: x, matrix: {i: [1], exclude: [{i: 1}], include: [{i: 1, k: 2}]}}}",
     "a[i=1,k=2]"},
    {"included rows alone", "tasks: {a: {run: x, matrix: {include: [{i: 1}, {k: 2}]}}}",
     "a[i=1] a[k=2]"},
    {"types of plain scalars",
     "tasks: {a: {run: x, matrix: {v: [null, ~, true, False, 0x10, 0o17, -7, +3, 007]}}}",
     "p.yaml:1:29: rows 1 and 2 of the matrix have the same key 'v=null'; expected values of which "
     "each row is unlike"},
    {"numbers in their shortest form",
     "tasks: {a: {run: x, matrix: {v: [0x10, 0o17, -7, +3, 1.50, .5, 1e3, 1e16, 123456.789, "
     "0.00001, 1E-4, 0.1]}}}",
     "a[v=16] a[v=15] a[v=-7] a[v=3] a[v=1.5] a[v=0.5] a[v=1000.0] a[v=1e+16] a[v=123456.789] "
     "a[v=1e-05] a[v=0.0001] a[v=0.1]"},
    {"texts, bare or quoted",
     "tasks: {a: {run: x, matrix: {v: [a.b_c-d, \"a b\", 'a\"b', '', 'é', '1,2', yes, 1.2.3]}}}",
     "a[v=a.b_c-d] a[v=\"a b\"] a[v=\"a\\\"b\"] a[v=\"\"] a[v=\"é\"] a[v=\"1,2\"] a[v=yes] "
     "a[v=1.2.3]"},
    {"on the nodes of the task",
     "nodes: inv.yaml\n"
     "tasks: {a: {run: x, on: big, matrix: {i: [1, 2]}}}",
     "a[i=1]@n1 a[i=1]@n2 a[i=2]@n1 a[i=2]@n2"},
    {"joined item by item",
     "tasks:\n"
     "  a: {run: x, matrix: {i: [1, 2]}}\n"
     "  b: {run: x, matrix: {i: [1, 2]}, needs: {task: a, item: same}}\n",
     "a[i=1] a[i=2] b[i=1] b[i=2]"},
    {"a value of a param",
     "params: {v: {default: 8, type: int}}\n"
     "tasks: {a: {run: x, matrix: {v: ['${{ params.v }}', 9]}}}",
     "a[v=8] a[v=9]"},

    {"keys that begin with x-",
     "x-owner: {a: [1], b: '${{ nothing'}\nnodes: [{name: n1, x-rack: 7}]\ndefaults: {x-y: 1}\n"
     "tasks: {a: {run: x, x-note: '${{ nothing }}', retry: {times: 1, x-why: y}}, b: {run: x, "
     "needs: {task: a, x-z: 1}}}",
     "a@n1 b@n1"},
    {"names that begin with x-", "tasks: {x-a: {run: x, matrix: {x-i: [1]}}}", "x-a[x-i=1]"},
    {"parts that are merged",
     "x-base: &base {matrix: {i: [1, 2]}, max_parallel: 1}\n"
     "tasks: {a: {<<: *base, run: x}, b: {<<: *base, run: x, matrix: {i: [3]}}}",
     "a[i=1] a[i=2] b[i=3]"},
    {"a merged mistake stands where it is written",
     "x-base: &base {rety: {times: 1}}\ntasks: {a: {<<: *base, run: x}}",
     "p.yaml:1:16: a task has no key 'rety'; did you mean 'retry'?"},
    {"too few at once", "tasks: {a: {run: x, max_parallel: 0}}",
     "p.yaml:1:35: max_parallel is '0'; expected a whole number from 1 to 100000"},
    {"fail_fast of one instance", "tasks: {a: {run: x, fail_fast: true}}",
     "p.yaml:1:32: 'a' has one instance, so none is left when it fails; expected matrix:, "
     "foreach: or on: several nodes, or no fail_fast:"},
    {"fail_fast on control", "tasks: {a: {run: x, on: control, fail_fast: true}}",
     "p.yaml:1:45: 'a' has one instance, so none is left when it fails; expected matrix:, "
     "foreach: or on: several nodes, or no fail_fast:"},
    {"fail_fast of a gang", "tasks: {a: {run: x, on: all, gang: true, fail_fast: true}}",
     "p.yaml:1:53: the instances of 'a' are one gang, which fails as a whole; expected matrix: "
     "or foreach: beside it, or no fail_fast:"},
    {"fail_fast on all nodes", "tasks: {a: {run: x, on: all, fail_fast: true}}", "a@local"},
    {"fail_fast of gangs",
     "tasks: {a: {run: x, on: all, gang: true, fail_fast: true, matrix: {i: [1]}}}",
     "a[i=1]@local"},
    {"no fail_fast", "tasks: {a: {run: x, fail_fast: false}}", "a@local"},
    {"fail_fast of a word", "tasks: {a: {run: x, fail_fast: maybe, matrix: {i: [1]}}}",
     "p.yaml:1:32: fail_fast is 'maybe'; expected true or false"},
    {"fail_fast of a hook", "tasks: {a: {run: x}}\non_exit: [{run: x, fail_fast: true}]",
     "p.yaml:2:20: a hook has no key 'fail_fast'; expected name, uses, run, argv, shell, with, "
     "env_file, env, login, cwd, needs_program, retry, timeout, lost_after, grace, notice, log, "
     "become, description, on, best_effort, when, slots, files or sidecars"},
    {"no names", "tasks: {a: {run: x, matrix: {}}}",
     "p.yaml:1:29: matrix is an empty map; expected names and lists of values, or include:"},
    {"a list", "tasks: {a: {run: x, matrix: [1]}}",
     "p.yaml:1:29: matrix is a list; expected a map of names and lists of values"},
    {"no values", "tasks: {a: {run: x, matrix: {i: [], k: ~, m: {}}}}",
     "p.yaml:1:33: 'i' of the matrix has none; expected a list of values\n"
     "p.yaml:1:40: 'k' of the matrix has none; expected a list of values\n"
     "p.yaml:1:46: 'm' of the matrix has none; expected a list of values"},
    {"no scalar", "tasks: {a: {run: x, matrix: {i: [[1], {a: 1}]}}}",
     "p.yaml:1:34: a value of the matrix is no scalar; expected a text, a number, true, false or "
     "null\n"
     "p.yaml:1:39: a value of the matrix is no scalar; expected a text, a number, true, false or "
     "null"},
    {"no number", "tasks: {a: {run: x, matrix: {i: [.inf, 1e999, 9223372036854775808]}}}",
     "p.yaml:1:34: '.inf' cannot be a value of the matrix; expected a finite number of at most 64 "
     "bits, or quotes around it\n"
     "p.yaml:1:40: '1e999' cannot be a value of the matrix; expected a finite number of at most 64 "
     "bits, or quotes around it\n"
     "p.yaml:1:47: '9223372036854775808' cannot be a value of the matrix; expected a finite number "
     "of at most 64 bits, or quotes around it"},
    {"no name", "tasks: {a: {run: x, matrix: {2x: [1]}}}",
     "p.yaml:1:30: '2x' cannot be a name of the matrix; expected a letter, then letters, digits, "
     "'_' and '-', at most 64"},
    {"exclude of another name", "tasks: {a: {run: x, matrix: {rank: [1], exclude: [{rnak: 1}]}}}",
     "p.yaml:1:52: exclude: the matrix has no 'rnak'; expected a name of the matrix; did you mean "
     "'rank'?"},
    {"exclude of nothing", "tasks: {a: {run: x, matrix: {i: [1], exclude: [{}, 3]}}}",
     "p.yaml:1:48: it names nothing; expected a map of names and values\n"
     "p.yaml:1:52: exclude is '3'; expected a map of names and values"},
    {"include of a list", "tasks: {a: {run: x, matrix: {i: [1], include: [{i: [2]}]}}}",
     "p.yaml:1:52: a value of the matrix is no scalar; expected a text, a number, true, false or "
     "null"},
    {"the same row twice", "tasks: {a: {run: x, matrix: {i: [1], include: [{i: 2}, {i: 2}]}}}",
     "p.yaml:1:56: rows 2 and 3 of the matrix have the same key 'i=2'; expected values of which "
     "each "
     "row is unlike"},
    {"unlike types of one key", "tasks: {a: {run: x, matrix: {i: [1, '1']}}}",
     "p.yaml:1:29: rows 1 and 2 of the matrix have the same key 'i=1'; expected values of which "
     "each "
     "row is unlike"},
    {"an unknown name in an expression",
     "tasks: {a: {run: x, matrix: {rank: [1]}, env: {R: '${{ matrix.rnak }}'}}}",
     "p.yaml:1:56: unknown name 'rnak'; expected a name of the matrix; did you mean 'rank'?"},
    {"an expression without a matrix", "tasks: {a: {run: x, env: {R: '${{ matrix.rank }}'}}}",
     "p.yaml:1:35: 'matrix.rank': there is no matrix here; expected it in a task with matrix:"},
    {"an expression of a hook",
     "tasks: {a: {run: x, matrix: {i: [1]}}}\n"
     "on_exit: [{run: x, env: {R: '${{ matrix.i }}'}}]",
     "p.yaml:2:34: 'matrix.i': there is no matrix here; expected it in a task with matrix:"},
    {"an expression that is too early",
     "tasks: {a: {run: x, matrix: {i: [1]}, slots: '${{ matrix.i }}'}}",
     "p.yaml:1:51: 'matrix.i' is not known when the file is read; expected params or env"},
    {"an incomplete expression",
     "tasks: {a: {run: x, matrix: {i: [1]}, env: {R: '${{ matrix }}'}}}",
     "p.yaml:1:53: 'matrix' is not complete; expected matrix.NAME"},
    {"matrix of a hook", "tasks: {a: {run: x}}\non_exit: [{run: x, matrix: {i: [1]}}]",
     "p.yaml:2:20: a hook has no key 'matrix'; expected name, uses, run, argv, shell, with, "
     "env_file, env, login, cwd, needs_program, retry, timeout, lost_after, grace, notice, log, "
     "become, description, on, best_effort, when, slots, files or sidecars"},
    {"output of another row",
     "tasks:\n"
     "  fit: {run: x, matrix: {i: [1, 2]}, outputs: [loss]}\n"
     "  b: {run: x, needs: fit, env: {L: '${{ tasks.fit.outputs.loss }}'}}\n",
     "p.yaml:3:41: task 'fit' has 2 items: which is meant?; expected tasks.fit.all.loss (all of "
     "them), best(tasks.fit.items, 'loss') (one), or needs: [{task: fit, item: same}] in a task "
     "with "
     "the same matrix"},
    {"the three of them",
     "tasks:\n"
     "  fit: {run: x, matrix: {i: [1, 2]}, outputs: [loss]}\n"
     "  b: {run: x, needs: fit, env: {L: \"${{ tasks.fit.all.loss }}${{ tasks.fit.items }}${{ "
     "best(tasks.fit.items, 'loss').matrix.i }}\"}}\n",
     "fit[i=1] fit[i=2] b@local"},
    {"not needed, in best",
     "tasks:\n"
     "  fit: {run: x, matrix: {i: [1, 2]}, outputs: [loss]}\n"
     "  b: {run: x, env: {L: \"${{ best(tasks.fit.items, 'loss') }}\"}}\n",
     "p.yaml:3:29: task 'b' uses an output of 'fit' but does not need it; expected 'fit' under its "
     "needs:"},
    {"not needed, in all",
     "tasks:\n"
     "  fit: {run: x, matrix: {i: [1, 2]}, outputs: [loss]}\n"
     "  b: {run: x, env: {L: \"${{ tasks.fit.all.loss }}\"}}\n",
     "p.yaml:3:29: task 'b' uses an output of 'fit' but does not need it; expected 'fit' under its "
     "needs:"},
    {"an output that is not declared, of all",
     "tasks:\n"
     "  fit: {run: x, matrix: {i: [1, 2]}, outputs: [loss]}\n"
     "  b: {run: x, needs: fit, env: {L: \"${{ tasks.fit.all.los }}\"}}\n",
     "p.yaml:3:41: task 'fit' declares no output 'los'; expected loss; did you mean 'loss'?"},
    {"… compared",
     "tasks:\n"
     "  fit: {run: x, matrix: {i: [1, 2]}, outputs: [loss]}\n"
     "  b: {run: x, needs: fit, env: {L: \"${{ best(tasks.fit.items, '-los') }}\"}}\n",
     "p.yaml:3:41: task 'fit' declares no output 'los'; expected loss; did you mean 'loss'?"},
    {"… of the best",
     "tasks:\n"
     "  fit: {run: x, matrix: {i: [1, 2]}, outputs: [loss]}\n"
     "  b: {run: x, needs: fit, env: {L: \"${{ best(tasks.fit.items, 'loss').outputs.los }}\"}}\n",
     "p.yaml:3:41: task 'fit' declares no output 'los'; expected loss; did you mean 'loss'?"},
    {"a name that its matrix has not",
     "tasks:\n"
     "  fit: {run: x, matrix: {i: [1, 2]}, outputs: [loss]}\n"
     "  b: {run: x, needs: fit, env: {L: \"${{ best(tasks.fit.items, 'loss').matrix.k }}\"}}\n",
     "p.yaml:3:41: the matrix of 'fit' has no 'k'"},
    {"best of another member",
     "tasks:\n"
     "  fit: {run: x, matrix: {i: [1, 2]}, outputs: [loss]}\n"
     "  b: {run: x, needs: fit, env: {L: \"${{ best(tasks.fit.items, 'loss').stat }}\"}}\n",
     "p.yaml:3:41: 'best(tasks.fit.items, 'loss').stat' is not complete; expected best(…), or "
     ".key, .state, .node, .matrix.NAME, .item, .item.NAME or .outputs.KEY behind it"},
    {"best without a comma",
     "tasks:\n"
     "  fit: {run: x, matrix: {i: [1, 2]}, outputs: [loss]}\n"
     "  b: {run: x, needs: fit, env: {L: \"${{ best(tasks.fit.items) }}\"}}\n",
     "p.yaml:3:46: expected a path, a comma and a 'text'"},
    {"best without an output",
     "tasks:\n"
     "  fit: {run: x, matrix: {i: [1, 2]}, outputs: [loss]}\n"
     "  b: {run: x, needs: fit, env: {L: \"${{ best(tasks.fit.items, 3) }}\"}}\n",
     "p.yaml:3:63: expected a 'text'"},
    {"best of something else",
     "tasks:\n"
     "  fit: {run: x, matrix: {i: [1, 2]}, outputs: [loss]}\n"
     "  b: {run: x, needs: fit, env: {L: \"${{ best(tasks.fit, 'loss') }}\"}}\n",
     "p.yaml:3:41: 'best(tasks.fit, 'loss')' is not complete; expected best(tasks.NAME.items, "
     "'OUTPUT'), or '-OUTPUT' for the largest"},
    {"best of an unknown task",
     "tasks:\n"
     "  fit: {run: x, matrix: {i: [1, 2]}, outputs: [loss]}\n"
     "  b: {run: x, needs: fit, env: {L: \"${{ best(tasks.fti.items, 'loss') }}\"}}\n",
     "p.yaml:3:41: unknown task 'fti'; did you mean 'fit'?"},
    {"best alone",
     "tasks:\n"
     "  fit: {run: x, matrix: {i: [1, 2]}, outputs: [loss]}\n"
     "  b: {run: x, needs: fit, env: {L: \"${{ best }}\"}}\n",
     "p.yaml:3:41: 'best' is not complete; expected best(tasks.NAME.items, 'OUTPUT'), or '-OUTPUT' "
     "for the largest"},
    {"all without an output",
     "tasks:\n"
     "  fit: {run: x, matrix: {i: [1, 2]}, outputs: [loss]}\n"
     "  b: {run: x, needs: fit, env: {L: \"${{ tasks.fit.all }}\"}}\n",
     "p.yaml:3:41: 'tasks.fit.all' is not complete; expected tasks.NAME.all.KEY"},
    {"a member of items",
     "tasks:\n"
     "  fit: {run: x, matrix: {i: [1, 2]}, outputs: [loss]}\n"
     "  b: {run: x, needs: fit, env: {L: \"${{ tasks.fit.items.key }}\"}}\n",
     "p.yaml:3:41: 'tasks.fit.items.key' is not complete; expected tasks.NAME.items"},
    {"joined to no matrix",
     "tasks:\n"
     "  a: {run: x}\n"
     "  b: {run: x, matrix: {i: [1, 2]}, needs: [{task: a, item: same}]}\n",
     "p.yaml:3:44: item: same: 'a' has no matrix; expected tasks that both have a matrix"},
    {"joined without a matrix",
     "tasks:\n"
     "  a: {run: x, matrix: {i: [1, 2]}}\n"
     "  b: {run: x, needs: [{task: a, item: same}]}\n",
     "p.yaml:3:23: item: same: 'b' has no matrix; expected tasks that both have a matrix"},
    {"joined to another matrix",
     "tasks:\n"
     "  a: {run: x, matrix: {i: [1, 2]}}\n"
     "  b: {run: x, matrix: {i: [1, 3]}, needs: [{task: a, item: same}]}\n",
     "p.yaml:3:44: item: same: 'b' and 'a' do not have the same items; the first that differs is "
     "[i=3]; expected the same matrix in both"},
    {"another join",
     "tasks:\n"
     "  a: {run: x, matrix: {i: [1, 2]}}\n"
     "  b: {run: x, matrix: {i: [1, 2]}, needs: [{task: a, item: all, itm: 1}, {item: same}]}\n",
     "p.yaml:3:60: item is 'all'; expected same\n"
     "p.yaml:3:65: a need has no key 'itm'; expected task, item and states; did you mean 'item'?\n"
     "p.yaml:3:74: a need lacks the key 'task'; expected {task: NAME, item: same} or "
     "{task: NAME, states: [STATE]}"},
    {"a container with items",
     "tasks:\n"
     "  box: {uses: container, with: {image: i}, matrix: {i: [1]}}\n"
     "  b: {run: x, needs: box, in: box}\n",
     "p.yaml:3:31: 'box' has items: which container is meant?; expected a container without "
     "matrix and foreach"},
};

/* So many rows are refused before memory is taken for them. */
static void test_limits(void)
{
    static const struct {
        size_t a, b;
        const char *want;
    } sizes[] = {{300, 300, ""}, {400, 400, "p.yaml:1:29: the matrix has more than 100000 rows"}};

    for (size_t i = 0; i < 2; i++) {
        struct fr_buf text = {0};
        struct fr_issues issues = {0};
        struct fr_spec *spec;

        fr_buf_text(&text, "tasks: {a: {run: x, matrix: {i: [0");
        for (size_t k = 1; k < sizes[i].a; k++)
            fr_buf_fmt(&text, ",%zu", k);
        fr_buf_text(&text, "], k: [0");
        for (size_t k = 1; k < sizes[i].b; k++)
            fr_buf_fmt(&text, ",%zu", k);
        fr_buf_text(&text, "]}}}");
        if (load(text.p, NULL, 0, &spec, &issues) == FR_OK)
            CHECK_INT(spec->tasks[0].items->n, sizes[i].a * sizes[i].b);
        CHECK_TEXT(issues.n > 0 ? issues.lines[0] : "", sizes[i].want);
        fr_spec_destroy(spec);
        fr_issues_finish(&issues);
        fr_buf_finish(&text);
    }
}

static void test_values(void)
{
    struct fr_issues issues = {0};
    struct fr_spec *spec;
    struct fr_buf text = {0};

    if (!CHECK_INT(load("tasks: {a: {run: x, matrix: {i: [8, 1e-5], t: [yes, '9', true, null]}}}",
                        NULL, 0, &spec, &issues),
                   FR_OK))
        return;
    for (size_t i = 0; i < 8; i += 5) {
        fr_item_json(spec->tasks[0].items, i, &text);
    }
    CHECK_TEXT(text.p, "{\"i\":8,\"t\":\"yes\"}{\"i\":1e-05,\"t\":\"9\"}");
    fr_buf_finish(&text);
    fr_spec_destroy(spec);
    fr_issues_finish(&issues);
}

int main(void)
{
    check_spec_rows(rows, sizeof(rows) / sizeof(rows[0]), put_keys);
    test_limits();
    test_values();
    return check_done();
}
