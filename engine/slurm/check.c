#include "engine/slurm/fields.h"
#include "engine/slurm/partitions.h"

#include <stdio.h>
#include <string.h>

enum { MINUTE_MS = 60000 };

static void tell(struct fr_slurm_sink sink, bool bad, enum fr_slurm_key key, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static void tell(struct fr_slurm_sink sink, bool bad, enum fr_slurm_key key, const char *fmt, ...)
{
    struct fr_slurm_finding f = {.bad = bad, .key = key};
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(f.text, sizeof(f.text), fmt, ap);
    va_end(ap);
    sink.found(sink.arg, &f);
}

/* ---- the cluster ---- */

bool fr_slurm_too_old(const struct fr_slurm_config *c)
{
    return c->version[0] * 100 + c->version[1] < FR_SLURM_OLDEST;
}

void fr_slurm_check_config(const struct fr_slurm_config *c, int rpc, struct fr_slurm_sink sink)
{
    if (fr_slurm_too_old(c))
        tell(sink, true, FR_SLURM_KEY_NONE,
             "Slurm %d.%02d is too old; expected 20.11 or later, whose srun has --overlap",
             c->version[0], c->version[1]);
    if (!c->cgroups)
        tell(sink, false, FR_SLURM_KEY_NONE,
             "ProctrackType is not cgroup: processes may outlive a job whose keeper was killed");
    if (!c->accounting)
        tell(sink, false, FR_SLURM_KEY_NONE,
             "there is no accounting (AccountingStorageType): of an allocation that is over, only "
             "its time is known");
    if (c->rpc > 0 && c->rpc < rpc)
        tell(sink, false, FR_SLURM_KEY_RPC,
             "rpc is %d, more than half of what the cluster's rate limit (rl_enable) allows: "
             "flowrun asks %d times a minute",
             rpc, c->rpc);
}

/* ---- an allocation ---- */

/* One partition that an allocation may have, over all of its lines. */
struct candidate {
    const struct fr_partition_line *line; /* the first */
    int64_t nodes, fit, usable;           /* fit: with the GPUs; usable: of these */
};

static bool is_named(const struct fr_partition_line *line, struct fr_str name)
{
    return name.n > 0 ? fr_str_is(name, line->name) : line->preset;
}

static struct candidate find(const struct fr_partitions *p, const struct fr_allocation_spec *spec,
                             struct fr_str name)
{
    struct candidate c = {0};

    for (size_t i = 0; i < p->n; i++) {
        const struct fr_partition_line *line = &p->lines[i];

        if (!is_named(line, name))
            continue;
        c.line = c.line != NULL ? c.line : line;
        c.nodes += line->nodes;
        if (fr_gres_gpus(line->gres, spec->gpu_type) < spec->gpus)
            continue;
        c.fit += line->nodes;
        c.usable += line->usable;
    }
    return c;
}

static void tell_missing(const struct fr_partitions *p, const struct fr_allocation_spec *spec,
                         struct fr_str name, struct fr_slurm_sink sink)
{
    char names[200] = "";
    size_t n = 0;

    for (size_t i = 0; i < p->n && n < sizeof(names); i++) {
        bool twice = false;

        for (size_t k = 0; k < i; k++)
            twice = twice || strcmp(p->lines[k].name, p->lines[i].name) == 0;
        if (!twice)
            n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%s", n > 0 ? ", " : "",
                                  p->lines[i].name);
    }
    if (name.n == 0)
        tell(sink, true, FR_SLURM_KEY_PARTITION,
             "allocation '%s' names no partition, and the cluster has no default; expected one of "
             "%s",
             spec->name, names);
    else
        tell(sink, true, FR_SLURM_KEY_PARTITION,
             "partition of allocation '%s': Slurm has no partition '%.*s'; expected one of %s",
             spec->name, (int)(name.n < 60 ? name.n : 60), name.p, names);
}

/* A quality of service may lift the limits of a partition. */
static bool tell_limits(const struct candidate *c, const struct fr_allocation_spec *spec, bool bad,
                        struct fr_slurm_sink sink)
{
    int64_t minutes = (spec->time_ms + MINUTE_MS - 1) / MINUTE_MS;
    bool lifted = spec->qos != NULL, fits = true;
    char asked[24], limit[24];

