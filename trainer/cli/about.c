/* `flowtrain version --verbose`: what this build computes with, here. */
#include "engine/base/log.h"
#include "engine/base/str.h"
#include "trainer/backend/device.h"
#include "trainer/cli/cli.h"

#include <gnu/libc-version.h>
#include <jansson.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

/* The first line of a file that begins with key, after its colon. */
static void from_file(const char *path, const char *key, char *out, size_t size)
{
    char line[4096];
    FILE *f = fopen(path, "re");

    out[0] = '\0';
    while (f != NULL && out[0] == '\0' && fgets(line, sizeof(line), f) != NULL) {
        const char *colon = strchr(line, ':');

        if (colon == NULL || strncmp(line, key, strlen(key)) != 0)
            continue;
        (void)snprintf(out, size, "%s", colon + 1 + strspn(colon + 1, " \t"));
        out[strcspn(out, "\n")] = '\0';
    }
    if (f != NULL)
        (void)fclose(f);
}

/* Of the chip's instruction sets, those that decide which kernels run. */
static void print_chip(void)
{
    static const char *const sets[] = {"avx2",     "fma",      "avx512f",     "avx512bw",
                                       "avx512vl", "avx512dq", "avx512_bf16", "amx_tile",
                                       "amx_bf16", "asimd"};
    char model[256], flags[4096];
    struct fr_buf has = {0};

    from_file("/proc/cpuinfo", "model name", model, sizeof(model));
    from_file("/proc/cpuinfo", "flags", flags, sizeof(flags));
    if (flags[0] == '\0')
        from_file("/proc/cpuinfo", "Features", flags, sizeof(flags)); /* of AArch64 */
    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
        const char *at = flags;
        size_t n = strlen(sets[i]);

        while ((at = strstr(at, sets[i])) != NULL && at[n] != ' ' && at[n] != '\0')
            at += n;
        if (at != NULL)
            fr_buf_fmt(&has, " %s", sets[i]);
    }
    fr_print("chip     %s;%s\n", model[0] != '\0' ? model : "unknown",
             has.n > 0 && !has.bad ? has.p : " none of the instruction sets for fast products");
    fr_buf_finish(&has);
}

static void print_backend(enum tr_device device, const char *name)
{
    struct tr_backend *be = NULL;
    struct fr_err err = {0};
    char what[256] = "";

    if (tr_device_create(device, 0, &be, &err) != FR_OK) {
        fr_print("%-8s %s\n", name, err.msg);
        return;
    }
    tr_backend_describe(be, what);
    fr_print("%-8s %s\n", name, what);
    tr_backend_destroy(be);
}

void tr_about(void)
{
    struct utsname u;

    fr_log_level(FR_LOG_ERROR); /* the backends log the same */
    if (uname(&u) == 0)
        fr_print("kernel   %s %s %s\n", u.sysname, u.release, u.machine);
    fr_print("libc     glibc %s\n", gnu_get_libc_version());
    fr_print("jansson  %s\n", jansson_version_str());
    fr_print("openmp   %d, %d threads\n", _OPENMP, omp_get_max_threads());
    print_chip();
    print_backend(TR_DEVICE_CPU, "cpu");
    print_backend(TR_DEVICE_CUDA, "cuda");
}
