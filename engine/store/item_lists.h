/* Lists of tasks with foreach: that got known in a run. */
#ifndef FR_STORE_ITEM_LISTS_H
#define FR_STORE_ITEM_LISTS_H

#include "engine/store/store.h"

#define FR_ITEM_LIST_COLUMNS(C, S, R)                                                              \
    C(R, INT, no, NULL)    /* 1, 2, … in the order in which they were known */                   \
    C(R, TEXT, task, NULL) /* each once */                                                         \
    C(R, TEXT, list, NULL) /* JSON */

FR_ROWS(fr_item_list, FR_ITEM_LIST_COLUMNS); /* by no */

enum fr_rc fr_store_item_list_put(struct fr_store *st, struct fr_id run,
                                  const struct fr_item_list_row *row, struct fr_err *err);
enum fr_rc fr_store_item_lists(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                               struct fr_item_list_rows *out, struct fr_err *err);

/* What stands for a task whose list is awaited has another number, or (to < 0) none any more: of
 * its row and its events. It has no attempt, and no row stands at to. */
enum fr_rc fr_store_inst_move(struct fr_store *st, struct fr_id run, int64_t from, int64_t to,
                              struct fr_err *err);

#endif
