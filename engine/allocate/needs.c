/* What a run needs of the places of its allocations, and which allocation is at each. */
#include "engine/allocate/private.h"

#include "engine/run/metrics.h"
#include "engine/run/placed.h"
#include "engine/store/drained.h"

enum { CONNECT_MS = 10000 /* a place that has got a running copy is not missed before */ };

/* What a run needs of its places, and has of them. */
struct needs {
    struct host_run *h;
    struct fr_run_use *uses;     /* of all nodes of the plan */
    struct host_allocation **of; /* as of alloc_newest() */
    int open;                    /* copies that the one looked at has */
};

/* Of n places, from first on. Links are made to those where something is to start. */
static struct fr_run_use use_of(const struct needs *needs, int first, int n)
{
    const struct fr_plan *plan = fr_run_plan(needs->h->run);
    struct fr_run_use all = {.up = true};

    for (int k = 0; k < n; k++) {
        const struct fr_run_use *one = &needs->uses[fr_plan_node_of(plan, first + k)];

        all.need = one->need > all.need ? one->need : all.need;
        all.up = all.up && (one->need != FR_NEED_NOW || one->up);
        all.spent = all.spent || one->spent;
        all.lives = all.lives || one->lives;
    }
    all.spent = all.spent && !all.lives;
    return all;
}

static void apply(struct host_allocation *al, enum fr_allocation_event_kind kind)
{
    alloc_apply(al, &(struct fr_allocation_event){.kind = kind});
}

/* There is none, or it is over. */
static enum fr_rc look_over(struct needs *needs, const struct fr_allocation_spec *spec, int copy,
                            enum fr_need need, struct fr_err *err)
{
    struct host_allocation *al = needs->of[spec->first + (copy > 0 ? copy - 1 : 0)];
    const struct fr_slurm_spec *slurm = fr_run_spec(needs->h->run)->slurm;

    if (al != NULL && (al->dirty || !al->told || fr_sys.mono_ms() < al->used_ms))
        return FR_OK; /* its end is to be told first; then comes a pause */
    if (al != NULL)
        al->pauses = false;
    if (need != FR_NEED_NOW || (copy > 0 && needs->open >= slurm->max_jobs))
        return FR_OK;
    needs->open++;
    return alloc_take(needs->h, spec, copy, al, err);
}

static enum fr_rc look(struct needs *needs, const struct fr_allocation_spec *spec, int copy,
                       struct fr_err *err)
{
    int first = spec->first + (copy > 0 ? copy - 1 : 0);
    struct fr_run_use use = use_of(needs, first, spec->nodes);
    struct host_allocation *al = needs->of[first];
    int64_t now = fr_sys.mono_ms();
    bool up;

    if (al == NULL || al->a.life.state == FR_ALLOCATION_OVER)
        return look_over(needs, spec, copy, use.need, err);
    if (use.need == FR_NEED_NOW)
        al->used_ms = now;
    up = al->places != NULL && use.up;
    if (up || now >= al->moved_ms + CONNECT_MS)
        apply(al, up ? FR_ALLOCATION_ALL_UP : FR_ALLOCATION_AWAY);
    if (use.spent)
        apply(al, FR_ALLOCATION_SPENT);
    if (use.need == FR_NEED_NONE ||
        (use.need == FR_NEED_LATER && now >= al->used_ms + spec->idle_ms))
        apply(al, FR_ALLOCATION_UNNEEDED);
    return FR_OK;
}

/* ---- copies that go to another place ---- */

static const struct fr_run_use *use_of_copy(const struct needs *needs, int index)
{
    return &needs->uses[fr_plan_node_of(fr_run_plan(needs->h->run), index)];
}

/* It runs, and has nothing to do at its place now. */
static bool is_idle(const struct needs *needs, int index)
{
    const struct host_allocation *al = needs->of[index];
    const struct fr_run_use *use = use_of_copy(needs, index);

    return al != NULL && al->a.life.state == FR_ALLOCATION_UP && !al->dirty && use->up &&
           !use->lives && !use->spent && use->need != FR_NEED_NOW;
}

/* Something is ready there, and none runs. */
static bool is_short(const struct needs *needs, int index)
{
    const struct host_allocation *al = needs->of[index];
    const struct fr_run_use *use = use_of_copy(needs, index);

    if (use->need != FR_NEED_NOW || use->lives || (al != NULL && al->dirty))
        return false;
    return al == NULL || al->a.life.state == FR_ALLOCATION_WANTED ||
           al->a.life.state == FR_ALLOCATION_QUEUED ||
           (al->a.life.state == FR_ALLOCATION_OVER && al->told && fr_sys.mono_ms() >= al->used_ms);
}

