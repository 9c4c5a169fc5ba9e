/*
 * A quarter of an hour of a home on simulated machines, asked for everything that its interface
 * has: each answer, each event of the stream, each line that a task writes and in the end each row
 * of the store is as recorded, to the letter and to the millisecond.
 *
 *     recorded/day.txt      what is asked, and when: SECOND WHO METHOD PATH [BODY]
 *     recorded, served      the pipelines
 *     recorded/answers.txt  what was answered
 *
 * After a change that is meant: recorded_test --write, and read the difference before it is
 * committed. WHO is owner, or a role: none, view, operate, admin.
 */
#include "engine/spec/config.h"
#include "tests/sim/world.h"
#include "tests/unit/check.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOLDER SOURCE_ROOT "/tests/sim/recorded"

enum { ASKS = 400, SEED = 7, PAIRS = 6 };

static const int64_t END_S = 900;

struct ask {
    int64_t at_us;
    struct fr_api_caller who;
    bool owner;
    enum fr_api_method method;
    char *path, *body; /* in the text of the day */
    struct fr_api_waiter waiter;
    bool begun, again, over;
};

struct day {
    struct ask asks[ASKS];
    size_t n, next; /* the next one that nobody has knocked for */
    struct fr_buf *out;
    struct fr_api_stream *stream;
    bool configured, streamed;
};

/* ---- real files, read before there is a simulated machine ---- */

static char *read_text(const char *name)
{
    static char text[1 << 20];
    char path[300];
    FILE *f;
    size_t n = 0;

    snprintf(path, sizeof(path), FOLDER "/%s", name);
    if ((f = fopen(path, "r")) != NULL) {
        n = fread(text, 1, sizeof(text) - 1, f);
        fclose(f);
    }
    text[n] = '\0';
    return strdup(text);
}

static const char *const files[] = {
    "main.yaml",          "config.yaml",        "served/daily.yaml",   "served/often.yaml",
    "served/pooled.yaml", "served/broken.yaml", "served/failing.yaml", "data.txt"};
static char *texts[sizeof(files) / sizeof(files[0])];

static void read_who(struct ask *a, const char *word)
{
    static const char *const roles[] = {"none", "view", "operate", "admin"};

    a->owner = strcmp(word, "owner") == 0;
    for (int i = 0; i < 4; i++)
        if (strcmp(word, roles[i]) == 0)
            a->who = (struct fr_api_caller){.role = (enum fr_role)i, .address = "192.0.2.7"};
    snprintf(a->who.name, sizeof(a->who.name), "%s", word);
}

static void read_day(struct day *d, char *text)
{
    static const char *const methods[] = {"GET", "POST", "PUT", "DELETE"};

    for (char *line = text, *next; line[0] != '\0'; line = next) {
        struct ask *a = &d->asks[d->n];
        char who[16], method[8];
        int at = 0;
        double s;

        next = line + strcspn(line, "\n");
        if (*next != '\0')
            *next++ = '\0';
        if (line[0] == '#')
            continue;
        if (!CHECK(d->n < ASKS && sscanf(line, "%lf %15s %7s %n", &s, who, method, &at) == 3))
            return;
        *a = (struct ask){.at_us = (int64_t)(s * 1e6), .path = line + at};
        if ((a->body = strchr(a->path, ' ')) != NULL)
            *a->body++ = '\0';
        read_who(a, who);
        for (int i = 0; i < 4; i++)
            if (strcmp(method, methods[i]) == 0)
                a->method = (enum fr_api_method)i;
        d->n++;
    }
}

/* ---- what is asked ---- */

/* What is put together outlives the simulated process that asks: it is none of its memory. */
static struct sim_proc *lend_out(struct world *w)
{
    struct sim_proc *cur = w->sim.cur;

    w->sim.cur = NULL;
    return cur;
}

