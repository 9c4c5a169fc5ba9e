/* Threads: ours take no signals, no signal but a stop ends a wait early, and only so many are left
 * behind. */
#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "engine/base/thread.h"
#include "engine/loop/loop.h"
#include "tests/unit/check.h"

#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

static pthread_t waits;
static atomic_int caught;

static void catch (int sig)
{
    (void)sig;
    atomic_fetch_add(&caught, 1);
}

static void *mask_of(void *arg)
{
    pthread_sigmask(SIG_SETMASK, NULL, arg);
    return NULL;
}

static void blocked_in_threads(void)
{
    sigset_t mask, before, behind;
    pthread_t thread;

    check_row("a thread of ours");
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    CHECK_INT(fr_thread_start(&thread, NULL, mask_of, &mask), 0);
    pthread_join(thread, NULL);
    CHECK(sigismember(&mask, SIGTERM) && sigismember(&mask, SIGALRM) &&
          sigismember(&mask, SIGCHLD));
    pthread_sigmask(SIG_SETMASK, NULL, &behind);
    for (int sig = 1; sig < NSIG; sig++)
        CHECK_INT(sigismember(&behind, sig), sigismember(&before, sig));
}

/* Interrupts the thread that waits for it, then ends. */
static void interrupt(void *arg)
{
    for (int i = 0; i < 100; i++)
        pthread_kill(waits, SIGUSR1);
    *(bool *)arg = true;
}

static sem_t go, dropped;

/* Asks the thread that waits for it to stop, and goes on. */
static void stop(void *arg)
{
    (void)arg;
    pthread_kill(waits, SIGTERM);
    sem_wait(&go);
}

static void drop(void *arg)
{
    (void)arg;
    sem_post(&dropped);
}

static void interrupted(void)
{
    struct sigaction on = {.sa_handler = catch};
    bool over = false;

    check_row("signals during a wait");
    waits = pthread_self();
    sigaction(SIGUSR1, &on, NULL);
    CHECK_INT(fr_sys.within(60000, interrupt, drop, &over), 1);
    CHECK(over && atomic_load(&caught) > 0);
    check_row("a stop ends it");
    atomic_store(&caught, 0);
    sigaction(SIGTERM, &on, NULL);
    CHECK(sem_init(&go, 0, 0) == 0 && sem_init(&dropped, 0, 0) == 0);
    CHECK_INT(fr_sys.within(60000, stop, drop, NULL), 0);
    CHECK_INT(errno, EINTR);
    CHECK_INT(atomic_load(&caught), 1);
    sem_post(&go);
    sem_wait(&dropped);
}

static void hang(void *arg)
{
    (void)arg;
    sem_wait(&go);
}

static void nothing(void *arg)
{
    (void)arg;
}

/* One that was left is not counted any more before drop() is called. */
static void let_go(int n)
{
    for (int i = 0; i < n; i++)
        sem_post(&go);
    for (int i = 0; i < n; i++)
        sem_wait(&dropped);
}

static void only_so_many(void)
{
    static struct fr_work works[FR_THREADS_LEFT];
    struct fr_loop loop = {0};
    struct fr_err err = {0};
    struct stat st;
    int failed, fd;

    check_row("calls that hang");
    fd = dup(0);
    close(fd);
    for (int i = 0; i < FR_THREADS_LEFT; i++)
        CHECK(fr_sys.within(0, hang, drop, NULL) == 0 && errno == ETIMEDOUT);
    CHECK(fr_threads_full());
    CHECK_INT(dup(0), fd); /* they hold no descriptors */
    close(fd);
    CHECK(fr_sys.within(60000, nothing, drop, NULL) == 0 && errno == EAGAIN);
    sem_wait(&dropped);
    CHECK_INT(fr_file_look_soon("/", &st, &failed, &err), FR_TIMEOUT);
    CHECK(strstr(err.msg, "/ is not looked at: 100 threads hang already") != NULL);
    let_go(1);
    CHECK_INT(fr_sys.within(60000, nothing, drop, NULL), 1);
    let_go(FR_THREADS_LEFT - 1);

    check_row("works that hang");
    CHECK_INT(fr_loop_event_create(&loop, &err), FR_OK);
    for (int i = 0; i < FR_THREADS_LEFT; i++) {
        CHECK(!fr_threads_full());
        works[i] = (struct fr_work){.run = hang, .over = nothing, .drop = drop};
        CHECK_INT(fr_loop_work(&loop, &works[i]), FR_OK);
        CHECK(!fr_loop_forget(&loop, &works[i]));
        CHECK(!fr_loop_forget(&loop, &works[i])); /* is counted once */
    }
    CHECK_INT(fr_loop_work(&loop, &(struct fr_work){.run = nothing}), FR_NOMEM);
    fr_loop_destroy(&loop);
    let_go(FR_THREADS_LEFT);
    CHECK(!fr_threads_full());
}

int main(void)
{
    blocked_in_threads();
    interrupted();
    only_so_many();
    return check_done();
}
