/*
 * The metrics of an attempt: a copy of the JSON lines that its command appends to a file. The
 * supervisor makes the copy while the command runs, so that a later attempt, a program that starts
 * its file anew, or a removed folder takes nothing away. The copy only grows, by whole lines.
 *
 * Lines that the file has when the command starts belong to earlier attempts and are not copied. A
 * file of another inode, or one that has become shorter or was written anew, begins a new part: the
 * line FR_METRICS_PART stands before it, unless the copy is empty. Secrets are masked as in the
 * log.
 *
 * Limits: a line of more than FR_METRICS_LINE bytes is left out. Behind FR_METRICS_ROWS lines of a
 * part, or FR_METRICS_BYTES in all, the line FR_METRICS_FULL stands and no more is copied (of that
 * part, or at all). Where the disk is full, the copy goes on when there is space again.
 *
 * If the supervisor is killed, the lines of the last FR_METRICS_MS are missing.
 */
#ifndef FR_SUPERVISE_METRICS_H
#define FR_SUPERVISE_METRICS_H

#include "engine/base/err.h"
#include "engine/base/str.h"
#include "engine/wire/message.h"

#include <stdint.h>

enum {
    FR_METRICS_MS = 500, /* between two looks at the file */
    FR_METRICS_LINE = 64 << 10,
    FR_METRICS_BEHIND = 32 /* bytes before the read position, kept to detect a new text */
};

struct fr_metrics {
    const char *path;              /* of the file, borrowed; NULL: there is none to follow */
    const char *home;              /* of the node, borrowed */
    const struct fr_strs *secrets; /* borrowed */
    struct fr_id attempt;
    int from;      /* the file; it stays open, so that no other file gets its inode. -1: none yet */
    uint64_t at;   /* bytes of it that were read */
    uint64_t rows; /* of this part */
    bool skip;     /* until the end of a line that is too long */
    char behind[FR_METRICS_BEHIND];
    size_t n_behind;
    int fd;        /* the copy; -1: there is none yet */
    uint64_t size; /* bytes of it */
    bool part;     /* a new part begins with the next line */
    bool part_full, full;
    bool stuck; /* the newest line could not be written yet */
};

/* The command is about to start. The path is absolute. */
void fr_metrics_begin(struct fr_metrics *m, const char *path, const struct fr_strs *secrets);

/* Copies new lines, at most 1 MiB. True: there may be more at once. */
bool fr_metrics_look(struct fr_metrics *m);

/* Called after the command's end: copies the rest, also a last line without its end. */
void fr_metrics_end(struct fr_metrics *m);
void fr_metrics_close(struct fr_metrics *m);

#endif
