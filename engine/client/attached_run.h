/*
 * A run that the home's host drives and this process shows. go.c alone uses this; it says how a
 * process becomes the host.
 */
#ifndef FR_CLIENT_ATTACHED_RUN_H
#define FR_CLIENT_ATTACHED_RUN_H

#include "engine/client/session.h"
#include "engine/client/client.h"
#include "engine/client/follow.h"

struct attached_run {    /* zero it but for d to start */
    struct cli_drive *d; /* borrows */
    struct fr_store *st; /* for reading; all below is owned, too */
    struct cli_client *client;
    struct client_stream *stream;
    struct client_answer answer; /* to the last request */
    struct cli_follow *f;        /* keeps its position when the host changes */
    struct fr_timer *tick;
    struct fr_timer *watch; /* whether the host is stopped */
    bool quiet;             /* what happened before is learnt, not shown */
    bool news, gone;        /* the stream has brought some; it ended */
    bool followed;          /* it has brought some since this was last set to false */
    bool taken;             /* a host has, or had, the run for this process */
    bool ticked;            /* the nodes are looked at again */
    bool stop;              /* the user wants all tasks stopped; the host is asked next */
    int64_t moved_ms;       /* the last news after the run's end */
    int64_t driven_ms;      /* when a host was last seen to drive the run */
    bool stopped;           /* the host is, and the user knows it */
};

/* Hands the run over and follows it to its end. FR_UNREACHABLE: there is no host, or it went; what
 * is known of the run is kept in wish and a. Another error: mistakes are in a->answer.issues. */
enum fr_rc attached_run_go(struct attached_run *a, struct cli_wish *wish, enum cli_exit *code,
                           struct fr_err *err);
/* This process is the host now: nobody else writes. Shows what there is, and turns wish into one to
 * resume when the run is in the store. *over: nothing is left to do. */
enum fr_rc attached_run_take_over(struct attached_run *a, struct cli_wish *wish, bool *over,
                                  struct fr_err *err);
/* How the run ended, after *over. */
enum cli_exit attached_run_end(const struct attached_run *a);
void attached_run_finish(struct attached_run *a);

#endif
