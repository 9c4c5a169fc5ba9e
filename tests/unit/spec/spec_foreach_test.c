/* The elements of foreach:, their keys, and what is wrong in one. */
#include "tests/unit/spec/spec_rows.h"

#define AFTER                                                                                      \
    "tasks:\n  g: {run: x, outputs: [l]}\n  a: {run: x, needs: [g], foreach: '${{ "                \
    "tasks.g.outputs.l }}'"

/* The keys of all instances, with blanks between them; or the mistakes, with line ends. */
static const struct spec_row rows[] = {
    {"elements as they stand",
     "tasks: {a: {run: x, foreach: [b, 1.50, 0x10, true, null, 'c d', \"1\"]}}",
     "a[b] a[1.5] a[16] a[true] a[null] a[\"c d\"] a[1]"},
    {"alike: by their numbers", "tasks: {a: {run: x, foreach: [1, '1']}}", "a[0] a[1]"},
    {"too long for a key",
     "tasks: {a: {run: x, foreach: [b, '12345678901234567890123456789012345678901']}}",
     "a[0] a[1]"},
    {"as long as may be",
     "tasks: {a: {run: x, foreach: ['1234567890123456789012345678901234567890']}}",
     "a[1234567890123456789012345678901234567890]"},
    {"not printable", "tasks: {a: {run: x, foreach: [b, \"c\\td\"]}}", "a[0] a[1]"},
    {"lists and maps", "tasks: {a: {run: x, foreach: [[1], {k: 2}]}}", "a[0] a[1]"},
    {"a map is its pairs", "tasks: {a: {run: x, foreach: {k: 1, l: 2}}}", "a[0] a[1]"},
    {"none", "tasks: {a: {run: x, foreach: []}}", "a"},
    {"a text of JSON", "tasks: {a: {run: x, foreach: ' [\"b\", 2.0]'}}", "a[b] a[2.0]"},
    {"a param",
     "params: {l: {default: '[1, 2]'}}\ntasks: {a: {run: x, foreach: '${{ params.l }}'}}",
     "a[1] a[2]"},
    {"an element of a param",
     "params: {v: {default: 8, type: int}}\ntasks: {a: {run: x, foreach: ['${{ params.v }}']}}",
     "a[8]"},
    {"on nodes, and a gang each",
     "nodes: inv.yaml\ntasks: {a: {run: x, foreach: [1, 2], on: big, gang: true}}",
     "a[1]@n1 a[1]@n2 a[2]@n1 a[2]@n2"},
    {"awaited: behind all others", AFTER ", on: control}\n  b: {run: x}\non_exit: [{run: x}]",
     "g@local b@local on_exit.0@control a"},
    {"an element's members",
     AFTER ", env: {A: '${{ item }}', B: '${{ item.k.l }}', C: '${{ index }}'}}", "g@local a"},
    {"what it gave",
     AFTER
     ", outputs: [o]}\n"
     "  b: {run: x, needs: [a], env: {A: '${{ tasks.a.all.o }}', B: '${{ tasks.a.items }}', C: "
     "\"${{ best(tasks.a.items, 'o').item.k }}\"}}",
     "g@local b@local a"},
    {"of what another one gave",
     AFTER ", outputs: [o]}\n  b: {run: x, needs: [a], foreach: '${{ tasks.a.items }}'}",
     "g@local a b"},
    /* ---- wrong ---- */
    {"a text", "tasks: {a: {run: x, foreach: b}}",
     "p.yaml:1:30: foreach: it is no list of JSON, as [\"a\", \"b\"], nor a map: 'b'; expected a "
     "list, a map, or an expression that gives one as JSON"},
    {"a number", "tasks: {a: {run: x, foreach: 3}}",
     "p.yaml:1:30: foreach: it is no list of JSON, as [\"a\", \"b\"], nor a map: '3'; expected a "
     "list, a map, or an expression that gives one as JSON"},
    {"no value", "tasks: {a: {run: x, foreach: }}",
     "p.yaml:1:30: foreach is nothing; expected a list, a map, or an expression that gives one as "
     "JSON"},
    {"an empty text", "tasks: {a: {run: x, foreach: ''}}",
     "p.yaml:1:30: foreach: it is empty, and no list: an empty one is '[]'; expected a list, a "
     "map, or an expression that gives one as JSON"},
    {"half a list", "tasks: {a: {run: x, foreach: '[1,'}}",
     "p.yaml:1:30: foreach: it is no JSON (1:3: ']' expected near end of file): '[1,'; "
     "expected a list, a map, or an expression that gives one as JSON"},
    {"matrix beside it", "tasks: {a: {run: x, matrix: {i: [1]}, foreach: [1]}}",
     "p.yaml:1:48: 'a' has both matrix: and foreach:; expected one of them"},
    {"an endless number", "tasks: {a: {run: x, foreach: [.inf]}}",
     "p.yaml:1:31: '.inf' cannot be an element of foreach; expected a finite number of at most 64 "
     "bits, or quotes around it"},
    {"too deep", "tasks: {a: {run: x, foreach: [[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]}}",
     "p.yaml:1:46: an element of foreach is deeper than 16"},
    {"a secret", "secrets: {s: {env: S}}\ntasks: {a: {run: x, foreach: '[\"${{ secrets.s }}\"]'}}",
     "p.yaml:2:37: 'secrets.s' cannot stand here; expected it in env: of a task or in with: of "
     "notify"},
    {"what differs from node to node", "tasks: {a: {run: x, foreach: '[\"${{ node.name }}\"]'}}",
     "p.yaml:1:37: 'node.name' cannot stand here; expected params, env, or what tasks gave that "
     "this one needs"},
    {"its own element", "tasks: {a: {run: x, foreach: '${{ item }}'}}",
     "p.yaml:1:35: 'item' cannot stand here; expected params, env, or what tasks gave that this "
     "one needs"},
    {"a task that it does not need",
     "tasks:\n  g: {run: x, outputs: [l]}\n  a: {run: x, foreach: '${{ tasks.g.outputs.l }}'}",
     "p.yaml:3:29: task 'a' uses an output of 'g' but does not need it; expected 'g' under its "
     "needs:"},
    {"an output that is not declared",
     "tasks:\n  g: {run: x, outputs: [l]}\n"
     "  a: {run: x, needs: [g], foreach: '${{ tasks.g.outputs.m }}'}",
     "p.yaml:3:41: task 'g' declares no output 'm'; expected l"},
    {"item without it", "tasks: {a: {run: x, env: {A: '${{ item }}'}}}",
     "p.yaml:1:35: 'item': there is no foreach here; expected it in a task with foreach:"},
    {"index without it", "tasks: {a: {run: x, matrix: {i: [1]}, env: {A: '${{ index }}'}}}",
     "p.yaml:1:53: 'index': there is no foreach here; expected it in a task with foreach:"},
    {"matrix.x beside it", "tasks: {a: {run: x, foreach: [1], env: {A: '${{ matrix.i }}'}}}",
     "p.yaml:1:49: 'matrix.i': there is no matrix here; expected it in a task with matrix:"},
    {"a member of the number", "tasks: {a: {run: x, foreach: [1], env: {A: '${{ index.x }}'}}}",
     "p.yaml:1:49: 'index.x' is not complete; expected index"},
    {"a call", "tasks: {a: {run: x, foreach: [1], env: {A: '${{ item() }}'}}}",
     "p.yaml:1:49: 'item()' is not complete; expected no '(' behind it"},
    {"a hook", "tasks: {a: {run: x}}\non_exit: [{run: x, foreach: [1]}]",
     "p.yaml:2:20: a hook has no key 'foreach'; expected name, uses, run, argv, shell, with, "
     "env_file, env, login, cwd, needs_program, retry, timeout, lost_after, grace, notice, log, "
     "become, description, on, best_effort, when, slots, files or sidecars"},
    {"the output of one of many",
     AFTER ", outputs: [o]}\n  b: {run: x, needs: [a], env: {A: '${{ tasks.a.outputs.o }}'}}",
     "p.yaml:4:41: task 'a' has an instance for each element of its list: which is meant?; "
     "expected "
     "tasks.a.all.o (all of them) or best(tasks.a.items, 'o') (one)"},
    {"the matrix of elements",
     AFTER ", outputs: [o]}\n"
           "  b: {run: x, needs: [a], env: {A: \"${{ best(tasks.a.items, 'o').matrix.k }}\"}}",
     "p.yaml:4:41: task 'a' has no matrix"},
    {"the element of a row",
     "tasks:\n  a: {run: x, matrix: {i: [1]}, outputs: [o]}\n"
     "  b: {run: x, needs: [a], env: {A: \"${{ best(tasks.a.items, 'o').item }}\"}}",
     "p.yaml:3:41: task 'a' has no foreach"},
    {"joined item by item",
     "tasks:\n  a: {run: x, foreach: [1]}\n"
     "  b: {run: x, foreach: [1], needs: {task: a, item: same}}",
     "p.yaml:3:36: item: same: 'b' has no matrix; expected tasks that both have a matrix"},
    {"a container of each",
     "tasks:\n  box: {uses: container, foreach: [1], with: {image: i}}\n"
     "  a: {run: x, needs: [box], in: box}",
     "p.yaml:3:33: 'box' has items: which container is meant?; expected a container without matrix "
     "and foreach"},
    {"as other tools name it", "tasks: {a: {run: x, with_items: [1]}}",
     "p.yaml:1:21: a task has no key 'with_items'; expected foreach: [VALUE, VALUE] or "
     "foreach: "
     "${{ tasks.NAME.outputs.KEY }}"},
};

