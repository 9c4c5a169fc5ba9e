/* Tasks that wait for each other: a walk in depth that meets a task it has not left yet. */
#include "engine/spec/load.h"

#include <string.h>

enum { SHOWN_MAX = 20, NEW = 0, OPEN, LEFT };

struct walk {
    const struct fr_task *tasks;
    int *path;    /* tasks that are open, from the first on */
    size_t *next; /* of each of them: the need to go to */
    size_t depth;
    char *state; /* of each task */
};

/* The walk came from the end of its path back to first. */
static void complain_of(struct loader *l, const struct walk *w, int first)
{
    size_t at = w->depth - 1, shown = 0;
    struct fr_buf text = {0};

    while (w->path[at] != first)
        at--;
    for (; at < w->depth && shown < SHOWN_MAX; at++, shown++) {
        const struct fr_action *act = &w->tasks[w->path[at]].act;
        fr_buf_fmt(&text, "%s (%d:%d) needs ", act->name, act->pos.line, act->pos.col);
    }
    if (at < w->depth)
        fr_buf_fmt(&text, "%zu more, and at last ", w->depth - at);
    fr_buf_text(&text, w->tasks[first].act.name);
    l->no_memory |= text.bad;
    l->cyclic = true;
    if (!text.bad)
        complain(l, w->tasks[first].act.pos, NULL, "tasks wait for each other: %s", text.p);
    fr_buf_finish(&text);
}

/* Walks from a new task; true after a complaint. */
static bool walk_from(struct loader *l, struct walk *w, int task)
{
    w->path[0] = task;
    w->next[0] = 0;
    w->depth = 1;
    w->state[task] = OPEN;
    while (w->depth > 0) {
        size_t top = w->depth - 1;
        const struct fr_task *t = &w->tasks[w->path[top]];

        if (w->next[top] == t->n_needs) {
            w->state[w->path[top]] = LEFT;
            w->depth--;
            continue;
        }
        int need = t->needs[w->next[top]++];
        if (w->state[need] == OPEN) {
            complain_of(l, w, need);
            return true;
        }
        if (w->state[need] == NEW) {
            w->state[need] = OPEN;
            w->path[w->depth] = need;
            w->next[w->depth++] = 0;
        }
    }
    return false;
}

void check_cycles(struct loader *l)
{
    size_t n = l->spec->n_tasks;
    struct fr_arena scratch = {0};
    struct walk w = {.tasks = l->spec->tasks,
                     .path = fr_arena_array(&scratch, n, sizeof(*w.path)),
                     .next = fr_arena_array(&scratch, n, sizeof(*w.next)),
                     .state = fr_arena_array(&scratch, n, sizeof(*w.state))};

    l->no_memory |= w.path == NULL || w.next == NULL || w.state == NULL;
    for (size_t t = 0; t < n && !l->no_memory; t++)
        if (w.state[t] == NEW && walk_from(l, &w, (int)t))
            break;
    fr_arena_finish(&scratch);
}
