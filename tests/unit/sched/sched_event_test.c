/*
 * Single events against a scheduler: what each makes it do, as a list of actions. A step of a
 * script is an event; behind it stands what must follow ("stop:a@n1#1" …).
 */
#include "engine/base/sys.h"
#include "tests/unit/sched/sched_bench.h"

static const char *act_name(enum fr_act_kind kind)
{
    static const char *const names[] = {
        "past", "eval",  "expand", "row",       "run",    "connect", "start",  "prepare", "go",
        "stop", "other", "query",  "tombstone", "attach", "ack",     "forget", "over"};

    return names[kind];
}

static void see(struct bench *b)
{
    for (size_t i = 0; i < b->acts.n; i++) {
        const struct fr_act *a = &b->acts.v[i];

        fr_buf_fmt(&b->seen, "%s%s", b->seen.n ? " " : "", act_name(a->kind));
        if (a->kind == FR_ACT_ROW)
            fr_buf_fmt(&b->seen, ":%s=%s%s%s%s", b->plan->insts[a->inst].key,
                       fr_state_name(a->row.state), a->row.unreachable ? "?" : "",
                       a->row.live ? "!" : "", a->row.blocked ? "~" : "");
        else if (a->kind == FR_ACT_CONNECT)
            fr_buf_fmt(&b->seen, ":%s", b->plan->nodes[a->node].name);
        else if (a->kind == FR_ACT_ROW_RUN || a->kind == FR_ACT_OVER)
            fr_buf_fmt(&b->seen, ":%s/%s", fr_run_state_name(a->run.state),
                       fr_outcome_name(a->run.outcome));
        else
            fr_buf_fmt(&b->seen, ":%s#%u%s", b->plan->insts[a->inst].key, a->attempt_no,
                       a->kind == FR_ACT_START && a->booked ? "(booked)" : "");
    }
    b->acts.n = 0;
}

#define MINUTE "+10000 tick +10000 tick +10000 tick +10000 tick +10000 tick +10000 tick "

