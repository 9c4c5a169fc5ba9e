/*
 * The real loop: computations in threads, whose results come from turn() or are dropped, and the
 * measure of its turns.
 */
#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "engine/loop/loop.h"
#include "tests/unit/check.h"

#include <pthread.h>
#include <unistd.h>

/* A computation that waits until the test lets it go. */
struct task {
    struct fr_work work;
    int go[2], gone[2]; /* a byte each: it may end; drop() was called */
    pthread_t in, in_over;
    int runs, overs, drops;
};

static void run(void *arg)
{
    struct task *t = arg;
    char byte;

    t->in = pthread_self();
    t->runs++;
    CHECK(read(t->go[0], &byte, 1) == 1);
}

static void over(void *arg)
{
    struct task *t = arg;

    t->in_over = pthread_self();
    t->overs++;
}

static void drop(void *arg)
{
    struct task *t = arg;

    t->drops++;
    CHECK(write(t->gone[1], "", 1) == 1);
}

static void begin(struct task *t, struct fr_loop *loop)
{
    *t = (struct task){.work = {.run = run, .over = over, .drop = drop, .arg = t}};
    CHECK(pipe(t->go) == 0 && pipe(t->gone) == 0);
    CHECK(fr_loop_event_create(loop, NULL) == FR_OK);
    CHECK(fr_loop_work(loop, &t->work) == FR_OK);
}

static void finish(struct task *t)
{
    for (int i = 0; i < 2; i++) {
        close(t->go[i]);
        close(t->gone[i]);
    }
}

static void let_go(struct task *t)
{
    CHECK(write(t->go[1], "", 1) == 1);
}

static void wait_gone(struct task *t)
{
    char byte;

    CHECK(read(t->gone[0], &byte, 1) == 1);
}

static void test_over(void)
{
    struct fr_loop loop;
    struct task t;

    check_row("a result comes from a turn");
    begin(&t, &loop);
    CHECK(fr_loop_turn(&loop, false, NULL) == FR_OK); /* the loop goes on beside it */
    CHECK_INT(t.overs, 0);
    let_go(&t);
    while (t.overs == 0 && fr_loop_turn(&loop, true, NULL) == FR_OK)
        ;
    CHECK_INT(t.runs, 1);
    CHECK(!pthread_equal(t.in, pthread_self()));
    CHECK(pthread_equal(t.in_over, pthread_self()));
    fr_loop_destroy(&loop);
    CHECK_INT(t.overs, 1);
    finish(&t);
}

static void test_forget(void)
{
    struct fr_loop loop;
    struct task t;

    check_row("forgotten while it runs");
    begin(&t, &loop);
    CHECK(!fr_loop_forget(&loop, &t.work));
    let_go(&t);
    fr_loop_destroy(&loop);
    wait_gone(&t);
    CHECK_INT(t.overs, 0);
    finish(&t);

    check_row("forgotten, and dropped by a turn");
    begin(&t, &loop);
    CHECK(!fr_loop_forget(&loop, &t.work));
    let_go(&t);
    while (t.drops + t.overs == 0 && fr_loop_turn(&loop, true, NULL) == FR_OK)
        ;
    CHECK_INT(t.overs, 0);
    CHECK_INT(t.drops, 1);
    fr_loop_destroy(&loop);
    CHECK_INT(t.drops, 1);
    finish(&t);

    check_row("the loop is gone before it ends");
    begin(&t, &loop);
    fr_loop_destroy(&loop);
    let_go(&t);
    wait_gone(&t);
    CHECK_INT(t.overs, 0);
    finish(&t);
}

