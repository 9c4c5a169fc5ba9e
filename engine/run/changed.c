/* Files that changed since a run began: said before it goes on, with its own copies or without. */
#include "engine/run/inside.h"

#include <string.h>

/* The lines of a task in its file: from its own line to that of the next one. */
static struct fr_str slice(const struct fr_spec *spec, const struct fr_task *task)
{
    struct fr_str text = spec->sources[task->act.pos.file].text;
    int from = task->act.pos.line, to = 0, line = 1;
    struct fr_str out = {text.p, 0};

    for (size_t i = 0; i < spec->n_tasks; i++) {
        const struct fr_pos *pos = &spec->tasks[i].act.pos;

        if (pos->file == task->act.pos.file && pos->line > from && (to == 0 || pos->line < to))
            to = pos->line;
    }
    for (size_t i = 0; i < text.n && (to == 0 || line < to); i++) {
        if (line < from)
            out.p = text.p + i + 1;
        else
            out.n++;
        line += text.p[i] == '\n';
    }
    while (out.n > 0 && strchr(" \t\r\n", out.p[out.n - 1]) != NULL)
        out.n--;
    return out;
}

void run_name_changes(struct fr_run *run, const struct fr_spec *old)
{
    struct fr_buf b = {0};

    for (size_t i = 0; i < run->spec->n_tasks; i++) {
        const struct fr_task *task = &run->spec->tasks[i];
        int was = fr_spec_task(old, task->act.name);

        if (was < 0)
            fr_buf_fmt(&b, "%s%s is new", b.n > 0 ? ", " : "", task->act.name);
        else if (!fr_str_eq(slice(run->spec, task), slice(old, &old->tasks[was])))
            fr_buf_fmt(&b, "%s%s changed", b.n > 0 ? ", " : "", task->act.name);
    }
    for (size_t i = 0; i < old->n_tasks; i++)
        if (fr_spec_task(run->spec, old->tasks[i].act.name) < 0)
            fr_buf_fmt(&b, "%s%s is gone", b.n > 0 ? ", " : "", old->tasks[i].act.name);
    run_trouble(run, FR_PLAN_NONE, "going on with another pipeline file: %s",
                b.bad || b.n == 0 ? "no task differs" : b.p);
    fr_buf_finish(&b);
}

static bool edited(const char *path, const char *hash)
{
    char now[FR_SHA256_TEXT];

    return path[0] != '\0' && hash[0] != '\0' && fr_sha256_file(path, now, NULL) == FR_OK &&
           strcmp(now, hash) != 0;
}

void run_edited(struct fr_run *run, bool retry)
{
    const struct fr_run_row *r = &run->row;

    if (edited(r->source, r->spec_hash))
        run_trouble(run, FR_PLAN_NONE,
                    "%s was changed since the run began: the run's own copy is used; 'flowrun %s "
                    "%lld --file %s' goes on with the changed file, 'flowrun %s' starts anew",
                    r->source, retry ? "retry" : "resume", (long long)r->no, r->source, r->source);
    if (edited(r->inventory, r->inventory_hash))
        run_trouble(run, FR_PLAN_NONE,
                    "%s was changed since the run began: the run's own copy is used; 'flowrun %s' "
                    "starts anew, with the changed nodes",
                    r->inventory, r->source);
}
