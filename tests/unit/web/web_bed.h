/*
 * What tests of the web server share: a loop, a server with a handler that tells what it was asked,
 * and raw readers of it. All in one thread: whoever waits turns the loop.
 */
#ifndef TESTS_UNIT_WEB_BED_H
#define TESTS_UNIT_WEB_BED_H

#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "engine/api/problem.h"
#include "engine/web/server.h"
#include "tests/unit/check.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

enum { BED_STREAMS = 100, BED_FILE_BYTES = 3000000 };

struct fr_api_stream {
    struct fr_api_sink sink;
    bool open;
    int drained, gone;
};

struct bed {
    char dir[64], sock[512];
    struct fr_loop loop;
    struct fr_server *server;
    struct fr_endpoint at; /* that listen_tcp() got */
    struct fr_api api;
    int asked; /* requests that reached the handler */
    struct fr_api_stream streams[BED_STREAMS];
    size_t n_streams;
    char last_id[64];            /* of the newest stream */
    struct fr_api_waiter *waits; /* who asked for /later, and has no answer */
    bool ready;                  /* /later has one */
    bool locked_out;             /* secrets are good no more */
    int used;                    /* secrets, for requests */
    bool followed;               /* another process is the host … */
    int asked_lead;              /* … or not: so often was that asked */
    const char *run;             /* members of each run's row */
};

void bed_listen(struct bed *b);
/* times: NULL for the server's own. */
void bed_begin(struct bed *b, const struct fr_server_times *times);
void bed_end(struct bed *b);
void bed_turn(struct bed *b);

/* The Nth call for memory fails, and none after bed_allow(), which returns whether it has failed.
 */
void bed_deny(long nth);
bool bed_allow(void);

/* A raw reader, whose socket never waits. */
struct reader {
    struct bed *bed;
    int fd;
    struct fr_buf got;
    bool eof;
};

struct reader reader_open(struct bed *b);
void reader_close(struct reader *r);
/* Takes what is there. */
void reader_take(struct reader *r);
/* Sends all; the server may refuse to read on. */
void reader_send(struct reader *r, const char *p, size_t n);
void reader_say(struct reader *r, const char *text);
bool reader_has(const struct reader *r, const char *text);
bool reader_until(struct reader *r, const char *text);
void reader_until_eof(struct reader *r);

/* Over TCP. */
#define LOCAL "Host: localhost\r\n"
#define GOOD "Authorization: Bearer good\r\n"
#define FINE "Cookie: flowrun=fine\r\n"
#define OURS "Sec-Fetch-Site: same-origin\r\n"
static const struct fr_gate plain = {.base = "", .cookie = "flowrun"};

void listen_tcp(struct bed *b, const struct fr_gate *gate);
struct reader tcp_open(struct bed *b);

#endif
