/* run_if:, states: and skip_with: what becomes of the tasks of a run, step by step, over a restart
 * and a retry. One instance a task, where nothing else is said: instance i is of task i. */
#include "engine/base/sys.h"
#include "engine/sched/verdict.h"
#include "tests/unit/sched/sched_bench.h"

#define UP "begin up.0 "

static const struct {
    const char *name, *spec, *script;
    const char *want; /* the run's outcome, then a letter an instance, as status shows them */
} rows[] = {
    {"success: a failure goes down", "a; b: a", UP "exit1.0", "failed fp"},
    {"success: what was skipped is none", "a: when; b: a", UP "no.0 exit0.1", "succeeded ks"},
    {"success: nor what is best_effort", "a: best; b: a", UP "exit1.0 exit0.1", "succeeded fs"},
    {"failure: not after a success", "a; h: a onfail", UP "exit0.0", "succeeded sk"},
    {"failure: after a failure, which stays one", "a; h: a onfail", UP "exit1.0 exit0.1",
     "failed fs"},
    {"failure: of what is best_effort: the run succeeds", "a: best; h: a onfail",
     UP "exit1.0 exit0.1", "succeeded fs"},
    {"failure: of something above", "a; b: a; h: b onfail", UP "exit1.0 exit0.2", "failed fps"},
    {"failure: one of two", "a; b; h: a b onfail", UP "exit0.0 exit1.1 exit0.2", "failed sfs"},
    {"failure: waits for all", "a; b; h: a b onfail", UP "exit1.0", " faw"},
    {"failure: not of what was skipped", "a: when; h: a onfail", UP "no.0", "succeeded kk"},
    {"failure: what needs the handler", "a; h: a onfail; z: h", UP "exit0.0 exit0.2",
     "succeeded sks"},
    {"failure: without needs", "h: onfail", "begin", "succeeded k"},
    {"failure: of one instance of three", "a: items=3; h: a onfail",
     UP "exit0.0 exit1.1 exit0.2 exit0.3", "failed sfss"},
    {"failure: item by item", "a: items=3; h: items=3 =a onfail",
     UP "exit0.0 exit1.1 exit0.2 exit0.4", "failed sfsksk"},
    {"failure: not of an item that fail_fast cancelled",
     "a: items=2 fast best par=1; h: items=2 =a onfail", UP "exit1.0 exit0.2", "succeeded fcsk"},
    {"failure: … which the whole task has, too", "a: items=2 fast best par=1; h: a onfail",
     UP "exit1.0 exit0.2", "succeeded fcs"},
    {"success: nor after one", "a: items=2 fast par=1; h: items=2 =a", UP "exit1.0", "failed fcpp"},
    {"any: one succeeded", "a; b; c: a b any", UP "exit0.0 exit1.1 exit0.2", "failed sfs"},
    {"any: waits for all", "a; b; c: a b any", UP "exit0.0", " saw"},
    {"any: none did", "a; b; c: a b any", UP "exit1.0 exit1.1", "failed ffp"},
    {"any: none did, and none failed", "a: when; b: when; c: a b any", UP "no.0 no.1",
     "succeeded kkk"},
    {"any: none did, and all are best_effort", "a: best; c: a any", UP "exit1.0", "succeeded fk"},
    {"any: a task without rows is none", "a; e: items=0; c: e any", UP "exit0.0", "succeeded ssk"},
    {"any: one instance of three", "a: items=3; c: a any", UP "exit1.0 exit0.1 exit1.2 exit0.3",
     "failed fsfs"},
    {"any: item by item", "a: items=2; c: items=2 =a any", UP "exit1.0 exit0.1 exit0.3",
     "failed fsps"},
    {"always: after a failure", "a; c: a ended", UP "exit1.0 exit0.1", "failed fs"},
    {"always: after a success", "a; c: a ended", UP "exit0.0 exit0.1", "succeeded ss"},
    {"states: a success only", "a: when; b: a/s", UP "no.0", "succeeded kk"},
    {"states: … which fails", "a; b: a/s", UP "exit1.0", "failed fp"},
    {"states: … but is best_effort", "a: best; b: a/s", UP "exit1.0", "succeeded fk"},
    {"states: a failure", "a; b: a/f", UP "exit1.0 exit0.1", "failed fs"},
    {"states: … that is none", "a; b: a/f", UP "exit0.0", "succeeded sk"},
    {"states: another one", "a; b: a; c: b/f", UP "exit1.0", "failed fpp"},
    {"states: beside a need without", "a; b; c: a/f b", UP "exit1.0 exit1.1", "failed ffp"},
    {"states: … which is well", "a; b; c: a/f b", UP "exit1.0 exit0.1 exit0.2", "failed fss"},
    {"states: are not counted by failure", "a; b; c: a/f b onfail", UP "exit1.0 exit0.1",
     "failed fsk"},
    {"states: nor by always", "a; b; c: a/f b ended", UP "exit0.0 exit1.1", "failed sfk"},
    {"states: the worst of three", "a: items=3; b: a/s", UP "exit0.0 exit1.1 exit0.2",
     "failed sfsp"},
    {"states: of an item", "a: items=2; b: items=2 =a/f", UP "exit1.0 exit0.1 exit0.2",
     "failed fssk"},
    {"states: of a task without rows", "a: items=0; b: a/s", UP "exit0.1", "succeeded ss"},
    {"skip_with: it was skipped", "a: when; b: a~; c: b", UP "no.0 exit0.2", "succeeded kks"},
    {"skip_with: it was not", "a: when; b: a~", UP "yes.0 exit0.0 exit0.1", "succeeded ss"},
    {"skip_with: and another one failed", "a: when; b; c: a~ b", UP "no.0 exit1.1", "failed kfp"},
    {"skip_with: before always", "a: when; b; c: a~ b ended", UP "no.0 exit1.1", "failed kfk"},
    {"skip_with: some instances were", "a: items=2 when; b: a~", UP "no.0 yes.1 exit0.1 exit0.2",
     "succeeded kss"},
    {"skip_with: all were", "a: items=2 when; b: a~", UP "no.0 no.1", "succeeded kkk"},
    {"skip_with: item by item", "a: items=2 when; b: items=2 =a~", UP "no.0 yes.1 exit0.1 exit0.3",
     "succeeded ksks"},
    {"a gang is skipped as one", "a; g: a onfail @all gang", UP "exit0.0", "succeeded skkk"},
    {"a task without rows is skipped", "a; e: a onfail items=0; b: e~", UP "exit0.0",
     "succeeded skk"},
    {"… or has failed with what it needs", "a; e: a items=0; b: e", UP "exit1.0", "failed fpp"},
    {"… or has succeeded after a failure", "a; e: a ended items=0; b: e", UP "exit1.0 exit0.2",
     "failed fss"},
    {"… without its when, on all nodes, and as no gang", "e: items=0 when @all gang; b: e",
     UP "exit0.1", "succeeded ss"},
    {"… or is cancelled before", "a; e: a items=0; b: e", UP "cancel stopped.0", "cancelled ccc"},
    {"… and joined to another one", "a; e: items=0; f: a items=0 =e; b: f", UP "exit0.0 exit0.3",
     "succeeded ssss"},
    {"the rules come before when", "a; b: a onfail when", UP "exit0.0", "succeeded sk"},
    {"… which may still say no", "a; b: a onfail when", UP "exit1.0 no.1", "failed fk"},
    {"no handler of a run that is cancelled", "a; h: a ended", UP "cancel stopped.0",
     "cancelled cc"},
    {"resume: before the end of the last need", "a; b; h: a b onfail",
     UP "exit1.0 restart resume up.0 exit0.1 exit0.2", "failed fss"},
    {"resume: a task without rows that was skipped", "a; e: a onfail items=0; c; b: c e~",
     UP "exit0.0 restart resume up.0 exit0.2", "succeeded sksk"},
    {"resume: … that waits", "a; e: a items=0; b: e", UP "restart resume up.0 exit0.0 exit0.2",
     "succeeded sss"},
    {"retry: a task without rows follows", "a; e: a items=0; b: e",
     UP "exit1.0 retry exit0.0 exit0.2", "succeeded sss"},
    {"retry: the handler is decided anew", "a; h: a onfail; z: h",
     UP "exit1.0 exit0.1 exit0.2 retry exit0.0 exit0.2", "succeeded sks"},
    {"retry: … and runs again", "a; h: a onfail", UP "exit1.0 exit0.1 retry exit1.0 exit0.1",
     "failed fs"},
    {"retry: of a handler that failed", "a: best; h: a onfail", UP "exit1.0 exit1.1 retry exit0.1",
     "succeeded fs"},
    {"retry: what was skipped may run", "a; h: a/s", UP "exit1.0 retry exit0.0 exit0.1",
     "succeeded ss"},
    {"retry: item by item", "a: items=2; h: items=2 =a onfail",
     UP "exit1.0 exit0.1 exit0.2 retry exit0.0", "succeeded sskk"},
};