/* What follows from the words behind the '|'; those before it only lead there. */
static const struct {
    const char *row, *spec, *script, *want;
} rows[] = {
    {"begin", "a; b: a", "| begin", "run:running/ row:a@n1=ready connect:n1"},
    {"a start is committed first", "a", "begin | up.0", "row:a@n1=starting! start:a@n1#1"},
    {"blocked: what would get ready waits", "a; b: a", "block.0 | begin",
     "run:running/ row:a@n1=waiting~"},
    {"blocked: what it needs comes first", "a; b: a", "block.1 | begin",
     "run:running/ row:a@n1=ready connect:n1"},
    {"blocked: it takes no slot of the others", "a: slots=8; b", "block.0 begin | up.0",
     "row:b@n1=starting! start:b@n1#1"},
    {"blocked: no longer", "a", "block.0 begin | free.0", "row:a@n1=ready connect:n1"},
    {"blocked: not looked at by other events", "a; b", "block.0 begin up.0 | tick exit0.1",
     "ack:b@n1#1 row:b@n1=succeeded"},
    {"blocked: for something else", "a", "block.0 begin | block.0", "row:a@n1=waiting~"},
    {"blocked: before it is tried again", "a: retry=1 delay=1",
     "begin up.0 exit1.0 block.0 +1 | tick", "row:a@n1=waiting~"},
    {"blocked: no longer, and tried again", "a: retry=1 delay=1",
     "begin up.0 exit1.0 block.0 +1 tick | free.0",
     "row:a@n1=ready row:a@n1=starting! start:a@n1#2"},
    {"blocked: a gang as a whole", "g: @all gang", "block.0 begin | free.0",
     "row:g@n1=ready row:g@n2=ready row:g@n3=ready connect:n1 connect:n2 connect:n3"},
    {"blocked: what is ready stays so", "a", "begin block.0 | up.0",
     "row:a@n1=starting! start:a@n1#1"},
    {"blocked: cancelled", "a", "block.0 begin | cancel",
     "run:cancelling/ row:a@n1=cancelled run:hooks/cancelled run:over/cancelled "
     "over:over/cancelled"},
    {"blocked: resumed when it was ready", "a", "begin restart block.0 | resume",
     "row:a@n1=waiting~"},
    {"blocked: resumed, and its start may be there", "a", "begin up.0 restart block.0 | resume",
     "connect:n1"},
    {"blocked: its start never came there", "a",
     "begin up.0 restart block.0 resume up.0 | forgot.0", "tombstone:a@n1#1"},
    {"blocked: it came, and nothing began", "a",
     "begin up.0 restart block.0 resume up.0 | prepared.0", "tombstone:a@n1#1"},
    {"blocked: it was booked", "a: slots=8; b", "begin up.0 restart block.1 resume up.0 | forgot.1",
     "tombstone:b@n1#1"},
    {"blocked: proven never to start, it waits", "a",
     "begin up.0 restart block.0 resume up.0 forgot.0 | tombstoned.0", "row:a@n1=waiting~"},
    {"blocked: it had begun", "a", "begin up.0 restart block.0 resume up.0 | launched.0",
     "row:a@n1=running! attach:a@n1#1"},
    {"end and acknowledgement", "a", "begin up.0 launched.0 | exit0.0",
     "ack:a@n1#1 row:a@n1=succeeded run:hooks/succeeded run:over/succeeded over:over/succeeded"},
    {"an end told twice", "a; b: a", "begin up.0 exit0.0 | exit0.0", "ack:a@n1#1"},
    {"unproven is not acknowledged", "a; b", "begin up.0 | stuck.0", "row:a@n1=stop_unproven"},
    {"proven late", "a; b", "begin up.0 stuck.0 | stopped.0", "row:a@n1=stop_unproven ack:a@n1#1"},
    {"unreachable is a flag", "a", "begin up.0 launched.0 | down.0", "row:a@n1=running?!"},
    {"back: flag off, asked", "a", "begin up.0 launched.0 down.0 | up.0",
     "row:a@n1=running! query:a@n1#1"},
    {"nothing starts on a node without link", "a; b", "begin down.0 |", ""},
    {"lost_after: not yet", "a: lost=5000", "begin up.0 launched.0 down.0 +14999 | tick", ""},
    {"lost_after: T and a margin", "a: lost=5000 retry=1 delay=500",
     "begin up.0 launched.0 down.0 +15000 | tick", "stop:a@n1#1 row:a@n1=retrying"},
    {"never lost by itself", "a", "begin up.0 launched.0 down.0 +999999999 | tick", ""},
    {"lost_after: counted anew", "a: lost=5000",
     "begin up.0 launched.0 down.0 +9000 up.0 +9000 | tick", ""},
    {"abandon", "a: retry=1 delay=1", "begin up.0 launched.0 down.0 | abandon.0",
     "stop:a@n1#1 row:a@n1=retrying"},
    {"its allocation is taken back", "a: retry=1 delay=1",
     "begin up.0 launched.0 down.0 | preempt.0", "stop:a@n1#1 row:a@n1=retrying"},
    {"… and another follows, at once", "a: chain=1 delay=500", "begin up.0 launched.0 | preempt.0",
     "stop:a@n1#1 row:a@n1=retrying row:a@n1=ready row:a@n1=starting! start:a@n1#2"},
    {"… as often as chain: says, also after a resume", "a: chain=1",
     "begin up.0 launched.0 preempt.0 restart resume up.0 launched.0 | preempt.0",
     "stop:a@n1#2 row:a@n1=failed run:hooks/failed run:over/failed over:over/failed"},
    {"… without a try of retry:", "a: chain=1 retry=1 delay=500",
     "begin up.0 launched.0 preempt.0 launched.0 | exit1.0", "ack:a@n1#2 row:a@n1=retrying"},
    {"… after no other end", "a: chain=1", "begin up.0 launched.0 | exit1.0",
     "ack:a@n1#1 row:a@n1=failed run:hooks/failed run:over/failed over:over/failed"},
    {"… a user's retry begins the chain anew", "a: chain=1",
     "begin up.0 launched.0 preempt.0 launched.0 preempt.0 retry launched.0 | preempt.0",
     "stop:a@n1#3 row:a@n1=retrying row:a@n1=ready row:a@n1=starting! start:a@n1#4"},
    {"… and a gang has one", "a: @all gang chain=1 retry=1 delay=500",
     "begin up.0 up.1 up.2 prepared.0 prepared.1 prepared.2 launched.0 launched.1 launched.2 "
     "preempt.0 preempt.1 | preempt.2",
     "stop:a@n3#1 row:a@n3=stopping row:a@n1=retrying row:a@n2=retrying row:a@n3=retrying "
     "row:a@n1=ready row:a@n2=ready row:a@n3=ready row:a@n1=starting! row:a@n2=starting! "
     "row:a@n3=starting! prepare:a@n1#2 prepare:a@n2#2 prepare:a@n3#2"},
    {"its allocation is taken back: it may run on", "a: retry=1 delay=1",
     "begin up.0 launched.0 down.0 | vanish.0",
     "stop:a@n1#1 row:a@n1=stop_unproven run:hooks/failed run:over/failed over:over/failed"},
    {"abandon what is being stopped", "a; b: a", "begin up.0 launched.0 cancel | abandon.0",
     "stop:a@n1#1 row:a@n1=lost run:hooks/cancelled run:over/cancelled over:over/cancelled"},
    {"busy: the other is stopped first", "a", "begin up.0 | busy.0", "other:a@n1#1"},
    {"cleared: again", "a", "begin up.0 busy.0 | cleared.0", "start:a@n1#1"},
    {"cleared when cancelled", "a", "begin up.0 busy.0 cancel | cleared.0", "stop:a@n1#1"},
    {"cleared in a gang", "a: @all gang", "begin up.0 up.1 up.2 busy.1 | cleared.1",
     "prepare:a@n2#1"},
    {"what waits for a slot is booked", "a: slots=8; b; c: a", "begin | up.0",
     "row:a@n1=starting! start:a@n1#1 row:b@n1=ready!"},
    {"booked: it starts when a slot is free", "a: slots=8; b", "begin up.0 | exit0.0",
     "ack:a@n1#1 row:a@n1=succeeded row:b@n1=starting! start:b@n1#1(booked)"},
    {"booked: what is more urgent goes first", "a: slots=8; b: slots=8; c: a slots=8; d: c; e: d",
     "begin up.0 | exit0.0",
     "ack:a@n1#1 row:a@n1=succeeded row:c@n1=ready row:c@n1=starting! start:c@n1#1"},
    {"booked: cancelled: forgotten", "a: slots=8; b", "begin up.0 | cancel",
     "run:cancelling/ row:a@n1=stopping! stop:a@n1#1 forget:b@n1#1 row:b@n1=cancelled"},
    {"booked: its node is refused", "a: slots=8; b", "begin up.0 | refused.0",
     "forget:b@n1#1 row:b@n1=failed"},
    {"booked: a link that comes and goes is nothing to it", "a: slots=8; b",
     "begin up.0 down.0 | up.0", "row:a@n1=starting! query:a@n1#1"},
    {"booked: the user gives the node up", "a: slots=8; b", "begin up.0 | abandon.0",
     "stop:a@n1#1 row:a@n1=lost row:b@n1=starting! start:b@n1#1(booked)"},
    {"booked: a resume asks", "a: slots=8; b", "begin up.0 restart resume | up.0",
     "query:b@n1#1 query:a@n1#1"},
    {"booked: a resume that finds it running", "a: slots=8; b",
     "begin up.0 restart resume up.0 | launched.1", "row:b@n1=running! attach:b@n1#1"},
    {"booked: a resume that finds it nowhere waits for a slot", "a: slots=8; b",
     "begin up.0 restart resume up.0 | forgot.1 exit0.0",
     "row:b@n1=ready! ack:a@n1#1 row:a@n1=succeeded row:b@n1=starting! start:b@n1#1(booked)"},
    {"booked: a resume that finds it prepared, and nobody who starts it, gives no slot away",
     "a: slots=8; b", "begin up.0 restart resume up.0 | still.1 exit0.0",
     "tombstone:b@n1#1 ack:a@n1#1 row:a@n1=succeeded"},
    {"booked: … before it is sure that nobody will", "a: slots=8; b",
     "begin up.0 restart resume up.0 still.1 | tombstoned.1", "row:b@n1=ready"},
    {"booked: … and it may be launched until then", "a: slots=8; b",
     "begin up.0 restart resume up.0 still.1 | launched.1", "row:b@n1=running!"},
    {"lent: nothing starts without a slot", "a", "begin lend0.0 | up.0", ""},
    {"lent: it starts with one", "a; b", "begin lend0.0 up.0 | lend1.0",
     "row:a@n1=starting! start:a@n1#1 row:b@n1=ready!"},
    {"lent: less than is in use stops nothing", "a; b", "begin lend2.0 up.0 | lend0.0", ""},
    {"lent: a free slot is used again", "a; b", "begin lend1.0 up.0 | exit0.0",
     "ack:a@n1#1 row:a@n1=succeeded row:b@n1=starting! start:b@n1#1(booked)"},
    {"lent: contended, it is given back", "a; b", "begin lend1.0 up.0 share1.0 | exit0.0",
     "ack:a@n1#1 row:a@n1=succeeded"},
    {"lent: … until it is lent again", "a; b", "begin share1.0 up.0 exit0.0 | share1.0",
     "row:b@n1=starting! start:b@n1#1(booked)"},
    {"lent: a gang waits for all of its slots", "a: @all gang",
     "begin lend0.1 up.0 up.1 up.2 | lend1.1",
     "row:a@n1=starting! row:a@n2=starting! row:a@n3=starting! prepare:a@n1#1 prepare:a@n2#1 "
     "prepare:a@n3#1"},
    {"gang: prepared by all, then go", "a: @all gang",
     "begin up.0 up.1 up.2 prepared.0 prepared.1 | prepared.2",
     "row:a@n1=starting! row:a@n2=starting! row:a@n3=starting! go:a@n1#1 go:a@n2#1 go:a@n3#1"},
    {"gang: prepared counts once", "a: @all gang",
     "begin up.0 up.1 up.2 prepared.0 prepared.0 | prepared.0 prepared.1", ""},
    {"gang: waits for every link", "a: @all gang", "begin up.0 up.1 | tick", ""},
    {"cancel waits for the proof", "a; b: a", "begin up.0 launched.0 | cancel",
     "run:cancelling/ row:a@n1=stopping! stop:a@n1#1 row:b@n1=cancelled"},
    {"cancel: finished before the signal", "a", "begin up.0 launched.0 cancel | exit0.0",
     "ack:a@n1#1 row:a@n1=succeeded run:hooks/cancelled run:over/cancelled over:over/cancelled"},
    {"launched while stopping: stopped again", "a", "begin up.0 cancel | launched.0",
     "stop:a@n1#1"},
    {"resume: what may live is asked for", "a; b: a", "begin up.0 launched.0 restart | resume",
     "connect:n1"},
    {"resume: asked once connected", "a; b: a", "begin up.0 launched.0 restart resume | up.0",
     "query:a@n1#1"},
    {"resume: it lives", "a; b: a", "begin up.0 launched.0 restart resume up.0 | launched.0",
     "attach:a@n1#1"},
    {"resume: launched meanwhile", "a", "begin up.0 restart resume up.0 | launched.0",
     "row:a@n1=running! attach:a@n1#1"},
    {"resume: unknown there: the same attempt is sent again", "a",
     "begin up.0 restart resume up.0 | forgot.0", "start:a@n1#1"},
    {"resume: … but where too many slots are in use, it waits for one", "a",
     "begin up.0 restart resume up.0 over1.0 | forgot.0", "row:a@n1=ready!"},
    {"resume: … once it is sure that what was prepared does not start", "a",
     "begin up.0 restart resume up.0 over1.0 | still.0", "tombstone:a@n1#1"},
    {"resume: … but where there are enough, what was prepared is sent again", "a",
     "begin up.0 restart resume up.0 | still.0", "start:a@n1#1"},
    {"resume: … until it is lent one", "a",
     "begin up.0 restart resume up.0 over1.0 forgot.0 | lend1.0",
     "row:a@n1=starting! start:a@n1#1(booked)"},
    {"resume: … unless it is this process that has sent it", "a",
     "begin up.0 over1.0 down.0 up.0 | forgot.0", "start:a@n1#1"},
    {"resume: … and that others wait is no reason", "a",
     "begin up.0 restart resume up.0 share1.0 | forgot.0", "start:a@n1#1"},
    {"resume: a member unknown there, likewise", "a: @all gang",
     "begin up.0 up.1 up.2 restart resume up.0 up.1 up.2 | forgot.1", "prepare:a@n2#1"},
    {"resume: … but where too many slots are in use, it never starts", "a: @all gang",
     "begin up.0 up.1 up.2 restart resume up.0 up.1 up.2 over1.1 | forgot.1", "tombstone:a@n2#1"},
    {"resume: … nor when its node is asked once more", "a: @all gang",
     "begin up.0 up.1 up.2 restart resume up.0 up.1 up.2 over1.1 forgot.1 down.1 up.1 | forgot.1",
     "tombstone:a@n2#1"},
    {"resume: … and its gang waits for slots", "a: @all gang",
     "begin up.0 up.1 up.2 restart resume up.0 up.1 up.2 over1.1 forgot.1 tombstoned.1 stopped.0 | "
     "stopped.2",
     "ack:a@n3#1 row:a@n3=stopping row:a@n1=ready row:a@n2=ready row:a@n3=ready"},
    {"resume: … until it is lent them", "a: @all gang",
     "begin up.0 up.1 up.2 restart resume up.0 up.1 up.2 over1.1 forgot.1 tombstoned.1 stopped.0 "
     "stopped.2 | lend1.1",
     "row:a@n1=starting! row:a@n2=starting! row:a@n3=starting! prepare:a@n1#2 prepare:a@n2#2 "
     "prepare:a@n3#2"},
    {"resume: … unless it is this process that has sent it to the member's node", "a: @all gang",
     "begin up.0 up.1 up.2 over1.1 down.1 up.1 | forgot.1", "prepare:a@n2#1"},
    {"resume: but not once its gang may go: its port is known to the others", "a: @all gang",
     "begin up.0 up.1 up.2 prepared.0 prepared.1 prepared.2 restart resume up.1 | forgot.1",
     "tombstone:a@n2#1"},
    {"resume: running, and unknown there: a tombstone first", "a",
     "begin up.0 launched.0 restart resume up.0 | forgot.0", "tombstone:a@n1#1"},
    {"resume: unknown there while stopping: a tombstone", "a",
     "begin up.0 cancel restart resume up.0 | forgot.0", "tombstone:a@n1#1"},
    {"resume: never started: again, free", "a",
     "begin up.0 restart resume up.0 forgot.0 | tombstoned.0",
     "row:a@n1=ready row:a@n1=starting! start:a@n1#2"},
    {"resume: running, and unknown there", "a",
     "begin up.0 launched.0 restart resume up.0 forgot.0 | tombstoned.0",
     "row:a@n1=lost run:hooks/failed run:over/failed over:over/failed"},
    {"resume: rebooted: lost, and proven", "a", "begin up.0 restart resume up.0 | rebooted.0",
     "stop:a@n1#1 row:a@n1=lost run:hooks/failed run:over/failed over:over/failed"},
    {"resume: home wiped: stopped by marker", "a", "begin up.0 restart resume up.0 | wiped.0",
     "row:a@n1=stopping! stop:a@n1#1"},
    {"resume: … and lost", "a: retry=1", "begin up.0 restart resume up.0 wiped.0 | stopped.0",
     "ack:a@n1#1 row:a@n1=retrying"},
    {"resume: a stop goes on", "a", "begin up.0 launched.0 cancel restart resume up.0 | launched.0",
     "stop:a@n1#1 attach:a@n1#1"},
    {"resume: ready starts", "a; b", "begin restart resume | up.0",
     "row:a@n1=starting! start:a@n1#1 row:b@n1=starting! start:b@n1#1"},
    {"resume: back-off goes on", "a: retry=1 delay=1000",
     "begin up.0 exit1.0 +400 restart resume +599 tick up.0 +1 | tick",
     "row:a@n1=ready row:a@n1=starting! start:a@n1#2"},
    {"resume: a gang before go", "a: @all gang",
     "begin up.0 up.1 up.2 prepared.0 prepared.1 restart resume up.0 up.1 up.2 prepared.0 "
     "prepared.2 | prepared.1",
     "row:a@n1=starting! row:a@n2=starting! row:a@n3=starting! go:a@n1#1 go:a@n2#1 go:a@n3#1"},
    {"resume: a gang after go", "a: @all gang",
     "begin up.0 up.1 up.2 prepared.0 prepared.1 prepared.2 restart resume up.0 up.1 | prepared.1",
     "go:a@n2#1"},
    {"resume: a member never started: all anew, free", "a: @all gang",
     "begin up.0 up.1 up.2 restart resume up.0 up.1 up.2 forgot.1 tombstoned.1 stopped.0 | "
     "stopped.2",
     "ack:a@n3#1 row:a@n3=stopping row:a@n1=ready row:a@n2=ready row:a@n3=ready "
     "row:a@n1=starting! row:a@n2=starting! row:a@n3=starting! prepare:a@n1#2 prepare:a@n2#2 "
     "prepare:a@n3#2"},
    {"resume: a held member waits on", "a: @n1; g: @all gang",
     "begin up.0 up.1 up.2 exit0.0 prepared.1 prepared.2 prepared.3 exit0.1 exit0.2 restart resume "
     "up.2 | exit0.3",
     "ack:g@n3#1 row:g@n1=succeeded row:g@n2=succeeded row:g@n3=succeeded run:hooks/succeeded "
     "run:over/succeeded over:over/succeeded"},
    {"resume of a run that is over", "a", "begin up.0 exit0.0 restart | resume", ""},
    {"retry: while it runs", "a", "begin | retry", "[busy] "},
    {"retry: nothing failed", "a", "begin up.0 exit0.0 | retry", "[usage] "},
    {"retry: what failed and what waits for it", "a; b: a; c", "begin up.0 exit1.0 exit0.2 | retry",
     "run:running/ row:a@n1=waiting row:b@n1=waiting row:a@n1=ready row:a@n1=starting! "
     "start:a@n1#2"},
    {"retry: from a task that succeeded", "a; b: a; c",
     "begin up.0 exit0.0 exit0.2 exit0.1 | retry-a",
     "run:running/ row:a@n1=waiting row:b@n1=waiting row:a@n1=ready row:a@n1=starting! "
     "start:a@n1#2"},
    {"retry: what failed of three", "a: @all",
     "begin up.0 up.1 up.2 exit0.0 exit1.1 exit0.2 | retry",
     "run:running/ row:a@n2=waiting row:a@n2=ready row:a@n2=starting! start:a@n2#2"},
    {"retry: unproven is stopped first", "a", "begin up.0 launched.0 cancel stuck.0 | retry",
     "run:running/ row:a@n1=stopping! stop:a@n1#1"},
    {"retry: … and starts once proven", "a",
     "begin up.0 launched.0 cancel stuck.0 retry | stopped.0",
     "ack:a@n1#1 row:a@n1=waiting row:a@n1=ready row:a@n1=starting! start:a@n1#2"},
    {"retry: … or does not", "a", "begin up.0 launched.0 cancel stuck.0 retry | stuck.0",
     "row:a@n1=stop_unproven run:hooks/failed run:over/failed over:over/failed"},
    {"retry: a refused node is tried again", "a", "begin refused.0 | retry",
     "run:running/ row:a@n1=waiting row:a@n1=ready connect:n1"},
    {"away: waited for until the very end", "a: away=5000", "begin +4999 | tick", ""},
    {"away: … and not beyond it", "a: away=5000", "begin +5000 | tick",
     "row:a@n1=failed run:hooks/failed run:over/failed over:over/failed"},
    {"away: the first try is let to end", "a: away=1000 try=5000", "begin +6999 | tick", ""},
    {"away: … and no longer", "a: away=1000 try=5000", "begin +7000 | tick",
     "row:a@n1=failed run:hooks/failed run:over/failed over:over/failed"},
    {"away: … but once it has failed", "a: away=1000 try=5000", "begin +500 down.0 +1000 | tick",
     "row:a@n1=failed run:hooks/failed run:over/failed over:over/failed"},
    {"away: for ever", "a: away=0", "begin +999999999 | tick", ""},
    {"away: down is not yet refused", "a: away=5000", "begin down.0 +4999 | tick", ""},
    {"away: a failed try does not lengthen it", "a: away=5000", "begin +4000 down.0 +1000 | tick",
     "row:a@n1=failed run:hooks/failed run:over/failed over:over/failed"},
    {"away: it came in time", "a: away=5000", "begin +4999 up.0 launched.0 +5000 | tick", ""},
    {"away: what runs there is left alone", "a: slots=8; b: away=5000",
     "begin up.0 launched.0 down.0 +5000 | tick", "forget:b@n1#1 row:b@n1=failed"},
    {"away: what may have started is left alone", "a: away=5000", "begin up.0 down.0 +9999 | tick",
     ""},
    {"away: counts from the loss of the link", "a: slots=8; b: away=5000",
     "begin up.0 +5000 down.0 +4999 | tick", ""},
    {"away: counts from when it is ready", "a: @n2; b: @n1 a; c: away=5000",
     "begin up.1 +4000 exit0.0 +1000 | tick", "row:c@n1=failed"},
    {"away: … each by itself", "a: @n2; b: @n1 a; c: away=5000",
     "begin up.1 +4000 exit0.0 +1000 tick +4000 | tick",
     "row:b@n1=failed run:hooks/failed run:over/failed over:over/failed"},
    {"away: an outage that is over does not count", "a: slots=8; b: away=5000",
     "begin up.0 down.0 +4000 up.0 +500 down.0 +4999 | tick", ""},
    {"away: … but the next does", "a: slots=8; b: away=5000",
     "begin up.0 down.0 +4000 up.0 +500 down.0 +5000 | tick", "forget:b@n1#1 row:b@n1=failed"},
    {"away: a process that stood still begins its wait again", "a: away=5000",
     "begin +15000 tick +4999 | tick", ""},
    {"away: … which is as long", "a: away=5000", "begin +15000 tick +5000 | tick",
     "row:a@n1=failed run:hooks/failed run:over/failed over:over/failed"},
    {"away: … but not for a moment", "a: away=5000", "begin +14999 | tick",
     "row:a@n1=failed run:hooks/failed run:over/failed over:over/failed"},
    {"away: a retry waits anew", "a: away=5000 retry=1 delay=1000", "begin +5000 | tick",
     "row:a@n1=retrying"},
    {"away: … as long", "a: away=5000 retry=1 delay=1000",
     "begin +5000 tick +1000 tick +4999 | tick", ""},
    {"away: … and no more than that", "a: away=5000 retry=1 delay=1000",
     "begin +5000 tick +1000 tick +5000 | tick",
     "row:a@n1=failed run:hooks/failed run:over/failed over:over/failed"},
    {"away: a retry that finds it there", "a: away=5000 retry=1 delay=1000",
     "begin +5000 tick +1000 tick +10 | up.0", "row:a@n1=starting! start:a@n1#1"},
    {"away: a gang fails as a whole", "a: @all gang away=5000", "begin up.0 up.2 +5000 | tick",
     "row:a@n1=failed row:a@n2=failed row:a@n3=failed run:hooks/failed run:over/failed "
     "over:over/failed"},
    {"away: a gang tries again", "a: @all gang away=5000 retry=2 delay=1000",
     "begin up.0 up.2 +5000 tick +1000 tick +5000 | tick",
     "row:a@n1=retrying row:a@n2=retrying row:a@n3=retrying"},
    {"away: … and starts once all are there", "a: @all gang away=5000 retry=2 delay=1000",
     "begin up.0 up.2 +5000 tick +1000 tick | up.1",
     "row:a@n1=starting! row:a@n2=starting! row:a@n3=starting! prepare:a@n1#1 prepare:a@n2#1 "
     "prepare:a@n3#1"},
    {"away: two gangs wait for one node", "a: @all gang away=5000 retry=9 delay=1000; b: @all gang",
     "begin up.0 up.2 +5000 tick +1000 tick | up.1",
     "row:a@n1=starting! row:a@n2=starting! row:a@n3=starting! prepare:a@n1#1 prepare:a@n2#1 "
     "prepare:a@n3#1"},
    {"away: a resume counts anew", "a: away=5000", "begin +4000 restart resume +4999 | tick", ""},
    {"away: … to its end", "a: away=5000", "begin +4000 restart resume +5000 | tick",
     "row:a@n1=failed run:hooks/failed run:over/failed over:over/failed"},
    {"away: control", "a: @control",
     "begin " MINUTE
     "+10000 tick +10000 tick +10000 tick +10000 tick +10000 tick +9999 tick +1 | tick",
     "row:a@control=failed run:hooks/failed run:over/failed over:over/failed"},
    {"a delay is capped", "a: retry=1 delay=1000 max=500", "begin up.0 exit1.0 +499 tick +1 | tick",
     "row:a@n1=ready row:a@n1=starting! start:a@n1#2"},
    {"what a gang keeps is kept to the last slot",
     "a: slots=3; g: @all gang slots=6; x: @n2 slots=3", "begin up.0 up.2 | up.1", ""},
    {"… and no more than that", "a: slots=3; g: @all gang slots=6; x: @n2 slots=2",
     "begin up.0 up.2 | up.1", "row:x@n2=starting! start:x@n2#1"},
    {"begin twice", "a", "begin | begin", "[usage] "},
    {"an event before begin", "a", "| tick", "[usage] "},
    {"a stranger's node", "a", "begin | up.9", "[usage] "},
};

