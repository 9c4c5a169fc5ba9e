/*
 * Links to a real sshd on a loopback port, as whoever runs the test: login, host keys, refusals,
 * flownode brought there, and memory that fails on the way (MEMORY_ALL=1: each allocation, not
 * some). This program is also the flownode that is brought: a peer that says hello.
 */
#include "engine/base/arena.h"
#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "engine/exec/exec.h"
#include "tests/unit/check.h"
#include "tests/unit/exec/exec_sshd.h"

#include <libssh2.h>
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    CUT_BYTES = 2600,
    CUT_STEP = 100, /* a login takes some more */
    MEMORY_STEP = 37,
    MEMORY_MIN = 100,
    HANG_S = 60,
    LATE_MS = 600000, /* no row is about the deadline unless it says so */
};

/* --- the peer --- */

static int peer_version(void)
{
    return 0;
}

static bool peer_answer(const struct fr_msg *m)
{
    struct fr_msg r = {.type = FR_MSG_HELLO};
    struct fr_buf out = {0};
    bool ok = true;

    r.hello =
        (struct fr_hello){.proto_min = FR_PROTO_MIN, .proto_max = FR_PROTO_MAX, .home = {{9}}};
    if (m->type == FR_MSG_HELLO)
        ok = fr_msg_put(&r, &out, NULL) == FR_OK && fr_write_full(1, out.p, out.n);
    fr_buf_finish(&out);
    return ok;
}

static int peer_serve(void)
{
    struct fr_wire_in in = {0};
    struct fr_arena arena = {0};
    char buf[4096];
    ssize_t n;
    bool got = true;

    if (!fr_write_full(1, FR_WIRE_MAGIC, sizeof(FR_WIRE_MAGIC) - 1))
        return 1;
    while ((n = read(0, buf, sizeof(buf))) > 0) {
        struct fr_msg m;

        fr_wire_feed(&in, buf, (size_t)n);
        while (fr_wire_next(&in, &arena, &m, &got, NULL) == FR_OK && got)
            if (!peer_answer(&m))
                return 1;
    }
    fr_wire_finish(&in);
    fr_arena_finish(&arena);
    return 0;
}

/* --- bytes that come between two looks --- */

/* In place of libc's, for libssh2 too. With late.on, "nothing there" is said only after something
 * came (or a moment, where nothing is due): so the next call finds it, whichever that is. */
static struct {
    bool on;
} late;

/* The server hangs up when so many more bytes of it were read; -1: never. */
static struct {
    ssize_t left;
} cut = {-1};

ssize_t recv(int fd, void *p, size_t n, int flags)
{
    ssize_t k;

    if (cut.left >= 0 && n > (size_t)cut.left)
        n = (size_t)cut.left;
    k = n > 0 ? recvfrom(fd, p, n, flags, NULL, NULL) : 0;
    if (cut.left >= 0 && k > 0)
        cut.left -= k;
    struct pollfd look = {.fd = fd, .events = POLLIN};

    if (k < 0 && errno == EAGAIN && late.on) {
        poll(&look, 1, 30);
        errno = EAGAIN;
    }
    return k;
}

/* What recv() is where the compiler checks bounds (_FORTIFY_SOURCE) and does not know them. */
ssize_t __recv_chk(int fd, void *p, size_t n, size_t room, int flags);
ssize_t __recv_chk(int fd, void *p, size_t n, size_t room, int flags)
{
    return recv(fd, p, n <= room ? n : room, flags);
}

/* --- the table --- */

struct row {
    const char *name;
    enum fr_transport transport;
    const char *host, *key, *known, *config;
    bool dead;         /* the port that nobody listens on */
    bool late;         /* bytes come between two looks */
    const char *agent; /* its socket */
    int connect_ms;
    bool own_port; /* user and port are the row's, beside config */
    bool old;      /* a libssh2 before 1.11; a later one signs with RSA and SHA-2 */
    const char *how;
    enum fr_rc rc;
    const char *says; /* part of the error, or of a note */
};

