#include "tests/unit/exec/exec_peer.h"

static struct {
    int64_t now;
    struct fr_exec_event *shown;
    int engine;   /* depth of calls into the engine: only there memory may run out */
    long fail_in; /* allocations until one fails; 0: none does */
    bool failed;
    int64_t linger_ms; /* of the next world */
} peer_state = {1000, NULL, 0, 0, false, 0};

static bool runs_out(void)
{
    if (peer_state.engine == 0 || peer_state.fail_in == 0 || --peer_state.fail_in > 0)
        return false;
    peer_state.failed = true;
    return true;
}

static void *fake_alloc(size_t n)
{
    return runs_out() ? NULL : fr_sys_real.alloc(n);
}

static void *fake_realloc(void *p, size_t n)
{
    return runs_out() ? NULL : fr_sys_real.realloc(p, n);
}

void peer_fail(long nth)
{
    peer_state.fail_in = nth;
    peer_state.failed = false;
}

bool peer_failed(void)
{
    return peer_state.failed;
}

void peer_engine(int enter)
{
    peer_state.engine += enter;
}

static int64_t fake_mono(void)
{
    return peer_state.now;
}

/* --- the loop --- */

static enum fr_rc no_watch(void *self, int fd, fr_ready_fn *fn, void *arg, struct fr_watch **out)
{
    (void)self, (void)fd, (void)fn, (void)arg;
    *out = NULL;
    return FR_UNSUPPORTED;
}

static enum fr_rc make_timer(void *self, fr_due_fn *fn, void *arg, struct fr_timer **out)
{
    struct peer_loop *l = self;

    for (size_t i = 0; i < PEER_TIMERS; i++)
        if (!l->timers[i].used) {
            l->timers[i] = (struct fr_timer){true, -1, fn, arg};
            *out = &l->timers[i];
            return FR_OK;
        }
    return FR_NOMEM;
}

static void arm(void *self, struct fr_timer *t, int64_t due_ms)
{
    (void)self;
    t->due_ms = due_ms;
}

static void untimer(void *self, struct fr_timer *t)
{
    (void)self;
    t->used = false;
    t->due_ms = -1;
}

static void post(void *self, struct fr_post *p)
{
    struct peer_loop *l = self;

    if (p->waiting)
        return;
    p->waiting = true;
    p->next = NULL;
    *l->last = p;
    l->last = &p->next;
}

static void withdraw(void *self, struct fr_post *p)
{
    struct peer_loop *l = self;

    if (!p->waiting)
        return;
    p->waiting = false;
    for (struct fr_post **at = &l->first; *at != NULL; at = &(*at)->next)
        if (*at == p) {
            *at = p->next;
            if (l->last == &p->next)
                l->last = at;
            return;
        }
}

static void work_over(void *arg)
{
    struct fr_work *w = arg;

    w->over(w->arg);
}

static enum fr_rc work(void *self, struct fr_work *w)
{
    struct peer_loop *l = self;
    struct fr_work **at = &l->hung;

    w->post = (struct fr_post){.run = work_over, .arg = w};
    w->next = NULL;
    if (!l->hangs) {
        w->run(w->arg);
        post(l, &w->post);
        return FR_OK;
    }
    while (*at != NULL)
        at = &(*at)->next;
    *at = w;
    return FR_OK;
}

static bool forget(void *self, struct fr_work *w)
{
    struct peer_loop *l = self;

    for (struct fr_work *hung = l->hung; hung != NULL; hung = hung->next)
        if (hung == w) {
            w->over = w->drop;
            return false;
        }
    withdraw(l, &w->post);
    return true;
}

void peer_release(struct peer_world *w)
{
    struct fr_work *hung = w->loop.hung;

    hung->run(hung->arg);
    w->loop.hung = hung->next;
    post(&w->loop, &hung->post);
}

static const struct fr_loop_ops loop_ops = {
    .name = "test",
    .watch = no_watch,
    .timer = make_timer,
    .arm = arm,
    .untimer = untimer,
    .post = post,
    .withdraw = withdraw,
    .work = work,
    .forget = forget,
};

