/* Blobs that runs need which are being made. */
#include "engine/store/claims.h"

#include "engine/base/arena.h"
#include "engine/base/sys.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

struct claim {
    struct fr_id run;
    char hash[FR_SHA256_TEXT];
};

struct fr_claims {
    pthread_mutex_t lock;
    size_t users;
    struct claim *v; /* owns */
    size_t n, cap;
};

enum fr_rc fr_claims_create(struct fr_claims **out, struct fr_err *err)
{
    struct fr_claims *c = fr_sys.alloc(sizeof(*c));

    *out = c;
    if (c == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the store");
    *c = (struct fr_claims){.users = 1};
    pthread_mutex_init(&c->lock, NULL);
    return FR_OK;
}

struct fr_claims *fr_claims_use(struct fr_claims *c)
{
    pthread_mutex_lock(&c->lock);
    c->users++;
    pthread_mutex_unlock(&c->lock);
    return c;
}

void fr_claims_leave(struct fr_claims *c)
{
    bool last;

    if (c == NULL)
        return;
    pthread_mutex_lock(&c->lock);
    last = --c->users == 0;
    pthread_mutex_unlock(&c->lock);
    if (!last)
        return;
    pthread_mutex_destroy(&c->lock);
    fr_sys.free(c->v);
    fr_sys.free(c);
}

enum fr_rc fr_claims_add(struct fr_claims *c, struct fr_id run, const char *hash,
                         struct fr_err *err)
{
    struct claim *v;

    pthread_mutex_lock(&c->lock);
    v = fr_grow(c->v, c->n + 1, &c->cap, sizeof(*v));
    if (v != NULL) {
        c->v = v;
        v[c->n].run = run;
        memcpy(v[c->n++].hash, hash, FR_SHA256_TEXT);
    }
    pthread_mutex_unlock(&c->lock);
    return v != NULL ? FR_OK : fr_fail(err, FR_NOMEM, "no memory for a run's files");
}

void fr_claims_end(struct fr_claims *c, struct fr_id run)
{
    size_t n = 0;

    pthread_mutex_lock(&c->lock);
    for (size_t i = 0; i < c->n; i++)
        if (!fr_id_eq(c->v[i].run, run))
            c->v[n++] = c->v[i];
    c->n = n;
    pthread_mutex_unlock(&c->lock);
}

int fr_claims_unlink(struct fr_claims *c, const char *hash, const char *path)
{
    bool claimed = false;
    int e = 0;

    pthread_mutex_lock(&c->lock);
    for (size_t i = 0; !claimed && i < c->n; i++)
        claimed = strcmp(c->v[i].hash, hash) == 0;
    if (!claimed && fr_sys.unlink(path) != 0)
        e = errno;
    pthread_mutex_unlock(&c->lock);
    return e;
}
