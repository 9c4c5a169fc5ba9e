/*
 * Notifications of the home. Notices, which the store writes with each change, become deliveries by
 * the rules of config.yaml and of the run's pipeline; each delivery is sent through its channel, by
 * a process of its own in a thread of its own, at least once: its key is the same in each try. A
 * channel sends one at a time, in the order of events; none waits for another channel.
 */
#ifndef FR_DELIVER_OUTBOX_H
#define FR_DELIVER_OUTBOX_H

#include "engine/runs/state.h"
#include "engine/notify/notify.h"
#include "engine/store/outbox.h"

struct host_outbox;

enum fr_rc outbox_configure(struct fr_host *host, const struct fr_config *config,
                            struct fr_err *err);

/* The deliveries that a rule asks for after one notice, in a transaction that drops it. */
enum fr_rc outbox_deal(struct fr_host *host, const struct fr_notice_row *notice,
                       struct fr_err *err);
/* A message to try a channel. FR_NOTFOUND: config.yaml has none of that name. */
enum fr_rc outbox_try(struct fr_host *host, const char *channel, struct fr_arena *arena,
                      struct fr_delivery_row *out, struct fr_err *err);
/* Sends a delivery that is over once more; its channel is on again. FR_BUSY: it waits. */
enum fr_rc outbox_again(struct fr_host *host, int64_t id, struct fr_err *err);

/* Messages that wait for channels of that kind, as of the newest turn. */
int64_t outbox_waiting(const struct fr_host *host, enum fr_channel_kind kind);

/* Of config.yaml: as fr_channels_json() and fr_notify_json(); borrowed, NULL before it is read. */
const json_t *outbox_channels(const struct fr_host *host);
const json_t *outbox_rules(const struct fr_host *host);

/* notices.c: writes what samples of machines say. */
void notice_samples(struct fr_host *host);
/* What a notice says, as fr_notify's message; NULL: no memory. kind: the rule's word. */
json_t *notice_message(struct fr_host *host, const struct fr_notice_row *notice, const char *kind,
                       struct fr_arena *arena);

#endif
