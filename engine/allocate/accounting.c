/* What Slurm's accounting says of allocations that are over: one sacct for all that ended at the
 * same time. Nothing waits for it but the row. */
#include "engine/allocate/private.h"

#include "engine/base/log.h"

#include <string.h>

enum {
    FIRST_MS = 1000,   /* slurmctld tells slurmdbd of an end a moment later */
    DAY_MS = 86400000, /* nobody asks for what ended before */
    OWED = 2,          /* answers that a host waits for whose work is done */
    TRIES = 5
};

static const int64_t pauses_ms[TRIES] = {3000, 15000, 60000, 300000, 0}; /* after each answer */

static bool is_late(const struct host_allocation *al)
{
    return fr_sys.wall_ms() - al->a.life.ended_wall > DAY_MS;
}

/* One that ended less than FIRST_MS before is not asked for yet: both are in one question. */
static int64_t first_ms(const struct host_allocation *al)
{
    int64_t now = fr_sys.mono_ms();

    for (const struct host_allocation *b = allocations_of(al->host)->first; b != NULL; b = b->next)
        if (b->cluster == al->cluster && b->account_tries == 0 && alloc_account_due(b) > now &&
            alloc_account_due(b) != INT64_MAX)
            return b->account_ms;
    return now + FIRST_MS;
}

/* Slurm has no record of an element that never began. */
static bool never_began(const struct host_allocation *al)
{
    const char *word = al->a.life.slurm;

    return al->a.life.element != 0 && (word[0] == '\0' || strcmp(word, "PENDING") == 0);
}

void alloc_account_begin(struct host_allocation *al)
{
    if (al->a.life.state != FR_ALLOCATION_OVER || al->a.life.job == 0 || !al->cluster->accounting ||
        al->row.accounting != FR_ACCOUNTING_NONE || is_late(al) || never_began(al))
        return;
    al->account_ms = first_ms(al);
    al->row.accounting = FR_ACCOUNTING_WANTED;
}

bool alloc_account_owed(const struct host_allocation *al)
{
    return al->row.accounting == FR_ACCOUNTING_WANTED && al->account_tries < OWED;
}

int64_t alloc_account_due(const struct host_allocation *al)
{
    bool waits = al->row.accounting == FR_ACCOUNTING_WANTED && al->cluster->known &&
                 al->cluster->broken[0] == '\0' && !al->cluster->accounts;

    return waits ? al->account_ms : INT64_MAX;
}

/* ---- an answer ---- */

static struct fr_accounted accounted(const struct host_allocation *al)
{
    const struct fr_allocation_life *l = &al->a.life;

    return (struct fr_accounted){l->job, l->element, al->row.tag, l->submitted_wall};
}

static void on_record(void *arg, const struct fr_account *record)
{
    const struct host_cluster *c = arg;

    for (struct host_allocation *al = allocations_of(c->host)->first; al != NULL; al = al->next) {
        struct fr_accounted of = accounted(al);

        if (al->cluster == c && al->account_asked)
            fr_account_add(&al->account, record, &of);
    }
}

static bool take(struct host_allocation *al)
{
    const struct fr_account *account = &al->account;
    const char *state = fr_arena_dup(&al->arena, account->state);
    const char *tres = fr_arena_dup(&al->arena, account->tres);

    if (state == NULL || tres == NULL)
        return false;
    al->a.life.elapsed_ms = account->elapsed_ms;
    al->row.exit_state = state;
    al->row.tres = tres;
    al->row.max_rss = account->max_rss;
    al->row.energy_j = account->energy_j;
    al->row.accounting = FR_ACCOUNTING_KNOWN;
    return true;
}

/* Steps come after their job at times, and some never: then what there is counts. */
static void settle(struct host_allocation *al)
{
    bool last = ++al->account_tries == TRIES;
    bool known = al->account.whole || (al->account.ended && last);

    al->account_asked = false;
    if (!(known && take(al)) && last)
        al->row.accounting = FR_ACCOUNTING_MISSING;
    al->account_ms = fr_sys.mono_ms() + pauses_ms[al->account_tries - 1];
    al->dirty |= al->row.accounting != FR_ACCOUNTING_WANTED;
}

static void on_answer(void *arg, const struct fr_command_end *end)
{
    struct host_cluster *c = arg;
    struct fr_err err = {0};
    enum fr_rc rc = FR_OK;

    c->accounts = false;
    c->host->woken = true;
    if (end->code != 0)
        rc = fr_fail(&err, FR_IO, "%.*s", (int)end->errors.n, end->errors.p);
    if (rc == FR_OK)
        rc = fr_sacct_read(end->out, on_record, c, &err);
    if (rc != FR_OK)
        fr_log(FR_LOG_DEBUG, "slurm", "sacct: %s", err.msg);
    for (struct host_allocation *al = allocations_of(c->host)->first; al != NULL; al = al->next)
        if (al->cluster == c && al->account_asked)
            settle(al);
}

/* ---- the question ---- */

/* Of those that are due; others that nothing will be known of are given up. */
static size_t collect(struct host_cluster *c, int64_t now, struct fr_accounted *jobs)
{
    size_t n = 0;

    for (struct host_allocation *al = allocations_of(c->host)->first; al != NULL; al = al->next) {
        if (al->cluster != c || alloc_account_due(al) > now)
            continue;
        if (!c->accounting || is_late(al)) {
            al->row.accounting = FR_ACCOUNTING_MISSING;
            al->dirty = c->host->woken = true;
            continue;
        }
        al->account = (struct fr_account){0};
        al->account_asked = true;
        jobs[n++] = accounted(al);
    }
    return n;
}

void alloc_account(struct host_cluster *c, int64_t now)
{
    struct fr_command command = {.accounts = true, .ended = on_answer, .arg = c};
    struct fr_arena arena = {0};
    struct fr_accounted *jobs;
    struct fr_err err = {0};
    size_t n = 0;

    for (const struct host_allocation *al = allocations_of(c->host)->first; al; al = al->next)
        n += al->cluster == c && alloc_account_due(al) <= now;
    if (n == 0)
        return;
    jobs = fr_arena_array(&arena, n, sizeof(*jobs));
    n = jobs != NULL ? collect(c, now, jobs) : 0;
    command.argv = n > 0 ? fr_sacct_args(jobs, n, &arena) : NULL;
    if (command.argv != NULL && fr_cluster_run(c->cluster, &command, &err) == FR_OK)
        c->accounts = true;
    else
        for (struct host_allocation *al = allocations_of(c->host)->first; al; al = al->next)
            if (al->cluster == c && al->account_asked)
                settle(al); /* no memory: as if nothing had been said */
    fr_arena_finish(&arena);
}
