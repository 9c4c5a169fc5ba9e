/*
 * What the files of the host share; nobody else includes it.
 *
 *   host.c      its runs, its turn
 *   share.c     the machines that runs have in common
 *   arbiter.c   who may use the slots of one of them
 */
#ifndef FR_HOST_INTERNAL_H
#define FR_HOST_INTERNAL_H

#include "engine/base/arena.h"
#include "engine/base/sys.h"
#include "engine/host/host.h"
#include "engine/host/retain.h"

#include <string.h>

enum { HOST_NO_MACHINE = UINT32_MAX };

struct host_place {          /* a node of a run */
    uint32_t machine;        /* among those of the host; HOST_NO_MACHINE: not known yet */
    struct fr_demand demand; /* as last seen */
    uint32_t lent;           /* as of the last fr_run_lend() */
    bool contended;
};

struct host_run {
    struct fr_host *host;
    struct fr_run *run;        /* owns */
    struct host_place *places; /* one a node of its plan; owns */
    struct fr_run_due due;
    bool woken;
};

struct host_user { /* of a machine */
    struct host_run *run;
    uint32_t node;
};

struct host_machine {
    struct fr_id home;       /* of its flownode */
    struct host_user *users; /* owns */
    size_t n, cap;
    bool changed; /* somebody uses or wants more or less of it */
};

struct fr_host {
    struct fr_loop *loop;   /* borrows */
    struct fr_store *store; /* borrows */
    struct host_run **runs; /* owns */
    size_t n, cap;
    struct host_machine *machines; /* owns */
    size_t n_machines, cap_machines;
    struct fr_claim *claims; /* space of share_all(); owns */
    size_t cap_claims;
    struct fr_timer *timer;
    struct fr_retain *retain;
    bool woken;       /* a run is */
    bool changed;     /* a machine is */
    int64_t retry_ms; /* next try after a failed commit; 0: none failed */
};

/* share.c */
/* Takes in what the run uses and wants now, after a drain. */
enum fr_rc share_look(struct host_run *h, struct fr_err *err);
/* Lends the slots of the machines that changed. */
enum fr_rc share_all(struct fr_host *host, struct fr_err *err);
void share_leave(struct host_run *h); /* the run goes: its machines are free of it */
void share_finish(struct fr_host *host);

#endif
