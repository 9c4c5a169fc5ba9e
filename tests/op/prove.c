#include "tests/op/prove.h"

#include "tests/unit/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { GROUPS_MAX = 256, NAME_MAX_BYTES = 64 };

struct group {
    char name[NAME_MAX_BYTES];
    int rows;
    int changed[MUTATIONS], noticed[MUTATIONS];
};

struct prove {
    struct group groups[GROUPS_MAX];
    int n;
    char row[256]; /* the last prove_row */
    bool open;     /* it has noticed no fault so far */
};

enum fr_rc prove_create(struct prove **out)
{
    *out = calloc(1, sizeof **out);
    return *out != NULL ? FR_OK : FR_NOMEM;
}

static struct group *group_of(struct prove *p, const char *name)
{
    for (int i = 0; i < p->n; i++)
        if (strcmp(p->groups[i].name, name) == 0)
            return &p->groups[i];
    if (!CHECK(p->n < GROUPS_MAX))
        return &p->groups[0];
    snprintf(p->groups[p->n].name, NAME_MAX_BYTES, "%s", name);
    return &p->groups[p->n++];
}

static void close_row(struct prove *p)
{
    check_row(p->row);
    if (p->row[0] != '\0' && !CHECK(!p->open))
        printf("   no fault makes this row fail\n");
    check_row("");
}

void prove_row(struct prove *p, const char *group, const char *row)
{
    close_row(p);
    group_of(p, group)->rows++;
    snprintf(p->row, sizeof p->row, "%s", row);
    p->open = true;
}

void prove_cell(struct prove *p, const char *group, const char *row, enum mutation m, bool noticed)
{
    struct group *g = group_of(p, group);

    g->changed[m]++;
    g->noticed[m] += noticed;
    p->open &= !noticed;
    check_row(row);
    if (!CHECK(noticed))
        printf("   not noticed: %s\n", mutation_name(m));
    check_row("");
}

/* Whether the row fails; what it prints is dropped. */
static bool fails(prove_run *run, const void *row, const struct mutant *what)
{
    int status = 0;
    pid_t pid;

    fflush(NULL);
    if ((pid = fork()) == 0) {
        int null = open("/dev/null", O_WRONLY);

        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
        check_counts.failed = 0;
        _exit(run(row, what) ? 1 : 0);
    }
    return !(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
             WEXITSTATUS(status) == 0);
}

/* PROVE_EVERY=N: every Nth fault, one after another over all rows. */
static bool chosen(void)
{
    static int n;
    const char *every = getenv("PROVE_EVERY");
    long k = every != NULL ? strtol(every, NULL, 10) : 1;

    return n++ % (k > 0 ? k : 1) == 0;
}

void prove_runs(struct prove *p, const char *name, prove_run *run, const void *row)
{
    struct mutant_report *seen =
        mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct mutant what = {.mutation = MUTATIONS, .op = TR_OP_COUNT, .report = seen};
    struct mutant_report sound;

    if (!CHECK(seen != MAP_FAILED))
        return;
    check_row(name);
    CHECK(!run(row, &what)); /* sound without a fault; what libraries compile is inherited */
    sound = *seen;
    prove_row(p, name, name);
    for (int op = 0; op < TR_OP_COUNT; op++)
        for (int m = 0; m < MUTATIONS && sound.called[op]; m++) {
            char cell[160];
            bool noticed;

            if (!mutant_possible((enum mutation)m, (enum tr_op)op, &sound) || !chosen())
                continue;
            memset(seen, 0, sizeof *seen);
            what.op = (enum tr_op)op;
            what.mutation = (enum mutation)m;
            noticed = fails(run, row, &what);
            snprintf(cell, sizeof cell, "%s: %s", name, tr_op_name(what.op));
            if (seen->changed[op])
                prove_cell(p, name, cell, what.mutation, noticed);
        }
    munmap(seen, sizeof *seen);
}

void prove_print(struct prove *p)
{
    int changed = 0, noticed = 0, rows = 0;

    close_row(p);
    printf("%-28s %5s", "", "rows");
    for (int m = 0; m < MUTATIONS; m++)
        printf(" %12s", mutation_name((enum mutation)m));
    printf("\n");
    for (int i = 0; i < p->n; i++) {
        const struct group *g = &p->groups[i];

        printf("%-28s %5d", g->name, g->rows);
        rows += g->rows;
        for (int m = 0; m < MUTATIONS; m++) {
            char cell[32] = "-";

            if (g->changed[m] > 0)
                snprintf(cell, sizeof cell, "%d/%d", g->noticed[m], g->changed[m]);
            printf(" %12s", cell);
            changed += g->changed[m];
            noticed += g->noticed[m];
        }
        printf("\n");
    }
    printf("%d rows, %d faults, %d not noticed\n", rows, changed, changed - noticed);
    free(p);
}