    if (c->line->limit_ms != INT64_MAX && minutes * MINUTE_MS > c->line->limit_ms) {
        fr_show_duration(spec->time_ms, asked);
        fr_show_duration(c->line->limit_ms, limit);
        tell(sink, bad && !lifted, FR_SLURM_KEY_TIME,
             "time of allocation '%s' is %s; expected at most %s, the limit of partition '%s'",
             spec->name, asked, limit, c->line->name);
        fits = lifted;
    }
    if (spec->nodes > c->line->most) {
        tell(sink, bad && !lifted, FR_SLURM_KEY_NODES,
             "nodes of allocation '%s' is %d; expected at most %lld, the limit of partition '%s'",
             spec->name, spec->nodes, (long long)c->line->most, c->line->name);
        fits = fits && lifted;
    }
    return fits;
}

static const char *gpus_text(const struct fr_allocation_spec *spec, char out[80])
{
    out[0] = '\0';
    if (spec->gpus > 0)
        snprintf(out, 80, " with %d%s%.40s GPU%s", spec->gpus, spec->gpu_type != NULL ? " " : "",
                 spec->gpu_type != NULL ? spec->gpu_type : "", spec->gpus > 1 ? "s" : "");
    return out;
}

/* Whether the allocation may have it. bad: what does not fit is. */
static bool check_one(const struct candidate *c, const struct fr_allocation_spec *spec, bool bad,
                      struct fr_slurm_sink sink)
{
    bool fits = tell_limits(c, spec, bad, sink);
    char gpus[80];

    if (strcmp(c->line->avail, "up") != 0) {
        tell(sink, bad, FR_SLURM_KEY_PARTITION,
             "partition '%s' of allocation '%s' is %s; expected one that is up", c->line->name,
             spec->name, c->line->avail);
        fits = false;
    }
    if (c->fit < spec->nodes) {
        bool few = c->nodes < spec->nodes;

        tell(sink, bad, few ? FR_SLURM_KEY_NODES : FR_SLURM_KEY_GPUS,
             "allocation '%s' asks for %d node%s%s; partition '%s' has %lld", spec->name,
             spec->nodes, spec->nodes > 1 ? "s" : "", few ? "" : gpus_text(spec, gpus),
             c->line->name, (long long)(few ? c->nodes : c->fit));
        fits = false;
    } else if (c->usable < spec->nodes) {
        tell(sink, false, FR_SLURM_KEY_NODES,
             "allocation '%s' asks for %d node%s%s; of the %lld that partition '%s' has, %lld %s "
             "neither down nor drained now",
             spec->name, spec->nodes, spec->nodes > 1 ? "s" : "", gpus_text(spec, gpus),
             (long long)c->fit, c->line->name, (long long)c->usable, c->usable == 1 ? "is" : "are");
    }
    return fits;
}

static void forget(void *arg, const struct fr_slurm_finding *f)
{
    (void)arg;
    (void)f;
}

/* The next of "a,b"; false: there is none. Of NULL one comes, which is empty: Slurm's default. */
static bool next_name(const char **rest, struct fr_str *name)
{
    size_t n;

    if (*rest == NULL)
        return false;
    n = strcspn(*rest, ",");
    *name = (struct fr_str){*rest, n};
    *rest = (*rest)[n] == ',' ? *rest + n + 1 : NULL;
    return true;
}

/* Slurm takes the first of several partitions that the job fits in, and refuses a job where one of
 * them is not there. */
void fr_slurm_check_allocation(const struct fr_partitions *p, const struct fr_allocation_spec *spec,
                               struct fr_slurm_sink sink)
{
    const char *all = spec->partition != NULL ? spec->partition : "", *rest;
    struct fr_str name;
    bool fits = false;

    for (rest = all; next_name(&rest, &name);) {
        struct candidate c = find(p, spec, name);

        fits = fits ||
               (c.line != NULL && check_one(&c, spec, true, (struct fr_slurm_sink){forget, NULL}));
    }
    for (rest = all; next_name(&rest, &name);) {
        struct candidate c = find(p, spec, name);

        if (c.line == NULL)
            tell_missing(p, spec, name, sink);
        else
            check_one(&c, spec, !fits, sink);
    }
}
