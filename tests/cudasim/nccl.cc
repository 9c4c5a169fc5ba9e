/*
 * The calls of NCCL that trainer/comm makes, for ranks that are processes of this machine: a
 * library of its own, opened as the real one is. Data goes over Unix sockets, one between each two
 * ranks, in frames that carry their size, so that a receive of another size than the send is found.
 * A group of calls is one piece of work in the stream. As on a device, work whose peer is gone or
 * late hangs until the communicator is aborted; as in a communicator that does not block, calls
 * answer that they are in progress, and the state says so once before it says done.
 */
#include "tests/cudasim/device.h"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { OK = 0, SYSTEM_ERROR = 2, INVALID = 4, REMOTE_ERROR = 6, IN_PROGRESS = 7 };
enum { OWN_BYTES = 512 << 10 };

/* What is left of one direction between two ranks: a size, then the bytes. */
struct piece {
    char *p;
    size_t bytes;
    uint64_t head;
    size_t done; /* of the head and the bytes */
};

struct ncclComm {
    int rank, size;
    std::vector<int> fd;        /* to each rank; -1 at its own place */
    cudaEvent_t last = nullptr; /* behind the last group: groups run in order over all streams */
    std::atomic<bool> aborted{false};
    std::atomic<int> error{OK};
    std::atomic<int> asked{0}; /* state queries since the last call */
    void *own = nullptr;       /* device memory of its own; that of calls comes with the first */
    void *calls = nullptr;
};

struct wanted {
    bool send;
    char *p;
    size_t bytes;
    int peer;
};

struct group {
    int depth;
    struct ncclComm *comm;
    cudaStream_t stream;
    std::vector<struct wanted> all;
};
static thread_local struct group open_group;
static cudaEvent_t issued; /* behind the last group of all, where their order is kept */

struct unique_id {
    char bytes[128];
};

static struct sockaddr_un address_of(const struct unique_id &id, int rank, socklen_t *n)
{
    struct sockaddr_un a = {};
    int len = snprintf(a.sun_path + 1, sizeof a.sun_path - 1, "%.64s-%d", id.bytes, rank);

    a.sun_family = AF_UNIX; /* an abstract name: nothing is left behind */
    *n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
    return a;
}

/* One step of a piece; whether it is done. */
static bool move_piece(struct ncclComm *c, bool send, int fd, struct piece *x)
{
    while (x->done < sizeof x->head + x->bytes) {
        bool head = x->done < sizeof x->head;
        char *at = head ? (char *)&x->head + x->done : x->p + (x->done - sizeof x->head);
        size_t left = (head ? sizeof x->head : sizeof x->head + x->bytes) - x->done;
        ssize_t n = send ? ::send(fd, at, left, MSG_DONTWAIT | MSG_NOSIGNAL)
                         : ::recv(fd, at, left, MSG_DONTWAIT);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return false;
        if (n <= 0) {
            c->error = REMOTE_ERROR;
            return false;
        }
        x->done += (size_t)n;
        if (!send && x->done == sizeof x->head && x->head != x->bytes)
            sim_fail("nccl: a send of %zu bytes meets a receive of %zu", (size_t)x->head, x->bytes);
    }
    return true;
}

/* What a rank sends itself. */
static void move_own(const std::vector<struct wanted> &all, int rank)
{
    std::vector<const struct wanted *> from, to;

    for (const struct wanted &w : all)
        if (w.peer == rank)
            (w.send ? from : to).push_back(&w);
    if (from.size() != to.size())
        sim_fail("nccl: %zu sends to itself, %zu receives", from.size(), to.size());
    for (size_t i = 0; i < from.size(); i++) {
        if (from[i]->bytes != to[i]->bytes)
            sim_fail("nccl: sends itself %zu bytes, takes %zu", from[i]->bytes, to[i]->bytes);
        memmove(to[i]->p, from[i]->p, to[i]->bytes);
    }
}

