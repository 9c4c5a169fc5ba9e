/*
 * The bytes of a file of control that is sent to a node, read ahead in a thread: the file system
 * that a user names may not answer.
 */
#ifndef FR_SHIP_SOURCE_H
#define FR_SHIP_SOURCE_H

#include "engine/base/str.h"
#include "engine/loop/loop.h"

struct fr_source;

/* more is called from the loop's turn when fr_source_bytes() has new bytes or an error. */
enum fr_rc fr_source_open(struct fr_loop *loop, const char *path, void (*more)(void *arg),
                          void *arg, struct fr_source **out, struct fr_err *err);
/* *out: all bytes read so far from offset on; borrowed until the next call. n 0: none yet. Errors
 * name the file. FR_IO: it ends before offset. FR_TIMEOUT: no byte came within FR_FILE_SOON_MS. */
enum fr_rc fr_source_bytes(struct fr_source *s, uint64_t offset, struct fr_str *out,
                           struct fr_err *err);
void fr_source_close(struct fr_source *s); /* NULL is fine */

#endif
