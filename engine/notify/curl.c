#include "engine/notify/curl.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

/* Numbers of options as in curl.h, which never change. */
enum {
    OPT_TIMEOUT_MS = 155,
    OPT_NOSIGNAL = 99,
    OPT_UPLOAD = 46,
    OPT_USE_SSL = 119,
    OPT_WRITEDATA = 10001,
    OPT_URL = 10002,
    OPT_READDATA = 10009,
    OPT_POSTFIELDS = 10015,
    OPT_HTTPHEADER = 10023,
    OPT_CUSTOMREQUEST = 10036,
    OPT_CAINFO = 10065,
    OPT_USERNAME = 10173,
    OPT_PASSWORD = 10174,
    OPT_MAIL_FROM = 10186,
    OPT_MAIL_RCPT = 10187,
    OPT_PROTOCOLS_STR = 10318,
    OPT_WRITEFUNCTION = 20011,
    OPT_READFUNCTION = 20012,
    INFO_RESPONSE_CODE = 0x200002,
    INFO_RETRY_AFTER = 0x600039,
    USE_SSL_TRY = 1,
    USE_SSL_ALL = 3,
    ERROR_WRITE = 23, /* ours: the answer is longer than is read */
    ANSWER_BYTES = 64 << 10,
};

struct curl {
    void *h; /* of one transfer */
    void *(*init)(void);
    int (*setopt)(void *h, int opt, ...);
    int (*perform)(void *h);
    int (*getinfo)(void *h, int info, ...);
    const char *(*strerror)(int code);
    void (*cleanup)(void *h);
    void *(*append)(void *list, const char *text);
    void (*free_all)(void *list);
};

static bool sym(void *lib, const char *name, void *out)
{
    void *p = dlsym(lib, name);

    memcpy(out, &p, sizeof(p));
    return p != NULL;
}

static void *open_lib(void)
{
    void *lib = dlopen("libcurl.so.4", RTLD_NOW);

    return lib != NULL ? lib : dlopen("libcurl-gnutls.so.4", RTLD_NOW);
}

void fr_curl_version(struct fr_buf *out)
{
    const char *(*version)(void);
    void *lib = open_lib();

    if (lib != NULL && sym(lib, "curl_version", &version))
        fr_buf_text(out, version());
}

static enum fr_rc curl_open(struct curl *c, struct fr_err *err)
{
    void *lib = open_lib();

    if (lib == NULL || !sym(lib, "curl_easy_init", &c->init) ||
        !sym(lib, "curl_easy_setopt", &c->setopt) || !sym(lib, "curl_easy_perform", &c->perform) ||
        !sym(lib, "curl_easy_getinfo", &c->getinfo) ||
        !sym(lib, "curl_easy_strerror", &c->strerror) ||
        !sym(lib, "curl_easy_cleanup", &c->cleanup) || !sym(lib, "curl_slist_append", &c->append) ||
        !sym(lib, "curl_slist_free_all", &c->free_all))
        return fr_fail(err, FR_NOTFOUND,
                       "a message needs libcurl (libcurl.so.4, package libcurl4) on this machine");
    if ((c->h = c->init()) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for libcurl");
    c->setopt(c->h, OPT_NOSIGNAL, 1L);
    return FR_OK;
}

struct answer {
    struct fr_buf *keep; /* NULL: it is only counted */
    size_t seen;
};

/* Ends the transfer after ANSWER_BYTES. */
static size_t take(char *p, size_t size, size_t n, void *arg)
{
    struct answer *answer = arg;

    answer->seen += size * n;
    if (answer->keep != NULL)
        fr_buf_add(answer->keep, p, size * n);
    return answer->seen <= ANSWER_BYTES ? size * n : 0;
}

/* Begins a transfer; *list: headers, or who gets a mail. */
static enum fr_rc begin(struct curl *c, const char *const *texts, size_t n, void **list,
                        struct fr_err *err)
{
    enum fr_rc rc = curl_open(c, err);

