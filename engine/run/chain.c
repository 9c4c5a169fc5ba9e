/*
 * Whether a training gets on in its chain of allocations. Its metrics say from which checkpoint an
 * attempt went on (`checkpoint` of their first row), and so what the one before it has brought:
 * also what that saved when it was told to stop, behind its last row. Where an attempt goes on from
 * where the last two did, which their allocations ended, it is stopped.
 */
#include "engine/curve/curve.h"
#include "engine/run/inside.h"
#include "engine/run/metrics.h"
#include "engine/store/lists.h"

#include <fcntl.h>
#include <string.h>

enum { LINKS = 2, ROWS_BYTES = 64 << 10 };

/* What the rows of an attempt say, as far as they are copied: its first one, and the newest. */
struct said {
    bool found;
    double first, newest; /* checkpoint; 0: none yet */
};

static void take_line(void *arg, struct fr_str line)
{
    struct said *said = arg;
    struct fr_curve_row row;
    bool there;
    double checkpoint;

    fr_curve_row_read(line, &row);
    if (row.kind == FR_CURVE_ROW) {
        checkpoint = fr_curve_row_get(&row, "checkpoint", &there);
        said->newest = there ? checkpoint : said->newest;
        said->first = said->found ? said->first : said->newest;
        said->found = true;
    }
    fr_curve_row_finish(&row);
}

/* The head of the file, and its tail. A line that is cut is no row. */
static void read_rows(int fd, struct said *said)
{
    char *text = fr_sys.alloc(ROWS_BYTES);
    struct stat st;
    ssize_t k;

    if (text == NULL || fr_sys.fstat(fd, &st) != 0) {
        fr_sys.free(text);
        return;
    }
    for (off_t at = 0, last = st.st_size - ROWS_BYTES; at >= 0;) {
        struct fr_buf rest = {0};

        if ((k = fr_sys.pread(fd, text, ROWS_BYTES, at)) > 0)
            fr_curve_lines(&rest, text, (size_t)k, take_line, said);
        fr_buf_finish(&rest);
        at = at < last ? last : -1;
    }
    fr_sys.free(text);
}

static struct said said_by(const struct fr_run *run, uint32_t inst, uint32_t no)
{
    struct said said = {0};
    struct fr_buf path = {0};
    int fd = -1;

    fr_buf_fmt(&path, "%s/", run->dir);
    fr_run_metrics_name(&path, run->plan->insts[inst].key, no);
    if (!path.bad)
        fd = fr_sys.open(path.p, O_RDONLY | O_NOFOLLOW, 0);
    if (fd >= 0) {
        read_rows(fd, &said);
        fr_sys.close(fd);
    }
    fr_buf_finish(&path);
    return said;
}

/* Of a gang, the member that is asked may have followed another one. */
static bool is_link(enum fr_cause cause)
{
    return cause == FR_CAUSE_TIME_LIMIT || cause == FR_CAUSE_PREEMPTED ||
           cause == FR_CAUSE_GANG_PEER;
}

/* Whether the attempts before this one ended with their allocations. */
static bool follows_links(struct fr_run *run, const struct run_attempt *at)
{
    const struct fr_inst_of of = {run->id, at->inst};
    struct fr_arena arena = {0};
    struct fr_attempt_rows rows = {0};
    int links = 0;

    if (fr_store_attempts_of(run->env.store, &of, &arena, &rows, NULL) != FR_OK)
        rows.n = 0;
    for (size_t i = 0; i < rows.n; i++)
        links += rows.rows[i].no < at->no && rows.rows[i].no + LINKS >= at->no &&
                 is_link(rows.rows[i].cause);
    fr_arena_finish(&arena);
    return links == LINKS;
}

static bool is_training(const struct fr_run *run, uint32_t inst)
{
    const struct fr_action *act = &run_task_of(run, inst)->spec->act;

    return act->what == FR_USES && strcmp(act->uses->name, "train") == 0;
}

void run_chain_look(struct fr_run *run, struct run_attempt *at)
{
    const struct fr_node *node = run->plan->nodes[run_node_of(run, at->inst)].spec;
    struct fr_event ev = {.kind = FR_EV_NO_PROGRESS, .inst = at->inst, .attempt = at->id};
    struct said now;

    if (at->metrics.judged || at->ended || at->no <= LINKS || node == NULL || node->chain == 0 ||
        fr_sched_row(run->sched, at->inst, fr_sys.mono_ms()).chained < LINKS)
        return;
    now = said_by(run, at->inst, at->no);
    at->metrics.judged = now.found;
    if (!now.found || (now.first == 0 && !is_training(run, at->inst)))
        return;
    for (uint32_t k = 1; k <= LINKS; k++) {
        struct said before = said_by(run, at->inst, at->no - k);

        if (!before.found || before.first != now.first || before.newest > now.first)
            return;
    }
    if (follows_links(run, at))
        run_queue_or_die(run, &ev);
}
