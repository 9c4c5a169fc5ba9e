/* The control plane of one rank, mostly of rank 0. The test writes the frames of the others. */
#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "tests/unit/check.h"
#include "trainer/comm/frame.h"
#include "trainer/comm/join.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#define OTHER_VERSION "it uses another version of the protocol; run the same flowtrain on all nodes"

enum { SIZE = 3, TIMEOUT_MS = 20000, WAIT_MS = 60000 };

static _Atomic int64_t now_ms = 1; /* the clock: it moves when a test moves it */

static int64_t clock_ms(void)
{
    return now_ms;
}

struct world {
    struct tr_control_opts o[SIZE];
    int tested;
    struct tr_control *c;    /* of the rank under test */
    int fd[SIZE];            /* of the others, to it; of rank 0 in its place */
    struct fr_buf in[SIZE];  /* bytes that it sent them */
    struct fr_buf out[SIZE]; /* frames to send */
};

struct joining {
    struct world *w;
    int rank;
};

static void *join(void *arg)
{
    struct joining *j = arg;
    const struct tr_control_opts *o = &j->w->o[j->rank];
    struct tr_peer peers[SIZE];
    struct fr_err err;
    int fds[SIZE];
    enum fr_rc rc =
        j->rank == j->w->tested ? tr_control_join(o, &j->w->c, &err) : tr_join(o, fds, peers, &err);

    j->w->fd[j->rank] = -1;
    if (j->rank != j->w->tested && rc == FR_OK)
        j->w->fd[j->rank] = fds[j->rank == 0 ? j->w->tested : 0];
    return rc == FR_OK ? NULL : arg;
}

static int free_port(void)
{
    struct sockaddr_in6 a;
    socklen_t n = sizeof(a);
    int fd;

    if (tr_listen(0, 1, &fd, NULL) != FR_OK || getsockname(fd, (struct sockaddr *)&a, &n) != 0)
        return 0;
    close(fd);
    return ntohs(a.sin6_port);
}

/* Who comes with another number of ranks, from another run, or as a rank that there is not. */
static void strangers(const struct world *w)
{
    static const struct {
        int rank, size, job;
        const char *why;
    } rows[] = {{1, SIZE + 1, 7, "it has WORLD_SIZE 4, rank 0 has 3"},
                {1, SIZE, 8, "it belongs to another run or an older try of this one"},
                {SIZE, SIZE, 7, "RANK 3 is not in 1..2"}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tr_control_opts o = w->o[0];
        struct tr_peer peers[SIZE + 1];
        struct fr_err err = {0};
        char want[200];
        int fds[SIZE + 1];

        o.rank = rows[i].rank;
        o.size = rows[i].size;
        o.job = (uint64_t)rows[i].job;
        CHECK_INT(tr_join(&o, fds, peers, &err), FR_PROTO);
        snprintf(want, sizeof(want), "rank 0 at 127.0.0.1 refused rank %d: %s", o.rank,
                 rows[i].why);
        CHECK_TEXT(err.msg, want);
    }
}

/* Connections that are no rank of this version. */
static void wrong_hellos(const struct world *w)
{
    static const struct {
        enum tr_frame_type type;
        uint32_t magic;
        uint32_t version;
        int rank;
        const char *why;
    } rows[] = {{TR_FRAME_BEAT, TR_HELLO_MAGIC, 2, 1, "it sent no hello"},
                {TR_FRAME_HELLO, TR_HELLO_MAGIC + 1, 2, 1, OTHER_VERSION},
                {TR_FRAME_HELLO, TR_HELLO_MAGIC, 3, 1, OTHER_VERSION},
                {TR_FRAME_HELLO, TR_HELLO_MAGIC, 2, 0, "RANK 0 is not in 1..2"}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tr_hello h = {.magic = rows[i].magic,
                             .version = rows[i].version,
                             .job = 7,
                             .rank = rows[i].rank,
                             .size = SIZE};
        struct fr_buf in = {0}, out = {0};
        enum tr_frame_type type;
        struct fr_str p = {"", 0};
        int fd;

        tr_frame_add(&out, rows[i].type, &h, sizeof(h));
        if (CHECK_INT(tr_connect("127.0.0.1", w->o[0].port, clock_ms() + WAIT_MS, &fd, NULL),
                      FR_OK)) {
            CHECK(tr_frame_send(fd, &out, clock_ms() + WAIT_MS));
            CHECK(tr_frame_recv(fd, &in, &type, &p, clock_ms() + WAIT_MS));
            CHECK_INT(type, TR_FRAME_REFUSE);
            CHECK(p.n == strlen(rows[i].why) && memcmp(p.p, rows[i].why, p.n) == 0);
            close(fd);
        }
        fr_buf_finish(&in);
        fr_buf_finish(&out);
    }
}

