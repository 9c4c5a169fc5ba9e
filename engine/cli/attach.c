/* attach, watch: show a run that another process drives. They read the store and the logs whenever
 * that process wrote, and hand it the secrets and the ssh agent of this shell. */
#include "engine/cli/cli.h"
#include "engine/client/follow.h"

#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "engine/store/home.h"

#include <sys/inotify.h>

enum {
    LOOK_MS = 20,   /* least time between two looks */
    TICK_MS = 500,  /* most time: no event reports whether a host drives the run */
    POLL_MS = 100,  /* the same without inotify */
    GIVE_MS = 2000, /* time for the host to take the secrets */
    LEFT_MS = 3000, /* the run counts as left after so long without a host */
};

struct attach {
    struct cli_drive d;
    struct fr_store *st;
    struct cli_follow *f;
    int64_t no;
    int fd; /* inotify; -1: none */
    struct fr_watch *written;
    struct fr_timer *pause, *tick;
    bool due, ticked;  /* a look is due; the tick fired */
    bool driven;       /* a host drives the run */
    int64_t driven_ms; /* when a host was last seen to drive it */
    int64_t host;      /* epoch of that host; 0: none */
    int64_t given;     /* epoch of the host that has this shell's secrets */
};

/* Drops the events: the look reads everything. */
static void on_written(void *arg, int what)
{
    struct attach *a = arg;
    char events[4096];

    (void)what;
    while (fr_sys.read(a->fd, events, sizeof(events)) > 0)
        ;
    a->due = true;
    fr_loop_want(&a->d.loop, a->written, 0);
    fr_loop_arm_in(&a->d.loop, a->pause, LOOK_MS);
}

static void on_pause(void *arg)
{
    struct attach *a = arg;

    fr_loop_want(&a->d.loop, a->written, FR_LOOP_READ);
}

static void on_tick(void *arg)
{
    struct attach *a = arg;

    a->due = a->ticked = true;
    fr_loop_arm_in(&a->d.loop, a->tick, a->fd >= 0 ? TICK_MS : POLL_MS);
}

static bool watch_path(struct attach *a, const struct fr_buf *path)
{
    return !path->bad && inotify_add_watch(a->fd, path->p, IN_MODIFY | IN_CREATE) >= 0;
}

/* Watches both the log of the database and the run's folder, or neither. */
static enum fr_rc watch_writes(struct attach *a, struct fr_err *err)
{
    const char *home = fr_store_home(a->st);
    struct fr_buf wal = {0}, dir = {0};

    fr_buf_fmt(&wal, "%s/state.db-wal", home);
    fr_home_at(home, FR_HOME_RUN, cli_follow_row(a->f)->id, &dir);
    a->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (a->fd >= 0 && (!watch_path(a, &wal) || !watch_path(a, &dir))) {
        fr_sys.close(a->fd);
        a->fd = -1;
    }
    fr_buf_finish(&wal);
    fr_buf_finish(&dir);
    if (fr_loop_timer(&a->d.loop, on_pause, a, &a->pause) != FR_OK ||
        fr_loop_timer(&a->d.loop, on_tick, a, &a->tick) != FR_OK ||
        (a->fd >= 0 && fr_loop_watch(&a->d.loop, a->fd, on_written, a, &a->written) != FR_OK))
        return fr_fail(err, FR_NOMEM, "no memory to follow a run");
    if (a->fd >= 0)
        fr_loop_want(&a->d.loop, a->written, FR_LOOP_READ);
    on_tick(a);
    return FR_OK;
}

static void take_note(void *arg, const struct fr_note *note)
{
    cli_show_note(arg, note);
}

static enum fr_rc set_up(struct attach *a, const char *run, struct cli_show_opts how, bool curves,
                         struct fr_err *err)
{
    struct cli_follow_opts fo = {.note = take_note};
    struct fr_arena arena = {0};
    struct fr_run_row row;
    char id[FR_ID_TEXT];
    enum fr_rc rc = cli_store_read(&a->st, err);

    if (rc == FR_OK)
        rc = cli_pick_run(a->st, run, CLI_PICK_ATTACH, &arena, &row, err);
    if (rc == FR_OK && curves)
        how.curves = fr_store_home(a->st);
    if (rc == FR_OK)
        rc = cli_drive_show(&a->d, &how, err);
    if (rc == FR_OK) {
        fr_id_text(row.id, id);
        fo.run = id;
        fo.store = a->st;
        fo.arg = a->d.show;
        rc = cli_follow_create(&a->f, &fo, err);
        a->no = row.no;
    }
    if (rc == FR_OK)
        rc = watch_writes(a, err);
    if (rc == FR_OK)
        rc = cli_show_begin_stored(a->d.show, cli_follow_row(a->f), cli_follow_plan(a->f), err);
    fr_arena_finish(&arena);
    return rc;
}

