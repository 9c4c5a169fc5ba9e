/* One try, by each kind of channel. */
#include "engine/notify/notify.h"

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/sign.h"
#include "engine/base/sys.h"
#include "engine/notify/curl.h"
#include "engine/notify/otel.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    SENT_TEXT = sizeof(((struct fr_sent *)NULL)->text),
    SECRET_BYTES = 64 << 10,
    HEADERS_MOST = 20,
    TO_MOST = 100,
    ARGV_MOST = 256
};

static const char *text_of(const json_t *doc, const char *key)
{
    return json_string_value(json_object_get(doc, key));
}

/* The value of a given text: its own, of a variable, of a file. */
static enum fr_rc look_up(const json_t *channel, const char *key, struct fr_buf *out,
                          struct fr_err *err)
{
    const json_t *given = json_object_get(channel, key);
    const char *name = text_of(given, "env"), *path = text_of(given, "file"), *value;
    enum fr_rc rc = FR_OK;

    if (json_is_string(given)) {
        fr_buf_text(out, json_string_value(given));
    } else if (name != NULL) {
        value = getenv(name);
        if (value == NULL || value[0] == '\0')
            return fr_fail(err, FR_NOTFOUND, "%s: the host's environment has no variable %s", key,
                           name);
        fr_buf_text(out, value);
    } else if ((rc = fr_file_read(path != NULL ? path : "", SECRET_BYTES, out, err)) != FR_OK) {
        return fr_while(err, "%s", key);
    }
    while (!out->bad && out->n > 0 && strchr("\r\n", out->p[out->n - 1]) != NULL)
        out->p[--out->n] = '\0';
    if (!out->bad && out->p != NULL && out->n > 0 && strlen(out->p) == out->n)
        return FR_OK;
    return fr_fail(err, FR_USAGE, "%s is empty, or has a NUL", key);
}

/* ---- HTTP ---- */

struct letter { /* a request; send_http() frees it */
    struct fr_buf url, secrets, given, body, lines[HEADERS_MOST];
    const char *headers[HEADERS_MOST];
    size_t n;
    size_t left_out; /* of the headers that were given */
};

static struct fr_buf *add_header(struct letter *l)
{
    return &l->lines[l->n++];
}

static enum fr_rc sign(struct letter *l, const char *key, struct fr_err *err)
{
    struct fr_signed m = {
        .id = key, .time_s = fr_sys.wall_ms() / 1000, .body = {l->body.p, l->body.n}};
    struct fr_buf signatures = {0};
    enum fr_rc rc = fr_webhook_sign(l->secrets.p, &m, &signatures, err);

    fr_buf_fmt(add_header(l), "webhook-id: %s", key);
    fr_buf_fmt(add_header(l), "webhook-timestamp: %lld", (long long)m.time_s);
    if (rc == FR_OK && !signatures.bad)
        fr_buf_fmt(add_header(l), "webhook-signature: %s", signatures.p);
    l->body.bad = l->body.bad || signatures.bad;
    fr_buf_finish(&signatures);
    return rc;
}

/* Adds the headers of a list for OpenTelemetry's exporters. Invalid entries are counted. */
static enum fr_rc add_headers(struct letter *l, const char *list, struct fr_err *err)
{
    json_t *all = fr_otel_headers(list, &l->left_out), *value;
    const char *name;
    enum fr_rc rc = all != NULL ? FR_OK : fr_fail(err, FR_NOMEM, "no memory for headers");

    if (l->n + json_object_size(all) > HEADERS_MOST)
        rc = fr_fail(err, FR_USAGE, "there are more than %d headers", HEADERS_MOST);
    json_object_foreach(all, name, value)
    {
        const char *text = json_string_value(value);

        if (rc == FR_OK) /* libcurl sends one without a value where it ends in ";" */
            fr_buf_fmt(add_header(l), text[0] != '\0' ? "%s: %s" : "%s;", name, text);
    }
    json_decref(all);
    return rc;
}

static enum fr_rc write_letter(struct letter *l, const json_t *channel, const char *key,
                               const json_t *message, struct fr_err *err)
{
    const char *kind = text_of(channel, "kind");
    json_t *doc = strcmp(kind, "slack") == 0   ? fr_message_slack(message)
                  : strcmp(kind, "teams") == 0 ? fr_message_teams(message)
                                               : json_incref((json_t *)message);
    const char *path = text_of(channel, "path");
    struct fr_buf base = {0};
    enum fr_rc rc = look_up(channel, "url", path != NULL ? &base : &l->url, err);

    if (rc == FR_OK && path != NULL)
        fr_otel_endpoint(base.p, path, &l->url);
    fr_buf_finish(&base);
    fr_json_add(&l->body, doc, JSON_COMPACT);
    json_decref(doc);
    fr_buf_text(add_header(l), "content-type: application/json");
    if (rc == FR_OK && !l->body.bad && json_object_get(channel, "sign_with") != NULL &&
        (rc = look_up(channel, "sign_with", &l->secrets, err)) == FR_OK)
        rc = sign(l, key, err);
    if (rc == FR_OK && json_object_get(channel, "headers") != NULL &&
        (rc = look_up(channel, "headers", &l->given, err)) == FR_OK)
        rc = add_headers(l, l->given.p, err);
    for (size_t i = 0; i < l->n; i++) {
        l->headers[i] = l->lines[i].p;
        l->body.bad = l->body.bad || l->lines[i].bad;
    }
    l->body.bad = l->body.bad || l->url.bad;
    if (rc == FR_OK && l->body.bad)
        rc = fr_fail(err, FR_NOMEM, "no memory for a message");
    return rc;
}