static void run_group(struct ncclComm *c, const std::vector<struct wanted> &all)
{
    std::vector<std::vector<struct piece>> lines(2 * (size_t)c->size);
    std::vector<size_t> at(lines.size(), 0);
    size_t left = 0;

    move_own(all, c->rank);
    for (const struct wanted &w : all)
        if (w.peer != c->rank) {
            lines[2 * (size_t)w.peer + w.send].push_back({w.p, w.bytes, w.send ? w.bytes : 0, 0});
            left++;
        }
    while (left > 0 && !c->aborted) {
        std::vector<struct pollfd> set;

        for (size_t i = 0; i < lines.size(); i++)
            while (c->error == OK && at[i] < lines[i].size() &&
                   move_piece(c, i % 2 != 0, c->fd[i / 2], &lines[i][at[i]])) {
                at[i]++;
                left--;
            }
        for (size_t i = 0; i < lines.size() && c->error == OK; i++)
            if (at[i] < lines[i].size())
                set.push_back({c->fd[i / 2], (short)(i % 2 != 0 ? POLLOUT : POLLIN), 0});
        if (left > 0)
            poll(set.data(), set.size(), 20); /* 20: an abort is seen then */
    }
}

static int want(const struct wanted &w, struct ncclComm *c, cudaStream_t s)
{
    if (open_group.depth == 0 || w.peer < 0 || w.peer >= c->size)
        return INVALID; /* the trainer always opens a group */
    open_group.comm = c;
    open_group.stream = s;
    open_group.all.push_back(w);
    return OK;
}

/* Connects to all lower ranks, takes the connections of the others. */
static bool meet(struct ncclComm *c, const struct unique_id &id)
{
    socklen_t n;
    struct sockaddr_un a = address_of(id, c->rank, &n);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (listener < 0 || bind(listener, (struct sockaddr *)&a, n) != 0 ||
        listen(listener, c->size) != 0)
        return false;
    for (int r = 0; r < c->rank; r++) {
        a = address_of(id, r, &n);
        c->fd[(size_t)r] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        while (connect(c->fd[(size_t)r], (struct sockaddr *)&a, n) != 0)
            poll(NULL, 0, 1); /* until that rank listens */
        if (send(c->fd[(size_t)r], &c->rank, sizeof c->rank, MSG_NOSIGNAL) != sizeof c->rank)
            return false;
    }
    for (int i = c->rank + 1; i < c->size; i++) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC), from = -1;

        if (fd < 0 || recv(fd, &from, sizeof from, MSG_WAITALL) != sizeof from)
            return false;
        c->fd[(size_t)from] = fd;
    }
    close(listener);
    return true;
}

