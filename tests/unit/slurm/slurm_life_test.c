/* The life of an allocation: paths that several events make. */
#include "tests/unit/slurm/allocation_bed.h"

#include "tests/unit/check.h"

#include <stdio.h>

static void pass(struct bed *b, int64_t ms)
{
    b->ms += ms;
}

/* The process died between sbatch and its answer, or sbatch did. */
static void test_lost_answer(void)
{
    struct bed b = bed_in(FR_ALLOCATION_SUBMITTING), c;

    check_row("the job is there after all");
    tell(&b, FR_ALLOCATION_LOADED);
    CHECK_TEXT(seen(&b), "looking ask");
    CHECK_INT(b.a.life.submitted_wall, W0);
    c = b;
    answer(&c, "9 PENDING Priority", NULL);
    CHECK_TEXT(seen(&c), "queued");
    CHECK_INT(c.a.life.job, 9);

    check_row("nothing is concluded before 120 s");
    answer(&b, NULL, NULL);
    pass(&b, 119 * SECOND);
    answer(&b, NULL, NULL);
    CHECK_TEXT(seen(&b), "looking");
    pass(&b, SECOND);
    answer(&b, NULL, NULL);
    CHECK_TEXT(seen(&b), "looking");
    CHECK_TEXT(seen_at(&b), "60");
    pass(&b, 59 * SECOND);
    answer(&b, NULL, NULL);
    CHECK_TEXT(seen(&b), "looking");
    CHECK_TEXT(seen_at(&b), "1");
    c = b;

    check_row("a second answer 60 s later");
    pass(&b, SECOND);
    answer(&b, NULL, NULL);
    CHECK_TEXT(seen(&b), "wanted");
    CHECK(b.now.changed);
    CHECK_INT(b.a.life.submits, 1);
    tell(&b, FR_ALLOCATION_MAY_ASK);
    CHECK_TEXT(seen(&b), "submitting submit");
    CHECK_INT(b.a.life.submits, 2);

    check_row("the answers must follow each other");
    answer(&c, "9 PENDING Priority", NULL);
    pass(&c, 5 * SECOND);
    answer(&c, NULL, NULL);
    CHECK_TEXT(seen(&c), "queued");
    CHECK_TEXT(seen_at(&c), "60");

    check_row("a restart of the engine begins the wait anew");
    b = bed_in(FR_ALLOCATION_LOOKING);
    pass(&b, 150 * SECOND);
    answer(&b, NULL, NULL);
    tell(&b, FR_ALLOCATION_LOADED);
    pass(&b, 61 * SECOND);
    answer(&b, NULL, NULL);
    CHECK_TEXT(seen(&b), "looking");
}

static void test_late_job(void)
{
    struct bed b = bed_in(FR_ALLOCATION_SUBMITTING), c;

    check_row("what sbatch said is shown until there is a job");
    apply(&b, &(struct fr_allocation_event){.kind = FR_ALLOCATION_UNCLEAR,
                                            .text = FR_STR("Socket timed out\n")});
    CHECK_TEXT(b.a.life.note, "sbatch gave no answer: Socket timed out");
    answer(&b, "7 PENDING Priority", NULL);
    CHECK_TEXT(b.a.life.note, "");

    check_row("it appears late, when it is to be submitted again");
    b = bed_in(FR_ALLOCATION_LOOKING);
    pass(&b, 120 * SECOND);
    answer(&b, NULL, NULL);
    pass(&b, 60 * SECOND);
    answer(&b, NULL, NULL);
    CHECK_TEXT(seen(&b), "wanted");
    c = b;
    answer(&b, "7 RUNNING None", NULL);
    CHECK_TEXT(seen(&b), "starting connect");
    tell_job(&c, FR_ALLOCATION_CLAIMED, 7);
    CHECK_TEXT(seen(&c), "queued ask");
    CHECK_INT(c.a.life.job, 7);
}