/* What is too much is refused. */
static void test_limits(void)
{
    struct fr_arena arena = {0};
    struct fr_items items;
    struct fr_buf text = {0};
    struct fr_err err = {0};

    fr_buf_text(&text, "[0");
    for (int i = 1; i < FR_ITEMS_MAX; i++)
        fr_buf_text(&text, ",0");
    fr_buf_text(&text, "]");
    CHECK_INT(fr_items_read((struct fr_str){text.p, text.n}, &arena, &items, &err), FR_OK);
    CHECK_INT(items.n, FR_ITEMS_MAX);
    text.p[text.n - 1] = ',';
    fr_buf_text(&text, "0]");
    CHECK_INT(fr_items_read((struct fr_str){text.p, text.n}, &arena, &items, &err), FR_USAGE);
    CHECK_TEXT(err.msg, "it has 100001 elements, more than 100000");
    text.n = 0;
    fr_buf_text(&text, "[\"");
    for (int i = 0; i < FR_ELEMENT_MAX - 1; i++)
        fr_buf_text(&text, "x");
    fr_buf_text(&text, "\"]");
    CHECK_INT(fr_items_read((struct fr_str){text.p, text.n}, &arena, &items, &err), FR_USAGE);
    CHECK_TEXT(err.msg, "an element has 65537 bytes, more than 65536");
    text.n = 0;
    while (text.n <= FR_ELEMENTS_MAX)
        fr_buf_text(&text, "[                                                              ");
    CHECK_INT(fr_items_read((struct fr_str){text.p, text.n}, &arena, &items, &err), FR_USAGE);
    CHECK_TEXT(err.msg, "it has 1048635 bytes, more than 1048576");
    fr_buf_finish(&text);
    fr_arena_finish(&arena);
}

