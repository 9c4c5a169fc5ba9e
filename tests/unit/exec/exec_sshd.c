#include "tests/unit/exec/exec_sshd.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "tests/unit/check.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static const char sshd[] = "/usr/sbin/sshd";

const char *sshd_file(struct site *s, const char *name)
{
    return fr_arena_fmt(&s->arena, "%s/%s", s->dir, name);
}

static bool run(const char *const *argv)
{
    struct fr_spawn sp = {.argv = argv, .envp = (const char *const *)environ, .fds = {-1, -1, 2}};
    struct fr_proc p;
    struct fr_wait w = {0};

    return fr_sys.spawn(&sp, &p) == 0 && fr_sys.wait(p.pid, &w, 0) == 0 && !w.signaled &&
           w.code == 0;
}

static bool make_key(struct site *s, const char *name, const char *type)
{
    const char *comment = fr_arena_fmt(&s->arena, "the %s one", name);
    const char *argv[] = {"ssh-keygen", "-q", "-t", type,    "-b", "2048",
                          "-N",         "",   "-C", comment, "-f", sshd_file(s, name),
                          NULL};

    return run(argv);
}

static int free_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM, 0), port = 0;

    if (bind(fd, (struct sockaddr *)&a, n) == 0 && getsockname(fd, (struct sockaddr *)&a, &n) == 0)
        port = ntohs(a.sin_port);
    close(fd);
    return port;
}

static void put(struct site *s, const char *name, const char *text)
{
    CHECK(fr_file_write(sshd_file(s, name), text, strlen(text), 0600, NULL) == FR_OK);
}

/* The public part "TYPE BASE64" of a key. */
static const char *public_key(struct site *s, const char *name)
{
    struct fr_buf b = {0};
    const char *out;

    CHECK(fr_file_read(sshd_file(s, fr_arena_fmt(&s->arena, "%s.pub", name)), 10000, &b, NULL) ==
          FR_OK);
    out = fr_arena_text(&s->arena, b.p, strcspn(b.p, "\n"));
    fr_buf_finish(&b);
    return out;
}

/* Lines whose blanks are tabs. */
static void write_tabs(struct site *s, const char *hk)
{
    struct fr_arena *a = &s->arena;
    char *tabs = fr_arena_dup(a, hk);
    for (char *p = tabs; (p = strchr(p, ' ')) != NULL;)
        *p = '\t';
    put(s, "id.ppk", "PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\n");
    put(s, "known_tabs", fr_arena_fmt(a, " \t[127.0.0.1]:%d,MY-Alias\t \t%s\n", s->port, tabs));
    put(s, "known_revoked_tabs",
        fr_arena_fmt(a, "[127.0.0.1]:%d %s\n\t@revoked\t*\t%s\n", s->port, hk, tabs));
}