extern "C" {
/* $CUDASIM_NCCL: 22300 is version 2.23, which knows no order of several communicators. */
int ncclGetVersion(int *version)
{
    const char *given = getenv("CUDASIM_NCCL");

    *version = given != nullptr ? atoi(given) : 22809;
    return OK;
}

int ncclGetUniqueId(struct unique_id *id)
{
    static std::atomic<int> count{0};

    memset(id, 0, sizeof *id);
    snprintf(id->bytes, sizeof id->bytes, "ncclsim-%d-%d", (int)getpid(), count++);
    return OK;
}

struct config {
    size_t size;
    unsigned magic, version;
    int blocking;
};

/* $CUDASIM_NCCL_REFUSES: "NAME=VALUE", a setting with which no communicator comes about. */
static bool refused(void)
{
    const char *given = getenv("CUDASIM_NCCL_REFUSES"), *value;
    std::string name = given != nullptr ? std::string(given).substr(0, strcspn(given, "=")) : "";

    value = given != nullptr ? getenv(name.c_str()) : nullptr;
    return value != nullptr && name + "=" + value == given;
}

int ncclCommInitRankConfig(struct ncclComm **out, int size, struct unique_id id, int rank,
                           struct config *config)
{
    struct ncclComm *c;

    if (refused())
        return SYSTEM_ERROR;
    if (config->magic != 0xcafebeefu || config->blocking != 0)
        return INVALID;
    c = new ncclComm;
    c->rank = rank;
    c->size = size;
    c->fd.assign((size_t)size, -1);
    *out = c;
    if (cudaMalloc(&c->own, OWN_BYTES) != cudaSuccess)
        return SYSTEM_ERROR;
    return meet(c, id) ? IN_PROGRESS : SYSTEM_ERROR;
}

int ncclCommFinalize(struct ncclComm *c)
{
    c->asked = 0;
    return IN_PROGRESS;
}

int ncclCommDestroy(struct ncclComm *c)
{
    for (int fd : c->fd)
        if (fd >= 0)
            close(fd);
    if (c->last != nullptr)
        cudaEventDestroy(c->last);
    cudaFree(c->own);
    cudaFree(c->calls);
    delete c;
    return OK;
}

/* Work in a stream may still look at it, so it is not freed. */
int ncclCommAbort(struct ncclComm *c)
{
    c->aborted = true;
    return OK;
}

int ncclCommGetAsyncError(struct ncclComm *c, int *result)
{
    *result = c->error != OK ? c->error.load() : c->asked++ == 0 ? (int)IN_PROGRESS : (int)OK;
    return OK;
}

const char *ncclGetErrorString(int result)
{
    return result == REMOTE_ERROR ? "remote process exited or there was a network error"
           : result == INVALID    ? "invalid argument"
                                  : "unhandled system error";
}

int ncclGroupStart(void)
{
    open_group.depth++;
    return OK;
}

/* Whether groups of all communicators run in the order of the calls. */
static bool as_issued(void)
{
    const char *given = getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
    int version = 0;

    return ncclGetVersion(&version) == OK && version >= 22600 && given != nullptr &&
           strcmp(given, "1") == 0;
}

/*
 * Microseconds of a group. $CUDASIM_NCCL_BEST: "NAME=VALUE NAME=VALUE", the best settings. As in
 * the library, what counts is the environment when the process first made a communicator; each
 * setting that is not as it should be costs a part more, and one that nothing is said of but is set
 * costs as well.
 */
static double takes(const struct ncclComm *)
{
    static const double us = [] {
        const char *best = getenv("CUDASIM_NCCL_BEST");
        double sum = best != nullptr ? 1000 : 1;

        for (const char *name :
             {"NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD", "NCCL_NCHANNELS_PER_NET_PEER",
              "NCCL_P2P_NET_CHUNKSIZE", "NCCL_BUFFSIZE"}) {
            const char *value = getenv(name);
            std::string want = best != nullptr ? best : "",
                        is = std::string(name) + "=" + (value ? value : "");
            bool asked = want.find(std::string(name) + "=") != std::string::npos;

            if (asked && (" " + want + " ").find(" " + is + " ") == std::string::npos)
                sum += 200;
            else if (best != nullptr && !asked && value != nullptr)
                sum += 100;
        }
        return sum;
    }();

    return us;
}

int ncclGroupEnd(void)
{
    struct ncclComm *c = open_group.comm;
    std::vector<struct wanted> all;

    if (--open_group.depth > 0 || open_group.all.empty())
        return OK;
    all.swap(open_group.all);
    if (c->calls == nullptr && cudaMalloc(&c->calls, OWN_BYTES) != cudaSuccess)
        return SYSTEM_ERROR;
    c->asked = 0;
    if (c->last != nullptr)
        cudaStreamWaitEvent(open_group.stream, c->last, 0);
    else
        cudaEventCreateWithFlags(&c->last, cudaEventDisableTiming);
    if (as_issued() && issued == nullptr)
        cudaEventCreateWithFlags(&issued, cudaEventDisableTiming);
    else if (as_issued())
        cudaStreamWaitEvent(open_group.stream, issued, 0);
    sim_put_late(open_group.stream, takes(c), [c, all] { run_group(c, all); });
    cudaEventRecord(c->last, open_group.stream);
    if (as_issued())
        cudaEventRecord(issued, open_group.stream);
    return IN_PROGRESS;
}

int ncclSend(const void *p, size_t n, int, int peer, struct ncclComm *c, cudaStream_t s)
{
    return want({true, (char *)const_cast<void *>(p), n, peer}, c, s);
}

int ncclRecv(void *p, size_t n, int, int peer, struct ncclComm *c, cudaStream_t s)
{
    return want({false, (char *)p, n, peer}, c, s);
}

int ncclAllGather(const void *in, void *out, size_t n, int, struct ncclComm *c, cudaStream_t s)
{
    int rc = OK;

    for (int r = 0; r < c->size && rc == OK; r++) {
        rc = want({true, (char *)const_cast<void *>(in), n, r}, c, s);
        if (rc == OK)
            rc = want({false, (char *)out + (size_t)r * n, n, r}, c, s);
    }
    return rc;
}

int ncclBroadcast(const void *in, void *out, size_t n, int, int root, struct ncclComm *c,
                  cudaStream_t s)
{
    int rc = OK;

    if (c->rank != root)
        return want({false, (char *)out, n, root}, c, s);
    for (int r = 0; r < c->size && rc == OK; r++)
        if (r != root)
            rc = want({true, (char *)const_cast<void *>(in), n, r}, c, s);
    if (rc == OK && in != out)
        rc = INVALID; /* the trainer broadcasts in place */
    return rc;
}
}
