/*
 * What tests of the host share: a host in a home of its own, with links to nodes that never come
 * up; requests as structs, a reader of a stream in memory, no sockets.
 */
#ifndef TESTS_UNIT_HOST_BED_H
#define TESTS_UNIT_HOST_BED_H

#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "engine/host/host.h"
#include "tests/unit/store/store_bed.h"

#include <string.h>
#include <sys/stat.h>

static const char pipeline[] = "name: p\nparams: {x: {default: \"1\"}, y: {type: int, default: 3, "
                               "choices: [3, 4], help: many}}\n"
                               "secrets: {s: {env: TOKEN}}\n"
                               "tasks:\n"
                               "  one: {run: 'true', env: {X: \"${{ params.x }}${{ env.WHO }}\"}}\n"
                               "  two: {needs: [one], run: 'true'}\n";

enum { BED_LOGGED = 4000 };

struct host_bed {
    char home[BED_HOME];
    struct fr_loop loop;
    struct fr_store *st;
    struct fr_host *host;
    struct fr_api api;
    struct fr_link_events opened; /* of the newest link, which is never up */
    /* Of the next requests. */
    const struct fr_api_caller *caller; /* over TCP; NULL: over the socket */
    const char *key;                    /* Idempotency-Key */
    const char *range, *type, *match;   /* Range, Content-Type and, of a PUT, If-Match */
    char body[1200];                    /* of make_body() and submit() */
    /* Of schedules_bed.h. */
    char folder[300];
    struct fr_arena arena;   /* of one row of a table */
    const char *wanted;      /* of until_fires() */
    char logged[BED_LOGGED]; /* since begin_log() */
};

#define HOST_BED                                                                                   \
    {                                                                                              \
        .range = "", .type = "application/json", .match = "*"                                      \
    } /* to start */

/* A wall clock for fr_sys.wall_ms, which threads read, too: so much ahead of the machine's. */
int64_t bed_wall_ms(void);
void bed_shift(int64_t ahead_ms);
void bed_pass(int64_t seconds);

void open_host(struct host_bed *bed);
void close_host(struct host_bed *bed);

/* ---- requests ---- */

#define GET FR_API_GET
#define POST FR_API_POST
#define PUT FR_API_PUT
#define DELETE FR_API_DELETE

void on_again(void *again);
/* What is answered later is asked again when the host says so. */
struct fr_api_response ask(struct host_bed *bed, enum fr_api_method method, const char *path,
                           const char *body);
/* The answer has that status, and text in its body. Finishes it. */
void check_answer(struct fr_api_response res, int status, const char *text);
/* The same, but the body of a success is text. */
void check_whole(struct fr_api_response res, int status, const char *text);
/* The answer to GET has text in its body. */
bool has_answer(struct host_bed *bed, const char *path, const char *text);

#define ID "00112233445566778899aabbccddeeff"
#define OTHER "ffeeddccbbaa99887766554433221100"

void make_body(struct host_bed *bed, const char *id, const char *more);

/* ---- streams ---- */

struct reader {
    struct fr_api_stream *s;
    struct fr_buf got;
    size_t queued; /* as send() answers */
    bool closed;
};

size_t take(void *arg, struct fr_str events);
void closed(void *arg);
/* Opens a stream by that query and Last-Event-ID; its status. follow(): of those runs. */
int follow_by(struct host_bed *bed, struct reader *r, const struct fr_api_pair *query, size_t n,
              const char *last);
int follow(struct host_bed *bed, struct reader *r, const char *runs, const char *last);
bool has(const struct reader *r, const char *text);
void turn_until(struct host_bed *bed, struct reader *r, const char *text);
/* One turn; false, and the row has failed: an error, nothing happened for long, or the test never
 * ends. */
bool turn_host(struct host_bed *bed);
bool is_over(struct host_bed *bed, const char *run);
void turn_until_over(struct host_bed *bed, const char *run);
/* Submits a run of FILE, whose number is no, and says in which state its row is then. */
void submit(struct host_bed *bed, const char *file, int no, const char *more, const char *state);
/* What the store says: "1 running, 2 queued", the runs from number from on. */
void check_states(struct host_bed *bed, int from, const char *want);
void cancel(struct host_bed *bed, const char *run);
void nothing(void *arg);
/* The host admits in the turn behind, and writes in the next. */
void settle_host(struct host_bed *bed);
/* The home with p.yaml, which is the pipeline above. */
void make_pipelines(struct host_bed *bed);
/* Instances of the run in the store. */
size_t count_rows(struct host_bed *bed, const char *run);

#endif