static void write_files(struct site *s)
{
    struct fr_arena *a = &s->arena;
    struct fr_buf self = {0};
    const char *hk = public_key(s, "hk");
    size_t bare = strcspn(hk, " ") + 1;

    bare += strcspn(hk + bare, " ");
    put(s, "authorized", fr_arena_fmt(a, "%s\n%s\n", public_key(s, "id"), public_key(s, "rsa")));
    put(s, "known", fr_arena_fmt(a, "# a comment\nnonsense\n[127.0.0.1]:%d %s\n", s->port, hk));
    /* neither a comment behind the key nor a newline at the end */
    put(s, "known_bare", fr_arena_fmt(a, "[127.0.0.1]:%d %.*s", s->port, (int)bare, hk));
    put(s, "known_revoked", fr_arena_fmt(a, "[127.0.0.1]:%d %s\n@revoked * %s\n", s->port, hk, hk));
    put(s, "known_pattern", fr_arena_fmt(a, "!x,[127.0.?.1*]:%d %s\n", s->port, hk));
    put(s, "known_negated",
        fr_arena_fmt(a, "[127.0.?.*]:%d,![127.0.0.1]:%d %s\n", s->port, s->port, hk));
    put(s, "known_hashed", fr_arena_fmt(a, "[127.0.0.1]:%d %s\n", s->port, hk));
    CHECK(run(
        (const char *const[]){"ssh-keygen", "-q", "-H", "-f", sshd_file(s, "known_hashed"), NULL}));
    write_tabs(s, hk);
    put(s, "known_alias", fr_arena_fmt(a, "my-alias %s\n", hk));
    put(s, "known_wrong", fr_arena_fmt(a, "[127.0.0.1]:%d %s\n", s->port, public_key(s, "other")));
    put(s, "known_none", "");
    put(s, "known_not", fr_arena_fmt(a, "*,!127.0.0.1,![127.0.0.1]:%d %s\n", s->port, hk));
    put(s, "config_lax", "Host *\n  StrictHostKeyChecking no\n  BatchMode no\n");
    put(s, "config_twice",
        fr_arena_fmt(a,
                     "Host 127.*\n  IdentityFile %s\n  Port %d\n  Port 1\nHost *\n  Port 2\n"
                     "Host !127.0.0.1 *\n  User nobody-else\n",
                     sshd_file(s, "id"), s->port));
    put(s, "config",
        fr_arena_fmt(a,
                     "Host other\n  User nobody\nHost my* !myself\n  HostName=127.0.0.1"
                     "\n  Port %d\n  User %s\n  HostKeyAlias my-alias\n"
                     "  IdentityFile \"%s\"\nHost *\n  Port 1\n",
                     s->port, s->user, sshd_file(s, "id")));
    put(s, "config_jump", "Host 127.*\n  ProxyJump gate\n");
    put(s, "config_name", "Host 127.0.0\n  HostName %h.1\n");
    put(s, "config_revoked",
        fr_arena_fmt(a, "Host *\n  RevokedHostKeys %s\n", sshd_file(s, "hk.pub")));
    put(s, "config_match",
        fr_arena_fmt(a, "Include %s\nMatch host gate exec true\n  HostName 127.0.0.1\n",
                     sshd_file(s, "config_more")));
    put(s, "config_more",
        fr_arena_fmt(a, "Host gate\n  Port %d\n  User %s\n  HostKeyAlias my-alias\n", s->port,
                     s->user));
    put(s, "config_command", "Host *\n  RemoteCommand top\n");
    put(s, "config_broken", "Host *\n  IdentitiesOnly\n");
    put(s, "known_authority",
        fr_arena_fmt(a, "@cert-authority *,[127.0.0.1]:%d %s\n", s->port, public_key(s, "other")));
    put(s, "sshd_config",
        fr_arena_fmt(a,
                     "ListenAddress 127.0.0.1:%d\nHostKey %s\nAuthorizedKeysFile %s\nPidFile none\n"
                     "UsePAM no\nStrictModes no\nPasswordAuthentication no\n"
                     "KbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\n"
                     "HostCertificate %s\nForceCommand echo welcome to the node; eval "
                     "\"$SSH_ORIGINAL_COMMAND\"\n",
                     s->port, sshd_file(s, "hk"), sshd_file(s, "authorized"),
                     sshd_file(s, "hk-cert.pub")));
    CHECK(fr_file_read("/proc/self/exe", 1 << 30, &self, NULL) == FR_OK);
    CHECK(fr_file_write(sshd_file(s, "flownode"), self.p, self.n, 0755, NULL) == FR_OK);
    fr_buf_finish(&self);
}

/* OpenSSH from 9.8 on refuses whoever failed before, for a while: here all come from one address.
 */
static const char no_penalties[] = "PerSourcePenalties=no";

static bool has_penalties(void)
{
    const char *argv[] = {sshd, "-G", "-f", "/dev/null", "-o", no_penalties, NULL};
    int silent = fr_sys.open("/dev/null", O_WRONLY, 0), status = -1;
    struct fr_spawn sp = {.argv = argv,
                          .envp = (const char *const *)environ,
                          .fds = {-1, silent, silent},
                          .die_with_parent = true};
    struct fr_proc p;

    if (fr_sys.spawn(&sp, &p) == 0)
        waitpid(p.pid, &status, 0);
    close(silent);
    return status == 0;
}

static bool start_server(struct site *s)
{
    const char *option = has_penalties() ? "-o" : NULL;
    const char *argv[] = {sshd,   "-D",         "-e", "-f", sshd_file(s, "sshd_config"),
                          option, no_penalties, NULL};
    int log = fr_sys.open(sshd_file(s, "sshd.log"), O_CREAT | O_WRONLY, 0600);
    struct fr_spawn sp = {.argv = argv,
                          .envp = (const char *const *)environ,
                          .fds = {-1, log, log},
                          .die_with_parent = true};
    struct fr_proc p;

    if (geteuid() == 0)
        fr_mkdirs("/run/sshd", 0755, NULL); /* where sshd's unprivileged part is locked in */
    if (fr_sys.spawn(&sp, &p) != 0)
        return false;
    s->sshd = p.pid;
    close(log);
    return true;
}

