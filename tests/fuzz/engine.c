/*
 * The engine's side: whatever a node says, while all kinds of answers are awaited, also those of
 * commands that a login node runs. Memory stays in proportion, events are of that node, logs have
 * no gaps, and files are written only where they were asked for.
 */
#include "tests/fuzz/fuzz.h"

#include "engine/base/file.h"
#include "engine/exec/login.h"
#include "tests/unit/exec/exec_peer.h"

#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

enum { PIECE = 999, LIVE_MAX = 96 << 20 };

static const struct fr_id A = {{0xa}}, B = {{0xb}};
static struct peer_world w;
static struct { /* commands on the login node, n1 */
    struct fr_login *login;
    struct fr_link links[2];
    int downs[2], opens[2];
    size_t bytes;
} there;
static struct {
    size_t live; /* bytes of the engine's memory in use */
    char local[300];
    uint64_t log; /* bytes of A's log so far */
} seen;

static void *count_alloc(size_t n)
{
    void *p = fr_sys_real.alloc(n);

    seen.live += p != NULL ? malloc_usable_size(p) : 0;
    fuzz_want(seen.live < LIVE_MAX, "memory is in proportion to what came");
    return p;
}

static void count_free(void *p)
{
    seen.live -= p != NULL ? malloc_usable_size(p) : 0;
    fr_sys_real.free(p);
}

static void *count_realloc(void *p, size_t n)
{
    size_t before = p != NULL ? malloc_usable_size(p) : 0;
    void *q = fr_sys_real.realloc(p, n);

    if (q != NULL)
        seen.live += malloc_usable_size(q) - before;
    fuzz_want(seen.live < LIVE_MAX, "memory is in proportion to what came");
    return q;
}

static int only_there(const char *path, int flags, mode_t mode)
{
    if ((flags & (O_WRONLY | O_RDWR | O_CREAT)) != 0)
        fuzz_want(strncmp(path, seen.local, strlen(seen.local)) == 0, "a file is where it should");
    return fr_sys_real.open(path, flags, mode);
}

static int rename_there(const char *from, const char *to)
{
    fuzz_want(strcmp(to, seen.local) == 0, "a file gets the name asked for");
    return fr_sys_real.rename(from, to);
}

static void take_events(void)
{
    while (w.events != NULL) {
        struct fr_exec_event *ev = w.events;

        w.events = ev->next;
        if (w.events == NULL)
            w.events_last = &w.events;
        fuzz_want(ev->node == 0, "an event is of its node");
        if (ev->kind == FR_EXEC_LOG && fr_id_eq(ev->attempt, A)) {
            fuzz_want(ev->log.offset == seen.log, "a log has no gap");
            seen.log += ev->log.bytes.n;
        }
        if (ev->kind == FR_EXEC_DOWN || ev->kind == FR_EXEC_FAILED) {
            fuzz_want(ev->err.rc != FR_OK, "what is down has a reason");
            fuzz_want(strstr(ev->err.msg, "node n") != NULL, "an error names the node");
            for (const char *p = ev->err.msg; *p != '\0'; p++)
                fuzz_want(((uint8_t)*p >= 0x20 && *p != 0x7f) || *p == '\t', "and is printable");
        }
        fr_exec_event_free(ev);
    }
}

static void ask(void)
{
    const struct fr_exec_ops *ops = w.ex.ops;
    struct fr_exec_member a = {.node = 0}, b = {.node = 0};
    struct fr_exec_attempt at = {0, A}, bt = {0, B};
    char hash[FR_SHA256_TEXT];
    struct fr_ship_file file = {.bytes = FR_STR("bytes"), .path = "h/f", .size = 5, .mode = 0644};
    struct fr_exec_put put = {0, 30, &file, 1};
    struct fr_exec_get get = {0, 40, "out/f", seen.local, 1 << 20};

    fr_sha256("bytes", 5, hash);
    file.sha256 = hash;
    a.prepare.attempt = A;
    b.prepare.attempt = B;
    a.prepare.instance = b.prepare.instance = FR_STR("t");
    ops->start(w.ex.self, &a, NULL);
    ops->prepare(w.ex.self, &b, NULL);
    ops->attach(w.ex.self, at, (struct fr_exec_have){0}, NULL);
    ops->put(w.ex.self, &put, NULL);
    ops->get(w.ex.self, &get, NULL);
    ops->facts(w.ex.self, 0, 60, NULL);
    ops->query(w.ex.self, &bt, 1, NULL);
    ops->stop(w.ex.self, bt, 10, 1, NULL);
}

