/* How DeepSpeed's ranks divide parameters, put back: each tensor becomes runs of files. */
#ifndef TR_FOREIGN_DEEPSPEED_CUT_H
#define TR_FOREIGN_DEEPSPEED_CUT_H

#include "trainer/foreign/deepspeed.h"
#include "trainer/foreign/deepspeed_files.h"
#include "trainer/foreign/torch_file.h"

struct tr_ds {
    struct fr_arena arena;
    struct tr_ds_files files;
    bool check;
    struct tr_torch_file *model; /* by rank; owns */
    struct tr_torch_file optim;  /* of rank 0; owns */
    int64_t stage, step;
    struct tr_run *flats; /* (ranks, groups): the state that is being cut */
    size_t groups;
    struct tr_ds_list {
        struct tr_ds_tensor *p; /* owns */
        size_t n, cap;
    } tensors, moments[TR_ADAM_MOMENTS]; /* moments: of trained tensors, in the order of tensors */
    struct tr_ds_list *to;               /* what is being cut */
    size_t trained;                      /* the first trained one of tensors */
    const char *file;                    /* of a universal checkpoint, for that: "fp32.pt" */
    struct tr_run *runs;                 /* owns: of the tensor that is being put together */
    size_t nruns, runs_cap;
    struct tr_torch_file groups_of; /* owns: of a universal checkpoint, the file of its groups */
    const char *what;
    struct tr_runs_file reading;
};

/* A whole number, also one in an object, as an enum has it; -1: none. */
int64_t tr_ds_number(const struct tr_pv *v);

/* Fills d->tensors from the open files and d->flats. */
enum fr_rc tr_ds_cut(struct tr_ds *d, struct fr_err *err);
/* Fills d->to with trained tensors, from d->flats or, of a universal checkpoint, d->file. */
enum fr_rc tr_ds_cut_trained(struct tr_ds *d, struct fr_err *err);

#endif
