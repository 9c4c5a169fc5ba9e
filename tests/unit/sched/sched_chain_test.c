/* What is stopped for good, and nothing follows: a task whose chain of allocations is in vain; the
 * others of a task with fail_fast. What comes too late for an allocation waits for a further one.
 */
#include "engine/base/sys.h"
#include "tests/unit/sched/sched_bench.h"

static const struct {
    const char *name, *spec, *script;
    enum fr_state_of state; /* of the first instance; attempt, cause: likewise */
    uint32_t attempt;
    enum fr_cause cause;
    size_t live;
} rows[] = {
    {"it is stopped", "a: chain=5 retry=5", "begin up.0 launched.0 preempt.0 launched.0 vain.0",
     FR_ST_STOPPING, 2, FR_CAUSE_NONE, 1},
    {"… and nothing follows", "a: chain=5 retry=5",
     "begin up.0 launched.0 preempt.0 launched.0 vain.0 stopped.0", FR_ST_FAILED, 2,
     FR_CAUSE_NO_PROGRESS, 0},
    {"… told twice", "a: chain=5", "begin up.0 launched.0 vain.0 vain.0 stopped.0", FR_ST_FAILED, 1,
     FR_CAUSE_NO_PROGRESS, 0},
    {"… of an older attempt", "a: chain=5", "begin up.0 exit0.0 vain.0", FR_ST_SUCCEEDED, 1,
     FR_CAUSE_EXIT, 0},
    {"… and its allocation ends meanwhile", "a: chain=5 retry=5",
     "begin up.0 launched.0 vain.0 preempt.0", FR_ST_FAILED, 1, FR_CAUSE_NO_PROGRESS, 0},
    {"all of a gang are stopped", "a: @all gang chain=5 retry=5",
     "begin up.0 up.1 up.2 prepared.0 prepared.1 prepared.2 launched.0 launched.1 launched.2 "
     "vain.0",
     FR_ST_STOPPING, 1, FR_CAUSE_NONE, 3},
    {"… and nothing follows", "a: @all gang chain=5 retry=5",
     "begin up.0 up.1 up.2 prepared.0 prepared.1 prepared.2 launched.0 launched.1 launched.2 "
     "vain.0 stopped.2 stopped.1 stopped.0",
     FR_ST_FAILED, 1, FR_CAUSE_NO_PROGRESS, 0},
    {"fail_fast: no gang that never started begins again", "g: @all gang items=2 fast",
     "begin up.0 up.1 up.2 tombstoned.0 exit1.3 stopped.4 stopped.5 tombstoned.1 tombstoned.2",
     FR_ST_CANCELLED, 1, FR_CAUSE_NONE, 0},
};