/* Given back while nobody knows of a job. */
static void test_unneeded_early(void)
{
    struct bed b = bed_in(FR_ALLOCATION_SUBMITTING), c;

    check_row("given back while sbatch runs");
    tell(&b, FR_ALLOCATION_UNNEEDED);
    CHECK_INT(b.now.due_ms, INT64_MAX);
    answer(&b, NULL, NULL);
    CHECK_TEXT(seen(&b), "releasing");
    c = b;
    tell_job(&b, FR_ALLOCATION_SUBMITTED, 7);
    CHECK_TEXT(seen(&b), "releasing cancel, stopped");
    CHECK_INT(b.a.life.job, 7);

    check_row("and sbatch refuses");
    b = c;
    refuse(&b, true);
    CHECK_TEXT(seen(&b), "over end, stopped, proven");

    check_row("and its answer is lost");
    b = c;
    tell(&b, FR_ALLOCATION_UNCLEAR);
    CHECK_TEXT(seen(&b), "releasing ask, stopped");
    for (int i = 0; i < 3; i++) {
        pass(&b, 60 * SECOND);
        answer(&b, NULL, NULL);
    }
    CHECK_TEXT(seen(&b), "over end, stopped, proven");

    check_row("and the engine dies");
    tell(&c, FR_ALLOCATION_LOADED);
    CHECK_TEXT(seen(&c), "releasing ask");
    b = c;
    answer(&c, "7 PENDING Priority", NULL);
    CHECK_TEXT(seen(&c), "releasing cancel, stopped");
    tell_job(&b, FR_ALLOCATION_CLAIMED, 7);
    CHECK_TEXT(seen(&b), "releasing ask cancel, stopped");
}

static void test_refusals(void)
{
    struct bed b = bed_in(FR_ALLOCATION_SUBMITTING);

    check_row("a limit");
    refuse(&b, true);
    CHECK_TEXT(seen(&b), "wanted");
    CHECK_TEXT(b.a.life.note, "Invalid account");
    CHECK_INT(b.now.due_ms, T0 + MINUTE);
    tell(&b, FR_ALLOCATION_MAY_ASK);
    CHECK_TEXT(seen(&b), "wanted");
    pass(&b, MINUTE);
    tell(&b, FR_ALLOCATION_DUE);
    CHECK_INT(b.now.due_ms, INT64_MAX);
    tell(&b, FR_ALLOCATION_MAY_ASK);
    CHECK_TEXT(seen(&b), "submitting submit");
    CHECK_TEXT(b.a.life.note, "");

    check_row("what an sbatch left that was refused is no job");
    refuse(&b, true);
    answer(&b, "7 FAILED BadConstraints", NULL);
    CHECK_TEXT(seen(&b), "wanted");

    check_row("for good");
    b = bed_in(FR_ALLOCATION_SUBMITTING);
    refuse(&b, false);
    CHECK_TEXT(b.a.life.note, "Invalid account");
    CHECK_INT(b.a.life.cause, FR_CAUSE_SUBMIT_FAILED);
}