static void start_rank(struct world *w, int tested, const char *row)
{
    struct joining j[SIZE];
    pthread_t threads[SIZE];
    int port = free_port();

    check_row(row);
    *w = (struct world){.tested = tested};
    for (int r = 0; r < SIZE; r++) {
        w->o[r] = (struct tr_control_opts){.rank = r,
                                           .size = SIZE,
                                           .addr = "127.0.0.1",
                                           .port = port,
                                           .job = 7,
                                           .join_ms = WAIT_MS,
                                           .timeout_ms = TIMEOUT_MS,
                                           .exit_code = 44};
        j[r] = (struct joining){w, r};
        CHECK_INT(pthread_create(&threads[r], NULL, join, &j[r]), 0);
        if (r == 0) {
            strangers(w);
            wrong_hellos(w);
        }
    }
    for (int r = 0; r < SIZE; r++) {
        void *failed = NULL;
        pthread_join(threads[r], &failed);
        CHECK(failed == NULL);
    }
}

static void start(struct world *w, const char *row)
{
    start_rank(w, 0, row);
}

static void stop(struct world *w)
{
    tr_control_leave(w->c);
    for (int r = 0; r < SIZE; r++) {
        if (w->fd[r] >= 0)
            close(w->fd[r]);
        fr_buf_finish(&w->in[r]);
        fr_buf_finish(&w->out[r]);
    }
}

/* Sends all frames of a rank that were added, in one piece. */
static void flush(struct world *w, int rank)
{
    CHECK(tr_frame_send(w->fd[rank], &w->out[rank], clock_ms() + WAIT_MS));
    fr_buf_finish(&w->out[rank]);
}

static void add(struct world *w, int rank, enum tr_frame_type type, const char *text)
{
    tr_frame_add(&w->out[rank], type, text, strlen(text));
}

static void add_beat(struct world *w, int rank, int64_t seq, const char *what)
{
    struct tr_beat b = {.seq = seq};

    memcpy(b.what, what, strlen(what));
    tr_frame_add(&w->out[rank], TR_FRAME_BEAT, &b, sizeof(b));
}

static void add_abort(struct world *w, int rank, uint32_t code)
{
    char body[sizeof(code) + 7];

    memcpy(body, &code, sizeof(code));
    memcpy(body + sizeof(code), "no room", 7);
    tr_frame_add(&w->out[rank], TR_FRAME_ABORT, body, sizeof(body));
}

/* The next frame for a rank that is no beat must have this type and this payload behind `skip`. */
static void receive(struct world *w, int rank, enum tr_frame_type want, size_t skip,
                    const char *text)
{
    enum tr_frame_type type = TR_FRAME_BEAT;
    struct fr_str p;
    size_t n = 0;

    do {
        fr_buf_cut(&w->in[rank], n);
        if (!CHECK(tr_frame_recv(w->fd[rank], &w->in[rank], &type, &p, clock_ms() + WAIT_MS)))
            return;
        n = TR_FRAME_HEAD + p.n;
    } while (type == TR_FRAME_BEAT);
    CHECK_INT(type, want);
    CHECK_INT((long long)p.n, (long long)(skip + strlen(text)));
    CHECK(p.n >= skip && strncmp(p.p + skip, text, p.n - skip) == 0);
    fr_buf_cut(&w->in[rank], n);
}

/* Waits for the end of the run: its code and its reason, with HOST for the name of this machine. */
static void ends(struct world *w, enum fr_rc rc, const char *reason)
{
    char host[TR_CONTROL_HOST] = "", want[FR_ERR_MAX];
    struct fr_err err = {0};
    const char *at = strstr(reason, "HOST");

    while (tr_control_check(w->c, &err) == FR_OK)
        fr_sys_real.poll(NULL, 0, 1);
    gethostname(host, sizeof(host) - 1);
    snprintf(want, sizeof(want), "%.*s%s%s", at != NULL ? (int)(at - reason) : (int)strlen(reason),
             reason, at != NULL ? host : "", at != NULL ? at + 4 : "");
    CHECK_INT(err.rc, rc);
    CHECK_TEXT(err.msg, want);
    for (int r = 1; r < SIZE; r++)
        if (w->fd[r] >= 0)
            receive(w, r, TR_FRAME_ABORT, sizeof(uint32_t), want);
}

