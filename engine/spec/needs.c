/* needs:, run_if: and skip_with: what a task waits for, and what must be so for it to start. */
#include "engine/spec/load.h"

#include <string.h>

struct need {
    const struct fr_yaml *task;
    bool same;
    unsigned states;
};

static const char *ended_states(struct loader *l, const char **names, size_t *n)
{
    *n = 0;
    for (int s = FR_ST_SUCCEEDED; s < FR_ST_N; s++)
        names[(*n)++] = fr_state_name((enum fr_state_of)s);
    return word_list(l, names, *n);
}

/* Bits of the states in which it must end. */
static unsigned read_states(struct loader *l, const struct fr_yaml *y)
{
    const char *names[FR_ST_N], *expected, **words;
    size_t n, n_names;
    unsigned states = 0;

    expected = ended_states(l, names, &n_names);
    if (y->kind != FR_YAML_SCALAR && (y->kind != FR_YAML_LIST || y->n == 0)) {
        wrong_value(l, y, "states", expected);
        return 0;
    }
    words = read_strings(l, y, false, &n);
    for (size_t i = 0; words != NULL && i < n; i++) {
        enum fr_state_of state;

        bool known = fr_state_parse(words[i], &state) && fr_state_ended(state);
        struct fr_pos pos = pos_of(l, y->kind == FR_YAML_LIST && y->n == n ? y->items[i] : y);

        if (!known)
            complain_near(l, pos, &(struct hint){expected, words[i], names, n_names},
                          "no task ends as '%s'", words[i]);
        else if ((states & 1u << state) != 0)
            complain(l, pos, NULL, "'%s' stands in states twice", words[i]);
        else
            states |= 1u << state;
    }
    return states;
}

/* {task: NAME, item: same, states: [STATE]} */
static void read_need(struct loader *l, const struct fr_yaml *y, struct need *need)
{
    static const char *const keys[] = {"task", "item", "states"};
    const struct fr_yaml *item = fr_yaml_get(y, "item"), *states = fr_yaml_get(y, "states");
    const char *word = item != NULL ? read_now(l, item) : NULL;

    need->task = fr_yaml_get(y, "task");
    for (size_t i = 0; i < y->n; i++) {
        const struct fr_yaml *value = y->pairs[i].value;

        if (value != need->task && value != item && value != states && !is_extension(&y->pairs[i]))
            complain_near(l, pos_of_key(l, &y->pairs[i]),
                          &(struct hint){"task, item and states", y->pairs[i].key.p, keys, 3},
                          "a need has no key '%s'", y->pairs[i].key.p);
    }
    if (need->task == NULL)
        complain(l, pos_of(l, y), "{task: NAME, item: same} or {task: NAME, states: [STATE]}",
                 "a need lacks the key 'task'");
    if (word != NULL && strcmp(word, "same") != 0)
        complain(l, pos_of(l, item), "same", "item is '%s'", word);
    need->same = word != NULL;
    if (states != NULL)
        need->states = read_states(l, states);
}

/* The place of a task that is not needed yet; -1 after a complaint. */
static int take_need(struct loader *l, const struct fr_yaml *y)
{
    const char *name = y != NULL ? read_now(l, y) : NULL;
    int index = name != NULL ? find_task(l, name) : -1;

    if (name != NULL && index < 0) {
        unknown_task(l, y, name);
    } else if (index >= 0 && l->needed_by[index] == l->place) {
        complain(l, pos_of(l, y), NULL, "need '%s' stands here twice", name);
        return -1;
    }
    if (index >= 0)
        l->needed_by[index] = l->place;
    return index;
}

/* The rules of a task's needs, to be written to: n of them, the first time. NULL: no memory. */
static struct fr_need_rule *rules_of(struct loader *l, struct fr_task *task, size_t n)
{
    if (task->rules == NULL)
        task->rules = load_alloc(l, n, sizeof(*task->rules));
    return (struct fr_need_rule *)task->rules;
}

