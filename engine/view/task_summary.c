#include "engine/view/task_summary.h"

#include "engine/base/sys.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { KEPT = 1024 };

/* ---- of one run ---- */

static bool is_hook(const struct fr_count_row *r)
{
    return r->hook[0] != '\0';
}

/* The rows of the task that begins at from; *letter of the state that shows. */
static size_t rows_of_task(const struct fr_count_rows *rows, size_t from, char *letter)
{
    enum fr_state_of shown = rows->rows[from].state;
    size_t i = from;

    for (; i < rows->n && strcmp(rows->rows[i].task, rows->rows[from].task) == 0; i++)
        shown = fr_state_shown(shown, rows->rows[i].state);
    *letter = fr_state_letter(shown);
    return i - from;
}

/* FNV-1a, with the NUL that ends the name. */
static uint64_t hash_name(uint64_t hash, const char *name)
{
    do
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3U;
    while (*name++ != '\0');
    return hash;
}

void task_summary_make(const struct fr_count_rows *rows, struct task_summary *out)
{
    size_t n = 0;
    char letter;

    *out = (struct task_summary){.names = 0xcbf29ce484222325U};
    for (size_t i = 0; i < rows->n; i++)
        if (!is_hook(&rows->rows[i]))
            out->n[rows->rows[i].state] += rows->rows[i].n;
    for (size_t i = 0; i < rows->n && n < SUMMARY_TASKS; i += rows_of_task(rows, i, &letter)) {
        if (is_hook(&rows->rows[i]))
            continue;
        rows_of_task(rows, i, &letter);
        out->letters[n++] = letter;
        out->names = hash_name(out->names, rows->rows[i].task);
    }
}

json_t *task_summary_counts(const struct task_summary *t)
{
    json_t *out = json_object();

    for (int i = 0; i < FR_ST_N; i++) {
        enum fr_state_of state = fr_state_at(i);

        if (t->n[state] > 0)
            json_object_set_new(out, fr_state_name(state), json_integer(t->n[state]));
    }
    return out;
}

json_t *task_summary_tasks(const struct fr_count_rows *rows)
{
    json_t *out = json_array();
    char letter;

    for (size_t i = 0; i < rows->n && json_array_size(out) < SUMMARY_TASKS;
         i += rows_of_task(rows, i, &letter))
        if (!is_hook(&rows->rows[i]))
            json_array_append_new(out, json_string(rows->rows[i].task));
    return out;
}

json_t *task_summary_letters(const struct fr_count_rows *rows, json_t *tasks)
{
    char text[SUMMARY_TASKS + 1] = "";
    size_t at;
    json_t *task;
    char letter;

    json_array_foreach(tasks, at, task)
    {
        text[at] = '-';
        for (size_t i = 0; i < rows->n; i += rows_of_task(rows, i, &letter))
            if (strcmp(rows->rows[i].task, json_string_value(task)) == 0) {
                rows_of_task(rows, i, &letter);
                text[at] = letter;
            }
    }
    return json_string(text);
}

/* ---- of many ---- */

struct kept {
    struct fr_id run;
    int64_t ended_wall; /* another one behind a retry; 0: nothing is kept here */
    struct task_summary summary;
};

struct task_summaries {
    pthread_mutex_t lock;
    atomic_size_t users;
    struct kept kept[KEPT]; /* a run's place follows from its number */
};

struct task_summaries *task_summaries_create(void)
{
    struct task_summaries *k = fr_sys.alloc(sizeof(*k));

    if (k == NULL)
        return NULL;
    memset(k, 0, sizeof(*k));
    if (pthread_mutex_init(&k->lock, NULL) != 0) {
        fr_sys.free(k);
        return NULL;
    }
    atomic_init(&k->users, 1);
    return k;
}

struct task_summaries *task_summaries_use(struct task_summaries *k)
{
    if (k != NULL)
        atomic_fetch_add(&k->users, 1);
    return k;
}

void task_summaries_leave(struct task_summaries *k)
{
    if (k == NULL || atomic_fetch_sub(&k->users, 1) > 1)
        return;
    pthread_mutex_destroy(&k->lock);
    fr_sys.free(k);
}

static bool is_over(const struct fr_run_row *run)
{
    return run->state == FR_RUN_OVER && run->ended_wall != 0;
}

bool task_summaries_get(struct task_summaries *k, const struct fr_run_row *run,
                        struct task_summary *out)
{
    const struct kept *one;
    bool found;

    if (k == NULL || !is_over(run))
        return false;
    pthread_mutex_lock(&k->lock);
    one = &k->kept[run->no % KEPT];
    found = fr_id_eq(one->run, run->id) && one->ended_wall == run->ended_wall;
    if (found)
        *out = one->summary;
    pthread_mutex_unlock(&k->lock);
    return found;
}

void task_summaries_put(struct task_summaries *k, const struct fr_run_row *run,
                        const struct task_summary *t)
{
    if (k == NULL || !is_over(run))
        return;
    pthread_mutex_lock(&k->lock);
    k->kept[run->no % KEPT] = (struct kept){run->id, run->ended_wall, *t};
    pthread_mutex_unlock(&k->lock);
}