static void test_members(void)
{
    static const struct {
        const char *path, *want;
    } all[] = {{NULL, "{\"k\":{\"l\":[1,2],\"t\":\"x\"},\"n\":null,\"f\":0.1}"},
               {"k", "{\"l\":[1,2],\"t\":\"x\"}"},
               {"k.l", "[1,2]"},
               {"k.t", "x"},
               {"n", ""},
               {"f", "0.1"},
               {"k.x", "! the element has no 'k.x'"},
               {"f.x", "! the element has no 'f.x'"}};
    struct fr_arena arena = {0};
    struct fr_items items;

    if (!CHECK_INT(fr_items_read(fr_str_of("[{\"k\": {\"l\": [1, 2], \"t\": \"x\"}, \"n\": null, "
                                           "\"f\": 0.10}]"),
                                 &arena, &items, NULL),
                   FR_OK))
        return;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct fr_buf got = {0};
        struct fr_err err = {0};

        check_row(all[i].path != NULL ? all[i].path : "whole");
        if (fr_item_member(&items.v[0], all[i].path, &got, &err) != FR_OK)
            fr_buf_fmt(&got, "! %s", err.msg);
        CHECK_TEXT(got.p != NULL ? got.p : "", all[i].want);
        fr_buf_finish(&got);
    }
    check_row("");
    fr_arena_finish(&arena);
}

int main(void)
{
    check_spec_rows(rows, sizeof(rows) / sizeof(rows[0]), put_keys);
    test_limits();
    test_members();
    return check_done();
}
