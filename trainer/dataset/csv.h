/*
 * CSV files as records: the first row names the columns, fields are text or null.
 * Source: RFC 4180; which fields are null: the documentation of pandas.read_csv.
 */
#ifndef TR_DATASET_CSV_H
#define TR_DATASET_CSV_H

#include "trainer/dataset/records.h"

/* As tr_records_read, for the bytes text of the file path. A quoted field may hold commas, line
 * breaks and doubled quotes. Blank lines are skipped; fields that a row lacks are null. */
enum fr_rc tr_csv_read(const char *path, struct fr_str text, const struct tr_record_sink *sink,
                       struct fr_err *err);

#endif
