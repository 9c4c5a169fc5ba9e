#include "engine/slurm/private.h"

#include "engine/slurm/reason.h"

#include <stdio.h>
#include <string.h>

enum {
    APART_MS = 60000,    /* between the two answers that Slurm knows no job */
    KEEPERS_MS = 300000, /* how long keepers may take to answer */
    MINUTE_MS = 60000,
    REQUEUED_MS = 60000 /* a job that began so much later than it did was requeued */
};

/* What a word of Slurm says of a job. */
enum phase { WAITS, RUNS, ENDING, ENDED };

static const struct word {
    const char *word;
    enum phase phase;
    enum fr_cause cause; /* ENDED: unless it was given back */
    const char *note;    /* %s is the job */
} words[] = {
    {"PENDING", WAITS, FR_CAUSE_NONE, NULL},
    {"CONFIGURING", WAITS, FR_CAUSE_NONE, NULL},
    {"REQUEUED", WAITS, FR_CAUSE_NONE, NULL},
    {"REQUEUE_HOLD", WAITS, FR_CAUSE_NONE, NULL},
    {"REQUEUE_FED", WAITS, FR_CAUSE_NONE, NULL},
    {"RESV_DEL_HOLD", WAITS, FR_CAUSE_NONE, NULL},
    {"SPECIAL_EXIT", WAITS, FR_CAUSE_NONE, NULL},
    {"RUNNING", RUNS, FR_CAUSE_NONE, NULL},
    {"SUSPENDED", RUNS, FR_CAUSE_NONE, NULL},
    {"STOPPED", RUNS, FR_CAUSE_NONE, NULL},
    {"SIGNALING", RUNS, FR_CAUSE_NONE, NULL},
    {"RESIZING", RUNS, FR_CAUSE_NONE, NULL},
    {"COMPLETED", ENDED, FR_CAUSE_NODE_LOST, "the keepers of job %s ended"},
    {"FAILED", ENDED, FR_CAUSE_NODE_LOST, "job %s failed"},
    {"TIMEOUT", ENDED, FR_CAUSE_TIME_LIMIT, "job %s reached its time limit"},
    {"DEADLINE", ENDED, FR_CAUSE_TIME_LIMIT, "job %s reached its deadline"},
    {"PREEMPTED", ENDED, FR_CAUSE_PREEMPTED, "job %s was preempted"},
    {"CANCELLED", ENDED, FR_CAUSE_CANCELLED_OUTSIDE, "somebody else cancelled job %s"},
    {"REVOKED", ENDED, FR_CAUSE_CANCELLED_OUTSIDE, "job %s was revoked"},
    {"NODE_FAIL", ENDED, FR_CAUSE_NODE_LOST, "a node of job %s failed"},
    {"OUT_OF_MEMORY", ENDED, FR_CAUSE_NODE_LOST, "job %s used up its memory"},
    {"BOOT_FAIL", ENDED, FR_CAUSE_START_FAILED, "a node of job %s did not boot"},
    {"LAUNCH_FAILED", ENDED, FR_CAUSE_START_FAILED, "job %s could not be started"},
    {"RECONFIG_FAIL", ENDED, FR_CAUSE_START_FAILED, "job %s could not be started"},
};
/* In place of COMPLETED where all keepers have closed, which they do when Slurm tells them to end:
 * a preemption with GraceTime does, while the job still runs. */
static const struct word told = {"COMPLETED", ENDED, FR_CAUSE_PREEMPTED,
                                 "job %s was told to end, as by a preemption"};
/* Or as the lease was over, which is no failure of a job that came up. */
static const struct word lapsed = {"COMPLETED", ENDED, FR_CAUSE_STOPPED,
                                   "job %s ended itself, as its lease was over: nothing ran there, "
                                   "and no flowrun spoke to it"};
/* COMPLETING, STAGE_OUT, and words that only a later Slurm has: no end yet, and nothing else. */
static const struct word other = {"", ENDING, FR_CAUSE_NONE, NULL};

static const struct word *word_of(const struct fr_slurm_job *job)
{
    size_t n = strcspn(job->state, " +");

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strlen(words[i].word) == n && memcmp(words[i].word, job->state, n) == 0)
            return &words[i];
    return &other;
}

static void set_text(char *to, size_t cap, const char *text)
{
    if (strcmp(to, text) != 0)
        snprintf(to, cap, "%s", text);
}

/* Whether it is settled that no other job of the tag works. */
static bool settled(const struct fr_allocation *a)
{
    return a->life.state == FR_ALLOCATION_UP || (a->life.job != 0 && a->claimed == a->life.job);
}

static int rank(const struct fr_allocation *a, const struct fr_slurm_job *job)
{
    static const int by_phase[] = {[ENDED] = 0, [WAITS] = 2, [RUNS] = 4, [ENDING] = 4};
    enum phase phase = word_of(job)->phase;
    bool own = job->job == a->life.job;

    if (own && phase != ENDED && a->life.state == FR_ALLOCATION_RELEASING)
        return 6;
    return by_phase[phase] + own;
}