static const struct row rows[] = {
    {.name = "ed25519 by libssh2",
     .transport = FR_TRANSPORT_LIBSSH2,
     .host = "127.0.0.1",
     .key = "id",
     .known = "known",
     .how = "libssh2",
     .says = "installing flownode"},
    {.name = "a known host without a comment",
     .transport = FR_TRANSPORT_LIBSSH2,
     .host = "127.0.0.1",
     .key = "id",
     .known = "known_bare",
     .how = "libssh2"},
    {.name = "a pattern",
     .transport = FR_TRANSPORT_LIBSSH2,
     .host = "127.0.0.1",
     .key = "id",
     .known = "known_pattern",
     .how = "libssh2"},
    {.name = "a hashed name",
     .transport = FR_TRANSPORT_LIBSSH2,
     .host = "127.0.0.1",
     .key = "id",
     .known = "known_hashed",
     .how = "libssh2"},
    {.name = "a revoked key",
     .transport = FR_TRANSPORT_LIBSSH2,
     .host = "127.0.0.1",
     .key = "id",
     .known = "known_revoked",
     .rc = FR_CORRUPT,
     .says = "marked revoked"},
    {.name = "a revoked key, between tabs",
     .transport = FR_TRANSPORT_LIBSSH2,
     .host = "127.0.0.1",
     .key = "id",
     .known = "known_revoked_tabs",
     .rc = FR_CORRUPT,
     .says = "marked revoked"},
    {.name = "tabs for spaces",
     .transport = FR_TRANSPORT_LIBSSH2,
     .host = "127.0.0.1",
     .key = "id",
     .known = "known_tabs",
     .how = "libssh2"},
    {.name = "capital letters",
     .transport = FR_TRANSPORT_LIBSSH2,
     .host = "myhost",
     .known = "known_tabs",
     .config = "config",
     .how = "libssh2"},
    {.name = "the public key",
     .transport = FR_TRANSPORT_LIBSSH2,
     .host = "127.0.0.1",
     .key = "id.pub",
     .known = "known",
     .rc = FR_DENIED,
     .says = "id.pub (that is the public key: name the private one)"},
    {.name = "PuTTY's key",
     .transport = FR_TRANSPORT_LIBSSH2,
     .host = "127.0.0.1",
     .key = "id.ppk",
     .known = "known",
     .rc = FR_DENIED,
     .says = "id.ppk (in PuTTY's format: puttygen"},
    {.name = "the public key, openssh",
     .transport = FR_TRANSPORT_OPENSSH,
     .host = "127.0.0.1",
     .key = "id.pub",
     .known = "known",
     .rc = FR_DENIED,
     .says = "id.pub: that is the public key: name the private one)"},
    {.name = "PuTTY's key, openssh",
     .transport = FR_TRANSPORT_OPENSSH,
     .host = "127.0.0.1",
     .key = "id.ppk",
     .known = "known",
     .rc = FR_DENIED,
     .says = "id.ppk: in PuTTY's format: puttygen"},
    {.name = "auto takes libssh2",
     .transport = FR_TRANSPORT_AUTO,
     .host = "127.0.0.1",
     .key = "id",
     .known = "known",
     .how = "libssh2"},
    {.name = "bytes between a look at stdout and one at stderr",
     .transport = FR_TRANSPORT_LIBSSH2,
     .host = "127.0.0.1",
     .key = "id",
     .known = "known",
     .late = true,
     .how = "libssh2"},
    {.name = "RSA by openssh",
     .transport = FR_TRANSPORT_OPENSSH,
     .host = "127.0.0.1",
     .key = "rsa",
     .known = "known",
     .how = "openssh"},
    {.name = "auto takes openssh for RSA",
     .transport = FR_TRANSPORT_AUTO,
     .host = "127.0.0.1",
     .key = "rsa",
     .known = "known",
     .how = "openssh",
     .says = "rsa is an RSA key"},
    {.name = "a host of the config, looked up by name",
     .transport = FR_TRANSPORT_LIBSSH2,
     .host = "myhost",
     .known = "known_alias",
     .config = "config",
     .how = "libssh2"},
    {.name = "a name to resolve",
     .transport = FR_TRANSPORT_LIBSSH2,
     .host = "localhost",
     .key = "id",
     .known = "known_none",
     .rc = FR_DENIED,
     .says = "ssh-keyscan -p"},
    {.name = "unknown host",
     .transport = FR_TRANSPORT_LIBSSH2,
     .host = "127.0.0.1",
     .key = "id",
     .known = "known_none",
     .rc = FR_DENIED,
     .says = "(ssh-ed25519 SHA256:"},
    {.name = "a host that its line excludes",
     .transport = FR_TRANSPORT_LIBSSH2,
     .host = "127.0.0.1",
     .key = "id",
     .known = "known_negated",
     .rc = FR_DENIED,
     .says = "ssh-keyscan"},
    {.name = "wrong host key",
     .transport = FR_TRANSPORT_LIBSSH2,
     .host = "127.0.0.1",
     .key = "id",
     .known = "known_wrong",
     .rc = FR_CORRUPT,
     .says = "ssh-keygen -R '[127.0.0.1]:"},
    {.name = "wrong host key, openssh",
     .transport = FR_TRANSPORT_OPENSSH,
     .host = "127.0.0.1",
     .key = "id",
     .known = "known_wrong",
     .rc = FR_CORRUPT,
     .says = "ssh-keygen -R"},
    {.name = "unknown host, openssh",
     .transport = FR_TRANSPORT_OPENSSH,
     .host = "127.0.0.1",
     .key = "id",
     .known = "known_none",
     .rc = FR_DENIED,
     .says = "ssh-keyscan"},
    {.name = "refused login",
     .transport = FR_TRANSPORT_LIBSSH2,
     .host = "127.0.0.1",
     .key = "other",
     .known = "known",
     .rc = FR_DENIED,
     .says = "keys tried: /tmp/"},
    {.name = "RSA by libssh2",
     .transport = FR_TRANSPORT_LIBSSH2,
     .host = "127.0.0.1",
     .key = "rsa",
     .known = "known",
     .old = true,
     .rc = FR_DENIED,
     .says = "RSA keys need transport: openssh"},
    {.name = "no such key",
     .transport = FR_TRANSPORT_LIBSSH2,
     .host = "127.0.0.1",
     .key = "nokey",
     .known = "known",
     .rc = FR_DENIED,
     .says = "nokey (cannot be read)"},
    {.name = "refused login, openssh",
     .transport = FR_TRANSPORT_OPENSSH,
     .host = "127.0.0.1",
     .key = "other",
     .known = "known",
     .rc = FR_DENIED,
     .says = "Permission denied"},
    {.name = "a name that is taken back",
     .transport = FR_TRANSPORT_LIBSSH2,
     .host = "127.0.0.1",
     .key = "id",
     .known = "known_not",
     .rc = FR_DENIED,
     .says = "is not in /"},
    {.name = "host keys are strict whatever the configuration says",
     .transport = FR_TRANSPORT_OPENSSH,
     .host = "127.0.0.1",
     .key = "id",
     .known = "known_none",
     .config = "config_lax",
     .own_port = true,
     .rc = FR_DENIED,
     .says = "ssh-keyscan"},
    {.name = "host keys are strict whatever the configuration says, libssh2",
     .transport = FR_TRANSPORT_LIBSSH2,
     .host = "127.0.0.1",
     .key = "id",
     .known = "known_none",
     .config = "config_lax",
     .own_port = true,
     .rc = FR_DENIED,
     .says = "ssh-keyscan"},
    {.name = "the first of two values counts, and a host that is excluded is",
     .transport = FR_TRANSPORT_AUTO,
     .host = "127.0.0.1",
     .known = "known",
     .config = "config_twice",
     .how = "libssh2"},
    {.name = "HostName %h.1",
     .transport = FR_TRANSPORT_AUTO,
     .host = "127.0.0",
     .key = "id",
     .known = "known",
     .config = "config_name",
     .own_port = true,
     .how = "libssh2"},
    {.name = "Include and Match",
     .transport = FR_TRANSPORT_AUTO,
     .host = "gate",
     .key = "id",
     .known = "known_alias",
     .config = "config_match",
     .how = "libssh2"},
    {.name = "RevokedHostKeys",
     .transport = FR_TRANSPORT_AUTO,
     .host = "127.0.0.1",
     .key = "id",
     .known = "known",
     .config = "config_revoked",
     .own_port = true,
     .rc = FR_CORRUPT,
     .says = "revoked by file"},
    {.name = "RevokedHostKeys, libssh2",
     .transport = FR_TRANSPORT_LIBSSH2,
     .host = "127.0.0.1",
     .key = "id",
     .known = "known",
     .config = "config_revoked",
     .own_port = true,
     .rc = FR_USAGE,
     .says = "libssh2 cannot honour 'revokedhostkeys /"},
    {.name = "@cert-authority",
     .transport = FR_TRANSPORT_AUTO,
     .host = "127.0.0.1",
     .key = "id",
     .known = "known_authority",
     .how = "openssh",
     .says = "by the system's ssh: @cert-authority in "},
    {.name = "a jump host",
     .transport = FR_TRANSPORT_AUTO,
     .host = "127.0.0.1",
     .key = "id",
     .known = "known",
     .config = "config_jump",
     .own_port = true,
     .rc = FR_UNREACHABLE,
     .says = "gate"},
    {.name = "a command in the configuration",
     .transport = FR_TRANSPORT_OPENSSH,
     .host = "127.0.0.1",
     .key = "id",
     .known = "known",
     .config = "config_command",
     .own_port = true,
     .rc = FR_USAGE,
     .says = "has 'remotecommand top'"},
    {.name = "a directive without a value",
     .transport = FR_TRANSPORT_AUTO,
     .host = "127.0.0.1",
     .key = "id",
     .known = "known",
     .config = "config_broken",
     .own_port = true,
     .rc = FR_USAGE,
     .says = "no argument after keyword"},
    {.name = "a key of an agent",
     .transport = FR_TRANSPORT_LIBSSH2,
     .host = "127.0.0.1",
     .known = "known",
     .agent = "agent",
     .how = "libssh2"},
    {.name = "keys of an agent that are not taken, and one that is",
     .transport = FR_TRANSPORT_LIBSSH2,
     .host = "127.0.0.1",
     .known = "known",
     .agent = "agent_two",
     .how = "libssh2"},
    {.name = "no key of the agent is taken",
     .transport = FR_TRANSPORT_LIBSSH2,
     .host = "127.0.0.1",
     .known = "known",
     .agent = "agent_other",
     .rc = FR_DENIED,
     .says = "the other one (agent)"},
    {.name = "an agent that says nothing",
     .transport = FR_TRANSPORT_LIBSSH2,
     .host = "127.0.0.1",
     .known = "known",
     .agent = "agent_silent",
     .connect_ms = 1000,
     .rc = FR_UNREACHABLE,
     .says = "did not answer within 1 s"},
    {.name = "no agent there",
     .transport = FR_TRANSPORT_LIBSSH2,
     .host = "127.0.0.1",
     .known = "known",
     .agent = "agent_none",
     .rc = FR_DENIED,
     .says = "keys tried: "},
    {.name = "nobody listens",
     .transport = FR_TRANSPORT_LIBSSH2,
     .host = "127.0.0.1",
     .key = "id",
     .known = "known",
     .dead = true,
     .rc = FR_UNREACHABLE,
     .says = "127.0.0.1: Connection refused"},
    {.name = "no such host",
     .transport = FR_TRANSPORT_LIBSSH2,
     .host = "no.such.host.invalid",
     .key = "id",
     .known = "known",
     .rc = FR_UNREACHABLE,
     .says = "cannot find host"},
};

