/* Views of the store as the text of a response. A view may have many rows, so a thread makes it. */
#ifndef FR_VIEW_TEXT_H
#define FR_VIEW_TEXT_H

#include "engine/base/err.h"
#include "engine/base/str.h"
#include "engine/view/response_cache.h"
#include "engine/spec/config.h"

enum host_view {
    HOST_VIEW_RUN,       /* the run with its tasks and their counts */
    HOST_VIEW_INSTS,     /* args: task, node, state ("": any) */
    HOST_VIEW_COLUMNS,   /* the same, a list a column */
    HOST_VIEW_OUTPUTS,   /* output values of tasks */
    HOST_VIEW_ARTIFACTS, /* files that the run kept */
    HOST_VIEW_GRAPH,     /* the picture of its plan; args[HOST_ARG_APART]: what is not folded */
    HOST_VIEW_PARAMS,
    HOST_VIEW_SPEC,      /* the pipeline file as stored; args: "now": as on disk */
    HOST_VIEW_RUNS,      /* args: state, pipeline, origin, text; numbers: before, schedule, since,
                          * until, limit, whether to count, and those of fr_run_order */
    HOST_VIEW_PIPELINES, /* all that ran, have schedules or lie in folders; args: the latter, as
                          * the JSON of [[name, file], …] */
    HOST_VIEW_PIPELINE,  /* args: its name, and its file in the folders, if there is one; as of
                          * GRAPH */
    HOST_VIEW_CHECK,     /* mistakes in a pipeline file; args: its text */
    HOST_VIEW_HISTORY,   /* its last runs; args: as of PIPELINE */
    HOST_VIEW_QUEUE,     /* limits: of the home */
    HOST_VIEW_POOLS,     /* likewise */
    HOST_VIEW_MERGED,    /* all logs, no JSON; args: a task or key; numbers: lines, times as of
                          * fr_merge_opts */
    HOST_VIEW_LINES,     /* of a log; args: its path; numbers: the first, how many */
    HOST_VIEW_HITS,      /* in a log; args: its path, what is sought, "1": it is a pattern; numbers:
                          * the line to begin at */
    HOST_VIEW_FOUND, /* the same in all logs; args: a task or key, …, the attempt to begin at */
    HOST_VIEW_TIMES, /* of a log; args: its path; numbers: bytes from, to */
    HOST_VIEW_N
};

enum { HOST_VIEW_ARGS = 4, HOST_ARG_APART = 3, HOST_VIEW_NUMBERS = 10 };

/* Words of fr_run_order.by, ended by NULL. */
extern const char *const host_sorts[];

struct line_index;
struct connection_pool;
struct task_summaries;

struct host_text {
    enum host_view view;
    struct fr_id run;
    uint32_t epoch; /* of this host */
    struct fr_limits limits;
    const char *args[HOST_VIEW_ARGS];
    int64_t numbers[HOST_VIEW_NUMBERS];
    const char *(*getenv)(void *self, const char *name); /* of PIPELINE: a variable of the shell */
    void *getenv_self;
    struct line_index *lines;            /* offsets of log lines; owns a reference */
    struct task_summaries *summaries;    /* of ended runs; owns a reference */
    struct connection_pool *connections; /* to the store; owns a reference */
    struct fr_buf json;                  /* out; owns */
    int64_t seq;                         /* out: the run's newest event that the text includes */
    int64_t priority;                    /* out, in views of a run, as pinned and driven: */
    bool pinned, driven;                 /* these change without an event */
    char fixed[RESPONSE_TAG];            /* likewise: ETag of spec and parameters */
    uint64_t changes;                    /* of the store when the request came */
};

enum fr_rc host_text_read(const char *home, struct host_text *text, struct fr_err *err);

#endif
