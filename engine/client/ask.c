/* Requests to the home's host, and who writes to the home. */
#include "engine/client/session.h"
#include "engine/client/client.h"

#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "engine/store/home.h"
#include "engine/store/lead.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAYS_MS = 200 }; /* by then a new host has written its identity, or has ended */

static enum fr_rc look_at_host(const char *home, struct fr_err *err)
{
    struct fr_home_who self = fr_home_self(), host;
    enum fr_rc rc = fr_home_leader(home, &host, err);

    if (rc != FR_OK)
        err->rc = FR_UNREACHABLE;
    else if (host.pid != 0)
        rc = fr_home_may_share(home, &self, &host, err);
    return rc == FR_NOTFOUND ? FR_UNREACHABLE : rc;
}

json_t *cli_agent(void)
{
    const char *path = getenv("SSH_AUTH_SOCK");

    return path != NULL && path[0] == '/' ? json_string(path) : NULL;
}

json_t *cli_secrets(const struct fr_spec *spec)
{
    json_t *out = json_object();

    for (size_t i = 0; i < spec->n_secrets; i++) {
        const struct fr_secret *s = &spec->secrets[i];
        const char *value = s->from == FR_SECRET_ENV ? getenv(s->arg) : NULL;

        if (value != NULL)
            json_object_set_new(out, s->arg, json_string(value));
    }
    return out;
}

/* A process writes its identity shortly after it took the lock; until then the lock file names the
 * host before, perhaps of another boot. So a refusal counts only if it repeats. */
enum fr_rc cli_may_ask(const char *home, struct fr_err *err)
{
    enum fr_rc rc = look_at_host(home, err);

    if (rc != FR_DENIED && rc != FR_UNSUPPORTED)
        return rc;
    (void)fr_sys.poll(NULL, 0, SAYS_MS);
    return look_at_host(home, err);
}

bool cli_host_stopped(const char *home, int64_t *pid)
{
    struct fr_home_who host = {0};
    struct fr_buf stat = {0};
    const char *name_end = NULL; /* the state follows the name, which may have any bytes */
    char path[40];
    bool stopped;

    if (fr_home_leader(home, &host, NULL) != FR_OK || host.pid == 0)
        return false;
    *pid = host.pid;
    snprintf(path, sizeof(path), "/proc/%lld/stat", (long long)host.pid);
    if (fr_file_read(path, 4096, &stat, NULL) == FR_OK && !stat.bad && stat.n > 0)
        name_end = strrchr(stat.p, ')');
    stopped = name_end != NULL && (name_end[1] == ' ') && (name_end[2] == 'T');
    fr_buf_finish(&stat);
    return stopped;
}

struct wait { /* of a request for its answer */
    const char *home;
    struct fr_loop *loop;
    struct fr_timer *timer;
};

static void on_wait(void *arg)
{
    struct wait *w = arg;
    int64_t pid = 0;

    if (!cli_host_stopped(w->home, &pid)) {
        fr_loop_arm_in(w->loop, w->timer, CLI_LOOK_MS);
        return;
    }
    fr_complain("flowrun: the host of %s (pid %lld) is stopped: 'kill -CONT %lld' lets it go on\n",
                w->home, (long long)pid, (long long)pid);
}

enum fr_rc cli_request(struct cli_client *c, struct client_request *req, json_t *body,
                       struct client_answer *answer, struct fr_err *err)
{
    char *text = body != NULL ? json_dumps(body, JSON_COMPACT) : NULL;
    enum fr_rc rc;

    if (body != NULL && text == NULL) {
        json_decref(body);
        *answer = (struct client_answer){0};
        return fr_fail(err, FR_NOMEM, "no memory for a request");
    }
    req->body = text != NULL                      ? fr_str_of(text)
                : strcmp(req->method, "GET") != 0 ? FR_STR("{}")
                                                  : (struct fr_str){0};
    rc = client_ask(c, req, answer, err);
    free(text);
    json_decref(body);
    return rc;
}