static void test_twins(void)
{
    struct bed b = bed_in(FR_ALLOCATION_SUBMITTING), c;

    check_row("an earlier sbatch made the job that has the claim");
    tell_job(&b, FR_ALLOCATION_CLAIMED, 6);
    tell_job(&b, FR_ALLOCATION_SUBMITTED, 7);
    CHECK_TEXT(seen(&b), "queued twin 7");
    CHECK_INT(b.a.life.job, 6);

    check_row("of two that run, the claim decides");
    b = bed_in(FR_ALLOCATION_STARTING);
    answer(&b, "7 RUNNING None", "8 RUNNING None");
    CHECK_TEXT(seen(&b), "starting");
    c = b;
    tell_job(&b, FR_ALLOCATION_CLAIMED, 7);
    answer(&b, "7 RUNNING None", "8 RUNNING None");
    CHECK_TEXT(seen(&b), "starting twin 8");
    tell_job(&c, FR_ALLOCATION_CLAIMED, 8);
    CHECK_TEXT(seen(&c), "queued ask twin 7");
    answer(&c, "7 RUNNING None", "8 RUNNING None");
    CHECK_TEXT(seen(&c), "starting connect twin 7");
    CHECK_INT(c.a.life.job, 8);

    check_row("the twin that ends is not the allocation's end");
    answer(&c, "7 COMPLETED None", "8 RUNNING None");
    CHECK_TEXT(seen(&c), "starting");

    check_row("the end of the job that has the claim is, whatever else runs");
    answer(&c, "7 RUNNING None", "8 TIMEOUT TimeLimit");
    CHECK_TEXT(seen(&c), "over twin end 7, time_limit");

    check_row("both are cancelled when it is given back");
    b = bed_in(FR_ALLOCATION_QUEUED);
    tell(&b, FR_ALLOCATION_UNNEEDED);
    tell(&b, FR_ALLOCATION_CANCELLED);
    answer(&b, "7 CANCELLED JobHeldUser", "8 RUNNING None");
    CHECK_TEXT(seen(&b), "releasing cancel, stopped");
    CHECK_INT(b.a.life.job, 8);
    tell(&b, FR_ALLOCATION_CANCELLED);
    answer(&b, "7 CANCELLED JobHeldUser", "8 CANCELLED None");
    CHECK_TEXT(seen(&b), "over end, stopped");
}

static void test_requeue(void)
{
    static const enum fr_allocation_state states[] = {FR_ALLOCATION_STARTING, FR_ALLOCATION_UP};

    for (size_t i = 0; i < 2; i++) {
        struct bed b = bed_in(states[i]), c = b;
        struct fr_slurm_job later = job_of("7 RUNNING None");

        check_row("requeued, and waits");
        answer(&b, "7 PENDING BeginTime", NULL);
        CHECK_TEXT(seen(&b), "releasing cancel, preempted");
        CHECK_TEXT(b.a.life.note, "job 7 was requeued");
        tell(&b, FR_ALLOCATION_CANCELLED);
        answer(&b, "7 CANCELLED BeginTime", NULL);
        CHECK_TEXT(seen(&b), "over end, preempted");

        check_row("requeued, and runs again");
        later.start_wall += 121 * SECOND;
        answer_all(&c, &later, 1);
        CHECK_TEXT(seen(&c), "releasing cancel, preempted");

        check_row("requeued while nobody looked, after a crash");
        c = bed_in(states[i]);
        c = (struct bed){.a.life = c.a.life};
        tell(&c, FR_ALLOCATION_LOADED);
        answer_all(&c, &later, 1);
        CHECK_TEXT(seen(&c), "releasing cancel, preempted");
    }
}

/* The pauses between questions, in seconds, while Slurm answers the same. */
static const char *pauses(struct bed *b, const char *job, int n)
{
    static char text[300];
    size_t used = 0;

    for (int i = 0; i < n; i++) {
        answer(b, job, NULL);
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s", i > 0 ? " " : "",
                                 seen_at(b));
        pass(b, b->now.ask_ms - T0 - b->ms);
    }
    return text;
}

