/* token: makes, lists and removes tokens. */
#include "engine/cli/cli.h"

#include "engine/base/log.h"
#include "engine/answer/access.h"
#include "engine/store/types.h"

enum { DAYS_USUAL = 90 };

static void show_new(const char *name, const char *secret, bool json)
{
    if (json)
        cli_put_json(json_pack("{s:s, s:s}", "name", name, "token", secret));
    else
        fr_print("%s\n", secret);
}

/* Asks the host for the token: the host keeps all tokens in memory. */
static enum fr_rc ask_new(struct cli_call *c, const struct fr_grant *grant, struct fr_err *err)
{
    json_t *answer = NULL;
    struct cli_question q = {.method = "POST",
                             .body = json_pack("{s:s, s:s, s:I}", "name", grant->name, "role",
                                               fr_role_name(grant->role), "days",
                                               (json_int_t)grant->days),
                             .answer = &answer};
    enum fr_rc rc = cli_ask(fr_store_home(c->home.st), &q, err, "/api/v1/tokens");

    if (rc == FR_OK)
        show_new(grant->name, json_string_value(json_object_get(answer, "token")), c->json);
    json_decref(answer);
    return rc;
}

static enum fr_rc make(struct cli_call *c, struct fr_err *err)
{
    struct fr_grant grant = {c->args.v[1], FR_ROLE_NONE, DAYS_USUAL};
    const char *role, *days = cli_value(c, "--days");
    char secret[FR_SECRET_TEXT];
    enum fr_rc rc = cli_word(c, "--role", "view", &role, err);

    if (rc != FR_OK)
        return rc;
    grant.role = fr_role_of(role);
    if (days != NULL && fr_parse_i64(fr_str_of(days), &grant.days, NULL) != FR_OK)
        return fr_fail(err, FR_USAGE, "token: --days is a number, not '%s'", days);
    rc = cli_writer_open(&c->home, err);
    if (rc != FR_OK || c->home.lock_fd < 0)
        return rc == FR_OK ? ask_new(c, &grant, err) : rc;
    rc = fr_token_make(c->home.st, &grant, secret, err);
    if (rc == FR_OK)
        show_new(grant.name, secret, c->json);
    return rc;
}

static enum fr_rc ask_remove(struct fr_store *st, const char *name, struct fr_err *err)
{
    struct fr_buf coded = {0};
    enum fr_rc rc;

    for (const char *p = name; *p != '\0'; p++)
        fr_buf_fmt(&coded, "%%%02x", (unsigned char)*p);
    rc = coded.bad ? fr_fail(err, FR_NOMEM, "no memory for a request")
                   : cli_ask(fr_store_home(st), &(struct cli_question){.method = "DELETE"}, err,
                             "/api/v1/tokens/%s", coded.n > 0 ? coded.p : "");
    fr_buf_finish(&coded);
    return rc;
}

static enum fr_rc drop(struct cli_call *c, struct fr_err *err)
{
    const char *name = c->args.v[1];
    enum fr_rc rc = cli_writer_open(&c->home, err);

    if (rc == FR_OK)
        rc = c->home.lock_fd >= 0 ? fr_store_token_drop(c->home.st, name, err)
                                  : ask_remove(c->home.st, name, err);
    if (rc == FR_OK)
        fr_print("token %s: removed; whoever logged in with it is logged out\n", name);
    return rc;
}

static void print_one(const struct fr_token_row *r, bool json)
{
    char made[32], ends[32], used[32] = "-";

    cli_date(r->made_wall, made);
    cli_date(r->ends_wall, ends);
    if (r->used_wall != 0)
        cli_date(r->used_wall, used);
    if (json)
        cli_put_json(fr_row_json(&fr_token_type, r));
    else
        fr_print("%-24s  %-8s  %-19s  %-19s  %-19s\n", r->name, r->role, made, ends, used);
}

static enum fr_rc list(struct cli_call *c, struct fr_err *err)
{
    struct fr_token_rows rows = {0};
    enum fr_rc rc = cli_store_read(&c->home.st, err);

    if (rc == FR_OK)
        rc = fr_store_tokens(c->home.st, &c->arena, &rows, err);
    if (rc == FR_OK && !c->json && rows.n == 0)
        fr_print("there is no token; 'flowrun token new NAME' makes one\n");
    else if (rc == FR_OK && !c->json)
        fr_print("%-24s  %-8s  %-19s  %-19s  %-19s\n", "token", "role", "made", "ends", "used");
    for (size_t i = 0; rc == FR_OK && i < rows.n; i++)
        print_one(&rows.rows[i], c->json);
    return rc;
}

enum fr_rc cli_token(struct cli_call *c, struct fr_err *err)
{
    enum { NEW, LIST, RM };
    size_t act = LIST;
    enum fr_rc rc = cli_verb(c, "new list rm", &act, err);

    if (rc == FR_OK)
        rc = cli_args_between(c, act == LIST ? 0 : 2, act == LIST ? 1 : 2, err);
    if (rc != FR_OK)
        return rc;
    return act == LIST ? list(c, err) : act == NEW ? make(c, err) : drop(c, err);
}
