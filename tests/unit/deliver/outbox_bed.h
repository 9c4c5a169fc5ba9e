/*
 * For tests of a host's notifications: receivers that answer as a test says, on a wall clock of the
 * test's own, and what the store says of deliveries.
 */
#ifndef TESTS_UNIT_OUTBOX_BED_H
#define TESTS_UNIT_OUTBOX_BED_H

#include "tests/unit/host/host_bed.h"

#include "engine/base/json.h"
#include "engine/deliver/outbox.h"
#include "engine/spec/config.h"

#include <pthread.h>

struct outbox {
    struct host_bed bed;
    const char *config;            /* the text */
    const char *params, *schedule; /* of the runs, and what made them; NULL: x=1, nothing */
    /* The receiver. */
    pthread_mutex_t lock;
    pthread_cond_t free;
    struct fr_sent answer; /* for channel a; b takes everything */
    struct fr_buf got;     /* "channel type run key\n" of each try */
    bool blocked;          /* a waits until it is not */
};

void answer(struct outbox *o, struct fr_sent with);
void block(struct outbox *o, bool yes);

/* ---- the home ---- */

#define CHANNELS                                                                                   \
    "channels: {a: {kind: webhook, url: \"http://h/a\"}, b: {kind: slack, url: \"http://h/b\"}}\n"

void configure(struct outbox *o, const char *text);
void begin(struct outbox *o, const char *config);
void reset(struct outbox *o);
/* A run of pipeline p that is over so, in one commit; its number. */
int64_t end_run(struct outbox *o, enum fr_outcome outcome, const char *rules);
/* "a failed 1 sent 1" of each, the oldest first: channel, event, run, state, tries. */
const char *deliveries(struct outbox *o, struct fr_arena *arena);
/* Turns until the deliveries are those; the test's deadline ends it else. */
void until(struct outbox *o, const char *want);
/* So much time goes by. */
void pass(int64_t seconds);
void check_got(struct outbox *o, const char *want);
void begin_outbox(struct outbox *o);
int end_outbox(struct outbox *o);

#endif
