/* The keys of a home's configuration, and its loader. */
#include "engine/spec/config.h"

#include "engine/base/sys.h"
#include "engine/spec/load.h"

#include <stdlib.h>
#include <string.h>

static const char utc[] = "UTC";

enum { SECRET_WAIT_MS = 12 * 3600 * 1000, STALLED_MS = 600 * 1000, DISK_LOW_BYTES = 1 << 30 };

static const struct field limit_fields[] = {
    {"max_active_runs", SHAPE_INT, AT(fr_limits, max_active_runs), .min = 1, .max = 100000,
     .help = "Runs at once; further ones wait in the queue. Default: no limit."},
    {"max_queued", SHAPE_INT, AT(fr_limits, max_queued), .min = 1, .max = 1000000,
     .help = "Runs that may wait in the queue. A further one is refused, and one of a schedule is "
             "skipped; one of a backfill, or that runs again by itself, comes once there is room. "
             "Default: no limit."},
    {"secret_wait", SHAPE_LIMIT, AT(fr_limits, secret_wait_ms), .preset = "12h",
     .help =
         "How long a start waits for a secret of a variable that no shell of its run has given, "
         "after another host took over; it fails then. never: for ever."},
    {"stalled", SHAPE_LIMIT, AT(fr_limits, stalled_ms), .preset = "10m",
     .help = "A task with metrics that shows no new step for so long is said to be stalled. "
             "never: it is not said."},
    {"disk_low", SHAPE_SIZE, AT(fr_limits, disk_low_bytes), .preset = "1GiB",
     .help =
         "Less space on the disk that a node's flownode has its files on is the event disk_low. "
         "0: it is none."},
    {0},
};
static const struct object object_limits = {"limits", "limits", limit_fields, NULL};

static const struct field keep_fields[] = {
    {"runs", SHAPE_INT, AT(fr_keep_runs, runs), .min = 1, .max = 10000000,
     .help = "The newest ended runs of each pipeline that stay. Default: all."},
    {"days", SHAPE_INT, AT(fr_keep_runs, days), .min = 1, .max = 36500,
     .help = "Days that a run stays after its end. Default: for ever."},
    {"failed_days", SHAPE_INT, AT(fr_keep_runs, failed_days), .min = 1, .max = 36500,
     .help = "The same for runs that failed. Default: as days."},
    {"bytes", SHAPE_SIZE, AT(fr_keep_runs, bytes),
     .help = "Size of the logs of all ended runs, beyond which the oldest runs go. "
             "0, the default: no limit."},
    {0},
};
static const struct object object_keep = {"keep", "keep", keep_fields, "days"};
const struct object object_keep_runs = {"keep_runs", "keep_runs", keep_fields, "days"};

static const struct field config_fields[] = {
    {"zone", SHAPE_STRING, AT(fr_config, zone), .preset = "UTC",
     .help = "Time zone of schedules that name none, as the IANA database calls it: "
             "Europe/Berlin."},
    {"limits", SHAPE_OBJECT, AT(fr_config, limits), .object = &object_limits,
     .help = "How many runs this home takes."},
    {"pools", SHAPE_POOLS, AT(fr_config, limits), .min = 1, .max = 100000,
     .help = "Places that pipelines share, at most 64 pools: how many runs of all those with pool: "
             "NAME are active at once."},
    {"keep", SHAPE_OBJECT, AT(fr_config, keep), .object = &object_keep,
     .help = "Which ended runs stay; 'flowrun gc', and a 'flowrun serve' by itself, remove the "
             "others. Pinned ones stay, and of each pipeline the newest that succeeded and the "
             "newest that failed. keep_runs: of a pipeline wins. Default: all stay."},
    {"channels", SHAPE_CHANNELS, ATN(fr_config, channels), .object = &object_channel,
     .help = "Where messages about runs go, by names that rules have."},
    {"notify", SHAPE_RULES, ATN(fr_config, notify), .object = &object_home_notify,
     .help = "Which events of which pipelines are told: one rule or a list of them. A pipeline may "
             "have rules of its own."},
    {0},
};
const struct object object_config = {"the configuration", "config", config_fields, NULL};

