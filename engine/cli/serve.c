/* serve: the host of a home until a signal ends it. It drives the runs of other shells, starts runs
 * of the schedules in its folders, and serves the pages. */
#include "engine/cli/serve.h"

#include "engine/cli/rotate.h"
#include "engine/cli/systemd.h"

#include "engine/base/sys.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STANDBY_MS = 100 }; /* between two tries to become the host */

/* ---- pages ---- */

/* Reads "127.0.0.1:8470", "[::1]:8470" or "localhost:0". */
static enum fr_rc read_address(const char *option, const char *text, struct fr_endpoint *out,
                               struct fr_err *err)
{
    const char *colon = strrchr(text, ':');
    bool brackets = text[0] == '[' && colon != NULL && colon > text + 1 && colon[-1] == ']';
    size_t n = colon != NULL ? (size_t)(colon - text) - (brackets ? 2 : 0) : 0;
    int64_t port = -1;

    *out = (struct fr_endpoint){0};
    if (colon == NULL || n == 0 || n >= sizeof(out->host) ||
        fr_parse_i64(fr_str_of(colon + 1), &port, NULL) != FR_OK || port < 0 || port > UINT16_MAX)
        return fr_fail(err, FR_USAGE,
                       "serve: %s takes ADDRESS:PORT as 127.0.0.1:8470 or [::1]:8470, not '%s'",
                       option, text);
    memcpy(out->host, text + (brackets ? 1 : 0), n);
    if (strcmp(out->host, "localhost") == 0)
        memcpy(out->host, "127.0.0.1", sizeof("127.0.0.1"));
    out->port = (int)port;
    return FR_OK;
}

static enum fr_rc check_base(const char *base, struct fr_err *err)
{
    static const char set[] = "/-_.0123456789"
                              "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    size_t n = base != NULL ? strlen(base) : 0;

    if (base == NULL ||
        (base[0] == '/' && n > 1 && n < 200 && strspn(base, set) == n && base[n - 1] != '/' &&
         strstr(base, "//") == NULL && strstr(base, "/.") == NULL))
        return FR_OK;
    return fr_fail(err, FR_USAGE, "serve: --base takes a path as /flowrun, not '%s'", base);
}

static enum fr_rc check_pages(const struct cli_served *s, struct fr_err *err)
{
    struct fr_endpoint at;
    enum fr_rc rc = check_base(s->base, err);

    for (size_t i = 0; rc == FR_OK && i < s->http.n; i++)
        rc = read_address("--http", s->http.v[i], &at, err);
    for (size_t i = 0; rc == FR_OK && i < s->metrics.n; i++)
        rc = read_address("--metrics", s->metrics.v[i], &at, err);
    if (rc == FR_OK && s->http.n == 0 &&
        (s->base != NULL || (s->hosts.n > 0 && s->metrics.n == 0) || s->proxies.n > 0 ||
         s->open_view))
        rc = fr_fail(err, FR_USAGE,
                     "serve: --base, --host, --proxy and --open-view are for --http ADDRESS:PORT");
    return rc;
}

static enum fr_rc listen_one(struct cli_served *s, const char *text, struct fr_err *err)
{
    struct cli_drive *d = &s->drive;
    struct fr_run_shell shell = cli_shell(d->paths.cwd);
    bool six = text[0] == '[';
    struct fr_endpoint at;
    char url[300];
    enum fr_rc rc = read_address("--http", text, &at, err);

    if (rc == FR_OK)
        rc = fr_server_listen(d->server, &at, err);
    if (rc != FR_OK)
        return fr_while(err, "serve --http %s", text);
    snprintf(url, sizeof(url), "http://%s%s%s:%d%s/", six ? "[" : "", at.host, six ? "]" : "",
             at.port, s->base != NULL ? s->base : "");
    cli_show_say(d->show, "pages at %s; 'flowrun web' prints a link that logs in", url);
    if (!fr_gate_is_loopback(at.host) && s->proxies.n == 0)
        cli_show_say(d->show,
                     "%s can be reached from other machines, and passwords and pages go there in "
                     "the clear: put a proxy with TLS in front of it and say --proxy",
                     at.host);
    return fr_host_pages(d->host, url, &shell, err);
}

