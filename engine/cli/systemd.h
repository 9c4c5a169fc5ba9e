/*
 * Messages of serve to the service manager that started it: readiness, status, watchdog, stop. Each
 * is a datagram to $NOTIFY_SOCKET (sd_notify(3)).
 */
#ifndef FR_CLI_SYSTEMD_H
#define FR_CLI_SYSTEMD_H

#include "engine/loop/loop.h"

struct cli_systemd;

/* Removes NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID from the environment, so that no task gets
 * them. With a watchdog, sends WATCHDOG=1 at half of the watchdog's time. Without a service manager
 * the calls below do nothing. FR_USAGE: WATCHDOG_USEC is no number. */
enum fr_rc cli_systemd_create(struct fr_loop *loop, struct cli_systemd **out, struct fr_err *err);
void cli_systemd_destroy(struct cli_systemd *s); /* NULL is fine */

void cli_systemd_ready(struct cli_systemd *s);
void cli_systemd_reloading(struct cli_systemd *s); /* until cli_systemd_ready() */
void cli_systemd_stopping(struct cli_systemd *s);
/* Sends the status line if it differs from the last one. */
void cli_systemd_status(struct cli_systemd *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
