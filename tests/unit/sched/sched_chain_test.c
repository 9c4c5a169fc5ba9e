/* What is stopped for good, and nothing follows: a task whose chain of allocations is in vain; the
 * others of a task with fail_fast. */
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

int main(void)
{
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
