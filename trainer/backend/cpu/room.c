/* Memory that this process can still allocate: the limit of the machine, or of its control groups.
 */
#include "trainer/backend/cpu/cpu.h"

#include "engine/base/file.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 1 << 16 };

/* The number after mark in a kernel file; SIZE_MAX: none ("max", or no such file). */
static size_t number_in(const char *path, const char *mark)
{
    struct fr_buf text = {0};
    struct fr_err err;
    size_t n = SIZE_MAX;

    if (fr_file_read(path, TEXT_MAX, &text, &err) == FR_OK && text.p != NULL) {
        const char *at = strstr(text.p, mark);
        char *end = NULL;
        unsigned long long v = at != NULL ? strtoull(at + strlen(mark), &end, 10) : 0;

        if (at != NULL && end != at + strlen(mark))
            n = (size_t)v;
    }
    fr_buf_finish(&text);
    return n;
}

/* Free bytes of a control group (version 2), by its path below the root. */
static size_t group_room(const char *group)
{
    char path[PATH_MAX];
    size_t most, used;

    (void)snprintf(path, sizeof(path), "/sys/fs/cgroup%s/memory.max", group);
    most = number_in(path, "");
    (void)snprintf(path, sizeof(path), "/sys/fs/cgroup%s/memory.current", group);
    used = number_in(path, "");
    if (most == SIZE_MAX || used == SIZE_MAX)
        return SIZE_MAX;
    return most > used ? most - used : 0;
}

/* The least of this process's group and its parents. */
static size_t groups_room(void)
{
    struct fr_buf text = {0};
    struct fr_err err;
    char *group = NULL, *cut;
    size_t room = SIZE_MAX;

    if (fr_file_read("/proc/self/cgroup", TEXT_MAX, &text, &err) == FR_OK && text.p != NULL)
        group = strstr(text.p, "0::/");
    if (group != NULL) {
        group += strlen("0::");
        group[strcspn(group, "\n")] = '\0';
        for (;; *cut = '\0') {
            size_t one = group_room(group);

            room = one < room ? one : room;
            if ((cut = strrchr(group, '/')) == NULL)
                break;
        }
    }
    fr_buf_finish(&text);
    return room;
}

size_t cpu_room(void *self)
{
    size_t kib = number_in("/proc/meminfo", "MemAvailable:"), groups = groups_room();
    size_t machine = kib < SIZE_MAX / 1024 ? kib * 1024 : 0;

    (void)self;
    return machine < groups ? machine : groups;
}