/* Rank 1 sends its parts of two collectives before rank 0 begins the first. */
static void early_parts(struct world *w)
{
    char all[SIZE + 1] = "";
    struct fr_err err;

    start(w, "parts that come early");
    add(w, 1, TR_FRAME_PART, "a");
    add(w, 1, TR_FRAME_PART, "c");
    flush(w, 1);
    add(w, 2, TR_FRAME_PART, "b");
    flush(w, 2);
    CHECK_INT(tr_control_all_gather(w->c, all, "0", 1, &err), FR_OK);
    CHECK_TEXT(all, "0ab");
    add(w, 2, TR_FRAME_PART, "d");
    flush(w, 2);
    CHECK_INT(tr_control_all_gather(w->c, all, "1", 1, &err), FR_OK);
    CHECK_TEXT(all, "1cd");
    for (int r = 1; r < SIZE; r++) {
        receive(w, r, TR_FRAME_WHOLE, 0, "0ab");
        receive(w, r, TR_FRAME_WHOLE, 0, "1cd");
    }
    tr_control_leave(w->c);
    w->c = NULL;
    for (int r = 1; r < SIZE; r++)
        receive(w, r, TR_FRAME_BYE, 0, "");
    stop(w);
}

static void wrong_size(struct world *w, const char *part)
{
    char all[4 * SIZE];
    struct fr_err err;

    start(w, part);
    add(w, 1, TR_FRAME_PART, part);
    flush(w, 1);
    add(w, 2, TR_FRAME_PART, "four");
    flush(w, 2);
    CHECK_INT(tr_control_all_gather(w->c, all, "four", 4, &err), FR_PROTO);
    ends(w, FR_PROTO, "ranks disagree about a host collective");
    stop(w);
}

static void silent_rank(struct world *w)
{
    start(w, "a silent rank");
    now_ms += TIMEOUT_MS + 1000;
    add_beat(w, 2, 0, ""); /* wakes rank 0 */
    flush(w, 2);
    ends(w, FR_TIMEOUT, "rank 1 (HOST) after collective 0 has been silent for 21 s");
    stop(w);
}

/* The next line of the log is about that rank. */
static void says(int fd, int rank, const char *what)
{
    char line[400], name[20];
    size_t n = 0;

    while (n < sizeof(line) - 1 && read(fd, &line[n], 1) == 1 && line[n] != '\n')
        n++;
    line[n] = '\0';
    snprintf(name, sizeof(name), " rank %d (", rank);
    if (!CHECK(strstr(line, name) != NULL && strstr(line, what) != NULL))
        printf("   %s\n", line);
}

static void beat(struct world *w, int rank)
{
    add_beat(w, rank, 0, "");
    flush(w, rank);
}

/* Each silence is said once, and once that it is over. */
static void silent_for_a_while(struct world *w)
{
    int fds[2] = {-1, -1};

    start(w, "ranks that are silent for a while, twice");
    CHECK_INT(pipe(fds), 0);
    fr_log_to(fds[1]);
    for (int i = 0; i < 2; i++) {
        now_ms += 11000;
        says(fds[0], 1, " has been silent for 11 s; the run ends at 20 s");
        says(fds[0], 2, " has been silent for 11 s; the run ends at 20 s");
        beat(w, 1);
        says(fds[0], 1, " answers again");
        beat(w, 1); /* of which nothing is said */
        beat(w, 2);
        says(fds[0], 2, " answers again");
    }
    fr_log_to(2);
    stop(w);
    close(fds[0]);
    close(fds[1]);
}

/* Of the two that are silent one has left. */
static void silent_after_goodbye(struct world *w)
{
    char all[SIZE + 1] = "";
    struct fr_err err;
    int fds[2] = {-1, -1};

    start(w, "a rank that is silent since its goodbye");
    CHECK_INT(pipe(fds), 0);
    fr_log_to(fds[1]);
    add(w, 1, TR_FRAME_PART, "a");
    add(w, 1, TR_FRAME_BYE, "");
    flush(w, 1);
    add(w, 2, TR_FRAME_PART, "b");
    flush(w, 2);
    CHECK_INT(tr_control_all_gather(w->c, all, "0", 1, &err), FR_OK);
    now_ms += 10001;
    says(fds[0], 2, " has been silent for 10 s");
    fr_log_to(2);
    stop(w);
    close(fds[0]);
    close(fds[1]);
}

static void end_of_a_rank(struct world *w)
{
    start(w, "a rank that ends after another said goodbye");
    add(w, 1, TR_FRAME_BYE, "");
    flush(w, 1);
    close(w->fd[1]);
    w->fd[1] = -1;
    shutdown(w->fd[2], SHUT_WR);
    close(w->fd[2]);
    w->fd[2] = -1;
    ends(w, FR_PEER, "rank 2 (HOST) after collective 0 ended");
    stop(w);
}

static void abort_of_a_rank(struct world *w)
{
    static const uint32_t codes[] = {FR_NOMEM, FR_BUG, FR_BUG + 1, FR_OK};

    for (int i = 0; i < 4; i++) {
        start(w, i < 2 ? "the reason of an abort" : "an abort for a reason that there is not");
        add_abort(w, 2, codes[i]);
        flush(w, 2);
        ends(w, i < 2 ? (enum fr_rc)codes[i] : FR_PEER, "no room");
        stop(w);
    }
}

