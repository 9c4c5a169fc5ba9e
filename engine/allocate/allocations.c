#include "engine/allocate/private.h"

#include "engine/base/log.h"
#include "engine/run/metrics.h"
#include "engine/run/placed.h"

enum {
    RETRY_MS = 1000,    /* rows could not be written */
    CLOSE_MS = 60000,   /* keepers close after the end of their job */
    IMAGE_MS = 3600000, /* in a container keepers may answer so late: images are fetched before */
};

/* The rows, then what they are about. What runs have decided is written before: an allocation that
 * is given back takes what its keepers know with it. */
static enum fr_rc settle(struct fr_host *host, struct fr_err *err)
{
    struct host_allocations *all = allocations_of(host);
    const struct fr_allocation_spec *said = NULL;
    enum fr_rc rc;

    if (all->retry_ms != 0 && fr_sys.mono_ms() < all->retry_ms)
        return FR_OK;
    if ((rc = alloc_write(host, err)) != FR_OK) {
        if (rc == FR_DENIED || rc == FR_NOMEM)
            return rc;
        fr_log(FR_LOG_WARN, "slurm", "rows of allocations cannot be written: %s", err->msg);
        all->retry_ms = fr_sys.mono_ms() + RETRY_MS;
        return FR_OK;
    }
    all->retry_ms = 0;
    for (struct host_allocation *al = all->first; al != NULL; al = al->next) {
        al->stored |= al->dirty;
        al->dirty = false;
    }
    for (struct host_allocation *al = all->first, *next; al != NULL; al = next) {
        next = al->next;
        if (al->moves)
            alloc_moved(al);
        alloc_act(al);
        if (al->row.copy > 0 && al->spec != NULL && al->spec == said)
            continue; /* one of its copies speaks for all */
        said = alloc_say(al) ? al->spec : said;
    }
    for (struct host_cluster *c = all->clusters; c != NULL; c = c->next)
        alloc_cancel(c);
    return FR_OK;
}

/* ---- allocations come and go ---- */

static struct host_allocation *add(struct fr_host *host, const struct fr_allocation_row *row)
{
    struct host_allocation **at = &allocations_of(host)->first, *al = fr_sys.alloc(sizeof(*al));

    if (al == NULL)
        return NULL;
    *al = (struct host_allocation){
        .host = host, .row = *row, .look_ms = INT64_MAX, .stored = row->id != 0};
    al->row.name = fr_arena_dup(&al->arena, row->name);
    al->row.tag = fr_arena_dup(&al->arena, row->tag);
    al->row.folder = fr_arena_dup(&al->arena, row->folder);
    al->row.hosts = fr_arena_dup(&al->arena, row->hosts);
    al->row.path = fr_arena_dup(&al->arena, row->path);
    al->row.login = fr_arena_dup(&al->arena, row->login);
    al->row.program = fr_arena_dup(&al->arena, row->program);
    al->row.exit_state = fr_arena_dup(&al->arena, row->exit_state);
    al->row.tres = fr_arena_dup(&al->arena, row->tres);
    al->row.cluster = fr_arena_dup(&al->arena, row->cluster);
    if (al->row.name == NULL || al->row.tag == NULL || al->row.folder == NULL ||
        al->row.hosts == NULL || al->row.path == NULL || al->row.login == NULL ||
        al->row.program == NULL || al->row.exit_state == NULL || al->row.tres == NULL ||
        al->row.cluster == NULL || (al->cluster = alloc_cluster(host, &al->row)) == NULL) {
        fr_arena_finish(&al->arena);
        fr_sys.free(al);
        return NULL;
    }
    alloc_life(row, &al->a.life);
    al->a.cgroups = al->cluster->cgroups;
    while (*at != NULL)
        at = &(*at)->next;
    *at = al;
    return al;
}

static void drop(struct host_allocation *al)
{
    struct host_allocation **at = &allocations_of(al->host)->first;

    while (*at != al)
        at = &(*at)->next;
    *at = al->next;
    for (struct host_allocation *m = allocations_of(al->host)->first; m != NULL; m = m->next)
        m->lead = m->lead == al ? NULL : m->lead;
    alloc_forget(al);
    fr_arena_finish(&al->arena);
    fr_sys.free(al);
}

