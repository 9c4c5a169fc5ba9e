/*
 * A link carries bytes to and from one command, `flownode serve`, on this machine or a node. The
 * bytes are messages of engine/wire; over SSH a dialogue that installs flownode comes first
 * (ship.h). There are five kinds: a local child, libssh2 on the loop, the system's ssh as a child,
 * a command on a login node (exec/login.h), and the simulator's.
 *
 * A link is opened, comes up, carries bytes, goes down, and may be opened again. Its one owner is
 * the node's channel. Calls never block. Events come only from the loop's turn.
 */
#ifndef FR_LINK_LINK_H
#define FR_LINK_LINK_H

#include "engine/base/err.h"
#include "engine/base/str.h"
#include "engine/loop/loop.h"

struct fr_link_events {       /* called by the link; arg is for the owner */
    void (*on_up)(void *arg); /* the command was started: bytes may be sent */
    void (*on_bytes)(void *arg, const char *p, size_t n);
    void (*on_writable)(void *arg); /* there is room again after a send that took only a part */
    /* The last event until the next open(): the connection failed or was lost, or the command
     * ended. FR_UNREACHABLE: try again later. FR_DENIED, FR_USAGE, FR_CORRUPT (a wrong host key),
     * FR_NOTFOUND: permanent until somebody changes something. err names the host and the reason,
     * and quotes the end of the command's stderr. ran: the command was started there and ended by
     * itself. */
    void (*on_down)(void *arg, const struct fr_err *err, bool ran);
    void *arg;
};

struct fr_link_ops {
    const char *name; /* "local", "libssh2", "openssh", "login"; "sim" in tests */
    enum fr_rc (*open)(void *self, const struct fr_link_events *ev, struct fr_err *err);
    size_t (*send)(void *self, const char *p, size_t n); /* how many bytes were taken; 0: not up */
    void (*close)(void *self);   /* no event follows; the command's stdin ends. May be repeated */
    void (*destroy)(void *self); /* closes first */
};

struct fr_link {
    const struct fr_link_ops *ops;
    void *self;
};

/* A node that is reached over SSH. Empty text and 0: as ssh's configuration says. */
struct fr_ssh_target {
    const char *host; /* name or address, or a Host alias of the config */
    const char *user;
    int port;
    const char *key;    /* a private key file; tried first, then the agent, then the defaults */
    const char *config; /* ~/.ssh/config and the system's; "none": read no file */
    const char *known_hosts; /* instead of UserKnownHostsFile */
    const char *agent;       /* its socket, read at each open; "": none. NULL: of SSH_AUTH_SOCK */
    int connect_ms;          /* TCP connect, handshake and login together; 0: 60 s */
};

enum {
    FR_AGENT_PATH = 108,       /* sun_path of a unix socket */
    FR_SSH_CONNECT_MS = 60000, /* connect_ms where that is 0 */
    FR_TCP_CONNECT_MS = 20000  /* the share of connect_ms for the TCP connect */
};

enum fr_transport {
    FR_TRANSPORT_AUTO,
    FR_TRANSPORT_LOCAL,
    FR_TRANSPORT_LIBSSH2,
    FR_TRANSPORT_OPENSSH,
    FR_TRANSPORT_PLACE /* of an allocation: by a command that whoever has it names (exec.h) */
};

/* A local child process. argv[0] is a path; its environment is this process's. Copies argv.
 * close() closes its stdin: serve ends by itself, supervisors of attempts go on. */
enum fr_rc fr_link_local_create(struct fr_link *link, struct fr_loop *loop, const char *const *argv,
                                struct fr_err *err);

/* command is given to the user's login shell on the node, and copied. Borrows conf for the link's
 * life; copies target. Both SSH kinds check host keys strictly. The error names the command to try
 * next. */
struct fr_ssh_conf;
enum fr_rc fr_link_ssh_create(struct fr_link *link, struct fr_loop *loop,
                              const struct fr_ssh_conf *conf, const char *command,
                              struct fr_err *err);
enum fr_rc fr_link_openssh_create(struct fr_link *link, struct fr_loop *loop,
                                  const struct fr_ssh_target *target, const char *command,
                                  struct fr_err *err);

/* Adds the lines of a program's output as one line, "a | b", without control bytes. For errors. */
void fr_link_quote(struct fr_buf *out, const char *p, size_t n);

/* Keeps the newest cap bytes of a program's output in tail, *n of them so far. */
void fr_link_keep_tail(struct fr_str output, char *tail, size_t cap, size_t *n);

void fr_link_destroy(struct fr_link *link); /* NULL or a zeroed link is fine; zeroes it */

#endif
