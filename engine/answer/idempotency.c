#include "engine/answer/idempotency.h"

#include "engine/base/log.h"
#include "engine/api/problem.h"

/* A caller who may change nothing has no keys, so nothing is stored for strangers. */
static bool is_keyed(const struct call *c)
{
    const struct fr_api_caller *who = c->req->caller;

    return c->req->key != NULL && c->req->method != FR_API_GET &&
           (who == NULL || who->role >= FR_ROLE_OPERATE);
}

static void name_of(const struct call *c, char out[FR_TOKEN_NAME])
{
    if (c->req->caller != NULL)
        snprintf(out, FR_TOKEN_NAME, "%s", c->req->caller->name);
    else
        snprintf(out, FR_TOKEN_NAME, "uid %ld", (long)fr_sys.uid());
}

/* The hash by which two requests are the same. */
static bool hash_of(const struct call *c, char out[FR_SHA256_TEXT])
{
    struct fr_buf b = {0};
    bool ok;

    fr_buf_fmt(&b, "%d %s\n", (int)c->req->method, c->req->path);
    fr_buf_add(&b, c->req->body.p, c->req->body.n);
    ok = !b.bad;
    if (ok)
        fr_sha256(b.p, b.n, out);
    fr_buf_finish(&b);
    return ok;
}

static bool is_key(const char *key)
{
    size_t n = strlen(key);

    for (size_t i = 0; i < n; i++)
        if (key[i] <= ' ' || key[i] > '~')
            return false;
    return n >= 1 && n <= KEY_MOST;
}

static void refuse(struct call *c, int status, const char *why)
{
    struct fr_err err = {0};

    fr_fail(&err, FR_USAGE, "%s", why);
    fr_problem(c->res, status, c->req->path, &err, NULL);
}

static void repeat(struct call *c, const struct fr_kept_row *kept)
{
    c->res->status = (int)kept->status;
    c->res->type = kept->status >= 400     ? "application/problem+json"
                   : kept->body[0] != '\0' ? "application/json"
                                           : NULL;
    fr_buf_text(&c->res->body, kept->body);
    fr_buf_text(&c->res->location, kept->location);
}

bool idempotency_answered(struct call *c)
{
    struct fr_kept_row kept = {0};
    char who[FR_TOKEN_NAME], hash[FR_SHA256_TEXT];
    struct fr_err err = {0};

    if (!is_keyed(c) || job_of(c->host, c->req->waiter) != NULL)
        return false;
    if (!is_key(c->req->key)) {
        refuse(c, 400, "Idempotency-Key must be 1 to 64 visible characters");
        return true;
    }
    name_of(c, who);
    if (!hash_of(c, hash) ||
        fr_store_kept(c->host->env.store, who, c->req->key, &c->arena, &kept, &err) != FR_OK)
        return false;
    if (strcmp(kept.request, hash) != 0)
        refuse(c, 422, "this Idempotency-Key came with another request");
    else
        repeat(c, &kept);
    return true;
}

void idempotency_keep(struct call *c)
{
    struct fr_kept_row row = {.status = c->res->status,
                              .body = c->res->body.n > 0 ? c->res->body.p : "",
                              .location = c->res->location.n > 0 ? c->res->location.p : ""};
    char who[FR_TOKEN_NAME], hash[FR_SHA256_TEXT];
    struct fr_err err = {0};

    if (!is_keyed(c) || c->res->status == FR_API_LATER || c->res->status >= 500 ||
        c->res->session.n > 0 || c->has_secret || c->res->body.bad)
        return;
    name_of(c, who);
    row.request = hash;
    if (!hash_of(c, hash) ||
        fr_store_keep(c->host->env.store, who, c->req->key, &row, &err) != FR_OK)
        fr_log(FR_LOG_WARN, "host", "the answer to key=%s is not kept: error=\"%s\"", c->req->key,
               err.msg);
}

bool idempotency_run(const struct call *c, char id[FR_ID_TEXT])
{
    char who[FR_TOKEN_NAME], hash[FR_SHA256_TEXT], text[FR_TOKEN_NAME + KEY_MOST + 2];

    if (!is_keyed(c))
        return false;
    name_of(c, who);
    snprintf(text, sizeof(text), "%s\n%s", who, c->req->key);
    fr_sha256(text, strlen(text), hash);
    snprintf(id, FR_ID_TEXT, "%.32s", hash);
    return true;
}
