/* The backfills of a host that stays; see backfill.h. For the files of the host alone. */
#ifndef FR_HOST_BACKFILLING_H
#define FR_HOST_BACKFILLING_H

#include "engine/host/backfill.h"
#include "engine/host/internal.h"

void backfill_changed(struct fr_host *host); /* one may make a run now */
/* Makes the runs that are due. */
enum fr_rc backfill_turn(struct fr_host *host, struct fr_err *err);

struct host_backfill { /* a run that is being made */
    int64_t id, at_ms;
    int64_t cursor_ms, kept; /* the row's cursor before it, and what it leaves as it is */
};
/* Inside the transaction that adds the run, before and behind its rows. *enters false: it is not
 * wanted any more. */
enum fr_rc backfill_enter(struct fr_host *host, const struct host_backfill *b, bool *enters,
                          struct fr_err *err);
enum fr_rc backfill_put(struct fr_host *host, const struct host_backfill *b, int64_t run,
                        struct fr_err *err);
/* It is made, or why and issues say why not. */
void backfill_made(struct fr_host *host, const struct host_backfill *b,
                   const struct fr_issues *issues, const struct fr_err *why);

/* jobs.c */
void jobs_of_backfill(struct host_job *job, const struct host_backfill *b);
bool jobs_backfilling(const struct fr_host *host, int64_t id);

#endif
