/* The life of an allocation: every event in every state. */
#include "tests/unit/slurm/allocation_bed.h"

#include "tests/unit/check.h"

#include <stdio.h>

static void late(struct bed *b)
{
    b->ms += 6 * MINUTE;
    tell(b, FR_ALLOCATION_DUE);
}

static void refuse_it(struct bed *b)
{
    refuse(b, false);
}

static void refuse_now(struct bed *b)
{
    refuse(b, true);
}

static const struct row {
    const char *name;
    void (*act)(struct bed *b); /* NULL: as below */
    int kind;                   /* -1: an answer */
    int64_t job;
    const char *one, *two;
    const char *want; /* of each state, in their order */
} rows[] = {
    {"loaded", NULL, FR_ALLOCATION_LOADED, 0, NULL, NULL,
     "wanted | looking ask | looking ask | queued ask | starting ask | up ask | releasing ask "
     "| over end"},
    {"the cluster may be asked", NULL, FR_ALLOCATION_MAY_ASK, 0, NULL, NULL,
     "submitting submit | submitting | looking | queued | starting | up | releasing | over"},
    {"its id", NULL, FR_ALLOCATION_SUBMITTED, 7, NULL, NULL,
     "wanted | queued | looking | queued | starting | up | releasing | over"},
    {"another id", NULL, FR_ALLOCATION_SUBMITTED, 8, NULL, NULL,
     "wanted | queued | looking | queued | starting | up | releasing twin 8 | over"},
    {"refused", refuse_it, 0, 0, NULL, NULL,
     "wanted | over end, submit_failed, proven | looking | queued | starting | up | releasing "
     "| over"},
    {"refused for now", refuse_now, 0, 0, NULL, NULL,
     "wanted | wanted | looking | queued | starting | up | releasing | over"},
    {"unclear", NULL, FR_ALLOCATION_UNCLEAR, 0, NULL, NULL,
     "wanted | looking ask | looking | queued | starting | up | releasing | over"},
    {"no job", NULL, -1, 0, NULL, NULL,
     "wanted | submitting | looking | queued | starting | up | releasing | over"},
    {"it waits", NULL, -1, 0, "7 PENDING Priority", NULL,
     "wanted | submitting | queued | queued | releasing cancel, preempted | releasing cancel, "
     "preempted | releasing, stopped | over twin 7"},
    {"its nodes boot", NULL, -1, 0, "7 CONFIGURING None", NULL,
     "wanted | submitting | queued | queued | releasing cancel, preempted | releasing cancel, "
     "preempted | releasing, stopped | over twin 7"},
    {"it runs", NULL, -1, 0, "7 RUNNING None", NULL,
     "wanted | submitting | starting connect | starting connect | starting | up | releasing | "
     "over twin 7"},
    {"it is suspended", NULL, -1, 0, "7 SUSPENDED None", NULL,
     "wanted | submitting | starting connect | starting connect | starting | up | releasing, "
     "stopped | over twin 7"},
    {"it is about to end", NULL, -1, 0, "7 COMPLETING None", NULL,
     "wanted | submitting | queued | queued | starting | up | releasing, stopped | over twin 7"},
    {"a word of a later Slurm", NULL, -1, 0, "7 EXPEDITING None", NULL,
     "wanted | submitting | queued | queued | starting | up | releasing, stopped | over twin 7"},
    {"completed", NULL, -1, 0, "7 COMPLETED None", NULL,
     "wanted | submitting | over end, start_failed | over end, start_failed | over end, "
     "start_failed | over end, node_lost | over end, stopped | over"},
    {"failed", NULL, -1, 0, "7 FAILED NonZeroExitCode", NULL,
     "wanted | submitting | over end, start_failed | over end, start_failed | over end, "
     "start_failed | over end, node_lost | over end, stopped | over"},
    {"could not be launched", NULL, -1, 0, "7 FAILED JobLaunchFailure", NULL,
     "wanted | submitting | over end, start_failed | over end, start_failed | over end, "
     "start_failed | over end, node_lost | over end, stopped | over"},
    {"impossible", NULL, -1, 0, "7 FAILED BadConstraints", NULL,
     "wanted | submitting | over end, submit_failed, proven | over end, submit_failed, proven "
     "| over end, start_failed | over end, node_lost | over end, stopped | over"},
    {"its limit", NULL, -1, 0, "7 TIMEOUT TimeLimit", NULL,
     "wanted | submitting | over end, time_limit | over end, time_limit | over end, time_limit "
     "| over end, time_limit | over end, stopped | over"},
    {"its deadline", NULL, -1, 0, "7 DEADLINE DeadLine", NULL,
     "wanted | submitting | over end, time_limit | over end, time_limit | over end, time_limit "
     "| over end, time_limit | over end, stopped | over"},
    {"preempted", NULL, -1, 0, "7 PREEMPTED None", NULL,
     "wanted | submitting | over end, preempted | over end, preempted | over end, preempted | "
     "over end, preempted | over end, stopped | over"},
    {"cancelled", NULL, -1, 0, "7 CANCELLED None", NULL,
     "wanted | submitting | over end, cancelled_outside | over end, cancelled_outside | over "
     "end, cancelled_outside | over end, cancelled_outside | over end, stopped | over"},
    {"cancelled as it waited", NULL, -1, 0, "7 CANCELLED JobHeldUser", NULL,
     "wanted | submitting | over end, cancelled_outside, proven | over end, cancelled_outside, "
     "proven | over end, cancelled_outside | over end, cancelled_outside | over end, stopped | "
     "over"},
    {"a node failed", NULL, -1, 0, "7 NODE_FAIL None", NULL,
     "wanted | submitting | over end, start_failed | over end, start_failed | over end, "
     "start_failed | over end, node_lost | over end, stopped | over"},
    {"a node did not boot", NULL, -1, 0, "7 BOOT_FAIL None", NULL,
     "wanted | submitting | over end, start_failed | over end, start_failed | over end, "
     "start_failed | over end, node_lost | over end, stopped | over"},
    {"no memory left", NULL, -1, 0, "7 OUT_OF_MEMORY OutOfMemory", NULL,
     "wanted | submitting | over end, start_failed | over end, start_failed | over end, "
     "start_failed | over end, node_lost | over end, stopped | over"},
    {"a second one waits", NULL, -1, 0, "7 RUNNING None", "8 PENDING Priority",
     "wanted | submitting | starting connect twin 8 | starting connect twin 8 | starting twin "
     "8 | up twin 8 | releasing twin 8 | over twin 8"},
    {"a second one runs", NULL, -1, 0, "7 PENDING Priority", "8 RUNNING None",
     "wanted | submitting | starting connect twin 7 | starting connect twin 7 | starting "
     "connect twin 7 | releasing cancel twin 8, preempted | releasing twin 8, stopped | over "
     "twin 8"},
    {"two run", NULL, -1, 0, "7 RUNNING None", "8 RUNNING None",
     "wanted | submitting | starting connect | starting connect | starting | up twin 8 | "
     "releasing twin 8 | over twin 8"},
    {"it ended, a second one runs", NULL, -1, 0, "7 COMPLETED None", "8 RUNNING None",
     "wanted | submitting | starting connect | starting connect | starting connect | over twin "
     "end 8, node_lost | releasing cancel, stopped | over twin 8"},
    {"only another", NULL, -1, 0, "8 PENDING Priority", NULL,
     "wanted | submitting | queued | queued | queued | up twin 8 | releasing cancel, stopped | "
     "over twin 8"},
    {"all places answered", NULL, FR_ALLOCATION_ALL_UP, 0, NULL, NULL,
     "wanted | submitting | looking | queued | up | up | releasing | over"},
    {"a place has no link", NULL, FR_ALLOCATION_AWAY, 0, NULL, NULL,
     "wanted | submitting | looking | queued | starting | up ask | releasing | over"},
    {"its claim", NULL, FR_ALLOCATION_CLAIMED, 7, NULL, NULL,
     "wanted | submitting | queued ask | queued | starting | up | releasing | over"},
    {"the claim of another", NULL, FR_ALLOCATION_CLAIMED, 8, NULL, NULL,
     "wanted | submitting | queued ask | queued ask twin 7 | queued ask twin 7 | up | "
     "releasing twin 8 | over"},
    {"closed", NULL, FR_ALLOCATION_CLOSED, 0, NULL, NULL,
     "wanted | submitting | looking | queued | starting ask | up ask | releasing ask | over "
     "end, stopped, proven"},
    {"unneeded", NULL, FR_ALLOCATION_UNNEEDED, 0, NULL, NULL,
     "over end, stopped, proven | releasing, stopped | releasing, stopped | releasing cancel, "
     "stopped | releasing cancel, stopped | releasing cancel, stopped | releasing | over"},
    {"spent", NULL, FR_ALLOCATION_SPENT, 0, NULL, NULL,
     "wanted | submitting | looking | queued | starting | releasing cancel, time_limit | releasing "
     "| over"},
    {"scancel ended", NULL, FR_ALLOCATION_CANCELLED, 0, NULL, NULL,
     "wanted | submitting | looking | queued | starting | up | releasing | over"},
    {"due, late", late, 0, 0, NULL, NULL,
     "wanted | submitting | looking | queued | starting ask | up | releasing cancel | over"},
};

static void test_rows(void)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct row *row = &rows[i];
        char got[1000] = "";

        check_row(row->name);
        for (int s = 0; s <= FR_ALLOCATION_OVER; s++) {
            struct bed b = bed_in((enum fr_allocation_state)s);
            size_t n = strlen(got);

            if (row->act != NULL)
                row->act(&b);
            else if (row->kind < 0)
                answer(&b, row->one, row->two);
            else
                tell_job(&b, (enum fr_allocation_event_kind)row->kind, row->job);
            snprintf(got + n, sizeof(got) - n, "%s%s", s == 0 ? "" : " | ", seen(&b));
            CHECK(b.now.due_ms == INT64_MAX || b.now.due_ms > T0 + b.ms);
            CHECK(b.now.ask_ms == INT64_MAX || b.now.ask_ms > T0 + b.ms || row->act == late);
        }
        CHECK_TEXT(got, row->want);
    }
}

int main(void)
{
    test_rows();
    return check_done();
}
