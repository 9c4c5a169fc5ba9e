/*
 * The result of full fine-tuning: a model folder as save_pretrained() writes it, with config.json,
 * tokenizer and template of the base. Weights have the compute type, of trained ones masters
 * rounded to nearest, or all are f32, of trained ones the masters; buffers and FP8 weights are the
 * base's, byte for byte.
 */
#ifndef TR_SAVE_EXPORT_MODEL_H
#define TR_SAVE_EXPORT_MODEL_H

#include "trainer/config/args.h"
#include "trainer/save/trained_out.h"

#include <jansson.h>

struct tr_export_model {
    struct tr_trained_out out; /* whose type is that of all weights in the folder */
    const struct tr_st *st;    /* the base */
    const struct tr_args *args;
    int64_t shard_bytes; /* a file at most; a larger tensor is alone */
    int64_t rows;        /* vocab_size of config.json; 0: the base's */
    bool tied;           /* the head is the embedding: a head in the base is left out */
};

/* Makes dir and writes it. Every rank calls, between steps; rank 0 writes. FR_CORRUPT: a value is
 * not finite; the message names the tensor. An error is the same on every rank. */
enum fr_rc tr_export_model(const char *dir, const struct tr_export_model *o, struct fr_err *err);

/* On rank 0: moves what tr_export_model has written to dir into output_dir. Weights that were there
 * are removed first: at no time does a mixture load. */
enum fr_rc tr_export_model_move(const char *dir, const char *output_dir, struct fr_err *err);

/* Removes weights, of a model or an adapter, that another result would be taken for. */
enum fr_rc tr_export_model_clear(const char *output_dir, struct fr_err *err);

/* Sets a key of dir's config.json; value is taken. */
enum fr_rc tr_export_config(const char *dir, const char *key, json_t *value, struct fr_err *err);

/* Makes the config.json of dir name the type of its weights. */
enum fr_rc tr_export_model_type(const char *dir, enum tr_dtype type, struct fr_err *err);

#endif
