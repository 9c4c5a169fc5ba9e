/*
 * The reference backend: plain loops, sums in double, any of f64, f32, bf16, f16 storage and FP8
 * weights. Other backends are tested against it, and with F64 views it carries finite differences
 * of whole blocks. Slow on purpose; nothing outside tests uses it.
 */
#ifndef TESTS_REF_REF_H
#define TESTS_REF_REF_H

#include "trainer/backend/backend.h"

enum fr_rc tr_ref_create(struct tr_backend **out, struct fr_err *err);

/* Element (row, col) of a view, col counted through the dimensions behind the first. */
double ref_at(const struct tr_view *v, int64_t row, int64_t col);
void ref_put(const struct tr_view *v, int64_t row, int64_t col, double x);
void ref_add(const struct tr_view *v, int64_t row, int64_t col, double x);
int64_t ref_int(const struct tr_view *v, int64_t row, int64_t col);
int64_t ref_width(const struct tr_view *v); /* product of the dimensions behind the first */

/* x as it is after being stored in t. */
double ref_round(enum tr_dtype t, double x);

double ref_weight(const struct tr_weight *w, int64_t row, int64_t col);

/* First row and end of a range of rows. */
struct ref_range {
    int64_t begin, end;
};
struct ref_range ref_rows(const struct tr_rows *r, int64_t all);

#define REF_OP(name, args, fp8)                                                                    \
    enum fr_rc ref_##name(void *self, struct tr_queue *q, const struct args *a, struct fr_err *err);
TR_OPS(REF_OP)
#undef REF_OP

#endif
