/*
 * The engine's side of a flownode, as small as a test needs it: serve runs as a child of the test
 * over two pipes; messages are sent, and waited for by type and attempt. Blocking: what does not
 * come hangs the test, and the runner's time limit ends it.
 */
#ifndef TESTS_UNIT_NODE_CLIENT_H
#define TESTS_UNIT_NODE_CLIENT_H

#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "engine/node/serve.h"
#include "engine/wire/wire.h"
#include "tests/unit/check.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static const struct fr_id any = {{0}}; /* for client_expect(): of whichever attempt */

struct client {
    pid_t pid;
    int to, from;
    struct fr_wire_in in;
    struct fr_arena arena;
    struct fr_hello node;
    struct fr_buf log; /* bytes of every log piece */
    bool closed;
};

/* The run of a prepare joins first. */
void client_send(struct client *c, const struct fr_msg *m);
void client_join(struct client *c, struct fr_id run);
/* The next message. closed is set, and type is 0, when the stream ended. */
struct fr_msg client_next(struct client *c);
/* Waits for a message of that type (and attempt, unless zero), passing over all others. */
struct fr_msg client_expect(struct client *c, enum fr_msg_type type, struct fr_id id);

/* What hello says, and which serve. */
struct client_args {
    const char *home, *self;
    uint64_t epoch;
    uint32_t keep_days;
    struct fr_id store, channel;
    size_t descriptors; /* that it may have open; 0: any number */
    bool no_credit;     /* none is granted at first */
    char *const *argv;  /* a command that carries the bytes to a serve; NULL: serve is a child */
    bool relay;         /* it is a relay, whose bytes are swapped */
};

/* Starts serve and says hello. A home refuses an epoch below that of an earlier connection. */
struct client client_begin(const struct client_args *args);
struct client client_open(const char *home, const char *self, uint64_t epoch);
/* Ends serve by end of input, or by SIGKILL; its exit status. */
int client_close(struct client *c, bool killed);
struct fr_id new_id(void);
/* A prepare of `sh -c script`, to be changed and sent. words: three places that stay as long as it.
 */
struct fr_msg sh_prepare(struct fr_str words[3], const char *script, bool go_now);
void client_stop(struct client *c, struct fr_id id, int64_t grace_ms);
void client_attach(struct client *c, struct fr_id id, uint64_t offset);
/* What the node says now: answers to earlier messages (an attach is answered with a state, too) are
 * read first. */
enum fr_attempt_status client_status(struct client *c, struct fr_id id);
/* Reads until the log holds text. */
void client_await_log(struct client *c, const char *text);
/* Reads until the whole log up to size is there. */
void client_await_bytes(struct client *c, uint64_t size);
/* How many live processes carry the attempt's marker. */
int processes_of(struct fr_id id);

#endif
