/*
 * Metrics in the text format of Prometheus, version 0.0.4: families from a table, series by their
 * label values. Kept in memory alone.
 *
 * A family takes `most` values of its first label; further values count as "other", which bounds
 * the number of series.
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
    double buckets[FR_PROM_BUCKETS];    /* upper bounds, ended by 0 */
};

struct fr_prom;

struct fr_prom *fr_prom_create(const struct fr_prom_family *families,
                               size_t n); /* NULL: no memory */
void fr_prom_destroy(struct fr_prom *p);  /* NULL is fine */

/* A series: a family by its place in the table, and its label values (as many as it has labels). */
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
