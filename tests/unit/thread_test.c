/* Threads and signals: ours take none, and no signal but a stop ends a wait early. */
#include "engine/base/sys.h"
#include "engine/base/thread.h"
#include "tests/unit/check.h"

#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>

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

int main(void)
{
    blocked_in_threads();
    interrupted();
    return check_done();
}
