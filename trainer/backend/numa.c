#include "trainer/backend/health.h"

#include "engine/base/file.h"
#include "engine/base/log.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PREFERRED = 1 /* of set_mempolicy(2) */, NODES = 1024 };

static bool read_text(char out[4096], const char *root, const char *path)
{
    struct fr_buf text = {0};
    char whole[PATH_MAX];
    bool ok;

    snprintf(whole, sizeof(whole), "%s%s", root, path);
    ok = fr_file_read(whole, 4095, &text, NULL) == FR_OK && text.n > 0;
    if (ok)
        memcpy(out, text.p, text.n + 1);
    fr_buf_finish(&text);
    return ok;
}

/* "0-31,64-95" */
static bool parse_cpus(const char *p, cpu_set_t *cpus)
{
    CPU_ZERO(cpus);
    while (isdigit((unsigned char)*p)) {
        char *end;
        long from = strtol(p, &end, 10), to = *end == '-' ? strtol(end + 1, &end, 10) : from;

        for (long i = from; i <= to && i < CPU_SETSIZE; i++)
            CPU_SET((size_t)i, cpus);
        p = *end == ',' ? end + 1 : end;
    }
    return CPU_COUNT(cpus) > 0;
}

bool tr_numa_of(const char *root, const char *bus, int *node, cpu_set_t *cpus)
{
    char path[128], text[4096];

    snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/numa_node", bus);
    if (bus[0] == '\0' || !read_text(text, root, path))
        return false;
    *node = (int)strtol(text, NULL, 10);
    snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/cpulist", *node);
    return *node >= 0 && read_text(text, root, path) && parse_cpus(text, cpus);
}

/* The kernel may refuse, as in a container without the right; then memory has no preference. */
static bool prefer_memory(int node)
{
    unsigned long mask[NODES / (8 * sizeof(unsigned long))] = {0};
    size_t bits = 8 * sizeof(mask[0]);

    if (node >= NODES)
        return false;
    mask[(size_t)node / bits] |= 1UL << (size_t)node % bits;
    return syscall(SYS_set_mempolicy, PREFERRED, mask, NODES) == 0;
}

void tr_numa_pin(const struct tr_device_id *id)
{
    cpu_set_t near, mine, both;
    bool memory;
    int node = -1;

    if (!tr_numa_of("", id->bus, &node, &near) || sched_getaffinity(0, sizeof(mine), &mine) != 0)
        return;
    CPU_AND(&both, &near, &mine);
    if (CPU_COUNT(&both) == 0) {
        fr_log(FR_LOG_WARN, "gpu",
               "%s is at NUMA node %d, and this process may not use its processors: give each rank "
               "those of its GPU's node (taskset, numactl, Slurm's --cpu-bind)",
               id->uuid, node);
        return;
    }
    memory = prefer_memory(node);
    if (sched_setaffinity(0, sizeof(both), &both) == 0)
        fr_log(FR_LOG_INFO, "gpu", "numa_node=%d processors=%d of %d memory=%s", node,
               CPU_COUNT(&both), CPU_COUNT(&mine), memory ? "near" : "anywhere");
}
