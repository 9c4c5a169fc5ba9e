/* Machines that several runs share, and the queue; for the files of this folder. */
#ifndef FR_ADMIT_PRIVATE_H
#define FR_ADMIT_PRIVATE_H

#include "engine/admit/admit.h"
#include "engine/admit/arbiter.h"
#include "engine/store/store.h"

enum { HOST_NO_MACHINE = UINT32_MAX };

struct host_place {          /* a node of a run, on its machine */
    uint32_t machine;        /* among those of the host; HOST_NO_MACHINE: not known yet */
    struct fr_demand demand; /* as of the run's last decision */
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
    bool changed; /* use or demand changed: share its slots again */
    bool drained; /* nothing new starts there */
};

struct host_reservation { /* by an attempt of a run that this host does not drive */
    struct fr_held_row row;
    bool asked; /* its node was asked whether it lives, or for a tombstone */
};

struct host_probe { /* a connection that asks a machine about reservations */
    struct host_probe *next;
    struct fr_host *host;
    struct fr_id home;
    struct fr_exec exec; /* owns */
};

struct host_slots {
    struct host_machine *machines; /* owns */
    size_t n_machines, cap_machines;
    bool changed;                  /* some machine is */
    struct host_reservation *held; /* owns */
    size_t n_held, cap_held;
    struct host_probe *probes; /* owns */
    struct fr_timer *held_timer;
    struct fr_claim *claims; /* space of share_all(); owns */
    size_t cap_claims;
};

struct host_slots *slots_of(const struct fr_host *host);     /* the state of slots_part */
void slots_changed(struct fr_host *host, struct fr_id home); /* if the machine is known */

/* ---- external_reservations.c ---- */

/* Reads from the store the slots held by runs that this host does not drive. */
enum fr_rc reservations_load(struct fr_host *host, struct fr_err *err);
/* Drops the run's reservations on a machine: the host drives the run and counts its slots now. */
void reservations_forget(struct fr_host *host, struct fr_id run, struct fr_id home);
uint32_t reservations_slots(const struct fr_host *host, struct fr_id home);
/* Asks a machine, through a node of the run, whether the attempts that hold slots still live. */
void reservations_ask(struct host_run *h, uint32_t node, struct fr_id home);
void reservations_finish(struct fr_host *host);

#endif
