/*
 * Attempts in a real container (podman with runc, storage of its own, an image of busybox alone):
 * stop and time-out of a process tree that ignores SIGTERM, double-forks and calls setsid; a
 * container that is killed under an attempt. `container_node_test FLOWNODE`, a static one; 77 where
 * there is no podman that works.
 */
#include "tests/unit/node/node_client.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

static const char setup[] =
    "set -e; cd %s; mkdir -p bb/bin bb/tmp bb/dev bb/proc home\n"
    "cp $(command -v busybox) bb/bin/busybox\n"
    "for a in sh sleep echo env setsid true; do ln -sf busybox bb/bin/$a; done\n"
    "printf "
    "'[containers]\\ndefault_ulimits=[\"nofile=1024:1024\",\"nproc=1000:1000\"]\\nnetns=\"host\"\\n"
    "[engine]\\nruntime=\"runc\"\\ncgroup_manager=\"cgroupfs\"\\nevents_logger=\"file\"\\n' > "
    "cc.conf\n"
    "printf '#!/bin/sh\\nexport CONTAINERS_CONF=%s/cc.conf\\nexec podman --root %s/store --runroot "
    "%s/runroot \"$@\"\\n' > pod; chmod 700 pod\n"
    "tar -C bb -c . | ./pod import - bb:1 >/dev/null 2>&1\n"
    "./pod run -d --name box -v %s/home:/mnt/home -v %s:/mnt/flownode:ro bb:1 sleep 1000 "
    ">/dev/null\n"
    "./pod exec box /mnt/flownode version >/dev/null\n";

static const char stubborn[] =
    "trap '' TERM; (setsid sh -c 'trap \"\" TERM; (env -i sleep 1000) & sleep 1000' &); echo up; "
    "while :; do sleep 1; done";

struct box {
    char dir[64], home[80], pod[80];
    struct client c;
};

__attribute__((format(printf, 1, 2))) static int shell(const char *fmt, ...)
{
    char text[4096];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    return system(text);
}

static struct fr_msg box_prepare(const struct box *b, struct fr_str words[3], const char *script)
{
    struct fr_msg m = sh_prepare(words, script, true);

    words[0] = FR_STR("/bin/sh");
    m.prepare.request.grace_ms = 200;
    m.prepare.request.container = (struct fr_container){
        fr_str_of(b->pod), FR_STR("box"), FR_STR("/mnt/flownode"), FR_STR("/mnt/home")};
    return m;
}

static void start(struct box *b, const struct fr_msg *m)
{
    b->c.log.n = 0;
    client_send(&b->c, m);
    client_expect(&b->c, FR_MSG_LAUNCHED, m->prepare.attempt);
    client_attach(&b->c, m->prepare.attempt, 0);
}

static void test_plain(struct box *b)
{
    struct fr_str words[3];
    struct fr_msg m = box_prepare(b, words, "echo out; exit 5");

    start(b, &m);
    struct fr_ended e = client_expect(&b->c, FR_MSG_ENDED, m.prepare.attempt).ended;
    CHECK(e.cause == FR_END_EXIT && e.code == 5);
    client_await_bytes(&b->c, e.log_bytes);
    CHECK_TEXT(b->c.log.p, "out\n");
}

static void test_stop(struct box *b)
{
    struct fr_str words[3];
    struct fr_msg m = box_prepare(b, words, stubborn);

    start(b, &m);
    client_await_log(&b->c, "up\n");
    CHECK(processes_of(m.prepare.attempt) > 0);
    client_stop(&b->c, m.prepare.attempt, 100);
    struct fr_ended e = client_expect(&b->c, FR_MSG_ENDED, m.prepare.attempt).ended;
    CHECK(e.cause == FR_END_STOPPED && e.survivors.n == 0);
    CHECK_INT(processes_of(m.prepare.attempt), 0);
}

