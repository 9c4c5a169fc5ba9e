#include "engine/slurm/private.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    SILENT_MS = 120000, /* an answer without a job means nothing so long after sbatch */
    PACE_MS = 5000,     /* how often Slurm is asked at first */
    PACED_MS = 60000,   /* for so long */
    PACE_MAX_MS = 60000,
    PACE_UP_MS = 300000,
    PAST_LIMIT_MS = 30000, /* how often once a job is past its limit */
    LATER_MS = 60000,      /* until sbatch is tried again after a limit */
    CANCEL_PAUSE_MS = 10000,
    CANCEL_PAUSE_MAX_MS = 120000,
    SOON_MS = 1000 /* from what should have ended a job to the question */
};

void turn_note(const struct turn *t, struct fr_str more, const char *fmt, ...)
{
    char *text = t->life->note;
    size_t cap = sizeof(t->life->note), n;
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, cap, fmt, ap);
    va_end(ap);
    while (more.n > 0 && strchr("\n\r\t ", more.p[more.n - 1]) != NULL)
        more.n--;
    n = strlen(text);
    if (n > 0 && more.n > 0 && n + 2 < cap)
        n += (size_t)snprintf(text + n, cap - n, ": ");
    if (more.n > 0)
        fr_visible(text + n, cap - n, more.p, more.n);
}

const char *fr_slurm_job_text(int64_t job, int64_t element, char buf[FR_SLURM_JOB_TEXT])
{
    if (element > 0)
        snprintf(buf, FR_SLURM_JOB_TEXT, "%lld_%lld", (long long)job, (long long)element - 1);
    else
        snprintf(buf, FR_SLURM_JOB_TEXT, "%lld", (long long)job);
    return buf;
}

struct turn_job turn_job(const struct turn *t, int64_t job)
{
    struct turn_job out;

    fr_slurm_job_text(job, t->life->element, out.text);
    return out;
}

/* ---- when Slurm is asked ---- */

void turn_ask_in(const struct turn *t, int64_t ms)
{
    t->a->ask_ms = t->mono + ms;
}

void turn_begin_pace(const struct turn *t)
{
    t->a->paced_ms = t->mono;
    t->a->pace_ms = PACE_MS;
    turn_ask_in(t, PACE_MS);
}

void turn_keep_pace(const struct turn *t)
{
    int64_t next = t->a->pace_ms * 3 / 2;

    if (t->mono - t->a->paced_ms < PACED_MS)
        next = PACE_MS;
    t->a->pace_ms = next > PACE_MAX_MS ? PACE_MAX_MS : next;
    turn_ask_in(t, t->a->pace_ms);
}

/* While it is up: seldom, and at its limit. */
void turn_pace_up(const struct turn *t)
{
    int64_t left = t->life->end_wall - t->wall;

    if (t->a->away)
        turn_keep_pace(t);
    else if (t->life->end_wall != 0 && left < PACE_UP_MS)
        turn_ask_in(t, left > 0 ? left + SOON_MS : PAST_LIMIT_MS);
    else
        turn_ask_in(t, PACE_UP_MS);
}

void turn_ask_now(const struct turn *t)
{
    t->out->actions |= FR_ALLOCATION_DO_ASK;
    turn_begin_pace(t);
}

/* ---- changes of the state ---- */

void turn_be_over(const struct turn *t, enum fr_cause cause, bool proven)
{
    t->life->state = FR_ALLOCATION_OVER;
    if (t->life->cause == FR_CAUSE_NONE)
        t->life->cause = cause;
    t->life->proven = proven;
    t->life->ended_wall = t->wall;
    t->a->ask_ms = t->a->due_ms = 0;
    t->out->actions |= FR_ALLOCATION_DO_END;
}

void turn_cancel(const struct turn *t)
{
    t->a->cancel_pause_ms = CANCEL_PAUSE_MS;
    t->a->due_ms = 0;
    t->out->actions |= FR_ALLOCATION_DO_CANCEL;
    turn_begin_pace(t);
}

void turn_release(const struct turn *t, enum fr_cause cause)
{
    t->life->state = FR_ALLOCATION_RELEASING;
    t->life->cause = cause;
    t->a->due_ms = 0;
    if (t->life->job != 0)
        turn_cancel(t);
}

void turn_cancel_twin(const struct turn *t, int64_t job)
{
    t->out->twin = job;
    t->out->actions |= FR_ALLOCATION_DO_CANCEL_TWIN;
}

