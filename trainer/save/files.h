/* The files of a checkpoint, of which a node may have only those that it needs. */
#ifndef TR_SAVE_FILES_H
#define TR_SAVE_FILES_H

#include "trainer/comm/comm.h"
#include "trainer/model/model.h"

/* Before anything is read: FR_NOTFOUND, on every rank, names the first node that lacks files that
 * its ranks would read of, and these files. All ranks call. */
enum fr_rc tr_files_check(struct tr_comm *world, const struct tr_model *m, const struct tr_st *st,
                          struct fr_err *err);

/* What identity is made of, of one tensor; zeros behind it. */
struct tr_file_record {
    int32_t type, ndim;
    int64_t bytes, shape[TR_ST_DIMS];
    unsigned char sample[64]; /* its first bytes, of some tensors */
};

/* records: one a tensor, in the order of tr_st_at, of those that are here. Where a rank lacks
 * files, it gets theirs from the first rank that has them; those of a file that nobody has stay
 * zeros. FR_USAGE when ranks that have the same
 * file differ in it. All ranks call. */
enum fr_rc tr_files_share(struct tr_comm *world, const struct tr_st *st,
                          struct tr_file_record *records, struct fr_err *err);

#endif
