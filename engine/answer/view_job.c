#include "engine/answer/view_job.h"

#include "engine/answer/answers.h"
#include "engine/store/outbox.h"
#include "engine/view/connection_pool.h"
#include "engine/view/line_index.h"
#include "engine/view/task_summary.h"

/* ---- views ---- */

enum { READERS = 3 /* concurrent views, each with a store of its own */ };

struct view_job {
    struct host_job job;
    struct host_text text;
};

static void read_view(struct host_job *job)
{
    (void)host_text_read(job->home, &((struct view_job *)job)->text, &job->err);
}

static void free_view(struct host_job *job)
{
    struct host_text *text = &((struct view_job *)job)->text;

    fr_buf_finish(&text->json);
    line_index_leave(text->lines);
    task_summaries_leave(text->summaries);
    connection_pool_leave(text->connections);
}

static const struct job_ops view_ops = {.most = READERS, .in_thread = read_view, .free = free_view};

struct host_job *view_begin(struct fr_host *host, const struct host_text *want)
{
    struct host_job *job = job_add(host, &view_ops, sizeof(struct view_job), want->run);
    struct host_text *text = &((struct view_job *)job)->text;
    struct host_answers *a = answers_of(host);

    if (job == NULL)
        return NULL;
    *text = *want;
    text->epoch = host->env.epoch;
    text->changes = fr_store_changes(host->env.store);
    text->lines = NULL;
    text->summaries = NULL;
    text->connections = NULL;
    for (size_t i = 0; i < HOST_VIEW_ARGS; i++)
        if (want->args[i] != NULL &&
            (text->args[i] = fr_arena_dup(&job->arena, want->args[i])) == NULL) {
            job_drop(job);
            return NULL;
        }
    text->lines = line_index_use(want->lines);
    if (a->summaries == NULL)
        a->summaries = task_summaries_create(); /* out of memory: every list is counted */
    text->summaries = task_summaries_use(a->summaries);
    if (a->connections == NULL)
        a->connections = connection_pool_create(); /* out of memory: every view opens a store */
    text->connections = connection_pool_use(a->connections);
    job_start_all(host);
    return job;
}

void view_take(struct host_job *job, struct host_text *out)
{
    struct host_text *text = &((struct view_job *)job)->text;

    *out = (struct host_text){.json = text->json,
                              .seq = text->seq,
                              .priority = text->priority,
                              .pinned = text->pinned,
                              .driven = text->driven,
                              .changes = text->changes};
    memcpy(out->fixed, text->fixed, sizeof(out->fixed));
    text->json = (struct fr_buf){0};
}

/* ---- metrics: one at a time, which has the host's cache meanwhile ---- */

struct curves_job {
    struct host_job job;
    struct host_curves ask;
    struct fr_curves *curves; /* owns: the host's, while it runs */
    struct fr_buf json;       /* owns */
};

static enum fr_rc take_cache(struct host_job *job)
{
    struct host_answers *a = answers_of(job->host);
    struct curves_job *c = (struct curves_job *)job;

    c->curves = a->curves != NULL ? a->curves : fr_curves_create(FR_CURVES_BYTES);
    a->curves = NULL;
    return c->curves != NULL ? FR_OK : fr_fail(&job->err, FR_NOMEM, "no memory for metrics");
}

static void read_curves(struct host_job *job)
{
    struct curves_job *c = (struct curves_job *)job;

    (void)host_curves_read(job->home, &c->ask, c->curves, &c->json, &job->err);
}

static void give_cache(struct host_job *job)
{
    answers_of(job->host)->curves = ((struct curves_job *)job)->curves;
    ((struct curves_job *)job)->curves = NULL;
}

static void free_curves(struct host_job *job)
{
    fr_curves_destroy(((struct curves_job *)job)->curves);
    fr_buf_finish(&((struct curves_job *)job)->json);
}

static const struct job_ops curves_ops = {.most = 1,
                                          .begin = take_cache,
                                          .in_thread = read_curves,
                                          .landed = give_cache,
                                          .free = free_curves};

struct host_job *curves_begin(struct fr_host *host, const struct host_curves *ask)
{
    struct host_job *job = job_add(host, &curves_ops, sizeof(struct curves_job), ask->run);
    struct host_curves *own = &((struct curves_job *)job)->ask;

    if (job == NULL)
        return NULL;
    *own = *ask;
    if (ask->task != NULL)
        own->task = fr_arena_dup(&job->arena, ask->task);
    if (ask->keys != NULL)
        own->keys = fr_arena_dup(&job->arena, ask->keys);
    if ((ask->task != NULL && own->task == NULL) || (ask->keys != NULL && own->keys == NULL)) {
        job_drop(job);
        return NULL;
    }
    job_start_all(host);
    return job;
}

struct fr_buf curves_take(struct host_job *job)
{
    struct fr_buf json = ((struct curves_job *)job)->json;

    ((struct curves_job *)job)->json = (struct fr_buf){0};
    return json;
}
