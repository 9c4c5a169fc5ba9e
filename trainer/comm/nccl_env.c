#include "trainer/comm/nccl_env.h"

#include "engine/base/log.h"
#include "engine/base/str.h"

#include <stdlib.h>
#include <string.h>

/* Whether `pair` gives up a link between GPUs of one node. */
static bool gives_up(const char *pair)
{
    static const char *const off[] = {"NCCL_P2P_DISABLE=", "NCCL_SHM_DISABLE="};

    for (size_t i = 0; i < sizeof(off) / sizeof(off[0]); i++)
        if (strncmp(pair, off[i], strlen(off[i])) == 0)
            return strtol(pair + strlen(off[i]), NULL, 10) != 0;
    return strcmp(pair, "NCCL_P2P_LEVEL=LOC") == 0 || strcmp(pair, "NCCL_P2P_LEVEL=0") == 0;
}

enum fr_rc tr_nccl_env(char *const *env, int local_size, bool allow, struct fr_err *err)
{
    struct fr_buf set = {0};
    enum fr_rc rc = FR_OK;

    for (; *env != NULL; env++) {
        if (strncmp(*env, "NCCL_", strlen("NCCL_")) != 0)
            continue;
        fr_buf_fmt(&set, " %s", *env);
        if (rc == FR_OK && local_size > 1 && !allow && gives_up(*env))
            rc = fr_fail(err, FR_USAGE,
                         "%s in the environment turns off NVLink or shared memory between the %d "
                         "GPUs of this node: unset it, or pass --allow_slow_links",
                         *env, local_size);
    }
    fr_log(FR_LOG_INFO, "comm", "nccl environment:%s", set.n > 0 ? set.p : " nothing set");
    fr_buf_finish(&set);
    return rc;
}
