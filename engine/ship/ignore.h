/*
 * Patterns of files that are not shipped, as in gitignore(5), "PATTERN FORMAT": one list for a
 * whole folder. The last matching pattern decides. Files inside an excluded folder stay excluded.
 */
#ifndef FR_SHIP_IGNORE_H
#define FR_SHIP_IGNORE_H

#include "engine/base/arena.h"
#include "engine/base/str.h"

/* A folder's own patterns; they come before those of the pipeline. */
#define FR_IGNORE_FILE ".flowrunignore"

struct fr_ignore_rule {
    const char *pattern; /* without '!', the slash in front and the one at the end */
    bool back;           /* "!": a matching file is shipped after all */
    bool folders;        /* ends with a slash: of folders alone */
    bool anchored;       /* has a slash before its end: of the whole path; else of any name */
};
struct fr_ignore {
    struct fr_ignore_rule *v;
    size_t n;
};

/* Adds the pattern of one line; a comment or an empty line adds none. False without memory. */
bool fr_ignore_add(struct fr_ignore *ig, struct fr_str line, struct fr_arena *arena);
/* Adds the lines of a text. */
bool fr_ignore_lines(struct fr_ignore *ig, struct fr_str text, struct fr_arena *arena);

/* Whether path, relative to the folder, is excluded. */
bool fr_ignored(const struct fr_ignore *ig, const char *path, bool folder);

#endif
