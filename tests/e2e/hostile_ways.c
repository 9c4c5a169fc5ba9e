/* The ways to break the protocol: a function each, and a row in the table at the end. */
#include "tests/e2e/hostile.h"

#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MANY = 300, FLOOD = 4 << 20 };

static uint64_t draw(struct node *n)
{
    n->rng ^= n->rng << 13;
    n->rng ^= n->rng >> 7;
    n->rng ^= n->rng << 17;
    return n->rng;
}

/* ---- those that are asked to start n->attempt ---- */

static void do_frame(struct node *n)
{
    (void)n;
    node_frame(0xffffffffu, FR_MSG_LOG, "x", 1);
}

static void do_endless(struct node *n)
{
    static const char piece[FR_FRAME_MAX];

    (void)n;
    for (size_t i = 0; i < 2 * FLOOD / sizeof(piece); i++)
        node_frame(sizeof(piece), FR_MSG_ENDED | FR_FRAME_MORE, piece, sizeof(piece));
}

static void do_lists(struct node *n)
{
    char p[8 + 4];

    (void)n;
    memset(p, 0, 8);
    fr_put_u32(p + 8, 0xfffffff0u);
    node_frame(sizeof(p), FR_MSG_FACTS_ARE, p, sizeof(p));
}

/* Until flowrun has heard of the good node's end. */
static bool goes_on(const struct node *n)
{
    char path[1200];

    (void)snprintf(path, sizeof(path), "%s/../../../quiet", n->home);
    return access(path, F_OK) != 0;
}

/* What came is taken, so that neither side is held up; the credit that it grants. */
static uint64_t granted(struct node *n, int wait_ms)
{
    struct pollfd p = {.fd = 0, .events = POLLIN};
    uint64_t bytes = 0;
    bool got = true;
    char buf[4096];

    if (poll(&p, 1, wait_ms) <= 0)
        return 0;
    ssize_t k = read(0, buf, sizeof(buf));
    if (k <= 0)
        exit(1);
    fr_wire_feed(&n->in, buf, (size_t)k);
    while (got) {
        struct fr_arena arena = {0};
        struct fr_msg m;
        if (fr_wire_next(&n->in, &arena, &m, &got, NULL) != FR_OK)
            exit(3);
        if (got && m.type == FR_MSG_CREDIT)
            bytes += m.credit.bytes;
        fr_arena_finish(&arena);
    }
    return bytes;
}

/* All that it may send and more than the task may log, for as long as the good one works. */
static void do_surge(struct node *n)
{
    static char bytes[FR_BULK_MAX];
    struct fr_msg m = {.type = FR_MSG_LOG};
    uint64_t credit = 0;

    memset(bytes, 'l', sizeof(bytes));
    node_launched(n);
    m.log = (struct fr_log_piece){n->attempt, 0, 5, {bytes, sizeof(bytes)}};
    while (goes_on(n)) {
        credit += granted(n, credit < sizeof(bytes) ? 20 : 0);
        for (; credit >= sizeof(bytes); credit -= sizeof(bytes), m.log.offset += sizeof(bytes))
            node_say(&m);
    }
    node_ended(n->attempt, 3, (struct fr_strs){0}, m.log.offset);
}

/* The smallest frames, without end: they need no credit. */
static void do_drizzle(struct node *n)
{
    struct fr_msg tiny[] = {
        {.type = FR_MSG_PUT_STATE, .put_state = {1u << 30, 0, false, FR_STR("")}},
        {.type = FR_MSG_STATE, .state = {.attempt = n->attempt, .status = FR_AT_RUNNING}},
    };
    struct fr_buf b = {0};

    for (int i = 0; i < 2000; i++)
        (void)fr_msg_put(&tiny[i % 2], &b, NULL);
    node_launched(n);
    while (goes_on(n)) {
        node_put(b.p, b.n);
        (void)granted(n, 0);
    }
    fr_buf_finish(&b);
    node_ended(n->attempt, 3, (struct fr_strs){0}, 0);
}

/* At once what many grants would allow. */
static void do_credit(struct node *n)
{
    static char bytes[FR_CREDIT_MAX + 1];
    struct fr_msg m = {.type = FR_MSG_LOG};

    node_launched(n);
    m.log = (struct fr_log_piece){n->attempt, 0, 5, {bytes, sizeof(bytes)}};
    node_say(&m);
}

/* More than the task's limit, and then its end. */
static void do_flood(struct node *n)
{
    static char bytes[FR_BULK_MAX];
    struct fr_msg m = {.type = FR_MSG_LOG};

    memset(bytes, 'l', sizeof(bytes));
    node_launched(n);
    m.log = (struct fr_log_piece){n->attempt, 0, 5, {bytes, sizeof(bytes)}};
    for (m.log.offset = 0; m.log.offset < FLOOD; m.log.offset += sizeof(bytes))
        node_say(&m);
    node_ended(n->attempt, 3, (struct fr_strs){0}, m.log.offset);
}