static struct fr_timer *next_timer(struct peer_loop *l)
{
    struct fr_timer *best = NULL;

    for (size_t i = 0; i < PEER_TIMERS; i++) {
        struct fr_timer *t = &l->timers[i];

        if (t->used && t->due_ms >= 0 && (best == NULL || t->due_ms < best->due_ms))
            best = t;
    }
    return best;
}

/* --- the nodes --- */

/* Bulk bytes that m counts against credit. */
static size_t bulk_of(const struct fr_msg *m)
{
    switch (m->type) {
    case FR_MSG_LOG:
        return m->log.bytes.n;
    case FR_MSG_TAIL:
        return m->tail.bytes.n;
    case FR_MSG_METRICS:
        return m->metrics.bytes.n;
    case FR_MSG_GET_DATA:
        return m->get_data.bytes.n;
    case FR_MSG_PIPE_DATA:
        return m->pipe_data.bytes.n;
    default:
        return 0;
    }
}

void peer_say(struct peer *p, const struct fr_msg *m)
{
    struct fr_err err;

    p->credit -= bulk_of(m);
    CHECK(fr_msg_put(m, &p->out, &err) == FR_OK);
}

static void on_hello(struct peer *p, const struct fr_hello *h)
{
    struct fr_msg m = {.type = FR_MSG_HELLO};

    m.hello = (struct fr_hello){.proto_min = FR_PROTO_MIN,
                                .proto_max = p->proto != 0 ? p->proto : FR_PROTO_MAX,
                                .build = FR_STR("b1"),
                                .home = {{7}},
                                .boot = fr_str_of(p->boot != NULL ? p->boot : "boot-1"),
                                .epoch = p->epoch,
                                .mono_ms = peer_state.now + p->clock};
    p->epoch = h->epoch;
    p->fence = h->home;
    p->channel = h->channel;
    p->n_runs = 0;
    peer_say(p, &m);
}

static size_t find_run(const struct peer *p, struct fr_id run)
{
    size_t i = 0;

    while (i < p->n_runs && !fr_id_eq(p->runs[i], run))
        i++;
    return i;
}

static void on_join(struct peer *p, struct fr_id run)
{
    if (find_run(p, run) == p->n_runs && CHECK(p->n_runs < sizeof(p->runs) / sizeof(p->runs[0])))
        p->runs[p->n_runs++] = run;
}

static void on_leave(struct peer *p, struct fr_id run)
{
    size_t i = find_run(p, run);

    if (CHECK(i < p->n_runs))
        p->runs[i] = p->runs[--p->n_runs];
}

/* What a run asks for comes after its join. */
static bool is_joined(const struct peer *p, const struct fr_msg *m)
{
    struct fr_id run = m->type == FR_MSG_PUT_BEGIN ? m->put_begin.run
                       : m->type == FR_MSG_GET     ? m->get.run
                       : m->type == FR_MSG_LEASE   ? m->lease.run
                       : p->n_runs > 0             ? p->runs[0]
                                                   : (struct fr_id){{0}};

    return find_run(p, run) < p->n_runs;
}

static void keep_message(struct peer *p, const struct fr_msg *m)
{
    if (CHECK(p->n_got < sizeof(p->got) / sizeof(p->got[0])))
        p->got[p->n_got++] = *m;
}

static void on_message(struct peer *p, const struct fr_msg *m)
{
    struct fr_msg pong = {.type = FR_MSG_PONG,
                          .pong = {m->ping.mono_ms, peer_state.now + p->clock, 0}};

    switch (m->type) {
    case FR_MSG_PING:
        p->pings++;
        peer_say(p, &pong);
        break;
    case FR_MSG_CREDIT:
        p->answers += m->credit.bytes == 0;
        p->credit += m->credit.bytes;
        p->credit_max = p->credit > p->credit_max ? p->credit : p->credit_max;
        break;
    case FR_MSG_HELLO:
        on_hello(p, &m->hello);
        break;
    case FR_MSG_JOIN:
        on_join(p, m->join.run);
        break;
    case FR_MSG_LEAVE:
        on_leave(p, m->leave.run);
        break;
    case FR_MSG_PIPE_OPEN:
    case FR_MSG_PIPE_DATA:
    case FR_MSG_PIPE_CLOSE:
        CHECK_INT(p->n_runs, 0);
        keep_message(p, m);
        break;
    default:
        CHECK(m->type == FR_MSG_PONG || is_joined(p, m));
        keep_message(p, m);
    }
}

