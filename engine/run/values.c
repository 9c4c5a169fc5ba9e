/* Values when an attempt starts: secrets, and all that ${{ … }} may name. No secret is stored.
 * Those of a command or a file are asked for beside all else that goes on, once a start: either may
 * not answer. Those of a variable are in the memory of the run's driver, given by the shells of the
 * run. */
#include "engine/run/inside.h"

#include "engine/base/file.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SECRET_MAX = 64 << 10, ANSWER_MS = FR_FILE_SOON_MS, REAP_EVERY_MS = 20 };

struct reading { /* of a file, in a thread: it may outlive the run */
    struct fr_work work;
    char *path; /* owns */
    struct fr_buf value;
    struct fr_err err;
    struct run_answered *asker; /* the loop's thread's */
};

struct run_answered { /* what a command or a file is asked, and answers */
    struct run_answered *next;
    const struct fr_secret *secret;
    struct fr_run *run;
    struct fr_arena *arena;  /* of the start */
    struct fr_proc proc;     /* pid 0: none, or reaped */
    int fd;                  /* its stdout; -1: closed */
    struct reading *reading; /* NULL: it is a command, or the file was read */
    struct fr_watch *watch;
    struct fr_timer *timer;
    int64_t until_ms;
    struct fr_buf value;
    bool over;
    struct fr_err err; /* once over: rc FR_OK when value stands */
};

/* The newline that ends a file or an answer is not part of it. */
static enum fr_rc settle(struct fr_buf *b, size_t from, struct fr_err *err)
{
    while (b->n > from && (b->p[b->n - 1] == '\n' || b->p[b->n - 1] == '\r'))
        b->p[--b->n] = '\0';
    if (b->bad)
        return fr_fail(err, FR_NOMEM, "no memory for it");
    if (b->n > from && memchr(b->p + from, '\0', b->n - from) != NULL)
        return fr_fail(err, FR_USAGE, "it holds a NUL byte");
    return FR_OK;
}

enum fr_rc run_secret_read(const struct fr_secret *s, const struct fr_run_shell *shell,
                           struct fr_buf *out, struct fr_err *err)
{
    size_t before = out->n;
    const char *value = s->from == FR_SECRET_ENV ? shell->getenv(shell->self, s->arg) : NULL;
    enum fr_rc rc = FR_OK;

    if (s->from == FR_SECRET_FILE)
        rc = fr_file_read_soon(s->arg, SECRET_MAX, out, err);
    else if (value == NULL)
        rc = fr_fail(err, FR_NOTFOUND, "the variable %s is not set", s->arg);
    else
        fr_buf_text(out, value);
    if (rc == FR_OK && s->from == FR_SECRET_FILE)
        rc = settle(out, before, err);
    return rc == FR_OK ? rc : fr_while(err, "secret '%s'", s->name);
}

const struct fr_secret *run_secret_find(const struct fr_spec *spec, const char *name)
{
    for (size_t i = 0; i < spec->n_secrets; i++)
        if (strcmp(spec->secrets[i].name, name) == 0)
            return &spec->secrets[i];
    return NULL;
}

enum fr_rc run_secret(const struct run_scope *scope, const char *name, struct fr_buf *out,
                      struct fr_err *err)
{
    const struct fr_secret *s = run_secret_find(scope->run->spec, name);

    if (s != NULL && s->from == FR_SECRET_ENV)
        return run_secret_read(s, &scope->run->env.shell, out, err);
    for (const struct run_answered *t = scope->secrets; t != NULL; t = t->next)
        if (t->secret == s) {
            fr_buf_add(out, t->value.p != NULL ? t->value.p : "", t->value.n);
            return out->bad ? fr_fail(err, FR_NOMEM, "no memory for secret '%s'", name) : FR_OK;
        }
    return fr_fail(err, FR_NOTFOUND, "there is no secret '%s'", name);
}

/* ---- asking ---- */

static void drop_reading(void *arg)
{
    struct reading *r = arg;

    if (r == NULL)
        return;
    fr_buf_finish(&r->value);
    fr_sys.free(r->path);
    fr_sys.free(r);
}

static void close_fd(struct run_answered *t)
{
    fr_loop_unwatch(t->run->env.loop, &t->watch);
    if (t->fd >= 0)
        fr_sys.close(t->fd);
    t->fd = -1;
}

