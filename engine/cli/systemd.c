#include "engine/cli/systemd.h"

#include "engine/base/log.h"
#include "engine/base/str.h"
#include "engine/base/sys.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct cli_systemd {
    struct fr_loop *loop;
    char *socket;           /* owns: path; NULL: there is no service manager */
    struct fr_timer *timer; /* of the watchdog; NULL: there is none */
    int64_t every_ms;
    char status[128];
    bool failed; /* a message could not be sent; logged once */
};

static void tell(struct cli_systemd *s, const char *text)
{
    if (s->socket == NULL || fr_sys.tell_unix(s->socket, text, strlen(text)) == 0 || s->failed)
        return;
    s->failed = true;
    fr_log(FR_LOG_WARN, "serve", "the service manager at %s cannot be told: %s", s->socket,
           strerror(errno));
}

static void on_watchdog(void *arg)
{
    struct cli_systemd *s = arg;

    tell(s, "WATCHDOG=1");
    fr_loop_arm_in(s->loop, s->timer, s->every_ms);
}

/* Half of the watchdog's time; 0: there is no watchdog. */
static enum fr_rc watchdog_ms(int64_t *out, struct fr_err *err)
{
    const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    int64_t us, who;

    *out = 0;
    if (usec == NULL)
        return FR_OK;
    if (pid != NULL && (fr_parse_i64(fr_str_of(pid), &who, NULL) != FR_OK || who != getpid()))
        return FR_OK; /* meant for another process */
    if (fr_parse_i64(fr_str_of(usec), &us, NULL) != FR_OK || us < 1)
        return fr_fail(err, FR_USAGE, "WATCHDOG_USEC is '%s', which is no number of microseconds",
                       usec);
    *out = us / 2000 > 0 ? us / 2000 : 1;
    return FR_OK;
}

enum fr_rc cli_systemd_create(struct fr_loop *loop, struct cli_systemd **out, struct fr_err *err)
{
    const char *socket = getenv("NOTIFY_SOCKET");
    struct cli_systemd *s = fr_sys.alloc(sizeof(*s));
    enum fr_rc rc;

    *out = NULL;
    if (s == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the service manager's socket");
    *s = (struct cli_systemd){.loop = loop};
    rc = watchdog_ms(&s->every_ms, err);
    if (rc == FR_OK && socket != NULL && (s->socket = strdup(socket)) == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for the service manager's socket");
    if (rc == FR_OK && s->socket != NULL && s->every_ms > 0 &&
        (rc = fr_loop_timer(loop, on_watchdog, s, &s->timer)) != FR_OK)
        fr_fail(err, rc, "no memory for the service manager's watchdog");
    if (rc != FR_OK) {
        cli_systemd_destroy(s);
        return rc;
    }
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
    if (s->timer != NULL)
        fr_loop_arm_in(loop, s->timer, 0);
    *out = s;
    return FR_OK;
}

void cli_systemd_destroy(struct cli_systemd *s)
{
    if (s == NULL)
        return;
    fr_loop_untimer(s->loop, &s->timer);
    free(s->socket);
    fr_sys.free(s);
}

void cli_systemd_ready(struct cli_systemd *s)
{
    tell(s, "READY=1");
}

void cli_systemd_reloading(struct cli_systemd *s)
{
    char text[80];

    snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%" PRId64, fr_sys.mono_ms() * 1000);
    tell(s, text);
}

void cli_systemd_stopping(struct cli_systemd *s)
{
    tell(s, "STOPPING=1");
}

void cli_systemd_status(struct cli_systemd *s, const char *fmt, ...)
{
    char now[sizeof(s->status)], text[sizeof(now) + 8];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(now, sizeof(now), fmt, ap);
    va_end(ap);
    if (strcmp(now, s->status) == 0)
        return;
    memcpy(s->status, now, sizeof(now));
    snprintf(text, sizeof(text), "STATUS=%s", now);
    tell(s, text);
}