struct watcher {
    const struct row *row;
    bool over, said;
    char how[16];
    struct fr_err err;
};

static void sink(void *arg, struct fr_exec_event *ev)
{
    struct watcher *w = arg;
    const char *says = w->row->says != NULL ? w->row->says : "";

    if (ev->kind == FR_EXEC_NOTE)
        w->said = w->said || memmem(ev->text.p, ev->text.n, says, strlen(says)) != NULL;
    if (ev->kind == FR_EXEC_UP) {
        snprintf(w->how, sizeof(w->how), "%.*s", (int)ev->up.how.n, ev->up.how.p);
        CHECK_INT(ev->up.home.b[0], 9);
        w->over = true;
    }
    if (ev->kind == FR_EXEC_DOWN && !w->over) {
        w->err = ev->err;
        w->said = strstr(ev->err.msg, says) != NULL;
        w->over = true;
    }
    fr_exec_event_free(ev);
}

static void try_row(struct site *s, const struct row *row)
{
    struct fr_loop loop;
    struct watcher w = {.row = row};
    struct fr_exec ex;
    struct fr_exec_node node = {
        .name = "n1",
        .transport = row->transport,
        .ssh = {.host = row->host,
                .user = row->config == NULL || row->own_port ? s->user : NULL,
                .port = row->dead                              ? s->dead_port
                        : row->config == NULL || row->own_port ? s->port
                                                               : 0,
                .key = row->key != NULL ? sshd_file(s, row->key) : NULL,
                .known_hosts = sshd_file(s, row->known),
                .connect_ms = row->connect_ms > 0 ? row->connect_ms : LATE_MS,
                .config = row->config != NULL ? sshd_file(s, row->config) : "none"},
        .work = sshd_file(s, "it's work"),
    };
    struct fr_nodes_args args = {.epoch = 1, .flownode_dir = s->dir, .home = s->dir};
    struct fr_nodes_run run = {.nodes = &node, .n = 1, .sink = {sink, &w}};
    struct fr_nodes *nodes = NULL;
    struct fr_err err = {0};

    check_row(row->name);
    late.on = row->late;
    if (row->agent != NULL)
        setenv("SSH_AUTH_SOCK", sshd_file(s, row->agent), 1);
    else
        unsetenv("SSH_AUTH_SOCK");
    CHECK(fr_loop_event_create(&loop, &err) == FR_OK);
    args.loop = &loop;
    CHECK(fr_nodes_create(&nodes, &args, &err) == FR_OK);
    CHECK(fr_nodes_join(nodes, &run, &ex, &err) == FR_OK);
    CHECK(ex.ops->connect(ex.self, 0, &err) == FR_OK);
    while (!w.over && fr_loop_turn(&loop, true, &err) == FR_OK)
        ;
    CHECK_TEXT(w.how, row->how != NULL ? row->how : "");
    if (!CHECK_INT(w.err.rc, row->rc) || !CHECK(row->says == NULL || w.said))
        printf("   it said: %s\n", w.err.msg);
    fr_exec_destroy(&ex);
    fr_nodes_destroy(nodes);
    fr_loop_destroy(&loop);
}