static enum fr_rc load_open(struct fr_host *host, struct fr_err *err)
{
    struct fr_arena arena = {0};
    struct fr_allocation_rows rows = {0};
    enum fr_rc rc = fr_store_allocations_open(host->env.store, &arena, &rows, err);

    for (size_t i = 0; rc == FR_OK && i < rows.n; i++) {
        struct host_allocation *al = add(host, &rows.rows[i]);

        if (al == NULL) {
            rc = fr_fail(err, FR_NOMEM, "no memory for an allocation");
            break;
        }
        al->leaves = al->a.life.state >= FR_ALLOCATION_RELEASING;
        alloc_apply(al, &(struct fr_allocation_event){.kind = FR_ALLOCATION_LOADED});
    }
    fr_arena_finish(&arena);
    if (rc == FR_OK)
        fr_nodes_places(host->env.nodes, alloc_find, host);
    return rc;
}

/* ---- what runs need ---- */

static void attach(struct host_run *h, struct host_allocation *al,
                   const struct fr_allocation_spec *spec)
{
    al->h = h;
    al->run_no = fr_run_no(h->run);
    al->spec = spec;
    al->a.queue_for_ms = spec->queue_for_ms;
    if (spec->container.pyxis != NULL || spec->container.apptainer != NULL)
        al->a.start_ms = IMAGE_MS;
    al->leaves = false;
    al->used_ms = fr_sys.mono_ms();
    if (al->places != NULL)
        alloc_places_known(al);
}

/* Its first place among the nodes of the spec; -1: the inventory has none of that name and copy. */
static int first_place(const struct fr_slurm_spec *slurm, const struct fr_allocation_row *row)
{
    for (size_t i = 0; i < slurm->n_allocations; i++) {
        const struct fr_allocation_spec *spec = &slurm->allocations[i];

        if (strcmp(spec->name, row->name) != 0)
            continue;
        if (row->copy == 0)
            return spec->copies == 0 ? spec->first : -1;
        return row->copy <= spec->copies ? spec->first + (int)row->copy - 1 : -1;
    }
    return -1;
}

/* Of two of one place, whether the second counts: one that is not over does, else the one that
 * ended last. */
static bool counts(const struct fr_allocation_life *first, const struct fr_allocation_life *second)
{
    bool over = second->state == FR_ALLOCATION_OVER;

    if (first == NULL || over != (first->state == FR_ALLOCATION_OVER))
        return first == NULL || !over;
    return second->ended_wall >= first->ended_wall;
}

struct host_allocation **alloc_newest(const struct host_run *h, struct fr_arena *arena)
{
    const struct fr_spec *spec = fr_run_spec(h->run);
    struct host_allocation **of = fr_arena_array(arena, spec->n_nodes, sizeof(*of));

    for (struct host_allocation *al = allocations_of(h->host)->first; of != NULL && al != NULL;
         al = al->next) {
        int first =
            fr_id_eq(al->row.run, fr_run_id(h->run)) ? first_place(spec->slurm, &al->row) : -1;

        if (first >= 0 && counts(of[first] != NULL ? &of[first]->a.life : NULL, &al->a.life))
            of[first] = al;
    }
    return of;
}

/* The end of one that is over is told again: a host that died may not have told the run. A refusal
 * is not: what needs the allocation asks for another one. */
static enum fr_rc come_one(struct host_run *h, const struct fr_allocation_row *newest,
                           struct host_allocation *al, struct fr_err *err)
{
    const struct fr_spec *spec = fr_run_spec(h->run);

    if (newest->state == FR_ALLOCATION_OVER && (al == NULL || al->row.id != newest->id) &&
        (al = add(h->host, newest)) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for an allocation");
    if (al == NULL)
        return FR_OK;
    attach(h, al,
           &spec->slurm->allocations[spec->nodes[first_place(spec->slurm, &al->row)].allocation]);
    if (al->a.life.state == FR_ALLOCATION_OVER)
        alloc_displace(al);
    return FR_OK;
}

static enum fr_rc come(struct host_run *h, struct fr_err *err)
{
    const struct fr_spec *spec = fr_run_spec(h->run);
    struct fr_arena arena = {0};
    struct fr_allocation_rows rows = {0};
    const struct fr_allocation_row **newest;
    struct host_allocation **of;
    enum fr_rc rc = FR_OK;

