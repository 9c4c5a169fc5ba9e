#include "engine/deliver/deliver.h"

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/sys.h"
#include "engine/notify/notify.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ANSWER_BYTES = 4096, PATIENCE_MS = FR_SEND_COMMAND_MS + 15000 };

/* The job as a file to read, and a pipe for the answer: its reading end is *answer. */
static enum fr_rc spawn(const char *program, const char *job, struct fr_proc *proc, int *answer,
                        struct fr_err *err)
{
    const char *const argv[] = {program, "notify", "--deliver", NULL};
    int in = memfd_create("delivery", MFD_CLOEXEC), out[2] = {-1, -1};
    struct fr_spawn s = {
        .argv = argv, .envp = (const char *const *)environ, .die_with_parent = true};
    enum fr_rc rc = FR_OK;

    if (in < 0 || !fr_write_full(in, job, strlen(job)) || lseek(in, 0, SEEK_SET) != 0 ||
        fr_sys.pipe(out) != 0)
        rc = fr_fail_errno(err, errno, "keeping a message for its sender");
    s.fds[0] = in;
    s.fds[1] = out[1];
    s.fds[2] = -1;
    if (rc == FR_OK && fr_sys.spawn(&s, proc) != 0)
        rc = fr_fail_errno(err, errno, "starting %s", program);
    if (in >= 0)
        fr_sys.close(in);
    if (out[1] >= 0)
        fr_sys.close(out[1]);
    if (rc != FR_OK && out[0] >= 0)
        fr_sys.close(out[0]);
    *answer = rc == FR_OK ? out[0] : -1;
    return rc;
}

static void read_answer(int fd, struct fr_buf *out)
{
    int64_t end = fr_sys.mono_ms() + PATIENCE_MS, left;
    char part[1024];

    while ((left = end - fr_sys.mono_ms()) > 0 && out->n < ANSWER_BYTES) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        ssize_t n = fr_sys.poll(&p, 1, (int)left) > 0 ? fr_sys.read(fd, part, sizeof(part)) : 0;

        if (n > 0)
            fr_buf_add(out, part, (size_t)n);
        else if (p.revents != 0 && (n == 0 || errno != EINTR))
            break;
    }
}

void deliver_by_process(void *arg, const char *job, struct fr_sent *out)
{
    struct fr_buf answer = {0};
    struct fr_err err = {0};
    struct fr_wait w = {0};
    struct fr_proc proc;
    json_t *doc = NULL;
    int fd;
    enum fr_rc rc = spawn(arg, job, &proc, &fd, &err);

    *out = (struct fr_sent){0};
    if (rc == FR_OK) {
        read_answer(fd, &answer);
        fr_sys.close(fd);
        fr_sys.kill(proc, SIGKILL); /* it has answered, or will not */
        while (fr_sys.wait(proc.pid, &w, 0) < 0 && errno == EINTR)
            ;
        rc = answer.bad      ? fr_fail(&err, FR_NOMEM, "no memory for an answer")
             : answer.n == 0 ? fr_fail(&err, FR_PROTO, "the sender gave no answer")
                             : fr_json_parse((struct fr_str){answer.p, answer.n},
                                             "the sender's answer", &doc, &err);
    }
    if (rc == FR_OK && !fr_sent_read(doc, out))
        rc = fr_fail(&err, FR_PROTO, "the sender's answer is none");
    if (rc != FR_OK)
        (void)fr_visible(out->text, sizeof(out->text), err.msg, strlen(err.msg));
    json_decref(doc);
    fr_buf_finish(&answer);
}
