/*
 * Entries of dataset_info.json, and records of the three forms turned into examples.
 */
#ifndef TR_DATASET_RECORDS_H
#define TR_DATASET_RECORDS_H

#include "engine/base/arena.h"
#include "trainer/template/template.h"

#include <jansson.h>

enum tr_data_form { TR_FORM_ALPACA, TR_FORM_SHAREGPT, TR_FORM_OPENAI };

/* One entry; column and tag names are NULL where there is no such column. Text lives in the
 * arena. */
struct tr_data_entry {
    const char *name;
    enum tr_data_form form;
    const char **files; /* paths */
    size_t nfiles;
    int64_t num_samples; /* -1: all */
    const char *prompt, *query, *response, *history, *messages, *system, *tools;
    const char *role_tag, *content_tag, *user_tag, *assistant_tag, *observation_tag, *function_tag,
        *system_tag;
};

/* The entry `name` of DIR/dataset_info.json. FR_UNSUPPORTED: a data set that has to be downloaded.
 */
enum fr_rc tr_entry_read(const char *dir, const char *name, struct fr_arena *arena,
                         struct tr_data_entry *out, struct fr_err *err);

/*
 * Converts a record to an example, whose text is borrowed from the record or lives in arena. *why
 * is NULL for a valid example, else the reason for dropping it. FR_USAGE: a column has the wrong
 * type.
 */
enum fr_rc tr_record_convert(const struct tr_data_entry *entry, const json_t *record,
                             struct fr_arena *arena, struct tr_example *out, const char **why,
                             struct fr_err *err);

/* Column i of those that at least one record must have: returns its key in dataset_info.json; *name
 * is the column's name, NULL where the entry names none. */
enum { TR_RECORD_COLUMNS = 7 };
const char *tr_record_column(const struct tr_data_entry *entry, size_t i, const char **name);

/* The text of a record to pretrain on: its first message. *why is set where there is none. */
enum fr_rc tr_record_text(const struct tr_data_entry *entry, const json_t *record,
                          struct fr_arena *arena, struct fr_str *out, const char **why,
                          struct fr_err *err);

/* Calls each for every record of a .json or .jsonl file: one list of objects, or an object a line;
 * of a .csv file (csv.h); or of a .txt file, whose lines are records {"text": …}; each of
 * them may be packed (unpack.h). Or of a .parquet or .arrow file (columns.h).
 * where is "FILE:LINE" or "FILE, record N". Stops at the first failure. */
struct tr_record_sink {
    enum fr_rc (*each)(void *arg, const json_t *record, const char *where, struct fr_err *err);
    /* Of a file with an object a line; NULL: it is parsed, for each. text lies in bytes. */
    enum fr_rc (*line)(void *arg, struct fr_str text, const char *where, struct fr_err *err);
    void *arg;
    struct fr_buf *bytes; /* the file's bytes, kept until the next file; may not be NULL */
};

/* Parses one line of a file with an object a line. For a duplicate key in a nested value the last
 * one counts. A duplicate key of the record itself is FR_USAGE, as pyarrow refuses it. */
enum fr_rc tr_record_parse(struct fr_str line, const char *where, json_t **out, struct fr_err *err);

enum fr_rc tr_records_read(const char *path, const struct tr_record_sink *sink, struct fr_err *err);

#endif