static void test_pace(void)
{
    struct bed b = bed_in(FR_ALLOCATION_QUEUED);

    check_row("after a submit, then while it waits");
    CHECK_TEXT(seen_at(&b), "5");
    pass(&b, 5 * SECOND);
    CHECK_TEXT(pauses(&b, "7 PENDING Priority", 20),
               "5 5 5 5 5 5 5 5 5 5 5 7 11 16 25 37 56 60 60 60");
    check_row("while keepers are waited for");
    CHECK_TEXT(pauses(&b, "7 RUNNING None", 3), "5 5 5");
    check_row("while it is up");
    tell(&b, FR_ALLOCATION_ALL_UP);
    CHECK_TEXT(seen_at(&b), "300");
    CHECK_TEXT(pauses(&b, "7 RUNNING None", 3), "300 300 300");
    check_row("at its limit, and after it");
    b.ms = 56 * MINUTE;
    CHECK_TEXT(pauses(&b, "7 RUNNING None", 3), "241 30 30");
    check_row("a lost link: at once, and then until it is back");
    b = bed_in(FR_ALLOCATION_UP);
    pass(&b, 100 * SECOND);
    CHECK_TEXT(pauses(&b, "7 RUNNING None", 1), "300");
    tell(&b, FR_ALLOCATION_AWAY);
    CHECK_TEXT(seen(&b), "up ask");
    tell(&b, FR_ALLOCATION_AWAY);
    CHECK_TEXT(seen(&b), "up");
    CHECK_TEXT(pauses(&b, "7 RUNNING None", 20), "5 5 5 5 5 5 5 5 5 5 5 5 7 11 16 25 37 56 60 60");
    tell(&b, FR_ALLOCATION_ALL_UP);
    CHECK_TEXT(pauses(&b, "7 RUNNING None", 1), "300");
}

static void test_cancel_pauses(void)
{
    struct bed b = bed_in(FR_ALLOCATION_UP);
    char text[100] = "";

    check_row("scancel is repeated");
    tell(&b, FR_ALLOCATION_UNNEEDED);
    CHECK_INT(b.now.due_ms, INT64_MAX); /* it runs */
    for (int i = 0; i < 6; i++) {
        size_t n = strlen(text);
        int64_t due;

        tell(&b, FR_ALLOCATION_CANCELLED);
        CHECK_TEXT(seen_at(&b), "1");
        due = b.now.due_ms;
        answer(&b, "7 COMPLETING None", NULL);
        CHECK_TEXT(seen(&b), i == 0 ? "releasing, stopped" : "releasing");
        CHECK_INT(b.now.due_ms, due);
        snprintf(text + n, sizeof(text) - n, "%lld ", (long long)(due - T0 - b.ms) / SECOND);
        pass(&b, due - T0 - b.ms);
        tell(&b, FR_ALLOCATION_DUE);
        CHECK_TEXT(seen(&b), "releasing cancel");
    }
    CHECK_TEXT(text, "10 20 40 80 120 120 ");

    check_row("after a crash not before Slurm has been asked");
    b = bed_in(FR_ALLOCATION_RELEASING);
    b = (struct bed){.a.life = b.a.life};
    tell(&b, FR_ALLOCATION_LOADED);
    CHECK_TEXT(seen(&b), "releasing ask");
    answer(&b, "7 RUNNING None", NULL);
    CHECK_TEXT(seen(&b), "releasing cancel");
    answer(&b, "7 RUNNING None", NULL);
    CHECK_TEXT(seen(&b), "releasing");
}

/* Slurm knows the job no more. */
static void test_forgotten(void)
{
    static const struct {
        enum fr_allocation_state state;
        bool closed;
        const char *want, *note;
    } ways[] = {
        {FR_ALLOCATION_QUEUED, false, "over end, start_failed",
         "job 7 is not known to Slurm any more and left no word"},
        {FR_ALLOCATION_STARTING, false, "over end, node_lost",
         "job 7 is not known to Slurm any more and left no word"},
        {FR_ALLOCATION_UP, false, "over end, node_lost",
         "job 7 is not known to Slurm any more and left no word"},
        {FR_ALLOCATION_UP, true, "over end, node_lost, proven",
         "job 7 is not known to Slurm any more"},
        {FR_ALLOCATION_RELEASING, true, "over end, stopped, proven",
         "job 7 is not known to Slurm any more"},
    };

    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        struct bed b = bed_in(ways[i].state);

        check_row(ways[i].want);
        b.a.cgroups = true; /* proves nothing of a job that Slurm has forgotten */
        if (ways[i].closed)
            tell(&b, FR_ALLOCATION_CLOSED);
        pass(&b, 10 * MINUTE);
        answer(&b, NULL, NULL);
        CHECK_INT(b.a.life.state, ways[i].state);
        CHECK_TEXT(seen_at(&b), "60");
        pass(&b, 60 * SECOND);
        answer(&b, NULL, NULL);
        CHECK_TEXT(seen(&b), ways[i].want);
        CHECK_TEXT(b.a.life.note, ways[i].note);
    }

    struct bed b = bed_in(FR_ALLOCATION_UP);
    check_row("all keepers closed although nobody cancelled the job");
    tell(&b, FR_ALLOCATION_CLOSED);
    answer(&b, "7 COMPLETED None", NULL);
    CHECK_INT(b.a.life.cause, FR_CAUSE_PREEMPTED);
    CHECK_TEXT(b.a.life.note, "job 7 was told to end, as by a preemption");
}

