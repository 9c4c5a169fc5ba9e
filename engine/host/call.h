/* A request while it is answered, for the files that answer. */
#ifndef FR_HOST_CALL_H
#define FR_HOST_CALL_H

#include "engine/host/internal.h"

/* One request, while it is answered. */
struct call {
    struct fr_host *host;
    const struct fr_api_request *req;
    struct fr_api_response *res;
    struct fr_arena arena; /* of rows and texts */
    json_t *doc;           /* of the body; NULL: it has none */
    struct fr_run_row run; /* that the path names */
    int64_t schedule;      /* likewise: its id */
    const char *rest;      /* of the path, behind what the route names */
};

typedef enum fr_rc handler(struct call *c, struct fr_issues *issues, struct fr_err *err);

/* answer.c */
/* Drops doc. */
enum fr_rc answer_json(struct call *c, int status, json_t *doc, struct fr_err *err);
/* A whole number of the query. */
enum fr_rc query_number(const struct call *c, const char *name, int64_t usual, int64_t *out,
                        struct fr_err *err);

/* answer_schedules.c */
handler get_schedules, get_schedule, put_schedule, get_fires;
/* answer_backfills.c: call.schedule is the number of a backfill */
handler get_backfills, post_backfills, post_backfill_pause, post_backfill_resume;
handler post_backfill_cancel;
enum fr_rc call_find_schedule(struct call *c, struct fr_str name, struct fr_err *err);

#endif
