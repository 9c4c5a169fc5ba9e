/*
 * The outbox: notices of events, which the schema's triggers write in the commit of the change
 * itself, and deliveries, the messages about them. A notice is dropped in the transaction that adds
 * its deliveries, so no delivery is lost or made twice. Kinds and rules are words of the caller;
 * the schema uses some of them.
 */
#ifndef FR_STORE_OUTBOX_H
#define FR_STORE_OUTBOX_H

#include "engine/store/store.h"

/* Whether the home's configuration has rules: without them, and without those of a run's pipeline,
 * no notice is written. */
enum fr_rc fr_store_notifies(struct fr_store *st, bool yes, struct fr_err *err);

/* A counter that changes with every write of this store: there may be new notices. */
uint64_t fr_store_changes(const struct fr_store *st);

#define FR_NOTICE_COLUMNS(C, S, R)                                                                 \
    C(R, INT, id, NULL)                                                                            \
    C(R, TEXT, kind, NULL)                                                                         \
    C(R, INT, wall, NULL)                                                                          \
    C(R, INT, run, NULL) /* number; 0: of none */                                                  \
    C(R, TEXT, name, NULL)                                                                         \
    C(R, TEXT, subject, NULL)                                                                      \
    C(R, TEXT, text, NULL)
FR_ROWS(fr_notice, FR_NOTICE_COLUMNS); /* the oldest first */

enum fr_rc fr_store_notices(struct fr_store *st, size_t limit, struct fr_arena *arena,
                            struct fr_notice_rows *out, struct fr_err *err);
/* Adds a notice without run and pipeline, unless config.yaml has no rules. Reads only kind, wall,
 * subject and text. */
enum fr_rc fr_store_notice_add(struct fr_store *st, const struct fr_notice_row *row,
                               struct fr_err *err);
enum fr_rc fr_store_notice_drop(struct fr_store *st, int64_t id, struct fr_err *err);

#define FR_DELIVERY_COLUMNS(C, S, R)                                                               \
    C(R, INT, id, "id") /* the store makes it */                                                   \
    C(R, TEXT, key, "key")                                                                         \
    C(R, TEXT, channel, "channel")                                                                 \
    C(R, TEXT, rule, "rule")                                                                       \
    C(R, TEXT, kind, "kind")                                                                       \
    C(R, INT, run, "run") /* number; 0: of none */                                                 \
    C(R, TEXT, name, "pipeline")                                                                   \
    S(R, DELIVERY_STATE, state, "state")                                                           \
    S(R, INT, made_wall, "made_wall")                                                              \
    S(R, INT, due_wall, "due_wall")                                                                \
    S(R, INT, tried_wall, "tried_wall")                                                            \
    S(R, INT, tries, "tries")                                                                      \
    S(R, TEXT, answer, "answer")                                                                   \
    C(R, TEXT, body, NULL)
FR_ROWS(fr_delivery, FR_DELIVERY_COLUMNS);

/* An existing delivery with the same key stays. Finished ones older than 30 days are deleted. */
enum fr_rc fr_store_delivery_add(struct fr_store *st, const struct fr_delivery_row *row,
                                 struct fr_err *err);
enum fr_rc fr_store_delivery_set(struct fr_store *st, const struct fr_delivery_row *row,
                                 struct fr_err *err);
/* When the first quiet delivery is due; 0: none. fr_store_deliveries_wake turns due ones into
 * waiting ones. */
enum fr_rc fr_store_deliveries_quiet(struct fr_store *st, int64_t *due_wall, struct fr_err *err);
enum fr_rc fr_store_deliveries_wake(struct fr_store *st, int64_t now_wall, struct fr_err *err);
/* The oldest waiting delivery of each channel. */
enum fr_rc fr_store_deliveries_next(struct fr_store *st, struct fr_arena *arena,
                                    struct fr_delivery_rows *out, struct fr_err *err);

struct fr_delivery_filter {
    int64_t before; /* ids below */
    int64_t run;    /* number; 0: all */
    const char *channel, *state;
    size_t limit;
};
/* The newest first. */
enum fr_rc fr_store_deliveries(struct fr_store *st, const struct fr_delivery_filter *f,
                               struct fr_arena *arena, struct fr_delivery_rows *out,
                               struct fr_err *err);
/* FR_NOTFOUND. */
enum fr_rc fr_store_delivery(struct fr_store *st, int64_t id, struct fr_arena *arena,
                             struct fr_delivery_row *out, struct fr_err *err);
enum fr_rc fr_store_deliveries_waiting(struct fr_store *st, const char *channel, int64_t *n,
                                       struct fr_err *err);
/* Deliveries of the channel that ended as dead since its newest sent one. */
enum fr_rc fr_store_deliveries_dead(struct fr_store *st, const char *channel, int64_t *n,
                                    struct fr_err *err);

/* Of the deliveries with row's rule, pipeline, kind and channel: when the newest one that was not
 * held was made (0: none), and how many were held since. */
struct fr_throttle {
    int64_t made_wall, held;
};
enum fr_rc fr_store_throttle(struct fr_store *st, const struct fr_delivery_row *row,
                             struct fr_throttle *out, struct fr_err *err);

/* The outcome of the newest run of that name with a number below no that is over; "": none. */
enum fr_rc fr_store_outcome_before(struct fr_store *st, const char *name, int64_t no,
                                   struct fr_arena *arena, const char **outcome,
                                   struct fr_err *err);

/* Switches a channel off: its waiting deliveries become dead with note as answer. note NULL: on. */
enum fr_rc fr_store_channel_off(struct fr_store *st, const char *name, const char *note,
                                struct fr_err *err);
/* Why the channel is off; NULL: it is on. */
enum fr_rc fr_store_channel_note(struct fr_store *st, const char *name, struct fr_arena *arena,
                                 const char **note, struct fr_err *err);

#endif
