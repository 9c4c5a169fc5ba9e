/*
 * One move of a rank over links that a script plays, with a clock that moves while the rank waits:
 * which bytes go when, what counts as silence, and what each failure says. The control plane is the
 * test's own: it answers with the reason that a row gives it.
 */
#include "engine/base/sys.h"
#include "tests/unit/check.h"
#include "trainer/comm/join.h"
#include "trainer/comm/mesh.h"

#include <sys/socket.h>

enum { SIZE = 3, TIMEOUT_MS = 1000, BYTES = 12 };

static int64_t now_ms;

/* What the control plane says, from its check_at-th question on, and what it is told. */
static struct {
    int checks, check_at;
    enum fr_rc rc, aborted;
    char why[400];
} control;

enum fr_rc tr_control_check(struct tr_control *c, struct fr_err *err)
{
    (void)c;
    if (control.rc == FR_OK || ++control.checks < control.check_at)
        return FR_OK;
    return fr_fail(err, control.rc, "rank 2 (there) ended");
}

void tr_control_abort(struct tr_control *c, enum fr_rc rc, const char *why)
{
    (void)c;
    control.aborted = rc;
    (void)snprintf(control.why, sizeof(control.why), "%s", why);
}

const struct tr_peer *tr_control_peers(const struct tr_control *c)
{
    static const struct tr_peer peers[SIZE] = {
        {.host = "here"}, {.host = "beside"}, {.host = "there"}};

    (void)c;
    return peers;
}

/* One direction of a link: before the bytes that its script gives, how long nothing moves. */
struct side {
    const char *script; /* of each call: a digit: so many bytes; '-': none now; 'x': it broke */
    int calls, asleep;  /* calls so far; sleeps in which this side was waited for */
    char bytes[64];
    size_t n;
};

static struct {
    struct side out, in;
    int64_t nap_ms; /* the clock moves by it in each sleep */
    int naps, idle_calls, poll_ms;
} play;

static ssize_t turn(struct side *s, size_t n)
{
    char c = s->script[s->calls] != '\0' ? s->script[s->calls++] : '9';

    if (c == 'x') {
        errno = ECONNRESET;
        return -1;
    }
    play.idle_calls += c == '-';
    return c == '-' ? 0 : (size_t)(c - '0') < n ? c - '0' : (ssize_t)n;
}

static ssize_t play_send(struct tr_link *l, const void *p, size_t n)
{
    ssize_t k = turn(&play.out, n);

    (void)l;
    for (ssize_t i = 0; i < k; i++)
        play.out.bytes[play.out.n++] = ((const char *)p)[i];
    return k;
}

static ssize_t play_recv(struct tr_link *l, void *p, size_t n)
{
    ssize_t k = turn(&play.in, n);

    (void)l;
    for (ssize_t i = 0; i < k; i++)
        ((char *)p)[i] = play.in.bytes[play.in.n++];
    return k;
}

static bool play_arm(struct tr_link *l, bool want_send, bool want_recv, struct pollfd *pfd)
{
    (void)l;
    *pfd = (struct pollfd){.fd = -1};
    play.out.asleep += want_send;
    play.in.asleep += want_recv;
    return true;
}

static void play_disarm(struct tr_link *l)
{
    (void)l;
}

static const struct tr_link_ops play_ops = {
    .name = "played", .send = play_send, .recv = play_recv, .arm = play_arm, .disarm = play_disarm};

static int64_t clock_ms(void)
{
    return now_ms;
}

/* Sleeps of a move have descriptors; the wait for the control plane has none. */
static int nap(struct pollfd *set, nfds_t n, int wait_ms)
{
    (void)set;
    now_ms += n > 0 ? play.nap_ms : wait_ms;
    play.naps += n > 0;
    play.poll_ms = wait_ms;
    return 0;
}

struct row {
    const char *name, *out, *in; /* scripts */
    int64_t nap_ms;
    size_t own; /* bytes of out that are there at the call */
    int to, from;
    enum fr_rc rc;
    const char *says; /* "": nothing */
};

static const struct row rows[] = {
    {"at once", "", "", 0, BYTES, 1, 2, FR_OK, ""},
    {"slow, and each silence as long as may be", "----9", "3-3-3-3", TIMEOUT_MS, BYTES, 1, 2, FR_OK,
     ""},
    {"bytes go out alone, slowly", "3--3--3--3", "9---------9", 400, BYTES, 1, 2, FR_OK, ""},
    {"silent for too long", "9", "3-3---", 501, BYTES, 1, 2, FR_TIMEOUT,
     "rank 0 waited 1 s for rank 2 (there) in 'rows' (--ddp_timeout)"},
    {"nobody takes bytes for too long", "3---", "9", 501, BYTES, 1, 2, FR_TIMEOUT,
     "rank 0 waited 1 s for rank 1 (beside) in 'rows' (--ddp_timeout)"},
    {"what has not come is not handed on", "99999", "2-2-2-2-2-2", 10, 0, 1, 2, FR_OK, ""},
    {"a sender alone", "1-1-9", "", 10, BYTES, 1, -1, FR_OK, ""},
    {"a receiver alone", "", "1-1-9", 10, BYTES, -1, 2, FR_OK, ""},
    {"it breaks as it takes", "3x", "9", 0, BYTES, 1, 2, FR_PEER,
     "'rows': the connection to rank 1 (beside) broke: Connection reset by peer"},
    {"it breaks as it gives", "9", "3x", 0, BYTES, 1, 2, FR_PEER,
     "'rows': the connection to rank 2 (there) broke: Connection reset by peer"},
};