static void test_leased(void)
{
    static const char note[] = "job 7 ended itself, as its lease was over: nothing ran there, and "
                               "no flowrun spoke to it";
    static const struct {
        const char *name;
        enum fr_allocation_state state;
        const char *job, *want; /* job: NULL: Slurm has forgotten it */
    } ways[] = {
        {"that was up", FR_ALLOCATION_UP, "7 COMPLETED None", "over end, stopped, proven"},
        {"that was up, and is forgotten", FR_ALLOCATION_UP, NULL, "over end, stopped, proven"},
        {"that no engine has seen", FR_ALLOCATION_QUEUED, "7 COMPLETED None",
         "over end, start_failed, proven"},
        {"that no engine has seen, and is forgotten", FR_ALLOCATION_STARTING, NULL,
         "over end, start_failed, proven"},
        {"that is given back at the same time", FR_ALLOCATION_RELEASING, "7 COMPLETED None",
         "over end, stopped, proven"},
    };

    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        struct bed b = bed_in(ways[i].state);

        check_row(ways[i].name);
        pass(&b, 10 * MINUTE);
        apply(&b, &(struct fr_allocation_event){.kind = FR_ALLOCATION_CLOSED, .leased = true});
        answer(&b, ways[i].job, NULL);
        pass(&b, 60 * SECOND);
        if (ways[i].job == NULL)
            answer(&b, NULL, NULL);
        CHECK_TEXT(seen(&b), ways[i].want);
        if (ways[i].state != FR_ALLOCATION_RELEASING)
            CHECK(fr_has_prefix(b.a.life.note, note));
    }
}

static void test_keepers(void)
{
    struct bed b = bed_in(FR_ALLOCATION_STARTING), c, late;

    check_row("keepers that do not answer");
    CHECK_INT(b.now.due_ms, T0 + 5 * MINUTE);
    pass(&b, 5 * MINUTE);
    tell(&b, FR_ALLOCATION_DUE);
    CHECK_TEXT(seen(&b), "starting ask");
    c = late = b;
    answer(&b, "7 RUNNING None", NULL);
    CHECK_TEXT(seen(&b), "releasing cancel, start_failed");
    CHECK_TEXT(b.a.life.note, "job 7 runs, but not all of its places answered within 5 minutes: "
                              "flownode: no such file");
    check_row("where the driver gives them longer");
    c.a.connected = false;
    c.a.start_ms = 60 * MINUTE;
    answer(&c, "7 RUNNING None", NULL);
    CHECK_INT(c.now.due_ms, T0 + 65 * MINUTE);
    pass(&c, 60 * MINUTE);
    tell(&c, FR_ALLOCATION_DUE);
    answer(&c, "7 RUNNING None", NULL);
    CHECK_TEXT(seen(&c), "releasing cancel, start_failed");
    CHECK_TEXT(c.a.life.note, "job 7 runs, but not all of its places answered within 60 minutes: "
                              "flownode: no such file");
    c = late;
    check_row("but one that is suspended may take longer");
    answer(&c, "7 SUSPENDED None", NULL);
    CHECK_TEXT(seen(&c), "starting");
    check_row("hosts come with the action");
    b = bed_in(FR_ALLOCATION_QUEUED);
    answer(&b, "7 RUNNING None", NULL);
    CHECK(fr_str_is(b.now.hosts, "nid[1-2]"));
    CHECK_INT(b.a.life.end_wall, LIMIT);
    check_row("after a crash, places are connected anew");
    b = bed_in(FR_ALLOCATION_UP);
    b = (struct bed){.a.life = b.a.life};
    tell(&b, FR_ALLOCATION_LOADED);
    answer(&b, "7 RUNNING None", NULL);
    CHECK_TEXT(seen(&b), "up connect");
    answer(&b, "7 RUNNING None", NULL);
    CHECK_TEXT(seen(&b), "up");
}