static size_t link_send(void *self, const char *bytes, size_t n)
{
    struct peer *p = self;

    if (!p->up_now || p->reads_nothing)
        return 0;
    peer_engine(-1);
    if (!p->silent)
        fr_wire_feed(&p->in, bytes, n);
    p->taken += n;
    peer_engine(+1);
    return n;
}

static void link_close(void *self)
{
    struct peer *p = self;

    withdraw(p->loop, &p->up);
    p->open = p->up_now = false;
    fr_wire_finish(&p->in);
    p->in = (struct fr_wire_in){0};
    fr_buf_finish(&p->out);
    p->out = (struct fr_buf){0};
    p->credit = 0;
}

static void link_up(void *self)
{
    struct peer *p = self;
    struct fr_err err = {0};
    struct fr_link_events ev = p->ev;

    if (p->refuse != FR_OK) {
        fr_fail(&err, p->refuse, "refused by the test");
        link_close(p);
        ev.on_down(ev.arg, &err, false);
        return;
    }
    p->up_now = true;
    peer_engine(-1);
    fr_buf_text(&p->out, "motd\nof the node " FR_WIRE_MAGIC);
    peer_engine(+1);
    p->ev.on_up(p->ev.arg);
}

static enum fr_rc link_open(void *self, const struct fr_link_events *ev, struct fr_err *err)
{
    struct peer *p = self;

    (void)err;
    p->ev = *ev;
    p->opens++;
    p->open = true;
    p->up = (struct fr_post){.run = link_up, .arg = p};
    post(p->loop, &p->up);
    return FR_OK;
}

static void link_destroy(void *self)
{
    struct peer *p = self;

    link_close(p);
    p->linked = false;
}

static const struct fr_link_ops link_ops = {"test", link_open, link_send, link_close, link_destroy};

static enum fr_rc make_link(void *arg, const struct fr_exec_node *node, struct fr_link *out,
                            struct fr_err *err)
{
    struct peer_world *w = arg;

    for (size_t i = 0; i < w->n; i++)
        if (!w->nodes[i].linked && strcmp(w->infos[i].name, node->name) == 0) {
            *out = (struct fr_link){&link_ops, &w->nodes[i]};
            w->nodes[i].linked = true;
            return FR_OK;
        }
    CHECK_TEXT(node->name, "the name of a node without a link");
    return fr_fail(err, FR_BUG, "no node");
}

void peer_cut(struct peer *p, enum fr_rc rc)
{
    struct fr_err err = {0};
    struct fr_link_events ev = p->ev;

    fr_fail(&err, rc, "cut by the test");
    link_close(p);
    ev.on_down(ev.arg, &err, false);
}

/* Lets the node read what it was sent and say what it has to. true: something happened. */
static bool serve(struct peer *p)
{
    bool some = false, got = true;
    struct fr_err err = {0};

    while (p->up_now && got) {
        struct fr_msg m = {0};

        if (!CHECK(fr_wire_next(&p->in, &p->arena, &m, &got, &err) == FR_OK) || !got)
            break;
        on_message(p, &m);
        some = true;
    }
    if (p->up_now && p->out.n > 0 && !p->silent) {
        struct fr_buf say = p->out;

        p->out = (struct fr_buf){0};
        peer_engine(+1);
        p->ev.on_bytes(p->ev.arg, say.p, say.n);
        peer_engine(-1);
        fr_buf_finish(&say);
        some = true;
    }
    return some;
}