static void test_events(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct bench b;
        char copy[512], *save;

        check_row(rows[i].row);
        bench_init(&b, rows[i].spec);
        snprintf(copy, sizeof copy, "%s", rows[i].script);
        for (char *w = strtok_r(copy, " ", &save); w != NULL; w = strtok_r(NULL, " ", &save)) {
            if (strcmp(w, "|") == 0) {
                b.acts.n = 0;
                fr_buf_finish(&b.seen);
                b.seen = (struct fr_buf){0};
            } else {
                say(&b, w);
            }
        }
        see(&b);
        CHECK_TEXT(b.seen.n ? b.seen.p : "", rows[i].want);
        bench_finish(&b);
    }
}

/* The limit of a run, 12 s, and ends that are heard of later than they were: "exit0@15000.0" was so
 * long ago. What state and outcome the run has then, and each instance. */
static void test_limit_late(void)
{
    static const struct {
        const char *row, *spec, *script, *want;
    } cases[] = {
        {"it ended in time, and its node comes back", "a",
         "begin up.0 launched.0 +2000 down.0 +10000 tick +6000 up.0 exit0@15000.0",
         "over/succeeded a@n1=succeeded/1"},
        {"it ended too late", "a",
         "begin up.0 launched.0 +2000 down.0 +10000 tick +6000 up.0 exit0@5000.0",
         "over/failed a@n1=succeeded/1"},
        {"its node is away: nothing is concluded", "a",
         "begin up.0 launched.0 +2000 down.0 +100000 tick", "running/ a@n1=running/1"},
        {"it still runs", "a",
         "begin up.0 launched.0 +2000 down.0 +10000 tick +6000 up.0 launched.0",
         "cancelling/failed a@n1=stopping/1"},
        {"another one runs too long", "a; b: @n2",
         "begin up.0 up.1 launched.0 launched.1 +2000 down.0 +10000 tick",
         "cancelling/failed a@n1=stopping/1 b@n2=stopping/1"},
        {"what needs it would start too late", "a; b: a",
         "begin up.0 launched.0 +2000 down.0 +10000 tick +6000 up.0 exit0@15000.0",
         "over/failed a@n1=succeeded/1 b@n1=cancelled/0"},
        {"its end and the limit cross", "a", "begin up.0 launched.0 +12000 tick +100 exit0@200.0",
         "over/succeeded a@n1=succeeded/1"},
        {"… the limit came first", "a", "begin up.0 launched.0 +12000 tick +100 exit0@50.0",
         "over/failed a@n1=succeeded/1"},
        {"it failed in time", "a",
         "begin up.0 launched.0 +2000 down.0 +10000 tick +6000 up.0 exit1@15000.0",
         "over/failed a@n1=failed/1"},
        {"a retry counts from the end", "a: retry=1 delay=8000",
         "begin up.0 launched.0 +2000 down.0 +4000 up.0 exit1@3000.0 +4999 tick",
         "running/ a@n1=retrying/1"},
        {"… and comes then", "a: retry=1 delay=3000",
         "begin up.0 launched.0 +2000 down.0 +4000 up.0 exit1@3000.0 tick",
         "running/ a@n1=starting/2"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct bench b;
        struct fr_run_now now;

        check_row(cases[i].row);
        bench_init(&b, cases[i].spec);
        fr_sched_destroy(b.s);
        CHECK(fr_sched_create(b.plan, &(struct fr_sched_opts){.timeout_ms = 12000}, &b.s, NULL) ==
              FR_OK);
        say_all(&b, cases[i].script);
        now = fr_sched_now(b.s);
        b.seen.n = 0;
        fr_buf_fmt(&b.seen, "%s/%s", fr_run_state_name(now.state), fr_outcome_name(now.outcome));
        for (uint32_t k = 0; k < b.plan->n_insts; k++) {
            struct fr_row row = fr_sched_row(b.s, k, b.now_ms);

            fr_buf_fmt(&b.seen, " %s=%s/%u", b.plan->insts[k].key, fr_state_name(row.state),
                       row.attempt_no);
        }
        CHECK_TEXT(b.seen.p, cases[i].want);
        CHECK(now.state != FR_RUN_RUNNING || fr_sched_next_due(b.s) > b.now_ms);
        bench_finish(&b);
    }
    check_row("");
}

static void test_stale(void)
{
    struct bench b;
    struct fr_event ev = {.kind = FR_EV_ENDED, .cause = FR_CAUSE_EXIT, .proven = true};

    check_row("an end of an attempt that is not the newest");
    bench_init(&b, "a: retry=1 delay=1");
    say(&b, "begin");
    say(&b, "up.0");
    ev.attempt = fr_sched_row(b.s, 0, 0).attempt;
    say(&b, "exit1.0");
    CHECK_INT(fr_sched_row(b.s, 0, 0).state, FR_ST_RETRYING);
    say(&b, "+1");
    say(&b, "tick");
    CHECK_INT(fr_sched_row(b.s, 0, 0).attempt_no, 2);
    b.acts.n = 0;
    CHECK(give(&b, ev, NULL) == FR_OK);
    CHECK(b.acts.n == 1 && b.acts.v[0].kind == FR_ACT_ACK &&
          fr_id_eq(b.acts.v[0].attempt, ev.attempt));
    CHECK_INT(fr_sched_row(b.s, 0, 0).state, FR_ST_STARTING);
    bench_finish(&b);
}

static void test_began(void)
{
    static const struct {
        const char *row;
        struct fr_row is;
        uint32_t began;
    } views[] = {
        {"none yet", {.state = FR_ST_READY}, 0},
        {"booked",
         {.state = FR_ST_READY, .attempt_no = 2, .attempt_state = FR_ST_STARTING, .live = true},
         1},
        {"ready after a failure",
         {.state = FR_ST_READY, .attempt_no = 2, .attempt_state = FR_ST_FAILED},
         2},
        {"booked and cancelled",
         {.state = FR_ST_CANCELLED, .attempt_no = 1, .attempt_state = FR_ST_CANCELLED},
         0},
        {"stopped",
         {.state = FR_ST_CANCELLED,
          .attempt_no = 1,
          .attempt_state = FR_ST_CANCELLED,
          .cause = FR_CAUSE_STOPPED},
         1},
        {"booked, and its node is not usable any more",
         {.state = FR_ST_FAILED,
          .attempt_no = 2,
          .attempt_state = FR_ST_CANCELLED,
          .cause = FR_CAUSE_START_FAILED},
         1},
        {"booked, and its node went away",
         {.state = FR_ST_FAILED,
          .attempt_no = 1,
          .attempt_state = FR_ST_CANCELLED,
          .cause = FR_CAUSE_UNREACHABLE},
         0},
        {"running", {.state = FR_ST_RUNNING, .attempt_no = 1, .live = true}, 1},
    };

    for (size_t i = 0; i < sizeof views / sizeof views[0]; i++) {
        check_row(views[i].row);
        CHECK_INT(fr_row_began(&views[i].is), views[i].began);
    }
}

static void test_load(void)
{
    static const struct {
        const char *row;
        struct fr_row bad;
    } bad[] = {
        {"no such instance", {.inst = 9}},
        {"live without id", {.state = FR_ST_RUNNING, .live = true}},
        {"ended and live", {.state = FR_ST_FAILED, .live = true, .attempt = {{1}}}},
        {"running, and no attempt lives", {.state = FR_ST_RUNNING}},
        {"ready, live and not booked", {.state = FR_ST_READY, .live = true, .attempt = {{1}}}},
        {"no such state", {.state = FR_ST_N}},
    };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct bench b;

        check_row(bad[i].row);
        bench_init(&b, "a");
        CHECK(fr_sched_load(b.s, &bad[i].bad, NULL) == FR_CORRUPT);
        bench_finish(&b);
    }
}

