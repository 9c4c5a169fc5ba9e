/* Which data calls of ranks go together: two nodes of two ranks, the world and groups of it. */
#include "trainer/comm/collective_check.h"

#include "tests/unit/check.h"

enum { RANKS = 4, STEPS = 8 };

/* Communicators: 0 the world, 1 groups {0, 1} and {2, 3}, 2 groups {0, 2} and {1, 3}. */
static struct tr_announced_call call_of(int rank, int comm, const char *what)
{
    struct tr_announced_call v = {.comm = comm, .size = comm == 0 ? RANKS : 2};

    v.first = comm == 0 ? 0 : comm == 1 ? rank / 2 * 2 : rank % 2;
    for (const char *p = what; *p != '\0'; p++)
        v.hash = v.hash * 31 + (unsigned char)*p;
    snprintf(v.what, sizeof(v.what), "%s", what);
    return v;
}

/* A rank says what it is about to call; comm -1: it is elsewhere. */
struct step {
    int rank, comm;
    const char *what;
};

static const struct {
    const char *name;
    struct step steps[STEPS];
    const char *go;    /* the ranks that may go on in the end, in their order */
    const char *error; /* NULL: none */
} rows[] = {
    {"one waits", {{0, 0, "a"}}, "", NULL},
    {"the world", {{3, 0, "a"}, {1, 0, "a"}, {0, 0, "a"}, {2, 0, "a"}}, "0123", NULL},
    {"all but one", {{3, 0, "a"}, {1, 0, "a"}, {0, 0, "a"}}, "", NULL},
    {"one calls another thing",
     {{0, 0, "a"}, {1, 0, "a"}, {2, 0, "b"}, {3, 0, "a"}},
     "",
     "ranks differ: rank 0 calls a, rank 2 b"},
    {"groups do different things",
     {{0, 1, "a"}, {2, 1, "b"}, {1, 1, "a"}, {3, 1, "b"}},
     "0123",
     NULL},
    {"a group goes ahead", {{0, 1, "a"}, {2, 1, "b"}, {1, 1, "a"}}, "01", NULL},
    {"a group differs", {{1, 2, "a"}, {3, 2, "b"}}, "", "ranks differ: rank 1 calls a, rank 3 b"},
    {"two communicators", {{0, 1, "a"}, {1, 0, "w"}}, "", NULL},
    {"round a circle",
     {{0, 1, "x"}, {1, 2, "z"}, {3, 1, "x"}, {2, 2, "z"}},
     "",
     "ranks differ: rank 0 calls x, rank 1 z: none can go on"},
    {"one in a host collective",
     {{0, 0, "a"}, {1, 0, "a"}, {2, -1, "a host collective"}, {3, 0, "a"}},
     "",
     "ranks differ: rank 0 calls a, rank 2 a host collective: none can go on"},
    {"one has left, others go on",
     {{0, 1, "a"}, {1, 1, "a"}, {2, -1, "nothing any more"}, {3, -1, "nothing any more"}},
     "01",
     NULL},
    {"all in a host collective",
     {{0, -1, "h"}, {1, -1, "h"}, {2, -1, "h"}, {3, -1, "h"}},
     "",
     NULL},
};

static void put(struct tr_collective_check *v, const struct step *s)
{
    struct tr_announced_call call = call_of(s->rank, s->comm, s->what);
    struct fr_err err;

    if (s->comm < 0)
        tr_collective_check_elsewhere(v, s->rank, s->what);
    else
        CHECK_INT(tr_collective_check_announce(v, s->rank,
                                               (struct fr_str){(char *)&call, sizeof(call)}, &err),
                  FR_OK);
}

