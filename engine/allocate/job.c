/* Calls on the folder of an allocation, in threads. */
#include "engine/allocate/private.h"

#include "engine/submit/folder.h"

static void free_job(void *arg)
{
    struct folder_job *j = arg;

    fr_buf_finish(&j->files);
    fr_arena_finish(&j->arena);
    fr_sys.free(j);
}

static const char *script_of(struct folder_job *j)
{
    const struct fr_allocation_spec spec = {.nodes = (int)j->n};
    struct fr_slurm_submit s = {.spec = &spec,
                                .folder = j->folder,
                                .flownode = j->program,
                                .kill_wait_ms = j->kill_wait_ms};

    return fr_slurm_script(&s, &j->arena);
}

/* The folder with all that is in it before the submit. */
static enum fr_rc make(struct folder_job *j)
{
    enum fr_rc rc = fr_folder_make(j->folder, j->flownode, &j->arena, &j->program, &j->err);
    const char *script = rc == FR_OK ? script_of(j) : NULL;

    if (rc != FR_OK)
        return rc;
    return script == NULL ? fr_fail(&j->err, FR_NOMEM, "no memory for a script")
                          : fr_folder_script(j->folder, script, &j->err);
}

static void in_thread(void *arg)
{
    struct folder_job *j = arg;

    if (j->call == FOLDER_MAKE)
        j->rc = make(j);
    else if (j->call == FOLDER_READ)
        j->rc = fr_folder_read(j->folder, &j->files, &j->err);
    else
        j->rc = fr_folder_remove(j->folder, &j->err);
}

static void on_over(void *arg)
{
    struct folder_job *j = arg;
    struct host_allocation *al = j->al;

    al->job = NULL;
    al->host->woken = true;
    alloc_job_over(al, j);
    free_job(j);
}

static bool fill(struct folder_job *j, const struct host_allocation *al)
{
    j->folder = fr_arena_dup(&j->arena, al->row.folder);
    if (j->call == FOLDER_MAKE)
        j->flownode =
            fr_arena_fmt(&j->arena, "%s/flownode", fr_nodes_program_dir(al->host->env.nodes));
    return j->folder != NULL && (j->call != FOLDER_MAKE || j->flownode != NULL);
}

void alloc_job_start(struct host_allocation *al, enum folder_call call)
{
    struct folder_job *j = fr_sys.alloc(sizeof(*j));
    struct fr_err err = {0};
    bool begun = j != NULL;

    if (begun) {
        *j = (struct folder_job){.al = al,
                                 .call = call,
                                 .job = al->a.life.job,
                                 .kill_wait_ms = al->cluster->kill_wait_ms,
                                 .answers = al->answered,
                                 .n = al->spec != NULL ? (size_t)al->spec->nodes : al->n_places};
        j->work = (struct fr_work){.run = in_thread, .over = on_over, .drop = free_job, .arg = j};
        begun = fill(j, al) && fr_loop_work(al->host->env.loop, &j->work) == FR_OK;
        if (!begun)
            free_job(j);
    }
    if (begun) {
        al->job = j;
        al->removes = al->removes && call != FOLDER_REMOVE;
    } else if (call == FOLDER_MAKE) {
        (void)fr_fail(&err, FR_NOMEM, "no memory, or no thread, for the folder of an allocation");
        alloc_refuse(al, &err);
    }
}

void alloc_job_forget(struct host_allocation *al)
{
    if (al->job != NULL && fr_loop_forget(al->host->env.loop, &al->job->work))
        free_job(al->job);
    al->job = NULL;
}
