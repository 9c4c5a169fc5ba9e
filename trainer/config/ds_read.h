/*
 * Private to trainer/config: the readers of the blocks of a DeepSpeed JSON.
 */
#ifndef TR_CONFIG_DS_READ_H
#define TR_CONFIG_DS_READ_H

#include "trainer/config/args_table.h"
#include "trainer/config/ds_config.h"
#include "trainer/config/fields.h"

/* Shared by all readers. */
struct tr_ds_read {
    const char *name; /* the file, for errors */
    const json_t *root;
    const struct tr_ds_flags *flags;
    struct tr_ds_config *out;
    struct fr_buf *notes;   /* may be NULL */
    struct fr_buf mismatch; /* "- ds KEY=V vs hf FLAG=W" entries */
};

/* Whether the value is "auto". */
bool tr_ds_auto(const json_t *v);
/* Adds the line "NAME: …" to the notes. */
void tr_ds_note(const struct tr_ds_read *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Reads a number that must equal a flag. An absent key leaves *out; "auto" sets it to the flag's
 * value. Another value is stored, and added to the mismatches if it differs from the flag. */
enum fr_rc tr_ds_match(struct tr_ds_read *r, const struct tr_fields *f, const char *key,
                       const char *flag, double *out);

/* A block of the file as fields; f->object is NULL if the file has none. where receives the block's
 * name for errors and must live as long as *f. */
enum fr_rc tr_ds_block(const struct tr_ds_read *r, const char *key, struct tr_fields *f,
                       char where[512], struct fr_err *err);

/* Checks the keys of a block ("": the top) against the table. FR_UNSUPPORTED: a refused key is on.
 * A key without effect that is on adds a note. FR_USAGE: the table lacks a key; at the top such a
 * key adds a note unless it resembles a known one. */
enum fr_rc tr_ds_keys(const struct tr_ds_read *r, const struct tr_fields *f, const char *block,
                      struct fr_err *err);
/* Returns FR_USAGE for an unknown key; near: a similar known key, or NULL. */
enum fr_rc tr_ds_unknown(const struct tr_fields *f, const char *key, const char *near,
                         struct fr_err *err);

/* The part of docs/arguments.md about zero_optimization. */
void tr_ds_zero_markdown(struct fr_buf *out);

/* zero_optimization with its offload blocks. */
enum fr_rc tr_ds_zero(struct tr_ds_read *r, struct fr_err *err);

/* The offload blocks inside zero_optimization, and aio; then notes on them. */
enum fr_rc tr_ds_offload(struct tr_ds_read *r, const struct tr_fields *zero, struct fr_err *err);
void tr_ds_note_offload(const struct tr_ds_read *r);
/* Whether weights train, and adapters. */
bool tr_ds_weights_train(const struct tr_ds_read *r);
bool tr_ds_adapters_train(const struct tr_ds_read *r);

/* moe and expert_parallel blocks. */
enum fr_rc tr_ds_experts(struct tr_ds_read *r, struct fr_err *err);

/* fp16 and bf16 blocks. */
enum fr_rc tr_ds_precision(struct tr_ds_read *r, struct fr_err *err);

/* optimizer and scheduler blocks. */
enum fr_rc tr_ds_optimizer(struct tr_ds_read *r, struct fr_err *err);
enum fr_rc tr_ds_scheduler(struct tr_ds_read *r, struct fr_err *err);

#endif
