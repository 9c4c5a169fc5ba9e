/*
 * Reads a group of parts that are neighbours on disk to their destinations. Spans that the page
 * cache lacks are read past the cache, each for all of its parts; other parts are read by pieces.
 */
#ifndef TR_SHARD_GROUP_H
#define TR_SHARD_GROUP_H

#include "trainer/shard/read.h"

#include <pthread.h>

enum { GROUP_STEP = TR_ST_SPAN }; /* bytes read at once */

/* Parts in their order on disk; the same for all readers but `spare`. */
struct group {
    const struct read_part *parts;
    size_t n;
    char *slot;  /* receives the parts for the device, each at a multiple of 256 */
    char *spare; /* GROUP_STEP bytes, page-aligned */
    const struct tr_st *st;
    struct tr_st_direct *direct;
    struct read_late *late;
    pthread_mutex_t *lock; /* guards late */
};

int64_t part_at(const struct read_part *p);        /* its offset in the file, bytes */
size_t part_bytes(const struct read_part *p);      /* its size in memory */
size_t part_disk_bytes(const struct read_part *p); /* its size in the file */

/* If several parts fail, err is about the first of them on disk. */
enum fr_rc group_read(const struct group *g, struct fr_err *err);

#endif
