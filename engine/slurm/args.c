/* What commands of Slurm are given. Source: the manuals of sbatch, srun, squeue and scancel. */
#include "engine/slurm/commands.h"

#include "engine/slurm/fields.h"
#include "engine/slurm/format.h"

#include <string.h>

enum { MINUTE_MS = 60000, MIB = 1 << 20, ARGS = 40 };

/* Arguments as they come. bad: no memory, or too many. */
struct args {
    struct fr_arena *arena;
    const char **v;
    size_t n, cap;
    bool bad;
};

static void add(struct args *a, const char *text)
{
    if (text == NULL || a->n + 1 >= a->cap)
        a->bad = true;
    else
        a->v[a->n++] = text;
}

/* "--name=value", if there is a value. */
static void add_option(struct args *a, const char *name, const char *value)
{
    if (value != NULL)
        add(a, fr_arena_fmt(a->arena, "--%s=%s", name, value));
}

static struct args begin(struct fr_arena *arena, size_t cap)
{
    struct args a = {arena, fr_arena_array(arena, cap, sizeof(char *)), 0, cap, false};

    a.bad = a.v == NULL;
    a.cap = a.bad ? 0 : cap;
    return a;
}

static const char *const *end(struct args *a)
{
    return a->bad ? NULL : a->v;
}

static const char *const *fixed(struct fr_arena *arena, const char *const *words, const char *last)
{
    struct args a = begin(arena, ARGS);

    while (*words != NULL)
        add(&a, *words++);
    if (last != NULL)
        add(&a, last);
    return end(&a);
}

/* What the allocation is made of. */
static void add_size(struct args *a, const struct fr_allocation_spec *spec)
{
    int64_t minutes = spec->time_ms / MINUTE_MS + (spec->time_ms % MINUTE_MS != 0);
    int64_t mib = spec->memory / MIB + (spec->memory % MIB != 0);

    add(a, fr_arena_fmt(a->arena, "--nodes=%d", spec->nodes));
    add(a, "--ntasks-per-node=1");
    add(a, fr_arena_fmt(a->arena, "--time=%lld", (long long)minutes));
    if (spec->gpus > 0)
        add(a, fr_arena_fmt(a->arena, "--gres=gpu%s%s:%d", spec->gpu_type != NULL ? ":" : "",
                            spec->gpu_type != NULL ? spec->gpu_type : "", spec->gpus));
    if (spec->cpus > 0)
        add(a, fr_arena_fmt(a->arena, "--cpus-per-task=%d", spec->cpus));
    if (spec->memory > 0 || spec->exclusive) /* 0: all of a node's */
        add(a, fr_arena_fmt(a->arena, spec->memory > 0 ? "--mem=%lldM" : "--mem=%lld",
                            (long long)mib));
    if (spec->exclusive)
        add(a, "--exclusive");
}

void fr_slurm_tag(const char *any, int64_t element, char tag[33])
{
    size_t n = FR_SLURM_TAG - FR_SLURM_INDEX, length = strnlen(any, FR_SLURM_TAG);

    memmove(tag, any, length);
    memset(tag + length, '\0', FR_SLURM_TAG - length);
    for (size_t i = FR_SLURM_TAG; element > 0 && i-- > n; element = (element - 1) / 10 + 1)
        tag[i] = (char)('0' + (element - 1) % 10);
    tag[FR_SLURM_TAG] = '\0';
}

bool fr_slurm_same_array(const char *a, const char *b)
{
    return strncmp(a, b, FR_SLURM_TAG - FR_SLURM_INDEX) == 0;
}

/* "--array=0-99,107" */
static const char *array_of(const struct fr_slurm_submit *s, struct fr_arena *arena)
{
    struct fr_buf b = {0};
    const char *out;

    for (size_t i = 0, k; i < s->n_elements; i = k) {
        for (k = i + 1; k < s->n_elements && s->elements[k] == s->elements[k - 1] + 1;)
            k++;
        fr_buf_fmt(&b, "%s%lld", i > 0 ? "," : "--array=", (long long)s->elements[i] - 1);
        if (k > i + 1)
            fr_buf_fmt(&b, "-%lld", (long long)s->elements[k - 1] - 1);
    }
    out = b.bad ? NULL : fr_arena_dup(arena, b.p);
    fr_buf_finish(&b);
    return out;
}

