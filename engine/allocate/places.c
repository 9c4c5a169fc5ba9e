/* Places of allocations: where they are, that they are gone, and what users hear of it. */
#include "engine/allocate/private.h"

#include "engine/link/link.h"
#include "engine/run/placed.h"
#include "engine/slurm/wait.h"

enum {
    AGAIN_MS = 10000, /* before another allocation in place of one that did not begin, … */
    FAILED_MOST = 3,  /* … at most so often in a row */
};

static uint32_t node_of(const struct host_allocation *al, int k)
{
    return fr_plan_node_of(fr_run_plan(al->h->run), alloc_first(al) + k);
}

static bool is_place(const struct host_allocation *al, const char *name, int *place)
{
    for (int k = 0; k < al->spec->nodes; k++)
        if (strcmp(fr_run_spec(al->h->run)->nodes[alloc_first(al) + k].name, name) == 0) {
            *place = k;
            return true;
        }
    return false;
}

enum fr_rc alloc_find(void *arg, const struct fr_exec_node *node, struct fr_arena *arena,
                      struct fr_exec_place *out, struct fr_err *err)
{
    struct fr_host *host = arg;
    const char *why = "its job serves another place now";

    for (struct host_allocation *al = allocations_of(host)->first; al != NULL; al = al->next) {
        bool runs =
            al->a.life.state == FR_ALLOCATION_STARTING || al->a.life.state == FR_ALLOCATION_UP;
        struct fr_slurm_step step;
        int k;

        if (al->h == NULL || !fr_id_eq(al->row.run, node->run) || !is_place(al, node->name, &k))
            continue;
        if (runs && al->places != NULL && !alloc_login_up(al->cluster))
            return fr_fail(err, FR_BUSY, "there is no way to its login node now");
        if (al->a.life.state == FR_ALLOCATION_RELEASING)
            why = "its allocation is given back";
        else if (al->a.life.state == FR_ALLOCATION_OVER)
            why = "its allocation is over";
        if (!runs || al->moves || al->places == NULL)
            continue;
        step = (struct fr_slurm_step){.job = al->places[k].own,
                                      .host = al->places[k].host,
                                      .folder = al->row.folder,
                                      .flownode = al->row.program,
                                      .place = k + 1};
        out->what = fr_arena_fmt(arena, "srun to %s", step.host);
        out->argv = fr_srun_args(&step, arena);
        out->runner = fr_cluster_runner(al->cluster->cluster);
        return out->what != NULL && out->argv != NULL
                   ? FR_OK
                   : fr_fail(err, FR_NOMEM, "no memory for a link");
    }
    return fr_fail(err, FR_BUSY, "%s", why);
}

void alloc_places_known(struct host_allocation *al)
{
    struct fr_err err = {0};

    if (al->h == NULL)
        return;
    for (int k = 0; k < al->spec->nodes; k++)
        if (fr_run_placed(al->h->run, node_of(al, k), al->places[k].address, al->a.life.end_wall,
                          &err) != FR_OK)
            return; /* without memory; the next look tries again */
    fr_nodes_moved(al->host->env.nodes);
}

void alloc_moved(struct host_allocation *al)
{
    al->moves = false;
    if (al->places != NULL)
        alloc_places_known(al);
}

void alloc_places_gone(struct host_allocation *al)
{
    const struct fr_allocation_life *l = &al->a.life;
    bool late = l->cause == FR_CAUSE_QUEUE_TIME;
    bool failed = l->cause == FR_CAUSE_SUBMIT_FAILED || l->cause == FR_CAUSE_START_FAILED || late;
    bool give_up;

    al->look_ms = l->proven ? INT64_MAX : 0; /* keepers may still write that nothing is left */
    al->places = NULL;
    al->told = al->h == NULL;
    if (al->told)
        return;
    al->pauses = true;
    al->failed = failed ? al->failed + 1 : 0;
    give_up = l->cause == FR_CAUSE_SUBMIT_FAILED || l->cause == FR_CAUSE_QUEUE_TIME ||
              al->failed >= FAILED_MOST;
    al->used_ms = fr_sys.mono_ms() + (failed ? (int64_t)AGAIN_MS << al->failed : 0);
    for (int k = 0; give_up && failed && k < al->spec->nodes; k++)
        fr_run_unplaced(al->h->run, node_of(al, k), late ? l->cause : FR_CAUSE_START_FAILED,
                        l->note);
    alloc_displace(al);
}

