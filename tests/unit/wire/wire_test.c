/* Wire: every message survives its encoding, in any cut of the stream; nothing that comes in
 * crashes. */
#include "engine/wire/codec.h"
#include "engine/wire/wire.h"
#include "tests/unit/check.h"

#include <stdint.h>

static struct fr_str texts[] = {{"sh", 2}, {"-c", 2}, {"echo \xc3\xa9", 7}};
static struct fr_id ids[] = {{{1, 2, 3}}, {{4, 5, 6}}};
static struct fr_file_want wants[] = {{{"files/ab", 8}, {"in/data.json", 12}, 0600}};
static struct fr_sidecar cars[] = {{{"janitor", 7}, {texts, 2}, {texts, 1}, {"/w", 2}}};

static struct fr_msg prepare_msg(void)
{
    struct fr_msg m = {.type = FR_MSG_PREPARE};

    m.prepare.attempt = ids[0];
    m.prepare.run = ids[1];
    m.prepare.instance = FR_STR("train/n1");
    m.prepare.generation = 7;
    m.prepare.spec_hash = FR_STR("abcd");
    m.prepare.go_now = true;
    m.prepare.request = (struct fr_request){
        .argv = {texts, 3},
        .secret_env = {texts, 1},
        .input = {"a\0b", 3},
        .timeout_ms = 1LL << 40,
        .files = {wants, 1},
        .sidecars = {cars, 1},
        .container = {FR_STR("podman"), FR_STR("c"), FR_STR("/f"), FR_STR("/h")},
        .become = true,
        .port = FR_PORT_NONE,
    };
    return m;
}

/* Feeds stream in pieces of step bytes and takes one message. */
static enum fr_rc take_one(struct fr_str stream, size_t step, struct fr_arena *arena,
                           struct fr_msg *m, bool *got)
{
    struct fr_wire_in in = {0};
    struct fr_err err;
    enum fr_rc rc = FR_OK;

    *got = false;
    for (size_t at = 0; at < stream.n && rc == FR_OK && !*got; at += step) {
        fr_wire_feed(&in, stream.p + at, stream.n - at < step ? stream.n - at : step);
        rc = fr_wire_next(&in, arena, m, got, &err);
    }
    fr_wire_finish(&in);
    return rc;
}

static void check_prepare(const struct fr_msg *m)
{
    const struct fr_request *r = &m->prepare.request;

    CHECK(fr_id_eq(m->prepare.attempt, ids[0]) && fr_id_eq(m->prepare.run, ids[1]));
    CHECK(fr_str_is(m->prepare.instance, "train/n1") && m->prepare.generation == 7);
    CHECK(m->prepare.go_now && r->become && r->port == FR_PORT_NONE);
    CHECK(r->argv.n == 3 && fr_str_is(r->argv.v[2], "echo \xc3\xa9"));
    CHECK(r->input.n == 3 && memcmp(r->input.p, "a\0b", 3) == 0);
    CHECK(r->timeout_ms == 1LL << 40 && r->files.n == 1 && r->files.v[0].mode == 0600);
    CHECK(r->sidecars.n == 1 && r->sidecars.v[0].argv.n == 2);
    CHECK(fr_str_is(r->container.home, "/h"));
}

static void test_round_trip(void)
{
    static const size_t steps[] = {1, 2, 3, 7, 64, 1 << 20};
    struct fr_msg m = prepare_msg(), back;
    struct fr_buf out = {0};

    CHECK(fr_msg_put(&m, &out, NULL) == FR_OK);
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        struct fr_arena arena = {0};
        bool got;
        CHECK(take_one((struct fr_str){out.p, out.n}, steps[i], &arena, &back, &got) == FR_OK &&
              got);
        if (got)
            check_prepare(&back);
        fr_arena_finish(&arena);
    }
    fr_buf_finish(&out);
}

/* The protocol as older programs speak it: number, name and kinds of the fields of each message; 0:
 * a struct inside one. A kind is a letter: b(ool), u32, U64, I(d), T(ext), (b)Y(tes), text(S),
 * i(D)s, a struct {, a list [. New fields may only follow. */
