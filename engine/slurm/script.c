/* The script of a job: keepers on all of its nodes. Sources: the manuals of sbatch and srun; of
 * containers the README of pyxis 0.24. */
#include "engine/slurm/commands.h"
#include "engine/slurm/fields.h"

#include <string.h>

/* The text as one word of sh. */
static void quote(struct fr_buf *b, const char *text)
{
    fr_buf_text(b, "'");
    for (; *text != '\0'; text++)
        if (*text == '\'')
            fr_buf_text(b, "'\\''");
        else
            fr_buf_add(b, text, 1);
    fr_buf_text(b, "'");
}

/* The bytes of WORK in WORK/alloc/TAG. */
static size_t work_length(const char *folder)
{
    size_t n = strlen(folder);

    for (int parts = 0; n > 0 && parts < 2;)
        parts += folder[--n] == '/';
    return n;
}

/* The folder, or a file in it, as a word of sh: that of the element in the script of an array. */
static void put_path(struct fr_buf *b, const struct fr_slurm_submit *s, const char *file)
{
    struct fr_buf path = {0};

    if (s->n_elements > 0) {
        fr_buf_fmt(b, "\"$FOLDER%s\"", file);
        return;
    }
    fr_buf_fmt(&path, "%s%s", s->folder, file);
    quote(b, path.bad ? "" : path.p);
    b->bad = b->bad || path.bad;
    fr_buf_finish(&path);
}

/* The folder of an element comes with the element, and has its output. */
static void put_element(struct fr_buf *b, const struct fr_slurm_submit *s, struct fr_arena *arena)
{
    const char *any = fr_arena_text(arena, s->folder, strlen(s->folder) - FR_SLURM_INDEX);

    fr_buf_text(b, "FOLDER=");
    quote(b, any != NULL ? any : "");
    fr_buf_text(b, "$(printf %05d \"$SLURM_ARRAY_TASK_ID\")\n"
                   "[ -d \"$FOLDER\" ] || mkdir -m 700 \"$FOLDER\" || exit 1\n"
                   "exec >>\"$FOLDER/job.log\" 2>&1\n");
    b->bad = b->bad || any == NULL;
}

/* What steps in a container get of the job's environment, which is a login's: the rest would be
 * taken for the image's. What else is listed here is for pyxis and Apptainer themselves. */
static const char exported[] =
    "PATH,HOME,USER,LOGNAME,SHELL,LANG,TMPDIR,XDG_RUNTIME_DIR,XDG_CONFIG_HOME,XDG_DATA_HOME,"
    "XDG_CACHE_HOME,http_proxy,https_proxy,no_proxy";

/* Options of srun. The errors of a container that does not start are told to srun alone. */
static void put_pyxis(struct fr_buf *b, const struct fr_slurm_submit *s)
{
    const struct fr_slurm_container *c = &s->spec->container;
    size_t n = work_length(s->folder);
    struct fr_buf mounts = {0};

    fr_buf_fmt(&mounts, "%.*s:%.*s", (int)n, s->folder, (int)n, s->folder);
    for (size_t i = 0; i < c->n_mounts; i++)
        fr_buf_fmt(&mounts, strchr(c->mounts[i], ':') != NULL ? ",%s" : ",%s:%s", c->mounts[i],
                   c->mounts[i]);
    fr_buf_text(b, " -e ");
    put_path(b, s, "/job.log");
    fr_buf_fmt(b, " --open-mode=append --export=%s --container-image=", exported);
    quote(b, c->pyxis);
    fr_buf_text(b, " --container-mounts=");
    quote(b, mounts.bad ? "" : mounts.p);
    fr_buf_text(b, ",\"$b:$b\"");
    b->bad = b->bad || mounts.bad;
    fr_buf_finish(&mounts);
}

static void put_apptainer(struct fr_buf *b, const struct fr_slurm_submit *s)
{
    const struct fr_slurm_container *c = &s->spec->container;

    fr_buf_text(b, " --image ");
    quote(b, c->apptainer);
    fr_buf_text(b, " --program ");
    quote(b, c->program);
    if (s->spec->gpus > 0)
        fr_buf_text(b, " --nv");
    for (size_t i = 0; i < c->n_mounts; i++) {
        fr_buf_text(b, " --mount ");
        quote(b, c->mounts[i]);
    }
}

const char *fr_slurm_script(const struct fr_slurm_submit *s, struct fr_arena *arena)
{
    /* --export=NONE of sbatch would make srun start its steps without PATH. The step must not hold
     * an input or an output that a process may keep (node/keep.h). */
    static const char srun[] = "exec srun -Q -N%d -n%d --ntasks-per-node=1 --overlap --mem=0 "
                               "--kill-on-bad-exit=0 --wait=0%s --input=none -o none";
    const struct fr_slurm_container *c = &s->spec->container;
    struct fr_buf b = {0};
    const char *text;

    fr_buf_text(&b, "#!/bin/sh\nunset SLURM_EXPORT_ENV\n");
    if (s->n_elements > 0)
        put_element(&b, s, arena);
    if (c->pyxis != NULL) /* where keepers have their homes: the same path on all nodes */
        fr_buf_text(&b, "b=${SLURM_TMPDIR:-${TMPDIR:-/tmp}}\n");
    /* where there is nothing to bind with, srun complains of the option */
    fr_buf_fmt(&b, srun, s->spec->nodes, s->spec->nodes, s->binds ? " --cpu-bind=none" : "");
    if (c->pyxis != NULL)
        put_pyxis(&b, s);
    else if (c->apptainer != NULL)
        fr_buf_fmt(&b, " --export=%s", exported);
    fr_buf_text(&b, " ");
    quote(&b, s->flownode);
    fr_buf_text(&b, " keep --alloc ");
    put_path(&b, s, "");
    if (s->kill_wait_ms > 0)
        fr_buf_fmt(&b, " --kill-wait %lld", (long long)(s->kill_wait_ms / 1000));
    if (s->lease_ms > 0)
        fr_buf_fmt(&b, " --lease %lld", (long long)(s->lease_ms / 1000));
    if (c->pyxis != NULL)
        fr_buf_text(&b, " --inside --base \"$b\"");
    else if (c->apptainer != NULL)
        put_apptainer(&b, s);
    fr_buf_text(&b, "\n");
    text = b.bad ? NULL : fr_arena_text(arena, b.p, b.n);
    fr_buf_finish(&b);
    return text;
}
