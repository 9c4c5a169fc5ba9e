/* The parts of one training run, made from its flags. */
#ifndef TR_TRAIN_SETUP_H
#define TR_TRAIN_SETUP_H

#include "trainer/config/ds_config.h"
#include "trainer/config/lora_config.h"
#include "trainer/config/model_config.h"
#include "trainer/dataset/dataset.h"
#include "trainer/dataset/sampler.h"
#include "trainer/template/template_files.h"
#include "trainer/model/model.h"
#include "trainer/train/experts.h"
#include "trainer/report/metrics.h"
#include "trainer/optim/disk.h"
#include "trainer/optim/optim.h"
#include "trainer/save/resume.h"
#include "trainer/train/schedule.h"
#include "trainer/train/train.h"

/* A data set of the evaluation. Its metrics are eval_loss, …, or eval_NAME_loss, … with a name. */
struct tr_eval_set {
    const char *name;        /* NULL: no name */
    struct tr_dataset *data; /* owns */
};

struct tr_run {
    const struct tr_args *args;
    struct tr_train_env env;
    struct tr_model_config config;
    int64_t rows_before;        /* of the embedding, where --resize_vocab adds some; 0: none */
    struct tr_lora_config lora; /* empty with full */
    struct tr_trained trained;  /* weights of the base */
    struct tr_derived derived;
    struct tr_ds_config ds;
    struct tr_tokenizer *tokenizer; /* owns */
    const struct tr_template *templ;
    struct fr_buf chat;             /* owns: as tr_template_chat gives it */
    struct tr_template_files files; /* owns, on rank 0: of the tokenizer, with the template */
    struct tr_dataset *data;        /* owns */
    struct fr_arena arena;          /* names of data sets */
    struct tr_eval_set *evals;      /* owns: nevals, none without evaluation */
    size_t nevals;
    char evals_digest[65];           /* SHA-256, in hex, over the data of evals */
    int64_t tokens_max, samples_max; /* of a micro-batch, as in tr_model_opts */
    struct tr_sampler *sampler;      /* owns */
    int64_t micros;                  /* micro-batches of a rank in the current epoch */
    struct tr_st *st;                /* owns: the checkpoint's headers and descriptors */
    struct tr_model *model;          /* owns */
    struct tr_comm *steps;           /* owns: all ranks once more, for the optimizer's calls */
    struct tr_comm *beside;          /* owns: ditto, for gradients of weights that are summed beside
                                        the backward; NULL: they are not */
    struct tr_comm *experts; /* owns: ranks that share the experts; NULL: the ranks of `rest` */
    struct tr_expert_places places; /* of expert_placement; empty: in order */
    struct tr_comm *rest;           /* owns: ranks that other weights are sharded over; NULL: all */
    struct tr_backend *host; /* owns, unless it is env.be: steps in the host's memory; NULL: no
                                optimizer is there */
    struct tr_disk *states;  /* owns: the optimizer's state of weights; NULL: it is in memory */
    struct tr_optim optim;
    struct tr_schedule schedule;
    struct tr_progress progress;
    struct tr_metrics metrics; /* rank 0 */
    int output_lock;           /* owns, on rank 0: of the output folder; -1: none */
    struct tr_resume resume;
    struct tr_batch *batches; /* owns: gradient_accumulation_steps */
    float *flat;              /* owns: host copies of optimizer state */
    char model_digest[65];
    int64_t rss_before;   /* peak bytes of this process before weights were loaded */
    size_t planned_bytes; /* sum of the memory table */
    size_t packed_bytes;  /* part of planned_bytes for packed weights */
    struct tr_train_counts counts;
    size_t moved[TR_MOVES][TR_LINK_CLASSES]; /* counters when the step began */
    int64_t began_ms, tokens_before;         /* when the step began */
    bool resumed;
    bool own; /* this run has begun in the output folder before: --resume_run */
};

enum fr_rc tr_run_setup(struct tr_run *r, const struct tr_args *a, const struct tr_train_env *env,
                        struct fr_err *err);
void tr_run_finish(struct tr_run *r);
/* Heard between batches of records, while weights are read, and at each step. */
bool tr_run_stop_asked(const struct tr_run *r);
enum tr_dtype tr_run_compute_type(const struct tr_run *r);

/* Whether what is trained is saved, not resume states alone. */
bool tr_run_saves_model(const struct tr_run *r);
/* Number of trained elements over all ranks. */
int64_t tr_run_trainable(const struct tr_run *r);

/* setup_data.c: the tokenizer, the data sets for training and evaluation, the sampler; rank 0
 * prints what was dropped. The first rank of each node tokenizes and leaves a cache, which the
 * others read. */
enum fr_rc tr_run_load_data(struct tr_run *r, struct fr_err *err);