void read_needs(struct loader *l, const struct fr_yaml *y, const struct field *f, void *target)
{
    struct fr_task *task = target;
    struct items items = items_of(&y);
    size_t n = y->kind == FR_YAML_NULL ? 0 : items.n;
    int *needs = load_alloc(l, n, sizeof(*needs)), *same = NULL;

    (void)f;
    for (size_t i = 0; needs != NULL && i < n; i++) {
        struct need need = {.task = items.v[i]};
        struct fr_need_rule *rules;
        int index;

        if (items.v[i]->kind == FR_YAML_MAP)
            read_need(l, items.v[i], &need);
        if ((index = take_need(l, need.task)) < 0)
            continue;
        if (need.states != 0 && (rules = rules_of(l, task, n)) != NULL)
            rules[task->n_needs].states = need.states;
        needs[task->n_needs++] = index;
        if (need.same && same == NULL)
            same = load_alloc(l, n, sizeof(*same));
        if (need.same && same != NULL)
            same[task->n_same++] = index;
    }
    task->needs = needs;
    task->same = same;
}

/* Complains about a name that is not among the needs. */
static void no_need(struct loader *l, const struct fr_yaml *y, const struct fr_task *task,
                    const char *name)
{
    const char **names = load_alloc(l, task->n_needs, sizeof(*names));
    struct hint hint = {.word = name, .words = names, .n_words = task->n_needs};

    for (size_t i = 0; names != NULL && i < task->n_needs; i++)
        names[i] = task_names(l) != NULL ? task_names(l)[task->needs[i]] : "";
    hint.expected =
        names != NULL && task->n_needs > 0
            ? fr_arena_fmt(l->arena, "one that it needs: %s", word_list(l, names, task->n_needs))
            : "a task that stands under its needs:, too";
    complain_near(l, pos_of(l, y), &hint, "skip_with: '%s' does not need '%s'", task->act.name,
                  name);
}

void read_skip_with(struct loader *l, const struct fr_yaml *y, const struct field *f, void *target)
{
    struct fr_task *task = target;
    size_t n;
    const char **words = read_strings(l, y, false, &n);

    (void)f;
    for (size_t i = 0; words != NULL && i < n; i++) {
        const struct fr_yaml *at = y->kind == FR_YAML_LIST && y->n == n ? y->items[i] : y;
        int index = find_task(l, words[i]);
        struct fr_need_rule *rules;
        size_t k = 0;

        while (k < task->n_needs && task->needs[k] != index)
            k++;
        if (k == task->n_needs) {
            no_need(l, at, task, words[i]);
            continue;
        }
        if ((rules = rules_of(l, task, task->n_needs)) == NULL)
            return;
        if (rules[k].skip_with)
            complain(l, pos_of(l, at), NULL, "'%s' stands in skip_with twice", words[i]);
        else if (rules[k].states == 1u << FR_ST_SKIPPED)
            complain(l, pos_of(l, at), "one of the two",
                     "'%s' would never run: states: wants '%s' skipped, and skip_with: skips it "
                     "then",
                     task->act.name, words[i]);
        rules[k].skip_with = true;
    }
}

void finish_needs(struct loader *l, const struct fr_yaml *y, struct fr_task *task)
{
    const struct fr_yaml *key = fr_yaml_get(y, "run_if"), *needs = fr_yaml_get(y, "needs");
    bool whole =
        needs == NULL || needs->kind == FR_YAML_NULL || items_of(&needs).n == task->n_needs;
    bool any = task->run_if == FR_RUN_IF_FAILURE || task->run_if == FR_RUN_IF_ANY;
    size_t counted = 0;

    for (size_t i = 0; i < task->n_needs; i++)
        counted += task->rules == NULL || task->rules[i].states == 0;
    if (key == NULL && l->ended)
        task->run_if = FR_RUN_IF_ALWAYS;
    else if (key != NULL && l->ended && task->run_if == FR_RUN_IF_SUCCESS)
        complain(l, pos_of(l, key), "failure, any or always, or no run_if:",
                 "run_if: success starts '%s' where nothing that it needs failed, but its when: "
                 "calls failure() or always()",
                 task->act.name);
    if (counted == 0 && any && whole)
        complain(l, pos_of(l, key), "needs: [TASK], one at least without states:",
                 "run_if: %s is about what '%s' needs, and there is nothing",
                 fr_run_if_name(task->run_if), task->act.name);
}
