/* A test bed's web server over TCP, and readers of it. */
#ifndef TESTS_UNIT_WEB_TCP_H
#define TESTS_UNIT_WEB_TCP_H

#include "tests/unit/web/web_reader.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#define LOCAL "Host: localhost\r\n"
#define GOOD "Authorization: Bearer good\r\n"
#define FINE "Cookie: flowrun=fine\r\n"
#define OURS "Sec-Fetch-Site: same-origin\r\n"

static struct fr_endpoint at;

static void listen_tcp(struct bed *b, const struct fr_gate *gate)
{
    struct fr_err err = {0};

    at = (struct fr_endpoint){"127.0.0.1", 0};
    fr_server_gate(b->server, gate);
    if (!CHECK_INT(fr_server_listen(b->server, &at, &err), FR_OK))
        printf("   %s\n", err.msg);
    CHECK(at.port > 0);
}

static struct reader tcp_open(struct bed *b)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)at.port)};
    struct reader r = {.bed = b, .fd = socket(AF_INET, SOCK_STREAM, 0)};

    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(connect(r.fd, (struct sockaddr *)&a, sizeof(a)) == 0);
    return r;
}

static const struct fr_gate plain = {.base = "", .cookie = "flowrun"};

#endif
