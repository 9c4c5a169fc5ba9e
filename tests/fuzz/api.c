/* Requests to the host, from the head to the answer: who is let in, routes, queries, bodies. One
 * host, with a run, serves all inputs of a process; no sockets. An input is a head and a body. */
#include "tests/fuzz/fuzz.h"

#include "engine/base/sys.h"
#include "engine/host/host.h"
#include "engine/store/home.h"
#include "engine/web/gate.h"
#include "engine/web/target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const proxies[] = {"10.0.0.9"}, *const names[] = {"flow.example"};
static const struct fr_gate gate = {
    .base = "", .hosts = names, .n_hosts = 1, .proxies = proxies, .n_proxies = 1, .cookie = "c"};
static const char planted[] = "planted-tiger-7261";

/* ---- the host ---- */

static struct fr_loop loop;
static struct fr_store *store;
static struct fr_host *host;
static struct fr_api api;

static enum fr_rc link_open(void *self, const struct fr_link_events *ev, struct fr_err *err)
{
    (void)self, (void)ev, (void)err;
    return FR_OK;
}

static size_t link_send(void *self, const char *p, size_t n)
{
    (void)self, (void)p;
    return n;
}

static void link_close(void *self)
{
    (void)self;
}

static enum fr_rc make_link(void *arg, const struct fr_exec_node *node, struct fr_link *out,
                            struct fr_err *err)
{
    static const struct fr_link_ops ops = {"none", link_open, link_send, link_close, link_close};

    (void)arg, (void)node, (void)err;
    *out = (struct fr_link){&ops, NULL};
    return FR_OK;
}

static const char *shell_env(void *self, const char *name)
{
    (void)self;
    return strcmp(name, "PLANTED") == 0 ? planted : NULL;
}

static void end_host(void)
{
    fr_host_destroy(host);
    fr_loop_destroy(&loop);
    fr_store_close(store);
}

static void on_again(void *again)
{
    *(bool *)again = true;
}

/* What is answered; the caller frees it. */
static struct fr_api_response ask(struct fr_api_request *req)
{
    struct fr_api_response res = {.fd = -1};
    bool again = false;
    struct fr_api_waiter waiter = {.again = on_again, .arg = &again};
    struct fr_err err = {0};

    req->waiter = &waiter;
    api.answer(api.self, req, &res);
    while (res.status == FR_API_LATER) {
        for (again = false; !again;)
            fuzz_want(fr_host_turn(host, &err) == FR_OK, "the host goes on");
        api.answer(api.self, req, &res);
    }
    return res;
}

static void begin_run(const char *home)
{
    static const char pipeline[] = "name: p\nparams: {x: {default: 1, type: int}}\n"
                                   "secrets: {s: {env: PLANTED}}\n"
                                   "tasks: {a: {run: 'true', env: {S: \"${{ secrets.s }}\"}}, "
                                   "b: {needs: [a], run: 'true'}}\n";
    char body[600];
    struct fr_api_request req = {.method = FR_API_POST,
                                 .path = "/api/v1/runs",
                                 .body = {body, 0},
                                 .content_type = "application/json",
                                 .range = "",
                                 .if_none_match = "",
                                 .last_event_id = ""};
    struct fr_api_response res;

    fuzz_put_file("p.yaml", FR_STR(pipeline));
    req.body.n = (size_t)snprintf(body, sizeof(body),
                                  "{\"pipeline\": \"%s/p.yaml\", \"cwd\": \"/\", \"secrets\": "
                                  "{\"PLANTED\": \"%s\"}}",
                                  home, planted);
    res = ask(&req);
    fuzz_want(res.status == 201, "a run is begun");
    fr_api_response_finish(&res);
}

static void begin_host(void)
{
    const char *home = fuzz_dir();
    struct fr_nodes_args links = {.flownode_dir = "/", .make_link = make_link};
    struct fr_run_env env = {.loop = &loop, .self = "/flowrun"};
    struct fr_run_shell shell = {.cwd = "/", .getenv = shell_env};
    struct fr_err err = {0};

    if (host != NULL)
        return;
    fuzz_want(fr_home_make(home, &err) == FR_OK && fr_store_open(home, &store, &err) == FR_OK,
              "a home is made");
    env.store = store;
    fuzz_want(fr_loop_event_create(&loop, &err) == FR_OK &&
                  fr_host_create(&env, &links, &host, &err) == FR_OK &&
                  fr_host_pages(host, "http://127.0.0.1:1/", &shell, &err) == FR_OK,
              "a host is made");
    (void)atexit(end_host);
    api = fr_host_api(host);
    begin_run(home);
}

