#include "engine/answer/access.h"

#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "engine/base/tcp.h"

#include <stdio.h>
#include <string.h>

static const int64_t MINUTE_MS = 60000, HOUR_MS = 3600000, DAY_MS = 86400000;

enum {
    IDLE_HOURS = 12,
    SESSION_DAYS = 7,
    SESSIONS = 1000, /* the least recently used one is dropped first */
    CODES = 16,
    FAILURES = 5, /* per source and minute */
    SOURCES = 64,
    PREFIX = 12,    /* characters of a secret */
    USE_MINUTES = 5 /* resolution of the time of the last use */
};

struct token {
    char name[FR_TOKEN_NAME], hash[FR_SECRET_HASH];
    enum fr_role role;
    int64_t id, ends_wall, used_wall;
};

struct session {
    char hash[FR_SECRET_HASH];
    int64_t token, made_wall, used_wall;
};

struct code {
    char hash[FR_SECRET_HASH]; /* "": none */
    int64_t until_ms;
};

/* The source of failed logins: an address. Users of this machine share one address, so there the
 * prefix of the secret is the source, and no user locks out another. */
struct failure {
    char source[64];
    int n;
    int64_t since_ms;
};

struct fr_access {
    struct fr_store *store;
    struct token *tokens; /* owns */
    size_t n_tokens, cap_tokens;
    struct session *sessions; /* owns */
    size_t n_sessions, cap_sessions;
    struct code codes[CODES];
    size_t next_code;
    struct failure failures[SOURCES];
};

/* ---- words ---- */

static const char *const roles[] = {"none", "view", "operate", "admin", "owner"};

const char *fr_role_name(enum fr_role role)
{
    return roles[role];
}

enum fr_role fr_role_of(const char *name)
{
    for (int r = FR_ROLE_VIEW; r <= FR_ROLE_ADMIN; r++)
        if (strcmp(name, roles[r]) == 0)
            return (enum fr_role)r;
    return FR_ROLE_NONE;
}

/* ---- secrets ---- */

static enum fr_rc new_secret(const char *prefix, char out[FR_SECRET_TEXT], struct fr_err *err)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    uint8_t b[33] = {0}; /* the last byte completes a whole number of characters */
    char *p = out + strlen(prefix);

    if (fr_sys.random(b, sizeof(b) - 1) != 0)
        return fr_fail(err, FR_IO, "the system gives no random bytes");
    memcpy(out, prefix, strlen(prefix));
    for (size_t i = 0; i < 43; i++) {
        size_t bit = 6 * i;
        unsigned two = (unsigned)b[bit / 8] << 8 | (bit / 8 + 1 < sizeof(b) ? b[bit / 8 + 1] : 0U);

        p[i] = digits[two >> (10 - bit % 8) & 63];
    }
    p[43] = '\0';
    return FR_OK;
}

static void hash_of(const char *secret, char out[FR_SECRET_HASH])
{
    fr_sha256(secret, strlen(secret), out);
}

/* Compares in constant time. */
static bool same_hash(const char *a, const char *b)
{
    unsigned diff = 0;

    for (size_t i = 0; i + 1 < FR_SECRET_HASH; i++)
        diff |= (unsigned)(a[i] ^ b[i]);
    return diff == 0;
}

/* ---- tokens ---- */

enum fr_rc fr_token_make(struct fr_store *st, const struct fr_grant *grant,
                         char secret[FR_SECRET_TEXT], struct fr_err *err)
{
    static const char set[] = "-_.0123456789"
                              "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    size_t n = strlen(grant->name);
    char hash[FR_SECRET_HASH];
    struct fr_token_row row = {
        .name = grant->name, .role = fr_role_name(grant->role), .hash = hash};
    enum fr_rc rc;

    if (n == 0 || n >= FR_TOKEN_NAME || strspn(grant->name, set) != n)
        return fr_fail(err, FR_USAGE,
                       "the name of a token is 1 to %d letters, digits, '-', '_' and '.'",
                       FR_TOKEN_NAME - 1);
    if (grant->days < 1 || grant->days > 3650)
        return fr_fail(err, FR_USAGE, "a token lives 1 to 3650 days");
    if (grant->role == FR_ROLE_NONE)
        return fr_fail(err, FR_USAGE, "the role of a token is view, operate or admin");
    if ((rc = new_secret("frt_", secret, err)) != FR_OK)
        return rc;
    hash_of(secret, hash);
    row.made_wall = fr_sys.wall_ms();
    row.ends_wall = row.made_wall + grant->days * DAY_MS;
    return fr_store_token_add(st, &row, err);
}

