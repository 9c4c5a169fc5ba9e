/*
 * What a host that stays tells the service manager that started it, one datagram a message to
 * $NOTIFY_SOCKET (sd_notify(3)): that it is ready, what it does, that its loop turns, that it ends.
 */
#ifndef FR_CLI_SYSTEMD_H
#define FR_CLI_SYSTEMD_H

#include "engine/loop/loop.h"

struct cli_systemd;

/* Takes NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID out of the environment, so that no task gets
 * them. With a watchdog it is told twice in its time that the loop turns, until destroyed. Without
 * a service manager *out does nothing. FR_USAGE: WATCHDOG_USEC is no time. */
enum fr_rc cli_systemd_create(struct fr_loop *loop, struct cli_systemd **out, struct fr_err *err);
void cli_systemd_destroy(struct cli_systemd *s); /* NULL is fine */

void cli_systemd_ready(struct cli_systemd *s);
void cli_systemd_reloading(struct cli_systemd *s); /* cli_systemd_ready() says that it is over */
void cli_systemd_stopping(struct cli_systemd *s);
/* One line of what it does; told when it is another than before. */
void cli_systemd_status(struct cli_systemd *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
