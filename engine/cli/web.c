/* web: prints a link that opens the pages and logs in. */
#include "engine/cli/cli.h"

#include "engine/base/log.h"

enum fr_rc cli_web(struct cli_call *c, struct fr_err *err)
{
    json_t *answer = NULL, *pages;
    enum fr_rc rc = cli_ask(NULL, &(struct cli_question){.method = "POST", .answer = &answer}, err,
                            "/api/v1/codes");

    (void)c;
    pages = json_object_get(answer, "pages");
    for (size_t i = 0; i < json_array_size(pages); i++)
        fr_print("%s#login=%s\n", json_string_value(json_array_get(pages, i)),
                 json_string_value(json_object_get(answer, "code")));
    json_decref(answer);
    if (rc == FR_UNREACHABLE)
        rc = fr_fail(err, FR_UNREACHABLE,
                     "this home has no host: 'flowrun serve --http 127.0.0.1:8470' is one, with "
                     "pages");
    return rc;
}