/* resize.c, --resize_vocab. tr_run_resize_vocab: how many rows there will be, once the tokenizer
 * has the template's tokens. Then every rank calls tr_run_add_rows, after which r->st has them. */
void tr_run_resize_vocab(struct tr_run *r);
enum fr_rc tr_run_add_rows(struct tr_run *r, struct fr_err *err);

/* memory.c: gives the memory that is left over to activations and packed weights, makes the table
 * of all that this rank will hold, which rank 0 prints, and allocates the device's part of it. */
enum fr_rc tr_run_take_memory(struct tr_run *r, struct fr_err *err);
/* Reports that an allocation exceeds the host's memory. why->msg begins with the name of its row of
 * the memory table. */
enum fr_rc tr_run_host_lacks(const struct tr_run *r, const struct fr_err *why, struct fr_err *err);

/* going_on.c: weights, moments and progress of another trainer's checkpoint, which rank 0 says.
 * Every rank calls; errors as tr_foreign_load. */
struct tr_foreign;
enum fr_rc tr_run_go_on(struct tr_run *r, const struct tr_foreign *from, struct fr_err *err);

/* disk.c: FR_FULL: this node's disk cannot hold one save. notes get a line if it cannot hold all
 * saves of the run. */
enum fr_rc tr_run_check_room(const struct tr_run *r, struct fr_buf *notes, struct fr_err *err);

/* states.c: makes r->states if the optimizer's state of weights belongs into files. No file is made
 * yet. */
enum fr_rc tr_run_make_states(struct tr_run *r, struct fr_err *err);
/* Makes each rank's file, before weights are read, and says what a step writes. FR_FULL: a disk has
 * no room for the files of its node. Every rank calls it, an error is the same on all. */
enum fr_rc tr_run_open_states(struct tr_run *r, struct fr_err *err);

/* layout.c: reads the file that moe.expert_placement names into r->places. */
enum fr_rc tr_run_read_placement(struct tr_run *r, struct fr_err *err);
/* Makes the groups of ranks that the moe block asks for, r->experts and r->rest. The messages of
 * FR_USAGE and FR_UNSUPPORTED say what to do instead. staged: weights lie in host memory that
 * is not the device's. */
enum fr_rc tr_run_layout(struct tr_run *r, bool staged, struct fr_err *err);
/* *ranks: expert_ranks of tr_model_opts, freed by the caller; NULL: experts lie in order. */
enum fr_rc tr_run_place_experts(const struct tr_run *r, int32_t **ranks, struct fr_err *err);
void tr_run_say_layout(const struct tr_run *r); /* rank 0 */
/* Writes the tokens per expert so far (tr_experts_report). Every rank calls it. */
enum fr_rc tr_run_count_experts(const struct tr_run *r, bool say, struct fr_err *err);
/* Prints the payload that all ranks sent, by link class. Every rank calls it. */
enum fr_rc tr_run_say_exchange(const struct tr_run *r, struct fr_err *err);

/* moved.c: called before and after each step. tr_run_sum_counts then sums r->counts over all ranks;
 * every rank calls it. */
void tr_run_step_begins(struct tr_run *r);
void tr_run_step_ends(struct tr_run *r, int64_t micros, double targets);
enum fr_rc tr_run_sum_counts(struct tr_run *r, struct fr_err *err);

/* "eval_NAME_what", or "eval_what" where the set has no name. */
enum { TR_EVAL_KEY = 320 };
void tr_run_eval_key(const struct tr_eval_set *set, const char *what, char out[TR_EVAL_KEY]);

/* run_eval.c. Evaluates all sets. *figures: {name: number}, names as in transformers, owned by the
 * caller. All ranks get the same numbers, except for speeds. */
enum fr_rc tr_run_evaluate(struct tr_run *r, json_t **figures, struct fr_err *err);
/* Adds the perplexity exp(loss) of each set, which LLaMA-Factory reports for stage pt. */
void tr_run_add_perplexity(const struct tr_run *r, json_t *figures);
/* FR_USAGE: --metric_for_best_model names no metric of this run. */
enum fr_rc tr_run_check_metric(const struct tr_run *r, struct fr_err *err);
/* Compares figures with the best ones so far, in r->progress; true: they are better. */
bool tr_run_judge(struct tr_run *r, const json_t *figures);
/* With --load_best_model_at_end loads the adapters of the best checkpoint, if it can be read. */
enum fr_rc tr_run_load_best(struct tr_run *r, struct fr_err *err);
/* After a resume: a best checkpoint that is gone is forgotten; a later one can then be the best. */
enum fr_rc tr_run_check_best(struct tr_run *r, struct fr_err *err);

/* Rank 0 prints one line a note; frees notes. */
void tr_run_notes(const struct tr_run *r, struct fr_buf *notes);

/* Peak resident bytes of this process so far (VmHWM). */
int64_t tr_peak_rss(void);

#endif
