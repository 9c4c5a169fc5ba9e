#include "tests/unit/sched/minispec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int mini_all[MINI_NODES] = {0, 1, 2};
static const int mini_control[1] = {FR_NODE_CONTROL};

static int mini_find(const struct minispec *m, const char *name)
{
    for (size_t t = 0; t < m->spec.n_tasks; t++)
        if (strcmp(m->tasks[t].act.name, name) == 0)
            return (int)t;
    return -1;
}

void mini_items(struct minispec *m, size_t t, size_t n)
{
    static const struct fr_item rows[] = {
        {.key = "i=0"}, {.key = "i=1"}, {.key = "i=2"}, {.key = "i=3"}};

    m->items[t] = (struct fr_items){.v = rows, .n = n};
    m->tasks[t].items = &m->items[t];
}

static bool mini_number(struct fr_task *task, int *code, const char *word)
{
    const char *eq = strchr(word, '=');
    long n;

    if (eq == NULL || eq == word)
        return false;
    n = strtol(eq + 1, NULL, 10);
    if (fr_has_prefix(word, "slots="))
        task->slots = (int)n;
    else if (fr_has_prefix(word, "par="))
        task->max_parallel = (int)n;
    else if (fr_has_prefix(word, "retry="))
        task->retry.times = (int)n;
    else if (fr_has_prefix(word, "delay="))
        task->retry.delay_ms = n;
    else if (fr_has_prefix(word, "max="))
        task->retry.max_delay_ms = n;
    else if (fr_has_prefix(word, "jitter="))
        task->retry.jitter = (double)n / 100;
    else if (fr_has_prefix(word, "notice="))
        task->notice_ms = n;
    else if (fr_has_prefix(word, "takes="))
        task->timeout_ms = n;
    else if (fr_has_prefix(word, "lost="))
        task->lost_after_ms = n;
    else if (fr_has_prefix(word, "code=")) {
        *code = (int)n;
        task->retry.codes = code;
        task->retry.n_codes = 1;
        task->retry.causes &= ~(1u << FR_CAUSE_EXIT);
    }
    return true;
}

/* "a", "=a", "a~", "a/sk", "a~/sk" */
static void mini_need(struct minispec *m, struct fr_task *task, const char *word)
{
    size_t t = (size_t)(task - m->tasks), n = strcspn(word, "/~");
    struct fr_need_rule *rule = &m->rules[t][task->n_needs];
    char name[32];
    int need;

    snprintf(name, sizeof name, "%.*s", (int)n - (word[0] == '='), word + (word[0] == '='));
    need = mini_find(m, name);
    if (word[n] != '\0')
        task->rules = m->rules[t];
    rule->skip_with = word[n] == '~';
    for (n = strcspn(word, "/"); word[n] != '\0'; n++)
        for (int st = FR_ST_SUCCEEDED; st < FR_ST_N; st++)
            if (fr_state_letter((enum fr_state_of)st) == word[n])
                rule->states |= 1u << st;
    if (word[0] == '=')
        m->same[t][task->n_same++] = need;
    m->needs[t][task->n_needs++] = need;
}

