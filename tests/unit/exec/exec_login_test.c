/*
 * Commands that a login node runs, as links: what is sent of them, what its answers become, and
 * what their owners hear when its connection is lost. The node is the test's own (exec_peer.h).
 */
#include "engine/exec/login.h"

#include "tests/unit/exec/exec_peer.h"

static struct peer_world w;
static struct peer *node; /* "n", the login node */
static struct fr_login *login;
static int changes;

/* A command, and what its owner has heard. */
struct command {
    struct fr_link link;
    int ups, downs, writables;
    bool ran, closes; /* closes: the link, as it hears of bytes */
    struct fr_err err;
    struct fr_buf out;
};

static void on_up(void *arg)
{
    ((struct command *)arg)->ups++;
}

static void on_bytes(void *arg, const char *p, size_t n)
{
    struct command *c = arg;

    fr_buf_add(&c->out, p, n);
    if (c->closes)
        c->link.ops->close(c->link.self);
}

static void on_writable(void *arg)
{
    ((struct command *)arg)->writables++;
}

static void on_down(void *arg, const struct fr_err *err, bool ran)
{
    struct command *c = arg;

    c->downs++;
    c->err = *err;
    c->ran = ran;
}

static void changed(void *arg)
{
    (void)arg;
    changes++;
}

static void make(struct command *c, const char *const *argv)
{
    const struct fr_runner *r = fr_login_runner(login);
    struct fr_runner_command command = {.what = argv[0], .argv = argv, .limit_ms = 9000};

    *c = (struct command){0};
    CHECK_INT(r->ops->make(r->self, &command, &c->link, NULL), FR_OK);
}

static enum fr_rc open_it(struct command *c)
{
    struct fr_link_events ev = {on_up, on_bytes, on_writable, on_down, c};
    enum fr_rc rc = c->link.ops->open(c->link.self, &ev, &c->err);

    peer_run(&w);
    return rc;
}

static void finish(struct command *c)
{
    fr_link_destroy(&c->link);
    fr_buf_finish(&c->out);
}

static int code_of(const struct command *c, struct fr_str *errors)
{
    return fr_login_runner(login)->ops->code(&c->link, errors);
}

static void begin(const char *row)
{
    struct fr_exec_node at;

    check_row(row);
    peer_setup(&w, 1);
    node = &w.nodes[0];
    at = w.infos[0];
    changes = 0;
    CHECK_INT(fr_login_create(
                  &(struct fr_login_args){
                      .nodes = w.all, .node = &at, .path = "/opt/slurm/bin", .changed = changed},
                  &login, NULL),
              FR_OK);
}

static void begin_up(const char *row)
{
    begin(row);
    CHECK(!fr_runner_ready(fr_login_runner(login)) && !fr_login_is(login).up);
    peer_run(&w);
    CHECK(fr_runner_ready(fr_login_runner(login)) && fr_login_is(login).up);
    CHECK(changes > 0);
}

static void end(void)
{
    fr_login_destroy(login);
    peer_finish(&w);
}

static void say_data(uint64_t ref, const char *text)
{
    struct fr_msg m = {.type = FR_MSG_PIPE_DATA, .pipe_data = {ref, fr_str_of(text)}};

    peer_say(node, &m);
}

static void say_end(uint64_t ref, int code, const char *text, const char *errors)
{
    struct fr_msg m = {.type = FR_MSG_PIPE_END,
                       .pipe_end = {ref, (uint32_t)code, fr_str_of(text), fr_str_of(errors)}};

    peer_say(node, &m);
}

static const char *const squeue[] = {"squeue", "-h", NULL};

