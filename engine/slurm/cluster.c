#include "engine/slurm/cluster.h"

#include "engine/base/sys.h"
#include "engine/slurm/commands.h"
#include "engine/submit/environ.h"

#include <stdio.h>
#include <string.h>

enum {
    PLACES = 6, /* of the budget */
    RPC = 12,
    MINUTE_MS = 60000, /* a place is worth so much; each ms gives back rpc */
    LIMIT_MS = 30000,
    PAUSE_MS = 10000, /* after a command without an answer */
    PAUSE_MAX_MS = 120000,
    OUTPUT_MAX = 64 << 20,
};

/* A command that waits, or runs. */
struct call {
    struct call *next;
    struct fr_arena arena; /* owns: argv */
    struct fr_command command;
    bool forgotten;
};

/* Those that ask slurmctld, or the others: one runs at a time, in their order. */
struct lane {
    struct fr_cluster *c;
    struct call *first, **last;
    struct call *running;
    struct fr_link link;
    struct fr_buf out;
    struct fr_timer *limit;
    struct fr_post step;
    bool ended;
    int code;
    char stopped[FR_ERR_MAX]; /* why it has no exit status; "": it has */
};

enum { ASKING, OTHER, LANES };

struct fr_cluster {
    struct fr_loop *loop; /* borrows */
    struct fr_runner own; /* owns: commands run on this machine; zero: runner is another's */
    const struct fr_runner *runner;
    void (*changed)(void *arg);
    void *arg;
    struct lane lanes[LANES];
    struct fr_timer *wake; /* when the budget or the pause lets the next command start */
    int rpc;
    int64_t credit, credited_ms; /* of the budget, as of then */
    int64_t pause_ms, paused_until_ms;
    int64_t away_wall, asked;
    char why[FR_ERR_MAX];
};

/* ---- the budget ---- */

static int64_t credit_at(const struct fr_cluster *c, int64_t now)
{
    int64_t full = (int64_t)PLACES * MINUTE_MS;
    int64_t passed = now - c->credited_ms;
    int64_t back = passed >= full / c->rpc ? full : passed * c->rpc;

    return c->credit + back > full ? full : c->credit + back;
}

static void settle_credit(struct fr_cluster *c)
{
    int64_t now = fr_sys.mono_ms();

    c->credit = credit_at(c, now);
    c->credited_ms = now;
}

/* When the next command that asks may start. */
static int64_t start_ms(const struct fr_cluster *c)
{
    int64_t now = fr_sys.mono_ms(), missing = MINUTE_MS - credit_at(c, now);
    int64_t at = missing > 0 ? now + (missing + c->rpc - 1) / c->rpc : now;

    return at > c->paused_until_ms ? at : c->paused_until_ms;
}

/* ---- whether it answers ---- */

static void set_away(struct fr_cluster *c, struct fr_str why)
{
    fr_visible(c->why, sizeof(c->why), why.n > 0 ? why.p : "", why.n);
    if (c->away_wall == 0) {
        c->away_wall = fr_sys.wall_ms();
        c->pause_ms = PAUSE_MS;
    } else {
        c->pause_ms = 2 * c->pause_ms < PAUSE_MAX_MS ? 2 * c->pause_ms : PAUSE_MAX_MS;
    }
    c->paused_until_ms = fr_sys.mono_ms() + c->pause_ms;
    if (c->changed != NULL)
        c->changed(c->arg);
}

static void set_answered(struct fr_cluster *c)
{
    bool was = c->away_wall != 0;

    c->away_wall = c->paused_until_ms = 0;
    c->why[0] = '\0';
    if (was && c->changed != NULL)
        c->changed(c->arg);
}

/* ---- a command's end ---- */

static void call_destroy(struct call *call)
{
    fr_arena_finish(&call->arena);
    fr_sys.free(call);
}

static void put_first(struct lane *lane, struct call *call)
{
    call->next = lane->first;
    lane->first = call;
    if (lane->last == &lane->first)
        lane->last = &call->next;
}

/* One line of what a command said. */
static struct fr_str trimmed(struct fr_str text)
{
    while (text.n > 0 && (text.p[text.n - 1] == '\n' || text.p[text.n - 1] == '\r'))
        text.n--;
    return text;
}

static void finish(struct lane *lane)
{
    struct fr_cluster *c = lane->c;
    struct call *call = lane->running;
    struct fr_command_end end = {.code = lane->code, .out = {lane->out.p, lane->out.n}};
    bool asks = call->command.asks, unanswered;

    if (lane->stopped[0] != '\0')
        end.errors = fr_str_of(lane->stopped);
    else
        c->runner->ops->code(&lane->link, &end.errors);
    unanswered = asks && (end.code < 0 || (end.code > 0 && end.code != FR_RUNNER_NO_PROGRAM &&
                                           fr_slurm_unanswered(end.errors)));
    lane->running = NULL;
    fr_loop_arm(c->loop, lane->limit, -1);
    if (unanswered && fr_runner_ready(c->runner))
        set_away(c, trimmed(end.errors));
    else if (unanswered)
        c->away_wall = c->paused_until_ms = 0; /* whether Slurm answers is not known */
    else if (asks && end.code != FR_RUNNER_NO_PROGRAM)
        set_answered(c);
    if (unanswered && call->command.repeat && !call->forgotten) {
        put_first(lane, call);
    } else {
        if (!call->forgotten)
            call->command.ended(call->command.arg, &end);
        call_destroy(call);
    }
    fr_link_destroy(&lane->link);
    fr_buf_finish(&lane->out);
}