static void no_event(void *arg)
{
    (void)arg;
}

static void on_bytes(void *arg, const char *p, size_t n)
{
    (void)arg, (void)p;
    there.bytes += n;
}

static void on_down(void *arg, const struct fr_err *err, bool ran)
{
    int i = (int)((struct fr_link *)arg - there.links);

    (void)ran;
    fuzz_want(err->rc != FR_OK && ++there.downs[i] <= there.opens[i], "a command ends once");
}

static void begin_login(void)
{
    static const char *const argv[] = {"squeue", NULL};
    const struct fr_login_args args = {.nodes = w.all, .node = &w.infos[1], .changed = no_event};
    const struct fr_runner *r;

    memset(&there, 0, sizeof(there));
    fuzz_want(fr_login_create(&args, &there.login, NULL) == FR_OK, "a login node");
    r = fr_login_runner(there.login);
    for (int i = 0; i < 2; i++)
        fuzz_want(r->ops->make(r->self, &(struct fr_runner_command){.what = "squeue", .argv = argv},
                               &there.links[i], NULL) == FR_OK,
                  "a command");
}

static void open_commands(void)
{
    for (int i = 0; i < 2; i++) {
        struct fr_link *link = &there.links[i];
        struct fr_link_events ev = {no_event, on_bytes, no_event, on_down, link};

        if (link->ops->open(link->self, &ev, NULL) == FR_OK)
            there.opens[i]++;
        link->ops->send(link->self, "for its stdin", 13);
    }
}

static void end_login(void)
{
    struct fr_str errors;

    for (int i = 0; i < 2; i++) {
        int code = fr_login_runner(there.login)->ops->code(&there.links[i], &errors);

        fuzz_want(code >= -1 && code < 256, "an exit status is one");
        fuzz_want(errors.n <= FR_PIPE_ERRORS, "errors have an end");
        fr_link_destroy(&there.links[i]);
    }
    fr_login_destroy(there.login);
}

void fuzz_engine(struct fr_str in)
{
    struct fr_buf bytes = {0};
    bool of_login = in.n > 0 && (in.p[0] & 4) != 0; /* the login node says it */
    struct peer *p = &w.nodes[of_login ? 1 : 0];
    bool awake = in.n > 0 && (in.p[0] & 2) != 0; /* it answers hello as a node does */

    (void)snprintf(seen.local, sizeof(seen.local), "%s/got", fuzz_dir());
    seen.live = seen.log = 0;
    peer_setup(&w, 2);
    fr_sys.alloc = count_alloc;
    fr_sys.realloc = count_realloc;
    fr_sys.free = count_free;
    fr_sys.open = only_there;
    fr_sys.rename = rename_there;
    ask();
    begin_login();
    if (awake)
        peer_run(&w);
    else
        p->silent = true;
    peer_run(&w);
    open_commands();
    peer_run(&w);
    fuzz_frames(in, &bytes);
    for (size_t at = 0; at < bytes.n && p->up_now; at += PIECE) {
        char *piece = malloc(PIECE);
        size_t n = bytes.n - at < PIECE ? bytes.n - at : PIECE;

        memcpy(piece, bytes.p + at, n);
        p->ev.on_bytes(p->ev.arg, piece, n);
        free(piece);
        take_events();
    }
    p->n_got = 0;
    peer_run(&w);
    take_events();
    end_login();
    peer_finish(&w);
    fr_buf_finish(&bytes);
    fr_sys_real.unlink(seen.local);
    (void)snprintf(seen.local, sizeof(seen.local), "%s/got.part", fuzz_dir());
    fr_sys_real.unlink(seen.local);
}

/* ---- seeds: answers as a node gives them ---- */

static void put_stream(void (*put)(void *arg, const char *name, struct fr_str bytes), void *arg,
                       const char *name, const struct fr_msg *msgs, size_t n)
{
    struct fr_buf b = {0};

    fr_buf_text(&b, strcmp(name, "login") == 0 ? "\7" : "\3");
    for (size_t i = 0; i < n; i++)
        fuzz_piece(&msgs[i], &b);
    put(arg, name, (struct fr_str){b.p, b.n});
    fr_buf_finish(&b);
}