/* The end of a run, if it has one, and the letters of its instances. */
static void show(const struct bench *b, struct fr_buf *out)
{
    struct fr_run_now now = fr_sched_now(b->s);

    fr_buf_fmt(out, "%s ", now.state == FR_RUN_OVER ? fr_outcome_name(now.outcome) : "");
    for (uint32_t i = 0; i < b->plan->n_insts; i++)
        fr_buf_fmt(out, "%c", fr_state_letter(fr_sched_row(b->s, i, b->now_ms).state));
}

/* Which need decides, for the reason that is shown. */
static const struct {
    const char *name, *spec, *script;
    uint32_t inst;
    struct fr_verdict want;
} whys[] = {
    {"the first that failed", "a; b; c: a b", UP "exit0.0 exit1.1", 2, {FR_VERDICT_FAIL, 1, false}},
    {"none alone",
     "a; b; c: a b onfail",
     UP "exit0.0 exit0.1",
     2,
     {FR_VERDICT_SKIP, FR_PLAN_NONE, false}},
    {"skip_with", "a: when; b: a~", UP "no.0", 1, {FR_VERDICT_SKIP, 0, true}},
    {"states", "a; b; c: a b/f", UP "exit0.0 exit0.1", 2, {FR_VERDICT_SKIP, 1, false}},
    {"a failure before a skip",
     "a: when; b; c: a~ b",
     UP "no.0 exit1.1",
     2,
     {FR_VERDICT_FAIL, 1, false}},
    {"not yet", "a; b; c: a b", UP "exit0.0", 2, {FR_VERDICT_WAIT, 1, false}},
    {"it runs", "a; b: a", UP "exit0.0", 1, {FR_VERDICT_RUN, FR_PLAN_NONE, false}},
};

int main(void)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fr_buf got = {0};
        struct bench b;

        check_row(rows[i].name);
        bench_init(&b, rows[i].spec);
        say_all(&b, rows[i].script);
        show(&b, &got);
        CHECK_TEXT(got.p, rows[i].want);
        CHECK_TEXT(b.seen.n > 0 ? b.seen.p : "", "");
        fr_buf_finish(&got);
        bench_finish(&b);
    }
    for (size_t i = 0; i < sizeof(whys) / sizeof(whys[0]); i++) {
        struct fr_verdict got;
        struct bench b;

        check_row(whys[i].name);
        bench_init(&b, whys[i].spec);
        say_all(&b, whys[i].script);
        got = fr_sched_verdict(b.s, whys[i].inst);
        CHECK_INT(got.kind, whys[i].want.kind);
        CHECK_INT(got.need, whys[i].want.need);
        CHECK_INT(got.with, whys[i].want.with);
        bench_finish(&b);
    }
    return check_done();
}