static void test_ids(void)
{
    struct bench b;
    struct fr_event ev = {.kind = FR_EV_BEGIN};
    struct fr_id id = {{1}};

    check_row("starts wait for ids");
    bench_init(&b, "a; b");
    CHECK_INT(fr_sched_ids_wanted(b.s), 2);
    CHECK(fr_sched_apply(b.s, &ev, 5, &b.acts, NULL) == FR_OK);
    ev = (struct fr_event){.kind = FR_EV_NODE_UP};
    CHECK(fr_sched_add_ids(b.s, &id, 1, NULL) == FR_OK);
    CHECK(fr_sched_apply(b.s, &ev, 6, &b.acts, NULL) == FR_OK);
    CHECK_INT(fr_sched_live(b.s), 1);
    CHECK_INT(fr_sched_next_due(b.s), 6);
    id.b[0] = 2;
    CHECK(fr_sched_add_ids(b.s, &id, 1, NULL) == FR_OK);
    say(&b, "tick");
    CHECK_INT(fr_sched_live(b.s), 2);
    CHECK_INT(fr_sched_next_due(b.s), INT64_MAX);
    bench_finish(&b);
}

static size_t calls, fail_at; /* the allocation that fails, and all behind it if persist */
static bool persist;

static bool fails(void)
{
    calls++;
    return fail_at > 0 && (calls == fail_at || (persist && calls > fail_at));
}

