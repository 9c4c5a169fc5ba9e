/*
 * The parts of reading a DeepSpeed JSON behind ds_config.h.
 */
#ifndef TR_CONFIG_DS_READ_H
#define TR_CONFIG_DS_READ_H

#include "trainer/config/args_table.h"
#include "trainer/config/ds_config.h"
#include "trainer/config/fields.h"

/* What all parts share. */
struct tr_ds_read {
    const char *name; /* the file, for errors */
    const json_t *root;
    const struct tr_ds_flags *flags;
    struct tr_ds_config *out;
    struct fr_buf *notes;   /* may be NULL */
    struct fr_buf mismatch; /* "- ds KEY=V vs hf FLAG=W" entries */
};

bool tr_ds_auto(const json_t *v);
void tr_ds_note(const struct tr_ds_read *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* A number of the file that must agree with a flag: absent leaves *out; "auto" takes the flag's
 * value; another value is taken and, when it differs, added to the mismatches. */
enum fr_rc tr_ds_match(struct tr_ds_read *r, const struct tr_fields *f, const char *key,
                       const char *flag, double *out);

/* A block of the file as fields, its name for errors in where[0..512); an absent block has no
 * object. */
enum fr_rc tr_ds_block(const struct tr_ds_read *r, const char *key, struct tr_fields *f,
                       char where[512], struct fr_err *err);

/* The keys of a block ("": the top) against the table of keys: what is refused and asked for is
 * FR_UNSUPPORTED, what is without effect and asked for is noted. Keys that the table lacks are
 * FR_USAGE, at the top only where they look like another; else they are noted. */
enum fr_rc tr_ds_keys(const struct tr_ds_read *r, const struct tr_fields *f, const char *block,
                      struct fr_err *err);
/* FR_USAGE for a key that no table has; near: the name that it looks like, or NULL. */
enum fr_rc tr_ds_unknown(const struct tr_fields *f, const char *key, const char *near,
                         struct fr_err *err);
const char *tr_ds_use_name(enum tr_arg_use use);

/* The part of docs/arguments.md about zero_optimization. */
void tr_ds_zero_markdown(struct fr_buf *out);

/* zero_optimization with its offload blocks. */
enum fr_rc tr_ds_zero(struct tr_ds_read *r, struct fr_err *err);

/* moe and expert_parallel blocks. */
enum fr_rc tr_ds_experts(struct tr_ds_read *r, struct fr_err *err);

/* fp16, bf16 and amp blocks. */
enum fr_rc tr_ds_precision(struct tr_ds_read *r, struct fr_err *err);

/* optimizer and scheduler blocks. */
enum fr_rc tr_ds_optimizer(struct tr_ds_read *r, struct fr_err *err);
enum fr_rc tr_ds_scheduler(struct tr_ds_read *r, struct fr_err *err);

#endif
