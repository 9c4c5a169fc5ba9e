/*
 * Notifications: channels of the home's config.yaml (where a message goes), and rules of
 * config.yaml or of a pipeline (which event goes to which channel).
 */
#ifndef FR_SPEC_NOTIFY_H
#define FR_SPEC_NOTIFY_H

#include "engine/spec/expr.h"

#include <jansson.h>

/* The events of a rule's on:. Those from SCHEDULE_MISSED on are of config.yaml alone: no run is
 * there. */
#define FR_NOTICES(X)                                                                              \
    X(STARTED, "started")                                                                          \
    X(SUCCEEDED, "succeeded")                                                                      \
    X(RECOVERED, "recovered") /* the first success after a failure; without it on: a success */    \
    X(FAILED, "failed")                                                                            \
    X(CANCELLED, "cancelled")                                                                      \
    X(STALLED, "stalled")                                                                          \
    X(NOT_FINITE, "not_finite")                                                                    \
    X(LATE, "late")                                                                                \
    X(NODE_UNREACHABLE, "node_unreachable")                                                        \
    X(SCHEDULE_MISSED, "schedule_missed")                                                          \
    X(SCHEDULE_PAUSED, "schedule_paused")                                                          \
    X(DISK_LOW, "disk_low") /* of a node's machine */

#define FR_NOTICE_ID(id, word) FR_NOTICE_##id,
enum fr_notice { FR_NOTICES(FR_NOTICE_ID) FR_NOTICE_N };
#undef FR_NOTICE_ID

const char *fr_notice_name(enum fr_notice kind); /* "node_unreachable" */

struct fr_notify {
    unsigned on;                  /* bit 1u << enum fr_notice; at least one */
    const char *const *pipelines; /* patterns of names, '*' matches anything; none: all */
    size_t n_pipelines;
    const char *const *to; /* names of channels; at least one */
    size_t n_to;
    int64_t throttle_ms; /* one message of an event and pipeline in this time; 0: all */
    struct fr_quiet {
        int from_min, to_min; /* of the day, in the home's zone; equal: none */
    } quiet;                  /* messages of these hours come at their end */
};

enum fr_channel_kind {
    FR_CHANNEL_WEBHOOK,
    FR_CHANNEL_SLACK,
    FR_CHANNEL_TEAMS,
    FR_CHANNEL_EMAIL,
    FR_CHANNEL_COMMAND,
    FR_CHANNEL_OTLP,
    FR_CHANNEL_N
};

const char *fr_channel_kind_name(enum fr_channel_kind kind); /* "webhook" */

/* A text that may be a secret. It is looked up for each message, where that is sent. */
struct fr_given {
    const char *text; /* one of these three; all NULL: not given */
    const char *env;  /* a variable of the host's environment */
    const char *file; /* absolute; a newline at its end is cut */
};

struct fr_channel {
    const char *name;
    struct fr_pos pos;
    enum fr_channel_kind kind;
    struct fr_given url;       /* WEBHOOK, SLACK, TEAMS, OTLP */
    struct fr_given headers;   /* OTLP: "NAME=VALUE,NAME=VALUE" */
    struct fr_given sign_with; /* WEBHOOK: secrets of Standard Webhooks */
    const char *server;        /* EMAIL: "smtp://HOST:PORT" or "smtps://…" */
    const char *from;          /* EMAIL */
    const char *const *to;     /* EMAIL */
    size_t n_to;
    const char *user; /* EMAIL; NULL: no login */
    struct fr_given password;
    const char *ca; /* absolute: certificates to trust in place of those of the system */
    const char *const *command; /* COMMAND: argv; the message comes on its standard input */
    size_t n_command;
};

/* As JSON: [{on: [name], pipelines: [], to: [], throttle_ms, quiet: [from, to]}], quiet in minutes
 * where there is one, and {name: {kind, …}}; a given text is a text, {env} or {file}. NULL: no
 * memory. The caller's to drop. */
json_t *fr_notify_json(const struct fr_notify *rules, size_t n);
json_t *fr_channels_json(const struct fr_channel *channels, size_t n);

#endif