/* Instances that live at the end, by their numbers, and nodes whose allocation is spent. */
static const struct {
    const char *name, *spec, *script, *live, *spent;
} late_rows[] = {
    {"a notice that is not due", "a: notice=100", "begin limit@1000.0 up.0 +899 tick", "0", ""},
    {"one that is due: it waits", "a: ; b: a notice=100",
     "begin limit@1000.0 up.0 launched.0 +900 exit0.0", "", "0"},
    {"… and one before that moment begins", "a: ; b: a notice=100",
     "begin limit@1000.0 up.0 launched.0 +899 exit0.0", "1", ""},
    {"… in the next allocation", "a: ; b: a notice=100",
     "begin limit@1000.0 up.0 launched.0 +900 exit0.0 down.0 limit@1000.0 up.0", "1", ""},
    {"… also where the link comes later", "a: ; b: a notice=100",
     "begin limit@1000.0 up.0 launched.0 +900 exit0.0 down.0 +5 up.0", "", "0"},
    {"… and where there is no limit any more", "a: ; b: a notice=100",
     "begin limit@1000.0 up.0 launched.0 +900 exit0.0 limit.0", "1", ""},
    {"an allocation that was too short from its beginning", "a: notice=100",
     "begin limit@100.0 up.0 +5 tick", "0", ""},
    {"… whose limit is over already", "a: notice=100", "begin limit@-50.0 up.0", "0", ""},
    {"a task without notice", "a: ; b: a", "begin limit@1000.0 up.0 launched.0 +990 exit0.0", "1",
     ""},
    {"a timeout that is longer than what is left", "a: ; b: a takes=200",
     "begin limit@1000.0 up.0 launched.0 +800 exit0.0", "", "0"},
    {"… that is as long", "a: ; b: a takes=200", "begin limit@1000.0 up.0 launched.0 +799 exit0.0",
     "1", ""},
    {"… of hours counts in the last minutes alone", "a: ; b: a takes=9000000",
     "begin limit@500000.0 up.0 launched.0 +319999 exit0.0", "1", ""},
    {"… which begin here", "a: ; b: a takes=9000000",
     "begin limit@500000.0 up.0 launched.0 +320000 exit0.0", "", "0"},
    {"another place goes on", "a: ; b: a @n2 notice=100; c: a @n1 notice=100",
     "begin limit@1000.0 limit@1500.1 up.0 up.1 launched.0 +900 exit0.0", "1", "0"},
    {"a gang waits as a whole", "a: ; g: a @all gang notice=100",
     "begin limit@1000.0 limit@1000.1 limit@1000.2 up.0 up.1 up.2 launched.0 +900 exit0.0", "",
     "0"},
    {"… keeps no slots meanwhile", "a: ; g: a @all gang notice=100 slots=8; b: a @n3",
     "begin limit@1000.0 limit@1000.1 limit@1000.2 up.0 up.1 up.2 launched.0 +900 exit0.0", "4",
     "0"},
    {"… and begins in the next allocation", "a: ; g: a @all gang notice=100",
     "begin limit@1000.0 limit@1000.1 limit@1000.2 up.0 up.1 up.2 launched.0 +900 exit0.0 down.0 "
     "down.1 down.2 limit@1000.0 limit@1000.1 limit@1000.2 up.0 up.1 up.2",
     "123", ""},
    {"one that is cancelled is none", "a: ; g: a @all gang notice=100",
     "begin limit@1000.0 up.0 up.1 up.2 launched.0 +900 exit0.0 cancel", "", ""},
};

static void test_late(void)
{
    for (size_t i = 0; i < sizeof(late_rows) / sizeof(late_rows[0]); i++) {
        struct bench b;
        char live[16] = "", spent[16] = "";
        size_t n = 0, n_spent = 0;

        check_row(late_rows[i].name);
        bench_init(&b, late_rows[i].spec);
        say_all(&b, late_rows[i].script);
        for (uint32_t k = 0; k < b.plan->n_insts; k++)
            if (fr_sched_row(b.s, k, 0).live)
                live[n++] = (char)('0' + k);
        for (uint32_t k = 0; k < b.plan->n_nodes; k++)
            if (fr_sched_spent(b.s, k))
                spent[n_spent++] = (char)('0' + k);
        CHECK_TEXT(live, late_rows[i].live);
        CHECK_TEXT(spent, late_rows[i].spent);
        bench_finish(&b);
    }
}

int main(void)
{
    test_late();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct bench b;
        size_t live = 0;

        check_row(rows[i].name);
        bench_init(&b, rows[i].spec);
        say_all(&b, rows[i].script);
        CHECK_INT(fr_sched_row(b.s, 0, 0).state, rows[i].state);
        CHECK_INT(fr_sched_row(b.s, 0, 0).attempt_no, rows[i].attempt);
        CHECK_INT(fr_sched_row(b.s, 0, 0).cause, rows[i].cause);
        for (uint32_t k = 0; k < b.plan->n_insts; k++)
            live += fr_sched_row(b.s, k, 0).state == FR_ST_STOPPING;
        CHECK_INT(live, rows[i].live);
        bench_finish(&b);
    }
    return check_done();
}
