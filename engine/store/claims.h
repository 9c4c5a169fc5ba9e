/*
 * Claims on blobs by runs in the making, which no row names yet. A run claims a blob before it
 * looks whether the blob exists, so that the blob is not removed with the last row that names it.
 * Claims may outlive the host's store. Each function may be called from any thread.
 */
#ifndef FR_STORE_CLAIMS_H
#define FR_STORE_CLAIMS_H

#include "engine/base/err.h"
#include "engine/base/file.h"
#include "engine/base/sys.h"

struct fr_claims;

enum fr_rc fr_claims_create(struct fr_claims **out, struct fr_err *err);
struct fr_claims *fr_claims_use(struct fr_claims *c); /* one more user of them; returns c */
void fr_claims_leave(struct fr_claims *c);            /* the last one frees it; NULL is fine */

enum fr_rc fr_claims_add(struct fr_claims *c, struct fr_id run, const char *hash,
                         struct fr_err *err);
/* Once its rows are committed, or it is given up. */
void fr_claims_end(struct fr_claims *c, struct fr_id run);
/* Removes the blob's file, unless a run claims it. Returns 0 or the errno. */
int fr_claims_unlink(struct fr_claims *c, const char *hash, const char *path);

#endif
