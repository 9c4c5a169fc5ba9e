#include "tests/unit/web/web_bed.h"

static void bed_echo(const struct fr_api_request *req, struct fr_buf *out)
{
    static const char *const methods[] = {"GET", "POST", "PUT", "DELETE"};

    fr_buf_fmt(out, "%s %s", methods[req->method], req->path);
    for (size_t i = 0; i < req->n_query; i++)
        fr_buf_fmt(out, " %s=%s", req->query[i].name, req->query[i].value);
    fr_buf_fmt(out, " type=%s range=%s match=%s last=%s by=%s body=", req->content_type, req->range,
               req->if_none_match, req->last_event_id,
               req->caller != NULL ? req->caller->name : "owner");
    fr_buf_add(out, req->body.p, req->body.n);
    if (req->if_match != NULL || req->key != NULL)
        fr_buf_fmt(out, " if=%s key=%s", req->if_match, req->key);
}

static void bed_file(struct bed *b, struct fr_api_response *out)
{
    char path[128];

    (void)snprintf(path, sizeof(path), "%s/file", b->dir);
    *out = (struct fr_api_response){.status = 206,
                                    .type = "text/plain",
                                    .file = true,
                                    .fd = fr_sys.open(path, O_RDONLY, 0),
                                    .offset = 1000,
                                    .bytes = BED_FILE_BYTES - 2000,
                                    .total = BED_FILE_BYTES};
}

/* What the page of a run begins with; all run 41 but 404, which is none. */
static bool bed_known(struct bed *b, const struct fr_api_request *req, struct fr_api_response *out)
{
    const char *no = strrchr(req->path, '/') + 1;
    bool row = fr_has_prefix(req->path, "/api/v1/runs/") && req->n_query == 1 &&
               strcmp(req->query[0].value, "row") == 0;

    if (!row && strcmp(req->path, "/api/v1/me") != 0)
        return false;
    out->status = strcmp(no, "404") == 0 ? 404 : 200;
    if (row)
        fr_buf_fmt(&out->body, "{\"no\":%s,%s}", no, b->run);
    else
        fr_buf_fmt(&out->body, "{\"name\":\"%s\"}", req->caller->name);
    return true;
}

/* All that a head may have. */
static void bed_all(struct fr_api_response *out)
{
    out->status = 401;
    out->type = "text/x";
    out->growing = "1";
    out->encoding = "gzip";
    out->retry_after_s = 7;
    out->cache = "no-store";
    fr_buf_text(&out->location, "/l");
    fr_buf_text(&out->etag, "W/\"7\"");
    fr_buf_text(&out->allow, "GET");
    fr_buf_text(&out->body, "body");
}

static void bed_answer(void *self, const struct fr_api_request *req, struct fr_api_response *out)
{
    struct bed *b = self;
    static const char *lines[] = {"p.yaml:7:12: one", "p.yaml:8:1: two"};
    struct fr_issues issues = {.lines = lines, .n = 2};
    struct fr_err err;

    b->asked++;
    if (bed_known(b, req, out))
        return;
    if (strcmp(req->path, "/file") == 0 || strcmp(req->path, "/cut") == 0 ||
        strcmp(req->path, "/packed") == 0) {
        bed_file(b, out);
        out->packed = req->path[1] == 'p';
        out->total *= req->path[1] == 'c' ? 2 : 1;
        out->bytes *= req->path[1] == 'c' ? 2 : 1;
        return;
    }
    if (strcmp(req->path, "/wrong") == 0) {
        fr_fail(&err, FR_USAGE, "p.yaml has 2 mistakes");
        fr_problem(out, 422, req->path, &err, &issues);
        return;
    }
    if (strcmp(req->path, "/nothing") == 0)
        return;
    if (strcmp(req->path, "/api/all") == 0) {
        bed_all(out);
        return;
    }
    if (strcmp(req->path, "/behind") == 0) {
        out->status = 416;
        out->total = BED_FILE_BYTES;
        return;
    }
    if ((strcmp(req->path, "/later") == 0 || strcmp(req->path, "/api/later") == 0) && !b->ready) {
        out->status = FR_API_LATER;
        CHECK_INT(req->waiter->ticket++, 0); /* it is a new request */
        b->waits = req->waiter;
        return;
    }
    if (strcmp(req->path, "/api/removed") == 0) { /* all tokens are */
        out->status = 204;
        out->access_over = b->locked_out = true;
        return;
    }
    if (strcmp(req->path, "/api/in") == 0 || strcmp(req->path, "/api/out") == 0) {
        out->status = 204;
        out->session_over = req->path[5] == 'o';
        if (!out->session_over)
            fr_buf_text(&out->session, "fine");
        return;
    }
    out->status = strcmp(req->path, "/unchanged") == 0 ? 304 : 200;
    out->type = "application/json";
    out->foreign = strcmp(req->path, "/api/foreign") == 0;
    fr_buf_text(&out->etag, "\"7\"");
    if (strcmp(req->path, "/big") == 0)
        for (int i = 0; i < 100000; i++)
            fr_buf_text(&out->body, "0123456789012345678901234567890123456789\n");
    else
        bed_echo(req, &out->body);
}