/* Two at once; what ended and was not delivered is the caller's again. */
static void test_ended(void)
{
    struct fr_loop loop;
    struct task t, other;
    bool back = false;

    check_row("forgotten once it has ended");
    begin(&t, &loop);
    other = (struct task){.work = {.run = run, .over = over, .drop = drop, .arg = &other}};
    CHECK(pipe(other.go) == 0 && pipe(other.gone) == 0);
    CHECK(fr_loop_work(&loop, &other.work) == FR_OK);
    let_go(&other);
    while (other.overs == 0 && fr_loop_turn(&loop, true, NULL) == FR_OK)
        ;
    CHECK_INT(t.overs, 0);
    let_go(&t);
    back = fr_loop_forget(&loop, &t.work); /* either way, as its thread is quick or not */
    CHECK(fr_loop_turn(&loop, false, NULL) == FR_OK);
    CHECK_INT(t.overs, 0);
    fr_loop_destroy(&loop);
    if (!back)
        wait_gone(&t);
    finish(&t);
    finish(&other);
}

static struct {
    int64_t ahead;
} fake_clock;

static int64_t later(void)
{
    return fr_sys_real.mono_ms() + fake_clock.ahead;
}

static void take_ms(void *arg)
{
    fake_clock.ahead += *(int *)arg;
}

/* A call takes so long by a clock that the call itself puts forward. */
static void test_slow(void)
{
    struct fr_loop loop;
    int ms = 5000;
    struct fr_post post = {.run = take_ms, .arg = &ms};
    char said[200] = "";
    int fds[2];

    check_row("a slow turn is holds_slot and said");
    CHECK(pipe(fds) == 0);
    fr_log_to(fds[1]);
    fr_log_level(FR_LOG_DEBUG);
    fr_sys.mono_ms = later;
    CHECK(fr_loop_event_create(&loop, NULL) == FR_OK);
    fr_loop_post(&loop, &post);
    CHECK(fr_loop_turn(&loop, false, NULL) == FR_OK);
    fake_clock.ahead += 3000; /* what the caller does with it belongs to the turn */
    CHECK(fr_loop_turn(&loop, false, NULL) == FR_OK);
    struct fr_loop_slow slow = fr_loop_slow(&loop);
    CHECK(slow.slow >= 1 && slow.longest_ms >= 8000 && slow.turns == 2);
    CHECK(read(fds[0], said, sizeof(said) - 1) > 0);
    CHECK(strstr(said, "debug loop turn_ms=8") != NULL);
    fr_loop_destroy(&loop);
    fr_sys = fr_sys_real;
    fr_log_level(FR_LOG_INFO);
    fr_log_to(2);
    close(fds[0]);
    close(fds[1]);
}

/* A close that takes as long as the test wants, and who made it. */
static struct {
    int go[2];
    pthread_t in;
} slow_close;

static int close_slowly(int fd)
{
    char byte;

    slow_close.in = pthread_self();
    CHECK(read(slow_close.go[0], &byte, 1) == 1);
    return fr_sys_real.close(fd);
}

static void *no_memory(size_t n)
{
    (void)n;
    return NULL;
}

static void test_close(void)
{
    struct fr_loop loop;
    char byte;

    for (int denied = 0; denied < 2; denied++) {
        int ends[2];

        check_row(denied ? "a close without memory" : "a close that takes long");
        CHECK(pipe(slow_close.go) == 0 && pipe(ends) == 0);
        CHECK(fr_loop_event_create(&loop, NULL) == FR_OK);
        fr_sys.close = close_slowly;
        if (denied) {
            CHECK(write(slow_close.go[1], "", 1) == 1);
            fr_sys.alloc = no_memory;
        }
        fr_loop_close(&loop, ends[1]); /* returns: this thread does not wait for it */
        if (!denied)
            CHECK(write(slow_close.go[1], "", 1) == 1);
        CHECK(read(ends[0], &byte, 1) == 0); /* until it is closed */
        CHECK(pthread_equal(slow_close.in, pthread_self()) == denied);
        fr_sys = fr_sys_real;
        fr_loop_destroy(&loop);
        close(ends[0]);
        close(slow_close.go[0]);
        close(slow_close.go[1]);
    }
}

int main(void)
{
    test_close();
    test_over();
    test_forget();
    test_ended();
    test_slow();
    return check_done();
}
