/* The families of GET /metrics, for meters.c and answer/gauges.c. */
#ifndef FR_METRICS_FAMILY_H
#define FR_METRICS_FAMILY_H

#include "engine/metrics/meters.h"
#include "engine/metrics/prom.h"
#include "engine/words/states.h"

enum meter_family {
    BUILD_INFO,
    START_TIME,
    LEADER,
    RUNS,
    RUNS_TOTAL,
    RUN_SECONDS,
    QUEUE_SECONDS,
    LAST_SUCCESS,
    ATTEMPTS_TOTAL,
    RETRIES_TOTAL,
    INSTANCES,
    QUEUE_LENGTH,
    POOL_USED,
    POOL_LIMIT,
    SCHEDULE_NEXT,
    SCHEDULE_PAUSED,
    FIRES_TOTAL,
    FIRE_LAG,
    CLOCK_STEPS,
    NODE_UP,
    NODE_AWAY,
    NODE_ATTEMPTS,
    NODE_DISK,
    TRAIN_STEP,
    TRAIN_LOSS,
    TRAIN_RATE,
    TRAIN_MOVED,
    COMMIT_SECONDS,
    STORE_BYTES,
    STALL_SECONDS,
    REQUESTS_TOTAL,
    REQUEST_SECONDS,
    STREAMS,
    STREAM_RESETS,
    DELIVERIES_TOTAL,
    DELIVERIES_WAITING,
    MEMORY,
    CPU,
    OPEN_FDS,
    MAX_FDS,
    FAMILIES
};

#define AT(family_, ...) ((struct fr_prom_at){.family = (family_), .values = {__VA_ARGS__}})

struct host_meters {
    struct fr_prom *prom;         /* owns */
    struct fr_machines *machines; /* owns */
    int64_t start_wall;
    uint64_t clock_steps; /* counted so far */
};

struct host_counts {
    uint32_t by_state[FR_ST_N];
    uint32_t *live;  /* owns: one a node */
    uint8_t *states; /* owns: n, one an instance */
    uint32_t n;
    bool started; /* its time in the queue was observed */
};

#endif
