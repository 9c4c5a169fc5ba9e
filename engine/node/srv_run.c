/* The runs that the engine drives over this connection. */
#include "engine/base/log.h"
#include "engine/node/private.h"

struct srv_run *srv_run_find(const struct srv *s, struct fr_id run)
{
    struct srv_run *r = s->runs;

    while (r != NULL && !fr_id_eq(r->id, run))
        r = r->next;
    return r;
}

/* An older flowrun fenced by run: a connection of its is refused from now on. */
static enum fr_rc fence_older(struct srv *s, struct fr_id run, struct fr_err *err)
{
    struct fr_rec rec = {.kind = FR_REC_EPOCH, .run = run, .epoch = UINT64_MAX};
    const struct fr_fence *f = fr_table_fence(&s->table, run);

    if (f == NULL || f->epoch == UINT64_MAX || fr_id_eq(run, s->store))
        return FR_OK;
    return srv_journal(s, &rec, err);
}

void srv_join(struct srv *s, struct fr_id run)
{
    struct srv_run *r = srv_run_find(s, run);
    struct fr_err err;

    if (r != NULL)
        return;
    if (fence_older(s, run, &err) != FR_OK) {
        srv_fail(s, &err);
        return;
    }
    if ((r = fr_sys.alloc(sizeof(*r))) == NULL) {
        fr_fail(&err, FR_NOMEM, "no memory for a run");
        srv_fail(s, &err);
        return;
    }
    *r = (struct srv_run){.next = s->runs, .id = run, .fd = -1, .turn = s->turns};
    s->runs = r;
    /* Without the lock (a full disk) a container of the run counts as used only while a task is in
     * it. */
    if (fr_home_hold_run(s->home.path, run, &r->fd, &err) != FR_OK)
        fr_log(FR_LOG_WARN, "node", "%s", err.msg);
    for (struct srv_live *l = s->lives; l != NULL; l = l->next)
        if (fr_id_eq(l->a->run, run))
            l->run = r;
    srv_live_load(s, run);
}

/* Attempts that are stopped in place of a dead supervisor are stopped to the end. */
static void leave_lives(struct srv *s, const struct srv_run *r)
{
    for (struct srv_live *l = s->lives, *next; l != NULL; l = next) {
        next = l->next;
        if (l->run != r)
            continue;
        l->run = NULL;
        l->follow = l->report = false;
        if (!l->sweeping)
            srv_live_drop(s, l);
    }
}

static void drop(struct srv *s, struct srv_run *r)
{
    struct srv_run **at = &s->runs;

    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    fr_fd_close(&r->fd);
    fr_sys.free(r);
}

void srv_leave(struct srv *s, struct fr_id run)
{
    struct srv_run *r = srv_run_find(s, run);

    if (r == NULL)
        return;
    leave_lives(s, r);
    srv_bulk_leave(s, r);
    srv_put_leave(s, run);
    drop(s, r);
}

void srv_run_finish(struct srv *s)
{
    while (s->runs != NULL)
        drop(s, s->runs);
}
