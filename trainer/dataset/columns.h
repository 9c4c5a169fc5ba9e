/*
 * Data files of columns: .parquet, .arrow (a stream or a file of Apache Arrow), and what datasets'
 * save_to_disk() writes. Debian packages no library that reads them, so a Python with pyarrow does,
 * as a child process that writes one JSON object a record into a pipe. It is $FLOWTRAIN_PYTHON,
 * else python3 of PATH.
 *
 * Records are those that datasets gives: fields that a struct lacks are null, columns of type Json
 * are what their text says, and what JSON cannot hold (times, bytes, decimals) is an object
 * {"type": NAME}, which no column of text can be.
 */
#ifndef TR_DATASET_COLUMNS_H
#define TR_DATASET_COLUMNS_H

#include "engine/base/arena.h"
#include "engine/base/err.h"
#include "engine/base/str.h"

#include <stdbool.h>

bool tr_is_columns(struct fr_str name);

/* The records of path, an object a line, at most max bytes. FR_UNSUPPORTED: no Python, or one
 * without pyarrow; the message says what to do. FR_USAGE: pyarrow cannot read the file. */
enum fr_rc tr_columns_read(const char *path, size_t max, struct fr_buf *out, struct fr_err *err);

/* The files of a folder that save_to_disk() wrote, in their order; *files is NULL where it is none.
 * FR_USAGE: it is one of several splits, which are named. */
enum fr_rc tr_columns_saved(const char *dir, struct fr_arena *arena, const char ***files, size_t *n,
                            struct fr_err *err);

#endif