/* A connection that ends anywhere in handshake, login and start is tried again: it is no refusal.
 */
static void test_cut(struct site *s)
{
    struct row row = {.transport = FR_TRANSPORT_LIBSSH2,
                      .host = "127.0.0.1",
                      .key = "id",
                      .known = "known",
                      .rc = FR_UNREACHABLE};
    char name[48];

    row.name = name;
    for (ssize_t at = 0; at < CUT_BYTES; at += CUT_STEP) {
        snprintf(name, sizeof(name), "cut off behind %zd bytes", at);
        cut.left = at;
        try_row(s, &row);
        CHECK_INT(cut.left, 0);
    }
    cut.left = -1;
}

/* --- memory that fails, in libssh2 and libevent, too --- */

static struct {
    size_t calls, at; /* at: the call that fails; 0: none */
} memory;

static bool no_memory(void)
{
    return ++memory.calls == memory.at;
}

static void *x_alloc(size_t n)
{
    return no_memory() ? NULL : fr_sys_real.alloc(n);
}

static void *x_realloc(void *p, size_t n)
{
    return no_memory() ? NULL : fr_sys_real.realloc(p, n);
}

/* Connects; 0: it is up, or says why not. A process of its own, as a crash is a finding. */
static int connect_once(struct site *s, const struct fr_exec_node *node)
{
    static const struct row row = {.name = "memory"};
    struct fr_loop loop = {0};
    struct watcher w = {.row = &row};
    struct fr_exec ex = {0};
    struct fr_nodes_args args = {.loop = &loop, .epoch = 1, .flownode_dir = s->dir, .home = s->dir};
    struct fr_nodes_run run = {.nodes = node, .n = 1, .sink = {sink, &w}};
    struct fr_nodes *nodes = NULL;
    struct fr_err err = {0};
    enum fr_rc rc = fr_loop_event_create(&loop, &err);

    if (rc == FR_OK)
        rc = fr_nodes_create(&nodes, &args, &err);
    if (rc == FR_OK)
        rc = fr_nodes_join(nodes, &run, &ex, &err);
    if (rc == FR_OK)
        rc = ex.ops->connect(ex.self, 0, &err);
    while (rc == FR_OK && !w.over)
        rc = fr_loop_turn(&loop, true, &err);
    fr_exec_destroy(&ex);
    fr_nodes_destroy(nodes);
    fr_loop_destroy(&loop);
    return rc == FR_OK ? w.how[0] == '\0' && w.err.msg[0] == '\0' : err.msg[0] == '\0';
}