struct reaping {
    struct fr_work work;
    pid_t pid;
};

static void reap_it(void *arg)
{
    struct fr_wait w;

    while (fr_sys.wait(((struct reaping *)arg)->pid, &w, 0) < 0 && errno == EINTR)
        ;
}

/* One that a dead file system holds ends when that answers: nothing waits for it. */
static void reap_later(struct fr_loop *loop, pid_t pid)
{
    struct reaping *r = fr_sys.alloc(sizeof(*r));

    if (r == NULL)
        return; /* it stays in the process table */
    *r = (struct reaping){.pid = pid,
                          .work = {.run = reap_it, .over = fr_sys.free, .drop = fr_sys.free}};
    r->work.arg = r;
    if (fr_loop_work(loop, &r->work) != FR_OK)
        fr_sys.free(r);
}

/* The command or the file is over; the next drain continues the start. */
static void end(struct run_answered *t, enum fr_rc rc)
{
    struct fr_loop *loop = t->run->env.loop;

    close_fd(t);
    fr_loop_arm(loop, t->timer, -1);
    if (t->reading != NULL && fr_loop_forget(loop, &t->reading->work))
        drop_reading(t->reading);
    t->reading = NULL;
    if (t->proc.pid != 0) {
        fr_sys.kill(t->proc, SIGKILL);
        reap_later(loop, t->proc.pid);
    }
    t->proc.pid = 0;
    t->over = t->run->secrets_ready = true;
    run_wake(t->run);
    t->err.rc = rc;
    if (rc != FR_OK)
        fr_while(&t->err, "secret '%s'", t->secret->name);
}

/* Its stdout is closed: how did it end? */
static void reap(struct run_answered *t)
{
    struct fr_wait w = {0};

    if (fr_sys.wait(t->proc.pid, &w, FR_WAIT_NOHANG) == 0 && w.pid == 0) {
        fr_loop_arm_in(t->run->env.loop, t->timer, REAP_EVERY_MS);
        return;
    }
    t->proc.pid = 0;
    if (w.pid == 0 || w.signaled || w.code != 0)
        end(t, fr_fail(&t->err, FR_USAGE, "its command ended with %s %d",
                       w.signaled ? "signal" : "exit code", w.code));
    else
        end(t, settle(&t->value, 0, &t->err));
}

static void on_time(void *arg)
{
    struct run_answered *t = arg;

    if (fr_sys.mono_ms() >= t->until_ms && t->reading != NULL)
        end(t, fr_fail(&t->err, FR_TIMEOUT, "%s: its file system does not answer within %d s",
                       t->reading->path, ANSWER_MS / 1000));
    else if (fr_sys.mono_ms() >= t->until_ms)
        end(t, fr_fail(&t->err, FR_TIMEOUT, "no answer within %d s", ANSWER_MS / 1000));
    else
        reap(t);
}

static void on_bytes(void *arg, int what)
{
    struct run_answered *t = arg;
    char chunk[4096];
    ssize_t n = fr_sys.read(t->fd, chunk, sizeof(chunk));

    (void)what;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n < 0) {
        end(t, fr_fail_errno(&t->err, errno, "reading its answer"));
    } else if (t->value.n + (size_t)n > SECRET_MAX) {
        end(t, fr_fail(&t->err, FR_USAGE, "its answer is longer than %d bytes", SECRET_MAX));
    } else if (n > 0) {
        fr_buf_add(&t->value, chunk, (size_t)n);
    } else {
        close_fd(t);
        reap(t);
    }
}

static void read_it(void *arg)
{
    struct reading *r = arg;

    (void)fr_file_read(r->path, SECRET_MAX, &r->value, &r->err);
}

static void on_read(void *arg)
{
    struct reading *r = arg;
    struct run_answered *t = r->asker;

    t->reading = NULL;
    t->value = r->value;
    r->value = (struct fr_buf){0};
    t->err = r->err;
    drop_reading(r);
    end(t, t->err.rc == FR_OK ? settle(&t->value, 0, &t->err) : t->err.rc);
}

static enum fr_rc start_reading(struct run_answered *t, struct fr_err *err)
{
    struct fr_loop *loop = t->run->env.loop;
    struct reading *r = fr_sys.alloc(sizeof(*r));
    size_t n = strlen(t->secret->arg) + 1;
    enum fr_rc rc = FR_OK;

