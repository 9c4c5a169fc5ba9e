/*
 * Notifications of the home. The store writes notices with each change. The rules of config.yaml
 * and of the run's pipeline turn notices into deliveries. A delivery is sent at least once, with
 * the same key in each try. A channel sends one delivery at a time, in the order of events, and
 * does not wait for other channels.
 */
#ifndef FR_DELIVER_OUTBOX_H
#define FR_DELIVER_OUTBOX_H

#include "engine/runs/state.h"
#include "engine/notify/notify.h"
#include "engine/store/outbox.h"

struct host_outbox;

enum fr_rc outbox_configure(struct fr_host *host, const struct fr_config *config,
                            struct fr_err *err);

/* Adds the deliveries of a notice and drops the notice, in one transaction. */
enum fr_rc outbox_deal(struct fr_host *host, const struct fr_notice_row *notice,
                       struct fr_err *err);
/* Adds a test message to a channel. FR_NOTFOUND: config.yaml has no such channel. */
enum fr_rc outbox_try(struct fr_host *host, const char *channel, struct fr_arena *arena,
                      struct fr_delivery_row *out, struct fr_err *err);
/* Sends an ended delivery again and turns its channel on. FR_BUSY: it still waits. */
enum fr_rc outbox_again(struct fr_host *host, int64_t id, struct fr_err *err);

/* Deliveries that wait for channels of that kind, as of the last turn. */
int64_t outbox_waiting(const struct fr_host *host, enum fr_channel_kind kind);

/* From config.yaml, as fr_channels_json() and fr_notify_json(). Borrowed; NULL before it is read.
 */
const json_t *outbox_channels(const struct fr_host *host);
const json_t *outbox_rules(const struct fr_host *host);

/* notices.c: writes notices about samples of machines: low disk space. */
void notice_samples(struct fr_host *host);
/* The message of a notice, as fr_notify takes it; NULL: no memory. kind: the rule's word. */
json_t *notice_message(struct fr_host *host, const struct fr_notice_row *notice, const char *kind,
                       struct fr_arena *arena);

#endif
