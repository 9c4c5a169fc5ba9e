/* The pipeline of real_test, and the way to its nodes: folders, keys, an sshd for n1. */
#include "tests/fault/real.h"

#include "tests/unit/check.h"

#include <arpa/inet.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define RAN "echo $FLOWRUN_ATTEMPT >> $W/ran"
#define NEEDS_V(from) "needs: [" from "], env: {IN: \"${{ tasks." from ".outputs.v }}\"}, "

static const char head[] =
    "  - {name: n2, executor: local, slots: 3}\n"
    "  - {name: n3, executor: local, slots: 3}\n"
    "defaults: {retry: {times: 3, delay: 20ms, on: [signal, lost, start_failed, exit]}}\n"
    "env: {W: \"${{ env.W }}\"}\n"
    "tasks:\n"
    "  a: {on: n1, run: '" RAN "; echo v=x1 >> $FLOWRUN_OUTPUT', outputs: [v]}\n"
    "  b: {on: n2, " NEEDS_V("a") "run: '" RAN "; while test -e $W/hold; do sleep "
                                  "0.02; done; test \"$IN\" = x1'}\n"
                                  "  c: {on: all, gang: true, needs: [a], run: '" RAN
                                  "; echo rank $NODE_RANK; test $MASTER_PORT -gt 0'}\n"
                                  "  d: {on: n3, run: '" RAN "; test $FLOWRUN_ATTEMPT_NO != 1'}\n"
                                  "  e: {on: n1, needs: [b], run: '" RAN
                                  "', sidecars: [{run: 'exec sleep 600'}]}\n"
                                  "  f: {on: all, needs: [c, d, e], run: '" RAN "'}\n";

/* Two chains with outputs, a fan-out, and a task on all nodes that is cancelled: 40 tasks. */
static const char tail[] =
    "  join: {on: n2, needs: [fan1, fan2, fan3, fan4, fan5, fan6, fan7, fan8, fan9, fan10, fan11, "
    "fan12, fan13, fan14, fan15, fan16, fan17, fan18], run: '" RAN "'}\n"
    "  flaky: {on: n2, needs: [join], run: '" RAN "; test $FLOWRUN_ATTEMPT_NO != 1'}\n"
    "  again: {on: all, gang: true, needs: [flaky, c], run: '" RAN "'}\n"
    "  last: {on: n3, needs: [again, f, x5, y5], run: '" RAN "; touch $W/last; exec sleep 600'}\n"
    "  hang: {on: all, run: '" RAN "; exec sleep 600'}\n"
    "  after: {on: n1, needs: [hang], run: 'false'}\n";

/* Of each of the others: 7 attempts of 6 instances. */
static const char others[] =
    "name: others\n"
    "nodes:\n"
    "  - {name: n1, executor: local, slots: 3}\n"
    "  - {name: n2, executor: local, slots: 3}\n"
    "  - {name: n3, executor: local, slots: 3}\n"
    "defaults: {retry: {times: 3, delay: 20ms, on: [signal, lost, start_failed, exit]}}\n"
    "env: {W: \"${{ env.W }}\"}\n"
    "tasks:\n"
    "  o1: {on: n1, run: '" RAN "; echo v=x1 >> $FLOWRUN_OUTPUT', outputs: [v]}\n"
    "  o2: {on: n2, " NEEDS_V("o1") "run: '" RAN "; test $FLOWRUN_ATTEMPT_NO != 1'}\n"
                                    "  og: {on: all, gang: true, needs: [o2], run: '" RAN "'}\n"
                                    "  ow: {on: n3, run: '" RAN
                                    "; until test -e $W/free; do sleep 0.02; done'}\n";

static void put_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    CHECK(f != NULL && fputs(text, f) >= 0);
    if (f != NULL)
        fclose(f);
}

static void put_complete(FILE *f)
{
    for (int c = 'x'; c <= 'y'; c++)
        for (int i = 1; i <= 5; i++) {
            fprintf(f, "  %c%d: {on: n%d, ", c, i, (i + c) % 3 + 1);
            if (i > 1)
                fprintf(f, NEEDS_V("%c%d"), c, i - 1, c, i - 1);
            fprintf(f, "run: '" RAN "; echo v=%c$IN >> $FLOWRUN_OUTPUT', outputs: [v]}\n", c);
        }
    for (int i = 1; i <= 18; i++)
        fprintf(f, "  fan%d: {on: n%d, needs: [a], run: '" RAN "'}\n", i, i % 3 + 1);
    fputs(tail, f);
}