void alloc_displace(struct host_allocation *al)
{
    const struct fr_allocation_life *l = &al->a.life;
    /* It was given back, or did not begin as a whole: what ran there all the same has lost its
     * node. */
    bool none =
        l->cause == FR_CAUSE_NONE || l->cause == FR_CAUSE_STOPPED || fr_cause_unstarted(l->cause);

    al->tells = true;
    for (int k = 0; k < al->spec->nodes; k++)
        fr_run_displaced(al->h->run, node_of(al, k), none ? FR_CAUSE_NODE_LOST : l->cause,
                         l->proven);
}

/* ---- what users hear ---- */

bool alloc_is_away(const struct host_allocation *al, struct fr_buf *out)
{
    const char *why;

    if (!alloc_login_up(al->cluster)) {
        const struct fr_login_state login = fr_login_is(al->cluster->login);

        fr_buf_text(out, login.failed ? "no connection to the login node"
                                      : "connects to the login node");
        fr_buf_text(out, login.why[0] != '\0' ? ": " : "");
        fr_buf_text(out, login.why);
        return true;
    }
    if (fr_cluster_away(al->cluster->cluster, &why) == 0)
        return false;
    fr_buf_text(out, "Slurm does not answer: ");
    fr_link_quote(out, why, strlen(why));
    return true;
}

static void text_of(const struct host_allocation *al, struct fr_buf *out)
{
    struct fr_allocation_life l = al->a.life;
    char job[FR_SLURM_JOB_TEXT];

    if (l.state != FR_ALLOCATION_OVER && alloc_is_away(al, out))
        return;
    if (l.state == FR_ALLOCATION_OVER && l.note[0] != '\0' && l.job == 0)
        fr_buf_fmt(out, "there is no allocation %s: %s", al->row.name, l.note);
    else if (l.state == FR_ALLOCATION_OVER && l.note[0] != '\0')
        fr_buf_fmt(out, "Slurm job %s (%s) is over: %s", fr_slurm_job_text(l.job, l.element, job),
                   al->row.name, l.note);
    if (l.state != FR_ALLOCATION_QUEUED &&
        (l.state != FR_ALLOCATION_STARTING || al->row.copy > 0) &&
        (l.state != FR_ALLOCATION_WANTED || l.note[0] == '\0'))
        return;
    l.element = 0;
    fr_buf_text(out, "waits for ");
    fr_allocation_wait(&l, al->row.name, out);
}

/* The one whose note counts: of copies that wait, the first of all for all of them. */
static struct host_allocation *speaker(struct host_allocation *al)
{
    struct host_allocation *first = allocations_of(al->host)->first;

    if (al->row.copy == 0 || al->a.life.state == FR_ALLOCATION_OVER)
        return al;
    while (first->h != al->h || first->spec != al->spec)
        first = first->next;
    return first;
}

bool alloc_say(struct host_allocation *al)
{
    struct fr_buf text = {0};
    char *said;
    bool some;

    if (al->h == NULL)
        return false;
    text_of(al, &text);
    some = text.n > 0 && !text.bad;
    said = some ? speaker(al)->said[al->a.life.state != FR_ALLOCATION_WANTED] : NULL;
    if (said != NULL && strncmp(text.p, said, FR_ALLOCATION_NOTE - 1) != 0) {
        snprintf(said, FR_ALLOCATION_NOTE, "%s", text.p);
        fr_run_node_say(al->h->run, node_of(al, 0), text.p);
    }
    fr_buf_finish(&text);
    return some && al->a.life.state != FR_ALLOCATION_OVER;
}