    if (spec->slurm == NULL)
        return FR_OK;
    newest = fr_arena_array(&arena, spec->n_nodes, sizeof(*newest));
    of = alloc_newest(h, &arena);
    if (newest == NULL || of == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for allocations");
    else
        rc = fr_store_allocations(h->host->env.store, fr_run_id(h->run), &arena, &rows, err);
    for (size_t i = 0; rc == FR_OK && i < rows.n; i++) {
        int first = first_place(spec->slurm, &rows.rows[i]);
        struct fr_allocation_life life, other;

        alloc_life(&rows.rows[i], &life);
        if (first >= 0 && newest[first] != NULL)
            alloc_life(newest[first], &other);
        if (first >= 0 && counts(newest[first] != NULL ? &other : NULL, &life))
            newest[first] = &rows.rows[i];
    }
    for (size_t i = 0; rc == FR_OK && i < spec->n_nodes; i++)
        if (newest[i] != NULL)
            rc = come_one(h, newest[i], of[i], err);
    fr_arena_finish(&arena);
    return rc;
}

void alloc_leave(struct host_allocation *al)
{
    al->h = NULL;
    al->spec = NULL;
    al->leaves = true;
}

enum fr_rc alloc_take(struct host_run *h, const struct fr_allocation_spec *spec, int copy,
                      struct host_allocation *before, struct fr_err *err)
{
    const struct fr_slurm_spec *slurm = fr_run_spec(h->run)->slurm;
    char tag[FR_ID_TEXT];
    struct fr_buf folder = {0};
    struct fr_arena arena = {0};
    const char *login = alloc_login_text(slurm->login, &arena);
    struct host_allocation *al = NULL;
    struct fr_id id;
    enum fr_rc rc = fr_id_new(&id, err);

    if (rc != FR_OK) {
        fr_arena_finish(&arena);
        return rc;
    }
    fr_id_text(id, tag);
    fr_buf_fmt(&folder, "%s/alloc/%s", slurm->work, tag);
    if (!folder.bad && login != NULL)
        al = add(h->host, &(struct fr_allocation_row){.run = fr_run_id(h->run),
                                                      .name = spec->name,
                                                      .nodes = spec->nodes,
                                                      .time_ms = spec->time_ms,
                                                      .lease_ms = spec->lease_ms,
                                                      .cluster = "",
                                                      .copy = copy,
                                                      .no = before ? before->row.no + 1 : 1,
                                                      .tag = tag,
                                                      .folder = folder.p,
                                                      .path = slurm->path ? slurm->path : "",
                                                      .login = login,
                                                      .rpc = slurm->rpc,
                                                      .slurm = "",
                                                      .reason = "",
                                                      .hosts = "",
                                                      .program = "",
                                                      .note = "",
                                                      .exit_state = "",
                                                      .tres = ""});
    fr_buf_finish(&folder);
    fr_arena_finish(&arena);
    if (al == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for an allocation");
    attach(h, al, spec);
    al->dirty = true;
    al->failed = before != NULL ? before->failed : 0;
    if (before != NULL)
        alloc_leave(before);
    return FR_OK;
}

static enum fr_rc decided(struct host_run *h, struct fr_err *err)
{
    if (fr_run_spec(h->run)->slurm == NULL)
        return FR_OK;
    for (struct host_allocation *al = allocations_of(h->host)->first; al != NULL; al = al->next)
        if (al->h == h && al->tells) {
            al->tells = false;
            al->told = true;
        }
    return alloc_look(h, err);
}

/* Its keepers may still close; of a run that is over that is waited for. */
static bool may_close(const struct host_allocation *al)
{
    const struct fr_allocation_life *l = &al->a.life;

    return al->leaves && l->job != 0 && !l->proven && fr_sys.wall_ms() < l->ended_wall + CLOSE_MS;
}

/* But for its accounting. */
static bool is_settled(const struct host_allocation *al)
{
    return !may_close(al) && al->a.life.state == FR_ALLOCATION_OVER && !al->dirty && al->due == 0 &&
           !al->removes && al->job == NULL && al->look_ms != 0;
}

static bool is_done(const struct host_allocation *al)
{
    return is_settled(al) && al->row.accounting != FR_ACCOUNTING_WANTED;
}

static void run_gone(struct host_run *h)
{
    for (struct host_allocation *al = allocations_of(h->host)->first, *next; al != NULL;
         al = next) {
        next = al->next;
        if (al->h != h)
            continue;
        al->h = NULL;
        al->spec = NULL;
        al->leaves = al->leaves || fr_run_now(h->run).state == FR_RUN_OVER;
        if (al->leaves)
            alloc_apply(al, &(struct fr_allocation_event){.kind = FR_ALLOCATION_UNNEEDED});
        if (is_done(al))
            drop(al);
    }
}

/* ---- turns ---- */

/* When its run is to be looked at again: nothing uses it for so long, or the next one may be taken.
 */
static int64_t look_due(const struct host_allocation *al)
{
    if (al->h == NULL || al->dirty || al->a.life.state == FR_ALLOCATION_RELEASING)
        return INT64_MAX;
    if (al->a.life.state == FR_ALLOCATION_OVER)
        return al->pauses && al->told ? al->used_ms : INT64_MAX;
    return al->used_ms + al->spec->idle_ms;
}

static void note_change(struct fr_host *host, enum host_topic topic)
{
    if (topic == HOST_NODES)
        allocations_of(host)->drains = host->woken = true;
}

static enum fr_rc look_at_all(struct fr_host *host, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    allocations_of(host)->drains = false;
    for (size_t i = 0; rc == FR_OK && i < host->n; i++)
        if (fr_run_spec(host->runs[i]->run)->slurm != NULL)
            rc = alloc_look(host->runs[i], err);
    return rc;
}

static enum fr_rc turn(struct fr_host *host, struct fr_err *err)
{
    struct host_allocations *all = allocations_of(host);
    int64_t now = fr_sys.mono_ms();
    enum fr_rc rc = FR_OK;