/* The job that is the allocation; NULL: none of these. */
static const struct fr_slurm_job *choose(const struct fr_allocation *a,
                                         const struct fr_allocation_event *ev)
{
    const struct fr_slurm_job *best = NULL;

    for (size_t i = 0; i < ev->n_seen; i++) {
        const struct fr_slurm_job *job = &ev->seen[i];

        if (settled(a) && job->job != a->life.job)
            continue;
        if (best == NULL || rank(a, job) > rank(a, best))
            best = job;
    }
    return best;
}

/* Of two jobs that run while neither has claimed the tag, the claim decides. */
static void cancel_twins(const struct turn *t, const struct fr_slurm_job *keep)
{
    bool all = t->life->state >= FR_ALLOCATION_RELEASING || settled(t->a);

    for (size_t i = 0; i < t->ev->n_seen; i++) {
        const struct fr_slurm_job *job = &t->ev->seen[i];
        enum phase phase = word_of(job)->phase;

        if (job != keep && phase != ENDED && (all || phase == WAITS))
            turn_cancel_twin(t, job->job);
    }
}

/* Slurm knows no job, for the second time. */
static void be_forgotten(const struct turn *t)
{
    bool waited = t->life->state == FR_ALLOCATION_QUEUED;

    if (t->life->state == FR_ALLOCATION_LOOKING) {
        t->life->state = FR_ALLOCATION_WANTED;
        t->a->ask_ms = 0;
    } else if (t->life->job == 0) {
        turn_be_over(t, FR_CAUSE_STOPPED, true);
    } else if (t->a->closed && t->a->leased) {
        turn_note(t, (struct fr_str){0}, lapsed.note, turn_job(t, t->life->job).text);
        turn_be_over(t, t->life->state < FR_ALLOCATION_UP ? FR_CAUSE_START_FAILED : lapsed.cause,
                     true);
    } else {
        turn_note(t, (struct fr_str){0}, "job %s is not known to Slurm any more%s",
                  turn_job(t, t->life->job).text, t->a->closed ? "" : " and left no word");
        turn_be_over(t, waited ? FR_CAUSE_START_FAILED : FR_CAUSE_NODE_LOST, t->a->closed);
    }
}

/* Of an element that was cancelled while it waited, Slurm keeps no record. */
static bool never_began(const struct turn *t)
{
    return t->life->state == FR_ALLOCATION_RELEASING && t->life->element != 0 && t->a->cancelled &&
           t->life->start_wall == 0 && t->a->claimed == 0;
}

static void unseen(const struct turn *t)
{
    if (never_began(t))
        turn_be_over(t, FR_CAUSE_STOPPED, true);
    else if (t->mono < t->a->silent_until_ms) {
        turn_keep_pace(t);
    } else if (t->a->unseen_ms == 0) {
        t->a->unseen_ms = t->mono;
        turn_ask_in(t, APART_MS);
    } else if (t->mono - t->a->unseen_ms < APART_MS) {
        turn_ask_in(t, t->a->unseen_ms + APART_MS - t->mono);
    } else {
        be_forgotten(t);
    }
}

/* Slurm says that it waits: longer than it may? */
static void wait_on(const struct turn *t, const struct fr_slurm_job *job)
{
    int64_t left = t->a->queue_for_ms - (t->wall - t->life->submitted_wall);

    turn_keep_pace(t);
    if (t->a->queue_for_ms == 0 || t->life->state != FR_ALLOCATION_QUEUED)
        return;
    if (left <= 0) {
        turn_note(t, (struct fr_str){0}, "job %s did not begin within queue_for (%s)",
                  turn_job(t, job->job).text, job->reason);
        turn_release(t, FR_CAUSE_QUEUE_TIME);
    } else if (t->mono + left < t->a->ask_ms) {
        turn_ask_in(t, left);
    }
}

static void take_waiting(const struct turn *t, const struct fr_slurm_job *job)
{
    t->life->estimate_wall = job->start_wall;
    if (t->life->state == FR_ALLOCATION_STARTING || t->life->state == FR_ALLOCATION_UP) {
        turn_note(t, (struct fr_str){0}, "job %s was requeued", turn_job(t, job->job).text);
        turn_release(t, FR_CAUSE_PREEMPTED);
    } else {
        wait_on(t, job);
    }
}

static int64_t start_ms(const struct turn *t)
{
    return t->a->start_ms > 0 ? t->a->start_ms : KEEPERS_MS;
}

