/* Commands that a login node runs: its messages, as links. */
#include "engine/exec/login.h"

#include "engine/base/sys.h"
#include "engine/exec/private.h"

#include <stdio.h>
#include <string.h>

enum { OUT_ENOUGH = 64 << 10 /* bytes waiting to be sent, above which no bulk is added */ };

struct fr_login {
    struct fr_nodes *nodes; /* borrows */
    struct fr_exec ex;      /* owns: joined as a run of its own */
    struct fr_chan *ch;     /* borrows */
    struct fr_arena arena;
    const char *path;
    struct fr_runner runner;
    void (*changed)(void *arg);
    void *arg;
    struct fr_post tell;
    struct fr_login_state state;
    char why[FR_ERR_MAX];
};

/* A command, and the link to it. */
struct fr_pipe {
    struct fr_pipe *next;   /* of the channel */
    struct fr_login *login; /* borrows; NULL: it is destroyed */
    struct fr_arena arena;
    struct fr_strs argv;
    const char *what;
    int64_t limit_ms;
    struct fr_link_events ev;
    struct fr_post up, down;
    uint64_t ref;    /* 0: it does not run */
    uint64_t window; /* bytes that may be sent before the command takes some */
    uint64_t turn;   /* when it was last told that there is room */
    bool full;       /* its owner waits for room */
    bool ran;        /* down: it has ended by itself */
    struct fr_err err;
    int code;
    char errors[FR_PIPE_ERRORS];
    size_t n_errors;
};

/* ---- the link ---- */

static void pipe_close(void *self)
{
    struct fr_pipe *p = self;
    struct fr_chan *ch = p->login != NULL ? p->login->ch : NULL;

    if (ch != NULL) {
        fr_loop_withdraw(ch->ex->loop, &p->up);
        fr_loop_withdraw(ch->ex->loop, &p->down);
    }
    if (p->ref != 0 && ch != NULL) {
        fr_chan_put(ch, &(struct fr_msg){.type = FR_MSG_PIPE_CLOSE, .pipe_close = {p->ref, true}});
        fr_loop_post(ch->ex->loop, &ch->flush);
        ch->n_pipes--;
    }
    p->ref = 0;
    p->full = false;
}

static void pipe_destroy(void *self)
{
    struct fr_pipe *p = self, **at;

    pipe_close(p);
    if (p->login != NULL) {
        for (at = &p->login->ch->pipes; *at != p;)
            at = &(*at)->next;
        *at = p->next;
    }
    fr_arena_finish(&p->arena);
    fr_sys.free(p);
}

static enum fr_rc pipe_open(void *self, const struct fr_link_events *ev, struct fr_err *err)
{
    struct fr_pipe *p = self;
    struct fr_chan *ch = p->login != NULL ? p->login->ch : NULL;
    struct fr_msg m = {.type = FR_MSG_PIPE_OPEN};

    pipe_close(p);
    p->code = -1;
    p->n_errors = 0;
    if (ch == NULL || ch->state != FR_CHAN_UP)
        return fr_fail(err, FR_UNREACHABLE, "%s: the login node %s is not connected", p->what,
                       ch != NULL ? ch->node.name : "");
    p->ev = *ev;
    p->ref = ++ch->last_ref;
    p->window = FR_PIPE_WINDOW;
    ch->n_pipes++;
    m.pipe_open = (struct fr_pipe_open){
        .ref = p->ref, .argv = p->argv, .path = fr_str_of(p->login->path), .limit_ms = p->limit_ms};
    fr_chan_put(ch, &m);
    fr_loop_post(ch->ex->loop, &ch->flush);
    fr_loop_post(ch->ex->loop, &p->up);
    return FR_OK;
}

static void on_up(void *arg)
{
    struct fr_pipe *p = arg;

    p->ev.on_up(p->ev.arg);
}

static void on_down(void *arg)
{
    struct fr_pipe *p = arg;
    struct fr_err err = p->err;

    p->ev.on_down(p->ev.arg, &err, p->ran);
}

/* After a flush that leaves bytes the link says when it takes more. */
static bool has_room(struct fr_chan *ch)
{
    if (ch->out.n >= OUT_ENOUGH)
        fr_chan_flush(ch);
    return ch->out.n < OUT_ENOUGH;
}

static size_t pipe_send(void *self, const char *bytes, size_t n)
{
    struct fr_pipe *p = self;
    struct fr_chan *ch = p->login != NULL ? p->login->ch : NULL;
    size_t done = 0;

    while (done < n && p->ref != 0) {
        struct fr_msg m = {.type = FR_MSG_PIPE_DATA};
        size_t most = n - done < FR_BULK_MAX ? n - done : FR_BULK_MAX;

        most = p->window < most ? (size_t)p->window : most;
        most = ch->credit < most ? (size_t)ch->credit : most;
        if (most == 0 || !has_room(ch)) {
            p->full = true;
            break;
        }
        m.pipe_data = (struct fr_pipe_data){p->ref, {bytes + done, most}};
        p->window -= most;
        ch->credit -= most;
        done += most;
        fr_chan_put(ch, &m);
    }
    if (done > 0)
        fr_loop_post(ch->ex->loop, &ch->flush);
    return done;
}

