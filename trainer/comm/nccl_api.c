#include "trainer/comm/nccl_api.h"

#include "engine/base/log.h"

#include <dlfcn.h>
#include <string.h>

enum fr_rc tr_nccl_open(const char *path, struct tr_nccl_api *api, struct fr_err *err)
{
    const struct {
        const char *name;
        void *slot; /* a pointer to a function */
    } calls[] = {
        {"ncclGetVersion", &api->get_version},
        {"ncclGetUniqueId", &api->get_unique_id},
        {"ncclCommInitRankConfig", &api->comm_init},
        {"ncclCommFinalize", &api->comm_finalize},
        {"ncclCommDestroy", &api->comm_destroy},
        {"ncclCommAbort", &api->comm_abort},
        {"ncclCommGetAsyncError", &api->get_async_error},
        {"ncclGetErrorString", &api->error_string},
        {"ncclGroupStart", &api->group_start},
        {"ncclGroupEnd", &api->group_end},
        {"ncclSend", &api->send},
        {"ncclRecv", &api->recv},
        {"ncclAllGather", &api->all_gather},
        {"ncclBroadcast", &api->broadcast},
    };
    void *lib = dlopen(path != NULL ? path : "libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    int version = 0;

    if (lib == NULL)
        return fr_fail(err, FR_UNSUPPORTED,
                       "ranks on GPUs need NCCL: %s: install version 2.14 or later, or name its "
                       "folder in LD_LIBRARY_PATH, or pass --transport host",
                       dlerror());
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        void *f = dlsym(lib, calls[i].name);

        if (f == NULL)
            return fr_fail(
                err, FR_UNSUPPORTED,
                "NCCL has no %s: install version 2.14 or later, or pass --transport host",
                calls[i].name);
        memcpy(calls[i].slot, &f, sizeof(f));
    }
    if (api->get_version(&version) != TR_NCCL_OK || version < TR_NCCL_VERSION)
        return fr_fail(err, FR_UNSUPPORTED,
                       "NCCL %d: install version 2.14 or later, or pass --transport host", version);
    fr_log(FR_LOG_INFO, "comm", "nccl version=%d.%d.%d", version / 10000, version / 100 % 100,
           version % 100);
    return FR_OK;
}