/* Compares with all sessions, so that the time does not depend on which one matches. NULL: none
 * matches, or the session has ended. */
static struct token *find_token(struct fr_access *a, const char *hash)
{
    struct token *found = NULL;

    for (size_t i = 0; i < a->n_tokens; i++)
        if (same_hash(a->tokens[i].hash, hash))
            found = &a->tokens[i];
    return found != NULL && fr_sys.wall_ms() < found->ends_wall ? found : NULL;
}

static struct token *token_of(struct fr_access *a, int64_t id)
{
    for (size_t i = 0; i < a->n_tokens; i++)
        if (a->tokens[i].id == id)
            return fr_sys.wall_ms() < a->tokens[i].ends_wall ? &a->tokens[i] : NULL;
    return NULL;
}

/* Only some uses are written. */
static bool is_news(int64_t used_wall, int64_t now)
{
    return now < used_wall || now >= used_wall + USE_MINUTES * MINUTE_MS;
}

static void note_token(struct fr_access *a, struct token *t)
{
    int64_t now = fr_sys.wall_ms();
    struct fr_err err = {0};

    if (!is_news(t->used_wall, now))
        return;
    t->used_wall = now;
    if (fr_store_token_used(a->store, t->id, now, &err) != FR_OK)
        fr_log(FR_LOG_WARN, "access", "token=%s error=\"%s\"", t->name, err.msg);
}

/* ---- sessions ---- */

static bool is_alive(struct fr_access *a, const struct session *s)
{
    int64_t now = fr_sys.wall_ms();

    return now < s->used_wall + IDLE_HOURS * HOUR_MS &&
           now < s->made_wall + SESSION_DAYS * DAY_MS &&
           (s->token == 0 || token_of(a, s->token) != NULL);
}

static void drop_session(struct fr_access *a, size_t i)
{
    struct fr_err err = {0};

    if (fr_store_session_drop(a->store, a->sessions[i].hash, &err) != FR_OK)
        fr_log(FR_LOG_WARN, "access", "a session that is over stays: error=\"%s\"", err.msg);
    a->sessions[i] = a->sessions[--a->n_sessions];
}

static enum fr_rc put_session(struct fr_access *a, const struct session *s, struct fr_err *err)
{
    return fr_store_session_put(
        a->store, &(struct fr_session_row){s->hash, s->token, s->made_wall, s->used_wall}, err);
}

static void note_session(struct fr_access *a, struct session *s)
{
    int64_t now = fr_sys.wall_ms();
    struct fr_err err = {0};

    if (!is_news(s->used_wall, now))
        return;
    s->used_wall = now;
    if (put_session(a, s, &err) != FR_OK)
        fr_log(FR_LOG_WARN, "access", "the use of a session: error=\"%s\"", err.msg);
}

static struct session *find_session(struct fr_access *a, const char *hash)
{
    struct session *found = NULL;

    for (size_t i = 0; i < a->n_sessions; i++)
        if (same_hash(a->sessions[i].hash, hash))
            found = &a->sessions[i];
    return found != NULL && is_alive(a, found) ? found : NULL;
}

/* Drops the expired sessions, and then, if too many are left, the least recently used one. */
static void make_room(struct fr_access *a)
{
    size_t oldest = 0;

    for (size_t i = a->n_sessions; i-- > 0;)
        if (!is_alive(a, &a->sessions[i]))
            drop_session(a, i);
    for (size_t i = 0; i < a->n_sessions; i++)
        if (a->sessions[i].used_wall < a->sessions[oldest].used_wall)
            oldest = i;
    if (a->n_sessions >= SESSIONS)
        drop_session(a, oldest);
}