static void test_timeout(struct box *b)
{
    struct fr_str words[3];
    struct fr_msg m = box_prepare(b, words, stubborn);

    m.prepare.request.timeout_ms = 500;
    start(b, &m);
    struct fr_ended e = client_expect(&b->c, FR_MSG_ENDED, m.prepare.attempt).ended;
    CHECK(e.cause == FR_END_TIMEOUT && e.survivors.n == 0);
    CHECK_INT(processes_of(m.prepare.attempt), 0);
}

/* serve is killed, the shim goes on, a new connection finds it. */
static void test_serve_killed(struct box *b, const char *self)
{
    struct fr_str words[3];
    struct fr_msg m = box_prepare(
        b, words, "echo one; while ! test -e /mnt/home/go; do sleep 0.05; done; echo two");

    start(b, &m);
    client_await_log(&b->c, "one\n");
    client_close(&b->c, true);
    b->c = client_open(b->home, self, 2);
    client_attach(&b->c, m.prepare.attempt, 4);
    CHECK_INT(shell("touch %s/go", b->home), 0);
    struct fr_ended e = client_expect(&b->c, FR_MSG_ENDED, m.prepare.attempt).ended;
    CHECK(e.cause == FR_END_EXIT && e.code == 0);
    client_await_bytes(&b->c, e.log_bytes - 4);
    CHECK_TEXT(b->c.log.p, "two\n");
}

/*
 * Podman cleans up behind a container in a process of its own, which may still hold the storage,
 * and mount it, after `podman rm` has returned.
 */
static int remove_storage(const struct box *b)
{
    return shell("while pgrep -f '[-]-root %s/store' >/dev/null; do sleep 0.05; done; "
                 "awk '$2 ~ \"^%s/store/\" {print $2}' /proc/self/mounts | sort -r | "
                 "xargs -r umount; rmdir /sys/fs/cgroup/*/libpod_parent/conmon "
                 "/sys/fs/cgroup/*/libpod_parent 2>/dev/null; rm -rf %s",
                 b->dir, b->dir, b->dir);
}

/* The container is gone with all in it. */
static void test_container_gone(struct box *b)
{
    struct fr_str words[3];
    struct fr_msg m = box_prepare(b, words, stubborn);

    start(b, &m);
    client_await_log(&b->c, "up\n");
    CHECK_INT(shell("%s kill box >/dev/null && %s rm -f box >/dev/null", b->pod, b->pod), 0);
    struct fr_ended e = client_expect(&b->c, FR_MSG_ENDED, m.prepare.attempt).ended;
    CHECK(e.cause == FR_END_LOST && e.survivors.n == 0 && strstr(e.text.p, "container") != NULL);
    CHECK_INT(processes_of(m.prepare.attempt), 0);
}

int main(int argc, char **argv)
{
    struct box b;
    char d[64], flownode[4096];

    signal(SIGPIPE, SIG_IGN);
    snprintf(b.dir, sizeof(b.dir), "/tmp/container_node.%d", (int)getpid());
    snprintf(b.home, sizeof(b.home), "%s/home", b.dir);
    snprintf(b.pod, sizeof(b.pod), "%s/pod", b.dir);
    memcpy(d, b.dir, sizeof(d));
    if (argc < 2 || realpath(argv[1], flownode) == NULL) {
        printf("usage: container_node_test FLOWNODE\n");
        return 2;
    }
    if (geteuid() != 0)
        return check_skip("needs root");
    if (shell("command -v podman runc busybox >/dev/null") != 0)
        return check_skip("no podman, runc or static busybox here");
    mkdir(b.dir, 0700);
    if (shell(setup, d, d, d, d, d, flownode) != 0) {
        shell("%s kill box >/dev/null 2>&1; %s rm -f box >/dev/null 2>&1", b.pod, b.pod);
        remove_storage(&b);
        return check_skip("podman cannot run a container here");
    }
    b.c = client_open(b.home, flownode, 1);
    test_plain(&b);
    test_stop(&b);
    test_timeout(&b);
    test_serve_killed(&b, flownode);
    test_container_gone(&b);
    CHECK_INT(client_close(&b.c, false), 0);
    CHECK_INT(remove_storage(&b), 0);
    return check_done();
}
