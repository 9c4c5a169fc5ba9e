/*
 * The lease of a job: how long it lasts when no engine comes and nothing runs. A place is quiet
 * when for that long no byte of an engine came, no attempt had a process, and no end of one waited
 * to be fetched. The job ends when all of its places are quiet together. They agree by files in the
 * allocation's folder:
 *
 *   quiet.G.K   place K is quiet. From then on it serves nobody before it has renewed G
 *   lease.G     "renewed" or "over", made once by link(2): whoever makes it first decides
 *
 * G counts from 0. The keeper of place 1 makes "over" once there is a quiet.G.K of each place. A
 * quiet place to which an engine connects makes "renewed"; all go on to G + 1 then, and begin anew.
 * So an engine that returns in that very moment finds either all keepers or none of them.
 */
#ifndef FR_NODE_KEEP_LEASE_H
#define FR_NODE_KEEP_LEASE_H

#include "engine/node/keep_place.h"

#include <stdbool.h>

struct keep_lease {
    const struct keep_place *place; /* borrowed */
    int64_t ms;                     /* 0: the job lasts to its limit */
    int places;                     /* of the job */
    int generation;                 /* G */
    int agreed;                     /* of place 1: so many quiet.G.K are known to be there */
    int64_t since_ms;               /* mono_ms: nothing has used the place since */
    int64_t looked_ms;
    bool quiet; /* quiet.G.K is written */
    bool over;  /* lease.G says so: the keeper ends */
};

/* FR_USAGE: ms is above zero, and Slurm does not say how many places there are. */
enum fr_rc keep_lease_init(struct keep_lease *l, const struct keep_place *p,
                           const struct fr_keep_args *a, struct fr_err *err);
/* Milliseconds until the next look; -1: none is needed. */
int keep_lease_wait(const struct keep_lease *l);
/* Looks, if it is time; heard_ms: mono_ms of the last byte of an engine. True: the place may become
 * quiet: whoever serves there is to be ended, and then keep_lease_agree called. */
bool keep_lease_look(struct keep_lease *l, int64_t heard_ms);
void keep_lease_agree(struct keep_lease *l, int64_t heard_ms);
/* An engine has connected. False: it cannot be served, now or for ever (over). */
bool keep_lease_renew(struct keep_lease *l);

#endif