static enum fr_rc listen_metrics(struct cli_served *s, const char *text, struct fr_err *err)
{
    bool six = text[0] == '[';
    struct fr_endpoint at;
    enum fr_rc rc = read_address("--metrics", text, &at, err);

    if (rc == FR_OK)
        rc = fr_server_listen_metrics(s->drive.server, &at, err);
    if (rc != FR_OK)
        return fr_while(err, "serve --metrics %s", text);
    cli_show_say(s->drive.show, "figures at http://%s%s%s:%d/metrics, for whoever reaches it",
                 six ? "[" : "", at.host, six ? "]" : "", at.port);
    return FR_OK;
}

static enum fr_rc open_pages(struct cli_served *s, struct fr_err *err)
{
    struct fr_gate gate = {.base = s->base != NULL ? s->base : "",
                           .hosts = s->hosts.v,
                           .n_hosts = s->hosts.n,
                           .proxies = s->proxies.v,
                           .n_proxies = s->proxies.n,
                           .cookie = s->cookie,
                           .open_view = s->open_view};
    char id[FR_ID_TEXT];
    enum fr_rc rc = FR_OK;

    fr_id_text(fr_store_home_id(s->drive.store), id);
    snprintf(s->cookie, sizeof(s->cookie), "flowrun_%.8s", id);
    fr_server_gate(s->drive.server, &gate);
    for (size_t i = 0; rc == FR_OK && i < s->http.n; i++)
        rc = listen_one(s, s->http.v[i], err);
    for (size_t i = 0; rc == FR_OK && i < s->metrics.n; i++)
        rc = listen_metrics(s, s->metrics.v[i], err);
    return rc;
}

/* ---- the host ---- */

/* After SIGHUP: reads the configuration again; keeps the old one after a mistake. */
static void reload(struct cli_served *s)
{
    struct cli_drive *d = &s->drive;
    struct fr_err err = {0};

    d->reload = false;
    cli_systemd_reloading(s->systemd);
    if (cli_configure(d, &err) == FR_OK)
        cli_show_say(d->show, "the configuration was read again");
    else
        cli_show_say(d->show, "the configuration stays as it was: %s", err.msg);
    cli_systemd_ready(s->systemd);
}

/* Called after each turn of the loop. */
static void look_around(struct cli_served *s)
{
    struct fr_host_load load = fr_host_load(s->drive.host);
    struct fr_err err = {0};

    if (s->n_folders > 0)
        cli_systemd_status(s->systemd, "%zu schedules, %zu runs, %zu of them queued",
                           load.schedules, load.runs, load.queued);
    else
        cli_systemd_status(s->systemd, "%zu runs, %zu of them queued", load.runs, load.queued);
    if (!s->ready && fr_host_ready(s->drive.host)) {
        s->ready = true;
        cli_systemd_ready(s->systemd);
    }
    if (s->drive.reload)
        reload(s);
    if (s->log == NULL)
        return;
    if (cli_rotate(s->log, CLI_ROTATE_BYTES, &err) != FR_OK && !s->log_failed)
        cli_show_say(s->drive.show, "the log goes on in the same file: %s", err.msg);
    s->log_failed = err.rc != FR_OK;
}

/* Becomes the host; with --standby waits until the home has none, or until a signal. */
static enum fr_rc lead(struct cli_served *s, struct fr_err *err)
{
    struct cli_drive *d = &s->drive;
    enum fr_rc rc = cli_lead(d, err);

