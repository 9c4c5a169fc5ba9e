/*
 * The order in which a view shows notes. Output and states arrive independently: a state waits for
 * a commit, output does not. So output that arrives before the launch is shown after it, and an end
 * is shown after the last byte of its output, however long that takes to come.
 * Later notes of the instance wait for that end, until the next attempt has output.
 */
#include "engine/show/private.h"
#include "engine/view/merge.h"

#include "engine/base/sys.h"

#include <string.h>

enum {
    LINE_MAX_BYTES = 4096,  /* a longer line is split */
    EARLY_BYTES = 64 << 10, /* bound of output kept before the launch */
};

/* ---- output ---- */

static void print_line(struct cli_show *show, uint32_t inst, int64_t wall_ms, struct fr_str text)
{
    struct fr_str seen = fr_line_seen(text.p, text.n);

    if (show->opts.json)
        json_line(show, inst, wall_ms, seen);
    else
        show_output(show, inst, wall_ms, seen);
}

/* Prints the complete lines of an instance's text; all: also the incomplete last line. */
static void print_lines(struct cli_show *show, uint32_t inst, bool all)
{
    struct fr_buf *text = &show->lines[inst].text;
    size_t at = 0;

    while (at < text->n) {
        const char *p = text->p + at, *nl = memchr(p, '\n', text->n - at);
        size_t n = nl != NULL ? (size_t)(nl - p) : text->n - at;

        if (nl == NULL && !all && n <= LINE_MAX_BYTES)
            break;
        print_line(show, inst, show->lines[inst].wall_ms, (struct fr_str){p, n});
        at += n + (nl != NULL);
    }
    fr_buf_cut(text, at);
}

static void let_go(struct cli_show *show, uint32_t inst);

void order_output(struct cli_show *show, const struct fr_note *note)
{
    struct show_line *line = show->lines != NULL ? &show->lines[note->inst] : NULL;

    if (line == NULL || show->opts.quiet || show->curves != NULL)
        return;
    if (line->held != 0 && note->attempt_no > line->held)
        let_go(show, note->inst);
    if (line->no != note->attempt_no) /* the last line of the other attempt has no newline */
        print_lines(show, note->inst, true);
    line->no = note->attempt_no;
    if (line->text.n == 0)
        line->wall_ms = note->wall_ms;
    fr_buf_add(&line->text, note->bytes.p, note->bytes.n);
    if (line->text.bad)
        fr_buf_finish(&line->text);
    if (line->state == FR_ST_STARTING && line->held == 0 && line->text.n < EARLY_BYTES)
        return;
    print_lines(show, note->inst, false);
    if (note->left == 0)
        let_go(show, note->inst);
}

/* ---- states ---- */

static bool is_end(const struct fr_row *row)
{
    return fr_state_ended(row->state) || row->state == FR_ST_RETRYING;
}

static void print_state(struct cli_show *show, const struct fr_note *note)
{
    struct show_line *line = show->lines != NULL ? &show->lines[note->inst] : NULL;

    if (line != NULL && is_end(&note->row))
        print_lines(show, note->inst, true);
    if (show->opts.json && note->seq != 0)
        json_note(show, note);
    else if (!show->opts.json && (line == NULL || line->state != note->row.state ||
                                  line->away != note->row.unreachable || show_waits(show, note)))
        show_state(show, note);
    if (line == NULL)
        return;
    line->state = note->row.state;
    line->away = note->row.unreachable;
    print_lines(show, note->inst, false); /* output from before the launch */
}

static void print_run(struct cli_show *show, const struct fr_note *note)
{
    if (show->opts.json)
        json_note(show, note);
    else
        show_run(show, note);
}

/* Shows a held note, and drops it. */
static void print_held(struct cli_show *show, struct show_held **at)
{
    struct show_held *h = *at;

    *at = h->next;
    if (h->note.kind == FR_NOTE_STATE) {
        show->lines[h->note.inst].held = 0;
        print_state(show, &h->note);
    } else {
        print_run(show, &h->note);
    }
    fr_sys.free(h);
}

/* Shows the held states of the instance; then the run's end, if no state is held. */
static void let_go(struct cli_show *show, uint32_t inst)
{
    struct show_held **at = &show->held;

    if (show->lines[inst].held == 0)
        return;
    while (*at != NULL)
        if ((*at)->note.kind == FR_NOTE_STATE && (*at)->note.inst == inst)
            print_held(show, at);
        else
            at = &(*at)->next;
    while (show->held != NULL && show->held->note.kind == FR_NOTE_RUN)
        print_held(show, &show->held);
}

/* Appends a copy of note to the list; false: no memory. */
static bool hold(struct cli_show *show, const struct fr_note *note)
{
    size_t n = strlen(note->text) + 1;
    struct show_held *h = fr_sys.alloc(sizeof(*h) + n), **at = &show->held;

    if (h == NULL)
        return false;
    memcpy(h + 1, note->text, n);
    *h = (struct show_held){.note = *note};
    h->note.text = (const char *)(h + 1);
    while (*at != NULL)
        at = &(*at)->next;
    *at = h;
    return true;
}

/* Whether output from before this end is still to come. */
static bool awaits_output(const struct cli_show *show, const struct fr_note *note)
{
    return note->left > 0 && show->lines != NULL && !show->opts.quiet && show->curves == NULL &&
           is_end(&note->row);
}

void order_state(struct cli_show *show, const struct fr_note *note)
{
    struct show_line *line = show->lines != NULL ? &show->lines[note->inst] : NULL;

    if (line != NULL && line->held != 0) {
        if (!is_end(&note->row) && hold(show, note))
            return;
        let_go(show, note->inst);
    }
    if (awaits_output(show, note) && hold(show, note))
        line->held = note->row.attempt_no;
    else
        print_state(show, note);
}

void order_run(struct cli_show *show, const struct fr_note *note)
{
    if (show->held == NULL || !hold(show, note))
        print_run(show, note);
}

/* Whether the note reports the instance's node as unreachable. */
static bool is_cut_off(const struct cli_show *show, uint32_t inst, const struct fr_note *note)
{
    return note->kind == FR_NOTE_NODE && !note->up &&
           note->node == show->model.plan->insts[inst].node;
}

void order_trouble(struct cli_show *show, const struct fr_note *note)
{
    const struct show_held *h = show->held;

    while (h != NULL) {
        uint32_t inst = h->note.inst;

        if (inst != FR_PLAN_NONE && (inst == note->inst || is_cut_off(show, inst, note))) {
            let_go(show, inst);
            h = show->held; /* the next one may be freed */
        } else {
            h = h->next;
        }
    }
}

/* Shows all held notes. */
static void release(struct cli_show *show)
{
    while (show->held != NULL)
        print_held(show, &show->held);
}

void order_finish(struct cli_show *show)
{
    const struct fr_plan *plan = show->model.plan;

    release(show);
    for (uint32_t i = 0; show->lines != NULL && i < plan->n_insts; i++) {
        print_lines(show, i, true);
        fr_buf_finish(&show->lines[i].text);
    }
}
