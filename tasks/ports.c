#include "tasks/ports.h"

#include "engine/base/sys.h"
#include "tasks/netline.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* "39500-39503, 39507": the ports whose flag is set. */
static void show_ports(const struct fr_ports *p, const bool *flag, struct fr_buf *out)
{
    for (int64_t i = 0; i < p->n; i++) {
        int64_t end = i;
        if (!flag[i])
            continue;
        while (end + 1 < p->n && flag[end + 1])
            end++;
        fr_buf_fmt(out, "%s%lld", out->n > 0 ? ", " : "", (long long)(p->first + i));
        if (end > i)
            fr_buf_fmt(out, "-%lld", (long long)(p->first + end));
        i = end;
    }
}

void fr_ports_open(struct fr_ports *p, int64_t spare, json_t *problems)
{
    bool busy[FR_PORTS_MAX] = {false}, any = false;
    struct fr_buf text = {0};

    for (int64_t i = 0; i < p->n; i++) {
        p->fds[i] = -1;
        if (p->first + i == spare || fr_net_listen(p->first + i, &p->fds[i], NULL) == FR_OK)
            continue;
        busy[i] = any = true;
    }
    if (any) {
        show_ports(p, busy, &text);
        fr_buf_fmt(&text, " cannot be listened on: somebody holds them (ss -ltnp; the task cleanup "
                          "ends the holder)");
        json_array_append_new(problems, json_sprintf("ports %s", text.p));
    }
    fr_buf_finish(&text);
}

void fr_ports_close(struct fr_ports *p)
{
    for (int64_t i = 0; i < p->n; i++) {
        if (p->fds[i] >= 0)
            close(p->fds[i]);
        p->fds[i] = -1;
    }
}

/* Starts a connection; *fd -1 and the reason when it fails at once. */
static int begin(const char *address, int64_t port, int *fd)
{
    struct sockaddr_storage a;

    *fd = -1;
    if (fr_net_address(address, port, &a, NULL) != FR_OK)
        return EADDRNOTAVAIL;
    *fd = socket(a.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*fd < 0)
        return errno;
    if (connect(*fd, (struct sockaddr *)&a, fr_net_size(&a)) == 0 || errno == EINPROGRESS)
        return 0;
    int e = errno;
    close(*fd);
    *fd = -1;
    return e;
}

void fr_ports_try(const struct fr_ports *p, const char *address, const char *who,
                  int64_t timeout_ms, json_t *problems)
{
    struct pollfd fds[FR_PORTS_MAX];
    bool failed[FR_PORTS_MAX] = {false};
    int64_t waiting = 0, until_ms = fr_sys.mono_ms() + timeout_ms;
    int why = 0;
    bool any = false;

    for (int64_t i = 0; i < p->n; i++) {
        int e = begin(address, p->first + i, &fds[i].fd);
        fds[i].events = POLLOUT;
        failed[i] = e != 0;
        why = e != 0 ? e : why;
        waiting += e == 0;
    }
    while (waiting > 0) {
        int64_t left = until_ms - fr_sys.mono_ms();
        int ready = left > 0 ? fr_sys.poll(fds, (nfds_t)p->n, (int)left) : 0;
        for (int64_t i = 0; i < p->n; i++) {
            int e = ETIMEDOUT;
            socklen_t n = sizeof(e);
            if (fds[i].fd < 0 || (ready > 0 && fds[i].revents == 0))
                continue;
            if (ready > 0)
                getsockopt(fds[i].fd, SOL_SOCKET, SO_ERROR, &e, &n);
            failed[i] = e != 0;
            why = e != 0 ? e : why;
            close(fds[i].fd);
            fds[i].fd = -1;
            waiting--;
        }
    }
    for (int64_t i = 0; i < p->n; i++)
        any = any || failed[i];
    if (any) {
        struct fr_buf text = {0};
        show_ports(p, failed, &text);
        json_array_append_new(problems, json_sprintf("cannot reach %s (%s) on ports %s: %s", who,
                                                     address, text.p, strerror(why)));
        fr_buf_finish(&text);
    }
}
