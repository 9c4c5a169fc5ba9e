/*
 * Read connections to the store. Opening one takes longer than most views, so idle connections are
 * kept, without their page caches.
 */
#ifndef FR_VIEW_CONNECTION_POOL_H
#define FR_VIEW_CONNECTION_POOL_H

#include "engine/store/store.h"

struct connection_pool; /* thread-safe, counted references */

struct connection_pool *connection_pool_create(void);                      /* NULL: no memory */
struct connection_pool *connection_pool_use(struct connection_pool *pool); /* adds a reference */
void connection_pool_leave(
    struct connection_pool *pool); /* drops one; the last frees; NULL is fine */

/* An idle connection, or a new one; pool NULL: a new one. */
enum fr_rc connection_pool_take(struct connection_pool *pool, const char *home,
                                struct fr_store **out, struct fr_err *err);
/* Returns a connection; well: no read failed, so it may be reused. */
void connection_pool_give(struct connection_pool *pool, struct fr_store *st, bool well);

#endif