static void put_header(struct fr_buf *out, const char *name, const struct fr_buf *value)
{
    if (value->n > 0)
        fr_buf_fmt(out, "   %s: %s\n", name, value->p);
}

static void put_answer(struct world *w, const struct ask *a, const struct fr_api_response *res)
{
    static const char *const methods[] = {"GET", "POST", "PUT", "DELETE"};
    struct day *d = w->test;
    char part[4096];
    ssize_t n = 0;
    struct sim_proc *cur;

    if (res->file)
        n = fr_sys.pread(res->fd, part, res->bytes < sizeof(part) ? res->bytes : sizeof(part),
                         (int64_t)res->offset);
    cur = lend_out(w);
    fr_buf_fmt(d->out, "%.3f %s %s %s %s\n   %d %s%s%s\n", (double)a->at_us / 1e6,
               a->owner ? "owner" : a->who.name, methods[a->method], a->path,
               a->body != NULL ? a->body : "", res->status, res->type != NULL ? res->type : "",
               res->foreign ? " foreign" : "", res->session_over ? " session over" : "");
    put_header(d->out, "location", &res->location);
    put_header(d->out, "etag", &res->etag);
    put_header(d->out, "allow", &res->allow);
    if (res->retry_after_s != 0 || res->cache != NULL || res->growing != NULL)
        fr_buf_fmt(d->out, "   retry %d cache %s growing %s\n", res->retry_after_s,
                   res->cache != NULL ? res->cache : "", res->growing != NULL ? res->growing : "");
    if (res->file) {
        fr_buf_fmt(d->out, "   file: %llu of %llu from %llu\n", (unsigned long long)res->bytes,
                   (unsigned long long)res->total, (unsigned long long)res->offset);
        fr_buf_add(d->out, part, n > 0 ? (size_t)n : 0);
    } else if (res->body.n > 0) {
        fr_buf_add(d->out, res->body.p, res->body.n);
    }
    fr_buf_text(d->out, "\n");
    w->sim.cur = cur;
}

/* The path with the newest attempt of the instance in it for ~INSTANCE~, of the run that it names.
 */
static void put_path(struct world *w, const char *path, char out[600])
{
    const char *mark = strchr(path, '~'), *end = mark != NULL ? strchr(mark + 1, '~') : NULL;
    const char *run = strstr(path, "runs/");
    struct fr_buf sql = {0}, id = {0};
    struct sim_proc *cur = lend_out(w);

    if (end != NULL && run != NULL) {
        fr_buf_fmt(&sql,
                   "SELECT lower(hex(attempt)) FROM instance JOIN run ON run.id = run WHERE no = "
                   "%d AND key = '%.*s'",
                   (int)strtol(run + 5, NULL, 10), (int)(end - mark - 1), mark + 1);
        world_rows(w, sql.p, &id);
    }
    if (end != NULL && CHECK(id.n >= 32))
        snprintf(out, 600, "%.*s%.32s%s", (int)(mark - path), path, id.p, end + 1);
    else
        snprintf(out, 600, "%s", path);
    fr_buf_finish(&sql);
    fr_buf_finish(&id);
    w->sim.cur = cur;
}

static void on_again(void *again)
{
    *(bool *)again = true;
}

