/*
 * Who is the host of the home: the one with the highest epoch.
 */
#ifndef FR_STORE_LEAD_H
#define FR_STORE_LEAD_H

#include "engine/store/store.h"

/* Makes this process the home's host, with a new highest epoch. The epoch is raised in the store at
 * once, so the previous host writes nothing after this; if the store cannot be written now, the
 * first commit raises it. Transactions fail with FR_DENIED once another host has a higher epoch. */
enum fr_rc fr_store_lead(struct fr_store *st, uint32_t *epoch, struct fr_err *err);
/* Whether this process still is the host; checked before writes outside the store. */
bool fr_store_leads(struct fr_store *st);
/* The lease of a host; a second connection of the process writes under a copy. */
struct fr_lead {
    uint32_t epoch;
    bool raised; /* a commit raised the store's epoch */
};
struct fr_lead fr_store_get_lead(const struct fr_store *st);
void fr_store_set_lead(struct fr_store *st, struct fr_lead lead);
/* Whether another process became the host: *err, unless NULL, then says so (FR_DENIED). false, too,
 * if the store cannot be read. */
bool fr_store_followed(struct fr_store *st, struct fr_err *err);
/* The epoch of the newest host; 0: there was none. */
enum fr_rc fr_store_epoch(struct fr_store *st, uint32_t *epoch, struct fr_err *err);

#endif
