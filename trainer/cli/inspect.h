/*
 * What `flowtrain inspect` reports of a model or an adapter. The report is a JSON object; the
 * command prints the object itself, or one line for each member.
 */
#ifndef TR_CLI_INSPECT_H
#define TR_CLI_INSPECT_H

#include "engine/base/err.h"
#include "engine/base/json.h"
#include "trainer/tensor/safetensors.h"

/* A folder with config.json, or a config.json: parameter counts; what the weight files hold, where
 * there are any; each value of config.json and where it came from, and what is said twice, also by
 * the files of a tokenizer, and how many tokens that has; with verify, every name and shape and
 * that all numbers are finite. */
enum fr_rc tr_inspect_model(const char *path, bool verify, json_t *out, struct fr_err *err);

/* A folder with adapter_config.json; with verify: the names are exactly those that the
 * configuration gives for the base model (base, or base_model_name_or_path where that is a folder
 * here; else A and B come in pairs that the configuration names), shapes, no empty tensor, finite
 * numbers, SHA-256. */
enum fr_rc tr_inspect_adapter(const char *dir, const char *base, bool verify, json_t *out,
                              struct fr_err *err);

/* FR_CORRUPT when t holds a number that is not finite. *zero becomes false when one is not 0. Types
 * without numbers of their own are passed over. */
enum fr_rc tr_inspect_finite(const struct tr_st *st, const struct tr_st_tensor *t, bool *zero,
                             struct fr_err *err);

#endif