static const struct spoken {
    int number;
    const char *name, *kinds;
} spoken[] = {
    {1, "hello", "uuTITUUUuUbIb"},
    {2, "ping", "U"},
    {3, "pong", "UUU"},
    {4, "credit", "U"},
    {5, "error", "UuT"},
    {6, "pipe_data", "UY"},
    {16, "prepare", "IITuTb{"},
    {17, "go", "IS"},
    {18, "attach", "IUbUbU"},
    {19, "stop", "IUu"},
    {20, "query", "D"},
    {21, "tombstone", "I"},
    {22, "ack_end", "I"},
    {23, "lease", "UI"},
    {24, "put_begin", "UTTUuI"},
    {25, "put_data", "UUY"},
    {26, "put_end", "U"},
    {27, "get", "UTUUI"},
    {29, "facts", "U"},
    {30, "join", "I"},
    {31, "leave", "I"},
    {32, "cancel", "U"},
    {33, "get_more", "UU"},
    {34, "pipe_open", "USTU"},
    {35, "pipe_close", "Ub"},
    {48, "prepared", "IuTu"},
    {49, "launched", "IuU"},
    {50, "busy", "IIuT"},
    {51, "log", "IUUY"},
    {52, "ended", "IuuubUUUUSTSUUUU"},
    {53, "state", "IuuTuUUub"},
    {54, "put_state", "UUbT"},
    {55, "get_data", "UUY"},
    {56, "get_end", "UUu"},
    {58, "facts_are", "US"},
    {59, "leased", "UUI"},
    {60, "tail", "IUUUUUUY"},
    {61, "metrics", "IUY"},
    {62, "sample", "UuuUUUUUSS"},
    {63, "pipe_more", "UU"},
    {64, "pipe_end", "UuTY"},
    {80, "grew", "IU"},
    {81, "handover", "Y"},
    {0, "request", "SSSSTYUUUUuS[[{buubuT"},
    {0, "file", "TTu"},
    {0, "sidecar", "TSST"},
    {0, "container", "TTTT"},
};

static void check_spoken(const struct fr_shape *shape, int number)
{
    const struct spoken *s = spoken;
    const char *kinds = "buUITYSD{[";

    while (s < spoken + sizeof(spoken) / sizeof(spoken[0]) &&
           (s->number != number || strcmp(s->name, shape->name) != 0))
        s++;
    if (s == spoken + sizeof(spoken) / sizeof(spoken[0]))
        return; /* a new one */
    check_row(s->name);
    CHECK(shape->n >= strlen(s->kinds));
    for (size_t i = 0; i < shape->n; i++) {
        CHECK(i >= strlen(s->kinds) || s->kinds[i] == kinds[shape->fields[i].kind]);
        if (shape->fields[i].shape != NULL)
            check_spoken(shape->fields[i].shape(), 0);
    }
}

static void test_spoken(void)
{
    for (size_t i = 0; i < sizeof(spoken) / sizeof(spoken[0]); i++) {
        const struct fr_shape *shape = fr_msg_shape((enum fr_msg_type)spoken[i].number);

        check_row(spoken[i].name);
        CHECK(spoken[i].number == 0 || shape != NULL);
        if (shape != NULL) {
            CHECK(strcmp(shape->name, spoken[i].name) == 0);
            check_spoken(shape, spoken[i].number);
        }
    }
    check_row("");
}

static void test_every_type(void)
{
    for (int t = 1; t < 128; t++) {
        struct fr_msg m = {.type = (enum fr_msg_type)t}, back;
        struct fr_buf out = {0}, again = {0};
        struct fr_arena arena = {0};
        bool got;

        check_row(fr_msg_name(m.type));
        if (fr_msg_shape(m.type) == NULL)
            continue;
        CHECK(fr_msg_put(&m, &out, NULL) == FR_OK);
        CHECK(take_one((struct fr_str){out.p, out.n}, 5, &arena, &back, &got) == FR_OK && got);
        CHECK(fr_msg_put(&back, &again, NULL) == FR_OK);
        CHECK(again.n == out.n && memcmp(again.p, out.p, out.n) == 0);
        fr_buf_finish(&out);
        fr_buf_finish(&again);
        fr_arena_finish(&arena);
    }
    check_row("");
}