void read_pools(struct loader *l, const struct fr_yaml *y, const struct field *f, void *target)
{
    struct fr_limits *limits = (void *)((char *)target + f->at);

    if (y->kind != FR_YAML_MAP || y->n > FR_POOLS_MOST) {
        wrong_value(l, y, "pools", "a map of at most 64 names and numbers of runs");
        return;
    }
    for (size_t i = 0; i < y->n; i++) {
        struct fr_pool *pool = &limits->pools[limits->n_pools++];
        const char *name = y->pairs[i].key.p;
        const struct field runs = {name, SHAPE_INT, AT(fr_pool, runs), .min = f->min,
                                   .max = f->max};

        if (!label_ok(name))
            complain(l, pos_of_key(l, &y->pairs[i]), LABEL, "'%s' cannot be the name of a pool",
                     name);
        (void)snprintf(pool->name, sizeof(pool->name), "%s", name);
        read_field(l, y->pairs[i].value, &runs, pool);
    }
}

const struct fr_pool *fr_pool_find(const struct fr_limits *limits, const char *name)
{
    for (size_t i = 0; i < limits->n_pools; i++)
        if (strcmp(limits->pools[i].name, name) == 0)
            return &limits->pools[i];
    return NULL;
}

static void check_zone(struct loader *l, const struct fr_yaml *y, const char *name)
{
    struct fr_zone zone;
    struct fr_err err;

    if (fr_zone_load(&zone, getenv("TZDIR"), name, &err) != FR_OK)
        complain(l, pos_of(l, y), NULL, "zone: %s", err.msg);
    fr_zone_finish(&zone);
}

/* Every channel that rule number i of y names is there. */
static void check_rule(struct loader *l, const struct fr_yaml *y, const struct fr_config *config,
                       size_t i)
{
    const struct fr_yaml *rule = y->kind == FR_YAML_LIST ? y->items[i] : y;
    const struct fr_notify *n = &config->notify[i];

    for (size_t k = 0; k < n->n_to; k++) {
        size_t c = 0;

        while (c < config->n_channels && strcmp(config->channels[c].name, n->to[k]) != 0)
            c++;
        if (c == config->n_channels)
            complain(l, pos_of(l, fr_yaml_get(rule, "to")),
                     "a name under channels:", "there is no channel '%s'", n->to[k]);
    }
}

static void read_config(struct loader *l, const struct fr_yaml *root, void *target)
{
    struct fr_config *config = target;
    const struct fr_yaml *zone = fr_yaml_get(root, "zone");

    if (root->kind == FR_YAML_NULL) /* nothing but comments */
        return;
    l->folder[0] = strchr(l->opts->path, '/') != NULL ? folder_of(l, l->opts->path) : ".";
    read_object(l, &object_config, root, config);
    if (config->zone != utc)
        check_zone(l, zone, config->zone);
    for (size_t i = 0; i < config->n_notify; i++)
        check_rule(l, fr_yaml_get(root, "notify"), config, i);
    if (config->keep.failed_days == 0)
        config->keep.failed_days = config->keep.days;
}

enum fr_rc fr_config_load(const char *path, struct fr_config **out, struct fr_issues *issues,
                          struct fr_err *err)
{
    struct fr_config *config = fr_sys.alloc(sizeof(*config));
    struct fr_spec_opts opts = {.path = path};
    struct fr_spec source = {0}; /* the loader names its file in messages */
    enum fr_rc rc;

    *out = NULL;
    if (config == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %s", path);
    *config = (struct fr_config){.zone = utc,
                                 .limits = {.disk_low_bytes = DISK_LOW_BYTES,
                                            .secret_wait_ms = SECRET_WAIT_MS,
                                            .stalled_ms = STALLED_MS}};
    rc = load_file(&(struct load_job){&opts, &source, &config->arena, read_config, config}, issues,
                   err);
    config->there = rc == FR_OK;
    if (rc == FR_NOTFOUND)
        rc = FR_OK;
    if (rc == FR_OK)
        *out = config;
    else
        fr_config_destroy(config);
    return rc;
}

void fr_config_destroy(struct fr_config *config)
{
    if (config == NULL)
        return;
    fr_arena_finish(&config->arena);
    fr_sys.free(config);
}
