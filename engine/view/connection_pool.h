/*
 * Connections to the store that views read by. To open one takes longer than most views, so those
 * that are idle are kept, without the pages that they have read.
 */
#ifndef FR_VIEW_CONNECTION_POOL_H
#define FR_VIEW_CONNECTION_POOL_H

#include "engine/store/store.h"

struct host_readers; /* used by several threads */

struct host_readers *host_readers_create(void);                      /* NULL: no memory */
struct host_readers *host_readers_use(struct host_readers *readers); /* one more user */
void host_readers_leave(struct host_readers *readers); /* the last one frees it; NULL is fine */

/* An idle one, or a new one; readers NULL: a new one. */
enum fr_rc host_readers_take(struct host_readers *readers, const char *home, struct fr_store **out,
                             struct fr_err *err);
/* Whoever took it is done with it. well: what was read was there. */
void host_readers_give(struct host_readers *readers, struct fr_store *st, bool well);

#endif