    *list = NULL;
    for (size_t i = 0; rc == FR_OK && i < n; i++)
        *list = c->append(*list, texts[i]);
    return rc;
}

/* Does the transfer and ends it; keep: gets the body of the answer. */
static enum fr_rc perform(const struct curl *c, void *list, struct fr_buf *keep,
                          struct fr_reply *out, struct fr_err *err)
{
    struct answer answer = {keep, 0};
    long status = 0;
    int64_t wait_s = 0;
    int code;

    c->setopt(c->h, OPT_WRITEFUNCTION, take);
    c->setopt(c->h, OPT_WRITEDATA, &answer);
    code = c->perform(c->h);
    c->getinfo(c->h, INFO_RESPONSE_CODE, &status);
    c->getinfo(c->h, INFO_RETRY_AFTER, &wait_s);
    c->free_all(list);
    c->cleanup(c->h);
    *out = (struct fr_reply){(int)status, wait_s > 0 ? wait_s : 0};
    if (code == 0 || (code == ERROR_WRITE && answer.seen > ANSWER_BYTES && status != 0))
        return FR_OK;
    return fr_fail(err, FR_UNREACHABLE, "%s", c->strerror(code));
}

enum fr_rc fr_http_send(const struct fr_http *req, struct fr_reply *out, struct fr_err *err)
{
    struct curl c = {0};
    void *list;
    enum fr_rc rc = begin(&c, req->headers, req->n_headers, &list, err);

    *out = (struct fr_reply){0};
    if (rc != FR_OK)
        return rc;
    c.setopt(c.h, OPT_URL, req->url);
    c.setopt(c.h, OPT_PROTOCOLS_STR, "http,https");
    c.setopt(c.h, OPT_CUSTOMREQUEST, req->method);
    c.setopt(c.h, OPT_POSTFIELDS, req->body);
    c.setopt(c.h, OPT_HTTPHEADER, list);
    c.setopt(c.h, OPT_TIMEOUT_MS, (long)req->timeout_ms);
    if (req->ca != NULL)
        c.setopt(c.h, OPT_CAINFO, req->ca);
    return perform(&c, list, req->answer, out, err);
}

static size_t read_text(char *p, size_t size, size_t n, void *arg)
{
    struct fr_str *left = arg;
    size_t take = size * n < left->n ? size * n : left->n;

    memcpy(p, left->p, take);
    left->p += take;
    left->n -= take;
    return take;
}

static bool is_local(const char *server)
{
    static const char *const local[] = {"localhost", "127.0.0.1", "[::1]"};
    const char *host = strstr(server, "://") + 3;

    for (size_t i = 0; i < sizeof(local) / sizeof(local[0]); i++) {
        size_t n = strlen(local[i]);

        if (strncmp(host, local[i], n) == 0 && strchr(":/", host[n]) != NULL)
            return true;
    }
    return false;
}

enum fr_rc fr_mail_send(const struct fr_mail *mail, struct fr_reply *out, struct fr_err *err)
{
    bool plain = mail->ca == NULL && is_local(mail->server);
    struct fr_str left = mail->text;
    struct curl c = {0};
    void *list;
    enum fr_rc rc = begin(&c, mail->to, mail->n_to, &list, err);

    *out = (struct fr_reply){0};
    if (rc != FR_OK)
        return rc;
    c.setopt(c.h, OPT_URL, mail->server);
    c.setopt(c.h, OPT_PROTOCOLS_STR, "smtp,smtps");
    c.setopt(c.h, OPT_USE_SSL, (long)(plain ? USE_SSL_TRY : USE_SSL_ALL));
    if (mail->ca != NULL)
        c.setopt(c.h, OPT_CAINFO, mail->ca);
    if (mail->user != NULL) {
        c.setopt(c.h, OPT_USERNAME, mail->user);
        c.setopt(c.h, OPT_PASSWORD, mail->password);
    }
    c.setopt(c.h, OPT_MAIL_FROM, mail->from);
    c.setopt(c.h, OPT_MAIL_RCPT, list);
    c.setopt(c.h, OPT_UPLOAD, 1L);
    c.setopt(c.h, OPT_READFUNCTION, read_text);
    c.setopt(c.h, OPT_READDATA, &left);
    c.setopt(c.h, OPT_TIMEOUT_MS, (long)mail->timeout_ms);
    return perform(&c, list, NULL, out, err);
}
