/* The lease of a job of two places, by a clock of the test's own. */
#include "engine/node/keep_lease.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "tests/unit/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { LEASE = 600000, LOOK = 10000 };

static int64_t now_ms;
static char top[64];

static int64_t the_time(void)
{
    return now_ms;
}

struct pair {
    char folder[100];
    struct keep_place at[2];
    struct keep_lease l[2];
    int64_t heard[2];
};

static struct pair begin(const char *name)
{
    struct pair p = {0};

    snprintf(p.folder, sizeof(p.folder), "%s/%s", top, name);
    CHECK(mkdir(p.folder, 0700) == 0);
    for (int k = 0; k < 2; k++) {
        p.at[k] = (struct keep_place){.job = 7, .place = k + 1};
        snprintf(p.at[k].home, sizeof(p.at[k].home), "%s/%s.home-%d", top, name, k + 1);
        CHECK(mkdir(p.at[k].home, 0700) == 0);
    }
    return p;
}

/* Its texts are where the pair has come to lie. */
static void settle(struct pair *p)
{
    static const char *const environ[] = {"SLURM_JOB_NUM_NODES=2", NULL};
    const struct fr_keep_args a = {.environ = environ, .lease_ms = LEASE};

    for (int k = 0; k < 2; k++) {
        p->at[k].folder = p->folder;
        CHECK_INT(keep_lease_init(&p->l[k], &p->at[k], &a, NULL), FR_OK);
    }
}

static void look(struct pair *p, int k)
{
    if (keep_lease_look(&p->l[k], p->heard[k]))
        keep_lease_agree(&p->l[k], p->heard[k]);
}

/* Both keepers look whenever it is time. */
static void pass(struct pair *p, int64_t ms)
{
    for (int64_t until = now_ms + ms; now_ms < until;) {
        now_ms += LOOK;
        look(p, 0);
        look(p, 1);
    }
}

static bool exists(const struct pair *p, const char *name)
{
    char path[200];

    snprintf(path, sizeof(path), "%s/%s", p->folder, name);
    return access(path, F_OK) == 0;
}

static void test_both(void)
{
    struct pair p = begin("both");

    settle(&p);
    check_row("both are quiet");
    CHECK_INT(keep_lease_wait(&p.l[0]), LOOK);
    pass(&p, LEASE - LOOK);
    CHECK(!p.l[0].quiet && !p.l[1].quiet);
    pass(&p, 2 * LOOK);
    CHECK(p.l[0].over && p.l[1].over);
    CHECK(!keep_lease_renew(&p.l[0]) && !keep_lease_renew(&p.l[1]));
    CHECK_INT(keep_lease_wait(&p.l[0]), -1);
    check_row("a look before its time is none");
    CHECK(!keep_lease_look(&p.l[0], 0));
}

static void test_heard_at(int k)
{
    struct pair p = begin(k == 0 ? "first" : "second");

    settle(&p);
    check_row("an engine is heard at one of them");
    for (int i = 0; i < 10; i++) {
        p.heard[k] = now_ms;
        pass(&p, LEASE / 2);
    }
    CHECK(!p.l[k].quiet && p.l[1 - k].quiet && !p.l[1 - k].over);
    pass(&p, LEASE + LOOK);
    CHECK(p.l[0].over && p.l[1].over);
}

static void test_heard(void)
{
    test_heard_at(0);
    test_heard_at(1);
}

/* Whoever is first decides for both. */
static void test_race(void)
{
    struct pair p = begin("race");

    settle(&p);
    check_row("an engine comes before the verdict");
    p.heard[0] = now_ms + 2 * LOOK; /* so that place 2 is the first */
    pass(&p, LEASE);
    CHECK(p.l[1].quiet && !p.l[0].quiet);
    now_ms += 2 * LOOK;
    look(&p, 0);
    look(&p, 1);
    CHECK(p.l[0].quiet && !p.l[0].over);
    CHECK(keep_lease_renew(&p.l[1]));
    CHECK(exists(&p, "lease.0") && !p.l[1].quiet);
    pass(&p, LOOK);
    CHECK(!p.l[0].over && !p.l[0].quiet);
    CHECK_INT(p.l[0].generation, 1);
    check_row("the whole lease passes anew, for both");
    pass(&p, LEASE - 2 * LOOK);
    CHECK(!p.l[0].quiet && !p.l[1].over);
    check_row("an engine comes behind the verdict");
    pass(&p, LOOK);
    CHECK(p.l[1].quiet);
    now_ms += LOOK;
    look(&p, 0);
    now_ms += LOOK;
    look(&p, 0);
    CHECK(p.l[0].over && !p.l[1].over);
    CHECK(!keep_lease_renew(&p.l[1]));
    CHECK(p.l[1].over);
}

static void test_late(void)
{
    struct pair p = begin("late");

    settle(&p);
    check_row("a place that was in use while others renewed twice");
    for (int i = 0; i < 2; i++) {
        p.heard[0] = now_ms + LEASE;
        pass(&p, LEASE + LOOK);
        CHECK(p.l[1].quiet && keep_lease_renew(&p.l[1]));
    }
    p.heard[0] = 0;
    pass(&p, LEASE + 2 * LOOK);
    CHECK(p.l[0].over && p.l[1].over);
    CHECK_INT(p.l[0].generation, 2);
}

static void test_stopped(void)
{
    struct pair p = begin("stopped");

    settle(&p);
    check_row("a keeper that was stopped hears first what came meanwhile");
    now_ms += 10 * LEASE;
    look(&p, 0);
    look(&p, 1);
    CHECK(!p.l[0].quiet);
    pass(&p, LEASE - LOOK);
    CHECK(!p.l[0].quiet);
    pass(&p, 2 * LOOK);
    CHECK(p.l[0].over);
}

static void test_unwritable(void)
{
    struct pair p = begin("gone");
    char away[150];

    settle(&p);
    snprintf(away, sizeof(away), "%s.away", p.folder);
    check_row("without its folder a place does not become quiet");
    CHECK(rename(p.folder, away) == 0);
    pass(&p, 2 * LEASE);
    CHECK(!p.l[0].quiet && keep_lease_renew(&p.l[0]));
    CHECK(rename(away, p.folder) == 0);
    p.heard[0] = now_ms;
    pass(&p, LOOK);
    check_row("and a quiet one serves nobody");
    CHECK(p.l[1].quiet);
    CHECK(rename(p.folder, away) == 0);
    CHECK(!keep_lease_renew(&p.l[1]) && !p.l[1].over);
    CHECK(rename(away, p.folder) == 0);
    CHECK(keep_lease_renew(&p.l[1]));
}

int main(void)
{
    static char text[] = "/tmp/fr-lease.XXXXXX";
    static void (*const tests[])(void) = {test_both, test_heard,   test_race,
                                          test_late, test_stopped, test_unwritable};

    snprintf(top, sizeof(top), "%s", mkdtemp(text));
    fr_sys.mono_ms = the_time;
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        now_ms = 1000000;
        tests[i]();
    }
    CHECK_INT(fr_remove_tree(top, NULL), FR_OK);
    return check_done();
}
