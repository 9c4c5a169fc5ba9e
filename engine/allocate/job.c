/* Calls on the folder of an allocation: in threads, or on the login node. */
#include "engine/allocate/private.h"

#include "engine/link/link.h"
#include "engine/submit/folder.h"

enum { THERE_MS = 60000 /* a call on the login node */ };

static void free_job(void *arg)
{
    struct folder_job *j = arg;

    fr_buf_finish(&j->files);
    fr_arena_finish(&j->arena);
    fr_sys.free(j);
}

static const char *script_of(struct folder_job *j)
{
    const int64_t any = 1;
    struct fr_slurm_submit s = {.spec = &j->spec,
                                .folder = j->folder,
                                .flownode = j->program,
                                .kill_wait_ms = j->kill_wait_ms,
                                .binds = j->binds,
                                .lease_ms = j->lease_ms,
                                .elements = &any,
                                .n_elements = j->array};

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
    else if (j->folder[0] == '\0')
        j->rc = FR_OK; /* it is removed: there is nothing in it */
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

/* ---- on the login node: by its flownode ---- */

static bool run_there(struct folder_job *j, const char *call, const char *text);

/* The path of a program: one line. */
static bool is_path(struct fr_str s)
{
    return s.n > 1 && s.p[0] == '/' && memchr(s.p, '\0', s.n) == NULL &&
           memchr(s.p, '\n', s.n) == NULL;
}

/* Begins the next part of MAKE. False: there is none, or j->rc says why not. */
static bool go_on(struct folder_job *j, struct fr_str out)
{
    const char *script;

    if (j->call != FOLDER_MAKE || j->program != NULL)
        return false;
    if (!is_path(out)) {
        j->rc = fr_fail(&j->err, FR_PROTO, "the login node did not say where flownode is");
        return false;
    }
    j->program = fr_arena_text(&j->arena, out.p, out.n);
    script = j->program != NULL ? script_of(j) : NULL;
    if (script != NULL && run_there(j, "script", script))
        return true;
    j->rc = fr_fail(&j->err, FR_NOMEM, "no memory for a script");
    return false;
}

static void on_ended(void *arg, const struct fr_command_end *end)
{
    struct folder_job *j = arg;
    struct fr_buf said = {0};

    fr_link_quote(&said, end->errors.p, end->errors.n);
    if (end->code != 0)
        j->rc = fr_fail(&j->err, end->code < 0 ? FR_UNREACHABLE : FR_IO, "%s",
                        said.n > 0 ? said.p : "flownode on the login node failed");
    else if (j->call == FOLDER_READ)
        fr_buf_add(&j->files, end->out.p, end->out.n);
    fr_buf_finish(&said);
    if (j->rc != FR_OK || !go_on(j, end->out))
        on_over(j);
}

static bool run_there(struct folder_job *j, const char *call, const char *text)
{
    const char *const argv[] = {"flownode", "folder", call, j->folder, text, NULL};
    const struct fr_command command = {
        .argv = argv, .limit_ms = THERE_MS, .ended = on_ended, .arg = j};

    return fr_cluster_run(j->al->cluster->cluster, &command, NULL) == FR_OK;
}

/* ---- for both ---- */

static bool fill(struct folder_job *j, const struct host_allocation *al)
{
    bool ok = true;

    j->folder = fr_arena_dup(&j->arena, al->row.folder);
    if (j->call == FOLDER_MAKE) {
        j->spec.nodes = (int)j->n;
        j->spec.gpus = al->spec->gpus;
        ok = alloc_container_copy(&al->spec->container, &j->arena, &j->spec.container);
    }
    if (j->call == FOLDER_MAKE && al->cluster->login == NULL)
        j->flownode =
            fr_arena_fmt(&j->arena, "%s/flownode", fr_nodes_program_dir(al->host->env.nodes));
    return ok && j->folder != NULL &&
           (j->call != FOLDER_MAKE || al->cluster->login != NULL || j->flownode != NULL);
}

static bool begin(struct folder_job *j)
{
    static const char *const names[] = {
        [FOLDER_MAKE] = "make", [FOLDER_READ] = "read", [FOLDER_REMOVE] = "remove"};
    const struct host_allocation *al = j->al;

    if (!fill(j, al))
        return false;
    j->there = al->cluster->login != NULL && j->folder[0] != '\0';
    if (j->there)
        return run_there(j, names[j->call], NULL);
    return fr_loop_work(al->host->env.loop, &j->work) == FR_OK;
}

/* Also of one whose run this host does not drive; the row of an older flowrun does not say it. */
static size_t places_of(const struct host_allocation *al)
{
    if (al->row.nodes > 0)
        return (size_t)al->row.nodes;
    return al->spec != NULL ? (size_t)al->spec->nodes : al->n_places;
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
                                 .binds = al->cluster->binds,
                                 .lease_ms = al->spec != NULL ? al->spec->lease_ms : 0,
                                 .answers = al->answered,
                                 .array = al->row.element != 0,
                                 .n = places_of(al)};
        j->work = (struct fr_work){.run = in_thread, .over = on_over, .drop = free_job, .arg = j};
        begun = begin(j);
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
    if (al->job != NULL && al->job->there) {
        fr_cluster_forget(al->cluster->cluster, al->job);
        free_job(al->job);
    } else if (al->job != NULL && fr_loop_forget(al->host->env.loop, &al->job->work)) {
        free_job(al->job);
    }
    al->job = NULL;
}