static char given[BYTES + 1] = "abcdefghijkl", taken[BYTES + 1];

/* Two pieces and an empty one on each side; with own 0 what is received is what is sent. */
static enum fr_rc move(const struct row *r, int64_t timeout_ms, const char *head,
                       struct fr_err *err)
{
    static struct tr_link links[SIZE] = {{0}, {.ops = &play_ops}, {.ops = &play_ops}};
    struct tr_mesh m = {.size = SIZE, .links = links, .timeout_ms = timeout_ms};
    char *from = r->own == 0 ? taken : given;
    char *out[] = {from, from + 5, from + 5}, *in[] = {taken, taken + 4, taken + 4};
    size_t outs[] = {5, 0, BYTES - 5}, ins[] = {4, 0, BYTES - 4};
    struct tr_move v = {.to = r->to,
                        .from = r->from,
                        .out = {out, outs, 3},
                        .in = {in, ins, 3},
                        .own = r->own,
                        .head = head,
                        .what = "rows"};

    play.out = (struct side){.script = r->out};
    play.in = (struct side){.script = r->in, .bytes = "ABCDEFGHIJKL"};
    play.nap_ms = r->nap_ms;
    play.naps = play.idle_calls = 0;
    memset(taken, 0, sizeof(taken));
    *err = (struct fr_err){0};
    control.checks = 0;
    control.aborted = FR_OK;
    control.why[0] = '\0';
    return tr_mesh_move(&m, &v, err);
}

static void try_row(const struct row *r)
{
    struct fr_err err;

    check_row(r->name);
    CHECK_INT(move(r, TIMEOUT_MS, NULL, &err), r->rc);
    CHECK_TEXT(err.msg, r->says);
    CHECK_TEXT(control.why, r->says); /* all ranks hear of it */
    CHECK_INT(control.aborted, r->rc);
    if (r->rc != FR_OK)
        return;
    CHECK_TEXT(play.out.bytes, r->to < 0 ? "" : r->own == 0 ? "ABCDEFGHIJKL" : given);
    CHECK_TEXT(taken, r->from < 0 ? "" : "ABCDEFGHIJKL");
}

/* Which side a sleep waits for, and that it is short enough to see the end of the run. */
static void sleeps(void)
{
    static const struct row slow = {
        "a sleep waits for what can move", "9", "3----9", 10, BYTES, 1, 2, FR_OK, ""};
    static const struct row behind = {
        "with nothing to hand on only for bytes", "9", "---9", 10, 0, 1, 2, FR_OK, ""};
    static const struct row out = {
        "with all there for who takes", "3---9", "99", 10, BYTES, 1, 2, FR_OK, ""};
    static const struct row both = {
        "for both sides of one link", "3---9", "3---9", 10, BYTES, 1, 1, FR_OK, ""};
    struct fr_err err;

    check_row(slow.name);
    CHECK_INT(move(&slow, TIMEOUT_MS, NULL, &err), FR_OK);
    CHECK(play.out.asleep == 0 && play.in.asleep == 3 && play.naps == 3);
    CHECK(play.poll_ms > 0 && play.poll_ms <= 1000);
    check_row(behind.name);
    CHECK_INT(move(&behind, TIMEOUT_MS, NULL, &err), FR_OK);
    CHECK(play.out.asleep == 0 && play.in.asleep == 3);
    check_row(out.name);
    CHECK_INT(move(&out, TIMEOUT_MS, NULL, &err), FR_OK);
    CHECK(play.out.asleep == 2 && play.in.asleep == 0);
    check_row(both.name);
    CHECK_INT(move(&both, TIMEOUT_MS, NULL, &err), FR_OK);
    CHECK(play.out.asleep == 3 && play.in.asleep == 3 && play.naps == 3);
}

