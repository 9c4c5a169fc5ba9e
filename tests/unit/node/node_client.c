#include "tests/unit/node/node_client.h"

void client_send(struct client *c, const struct fr_msg *m)
{
    struct fr_buf b = {0};
    struct fr_msg join = {.type = FR_MSG_JOIN, .join = {m->prepare.run}};

    if (m->type == FR_MSG_PREPARE)
        CHECK(fr_msg_put(&join, &b, NULL) == FR_OK);
    CHECK(fr_msg_put(m, &b, NULL) == FR_OK);
    fr_write_full(c->to, b.p, b.n);
    fr_buf_finish(&b);
}

void client_join(struct client *c, struct fr_id run)
{
    struct fr_msg m = {.type = FR_MSG_JOIN, .join = {run}};

    client_send(c, &m);
}

static struct fr_id attempt_of(const struct fr_msg *m)
{
    switch (m->type) {
    case FR_MSG_PREPARED:
    case FR_MSG_LAUNCHED:
    case FR_MSG_BUSY:
    case FR_MSG_LOG:
    case FR_MSG_ENDED:
    case FR_MSG_STATE:
        return m->prepared.attempt; /* the first field of each */
    default:
        return (struct fr_id){{0}};
    }
}

struct fr_msg client_next(struct client *c)
{
    struct fr_msg m = {0};
    struct fr_err err;
    char piece[4096];
    bool got = false;

    while (!got) {
        if (fr_wire_next(&c->in, &c->arena, &m, &got, &err) != FR_OK) {
            CHECK_TEXT(err.msg, "no error");
            c->closed = true;
            return (struct fr_msg){0};
        }
        if (got)
            break;
        ssize_t k = fr_sys.read(c->from, piece, sizeof(piece));
        if (k <= 0) {
            c->closed = true;
            return (struct fr_msg){0};
        }
        fr_wire_feed(&c->in, piece, (size_t)k);
    }
    if (m.type == FR_MSG_LOG) {
        fr_buf_add(&c->log, m.log.bytes.p, m.log.bytes.n);
        struct fr_msg credit = {.type = FR_MSG_CREDIT, .credit = {m.log.bytes.n}};
        client_send(c, &credit);
    }
    return m;
}

struct fr_msg client_expect(struct client *c, enum fr_msg_type type, struct fr_id id)
{
    for (;;) {
        struct fr_msg m = client_next(c);
        if (c->closed || (m.type == type && (fr_id_zero(id) || fr_id_eq(attempt_of(&m), id)))) {
            if (c->closed)
                CHECK_TEXT("the stream ended", fr_msg_name(type));
            return m;
        }
    }
}

/* Says hello over the pipes of a process that becomes a serve, and awaits the answer. */
static void say_hello(struct client *c, const struct client_args *args)
{
    struct fr_msg m = {.type = FR_MSG_HELLO};

    m.hello = (struct fr_hello){.proto_min = FR_PROTO_MIN,
                                .proto_max = FR_PROTO_MAX,
                                .home = args->store,
                                .epoch = args->epoch,
                                .keep_days = args->keep_days,
                                .channel = args->channel};
    client_send(c, &m);
    m = (struct fr_msg){.type = FR_MSG_CREDIT, .credit = {FR_CREDIT_MAX}};
    if (!args->no_credit)
        client_send(c, &m);
    c->node = client_expect(c, FR_MSG_HELLO, any).hello;
}

struct client client_begin(const struct client_args *args)
{
    struct client c = {.in = {.magic = true, .swaps = args->relay}};
    int to[2] = {-1, -1}, from[2] = {-1, -1};

    CHECK(fr_sys.pipe(to) == 0 && fr_sys.pipe(from) == 0);
    c.pid = fork();
    if (c.pid == 0) {
        struct fr_serve_args a = {.home = args->home,
                                  .self = args->self,
                                  .build = "test",
                                  .environ = (const char *const *)environ,
                                  .in = to[0],
                                  .out = from[1],
                                  .descriptors = args->descriptors};
        close(to[1]);
        close(from[0]);
        if (args->argv == NULL)
            _exit(fr_serve(&a, NULL) == FR_OK ? 0 : 1);
        if (dup2(to[0], 0) == 0 && dup2(from[1], 1) == 1)
            execvp(args->argv[0], args->argv);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    c.to = to[1];
    c.from = from[0];
    say_hello(&c, args);
    return c;
}

struct client client_open(const char *home, const char *self, uint64_t epoch)
{
    return client_begin(&(struct client_args){.home = home, .self = self, .epoch = epoch});
}

int client_close(struct client *c, bool killed)
{
    int status = 0;

    if (killed)
        kill(c->pid, SIGKILL);
    close(c->to);
    close(c->from);
    waitpid(c->pid, &status, 0);
    fr_wire_finish(&c->in);
    fr_buf_finish(&c->log);
    fr_arena_finish(&c->arena);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

struct fr_id new_id(void)
{
    struct fr_id id = {{0}};

    CHECK(fr_id_new(&id, NULL) == FR_OK);
    return id;
}

struct fr_msg sh_prepare(struct fr_str words[3], const char *script, bool go_now)
{
    struct fr_msg m = {.type = FR_MSG_PREPARE};

    words[0] = FR_STR("/bin/sh");
    words[1] = FR_STR("-c");
    words[2] = fr_str_of(script);
    m.prepare.attempt = new_id();
    m.prepare.run = new_id();
    m.prepare.instance = FR_STR("task");
    m.prepare.generation = 1;
    m.prepare.spec_hash = FR_STR("hash");
    m.prepare.go_now = go_now;
    m.prepare.request.argv = (struct fr_strs){words, 3};
    m.prepare.request.grace_ms = 200;
    m.prepare.request.port = FR_PORT_NONE;
    return m;
}

void client_stop(struct client *c, struct fr_id id, int64_t grace_ms)
{
    struct fr_msg m = {.type = FR_MSG_STOP, .stop = {id, grace_ms, 7, false}};

    client_send(c, &m);
}

void client_attach(struct client *c, struct fr_id id, uint64_t offset)
{
    struct fr_msg m = {.type = FR_MSG_ATTACH, .attach = {id, offset}};

    client_send(c, &m);
}

enum fr_attempt_status client_status(struct client *c, struct fr_id id)
{
    struct fr_msg m = {.type = FR_MSG_FACTS, .facts = {99}};

    client_send(c, &m);
    client_expect(c, FR_MSG_FACTS_ARE, any);
    m = (struct fr_msg){.type = FR_MSG_QUERY, .query = {{&id, 1}}};
    client_send(c, &m);
    return (enum fr_attempt_status)client_expect(c, FR_MSG_STATE, id).state.status;
}

void client_await_log(struct client *c, const char *text)
{
    while (!c->closed && (c->log.p == NULL || strstr(c->log.p, text) == NULL))
        client_next(c);
}

void client_await_bytes(struct client *c, uint64_t size)
{
    while (!c->closed && c->log.n < size)
        client_next(c);
    CHECK_INT(c->log.n, size);
}

int processes_of(struct fr_id id)
{
    struct fr_procinfo *list;
    char text[FR_ID_TEXT];
    size_t n;
    int found = 0;

    fr_id_text(id, text);
    CHECK(fr_sys.procs(&list, &n) == 0);
    for (size_t i = 0; i < n; i++)
        found += strcmp(list[i].marker, text) == 0 && list[i].state != 'Z';
    fr_sys.free(list);
    return found;
}