void turn_adopt(const struct turn *t, int64_t job)
{
    if (t->life->job == job)
        return;
    t->life->job = job;
    t->life->start_wall = t->life->end_wall = 0;
    t->a->connected = t->a->cancelled = false;
    t->a->cancel_pause_ms = 0;
    if (t->life->state == FR_ALLOCATION_RELEASING)
        return;
    t->life->state = FR_ALLOCATION_QUEUED;
    t->life->note[0] = '\0';
}

/* ---- events ---- */

static void look(const struct turn *t)
{
    if (t->life->state != FR_ALLOCATION_RELEASING)
        t->life->state = FR_ALLOCATION_LOOKING;
    t->a->silent_until_ms = t->mono + SILENT_MS;
    t->a->unseen_ms = 0;
    turn_ask_now(t);
}

static void loaded(const struct turn *t)
{
    switch (t->life->state) {
    case FR_ALLOCATION_WANTED:
        break;
    case FR_ALLOCATION_SUBMITTING:
        t->life->submitted_wall = t->wall;
        look(t);
        break;
    case FR_ALLOCATION_LOOKING:
        look(t);
        break;
    case FR_ALLOCATION_OVER:
        t->out->actions |= FR_ALLOCATION_DO_END;
        break;
    default:
        if (t->life->job == 0)
            look(t);
        else
            turn_ask_now(t);
        break;
    }
}

static void submitted(const struct turn *t)
{
    bool releasing = t->life->state == FR_ALLOCATION_RELEASING;
    int64_t job = t->a->claimed != 0 ? t->a->claimed : t->ev->job;

    if (t->life->state != FR_ALLOCATION_SUBMITTING && !releasing)
        return;
    if (t->life->job != 0 && t->life->job != t->ev->job) {
        turn_cancel_twin(t, t->ev->job);
        return;
    }
    t->life->submitted_wall = t->wall;
    t->a->silent_until_ms = t->a->unseen_ms = 0;
    turn_adopt(t, job);
    if (job != t->ev->job)
        turn_cancel_twin(t, t->ev->job);
    if (releasing && t->a->cancel_pause_ms == 0)
        turn_cancel(t);
    else
        turn_begin_pace(t);
}

static void refused(const struct turn *t)
{
    bool releasing = t->life->state == FR_ALLOCATION_RELEASING && t->life->job == 0;

    if (t->life->state != FR_ALLOCATION_SUBMITTING && !releasing)
        return;
    turn_note(t, t->ev->text, "%s", "");
    t->life->submitted_wall = t->wall;
    if (releasing || !t->ev->transient) {
        turn_be_over(t, FR_CAUSE_SUBMIT_FAILED, true);
        return;
    }
    t->life->state = FR_ALLOCATION_WANTED;
    t->a->due_ms = t->mono + (t->ev->soon ? 0 : LATER_MS);
}

static void unclear(const struct turn *t)
{
    if (t->life->state != FR_ALLOCATION_SUBMITTING &&
        (t->life->state != FR_ALLOCATION_RELEASING || t->life->job != 0))
        return;
    t->life->submitted_wall = t->wall;
    if (t->life->state == FR_ALLOCATION_SUBMITTING)
        turn_note(t, t->ev->text, "sbatch gave no answer");
    look(t);
}

static void may_ask(const struct turn *t)
{
    if (t->life->state != FR_ALLOCATION_WANTED || t->mono < t->a->due_ms)
        return;
    t->life->state = FR_ALLOCATION_SUBMITTING;
    t->life->submits++;
    t->life->note[0] = '\0';
    t->a->due_ms = t->a->ask_ms = 0;
    t->a->silent_until_ms = INT64_MAX;
    t->out->actions |= FR_ALLOCATION_DO_SUBMIT;
}

static void claimed(const struct turn *t)
{
    int64_t job = t->ev->job, own = t->life->job;

    if (job == 0 || t->life->submits == 0)
        return;
    t->a->claimed = job;
    if (job == own || t->life->state == FR_ALLOCATION_SUBMITTING ||
        t->life->state == FR_ALLOCATION_UP || t->life->state == FR_ALLOCATION_OVER)
        return;
    if (t->life->state == FR_ALLOCATION_RELEASING && own != 0) {
        turn_cancel_twin(t, job); /* its own job is being cancelled */
        return;
    }
    if (own != 0)
        turn_cancel_twin(t, own);
    turn_adopt(t, job);
    t->a->silent_until_ms = t->a->unseen_ms = 0;
    t->a->due_ms = 0;
    turn_ask_now(t);
    if (t->life->state == FR_ALLOCATION_RELEASING)
        turn_cancel(t);
}