static void test_command(void)
{
    struct command c;
    const struct fr_msg *m;
    struct fr_str errors;
    uint64_t ref;

    begin_up("a command");
    make(&c, squeue);
    CHECK_INT(open_it(&c), FR_OK);
    CHECK_INT(c.ups, 1);
    m = peer_got(node, FR_MSG_PIPE_OPEN);
    CHECK(m != NULL && m->pipe_open.argv.n == 2 && fr_str_is(m->pipe_open.argv.v[0], "squeue") &&
          fr_str_is(m->pipe_open.argv.v[1], "-h"));
    CHECK(fr_str_is(m->pipe_open.path, "/opt/slurm/bin") && m->pipe_open.limit_ms == 9000);
    ref = m->pipe_open.ref;
    CHECK_INT(c.link.ops->send(c.link.self, "in", 2), 0); /* the node has granted no credit */
    say_data(ref, "4711 ");
    say_data(ref + 1, "of another");
    say_data(ref, "RUNNING");
    say_end(ref, 3, "", "one\ntwo\n");
    peer_run(&w);
    fr_buf_text(&c.out, "");
    CHECK_TEXT(c.out.p, "4711 RUNNING");
    CHECK(c.downs == 1 && c.ran && c.err.rc == FR_UNREACHABLE);
    CHECK_TEXT(c.err.msg, "squeue: ended with status 3: one | two");
    CHECK_INT(code_of(&c, &errors), 3);
    CHECK(fr_str_is(errors, "one\ntwo\n"));
    CHECK(peer_got(node, FR_MSG_PIPE_CLOSE) == NULL);
    CHECK_INT(open_it(&c), FR_OK); /* a link may be opened again */
    CHECK(peer_got(node, FR_MSG_PIPE_OPEN) != NULL);
    CHECK_INT(code_of(&c, &errors), -1);
    finish(&c);
    peer_run(&w);
    m = peer_got(node, FR_MSG_PIPE_CLOSE);
    CHECK(m != NULL && m->pipe_close.leave);
    end();
}

static void test_not_run(void)
{
    struct command c;
    struct fr_str errors;
    uint64_t ref;

    begin_up("one that is not run");
    make(&c, squeue);
    CHECK_INT(open_it(&c), FR_OK);
    ref = peer_got(node, FR_MSG_PIPE_OPEN)->pipe_open.ref;
    say_end(ref, 127, "cannot start squeue", "");
    peer_run(&w);
    CHECK(c.downs == 1 && !c.ran);
    CHECK_INT(code_of(&c, &errors), 127);
    CHECK_TEXT(c.err.msg, "squeue on n: cannot start squeue");
    CHECK_INT(open_it(&c), FR_OK);
    ref = peer_got(node, FR_MSG_PIPE_OPEN)->pipe_open.ref;
    say_end(ref, -7, "killed", "");
    peer_run(&w);
    CHECK_INT(code_of(&c, &errors), -1);
    finish(&c);
    end();
}

/* What fell is not known to have ended, and is started on the next connection by its owner alone.
 */
static void test_lost(void)
{
    struct command c, idle;
    struct fr_str errors;

    begin_up("a lost connection");
    make(&c, squeue);
    make(&idle, squeue);
    CHECK_INT(open_it(&c), FR_OK);
    peer_got(node, FR_MSG_PIPE_OPEN);
    changes = 0;
    peer_cut(node, FR_UNREACHABLE);
    CHECK(!fr_runner_ready(fr_login_runner(login)));
    CHECK_INT(c.downs, 0); /* in a turn of its own */
    CHECK_INT(open_it(&idle), FR_UNREACHABLE);
    CHECK(c.downs == 1 && !c.ran && idle.downs == 0 && changes > 0);
    CHECK(strstr(c.err.msg, "the connection to the login node n is lost: cut by the test") != NULL);
    CHECK_INT(code_of(&c, &errors), -1);
    CHECK(strstr(fr_login_is(login).why, "cut by the test") != NULL);
    CHECK(!fr_login_is(login).final);
    peer_wait(&w, 2000);
    CHECK(fr_login_is(login).up && node->opens == 2);
    CHECK(peer_got(node, FR_MSG_PIPE_OPEN) == NULL);
    CHECK_INT(open_it(&c), FR_OK);
    CHECK(peer_got(node, FR_MSG_PIPE_OPEN) != NULL);
    finish(&c);
    finish(&idle);
    end();
}

static void grant(uint64_t bytes)
{
    struct fr_msg m = {.type = FR_MSG_CREDIT, .credit = {bytes}};

    peer_say(node, &m);
    peer_run(&w);
}

static size_t got_bytes(void)
{
    const struct fr_msg *m;
    size_t n = 0;

    while ((m = peer_got(node, FR_MSG_PIPE_DATA)) != NULL) {
        CHECK(m->pipe_data.bytes.n <= FR_BULK_MAX);
        n += m->pipe_data.bytes.n;
    }
    return n;
}

