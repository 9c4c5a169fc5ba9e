/*
 * The file that a task writes its outputs to ($FLOWRUN_OUTPUT): lines "K=V", and blocks
 *
 *   K<<END
 *   any lines
 *   END
 *
 * Blank lines are skipped; a later value of a name wins. Names: a letter or _, then letters,
 * digits, _ and -. Values are UTF-8 without NUL, at most FR_OUTPUT_VALUE_MAX bytes, FR_OUTPUTS_MAX
 * in all.
 */
#ifndef FR_SUPERVISE_OUTPUTS_H
#define FR_SUPERVISE_OUTPUTS_H

#include "engine/base/arena.h"
#include "engine/base/err.h"
#include "engine/wire/request.h"

/* Parses text; *out gets "K=V" in arena. declared: names allowed. FR_USAGE names line and reason
 * and quotes the mistake; the outputs before it are in *out. If the task declares none, an output
 * is FR_USAGE, and err shows the line that declares it. */
enum fr_rc fr_outputs_parse(struct fr_str text, const struct fr_strs *declared,
                            struct fr_arena *arena, struct fr_strs *out, struct fr_err *err);

/* Adds the file to text; one that is not there is empty, a symlink is refused. */
enum fr_rc fr_outputs_read(const char *path, struct fr_buf *text, struct fr_err *err);

#endif
