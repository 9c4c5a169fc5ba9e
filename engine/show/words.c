#include "engine/show/show.h"

#include "engine/base/sys.h"

#include <stdio.h>
#include <time.h>

void cli_date(int64_t wall_ms, char out[32])
{
    time_t s = (time_t)(wall_ms / 1000);
    struct tm tm;

    out[0] = '-';
    out[1] = '\0';
    if (wall_ms != 0 && localtime_r(&s, &tm) != NULL)
        strftime(out, 32, "%Y-%m-%d %H:%M:%S", &tm);
}

void cli_took(int64_t started_wall, int64_t ended_wall, char out[24])
{
    int64_t end = ended_wall != 0 ? ended_wall : fr_sys.wall_ms();

    snprintf(out, 24, "-");
    if (started_wall != 0)
        fr_show_duration(end > started_wall ? end - started_wall : 0, out);
}
