#include "tests/fault/killed.h"

#include "engine/supervise/journal.h"

#include <stdlib.h>
#include <string.h>

/* Serve writes `lost` in place of a supervisor that is gone: then no end was known. */
static bool known(const struct fr_rec *rec)
{
    struct fr_arena arena = {0};
    struct fr_ended e = {0};
    struct fr_err err;
    bool yes = rec->kind == FR_REC_EXITED;

    if (rec->kind == FR_REC_ENDED && fr_ended_get(rec->ended, &arena, &e, &err) == FR_OK)
        yes = e.cause != FR_END_LOST;
    fr_arena_finish(&arena);
    return yes;
}

static void take(void *arg, const struct fr_rec *rec)
{
    struct killed *k = arg;

    if (rec->kind == FR_REC_LAUNCHED && (pid_t)rec->sup_pid == k->pid) {
        k->newest = rec->attempt;
        k->launched = k->open = true;
    } else if (k->launched && fr_id_eq(rec->attempt, k->newest) && known(rec)) {
        k->open = false;
    }
}

bool killed_read(struct killed *k, int journal)
{
    struct fr_err err;
    uint64_t at = 0;

    return fr_journal_read(journal, &at, take, k, &err) == FR_OK;
}

static bool stands_in(const char *lines, const char *line, size_t n)
{
    for (const char *p = lines; *p != '\0'; p += strcspn(p, "\n") + 1)
        if (strncmp(p, line, n) == 0 && p[n] == '\n')
            return true;
    return false;
}

const char *killed_wrong(const char *rows, const char *undisturbed)
{
    for (const char *p = rows; *p != '\0'; p += strcspn(p, "\n") + 1) {
        const char *has = strchr(p, '|') + 1, *must = strchr(has, '|') + 1;
        long n = strtol(must, NULL, 10);
        if (n > 0 ? strtol(has, NULL, 10) != n : !stands_in(undisturbed, p, (size_t)(must - p - 1)))
            return p;
    }
    return NULL;
}
