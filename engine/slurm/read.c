/* What commands of Slurm print. */
#include "engine/slurm/commands.h"

#include "engine/base/sys.h"
#include "engine/slurm/fields.h"
#include "engine/slurm/format.h"

#include <string.h>

enum { SECOND_MS = 1000, MINUTE_S = 60 };

static bool has(struct fr_str text, const char *part)
{
    return text.n > 0 && memmem(text.p, text.n, part, strlen(part)) != NULL;
}

static bool has_one(struct fr_str text, const char *const *parts)
{
    while (*parts != NULL && !has(text, *parts))
        parts++;
    return *parts != NULL;
}

/* ---- sbatch ---- */

bool fr_slurm_unanswered(struct fr_str errors)
{
    static const char *const parts[] = {"Unable to contact slurm controller",
                                        "Unable to establish control",
                                        "imed out",
                                        "ommunication connection failure",
                                        "Zero Bytes were transmitted",
                                        "onnection refused",
                                        "onnection reset",
                                        "not connected",
                                        "standby mode",
                                        "Message receive failure",
                                        "Unexpected message received",
                                        "Insane message length",
                                        "Could not establish a configuration source",
                                        "uthentication",
                                        "munge",
                                        NULL};

    return has_one(errors, parts);
}

/* Takes ": "-ended beginnings away that only say who speaks. */
static struct fr_str without_speaker(struct fr_str line)
{
    static const char *const speakers[] = {
        "sbatch: ", "error: ", "fatal: ", "Batch job submission failed: "};

    for (size_t i = 0; i < sizeof(speakers) / sizeof(speakers[0]); i++) {
        size_t n = strlen(speakers[i]);

        if (line.n > n && memcmp(line.p, speakers[i], n) == 0)
            line = (struct fr_str){line.p + n, line.n - n};
    }
    return line;
}

const char *fr_sbatch_refusal(struct fr_str errors, struct fr_arena *arena)
{
    struct fr_buf b = {0};
    struct fr_str line;
    const char *text;

    while (fr_next_line(&errors, &line)) {
        line = without_speaker(fr_field_trimmed(line));
        if (line.n == 0 || has(line, "--help"))
            continue;
        if (b.n > 0)
            fr_buf_text(&b, "; ");
        fr_buf_visible(&b, line.p, line.n);
    }
    text = b.bad ? NULL : fr_arena_text(arena, b.n > 0 ? b.p : "", b.n);
    fr_buf_finish(&b);
    return text;
}

/* "4711", "4711;cluster", and what sbatch says without --parsable. */
static int64_t job_of_line(struct fr_str line)
{
    static const char said[] = "Submitted batch job ";
    size_t n = strlen(said);
    const char *end;
    int64_t job;

    if (line.n > n && memcmp(line.p, said, n) == 0)
        line = (struct fr_str){line.p + n, line.n - n};
    end = line.n > 0 ? memchr(line.p, ';', line.n) : NULL;
    if (end == NULL && line.n > 0)
        end = memchr(line.p, ' ', line.n);
    if (end != NULL)
        line.n = (size_t)(end - line.p);
    return fr_field_number(line, &job) ? job : 0;
}

enum fr_sbatch_end fr_sbatch_read(int code, struct fr_str out, struct fr_str errors, int64_t *job)
{
    static const char *const later[] = {"temporarily unable to accept job",
                                        "MaxSubmitJob",
                                        "job submit limit",
                                        "ate limit",
                                        "MaxJobCount",
                                        "Reached the maximum number of jobs",
                                        NULL};
    static const char *const refusals[] = {"error: ", "fatal: ", "option", "no program", NULL};
    struct fr_str line;

    *job = 0;
    if (code == 0) {
        while (fr_next_line(&out, &line)) {
            int64_t found = job_of_line(fr_field_trimmed(line));

            *job = found > 0 ? found : *job;
        }
        return *job > 0 ? FR_SBATCH_JOB : FR_SBATCH_UNCLEAR;
    }
    if (code < 0 || fr_slurm_unanswered(errors) || !has_one(errors, refusals))
        return FR_SBATCH_UNCLEAR;
    return has_one(errors, later) ? FR_SBATCH_LATER : FR_SBATCH_REFUSED;
}

/* ---- squeue ---- */

static void read_hosts(struct fr_str s, struct fr_str *hosts)
{
    *hosts = fr_field_only(s, FR_NAME_CHARACTERS ",[]") ? s : (struct fr_str){0};
}

/* What it is of ours: a job, or an element of an array. Others have other names. */
static bool read_job(struct fr_str id, struct fr_str name, struct fr_squeue_line *to)
{
    if (!fr_field_tag(name, to->tag))
        return true;
    if (!fr_field_job(id, &to->job.job, &to->job.element))
        return false;
    fr_slurm_tag(to->tag, to->job.element, to->tag);
    return true;
}

