/* What an allocation's life asks for: the folder, squeue, scancel; and what became of it. */
#include "engine/allocate/private.h"

#include "engine/base/log.h"
#include "engine/link/link.h"

enum {
    LOOK_MS = 1000,       /* between two looks into the folder, while places come … */
    WATCH_MS = 30000,     /* … and afterwards */
    FOLDER_MS = 86400000, /* a folder in which not all keepers have closed stays so long */
};

/* Keeps what is known of all places. */
static bool keep_places(struct host_allocation *al, const struct alloc_seen *seen)
{
    struct alloc_place *places = fr_arena_array(&al->arena, seen->n, sizeof(*places));
    struct fr_buf hosts = {0};

    for (size_t k = 0; places != NULL && k < seen->n; k++) {
        places[k] = seen->places[k];
        places[k].host = fr_arena_dup(&al->arena, seen->places[k].host);
        places[k].address = fr_arena_dup(&al->arena, seen->places[k].address);
        if (places[k].host == NULL || places[k].address == NULL)
            places = NULL;
        fr_buf_fmt(&hosts, "%s%s", k > 0 ? " " : "", seen->places[k].host);
    }
    if (places != NULL && !hosts.bad)
        al->row.hosts = fr_arena_dup(&al->arena, hosts.p);
    fr_buf_finish(&hosts);
    if (places == NULL || al->row.hosts == NULL) {
        al->row.hosts = "";
        return false;
    }
    al->places = places;
    al->n_places = seen->n;
    al->dirty = al->host->woken = true;
    return true;
}

void alloc_answer(struct host_allocation *al, struct fr_str log)
{
    alloc_apply(al, &(struct fr_allocation_event){.kind = FR_ALLOCATION_ANSWERED,
                                                  .text = log,
                                                  .seen = al->seen,
                                                  .n_seen = al->n_seen});
    al->asked = al->answered = false;
}

/* Keepers write sooner than Slurm is asked again: what they have written makes it due. Of copies,
 * which may be many, those are looked at whose keeper is awaited. */
static int64_t next_look(const struct host_allocation *al)
{
    const struct fr_allocation_life *l = &al->a.life;

    if (l->element != 0 &&
        (l->state == FR_ALLOCATION_UP || (l->start_wall == 0 && l->state != FR_ALLOCATION_OVER)))
        return INT64_MAX;
    switch (al->a.life.state) {
    case FR_ALLOCATION_QUEUED:
    case FR_ALLOCATION_STARTING:
    case FR_ALLOCATION_RELEASING:
        return fr_sys.mono_ms() + LOOK_MS;
    case FR_ALLOCATION_UP:
        return fr_sys.mono_ms() + WATCH_MS;
    case FR_ALLOCATION_OVER:
        return al->a.life.proven ? INT64_MAX : fr_sys.mono_ms() + LOOK_MS;
    default:
        return INT64_MAX;
    }
}

static void on_read(struct host_allocation *al, struct folder_job *j)
{
    struct alloc_seen seen_now, *seen = &seen_now;

    if (j->rc == FR_OK)
        j->rc = alloc_folder_seen((struct fr_str){j->files.p, j->files.n}, j->job, j->n, &j->arena,
                                  seen, &j->err);
    if (j->rc != FR_OK) {
        fr_log(FR_LOG_WARN, "slurm", "allocation=%s job=%lld: %s", al->row.name,
               (long long)al->a.life.job, j->err.msg);
        al->look_ms = fr_sys.mono_ms() + WATCH_MS;
        al->asked = al->answered = al->answered && !j->answers; /* Slurm is asked again */
        return;
    }
    al->ask_now |= (seen->claimed != 0 && al->a.life.state == FR_ALLOCATION_QUEUED) ||
                   (seen->n > 0 && seen->n_closed == seen->n && !al->closed);
    al->closed = seen->n > 0 && seen->n_closed == seen->n;
    if (seen->claimed != 0)
        alloc_apply(
            al, &(struct fr_allocation_event){.kind = FR_ALLOCATION_CLAIMED, .job = seen->claimed});
    if (al->places == NULL && seen->n > 0 && seen->n_known == seen->n && keep_places(al, seen))
        alloc_places_known(al);
    if (al->closed)
        alloc_apply(al, &(struct fr_allocation_event){.kind = FR_ALLOCATION_CLOSED,
                                                      .leased = seen->leased});
    if (al->answered && j->answers)
        alloc_answer(al, fr_str_of(seen->error != NULL ? seen->error : seen->log));
    al->look_ms = next_look(al);
}

static void on_removed(struct host_allocation *al, const struct folder_job *j)
{
    if (j->rc != FR_OK) {
        fr_log(FR_LOG_WARN, "slurm", "allocation=%s: its folder stays: %s", al->row.name,
               j->err.msg);
        return;
    }
    al->row.folder = "";
    al->dirty = true;
}

