/* notify: the process of the built-in hook (FLOWRUN_WITH has the receiver, FLOWRUN_REPORT the
 * text), the sender of the host (--deliver), and the actions of users. */
#include "engine/cli/cli.h"

#include "engine/base/json.h"
#include "engine/base/log.h"
#include "engine/base/sign.h"
#include "engine/base/sys.h"
#include "engine/notify/curl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { HEADERS_MOST = 64 };

static const char *text_of(const json_t *with, const char *key, const char *otherwise)
{
    const char *s = json_string_value(json_object_get(with, key));

    return s != NULL ? s : otherwise;
}

struct letter {
    struct fr_arena *arena; /* of the headers */
    const char *headers[HEADERS_MOST];
    size_t n;
    bool bad; /* no memory */
};

static void add_header(struct letter *l, const char *name, const char *value)
{
    if (l->n < HEADERS_MOST) {
        l->headers[l->n] = fr_arena_fmt(l->arena, "%s: %s", name, value);
        l->bad |= l->headers[l->n++] == NULL;
    }
}

/* Adds the headers by which the receiver checks origin, age and repetition. The id is the
 * attempt's. */
static enum fr_rc add_signature(struct letter *l, const char *secrets, const char *body,
                                struct fr_err *err)
{
    const char *attempt = getenv("FLOWRUN_ATTEMPT"), *when;
    struct fr_buf signature = {0};
    struct fr_signed m = {.time_s = fr_sys.wall_ms() / 1000, .body = fr_str_of(body)};
    enum fr_rc rc = FR_OK;

    m.id = fr_arena_fmt(l->arena, "msg_%s", attempt != NULL ? attempt : "none");
    when = fr_arena_fmt(l->arena, "%lld", (long long)m.time_s);
    if (m.id == NULL || when == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory to sign a message");
    if (rc == FR_OK)
        rc = fr_webhook_sign(secrets, &m, &signature, err);
    if (rc == FR_OK) {
        add_header(l, "webhook-id", m.id);
        add_header(l, "webhook-timestamp", when);
        add_header(l, "webhook-signature", signature.p);
    }
    fr_buf_finish(&signature);
    return rc == FR_OK ? FR_OK : fr_while(err, "sign_with");
}

static enum fr_rc post(struct fr_arena *arena, const json_t *with, const char *body,
                       struct fr_err *err)
{
    struct letter l = {.arena = arena};
    const char *key, *secrets = text_of(with, "sign_with", NULL);
    struct fr_http req = {.url = text_of(with, "url", ""),
                          .method = text_of(with, "method", "POST"),
                          .headers = l.headers,
                          .body = body,
                          .timeout_ms = json_integer_value(json_object_get(with, "timeout"))};
    struct fr_reply reply;
    json_t *value;
    enum fr_rc rc = FR_OK;

    add_header(&l, "Content-Type", "application/json");
    json_object_foreach(json_object_get(with, "headers"), key, value)
        add_header(&l, key, json_string_value(value) ? json_string_value(value) : "");
    if (secrets != NULL)
        rc = add_signature(&l, secrets, body, err);
    req.n_headers = l.n;
    if (rc == FR_OK && l.bad)
        rc = fr_fail(err, FR_NOMEM, "no memory for a header");
    if (rc == FR_OK)
        rc = fr_http_send(&req, &reply, err);
    if (rc == FR_OK && (reply.status < 200 || reply.status > 299))
        rc = fr_fail(err, FR_IO, "the webhook answered %d", reply.status);
    else if (rc == FR_OK)
        fr_print("notify: the webhook took the report (HTTP status %d)\n", reply.status);
    return rc == FR_OK ? FR_OK : fr_while(err, "notify");
}

/* Makes an in-memory file with text, at offset 0. Unlike a pipe it takes any length without a
 * reader. */
static enum fr_rc text_file(const char *text, int *fd, struct fr_err *err)
{
    *fd = memfd_create("report", MFD_CLOEXEC);
    if (*fd < 0 || !fr_write_full(*fd, text, strlen(text)) || lseek(*fd, 0, SEEK_SET) != 0)
        return fr_fail_errno(err, errno, "keeping the report");
    return FR_OK;
}

static enum fr_rc command(const char *line, const char *body, struct fr_err *err)
{
    const char *const argv[] = {"sh", "-c", line, NULL};
    struct fr_spawn s = {.argv = argv,
                         .envp = (const char *const *)environ,
                         .fds = {-1, 1, 2},
                         .die_with_parent = true};
    struct fr_wait w = {0};
    struct fr_proc proc;
    enum fr_rc rc = text_file(body, &s.fds[0], err);

    if (rc != FR_OK)
        return rc;
    if (fr_sys.spawn(&s, &proc) != 0)
        return fr_fail_errno(err, errno, "starting sh");
    fr_sys.close(s.fds[0]);
    while (fr_sys.wait(proc.pid, &w, 0) < 0 && errno == EINTR)
        ;
    if (w.signaled || w.code != 0)
        return fr_fail(err, FR_IO, "notify: the command ended with %s %d",
                       w.signaled ? "signal" : "exit code", w.code);
    fr_print("notify: the command took the report\n");
    return FR_OK;
}

/* Runs as the built-in hook. */
static enum fr_rc hook(struct fr_arena *arena, const char *doc, struct fr_err *err)
{
    const char *report = getenv("FLOWRUN_REPORT"), *body;
    json_t *with = NULL;
    enum fr_rc rc = fr_json_parse(fr_str_of(doc), "FLOWRUN_WITH", &with, err);

    body = text_of(with, "body", report != NULL ? report : "{}");
    if (rc == FR_OK && json_is_true(json_object_get(with, "dry_run"))) {
        fr_print("notify: dry run: %zu bytes would be sent\n", strlen(body));
    } else if (rc == FR_OK) {
        if (json_object_get(with, "url") != NULL)
            rc = post(arena, with, body, err);
        if (rc == FR_OK && json_object_get(with, "command") != NULL)
            rc = command(text_of(with, "command", ""), body, err);
        if (rc == FR_OK && json_object_get(with, "url") == NULL &&
            json_object_get(with, "command") == NULL)
            rc = fr_fail(err, FR_USAGE, "notify needs url or command");
    }
    json_decref(with);
    return rc;
}

enum fr_rc cli_notify(struct cli_call *c, struct fr_err *err)
{
    static const struct {
        cli_command_fn *run;
        size_t least, most; /* number of arguments */
    } acts[] = {
        {cli_deliveries_list, 0, 1}, {cli_deliveries_test, 2, 2}, {cli_deliveries_again, 2, 2}};
    const char *doc = getenv("FLOWRUN_WITH");
    size_t act = 0;
    enum fr_rc rc;

    if (cli_has(c, "--deliver"))
        return cli_deliver(c, err);
    if (c->args.n == 0 && doc != NULL) {
        if ((rc = hook(&c->arena, doc, err)) != FR_OK) {
            fr_complain("%s\n", err->msg);
            c->code = rc == FR_USAGE ? FR_EXIT_USAGE : CLI_FAILED;
        }
        return FR_OK;
    }
    if ((rc = cli_verb(c, "list test again", &act, err)) == FR_OK)
        rc = cli_args_between(c, acts[act].least, acts[act].most, err);
    return rc == FR_OK ? acts[act].run(c, err) : rc;
}
