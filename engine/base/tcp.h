/* TCP sockets of the real fr_sys, whose comments hold for these. */
#ifndef FR_BASE_TCP_H
#define FR_BASE_TCP_H

#include "engine/base/sys.h"

int fr_tcp_listen(const struct fr_endpoint *at);
int fr_tcp_endpoint(int fd, bool peer, struct fr_endpoint *out);

bool fr_tcp_is_loopback(const char *address); /* numeric */

#endif
