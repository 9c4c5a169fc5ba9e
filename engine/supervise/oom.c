/* Reads the kernel's count of OOM kills. Reading needs no rights. */
#include "engine/supervise/private.h"

#include "engine/base/file.h"

#include <string.h>

enum { VMSTAT_MAX = 256 << 10, OOM_FRESH_MS = 1000 };

/* -1: unknown. Source: oom_kill of /proc/vmstat, proc(5); a kill at the limit of a control
 * group counts there, too. */
static int64_t read_count(void)
{
    static const char name[] = "\noom_kill ";
    struct fr_buf b = {0};
    struct fr_err err;
    int64_t n = -1;

    if (fr_file_read("/proc/vmstat", VMSTAT_MAX, &b, &err) == FR_OK && b.n > 0) {
        const char *p = strstr(b.p, name);
        size_t digits = p != NULL ? strspn(p + sizeof(name) - 1, "0123456789") : 0;
        if (digits == 0 ||
            fr_parse_i64((struct fr_str){p + sizeof(name) - 1, digits}, &n, &err) != FR_OK)
            n = -1;
    }
    fr_buf_finish(&b);
    return n;
}

void sup_oom_look(struct sup_process *process)
{
    int64_t now = fr_sys.mono_ms();

    if (process->oom_ms != 0 && now - process->oom_ms < OOM_FRESH_MS)
        return;
    process->oom_ms = now;
    process->oom_kills = read_count();
}

bool sup_oom_grew(struct sup_process *process)
{
    int64_t before = process->oom_kills;

    process->oom_ms = fr_sys.mono_ms();
    process->oom_kills = read_count();
    return before >= 0 && process->oom_kills > before;
}
