/*
 * Shipped files and folders of which the home keeps no copy. Their hash is stored: if the run, or a
 * repeat of it, ships other content from the same path, the user is warned. Only engine/run
 * includes this.
 */
#ifndef FR_RUN_SHIPPED_H
#define FR_RUN_SHIPPED_H

#include "engine/ship/shipment.h"
#include "engine/store/shipped.h"

struct fr_run;

struct run_shipped_once {
    struct fr_shipped_row row;
    int64_t no;     /* of the run that shipped that; 0: this one */
    bool put, told; /* its row is in the store; the difference was reported */
};

/* In the arena of the run. */
struct run_shipping {
    struct run_shipped_once *v;
    size_t n;
    bool dirty; /* some have no row yet */
};

/* As fr_shipment_path(), for the instance. */
enum fr_rc run_ship(struct fr_run *run, uint32_t inst, const char *path,
                    const struct fr_excludes *exclude, struct fr_shipment_item **out,
                    struct fr_err *err);
enum fr_rc run_shipping_write(struct fr_run *run, struct fr_err *err);
void run_shipping_written(struct fr_run *run); /* the commit is done */
/* This run, or the one that it repeats, shipped path without keeping a copy. */
bool run_shipped_before(const struct fr_run *run, const char *path);
/* Adds the rows of run no, 0: of this one. */
enum fr_rc run_shipping_add(struct fr_run *run, const struct fr_shipped_rows *rows, int64_t no,
                            struct fr_err *err);

#endif