/* A rank's part is behind its beat in the stream: after the all-gather both beats were read. */
static void ranks_behind(struct world *w)
{
    char all[SIZE + 1] = "", host[TR_CONTROL_HOST] = "", want[200];
    struct fr_buf who = {0};
    struct fr_err err;

    start(w, "ranks behind");
    gethostname(host, sizeof(host) - 1);
    tr_control_note(w->c, 5, "layer 1");
    add_beat(w, 1, 4, "layer 0");
    add(w, 1, TR_FRAME_PART, "a");
    flush(w, 1);
    add_beat(w, 2, 5, "layer 1");
    add(w, 2, TR_FRAME_PART, "b");
    flush(w, 2);
    CHECK_INT(tr_control_all_gather(w->c, all, "0", 1, &err), FR_OK);
    CHECK_INT((long long)tr_control_behind(w->c, &who), 1);
    snprintf(want, sizeof(want), "rank 1 (%s) in collective 4 'layer 0'", host);
    CHECK_TEXT(who.p, want);
    fr_buf_finish(&who);
    stop(w);
}

/* Rank 0 answers rank 1's frame, and ends the run in the same breath. */
struct answer {
    struct world *w;
    enum tr_frame_type want, type;
    const char *asked, *text;
};

static void *answer(void *arg)
{
    struct answer *a = arg;

    receive(a->w, 0, a->want, 0, a->asked);
    add(a->w, 0, a->type, a->text);
    add_abort(a->w, 0, FR_NOMEM);
    flush(a->w, 0);
    return NULL;
}

/* The run ends behind a collective that is whole: that one has succeeded, the next one fails. */
static void end_behind_a_collective(struct world *w)
{
    struct answer rows[] = {{w, TR_FRAME_PART, TR_FRAME_WHOLE, "b", "abc"},
                            {w, TR_FRAME_ANNOUNCE, TR_FRAME_AGREED, "call", ""}};

    for (int i = 0; i < 2; i++) {
        char all[SIZE + 1] = "";
        struct fr_err err = {0};
        pthread_t thread;

        start_rank(w, 1, i == 0 ? "an end behind a gather" : "an end behind an agreement");
        CHECK_INT(pthread_create(&thread, NULL, answer, &rows[i]), 0);
        CHECK_INT(i == 0 ? tr_control_all_gather(w->c, all, "b", 1, &err)
                         : tr_control_agree(w->c, (struct fr_str){"call", 4}, &err),
                  FR_OK);
        CHECK_TEXT(all, i == 0 ? "abc" : "");
        pthread_join(thread, NULL);
        CHECK_INT(tr_control_all_gather(w->c, all, "b", 1, &err), FR_NOMEM);
        CHECK_TEXT(err.msg, "no room");
        stop(w);
    }
}

static _Atomic(struct world *) leaving; /* rank 0 of it leaves when rank 1 is about to send */

/* The connection is reset, since the beat of rank 1 stays unread in it. */
static int leave_first(struct pollfd *set, nfds_t n, int timeout_ms)
{
    int ready = fr_sys_real.poll(set, n, timeout_ms);
    struct world *w = n == 2 && set[0].revents != 0 ? atomic_exchange(&leaving, NULL) : NULL;

    if (w != NULL) {
        add_abort(w, 0, FR_NOMEM);
        flush(w, 0);
        close(w->fd[0]);
        w->fd[0] = -1;
    }
    return ready;
}

static void end_before_a_send(struct world *w)
{
    char all[SIZE + 1] = "", byte;
    struct fr_err err = {0};

    fr_sys.poll = leave_first;
    start_rank(w, 1, "the reason of an end, found when nothing can be sent");
    CHECK_INT((long long)recv(w->fd[0], &byte, 1, MSG_PEEK), 1);
    atomic_store(&leaving, w);
    CHECK_INT(tr_control_all_gather(w->c, all, "b", 1, &err), FR_NOMEM);
    CHECK_TEXT(err.msg, "no room");
    stop(w);
    fr_sys.poll = fr_sys_real.poll;
}

int main(void)
{
    struct world w;

    fr_sys.mono_ms = clock_ms;
    early_parts(&w);
    wrong_size(&w, "one");
    wrong_size(&w, "seven");
    silent_rank(&w);
    silent_for_a_while(&w);
    silent_after_goodbye(&w);
    end_of_a_rank(&w);
    abort_of_a_rank(&w);
    ranks_behind(&w);
    end_behind_a_collective(&w);
    end_before_a_send(&w);
    return check_done();
}
