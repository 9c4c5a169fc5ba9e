/* The newest answers that follow from a run's file and parameters alone, as the picture of a plan:
 * another run of the same, and the next reader, get what was made before. */
#ifndef FR_VIEW_RESPONSE_CACHE_H
#define FR_VIEW_RESPONSE_CACHE_H

#include "engine/base/str.h"

#include <stdbool.h>

enum {
    RESPONSES = 8,
    RESPONSE_MOST = 2 << 20
}; /* how many; bytes of each: larger ones are not kept */

/* The tag of such an answer, quoted, by what the run's row says. */
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
    size_t next; /* the place of the next one */
};

/* Appends the answer of that view and tag to out; false: it is not kept. */
bool response_cache_get(const struct host_response_cache *f, int view, const char *etag,
                        struct fr_buf *out);
/* Keeps a copy, in the place of the oldest; without memory it keeps none. */
void response_cache_put(struct host_response_cache *f, int view, const char *etag,
                        const struct fr_buf *json);
void response_cache_finish(struct host_response_cache *f);

#endif
