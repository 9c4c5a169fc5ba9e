/* The ring of events and the streams that read it, for feed.c and feed_open.c. */
#ifndef FR_STREAM_FEED_H
#define FR_STREAM_FEED_H

#include "engine/runs/state.h"
#include "engine/stream/stream.h"

enum { STREAM_RUNS = 64 /* one stream may name so many */ };

struct host_event {     /* as streams send it */
    struct fr_id run;   /* zero: of no run */
    unsigned topic;     /* enum host_topic; 0: none */
    struct fr_buf text; /* owns */
};

enum { HOST_RING = 4096, HOST_RING_BYTES = 1 << 20 };

struct host_ring {                       /* the newest events, for slow and returning readers */
    struct host_event events[HOST_RING]; /* event n lies at n % HOST_RING */
    char name[24];                       /* "EPOCH-RANDOM", unique among all homes */
    uint64_t next, first, pumped;        /* numbers: next event, oldest kept, next to be sent */
    size_t bytes;
};

struct host_streams {
    struct fr_api_stream *first; /* owns */
    struct host_ring *ring;      /* owns; made with the first stream */
    unsigned topics;             /* enum host_topic: changed, and readers do not know it yet */
    int64_t topics_ms;           /* when an event of a topic was last sent, mono_ms */
};

struct host_streams *streams_of(const struct fr_host *host); /* the state of stream_part */

struct host_log { /* new output of an attempt */
    struct fr_id attempt;
    uint64_t bytes;
    bool metrics; /* bytes of its metrics file, not of its output */
};

enum { HOST_CHANGES = 500, HOST_LOGS = 64 }; /* in one event of a stream */

/* Changes of a run that are not yet in the ring. */
struct host_news {
    struct fr_buf changes; /* owns: the list of changes (stream.h) without its last bracket */
    size_t n_changes, n_logs;
    int64_t seq; /* of the newest event among the changes */
    struct host_log logs[HOST_LOGS];
    bool lost;            /* more than fits, or no memory: readers get a reset */
    bool run;             /* the run itself changed */
    int64_t sent_ms;      /* when the streams last got some */
    struct fr_buf *nodes; /* owns: the data of the newest note of each node; empty: none */
    uint32_t n_nodes;
};

struct fr_api_stream {
    struct fr_api_stream *next;
    struct fr_host *host;
    struct fr_api_sink sink;
    struct fr_id runs[STREAM_RUNS];
    size_t n_runs;
    unsigned topics; /* enum host_topic */
    bool all;        /* the request named neither runs nor topics */
    uint64_t at;     /* the next event for it */
    bool full;       /* waits until the reader has taken what it was sent */
};

bool stream_wants(const struct fr_api_stream *s, struct fr_id run);
void stream_send(struct fr_api_stream *s, struct fr_str text);
void stream_pump(struct fr_api_stream *s); /* sends the events that it has not got */
size_t feed_followers(const struct fr_host *host, struct fr_id run); /* streams that name it */
void feed_finish(struct fr_host *host);

#endif
