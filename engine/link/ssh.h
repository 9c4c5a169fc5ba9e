/*
 * Inside the libssh2 link. It comes up in steps: resolve, connect (ssh_tcp.c), handshake, host key,
 * login (ssh_login.c, ssh_agent.c), channel (ssh.c). A step is called again whenever the socket is
 * ready, until it returns FR_SSH_DONE.
 */
#ifndef FR_LINK_SSH_H
#define FR_LINK_SSH_H

#include "engine/base/arena.h"
#include "engine/link/link.h"
#include "engine/link/sshconf.h"

#include <libssh2.h>
#include <netdb.h>

/* A step's result. */
enum fr_ssh_step { FR_SSH_DONE, FR_SSH_AGAIN, FR_SSH_FAILED /* err is filled */ };

/* The result of a step that filled err by fr_fail(). */
static inline enum fr_ssh_step fr_ssh_failed(enum fr_rc rc)
{
    (void)rc;
    return FR_SSH_FAILED;
}

struct fr_ssh_call;   /* to an agent */
struct fr_ssh_lookup; /* a name being looked up in a thread of its own */

struct fr_ssh {
    struct fr_loop *loop; /* borrows */
    struct fr_link_events ev;
    struct fr_arena arena; /* owns command, and the memory of a login */
    const char *command;
    const struct fr_ssh_conf *conf; /* borrows */
    size_t stage;                   /* index into ssh.c's table of steps; past its end: up */
    bool open;
    struct fr_timer *timer; /* the deadline; armed at once to go on without the socket */
    int64_t opened_ms;
    int64_t deadline_ms; /* of the TCP connection, then of the login; 0: none */
    int fd;
    struct fr_watch *watch;
    /* resolve, connect */
    struct fr_ssh_lookup *lookup;
    struct addrinfo *addrs, *addr; /* owns; the one being tried */
    char tried[256];               /* why earlier addresses failed */
    /* login */
    LIBSSH2_SESSION *session;
    LIBSSH2_KNOWNHOSTS *known, *revoked;
    LIBSSH2_AGENT *agent;
    struct libssh2_agent_publickey *identity;
    struct fr_ssh_call *call; /* to the agent, in a thread that has the session */
    bool listed, agent_over;
    size_t key;            /* the key file being tried */
    struct fr_buf offered; /* owns: the keys tried, for the error */
    /* channel */
    LIBSSH2_CHANNEL *channel;
    bool started;
    bool read_first, write_first; /* libssh2 has half a packet: repeat that call first */
    struct fr_buf out;            /* owns: bytes not yet taken by libssh2 */
    char tail[1024];              /* end of the command's stderr */
    size_t tail_n;
    uint32_t serial; /* changes at close, so that loops notice it */
};

enum fr_ssh_step fr_ssh_resolve(struct fr_ssh *s, struct fr_err *err);
enum fr_ssh_step fr_ssh_connect(struct fr_ssh *s, struct fr_err *err);
void fr_ssh_tcp_finish(struct fr_ssh *s);
/* Whether the peer closed the connection. A step that failed for this was not refused. */
bool fr_ssh_hung_up(const struct fr_ssh *s);

/* known.c: the file's lines about the host into s->known and s->revoked. */
void fr_ssh_read_known(struct fr_ssh *s, const char *path);

enum fr_ssh_step fr_ssh_handshake(struct fr_ssh *s, struct fr_err *err);
enum fr_ssh_step fr_ssh_host_key(struct fr_ssh *s, struct fr_err *err);
enum fr_ssh_step fr_ssh_login(struct fr_ssh *s, struct fr_err *err);
void fr_ssh_login_finish(struct fr_ssh *s);
/* Adds a refused key to the error of the login. reason may be "". */
void fr_ssh_offered(struct fr_ssh *s, const char *what, const char *reason);

/* ssh_agent.c: offers the agent's keys in turn. FR_SSH_FAILED: the server accepts none of them. */
enum fr_ssh_step fr_ssh_agent(struct fr_ssh *s);
/* A thread has the session: nothing else may touch it. */
bool fr_ssh_called(const struct fr_ssh *s);
/* Call before the connection is closed. true: a thread uses the session and the socket, and frees
 * them. */
bool fr_ssh_agent_leave(struct fr_ssh *s);
void fr_ssh_agent_finish(struct fr_ssh *s);

/* Watches the socket for what. */
enum fr_rc fr_ssh_watch(struct fr_ssh *s, int fd, int what, struct fr_err *err);
/* libssh2's text for its last error. */
const char *fr_ssh_error_text(struct fr_ssh *s);

#endif
