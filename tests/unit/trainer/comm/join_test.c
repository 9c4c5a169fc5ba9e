/* The rendezvous that ends without all ranks: who is missing is named, in runs. */
#include "engine/base/sys.h"
#include "tests/unit/check.h"
#include "trainer/comm/join.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SIZE = 9, JOIN_MS = 5000, LISTENS_MS = 500 /* each look of rank 0 for another rank */ };

static _Atomic int64_t now_ms = 1;
static atomic_int come; /* connections that rank 0 took */
static int awaited;     /* when so many have come the time is over */

static int64_t clock_ms(void)
{
    return now_ms;
}

static int take(int fd)
{
    int got = fr_sys_real.accept(fd);

    if (got >= 0)
        atomic_fetch_add(&come, 1);
    return got;
}

/* The clock moves when rank 0 looks for others and none is on its way any more. */
static int look(struct pollfd *set, nfds_t n, int wait_ms)
{
    int k = fr_sys_real.poll(set, n, wait_ms > 20 ? 20 : wait_ms);

    if (k == 0 && wait_ms == LISTENS_MS && atomic_load(&come) == awaited)
        now_ms += JOIN_MS + 1;
    return k;
}

static struct tr_control_opts opts(int rank, int port)
{
    return (struct tr_control_opts){.rank = rank,
                                    .size = SIZE,
                                    .addr = "127.0.0.1",
                                    .port = port,
                                    .job = 7,
                                    .join_ms = rank == 0 ? JOIN_MS : 1000 * JOIN_MS};
}

struct comer {
    int rank, port;
    enum fr_rc rc;
};

static void *join(void *arg)
{
    struct comer *c = arg;
    struct tr_control_opts o = opts(c->rank, c->port);
    struct tr_peer peers[SIZE];
    int fds[SIZE];

    c->rc = tr_join(&o, fds, peers, NULL);
    return NULL;
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

static const struct {
    const char *missing;
    int here[SIZE]; /* ranks that come, up to 0 */
} rows[] = {
    {"1-8", {0}},
    {"2-8", {1, 0}},
    {"1-7", {8, 0}},
    {"1, 4, 6-8", {2, 3, 5, 0}},
    {"2, 4-5, 7", {1, 3, 6, 8, 0}},
    {"8", {1, 2, 3, 4, 5, 6, 7, 0}},
};

int main(void)
{
    fr_sys.mono_ms = clock_ms;
    fr_sys.poll = look;
    fr_sys.accept = take;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct comer comers[SIZE];
        pthread_t threads[SIZE];
        struct tr_control_opts o = opts(0, free_port());
        struct tr_peer peers[SIZE];
        int fds[SIZE], n = 0;
        struct fr_err err = {0};
        char want[100];

        check_row(rows[i].missing);
        atomic_store(&come, 0);
        for (awaited = 0; rows[i].here[awaited] > 0;)
            awaited++;
        for (; n < awaited; n++) {
            comers[n] = (struct comer){rows[i].here[n], o.port, FR_OK};
            CHECK_INT(pthread_create(&threads[n], NULL, join, &comers[n]), 0);
        }
        CHECK_INT(tr_join(&o, fds, peers, &err), FR_TIMEOUT);
        (void)snprintf(want, sizeof(want), "ranks %s of %d never came to port %d within 5 s",
                       rows[i].missing, SIZE, o.port);
        CHECK_TEXT(err.msg, want);
        while (n-- > 0) {
            CHECK_INT(pthread_join(threads[n], NULL), 0);
            CHECK_INT(comers[n].rc, FR_PEER);
        }
    }
    fr_sys = fr_sys_real;
    return check_done();
}