static void ask(struct world *w, struct fr_host *host, struct ask *a)
{
    struct fr_api api = fr_host_api(host);
    struct fr_api_pair pairs[PAIRS];
    struct fr_api_response res = {0};
    char named[600], path[620], *query, *eq;
    struct fr_api_request req = {.method = a->method,
                                 .path = path,
                                 .query = pairs,
                                 .body = fr_str_of(a->body != NULL ? a->body : ""),
                                 .content_type = a->method != FR_API_GET ? "application/json" : "",
                                 .range = "",
                                 .if_none_match = "",
                                 .last_event_id = "",
                                 .if_match = a->method == FR_API_PUT ? "*" : NULL,
                                 .caller = a->owner ? NULL : &a->who,
                                 .waiter = &a->waiter};

    put_path(w, a->path, named);
    snprintf(path, sizeof(path), "%s%s", named[0] == '/' ? "" : "/api/v1/", named);
    for (char *p = path; *p != '\0'; p++) /* a blank would end the path */
        *p = *p == '+' ? ' ' : *p;
    for (query = strchr(path, '?');
         query != NULL && (eq = strchr(query, '=')) != NULL && req.n_query < PAIRS;
         query = strchr(eq + 1, '&')) {
        *query = *eq = '\0';
        pairs[req.n_query++] = (struct fr_api_pair){query + 1, eq + 1};
    }
    if (!a->begun)
        a->waiter = (struct fr_api_waiter){.again = on_again, .arg = &a->again};
    a->begun = true;
    a->again = false;
    api.answer(api.self, &req, &res);
    if (res.status != FR_API_LATER) {
        a->over = true;
        put_answer(w, a, &res);
    }
    fr_api_response_finish(&res);
}

/* ---- the stream ---- */

static size_t take(void *arg, struct fr_str events)
{
    struct world *w = arg;
    struct day *d = w->test;
    struct sim_proc *cur = lend_out(w);

    fr_buf_fmt(d->out, "stream at %.3f\n", (double)w->sim.now_us / 1e6);
    fr_buf_add(d->out, events.p, events.n);
    w->sim.cur = cur;
    return 0;
}

static void closed(void *arg)
{
    struct world *w = arg;

    ((struct day *)w->test)->stream = NULL;
}

static void open_stream(struct world *w, struct fr_host *host)
{
    struct day *d = w->test;
    struct fr_api api = fr_host_api(host);
    struct fr_api_pair pairs[] = {{"runs", "1,3"}, {"topics", "list,queue,nodes,schedules"}};
    struct fr_api_request req = {.path = "/api/v1/stream",
                                 .query = pairs,
                                 .n_query = 2,
                                 .content_type = "",
                                 .range = "",
                                 .if_none_match = "",
                                 .last_event_id = ""};
    struct fr_api_sink sink = {take, closed, w};
    struct fr_api_response res = {0};

    d->streamed = true;
    api.open(api.self, &req, &sink, &res, &d->stream);
    CHECK(d->stream != NULL);
    fr_api_response_finish(&res);
}

/* ---- the world ---- */

static void configure(struct world *w, struct fr_host *host)
{
    struct fr_config *config = NULL;
    struct fr_issues issues = {0};
    struct fr_err err = {0};

    ((struct day *)w->test)->configured = true;
    if (fr_config_load("/config.yaml", &config, &issues, &err) != FR_OK ||
        fr_host_configure(host, config, &err) != FR_OK)
        world_violated(w, "%s", err.msg);
    fr_config_destroy(config);
    fr_issues_finish(&issues);
}

static void turned(struct world *w, struct fr_host *host)
{
    struct day *d = w->test;

    if (!d->configured)
        configure(w, host);
    if (!d->streamed && w->sim.now_us >= 12000000)
        open_stream(w, host);
    for (size_t i = 0; i < d->n && d->asks[i].at_us <= w->sim.now_us; i++) {
        struct ask *a = &d->asks[i];

        if (!a->over && (!a->begun || a->again))
            ask(w, host, a);
    }
}

static void look(struct world *w)
{
    struct day *d = w->test;

    while (d->next < d->n && d->asks[d->next].at_us <= w->sim.now_us) {
        d->next++;
        world_knock(w);
    }
    w->look_us = d->next < d->n ? d->asks[d->next].at_us : INT64_MAX;
}

static bool never(void *arg)
{
    (void)arg;
    return false;
}

static void put_file(const char *path, const char *text)
{
    int fd = fr_sys.open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);

    if (fd >= 0) {
        (void)!fr_sys.write(fd, text, strlen(text));
        fr_sys.close(fd);
    }
}