    if (r != NULL) {
        *r = (struct reading){.path = fr_sys.alloc(n), .asker = t};
        r->work = (struct fr_work){.run = read_it, .over = on_read, .drop = drop_reading, .arg = r};
    }
    if (r == NULL || r->path == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory to read %s", t->secret->arg);
    else if ((rc = fr_loop_timer(loop, on_time, t, &t->timer)) != FR_OK)
        fr_fail(err, rc, "no timer");
    if (rc == FR_OK) {
        memcpy(r->path, t->secret->arg, n);
        t->until_ms = fr_sys.mono_ms() + ANSWER_MS;
        fr_loop_arm(loop, t->timer, t->until_ms);
        if ((rc = fr_loop_work(loop, &r->work)) != FR_OK)
            fr_fail(err, rc, "no thread to read %s", r->path);
    }
    if (rc != FR_OK)
        drop_reading(r);
    t->reading = rc == FR_OK ? r : NULL;
    return rc;
}

static enum fr_rc start(struct run_answered *t, struct fr_err *err)
{
    struct fr_loop *loop = t->run->env.loop;
    const char *const argv[] = {"sh", "-c", t->secret->arg, NULL};
    struct fr_spawn s = {.argv = argv,
                         .envp = run_shell_environ(t->run, t->arena),
                         .cwd = t->run->row.folder,
                         .umask = t->run->shell_umask,
                         .fds = {-1, -1, -1},
                         .new_session = true,
                         .die_with_parent = true};
    int fds[2];
    enum fr_rc rc;

    if (s.envp == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for its environment");
    if ((rc = fr_loop_timer(loop, on_time, t, &t->timer)) != FR_OK)
        return fr_fail(err, rc, "no timer");
    if (fr_sys.pipe(fds) != 0)
        return fr_fail_errno(err, errno, "making a pipe");
    t->fd = fds[0];
    s.fds[1] = fds[1];
    if (fr_sys.set_nonblock(t->fd, true) != 0)
        rc = fr_fail_errno(err, errno, "making a pipe");
    else if ((rc = fr_loop_watch(loop, t->fd, on_bytes, t, &t->watch)) != FR_OK)
        rc = fr_fail(err, rc, "watching a pipe");
    else if (fr_sys.spawn(&s, &t->proc) != 0) {
        t->proc.pid = 0;
        rc = fr_fail_errno(err, errno, "starting sh");
    }
    fr_sys.close(fds[1]);
    if (rc != FR_OK)
        return rc;
    t->until_ms = fr_sys.mono_ms() + ANSWER_MS;
    fr_loop_arm(loop, t->timer, t->until_ms);
    fr_loop_want(loop, t->watch, FR_LOOP_READ);
    return FR_OK;
}

/* ---- all that an action holds ---- */

void run_each_ref(const struct fr_action *act, bool (*fn)(void *arg, const struct fr_ref *ref),
                  void *arg)
{
    for (size_t i = 0; i < act->n_env; i++)
        fr_text_refs(&act->env[i].value, fn, arg);
    for (size_t i = 0; i < act->n_with; i++)
        for (size_t k = 0; k < act->with[i].n; k++)
            fr_text_refs(&act->with[i].items[k].value, fn, arg);
}

struct asking {
    struct fr_run *run;
    struct fr_arena *arena;
    struct run_answered **list;
    struct fr_err *err;
    enum fr_rc rc;
};

static bool ask_ref(void *arg, const struct fr_ref *ref)
{
    struct asking *a = arg;
    const struct fr_secret *s =
        ref->kind == FR_REF_SECRET ? run_secret_find(a->run->spec, ref->name) : NULL;
    struct run_answered *t;

    if (s == NULL || s->from == FR_SECRET_ENV || a->rc != FR_OK)
        return a->rc == FR_OK;
    for (t = *a->list; t != NULL; t = t->next)
        if (t->secret == s)
            return true;
    if ((t = fr_arena_alloc(a->arena, sizeof(*t))) == NULL) {
        a->rc = fr_fail(a->err, FR_NOMEM, "no memory for secret '%s'", s->name);
        return false;
    }
    *t = (struct run_answered){
        .next = *a->list, .secret = s, .run = a->run, .arena = a->arena, .fd = -1};
    *a->list = t;
    a->rc = s->from == FR_SECRET_FILE ? start_reading(t, a->err) : start(t, a->err);
    if (a->rc != FR_OK)
        fr_while(a->err, "secret '%s'", s->name);
    return a->rc == FR_OK;
}

enum fr_rc run_secrets_ask(struct fr_run *run, const struct fr_action *act, struct fr_arena *arena,
                           struct run_answered **out, struct fr_err *err)
{
    struct asking a = {run, arena, out, err, FR_OK};

