/*
 * The report of `flowtrain inspect` on a model or an adapter: a JSON object. The command prints the
 * object, or one line for each member.
 */
#ifndef TR_CLI_INSPECT_H
#define TR_CLI_INSPECT_H

#include "engine/base/err.h"
#include "engine/base/json.h"
#include "trainer/tensor/safetensors.h"

/* path is a folder with config.json, or a config.json. Reports parameter counts, the contents of
 * weight files, each value of config.json with its source, settings on which files disagree, and
 * the number of tokens. verify checks every name and shape, and that all numbers are finite. */
enum fr_rc tr_inspect_model(const char *path, bool verify, json_t *out, struct fr_err *err);

/* dir is a folder with adapter_config.json. verify checks shapes, that no tensor is empty, that
 * numbers are finite, and SHA-256. It also checks that names are exactly those of the configuration
 * for the base model: base, or base_model_name_or_path if that folder exists. Without a base, A and
 * B must come in pairs that the configuration names. */
enum fr_rc tr_inspect_adapter(const char *dir, const char *base, bool verify, json_t *out,
                              struct fr_err *err);

/* FR_CORRUPT when t holds a number that is not finite. *zero becomes false when one is not 0. Types
 * that are no plain numbers are skipped. */
enum fr_rc tr_inspect_finite(const struct tr_st *st, const struct tr_st_tensor *t, bool *zero,
                             struct fr_err *err);

#endif
