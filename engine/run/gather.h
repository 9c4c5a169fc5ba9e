/* Private to engine/run: files that gather-adapters takes from another node. */
#ifndef FR_RUN_GATHER_H
#define FR_RUN_GATHER_H

#include "engine/base/arena.h"
#include "engine/base/err.h"
#include "engine/ship/ship.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct fr_run;
struct run_attempt;

struct run_gather {         /* files that a task takes from another node; n 0: none */
    struct fr_arena *arena; /* for all below */
    uint32_t source;
    const char *from;           /* folder there */
    const char **names;         /* below it */
    struct fr_ship_file *files; /* once here: in the spool */
    size_t n, have;
    bool by_default;     /* names are those of an adapter, which the task did not name */
    struct fr_err lacks; /* one of them is not there: a whole model is looked for; else FR_OK */
    size_t looked;       /* names of a model that were looked for */
    uint64_t max_bytes;  /* still allowed, so that a node cannot fill this machine's disk */
    char *spool;
};
/* If the task of inst takes files: fills g (n > 0) and removes those keys from with. */
enum fr_rc run_gather_plan(struct fr_run *run, const struct run_attempt *at, json_t *with,
                           struct run_gather *g, struct fr_err *err);
void run_gather_remove(struct fr_run *run, const struct run_gather *g); /* its files in the spool */
const char *run_gather_next(const struct run_gather *g); /* the file to ask for; NULL: none */
/* After a get of it that came, or failed with err. True: ask for the next one. False: it came, or
 * err says why the start fails, with what helps where a model is in place of an adapter. */
bool run_gather_looks(const struct fr_run *run, struct run_gather *g, bool came,
                      struct fr_err *err);

#endif
