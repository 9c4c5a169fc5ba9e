/*
 * Private to trainer/config: the readers of a config.json. model_keys.c has a table of the keys
 * that hold one number or switch. The readers of the architectures (arch.h) read all other keys.
 */
#ifndef TR_CONFIG_MODEL_READ_H
#define TR_CONFIG_MODEL_READ_H

#include "trainer/config/arch.h"
#include "trainer/config/fields.h"

/* Shared by all readers. c->model_type and c->arch are set first. */
struct tr_model_read {
    struct tr_fields f; /* config.json */
    const struct tr_model_type *type;
    struct tr_model_config *c;
    struct tr_model_said *said; /* may be NULL */
};

/* The report, or NULL. */
struct tr_twice *tr_read_twice(const struct tr_model_read *r);

/* Reads all keys of the table that the type has, with its defaults. Then derives head_dim and
 * num_key_value_heads where the file has none. FR_USAGE: a key is missing, null or out of range. */
enum fr_rc tr_read_keys(const struct tr_model_read *r, struct fr_err *err);

/* Whether the type has the key of the table. */
bool tr_key_has(const struct tr_model_read *r, const char *key);

/* FR_USAGE "WHERE: KEY is VALUE, expected WANT" for a key of the table, with its default where it
 * is absent. */
enum fr_rc tr_key_bad(const struct tr_model_read *r, const char *key, const char *want,
                      struct fr_err *err);

/* Adds the values of the table and where each came from to said->values. */
enum fr_rc tr_keys_values(const struct tr_model_read *r, struct fr_err *err);

/* A key that accepts one text only, which is also its default. */
struct tr_fixed_row {
    const char *key, *want;
};

enum fr_rc tr_read_fixed(const struct tr_fields *f, const struct tr_fixed_row *rows, size_t n,
                         struct fr_err *err);

/* FR_USAGE unless the key is absent, false or 0; want is the reason for the message. */
enum fr_rc tr_read_off(const struct tr_fields *f, const char *key, const char *want,
                       struct fr_err *err);

/* Reads rope_scaling, else rope_parameters, and rope_theta. kinds: bit 1 << kind for each kind that
 * the architecture has. Call it after tr_read_keys. */
enum fr_rc tr_read_rope(const struct tr_model_read *r, unsigned kinds, struct fr_err *err);

/* Reads the keys of experts of the Llama family (Mixtral, Qwen3-MoE). */
enum fr_rc tr_read_experts(const struct tr_model_read *r, struct fr_err *err);

/* Sets the layers with a window, for the Llama family. */
enum fr_rc tr_read_windows(const struct tr_model_read *r, struct fr_err *err);

#endif
