/* A gzip stream (RFC 1952) of bytes given in pieces. */
#ifndef FR_WEB_GZIP_H
#define FR_WEB_GZIP_H

#include "engine/base/str.h"

struct web_gzip;

struct web_gzip *web_gzip_create(void);    /* NULL: no memory */
void web_gzip_destroy(struct web_gzip *g); /* NULL is fine */
/* Packs `in` and appends the available output; end: `in` is the last piece. */
void web_gzip_add(struct web_gzip *g, struct fr_str in, bool end, struct fr_buf *out);

#endif