/* sim MS CODE [out | once | curve]: what it was given, then a line each 500 ms. */
static int program(void *arg)
{
    const char *mode = sim_arg(arg, 3) != NULL ? sim_arg(arg, 3) : "";
    int64_t ms = atoll(sim_arg(arg, 1));
    int code = (int)strtol(sim_arg(arg, 2), NULL, 10);
    char text[300], path[300];
    int n = snprintf(text, sizeof(text), "task %s node %s attempt %s in %s\n",
                     sim_env(arg, "FLOWRUN_TASK"), sim_env(arg, "FLOWRUN_NODE"),
                     sim_env(arg, "FLOWRUN_ATTEMPT_NO"), sim_env(arg, "IN"));

    (void)!fr_sys.write(1, text, (size_t)n);
    if (strcmp(mode, "once") == 0 && strcmp(sim_env(arg, "FLOWRUN_ATTEMPT_NO"), "1") != 0)
        code = 0;
    for (int64_t t = 500, step = 1; t <= ms; t += 500, step++) {
        sim_block(never, NULL, sim->now_us + 500000);
        n = snprintf(text, sizeof(text), "step %lld of %s\n", (long long)step,
                     sim_env(arg, "FLOWRUN_TASK"));
        (void)!fr_sys.write(1, text, (size_t)n);
        if (strcmp(mode, "curve") == 0) {
            snprintf(path, sizeof(path), "%s/curve.jsonl", sim_env(arg, "FLOWRUN_DIR"));
            snprintf(text, sizeof(text), "{\"step\": %lld, \"loss\": %.3f}\n", (long long)step,
                     4.0 / (double)(step + 1));
            put_file(path, text);
        }
    }
    sim_block(never, NULL, sim->now_us + ms % 500 * 1000);
    if (strcmp(mode, "out") == 0) {
        snprintf(text, sizeof(text), "v=%s.%s\n", sim_env(arg, "FLOWRUN_TASK"), sim_env(arg, "IN"));
        put_file(sim_env(arg, "FLOWRUN_OUTPUT"), text);
    }
    return code;
}

/* No machine has a name for it. */
static uid_t nobody(void)
{
    return 1999999999;
}

static void begin(struct world *w)
{
    char path[100];

    w->turned = turned;
    w->own_tasks = w->removes = true;
    w->folder = "/served";
    w->until_wall_ms = 1700000000000 + END_S * 1000;
    w->sim.program = program;
    w->sim.on_spawn = NULL;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        snprintf(path, sizeof(path), "/%s", files[i]);
        sim_put_file(&w->sim.machines[0], path, texts[i]);
    }
}

/* ---- what it comes to ---- */

/* The home's path has this process's number. */
static char *mask(const struct world *w, const char *text)
{
    struct fr_buf out = {0};

    while (*text != '\0') {
        if (fr_has_prefix(text, "\nprocess_")) { /* figures of this process */
            text += 1 + strcspn(text + 1, "\n");
        } else if (fr_has_prefix(text, "\"frt_")) { /* it looks as one that somebody lost */
            fr_buf_text(&out, "\"TOKEN\"");
            text += 2 + strcspn(text + 1, "\"");
        } else if (fr_has_prefix(text, w->home)) {
            fr_buf_text(&out, "HOME");
            text += strlen(w->home);
        } else {
            fr_buf_add(&out, text++, 1);
        }
    }
    return out.p;
}

