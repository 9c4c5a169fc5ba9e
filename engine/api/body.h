/*
 * Bodies of the requests that begin, repeat or resume a run. Each key is one row of body_keys():
 * the options of `flowrun run`, the body that a client writes, what the host checks and reads, and
 * what a request over TCP may have follow from it. A further key of a submit is a row, its field in
 * struct fr_submit, its option in engine/cli/table.c and its property in schema/openapi.json.
 */
#ifndef FR_API_BODY_H
#define FR_API_BODY_H

#include "engine/run/run.h"

enum body_use { BODY_SUBMIT = 1, BODY_RERUN = 2, BODY_RESUME = 4, BODY_GIVE = 8 };

enum body_kind {
    BODY_TEXT,
    BODY_PATH,   /* a text: an absolute path */
    BODY_ORIGIN, /* a word of enum fr_origin */
    BODY_ID,
    BODY_NUMBER, /* a whole one */
    BODY_FLAG,
    BODY_NAMES,  /* a list of texts: fr_resume_opts.abandon */
    BODY_TEXTS,  /* {name: text} */
    BODY_PARAMS, /* {name: text, number or flag}: fr_submit.spec.params */
};

struct body_key {
    const char *name;
    enum body_kind kind;
    unsigned of, needed;  /* requests that may have it, that must: enum body_use */
    bool shell;           /* a part of the run's shell (host_run.shell) */
    size_t at;            /* else: offset in struct fr_submit, of BODY_RESUME fr_resume_opts */
    int64_t least, most;  /* of a number */
    const char *option;   /* of `flowrun run` and `rerun`; NULL: none */
    const char *over_tcp; /* an example of its value for errors; NULL: not over TCP */
};

const struct body_key *body_keys(void); /* a NULL name ends them */

/* Adds the keys of from, a struct fr_submit or fr_resume_opts, to body. Paths count from cwd. */
void body_write(enum body_use use, const void *from, const char *cwd, json_t *body);

/* again: the run that is repeated; NULL: a new one. *shell is the caller's. Texts of out live in
 * doc and arena. FR_USAGE. */
enum fr_rc body_submit(json_t *doc, const struct fr_again *again, struct fr_arena *arena,
                       struct fr_submit *out, json_t **shell, struct fr_err *err);
enum fr_rc body_resume(json_t *doc, struct fr_arena *arena, struct fr_resume_opts *out,
                       json_t **shell, struct fr_err *err);
enum fr_rc body_give(json_t *doc, json_t **shell, struct fr_err *err);

/* FR_USAGE unless doc has only keys that a request over TCP may have, and all that it must. */
enum fr_rc body_over_tcp(json_t *doc, enum body_use use, struct fr_err *err);

#endif
