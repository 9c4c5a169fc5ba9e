#include "tests/unit/slurm/allocation_bed.h"

#include "tests/unit/check.h"

#include <stdio.h>

void apply(struct bed *b, const struct fr_allocation_event *ev)
{
    fr_allocation_apply(&b->a, ev, T0 + b->ms, W0 + b->ms, &b->now);
}

void tell(struct bed *b, enum fr_allocation_event_kind kind)
{
    apply(b, &(struct fr_allocation_event){.kind = kind});
}

void tell_job(struct bed *b, enum fr_allocation_event_kind kind, int64_t job)
{
    apply(b, &(struct fr_allocation_event){.kind = kind, .job = job});
}

void refuse(struct bed *b, bool transient)
{
    apply(b, &(struct fr_allocation_event){.kind = FR_ALLOCATION_REFUSED,
                                           .transient = transient,
                                           .text = FR_STR("Invalid account\n")});
}

struct fr_slurm_job job_of(const char *text)
{
    struct fr_slurm_job job = {.start_wall = W0, .end_wall = LIMIT};
    long long id = 0;

    sscanf(text, "%lld %31s %95s", &id, job.state, job.reason);
    job.job = id;
    if (strcmp(job.state, "PENDING") != 0 && strcmp(job.reason, "BadConstraints") != 0 &&
        strcmp(job.reason, "JobHeldUser") != 0)
        job.hosts = FR_STR("nid[1-2]");
    return job;
}

void answer_all(struct bed *b, const struct fr_slurm_job *jobs, size_t n)
{
    apply(b, &(struct fr_allocation_event){.kind = FR_ALLOCATION_ANSWERED,
                                           .seen = jobs,
                                           .n_seen = n,
                                           .text = FR_STR("flownode: no such file\n")});
}

void answer(struct bed *b, const char *one, const char *two)
{
    struct fr_slurm_job jobs[2] = {job_of(one != NULL ? one : ""), job_of(two != NULL ? two : "")};

    answer_all(b, jobs, (size_t)(one != NULL) + (two != NULL));
}

const char *seen(const struct bed *b)
{
    static const struct {
        unsigned bit;
        const char *word;
    } actions[] = {{FR_ALLOCATION_DO_SUBMIT, " submit"},    {FR_ALLOCATION_DO_ASK, " ask"},
                   {FR_ALLOCATION_DO_CONNECT, " connect"},  {FR_ALLOCATION_DO_CANCEL, " cancel"},
                   {FR_ALLOCATION_DO_CANCEL_TWIN, " twin"}, {FR_ALLOCATION_DO_END, " end"}};
    static char text[200];
    const struct fr_allocation_life *life = &b->a.life;
    size_t n = (size_t)snprintf(text, sizeof(text), "%s",
                                fr_word(&fr_allocation_state_words, (int)life->state));

    for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++)
        if (b->now.actions & actions[i].bit)
            n += (size_t)snprintf(text + n, sizeof(text) - n, "%s", actions[i].word);
    if (b->now.actions & FR_ALLOCATION_DO_CANCEL_TWIN)
        n += (size_t)snprintf(text + n, sizeof(text) - n, " %lld", (long long)b->now.twin);
    if (life->state >= FR_ALLOCATION_RELEASING && b->now.changed)
        snprintf(text + n, sizeof(text) - n, ", %s%s", fr_cause_name(life->cause),
                 life->proven ? ", proven" : "");
    return text;
}

const char *seen_at(const struct bed *b)
{
    static char text[64];

    if (b->now.ask_ms == INT64_MAX)
        return "never";
    snprintf(text, sizeof(text), "%lld", (long long)(b->now.ask_ms - T0 - b->ms) / SECOND);
    return text;
}

struct bed bed_in(enum fr_allocation_state state)
{
    struct bed b = {0};

    if (state >= FR_ALLOCATION_SUBMITTING)
        tell(&b, FR_ALLOCATION_MAY_ASK);
    if (state == FR_ALLOCATION_LOOKING)
        tell(&b, FR_ALLOCATION_UNCLEAR);
    if (state >= FR_ALLOCATION_QUEUED)
        tell_job(&b, FR_ALLOCATION_SUBMITTED, 7);
    if (state >= FR_ALLOCATION_STARTING)
        answer(&b, "7 RUNNING None", NULL);
    if (state >= FR_ALLOCATION_UP)
        tell(&b, FR_ALLOCATION_ALL_UP);
    if (state >= FR_ALLOCATION_RELEASING) {
        tell(&b, FR_ALLOCATION_UNNEEDED);
        tell(&b, FR_ALLOCATION_CANCELLED);
    }
    if (state == FR_ALLOCATION_OVER)
        answer(&b, "7 CANCELLED None", NULL);
    CHECK_INT(b.a.life.state, state);
    return b;
}
