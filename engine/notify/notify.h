/*
 * Messages about events: the rules that select events, the text, the retries, and the format of
 * each kind of channel. All but fr_notify_send() is pure.
 *
 * The message, as JSON (the body of a webhook): {type: "run.failed", timestamp:
 * "2026-11-22T04:00:00Z", data: {run, id, pipeline, state, outcome, reason, started, ended, params:
 * {}, schedule, subject, text, first_failure: {task, node, cause, code,
 * tail: [line]}, held, url}}; unknown
 * members of data are absent. A run's times are texts like timestamp.
 */
#ifndef FR_NOTIFY_NOTIFY_H
#define FR_NOTIFY_NOTIFY_H

#include "engine/base/str.h"
#include "engine/schedule/zone.h"
#include "engine/spec/notify.h"

/* Whether a rule (fr_notify_json) selects an event of that kind, of the pipeline. */
bool fr_notify_wants(const json_t *rule, const char *kind, const char *pipeline);
/* When the quiet hours of the rule end that now_ms is in; 0: it is in none. */
int64_t fr_notify_quiet_end(const json_t *rule, const struct fr_zone *zone, int64_t now_ms);
/* "run.failed", "task.stalled", "node.unreachable", "schedule.missed", "channel.test" … */
void fr_notify_type(const char *kind, struct fr_buf *out);

/* Adds a channel FR_COLLECTOR, which gets the trace of each ended run, if the variables of
 * OpenTelemetry's exporters ask for one (OTEL_EXPORTER_OTLP_ENDPOINT,
 * OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, and …_HEADERS; see otel.h) and no channel has that name.
 * rules: NULL or of fr_notify_json. Returns whether a channel was added. */
#define FR_COLLECTOR "otlp"
bool fr_notify_collector(json_t *channels, json_t *rules);

/* ---- the text ---- */

void fr_message_title(const json_t *message, struct fr_buf *out); /* one line */
void fr_message_text(const json_t *message, struct fr_buf *out);  /* title and all known data */
/* The last lines of n bytes of output, as a terminal shows them: at most 20, each of 300 bytes.
 * whole: the output begins there; else it may begin within a line, which is left out. */
json_t *fr_message_tail(const char *p, size_t n, bool whole);
/* The body of Slack's incoming webhooks (api.slack.com/messaging/webhooks); owned by
 * the caller. */
json_t *fr_message_slack(const json_t *message);
/* An adaptive card as workflows of Microsoft Teams take it (adaptivecards.io, version 1.2), its
 * texts as they are, without Markdown; owned by the caller. */
json_t *fr_message_teams(const json_t *message);
/* RFC 5322: of the channel from and to. key: of the delivery, so that doubles collapse. */
void fr_message_mail(const json_t *channel, const char *key, const json_t *message,
                     struct fr_buf *out);

/* ---- a try ---- */

struct fr_sent {
    bool done;       /* the receiver has it */
    bool refused;    /* permanent error: only a few more tries */
    bool gone;       /* the receiver takes no more messages (410) */
    int64_t wait_ms; /* the delay that the receiver asked for; 0: none */
    char text[200];  /* for people; names no address and no secret */
};

enum { FR_SEND_MS = 10000, FR_SEND_COMMAND_MS = 60000 };

/* The outcome of an HTTP status. */
void fr_notify_status(int status, int64_t retry_after_s, struct fr_sent *out);
/* Sends it through a channel (fr_channels_json); blocks. Variables and files of secrets are those
 * of this process. To a channel of kind otlp: batches of spans (trace.h) instead of a message. */
void fr_notify_send(const json_t *channel, const char *key, const json_t *message,
                    struct fr_sent *out);

enum fr_try { FR_TRY_DONE, FR_TRY_AGAIN, FR_TRY_DEAD };
/* What becomes of the delivery after so many tries, this one included; *delay_ms until the next
 * one. key spreads the tries of many deliveries. */
enum fr_try fr_notify_try(const struct fr_sent *sent, int64_t tries, const char *key,
                          int64_t *delay_ms);

/* For a process of its own: {channel, key, message} in, struct fr_sent out, as JSON. */
json_t *fr_sent_json(const struct fr_sent *sent);
bool fr_sent_read(const json_t *doc, struct fr_sent *out);

#endif
