/* The files of a checkpoint, of which a node may have only those that it needs. */
#ifndef TR_SAVE_FILES_H
#define TR_SAVE_FILES_H

#include "trainer/comm/comm.h"
#include "trainer/model/model.h"

/* Collective, before weights are read. FR_NOTFOUND on every rank names the first node that lacks
 * files its ranks need, and these files. */
enum fr_rc tr_files_check(struct tr_comm *world, const struct tr_model *m, const struct tr_st *st,
                          struct fr_err *err);

/* One tensor's part of the model's identity; unused bytes are 0. */
struct tr_file_record {
    int32_t type, ndim;
    int64_t bytes, shape[TR_ST_DIMS];
    unsigned char sample[64]; /* its first bytes, of some tensors */
};

/* Collective. records: one a tensor, in the order of tr_st_at; this rank fills those of its files.
 * A rank that lacks a file gets its records from the first rank that has the file. Records of a
 * file that no rank has stay zero. FR_USAGE: ranks have different versions of a file. */
enum fr_rc tr_files_share(struct tr_comm *world, const struct tr_st *st,
                          struct tr_file_record *records, struct fr_err *err);

#endif