/* The one that waits there, if any, is that of the other place then. */
static void move(struct needs *needs, int from, int to)
{
    struct host_allocation *al = needs->of[from], *other = needs->of[to];
    const int64_t copy = al->row.copy, no = al->row.no;
    bool over = other != NULL && other->a.life.state == FR_ALLOCATION_OVER;

    al->row.copy += to - from;
    al->row.no = other == NULL ? 1 : over ? other->row.no + 1 : other->row.no;
    al->moves = al->dirty = al->host->woken = true;
    al->moved_ms = al->used_ms = fr_sys.mono_ms();
    if (over) {
        alloc_leave(other);
        other = NULL;
    } else if (other != NULL) {
        other->row.copy = copy;
        other->row.no = no;
        other->dirty = true;
    }
    needs->of[from] = other;
    needs->of[to] = al;
}

/* A copy that has nothing to do goes to the place that a task waits for, sooner than Slurm may give
 * that place one. */
static void share(struct needs *needs, const struct fr_allocation_spec *spec)
{
    int end = spec->first + spec->copies, to = spec->first;
    bool moved = false;

    for (int from = spec->first; from < end && to < end; from++) {
        if (!is_idle(needs, from))
            continue;
        while (to < end && !is_short(needs, to))
            to++;
        if (to == end)
            break;
        move(needs, from, to++);
        moved = true;
    }
    if (moved)
        fr_nodes_moved(needs->h->host->env.nodes); /* places that have lost theirs are left */
}

static enum fr_rc look_copies(struct needs *needs, const struct fr_allocation_spec *spec,
                              struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    share(needs, spec);
    needs->open = 0;
    for (int k = 0; k < spec->copies; k++)
        needs->open += needs->of[spec->first + k] != NULL &&
                       needs->of[spec->first + k]->a.life.state != FR_ALLOCATION_OVER;
    for (int k = 1; rc == FR_OK && k <= spec->copies; k++)
        rc = look(needs, spec, k, err);
    return rc;
}

/* Of each node of the plan, whether it is a place that is drained; NULL: none is. */
static enum fr_rc look_drained(struct host_run *h, struct fr_arena *arena, const bool **out,
                               struct fr_err *err)
{
    const struct fr_plan *plan = fr_run_plan(h->run);
    struct fr_drained_rows rows = {0};
    enum fr_rc rc = fr_store_drained(h->host->env.store, arena, &rows, err);
    bool *drained, any = false;

    *out = NULL;
    if (rc != FR_OK || rows.n == 0)
        return rc;
    if ((drained = fr_arena_array(arena, plan->n_nodes, sizeof(*drained))) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the needs of a run");
    for (uint32_t n = 0; n < plan->n_nodes; n++) {
        const char *place = fr_plan_place(&plan->nodes[n]);

        drained[n] = place != NULL && fr_drained_find(&rows, (struct fr_id){0}, place) != NULL;
        any = any || drained[n];
    }
    *out = any ? drained : NULL;
    return FR_OK;
}

enum fr_rc alloc_look(struct host_run *h, struct fr_err *err)
{
    const struct fr_slurm_spec *slurm = fr_run_spec(h->run)->slurm;
    struct fr_arena arena = {0};
    struct needs needs = {.h = h, .of = alloc_newest(h, &arena)};
    const bool *drained;
    enum fr_rc rc = look_drained(h, &arena, &drained, err);

    needs.uses = fr_arena_array(&arena, fr_run_plan(h->run)->n_nodes, sizeof(*needs.uses));
    if (rc == FR_OK && (needs.of == NULL || needs.uses == NULL))
        rc = fr_fail(err, FR_NOMEM, "no memory for the needs of a run");
    else if (rc == FR_OK)
        fr_run_uses(h->run, drained, needs.uses);
    for (size_t i = 0; rc == FR_OK && i < slurm->n_allocations; i++)
        rc = slurm->allocations[i].copies > 0 ? look_copies(&needs, &slurm->allocations[i], err)
                                              : look(&needs, &slurm->allocations[i], 0, err);
    fr_arena_finish(&arena);
    return rc;
}
