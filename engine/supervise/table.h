/*
 * The state of each attempt according to the journal. Only reading the journal changes a table, so
 * that all readers agree on every race.
 */
#ifndef FR_SUPERVISE_TABLE_H
#define FR_SUPERVISE_TABLE_H

#include "engine/base/map.h"
#include "engine/base/sys.h"
#include "engine/supervise/journal.h"

struct fr_attempt {
    struct fr_id id, run;
    char *instance, *spec_hash; /* owned by the table; NULL once acked */
    uint32_t generation;
    bool prepared, launched, exited, ended, tombstoned, acked;
    char boot[40];             /* of the prepare, then of the launch */
    struct fr_proc supervisor; /* launched */
    int64_t launched_ms, grace_ms;
    char *container;         /* "" on the host */
    char *cgroup;            /* launched: folder of the supervisor's cgroup; NULL: none */
    struct fr_id socket_id;  /* where its supervisor listens: HOME/s/SOCKET_ID */
    struct fr_buf end;       /* exited, ended: for fr_ended_get; empty once acked */
    int64_t end_wall_ms;     /* by the calendar: when the first end was written */
    int64_t over_ms;         /* by the calendar: when it was acked, else tombstoned */
    void *live;              /* the reader's own; NULL at first */
    struct fr_attempt *open; /* next in the table's list */
    bool listed;             /* in it */
};

/*
 * A fencing token: among the connections with one id, only that with the newest epoch may act. The
 * id is that of a control's store (the upper half of the epoch counts), of a channel, or of a run
 * (protocol 1).
 */
struct fr_fence {
    struct fr_id id;
    uint64_t epoch;  /* newest */
    char owner[40];  /* the flowrun process that has it; "": unknown */
    bool of_store;   /* of a store: kept while there are attempts */
    int64_t wall_ms; /* of its newest record, by the calendar */
};

struct fr_table {
    struct fr_attempt **v; /* owned, in the order of their first records */
    size_t n, cap;
    struct fr_map places;    /* in v, by id */
    struct fr_attempt *open; /* all that are prepared and not over, and some that are over */
    struct fr_id home;       /* zero until the journal has one */
    struct fr_fence *fences; /* owned */
    size_t n_fences, cap_fences;
    struct fr_map fence_places; /* in fences, by id */
    uint64_t at;                /* of the journal: read up to here */
    bool only;                  /* take records of one attempt alone */
    struct fr_id only_id;
    bool bad; /* no memory for some record */
};

enum { FR_FENCE_DAYS = 30 };

/* Adds the records from which t can be read again, without those that are not needed any more:
 * acknowledged attempts, and tombstones and fences that are FR_FENCE_DAYS old, unless there are
 * attempts that the fence is about. */
enum fr_rc fr_table_put(const struct fr_table *t, int64_t wall_ms, struct fr_buf *out,
                        struct fr_err *err);

/* Writes the records again and syncs them, after a sync that failed. */
enum fr_rc fr_table_rewrite(struct fr_table *t, int journal, struct fr_err *err);

/* Bytes that fr_table_put adds at least. */
size_t fr_table_least(const struct fr_table *t, int64_t wall_ms);

/* Reads the journal's new records. */
enum fr_rc fr_table_read(struct fr_table *t, int journal, struct fr_err *err);

/* NULL when the journal has no record of it. */
struct fr_attempt *fr_table_find(const struct fr_table *t, struct fr_id id);

/* Another attempt of the same run and instance that is prepared or launched and neither ended nor
 * tombstoned; NULL when there is none. */
struct fr_attempt *fr_table_rival(struct fr_table *t, const struct fr_prepare *p);

/* NULL: there is none. Valid until the next read, which alone changes it. */
struct fr_fence *fr_table_fence(const struct fr_table *t, struct fr_id id);

void fr_table_finish(struct fr_table *t);

#endif
