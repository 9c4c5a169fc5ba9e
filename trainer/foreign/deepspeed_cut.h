/* How DeepSpeed's ranks divide parameters, put back: each tensor becomes runs of files. */
#ifndef TR_FOREIGN_DEEPSPEED_CUT_H
#define TR_FOREIGN_DEEPSPEED_CUT_H

#include "trainer/foreign/deepspeed.h"
#include "trainer/foreign/deepspeed_files.h"
#include "trainer/foreign/torch_file.h"

struct tr_ds {
    struct fr_arena arena;
    struct tr_ds_files files;
    struct tr_torch_file *model; /* by rank; owns */
    struct tr_torch_file optim;  /* of rank 0; owns */
    int64_t stage, step;
    struct tr_run *flats; /* (ranks, groups): the masters of each */
    size_t groups;
    struct tr_ds_tensor *tensors; /* owns */
    size_t n, cap;
    struct tr_run *runs; /* owns: of the tensor that is being put together */
    size_t nruns, runs_cap;
    const char *what;
    const char *read_path; /* the file that fd reads; NULL: none */
    int fd;
};

/* A whole number, also one in an object, as an enum has it; -1: none. */
int64_t tr_ds_number(const struct tr_pv *v);

/* Fills d->tensors from the open files. */
enum fr_rc tr_ds_cut(struct tr_ds *d, struct fr_err *err);

#endif