/* The end is told from a turn of its own: the link's calls are over then. */
static void note_end(struct lane *lane, int code, const char *stopped)
{
    if (lane->running == NULL || lane->ended)
        return;
    lane->ended = true;
    lane->code = code;
    snprintf(lane->stopped, sizeof(lane->stopped), "%s", stopped);
    fr_loop_post(lane->c->loop, &lane->step);
}

static void note_no_program(struct lane *lane)
{
    char text[FR_ERR_MAX];

    snprintf(text, sizeof(text),
             "there is no program %s in PATH that could be started (login nodes often need "
             "`module load slurm`: set slurm.path)",
             lane->running->command.argv[0]);
    note_end(lane, FR_RUNNER_NO_PROGRAM, text);
}

static void on_bytes(void *arg, const char *p, size_t n)
{
    struct lane *lane = arg;

    if (lane->ended)
        return;
    if (lane->out.n + n > OUTPUT_MAX)
        note_end(lane, -1, "it prints more than 64 MiB");
    else
        fr_buf_add(&lane->out, p, n);
    if (lane->out.bad)
        note_end(lane, -1, "no memory for what it prints");
}

static void on_down(void *arg, const struct fr_err *err, bool ran)
{
    struct lane *lane = arg;
    struct fr_str errors;
    int code = lane->c->runner->ops->code(&lane->link, &errors);

    (void)ran;
    if (code == FR_RUNNER_NO_PROGRAM && errors.n == 0)
        note_no_program(lane);
    else
        note_end(lane, code, code < 0 ? err->msg : "");
}

static void no_event(void *arg)
{
    (void)arg;
}

static void on_limit(void *arg)
{
    struct lane *lane = arg;
    char text[FR_ERR_MAX];

    if (lane->running == NULL)
        return;
    snprintf(text, sizeof(text), "%s: no end within %lld s", lane->running->command.argv[0],
             (long long)lane->running->command.limit_ms / 1000);
    note_end(lane, -1, text);
}

/* ---- a command's start ---- */

static void start(struct lane *lane)
{
    struct fr_cluster *c = lane->c;
    const struct fr_command *command = &lane->running->command;
    const struct fr_link_events events = {no_event, on_bytes, no_event, on_down, lane};
    const struct fr_runner_command run = {
        .what = command->argv[0], .argv = command->argv, .limit_ms = command->limit_ms};
    struct fr_err err = {0};
    enum fr_rc rc;

    lane->ended = false;
    lane->stopped[0] = '\0';
    rc = c->runner->ops->make(c->runner->self, &run, &lane->link, &err);
    if (rc == FR_OK)
        rc = lane->link.ops->open(lane->link.self, &events, &err);
    if (rc == FR_OK) {
        fr_loop_arm_in(c->loop, lane->limit, command->limit_ms);
    } else if (rc == FR_NOTFOUND || rc == FR_DENIED) {
        note_no_program(lane);
    } else {
        note_end(lane, -1, err.msg);
    }
}

static void step(void *arg)
{
    struct lane *lane = arg;
    struct fr_cluster *c = lane->c;
    bool spends;

    if (lane->running != NULL && lane->ended)
        finish(lane);
    if (lane->running != NULL || lane->first == NULL || !fr_runner_ready(c->runner))
        return;
    spends = lane->first->command.asks || lane->first->command.accounts;
    if (spends && start_ms(c) > fr_sys.mono_ms()) {
        fr_loop_arm(c->loop, c->wake, start_ms(c));
        return;
    }
    lane->running = lane->first;
    lane->first = lane->running->next;
    if (lane->first == NULL)
        lane->last = &lane->first;
    if (spends) {
        settle_credit(c);
        c->credit -= MINUTE_MS;
        c->asked++;
    }
    start(lane);
}

static void on_wake(void *arg)
{
    struct fr_cluster *c = arg;

    for (int i = 0; i < LANES; i++)
        step(&c->lanes[i]);
}

/* ---- calls ---- */

enum fr_rc fr_cluster_run(struct fr_cluster *c, const struct fr_command *command,
                          struct fr_err *err)
{
    struct lane *lane = &c->lanes[command->asks ? ASKING : OTHER];
    struct call *call = fr_sys.alloc(sizeof(*call));
    const char **argv = NULL;
    size_t n = 0;

