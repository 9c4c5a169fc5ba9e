/* Whether a host drives a run of the store, and the run's state as a word. */
#include "engine/client/session.h"

#include "engine/store/home.h"
#include "engine/store/lead.h"

#include <string.h>

bool cli_is_queued(const struct fr_run_row *row)
{
    return strcmp(row->state, fr_run_state_name(FR_RUN_QUEUED)) == 0;
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
    if (strcmp(row->state, "over") == 0)
        return row->outcome;
    if (cli_is_queued(row))
        return row->state;
    return cli_is_driven(st, row) ? row->state : "left";
}
