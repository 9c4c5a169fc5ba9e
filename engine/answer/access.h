/*
 * Access over TCP. A token is a secret with a name, a role and an expiry. A browser exchanges it
 * for a session, which ends 12 hours after its last use, 7 days after its begin, or with its token.
 * The home's owner makes links with a code that begins one session within a minute.
 *
 * Secrets are 32 random bytes. Their SHA-256 alone is stored, and compared in constant time.
 */
#ifndef FR_ANSWER_ACCESS_H
#define FR_ANSWER_ACCESS_H

#include "engine/api/api.h"
#include "engine/store/access.h"

enum { FR_SECRET_TEXT = 48 }; /* "frt_" and 43 characters of base64url (RFC 4648, 5), NUL */

const char *fr_role_name(enum fr_role role); /* "view" */
enum fr_role fr_role_of(const char *name);   /* FR_ROLE_NONE: there is none of that name */

/* A new token. FR_USAGE: its name is not 1 to 64 letters, digits, "-", "_", ".", or its days are
 * not 1 to 3650. FR_BUSY: the name is taken. */
struct fr_grant {
    const char *name;
    enum fr_role role;
    int64_t days;
};
enum fr_rc fr_token_make(struct fr_store *st, const struct fr_grant *grant,
                         char secret[FR_SECRET_TEXT], struct fr_err *err);

struct fr_access;

/* Borrows the store. */
enum fr_rc fr_access_create(struct fr_store *st, struct fr_access **out, struct fr_err *err);
void fr_access_destroy(struct fr_access *a); /* NULL is fine */

/* As fr_api.identify. */
bool fr_access_identify(struct fr_access *a, enum fr_api_secret kind, const char *secret, bool used,
                        struct fr_api_caller *out);

/* Reads the tokens again after one was added or removed. */
enum fr_rc fr_access_reload(struct fr_access *a, struct fr_err *err);

/* Begins a session from a token or a code of fr_access_code(). FR_DENIED: unknown or expired.
 * FR_BUSY: too many failures from this address, or on this machine with such a prefix of the
 * secret; *wait_ms: until the next try is accepted. */
enum fr_rc fr_access_login(struct fr_access *a, const char *secret, struct fr_api_caller *caller,
                           char session[FR_SECRET_TEXT], int64_t *wait_ms, struct fr_err *err);
/* Ends the session with that hash. */
enum fr_rc fr_access_logout(struct fr_access *a, const char *session, struct fr_err *err);

/* A new code for a link. */
enum fr_rc fr_access_code(struct fr_access *a, char code[FR_SECRET_TEXT], struct fr_err *err);

#endif