static void closed(const struct turn *t)
{
    t->a->closed = true;
    t->a->leased = t->ev->leased;
    if (t->life->state == FR_ALLOCATION_OVER && !t->life->proven) {
        t->life->proven = true;
        t->out->actions |= FR_ALLOCATION_DO_END;
    } else if (t->life->state >= FR_ALLOCATION_STARTING && t->life->state != FR_ALLOCATION_OVER) {
        turn_ask_now(t);
    }
}

static void unneeded(const struct turn *t)
{
    if (t->life->state == FR_ALLOCATION_WANTED)
        turn_be_over(t, FR_CAUSE_STOPPED, true);
    else if (t->life->state < FR_ALLOCATION_RELEASING)
        turn_release(t, FR_CAUSE_STOPPED);
}

static void spent(const struct turn *t)
{
    if (t->life->state != FR_ALLOCATION_UP)
        return;
    turn_note(t, (struct fr_str){0}, "job %s was near its time limit",
              turn_job(t, t->life->job).text);
    turn_release(t, FR_CAUSE_TIME_LIMIT);
}

static void all_up(const struct turn *t)
{
    bool back = t->life->state == FR_ALLOCATION_UP && t->a->away;

    if (t->life->state != FR_ALLOCATION_STARTING && !back)
        return;
    t->life->state = FR_ALLOCATION_UP;
    t->a->away = false;
    t->a->due_ms = 0;
    turn_pace_up(t);
}

static void away(const struct turn *t)
{
    if (t->life->state != FR_ALLOCATION_UP || t->a->away)
        return;
    t->a->away = true;
    turn_ask_now(t);
}

static void cancelled(const struct turn *t)
{
    int64_t pause = t->a->cancel_pause_ms;

    if (t->life->state != FR_ALLOCATION_RELEASING || pause == 0)
        return;
    t->a->cancelled = true;
    t->a->due_ms = t->mono + pause;
    t->a->cancel_pause_ms = 2 * pause < CANCEL_PAUSE_MAX_MS ? 2 * pause : CANCEL_PAUSE_MAX_MS;
    turn_ask_in(t, SOON_MS);
}

static void due(const struct turn *t)
{
    if (t->a->due_ms == 0 || t->mono < t->a->due_ms)
        return;
    t->a->due_ms = 0;
    if (t->life->state == FR_ALLOCATION_RELEASING)
        t->out->actions |= FR_ALLOCATION_DO_CANCEL;
    else if (t->life->state == FR_ALLOCATION_STARTING)
        turn_ask_now(t); /* of keepers that are late: whether the job still runs */
}

void fr_allocation_apply(struct fr_allocation *a, const struct fr_allocation_event *ev,
                         int64_t mono_ms, int64_t wall_ms, struct fr_allocation_now *out)
{
    static void (*const on[])(const struct turn *) = {
        [FR_ALLOCATION_LOADED] = loaded,       [FR_ALLOCATION_MAY_ASK] = may_ask,
        [FR_ALLOCATION_SUBMITTED] = submitted, [FR_ALLOCATION_REFUSED] = refused,
        [FR_ALLOCATION_UNCLEAR] = unclear,     [FR_ALLOCATION_ANSWERED] = turn_answered,
        [FR_ALLOCATION_ALL_UP] = all_up,       [FR_ALLOCATION_AWAY] = away,
        [FR_ALLOCATION_CLAIMED] = claimed,     [FR_ALLOCATION_CLOSED] = closed,
        [FR_ALLOCATION_UNNEEDED] = unneeded,   [FR_ALLOCATION_SPENT] = spent,
        [FR_ALLOCATION_CANCELLED] = cancelled, [FR_ALLOCATION_DUE] = due};
    struct turn t = {a, &a->life, ev, out, mono_ms, wall_ms};
    struct fr_allocation_life before;

    memcpy(&before, &a->life, sizeof(before));
    *out = (struct fr_allocation_now){0};
    on[ev->kind](&t);
    out->changed = memcmp(&before, &a->life, sizeof(before)) != 0;
    out->ask_ms = a->ask_ms != 0 ? a->ask_ms : INT64_MAX;
    out->due_ms = a->due_ms != 0 ? a->due_ms : INT64_MAX;
}
