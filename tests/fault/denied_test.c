/*
 * The disk of the control machine turns read-only under a run, at a random step of it, for files
 * that are open already, too: the store by the calls of SQLite's own layer, the rest in the
 * simulation. flowrun ends, names the file, and leaves its tasks running; so does a resume for as
 * long as it lasts; one behind it goes on, as if nothing had been. The rules of world.h hold.
 *
 *     denied_test [SEED [COUNT]]    a failure names its seed; one seed alone tells its story
 */
#include "tests/sim/world.h"
#include "tests/unit/check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SEEDS = 60, STEP_MAX = 900, DENIED_US = 20000000 };

static const char pipeline[] = "name: denied\n"
                               "nodes: [{name: n1, executor: local}, {name: n2, executor: local}]\n"
                               "tasks:\n"
                               "  a: {on: n1, argv: [sim, \"300\", \"0\", out], outputs: [v]}\n"
                               "  b: {on: n2, argv: [sim, \"30000\", \"0\"]}\n"
                               "  c: {on: n1, needs: [a], argv: [sim, \"400\", \"0\"]}\n"
                               "  d: {on: all, gang: true, needs: [c], argv: [sim, \"500\", "
                               "\"0\"]}\n";

enum { INSTANCES = 5 };

struct denied { /* world.test */
    uint64_t step;
    int64_t until_us; /* 0: not yet */
};

/* ---- the store's files ---- */

static bool refused(void)
{
    return sim != NULL && sim->cur != NULL && sim->cur->m->read_only && sim_read_only();
}

static int x_open(const char *path, int flags, int mode)
{
    return (flags & O_ACCMODE) != O_RDONLY && refused() ? -1 : open(path, flags, (mode_t)mode);
}

static ssize_t x_write(int fd, const void *p, size_t n)
{
    return refused() ? -1 : write(fd, p, n);
}

static ssize_t x_pwrite(int fd, const void *p, size_t n, off_t at)
{
    return refused() ? -1 : pwrite(fd, p, n, at);
}

static int x_ftruncate(int fd, off_t n)
{
    return refused() ? -1 : ftruncate(fd, n);
}

static void take_calls(void)
{
    static const struct {
        const char *name;
        sqlite3_syscall_ptr call;
    } calls[] = {{"open", (sqlite3_syscall_ptr)x_open},
                 {"write", (sqlite3_syscall_ptr)x_write},
                 {"pwrite", (sqlite3_syscall_ptr)x_pwrite},
                 {"pwrite64", (sqlite3_syscall_ptr)x_pwrite},
                 {"ftruncate", (sqlite3_syscall_ptr)x_ftruncate}};
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);

    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        CHECK_INT(vfs->xSetSystemCall(vfs, calls[i].name, calls[i].call), SQLITE_OK);
}

/* ---- a case ---- */

static void look(struct world *w)
{
    struct denied *d = w->test;
    struct sim_machine *control = &w->sim.machines[0];

    if (d->until_us == 0 && w->sim.steps >= d->step && w->engine != NULL && w->n_records > 0) {
        control->read_only = true;
        d->until_us = w->sim.now_us + DENIED_US;
        w->look_us = d->until_us;
        world_tell(w, "fault: the disk of control is read-only");
    } else if (control->read_only && w->sim.now_us >= d->until_us) {
        control->read_only = false;
        w->look_us = INT64_MAX;
        world_tell(w, "the disk of control can be written again");
    }
}

static void begin(struct world *w)
{
    struct denied *d = w->test;

    *d = (struct denied){.step = (uint64_t)sim_between(&w->sim, 1, STEP_MAX)};
    w->may_fail = true;
    w->restart_max_us = 1000000;
}

/* true: flowrun had something to commit meanwhile, and could not. */
static bool run_seed(struct world *w, uint64_t seed, bool verbose)
{
    struct denied d;
    int before = check_counts.failed;
    bool ended;

    w->look = look;
    w->test = &d;
    CHECK(world_run(w, pipeline, seed, begin));
    CHECK_INT(w->outcome, FR_OUT_SUCCEEDED);
    CHECK_INT(w->n_records, INSTANCES); /* no second attempt of any */
    ended = w->starts > 1;
    const char *said = w->story.p != NULL ? strstr(w->story.p, "flowrun: ") : NULL;
    CHECK(d.until_us == 0 || ended);
    if (ended && CHECK(said != NULL)) {
        const char *line_end = strchr(said, '\n');
        const char *why = strstr(said, "Read-only file system; somebody must make it writable");
        const char *file = strstr(said, "/state.db: ");
        CHECK(why != NULL && why < line_end && file != NULL && file < why);
    }
    if (verbose || check_counts.failed > before)
        printf("seed %llu:\n%s", (unsigned long long)seed, w->story.p != NULL ? w->story.p : "");
    world_finish(w);
    return ended;
}

int main(int argc, char **argv)
{
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : argc > 1 ? 1 : SEEDS;
    struct world *w = calloc(1, sizeof(*w));
    size_t ended = 0;

    world_setup();
    take_calls();
    for (uint64_t i = 0; i < count; i++) {
        char row[32];
        snprintf(row, sizeof(row), "seed %llu", (unsigned long long)(first + i));
        check_row(row);
        ended += run_seed(w, first + i, argc == 2);
    }
    CHECK(ended > 0);
    world_clean();
    printf("%zu of %llu runs were left and resumed\n", ended, (unsigned long long)count);
    free(w);
    return check_done();
}
