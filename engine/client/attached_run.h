/*
 * A run that the home's host drives and this process shows. Only go.c uses it: a process that
 * becomes the host takes the run over.
 */
#ifndef FR_CLIENT_ATTACHED_RUN_H
#define FR_CLIENT_ATTACHED_RUN_H

#include "engine/client/session.h"
#include "engine/client/client.h"
#include "engine/client/follow.h"

struct attached_run {    /* set d and zero the rest to start */
    struct cli_drive *d; /* borrows */
    struct fr_store *st; /* owns, as all below; for reading */
    struct cli_client *client;
    struct client_stream *stream;
    struct client_answer answer; /* to the last request */
    struct cli_follow *f;        /* keeps its position when the host changes */
    struct fr_timer *tick;
    struct fr_timer *watch; /* looks whether the host is stopped */
    bool quiet;             /* notes update the view's model and print nothing */
    bool news, gone;        /* the stream brought an event; the stream ended */
    bool followed;          /* the stream brought an event since go.c cleared this */
    bool taken;             /* a host took the run from this process */
    bool ticked;            /* the tick fired */
    bool stop;              /* the host is to stop all tasks: the request is due */
    int64_t moved_ms;       /* time of the newest event or output */
    int64_t driven_ms;      /* when a host was last seen to drive the run */
    bool stopped;           /* the host process is stopped, and the user was informed */
};

/* Hands the run to the host and follows it to its end; *code: the exit code. FR_UNREACHABLE: there
 * is no host, or it ended; wish and a keep what is known of the run. After other errors the
 * mistakes are in a->answer.issues. */
enum fr_rc attached_run_go(struct attached_run *a, struct cli_wish *wish, enum cli_exit *code,
                           struct fr_err *err);
/* Call when this process became the host. Shows the events and output not shown yet. If the store
 * has the run, wish becomes a resume. *over: the run is over, and all of its output was shown. */
enum fr_rc attached_run_take_over(struct attached_run *a, struct cli_wish *wish, bool *over,
                                  struct fr_err *err);
/* The exit code of a run that is over. */
enum cli_exit attached_run_end(const struct attached_run *a);
void attached_run_finish(struct attached_run *a);

#endif