static void bed_forget(void *self, struct fr_api_waiter *w)
{
    struct bed *b = self;

    CHECK(b->waits == w);
    b->waits = NULL;
}

static void bed_open(void *self, const struct fr_api_request *req, const struct fr_api_sink *sink,
                     struct fr_api_response *res, struct fr_api_stream **out)
{
    struct bed *b = self;
    struct fr_err err;

    b->asked++;
    *out = NULL;
    if (strcmp(req->path, "/no/stream") == 0 || b->n_streams == BED_STREAMS) {
        fr_fail(&err, FR_NOTFOUND, "no such stream");
        fr_problem(res, 0, req->path, &err, NULL);
        return;
    }
    *out = &b->streams[b->n_streams++];
    **out = (struct fr_api_stream){.sink = *sink, .open = true};
    res->status = 200;
    (void)snprintf(b->last_id, sizeof(b->last_id), "%s", req->last_event_id);
    sink->send(sink->arg, FR_STR("retry: 2000\nevent: hello\ndata: {}\n\n"));
}

static void bed_drained(void *self, struct fr_api_stream *s)
{
    (void)self;
    CHECK(s->open);
    s->drained++;
}

static void bed_gone(void *self, struct fr_api_stream *s)
{
    (void)self;
    CHECK(s->open);
    s->open = false;
    s->gone++;
}

/* "good" is the token of "token", "fine" the session of "user". */
static bool bed_identify(void *self, enum fr_api_secret kind, const char *secret, bool used,
                         struct fr_api_caller *out)
{
    struct bed *b = self;
    bool token = kind == FR_SECRET_TOKEN;

    b->used += used;
    if (strcmp(secret, token ? "good" : "fine") != 0 || b->locked_out)
        return false;
    out->role = FR_ROLE_VIEW;
    (void)snprintf(out->name, sizeof(out->name), "%s", token ? "token" : "user");
    (void)snprintf(out->session, sizeof(out->session), "%s", token ? "" : "hash");
    return true;
}

static bool bed_leads(void *self)
{
    struct bed *b = self;

    b->asked_lead++;
    return !b->followed;
}

void bed_listen(struct bed *b)
{
    struct fr_err err = {0};

    if (!CHECK(fr_server_create(&b->loop, b->sock, &b->api, &b->server, &err) == FR_OK))
        printf("%s\n", err.msg);
}

void bed_begin(struct bed *b, const struct fr_server_times *times)
{
    *b = (struct bed){.dir = "/tmp/web_test.XXXXXX",
                      .run = "\"state\":\"running\",\"pipeline\":\"p\""};
    CHECK(mkdtemp(b->dir) != NULL);
    (void)snprintf(b->sock, sizeof(b->sock), "%s/host.sock", b->dir);
    b->api = (struct fr_api){bed_answer, bed_forget,   bed_open,  bed_drained,
                             bed_gone,   bed_identify, bed_leads, b};
    CHECK(fr_loop_event_create(&b->loop, NULL) == FR_OK);
    bed_listen(b);
    if (b->server == NULL)
        exit(check_done());
    if (times != NULL)
        fr_server_set_times(b->server, times);
}

