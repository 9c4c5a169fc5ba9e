/*
 * The configuration of a home: config.yaml in it. Read and checked as a pipeline file is, so that
 * all mistakes come in one pass, each with its place. A file that is not there has the defaults.
 * Whoever acts on it loads it again when it may have changed; a loaded one never changes.
 */
#ifndef FR_SPEC_CONFIG_H
#define FR_SPEC_CONFIG_H

#include "engine/spec/spec.h"

#define FR_CONFIG_FILE "config.yaml"

enum { FR_POOLS_MOST = 64 };

struct fr_pool {
    char name[65];
    int runs; /* the most active runs */
};

struct fr_limits { /* 0: no limit */
    int max_active_runs;
    int max_queued;
    int64_t stalled_ms;     /* a task with metrics that shows no new step for so long is stalled */
    int64_t disk_low_bytes; /* less space on the disk of a node's work folder is the event disk_low;
                               0: never */
    int64_t secret_wait_ms; /* how long a start waits for a secret of a variable */
    struct fr_pool pools[FR_POOLS_MOST];
    size_t n_pools;
};

struct fr_config { /* owns: the arena, and with it all below */
    struct fr_arena arena;
    const char *zone; /* of the IANA database, or "UTC" (the default) */
    struct fr_limits limits;
    struct fr_keep_runs keep;
    const struct fr_channel *channels;
    size_t n_channels;
    const struct fr_notify *notify; /* to: channels that there are */
    size_t n_notify;
    bool there; /* the file is */
};

/* *out is NULL on failure, to be freed by fr_config_destroy. FR_USAGE: issues has every mistake,
 * err the first. FR_IO …: the file is there and could not be read. */
enum fr_rc fr_config_load(const char *path, struct fr_config **out, struct fr_issues *issues,
                          struct fr_err *err);
/* NULL: there is none of that name. */
const struct fr_pool *fr_pool_find(const struct fr_limits *limits, const char *name);
void fr_config_destroy(struct fr_config *config);

/* Appends schema/config.schema.json: the files that fr_config_load accepts. */
enum fr_rc fr_config_schema(struct fr_buf *out, struct fr_err *err);

#endif
