/* Sources: sacct's manual; what sacct 22.05 printed. */
#include "engine/slurm/accounting.h"

#include "engine/schedule/calendar.h"
#include "engine/slurm/commands.h"
#include "engine/slurm/fields.h"

#include <string.h>

enum {
    ARGS = 9, /* of sacct */
    SECOND_MS = 1000,
    APART_MS = 600000 /* clocks, and how long sbatch may take */
};

/* The name is last: only it may have any character. */
#define FORMAT "JobID,State,ElapsedRaw,Submit,End,MaxRSS,ConsumedEnergyRaw,AllocTRES,JobName"

enum { ID, STATE, ELAPSED, SUBMIT, END, RSS, ENERGY, TRES, NAME, FIELDS };

const char *const *fr_sacct_args(const struct fr_accounted *jobs, size_t n, struct fr_arena *arena)
{
    const char **argv = fr_arena_array(arena, ARGS + 1, sizeof(*argv));
    struct fr_buf ids = {0}, names = {0};
    char since[FR_TIME_TEXT], job[FR_SLURM_JOB_TEXT], name[FR_SLURM_TAG + 1];
    int64_t from = INT64_MAX;

    for (size_t i = 0; i < n; i++) {
        int64_t wall = jobs[i].submitted_wall > APART_MS ? jobs[i].submitted_wall - APART_MS : 0;

        from = wall < from ? wall : from;
        fr_buf_fmt(&ids, "%s%s",
                   i > 0 ? "," : "--jobs=", fr_slurm_job_text(jobs[i].job, jobs[i].element, job));
        fr_slurm_tag(jobs[i].tag, jobs[i].element > 0, name);
        if (i == 0 || jobs[i].element == 0 || !fr_slurm_same_array(name, jobs[i - 1].tag))
            fr_buf_fmt(&names, "%sfr-%s", i > 0 ? "," : "--name=", name);
    }
    fr_time_text(from / SECOND_MS, 0, since);
    since[strcspn(since, "Z")] = '\0';
    if (argv != NULL && !ids.bad && !names.bad) {
        argv[0] = "sacct";
        argv[1] = "--noheader";
        argv[2] = "--parsable2";
        argv[3] = "--noconvert";
        argv[4] = "--duplicates"; /* the records of a job that was requeued */
        argv[5] = fr_arena_dup(arena, ids.p);
        argv[6] = fr_arena_dup(arena, names.p);
        argv[7] = fr_arena_fmt(arena, "--starttime=%s", since);
        argv[8] = "--format=" FORMAT;
    }
    for (size_t i = 0; argv != NULL && i < ARGS; i++) /* one that lacks had no memory */
        argv = argv[i] != NULL ? argv : NULL;
    fr_buf_finish(&ids);
    fr_buf_finish(&names);
    return argv;
}

/* "33107968", "32332K", "1.50M", "": none. */
static bool read_size(struct fr_str s, int64_t *bytes)
{
    static const char units[] = "KMGTP";
    const char *unit = s.n > 0 ? memchr(units, s.p[s.n - 1], sizeof(units) - 1) : NULL;
    int shift = unit != NULL ? 10 * (int)(unit - units + 1) : 0;
    struct fr_str digits = {s.p, s.n - (unit != NULL)};
    const char *dot = digits.n > 0 ? memchr(digits.p, '.', digits.n) : NULL;
    int64_t tenths = 0;

    *bytes = 0;
    if (s.n == 0)
        return true;
    if (dot != NULL) {
        struct fr_str more = {dot + 1, digits.n - (size_t)(dot + 1 - digits.p)};

        if (!fr_field_only(more, FR_DIGITS))
            return false;
        tenths = more.p[0] - '0';
        digits.n = (size_t)(dot - digits.p);
    }
    if (!fr_field_number(digits, bytes) || *bytes > INT64_MAX >> (shift + 4))
        return false;
    *bytes = (*bytes << shift) + (tenths << shift) / 10;
    return true;
}

/* Joules. A number that stands for none is too large for an int64_t. */
static bool read_energy(struct fr_str s, int64_t *joules)
{
    *joules = 0;
    if (s.n > 0 && !fr_field_only(s, FR_DIGITS))
        return false;
    if (s.n > 0 && fr_parse_i64(s, joules, NULL) != FR_OK)
        *joules = 0;
    return true;
}

/* What was given, cut after a whole item. */
static void read_tres(struct fr_str s, char out[FR_SLURM_TRES])
{
    size_t n = s.n;

    while (n >= FR_SLURM_TRES || (n < s.n && n > 0 && s.p[n] != ','))
        n--;
    if (n > 0)
        memcpy(out, s.p, n);
    out[n] = '\0';
}