/* Whether a host drives the run, or did so until LEFT_MS ago: a follower may take it over. */
static bool is_driven(struct attach *a)
{
    struct fr_arena arena = {0};
    struct fr_run_row row;
    char id[FR_ID_TEXT];
    int64_t now = fr_sys.mono_ms();

    bool known;

    fr_id_text(cli_follow_row(a->f)->id, id);
    known = fr_store_run_find(a->st, id, &arena, &row, NULL) == FR_OK;
    a->host = known && cli_is_driven(a->st, &row) ? row.host : 0;
    if (!known || a->host != 0)
        a->driven_ms = now;
    fr_arena_finish(&arena);
    return now < a->driven_ms + LEFT_MS;
}

/* Hands the run's secrets of this shell to the host. Each new host gets them: it may have none. */
static void give(struct attach *a)
{
    json_t *secrets = cli_secrets(cli_follow_plan(a->f)->spec), *agent = cli_agent();
    struct cli_question q = {.method = "POST", .deadline_ms = GIVE_MS};
    struct fr_err err = {0};
    char id[FR_ID_TEXT];

    fr_id_text(cli_follow_row(a->f)->id, id);
    if (json_object_size(secrets) > 0 || agent != NULL)
        q.body = json_pack("{s:O, s:O*}", "secrets", secrets, "agent", agent);
    if (q.body == NULL ||
        cli_ask(fr_store_home(a->st), &q, &err, "/api/v1/runs/%s/shell", id) != FR_UNREACHABLE)
        a->given = a->host;
    json_decref(secrets);
    json_decref(agent);
}

/* Shows the next slice. *end: nothing more will come. */
static enum fr_rc look(struct attach *a, bool *more, bool *end, struct fr_err *err)
{
    bool complete;
    enum fr_rc rc = FR_OK;

    if (a->ticked) { /* asked first, so that the last writes of the host are read below */
        a->driven = is_driven(a);
        if (a->host != 0 && a->host != a->given)
            give(a);
        rc = cli_follow_nodes(a->f, err);
    }
    a->due = false;
    if (rc == FR_OK)
        rc = cli_follow_news(a->f, more, err);
    if (a->ticked || cli_follow_over(a->f, &complete))
        cli_show_curves(a->d.show);
    a->ticked = false;
    *end = !*more && ((cli_follow_over(a->f, &complete) && complete) || !a->driven);
    return rc;
}

static enum cli_exit say_end(struct attach *a)
{
    bool complete;

    if (cli_follow_over(a->f, &complete))
        return cli_exit_of_run(cli_show_model(a->d.show));
    if (a->d.leave)
        cli_show_say(a->d.show,
                     "left (%s): run %lld goes on; 'flowrun attach %lld' shows it again, 'flowrun "
                     "cancel %lld' stops it",
                     a->d.why, (long long)a->no, (long long)a->no, (long long)a->no);
    else
        cli_show_say(a->d.show,
                     "no flowrun looks after run %lld; 'flowrun resume %lld' goes on with it",
                     (long long)a->no, (long long)a->no);
    return CLI_LEFT;
}

static enum cli_exit turn_it(struct attach *a, struct fr_err *err)
{
    bool more = false, end = false;
    enum fr_rc rc = FR_OK;

    while (rc == FR_OK && !end && !a->d.leave && fr_print_ok()) {
        cli_out_flush(a->d.out);
        rc = fr_loop_turn(&a->d.loop, !more && !a->due, err);
        if (rc == FR_OK && (a->due || more))
            rc = look(a, &more, &end, err);
    }
    if (rc == FR_OK)
        return say_end(a);
    if (rc != FR_STOPPED)
        return cli_fail(err);
    cli_show_say(a->d.show, "%s", err->msg);
    return CLI_LEFT;
}

static void finish(struct attach *a)
{
    if (a->written != NULL)
        fr_loop_unwatch(&a->d.loop, &a->written);
    if (a->pause != NULL)
        fr_loop_untimer(&a->d.loop, &a->pause);
    if (a->tick != NULL)
        fr_loop_untimer(&a->d.loop, &a->tick);
    if (a->fd >= 0)
        fr_sys.close(a->fd);
    cli_drive_finish(&a->d);
    cli_follow_destroy(a->f); /* after the view, which borrows the plan */
    fr_store_close(a->st);
}

static int attach(struct cli_call *c, struct cli_show_opts how, bool curves)
{
    struct attach a = {.fd = -1, .driven = true, .driven_ms = fr_sys.mono_ms()};
    struct fr_err err = {0};
    enum cli_exit code;
    enum fr_rc rc = set_up(&a, cli_arg(c, 0), how, curves, &err);

    code = rc == FR_OK ? turn_it(&a, &err) : cli_fail(&err);
    if (a.d.show != NULL)
        cli_show_end(a.d.show);
    if (rc == FR_OK) {
        a.d.leave = false; /* from now on a signal ends the wait for the reader */
        cli_out_drain(a.d.out, &a.d.leave);
    }
    finish(&a);
    return (int)code;
}

enum fr_rc cli_attach(struct cli_call *c, struct fr_err *err)
{
    (void)err;
    c->code = attach(c, cli_shown(c), false);
    return FR_OK;
}

enum fr_rc cli_watch(struct cli_call *c, struct fr_err *err)
{
    (void)err;
    c->code = attach(c, (struct cli_show_opts){0}, true);
    return FR_OK;
}
