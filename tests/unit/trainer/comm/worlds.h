/*
 * Worlds of real processes over the CPU transport: shared memory inside a node, TCP between nodes.
 */
#ifndef TESTS_UNIT_WORLDS_H
#define TESTS_UNIT_WORLDS_H

#include "engine/base/sys.h"
#include "trainer/comm/comm.h"
#include "trainer/comm/join.h"

#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX = 5 };

struct world {
    int size, per_node; /* ranks of one node share memory */
    int port;
    int socks[MAX][MAX];
    int64_t timeout_ms;
    bool check;
    bool staged; /* what moves goes through host memory in pieces, as between GPUs without NCCL */
};

/* What one rank does; its exit status is the number of wrong things. */
typedef int (*rank_body)(struct tr_comm *comm);

static inline int free_port(void)
{
    int fd, port = 0;
    struct sockaddr_in6 a;
    socklen_t n = sizeof(a);

    if (tr_listen(0, 1, &fd, NULL) == FR_OK && getsockname(fd, (struct sockaddr *)&a, &n) == 0)
        port = ntohs(a.sin6_port);
    close(fd);
    return port;
}

static inline int run_rank(const struct world *w, int rank, rank_body body)
{
    struct tr_comm_opts o = {.rank = rank,
                             .size = w->size,
                             .local_rank = rank % w->per_node,
                             .addr = "127.0.0.1",
                             .port = w->port,
                             .job = 7,
                             .join_ms = 20000,
                             .timeout_ms = w->timeout_ms,
                             .exit_code = 44,
                             .check = w->check};
    int first = rank - o.local_rank, socks[MAX];
    struct tr_backend *be = NULL;
    struct tr_comm *comm;
    struct fr_err err;

    o.local_size = w->size - first < w->per_node ? w->size - first : w->per_node;
    o.node = rank / w->per_node;
    o.nodes = (w->size + w->per_node - 1) / w->per_node;
    for (int j = 0; j < o.local_size; j++)
        socks[j] = w->socks[rank][first + j];
    o.local_socks = o.local_size > 1 ? socks : NULL;
    if (tr_cpu_create(&be, &err) != FR_OK ||
        (w->staged ? tr_comm_host(be, &o, &comm, &err) : tr_comm_cpu(be, &o, &comm, &err)) !=
            FR_OK) {
        printf("rank %d: %s\n", rank, err.msg);
        return 99;
    }
    int bad = body(comm);
    tr_comm_destroy(comm);
    tr_backend_destroy(be);
    return bad;
}

/* Forks the world; statuses[r] is each rank's exit status, or 256 + signal. */
static inline void run_world(struct world *w, rank_body body, int *statuses)
{
    pid_t pids[MAX];

    w->port = free_port();
    for (int i = 0; i < w->size; i++)
        for (int j = i + 1; j < w->size; j++) {
            int p[2];
            if (socketpair(AF_UNIX, SOCK_STREAM, 0, p) != 0)
                return;
            w->socks[i][j] = p[0];
            w->socks[j][i] = p[1];
        }
    fflush(stdout);
    for (int r = 0; r < w->size; r++)
        if ((pids[r] = fork()) == 0) {
            for (int i = 0; i < w->size;
                 i++) /* as exec would: only a rank's own sockets stay open */
                for (int j = 0; i != r && j < w->size; j++)
                    if (j != i)
                        close(w->socks[i][j]);
            int bad = run_rank(w, r, body);
            fflush(stdout);
            _exit(bad);
        }
    for (int i = 0; i < w->size; i++)
        for (int j = 0; j < w->size; j++)
            if (i != j)
                close(w->socks[i][j]);
    for (int r = 0; r < w->size; r++) {
        int status;
        waitpid(pids[r], &status, 0);
        statuses[r] = WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
    }
}

#endif