static void start(const struct turn *t, const struct fr_slurm_job *job)
{
    if (t->life->state == FR_ALLOCATION_QUEUED) {
        t->life->state = FR_ALLOCATION_STARTING;
        t->life->start_wall = job->start_wall;
        turn_begin_pace(t);
    }
    t->life->end_wall = job->end_wall;
    t->life->estimate_wall = 0;
    if (!t->a->connected) {
        t->a->connected = true;
        t->out->actions |= FR_ALLOCATION_DO_CONNECT;
        t->out->hosts = job->hosts;
        t->a->keepers_by_ms = t->mono + start_ms(t);
        t->a->due_ms = t->life->state == FR_ALLOCATION_STARTING ? t->a->keepers_by_ms : 0;
    }
}

static void take_running(const struct turn *t, const struct fr_slurm_job *job)
{
    if (t->life->start_wall != 0 && job->start_wall - t->life->start_wall > REQUEUED_MS) {
        turn_note(t, (struct fr_str){0}, "job %s was requeued", turn_job(t, job->job).text);
        turn_release(t, FR_CAUSE_PREEMPTED);
        return;
    }
    start(t, job);
    if (t->life->state == FR_ALLOCATION_UP) {
        turn_pace_up(t);
    } else if (t->mono >= t->a->keepers_by_ms && strcmp(job->state, "RUNNING") == 0) {
        turn_note(t, t->ev->text,
                  "job %s runs, but not all of its places answered within %lld minutes",
                  turn_job(t, job->job).text, (long long)(start_ms(t) / MINUTE_MS));
        turn_release(t, FR_CAUSE_START_FAILED);
    } else {
        turn_keep_pace(t);
    }
}

static void take_end(const struct turn *t, const struct fr_slurm_job *job, const struct word *w)
{
    enum fr_allocation_state state = t->life->state;
    bool never_ran = job->hosts.n == 0 && t->life->start_wall == 0;
    bool failed = strcmp(w->word, "FAILED") == 0;
    /* a node that failed may have processes left */
    bool all_ended = t->a->cgroups && strcmp(w->word, "NODE_FAIL") != 0;
    enum fr_cause cause;

    if (strcmp(w->word, "COMPLETED") == 0 && t->a->closed)
        w = t->a->leased ? &lapsed : &told;
    cause = w->cause;
    if ((cause == FR_CAUSE_NODE_LOST || w == &lapsed) && state < FR_ALLOCATION_UP)
        cause = FR_CAUSE_START_FAILED;
    if (cause == FR_CAUSE_START_FAILED && state == FR_ALLOCATION_UP)
        cause = FR_CAUSE_NODE_LOST;
    if (failed && never_ran && fr_slurm_reason_final(job->reason))
        cause = FR_CAUSE_SUBMIT_FAILED;
    if (t->life->cause == FR_CAUSE_NONE) {
        bool unexpected = cause == FR_CAUSE_START_FAILED || cause == FR_CAUSE_NODE_LOST;
        char text[FR_ALLOCATION_NOTE];

        snprintf(text, sizeof(text), w->note, turn_job(t, job->job).text);
        turn_note(t, unexpected ? t->ev->text : (struct fr_str){0}, "%s%s%s%s", text,
                  failed ? " (" : "", failed ? job->reason : "", failed ? ")" : "");
    }
    turn_be_over(t, cause, never_ran || all_ended || t->a->closed);
    if (job->end_wall != 0)
        t->life->ended_wall = job->end_wall;
    if (job->start_wall != 0 && job->end_wall > job->start_wall)
        t->life->elapsed_ms = job->end_wall - job->start_wall;
}

static void take_job(const struct turn *t, const struct fr_slurm_job *job)
{
    const struct word *w = word_of(job);

    if (w->phase == ENDED && t->life->state == FR_ALLOCATION_WANTED)
        return; /* what an sbatch left that was refused */
    turn_adopt(t, job->job);
    t->a->unseen_ms = t->a->silent_until_ms = 0;
    set_text(t->life->slurm, sizeof(t->life->slurm), job->state);
    set_text(t->life->reason, sizeof(t->life->reason), job->reason);
    if (w->phase == ENDED)
        take_end(t, job, w);
    else if (t->life->state == FR_ALLOCATION_RELEASING && t->a->cancel_pause_ms == 0)
        turn_cancel(t);
    else if (t->life->state == FR_ALLOCATION_RELEASING || w->phase == ENDING)
        turn_keep_pace(t);
    else if (w->phase == WAITS)
        take_waiting(t, job);
    else
        take_running(t, job);
}

void turn_answered(const struct turn *t)
{
    const struct fr_slurm_job *keep = choose(t->a, t->ev);

    if (t->life->state == FR_ALLOCATION_SUBMITTING || t->life->submits == 0)
        return;
    cancel_twins(t, t->life->state == FR_ALLOCATION_OVER ? NULL : keep);
    if (t->life->state == FR_ALLOCATION_OVER)
        return;
    if (keep != NULL)
        take_job(t, keep);
    else if (t->life->state != FR_ALLOCATION_WANTED)
        unseen(t);
}
