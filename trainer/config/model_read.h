/*
 * Private to trainer/config: how the parts of a config.json are read. Keys of one number or switch
 * are a table (model_keys.c); the readers of the architectures (arch.h) have the rest.
 */
#ifndef TR_CONFIG_MODEL_READ_H
#define TR_CONFIG_MODEL_READ_H

#include "trainer/config/arch.h"
#include "trainer/config/fields.h"

/* What all readers share. c->model_type and c->arch are set before. */
struct tr_model_read {
    struct tr_fields f; /* config.json */
    const struct tr_model_type *type;
    struct tr_model_config *c;
    struct tr_model_said *said; /* may be NULL */
};

/* The report, or NULL. */
struct tr_twice *tr_read_twice(const struct tr_model_read *r);

/* All keys of the table that the type has, with its defaults; then what is derived: head_dim and
 * num_key_value_heads that nobody gave. FR_USAGE for what is missing, null or out of range. */
enum fr_rc tr_read_keys(const struct tr_model_read *r, struct fr_err *err);

/* Whether the type has the key of the table. */
bool tr_key_has(const struct tr_model_read *r, const char *key);

/* FR_USAGE "WHERE: KEY is VALUE, expected WANT" for a key of the table, with its default where it
 * is absent. */
enum fr_rc tr_key_bad(const struct tr_model_read *r, const char *key, const char *want,
                      struct fr_err *err);

/* Adds the values of the table and where each came from to said->values. */
enum fr_rc tr_keys_values(const struct tr_model_read *r, struct fr_err *err);

/* A key that may only have one text, which it has when it is absent. */
struct tr_fixed_row {
    const char *key, *want;
};

enum fr_rc tr_read_fixed(const struct tr_fields *f, const struct tr_fixed_row *rows, size_t n,
                         struct fr_err *err);

/* A switch or a number that must be absent, false or 0; want says why. */
enum fr_rc tr_read_off(const struct tr_fields *f, const char *key, const char *want,
                       struct fr_err *err);

/* The rotary part: rope_scaling, else rope_parameters, and rope_theta. The kinds that an
 * architecture has are of the set 1 << kind. The table is read before. */
enum fr_rc tr_read_rope(const struct tr_model_read *r, unsigned kinds, struct fr_err *err);

/* The experts of a model of the Llama family: Mixtral or Qwen3-MoE. */
enum fr_rc tr_read_experts(const struct tr_model_read *r, struct fr_err *err);

/* Which layers have a window, of a model of the Llama family. */
enum fr_rc tr_read_windows(const struct tr_model_read *r, struct fr_err *err);

#endif