void bed_end(struct bed *b)
{
    struct stat st;

    fr_server_destroy(b->server);
    CHECK(lstat(b->sock, &st) != 0 && errno == ENOENT);
    for (size_t i = 0; i < b->n_streams; i++)
        CHECK(!b->streams[i].open);
    fr_loop_destroy(&b->loop);
    CHECK(fr_remove_tree(b->dir, NULL) == FR_OK);
}

void bed_turn(struct bed *b)
{
    struct fr_err err;

    if (fr_loop_turn(&b->loop, false, &err) != FR_OK)
        CHECK(!"a turn of the loop");
}

struct reader reader_open(struct bed *b)
{
    struct reader r = {.bed = b, .fd = fr_sys.connect_unix(b->sock)};

    CHECK(r.fd >= 0);
    return r;
}

void reader_close(struct reader *r)
{
    if (r->fd >= 0)
        close(r->fd);
    r->fd = -1;
    fr_buf_finish(&r->got);
}

void reader_take(struct reader *r)
{
    static char p[1 << 16];
    ssize_t n;

    bed_turn(r->bed);
    while ((n = recv(r->fd, p, sizeof(p), MSG_DONTWAIT)) > 0)
        fr_buf_add(&r->got, p, (size_t)n);
    r->eof |= n == 0 || (errno != EAGAIN && errno != EINTR);
}

void reader_send(struct reader *r, const char *p, size_t n)
{
    while (n > 0 && !r->eof) {
        ssize_t k = send(r->fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (k > 0) {
            p += k;
            n -= (size_t)k;
        } else {
            reader_take(r);
        }
    }
}

void reader_say(struct reader *r, const char *text)
{
    reader_send(r, text, strlen(text));
}

bool reader_has(const struct reader *r, const char *text)
{
    return r->got.n > 0 && memmem(r->got.p, r->got.n, text, strlen(text)) != NULL;
}

bool reader_until(struct reader *r, const char *text)
{
    while (!reader_has(r, text) && !r->eof)
        reader_take(r);
    if (!reader_has(r, text))
        printf("   got:  %s\n   want: %s\n", r->got.n > 0 ? r->got.p : "", text);
    return CHECK(reader_has(r, text));
}

void reader_until_eof(struct reader *r)
{
    while (!r->eof)
        reader_take(r);
}

void listen_tcp(struct bed *b, const struct fr_gate *gate)
{
    struct fr_err err = {0};

    b->at = (struct fr_endpoint){"127.0.0.1", 0};
    fr_server_gate(b->server, gate);
    if (!CHECK_INT(fr_server_listen(b->server, &b->at, &err), FR_OK))
        printf("   %s\n", err.msg);
    CHECK(b->at.port > 0);
}

struct reader tcp_open(struct bed *b)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)b->at.port)};
    struct reader r = {.bed = b, .fd = socket(AF_INET, SOCK_STREAM, 0)};

    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(connect(r.fd, (struct sockaddr *)&a, sizeof(a)) == 0);
    return r;
}

static long left; /* until a call fails; a hook of fr_sys has no argument */

static bool denied(void)
{
    return left > 0 && --left == 0;
}

static void *some_alloc(size_t n)
{
    return denied() ? NULL : malloc(n);
}

static void *some_realloc(void *p, size_t n)
{
    return denied() ? NULL : realloc(p, n);
}

void bed_deny(long nth)
{
    fr_sys.alloc = some_alloc;
    fr_sys.realloc = some_realloc;
    left = nth;
}

bool bed_allow(void)
{
    bool failed = left == 0;

    left = 0;
    return failed;
}