static void do_pings(struct node *n)
{
    struct fr_msg m = {.type = FR_MSG_PING, .ping = {7}};
    struct fr_buf b = {0};

    for (int i = 0; i < 5000; i++)
        (void)fr_msg_put(&m, &b, NULL);
    for (int i = 0; i < 500; i++) /* 32 MB of them, and no answer is read */
        node_put(b.p, b.n);
    fr_buf_finish(&b);
    node_refuse(n->attempt, "no");
}

static void do_clocks(struct node *n)
{
    struct fr_msg m = {.type = FR_MSG_PONG, .pong = {INT64_MIN, INT64_MAX, INT64_MIN}};

    (void)n;
    node_say(&m);
}

static void do_log_clock(struct node *n)
{
    struct fr_msg m = {.type = FR_MSG_LOG, .log = {n->attempt, 0, INT64_MIN, FR_STR("x")}};

    node_launched(n);
    node_say(&m);
}

/* All attempts that the node beside it has: their ends, and their logs. */
static void do_foreign(struct node *n)
{
    char path[1200];
    struct dirent *d;

    (void)snprintf(path, sizeof(path), "%s/../good/log", n->home);
    for (int tries = 0; tries < 1000; tries++) {
        DIR *dir = opendir(path);
        bool some = false;
        while (dir != NULL && (d = readdir(dir)) != NULL) {
            struct fr_id id;
            struct fr_msg m = {.type = FR_MSG_LOG, .log = {.bytes = FR_STR("forged\n")}};
            if (!fr_id_parse(fr_str_of(d->d_name), &id))
                continue;
            m.log.attempt = id;
            for (int i = 0; i < MANY; i++)
                node_say(&m);
            node_ended(id, 7, (struct fr_strs){0}, 0);
            some = true;
        }
        if (dir != NULL)
            closedir(dir);
        if (some)
            break;
        usleep(10000);
    }
    node_refuse(n->attempt, "no");
}

static void do_busy(struct node *n)
{
    for (int i = 0; i < MANY; i++) {
        struct fr_msg m = {.type = FR_MSG_BUSY, .busy = {.attempt = n->attempt}};
        m.busy.other = n->attempt;
        m.busy.other.b[i % 16] = (uint8_t)draw(n);
        node_say(&m);
    }
    exit(1);
}

static void state(const struct node *n, enum fr_attempt_status status)
{
    struct fr_msg m = {.type = FR_MSG_STATE, .state = {.attempt = n->attempt, .status = status}};

    node_say(&m);
}

/* It never began, and never will; it was never heard of; another one lives here; each time. */
static void do_tombs(struct node *n)
{
    state(n, FR_AT_TOMBSTONED);
}

static void do_amnesia(struct node *n)
{
    state(n, FR_AT_UNKNOWN);
}

static void do_rivals(struct node *n)
{
    struct fr_msg m = {.type = FR_MSG_BUSY, .busy = {.attempt = n->attempt}};

    m.busy.other = n->attempt;
    (void)draw(n);
    memcpy(m.busy.other.b, &n->rng, sizeof(n->rng));
    node_say(&m);
}

/* A byte at a time, each a day later than the one before. */
static void do_leaps(struct node *n)
{
    struct fr_msg m = {.type = FR_MSG_LOG, .log = {n->attempt, 0, 5, FR_STR("x")}};

    node_launched(n);
    for (m.log.offset = 0; m.log.offset < 20000; m.log.offset++) {
        m.log.mono_ms += 86400000;
        node_say(&m);
    }
    node_ended(n->attempt, 3, (struct fr_strs){0}, m.log.offset);
}

static void do_strays(struct node *n)
{
    struct fr_msg m = {.type = FR_MSG_ERROR, .error = {1, FR_IO, FR_STR("stray" ESCAPES)}};

    for (int i = 0; i < 2000; i++) {
        m.error.ref = 1000000 + (uint64_t)i;
        node_say(&m);
    }
    node_refuse(n->attempt, "no");
}

static void do_refs(struct node *n)
{
    struct fr_str names[] = {FR_STR("5 644 ../../../etc/passwd"), FR_STR("/"), FR_STR("")};

    for (uint64_t ref = 0; ref < 50; ref++) {
        struct fr_msg m[] = {
            {.type = FR_MSG_PUT_STATE, .put_state = {ref, 0, true, FR_STR("/etc/../x")}},
            {.type = FR_MSG_GET_DATA, .get_data = {ref, UINT64_MAX, FR_STR("")}},
            {.type = FR_MSG_GET_END, .get_end = {ref, UINT64_MAX, 07777}},
            {.type = FR_MSG_FACTS_ARE, .facts_are = {ref, {names, 3}}},
        };
        for (size_t i = 0; i < sizeof(m) / sizeof(m[0]); i++)
            node_say(&m[i]);
    }
    node_refuse(n->attempt, "no");
}

