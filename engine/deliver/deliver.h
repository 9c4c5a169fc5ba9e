/* Notifications of a host. */
#ifndef FR_DELIVER_DELIVER_H
#define FR_DELIVER_DELIVER_H

#include <stdbool.h>

struct fr_host;
struct fr_sent;
struct host_part;

extern const struct host_part outbox_part;

/* Sends a delivery, the JSON {channel, key, message}, in a thread; may block. The default runs
 * `flowrun notify --deliver` (fr_run_env.self). */
typedef void fr_deliver_fn(void *arg, const char *job, struct fr_sent *out);
void fr_host_deliver_by(struct fr_host *host, fr_deliver_fn *fn, void *arg);

/* Runs `flowrun notify --deliver`, arg being the path of flowrun. Blocks until it ends, at most
 * FR_SEND_COMMAND_MS and some seconds. */
void deliver_by_process(void *arg, const char *job, struct fr_sent *out);

#endif