    run_each_ref(act, ask_ref, &a);
    return a.rc;
}

bool run_secrets_ready(const struct run_answered *list, bool *passes, struct fr_err *err)
{
    *passes = false;
    err->rc = FR_OK;
    for (const struct run_answered *t = list; t != NULL; t = t->next) {
        if (!t->over)
            return false;
        if (t->err.rc == FR_OK)
            continue;
        *err = t->err;
        *passes = t->secret->from == FR_SECRET_COMMAND;
    }
    return true;
}

void run_secrets_drop(struct run_answered *list)
{
    for (struct run_answered *t = list; t != NULL; t = t->next) {
        if (!t->over && t->timer != NULL)
            end(t, FR_STOPPED);
        fr_loop_untimer(t->run->env.loop, &t->timer);
        fr_buf_finish(&t->value);
    }
}

/* ---- outputs ---- */

const char *run_output(const struct fr_run *run, uint32_t inst, const char *name)
{
    const struct fr_strs *outs = &run->insts[inst].outputs;
    size_t n = strlen(name);

    for (size_t i = 0; i < outs->n; i++)
        if (outs->v[i].n > n && memcmp(outs->v[i].p, name, n) == 0 && outs->v[i].p[n] == '=')
            return outs->v[i].p + n + 1;
    return NULL;
}

static enum fr_rc output_inst(const struct run_scope *scope, const struct fr_ref *ref,
                              uint32_t *inst, struct fr_err *err)
{
    const struct fr_plan *plan = scope->run->plan;
    const struct fr_plan_task *task = &plan->tasks[ref->task];
    const struct fr_plan_inst *own = &plan->insts[scope->inst];
    uint32_t node = own->node, item = task->spec->items != NULL ? own->item : 0;

    *inst = task->first + item * task->width;
    if (ref->where == FR_WHERE_HEAD)
        return FR_OK;
    if (ref->where == FR_WHERE_NODE)
        node = fr_plan_node_of(plan, ref->node);
    *inst = fr_plan_inst_on(plan, (uint32_t)ref->task, item, node);
    if (*inst == FR_PLAN_NONE && ref->where == FR_WHERE_SAME && task->width == 1)
        *inst = task->first + item * task->width;
    if (*inst != FR_PLAN_NONE)
        return FR_OK;
    if (ref->where == FR_WHERE_NODE)
        return fr_fail(err, FR_NOTFOUND, "task %s does not run on %s", task->name,
                       plan->nodes[node].name);
    return fr_fail(err, FR_NOTFOUND,
                   "task %s runs on several nodes, but not on %s: write "
                   "tasks.%s.on('%s').outputs.%s or tasks.%s.on_head.outputs.%s",
                   task->name, plan->nodes[node].name, task->name,
                   plan->nodes[plan->insts[task->first].node].name, ref->name, task->name,
                   ref->name);
}

static enum fr_rc get_output(struct run_scope *scope, const struct fr_ref *ref, struct fr_buf *out,
                             struct fr_err *err)
{
    uint32_t inst;
    const char *value;
    enum fr_rc rc = output_inst(scope, ref, &inst, err);

    if (rc != FR_OK)
        return rc;
    if (!run_node_local(scope->run, run_node_of(scope->run, inst)))
        scope->other_node = scope->run->plan->nodes[run_node_of(scope->run, inst)].name;
    if ((value = run_output(scope->run, inst, ref->name)) == NULL)
        return fr_fail(err, FR_NOTFOUND, "%s (%s) gave no output '%s'",
                       scope->run->plan->insts[inst].key,
                       fr_state_name(fr_sched_row(scope->run->sched, inst, fr_sys.mono_ms()).state),
                       ref->name);
    fr_buf_text(out, value);
    return FR_OK;
}

/* ---- the rest ---- */

static enum fr_rc get_node(const struct run_scope *scope, uint32_t index, const char *name,
                           struct fr_buf *out)
{
    const struct fr_plan_node *pn = &scope->run->plan->nodes[index];
    const struct fr_node *node = pn->spec;

