/*
 * The log file of an attempt: its output, already masked, appended as it comes. Beside it an index
 * of marks by the node's mono_ms (base/mark.h), at most one in FR_LOG_INDEX_MS. Bytes that
 * cannot be kept (limit, full disk) are counted and never block the task.
 *
 * Limit: with FR_LOG_STOP the first max bytes are kept. With FR_LOG_DROP_MIDDLE the last
 * min(max/2, FR_LOG_TAIL) bytes of them are held in memory and appended at the end. A line
 * with their number replaces dropped bytes.
 *
 * Until then the tail can be read in a file beside the log (base/tail.h). If the supervisor is
 * killed, fr_logfile_recover appends the missing bytes from that file. The log only changes by
 * appending. If the file cannot be written, the tail is still in memory.
 */
#ifndef FR_SUPERVISE_LOGFILE_H
#define FR_SUPERVISE_LOGFILE_H

#include "engine/base/err.h"
#include "engine/base/mark.h"
#include "engine/base/str.h"
#include "engine/base/tail.h"
#include "engine/wire/wire.h"

enum { FR_LOG_INDEX_MS = 10, FR_LOG_TAIL = FR_TAIL_MAX };

struct fr_logfile {
    int fd, index;    /* index: -1 until there is output */
    const char *home; /* borrowed */
    struct fr_id attempt;
    uint64_t size;     /* bytes in the file */
    uint64_t head_max; /* UINT64_MAX: no limit */
    size_t tail_max;
    struct fr_buf tail; /* owns: a ring of tail_max bytes once it is full */
    size_t tail_at;     /* oldest byte of the ring */
    int tail_fd;        /* the file beside the log; -1: there is none */
    struct fr_tail_head tail_head;
    uint64_t dropped;  /* bytes not kept so far */
    uint64_t unsaid;   /* of them: lost to a full disk and not yet noted in the file */
    int64_t marked_ms; /* time of the newest mark */
    uint64_t marks;    /* in the index */
};

/* Makes the file and takes its lock: FR_BUSY when another supervisor of the attempt lives. */
enum fr_rc fr_logfile_open(struct fr_logfile *l, const char *home, struct fr_id attempt,
                           const struct fr_request *req, struct fr_err *err);

void fr_logfile_add(struct fr_logfile *l, const char *p, size_t n);

/* Appends the tail and the count of dropped bytes; call once, before close. */
void fr_logfile_end(struct fr_logfile *l);
void fr_logfile_close(struct fr_logfile *l); /* releases the lock */

/* Does the work of fr_logfile_end for a killed supervisor. May be repeated. *dropped: bytes of the
 * output that the log does not have. whole: false after a reboot; the tail is not used then. */
void fr_logfile_recover(const char *home, struct fr_id attempt, bool whole, uint64_t *dropped);

#endif
