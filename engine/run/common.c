/* Small things that all of run uses. */
#include "engine/run/inside.h"

#include <stdarg.h>

uint32_t run_node_of(const struct fr_run *run, uint32_t inst)
{
    return run->plan->insts[inst].node;
}

const struct fr_plan_task *run_task_of(const struct fr_run *run, uint32_t inst)
{
    return &run->plan->tasks[run->plan->insts[inst].task];
}

struct fr_exec_attempt run_exec_attempt(const struct fr_run *run, const struct run_attempt *at)
{
    return (struct fr_exec_attempt){run_node_of(run, at->inst), at->id};
}

void run_note(struct fr_run *run, struct fr_note *note)
{
    note->wall_ms = note->wall_ms != 0 ? note->wall_ms : fr_sys.wall_ms();
    if (note->text == NULL)
        note->text = "";
    if (run->env.view.note != NULL)
        run->env.view.note(run->env.view.arg, run, note);
}

static void note_text(struct fr_run *run, struct fr_note note, const char *fmt, va_list ap)
{
    struct fr_buf b = {0};

    fr_buf_vfmt(&b, fmt, ap);
    note.text = b.bad ? "out of memory" : b.p;
    run_note(run, &note);
    fr_buf_finish(&b);
}

void run_trouble(struct fr_run *run, uint32_t inst, const char *fmt, ...)
{
    struct fr_note note = {.kind = FR_NOTE_TROUBLE, .inst = inst, .node = FR_PLAN_NONE};
    va_list ap;

    va_start(ap, fmt);
    note_text(run, note, fmt, ap);
    va_end(ap);
}

void run_node_note(struct fr_run *run, uint32_t node, const char *fmt, ...)
{
    struct fr_note note = {
        .kind = FR_NOTE_NODE, .inst = FR_PLAN_NONE, .node = node, .up = run->nodes[node].up};
    va_list ap;

    va_start(ap, fmt);
    note_text(run, note, fmt, ap);
    va_end(ap);
}

const char *run_json_text(struct fr_run *run, const json_t *doc)
{
    char *text = json_dumps(doc, JSON_COMPACT);
    const char *kept = text != NULL ? fr_arena_dup(&run->arena, text) : NULL;

    free(text);
    return kept;
}

/* One line that may be shown: a node may have said it. */
void run_say(char out[256], const char *text, size_t n)
{
    char line[256];
    size_t most = n < sizeof(line) ? n : sizeof(line) - 1;

    while (most < n && most > 0 && ((uint8_t)text[most] & 0xc0) == 0x80)
        most--;
    for (size_t i = 0; i < most; i++)
        line[i] = text[i] == '\n' ? ' ' : text[i];
    fr_visible(out, 256, line, most);
}

bool run_add(struct fr_arena *arena, struct fr_strs *strs, const char *fmt, ...)
{
    struct fr_str *v;
    va_list ap;
    char *text;

    va_start(ap, fmt);
    text = fr_arena_vfmt(arena, fmt, ap);
    va_end(ap);
    v = text != NULL ? fr_arena_grow(arena, strs->v, strs->n, sizeof(*v)) : NULL;
    if (v != NULL) {
        v[strs->n++] = fr_str_of(text);
        strs->v = v;
    }
    return v != NULL;
}

struct run_attempt *run_attempt_find(struct fr_run *run, struct fr_id id)
{
    for (struct run_attempt *at = run->attempts; at != NULL; at = at->next)
        if (fr_id_eq(at->id, id))
            return at;
    return NULL;
}

struct run_attempt *run_attempt_add(struct fr_run *run, struct fr_id id, uint32_t inst, uint32_t no)
{
    struct run_attempt *at = run->spare;

    if (at != NULL)
        run->spare = at->next;
    else if ((at = fr_arena_alloc(&run->arena, sizeof(*at))) == NULL)
        return NULL;
    *at = (struct run_attempt){
        .next = run->attempts, .id = id, .inst = inst, .no = no, .log = {.fd = -1, .idx_fd = -1}};
    run->attempts = at;
    return at;
}

void run_die(struct fr_run *run, const struct fr_err *err)
{
    if (!run->fatal)
        run->fatal_err = *err;
    run->fatal = true;
}

enum fr_rc run_queue(struct fr_run *run, const struct fr_event *ev, struct fr_err *err)
{
    struct fr_event *events =
        fr_grow(run->events, run->n_events + 1, &run->cap_events, sizeof(*events));

    if (events == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for events");
    run->events = events;
    run->events[run->n_events++] = *ev;
    return FR_OK;
}

void run_queue_or_die(struct fr_run *run, const struct fr_event *ev)
{
    struct fr_err err;

    if (run_queue(run, ev, &err) != FR_OK)
        run_die(run, &err);
}

void run_wake(struct fr_run *run)
{
    if (run->wake != NULL)
        run->wake(run->wake_arg);
}