/* A message of several frames, behind noise and the magic; its neighbours stay whole. */
static void test_long_and_magic(void)
{
    enum { N = 100000 };
    struct fr_msg m = prepare_msg(), ping = {.type = FR_MSG_PING, .ping = {42}}, back;
    struct fr_wire_in in = {.magic = true};
    struct fr_buf out = {0};
    struct fr_arena arena = {0};
    char *big = malloc(N);
    bool got;

    memset(big, 'x', N);
    m.prepare.request.input = (struct fr_str){big, N};
    fr_buf_text(&out, "Welcome to node 1\nFLOWNODE? no\n" FR_WIRE_MAGIC);
    CHECK(fr_msg_put(&m, &out, NULL) == FR_OK && fr_msg_put(&ping, &out, NULL) == FR_OK);
    for (size_t at = 0; at < out.n; at += 1000)
        fr_wire_feed(&in, out.p + at, out.n - at < 1000 ? out.n - at : 1000);
    CHECK(fr_wire_next(&in, &arena, &back, &got, NULL) == FR_OK && got);
    CHECK(got && back.type == FR_MSG_PREPARE && back.prepare.request.input.n == N);
    CHECK(fr_wire_next(&in, &arena, &back, &got, NULL) == FR_OK && got);
    CHECK(got && back.type == FR_MSG_PING && back.ping.mono_ms == 42);
    CHECK(fr_wire_next(&in, &arena, &back, &got, NULL) == FR_OK && !got);
    fr_wire_finish(&in);
    fr_buf_finish(&out);
    fr_arena_finish(&arena);
    free(big);
}

/* Payloads that fill one and two frames to the byte, and one byte less and more. */
static void test_full_frames(void)
{
    struct fr_msg m = prepare_msg(), back;
    struct fr_buf out = {0};
    char *big = calloc(1, 3 * FR_FRAME_MAX);
    size_t rest;

    m.prepare.request.input = (struct fr_str){big, 1};
    CHECK(fr_msg_put(&m, &out, NULL) == FR_OK);
    rest = out.n - FR_FRAME_HEAD - 1; /* of the payload beside the input */
    for (size_t frames = 1; frames < 3; frames++)
        for (size_t n = frames * FR_FRAME_MAX - 1; n <= frames * FR_FRAME_MAX + 1; n++) {
            struct fr_arena arena = {0};
            bool got;

            out.n = 0;
            m.prepare.request.input.n = n - rest;
            CHECK(fr_msg_put(&m, &out, NULL) == FR_OK);
            CHECK(take_one((struct fr_str){out.p, out.n}, 1000, &arena, &back, &got) == FR_OK);
            CHECK(got && back.prepare.request.input.n == n - rest);
            fr_arena_finish(&arena);
        }
    fr_buf_finish(&out);
    free(big);
}

/* A message may have FR_MSG_MAX bytes; one more is refused before its last frame. */
static void test_longest(void)
{
    char *frame = calloc(1, FR_FRAME_HEAD + FR_FRAME_MAX);
    size_t full = FR_MSG_MAX / FR_FRAME_MAX;

    for (int more = 0; more < 2; more++) {
        struct fr_wire_in in = {0};
        struct fr_arena arena = {0};
        struct fr_msg back;
        struct fr_err err;
        enum fr_rc rc = FR_OK;
        bool got;

        frame[4] = (char)(FR_MSG_PREPARE | FR_FRAME_MORE);
        fr_put_u32(frame, FR_FRAME_MAX);
        for (size_t i = 0; i < full && rc == FR_OK; i++) {
            fr_wire_feed(&in, frame, FR_FRAME_HEAD + FR_FRAME_MAX);
            rc = fr_wire_next(&in, &arena, &back, &got, &err);
        }
        CHECK_INT(rc, FR_OK);
        fr_put_u32(frame, (uint32_t)(FR_MSG_MAX % FR_FRAME_MAX + (size_t)more));
        fr_wire_feed(&in, frame, FR_FRAME_HEAD + FR_MSG_MAX % FR_FRAME_MAX + (size_t)more);
        CHECK_INT(fr_wire_next(&in, &arena, &back, &got, &err), more ? FR_PROTO : FR_OK);
        fr_wire_finish(&in);
        fr_arena_finish(&arena);
    }
    free(frame);
}

static void test_no_magic(void)
{
    struct fr_wire_in in = {.magic = true};
    struct fr_msg back;
    struct fr_err err;
    bool got;

    for (int i = 0; i < 3000; i++)
        fr_wire_feed(&in, "bash: flownode: command not found\n", 34);
    CHECK(fr_wire_next(&in, NULL, &back, &got, &err) == FR_PROTO);
    CHECK(strstr(err.msg, "command not found") != NULL);
    fr_wire_finish(&in);
}

struct row {
    const char *name;
    const char *bytes;
    size_t n;
    enum fr_rc rc;
    bool got;
};

#define ROW(name, bytes, rc, got)                                                                  \
    {                                                                                              \
        name, bytes, sizeof(bytes) - 1, rc, got                                                    \
    }

