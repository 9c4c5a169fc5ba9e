/* token: what others, and programs, log in with. */
#include "engine/cli/cli.h"

#include "engine/base/log.h"
#include "engine/answer/access.h"
#include "engine/store/types.h"

#include <stdio.h>
#include <string.h>

enum { DAYS_USUAL = 90 };

struct token_opts {
    const char *role, *days;
    bool json;
};

static void show_new(const char *name, const char *secret, bool json)
{
    if (json)
        cli_put_json(json_pack("{s:s, s:s}", "name", name, "token", secret));
    else
        fr_print("%s\n", secret);
}

/* Where a host is, it makes the token, for it knows all of them. */
static enum fr_rc ask_new(const struct fr_grant *grant, bool json, struct fr_err *err)
{
    struct cli_question q = {.method = "POST", .path = "/api/v1/tokens"};
    json_t *body = json_pack("{s:s, s:s, s:I}", "name", grant->name, "role",
                             fr_role_name(grant->role), "days", (json_int_t)grant->days);
    json_t *answer = NULL;
    struct fr_buf home = {0};
    enum fr_rc rc = cli_home(&home, err);

    q.body = body;
    if (rc == FR_OK)
        rc = cli_ask(home.p, &q, &answer, err);
    if (rc == FR_OK)
        show_new(grant->name, json_string_value(json_object_get(answer, "token")), json);
    json_decref(answer);
    json_decref(body);
    fr_buf_finish(&home);
    return rc;
}

static enum fr_rc make(const char *name, const struct token_opts *o, struct fr_err *err)
{
    struct fr_grant grant = {name, fr_role_of(o->role), DAYS_USUAL};
    struct fr_store *st = NULL;
    char secret[FR_SECRET_TEXT];
    int lock_fd = -1;
    enum fr_rc rc;

    if (grant.role == FR_ROLE_NONE)
        return fr_fail(err, FR_USAGE, "token: --role is view, operate or admin, not '%s'", o->role);
    if (o->days != NULL && fr_parse_i64(fr_str_of(o->days), &grant.days, NULL) != FR_OK)
        return fr_fail(err, FR_USAGE, "token: --days is a number, not '%s'", o->days);
    rc = cli_store(&st, &lock_fd, err);
    if (rc == FR_BUSY)
        return ask_new(&grant, o->json, err);
    if (rc == FR_OK)
        rc = fr_token_make(st, &grant, secret, err);
    if (rc == FR_OK)
        show_new(name, secret, o->json);
    cli_store_close(st, lock_fd);
    return rc;
}

static enum fr_rc ask_remove(const char *name, struct fr_err *err)
{
    struct fr_buf home = {0}, path = {0};
    enum fr_rc rc = cli_home(&home, err);

    fr_buf_text(&path, "/api/v1/tokens/");
    for (const char *p = name; *p != '\0'; p++)
        fr_buf_fmt(&path, "%%%02x", (unsigned char)*p);
    if (rc == FR_OK && path.bad)
        rc = fr_fail(err, FR_NOMEM, "no memory for a request");
    if (rc == FR_OK)
        rc = cli_ask(home.p, &(struct cli_question){.method = "DELETE", .path = path.p}, NULL, err);
    fr_buf_finish(&path);
    fr_buf_finish(&home);
    return rc;
}

static enum fr_rc drop(const char *name, struct fr_err *err)
{
    struct fr_store *st = NULL;
    int lock_fd = -1;
    enum fr_rc rc = cli_store(&st, &lock_fd, err);

    if (rc == FR_BUSY)
        rc = ask_remove(name, err);
    else if (rc == FR_OK)
        rc = fr_store_token_drop(st, name, err);
    if (rc == FR_OK)
        fr_print("token %s: removed; whoever logged in with it is logged out\n", name);
    cli_store_close(st, lock_fd);
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

static enum fr_rc list(bool json, struct fr_err *err)
{
    struct fr_store *st = NULL;
    struct fr_arena arena = {0};
    struct fr_token_rows rows = {0};
    enum fr_rc rc = cli_store_read(&st, err);

    if (rc == FR_OK)
        rc = fr_store_tokens(st, &arena, &rows, err);
    if (rc == FR_OK && !json && rows.n == 0)
        fr_print("there is no token; 'flowrun token new NAME' makes one\n");
    else if (rc == FR_OK && !json)
        fr_print("%-24s  %-8s  %-19s  %-19s  %-19s\n", "token", "role", "made", "ends", "used");
    for (size_t i = 0; rc == FR_OK && i < rows.n; i++)
        print_one(&rows.rows[i], json);
    fr_arena_finish(&arena);
    fr_store_close(st);
    return rc;
}

static enum fr_rc act(const struct cli_command *cmd, const struct cli_list *args,
                      const struct token_opts *o, struct fr_err *err)
{
    const char *word = args->n > 0 ? args->v[0] : "list";
    bool is_list = strcmp(word, "list") == 0;
    enum fr_rc rc;

    if (!is_list && strcmp(word, "new") != 0 && strcmp(word, "rm") != 0)
        return fr_fail(err, FR_USAGE, "token: what is '%s'? It takes new, list or rm", word);
    rc = cli_args_between(cmd, args, is_list ? 0 : 2, is_list ? 1 : 2, err);
    if (rc != FR_OK)
        return rc;
    if (is_list)
        return list(o->json, err);
    return word[0] == 'n' ? make(args->v[1], o, err) : drop(args->v[1], err);
}

int cli_token(const struct cli_command *cmd, char **argv)
{
    struct token_opts o = {.role = "view"};
    const struct cli_opt opts[] = {
        {"--role", 0, "ROLE", "new: view (default), operate or admin", .value = &o.role,
         .words = "view operate admin"},
        {"--days", 0, "N", "new: how long it is good, 90 days unless said", .value = &o.days},
        {"--json", 0, NULL, "new, list: one JSON object a token", .flag = &o.json},
        {.name = NULL},
    };
    struct cli_list args = {0};
    struct fr_err err = {0};
    enum fr_rc rc = cli_parse(cmd, opts, argv, &args, &err);

    if (rc == FR_OK)
        rc = act(cmd, &args, &o, &err);
    cli_list_finish(&args);
    return rc == FR_OK ? CLI_OK : (int)cli_fail(&err);
}
