/*
 * Reads parts of tensors from a checkpoint's files to their places, sorted by file and offset, by
 * up to four threads; parts for a device go through a ring of pinned memory. Types are converted
 * and values checked on the way; the device checks its parts for finite values.
 *
 * Pages that the page cache lacked before are dropped from the cache afterwards. Bytes that several
 * ranks of a machine read stay cached for a while: ranks read in the same order, so only the first
 * rank reads from the disk.
 */
#ifndef TR_SHARD_READ_H
#define TR_SHARD_READ_H

#include "trainer/shard/shard.h"

/* Elements [at, at+n) of tensor d on disk, as t->dtype at dst. */
struct read_part {
    const struct tr_unit_tensor *t;
    const struct tr_st_tensor *d;
    enum tr_dtype disk;
    int64_t at;
    size_t n;
    char *dst;
    bool host;   /* dst is the host's memory */
    bool shared; /* other ranks of this machine read these bytes too */
};

struct read_parts {
    struct read_part *parts; /* owns */
    size_t n, cap;
    struct tr_st_direct *direct; /* owns: the files as read_all opened them */
};

/* Adds a part, cut to the size of a slot of the ring. FR_DTYPE: the types do not convert. */
enum fr_rc read_add(struct read_parts *p, const struct read_part *part, struct fr_err *err);
void read_finish(struct read_parts *p);

struct read_opts {
    struct tr_backend *be; /* borrows */
    struct tr_queue *q;    /* copies parts to the device */
    const struct tr_st *st;
    const struct tr_shard_tell *tell; /* progress; NULL: none */
    int local_size;                   /* ranks that share this machine's processors */
};

/* The newest READ_LATE pieces that several ranks read and the page cache lacked. */
enum { READ_LATE = 1024 };
struct read_late {
    struct tr_st_piece pieces[READ_LATE];
    size_t n; /* pieces so far: piece k is at k % READ_LATE */
};

/* Sorts the parts and reads them. An error is that of the first part in the order on disk. late
 * receives the pieces to drop when all ranks have read; the caller zeroes late. */
enum fr_rc read_all(struct read_parts *p, const struct read_opts *o, struct read_late *late,
                    struct fr_err *err);
/* When all ranks have read: drops the pages that the page cache lacked before. */
void read_drop(const struct read_parts *p, const struct tr_st *st, const struct read_late *late);

#endif