static void wait_for_server(struct site *s)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)s->port),
                            .sin_addr = {htonl(INADDR_LOOPBACK)}};
    bool up = false;

    while (!up && waitpid(s->sshd, NULL, WNOHANG) == 0) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);

        up = connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0;
        close(fd);
    }
    CHECK(up);
}

static bool may_log_in(void)
{
    const struct passwd *pw = getpwuid(getuid());

    return pw != NULL && pw->pw_shell[0] != '\0' && access(pw->pw_shell, X_OK) == 0 &&
           strstr(pw->pw_shell, "nologin") == NULL && strstr(pw->pw_shell, "false") == NULL;
}

const char *sshd_lacks(void)
{
    if (access(sshd, X_OK) != 0)
        return "no sshd here";
    return may_log_in() ? NULL : "this user has no login shell";
}

/* Whether somebody accepts connections at the socket. The file is there before that: bind() makes
 * it, and listen() comes later. */
static bool listens(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool up;

    snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
    up = connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0;
    close(fd);
    return up;
}

/* An agent with these keys; at most two. */
static void start_agent(struct site *s, size_t i, const char *name, const char *key,
                        const char *key2)
{
    const char *path = sshd_file(s, name);
    const char *argv[] = {"ssh-agent", "-D", "-a", path, NULL};
    const char *add[] = {"ssh-add", "-q", sshd_file(s, key),
                         key2 != NULL ? sshd_file(s, key2) : NULL, NULL};
    int log = fr_sys.open(sshd_file(s, "agent.log"), O_CREAT | O_WRONLY | O_APPEND, 0600);
    struct fr_spawn sp = {.argv = argv,
                          .envp = (const char *const *)environ,
                          .fds = {-1, log, log},
                          .die_with_parent = true};
    struct fr_proc p = {0};

    CHECK(fr_sys.spawn(&sp, &p) == 0);
    close(log);
    s->agents[i] = p.pid;
    while (!listens(path) && waitpid(p.pid, NULL, WNOHANG) == 0)
        ;
    setenv("SSH_AUTH_SOCK", path, 1);
    CHECK(run(add));
}

static void silent_agent(struct site *s)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};

    snprintf(a.sun_path, sizeof(a.sun_path), "%s", sshd_file(s, "agent_silent"));
    s->silent = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(s->silent, (struct sockaddr *)&a, sizeof(a)) == 0 && listen(s->silent, 9) == 0);
}

void sshd_begin(struct site *s)
{
    snprintf(s->dir, sizeof(s->dir), "/tmp/exec-ssh-XXXXXX");
    CHECK(mkdtemp(s->dir) != NULL);
    snprintf(s->user, sizeof(s->user), "%s", cuserid(NULL));
    s->port = free_port();
    s->dead_port = free_port();
    CHECK(make_key(s, "hk", "ed25519") && make_key(s, "id", "ed25519") &&
          make_key(s, "other", "ed25519") && make_key(s, "rsa", "rsa"));
    CHECK(run((const char *const[]){"ssh-keygen", "-q", "-s", sshd_file(s, "other"), "-I", "host",
                                    "-h", "-n", "127.0.0.1", sshd_file(s, "hk.pub"), NULL}));
    write_files(s);
    CHECK(start_server(s));
    wait_for_server(s);
    start_agent(s, 0, "agent", "id", NULL);
    start_agent(s, 1, "agent_other", "other", NULL);
    start_agent(s, 2, "agent_two", "other", "id");
    silent_agent(s);
}

void sshd_end(struct site *s)
{
    kill(s->sshd, SIGTERM);
    waitpid(s->sshd, NULL, 0);
    for (size_t i = 0; i < 3; i++) {
        kill(s->agents[i], SIGTERM);
        waitpid(s->agents[i], NULL, 0);
    }
    close(s->silent);
    fr_remove_tree(s->dir, NULL);
    fr_arena_finish(&s->arena);
}