const char *const *fr_sbatch_args(const struct fr_slurm_submit *s, struct fr_arena *arena)
{
    const struct fr_allocation_spec *spec = s->spec;
    struct args a = begin(arena, ARGS + spec->n_options);
    bool array = s->n_elements > 0;
    char name[FR_SLURM_TAG + 1];

    add(&a, "sbatch");
    add(&a, "--parsable");
    add(&a, "--export=NONE");
    add(&a, "--chdir=/");
    /* one that cannot be written would end the job */
    add(&a, array ? "--output=/dev/null" : fr_arena_fmt(arena, "--output=%s/job.log", s->folder));
    add(&a, "--open-mode=append");
    add(&a, "--no-requeue");
    add(&a, "--no-kill");
    fr_slurm_tag(s->tag, array, name);
    add(&a, fr_arena_fmt(arena, "--job-name=fr-%s", name));
    if (array)
        add(&a, array_of(s, arena));
    add_option(&a, "comment", s->comment);
    add_size(&a, spec);
    add_option(&a, "partition", spec->partition);
    add_option(&a, "account", spec->account != NULL ? spec->account : s->account);
    add_option(&a, "qos", spec->qos);
    add_option(&a, "reservation", spec->reservation);
    add_option(&a, "constraint", spec->constraint);
    for (size_t i = 0; i < spec->n_options; i++)
        add(&a, spec->options[i]);
    add(&a, fr_arena_fmt(arena, "%s/job.sh", s->folder));
    return end(&a);
}

const char *const *fr_squeue_args(const struct fr_slurm_named *tags, size_t n,
                                  struct fr_arena *arena)
{
    static const char *const words[] = {"squeue",       "--noheader", "--me",           "--array",
                                        "--states=all", "-o",         FR_SQUEUE_FORMAT, NULL};
    struct fr_buf names = {0};
    char name[FR_SLURM_TAG + 1];
    const char *last;

    fr_buf_text(&names, "--name=");
    for (size_t i = 0; i < n; i++) {
        bool array = tags[i].element > 0;

        if (array && i > 0 && tags[i - 1].element > 0 &&
            fr_slurm_same_array(tags[i].tag, tags[i - 1].tag))
            continue;
        fr_slurm_tag(tags[i].tag, array, name);
        fr_buf_fmt(&names, "%sfr-%s", i > 0 ? "," : "", name);
    }
    last = names.bad ? NULL : fr_arena_dup(arena, names.p);
    fr_buf_finish(&names);
    return last != NULL ? fixed(arena, words, last) : NULL;
}

const char *const *fr_scancel_args(const struct fr_slurm_id *ids, size_t n, struct fr_arena *arena)
{
    struct args a = begin(arena, n + 2);
    char text[FR_SLURM_JOB_TEXT];

    add(&a, "scancel");
    for (size_t i = 0; i < n; i++)
        add(&a, fr_arena_dup(arena, fr_slurm_job_text(ids[i].job, ids[i].element, text)));
    return end(&a);
}

const char *const *fr_slurm_config_args(struct fr_arena *arena)
{
    static const char *const words[] = {"scontrol", "show", "config", NULL};

    return fixed(arena, words, NULL);
}

const char *const *fr_srun_help_args(struct fr_arena *arena)
{
    static const char *const words[] = {"srun", "--help", NULL};

    return fixed(arena, words, NULL);
}

const char *const *fr_srun_args(const struct fr_slurm_step *s, struct fr_arena *arena)
{
    /* -u: without it, bytes wait for the end of a line */
    static const char *const words[] = {"srun",          "-u",          "-Q",        "--overlap",
                                        "-N1",           "-n1",         "--mem=0",   "--gres=none",
                                        "--export=NONE", "--input=all", "--chdir=/", NULL};
    struct args a = begin(arena, ARGS);

    for (size_t i = 0; words[i] != NULL; i++)
        add(&a, words[i]);
    add(&a, fr_arena_fmt(arena, "--jobid=%lld", (long long)s->job));
    add_option(&a, "nodelist", s->host);
    add(&a, s->flownode);
    add(&a, "relay");
    add(&a, "--alloc");
    add(&a, s->folder);
    add(&a, "--place");
    add(&a, fr_arena_fmt(arena, "%d", s->place));
    return end(&a);
}