/* The control plane has the cause: at once, or a moment after the link broke. */
static void causes(void)
{
    static const struct row waits = {"the run ends", "9", "----", 10, BYTES, 1, 2, FR_PEER, ""};
    static const struct row breaks = {
        "the cause comes later", "3x", "", 10, BYTES, 1, 2, FR_PEER, ""};
    struct fr_err err;

    control.rc = FR_PEER;
    control.check_at = 2;
    check_row(waits.name);
    CHECK_INT(move(&waits, TIMEOUT_MS, NULL, &err), FR_PEER);
    CHECK_TEXT(err.msg, "rank 2 (there) ended");
    CHECK(control.why[0] == '\0' && play.naps == 2);
    control.check_at = 20;
    check_row(breaks.name);
    CHECK_INT(move(&breaks, TIMEOUT_MS, NULL, &err), FR_PEER);
    CHECK_TEXT(err.msg, "rank 2 (there) ended");
    CHECK(control.why[0] == '\0');
    control.rc = FR_OK;
}

/* The first piece of what comes is compared as soon as it is whole. */
static void heads(void)
{
    static const struct row r = {"a head", "9", "3-19", 10, BYTES, 1, 2, FR_OK, ""};
    struct fr_err err;

    check_row(r.name);
    CHECK_INT(move(&r, TIMEOUT_MS, "ABCD", &err), FR_OK);
    CHECK_INT(move(&r, TIMEOUT_MS, "ABCX", &err), FR_PROTO);
    CHECK_INT(play.in.n, 4);
    CHECK_TEXT(err.msg, "'rows': what rank 2 (there) sends is not of the size, or of the call, "
                        "that rank 0 takes: the ranks disagree about who gets what");
    CHECK_TEXT(control.why, err.msg);
    CHECK_INT(control.aborted, FR_PROTO);
}

/* ---- who is let in ---- */

enum { JOB = 7 };

/* What a rank says of itself first, on a data connection. */
struct caller {
    uint64_t job;
    int32_t rank, zero;
};

static const struct {
    const char *name;
    struct caller who;
    size_t n; /* bytes of it */
    bool in;
} callers[] = {
    {"another run", {JOB + 1, 1, 0}, sizeof(struct caller), false},
    {"this rank itself", {JOB, 0, 0}, sizeof(struct caller), false},
    {"a rank beyond the last", {JOB, SIZE, 0}, sizeof(struct caller), false},
    {"none", {JOB, -1, 0}, sizeof(struct caller), false},
    {"one that says half of it", {JOB, 1, 0}, sizeof(struct caller) - 1, false},
    {"the first", {JOB, 1, 0}, sizeof(struct caller), true},
    {"the first once more", {JOB, 1, 0}, sizeof(struct caller), false},
    {"the second", {JOB, 2, 0}, sizeof(struct caller), true},
};
enum { CALLERS = sizeof(callers) / sizeof(callers[0]) };

/* They call before rank 0 answers: the listener has them wait. */
static void strangers(void)
{
    struct tr_comm_opts o = {.size = SIZE, .local_size = 1, .job = JOB};
    struct tr_mesh m = {.size = SIZE, .timeout_ms = TIMEOUT_MS};
    struct sockaddr_in6 a;
    socklen_t n = sizeof(a);
    int listener, fds[CALLERS];
    struct fr_err err = {0};

    check_row("callers");
    if (!CHECK_INT(tr_listen(0, CALLERS, &listener, &err), FR_OK) ||
        !CHECK_INT(getsockname(listener, (struct sockaddr *)&a, &n), 0))
        return;
    for (size_t i = 0; i < CALLERS; i++) {
        CHECK_INT(
            tr_connect("127.0.0.1", ntohs(a.sin6_port), fr_sys.mono_ms() + 60000, &fds[i], &err),
            FR_OK);
        CHECK(send(fds[i], &callers[i].who, callers[i].n, 0) == (ssize_t)callers[i].n);
        if (callers[i].n < sizeof(struct caller))
            CHECK_INT(shutdown(fds[i], SHUT_WR), 0);
    }
    CHECK_INT(tr_mesh_connect(&m, &o, listener, &err), FR_OK);
    for (size_t i = 0; i < CALLERS; i++) {
        char c = 'a';

        check_row(callers[i].name);
        if (!callers[i].in) {
            CHECK(recv(fds[i], &c, 1, MSG_DONTWAIT) == 0 || errno == ECONNRESET); /* closed */
            continue;
        }
        struct tr_link *l = &m.links[callers[i].who.rank];
        if (CHECK(l->ops != NULL && strcmp(l->ops->name, "tcp") == 0))
            CHECK(l->ops->send(l, "x", 1) == 1 && recv(fds[i], &c, 1, MSG_DONTWAIT) == 1 &&
                  c == 'x');
    }
    CHECK(m.links[0].ops == NULL);
    tr_mesh_finish(&m);
    for (size_t i = 0; i < CALLERS; i++)
        (void)close(fds[i]);
    (void)close(listener);
}

int main(void)
{
    fr_sys.mono_ms = clock_ms;
    fr_sys.poll = nap;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        try_row(&rows[i]);
    sleeps();
    causes();
    heads();
    fr_sys = fr_sys_real;
    strangers();
    return check_done();
}