    if (call == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a command of Slurm");
    *call = (struct call){.command = *command};
    while (command->argv[n] != NULL)
        n++;
    argv = fr_arena_array(&call->arena, n + 1, sizeof(*argv));
    for (size_t i = 0; i < n && argv != NULL; i++)
        if ((argv[i] = fr_arena_dup(&call->arena, command->argv[i])) == NULL)
            argv = NULL;
    if (argv == NULL) {
        call_destroy(call);
        return fr_fail(err, FR_NOMEM, "no memory for a command of Slurm");
    }
    call->command.argv = argv;
    if (call->command.limit_ms == 0)
        call->command.limit_ms = LIMIT_MS;
    *lane->last = call;
    lane->last = &call->next;
    fr_loop_post(c->loop, &lane->step);
    return FR_OK;
}

void fr_cluster_forget(struct fr_cluster *c, const void *arg)
{
    for (struct lane *lane = c->lanes; lane < c->lanes + LANES; lane++) {
        struct call **at = &lane->first, *call;

        if (lane->running != NULL && lane->running->command.arg == arg)
            lane->running->forgotten = true;
        while ((call = *at) != NULL)
            if (call->command.arg == arg) {
                *at = call->next;
                call_destroy(call);
            } else {
                at = &call->next;
            }
        lane->last = at;
    }
}

void fr_cluster_limit(struct fr_cluster *c, int rpc)
{
    settle_credit(c);
    if (rpc > 0 && rpc < c->rpc)
        c->rpc = rpc;
}

void fr_cluster_ready(struct fr_cluster *c)
{
    for (struct lane *lane = c->lanes; lane < c->lanes + LANES; lane++)
        fr_loop_post(c->loop, &lane->step);
}

int64_t fr_cluster_may_ask_ms(const struct fr_cluster *c)
{
    const struct lane *lane = &c->lanes[ASKING];

    if (lane->running != NULL || lane->first != NULL || !fr_runner_ready(c->runner))
        return INT64_MAX;
    return start_ms(c) > fr_sys.mono_ms() ? start_ms(c) : 0;
}

bool fr_cluster_may_ask(const struct fr_cluster *c)
{
    return fr_cluster_may_ask_ms(c) == 0;
}

int64_t fr_cluster_away(const struct fr_cluster *c, const char **why)
{
    *why = c->why;
    return c->away_wall;
}

int64_t fr_cluster_asked(const struct fr_cluster *c)
{
    return c->asked;
}

const struct fr_runner *fr_cluster_runner(const struct fr_cluster *c)
{
    return c->runner;
}

static bool run_here(struct fr_cluster *c, const char *path)
{
    struct fr_arena arena = {0};
    const char *const *envp = fr_slurm_environ(path, &arena);
    bool whole = envp != NULL && fr_runner_local_create(&c->own, c->loop, envp, NULL) == FR_OK;

    fr_arena_finish(&arena);
    return whole;
}

enum fr_rc fr_cluster_create(const struct fr_cluster_args *args, struct fr_cluster **out,
                             struct fr_err *err)
{
    struct fr_cluster *c = fr_sys.alloc(sizeof(*c));
    bool whole = c != NULL;

    *out = NULL;
    if (!whole)
        return fr_fail(err, FR_NOMEM, "no memory for a cluster");
    *c = (struct fr_cluster){.loop = args->loop,
                             .changed = args->changed,
                             .arg = args->arg,
                             .rpc = args->rpc > 0 ? args->rpc : RPC,
                             .credit = (int64_t)PLACES * MINUTE_MS,
                             .credited_ms = fr_sys.mono_ms()};
    c->runner = args->runner != NULL ? args->runner : &c->own;
    whole = (args->runner != NULL || run_here(c, args->path)) &&
            fr_loop_timer(c->loop, on_wake, c, &c->wake) == FR_OK;
    for (struct lane *lane = c->lanes; lane < c->lanes + LANES; lane++) {
        lane->c = c;
        lane->last = &lane->first;
        lane->step = (struct fr_post){.run = step, .arg = lane};
        whole = whole && fr_loop_timer(c->loop, on_limit, lane, &lane->limit) == FR_OK;
    }
    if (!whole) {
        fr_cluster_destroy(c);
        return fr_fail(err, FR_NOMEM, "no memory for a cluster");
    }
    *out = c;
    return FR_OK;
}

void fr_cluster_destroy(struct fr_cluster *c)
{
    if (c == NULL)
        return;
    for (struct lane *lane = c->lanes; lane < c->lanes + LANES; lane++) {
        fr_loop_withdraw(c->loop, &lane->step);
        fr_loop_untimer(c->loop, &lane->limit);
        fr_link_destroy(&lane->link);
        fr_buf_finish(&lane->out);
        if (lane->running != NULL)
            call_destroy(lane->running);
        for (struct call *call; (call = lane->first) != NULL;) {
            lane->first = call->next;
            call_destroy(call);
        }
    }
    fr_loop_untimer(c->loop, &c->wake);
    fr_runner_destroy(&c->own);
    fr_sys.free(c);
}