/* As much as credit, and what the command has taken, allow. */
static void test_window(void)
{
    static char much[3 * FR_PIPE_WINDOW];
    struct fr_msg more = {.type = FR_MSG_PIPE_MORE};
    struct command c;
    uint64_t ref;

    begin_up("bytes for a command");
    make(&c, squeue);
    CHECK_INT(open_it(&c), FR_OK);
    ref = peer_got(node, FR_MSG_PIPE_OPEN)->pipe_open.ref;
    CHECK_INT(c.link.ops->send(c.link.self, much, sizeof(much)), 0);
    grant(1000);
    CHECK_INT(c.writables, 1);
    CHECK_INT(c.link.ops->send(c.link.self, much, sizeof(much)), 1000);
    grant(200000);
    CHECK_INT(c.writables, 2);
    CHECK_INT(c.link.ops->send(c.link.self, much, sizeof(much)), FR_PIPE_WINDOW - 1000);
    CHECK_INT(c.link.ops->send(c.link.self, much, sizeof(much)), 0);
    peer_run(&w);
    CHECK_INT(got_bytes(), FR_PIPE_WINDOW);
    CHECK_INT(c.writables, 2);
    more.pipe_more = (struct fr_pipe_more){ref, 500};
    peer_say(node, &more);
    peer_run(&w);
    CHECK_INT(c.writables, 3);
    CHECK_INT(c.link.ops->send(c.link.self, much, sizeof(much)), 500);
    check_row("a command that took more than it got");
    more.pipe_more.bytes = FR_PIPE_WINDOW + 1;
    peer_say(node, &more);
    peer_run(&w);
    CHECK(c.downs == 1 && !fr_login_is(login).up);
    finish(&c);
    end();
}

/* Owners that close, or go, at any point. */
static void test_closed(void)
{
    struct command c, late;
    uint64_t ref;

    begin_up("closed as bytes come");
    make(&c, squeue);
    make(&late, squeue);
    CHECK_INT(open_it(&c), FR_OK);
    CHECK_INT(open_it(&late), FR_OK);
    ref = peer_got(node, FR_MSG_PIPE_OPEN)->pipe_open.ref;
    c.closes = true;
    say_data(ref, "a");
    say_data(ref, "b");
    say_end(ref, 0, "", "");
    peer_run(&w);
    CHECK(c.out.n == 1 && c.downs == 0);
    CHECK_INT(peer_got(node, FR_MSG_PIPE_CLOSE)->pipe_close.ref, ref);
    check_row("the login node goes before its commands");
    fr_login_destroy(login);
    CHECK_INT(late.link.ops->send(late.link.self, "x", 1), 0);
    peer_run(&w);
    CHECK_INT(late.downs, 0);
    finish(&late);
    finish(&c);
    peer_finish(&w);
}

/* Refused for good: not tried again by itself. */
static void test_refused(void)
{
    begin("refused");
    node->refuse = FR_DENIED;
    peer_wait(&w, 100000);
    CHECK(fr_login_is(login).final && node->opens == 1);
    CHECK(strstr(fr_login_is(login).why, "refused by the test") != NULL);
    node->refuse = FR_OK;
    fr_login_connect(login);
    peer_run(&w);
    CHECK(fr_login_is(login).up);
    end();
    begin("a flownode that runs no commands");
    node->proto = 2;
    peer_run(&w);
    CHECK(!fr_login_is(login).up && fr_login_is(login).final);
    CHECK(strstr(fr_login_is(login).why, "runs no commands of Slurm") != NULL);
    end();
}

/* Two clusters on one login node have one connection. */
static void test_shared(void)
{
    struct fr_login *first;
    struct command a, b;
    struct fr_exec_node at;

    begin_up("two clusters");
    at = w.infos[0];
    make(&a, squeue);
    first = login;
    CHECK_INT(
        fr_login_create(&(struct fr_login_args){.nodes = w.all, .node = &at, .changed = changed},
                        &login, NULL),
        FR_OK);
    make(&b, squeue);
    peer_run(&w);
    CHECK_INT(node->opens, 1);
    CHECK(open_it(&a) == FR_OK && open_it(&b) == FR_OK);
    CHECK(fr_str_is(peer_got(node, FR_MSG_PIPE_OPEN)->pipe_open.path, "/opt/slurm/bin"));
    CHECK(fr_str_is(peer_got(node, FR_MSG_PIPE_OPEN)->pipe_open.path, ""));
    fr_login_destroy(first);
    peer_run(&w);
    CHECK(fr_login_is(login).up && b.downs == 0);
    peer_cut(node, FR_UNREACHABLE);
    peer_run(&w);
    CHECK(b.downs == 1 && a.downs == 0);
    finish(&a);
    finish(&b);
    end();
}

int main(void)
{
    test_command();
    test_not_run();
    test_lost();
    test_window();
    test_closed();
    test_refused();
    test_shared();
    return check_done();
}
