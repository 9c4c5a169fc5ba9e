#include "trainer/plan/plan.h"

#include <string.h>
#include <strings.h>

#define CPU "cpu"

/* Products as public measurements of large bf16 matrices have them, links as those of collectives
 * inside a node; memory as the driver shows it. */
static const struct tr_gpu gpus[] = {
    {"a100-40g", 271e12, 0, 0, 42.3e9, 1.45e12, 230e9, 200e9, 12.5e9},
    {"a100-80g", 271e12, 0, 0, 85.9e9, 2.00e12, 230e9, 200e9, 12.5e9},
    {"a6000-48g", 110e12, 0, 0, 51.5e9, 0.768e12, 10e9, 10e9, 10e9}, /* all by PCI Express */
    {"h100-80g", 794e12, 0, 0, 85.5e9, 3.35e12, 360e9, 224e9, 55e9},
    {"h200-141g", 794e12, 0, 0, 150e9, 4.80e12, 360e9, 224e9, 55e9},
    {CPU, 0, 0, 0, 0, 10e9, 4e9, 4e9, 10e9},
};

const struct tr_gpu *tr_gpu_find(const char *name)
{
    for (size_t i = 0; i < sizeof(gpus) / sizeof(gpus[0]); i++)
        if (strcasecmp(name, gpus[i].name) == 0)
            return &gpus[i];
    return NULL;
}

bool tr_gpu_is_cpu(const struct tr_gpu *gpu)
{
    return strcmp(gpu->name, CPU) == 0;
}

const char *tr_gpu_names(void)
{
    return "a100-40g, a100-80g, a6000-48g, h100-80g, h200-141g, " CPU;
}
