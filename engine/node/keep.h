/*
 * `flownode keep` and `flownode relay`: how an engine speaks to a node that it cannot log in to, of
 * a job of Slurm.
 *
 * The job's script starts one keeper on each of its nodes by srun. A keeper lives as long as the
 * job. It listens on a unix socket in its home and makes a `serve` (serve.h) of each connection, so
 * that supervisors of attempts are never children of a step that may end before them. A link is a
 * further step, `srun --overlap … flownode relay`, which carries bytes between its own input and
 * output and that socket.
 *
 * FOLDER is the allocation's, shared by all its nodes and the engine, 0700. Its last part is the
 * tag. Files in it, each written beside and renamed:
 *
 *   claim           "JOB RESTARTS\n". Made by the keeper of place 1 with link(2), never replaced:
 *                   where it names another job or another restart, this job is a twin, and all its
 *                   keepers end with status 0 without having started anything
 *   place.K         of the keeper of place K = SLURM_NODEID + 1, once it listens: lines
 *                   "job J", "restarts R", "own O", "host NAME", "address IP", "home PATH",
 *                   "pid P". O is the id of its job. The address is that on the route to
 *                   SLURM_LAUNCH_NODE_IPADDR
 *   place.K.closed  "job J" and "restarts R": the keeper ends, and no process that it or its
 *                   attempts started is left on its host. "lease MS": because its lease is over
 *   place.K.error   a line: why the keeper did not come up, or could not close
 *   quiet.*, lease.*  of the lease (keep_lease.h)
 *
 * JOB and J of an element of an array are the array's: SLURM_ARRAY_JOB_ID.
 *
 * The home is on the node's own disk: flowrun-UID/TAG-K below SLURM_TMPDIR, TMPDIR or /tmp, the
 * first that is set; 0700, of the own user, no symbolic link. A keeper that has closed removes it,
 * where all ends have reached an engine. Slurm may kill it before it has: a keeper that comes up
 * removes what others have left on its node. Attempts get, besides what serve gives them
 * everywhere, the variables fr_keep_environ lists, if they are set, and no other of Slurm: a rank
 * or world size of the keeper's step is not theirs. In a container they also get what its image
 * sets.
 *
 * Signals. USR1 is ignored. TERM (scancel, the job's limit, a preemption): no further attempt
 * starts; if none lives, the keeper closes and ends at once. Else it stops those that asked for a
 * notice. kill_wait_ms after TERM, less 5 s, it ends all that live with KILL, journals it as their
 * supervisors do, closes and ends. Slurm itself kills the step after KillWait.
 *
 * Before anything else the keeper closes its input, output and errors: a process that keeps those
 * of a step lets Slurm drain the node.
 */
#ifndef FR_NODE_KEEP_H
#define FR_NODE_KEEP_H

#include "engine/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fr_keep_args {
    const char *folder;         /* of the allocation */
    int64_t kill_wait_ms;       /* Slurm's KillWait; 0: 30 s */
    int64_t lease_ms;           /* keep_lease.h; 0: the job lasts until it is told to end */
    const char *base;           /* the node's own disk; NULL: as SLURM_TMPDIR and so on say */
    bool inside;                /* a container, whose variables attempts get, too */
    bool guarded;               /* by fr_keep_boxed() */
    const char *self, *build;   /* as of fr_serve_args */
    const char *const *environ; /* with Slurm's variables of the step */
    size_t descriptors;
};

/* Runs until the job ends. FR_OK: it was told to end, its lease is over, or it is a twin. Errors
 * that happen before the streams are closed are told by the caller; later ones stand in
 * place.K.error. */
enum fr_rc fr_keep(const struct fr_keep_args *a, struct fr_err *err);

/*
 * `flownode keep --image`: a keeper in a container of Apptainer. This process runs beside the
 * container, as the step's only one that Slurm knows: it makes the keeper's folder, starts
 * Apptainer as no descendant of its own, and passes TERM on through the keeper's input, of which
 * the end is KILL. Slurm sends TERM to all processes of a step: where Apptainer serves the image's
 * files by a process (squashfuse), that one would end first, and all tasks with it.
 * The keeper sees WORK and its home under the same paths as from outside; links stay outside.
 * A program that is not there, and an image that does not start, stand in place.K.error.
 */
struct fr_keep_box {
    const char *program, *image;
    const char *const *mounts; /* as --bind takes them */
    size_t n_mounts;
    bool nv; /* with the node's GPUs */
};
enum fr_rc fr_keep_boxed(const struct fr_keep_args *a, const struct fr_keep_box *box,
                         struct fr_err *err);

/* Joins in and out with the keeper of that place until one of them ends; out gets the bytes swapped
 * (wire/wire.h). FR_NOTFOUND: no keeper
 * listens there, and none of its attempts has a process (`flownode relay` ends with status 3).
 * FR_BUSY: no keeper listens there, and some may have. Ignores USR1, USR2, CONT and TERM: Slurm
 * sends them to all steps of a job, and the keeper ends the link once it has closed. */
enum fr_rc fr_relay(const char *folder, int place, int in, int out, struct fr_err *err);

/* Names of the variables of Slurm that attempts get; ended by NULL. */
extern const char *const fr_keep_environ[];

#endif
