/* How nodes reach each other: the rendezvous address of a gang. */
#include "engine/run/inside.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

bool run_local(const struct fr_plan *plan, uint32_t node)
{
    const struct fr_node *spec = plan->nodes[node].spec;

    return spec == NULL || spec->executor == FR_EXECUTOR_LOCAL;
}

bool run_node_local(const struct fr_run *run, uint32_t node)
{
    return run_local(run->plan, node);
}

const char *run_node_address(const struct fr_run *run, uint32_t node)
{
    const struct fr_node *spec = run->plan->nodes[node].spec;

    return spec != NULL && spec->address != NULL ? spec->address : "127.0.0.1";
}

/* First address of a name, numeric. Names were already resolved once, to connect. */
static enum fr_rc numeric(const char *name, struct sockaddr_storage *sa, socklen_t *len,
                          struct fr_err *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM, .ai_flags = AI_ADDRCONFIG};
    struct addrinfo *list = NULL;
    int code = getaddrinfo(name, "9", &hints, &list);

    if (code != 0)
        return fr_fail(err, FR_NOTFOUND, "the address of %s: %s", name, gai_strerror(code));
    memcpy(sa, list->ai_addr, list->ai_addrlen);
    *len = list->ai_addrlen;
    freeaddrinfo(list);
    return FR_OK;
}

static enum fr_rc in_digits(const struct sockaddr_storage *sa, socklen_t len, char out[64],
                            struct fr_err *err)
{
    int code = getnameinfo((const struct sockaddr *)sa, len, out, 64, NULL, 0, NI_NUMERICHOST);

    return code == 0 ? FR_OK : fr_fail(err, FR_IO, "writing an address: %s", gai_strerror(code));
}

/* This machine's own address on the route to another: what the kernel would send from. No packet
 * leaves: connect(2) on a datagram socket only chooses a route. */
static enum fr_rc own_address(const char *to, char out[64], struct fr_err *err)
{
    struct sockaddr_storage sa;
    socklen_t len = 0;
    enum fr_rc rc = numeric(to, &sa, &len, err);
    int fd;

    if (rc != FR_OK)
        return rc;
    fd = socket(sa.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return fr_fail(err, FR_IO, "making a socket");
    if (connect(fd, (struct sockaddr *)&sa, len) != 0) {
        rc = fr_fail(err, FR_UNREACHABLE, "no route from here to %s", to);
    } else {
        len = sizeof(sa);
        rc = getsockname(fd, (struct sockaddr *)&sa, &len) != 0
                 ? fr_fail(err, FR_IO, "asking for the own address")
                 : in_digits(&sa, len, out, err);
    }
    close(fd);
    return rc;
}

enum fr_rc run_rendezvous(struct fr_run *run, const struct fr_plan_task *task, char out[64],
                          struct fr_err *err)
{
    const struct fr_plan *plan = run->plan;
    uint32_t head = plan->insts[task->first].node, far = FR_PLAN_NONE;
    struct sockaddr_storage sa;
    socklen_t len = 0;
    enum fr_rc rc;

    if (run->spec->rendezvous_address != NULL) {
        snprintf(out, 64, "%s", run->spec->rendezvous_address);
        return FR_OK;
    }
    for (uint32_t i = 1; i < task->count && far == FR_PLAN_NONE; i++)
        if (!run_node_local(run, plan->insts[task->first + i].node))
            far = plan->insts[task->first + i].node;
    if (run_node_local(run, head)) {
        if (far != FR_PLAN_NONE)
            return own_address(run_node_address(run, far), out, err);
        snprintf(out, 64, "127.0.0.1");
        return FR_OK;
    }
    if ((rc = numeric(run_node_address(run, head), &sa, &len, err)) != FR_OK) {
        /* an alias of ~/.ssh/config that no resolver knows */
        return fr_while(err, "the rendezvous of %s (`rendezvous: {address: …}` sets it)",
                        task->name);
    }
    return in_digits(&sa, len, out, err);
}