static void *bad_alloc(size_t n)
{
    return fails() ? NULL : fr_sys_real.alloc(n);
}

static void *bad_realloc(void *p, size_t n)
{
    return fails() ? NULL : fr_sys_real.realloc(p, n);
}

/* A run with a gang, a failure and a retry, until something fails. */
static enum fr_rc short_run(struct bench *b, struct fr_err *err)
{
    static const char *const script[] = {"begin",     "up.0",       "up.1",       "up.2",
                                         "up.3",      "prepared.0", "prepared.1", "exit1.2",
                                         "stopped.0", "stopped.1",  "cancel"};
    enum fr_rc rc = fr_plan_make(&b->mini.spec, &b->arena, &b->plan, err);

    if (rc == FR_OK)
        rc = fr_sched_create(b->plan, NULL, &b->s, err);
    for (size_t i = 0; rc == FR_OK && i < sizeof script / sizeof script[0]; i++) {
        struct fr_id ids[8] = {{{0}}};

        for (uint8_t k = 0; k < 8; k++)
            ids[k].b[0] = (uint8_t)(8 * i + k + 1);
        rc = fr_sched_add_ids(b->s, ids, 8, err);
        for (size_t k = 0; rc == FR_OK && k < sizeof words / sizeof words[0]; k++) {
            size_t n = strlen(words[k].name);
            struct fr_event ev = words[k].ev;

            if (strncmp(words[k].name, script[i], n) != 0 || strchr(".", script[i][n]) == NULL)
                continue;
            ev.inst = ev.node = script[i][n] != '\0' ? (uint32_t)(script[i][n + 1] - '0') : 0;
            if (ev.kind >= FR_EV_PREPARED && ev.kind <= FR_EV_TOMBSTONED)
                ev.attempt = fr_sched_row(b->s, ev.inst, 0).attempt;
            rc = fr_sched_apply(b->s, &ev, 0, &b->acts, err);
        }
    }
    return rc;
}

