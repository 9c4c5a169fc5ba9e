/*
 * Tokens and sessions of the host's TCP interface, the audit log, and kept answers. Of secrets only
 * the SHA-256 is stored. Roles are the caller's words, as in store.h.
 */
#ifndef FR_STORE_ACCESS_H
#define FR_STORE_ACCESS_H

#include "engine/store/store.h"

#define FR_TOKEN_COLUMNS(C, S, R)                                                                  \
    C(R, TEXT, name, "name")                                                                       \
    C(R, TEXT, role, "role")                                                                       \
    C(R, INT, made_wall, "made_wall")                                                              \
    C(R, INT, ends_wall, "ends_wall")                                                              \
    C(R, INT, used_wall, "used_wall") /* 0: never */                                               \
    C(R, TEXT, hash, NULL)            /* SHA-256 of the secret, in hexadecimal digits */           \
    C(R, INT, id, NULL)               /* set by fr_store_token_add */

FR_ROWS(fr_token, FR_TOKEN_COLUMNS); /* by name */

/* FR_BUSY: there is one of that name. */
enum fr_rc fr_store_token_add(struct fr_store *st, struct fr_token_row *row, struct fr_err *err);
enum fr_rc fr_store_tokens(struct fr_store *st, struct fr_arena *arena, struct fr_token_rows *out,
                           struct fr_err *err);
/* May be lost by a power cut. */
enum fr_rc fr_store_token_used(struct fr_store *st, int64_t id, int64_t wall_ms,
                               struct fr_err *err);
/* With its sessions. FR_NOTFOUND. */
enum fr_rc fr_store_token_drop(struct fr_store *st, const char *name, struct fr_err *err);

#define FR_SESSION_COLUMNS(C, S, R)                                                                \
    C(R, TEXT, hash, NULL) /* as above */                                                          \
    C(R, INT, token, NULL) /* id; 0: the home's owner */                                           \
    C(R, INT, made_wall, NULL)                                                                     \
    C(R, INT, used_wall, NULL)
FR_ROWS(fr_session, FR_SESSION_COLUMNS);

/* Adds the row, or replaces the one of its hash. */
enum fr_rc fr_store_session_put(struct fr_store *st, const struct fr_session_row *row,
                                struct fr_err *err);
enum fr_rc fr_store_sessions(struct fr_store *st, struct fr_arena *arena,
                             struct fr_session_rows *out, struct fr_err *err);
/* A missing session is no error. */
enum fr_rc fr_store_session_drop(struct fr_store *st, const char *hash, struct fr_err *err);

/* A row of the audit. */
#define FR_AUDIT_COLUMNS(C, S, R)                                                                  \
    C(R, INT, id, "id")                                                                            \
    C(R, INT, wall, "wall")                                                                        \
    C(R, TEXT, what, "what")       /* removed, asked */                                            \
    C(R, INT, run, "run")          /* number; 0: of none */                                        \
    C(R, TEXT, name, "name")       /* removed: of the pipeline; asked: method and path */          \
    C(R, TEXT, outcome, "outcome") /* removed: of the run; asked: status of the answer */          \
    C(R, TEXT, who, "who")         /* asked: by whom */                                            \
    C(R, TEXT, address, "address") /* asked: from where; "": the host's socket */

FR_ROWS(fr_audit, FR_AUDIT_COLUMNS); /* the newest first */

/* Adds a row about a request; a power cut may lose it. Rows older than 400 days are deleted. */
enum fr_rc fr_store_asked_add(struct fr_store *st, const struct fr_audit_row *row,
                              struct fr_err *err);
/* Rows of every kind with ids below before, at most limit. */
enum fr_rc fr_store_audit(struct fr_store *st, int64_t before, size_t limit, struct fr_arena *arena,
                          struct fr_audit_rows *out, struct fr_err *err);

/* Requests about that run, at most limit. */
enum fr_rc fr_store_asked_of(struct fr_store *st, int64_t run, size_t limit, struct fr_arena *arena,
                             struct fr_audit_rows *out, struct fr_err *err);

/* The kept answer to a request with an idempotency key. */
#define FR_KEPT_COLUMNS(C, S, R)                                                                   \
    C(R, TEXT, request, NULL) /* SHA-256 of method, path and body, in hexadecimal digits */        \
    C(R, INT, status, NULL)                                                                        \
    C(R, TEXT, location, NULL)                                                                     \
    C(R, TEXT, body, NULL)
FR_ROWS(fr_kept, FR_KEPT_COLUMNS);
/* FR_NOTFOUND: none, or older than a day. */
enum fr_rc fr_store_kept(struct fr_store *st, const char *who, const char *key,
                         struct fr_arena *arena, struct fr_kept_row *out, struct fr_err *err);
/* May be lost by a power cut. Answers older than a day are deleted. */
enum fr_rc fr_store_keep(struct fr_store *st, const char *who, const char *key,
                         const struct fr_kept_row *row, struct fr_err *err);

#endif
