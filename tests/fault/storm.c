#include "tests/fault/storm.h"

#include <string.h>

enum { AHEAD, RECORDS, STILL, KILLED, OVER };
enum { RECORDS_MAX = 12, KILL_STEPS = 900 };
static const int64_t STILL_US = 12000000, RESUME_US = 3000000, BY_ONE_US = 2000000,
                     ROBBED_US = 40000000;

struct storm storm_make(uint64_t *s, uint64_t step)
{
    return (struct storm){.there = true, .step = step, .more = sim_draw(s)};
}

void storm_reset(struct storm *st)
{
    *st = (struct storm){.there = st->there, .step = st->step, .more = st->more};
}

static bool is_hit(const struct storm *st, const struct sim_machine *m)
{
    int no = (int)(m - sim->machines);

    return no > 0 && (st->more % 2 == 0 || (st->more / 2) % 3 == (uint64_t)no - 1);
}

/* Each for a while of its own: one that goes on later may find the slots given to others. */
static void halt(struct world *w, const struct storm *st)
{
    struct sim *s = &w->sim;
    int64_t from = s->now_us + sim_between(s, 100000, STILL_US);
    bool own = false;

    world_tell(w, "fault: flownodes stand still for %.1f s", (double)(from - s->now_us) / 1e6);
    for (int i = 1; i < SIM_MACHINES; i++)
        for (struct sim_proc *p = s->machines[i].procs; p != NULL; p = p->next)
            if (is_hit(st, p->m) && p->state != SIM_ZOMBIE &&
                (strcmp(p->comm, "serve") == 0 || strcmp(p->comm, "flownode") == 0)) {
                p->held_us = from + sim_between(s, 0, BY_ONE_US);
                own = own || p == s->cur;
            }
    if (own)
        sim_switch_to_scheduler();
}

static void still(struct world *w, struct storm *st)
{
    st->phase = STILL;
    st->kill_step = w->sim.steps + st->more / 1000 % KILL_STEPS;
    halt(w, st);
}

void storm_point(struct world *w, struct storm *st, enum sim_point what)
{
    if (st->phase == RECORDS && what == SIM_AT_RECORD && is_hit(st, w->sim.cur->m) &&
        --st->records == 0)
        still(w, st);
}

/* How the flowruns go. ROB: the host stands still, and goes on beside the next one. */
static enum way { CUT_POWER, ROB, KILL } way_of(const struct storm *st)
{
    static const enum way ways[] = {CUT_POWER, ROB, KILL, KILL};

    return ways[st->more / 64 % 4];
}

static void kill_all(struct world *w, struct storm *st)
{
    struct client *host = way_of(st) == ROB ? client_of(w, client_host(w)) : NULL;

    if (way_of(st) == CUT_POWER)
        world_lose_power(w);
    if (host != NULL && !client_rob(w, host, sim_between(&w->sim, 100000, ROBBED_US)))
        host = NULL;
    for (size_t i = 0; i < w->n_clients; i++)
        if (w->clients[i].proc != NULL && &w->clients[i] != host)
            world_kill(w, w->clients[i].proc, "");
    st->phase = KILLED;
    st->resume_us = w->sim.now_us + sim_between(&w->sim, 0, RESUME_US);
}

static void resume_one(struct world *w, struct storm *st)
{
    struct client how = {.json = st->more % 5 == 0};

    st->phase = OVER;
    if (w->n_clients > 0)
        memcpy(how.run, w->clients[st->more / 16 % w->n_clients].run, sizeof(how.run));
    if (how.run[0] != '\0')
        client_start(w, &how);
}

static void come_due(struct world *w, struct storm *st)
{
    uint64_t records = st->more / 7 % (RECORDS_MAX + 1);

    if (st->phase == AHEAD && w->sim.steps >= st->step) {
        st->phase = RECORDS;
        st->records = records;
        if (records == 0)
            still(w, st);
    }
    if (st->phase == STILL && w->sim.steps >= st->kill_step)
        kill_all(w, st);
    if (st->phase == KILLED && w->sim.now_us >= st->resume_us)
        resume_one(w, st);
}

unsigned storm_look(struct world *w, struct storm *st)
{
    unsigned hit;

    if (!st->there)
        return 0;
    come_due(w, st);
    hit = way_of(st) == CUT_POWER && st->phase >= KILLED; /* of control */
    uint64_t step = st->phase == AHEAD ? st->step : st->phase == STILL ? st->kill_step : UINT64_MAX;
    if (step < w->sim.fault_step)
        w->sim.fault_step = step;
    if (st->phase == KILLED && st->resume_us < w->look_us)
        w->look_us = st->resume_us;
    for (int i = 1; i < SIM_MACHINES && st->phase >= STILL; i++)
        hit |= (unsigned)is_hit(st, &w->sim.machines[i]) << i;
    return hit;
}