/* ---- a request ---- */

static const char *value_of(const struct fr_http_head *h, const char *name)
{
    const char *value = fr_http_find(h, name);

    return value != NULL ? value : "";
}

static void check_found(const struct fr_gate_found *f)
{
    fuzz_want(f->path[0] == '/', "a path stays one");
    fuzz_want(f->address[0] != '\0' && memchr(f->address, '\0', sizeof(f->address)) != NULL &&
                  memchr(f->bearer, '\0', sizeof(f->bearer)) != NULL &&
                  memchr(f->session, '\0', sizeof(f->session)) != NULL,
              "what is found is text");
}

/* A problem says its status; nothing says a secret. */
static void check_answer(const struct fr_api_response *res)
{
    struct fr_str body = {res->body.n > 0 ? res->body.p : "", res->body.n};

    if (res->status == 500) fprintf(stderr, "500: %.*s\n", (int)body.n, body.p);
    fuzz_want(res->status >= 200 && res->status < 600 && res->status != 500, "there is an answer");
    fuzz_want(!res->body.bad && (res->body.n == 0 || fr_utf8_valid(body.p, body.n)),
              "an answer is text");
    fuzz_want(body.n == 0 || memmem(body.p, body.n, planted, strlen(planted)) == NULL,
              "no answer has a secret");
    fuzz_want(res->status < 400 || res->status == 416 ||
                  (res->type != NULL && strcmp(res->type, "application/problem+json") == 0) ||
                  res->status == 503,
              "an error is a problem");
}

static void ask_host(const struct fr_http_head *h, const struct fr_target *t,
                     const struct fr_gate_found *found, struct fr_str body)
{
    static const char *const methods[] = {"GET", "POST", "PUT", "DELETE"};
    struct fr_api_caller caller = {FR_ROLE_ADMIN, "fuzz", "", ""};
    struct fr_api_request req = {.path = found->path,
                                 .query = t->query,
                                 .n_query = t->n_query,
                                 .body = body,
                                 .content_type = value_of(h, "Content-Type"),
                                 .range = value_of(h, "Range"),
                                 .if_none_match = value_of(h, "If-None-Match"),
                                 .last_event_id = value_of(h, "Last-Event-ID"),
                                 .key = fr_http_find(h, "Idempotency-Key"),
                                 .caller = &caller};
    struct fr_api_response res;

    for (int m = FR_API_GET; m <= FR_API_DELETE; m++)
        if (strcmp(h->method, methods[m]) == 0)
            req.method = (enum fr_api_method)m;
    memcpy(caller.address, found->address, sizeof(caller.address));
    res = ask(&req);
    check_answer(&res);
    fr_api_response_finish(&res);
}

void fuzz_api(struct fr_str in)
{
    size_t looked = 0, n = fr_http_head_end(in, &looked);
    struct fr_buf copy = {0};
    struct fr_http_head h;
    static struct fr_target t;
    struct fr_gate_found found;
    struct fr_err err = {0};

    if (n == 0 || memmem(in.p, in.n, planted, strlen(planted)) != NULL)
        return; /* who says the secret may be told it: libFuzzer learns it from the comparison */
    begin_host();
    fr_buf_add(&copy, in.p, n);
    if (fr_http_request(copy.p, n, &h, &err) == FR_OK &&
        fr_target_parse(h.target, &t, &err) == FR_OK) {
        struct fr_gate_seen seen = {&h, t.path, "10.0.0.9", "127.0.0.1"};
        int status = fr_gate_check(&gate, &seen, &found, &err);

        fuzz_want(status == 0 || (status >= 400 && err.msg[0] != '\0'), "a refusal says why");
        if (status == 0) {
            check_found(&found);
            ask_host(&h, &t, &found, (struct fr_str){in.p + n, in.n - n});
        }
    }
    fr_buf_finish(&copy);
}
