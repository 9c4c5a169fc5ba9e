/*
 * The event loop: descriptors, timers, posted calls and threads, behind a table of functions. The
 * real loop uses libevent (fr_loop_event_create); the simulator has a loop on its own clock. The
 * loop has one thread. It runs callbacks only from turn(), never from inside another call.
 *
 * A callback reads its descriptor, posts an event and returns. Times are fr_sys.mono_ms().
 */
#ifndef FR_LOOP_LOOP_H
#define FR_LOOP_LOOP_H

#include "engine/base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum fr_loop_what { FR_LOOP_READ = 1, FR_LOOP_WRITE = 2 };

struct fr_watch; /* one watched descriptor or signal; owned by the loop */
struct fr_timer; /* one timer; owned by the loop */

/* A call for the next turn. The caller owns the memory, and keeps it until the call was made or
 * withdrawn. Posting it again before that does nothing. Posting cannot fail. Zero it to start. */
struct fr_post {
    void (*run)(void *arg);
    void *arg;
    struct fr_post *next; /* for the loop */
    bool waiting;         /* for the loop: posted and not yet run */
};

/*
 * A computation that may block, in a thread of its own. run() touches only what arg points to. Once
 * it has returned, over() is called from turn(), and the loop does not touch the work any more. If
 * the loop is destroyed before, drop() is called in its place, from any thread. Zero it to start.
 */
struct fr_workers;
struct fr_work {
    void (*run)(void *arg);
    void (*over)(void *arg);
    void (*drop)(void *arg);
    void *arg;
    struct fr_workers *in; /* for the loop, as all below */
    struct fr_work *next;
    struct fr_post post;
    bool left; /* forgotten as it ran */
};

typedef void fr_ready_fn(void *arg, int what); /* what: enum fr_loop_what bits; a signal's number */
typedef void fr_due_fn(void *arg);

/* Turns that took longer than FR_LOOP_SLOW_MS, from their first call to the next wait. Each is also
 * logged. */
enum { FR_LOOP_SLOW_MS = 100 };
struct fr_loop_slow {
    uint64_t turns; /* all turns so far */
    uint64_t slow;
    int64_t longest_ms;
    int64_t now_ms; /* how long this turn has taken so far */
};

struct fr_loop_ops {
    const char *name;
    /* Watches fd for nothing yet: see want(). A closed end or an error counts as readable. */
    enum fr_rc (*watch)(void *self, int fd, fr_ready_fn *fn, void *arg, struct fr_watch **out);
    /* Calls fn with the signal's number, from turn(), after the signal came. */
    enum fr_rc (*signal)(void *self, int signo, fr_ready_fn *fn, void *arg, struct fr_watch **out);
    void (*want)(void *self, struct fr_watch *w, int what); /* level-triggered; 0: nothing */
    void (*unwatch)(void *self,
                    struct fr_watch *w); /* before the descriptor is closed; NULL is fine */
    enum fr_rc (*timer)(void *self, fr_due_fn *fn, void *arg, struct fr_timer **out);
    void (*arm)(void *self, struct fr_timer *t,
                int64_t due_ms);                     /* once, at mono_ms >= due_ms; -1: off */
    void (*untimer)(void *self, struct fr_timer *t); /* NULL is fine */
    void (*post)(
        void *self,
        struct fr_post *p); /* run in order of posting; those posted meanwhile: next turn */
    void (*withdraw)(void *self, struct fr_post *p); /* does nothing for a call not posted */
    /* fr_loop_work() and fr_loop_forget(); NULL: run() is called at once, on the only thread. */
    enum fr_rc (*work)(void *self, struct fr_work *w);
    bool (*forget)(void *self, struct fr_work *w);
    /* Makes every call that is due; with wait, first waits until one is. */
    enum fr_rc (*turn)(void *self, bool wait, struct fr_err *err);
    struct fr_loop_slow (*slow)(void *self); /* NULL: not measured */
    void (*destroy)(void *self);             /* all watches and timers must be gone */
};

struct fr_loop {
    const struct fr_loop_ops *ops;
    void *self;
};

/* The loop of a real process. Also ignores SIGPIPE. */
enum fr_rc fr_loop_event_create(struct fr_loop *loop, struct fr_err *err);

/* The same calls on a struct fr_loop. */
enum fr_rc fr_loop_watch(struct fr_loop *l, int fd, fr_ready_fn *fn, void *arg,
                         struct fr_watch **out);
enum fr_rc fr_loop_signal(struct fr_loop *l, int signo, fr_ready_fn *fn, void *arg,
                          struct fr_watch **out);
void fr_loop_want(struct fr_loop *l, struct fr_watch *w, int what);
void fr_loop_unwatch(struct fr_loop *l, struct fr_watch **w); /* *w becomes NULL */
enum fr_rc fr_loop_timer(struct fr_loop *l, fr_due_fn *fn, void *arg, struct fr_timer **out);
void fr_loop_arm(struct fr_loop *l, struct fr_timer *t, int64_t due_ms);
void fr_loop_arm_in(struct fr_loop *l, struct fr_timer *t, int64_t delay_ms);
void fr_loop_untimer(struct fr_loop *l, struct fr_timer **t); /* *t becomes NULL */
void fr_loop_post(struct fr_loop *l, struct fr_post *p);
void fr_loop_withdraw(struct fr_loop *l, struct fr_post *p);
/* Starts the computation. FR_NOMEM: no thread, or too many hang (base/thread.h); nothing will be
 * called. */
enum fr_rc fr_loop_work(struct fr_loop *l, struct fr_work *w);
/* Cancels the delivery of its result. True: nothing will be called, and the work is the caller's
 * again. False: it still runs, and drop() will be called, unless a later call is true. */
bool fr_loop_forget(struct fr_loop *l, struct fr_work *w);
/* Closes fd, in a thread if there can be one: the last close of a removed file frees its bytes,
 * which takes long for a large one. */
void fr_loop_close(struct fr_loop *l, int fd);
struct fr_loop_slow fr_loop_slow(struct fr_loop *l);
enum fr_rc fr_loop_turn(struct fr_loop *l, bool wait, struct fr_err *err);
void fr_loop_destroy(struct fr_loop *l); /* NULL or a zeroed loop is fine; zeroes it */

#endif
