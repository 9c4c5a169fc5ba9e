/*
 * Fuzz targets: each takes any bytes as what a parser of ours reads from outside. Nothing may crash
 * (sanitizers watch), grow without bound, or reach outside of its folder; what is refused must come
 * with a text. Two mains share the table of targets:
 *
 *   driver.c     any compiler: the committed seeds, then inputs made from them; what CI runs
 *   libfuzzer.c  clang -fsanitize=fuzzer: FUZZ_TARGET names the target; `make fuzz`
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include "engine/base/err.h"
#include "engine/base/str.h"
#include "engine/wire/message.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fuzz_target {
    const char *name; /* also of its folder of seeds */
    void (*run)(struct fr_str in);
    /* Calls put for each seed that is made by code, not written by hand; NULL: none. */
    void (*seeds)(void (*put)(void *arg, const char *name, struct fr_str bytes), void *arg);
};

/* Ended by a NULL name. */
extern const struct fuzz_target fuzz_targets[];
const struct fuzz_target *fuzz_find(const char *name);

/* A property does not hold: says which and aborts. */
void fuzz_want(bool holds, const char *what);
/* A failed call has its code and a text in err; a good one has nothing to say. */
void fuzz_want_err(enum fr_rc rc, const struct fr_err *err);

/* A path at which the bytes of in can be read, until the next call. No disk. */
const char *fuzz_path(struct fr_str in);
/* A private folder of this process, made at the first call and removed at its end. */
const char *fuzz_dir(void);
/* Writes DIR/name. */
void fuzz_put_file(const char *name, struct fr_str bytes);

/* A stream of frames from in. An even first byte: the rest as it is. An odd one: the rest is pieces
 * of u8 type, u16 length, payload, each framed (and cut to what is there), so that lengths need not
 * be guessed. */
void fuzz_frames(struct fr_str in, struct fr_buf *out);
/* m in the form that fuzz_frames reads, behind the odd first byte. */
void fuzz_piece(const struct fr_msg *m, struct fr_buf *out);

/* The targets, by file. */
/* text.c */
void fuzz_pipeline(struct fr_str in);
void fuzz_inventory(struct fr_str in);
void fuzz_expr(struct fr_str in);
void fuzz_outputs(struct fr_str in);
void fuzz_values(struct fr_str in);
void fuzz_elements(struct fr_str in);
/* schedule.c */
void fuzz_cron(struct fr_str in);
void fuzz_tzif(struct fr_str in);
void fuzz_tzif_seeds(void (*put)(void *arg, const char *name, struct fr_str bytes), void *arg);
void fuzz_zone_name(struct fr_str in);
/* ssh.c */
void fuzz_ssh_config(struct fr_str in);
void fuzz_known_hosts(struct fr_str in);
void fuzz_boot(struct fr_str in);
/* slurm.c */
void fuzz_squeue(struct fr_str in);
/* node.c */
void fuzz_serve(struct fr_str in);
void fuzz_serve_seeds(void (*put)(void *arg, const char *name, struct fr_str bytes), void *arg);
void fuzz_journal(struct fr_str in);
void fuzz_journal_seeds(void (*put)(void *arg, const char *name, struct fr_str bytes), void *arg);
void fuzz_mask(struct fr_str in);
/* web.c */
void fuzz_request(struct fr_str in);
void fuzz_answer(struct fr_str in);
void fuzz_events(struct fr_str in);
/* api.c */
void fuzz_api(struct fr_str in);
/* engine.c */
void fuzz_engine(struct fr_str in);
void fuzz_engine_seeds(void (*put)(void *arg, const char *name, struct fr_str bytes), void *arg);
/* trainer.c */
void fuzz_safetensors(struct fr_str in);
void fuzz_safetensors_seeds(void (*put)(void *arg, const char *name, struct fr_str bytes),
                            void *arg);
void fuzz_model_config(struct fr_str in);
void fuzz_ds_config(struct fr_str in);
void fuzz_lora_config(struct fr_str in);
void fuzz_train_args(struct fr_str in);
void fuzz_tokenizer(struct fr_str in);
void fuzz_records(struct fr_str in);
void fuzz_dataset_info(struct fr_str in);
void fuzz_token_cache(struct fr_str in);
void fuzz_token_cache_seeds(void (*put)(void *arg, const char *name, struct fr_str bytes),
                            void *arg);
/* foreign.c */
void fuzz_pickle(struct fr_str in);
void fuzz_pickle_seeds(void (*put)(void *arg, const char *name, struct fr_str bytes), void *arg);
void fuzz_torch_file(struct fr_str in);
void fuzz_torch_file_seeds(void (*put)(void *arg, const char *name, struct fr_str bytes),
                           void *arg);

#endif
