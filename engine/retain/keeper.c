/* Which ended runs leave the home of a host, by itself and in slices. */
#include "engine/retain/retain.h"

#include "engine/base/log.h"
#include "engine/base/sys.h"

#include <stdlib.h>
#include <string.h>

enum {
    SLICE_MS = 10,   /* of steps, in one turn of the loop */
    PAUSE_MS = 1000, /* between two slices while a run is live */
    RETRY_MS = 60000,
    LOOK_MS = 3600000,      /* between two looks which runs go */
    MARK_RUNS = 200,        /* in one commit */
    CLOCK_STEP_MS = 3600000 /* behind a larger one … */
};

static const int64_t AGELESS_MS = 86400000; /* … no run goes by its age for so long */

struct look { /* in a thread, with a store of its own */
    struct fr_retain *r;
    struct fr_work work;
    char *home; /* owns */
    struct fr_keep_by by;
    struct fr_arena arena; /* owns; of rows */
    struct fr_over_rows rows;
    struct fr_err err;
};

struct fr_retain {
    struct fr_loop *loop;
    struct fr_store *st; /* borrows */
    struct fr_timer *timer;
    struct fr_keep_runs keep;
    bool stays, live;
    struct look *look;  /* owns: under way; NULL */
    struct look *found; /* owns: whose runs go; NULL */
    int64_t look_ms;    /* the next one, in mono_ms */
    int64_t clock_ms;   /* wall_ms - mono_ms at the last one; 0: there was none */
    int64_t ageless_ms; /* until then no run goes by its age, in mono_ms */
};

/* ---- a look ---- */

static void free_look(void *arg)
{
    struct look *look = arg;

    if (look == NULL)
        return;
    fr_arena_finish(&look->arena);
    fr_sys.free(look->home);
    fr_sys.free(look);
}

static void in_thread(void *arg)
{
    struct look *look = arg;
    struct fr_store *st = NULL;

    if (fr_store_open_read(look->home, &st, &look->err) == FR_OK)
        (void)fr_retain_choose(st, &look->by, &look->arena, &look->rows, &look->err);
    fr_store_close(st);
}

static void on_looked(void *arg)
{
    struct look *look = arg;
    struct fr_retain *r = look->r;

    r->look = NULL;
    if (look->err.rc != FR_OK)
        fr_log(FR_LOG_WARN, "retain", "which runs go is found out later: %s", look->err.msg);
    if (look->err.rc == FR_OK && look->rows.n > 0)
        r->found = look;
    else
        free_look(look);
    fr_retain_wake(r);
}

/* A step of the clock makes runs as old as they are not. */
static void watch_clock(struct fr_retain *r, int64_t mono)
{
    int64_t clock = fr_sys.wall_ms() - mono;

    if (r->clock_ms != 0 && llabs(clock - r->clock_ms) > CLOCK_STEP_MS)
        r->ageless_ms = mono + AGELESS_MS;
    r->clock_ms = clock;
}

static bool begin_look(struct fr_retain *r)
{
    const char *home = fr_store_home(r->st);
    struct look *look = fr_sys.alloc(sizeof(*look));
    int64_t mono = fr_sys.mono_ms();

    r->look_ms = mono + LOOK_MS;
    watch_clock(r, mono);
    if (look == NULL)
        return false;
    *look = (struct look){.r = r,
                          .home = fr_sys.alloc(strlen(home) + 1),
                          .by = {r->keep, mono < r->ageless_ms ? 0 : fr_sys.wall_ms()}};
    look->work =
        (struct fr_work){.run = in_thread, .over = on_looked, .drop = free_look, .arg = look};
    if (look->home != NULL)
        memcpy(look->home, home, strlen(home) + 1);
    if (look->home == NULL || fr_loop_work(r->loop, &look->work) != FR_OK) {
        free_look(look);
        return false;
    }
    r->look = look;
    return true;
}

/* ---- slices ---- */

/* The oldest of those that were found, some at a time. */
static enum fr_rc mark(struct fr_retain *r, struct fr_err *err)
{
    struct fr_over_rows *rows = &r->found->rows;
    size_t n = rows->n < MARK_RUNS ? rows->n : MARK_RUNS;
    enum fr_rc rc = fr_store_runs_remove(r->st, rows->rows + rows->n - n, n, err);

    if (rc != FR_OK)
        return rc;
    rows->n -= n;
    if (rows->n == 0) {
        free_look(r->found);
        r->found = NULL;
    }
    return FR_OK;
}

static enum fr_rc slice(struct fr_retain *r, bool *more, struct fr_err *err)
{
    int64_t until = fr_sys.mono_ms() + SLICE_MS;
    enum fr_rc rc = FR_OK;

    *more = true;
    while (rc == FR_OK && *more && fr_sys.mono_ms() < until)
        rc = fr_retain_step(r->st, more, err);
    if (rc == FR_OK && !*more && r->found != NULL) {
        rc = mark(r, err);
        *more = rc == FR_OK;
    }
    return rc;
}

static void on_due(void *arg)
{
    struct fr_retain *r = arg;
    struct fr_err err = {0};
    int64_t now = fr_sys.mono_ms(), next = INT64_MAX;
    bool more = false;
    enum fr_rc rc = slice(r, &more, &err);

    if (rc != FR_OK)
        fr_log(FR_LOG_WARN, "retain", "a removed run is not gone yet: %s", err.msg);
    if (rc != FR_OK || more)
        next = now + (rc != FR_OK ? RETRY_MS : r->live ? PAUSE_MS : 0);
    if (r->stays && r->look == NULL && r->found == NULL && now >= r->look_ms && !begin_look(r))
        r->look_ms = now + RETRY_MS;
    if (r->stays && r->look == NULL && r->found == NULL && r->look_ms < next)
        next = r->look_ms;
    fr_loop_arm(r->loop, r->timer, next != INT64_MAX ? next : -1);
}

/* ---- its life ---- */

enum fr_rc fr_retain_create(struct fr_loop *loop, struct fr_store *st, struct fr_retain **out,
                            struct fr_err *err)
{
    struct fr_retain *r = fr_sys.alloc(sizeof(*r));

    *out = NULL;
    if (r != NULL)
        *r = (struct fr_retain){.loop = loop, .st = st};
    if (r == NULL || fr_loop_timer(loop, on_due, r, &r->timer) != FR_OK) {
        fr_sys.free(r);
        return fr_fail(err, FR_NOMEM, "no memory for the host");
    }
    fr_retain_wake(r);
    *out = r;
    return FR_OK;
}

void fr_retain_destroy(struct fr_retain *r)
{
    if (r == NULL)
        return;
    if (r->look != NULL && fr_loop_forget(r->loop, &r->look->work))
        free_look(r->look);
    free_look(r->found);
    fr_loop_untimer(r->loop, &r->timer);
    fr_sys.free(r);
}

void fr_retain_wake(struct fr_retain *r)
{
    fr_loop_arm(r->loop, r->timer, fr_sys.mono_ms());
}

void fr_retain_live(struct fr_retain *r, bool live)
{
    if (r->live && !live)
        fr_retain_wake(r);
    r->live = live;
}

void fr_retain_configure(struct fr_retain *r, const struct fr_keep_runs *keep)
{
    r->keep = *keep;
    r->look_ms = 0;
    fr_retain_wake(r);
}

void fr_retain_stay(struct fr_retain *r)
{
    r->stays = true;
    fr_retain_wake(r);
}
