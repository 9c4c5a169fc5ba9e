/*
 * Curves: the metrics of an attempt (lines of JSON, wire/message.h) as columns, and their points
 * for drawing. Pure but for cache.h.
 *
 * A row is an object with a number `step` (else `current_steps`) and other numbers; `elapsed_time`
 * may be a text H:MM:SS (else D days, H:MM:SS). Other texts, true and false, objects and lists are
 * not looked at. NaN and the infinities, which some programs write though JSON has none, are read
 * as null, and null is a value that is not finite, of a key that was a number before.
 *
 * A file has parts: a mark of its node, or a step smaller than that before it, begins one. In a
 * part steps never get smaller. Of an instance, a later part (or attempt) replaces what earlier
 * ones have from its first step on: a resume repeats those steps.
 */
#ifndef FR_CURVE_CURVE_H
#define FR_CURVE_CURVE_H

#include "engine/base/err.h"
#include "engine/base/json.h"
#include "engine/base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    FR_CURVE_KEYS = 64,    /* of a file; further ones are left out */
    FR_CURVE_KEY_MAX = 64, /* bytes of a key; longer ones are left out */
    FR_CURVE_PARTS = 1000, /* of a file; rows of further ones are left out */
    FR_CURVE_RECENT = 50,  /* steps that speed and time left are made from */
    FR_CURVE_LINE = 64 << 10
};

/* ---- row.c: a line ---- */

enum fr_curve_line {
    FR_CURVE_BAD, /* no row: not JSON, or without a step */
    FR_CURVE_ROW,
    FR_CURVE_PART, /* marks of the node */
    FR_CURVE_FULL
};

struct fr_curve_item {
    const char *name;
    double value; /* NaN: not finite */
};

struct fr_curve_row {
    enum fr_curve_line kind;
    double step;
    struct fr_curve_item items[FR_CURVE_KEYS];
    size_t n;
    size_t left_out; /* keys beyond the limits */
    json_t *doc;     /* owns the names */
};

/* line: without its newline. Call fr_curve_row_finish() afterwards, whatever the kind. */
void fr_curve_row_read(struct fr_str line, struct fr_curve_row *row);
void fr_curve_row_finish(struct fr_curve_row *row);
double fr_curve_row_get(const struct fr_curve_row *row, const char *name, bool *there);

/* Calls fn for each whole line of rest and these bytes; rest keeps the unfinished line. */
typedef void fr_curve_line_fn(void *arg, struct fr_str line);
void fr_curve_lines(struct fr_buf *rest, const char *p, size_t n, fr_curve_line_fn *fn, void *arg);

/* ---- head.c: the state of a training ---- */

struct fr_curve_head { /* NaN: not known */
    double step, total, loss, smooth, rate, epoch, elapsed_s;
    double eval_loss, eval_accuracy; /* of the last evaluation */
    double bad_since;  /* step from which on the loss is not finite; NaN: it is, or there is none */
    double checkpoint; /* step of the newest one */
    double
        checkpoint_s; /* elapsed_s of the row that reported it; NaN: the first row had it already */
    uint64_t rows;
    /* of the newest steps, a ring */
    double seconds[FR_CURVE_RECENT], rates[FR_CURVE_RECENT]; /* of one step; tokens/s */
    size_t n_seconds, n_rates;
    double weight; /* of smooth */
};

extern const struct fr_curve_head fr_curve_no_head;

void fr_curve_head_take(struct fr_curve_head *h, const struct fr_curve_row *row);
double fr_curve_head_rate(const struct fr_curve_head *h);  /* median of the newest; NaN */
double fr_curve_head_eta_s(const struct fr_curve_head *h); /* seconds that are left; NaN */

/* ---- curve.c: a file ---- */

struct fr_curve_col { /* values in the order of rows; few keys stand in each row */
    uint32_t *row;
    double *value;
    size_t n, cap;
};

struct fr_curve_part {
    double *step; /* n of them, one a row */
    size_t n, cap;
    bool full; /* its node kept no further rows */
    struct fr_curve_col cols[FR_CURVE_KEYS];
};

struct fr_curve { /* zero it to start; owns all */
    char *names[FR_CURVE_KEYS];
    size_t n_names;
    struct fr_curve_part **parts;
    size_t n_parts, cap_parts;
    struct fr_curve_head head; /* of its newest rows */
    struct fr_buf rest;        /* a line without its end */
    uint64_t taken;            /* bytes that were fed */
    int64_t wall_ms;           /* when the file was written last, as cache.h found it; 0: unknown */
    uint64_t bad, left_out;    /* lines that are no rows; rows and keys beyond the limits */
    size_t bytes;              /* of memory */
    bool next_part, no_memory;
};

/* Appends; only new bytes are parsed. FR_NOMEM: the curve cannot be used any more. */
enum fr_rc fr_curve_feed(struct fr_curve *c, const char *p, size_t n, struct fr_err *err);
void fr_curve_finish(struct fr_curve *c);
int fr_curve_key(const struct fr_curve *c, const char *name); /* -1: it has none */

/* ---- reduce.c: points for drawing ---- */

enum fr_curve_x { FR_CURVE_STEP, FR_CURVE_TOKENS, FR_CURVE_TIME, FR_CURVE_EPOCH };

bool fr_curve_x_parse(const char *name, enum fr_curve_x *out); /* "step", "tokens" … */

/* A part that is one of several of an instance. */
struct fr_curve_span {
    const struct fr_curve *curve;
    const struct fr_curve_part *part;
    double until; /* rows from this step on are replaced; INFINITY: none is */
};

/* Sets until of spans in the order in which they were written. */
void fr_curve_replace(struct fr_curve_span *spans, size_t n);

/* Widens [*from, *to] to the span's values on that axis. Start with INFINITY, -INFINITY. */
void fr_curve_extent(const struct fr_curve_span *s, enum fr_curve_x x, double *from, double *to);

/*
 * The width of a bucket: a power of two, so that as many columns as are `width` wide show at most
 * 2 * width points. Buckets begin at its multiples: the next look, with a few more rows, has the
 * same ones.
 */
double fr_curve_bucket(double from, double to, size_t width);

struct fr_curve_point {
    double x, y, step; /* y NaN: not finite */
};

struct fr_curve_points { /* owns; zero it to start */
    struct fr_curve_point *v;
    size_t n, cap;
    bool no_memory;
};

struct fr_curve_ask {
    const char *key;
    enum fr_curve_x x;
    double from, to, bucket;
    bool lost; /* the rows that were replaced; else the others */
};

/* Appends, of each bucket, the first, the smallest, the largest and the last value, and the first
 * that is not finite, each once, in the order of rows (M4: Jugel et al., VLDB 2014). */
void fr_curve_reduce(const struct fr_curve_span *s, const struct fr_curve_ask *ask,
                     struct fr_curve_points *out);

#endif