static void put_pipeline(const struct env *e, bool far)
{
    FILE *f = fopen(e->yaml, "w");

    if (!CHECK(f != NULL))
        return;
    fputs("name: real\n", f);
    if (far) /* a gang's port is then a fixed one, and others run this at the same time */
        fprintf(f, "rendezvous: {port: %d}\n", 20000 + e->port % 10000);
    fputs("nodes:\n", f);
    if (far)
        fprintf(f,
                "  - {name: n1, address: 127.0.0.1, port: %d, user: %s, key: %s/id, known_hosts: "
                "%s/known.%d, ssh_config: %s/none}\n",
                e->port, getpwuid(getuid())->pw_name, e->base, e->base, e->port, e->base);
    else
        fputs("  - {name: n1, executor: local, slots: 3}\n", f);
    fputs(head, f);
    if (e->complete)
        put_complete(f);
    fclose(f);
}

static void put_sshd_config(const struct env *e)
{
    char text[1200];

    snprintf(text, sizeof(text),
             "HostKey %s/host\nAuthorizedKeysFile %s/id.pub\nPidFile none\nStrictModes no\n"
             "PermitRootLogin prohibit-password\nPasswordAuthentication no\n"
             "KbdInteractiveAuthentication no\nUsePAM no\nUseDNS no\nPrintMotd no\n"
             "SetEnv W=%s XDG_STATE_HOME=%s/far XDG_CACHE_HOME=%s/cache\n",
             e->base, e->base, e->dir, e->dir, e->base);
    put_text(e->config, text);
}

bool real_keys(const struct env *e)
{
    char command[600];

    if (getuid() != 0 || access(SSHD, X_OK) != 0)
        return false;
    mkdir("/run/sshd", 0755); /* as the service does when it starts */
    snprintf(command, sizeof(command),
             "cd '%s' && : > none && ssh-keygen -q -t ed25519 -N '' -f id && "
             "ssh-keygen -q -t ed25519 -N '' -f host",
             e->base);
    return CHECK(system(command) == 0);
}

void real_listen(struct env *e)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof(at);
    char command[600];

    e->door = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(e->door, (struct sockaddr *)&at, n) == 0 && listen(e->door, 16) == 0);
    CHECK(getsockname(e->door, (struct sockaddr *)&at, &n) == 0);
    e->port = ntohs(at.sin_port);
    snprintf(command, sizeof(command),
             "cd '%s' && echo \"[127.0.0.1]:%d $(cut -d' ' -f1,2 host.pub)\" > known.%d", e->base,
             e->port, e->port);
    CHECK(system(command) == 0);
}

void real_fresh(struct env *e, const char *name, bool far)
{
    char home[220];

    snprintf(e->dir, sizeof(e->dir), "%s/%s", e->base, name);
    mkdir(e->dir, 0700);
    snprintf(e->yaml, sizeof(e->yaml), "%s/real.yaml", e->dir);
    snprintf(e->out, sizeof(e->out), "%s/out", e->dir);
    snprintf(e->config, sizeof(e->config), "%s/sshd_config", e->dir);
    snprintf(home, sizeof(home), "%s/home", e->dir);
    put_pipeline(e, far);
    if (far)
        put_sshd_config(e);
    setenv("FLOWRUN_HOME", home, 1);
    setenv("FLOWRUN", e->flowrun, 1);
    setenv("W", e->dir, 1);
}

static void run_shell(const struct tracer *t, const char *script)
{
    const char *argv[] = {"/bin/sh", "-c", script, NULL};

    (void)tracer_also(t, argv, "/dev/null");
}

/* They come once there is a host: the recorded run's. */
static void start_two(const struct tracer *t)
{
    static const char wait[] =
        "until test -S $FLOWRUN_HOME/host.sock; do test -d $W || exit; sleep 0.01; done; $FLOWRUN "
        "$W/others.yaml > $W/others.$$ 2>&1; echo $? >> $W/codes";

    run_shell(t, wait);
    run_shell(t, wait);
}

/* The host is killed once the run that follows it has a success to show. */
static void start_host(const struct env *e, const struct tracer *t)
{
    char path[220], script[300], log[220];
    const char *argv[] = {e->flowrun, path, NULL};
    pid_t pid;

    snprintf(log, sizeof(log), "%s/others.host", e->dir);
    snprintf(path, sizeof(path), "%s/others.yaml", e->dir);
    pid = tracer_also(t, argv, log);
    snprintf(script, sizeof(script),
             "until grep -q succeeded $W/out; do test -d $W || exit; sleep 0.01; done; kill -9 %d; "
             "rm $W/hold",
             (int)pid);
    run_shell(t, script);
    snprintf(path, sizeof(path), "%s/home/host.sock", e->dir);
    while (access(path, F_OK) != 0)
        usleep(10000);
}

void real_others(const struct env *e, struct tracer *t)
{
    bool taker = t->victim == TRACER_TAKER;
    char path[220];

    snprintf(path, sizeof(path), "%s/others.yaml", e->dir);
    put_text(path, others);
    snprintf(path, sizeof(path), "%s/%s", e->dir, taker ? "hold" : "free");
    put_text(path, "");
    if (taker)
        start_host(e, t);
    else
        start_two(t);
}