    if (all->drains)
        rc = look_at_all(host, err);
    for (struct host_cluster *c = all->clusters; c != NULL; c = c->next) {
        c->ask_ms = INT64_MAX;
        c->open = 0;
    }
    for (const struct host_allocation *al = all->first; al != NULL; al = al->next)
        al->cluster->open +=
            al->a.life.state != FR_ALLOCATION_WANTED && al->a.life.state != FR_ALLOCATION_OVER;
    for (struct host_allocation *al = all->first, *next; rc == FR_OK && al != NULL; al = next) {
        next = al->next;
        alloc_turn(al, now);
        if (look_due(al) <= now)
            rc = alloc_look(al->h, err);
        else if (al->h == NULL && is_done(al))
            drop(al);
    }
    for (struct host_cluster *c = all->clusters; c != NULL; c = c->next) {
        alloc_ask(c, now);
        alloc_account(c, now);
    }
    return rc;
}

static int64_t due(const struct fr_host *host)
{
    const struct host_allocations *all = allocations_of(host);
    int64_t first = all->retry_ms != 0 ? all->retry_ms : INT64_MAX;

    for (const struct host_allocation *al = all->first; al != NULL; al = al->next) {
        int64_t one = alloc_due(al), look = look_due(al), account = alloc_account_due(al);

        one = look < one ? look : one;
        one = account < one ? account : one;
        first = one < first ? one : first;
    }
    for (const struct host_cluster *c = all->clusters; c != NULL; c = c->next)
        first = !c->asking && c->ask_ms < first ? c->ask_ms : first;
    return first;
}

static bool owes(const struct fr_host *host)
{
    for (const struct host_allocation *al = allocations_of(host)->first; al != NULL; al = al->next)
        if (al->leaves && (!is_settled(al) || alloc_account_owed(al)))
            return true;
    return false;
}

static void close_all(struct fr_host *host)
{
    struct host_allocations *all = allocations_of(host);

    while (all->first != NULL)
        drop(all->first);
    while (all->clusters != NULL) {
        struct host_cluster *c = all->clusters;

        all->clusters = c->next;
        alloc_cluster_destroy(c);
    }
}

const struct host_part allocations_part = {
    .name = "allocations of clusters",
    .state_bytes = sizeof(struct host_allocations),
    .step = {[HOST_OPEN] = load_open, [HOST_TURN] = turn, [HOST_WRITTEN] = settle},
    .of_run = {[HOST_RUN_GONE] = run_gone},
    .changed = note_change,
    .decided = decided,
    .came = come,
    .due = due,
    .owes = owes,
    .owed = alloc_say_left,
    .close = close_all};
