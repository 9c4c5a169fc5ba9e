#include "tasks/runtime.h"

#include "engine/base/json.h"
#include "engine/supervise/home.h"

#include <stdio.h>
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

enum fr_rc fr_runtime_choose(const char *wanted, const char **out, struct fr_err *err)
{
    static const char *const known[] = {"docker", "podman"};
    bool local = strcmp(fr_env("FLOWRUN_EXECUTOR", ""), "local") == 0;
    struct fr_err why = {.rc = FR_OK};

    *out = NULL;
    if (strcmp(wanted, "none") == 0 || (strcmp(wanted, "auto") == 0 && local))
        return FR_OK;
    for (size_t i = 0; i < 2; i++) {
        bool asked = strcmp(wanted, known[i]) == 0;
        if (!asked && strcmp(wanted, "auto") != 0)
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

static void take_text(char *out, size_t cap, const char *text)
{
    snprintf(out, cap, "%s", text != NULL && strlen(text) < cap ? text : "");
}

static enum fr_rc take_box(const char *text, const char *name, struct fr_box *out,
                           struct fr_err *err)
{
    json_t *doc, *box, *labels;
    const char *found, *home;
    enum fr_rc rc =
        fr_json_parse(fr_str_of(text), "what the runtime says of a container", &doc, err);

    if (rc != FR_OK)
        return rc;
    box = json_array_get(doc, 0);
    found = json_string_value(json_object_get(box, "Name"));
    if (found != NULL &&
        strcmp(found + (found[0] == '/'), name) == 0) { /* else a beginning of an id */
        labels = json_object_get(json_object_get(box, "Config"), "Labels");
        home = json_string_value(json_object_get(labels, FR_CONTAINER_LABEL));
        out->state = json_is_true(json_object_get(json_object_get(box, "State"), "Running"))
                         ? FR_BOX_RUNNING
                         : FR_BOX_STOPPED;
        out->ours = home != NULL && strcmp(home, fr_env("FLOWRUN_NODE_HOME", "?")) == 0;
        take_text(out->id, sizeof(out->id), json_string_value(json_object_get(box, "Id")));
        take_text(out->run, sizeof(out->run),
                  json_string_value(json_object_get(labels, FR_RUN_LABEL)));
        take_text(out->attempt, sizeof(out->attempt),
                  json_string_value(json_object_get(labels, FR_ATTEMPT_LABEL)));
    }
    json_decref(doc);
    return FR_OK;
}

enum fr_rc fr_box_look(const char *runtime, const char *name, struct fr_box *out,
                       struct fr_err *err)
{
    const char *const words[] = {"container", "inspect", name, NULL};
    struct fr_command c = {.timeout_ms = ANSWER_MS};
    enum fr_rc rc = run(runtime, words, &c, err);

    *out = (struct fr_box){.state = FR_BOX_ABSENT};
    if (rc == FR_IO && c.code > 0 && !c.signaled && c.err.p != NULL &&
        (strcasestr(c.err.p, "no such") != NULL || strcasestr(c.err.p, "not found") != NULL))
        rc = FR_OK;
    else if (rc == FR_OK)
        rc = take_box(c.out.p != NULL ? c.out.p : "", name, out, err);
    fr_command_finish(&c);
    return rc;
}

/* Lines of `top`: a heading, then one a process. */
static enum fr_rc count_processes(const char *runtime, const char *id, size_t *n,
                                  struct fr_err *err)
{
    const char *const words[] = {"top", id, NULL};
    struct fr_command c = {.timeout_ms = ANSWER_MS};
    enum fr_rc rc = run(runtime, words, &c, err);
    size_t lines = 0;

    for (size_t i = 0; rc == FR_OK && i < c.out.n; i++)
        lines += c.out.p[i] == '\n';
    *n = lines > 0 ? lines - 1 : 0;
    fr_command_finish(&c);
    return rc;
}

enum fr_rc fr_box_used(const char *runtime, const struct fr_box *box, bool *used,
                       struct fr_err *err)
{
    struct fr_id other;
    size_t n = 0;
    enum fr_rc rc;

    *used = false;
    if (box->state != FR_BOX_RUNNING || strcmp(box->run, fr_env("FLOWRUN_RUN", "")) == 0)
        return FR_OK;
    if (fr_id_parse(fr_str_of(box->run), &other) &&
        fr_home_run_driven(fr_env("FLOWRUN_NODE_HOME", ""), other)) {
        *used = true;
        return FR_OK;
    }
    rc = count_processes(runtime, box->id, &n, err);
    *used = n > 1;
    return rc;
}