static void put_store(struct world *w)
{
    struct day *d = w->test;
    static const char *const tables[] = {
        "SELECT hex(id), no, name, source, state, outcome, reason, started_wall, ended_wall, "
        "round, "
        "host, origin, priority, queued_wall, not_before_wall, pinned, schedule, at_ms, backfill, "
        "retry_of, reruns, rerun_wall, rerun_from, notify, who, late_wall, pool, params FROM run "
        "ORDER BY no",
        "SELECT r.no, i.key, i.state, i.attempt_no, hex(i.attempt), i.attempt_state, i.live, i.go, "
        "i.generation, i.retries, i.chained, i.cause, i.code, i.stop_cause, i.reason, i.due_wall, "
        "i.due_delay_ms, i.unreachable_wall, i.started_wall, i.ended_wall FROM instance i JOIN run "
        "r ON r.id = i.run ORDER BY r.no, i.idx",
        "SELECT r.no, a.idx, a.no, hex(a.id), a.generation, a.node, a.rank, a.state, a.cause, "
        "a.code, a.reason, a.address, a.port, a.log, a.slots, a.started_wall, a.ended_wall, a.done "
        "FROM attempt a JOIN run r ON r.id = a.run ORDER BY r.no, a.idx, a.no",
        "SELECT r.no, e.seq, e.wall, e.idx, e.kind, e.attempt_no, e.cause, e.code, e.text, "
        "e.stop_cause, e.delay_ms, e.log_bytes FROM event e JOIN run r ON r.id = e.run ORDER BY "
        "r.no, e.seq",
        "SELECT r.no, o.idx, o.key, o.value FROM output o JOIN run r ON r.id = o.run ORDER BY "
        "r.no, "
        "o.idx, o.key",
        "SELECT * FROM schedule ORDER BY id",
        "SELECT * FROM fire ORDER BY schedule, at_ms",
        "SELECT * FROM backfill ORDER BY id",
        "SELECT * FROM audit ORDER BY id",
        "SELECT name, role, made_wall, ends_wall, used_wall FROM token ORDER BY id",
        "SELECT id, key, channel, rule, kind, run, name, state, made_wall, due_wall, tried_wall, "
        "tries, answer, body FROM delivery ORDER BY id",
        "SELECT hex(home), name, wall, note, who FROM drained ORDER BY name",
    };

    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        fr_buf_fmt(d->out, "== %s\n", strstr(tables[i], "FROM"));
        world_rows(w, tables[i], d->out);
    }
}

/* The first line that differs, of both. */
static void compare(const char *got, const char *want)
{
    for (int line = 1; *got != '\0' || *want != '\0'; line++) {
        size_t n = strcspn(got, "\n"), m = strcspn(want, "\n");

        if (!CHECK(n == m && memcmp(got, want, n) == 0)) {
            printf("recorded/answers.txt:%d\n  was %.*s\n  is  %.*s\n", line, (int)m, want, (int)n,
                   got);
            return;
        }
        got += n + (got[n] != '\0');
        want += m + (want[m] != '\0');
    }
}

int main(int argc, char **argv)
{
    struct world *w = calloc(1, sizeof(*w));
    struct fr_buf out = {0};
    struct day *d = calloc(1, sizeof(*d));
    char *want = read_text("answers.txt"), *text = read_text("day.txt"), *got;
    size_t answered = 0;
    FILE *f;

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        CHECK((texts[i] = read_text(files[i])) != NULL && texts[i][0] != '\0');
    read_day(d, text);
    d->out = &out;
    setenv("TZ", "UTC", 1);
    world_setup();
    fr_sys.uid = nobody;
    w->stays = true;
    w->look = look;
    w->test = d;
    if (!CHECK(world_run(w, texts[0], SEED, begin)))
        printf("%s\n", w->why);
    put_store(w);
    for (size_t i = 0; i < d->n; i++)
        answered += d->asks[i].over;
    CHECK_INT(answered, d->n);
    got = mask(w, out.p);
    if (argc > 1 && strcmp(argv[1], "--write") == 0) {
        f = fopen(FOLDER "/answers.txt", "w");
        CHECK(f != NULL && fputs(got, f) >= 0 && fclose(f) == 0);
    } else {
        compare(got, want);
    }
    world_finish(w);
    world_clean();
    return check_done();
}