/* What a line says; *step: of a step, whose job it names. */
static bool read_line(struct fr_str line, struct fr_account *to, bool *step)
{
    struct fr_str f[FIELDS] = {{NULL, 0}}, id;
    const char *dot;
    int64_t end;

    *to = (struct fr_account){0};
    if (!fr_fields(line, f, FIELDS))
        return false;
    id = f[ID];
    dot = id.n > 0 ? memchr(id.p, '.', id.n) : NULL;
    *step = dot != NULL;
    if (dot != NULL)
        id.n = (size_t)(dot - id.p);
    if (!fr_field_job(id, &to->job, &to->element) ||
        !fr_field_only(f[STATE], FR_NAME_CHARACTERS " +") || f[STATE].n >= sizeof(to->state) ||
        (f[ELAPSED].n > 0 && !fr_field_number(f[ELAPSED], &to->elapsed_ms)) ||
        to->elapsed_ms > INT32_MAX || !fr_field_time(f[SUBMIT], &to->submit_wall) ||
        !fr_field_time(f[END], &end) || !read_size(f[RSS], &to->max_rss) ||
        !read_energy(f[ENERGY], &to->energy_j) ||
        (f[TRES].n > 0 && !fr_field_only(f[TRES], FR_NAME_CHARACTERS ",=/:")))
        return false;
    memcpy(to->state, f[STATE].p, f[STATE].n);
    to->elapsed_ms *= SECOND_MS;
    read_tres(f[TRES], to->tres);
    to->ended = to->whole = end != 0;
    if (fr_field_tag(f[NAME], to->tag))
        fr_slurm_tag(to->tag, to->element, to->tag);
    return true;
}

/* Of elements that were cancelled while they waited, all in a line: "4711_[5-7]". */
static bool never_began(struct fr_str line)
{
    const char *bar = memchr(line.p, '|', line.n);

    return bar != NULL && memchr(line.p, '[', (size_t)(bar - line.p)) != NULL;
}

/* A step's share of its job. Energy is a node's: steps that run at once have the same. */
static void add_step(struct fr_account *job, const struct fr_account *step)
{
    job->max_rss = step->max_rss > job->max_rss ? step->max_rss : job->max_rss;
    job->energy_j = step->energy_j > job->energy_j ? step->energy_j : job->energy_j;
    job->whole = job->whole && step->ended;
}

enum fr_rc fr_sacct_read(struct fr_str out, fr_account_fn *on_record, void *arg, struct fr_err *err)
{
    struct fr_account job = {0}, parsed;
    struct fr_str rest = out, line;
    bool step;

    if (out.n > 0 && out.p[out.n - 1] != '\n')
        return fr_fail(err, FR_CORRUPT, "what sacct printed has no end");
    while (fr_next_line(&rest, &line)) /* of an output that is wrong, nothing is told */
        if (line.n == 0 || (!never_began(line) && !read_line(line, &parsed, &step)))
            return fr_fields_refuse(err, "sacct", line);
    for (rest = out; fr_next_line(&rest, &line);) {
        if (never_began(line) || !read_line(line, &parsed, &step))
            continue;
        if (step && parsed.job == job.job && parsed.element == job.element) {
            add_step(&job, &parsed);
        } else if (!step) {
            if (job.tag[0] != '\0')
                on_record(arg, &job);
            job = parsed;
        }
    }
    if (job.tag[0] != '\0')
        on_record(arg, &job);
    return FR_OK;
}

void fr_account_add(struct fr_account *sum, const struct fr_account *record,
                    const struct fr_accounted *of)
{
    struct fr_account before = *sum;
    int64_t apart = record->submit_wall - of->submitted_wall;

    if (record->job != of->job || record->element != of->element ||
        strcmp(record->tag, of->tag) != 0 ||
        (of->submitted_wall != 0 && (apart < -APART_MS || apart > APART_MS)))
        return;
    *sum = *record;
    if (before.job == 0)
        return;
    sum->elapsed_ms += before.elapsed_ms;
    add_step(sum, &before);
    sum->whole = record->whole && before.whole;
    if (sum->tres[0] == '\0')
        memcpy(sum->tres, before.tres, sizeof(sum->tres));
}

int64_t fr_tres_count(const char *tres, const char *name)
{
    size_t n = strlen(name);
    int64_t all = 0, typed = 0;

    for (const char *at = tres; at != NULL; at = strchr(at, ','), at = at != NULL ? at + 1 : NULL) {
        const char *is = at + strcspn(at, "=,");
        int64_t count;

        if (strncmp(at, name, n) != 0 || *is != '=' ||
            !fr_field_number((struct fr_str){is + 1, strcspn(is + 1, ",")}, &count) ||
            count > INT32_MAX)
            continue;
        if (at[n] == '=')
            all = count;
        else if (at[n] == ':')
            typed += count;
    }
    return all > 0 ? all : typed;
}