/* Which they are may be a secret. */
static void say_left_out(size_t n, struct fr_sent *out)
{
    size_t at = strlen(out->text);

    snprintf(out->text + at, sizeof(out->text) - at,
             "; headers: %zu of its entries %s not NAME=VALUE and left out", n,
             n == 1 ? "was" : "were");
}

/* answer: gets the body of the answer; NULL: only its status matters. */
static enum fr_rc send_http(const json_t *channel, const char *key, const json_t *message,
                            struct fr_buf *answer, struct fr_sent *out, struct fr_err *err)
{
    struct letter l = {0};
    struct fr_reply reply = {0};
    enum fr_rc rc = write_letter(&l, channel, key, message, err);
    struct fr_http req = {.url = l.url.p,
                          .method = "POST",
                          .headers = l.headers,
                          .n_headers = l.n,
                          .body = l.body.p,
                          .answer = answer,
                          .ca = text_of(channel, "ca"),
                          .timeout_ms = FR_SEND_MS};

    if (rc == FR_OK && !fr_has_prefix(l.url.p, "http://") && !fr_has_prefix(l.url.p, "https://"))
        rc = fr_fail(err, FR_USAGE, "url is not http://… or https://…");
    if (rc == FR_OK)
        rc = fr_http_send(&req, &reply, err);
    if (rc == FR_OK)
        fr_notify_status(reply.status, reply.retry_after_s, out);
    if (rc == FR_OK && l.left_out > 0)
        say_left_out(l.left_out, out);
    fr_buf_finish(&l.url);
    fr_buf_finish(&l.secrets);
    fr_buf_finish(&l.given);
    fr_buf_finish(&l.body);
    for (size_t i = 0; i < l.n; i++)
        fr_buf_finish(&l.lines[i]);
    return rc;
}

/* ---- traces ---- */

/* Adds the spans that a collector rejected by its answer (ExportTracePartialSuccess) to *n, and
 * writes text if there are any. */
static void add_rejected(const struct fr_buf *answer, int64_t *n, char text[SENT_TEXT])
{
    json_t *doc = NULL, *partial, *count;
    int64_t rejected = 0;

    if (answer->n == 0 || answer->bad ||
        fr_json_parse((struct fr_str){answer->p, answer->n}, "an answer", &doc, NULL) != FR_OK)
        return;
    partial = json_object_get(doc, "partialSuccess");
    count = json_object_get(partial, "rejectedSpans");
    if (json_is_integer(count))
        rejected = json_integer_value(count);
    else if (json_is_string(count))
        (void)fr_parse_i64(fr_str_of(json_string_value(count)), &rejected, NULL);
    if (rejected > 0) {
        const char *why = text_of(partial, "errorMessage");
        char shown[121] = "";

        *n += rejected;
        if (why != NULL)
            (void)fr_visible(shown, sizeof(shown), why, strlen(why));
        snprintf(text, SENT_TEXT, "the collector rejected %lld spans%s%s", (long long)*n,
                 why != NULL ? ": " : "", shown);
    }
    json_decref(doc);
}

/* Sends one batch after the other until one fails; the next try repeats all. */
static enum fr_rc send_spans(const json_t *channel, const char *key, const json_t *batches,
                             struct fr_sent *out, struct fr_err *err)
{
    char text[SENT_TEXT] = "";
    int64_t rejected = 0;
    enum fr_rc rc = FR_OK;

    out->done = true;
    for (size_t i = 0; rc == FR_OK && out->done && i < json_array_size(batches); i++) {
        struct fr_buf answer = {0};

        rc = send_http(channel, key, json_array_get(batches, i), &answer, out, err);
        if (rc == FR_OK && out->done)
            add_rejected(&answer, &rejected, text);
        fr_buf_finish(&answer);
    }
    if (rc != FR_OK)
        out->done = false;
    else if (out->done && rejected > 0)
        memcpy(out->text, text, sizeof(text));
    return rc;
}

/* ---- mail ---- */

static enum fr_rc send_mail(const json_t *channel, const char *key, const json_t *message,
                            struct fr_sent *out, struct fr_err *err)
{
    const json_t *list = json_object_get(channel, "to");
    const char *to[TO_MOST];
    struct fr_buf text = {0}, password = {0};
    struct fr_reply reply = {0};
    struct fr_mail mail = {.server = text_of(channel, "server"),
                           .user = text_of(channel, "user"),
                           .ca = text_of(channel, "ca"),
                           .from = text_of(channel, "from"),
                           .to = to,
                           .timeout_ms = FR_SEND_MS};
    enum fr_rc rc = mail.user != NULL ? look_up(channel, "password", &password, err) : FR_OK;

