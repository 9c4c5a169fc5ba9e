/* What an allocation's life asks for: the folder, sbatch, squeue, scancel; and what became of it.
 */
#include "engine/allocate/private.h"

#include "engine/base/log.h"
#include "engine/link/link.h"

enum {
    SBATCH_MS = 60000,
    LOOK_MS = 1000,       /* between two looks into the folder, while places come … */
    WATCH_MS = 30000,     /* … and afterwards */
    FOLDER_MS = 86400000, /* a folder in which not all keepers have closed stays so long */
};

void alloc_refuse(struct host_allocation *al, const struct fr_err *err)
{
    alloc_apply(al, &(struct fr_allocation_event){.kind = FR_ALLOCATION_REFUSED,
                                                  .transient = err->rc == FR_NOMEM ||
                                                               err->rc == FR_UNREACHABLE,
                                                  .text = fr_str_of(err->msg)});
}

static void on_submitted(void *arg, const struct fr_command_end *end)
{
    struct host_allocation *al = arg;
    struct fr_arena arena = {0};
    const char *refusal = fr_sbatch_refusal(end->errors, &arena);
    struct fr_allocation_event ev = {.text = fr_str_of(refusal != NULL ? refusal : "")};

    switch (fr_sbatch_read(end->code, end->out, end->errors, &ev.job)) {
    case FR_SBATCH_JOB:
        ev.kind = FR_ALLOCATION_SUBMITTED;
        break;
    case FR_SBATCH_LATER:
        ev.transient = true;
        ev.kind = FR_ALLOCATION_REFUSED;
        break;
    case FR_SBATCH_REFUSED:
        ev.kind = FR_ALLOCATION_REFUSED;
        break;
    default:
        ev.kind = FR_ALLOCATION_UNCLEAR;
        break;
    }
    alloc_apply(al, &ev);
    fr_arena_finish(&arena);
}

static void submit(struct host_allocation *al)
{
    char run[FR_ID_TEXT];
    struct fr_arena arena = {0};
    struct fr_err err = {0};
    struct fr_slurm_submit s = {.spec = al->spec,
                                .account = fr_run_spec(al->h->run)->slurm->account,
                                .tag = al->row.tag,
                                .folder = al->row.folder,
                                .flownode = al->row.program};
    const char *const *argv;
    enum fr_rc rc = FR_OK;

    fr_id_text(al->row.run, run);
    s.comment = fr_arena_fmt(&arena, "flowrun:%s:%s", run, al->row.name);
    argv = fr_sbatch_args(&s, &arena);
    if (s.comment == NULL || argv == NULL)
        rc = fr_fail(&err, FR_NOMEM, "no memory for a job");
    if (rc == FR_OK)
        rc = fr_cluster_run(al->cluster->cluster,
                            &(struct fr_command){.argv = argv,
                                                 .asks = true,
                                                 .limit_ms = SBATCH_MS,
                                                 .ended = on_submitted,
                                                 .arg = al},
                            &err);
    fr_arena_finish(&arena);
    al->made = false;
    if (rc != FR_OK)
        alloc_refuse(al, &err);
}

/* The program's path is to be in the row before there may be a job. */
static void on_made(struct host_allocation *al, struct folder_job *j)
{
    if (j->rc == FR_OK) {
        al->row.program = fr_arena_dup(&al->arena, j->program);
        if (al->row.program == NULL) {
            al->row.program = "";
            j->rc = fr_fail(&j->err, FR_NOMEM, "no memory for a path");
        }
    }
    if (j->rc != FR_OK) {
        alloc_refuse(al, &j->err);
        return;
    }
    al->made = al->dirty = true;
    al->due |= FR_ALLOCATION_DO_SUBMIT;
}

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

/* Keepers write sooner than Slurm is asked again: what they have written makes it due. */
static int64_t next_look(const struct host_allocation *al)
{
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
        on_made(al, j);
    else if (j->call == FOLDER_READ)
        on_read(al, j);
    else
        on_removed(al, j);
}

