/*
 * A link: bytes to and from one command, `flownode serve`, wherever it runs. What goes over it is
 * wire's business, except that before serve speaks the node's shell may have to be given flownode
 * (ship.h). Four kinds: a local child, libssh2 on the loop, the system's ssh as a child, and the
 * simulator's.
 *
 * A link is opened, comes up, carries bytes, goes down, and may be opened again. It has one owner
 * (the node's channel); calls never block; events come only from the loop's turn, never from inside
 * a call.
 */
#ifndef FR_EXEC_LINK_H
#define FR_EXEC_LINK_H

#include "engine/base/err.h"
#include "engine/base/str.h"
#include "engine/exec/loop.h"

struct fr_link_events {       /* what the owner is told; arg is the owner's */
    void (*on_up)(void *arg); /* the command was started: bytes may be sent */
    void (*on_bytes)(void *arg, const char *p, size_t n);
    void (*on_writable)(void *arg); /* after a send that took less than all: room again */
    /* The last event until the next open(), also when open failed later or the command ended.
     * FR_UNREACHABLE: try again later; FR_DENIED, FR_USAGE, FR_CORRUPT (a wrong host key),
     * FR_NOTFOUND: trying again does not help before somebody changes something. err names host and
     * reason, and quotes the end of what the command said on stderr. */
    void (*on_down)(void *arg, const struct fr_err *err);
    void *arg;
};

struct fr_link_ops {
    const char *name; /* "local", "libssh2", "openssh"; "sim" in tests */
    enum fr_rc (*open)(void *self, const struct fr_link_events *ev, struct fr_err *err);
    size_t (*send)(void *self, const char *p,
                   size_t n);  /* how many bytes were taken, 0..n; not up: 0 */
    void (*close)(void *self); /* no event follows; the other side sees its stdin end. Idempotent */
    void (*destroy)(void *self); /* closes first */
};

struct fr_link {
    const struct fr_link_ops *ops;
    void *self;
};

/* A node that is reached over SSH. Empty text and 0 mean: as ~/.ssh/config and the defaults say. */
struct fr_ssh_target {
    const char *host; /* name or address, or a Host alias of the config */
    const char *user;
    int port;
    const char *key;    /* a private key file; tried first, then the agent, then the defaults */
    const char *config; /* ~/.ssh/config; "none": read no file */
    const char
        *known_hosts; /* ~/.ssh/known_hosts; "…" of UserKnownHostsFile in the config when unset */
    int connect_ms;   /* TCP connect, handshake and login together; 0: 20 s */
};

enum fr_transport {
    FR_TRANSPORT_AUTO,
    FR_TRANSPORT_LOCAL,
    FR_TRANSPORT_LIBSSH2,
    FR_TRANSPORT_OPENSSH
};

const char *fr_transport_name(enum fr_transport t);
enum fr_rc fr_transport_parse(struct fr_str s, enum fr_transport *out, struct fr_err *err);

/* libssh2 or openssh for this target, and why ("ProxyJump in ~/.ssh/config line 7"), for the user
 * to see. An unreadable config or key is an error; an unreachable host is not (nothing is connected
 * here). */
enum fr_rc fr_transport_choose(const struct fr_ssh_target *target, enum fr_transport *out,
                               struct fr_buf *why, struct fr_err *err);

/* A local child process. argv[0] is a path; its environment is this process's. Copies argv.
 * close() closes its stdin: serve ends by itself, supervisors of attempts go on. */
enum fr_rc fr_link_local_create(struct fr_link *link, struct fr_loop *loop, const char *const *argv,
                                struct fr_err *err);

/* command is given to the user's login shell on the node. Copies target and command.
 * Both SSH kinds check host keys strictly; a command that should be tried is in the error. */
enum fr_rc fr_link_ssh_create(struct fr_link *link, struct fr_loop *loop,
                              const struct fr_ssh_target *target, const char *command,
                              struct fr_err *err);
enum fr_rc fr_link_openssh_create(struct fr_link *link, struct fr_loop *loop,
                                  const struct fr_ssh_target *target, const char *command,
                                  struct fr_err *err);

/* Adds many lines as one ("a | b"), without control bytes: what a program said, for an error. */
void fr_link_quote(struct fr_buf *out, const char *p, size_t n);

void fr_link_destroy(struct fr_link *link); /* NULL or a zeroed link is fine; zeroes it */

#endif
