/* Shipped folders and large files, of which the home keeps no copy. */
#ifndef FR_STORE_SHIPPED_H
#define FR_STORE_SHIPPED_H

#include "engine/store/store.h"

#define FR_SHIPPED_COLUMNS(C, S, R)                                                                \
    C(R, TEXT, path, NULL)    /* absolute, on control */                                           \
    C(R, TEXT, exclude, NULL) /* patterns of what was left out, a line each */                     \
    C(R, TEXT, hash, NULL)    /* of all names, modes and contents, when it was shipped first */

FR_ROWS(fr_shipped, FR_SHIPPED_COLUMNS); /* by path */

enum fr_rc fr_store_shipped_put(struct fr_store *st, struct fr_id run,
                                const struct fr_shipped_row *row, struct fr_err *err);
enum fr_rc fr_store_shipped(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                            struct fr_shipped_rows *out, struct fr_err *err);

#endif
