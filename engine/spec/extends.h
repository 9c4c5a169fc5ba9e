/* templates: parts of tasks by name, which tasks and other templates extend. */
#ifndef FR_SPEC_EXTENDS_H
#define FR_SPEC_EXTENDS_H

#include "engine/spec/load.h"

/*
 * Puts in the place of each task of the file that has extends: what it gives. Later templates of a
 * list go over earlier ones, and the task's own keys over all: maps are merged by key, null removes
 * a key, anything else replaces. Values keep the places where they are written.
 */
void expand_templates(struct loader *l, const struct fr_yaml *root);

#endif