static void calls(void)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tr_collective_check *v = NULL;
        struct fr_err err = {.rc = FR_OK};
        bool go[RANKS];
        char names[RANKS + 1] = "";

        check_row(rows[i].name);
        CHECK_INT(tr_collective_check_create(RANKS, &v, &err), FR_OK);
        for (const struct step *s = rows[i].steps; s->what != NULL; s++)
            put(v, s);
        tr_collective_check_release(v, go);
        for (int r = 0; r < RANKS; r++)
            if (go[r])
                snprintf(names + strlen(names), 2, "%d", r);
        CHECK_TEXT(names, rows[i].go);
        CHECK_INT(tr_collective_check_judge(v, &err), rows[i].error != NULL ? FR_PROTO : FR_OK);
        if (rows[i].error != NULL)
            CHECK_TEXT(err.msg, rows[i].error);
        tr_collective_check_release(v, go); /* they are gone, and may come again */
        for (int r = 0; r < RANKS; r++)
            CHECK(!go[r]);
        if (strcmp(rows[i].go, "0123") == 0)
            put(v, &rows[i].steps[0]);
        tr_collective_check_destroy(v);
    }
}

/* Rank `rank` of the group {0, 2}: what it sends to each of the two, and what it takes. */
static void put_slices(struct tr_collective_check *v, int rank, const size_t numbers[4])
{
    struct tr_announced_call call = call_of(rank, 2, "rows");
    char body[sizeof(call) + 4 * sizeof(size_t)];
    struct fr_err err;

    call.slices = 1;
    memcpy(body, &call, sizeof(call));
    memcpy(body + sizeof(call), numbers, 4 * sizeof(size_t));
    CHECK_INT(tr_collective_check_announce(v, rank, (struct fr_str){body, sizeof(body)}, &err),
              FR_OK);
}

static void slices(void)
{
    static const size_t zero[] = {1, 2, 1, 3}, fits[] = {3, 4, 2, 4}, less[] = {3, 4, 1, 4};
    struct tr_collective_check *v = NULL;
    struct fr_err err = {.rc = FR_OK};
    bool go[RANKS];

    check_row("slices");
    CHECK_INT(tr_collective_check_create(RANKS, &v, &err), FR_OK);
    put_slices(v, 0, zero);
    put_slices(v, 2, fits);
    tr_collective_check_release(v, go);
    CHECK(go[0] && go[2] && !go[1] && !go[3]);
    put_slices(v, 0, zero);
    put_slices(v, 2, less);
    tr_collective_check_release(v, go);
    CHECK(!go[0] && !go[2]);
    CHECK_INT(tr_collective_check_judge(v, &err), FR_PROTO);
    CHECK_TEXT(err.msg, "rows: rank 0 sends 2 bytes to rank 2, which takes 1");
    tr_collective_check_destroy(v);
}

/* What another program could send in place of a call. */
static void nonsense(void)
{
    struct tr_announced_call good = call_of(2, 2, "a"), many = good, first = good, more = good;
    const struct {
        const char *name;
        struct fr_str body;
    } bodies[] = {
        {"nothing", {"", 0}},
        {"cut", {(char *)&good, sizeof(good) - 1}},
        {"more ranks than there are", {(char *)&many, sizeof(many)}},
        {"it comes before the first", {(char *)&first, sizeof(first)}},
        {"no numbers", {(char *)&more, sizeof(more)}},
    };
    struct tr_collective_check *v = NULL;
    struct fr_err err;

    many.size = RANKS + 1;
    first.first = 3;
    more.slices = 1;
    CHECK_INT(tr_collective_check_create(RANKS, &v, &err), FR_OK);
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        check_row(bodies[i].name);
        CHECK_INT(tr_collective_check_announce(v, 2, bodies[i].body, &err), FR_PROTO);
    }
    check_row("twice");
    CHECK_INT(
        tr_collective_check_announce(v, 2, (struct fr_str){(char *)&good, sizeof(good)}, &err),
        FR_OK);
    CHECK_INT(
        tr_collective_check_announce(v, 2, (struct fr_str){(char *)&good, sizeof(good)}, &err),
        FR_PROTO);
    tr_collective_check_destroy(v);
}

int main(void)
{
    calls();
    slices();
    nonsense();
    return check_done();
}
