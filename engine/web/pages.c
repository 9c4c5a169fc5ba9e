#include "engine/web/pages.h"

#include "engine/api/problem.h"
#include "engine/web/private.h"

#include <string.h>

static const char shell_type[] = "text/html; charset=utf-8",
                  forever[] = "public, max-age=31536000, immutable";

bool pages_have(const char *path)
{
    return !fr_has_prefix(path, "/api/") && strcmp(path, "/metrics") != 0;
}

/* A path that a browser shows, drawn by our scripts. */
static bool is_page(const char *path)
{
    static const char *const pages[] = {"/",      "/runs",  "/pipelines", "/schedules",
                                        "/queue", "/nodes", "/settings",  "/login"};
    static const char *const trees[] = {"/runs/", "/pipelines/", "/nodes/"};

    for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++)
        if (strcmp(path, pages[i]) == 0)
            return true;
    for (size_t i = 0; i < sizeof(trees) / sizeof(trees[0]); i++)
        if (fr_has_prefix(path, trees[i]))
            return true;
    return false;
}

/* The run that the page is of, as its path names it; NULL: of none. */
static const char *run_of(const char *path)
{
    static const char runs[] = "/runs/";

    return fr_has_prefix(path, runs) && path[sizeof(runs) - 1] != '\0' ? path + sizeof(runs) - 1
                                                                       : NULL;
}

/* The shell of that page: that of a run names the script of its page, too, so that it comes with
 * the first. */
static const char *shell_of(const char *path)
{
    return run_of(path) != NULL ? "run.html" : "index.html";
}

static const struct web_file *find(const char *name)
{
    for (const struct web_file *f = web_files; f->name != NULL; f++)
        if (strcmp(f->name, name) == 0)
            return f;
    return NULL;
}

/* *kept: the path has the hash of all files, so what lies there never changes. */
static const struct web_file *find_static(const char *path, bool *kept)
{
    size_t n = strlen(web_files_hash);

    if (!fr_has_prefix(path, "/static/"))
        return NULL;
    path += strlen("/static/");
    *kept = strncmp(path, web_files_hash, n) == 0 && path[n] == '/';
    return find(*kept ? path + n + 1 : path);
}

static bool takes_gzip(const struct conn *c)
{
    const char *value = fr_http_find(&c->head, "Accept-Encoding");
    const char *at = value != NULL ? strstr(value, "gzip") : NULL;

    if (at == NULL)
        return false;
    at += strlen("gzip");
    at += strspn(at, " \t;");
    if (strncmp(at, "q=0", 3) != 0)
        return true;
    at += 3 + strspn(at + 3, ".0"); /* 0.001 takes it, too */
    return *at >= '1' && *at <= '9';
}

/* A browser that displays the response: it gets a page with the error. */
static bool wants_page(const struct conn *c, const struct fr_api_request *req)
{
    const char *value = fr_http_find(&c->head, "Accept");

    return req->method == FR_API_GET && value != NULL && strstr(value, "text/html") != NULL &&
           !fr_has_prefix(req->path, "/static/");
}

/* The shell with its base in place. */
static void send_shell(struct conn *c, const struct web_file *f, struct fr_api_response *res)
{
    const char *text = (const char *)f->data, *at = strstr(text, WEB_MARK_BASE);

    fr_buf_add(&res->body, text, (size_t)(at - text));
    fr_buf_fmt(&res->body, "<base href=\"%s/\">", c->server->gate.base);
    fr_buf_text(&res->body, at + strlen(WEB_MARK_BASE));
}

static void send_file(struct conn *c, const struct web_file *f, struct fr_api_response *res)
{
    bool based = c->server->gate.base[0] != '\0' && strcmp(f->type, shell_type) == 0;
    bool packed = !based && f->n_packed > 0 && takes_gzip(c);

    res->type = f->type;
    fr_buf_text(&res->etag, f->etag);
    res->status = strstr(fr_http_find(&c->head, "If-None-Match") != NULL
                             ? fr_http_find(&c->head, "If-None-Match")
                             : "",
                         f->etag) != NULL
                      ? 304
                      : 200;
    if (res->status == 304)
        return;
    if (based) {
        send_shell(c, f, res);
        return;
    }
    res->encoding = packed ? "gzip" : NULL;
    fr_buf_add(&res->body, packed ? f->packed : f->data, packed ? f->n_packed : f->n);
}

void pages_answer(struct conn *c, const struct fr_api_request *req, struct fr_api_response *res)
{
    bool kept = false;
    const struct web_file *f =
        is_page(req->path) ? find(shell_of(req->path)) : find_static(req->path, &kept);
    struct fr_err err;

    if (f == NULL && wants_page(c, req)) {
        send_file(c, find("index.html"), res);
        res->status = res->status == 200 ? 404 : res->status;
    } else if (f == NULL) {
        fr_fail(&err, FR_NOTFOUND, "there is nothing at %s", req->path);
        fr_problem(res, 404, req->path, &err, NULL);
    } else if (req->method != FR_API_GET) {
        fr_fail(&err, FR_USAGE, "%s is for GET", req->path);
        fr_problem(res, 405, req->path, &err, NULL);
        fr_buf_text(&res->allow, "GET, HEAD");
    } else if (run_of(req->path) != NULL &&
               shell_of_run(c, run_of(req->path), (const char *)f->data, &res->body)) {
        res->status = 200;
        res->type = shell_type;
        res->cache = "no-store"; /* it is for this caller, and for now */
    } else {
        send_file(c, f, res);
        res->cache = kept ? forever : NULL;
    }
}