static enum fr_rc add_session(struct fr_access *a, int64_t token, char secret[FR_SECRET_TEXT],
                              char hash[FR_SECRET_HASH], struct fr_err *err)
{
    struct session s = {.token = token, .made_wall = fr_sys.wall_ms()};
    struct session *grown;
    enum fr_rc rc = new_secret("", secret, err);

    if (rc != FR_OK)
        return rc;
    make_room(a);
    grown = fr_grow(a->sessions, a->n_sessions + 1, &a->cap_sessions, sizeof(*grown));
    if (grown == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a session");
    a->sessions = grown;
    s.used_wall = s.made_wall;
    hash_of(secret, s.hash);
    if ((rc = put_session(a, &s, err)) != FR_OK)
        return rc;
    a->sessions[a->n_sessions++] = s;
    memcpy(hash, s.hash, sizeof(s.hash));
    return FR_OK;
}

/* ---- who it is ---- */

static void name_owner(struct fr_api_caller *out)
{
    out->role = FR_ROLE_ADMIN;
    snprintf(out->name, sizeof(out->name), "uid %ld", (long)fr_sys.uid());
}

static void name_token(const struct token *t, struct fr_api_caller *out)
{
    out->role = t->role;
    memcpy(out->name, t->name, sizeof(t->name));
}

bool fr_access_identify(struct fr_access *a, enum fr_api_secret kind, const char *secret, bool used,
                        struct fr_api_caller *out)
{
    char hash[FR_SECRET_HASH];
    struct session *s;
    struct token *t;

    hash_of(secret, hash);
    if (kind == FR_SECRET_TOKEN) {
        if ((t = find_token(a, hash)) == NULL)
            return false;
        if (used)
            note_token(a, t);
        name_token(t, out);
        return true;
    }
    if ((s = find_session(a, hash)) == NULL)
        return false;
    if (used)
        note_session(a, s);
    memcpy(out->session, s->hash, sizeof(s->hash));
    if (s->token == 0)
        name_owner(out);
    else
        name_token(token_of(a, s->token), out);
    return true;
}

/* ---- login ---- */

static void source_of(const char *address, const char *secret, char out[64])
{
    if (fr_tcp_is_loopback(address))
        snprintf(out, 64, "%s/%.*s", address, PREFIX, secret);
    else
        snprintf(out, 64, "%s", address);
}

/* The entry of that source; a new entry replaces the one whose last failure is the oldest. */
static struct failure *failure_of(struct fr_access *a, const char *source)
{
    struct failure *oldest = &a->failures[0];
    int64_t now = fr_sys.mono_ms();

    for (size_t i = 0; i < SOURCES; i++) {
        struct failure *f = &a->failures[i];

        if (f->n > 0 && now >= f->since_ms + MINUTE_MS)
            f->n = 0;
        if (f->n > 0 && strcmp(f->source, source) == 0)
            return f;
        if (f->n == 0 || (oldest->n > 0 && f->since_ms < oldest->since_ms))
            oldest = f;
    }
    *oldest = (struct failure){.since_ms = now};
    snprintf(oldest->source, sizeof(oldest->source), "%s", source);
    return oldest;
}

/* A code is used up by the first request. */
static bool take_code(struct fr_access *a, const char *hash)
{
    bool good = false;

    for (size_t i = 0; i < CODES; i++) {
        struct code *c = &a->codes[i];

        if (c->hash[0] == '\0' || !same_hash(c->hash, hash))
            continue;
        good = fr_sys.mono_ms() < c->until_ms;
        *c = (struct code){{0}, 0};
    }
    return good;
}

enum fr_rc fr_access_login(struct fr_access *a, const char *secret, struct fr_api_caller *caller,
                           char session[FR_SECRET_TEXT], int64_t *wait_ms, struct fr_err *err)
{
    char source[64], hash[FR_SECRET_HASH];
    struct failure *f;
    struct token *t;
    bool owner;

    source_of(caller->address, secret, source);
    f = failure_of(a, source);
    *wait_ms = f->n >= FAILURES ? f->since_ms + MINUTE_MS - fr_sys.mono_ms() : 0;
    if (f->n >= FAILURES)
        return fr_fail(err, FR_BUSY, "too many logins from %s%s failed: try again in a minute",
                       caller->address,
                       fr_tcp_is_loopback(caller->address) ? " with such a token" : "");
    hash_of(secret, hash);
    owner = take_code(a, hash);
    t = owner ? NULL : find_token(a, hash);
    if (!owner && t == NULL) {
        f->n++;
        return fr_fail(err, FR_DENIED,
                       "this is no token, or its time is over; 'flowrun token new NAME' makes one, "
                       "'flowrun web' a link that logs in");
    }
    if (owner)
        name_owner(caller);
    else
        name_token(t, caller);
    return add_session(a, owner ? 0 : t->id, session, caller->session, err);
}

enum fr_rc fr_access_logout(struct fr_access *a, const char *session, struct fr_err *err)
{
    for (size_t i = 0; i < a->n_sessions; i++)
        if (same_hash(a->sessions[i].hash, session)) {
            a->sessions[i] = a->sessions[--a->n_sessions];
            break;
        }
    return fr_store_session_drop(a->store, session, err);
}

enum fr_rc fr_access_code(struct fr_access *a, char code[FR_SECRET_TEXT], struct fr_err *err)
{
    enum fr_rc rc = new_secret("", code, err);
    struct code *c = &a->codes[a->next_code++ % CODES];

    if (rc != FR_OK)
        return rc;
    hash_of(code, c->hash);
    c->until_ms = fr_sys.mono_ms() + MINUTE_MS;
    return FR_OK;
}

/* ---- its life ---- */

enum fr_rc fr_access_reload(struct fr_access *a, struct fr_err *err)
{
    struct fr_arena arena = {0};
    struct fr_token_rows rows = {0};
    struct token *grown = a->tokens;
    enum fr_rc rc = fr_store_tokens(a->store, &arena, &rows, err);

    if (rc == FR_OK && rows.n > 0 &&
        (grown = fr_grow(a->tokens, rows.n, &a->cap_tokens, sizeof(*grown))) == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for tokens");
    if (rc == FR_OK) {
        a->tokens = grown;
        a->n_tokens = rows.n;
    }
    for (size_t i = 0; rc == FR_OK && i < rows.n; i++) {
        const struct fr_token_row *r = &rows.rows[i];
        struct token *t = &a->tokens[i];

        *t = (struct token){.role = fr_role_of(r->role),
                            .id = r->id,
                            .ends_wall = r->ends_wall,
                            .used_wall = r->used_wall};
        snprintf(t->name, sizeof(t->name), "%s", r->name);
        snprintf(t->hash, sizeof(t->hash), "%s", r->hash);
    }
    fr_arena_finish(&arena);
    return rc;
}

static enum fr_rc load_sessions(struct fr_access *a, struct fr_err *err)
{
    struct fr_arena arena = {0};
    struct fr_session_rows rows = {0};
    enum fr_rc rc = fr_store_sessions(a->store, &arena, &rows, err);

    if (rc == FR_OK && rows.n > 0 &&
        (a->sessions = fr_grow(NULL, rows.n, &a->cap_sessions, sizeof(*a->sessions))) == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for sessions");
    for (size_t i = 0; rc == FR_OK && i < rows.n; i++) {
        const struct fr_session_row *r = &rows.rows[i];
        struct session *s = &a->sessions[a->n_sessions++];

        *s = (struct session){
            .token = r->token, .made_wall = r->made_wall, .used_wall = r->used_wall};
        snprintf(s->hash, sizeof(s->hash), "%s", r->hash);
    }
    fr_arena_finish(&arena);
    return rc;
}

enum fr_rc fr_access_create(struct fr_store *st, struct fr_access **out, struct fr_err *err)
{
    struct fr_access *a = fr_sys.alloc(sizeof(*a));
    enum fr_rc rc;

    *out = NULL;
    if (a == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for tokens");
    *a = (struct fr_access){.store = st};
    rc = fr_access_reload(a, err);
    if (rc == FR_OK)
        rc = load_sessions(a, err);
    if (rc == FR_OK)
        *out = a;
    else
        fr_access_destroy(a);
    return rc;
}

void fr_access_destroy(struct fr_access *a)
{
    if (a == NULL)
        return;
    fr_sys.free(a->tokens);
    fr_sys.free(a->sessions);
    fr_sys.free(a);
}
