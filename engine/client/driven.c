/* Whether a host drives a run of the store, and the run's state as a word. */
#include "engine/client/session.h"

#include "engine/store/home.h"
#include "engine/store/lead.h"

bool cli_is_queued(const struct fr_run_row *row)
{
    return row->state == FR_RUN_QUEUED;
}

bool cli_is_driven(struct fr_store *st, const struct fr_run_row *row)
{
    struct fr_home_who host;
    uint32_t epoch = 0;

    return row->host != 0 && fr_store_epoch(st, &epoch, NULL) == FR_OK &&
           row->host == (int64_t)epoch && fr_home_leader(fr_store_home(st), &host, NULL) == FR_OK;
}

const char *cli_run_word(struct fr_store *st, const struct fr_run_row *row)
{
    return row->state == FR_RUN_OVER || cli_is_queued(row) || cli_is_driven(st, row)
               ? fr_run_word(row->state, row->outcome)
               : "left";
}
