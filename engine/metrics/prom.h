/*
 * Metrics in the text format of Prometheus, version 0.0.4: families from a table, series by their
 * label values. Kept in memory alone.
 *
 * A family takes `most` values of its first label; further values count as "other", which bounds
 * the number of series. Not thread-safe. Without memory for a new series a value is dropped.
 */
#ifndef FR_METRICS_PROM_H
#define FR_METRICS_PROM_H

#include "engine/base/str.h"

enum fr_prom_kind { FR_PROM_COUNTER, FR_PROM_GAUGE, FR_PROM_HISTOGRAM };
enum { FR_PROM_LABELS = 3, FR_PROM_BUCKETS = 12 };

struct fr_prom_family {
    const char *name, *help;
    enum fr_prom_kind kind;
    const char *labels[FR_PROM_LABELS]; /* NULL: there are no more */
    size_t most;                        /* values of labels[0]; 0: any */
    double buckets[FR_PROM_BUCKETS];    /* upper bounds, ascending, ended by 0; +Inf is added */
};

struct fr_prom;

/* Borrows the families and their texts. NULL: no memory. */
struct fr_prom *fr_prom_create(const struct fr_prom_family *families, size_t n);
void fr_prom_destroy(struct fr_prom *p); /* NULL is fine */

/* A series: a family by its index in the table, and a value for each of its labels (copied). */
struct fr_prom_at {
    size_t family;
    const char *values[FR_PROM_LABELS];
};

void fr_prom_add(struct fr_prom *p, struct fr_prom_at at, double v);     /* counter, gauge */
void fr_prom_set(struct fr_prom *p, struct fr_prom_at at, double v);     /* gauge */
void fr_prom_observe(struct fr_prom *p, struct fr_prom_at at, double v); /* histogram */
void fr_prom_clear(struct fr_prom *p, size_t family);                    /* drops all series */

/* Appends all families that have series, in the table's order. */
void fr_prom_text(const struct fr_prom *p, struct fr_buf *out);

#endif
