/* The machines that runs have in common, for the files of this folder. */
#ifndef FR_ADMIT_PRIVATE_H
#define FR_ADMIT_PRIVATE_H

#include "engine/admit/admit.h"
#include "engine/admit/arbiter.h"
#include "engine/store/store.h"

enum { HOST_NO_MACHINE = UINT32_MAX };

struct host_place {          /* a node of a run */
    uint32_t machine;        /* among those of the host; HOST_NO_MACHINE: not known yet */
    struct fr_demand demand; /* as last seen */
    uint32_t lent;           /* as of the last fr_run_lend() */
    bool contended, over;
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
    bool drained; /* nothing new starts there */
};

struct host_reservation { /* by an attempt of a run that this host does not drive */
    struct fr_held_row row;
    bool asked; /* its node is, whether it still lives, or for its tombstone */
};

struct host_probe { /* asks a machine about such attempts */
    struct host_probe *next;
    struct fr_host *host;
    struct fr_id home;
    struct fr_exec exec; /* owns */
};

struct host_slots {
    struct host_machine *machines; /* owns */
    size_t n_machines, cap_machines;
    bool changed;                  /* a machine is */
    bool queue_changed;            /* a queued run may start now */
    int64_t queue_due_ms;          /* likewise then; INT64_MAX: none waits for a time */
    struct host_reservation *held; /* owns */
    size_t n_held, cap_held;
    struct host_probe *probes; /* owns */
    struct fr_timer *held_timer;
    struct fr_claim *claims; /* space of share_all(); owns */
    size_t cap_claims;
};

void slots_changed(struct fr_host *host, struct fr_id home); /* of the machine, if there is one */

/* ---- external_reservations.c ---- */

/* Reads from the store what runs hold that are not this host's. */
enum fr_rc reservations_load(struct fr_host *host, struct fr_err *err);
/* The host drives the run, and it has found out that one of its nodes is this machine. */
void reservations_forget(struct fr_host *host, struct fr_id run, struct fr_id home);
uint32_t reservations_slots(const struct fr_host *host, struct fr_id home);
/* A run has found out that its node is this machine: it is asked about what is held there. */
void reservations_ask(struct host_run *h, uint32_t node, struct fr_id home);
void reservations_finish(struct fr_host *host);

#endif