    if (rc != FR_BUSY || !s->standby)
        return rc;
    cli_show_say(d->show, "stands by: %s", err->msg);
    cli_systemd_ready(s->systemd);
    cli_systemd_status(s->systemd, "stands by: %s", err->msg);
    while (rc == FR_BUSY && !d->leave) {
        if ((rc = cli_pause(d, STANDBY_MS, err)) == FR_OK)
            rc = d->leave ? FR_BUSY : cli_lead(d, err);
    }
    return rc;
}

static enum fr_rc serve(struct cli_served *s, struct fr_err *err)
{
    struct cli_drive *d = &s->drive;
    struct fr_run_shell shell = cli_shell(d->paths.cwd);
    enum fr_rc rc = lead(s, err);

    if (d->leave)
        return FR_OK;
    if (rc != FR_OK)
        return rc;
    fr_host_stay(d->host);
    d->stays = true;
    cli_show_say(d->show, "this is the host of %s; SIGTERM ends it, tasks go on", d->home.p);
    rc = open_pages(s, err);
    if (rc == FR_OK && s->n_folders > 0)
        rc = fr_host_watch(d->host, s->folders, s->n_folders, &shell, err);
    if (rc == FR_OK)
        rc = fr_host_recover(d->host, err);
    while (rc == FR_OK && !d->leave) {
        look_around(s);
        cli_out_flush(d->out);
        rc = fr_host_turn(d->host, err);
    }
    cli_systemd_stopping(s->systemd);
    cli_say_owed(d);
    return rc;
}

enum cli_exit cli_serve_go(struct cli_served *s)
{
    struct fr_err err = {0};
    enum cli_exit code;
    enum fr_rc rc = cli_drive_init(&s->drive, &(struct cli_show_opts){.quiet = true}, &err);

    if (rc == FR_OK)
        rc = cli_systemd_create(&s->drive.loop, &s->systemd, &err);
    if (rc == FR_OK)
        rc = serve(s, &err);
    code = rc == FR_OK ? CLI_OK : cli_fail(&err);
    cli_systemd_destroy(s->systemd);
    cli_drive_finish(&s->drive);
    return code;
}

/* Takes the folders as absolute paths without links. */
static enum fr_rc take_folders(struct cli_served *s, struct cli_call *c, struct fr_err *err)
{
    char path[PATH_MAX];
    struct stat st;

    s->folders = fr_arena_array(&c->arena, c->args.n + 1, sizeof(*s->folders));
    if (s->folders == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for folders");
    for (; s->n_folders < c->args.n; s->n_folders++) {
        const char *name = c->args.v[s->n_folders];

        if (realpath(name, path) == NULL)
            return fr_fail(err, FR_USAGE, "serve: the folder %s: %s", name, strerror(errno));
        if (fr_sys.lstat(path, &st) != 0 || !S_ISDIR(st.st_mode))
            return fr_fail(err, FR_USAGE,
                           "serve: %s is not a folder: name the folder of the "
                           "pipelines that have schedules",
                           name);
        if ((s->folders[s->n_folders] = fr_arena_dup(&c->arena, path)) == NULL)
            return fr_fail(err, FR_NOMEM, "no memory for folders");
    }
    return FR_OK;
}

enum fr_rc cli_serve(struct cli_call *c, struct fr_err *err)
{
    struct cli_served s = {.log = cli_value(c, "--log"),
                           .standby = cli_has(c, "--standby"),
                           .http = *cli_values(c, "--http"),
                           .hosts = *cli_values(c, "--host"),
                           .base = cli_value(c, "--base"),
                           .proxies = *cli_values(c, "--proxy"),
                           .metrics = *cli_values(c, "--metrics"),
                           .open_view = cli_has(c, "--open-view")};
    enum fr_rc rc = check_pages(&s, err);

    if (rc == FR_OK)
        rc = take_folders(&s, c, err);
    if (rc == FR_OK && s.log != NULL)
        rc = cli_rotate_open(s.log, err);
    if (rc == FR_OK)
        c->code = (int)cli_serve_go(&s);
    return rc;
}
