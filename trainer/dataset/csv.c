#include "trainer/dataset/csv.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { MAX_COLUMNS = 4096 };

struct reader {
    const char *path, *p, *end;
    int64_t line; /* of p */
    struct fr_buf field;
    bool last;       /* the field was the last of its row */
    json_t *columns; /* owns: the header, a list */
};

static bool is_null(const struct fr_buf *field)
{
    static const char *const words[] = {
        "",     "#N/A",   "#N/A N/A", "#NA",     "-1.#IND", "-1.#QNAN", "-NaN",
        "-nan", "1.#IND", "NULL",     "1.#QNAN", "<NA>",    "N/A",      "NA",
        "NaN",  "None",   "n/a",      "nan",     "null",
    };

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (field->n == strlen(words[i]) && memcmp(field->p, words[i], field->n) == 0)
            return true;
    return false;
}

/* After the opening quote, up to after the closing one. */
static enum fr_rc read_quoted(struct reader *r, struct fr_err *err)
{
    int64_t line = r->line;

    for (; r->p < r->end; r->p++) {
        if (*r->p == '"' && (++r->p == r->end || *r->p != '"'))
            return FR_OK;
        r->line += *r->p == '\n';
        fr_buf_add(&r->field, r->p, 1);
    }
    return fr_fail(err, FR_USAGE, "%s:%lld: a quote is not closed", r->path, (long long)line);
}

/* The next field, and what ends it: a comma, a line break or the end. */
static enum fr_rc read_field(struct reader *r, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    r->field.n = 0;
    fr_buf_text(&r->field, "");
    if (r->p < r->end && *r->p == '"') {
        r->p++;
        rc = read_quoted(r, err);
    }
    while (rc == FR_OK && r->p < r->end && *r->p != ',' && *r->p != '\n' && *r->p != '\r')
        fr_buf_add(&r->field, r->p++, 1);
    r->last = r->p == r->end || *r->p != ',';
    if (r->p < r->end && *r->p == '\r' && r->p + 1 < r->end && r->p[1] == '\n')
        r->p++;
    if (r->p < r->end) {
        r->line += r->last;
        r->p++;
    }
    return rc == FR_OK && r->field.bad
               ? fr_fail(err, FR_NOMEM, "%s: no memory for a field", r->path)
               : rc;
}

static void skip_blank(struct reader *r)
{
    for (; r->p < r->end && (*r->p == '\n' || *r->p == '\r'); r->p++)
        r->line += *r->p == '\n';
}

static enum fr_rc no_text(const struct reader *r, int64_t line, struct fr_err *err)
{
    return fr_fail(err, FR_USAGE, "%s:%lld: a field is not UTF-8", r->path, (long long)line);
}

static enum fr_rc read_header(struct reader *r, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    skip_blank(r);
    do {
        if ((rc = read_field(r, err)) != FR_OK)
            return rc;
        if (json_array_size(r->columns) == MAX_COLUMNS)
            return fr_fail(err, FR_USAGE, "%s: more than %d columns", r->path, MAX_COLUMNS);
        if (json_array_append_new(r->columns, json_stringn(r->field.p, r->field.n)) != 0)
            return no_text(r, 1, err);
    } while (!r->last);
    return FR_OK;
}

static enum fr_rc read_row(struct reader *r, json_t *record, int64_t line, struct fr_err *err)
{
    size_t n = json_array_size(r->columns), i = 0;
    enum fr_rc rc = FR_OK;

    for (r->last = false; !r->last && rc == FR_OK; i++) {
        if ((rc = read_field(r, err)) != FR_OK)
            return rc;
        if (i >= n)
            return fr_fail(err, FR_USAGE, "%s:%lld: more fields than the header's %zu", r->path,
                           (long long)line, n);
        json_t *v = is_null(&r->field) ? json_null() : json_stringn(r->field.p, r->field.n);
        if (json_object_set_new(record, json_string_value(json_array_get(r->columns, i)), v) != 0)
            rc = no_text(r, line, err);
    }
    for (; rc == FR_OK && i < n; i++)
        (void)json_object_set_new(record, json_string_value(json_array_get(r->columns, i)),
                                  json_null());
    return rc;
}

enum fr_rc tr_csv_read(const char *path, struct fr_str text, const struct tr_record_sink *sink,
                       struct fr_err *err)
{
    struct reader r = {
        .path = path, .p = text.p, .end = text.p + text.n, .line = 1, .columns = json_array()};
    char where[PATH_MAX + 32];
    enum fr_rc rc = read_header(&r, err);

    for (skip_blank(&r); rc == FR_OK && r.p < r.end; skip_blank(&r)) {
        json_t *record = json_object();
        (void)snprintf(where, sizeof(where), "%s:%lld", path, (long long)r.line);
        if ((rc = read_row(&r, record, r.line, err)) == FR_OK)
            rc = sink->each(sink->arg, record, where, err);
        json_decref(record);
    }
    json_decref(r.columns);
    fr_buf_finish(&r.field);
    return rc;
}
