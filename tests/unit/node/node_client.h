/*
 * The engine's side of a flownode, as small as a test needs it: serve runs as a child of the test
 * over two pipes; messages are sent, and waited for by type and attempt. Blocking: what does not
 * come hangs the test, and the runner's time limit ends it.
 */
#ifndef TESTS_UNIT_NODE_CLIENT_H
#define TESTS_UNIT_NODE_CLIENT_H

#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "engine/node/serve.h"
#include "engine/wire/wire.h"
#include "tests/unit/check.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static const struct fr_id any = {{0}}; /* for client_expect(): of whichever attempt */
static size_t node_descriptors;        /* that the next serve may have open; 0: any number */

struct client {
    pid_t pid;
    int to, from;
    struct fr_wire_in in;
    struct fr_arena arena;
    struct fr_hello node;
    struct fr_buf log; /* bytes of every log piece */
    bool closed;
};

/* The run of a prepare joins first. */
static inline void client_send(struct client *c, const struct fr_msg *m)
{
    struct fr_buf b = {0};
    struct fr_err err;
    struct fr_msg join = {.type = FR_MSG_JOIN, .join = {m->prepare.run}};

    if (m->type == FR_MSG_PREPARE)
        CHECK(fr_msg_put(&join, &b, &err) == FR_OK);
    CHECK(fr_msg_put(m, &b, &err) == FR_OK);
    fr_write_full(c->to, b.p, b.n);
    fr_buf_finish(&b);
}

static inline void client_join(struct client *c, struct fr_id run)
{
    struct fr_msg m = {.type = FR_MSG_JOIN, .join = {run}};

    client_send(c, &m);
}

static inline struct fr_id attempt_of(const struct fr_msg *m)
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

/* The next message. closed is set, and type is 0, when the stream ended. */
static inline struct fr_msg client_next(struct client *c)
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

/* Waits for a message of that type (and attempt, unless zero), passing over all others. */
static inline struct fr_msg client_expect(struct client *c, enum fr_msg_type type, struct fr_id id)
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

/* What hello says, and which serve. */
struct client_args {
    const char *home, *self;
    uint64_t epoch;
    uint32_t keep_days;
    struct fr_id store, channel;
    bool no_credit; /* none is granted at first */
};

/* Starts serve and says hello. */
static inline struct client client_begin(const struct client_args *args)
{
    struct client c = {.in = {.magic = true}};
    struct fr_msg m = {.type = FR_MSG_HELLO};
    int to[2] = {-1, -1}, from[2] = {-1, -1};

    CHECK(fr_sys.pipe(to) == 0 && fr_sys.pipe(from) == 0);
    c.pid = fork();
    if (c.pid == 0) {
        struct fr_serve_args a = {
            args->home, args->self, "test",          (const char *const *)environ,
            to[0],      from[1],    node_descriptors};
        struct fr_err err;
        close(to[1]);
        close(from[0]);
        _exit(fr_serve(&a, &err) == FR_OK ? 0 : 1);
    }
    close(to[0]);
    close(from[1]);
    c.to = to[1];
    c.from = from[0];
    m.hello = (struct fr_hello){.proto_min = FR_PROTO_MIN,
                                .proto_max = FR_PROTO_MAX,
                                .home = args->store,
                                .epoch = args->epoch,
                                .keep_days = args->keep_days,
                                .channel = args->channel};
    client_send(&c, &m);
    m = (struct fr_msg){.type = FR_MSG_CREDIT, .credit = {FR_CREDIT_MAX}};
    if (!args->no_credit)
        client_send(&c, &m);
    c.node = client_expect(&c, FR_MSG_HELLO, any).hello;
    return c;
}

/* With that epoch, and how long ended attempts are kept. */
static inline struct client client_open_keeping(const char *home, const char *self, uint64_t epoch,
                                                uint32_t keep_days)
{
    return client_begin(
        &(struct client_args){.home = home, .self = self, .epoch = epoch, .keep_days = keep_days});
}

static inline struct client client_open(const char *home, const char *self, uint64_t epoch)
{
    return client_open_keeping(home, self, epoch, 0);
}

/* Ends serve by end of input, or by SIGKILL; its exit status. */
static inline int client_close(struct client *c, bool killed)
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

static inline struct fr_id new_id(void)
{
    struct fr_id id = {{0}};
    struct fr_err err;

    CHECK(fr_id_new(&id, &err) == FR_OK);
    return id;
}

/* A prepare of `sh -c script`, to be changed and sent. words: three places that stay as long as it.
 */
static inline struct fr_msg sh_prepare(struct fr_str words[3], const char *script, bool go_now)
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

static inline void client_stop(struct client *c, struct fr_id id, int64_t grace_ms)
{
    struct fr_msg m = {.type = FR_MSG_STOP, .stop = {id, grace_ms, 7}};

    client_send(c, &m);
}

static inline void client_attach(struct client *c, struct fr_id id, uint64_t offset)
{
    struct fr_msg m = {.type = FR_MSG_ATTACH, .attach = {id, offset}};

    client_send(c, &m);
}

/* What the node says now: answers to earlier messages (an attach is answered with a state, too) are
 * read first. */
static inline enum fr_attempt_status client_status(struct client *c, struct fr_id id)
{
    struct fr_msg m = {.type = FR_MSG_FACTS, .facts = {99}};

    client_send(c, &m);
    client_expect(c, FR_MSG_FACTS_ARE, any);
    m = (struct fr_msg){.type = FR_MSG_QUERY, .query = {{&id, 1}}};
    client_send(c, &m);
    return (enum fr_attempt_status)client_expect(c, FR_MSG_STATE, id).state.status;
}

/* Reads until the log holds text. */
static inline void client_await_log(struct client *c, const char *text)
{
    while (!c->closed && (c->log.p == NULL || strstr(c->log.p, text) == NULL))
        client_next(c);
}

/* Reads until the whole log up to size is there. */
static inline void client_await_bytes(struct client *c, uint64_t size)
{
    while (!c->closed && c->log.n < size)
        client_next(c);
    CHECK_INT(c->log.n, size);
}

/* How many live processes carry the attempt's marker. */
static inline int processes_of(struct fr_id id)
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

#endif
