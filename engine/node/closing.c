#include "engine/node/closing.h"

#include "engine/node/private.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum {
    STALLED_MS = 1500, /* a supervisor that has not carried out the stop by then is killed */
    PROOF_TICK_MS = 20
};

struct fr_closing {
    struct srv s; /* without a connection */
    bool survivors_looked, killing;
    int64_t kill_ms; /* until then those with a notice may end by themselves; 0: none is told */
};

enum fr_rc fr_closing_begin(const struct fr_serve_args *a, struct fr_closing **out,
                            struct fr_err *err)
{
    struct fr_closing *c = fr_sys.alloc(sizeof(*c));
    enum fr_rc rc;

    *out = NULL;
    if (c == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the attempts of this node");
    *c = (struct fr_closing){
        .s = {.a = a, .home = {.journal = -1, .lock = -1}, .sync_ms = INT64_MAX}};
    if ((rc = srv_home(&c->s, err)) == FR_OK && fr_sys.fdatasync(c->s.home.journal) != 0)
        rc = fr_fail_errno(err, errno, "the journal of %s", a->home);
    if (rc != FR_OK)
        fr_closing_end(c);
    else
        *out = c;
    return rc;
}

void fr_closing_end(struct fr_closing *c)
{
    struct fr_err err;

    if (c == NULL)
        return;
    srv_live_finish(&c->s);
    srv_spare_finish(&c->s);
    if (c->s.home.journal >= 0 && fr_sys.fdatasync(c->s.home.journal) != 0)
        fr_table_rewrite(&c->s.table, c->s.home.journal, &err);
    fr_home_close(&c->s.home);
    fr_table_finish(&c->s.table);
    fr_buf_finish(&c->s.ctl);
    fr_buf_finish(&c->s.out);
    fr_sys.free(c->s.polls);
    fr_sys.free(c->s.polled);
    fr_arena_finish(&c->s.arena);
    fr_sys.free(c);
}

static bool has_survivors(const struct fr_attempt *a)
{
    struct fr_arena arena = {0};
    struct fr_ended e = {0};
    bool has = a->ended && !a->acked &&
               fr_ended_get((struct fr_str){a->end.p, a->end.n}, &arena, &e, NULL) == FR_OK &&
               e.survivors.n > 0;

    fr_arena_finish(&arena);
    return has;
}

/* The supervisor ends the attempt, and journals that. */
static void stop(struct fr_closing *c, struct srv_live *l)
{
    struct fr_msg m = {.type = FR_MSG_STOP, .stop = {l->a->id, 0, FR_CAUSE_NODE_LOST, false}};

    if (l->sweeping) {
        srv_live_sweep(&c->s, l, 0);
        return;
    }
    srv_live_put(&c->s, l, &m);
    l->stop_by_ms = fr_sys.mono_ms() + STALLED_MS;
}

/* Only its supervisor knows whether it has asked for one. */
static void notice(struct fr_closing *c, struct srv_live *l)
{
    int64_t left = c->kill_ms - fr_sys.mono_ms();
    struct fr_msg m = {.type = FR_MSG_STOP,
                       .stop = {l->a->id, left > 0 ? left : 0, FR_CAUSE_NODE_LOST, .notice = true}};

    if (!l->sweeping)
        srv_live_put(&c->s, l, &m);
}

static void load(struct fr_closing *c)
{
    struct srv *s = &c->s;

    for (size_t i = 0; i < s->table.n; i++) {
        struct fr_attempt *a = s->table.v[i];
        bool survivors = !c->survivors_looked && has_survivors(a);
        struct srv_live *l;

        if (a->acked || a->live != NULL || (a->ended && !survivors) ||
            (a->tombstoned && !a->launched) || (l = srv_live_get(s, a)) == NULL)
            continue;
        l->due_ms = fr_sys.mono_ms();
        if (survivors) {
            srv_live_sweep(s, l, 0);
        } else if (!a->launched) {
            l->report = true; /* without a supervisor it gets a tombstone */
            stop(c, l);
        } else if (c->killing) {
            stop(c, l);
        } else if (c->kill_ms != 0) {
            notice(c, l);
        }
    }
    c->survivors_looked = true;
}

/* What the supervisors have sent. */
static void read_lives(struct srv *s)
{
    for (struct srv_live *l = s->lives; l != NULL; l = l->next) {
        struct pollfd p = {.fd = l->fd, .events = POLLIN};
        if (l->fd >= 0 && fr_sys.poll(&p, 1, 0) > 0)
            srv_live_read(s, l);
    }
}

enum fr_rc fr_closing_step(struct fr_closing *c, size_t *live, struct fr_err *err)
{
    struct srv *s = &c->s;
    enum fr_rc rc = fr_table_read(&s->table, s->home.journal, err);

