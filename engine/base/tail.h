/*
 * The tail of a log that is full, in a file beside it while the log's end is not written yet. Bytes
 * after the log's head are numbered from 0. The file holds a header and then a ring of FR_TAIL_RING
 * bytes: byte number i stands at i % FR_TAIL_RING of it.
 *
 * One process writes, any number read. Bytes are written first, then the header that counts them,
 * at most FR_TAIL_MAX bytes at once. So the newest FR_TAIL_MAX bytes that the header counts are
 * whole at every moment, also when the writer is killed. Nothing is synced: after a power cut the
 * file may hold anything.
 */
#ifndef FR_BASE_TAIL_H
#define FR_BASE_TAIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FR_TAIL_MAX = 256 << 10, FR_TAIL_RING = 2 * FR_TAIL_MAX };

struct fr_tail_head {
    uint64_t head;    /* size of the log's head, which the tail follows */
    uint64_t keep;    /* bytes that the log gets at its end, at most FR_TAIL_MAX */
    uint64_t from;    /* bytes before this one were never written here */
    uint64_t end;     /* bytes written so far */
    uint64_t joined;  /* 0; once the task ended: where in the log the tail begins */
    uint64_t dropped; /* with joined: bytes that the log does not have */
    int64_t ms;       /* when the newest byte came */
};

/* Writes n bytes after h->end and the header, whose other fields the caller has set. Of more than
 * FR_TAIL_MAX bytes only the newest are written. h->end is then past them. */
bool fr_tail_put(int fd, struct fr_tail_head *h, const char *p, size_t n);

/* Sets joined, and gives the ring back to the disk. */
bool fr_tail_join(int fd, struct fr_tail_head *h, uint64_t joined, uint64_t dropped);
void fr_tail_empty(int fd); /* the log has its tail: the header alone stays */

/* The header; false: there is none, or it is no header. */
bool fr_tail_look(int fd, struct fr_tail_head *h);

/* The number of the oldest byte that can be read. */
uint64_t fr_tail_oldest(const struct fr_tail_head *h);

/* Reads up to n bytes from number *at on, which moves to the oldest one if that is newer. Returns
 * how many; 0: there are no more. *h is the header then. The file may be written meanwhile. */
size_t fr_tail_read(int fd, uint64_t *at, char *p, size_t n, struct fr_tail_head *h);

#endif
