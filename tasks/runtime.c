#include "tasks/runtime.h"

#include <string.h>

enum { WORDS_MAX = 256, ANSWER_MS = 30000, RUN_MS = 30 * 60000 };

static enum fr_rc run(const char *runtime, const char *const *words, struct fr_command *c,
                      struct fr_err *err)
{
    const char *argv[WORDS_MAX + 2] = {runtime};
    size_t n = 0;

    while (words[n] != NULL && n < WORDS_MAX) {
        argv[n + 1] = words[n];
        n++;
    }
    if (words[n] != NULL)
        return fr_fail(err, FR_USAGE, "more than %d arguments for %s", WORDS_MAX, runtime);
    c->argv = argv;
    return fr_command_must(c, err);
}

enum fr_rc fr_runtime_run(const char *runtime, const char *const *words, struct fr_buf *out,
                          struct fr_err *err)
{
    struct fr_command c = {.timeout_ms = RUN_MS};
    enum fr_rc rc = run(runtime, words, &c, err);

    if (out != NULL) {
        *out = c.out;
        c.out = (struct fr_buf){0};
    }
    fr_command_finish(&c);
    return rc;
}

static enum fr_rc answers(const char *runtime, struct fr_err *err)
{
    const char *const words[] = {"info", NULL};
    struct fr_command c = {.timeout_ms = ANSWER_MS};
    enum fr_rc rc = run(runtime, words, &c, err);

    fr_command_finish(&c);
    return rc;
}

enum fr_rc fr_runtime_choose(const char *wish, const char **out, struct fr_err *err)
{
    static const char *const known[] = {"docker", "podman"};
    bool local = strcmp(fr_env("FLOWRUN_EXECUTOR", ""), "local") == 0;
    struct fr_err why = {.rc = FR_OK};

    *out = NULL;
    if (strcmp(wish, "none") == 0 || (strcmp(wish, "auto") == 0 && local))
        return FR_OK;
    for (size_t i = 0; i < 2; i++) {
        bool asked = strcmp(wish, known[i]) == 0;
        if (!asked && strcmp(wish, "auto") != 0)
            continue;
        if (!fr_program_found(known[i])) {
            if (asked)
                return fr_fail(err, FR_NOTFOUND, "%s is not installed on this node", known[i]);
            continue;
        }
        if (answers(known[i], &why) == FR_OK) {
            *out = known[i];
            return FR_OK;
        }
        if (asked)
            return fr_fail(err, why.rc, "%s does not answer: %s", known[i], why.msg);
    }
    if (why.rc != FR_OK)
        return fr_fail(err, why.rc, "no container runtime answers: %s", why.msg);
    return fr_fail(err, FR_NOTFOUND, "neither docker nor podman is installed on this node");
}

enum fr_rc fr_box_look(const char *runtime, const char *name, enum fr_box_state *state, bool *ours,
                       struct fr_err *err)
{
    const char *const words[] = {
        "container", "inspect",
        "--format",  "{{.State.Running}} {{index .Config.Labels \"" FR_CONTAINER_LABEL "\"}}",
        name,        NULL};
    struct fr_command c = {.timeout_ms = ANSWER_MS};
    enum fr_rc rc = run(runtime, words, &c, err);

    *state = FR_BOX_ABSENT;
    *ours = false;
    if (rc == FR_IO && c.code > 0 && !c.signaled && c.err.p != NULL &&
        (strcasestr(c.err.p, "no such") != NULL || strcasestr(c.err.p, "not found") != NULL))
        rc = FR_OK;
    else if (rc == FR_OK) {
        struct fr_str line = fr_last_line(&c.out);
        const char *home = fr_env("FLOWRUN_NODE_HOME", "?");
        *state = line.n >= 4 && memcmp(line.p, "true", 4) == 0 ? FR_BOX_RUNNING : FR_BOX_STOPPED;
        *ours = line.n > strlen(home) &&
                memcmp(line.p + line.n - strlen(home), home, strlen(home)) == 0 &&
                line.p[line.n - strlen(home) - 1] == ' ';
    }
    fr_command_finish(&c);
    return rc;
}