static void test_no_memory(void)
{
    for (int mode = 0; mode < 2; mode++) {
        enum fr_rc rc = FR_NOMEM;

        check_row(mode ? "no memory from the Nth call on" : "no memory at the Nth call");
        for (size_t n = 1; rc != FR_OK && n < 1000; n++) {
            struct bench b = {.ids = 0};
            struct fr_err err = {0};

            mini_make(&b.mini, "a: @all gang; b: a; c: @all retry=1; !exit h");
            calls = 0;
            fail_at = n;
            persist = mode == 1;
            fr_sys.alloc = bad_alloc;
            fr_sys.realloc = bad_realloc;
            rc = short_run(&b, &err);
            fr_sys = fr_sys_real;
            CHECK(rc == FR_NOMEM ? err.msg[0] != '\0' : rc == FR_OK && calls < n);
            bench_finish(&b);
        }
        CHECK(rc == FR_OK);
    }
}

/* A node that always has another answer than a start: it costs the attempt, and then the retries.
 */
static void test_doubts(void)
{
    static const struct {
        const char *row, *spec, *first, *again;
        enum fr_state_of end;
    } cases[] = {
        {"never began", "a: retry=2 delay=1", "", "tombstoned.0 tick", FR_ST_FAILED},
        {"never heard of it", "a: retry=2 delay=1", "", "forgot.0 tick", FR_ST_FAILED},
        {"another lives there", "a: retry=2 delay=1", "", "busy.0 cleared.0 tick", FR_ST_FAILED},
        {"launched, then forgot", "a: retry=2 delay=1", "launched.0", "forgot.0 tick",
         FR_ST_STOP_UNPROVEN},
        {"another disk", "a", "launched.0", "wiped.0 tick", FR_ST_STOP_UNPROVEN},
        {"a gang", "a: @all gang retry=2 delay=1", "up.1 up.2",
         "tombstoned.0 tombstoned.1 tombstoned.2 tick", FR_ST_FAILED},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct bench b;
        size_t starts = 0;
        int rounds = 0;

        check_row(cases[i].row);
        bench_init(&b, cases[i].spec);
        say_all(&b, "begin up.0");
        say_all(&b, cases[i].first);
        for (; rounds < 2000 && !fr_state_ended(fr_sched_row(b.s, 0, 0).state); rounds++) {
            b.now_ms += 10;
            say_all(&b, cases[i].again);
            for (size_t k = 0; k < b.acts.n; k++)
                starts += b.acts.v[k].kind == FR_ACT_START || b.acts.v[k].kind == FR_ACT_PREPARE;
            b.acts.n = 0;
        }
        CHECK_INT(fr_sched_row(b.s, 0, 0).state, cases[i].end);
        CHECK(rounds > 20 && rounds < 200);
        CHECK(starts < 400);
        bench_finish(&b);
    }
    check_row("");
}

int main(void)
{
    test_doubts();
    test_no_memory();
    test_events();
    test_limit_late();
    test_stale();
    test_load();
    test_began();
    test_ids();
    return check_done();
}
