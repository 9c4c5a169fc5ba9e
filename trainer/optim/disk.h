/*
 * Masters and moments of trained weights in a file of each rank, read and written past the page
 * cache (O_DIRECT): scratch, made before training, removed at its end, never resumed from.
 *
 * NVME_PATH/flowtrain-JOB/rank-R.bin holds the flat order of grads.h in tiles, of each tile first
 * the masters, then m, then v, each from a multiple of 4096 bytes on and as large as it has to be.
 * All space is reserved when the file is made. A few threads read and write blocks of a tile. Of
 * each block a checksum is in memory, which is tested when the block is read. A block that was
 * never written is not read: it is zeros.
 *
 * A step is a pass over all tiles in ascending order: while one is updated, the next ones are read
 * and the ones before are written.
 *
 *     for (k = 0; k < tr_disk_tiles(d); k++) {
 *         tr_disk_take(d, k, &tile, err);     waits until it is read
 *         …                                   update tile.state
 *         tr_disk_give(d, k);                 begins to write it
 *     }
 *     tr_disk_settle(d, err);                 waits until all is written
 *
 * Between passes tr_disk_span gives any elements. All of it is called by one thread. A failed read
 * or write names file, offset and cause; after it all calls fail.
 *
 * The folder has a lock, which each rank of the job shares while it lives: a folder whose lock is
 * free is a dead job's, which tr_disk_clear removes.
 */
#ifndef TR_OPTIM_DISK_H
#define TR_OPTIM_DISK_H

#include "trainer/backend/backend.h"

#include <stdbool.h>
#include <stdint.h>

enum { TR_DISK_STATES = 3, TR_DISK_JOB = 17 /* 16 hexadecimal digits */ };

struct tr_disk;

struct tr_disk_opts {
    const char *path; /* of the configuration: a folder */
    int64_t tile;     /* elements at most; <= 0: as many as make sense. Rounded up to 1024 */
    int64_t block;    /* bytes of a read or write at most; 0: 1 MiB */
    int threads;      /* that read and write; 0: the fewest */
    int sets;         /* of buffers of a tile; 0: the default */
};
enum { TR_DISK_THREADS_MIN = 4, TR_DISK_THREADS_MAX = 16 };
enum { TR_DISK_SETS_MIN = 3, TR_DISK_SETS = 4, TR_DISK_SETS_MAX = 16 };

/* Numbers outside these limits are brought inside. Makes no file. */
enum fr_rc tr_disk_create(const struct tr_disk_opts *o, struct tr_disk **out, struct fr_err *err);
/* Removes the file, and the folder after the job's last rank. */
void tr_disk_destroy(struct tr_disk *d);
const char *tr_disk_path(const struct tr_disk *d);

/* Elements of a flat order, and the bytes of a state of a tile [at, at+n) of it. */
struct tr_disk_shape {
    int64_t n;
    /* NULL: of floats. self is borrowed. */
    size_t (*bytes)(const void *self, int state, int64_t at, int64_t n);
    const void *self;
};
int64_t tr_disk_tile(const struct tr_disk *d, int64_t n); /* elements of a tile */
/* Of the file; of the host, for buffers. */
int64_t tr_disk_bytes(const struct tr_disk *d, const struct tr_disk_shape *s);
size_t tr_disk_pinned(const struct tr_disk *d, const struct tr_disk_shape *s);

/* Once a node, before its ranks open files: makes the folder of the path and removes what dead jobs
 * left in it. FR_UNSUPPORTED: the file system has no O_DIRECT. */
enum fr_rc tr_disk_clear(const char *path, struct fr_err *err);

/* Makes this rank's file. FR_FULL: no room. */
struct tr_disk_file {
    const char *job; /* the same on all ranks, another one for each job */
    int rank;
    struct tr_disk_shape shape;
};
enum fr_rc tr_disk_open(struct tr_disk *d, const struct tr_disk_file *f, struct fr_err *err);

/* Takes buffers of be (pinned), which it borrows, and starts the threads. */
enum fr_rc tr_disk_start(struct tr_disk *d, struct tr_backend *be, struct fr_err *err);

/* Whether nothing was written yet: all states are zeros. */
bool tr_disk_is_new(const struct tr_disk *d);

/* Elements [at, at+n) of the flat order, by enum tr_optim_what: floats, or what has as many bytes
 * as the shape says; memory of d. */
struct tr_disk_tile {
    int64_t at, n;
    float *state[TR_DISK_STATES];
};
int64_t tr_disk_tiles(const struct tr_disk *d);
enum fr_rc tr_disk_take(struct tr_disk *d, int64_t k, struct tr_disk_tile *out, struct fr_err *err);
void tr_disk_give(struct tr_disk *d, int64_t k);
enum fr_rc tr_disk_settle(struct tr_disk *d, struct fr_err *err);

/* One state of the tile that has element `at`, until the next call: `from` elements, then n from
 * `at` on. */
struct tr_disk_span {
    int state;
    int64_t at;
    bool write;      /* some are written by the caller, and saved later */
    float *p;        /* out */
    int64_t from, n; /* out */
};
enum fr_rc tr_disk_span(struct tr_disk *d, struct tr_disk_span *s, struct fr_err *err);

#endif
