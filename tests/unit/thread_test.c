/* Threads and signals: ours take none, and a signal ends no wait early. */
#include "engine/base/sys.h"
#include "engine/base/thread.h"
#include "tests/unit/check.h"

#include <sched.h>
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
    for (int i = 1; i <= 100; i++) {
        pthread_kill(waits, SIGUSR1);
        while (atomic_load(&caught) < i)
            sched_yield();
    }
    *(bool *)arg = true;
}

static void drop(void *arg)
{
    (void)arg;
}

static void interrupted(void)
{
    struct sigaction on = {.sa_handler = catch};
    bool over = false;

    check_row("a wait that signals interrupt");
    waits = pthread_self();
    sigaction(SIGUSR1, &on, NULL);
    CHECK_INT(fr_sys.within(60000, interrupt, drop, &over), 1);
    CHECK(over);
}

int main(void)
{
    blocked_in_threads();
    interrupted();
    return check_done();
}