static void mini_trait(struct minispec *m, struct fr_task *task, const char *word)
{
    size_t t = (size_t)(task - m->tasks);

    if (fr_has_prefix(word, "away="))
        for (int n = 0; n < MINI_NODES; n++)
            m->nodes[n].connect.retry_for_ms = strtol(word + 5, NULL, 10);
    if (fr_has_prefix(word, "chain="))
        for (int n = 0; n < MINI_NODES; n++)
            m->nodes[n].chain = (int)strtol(word + 6, NULL, 10);
    if (fr_has_prefix(word, "try="))
        for (int n = 0; n < MINI_NODES; n++)
            m->nodes[n].connect.timeout_ms = strtol(word + 4, NULL, 10);
    if (fr_has_prefix(word, "items=")) {
        mini_items(m, t, strtoul(word + 6, NULL, 10));
        return;
    }
    if (strcmp(word, "each") == 0) {
        mini_items(m, t, 0);
        m->items[t].of_list = m->items[t].awaited = true;
        return;
    }
    if (mini_number(task, t < MINI_TASKS ? &m->codes[t] : NULL, word))
        return;
    if (strcmp(word, "@all") == 0) {
        task->n_nodes = MINI_NODES;
    } else if (strcmp(word, "@control") == 0) {
        task->nodes = mini_control;
    } else if (word[0] == '@') {
        task->nodes = &mini_all[word[2] - '1'];
    } else if (strcmp(word, "gang") == 0) {
        task->gang = true;
    } else if (strcmp(word, "ended") == 0) {
        task->run_if = FR_RUN_IF_ALWAYS;
    } else if (strcmp(word, "onfail") == 0) {
        task->run_if = FR_RUN_IF_FAILURE;
    } else if (strcmp(word, "any") == 0) {
        task->run_if = FR_RUN_IF_ANY;
    } else if (strcmp(word, "fast") == 0) {
        task->fail_fast = true;
    } else if (strcmp(word, "best") == 0) {
        task->best_effort = true;
    } else if (strcmp(word, "uses") == 0) {
        task->act.what = FR_USES;
    } else if (strcmp(word, "when") == 0) {
        task->when.s = "when";
    } else {
        mini_need(m, task, word);
    }
}

static struct fr_task *mini_task(struct minispec *m, const char *word)
{
    static const char *const hooks[FR_HOOK_N] = {"!success", "!failure", "!cancel", "!exit"};

    for (int h = 0; h < FR_HOOK_N; h++)
        if (strcmp(word, hooks[h]) == 0)
            return &m->hooks[h][m->n_hooks_seen[h]++];
    return &m->tasks[m->n_seen++];
}

static void mini_add(struct minispec *m, char *one, bool names_only)
{
    char *save, *word = strtok_r(one, " :", &save);
    struct fr_task *task = mini_task(m, word);
    bool hook = word[0] == '!';

    if (hook)
        word = strtok_r(NULL, " :", &save);
    if (names_only) {
        char *name = m->names[m->n_names++];

        snprintf(name, sizeof m->names[0], "%s", word);
        task->act.name = name;
        task->act.what = FR_RUN;
        task->act.pos = (struct fr_pos){0, (int)m->n_names, 3};
        task->nodes = hook ? mini_control : mini_all;
        task->n_nodes = 1;
        task->slots = 1;
        task->grace_ms = 10000;
        task->retry.backoff = 2;
        task->retry.delay_ms = 1000;
        task->retry.causes = fr_causes_preset();
        if (!hook)
            task->needs = m->needs[task - m->tasks];
        if (!hook)
            task->same = m->same[task - m->tasks];
        return;
    }
    while ((word = strtok_r(NULL, " :", &save)) != NULL)
        mini_trait(m, task, word);
}

/* Two passes, so that a need may stand before its task. */
void mini_make(struct minispec *m, const char *text)
{
    static const char *const names[MINI_NODES] = {"n1", "n2", "n3"};
    char copy[2048], *save;

    memset(m, 0, sizeof *m);
    m->spec.sources[0].path = "p.yaml";
    m->spec.n_sources = 1;
    m->spec.name = "demo";
    m->spec.max_parallel = 16;
    for (int n = 0; n < MINI_NODES; n++)
        m->nodes[n] = (struct fr_node){.name = names[n], .slots = 8};
    m->spec.nodes = m->nodes;
    m->spec.n_nodes = MINI_NODES;
    m->spec.tasks = m->tasks;
    for (int pass = 0; pass < 2; pass++) {
        m->n_seen = 0;
        memset(m->n_hooks_seen, 0, sizeof m->n_hooks_seen);
        snprintf(copy, sizeof copy, "%s", text);
        for (char *one = strtok_r(copy, ";", &save); one; one = strtok_r(NULL, ";", &save))
            mini_add(m, one, pass == 0);
        m->spec.n_tasks = m->n_seen;
        memcpy(m->spec.n_hooks, m->n_hooks_seen, sizeof m->n_hooks_seen);
    }
    for (int h = 0; h < FR_HOOK_N; h++)
        m->spec.hooks[h] = m->hooks[h];
}
