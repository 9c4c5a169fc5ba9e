/* api: sends one request to the home's host and prints the answer unchanged. */
#include "engine/cli/cli.h"

#include "engine/base/log.h"

static enum fr_rc ask(const char *method, const char *path, json_t *body, struct fr_err *err)
{
    struct fr_buf answer = {0};
    struct cli_question q = {.method = method, .body = body, .text = &answer};
    enum fr_rc rc = cli_ask(NULL, &q, err, "%s%s", path[0] == '/' ? "" : "/api/v1/", path);

    if (rc == FR_OK && answer.n > 0)
        fr_print("%s%s", answer.p, answer.p[answer.n - 1] == '\n' ? "" : "\n");
    fr_buf_finish(&answer);
    return rc;
}

enum fr_rc cli_api(struct cli_call *c, struct fr_err *err)
{
    const char *text = cli_value(c, "--data"), *method = text != NULL ? "POST" : "GET";
    bool said = fr_word_in("GET POST PUT DELETE", c->args.v[0]);
    json_t *body = NULL;
    enum fr_rc rc = cli_args_between(c, said ? 2 : 1, said ? 2 : 1, err);

    if (rc == FR_OK && text != NULL)
        rc = fr_json_parse(fr_str_of(text), "--data", &body, err);
    return rc == FR_OK ? ask(said ? c->args.v[0] : method, c->args.v[said], body, err) : rc;
}