static const struct fr_link_ops pipe_ops = {"login", pipe_open, pipe_send, pipe_close,
                                            pipe_destroy};

/* ---- messages ---- */

static struct fr_pipe *find(const struct fr_chan *ch, uint64_t ref)
{
    struct fr_pipe *p = ch->pipes;

    while (p != NULL && (p->ref != ref || ref == 0))
        p = p->next;
    return p;
}

/* Its owner hears of it in a turn of its own. */
static void end(struct fr_chan *ch, struct fr_pipe *p)
{
    p->ref = 0;
    p->full = false;
    ch->n_pipes--;
    fr_loop_withdraw(ch->ex->loop, &p->up);
    fr_loop_post(ch->ex->loop, &p->down);
}

static void on_end(struct fr_chan *ch, struct fr_pipe *p, const struct fr_pipe_end *m)
{
    struct fr_buf text = {0};
    int code = (int)(int32_t)m->code;

    p->code = code >= 0 && code < 256 ? code : -1;
    p->ran = p->code >= 0 && m->text.n == 0;
    fr_link_keep_tail(m->errors, p->errors, sizeof(p->errors), &p->n_errors);
    fr_link_quote(&text, p->errors, p->n_errors);
    if (m->text.n > 0)
        fr_fail(&p->err, FR_UNREACHABLE, "%s on %s: %.*s%s%s", p->what, ch->node.name,
                (int)m->text.n, m->text.p, text.n > 0 ? ": " : "", text.n > 0 ? text.p : "");
    else
        fr_fail(&p->err, FR_UNREACHABLE, "%s: ended with status %d%s%s", p->what, code,
                text.n > 0 ? ": " : "", text.n > 0 ? text.p : "");
    fr_buf_finish(&text);
    end(ch, p);
}

void fr_pipe_room(struct fr_chan *ch)
{
    uint64_t turn = ++ch->turns;
    struct fr_pipe *next;

    do { /* the one that has waited longest is first; each is told once */
        next = NULL;
        for (struct fr_pipe *p = ch->pipes; p != NULL; p = p->next)
            if (p->full && p->window > 0 && p->turn < turn &&
                (next == NULL || p->turn < next->turn))
                next = p;
        if (next != NULL) {
            next->turn = turn;
            next->full = false;
            next->ev.on_writable(next->ev.arg);
        }
    } while (next != NULL && ch->credit > 0 && has_room(ch));
}

enum fr_rc fr_pipe_message(struct fr_chan *ch, const struct fr_msg *m, struct fr_err *err)
{
    uint64_t ref = m->type == FR_MSG_PIPE_DATA   ? m->pipe_data.ref
                   : m->type == FR_MSG_PIPE_MORE ? m->pipe_more.ref
                                                 : m->pipe_end.ref;
    struct fr_pipe *p = find(ch, ref);
    enum fr_rc rc = FR_OK;

    if (m->type == FR_MSG_PIPE_DATA)
        rc = fr_chan_received_bulk(ch, m->pipe_data.bytes.n, err);
    if (rc != FR_OK || p == NULL)
        return rc; /* one that was closed meanwhile */
    if (m->type == FR_MSG_PIPE_DATA) {
        p->ev.on_bytes(p->ev.arg, m->pipe_data.bytes.p, m->pipe_data.bytes.n);
    } else if (m->type == FR_MSG_PIPE_MORE) {
        if (m->pipe_more.bytes > FR_PIPE_WINDOW - p->window)
            return fr_fail(err, FR_PROTO, "a command took more than it was sent");
        p->window += m->pipe_more.bytes;
        fr_pipe_room(ch);
    } else {
        on_end(ch, p, &m->pipe_end);
    }
    return FR_OK;
}

void fr_pipe_lost(struct fr_chan *ch, const struct fr_err *err)
{
    for (struct fr_pipe *p = ch->pipes; p != NULL; p = p->next) {
        if (p->ref == 0)
            continue;
        p->code = -1;
        p->ran = false;
        fr_fail(&p->err, FR_UNREACHABLE, "%s: the connection to the login node %s is lost: %s",
                p->what, ch->node.name, err->msg);
        end(ch, p);
    }
}

/* ---- the runner ---- */

static enum fr_rc login_make(void *self, const struct fr_runner_command *command,
                             struct fr_link *out, struct fr_err *err)
{
    struct fr_login *l = self;
    struct fr_pipe *p = fr_sys.alloc(sizeof(*p));
    size_t n = 0;
    bool whole = p != NULL;

