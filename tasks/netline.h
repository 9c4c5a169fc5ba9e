/* JSON values, a line each, over TCP between the members of a gang; addresses without NSS. */
#ifndef TASKS_NETLINE_H
#define TASKS_NETLINE_H

#include "tasks/job.h"

#include <sys/socket.h>

struct fr_netline {
    int fd;           /* owns; -1: closed */
    struct fr_buf in; /* owns: bytes received after the last line */
};

/* name as a numeric address with port: IPv4, IPv6 (brackets allowed), or a host name, which the
 * command getent looks up. */
enum fr_rc fr_net_address(const char *name, int64_t port, struct sockaddr_storage *out,
                          struct fr_err *err);

/* "10.0.0.1", "fe80::1"; IPv4 mapped into IPv6 is shown as IPv4. */
void fr_net_show(const struct sockaddr_storage *a, char out[64]);
socklen_t fr_net_size(const struct sockaddr_storage *a);

/* Tries again until somebody listens; FR_UNREACHABLE at until_ms (mono_ms). */
enum fr_rc fr_net_connect(const struct sockaddr_storage *a, int64_t until_ms, int *fd,
                          struct fr_err *err);

/* A listening socket on port for any address. FR_BUSY: somebody else has the port. */
enum fr_rc fr_net_listen(int64_t port, int *fd, struct fr_err *err);

/* The name of the interface that holds the address from which a is reached; "" unknown. */
void fr_net_interface(const struct sockaddr_storage *a, char out[32]);

enum fr_rc fr_netline_send(struct fr_netline *c, const json_t *value, int64_t until_ms,
                           struct fr_err *err);
/* *out is the caller's. FR_PEER: the other side closed. FR_TIMEOUT. FR_PROTO: no JSON object. */
enum fr_rc fr_netline_get(struct fr_netline *c, int64_t until_ms, json_t **out, struct fr_err *err);
void fr_netline_close(struct fr_netline *c);

#endif
