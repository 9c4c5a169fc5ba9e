/* web: a link that opens the pages, logged in. */
#include "engine/cli/cli.h"

#include "engine/base/log.h"

static enum fr_rc print_links(json_t *answer)
{
    const char *code = json_string_value(json_object_get(answer, "code"));
    json_t *pages = json_object_get(answer, "pages");

    for (size_t i = 0; i < json_array_size(pages); i++)
        fr_print("%s#login=%s\n", json_string_value(json_array_get(pages, i)), code);
    return FR_OK;
}

int cli_web(const struct cli_command *cmd, char **argv)
{
    const struct cli_opt opts[] = {{.name = NULL}};
    struct cli_question q = {.method = "POST", .path = "/api/v1/codes"};
    struct cli_list args = {0};
    struct fr_buf home = {0};
    json_t *answer = NULL;
    struct fr_err err = {0};
    enum fr_rc rc = cli_parse(cmd, opts, argv, &args, &err);

    if (rc == FR_OK)
        rc = cli_home(&home, &err);
    if (rc == FR_OK && (rc = cli_ask(home.p, &q, &answer, &err)) == FR_UNREACHABLE)
        (void)fr_fail(&err, FR_UNREACHABLE,
                      "this home has no host: 'flowrun serve --http 127.0.0.1:8470' is one, with "
                      "pages");
    if (rc == FR_OK)
        rc = print_links(answer);
    json_decref(answer);
    fr_buf_finish(&home);
    cli_list_finish(&args);
    return rc == FR_OK ? CLI_OK : (int)cli_fail(&err);
}