static void test_proof(void)
{
    static const struct {
        const char *job;
        bool cgroups, closed, proven;
    } ways[] = {
        {"7 TIMEOUT TimeLimit", false, false, false},
        {"7 TIMEOUT TimeLimit", true, false, true},
        {"7 TIMEOUT TimeLimit", false, true, true},
        {"7 NODE_FAIL None", true, false, false},
        {"7 NODE_FAIL None", true, true, true},
        {"7 CANCELLED JobHeldUser", false, false, false},
    };

    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        struct bed b = bed_in(FR_ALLOCATION_UP);

        check_row(ways[i].job);
        b.a.cgroups = ways[i].cgroups;
        if (ways[i].closed)
            tell(&b, FR_ALLOCATION_CLOSED);
        answer(&b, ways[i].job, NULL);
        CHECK_INT(b.a.life.proven, ways[i].proven);
        CHECK_INT(b.a.life.ended_wall, LIMIT);
        CHECK_INT(b.a.life.elapsed_ms, LIMIT - W0);
        tell(&b, FR_ALLOCATION_CLOSED); /* the word of the keepers may come late */
        CHECK_INT(b.a.life.proven, true);
        CHECK_INT((b.now.actions & FR_ALLOCATION_DO_END) != 0, !ways[i].proven);
    }
}

static void test_notes(void)
{
    static const struct {
        enum fr_allocation_state state;
        const char *job, *note;
    } ways[] = {
        {FR_ALLOCATION_UP, "7 TIMEOUT TimeLimit", "job 7 reached its time limit"},
        {FR_ALLOCATION_UP, "7 CANCELLED None", "somebody else cancelled job 7"},
        {FR_ALLOCATION_UP, "7 PREEMPTED None", "job 7 was preempted"},
        {FR_ALLOCATION_UP, "7 COMPLETED None",
         "the keepers of job 7 ended: flownode: no such file"},
        {FR_ALLOCATION_QUEUED, "7 FAILED JobLaunchFailure",
         "job 7 failed (JobLaunchFailure): flownode: no such file"},
        {FR_ALLOCATION_RELEASING, "7 CANCELLED None", ""},
    };

    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        struct bed b = bed_in(ways[i].state);

        check_row(ways[i].note);
        answer(&b, ways[i].job, NULL);
        CHECK_TEXT(b.a.life.note, ways[i].note);
    }
}

static void test_queue_for(void)
{
    struct bed b = bed_in(FR_ALLOCATION_QUEUED);

    check_row("it waits for as long as it may, and not longer");
    b.a.queue_for_ms = 12 * SECOND;
    CHECK_TEXT(pauses(&b, "7 PENDING Priority", 3), "5 5 2");
    pass(&b, 2 * SECOND);
    answer(&b, "7 PENDING Priority", NULL);
    CHECK_TEXT(seen(&b), "releasing cancel, queue_time");
    CHECK_TEXT(b.a.life.note, "job 7 did not begin within queue_for (Priority)");
    answer(&b, "7 CANCELLED None", NULL);
    CHECK_INT(b.a.life.state, FR_ALLOCATION_OVER);
    CHECK_INT(b.a.life.cause, FR_CAUSE_QUEUE_TIME);
    check_row("a job that runs is not given up");
    b = bed_in(FR_ALLOCATION_QUEUED);
    b.a.queue_for_ms = 1;
    pass(&b, MINUTE);
    answer(&b, "7 RUNNING None", NULL);
    CHECK_INT(b.a.life.state, FR_ALLOCATION_STARTING);
}

