#include "trainer/backend/device.h"

#include "engine/base/log.h"
#include "trainer/backend/health.h"
#include "trainer/backend/module.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One module for each major version of CUDA, the newest first. */
static const char *const module_names[] = {"flowtrain_cuda13.so", "flowtrain_cuda12.so"};
enum { MODULES = sizeof(module_names) / sizeof(*module_names), NAME_MAX_BYTES = 32 };

/* Opens a module in the program's folder or in the library folder. NULL with an empty err: not
 * found. */
static void *open_module(const char *name, struct fr_err *err)
{
    char path[PATH_MAX + NAME_MAX_BYTES], why[256] = "";
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX);
    void *module = NULL;

    while (n > 0 && path[n - 1] != '/')
        n--;
    for (int i = 0; i < 2 && module == NULL; i++) {
        if (i == 1)
            snprintf(path, sizeof(path), "%s/%s", FLOWTRAIN_LIBDIR, name);
        else if (n > 0)
            snprintf(path + n, sizeof(path) - (size_t)n, "%s", name);
        if ((i == 1 || n > 0) && access(path, F_OK) == 0 &&
            (module = dlopen(path, RTLD_NOW | RTLD_LOCAL)) == NULL)
            snprintf(why, sizeof(why), "%s", dlerror());
    }
    if (module == NULL && why[0] != '\0')
        fr_fail(err, FR_UNSUPPORTED, "%s: %s: install what it names, or pass --device cpu", name,
                why);
    return module;
}

/* Numbers devices as nvidia-smi does, unless the user has set another order. */
static void order_devices(void)
{
    const char *order = getenv("CUDA_DEVICE_ORDER");

    if (order == NULL)
        setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
    else if (strcmp(order, "PCI_BUS_ID") != 0)
        fr_log(FR_LOG_WARN, "gpu",
               "CUDA_DEVICE_ORDER=%s: devices are not numbered as nvidia-smi does; unset it",
               order);
}

/* Checks the health of the device; pins this process near the device. */
static enum fr_rc settle(struct tr_backend *be, struct fr_err *err)
{
    struct tr_device_id id = {0};
    enum fr_rc rc;

    if (be->ops->identity == NULL)
        return FR_OK;
    be->ops->identity(be->self, &id);
    if ((rc = tr_health_run(&id, err)) == FR_OK)
        tr_numa_pin(&id);
    return rc;
}

/* Opens the device by one module. The module stays open: the CUDA runtime cannot be unloaded. */
static enum fr_rc open_with(const char *name, int ordinal, bool share, struct tr_backend **out,
                            struct fr_err *err)
{
    void *module = open_module(name, err);
    tr_cuda_open_fn *open_device;

    if (module == NULL)
        return err->msg[0] == '\0' ? FR_NOTFOUND : err->rc;
    memcpy(&open_device, &(void *){dlsym(module, "tr_cuda_open")}, sizeof(open_device));
    if (open_device == NULL)
        return fr_fail(err, FR_UNSUPPORTED, "%s: no tr_cuda_open in it", name);
    return open_device(TR_TABLE_BYTES, ordinal, share, out, err);
}

/* Opens the first module that the driver and cuBLASLt support; else fails with the reasons of all
 * modules. */
static enum fr_rc cuda_create(int ordinal, bool share, struct tr_backend **out, struct fr_err *err)
{
    struct fr_err why[MODULES] = {0};
    enum fr_rc rc = FR_UNSUPPORTED;
    int i = 0, last = -1;

    order_devices();
    for (; i < MODULES; i++) {
        rc = open_with(module_names[i], ordinal, share, out, &why[i]);
        if (rc == FR_NOTFOUND && why[i].msg[0] == '\0') /* no such module */
            continue;
        last = i;
        if (rc != FR_UNSUPPORTED)
            break;
    }
    if (last < 0)
        return fr_fail(err, FR_NOTFOUND,
                       "neither %s nor %s is beside flowtrain or in %s: build where nvcc is found, "
                       "or pass --device cpu",
                       module_names[0], module_names[1], FLOWTRAIN_LIBDIR);
    if (i == MODULES && last == 1 && why[0].msg[0] != '\0' && strcmp(why[0].msg, why[1].msg) != 0)
        return fr_fail(err, FR_UNSUPPORTED, "%s: %s; %s: %s", module_names[0], why[0].msg,
                       module_names[1], why[1].msg);
    if (i == MODULES || rc != FR_OK)
        return fr_fail(err, why[last].rc, "%s", why[last].msg);
    fr_log(FR_LOG_INFO, "cuda", "module=%s", module_names[i]);
    if ((rc = settle(*out, err)) != FR_OK) {
        tr_backend_destroy(*out);
        *out = NULL;
    }
    return rc;
}

static enum fr_rc create(enum tr_device want, int ordinal, bool share, struct tr_backend **out,
                         struct fr_err *err)
{
    struct fr_err why = {0};
    char what[256];

    *out = NULL;
    if (want == TR_DEVICE_CPU)
        return tr_cpu_create(out, err);
    if (cuda_create(ordinal, share, out, &why) != FR_OK) {
        if (want == TR_DEVICE_CUDA)
            return fr_fail(err, why.rc, "device cuda: %s", why.msg);
    } else {
        tr_backend_describe(*out, what);
        fr_log(FR_LOG_INFO, "cuda", "%s", what);
        return FR_OK;
    }
    fr_log(FR_LOG_INFO, "device", "device=cpu why=\"%s\"", why.msg);
    return tr_cpu_create(out, err);
}

enum fr_rc tr_device_create(enum tr_device want, int ordinal, struct tr_backend **out,
                            struct fr_err *err)
{
    return create(want, ordinal, false, out, err);
}

enum fr_rc tr_device_share(enum tr_device want, int ordinal, struct tr_backend **out,
                           struct fr_err *err)
{
    return create(want, ordinal, true, out, err);
}