void fuzz_engine_seeds(void (*put)(void *arg, const char *name, struct fr_str bytes), void *arg)
{
    static struct fr_str outs[] = {{"k=v", 3}, {"l=a\nb", 5}}, alive[] = {{"7 sh Z", 6}};
    static struct fr_str facts[] = {{"cpus=2", 6}, {"arch=x", 6}};
    const struct fr_msg run[] = {
        {.type = FR_MSG_PREPARED, .prepared = {B, FR_OK, FR_STR(""), 4242}},
        {.type = FR_MSG_LAUNCHED, .launched = {A, 77, 5}},
        {.type = FR_MSG_LOG, .log = {A, 0, 5, FR_STR("hello\n")}},
        {.type = FR_MSG_LOG, .log = {A, 3, 6, FR_STR("lo\nyou\n")}},
        {.type = FR_MSG_ENDED,
         .ended = {A, FR_END_EXIT, 0, 0, true, 5, 6, 10, 0, {outs, 2}, FR_STR(""), {alive, 1}}},
        {.type = FR_MSG_STATE, .state = {B, FR_AT_RUNNING, 1, FR_STR("h"), 78, 5, 10, 4242}},
        {.type = FR_MSG_BUSY, .busy = {A, B, 1, FR_STR("h")}},
        {.type = FR_MSG_STATE, .state = {A, FR_AT_TOMBSTONED, 1, FR_STR("h"), 0, 0, 0, 0}},
        {.type = FR_MSG_LEASED, .leased = {1, 5, {{1}}}},
        {.type = FR_MSG_PING, .ping = {9}},
        {.type = FR_MSG_PONG, .pong = {1000, 1001, 1002}},
        {.type = FR_MSG_CREDIT, .credit = {65536}},
    };
    const struct fr_msg move[] = {
        {.type = FR_MSG_CREDIT, .credit = {65536}},
        {.type = FR_MSG_PUT_STATE, .put_state = {1, 0, false, FR_STR("/n/store/h/f")}},
        {.type = FR_MSG_PUT_STATE, .put_state = {1, 5, true, FR_STR("/n/store/h/f")}},
        {.type = FR_MSG_GET_DATA, .get_data = {2, 0, FR_STR("first ")}},
        {.type = FR_MSG_GET_DATA, .get_data = {2, 6, FR_STR("second")}},
        {.type = FR_MSG_GET_END, .get_end = {2, 12, 0644}},
        {.type = FR_MSG_FACTS_ARE, .facts_are = {3, {facts, 2}}},
        {.type = FR_MSG_ERROR, .error = {2, FR_NOTFOUND, FR_STR("no\x1b[31m such file")}},
        {.type = FR_MSG_ERROR, .error = {0, FR_FULL, FR_STR("disk full")}},
    };

    const struct fr_msg of_login[] = {
        {.type = FR_MSG_CREDIT, .credit = {65536}},
        {.type = FR_MSG_PIPE_DATA, .pipe_data = {1, FR_STR("4711 RUNNING\n")}},
        {.type = FR_MSG_PIPE_MORE, .pipe_more = {1, 13}},
        {.type = FR_MSG_PIPE_DATA, .pipe_data = {2, FR_STR("other")}},
        {.type = FR_MSG_PIPE_END, .pipe_end = {1, 3, FR_STR(""), FR_STR("no\x1b[31m\n")}},
        {.type = FR_MSG_PIPE_END, .pipe_end = {2, 127, FR_STR("no program"), FR_STR("")}},
        {.type = FR_MSG_PIPE_END, .pipe_end = {2, 0, FR_STR(""), FR_STR("")}},
    };

    put_stream(put, arg, "login", of_login, sizeof(of_login) / sizeof(of_login[0]));
    put_stream(put, arg, "run", run, sizeof(run) / sizeof(run[0]));
    put_stream(put, arg, "move", move, sizeof(move) / sizeof(move[0]));
    put(arg, "raw", FR_STR("\2motd\nFLOWNODE 1\n\x05\0\0\0\x02\0\0\0\0\0"));
}