    *out = (struct fr_link){0};
    if (whole) {
        *p = (struct fr_pipe){.login = l, .limit_ms = command->limit_ms, .code = -1};
        p->up = (struct fr_post){.run = on_up, .arg = p};
        p->down = (struct fr_post){.run = on_down, .arg = p};
        while (command->argv[n] != NULL)
            n++;
        p->argv = (struct fr_strs){fr_arena_array(&p->arena, n, sizeof(*p->argv.v)), n};
        p->what = fr_arena_dup(&p->arena, command->what);
        whole = p->argv.v != NULL && p->what != NULL;
    }
    for (size_t i = 0; i < n && whole; i++) {
        p->argv.v[i] = fr_str_of(fr_arena_dup(&p->arena, command->argv[i]));
        whole = p->argv.v[i].p != NULL;
    }
    if (!whole) {
        if (p != NULL)
            fr_arena_finish(&p->arena);
        fr_sys.free(p);
        return fr_fail(err, FR_NOMEM, "no memory for a command");
    }
    p->next = l->ch->pipes;
    l->ch->pipes = p;
    *out = (struct fr_link){&pipe_ops, p};
    return FR_OK;
}

static int login_code(const struct fr_link *link, struct fr_str *errors)
{
    const struct fr_pipe *p = link->self;

    *errors = (struct fr_str){p->errors, p->n_errors};
    return p->code;
}

static bool login_ready(void *self)
{
    const struct fr_login *l = self;

    return l->ch->state == FR_CHAN_UP;
}

static const struct fr_runner_ops runner_ops = {
    .name = "login", .make = login_make, .code = login_code, .ready = login_ready};

/* ---- the connection ---- */

static void tell(void *arg)
{
    struct fr_login *l = arg;

    l->changed(l->arg);
}

static void on_event(void *arg, struct fr_exec_event *ev)
{
    struct fr_login *l = arg;

    if (ev->kind == FR_EXEC_UP) {
        l->state.up = true;
        l->state.failed = l->state.final = false;
        l->why[0] = '\0';
    } else if (ev->kind == FR_EXEC_DOWN) {
        l->state.up = false;
        l->state.failed = true;
        l->state.final = ev->down.retry_ms < 0;
        l->state.until_ms = ev->down.until_ms;
        snprintf(l->why, sizeof(l->why), "%s", ev->err.msg);
    } else if (ev->kind == FR_EXEC_NOTE && !l->state.up && !l->state.failed) {
        snprintf(l->why, sizeof(l->why), "%.*s", (int)ev->text.n, ev->text.p);
    }
    fr_exec_event_free(ev);
    fr_loop_post(l->nodes->loop, &l->tell);
}

struct fr_login_state fr_login_is(const struct fr_login *l)
{
    struct fr_login_state s = l->state;

    s.up = l->ch->state == FR_CHAN_UP;
    s.why = l->why;
    return s;
}

void fr_login_connect(struct fr_login *l)
{
    (void)l->ex.ops->connect(l->ex.self, 0, NULL);
}

const struct fr_runner *fr_login_runner(const struct fr_login *l)
{
    return &l->runner;
}

enum fr_rc fr_login_create(const struct fr_login_args *a, struct fr_login **out, struct fr_err *err)
{
    struct fr_login *l = fr_sys.alloc(sizeof(*l));
    struct fr_exec_node node = *a->node;
    struct fr_nodes_run run = {.nodes = &node, .n = 1, .sink = {on_event, l}};
    enum fr_rc rc;

    *out = NULL;
    if (l == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a login node");
    *l = (struct fr_login){
        .nodes = a->nodes, .changed = a->changed, .arg = a->arg, .state.until_ms = -1};
    l->runner = (struct fr_runner){&runner_ops, l};
    l->tell = (struct fr_post){.run = tell, .arg = l};
    l->path = fr_arena_dup(&l->arena, a->path != NULL ? a->path : "");
    node.login = true;
    rc = l->path == NULL ? fr_fail(err, FR_NOMEM, "no memory for a login node")
                         : fr_id_new(&run.id, err);
    if (rc == FR_OK)
        rc = fr_nodes_join(a->nodes, &run, &l->ex, err);
    if (rc != FR_OK) {
        fr_arena_finish(&l->arena);
        fr_sys.free(l);
        return rc;
    }
    l->ch = ((struct fr_joined *)l->ex.self)->uses[0].ch;
    fr_login_connect(l);
    *out = l;
    return FR_OK;
}

void fr_login_destroy(struct fr_login *l)
{
    if (l == NULL)
        return;
    for (struct fr_pipe **at = &l->ch->pipes, *p; (p = *at) != NULL;) {
        if (p->login != l) {
            at = &p->next;
            continue;
        }
        pipe_close(p);
        *at = p->next;
        p->login = NULL;
    }
    fr_loop_withdraw(l->nodes->loop, &l->tell);
    fr_exec_destroy(&l->ex);
    fr_arena_finish(&l->arena);
    fr_sys.free(l);
}