/* --- the world --- */

static void sink(void *arg, struct fr_exec_event *ev)
{
    struct peer_world *w = arg;

    ev->next = NULL;
    *w->events_last = ev;
    w->events_last = &ev->next;
}

static void other_sink(void *arg, struct fr_exec_event *ev)
{
    struct peer_other *o = arg;

    ev->next = NULL;
    *o->events_last = ev;
    o->events_last = &ev->next;
}

void peer_join(struct peer_world *w, struct peer_other *o, const struct fr_exec_node *nodes,
               size_t n)
{
    struct fr_nodes_run run = {.id = {{2}}, .nodes = nodes, .n = n, .sink = {other_sink, o}};
    struct fr_err err = {0};

    *o = (struct peer_other){.events_last = &o->events};
    CHECK(fr_nodes_join(w->all, &run, &o->ex, &err) == FR_OK);
}

void peer_run(struct peer_world *w)
{
    for (bool some = true; some;) {
        struct fr_timer *t = next_timer(&w->loop);

        some = false;
        while (w->loop.first != NULL) {
            struct fr_post *p = w->loop.first;

            withdraw(&w->loop, p);
            peer_engine(+1);
            p->run(p->arg);
            peer_engine(-1);
            some = true;
        }
        if (t != NULL && t->due_ms >= 0 && t->due_ms <= peer_state.now) {
            t->due_ms = -1;
            peer_engine(+1);
            t->fn(t->arg);
            peer_engine(-1);
            some = true;
        }
        for (size_t i = 0; i < w->n; i++)
            some = serve(&w->nodes[i]) || some;
    }
}

void peer_wait(struct peer_world *w, int64_t ms)
{
    int64_t until = peer_state.now + ms;

    peer_run(w);
    for (;;) {
        struct fr_timer *t = next_timer(&w->loop);

        if (t == NULL || t->due_ms > until)
            break;
        if (t->due_ms > peer_state.now)
            peer_state.now = t->due_ms;
        peer_run(w);
    }
    peer_state.now = until;
    peer_run(w);
}

void peer_hold_up(struct peer_world *w, int64_t ms)
{
    peer_state.now += ms;
    peer_run(w);
}

void peer_linger(int64_t ms)
{
    peer_state.linger_ms = ms;
}

/* node: of each, but for its name. */
static void setup(struct peer_world *w, size_t nodes, const struct fr_exec_node *node)
{
    static const char *const names[PEER_NODES] = {"n",  "n1", "n2", "n3", "n4",  "n5",
                                                  "n6", "n7", "n8", "n9", "n10", "n11"};
    struct fr_nodes_args args = {0};
    struct fr_nodes_run run = {0};
    struct fr_err err = {0};

    memset(w, 0, offsetof(struct peer_world, nodes));
    memset(w->nodes, 0, nodes * sizeof(w->nodes[0])); /* the others are not looked at */
    memset(w->infos, 0, sizeof(*w) - offsetof(struct peer_world, infos));
    fr_sys.mono_ms = fake_mono;
    fr_sys.alloc = fake_alloc;
    fr_sys.realloc = fake_realloc;
    w->loop.last = &w->loop.first;
    w->loop.loop = (struct fr_loop){&loop_ops, &w->loop};
    w->events_last = &w->events;
    w->n = nodes;
    for (size_t i = 0; i < nodes; i++) {
        w->nodes[i].loop = &w->loop;
        w->infos[i] = *node;
        w->infos[i].name = names[i];
    }
    args = (struct fr_nodes_args){.loop = &w->loop.loop,
                                  .control = {{1}},
                                  .epoch = 3,
                                  .linger_ms = peer_state.linger_ms,
                                  .make_link = make_link,
                                  .make_link_arg = w};
    run = (struct fr_nodes_run){.id = {{1}}, .nodes = w->infos, .n = nodes, .sink = {sink, w}};
    CHECK(fr_nodes_create(&w->all, &args, &err) == FR_OK);
    CHECK(fr_nodes_join(w->all, &run, &w->ex, &err) == FR_OK);
}

