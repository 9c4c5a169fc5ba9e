/*
 * Specs for tests from a short text: "a; b: a; c: a b @all gang retry=2; !exit h" is tasks with
 * their needs and traits, apart by ';'. Three nodes n1 n2 n3 of eight slots. Traits: @all, @n2,
 * @control, gang, slots=N, retry=N, delay=MS, max=MS, code=N (retried although retry is not on
 * exit), ended, onfail, any (run_if: always, failure, any), when, best, uses, lost=MS, away=MS
 * (connect.retry_for of all nodes; retry is on unreachable, too), try=MS (connect.timeout of all
 * nodes), chain=N (of the allocation that all nodes are of), notice=MS, takes=MS (its timeout),
 * par=N (max_parallel), items=N (0 to 4), each (a list that is awaited), =a (needs a, item by
 * item), a/sk (needs a, states: succeeded, skipped, by their letters), a~ (and skip_with a); a name
 * after !success, !failure, !cancel or !exit is a hook.
 */
#ifndef TESTS_UNIT_MINISPEC_H
#define TESTS_UNIT_MINISPEC_H

#include "engine/spec/spec.h"

enum { MINI_TASKS = 24, MINI_NODES = 3 };

struct minispec {
    struct fr_spec spec;
    struct fr_task tasks[MINI_TASKS];
    struct fr_task hooks[FR_HOOK_N][4];
    struct fr_node nodes[MINI_NODES];
    char names[MINI_TASKS + FR_HOOK_N * 4][32];
    size_t n_names, n_seen, n_hooks_seen[FR_HOOK_N];
    int needs[MINI_TASKS][MINI_TASKS];
    int same[MINI_TASKS][MINI_TASKS];
    struct fr_need_rule rules[MINI_TASKS][MINI_TASKS];
    struct fr_items items[MINI_TASKS];
    int codes[MINI_TASKS];
};

void mini_make(struct minispec *m, const char *text);
/* Task t has n items (0 to 4) from now on. */
void mini_items(struct minispec *m, size_t t, size_t n);

#endif