void alloc_job_over(struct host_allocation *al, struct folder_job *j)
{
    if (j->call == FOLDER_MAKE)
        alloc_made(al, j);
    else if (j->call == FOLDER_READ)
        on_read(al, j);
    else
        on_removed(al, j);
}

/* ---- actions ---- */

/* The next answer about the tag tells what it did. */
static void on_twin_cancelled(void *arg, const struct fr_command_end *end)
{
    (void)end;
    alloc_apply(arg, &(struct fr_allocation_event){.kind = FR_ALLOCATION_CANCELLED});
}

static void cancel_twin(struct host_allocation *al)
{
    const struct fr_slurm_id id = {al->twin, al->a.life.element};
    struct fr_arena arena = {0};
    struct fr_command command = {.argv = fr_scancel_args(&id, 1, &arena),
                                 .asks = true,
                                 .ended = on_twin_cancelled,
                                 .arg = al};

    if (command.argv == NULL || fr_cluster_run(al->cluster->cluster, &command, NULL) != FR_OK)
        fr_log(FR_LOG_WARN, "slurm", "scancel %lld: no memory", (long long)al->twin);
    fr_arena_finish(&arena);
}

/* Keepers may still write there. */
static bool may_remove(const struct fr_allocation_life *l)
{
    return l->proven || fr_sys.wall_ms() > l->ended_wall + FOLDER_MS;
}

/* There is no way to it now: the next flowrun finds it in the row, unless it was never made. */
static void leave_folder(struct host_allocation *al)
{
    al->removes = false;
    if (al->row.program[0] != '\0' || al->cluster->broken[0] == '\0')
        return;
    al->row.folder = "";
    al->dirty = al->host->woken = true;
}

void alloc_act(struct host_allocation *al)
{
    unsigned due = al->due;

    al->due = 0;
    if ((due & FR_ALLOCATION_DO_SUBMIT) != 0)
        alloc_submit(al);
    al->ask_now |= (due & FR_ALLOCATION_DO_ASK) != 0;
    if (al->look_ms == INT64_MAX && al->job == NULL)
        al->look_ms = next_look(al);
    if ((due & FR_ALLOCATION_DO_CONNECT) != 0 && al->places != NULL)
        alloc_places_known(al);
    else if ((due & FR_ALLOCATION_DO_CONNECT) != 0)
        al->look_ms = 0;
    if ((due & FR_ALLOCATION_DO_CANCEL) != 0) {
        al->cancels = true;
        fr_nodes_moved(al->host->env.nodes);
    }
    if ((due & FR_ALLOCATION_DO_CANCEL_TWIN) != 0)
        cancel_twin(al);
    if ((due & FR_ALLOCATION_DO_END) != 0) {
        alloc_places_gone(al);
        al->removes = al->row.folder[0] != '\0' && may_remove(&al->a.life);
    }
    if (al->removes && !alloc_login_up(al->cluster))
        leave_folder(al);
    if (al->removes && al->job == NULL)
        alloc_job_start(al, FOLDER_REMOVE);
}

/* When Slurm is to be asked about it; INT64_MAX: it is not, or a question is under way. */
int64_t alloc_ask_ms(const struct host_allocation *al)
{
    if (al->asked || al->answered)
        return INT64_MAX;
    if (al->ask_now)
        return 0;
    return al->a.ask_ms != 0 ? al->a.ask_ms : INT64_MAX;
}

void alloc_turn(struct host_allocation *al, int64_t now)
{
    if (alloc_begin_ms(al) <= now)
        alloc_begin(al);
    if (al->a.due_ms != 0 && al->a.due_ms <= now)
        alloc_apply(al, &(struct fr_allocation_event){.kind = FR_ALLOCATION_DUE});
    if ((al->look_ms <= now || al->answered) && al->job == NULL) {
        al->look_ms = INT64_MAX; /* until it is back */
        alloc_job_start(al, FOLDER_READ);
    }
    if (alloc_ask_ms(al) < al->cluster->ask_ms)
        al->cluster->ask_ms = alloc_ask_ms(al);
}

int64_t alloc_due(const struct host_allocation *al)
{
    int64_t due = al->a.due_ms != 0 ? al->a.due_ms : INT64_MAX;

    if (al->a.life.state == FR_ALLOCATION_WANTED)
        due = alloc_begin_ms(al);
    return al->job == NULL && al->look_ms < due ? al->look_ms : due;
}

void alloc_forget(struct host_allocation *al)
{
    fr_cluster_forget(al->cluster->cluster, al);
    alloc_job_forget(al);
}
