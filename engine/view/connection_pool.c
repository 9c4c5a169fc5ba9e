#include "engine/view/connection_pool.h"

#include "engine/base/sys.h"

#include <pthread.h>
#include <stdatomic.h>

enum { IDLE_MOST = 3 }; /* as many read at once (answer/view_job.c) */

struct connection_pool {
    pthread_mutex_t lock;
    atomic_size_t users;
    struct fr_store *idle[IDLE_MOST]; /* owns; of one home */
    size_t n;
};

struct connection_pool *connection_pool_create(void)
{
    struct connection_pool *r = fr_sys.alloc(sizeof(*r));

    if (r == NULL)
        return NULL;
    *r = (struct connection_pool){.users = 1};
    if (pthread_mutex_init(&r->lock, NULL) == 0)
        return r;
    fr_sys.free(r);
    return NULL;
}

struct connection_pool *connection_pool_use(struct connection_pool *r)
{
    if (r != NULL)
        atomic_fetch_add(&r->users, 1);
    return r;
}

void connection_pool_leave(struct connection_pool *r)
{
    if (r == NULL || atomic_fetch_sub(&r->users, 1) > 1)
        return;
    for (size_t i = 0; i < r->n; i++)
        fr_store_close(r->idle[i]);
    pthread_mutex_destroy(&r->lock);
    fr_sys.free(r);
}

enum fr_rc connection_pool_take(struct connection_pool *r, const char *home, struct fr_store **out,
                                struct fr_err *err)
{
    *out = NULL;
    if (r != NULL) {
        pthread_mutex_lock(&r->lock);
        if (r->n > 0)
            *out = r->idle[--r->n];
        pthread_mutex_unlock(&r->lock);
    }
    return *out != NULL ? FR_OK : fr_store_open_read(home, out, err);
}

void connection_pool_give(struct connection_pool *r, struct fr_store *st, bool well)
{
    if (st == NULL)
        return;
    if (well && r != NULL) {
        fr_store_rest(st);
        pthread_mutex_lock(&r->lock);
        if (r->n < IDLE_MOST) {
            r->idle[r->n++] = st;
            st = NULL;
        }
        pthread_mutex_unlock(&r->lock);
    }
    fr_store_close(st);
}
