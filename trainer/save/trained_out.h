/*
 * Trained weights whole, for rank 0 to write: it asks the other ranks for one part after the other.
 */
#ifndef TR_SAVE_TRAINED_OUT_H
#define TR_SAVE_TRAINED_OUT_H

#include "trainer/model/model.h"
#include "trainer/optim/optim.h"

struct tr_trained_out {
    struct tr_model *model;
    struct tr_comm *world;    /* its control plane */
    enum tr_dtype type;       /* of the run's weights */
    struct tr_optim *masters; /* borrows: its masters, f32, instead of the weights; NULL: weights */
};

/* The trained tensors, on rank 0. */
struct tr_trained_set;

/* Has tr_st_write ask for the values of the tensor that the item names, if it is trained: sets fill
 * and arg, which live as long as the set. FR_CORRUPT: a value is not finite. */
bool tr_trained_fill(struct tr_trained_set *set, struct tr_st_item *item);

/* Their names, in ascending order. */
const char *tr_trained_name(const struct tr_trained_set *set, size_t i); /* NULL: no more */

/* f32 with masters, else the run's type. */
enum tr_dtype tr_trained_out_type(const struct tr_trained_out *o);

/* Writes to a folder, on rank 0. */
typedef enum fr_rc tr_trained_write(void *arg, struct tr_trained_set *set, struct fr_err *err);

/* Every rank calls, between steps; rank 0 calls write. An error is the same on every rank. */
enum fr_rc tr_trained_out(const struct tr_trained_out *o, tr_trained_write *write, void *arg,
                          struct fr_err *err);

#endif