static const struct row rows[] = {
    ROW("frame too long", "\x01\x40\0\0\x02", FR_PROTO, false),
    ROW("half a header", "\x08\0\0", FR_OK, false),
    ROW("half a payload", "\x08\0\0\0\x02\1\2", FR_OK, false),
    ROW("field cut short", "\x04\0\0\0\x02\1\2\3\4", FR_PROTO, false),
    ROW("field cut short by one", "\x07\0\0\0\x02\1\2\3\4\5\6\7", FR_PROTO, false),
    ROW("missing fields are zero", "\x08\0\0\0\x03\1\0\0\0\0\0\0\0", FR_OK, true),
    ROW("later fields are skipped", "\x0a\0\0\0\x02\1\0\0\0\0\0\0\0zz", FR_OK, true),
    ROW("unknown type is skipped", "\x01\0\0\0\x7fz\x08\0\0\0\x02\1\0\0\0\0\0\0\0", FR_OK, true),
    ROW("unknown type in two frames is skipped",
        "\x01\0\0\0\xffz\x01\0\0\0\x7fz\x08\0\0\0\x02\1\0\0\0\0\0\0\0", FR_OK, true),
    ROW("text past the end", "\x10\0\0\0\x05\0\0\0\0\0\0\0\0\1\0\0\0\xff\0\0\0", FR_PROTO, false),
    ROW("NUL in a text", "\x11\0\0\0\x05\0\0\0\0\0\0\0\0\1\0\0\0\1\0\0\0\0", FR_PROTO, false),
    ROW("list longer than its bytes", "\x04\0\0\0\x14\xff\xff\0\0", FR_PROTO, false),
    ROW("another message inside", "\x01\0\0\0\x90z\x08\0\0\0\x02\1\0\0\0\0\0\0\0", FR_PROTO, false),
};

static void test_rows(void)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fr_arena arena = {0};
        struct fr_msg m;
        bool got;

        check_row(rows[i].name);
        CHECK_INT(take_one((struct fr_str){rows[i].bytes, rows[i].n}, 1 << 20, &arena, &m, &got),
                  rows[i].rc);
        CHECK_INT(got, rows[i].got);
        fr_arena_finish(&arena);
    }
    check_row("");
}

/* Every single-byte change and every cut of a rich message: an answer, never a crash. */
static void test_damage(void)
{
    struct fr_msg m = prepare_msg(), back;
    struct fr_buf out = {0};
    size_t refused = 0;

    CHECK(fr_msg_put(&m, &out, NULL) == FR_OK);
    for (size_t i = 0; i < out.n; i++) {
        for (int bit = 0; bit < 8; bit++) {
            struct fr_arena arena = {0};
            bool got;
            out.p[i] = (char)(out.p[i] ^ (1 << bit));
            enum fr_rc rc = take_one((struct fr_str){out.p, out.n}, out.n, &arena, &back, &got);
            CHECK(rc == FR_OK || rc == FR_PROTO);
            refused += rc == FR_PROTO;
            out.p[i] = (char)(out.p[i] ^ (1 << bit));
            fr_arena_finish(&arena);
        }
    }
    CHECK(refused > 100);
    fr_buf_finish(&out);
}

static void test_agree(void)
{
    static const struct {
        uint32_t min, max;
        enum fr_rc rc;
    } theirs[] = {{FR_PROTO_MIN, FR_PROTO_MAX, FR_OK},
                  {1, FR_PROTO_MIN, FR_OK},
                  {FR_PROTO_MAX, FR_PROTO_MAX + 3, FR_OK},
                  {FR_PROTO_MAX + 1, FR_PROTO_MAX + 3, FR_PROTO},
                  {1, FR_PROTO_MIN - 1, FR_PROTO}};
    struct fr_err err;

    for (size_t i = 0; i < sizeof(theirs) / sizeof(theirs[0]); i++) {
        struct fr_hello h = {.proto_min = theirs[i].min, .proto_max = theirs[i].max};

        CHECK_INT(fr_wire_agree(&h, &err), theirs[i].rc);
    }
    CHECK_TEXT(err.msg, "no common protocol: here 2 to 3, the other side 1 to 1; the newer flowrun "
                        "of the two goes on: flowrun resume");
}

int main(void)
{
    test_round_trip();
    test_spoken();
    test_every_type();
    test_long_and_magic();
    test_full_frames();
    test_longest();
    test_no_magic();
    test_rows();
    test_damage();
    test_agree();
    return check_done();
}
