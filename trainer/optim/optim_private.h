/* Private to trainer/optim: what optim.c and host.c share. */
#ifndef TR_OPTIM_OPTIM_PRIVATE_H
#define TR_OPTIM_OPTIM_PRIVATE_H

#include "trainer/optim/disk.h"
#include "trainer/optim/optim.h"

/* What a rank found in its gradients. */
struct optim_found {
    int64_t limbs[TR_EXACT_LIMBS], count; /* sum of squares; of values that are not finite */
};

/* host.c: where this rank's sums in the host's memory are looked at. */
struct tr_grads_look optim_host_looks(const struct tr_optim *o, struct optim_found *found);

/* n elements of a vector from `at` on; an absent vector stays absent. */
static inline struct tr_view optim_part(struct tr_view v, int64_t at, int64_t n)
{
    return v.p == NULL ? v
                       : tr_view1((char *)v.p + (size_t)at * tr_dtype_bytes(v.dtype), v.dtype, n);
}

/* The update of n elements of a range, which lie at `at` of the flat order, but for the weights;
 * moments and masters are those in memory. */
struct optim_piece {
    const struct tr_grads_range *r;
    int64_t at, n;
};
struct tr_adamw optim_update(const struct tr_optim *o, const struct tr_adamw *a,
                             const struct optim_piece *p);

/* ---- states.c ---- */

/* Elements of weights.m, weights.v and weights.m_codes. With NULL for places: these numbers alone.
 */
struct optim_sizes {
    int64_t m, v, coded;
};
void optim_places(const struct tr_grads *g, struct tr_optim_place *places, struct optim_sizes *out);

/* Without at and v_at. */
struct tr_optim_place optim_place_of(const struct tr_grads *g, const struct tr_grads_range *r);

/* FR_UNSUPPORTED: states of a kind that there is not. g may be NULL. */
enum fr_rc optim_check_states(const struct tr_grads *g, struct fr_err *err);

/* Takes the states of weights in memory of a kind; zeros, but for the masters. */
enum fr_rc optim_take_states(struct tr_optim *o, enum tr_mem kind, struct fr_err *err);
void optim_free_states(struct tr_optim *o);

/* Values of a state in memory: of the elements [at, at+n) of a range. Absent: it has none. */
struct tr_view optim_state(const struct tr_optim *o, enum tr_optim_what what,
                           const struct optim_piece *p);

/* The range that has element `at` of the flat order: the last one that begins there or before. */
const struct tr_grads_range *optim_range_of(const struct tr_grads *g, int64_t at);
static inline const struct tr_grads_range *optim_range_at(const struct tr_optim *o, int64_t at)
{
    return optim_range_of(o->grads, at);
}

/* The ranges of adapters behind those of weights. */
enum fr_rc optim_list_ranges(struct tr_optim *o, struct fr_err *err);
/* Masters of adapters to their working copies, on every rank. */
enum fr_rc optim_round_adapters(struct tr_optim *o, struct fr_err *err);

/* ---- disk_states.c ---- */

/* The state of a disk that has these values; where those of a piece are in a tile, absent: it has
 * none. */
int optim_disk_state(enum tr_optim_what what);
struct tr_view optim_tile_state(const struct tr_optim *o, const struct tr_disk_tile *t,
                                enum tr_optim_what what, const struct optim_piece *p);

/* A disk may fail on one rank alone: all end with its error. */
enum fr_rc optim_agree(struct tr_optim *o, enum fr_rc mine, struct fr_err *err);

/* ---- muon.c ---- */

/* muon_sizes.c: the matrices in the order of rounds, of which each has one a rank; list: NULL:
 * their number alone. */
size_t optim_list_matrices(const struct tr_grads *g, const struct tr_grads_piece **list);
/* Elements of what is taken, see struct optim_muon. */
struct optim_matrices {
    int64_t whole, square, stage, state;
};
struct optim_matrices optim_matrices(const struct tr_grads *g);
/* Bytes of o->room on the device; those that its products take of the queue's workspace beyond
 * what the model's ops take. */
size_t optim_muon_bytes(const struct tr_grads *g);
size_t optim_muon_scratch(const struct tr_model *model);

enum fr_rc optim_muon_create(struct tr_optim *o, struct fr_err *err);
void optim_muon_finish(struct tr_optim *o);
/* Steps momenta with gradients times `scale`, and puts factor * shape * u in their places. */
enum fr_rc optim_muon_updates(struct tr_optim *o, double scale, double factor, struct fr_err *err);
/* The step of matrices and of their weights. a: of the others, gets their rate and eps. */
enum fr_rc optim_muon_step(struct tr_optim *o, double lr, struct tr_adamw *a, struct fr_err *err);

void optim_host_bytes(const struct tr_grads *g, struct tr_optim_bytes *out);
enum fr_rc optim_host_create(struct tr_optim *o, struct fr_err *err);
void optim_host_finish(struct tr_optim *o);
/* Waits for the sums and adds what is found in those that were not looked at, or in all. */
enum fr_rc optim_host_look(struct tr_optim *o, bool again, struct optim_found *found,
                           struct fr_err *err);
/* Writes what a file begins with that is new: masters of the weights. */
enum fr_rc optim_host_fill(struct tr_optim *o, struct fr_err *err);
/* Steps over all ranges, and puts the copies of weights into o->q. */
enum fr_rc optim_host_update(struct tr_optim *o, const struct tr_adamw *a, struct fr_err *err);

#endif