/* The at-th allocation of a connection fails, once. How many there were. */
static size_t fail_at(struct site *s, const struct fr_exec_node *node, size_t at)
{
    size_t calls = 0;
    int fds[2], status = 0;
    pid_t pid;

    CHECK(pipe(fds) == 0);
    if ((pid = fork()) == 0) {
        alarm(HANG_S);
        memory.at = at;
        fr_sys.alloc = x_alloc;
        fr_sys.realloc = x_realloc;
        int bad = connect_once(s, node);
        _exit(write(fds[1], &memory.calls, sizeof(memory.calls)) < 0 || bad);
    }
    close(fds[1]);
    if (read(fds[0], &calls, sizeof(calls)) < 0)
        calls = 0;
    close(fds[0]);
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    CHECK_INT(status, 0); /* a signal: it crashed, or hung */
    return calls;
}

static void test_memory(struct site *s, size_t stride)
{
    struct fr_exec_node node = {.name = "n1",
                                .transport = FR_TRANSPORT_LIBSSH2,
                                .ssh = {.host = "127.0.0",
                                        .user = s->user,
                                        .port = s->port,
                                        .key = sshd_file(s, "id"),
                                        .known_hosts = sshd_file(s, "known"),
                                        .config = sshd_file(s, "config_name")},
                                .work = sshd_file(s, "it's work")};
    size_t all;
    char name[64];

    check_row("memory that does not fail");
    all = fail_at(s, &node, 0);
    CHECK(all > MEMORY_MIN); /* libssh2 asks for it here */
    for (size_t at = 1; at <= all; at += stride) {
        snprintf(name, sizeof(name), "allocation %zu of %zu fails", at, all);
        check_row(name);
        fail_at(s, &node, at);
    }
    check_row("");
}

int main(int argc, char **argv)
{
    struct site s = {0};

    if (argc > 1)
        return strcmp(argv[1], "version") == 0 ? peer_version() : peer_serve();
    if (sshd_lacks() != NULL)
        return check_skip(sshd_lacks());
    sshd_begin(&s);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct row row = rows[i];

        if (row.old && libssh2_version(0x010b00) != NULL) {
            row.rc = FR_OK;
            row.how = "libssh2";
            row.says = NULL;
        }
        try_row(&s, &row);
    }
    test_cut(&s);
    test_memory(&s, getenv("MEMORY_ALL") != NULL ? 1 : MEMORY_STEP);
    sshd_end(&s);
    return check_done();
}
