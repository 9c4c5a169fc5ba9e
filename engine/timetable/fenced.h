/*
 * Which files of this machine a request may name; the roles in docs/page.md say it for users. The
 * owner and a token of role admin may name any. Whoever has less names files in the folders that
 * the host serves, and what a pipeline names by default (fr_fence). Nothing else decides that.
 */
#ifndef FR_TIMETABLE_FENCED_H
#define FR_TIMETABLE_FENCED_H

#include "engine/api/api.h"
#include "engine/base/arena.h"
#include "engine/spec/fence.h"

struct fr_host;

/* Whether requests of that caller have a fence. NULL: the owner. */
bool fenced_is(const struct fr_api_caller *who);
/* The fence of this host, in arena, of no parameters yet. NULL: no memory. */
struct fr_fence *fenced_make(const struct fr_host *host, struct fr_arena *arena);

#endif
