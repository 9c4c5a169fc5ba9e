/* Weights of a trained model on disk: the tensors of the base, some of which are trained. */
#ifndef TR_SAVE_MODEL_FILES_H
#define TR_SAVE_MODEL_FILES_H

#include "trainer/tensor/safetensors.h"
#include "trainer/tensor/tensor.h"

#include <stdbool.h>

struct tr_model_files {
    const struct tr_st *st; /* borrows: the base */
    enum tr_dtype type;     /* of floats; buffers and FP8 weights are the base's, byte for byte */
    int64_t shard_bytes;    /* a file at most; a larger tensor is alone */
    bool tied;              /* the head is the embedding: a head in the base is left out */
    /* Sets fill and arg of an item whose tensor is trained; false: it is the base's. */
    bool (*trained)(void *self, struct tr_st_item *item);
    void *self;
};

/* Writes the weights of a model folder that is there. */
enum fr_rc tr_model_files_write(const char *dir, const struct tr_model_files *m,
                                struct fr_err *err);

/* FR_CORRUPT names the tensor if a value is not finite. */
enum fr_rc tr_model_files_finite(struct tr_view v, const char *name, struct fr_err *err);

#endif