    while (mail.n_to < json_array_size(list) && mail.n_to < TO_MOST) {
        to[mail.n_to] = json_string_value(json_array_get(list, mail.n_to));
        mail.n_to++;
    }
    fr_message_mail(channel, key, message, &text);
    if (rc == FR_OK && text.bad)
        rc = fr_fail(err, FR_NOMEM, "no memory for a mail");
    mail.password = password.p;
    mail.text = (struct fr_str){text.p, text.n};
    if (rc == FR_OK)
        rc = fr_mail_send(&mail, &reply, err);
    out->done = rc == FR_OK;
    out->refused = rc == FR_UNREACHABLE && reply.status >= 500 && reply.status <= 599;
    if (out->done)
        snprintf(out->text, sizeof(out->text), "the mail server took it");
    else if (rc == FR_UNREACHABLE && reply.status != 0)
        fr_while(err, "SMTP status %d", reply.status);
    fr_buf_finish(&text);
    fr_buf_finish(&password);
    return rc;
}

/* ---- a command ---- */

/* A file in memory that holds text, to be read from its start: unlike a pipe it takes any length,
 * whether the reader reads or not. */
static enum fr_rc text_file(const char *text, int *fd, struct fr_err *err)
{
    *fd = memfd_create("message", MFD_CLOEXEC);
    if (*fd < 0 || !fr_write_full(*fd, text, strlen(text)) || lseek(*fd, 0, SEEK_SET) != 0)
        return fr_fail_errno(err, errno, "keeping the message");
    return FR_OK;
}

/* Waits for the end of the process; after FR_SEND_COMMAND_MS kills it with its group. */
static enum fr_rc wait_for(struct fr_proc proc, struct fr_err *err)
{
    struct pollfd ended = {.fd = fr_sys.proc_fd(proc.pid), .events = POLLIN};
    struct fr_wait w = {0};
    bool late;
    int n = 1;

    while (ended.fd >= 0 && (n = fr_sys.poll(&ended, 1, FR_SEND_COMMAND_MS)) < 0 && errno == EINTR)
        ;
    late = n == 0;
    if (late)
        kill(-proc.pid, SIGKILL);
    while (fr_sys.wait(proc.pid, &w, 0) < 0 && errno == EINTR)
        ;
    if (ended.fd >= 0)
        fr_sys.close(ended.fd);
    if (late)
        return fr_fail(err, FR_TIMEOUT, "the command was not over after %d s",
                       FR_SEND_COMMAND_MS / 1000);
    if (w.signaled || w.code != 0)
        return fr_fail(err, FR_IO, "the command ended with %s %d",
                       w.signaled ? "signal" : "exit code", w.code);
    return FR_OK;
}

static enum fr_rc send_command(const json_t *channel, const json_t *message, struct fr_sent *out,
                               struct fr_err *err)
{
    const json_t *list = json_object_get(channel, "command");
    const char *argv[ARGV_MOST] = {NULL};
    struct fr_spawn s = {.argv = argv,
                         .envp = (const char *const *)environ,
                         .fds = {-1, -1, 2},
                         .new_group = true,
                         .die_with_parent = true};
    char *text = json_dumps(message, JSON_COMPACT);
    struct fr_proc proc;
    enum fr_rc rc = text != NULL ? text_file(text, &s.fds[0], err)
                                 : fr_fail(err, FR_NOMEM, "no memory for a message");

    for (size_t i = 0; i < json_array_size(list) && i < ARGV_MOST - 1; i++)
        argv[i] = json_string_value(json_array_get(list, i));
    free(text);
    if (rc == FR_OK && fr_sys.spawn(&s, &proc) != 0)
        rc = fr_fail_errno(err, errno, "starting the command");
    if (s.fds[0] >= 0)
        fr_sys.close(s.fds[0]);
    if (rc == FR_OK)
        rc = wait_for(proc, err);
    out->done = rc == FR_OK;
    if (out->done)
        snprintf(out->text, sizeof(out->text), "the command took it");
    return rc;
}

void fr_notify_send(const json_t *channel, const char *key, const json_t *message,
                    struct fr_sent *out)
{
    const char *kind = text_of(channel, "kind");
    struct fr_err err = {0};
    enum fr_rc rc;

    *out = (struct fr_sent){0};
    if (kind == NULL)
        rc = fr_fail(&err, FR_USAGE, "the channel has no kind");
    else if (strcmp(kind, "email") == 0)
        rc = send_mail(channel, key, message, out, &err);
    else if (strcmp(kind, "command") == 0)
        rc = send_command(channel, message, out, &err);
    else if (strcmp(kind, "otlp") == 0)
        rc = send_spans(channel, key, message, out, &err);
    else
        rc = send_http(channel, key, message, NULL, out, &err);
    if (rc != FR_OK)
        (void)fr_visible(out->text, sizeof(out->text), err.msg, strlen(err.msg));
}