/* ---- commands ---- */

/* A scancel may be of a twin: the next answer about the tag tells what it did. */
static void on_cancelled(void *arg, const struct fr_command_end *end)
{
    (void)end;
    alloc_apply(arg, &(struct fr_allocation_event){.kind = FR_ALLOCATION_CANCELLED});
}

static void cancel(struct host_allocation *al, int64_t job)
{
    struct fr_arena arena = {0};
    struct fr_err err = {0};
    struct fr_command command = {
        .argv = fr_scancel_args(job, &arena), .asks = true, .ended = on_cancelled, .arg = al};

    if (command.argv == NULL || fr_cluster_run(al->cluster->cluster, &command, &err) != FR_OK)
        fr_log(FR_LOG_WARN, "slurm", "scancel %lld: no memory", (long long)job);
    fr_arena_finish(&arena);
}

/* Slurm cannot be asked from here; the next allocation tries that anew. */
static void refuse_broken(struct host_allocation *al)
{
    struct fr_err err = {0};

    (void)fr_fail(&err, FR_NOTFOUND, "%s", al->cluster->broken);
    alloc_refuse(al, &err);
    alloc_cluster_again(al->cluster);
}

/* ---- actions ---- */

static void act_submit(struct host_allocation *al)
{
    struct fr_err err = {0};
    enum fr_rc rc = FR_BUSY; /* its run is not here yet, or the thread is not back */

    if (al->h != NULL && al->job == NULL && al->cluster->broken[0] != '\0') {
        refuse_broken(al);
        return;
    }
    if (al->h != NULL && al->job == NULL)
        rc = alloc_container_ok(al, &err);
    if (rc == FR_BUSY)
        al->due |= FR_ALLOCATION_DO_SUBMIT;
    else if (rc != FR_OK)
        alloc_refuse(al, &err);
    else if (!al->made)
        alloc_job_start(al, FOLDER_MAKE);
    else
        submit(al);
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
        act_submit(al);
    al->ask_now |= (due & FR_ALLOCATION_DO_ASK) != 0;
    if (al->look_ms == INT64_MAX && al->job == NULL)
        al->look_ms = next_look(al);
    if ((due & FR_ALLOCATION_DO_CONNECT) != 0 && al->places != NULL)
        alloc_places_known(al);
    else if ((due & FR_ALLOCATION_DO_CONNECT) != 0)
        al->look_ms = 0;
    if ((due & FR_ALLOCATION_DO_CANCEL) != 0) {
        cancel(al, al->a.life.job);
        fr_nodes_moved(al->host->env.nodes);
    }
    if ((due & FR_ALLOCATION_DO_CANCEL_TWIN) != 0)
        cancel(al, al->twin);
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

/* One that cannot be asked at all is found out at once. */
static int64_t may_ask_ms(const struct host_allocation *al)
{
    return al->cluster->broken[0] != '\0' ? 0 : fr_cluster_may_ask_ms(al->cluster->cluster);
}

void alloc_turn(struct host_allocation *al, int64_t now)
{
    if (al->a.life.state == FR_ALLOCATION_WANTED && !al->dirty && al->h != NULL &&
        al->cluster->known && al->a.due_ms <= now && may_ask_ms(al) == 0)
        alloc_apply(al, &(struct fr_allocation_event){.kind = FR_ALLOCATION_MAY_ASK});
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
    int64_t ask = may_ask_ms(al);

    if (al->a.life.state == FR_ALLOCATION_WANTED && al->h != NULL && !al->dirty &&
        al->cluster->known)
        due = ask > al->a.due_ms ? ask : al->a.due_ms;
    return al->job == NULL && al->look_ms < due ? al->look_ms : due;
}

void alloc_forget(struct host_allocation *al)
{
    fr_cluster_forget(al->cluster->cluster, al);
    alloc_job_forget(al);
}