/* Sends one request on a loop of its own. */
static enum fr_rc ask(const char *home, struct client_request *req, json_t *body,
                      struct client_answer *answer, struct fr_err *err)
{
    struct cli_client *client = NULL;
    struct fr_loop loop = {0};
    struct fr_buf sock = {0};
    struct wait wait = {home, &loop, NULL};
    int64_t until_ms = fr_sys.mono_ms() + FR_HOME_BEGINS_MS;
    struct fr_home_who host;
    enum fr_rc rc;

    while (fr_home_leader(home, &host, NULL) == FR_OK && fr_home_await(home, until_ms))
        ;
    rc = cli_may_ask(home, err);
    fr_home_sock(home, &sock);
    if (rc == FR_OK && sock.bad)
        rc = fr_fail(err, FR_NOMEM, "no memory for a path");
    if (rc == FR_OK)
        rc = fr_loop_event_create(&loop, err);
    if (rc == FR_OK)
        rc = client_create(&loop, sock.p, &client, err);
    if (rc == FR_OK && fr_loop_timer(&loop, on_wait, &wait, &wait.timer) != FR_OK)
        rc = fr_fail(err, FR_NOMEM, "no memory for a request");
    if (rc == FR_OK) {
        fr_loop_arm_in(&loop, wait.timer, CLI_LOOK_MS);
        rc = cli_request(client, req, json_incref(body), answer, err);
    }
    if (wait.timer != NULL)
        fr_loop_untimer(&loop, &wait.timer);
    client_destroy(client);
    fr_loop_destroy(&loop);
    fr_buf_finish(&sock);
    return rc;
}

enum fr_rc cli_ask(const char *home, const struct cli_question *q, struct fr_err *err,
                   const char *path, ...)
{
    struct client_request req = {.method = q->method, .deadline_ms = q->deadline_ms};
    struct client_answer answer = {0};
    struct fr_buf own = {0}, full = {0};
    va_list ap;
    enum fr_rc rc = home == NULL ? cli_home(&own, err) : FR_OK;

    va_start(ap, path);
    fr_buf_vfmt(&full, path, ap);
    va_end(ap);
    if (rc == FR_OK && full.bad)
        rc = fr_fail(err, FR_NOMEM, "no memory for a request");
    req.path = full.p;
    if (rc == FR_OK)
        rc = ask(home != NULL ? home : own.p, &req, q->body, &answer, err);
    if (rc == FR_OK && q->answer != NULL)
        rc = fr_json_parse((struct fr_str){answer.body.n > 0 ? answer.body.p : "", answer.body.n},
                           "the host's answer", q->answer, err);
    if (rc == FR_OK && q->text != NULL) {
        *q->text = answer.body;
        answer.body = (struct fr_buf){0};
    }
    json_decref(q->body);
    client_answer_finish(&answer);
    fr_buf_finish(&full);
    fr_buf_finish(&own);
    return rc;
}

enum fr_rc cli_ask_run(struct fr_store *st, struct fr_id run, const char *what, json_t *body,
                       struct fr_err *err)
{
    char id[FR_ID_TEXT];

    fr_id_text(run, id);
    return cli_ask(fr_store_home(st), &(struct cli_question){.method = "POST", .body = body}, err,
                   "/api/v1/runs/%s/%s", id, what);
}

/* ---- who writes ---- */

enum fr_rc cli_writer_open(struct cli_writer *w, struct fr_err *err)
{
    struct fr_buf home = {0};
    int64_t until_ms = fr_sys.mono_ms() + FR_HOME_BEGINS_MS;
    uint32_t epoch;
    enum fr_rc rc = cli_home(&home, err);

    if (rc == FR_OK) {
        do
            rc = fr_home_lead(home.p, &w->lock_fd, err);
        while (rc == FR_BUSY && fr_home_await(home.p, until_ms));
    }
    if (rc == FR_OK)
        rc = fr_store_open(home.p, &w->st, err);
    if (rc == FR_OK)
        rc = fr_store_lead(w->st, &epoch, err);
    fr_buf_finish(&home);
    /* With the lock, BUSY is the store's: an error. */
    return rc == FR_BUSY && w->lock_fd < 0 ? cli_store_read(&w->st, err) : rc;
}

void cli_writer_close(struct cli_writer *w)
{
    fr_store_close(w->st);
    if (w->lock_fd >= 0)
        fr_sys.close(w->lock_fd);
    *w = (struct cli_writer){.lock_fd = -1};
}
