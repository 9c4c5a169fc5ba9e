/*
 * Which files of this machine a request may name (docs/page.md has the roles). The owner and role
 * admin may name any file. Lower roles may name files in the served folders and the defaults of the
 * pipeline (fr_fence).
 */
#ifndef FR_TIMETABLE_FENCED_H
#define FR_TIMETABLE_FENCED_H

#include "engine/api/api.h"
#include "engine/base/arena.h"
#include "engine/spec/fence.h"

struct fr_host;

/* Whether the caller's requests are fenced. NULL: the owner, who is not. */
bool fenced_is(const struct fr_api_caller *who);
/* A fence with the served folders, in arena; n_params is 0. NULL: no memory. */
struct fr_fence *fenced_make(const struct fr_host *host, struct fr_arena *arena);

#endif
