/* Login by the keys of an agent. A call of libssh2 to the agent waits for the answer, as long as a
 * person needs to confirm. So each call runs in a thread that owns the session meanwhile; the loop
 * uses the session again when the call is over. If the connection is closed earlier, session and
 * socket stay with the thread. */
#include "engine/link/ssh.h"

#include "engine/base/sys.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct fr_ssh_call {
    struct fr_work work;
    struct fr_ssh *owner;
    bool over;
    LIBSSH2_SESSION *session;
    LIBSSH2_AGENT *agent; /* NULL: to be connected to */
    struct libssh2_agent_publickey *identity;
    int rc;
    char socket[FR_AGENT_PATH];
    /* owns, once the connection was closed */
    LIBSSH2_KNOWNHOSTS *known, *revoked;
    int fd;
    char user[];
};

static void open_agent(struct fr_ssh_call *c)
{
    c->rc = LIBSSH2_ERROR_AGENT_PROTOCOL;
    if ((c->agent = libssh2_agent_init(c->session)) == NULL)
        return;
    libssh2_agent_set_identity_path(c->agent, c->socket);
    if (libssh2_agent_connect(c->agent) == 0 && libssh2_agent_list_identities(c->agent) == 0)
        c->rc = 0;
}

static void in_thread(void *arg)
{
    struct fr_ssh_call *c = arg;

    if (c->agent == NULL)
        open_agent(c);
    else
        c->rc = libssh2_agent_userauth(c->agent, c->user, c->identity);
}

static void call_over(void *arg)
{
    struct fr_ssh_call *c = arg;

    c->over = true;
    fr_loop_arm_in(c->owner->loop, c->owner->timer, 0);
}

/* The connection was closed while the call ran. */
static void drop_call(void *arg)
{
    struct fr_ssh_call *c = arg;

    if (c->agent != NULL)
        libssh2_agent_free(c->agent);
    libssh2_knownhost_free(c->known);
    libssh2_knownhost_free(c->revoked);
    libssh2_session_free(c->session);
    close(c->fd);
    fr_sys.free(c);
}

static bool start_call(struct fr_ssh *s)
{
    size_t n = strlen(s->conf->user) + 1;
    struct fr_ssh_call *c = fr_sys.alloc(sizeof(*c) + n);

    if (c == NULL)
        return false;
    *c = (struct fr_ssh_call){
        .owner = s, .session = s->session, .agent = s->agent, .identity = s->identity, .fd = -1};
    memcpy(c->user, s->conf->user, n);
    snprintf(c->socket, sizeof(c->socket), "%s", s->conf->agent);
    c->work = (struct fr_work){.run = in_thread, .over = call_over, .drop = drop_call, .arg = c};
    fr_loop_want(s->loop, s->watch, 0);
    if (fr_loop_work(s->loop, &c->work) != FR_OK) {
        fr_sys.free(c);
        return false;
    }
    s->call = c;
    return true;
}

static bool next_identity(struct fr_ssh *s)
{
    struct libssh2_agent_publickey *next = NULL;

    if (libssh2_agent_get_identity(s->agent, &next, s->identity) != 0)
        return false;
    s->identity = next;
    return true;
}

static enum fr_ssh_step end_call(struct fr_ssh *s)
{
    struct fr_ssh_call *c = s->call;
    bool opened = s->agent == NULL;
    int rc = c->rc;

    s->agent = c->agent;
    s->call = NULL;
    fr_sys.free(c);
    if (rc == LIBSSH2_ERROR_EAGAIN)
        return FR_SSH_AGAIN;
    if (rc == 0 && !opened)
        return FR_SSH_DONE;
    if (!opened)
        fr_ssh_offered(s, s->identity->comment, "agent");
    s->agent_over = (opened && rc != 0) || !next_identity(s);
    return FR_SSH_FAILED;
}

bool fr_ssh_called(const struct fr_ssh *s)
{
    return s->call != NULL && !s->call->over;
}

enum fr_ssh_step fr_ssh_agent(struct fr_ssh *s)
{
    if (s->conf->own_keys_only || s->conf->agent == NULL || s->conf->agent[0] == '\0')
        s->agent_over = true;
    if (fr_ssh_called(s))
        return FR_SSH_AGAIN;
    if (s->call != NULL) {
        enum fr_ssh_step step = end_call(s);

        if (step != FR_SSH_FAILED)
            return step;
    }
    if (s->agent_over || !start_call(s))
        return FR_SSH_FAILED;
    return FR_SSH_AGAIN;
}

bool fr_ssh_agent_leave(struct fr_ssh *s)
{
    struct fr_ssh_call *c = s->call;

    if (!fr_ssh_called(s) || fr_loop_forget(s->loop, &c->work))
        return false;
    shutdown(s->fd, SHUT_RDWR);
    c->known = s->known;
    c->revoked = s->revoked;
    c->fd = s->fd;
    s->known = s->revoked = NULL;
    s->session = NULL;
    s->agent = NULL;
    s->call = NULL;
    s->fd = -1;
    return true;
}

void fr_ssh_agent_finish(struct fr_ssh *s)
{
    if (s->call != NULL) {
        s->agent = s->call->agent;
        fr_sys.free(s->call);
    }
    if (s->agent != NULL)
        libssh2_agent_free(s->agent);
    s->call = NULL;
    s->agent = NULL;
    s->identity = NULL;
    s->agent_over = false;
}