static void test_waiting(void)
{
    struct bed b = bed_in(FR_ALLOCATION_QUEUED);

    check_row("why it waits, and until when");
    answer(&b, "7 PENDING Priority", NULL);
    CHECK(b.now.changed);
    CHECK_TEXT(b.a.life.slurm, "PENDING");
    CHECK_TEXT(b.a.life.reason, "Priority");
    CHECK_INT(b.a.life.estimate_wall, W0);
    answer(&b, "7 PENDING Priority", NULL);
    CHECK(!b.now.changed);
    answer(&b, "7 RUNNING None", NULL);
    CHECK_INT(b.a.life.estimate_wall, 0);
    CHECK_INT(b.a.life.start_wall, W0);
}

/* Slurm keeps no record of an element that is cancelled while it waits. */
static void test_element(void)
{
    struct bed b = bed_in(FR_ALLOCATION_QUEUED), c;

    b.a.life.element = 8;
    tell(&b, FR_ALLOCATION_UNNEEDED);
    CHECK_TEXT(seen(&b), "releasing cancel, stopped");
    c = b;
    check_row("before the scancel has ended, that it is not seen says nothing");
    answer(&c, NULL, NULL);
    CHECK_TEXT(seen(&c), "releasing");
    check_row("afterwards it never began");
    tell(&b, FR_ALLOCATION_CANCELLED);
    c = b;
    answer(&c, NULL, NULL);
    CHECK_TEXT(seen(&c), "over end, stopped, proven");
    check_row("unless a keeper has claimed it");
    c = b;
    tell_job(&c, FR_ALLOCATION_CLAIMED, 7);
    answer(&c, NULL, NULL);
    CHECK_TEXT(seen(&c), "releasing");
    check_row("nor where it ran");
    b = bed_in(FR_ALLOCATION_RELEASING);
    b.a.life.element = 8;
    answer(&b, NULL, NULL);
    CHECK_TEXT(seen(&b), "releasing");
    check_row("a job by itself is asked for once more");
    b = bed_in(FR_ALLOCATION_QUEUED);
    tell(&b, FR_ALLOCATION_UNNEEDED);
    tell(&b, FR_ALLOCATION_CANCELLED);
    answer(&b, NULL, NULL);
    CHECK_TEXT(seen(&b), "releasing");
    check_row("its name");
    b = bed_in(FR_ALLOCATION_UP);
    b.a.life.element = 8;
    answer(&b, "7 TIMEOUT TimeLimit", NULL);
    CHECK_TEXT(b.a.life.note, "job 7_7 reached its time limit");
}

/* A limit that fewer elements may fit into is tried again at once. */
static void test_soon(void)
{
    struct bed b = bed_in(FR_ALLOCATION_SUBMITTING);

    apply(&b, &(struct fr_allocation_event){.kind = FR_ALLOCATION_REFUSED,
                                            .transient = true,
                                            .soon = true,
                                            .text = FR_STR("QOSMaxSubmitJobPerUserLimit\n")});
    CHECK_TEXT(seen(&b), "wanted");
    tell(&b, FR_ALLOCATION_MAY_ASK);
    CHECK_TEXT(seen(&b), "submitting submit");
    refuse(&b, true);
    pass(&b, 59 * SECOND);
    tell(&b, FR_ALLOCATION_MAY_ASK);
    CHECK_TEXT(seen(&b), "wanted");
}

int main(void)
{
    test_lost_answer();
    test_late_job();
    test_unneeded_early();
    test_refusals();
    test_twins();
    test_requeue();
    test_pace();
    test_cancel_pauses();
    test_forgotten();
    test_leased();
    test_keepers();
    test_proof();
    test_notes();
    test_queue_for();
    test_waiting();
    test_element();
    test_soon();
    return check_done();
}
