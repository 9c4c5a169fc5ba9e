/* A cache of the newest responses that depend only on a run's spec and parameters, such as the
 * picture of its plan. Runs with the same spec and parameters share an entry. */
#ifndef FR_VIEW_RESPONSE_CACHE_H
#define FR_VIEW_RESPONSE_CACHE_H

#include "engine/base/str.h"

#include <stdbool.h>

enum {
    RESPONSES = 8,
    RESPONSE_MOST = 2 << 20
}; /* entries; bytes of one, larger responses are not cached */

/* The ETag of such a response, quoted: a hash of the run's row. */
enum { RESPONSE_TAG = 20 };
struct fr_run_row;
void response_cache_tag(const struct fr_run_row *row, char out[RESPONSE_TAG]);

struct host_response {
    int view;
    char etag[RESPONSE_TAG];
    struct fr_buf json; /* owns; empty: none */
};

struct host_response_cache { /* zeroed: none */
    struct host_response kept[RESPONSES];
    size_t next; /* the slot to overwrite */
};

/* Appends the cached response to out; false: there is none. */
bool response_cache_get(const struct host_response_cache *f, int view, const char *etag,
                        struct fr_buf *out);
/* Copies a response into the oldest slot; without memory it does nothing. */
void response_cache_put(struct host_response_cache *f, int view, const char *etag,
                        const struct fr_buf *json);
void response_cache_finish(struct host_response_cache *f);

#endif
