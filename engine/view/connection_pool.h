/*
 * Connections to the store that views read by. To open one takes longer than most views, so those
 * that are idle are kept, without the pages that they have read.
 */
#ifndef FR_VIEW_CONNECTION_POOL_H
#define FR_VIEW_CONNECTION_POOL_H

#include "engine/store/store.h"

struct connection_pool; /* used by several threads */

struct connection_pool *connection_pool_create(void);                         /* NULL: no memory */
struct connection_pool *connection_pool_use(struct connection_pool *readers); /* one more user */
void connection_pool_leave(
    struct connection_pool *readers); /* the last one frees it; NULL is fine */

/* An idle one, or a new one; readers NULL: a new one. */
enum fr_rc connection_pool_take(struct connection_pool *readers, const char *home,
                                struct fr_store **out, struct fr_err *err);
/* Whoever took it is done with it. well: what was read was there. */
void connection_pool_give(struct connection_pool *readers, struct fr_store *st, bool well);

#endif
