/*
 * Who is the host of the home: the one with the highest epoch.
 */
#ifndef FR_STORE_LEAD_H
#define FR_STORE_LEAD_H

#include "engine/store/store.h"

/* This process is the home's host from now on, with an epoch above all before. It raises the home's
 * at once, so that the host before writes nothing behind what is read from now on; where nothing
 * can be written, its first commit does that. Its transactions fail (FR_DENIED) once another host
 * has raised it again. */
enum fr_rc fr_store_lead(struct fr_store *st, uint32_t *epoch, struct fr_err *err);
/* Whether it still is: for what is written beside the store. */
bool fr_store_leads(struct fr_store *st);
/* How far it is that; another connection of its process writes as it does, with the same lead. */
struct fr_lead {
    uint32_t epoch;
    bool raised; /* a commit of it is there */
};
struct fr_lead fr_store_get_lead(const struct fr_store *st);
void fr_store_set_lead(struct fr_store *st, struct fr_lead lead);
/* Whether another one is, of that epoch; false, too, where the store cannot be read now. */
bool fr_store_followed(struct fr_store *st, uint32_t *epoch);
/* The epoch of the newest host; 0: there was none. */
enum fr_rc fr_store_epoch(struct fr_store *st, uint32_t *epoch, struct fr_err *err);

#endif
