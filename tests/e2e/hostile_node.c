/*
 * A flownode that breaks the protocol in one way, named by its home (way_of): FLOWRUN_LIBEXEC
 * leads flowrun to it, which ships it to nodes over SSH as it would the real one. Homes with other
 * names get the real flownode (REAL_FLOWNODE). What it was sent is kept in HOME/got. On its second
 * connection it behaves, and refuses what it is asked to start, so that the run ends.
 */
#include "tests/e2e/hostile.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void node_put(const void *p, size_t n)
{
    for (size_t done = 0; done < n;) {
        ssize_t k = write(1, (const char *)p + done, n - done);
        if (k <= 0)
            exit(1); /* cut off */
        done += (size_t)k;
    }
}

void node_say(const struct fr_msg *m)
{
    struct fr_buf b = {0};

    if (fr_msg_put(m, &b, NULL) != FR_OK)
        exit(3);
    node_put(b.p, b.n);
    fr_buf_finish(&b);
}

void node_frame(uint32_t len, uint8_t type, const void *p, size_t n)
{
    uint8_t head[FR_FRAME_HEAD];

    fr_put_u32(head, len);
    head[4] = type;
    node_put(head, sizeof(head));
    node_put(p, n);
}

void node_refuse(struct fr_id attempt, const char *text)
{
    struct fr_msg m = {.type = FR_MSG_PREPARED,
                       .prepared = {attempt, FR_DENIED, fr_str_of(text), 0}};

    node_say(&m);
}

void node_ended(struct fr_id attempt, int code, struct fr_strs outputs, uint64_t log_bytes)
{
    struct fr_msg m = {.type = FR_MSG_ENDED};

    m.ended = (struct fr_ended){.attempt = attempt,
                                .cause = FR_END_EXIT,
                                .code = code,
                                .launched = true,
                                .outputs = outputs,
                                .log_bytes = log_bytes};
    node_say(&m);
}

void node_launched(struct node *n)
{
    struct fr_msg m = {.type = FR_MSG_LAUNCHED, .launched = {n->attempt, 4711, 5}};

    node_say(&m);
}

static const struct way *way;

/* Each node is a machine of its own. */
void node_hello(int64_t mono_ms, uint32_t proto, struct fr_str boot)
{
    struct fr_msg m = {.type = FR_MSG_HELLO};
    struct fr_id home = {{8}};

    memcpy(home.b + 1, way->name, strnlen(way->name, sizeof(home.b) - 1));
    m.hello = (struct fr_hello){.proto_min = proto,
                                .proto_max = proto,
                                .build = FR_STR("build"),
                                .home = home,
                                .boot = boot,
                                .mono_ms = mono_ms,
                                .wall_ms = 5};
    node_put(FR_WIRE_MAGIC, strlen(FR_WIRE_MAGIC));
    node_say(&m);
}

/* ---- the loop ---- */

static bool is_way(const char *name)
{
    return strcmp(way->name, name) == 0;
}

static void on_start(struct node *n, struct fr_id attempt)
{
    n->attempt = attempt;
    if (is_way("mute"))
        return;
    if (n->behaves || way->started == NULL)
        node_refuse(attempt, "this node starts nothing");
    else
        way->started(n);
}

static void on_put(struct node *n, const struct fr_put_begin *p)
{
    struct fr_msg m = {.type = FR_MSG_PUT_STATE, .put_state = {.ref = p->ref, .done = true}};
    char path[2000];

    (void)snprintf(path, sizeof(path), "%s/store/%.*s", n->home, (int)p->path.n, p->path.p);
    m.put_state.path = fr_str_of(path);
    if (is_way("path"))
        m.put_state.path = FR_STR("../../../../etc/" ESCAPES);
    if (is_way("offset")) {
        m.put_state.offset = p->size + 1;
        m.put_state.done = false;
    }
    node_say(&m);
}

static void on_get(const struct fr_get *g)
{
    struct fr_msg m = {.type = FR_MSG_GET_DATA, .get_data = {g->ref, 1ULL << 62, FR_STR("bytes")}};

    node_say(&m);
}

static void take(struct node *n, const struct fr_msg *m)
{
    struct fr_msg a = {.type = FR_MSG_PONG, .pong = {m->ping.mono_ms, 5, 5}};

    switch (m->type) {
    case FR_MSG_PING:
        node_say(&a);
        break;
    case FR_MSG_PREPARE:
        on_start(n, m->prepare.attempt);
        break;
    case FR_MSG_PUT_BEGIN:
        on_put(n, &m->put_begin);
        break;
    case FR_MSG_GET:
        on_get(&m->get);
        break;
    case FR_MSG_QUERY:
    case FR_MSG_ATTACH: /* an attempt that another connection said was launched is over */
        if (n->behaves)
            node_ended(m->type == FR_MSG_QUERY ? m->query.attempts.v[0] : m->attach.attempt, 3,
                       (struct fr_strs){0}, 0);
        break;
    case FR_MSG_STOP:
        if (!is_way("mute"))
            node_ended(m->stop.attempt, 3, (struct fr_strs){0}, 0);
        break;
    case FR_MSG_FACTS: {
        struct fr_str facts[] = {FR_STR("hostname=h" ESCAPES), FR_STR("mem_bytes=-1"),
                                 FR_STR("disk_free_bytes=99999999999999999999"),
                                 FR_STR("logind_kills=yes")};
        a = (struct fr_msg){.type = FR_MSG_FACTS_ARE, .facts_are = {m->facts.ref, {facts, 4}}};
        node_say(&a);
        break;
    }
    default:
        break;
    }
}

static int serve(struct node *n)
{
    char buf[65536];
    ssize_t k;

    if (way->first != NULL && !n->behaves)
        way->first(n);
    else
        node_hello(5, FR_PROTO_MAX, FR_STR("boot"));
    while ((k = read(0, buf, sizeof(buf))) > 0) {
        bool got = true;

        if (write(n->got, buf, (size_t)k) != k)
            return 3;
        fr_wire_feed(&n->in, buf, (size_t)k);
        while (got) {
            struct fr_arena arena = {0};
            struct fr_msg m;
            if (fr_wire_next(&n->in, &arena, &m, &got, NULL) != FR_OK)
                return 3;
            if (got)
                take(n, &m);
            fr_arena_finish(&arena);
        }
    }
    return 0;
}

/* Over SSH the home is WORK/ID-HOST, and the work folder is called by the way. */
static const char *way_of(const char *home)
{
    static char work[1200];
    const char *slash = strrchr(home, '/'), *name = slash != NULL ? slash + 1 : home;
    size_t digits = strspn(name, "0123456789abcdef");

    if (slash == NULL || digits < 4 || name[digits] != '-')
        return name;
    (void)snprintf(work, sizeof(work), "%.*s", (int)(slash - home), home);
    return strrchr(work, '/') != NULL ? strrchr(work, '/') + 1 : work;
}

int main(int argc, char **argv)
{
    const char *home = argc > 3 ? argv[3] : "", *real = getenv("REAL_FLOWNODE");
    const char *name = way_of(home);
    struct node n = {.home = home, .rng = 88172645463325252u};
    char path[1200];

    way = way_named(name);
    if (way == NULL) {
        if (real != NULL)
            execv(real, argv);
        return 3;
    }
    (void)snprintf(path, sizeof(path), "%s/got", home);
    n.behaves = access(path, F_OK) == 0;
    n.got = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    return serve(&n);
}
