/* Outputs that a script writes and its task does not declare: a note, since a text alone does not
 * show what runs. */
#include "engine/spec/load.h"

#include <ctype.h>
#include <string.h>

static bool is_name_char(char c)
{
    return isalnum((unsigned char)c) || strchr("_.-", c) != NULL;
}

/* The end of the line that p stands in. */
static const char *line_end(const char *p)
{
    return p + strcspn(p, "\n");
}

/* True when the line from p on writes to the file of outputs. */
static bool writes(const char *p, const char *end)
{
    static const char *const forms[] = {"$FLOWRUN_OUTPUT", "${FLOWRUN_OUTPUT"};

    if (p[strspn(p, " \t")] == '#')
        return false;
    for (size_t i = 0; i < 2; i++)
        if (memmem(p, (size_t)(end - p), forms[i], strlen(forms[i])) != NULL)
            return true;
    return false;
}

/* The next NAME of an echo NAME=… or printf NAME=… in p..end; *p moves past it. */
static bool next_name(const char **p, const char *end, const char **name, size_t *n)
{
    while (*p < end) {
        bool echo = fr_has_prefix(*p, "echo "), print = fr_has_prefix(*p, "printf ");

        if (!echo && !print) {
            ++*p;
            continue;
        }
        *p += echo ? 5 : 7;
        *p += strspn(*p, " '\"");
        *name = *p;
        while (*p < end && is_name_char(**p))
            ++*p;
        *n = (size_t)(*p - *name);
        if (*p < end && **p == '=' && *n > 0)
            return true;
    }
    return false;
}

static bool declares(const struct fr_task *task, const char *name, size_t n)
{
    for (size_t i = 0; i < task->n_outputs; i++)
        if (strncmp(task->outputs[i], name, n) == 0 && task->outputs[i][n] == '\0')
            return true;
    return false;
}

void add_note(struct loader *l, struct fr_pos pos, const char *what)
{
    size_t n = l->spec->n_notes;
    const char **grown = fr_arena_grow(l->arena, (void *)l->spec->notes, n, sizeof(*grown));

    if (grown == NULL || what == NULL) {
        l->no_memory = true;
        return;
    }
    grown[n] = load_keep(l, fr_arena_fmt(l->arena, "%s:%d:%d: note: %s",
                                         l->spec->sources[pos.file].path, pos.line, pos.col, what));
    l->spec->notes = grown;
    l->spec->n_notes = n + 1;
}

/* One note a task: the first output that is missing. */
static void check_task(struct loader *l, const struct fr_task *task, struct fr_pos pos)
{
    bool written = false;
    const char *end, *name;
    size_t n;

    for (const char *p = task->act.run; *p != '\0'; p = end + (*end != '\0')) {
        end = line_end(p);
        if (!writes(p, end))
            continue;
        written = true;
        while (next_name(&p, end, &name, &n))
            if (!declares(task, name, n)) {
                add_note(l, pos,
                         fr_arena_fmt(l->arena,
                                      "the script of '%s' writes the output '%.*s', which the task "
                                      "does not declare; expected outputs: [%.*s]",
                                      task->act.name, (int)n, name, (int)n, name));
                return;
            }
    }
    if (written && task->n_outputs == 0)
        add_note(l, pos,
                 fr_arena_fmt(l->arena,
                              "the script of '%s' writes $FLOWRUN_OUTPUT, and the task declares no "
                              "outputs; expected outputs: [NAME]",
                              task->act.name));
}

void check_written(struct loader *l)
{
    enum { NOTES_MAX = 20 };

    for (size_t i = 0; i < l->spec->n_tasks && l->spec->n_notes < NOTES_MAX; i++) {
        const struct fr_task *task = &l->spec->tasks[i];
        const struct fr_yaml *run = fr_yaml_get(l->tasks->pairs[i].value, "run");

        if (task->act.what == FR_RUN && task->act.run != NULL && run != NULL)
            check_task(l, task, pos_of(l, run));
    }
}