static bool read_line(struct fr_str line, struct fr_squeue_line *to)
{
    struct fr_str f[SQUEUE_FIELDS] = {{NULL, 0}};

    *to = (struct fr_squeue_line){0};
    if (!fr_fields(line, f, SQUEUE_FIELDS) || !fr_field_number(f[SQUEUE_ID], &to->job.job) ||
        to->job.job <= 0 || !read_job(f[SQUEUE_JOB], f[SQUEUE_NAME], to) ||
        !fr_field_only(f[SQUEUE_STATE], FR_CAPITALS "_") ||
        f[SQUEUE_STATE].n >= sizeof(to->job.state) ||
        !fr_field_time(f[SQUEUE_START], &to->job.start_wall) ||
        !fr_field_time(f[SQUEUE_END], &to->job.end_wall))
        return false;
    memcpy(to->job.state, f[SQUEUE_STATE].p, f[SQUEUE_STATE].n);
    if (f[SQUEUE_REASON].n > 0)
        fr_visible(to->job.reason, sizeof(to->job.reason), f[SQUEUE_REASON].p, f[SQUEUE_REASON].n);
    read_hosts(f[SQUEUE_HOSTS], &to->job.hosts);
    return true;
}

enum fr_rc fr_squeue_read(struct fr_str out, fr_squeue_fn *on_job, void *arg, struct fr_err *err)
{
    struct fr_squeue_line parsed;
    struct fr_str rest = out, line;

    if (out.n > 0 && out.p[out.n - 1] != '\n')
        return fr_fail(err, FR_CORRUPT, "what squeue printed has no end");
    while (fr_next_line(&rest, &line)) /* of an output that is wrong, nothing is told */
        if (!read_line(line, &parsed))
            return fr_fields_refuse(err, "squeue", line);
    for (rest = out; fr_next_line(&rest, &line);)
        if (read_line(line, &parsed) && parsed.tag[0] != '\0')
            on_job(arg, &parsed);
    return FR_OK;
}

/* ---- scontrol ---- */

/* The number that text begins with; 0: none. */
static int64_t number(struct fr_str text)
{
    int64_t n = 0;

    for (size_t i = 0; i < text.n && text.p[i] >= '0' && text.p[i] <= '9' && n < INT32_MAX; i++)
        n = 10 * n + (text.p[i] - '0');
    return n;
}

/* Of "a,b=3,c": what b is; missing: it is not there. */
static int64_t parameter(struct fr_str list, const char *name, int64_t missing)
{
    size_t n = strlen(name);

    for (const char *at = list.p, *end = list.p + list.n; at != NULL && at + n < end;
         at = memchr(at, ',', (size_t)(end - at)), at = at != NULL ? at + 1 : NULL)
        if (memcmp(at, name, n) == 0 && at[n] == '=')
            return number((struct fr_str){at + n + 1, (size_t)(end - at) - n - 1});
    return missing;
}

/* Source: the parameters of SlurmctldParameters in slurm.conf's manual, and their defaults. */
static void read_limit(struct fr_str list, struct fr_slurm_config *c)
{
    int64_t rate = parameter(list, "rl_refill_rate", 2);
    int64_t period = parameter(list, "rl_refill_period", 1);
    int64_t half = rate * MINUTE_S / (period > 0 ? period : 1) / 2;

    if (has(list, "rl_enable"))
        c->rpc = half < 1 ? 1 : half > INT32_MAX ? INT32_MAX : (int)half;
}

static void read_setting(struct fr_str key, struct fr_str value, struct fr_slurm_config *c)
{
    if (fr_str_is(key, "SLURM_VERSION")) {
        const char *dot = memchr(value.p, '.', value.n);

        c->version[0] = (int)number(value);
        if (dot != NULL)
            c->version[1] =
                (int)number((struct fr_str){dot + 1, value.n - (size_t)(dot + 1 - value.p)});
    } else if (fr_str_is(key, "ClusterName")) {
        fr_visible(c->cluster, sizeof(c->cluster), value.p, value.n);
    } else if (fr_str_is(key, "ProctrackType")) {
        c->cgroups = has(value, "cgroup");
    } else if (fr_str_is(key, "TaskPlugin")) {
        c->binds = has(value, "affinity") || has(value, "cgroup");
    } else if (fr_str_is(key, "AccountingStorageType")) {
        c->accounting = has(value, "slurmdbd");
    } else if (fr_str_is(key, "SlurmctldParameters")) {
        read_limit(value, c);
    } else if (fr_str_is(key, "MinJobAge")) {
        c->min_age_ms = number(value) * SECOND_MS;
    } else if (fr_str_is(key, "KillWait")) {
        c->kill_wait_ms = number(value) * SECOND_MS;
    } else if (fr_str_is(key, "MaxArraySize")) {
        c->max_array = (int)number(value);
    }
}

enum fr_rc fr_slurm_config_read(struct fr_str out, struct fr_slurm_config *c, struct fr_err *err)
{
    struct fr_str rest = out, line;

    *c = (struct fr_slurm_config){.binds = true};
    while (fr_next_line(&rest, &line)) {
        const char *is = line.n > 0 ? memchr(line.p, '=', line.n) : NULL;

        if (is != NULL && is + 1 < line.p + line.n)
            read_setting(
                fr_field_trimmed((struct fr_str){line.p, (size_t)(is - line.p)}),
                fr_field_trimmed((struct fr_str){is + 1, line.n - (size_t)(is + 1 - line.p)}), c);
    }
    if (c->version[0] == 0)
        return fr_fail(err, FR_CORRUPT, "scontrol show config says no SLURM_VERSION");
    return FR_OK;
}

bool fr_srun_has_pyxis(struct fr_str help)
{
    return has(help, "--container-image");
}