void peer_setup_limits(struct peer_world *w, size_t nodes, int64_t connect_ms, int64_t retry_for_ms)
{
    setup(w, nodes, &(struct fr_exec_node){.connect_ms = connect_ms, .retry_for_ms = retry_for_ms});
}

void peer_setup(struct peer_world *w, size_t nodes)
{
    peer_setup_limits(w, nodes, 30000, 120000);
}

static enum fr_rc find_place(void *arg, const struct fr_exec_node *node, struct fr_arena *arena,
                             struct fr_exec_place *out, struct fr_err *err)
{
    const struct peer_world *w = arg;

    (void)node;
    (void)arena;
    if (w->nowhere)
        return fr_fail(err, FR_BUSY, "the test says so");
    *out = (struct fr_exec_place){0}; /* make_link has it */
    return FR_OK;
}

void peer_setup_place(struct peer_world *w)
{
    setup(w, 1,
          &(struct fr_exec_node){
              .transport = FR_TRANSPORT_PLACE, .connect_ms = 30000, .retry_for_ms = 120000});
    fr_nodes_places(w->all, find_place, w);
}

static void free_all(struct fr_exec_event *ev)
{
    while (ev != NULL) {
        struct fr_exec_event *next = ev->next;

        fr_exec_event_free(ev);
        ev = next;
    }
}

void peer_other_finish(struct peer_other *o)
{
    fr_exec_destroy(&o->ex);
    free_all(o->events);
    *o = (struct peer_other){0};
}

void peer_finish(struct peer_world *w)
{
    fr_exec_destroy(&w->ex);
    fr_nodes_destroy(w->all);
    free_all(w->events);
    fr_exec_event_free(peer_state.shown);
    peer_state.shown = NULL;
    for (size_t i = 0; i < w->n; i++) {
        link_close(&w->nodes[i]);
        fr_arena_finish(&w->nodes[i].arena);
    }
    fr_sys = fr_sys_real;
}

const struct fr_msg *peer_got(struct peer *p, enum fr_msg_type type)
{
    static struct fr_msg found;

    for (size_t i = 0; i < p->n_got; i++)
        if (p->got[i].type == type) {
            found = p->got[i];
            p->n_got -= i + 1;
            memmove(p->got, p->got + i + 1, p->n_got * sizeof(p->got[0]));
            return &found;
        }
    return NULL;
}

static size_t count(const struct fr_exec_event *ev, enum fr_exec_kind kind)
{
    size_t n = 0;

    for (; ev != NULL; ev = ev->next)
        n += ev->kind == kind;
    return n;
}

static const struct fr_exec_event *take(struct fr_exec_event **events,
                                        struct fr_exec_event ***events_last, enum fr_exec_kind kind)
{
    if (count(*events, kind) == 0)
        return NULL;
    while (*events != NULL) {
        struct fr_exec_event *ev = *events;

        *events = ev->next;
        if (*events == NULL)
            *events_last = events;
        fr_exec_event_free(peer_state.shown);
        peer_state.shown = ev;
        if (ev->kind == kind)
            return ev;
    }
    return NULL;
}

const struct fr_exec_event *peer_event(struct peer_world *w, enum fr_exec_kind kind)
{
    return take(&w->events, &w->events_last, kind);
}

size_t peer_events(const struct peer_world *w, enum fr_exec_kind kind)
{
    return count(w->events, kind);
}

const struct fr_exec_event *peer_other_event(struct peer_other *o, enum fr_exec_kind kind)
{
    return take(&o->events, &o->events_last, kind);
}

size_t peer_other_events(const struct peer_other *o, enum fr_exec_kind kind)
{
    return count(o->events, kind);
}

void peer_connect(struct peer_world *w, size_t node)
{
    struct fr_err err = {0};

    CHECK(w->ex.ops->connect(w->ex.self, node, &err) == FR_OK);
    peer_run(w);
    CHECK(peer_event(w, FR_EXEC_UP) != NULL);
}
