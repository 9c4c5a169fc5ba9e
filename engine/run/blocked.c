/* Tasks that wait for a secret of a variable, which no shell of the run has given. */
#include "engine/run/inside.h"
#include "engine/spec/config.h"

#include <string.h>
#include <time.h>

struct lacking {
    const struct fr_run *run;
    const struct fr_secret *first;
};

static bool lacking_ref(void *arg, const struct fr_ref *ref)
{
    struct lacking *l = arg;
    const struct fr_run_shell *shell = &l->run->env.shell;
    const struct fr_secret *s =
        ref->kind == FR_REF_SECRET ? run_secret_find(l->run->spec, ref->name) : NULL;

    if (s != NULL && s->from == FR_SECRET_ENV && shell->getenv(shell->self, s->arg) == NULL)
        l->first = s;
    return l->first == NULL;
}

const struct fr_secret *run_lacks(const struct fr_run *run, uint32_t task)
{
    struct lacking l = {.run = run};

    if (run->spec->n_secrets > 0)
        run_each_ref(&run->plan->tasks[task].spec->act, lacking_ref, &l);
    return l.first;
}

static enum fr_rc set_block(struct fr_run *run, uint32_t task, const struct fr_secret *lacks,
                            struct fr_err *err)
{
    struct fr_event ev = {.kind = FR_EV_BLOCK, .task = task, .value = lacks != NULL};

    run->blocks[task].lacks = lacks;
    run->blocks[task].text = NULL;
    return run_queue(run, &ev, err);
}

enum fr_rc run_blocks_begin(struct fr_run *run, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    if (run->spec->n_secrets == 0)
        return FR_OK;
    run->blocks = fr_arena_array(&run->arena, run->plan->n_tasks, sizeof(*run->blocks));
    if (run->blocks == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for secrets");
    for (uint32_t t = 0; rc == FR_OK && t < run->plan->n_tasks; t++) {
        const struct fr_secret *lacks = run_lacks(run, t);

        run->blocks[t].until_ms = INT64_MAX;
        if (lacks != NULL)
            rc = set_block(run, t, lacks, err);
    }
    return rc;
}

void run_blocks_look(struct fr_run *run, int64_t now)
{
    struct fr_err err = {0};
    enum fr_rc rc = FR_OK;

    run->shell_changed = false;
    run->block_due_ms = INT64_MAX;
    for (uint32_t t = 0; rc == FR_OK && run->blocks != NULL && t < run->plan->n_tasks; t++) {
        struct run_block *h = &run->blocks[t];
        const struct fr_secret *lacks = h->lacks;

        if (lacks == NULL)
            continue;
        lacks = h->until_ms > now ? run_lacks(run, t) : NULL;
        if (lacks != h->lacks)
            rc = set_block(run, t, lacks, &err);
        if (lacks != NULL && h->until_ms < run->block_due_ms)
            run->block_due_ms = h->until_ms;
    }
    if (rc != FR_OK)
        run_die(run, &err);
}

/* The wait of a task begins with the first of its instances that waits. */
static void begin_wait(struct fr_run *run, struct run_block *h)
{
    int64_t most = run->env.limits != NULL ? run->env.limits->secret_wait_ms : 0;

    if (h->until_ms == INT64_MAX && most > 0)
        h->until_ms = fr_sys.mono_ms() + most;
    if (h->until_ms < run->block_due_ms)
        run->block_due_ms = h->until_ms;
}

const char *run_block_text(struct fr_run *run, uint32_t task)
{
    struct run_block *h = &run->blocks[task];
    char date[48] = "";
    struct tm tm;
    time_t until;

    if (h->lacks == NULL) /* it is there since the row was made */
        return "";
    if (h->text != NULL)
        return h->text;
    begin_wait(run, h);
    until = (time_t)((fr_sys.wall_ms() + h->until_ms - fr_sys.mono_ms()) / 1000);
    if (h->until_ms != INT64_MAX && localtime_r(&until, &tm) != NULL)
        strftime(date, sizeof(date), ", until %Y-%m-%d %H:%M (limits.secret_wait)", &tm);
    h->text = fr_arena_fmt(&run->arena,
                           "waits for secret '%s': no shell that follows the run has the variable "
                           "%s; 'flowrun resume %lld' where it is set goes on%s",
                           h->lacks->name, h->lacks->arg, (long long)run->row.no, date);
    return h->text;
}

void run_block_fail(struct fr_run *run, struct run_attempt *at, const struct fr_secret *s)
{
    char text[24];
    struct fr_err err = {0};

    fr_show_duration(run->env.limits->secret_wait_ms, text);
    fr_fail(&err, FR_NOTFOUND,
            "secret '%s': the variable %s is not set in a shell that follows the run, and was not "
            "given within %s (limits.secret_wait)",
            s->name, s->arg, text);
    run_start_failed(run, at, &err);
}