    *live = s->n_lives;
    if (rc != FR_OK)
        return rc;
    read_lives(s);
    load(c);
    for (struct srv_live *l = s->lives, *next; l != NULL; l = next) {
        next = l->next;
        /* the grace period of a dead supervisor's attempt is over, too */
        if (c->killing && l->sweeping && l->stopper.until_ms > fr_sys.mono_ms() &&
            l->stopper.phase == FR_STOP_TERM)
            srv_live_sweep(s, l, 0);
        srv_live_step(s, l);
    }
    s->ctl.n = 0; /* nobody is there to be told */
    *live = s->n_lives;
    if (s->err.rc == FR_OK)
        return FR_OK;
    if (err != NULL)
        *err = s->err;
    return s->err.rc;
}

void fr_closing_notice(struct fr_closing *c, int64_t kill_ms)
{
    c->kill_ms = kill_ms;
}

void fr_closing_kill(struct fr_closing *c)
{
    if (!c->killing)
        for (struct srv_live *l = c->s.lives; l != NULL; l = l->next)
            stop(c, l);
    c->killing = true;
}

size_t fr_closing_unacked(const struct fr_closing *c)
{
    size_t n = 0;

    for (size_t i = 0; i < c->s.table.n; i++)
        n += c->s.table.v[i]->ended && !c->s.table.v[i]->acked;
    return n;
}

/* Kills what carries the attempt's marker, and what descends from it. */
static size_t kill_marked(struct fr_id attempt, struct fr_err *err)
{
    struct fr_tree tree = {0};
    struct fr_procinfo *list;
    size_t n;

    fr_id_text(attempt, tree.marker);
    if (fr_tree_find(&tree, &list, &n, err) != FR_OK)
        return 1;
    for (size_t i = 0; i < n; i++) {
        fr_sys.kill(list[i].proc, SIGKILL);
        fr_fail(err, FR_BUSY, "process %d (%s) of attempt %s is left", (int)list[i].proc.pid,
                list[i].comm, tree.marker);
    }
    fr_sys.free(list);
    return n;
}

/* Looks for processes of every attempt that the journal has: also of those that may leave some. */
static bool none_marked(struct fr_closing *c, struct fr_err *err)
{
    struct fr_procinfo *list;
    struct fr_id id;
    size_t n, left = 0;

    if (fr_sys.procs(&list, &n) != 0) {
        fr_fail_errno(err, errno, "cannot read the process table");
        return false;
    }
    for (size_t i = 0; i < n; i++)
        if (list[i].state != 'Z' && list[i].state != 'X' &&
            fr_id_parse(fr_str_of(list[i].marker), &id) && fr_table_find(&c->s.table, id) != NULL)
            left += kill_marked(id, err);
    fr_sys.free(list);
    return left == 0;
}

static bool none_survives(const struct fr_closing *c, struct fr_err *err)
{
    for (size_t i = 0; i < c->s.table.n; i++)
        if (has_survivors(c->s.table.v[i])) {
            fr_fail(err, FR_BUSY, "processes of %s could not be ended",
                    c->s.table.v[i]->instance != NULL ? c->s.table.v[i]->instance : "an attempt");
            return false;
        }
    return true;
}

static bool is_proven(struct fr_closing *c, struct fr_err *err)
{
    size_t live;

    if (fr_closing_step(c, &live, err) != FR_OK)
        return false;
    if (live > 0) {
        fr_fail(err, FR_BUSY, "%zu attempts could not be ended", live);
        return false;
    }
    if (!none_survives(c, err) || !none_marked(c, err))
        return false;
    if (fr_home_alone(&c->s.home)) /* every supervisor shares the lock */
        return true;
    fr_fail(err, FR_BUSY, "a supervisor is left");
    return false;
}

enum fr_rc fr_closing_prove(struct fr_closing *c, int64_t until_ms, struct fr_err *err)
{
    while (!is_proven(c, err)) {
        if (fr_sys.mono_ms() >= until_ms)
            return err->rc;
        fr_sys.poll(NULL, 0, PROOF_TICK_MS);
    }
    return FR_OK;
}

static bool may_live(const struct srv *s, const struct fr_attempt *a)
{
    struct fr_tree tree = {.cgroup = a->cgroup};
    struct fr_procinfo *list;
    size_t n = 0;
    enum fr_rc rc;

    if (fr_home_alive(s->home.path, a->id))
        return true;
    fr_id_text(a->id, tree.marker);
    if (a->container == NULL || a->container[0] == '\0')
        tree.supervisor = a->supervisor;
    rc = fr_tree_find(&tree, &list, &n, NULL);
    fr_sys.free(list);
    return rc != FR_OK || n > 0;
}

static bool lives(const struct srv *s, const struct fr_attempt *a)
{
    return !a->acked && ((!a->ended && !a->tombstoned) || has_survivors(a)) && may_live(s, a);
}

/* One that waits for go does not hold a job. */
static bool is_owed(const struct srv *s, const struct fr_attempt *a)
{
    return (a->ended && !a->acked) || (a->launched && lives(s, a));
}

typedef bool attempt_fn(const struct srv *s, const struct fr_attempt *a);

static enum fr_rc count(const char *home, attempt_fn *counts, size_t *n, struct fr_err *err)
{
    struct srv s = {.home = {.journal = -1, .lock = -1}};
    enum fr_rc rc = fr_home_open(&s.home, home, err);

    *n = 0;
    if (rc == FR_OK)
        rc = fr_table_read(&s.table, s.home.journal, err);
    for (size_t i = 0; rc == FR_OK && i < s.table.n; i++)
        *n += counts(&s, s.table.v[i]);
    fr_home_close(&s.home);
    fr_table_finish(&s.table);
    return rc;
}

enum fr_rc fr_closing_count(const char *home, size_t *live, struct fr_err *err)
{
    return count(home, lives, live, err);
}

enum fr_rc fr_closing_owed(const char *home, size_t *owed, struct fr_err *err)
{
    return count(home, is_owed, owed, err);
}