    if (strcmp(name, "name") == 0)
        fr_buf_text(out, pn->name);
    else if (strcmp(name, "address") == 0)
        fr_buf_text(out, run_node_address(scope->run, index));
    else if (strcmp(name, "index") == 0)
        fr_buf_fmt(out, "%d", node != NULL ? (int)index : -1);
    else if (strcmp(name, "user") == 0)
        fr_buf_text(out, node != NULL && node->user != NULL ? node->user : "");
    else if (strcmp(name, "gpus") == 0)
        fr_buf_fmt(out, "%d", node != NULL ? node->gpus : 0);
    else if (strcmp(name, "slots") == 0)
        fr_buf_fmt(out, "%u", pn->slots);
    else if (strcmp(name, "work") == 0)
        fr_buf_text(out, node != NULL && node->work != NULL ? node->work : "");
    else if (strcmp(name, "executor") == 0)
        fr_buf_text(out, fr_executor_name(node));
    else if (strcmp(name, "labels") == 0)
        for (size_t i = 0; node != NULL && i < node->n_labels; i++)
            fr_buf_fmt(out, "%s%s", i > 0 ? "," : "", node->labels[i]);
    return FR_OK;
}

static enum fr_rc get_run(const struct run_scope *scope, const char *name, struct fr_buf *out)
{
    char id[FR_ID_TEXT];
    struct fr_run_now now = fr_sched_now(scope->run->sched);

    fr_id_text(scope->run->id, id);
    if (strcmp(name, "id") == 0)
        fr_buf_text(out, id);
    else if (strcmp(name, "name") == 0)
        fr_buf_text(out, scope->run->spec->name);
    else
        fr_buf_text(out, now.outcome != FR_OUT_NONE ? fr_outcome_name(now.outcome)
                                                    : fr_run_state_name(now.state));
    return FR_OK;
}

static enum fr_rc get(void *self, const struct fr_ref *ref, struct fr_buf *out, struct fr_err *err)
{
    struct run_scope *scope = self;
    const struct fr_plan_inst *pi = &scope->run->plan->insts[scope->inst];
    bool failed;

    switch (ref->kind) {
    case FR_REF_OUTPUT:
        return get_output(scope, ref, out, err);
    case FR_REF_ALL:
    case FR_REF_ITEMS:
    case FR_REF_BEST:
        return run_fan_value(scope->run, ref, out, err);
    case FR_REF_MATRIX:
        fr_buf_text(
            out,
            scope->run->plan->tasks[pi->task].spec->items->v[pi->item].values[ref->index].text);
        return FR_OK;
    case FR_REF_ITEM:
        return fr_item_member(&scope->run->plan->tasks[pi->task].spec->items->v[pi->item],
                              ref->name, out, err);
    case FR_REF_INDEX:
        fr_buf_fmt(out, "%u", pi->item);
        return FR_OK;
    case FR_REF_NODE:
        return get_node(scope, pi->node, ref->name, out);
    case FR_REF_HEAD:
        return get_node(scope, 0, ref->name, out);
    case FR_REF_NODES:
        fr_buf_fmt(out, "%zu", scope->run->spec->n_nodes);
        return FR_OK;
    case FR_REF_RUN:
        return get_run(scope, ref->name, out);
    case FR_REF_SCHEDULE:
        fr_buf_text(out, run_occasion(scope->run, ref->name));
        return FR_OK;
    case FR_REF_ATTEMPT:
        fr_buf_fmt(out, "%u", scope->attempt_no);
        return FR_OK;
    case FR_REF_SECRET:
        scope->no_secret |= run_secret(scope, ref->name, out, err) != FR_OK;
        return scope->no_secret ? err->rc : FR_OK;
    default:
        failed = fr_sched_needs_failed(scope->run->sched, scope->inst);
        fr_buf_text(out, failed == (ref->kind == FR_REF_FAILURE) ? "true" : "false");
        return FR_OK;
    }
}

enum fr_rc run_value(const struct run_scope *scope, enum fr_rc rc)
{
    scope->run->no_value = rc != FR_OK && rc != FR_NOMEM && !scope->no_secret;
    return rc;
}

struct fr_resolver run_resolver(struct run_scope *scope)
{
    return (struct fr_resolver){scope, get};
}
