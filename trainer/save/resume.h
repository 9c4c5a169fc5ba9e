/*
 * Resume state: OUTPUT_DIR/resume/step-N/, apart from the exported checkpoint-N: the newest two,
 * and, but with --save_only_model, that of each checkpoint-N that is there. state.safetensors holds
 * f32 masters, m and v by tensor name and whole shape, so any number of ranks loads it; state.json
 * the progress and the digests of what the run was made of. The first rank of every node writes all
 * of it, so the loss of any node is survived and no shared file system is needed: at start the
 * newest state that any node holds whole is broadcast from there. Of nodes that share the folder
 * the first writes.
 *
 * A state is written to a temporary folder, fsynced and renamed; state.json carries the SHA-256 of
 * the tensor file, and of its own other members.
 *
 * Where weights train, alone or beside adapters, every rank writes a part of its own with all that
 * it updates, part-RRRRR-of-WWWWW.safetensors, with 1-d f32 tensors "master:NAME@FIRST", "m:…",
 * "v:…": elements of NAME from FIRST on. state.json lists the parts: bytes, SHA-256, the host that
 * wrote each. With copies a part also stands on the nodes after its own, so that a lost node loses
 * nothing. Any number of ranks reads any number of parts; a part that a rank does not see comes
 * from a rank that sees it. States but the newest whole one are removed before a new one is
 * written, so that two exist at once.
 */
#ifndef TR_SAVE_RESUME_H
#define TR_SAVE_RESUME_H

#include "trainer/save/identity.h"
#include "trainer/optim/optim.h"
#include "trainer/report/progress.h"

/* Digests that must match for a state to be resumed. */
struct tr_digests {
    const char *model, *data, *tokenizer;
    char config[TR_IDENTITY_TEXT];
};

struct tr_resume {
    const char *output_dir;
    const int *folders; /* borrows: as tr_output_folders gives it; NULL: all nodes have their own */
    struct tr_digests digests;
    float *flat;        /* borrows, host: flat_states * padded elements */
    size_t flat_states; /* 3 on the first rank of a node, which reads and writes; else at least 1 */
    const int64_t *kept; /* borrows: n_kept steps whose states stay */
    size_t n_kept;
    int copies;           /* nodes that have each part of trained weights; 0 is 1 */
    int64_t accumulation; /* micro-batches of a step and rank, now: a state of another number of */
    int64_t micro_per_epoch; /* ranks is taken up at the same step of the epoch */
    int64_t whole; /* the newest state in output_dir that this run read or wrote; 0: none */
};

/* Bytes on this node. */
struct tr_resume_size {
    int64_t state;
    int at_once;         /* states that exist while one is written */
    int64_t checkpoint;  /* of checkpoint-N */
    int64_t checkpoints; /* kept checkpoints, with their states */
};

/*
 * Call before a run. FR_FULL: this node's output folder cannot hold the states that exist at once.
 * notes (NULL: none) gets a line if it cannot hold all checkpoints and their states as well.
 */
enum fr_rc tr_resume_room(const struct tr_resume *r, const struct tr_resume_size *s,
                          struct fr_buf *notes, struct fr_err *err);

/* Writes the current state. Every rank calls it. On a full disk it fails and an older state stays.
 */
enum fr_rc tr_resume_save(struct tr_resume *r, struct tr_optim *o, const struct tr_progress *p,
                          struct fr_err *err);

/*
 * Finds and loads the newest whole state. from: "last", "true", a number of steps, or a
 * checkpoint-N or resume/step-N folder, also in the output folder of another run. *found is false
 * when "last" finds none; the others must find one. A damaged state is logged and skipped. If all
 * are damaged, FR_CORRUPT names their files; training does not silently start again. FR_USAGE: a
 * state is missing, or the newest belongs to a run with another model, data set, tokenizer or
 * configuration; the message names the difference.
 */
enum fr_rc tr_resume_load(struct tr_resume *r, const char *from, struct tr_optim *o,
                          struct tr_progress *p, bool *found, struct fr_err *err);

/* Whether this rank writes the states of its node's folder, and removes them. */
bool tr_resume_writes(const struct tr_resume *r, const struct tr_comm *world);

/* Removes all states of an earlier run on this node. */
enum fr_rc tr_resume_clear(const char *output_dir, struct fr_err *err);

/* Whether this node holds any state (cheap: names only). */
bool tr_resume_any(const char *output_dir);

#endif
