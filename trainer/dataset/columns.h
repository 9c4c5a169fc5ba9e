/*
 * Data files of columns: .parquet, .arrow (a stream or a file of Apache Arrow), and what datasets'
 * save_to_disk() writes. Debian has no library for them, so a child process reads them: Python with
 * pyarrow, which writes one JSON object a record into a pipe. The interpreter is $FLOWTRAIN_PYTHON,
 * else python3 in PATH.
 *
 * Records equal those of the datasets library. A field that a struct lacks is null; a column of
 * type Json is parsed. A value that JSON cannot hold (time, bytes, decimal) is an object {"type":
 * NAME}, which no text column accepts.
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

/* The files of a folder that save_to_disk() wrote, in order; *files is NULL for any other folder.
 * FR_USAGE: the folder holds several splits; the message names them. */
enum fr_rc tr_columns_saved(const char *dir, struct fr_arena *arena, const char ***files, size_t *n,
                            struct fr_err *err);

#endif
