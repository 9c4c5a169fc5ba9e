/* A place of an allocation as its keeper has it: from Slurm's variables, and the files in the
 * allocation's folder (keep.h). */
#ifndef FR_NODE_KEEP_PLACE_H
#define FR_NODE_KEEP_PLACE_H

#include "engine/base/arena.h"
#include "engine/base/str.h"
#include "engine/node/keep.h"
#include "engine/supervise/home.h"

struct keep_place {
    const char *folder;    /* borrowed */
    int64_t job, restarts; /* of an element: the job of its array */
    int64_t own;           /* id of the job of this keeper, which srun takes */
    int place;             /* 1, 2, … */
    char host[256];        /* the node's name in Slurm */
    char address[64];      /* on the route to the node that launched the step */
    char home[FR_HOME_MAX];
    char disk[FR_HOME_MAX]; /* of the node itself */
    char base[FR_HOME_MAX]; /* flowrun-UID on it, which has the home */
};

/* FR_DENIED unless folder is there, absolute, of the own user, and writable for nobody else. */
enum fr_rc keep_folder_check(const char *folder, struct fr_err *err);

/* Reads Slurm's variables. */
enum fr_rc keep_place_init(struct keep_place *p, const struct fr_keep_args *a, struct fr_err *err);

/* Makes the claim, if this is place 1. *found: there is a claim; *twin: it is of another job. */
enum fr_rc keep_claim(const struct keep_place *p, bool *found, bool *twin, struct fr_err *err);

/* Makes path with that text by link(2) from a file of its own, unless it is there: FR_OK then, too.
 */
enum fr_rc keep_make_once(const struct keep_place *p, const char *path, struct fr_str text,
                          struct fr_err *err);

/* How many places the job has, as Slurm says. */
enum fr_rc keep_places(const struct fr_keep_args *a, int64_t *places, struct fr_err *err);

/* Makes base alone; makes the folders of the home. */
enum fr_rc keep_base_make(const struct keep_place *p, struct fr_err *err);
enum fr_rc keep_home_make(const struct keep_place *p, struct fr_err *err);

/* keep_sweep.c: removes the home, whose keeper has closed. keep_sweep: those that keepers of other
 * jobs of this user left on this node, unless an attempt there has processes or an end that no
 * engine has. */
void keep_remove(const struct keep_place *p);
void keep_sweep(const struct keep_place *p);

/* place.K, place.K.closed; place.K.error with the error's text, as far as it can be written.
 * lease_ms: the lease that is over; 0: it was told to end. */
enum fr_rc keep_write_up(const struct keep_place *p, struct fr_err *err);
enum fr_rc keep_write_closed(const struct keep_place *p, int64_t lease_ms, struct fr_err *err);
void keep_write_error(const struct keep_place *p, const struct fr_err *why);
bool keep_has_error(const struct keep_place *p);

/* Makes /dev/null of input, output and errors. */
enum fr_rc keep_leave_streams(struct fr_err *err);

/* Reads place.K of a keeper: host and home. FR_NOTFOUND: there is none; the text has place.K.error.
 */
enum fr_rc keep_read_place(const char *folder, int place, struct keep_place *p, struct fr_err *err);

/* Names of the variables of a container that attempts get: all of environ but those of Slurm that
 * fr_keep_environ does not list, of launchers, and of the container's program. NULL: no memory. */
const char *const *keep_inside(const char *const *environ, struct fr_arena *arena);

/* The path of the keeper's socket. */
void keep_socket(const char *home, char out[FR_NODE_PATH]);

/* The name of this node: that of Slurm, else the machine's. slurm: SLURMD_NODENAME, "" or NULL. */
bool keep_host(const char *slurm, char out[256]);

#endif
