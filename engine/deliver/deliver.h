/* Notifications of a host: what is owed, and how a delivery leaves. */
#ifndef FR_DELIVER_DELIVER_H
#define FR_DELIVER_DELIVER_H

#include <stdbool.h>

struct fr_host;
struct fr_sent;
struct host_part;

extern const struct host_part outbox_part;

/* Whether some were not tried yet, and nothing else is ahead of them. */
bool fr_host_owes(const struct fr_host *host);
/* Sends one: {channel, key, message}, JSON; in a thread of its own, where it may block. By default
 * that is the program of fr_run_env.self, `notify --deliver`. */
typedef void fr_deliver_fn(void *arg, const char *job, struct fr_sent *out);
void fr_host_deliver_by(struct fr_host *host, fr_deliver_fn *fn, void *arg);

/* Starts `flowrun notify --deliver`, whose path is arg; blocks until it has answered, at most
 * FR_SEND_COMMAND_MS and some seconds. */
void deliver_by_process(void *arg, const char *job, struct fr_sent *out);

#endif
