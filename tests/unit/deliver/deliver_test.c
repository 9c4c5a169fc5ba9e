/* Deliveries by a process of their own: what is made of what it answers, or does not. */
#include "engine/deliver/deliver.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "engine/notify/notify.h"
#include "tests/unit/check.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char dir[] = "/tmp/deliver_test.XXXXXX", program[64];

static size_t count_fds(void)
{
    size_t n = 0;

    for (int fd = 0; fd < 1000; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* The job is "job"; script: of sh, which is called as flowrun is. No descriptor and no process
 * stays. */
static struct fr_sent deliver(const char *script)
{
    int fd = open(program, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
    size_t fds;
    struct fr_sent sent;

    CHECK(fd >= 0 && dprintf(fd, "#!/bin/sh\n%s\n", script) > 0);
    close(fd);
    fds = count_fds();
    memset(&sent, 1, sizeof(sent));
    deliver_by_process(program, "job", &sent);
    CHECK_INT(count_fds(), fds);
    CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
    return sent;
}

#define SENT                                                                                       \
    "{\"done\": true, \"refused\": false, \"gone\": false, \"wait_ms\": 0, \"text\": \"x\"}"

static const struct {
    const char *name, *script, *text;
    bool done, refused, gone;
    int64_t wait_ms;
} rows[] = {
    {"its answer", "echo '" SENT "'", "x", true, false, false, 0},
    {"all of it",
     "echo '{\"done\": false, \"refused\": true, \"gone\": true, \"wait_ms\": 7, \"text\": "
     "\"no\"}'",
     "no", false, true, true, 7},
    {"the job, and how it is called",
     "test \"$* $(cat)\" = 'notify --deliver job' && echo '" SENT "'", "x", true, false, false, 0},
    {"in parts",
     "printf '%s' '{\"done\": true, \"refused\": false, '\nsleep 0.02\n"
     "echo '\"gone\": false, \"wait_ms\": 0, \"text\": \"x\"}'",
     "x", true, false, false, 0},
    {"an end that does not come", "echo '" SENT "'\nexec >&-\nsleep 600", "x", true, false, false,
     0},
    {"no answer", "exit 0", "the sender gave no answer", false, false, false, 0},
    {"no JSON", "echo oh", "the sender's answer:", false, false, false, 0},
    {"another answer", "echo '{\"done\": true}'", "the sender's answer is none", false, false,
     false, 0},
    {"what it says besides", "echo oh >&2\necho '" SENT "'", "x", true, false, false, 0},
};

static void answers(void)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fr_sent sent;

        check_row(rows[i].name);
        sent = deliver(rows[i].script);
        if (!CHECK(strncmp(sent.text, rows[i].text, strlen(rows[i].text)) == 0))
            printf("   %s\n", sent.text);
        CHECK(sent.done == rows[i].done && sent.refused == rows[i].refused &&
              sent.gone == rows[i].gone);
        CHECK_INT(sent.wait_ms, rows[i].wait_ms);
    }
    check_row("");
}

/* ---- what fails ---- */

static int64_t now_ms;
static int polled, interrupted;

static int64_t clock_ms(void)
{
    return now_ms;
}

/* However fast the machine is. */
static int64_t ticking_ms(void)
{
    return now_ms++;
}

/* Nothing comes, however long it is waited. */
static int time_is_up(struct pollfd *p, nfds_t n, int ms)
{
    CHECK_INT(n, 1);
    CHECK_INT(ms, FR_SEND_COMMAND_MS + 15000 - now_ms);
    p->revents = 0;
    now_ms += polled++ == 0 ? 5000 : ms;
    return 0;
}

static ssize_t interrupted_read(int fd, void *p, size_t n)
{
    if (interrupted++ > 0)
        return fr_sys_real.read(fd, p, n);
    errno = EINTR;
    return -1;
}

static ssize_t failed_read(int fd, void *p, size_t n)
{
    (void)fd, (void)p, (void)n;
    errno = EIO;
    return -1;
}

static int no_pipe(int fds[2])
{
    (void)fds;
    errno = EMFILE;
    return -1;
}

static void failures(void)
{
    struct fr_sent sent;

    check_row("one that says nothing");
    fr_sys.poll = time_is_up;
    fr_sys.mono_ms = clock_ms;
    sent = deliver("exec sleep 600");
    CHECK_TEXT(sent.text, "the sender gave no answer");
    CHECK_INT(polled, 2);
    fr_sys.poll = fr_sys_real.poll;
    fr_sys.mono_ms = ticking_ms;

    check_row("a read that a signal interrupts");
    fr_sys.read = interrupted_read;
    now_ms = 0;
    CHECK(deliver("echo '" SENT "'").done && interrupted > 1 && now_ms < 10);
    check_row("a read that fails");
    fr_sys.read = failed_read;
    now_ms = 0;
    CHECK(!deliver("echo '" SENT "'").done && now_ms < 10);
    fr_sys.read = fr_sys_real.read;
    check_row("an answer without an end");
    now_ms = 0;
    CHECK(!deliver("yes '" SENT "'").done && now_ms < 5000);
    fr_sys.mono_ms = fr_sys_real.mono_ms;

    check_row("no pipe");
    fr_sys.pipe = no_pipe;
    sent = deliver("exit 0");
    CHECK_TEXT(sent.text, "keeping a message for its sender: Too many open files");
    fr_sys.pipe = fr_sys_real.pipe;

    check_row("no program");
    size_t fds = count_fds();
    deliver_by_process((char[]){"/nonexistent/flowrun"}, "job", &sent);
    CHECK_TEXT(sent.text, "starting /nonexistent/flowrun: No such file or directory");
    CHECK(!sent.done && count_fds() == fds);
    check_row("");
}

int main(void)
{
    CHECK(mkdtemp(dir) != NULL);
    (void)snprintf(program, sizeof(program), "%s/program", dir);
    answers();
    failures();
    CHECK_INT(fr_remove_tree(dir, NULL), FR_OK);
    return check_done();
}
