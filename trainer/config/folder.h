/*
 * A model folder as transformers reads it: config.json and the weights together. Both may say
 * whether the head is the embedding, and weights may have two forms of names.
 */
#ifndef TR_CONFIG_FOLDER_H
#define TR_CONFIG_FOLDER_H

#include "trainer/config/model_config.h"
#include "trainer/tensor/safetensors.h"

/* Two names of one folder that is there. */
bool tr_folder_same(const char *a, const char *b);

struct tr_folder {
    const char *dir;
    const char *adapter_dir; /* of the adapter that goes on the model; NULL: none */
    bool part;               /* as tr_st_open_part: files may lack */
};

/*
 * The configuration and the open weights, whose tensors have the names of tr_model_tensors.
 * tie_word_embeddings is what holds: a head of its own in the weights that differs from the
 * embedding counts, whatever config.json says; one without an embedding is the embedding.
 * FR_USAGE where an adapter lies beside the model that is not adapter_dir's: transformers would put
 * it on the model. FR_NOTFOUND where files lack that say whether the head is the embedding. said
 * may be NULL; else it is finished by the caller, after an error, too.
 */
enum fr_rc tr_folder_read(const struct tr_folder *f, struct tr_model_config *c, struct tr_st **st,
                          struct tr_model_said *said, struct fr_err *err);

/* Whether weights lie in a folder, or an index of theirs. */
bool tr_folder_has_weights(const char *dir);

/*
 * The same configuration of a folder or a config.json, for what asks for no weights: they have a
 * word on the head where they are there and can be read, else config.json alone counts.
 */
enum fr_rc tr_folder_config(const char *path, struct tr_model_config *c, struct fr_err *err);

/* As tr_folder_read; what is said twice becomes lines of notes, which may be NULL. */
enum fr_rc tr_folder_open(const struct tr_folder *f, struct tr_model_config *c, struct tr_st **st,
                          struct fr_buf *notes, struct fr_err *err);

/* The same; such lines go to stderr. */
enum fr_rc tr_folder_load(const struct tr_folder *f, struct tr_model_config *c, struct tr_st **st,
                          struct fr_err *err);

#endif
