/*
 * How the engine waits: descriptors, timers and posted calls, behind a table of functions. The real
 * loop is libevent's (fr_loop_event_create); the simulator has one on its own clock. One thread; a
 * callback is only ever run from turn(), never from inside another call, so whoever calls may be in
 * any state.
 *
 * Callbacks translate and leave: read the descriptor, post an event, return. Times are
 * fr_sys.mono_ms().
 */
#ifndef FR_EXEC_LOOP_H
#define FR_EXEC_LOOP_H

#include "engine/base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum fr_loop_what { FR_LOOP_READ = 1, FR_LOOP_WRITE = 2 };

struct event_base;
struct fr_watch; /* one watched descriptor or signal; the loop's */
struct fr_timer; /* one timer; the loop's */

/* A call to be made in the next turn. The caller owns the memory, which must stay until it ran or
 * was withdrawn; posting it again while it waits does nothing. Posting cannot fail. Zero it to
 * start. */
struct fr_post {
    void (*run)(void *arg);
    void *arg;
    struct fr_post *next; /* the loop's */
    bool waiting;         /* the loop's: posted and not yet run */
};

typedef void fr_ready_fn(void *arg, int what); /* what: enum fr_loop_what bits; a signal's number */
typedef void fr_due_fn(void *arg);

struct fr_loop_ops {
    const char *name;
    /* Watches fd, wanting nothing yet. Closed ends and errors count as readable (and writable). */
    enum fr_rc (*watch)(void *self, int fd, fr_ready_fn *fn, void *arg, struct fr_watch **out);
    /* Calls fn with the signal's number, from turn(), after the signal came. FR_UNSUPPORTED in the
     * simulator. */
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
    void (*withdraw)(void *self, struct fr_post *p); /* a post that does not wait is fine */
    /* Waits until something is due (wait) or only looks, then makes every call that is due. */
    enum fr_rc (*turn)(void *self, bool wait, struct fr_err *err);
    struct event_base *(*base)(void *self); /* for evhttp; NULL in the simulator */
    void (*destroy)(void *self);            /* all watches and timers must be gone */
};

struct fr_loop {
    const struct fr_loop_ops *ops;
    void *self;
};

/* The loop of a real process. Also ignores SIGPIPE. */
enum fr_rc fr_loop_event_create(struct fr_loop *loop, struct fr_err *err);

/* The calls above on a loop, with their errors put into words. */
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
enum fr_rc fr_loop_turn(struct fr_loop *l, bool wait, struct fr_err *err);
struct event_base *fr_loop_base(struct fr_loop *l);
void fr_loop_destroy(struct fr_loop *l); /* NULL or a zeroed loop is fine; zeroes it */

#endif
