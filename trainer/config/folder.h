/*
 * A model folder as transformers reads it: config.json and the weights together. Both may say
 * whether the head is the embedding, and weights may have two forms of names.
 */
#ifndef TR_CONFIG_FOLDER_H
#define TR_CONFIG_FOLDER_H

#include "trainer/config/model_config.h"
#include "trainer/tensor/safetensors.h"

/* Whether both paths exist and are the same folder. */
bool tr_folder_same(const char *a, const char *b);

struct tr_folder {
    const char *dir;
    const char *adapter_dir; /* adapter to load with the model; NULL: none */
    bool part;               /* files may be missing, as with tr_st_open_part */
};

/*
 * Reads the configuration and opens the weights; tensors get the names of tr_model_tensors.
 * tie_word_embeddings follows the weights: it is false if they have a head that differs from the
 * embedding, whatever config.json says. A head without an embedding serves as both.
 * FR_USAGE: an adapter other than adapter_dir lies beside the model, and transformers would load
 * it. FR_NOTFOUND: files are missing that decide whether the head is tied. The caller closes *st.
 * said may be NULL; if not, the caller calls tr_model_said_finish, also after an error.
 */
enum fr_rc tr_folder_read(const struct tr_folder *f, struct tr_model_config *c, struct tr_st **st,
                          struct tr_model_said *said, struct fr_err *err);

/* Gives the tensors of open weights the names of tr_model_tensors, as tr_st_whole_names. */
enum fr_rc tr_folder_names(const struct tr_model_config *c, struct tr_st *st,
                           struct tr_twice *twice, struct fr_err *err);

/* Whether the folder holds weights or their index. */
bool tr_folder_has_weights(const char *dir);

/*
 * The configuration of a folder or a config.json, for callers that need no weights. If weights are
 * present and readable, they decide whether the head is tied; if not, config.json decides.
 */
enum fr_rc tr_folder_config(const char *path, struct tr_model_config *c, struct fr_err *err);

/* As tr_folder_read; notes (may be NULL) gets a line for each value that two files give. */
enum fr_rc tr_folder_open(const struct tr_folder *f, struct tr_model_config *c, struct tr_st **st,
                          struct fr_buf *notes, struct fr_err *err);

/* As tr_folder_open; the lines go to stderr. */
enum fr_rc tr_folder_load(const struct tr_folder *f, struct tr_model_config *c, struct tr_st **st,
                          struct fr_err *err);

#endif