/* Messages of all types with some bytes changed. */
static void do_random(struct node *n)
{
    for (int i = 0; i < MANY; i++) {
        struct fr_msg m = {.type = (enum fr_msg_type)(draw(n) % 70)};
        struct fr_buf b = {0};
        if (fr_msg_shape(m.type) == NULL)
            continue;
        fr_shape_put(fr_msg_shape(m.type), &m.hello, &b);
        for (int k = 0; k < 3 && b.n > 0; k++)
            b.p[draw(n) % b.n] = (char)draw(n);
        node_frame((uint32_t)b.n, (uint8_t)m.type, b.p, b.n);
        fr_buf_finish(&b);
    }
    exit(1);
}

static void do_text(struct node *n)
{
    node_refuse(n->attempt, "refused" ESCAPES "\nnext");
}

static void do_error(struct node *n)
{
    struct fr_msg m = {.type = FR_MSG_ERROR, .error = {0, FR_BUG + 7, FR_STR("gone" ESCAPES)}};

    (void)n;
    node_say(&m);
}

static void do_outputs(struct node *n)
{
    struct fr_str v[] = {FR_STR("undeclared=1")};

    node_launched(n);
    node_ended(n->attempt, 0, (struct fr_strs){v, 1}, 0);
}

static void do_bad_output(struct node *n)
{
    struct fr_str v[] = {FR_STR("k=" ESCAPES)};

    node_launched(n);
    node_ended(n->attempt, 0, (struct fr_strs){v, 1}, 0);
}

static void do_survivors(struct node *n)
{
    struct fr_msg m = {.type = FR_MSG_ENDED};
    struct fr_str v[] = {FR_STR("7 " ESCAPES " D")};

    node_launched(n);
    m.ended = (struct fr_ended){.attempt = n->attempt,
                                .cause = 77,
                                .code = INT32_MIN,
                                .stop_cause = UINT32_MAX,
                                .launched = true,
                                .launched_ms = INT64_MIN,
                                .ended_ms = INT64_MAX,
                                .text = FR_STR("lost" ESCAPES),
                                .dropped_bytes = UINT64_MAX};
    m.ended.survivors = (struct fr_strs){v, 1};
    node_say(&m);
    m.ended.survivors.n = 0;
    node_say(&m);
}

/* ---- those that do not wait for a start ---- */

static void do_hellos(struct node *n)
{
    (void)n;
    node_hello(5, FR_PROTO_MAX, FR_STR("boot"));
}

static void do_noise(struct node *n)
{
    for (int i = 0; i < (1 << 20); i++)
        node_put(&(char){(char)draw(n)}, 1);
}

static void do_garbage(struct node *n)
{
    node_put(FR_WIRE_MAGIC, strlen(FR_WIRE_MAGIC));
    node_put(ESCAPES, strlen(ESCAPES));
    do_noise(n);
}

static void do_clock(struct node *n)
{
    (void)n;
    node_hello(INT64_MIN, FR_PROTO_MAX, FR_STR("boot"));
}

static void do_boot(struct node *n)
{
    (void)n;
    node_hello(5, FR_PROTO_MAX, FR_STR("boot" ESCAPES));
}

static void do_later(struct node *n)
{
    (void)n;
    node_hello(5, 99, FR_STR("boot"));
}

static void do_early(struct node *n)
{
    node_put(FR_WIRE_MAGIC, strlen(FR_WIRE_MAGIC));
    node_launched(n);
}

static const struct way ways[] = {
    {"frame", NULL, do_frame},
    {"endless", NULL, do_endless},
    {"lists", NULL, do_lists},
    {"credit", NULL, do_credit},
    {"flood", NULL, do_flood},
    {"surge", NULL, do_surge},
    {"drizzle", NULL, do_drizzle},
    {"pings", NULL, do_pings},
    {"clocks", NULL, do_clocks},
    {"log-clock", NULL, do_log_clock},
    {"foreign", NULL, do_foreign},
    {"busy", NULL, do_busy},
    {"tombs", NULL, do_tombs},
    {"amnesia", NULL, do_amnesia},
    {"rivals", NULL, do_rivals},
    {"leaps", NULL, do_leaps},
    {"strays", NULL, do_strays},
    {"refs", NULL, do_refs},
    {"random", NULL, do_random},
    {"hellos", NULL, do_hellos},
    {"text", NULL, do_text},
    {"error", NULL, do_error},
    {"outputs", NULL, do_outputs},
    {"bad-output", NULL, do_bad_output},
    {"survivors", NULL, do_survivors},
    {"noise", do_noise, NULL},
    {"garbage", do_garbage, NULL},
    {"clock", do_clock, NULL},
    {"boot", do_boot, NULL},
    {"later", do_later, NULL},
    {"early", do_early, NULL},
    {"path", NULL, NULL},
    {"offset", NULL, NULL},
    {"mute", NULL, NULL},
    {"gather", NULL, NULL},
};

const struct way *way_named(const char *name)
{
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
        if (strcmp(ways[i].name, name) == 0)
            return &ways[i];
    return NULL;
}
