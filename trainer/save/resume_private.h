/* Private to trainer/save: a resume state on disk, and its tensors in parts, one a rank. */
#ifndef TR_SAVE_RESUME_PRIVATE_H
#define TR_SAVE_RESUME_PRIVATE_H

#include "engine/base/arena.h"
#include "engine/base/file.h"
#include "trainer/save/resume.h"
#include "trainer/tensor/safetensors.h"

#include <limits.h>

enum { RESUME_KEEP = 2, RESUME_STATES = 3, RESUME_STEPS_MAX = 4096 };
enum { RESUME_NONE = -1, RESUME_ALL_DAMAGED = -2 }; /* in place of a step */

/* ---- resume_state.c ---- */

/* OUTPUT_DIR/resume/PREFIXstep-N. */
void resume_dir(const struct tr_resume *r, int64_t step, const char *prefix, char out[PATH_MAX]);

/* The steps of the states in this node's folder, newest first; the newest cap of them. */
size_t resume_steps(const char *output_dir, int64_t *steps, size_t cap);

/* Prepares the folder for a new state, whose temporary folder does not exist then. */
enum fr_rc resume_begin(const struct tr_resume *r, int64_t step, struct fr_err *err);

/* Keeps the newest `keep` states of this step and before, and those of checkpoints. Removes
 * half-written states, and newer ones, which remain when a run resumes from an older state. Failed
 * removals are tried again next time. */
void resume_drop(const struct tr_resume *r, int64_t now, size_t keep);

/* Writes state.json, with one member more, which is taken, and gives the temporary folder its
 * name. Older states are removed. */
enum fr_rc resume_publish(const struct tr_resume *r, const struct tr_optim *o,
                          const struct tr_progress *p, const char *key, json_t *more,
                          struct fr_err *err);

/* A state.json. FR_CORRUPT: it is not what was written. *root is owned by the caller. */
enum fr_rc resume_load_json(const char *path, json_t **root, struct fr_err *err);
enum fr_rc resume_read_json(const struct tr_resume *r, int64_t step, json_t **root,
                            struct fr_err *err);

/* state.json from the root to all. */
enum fr_rc resume_share_json(const struct tr_optim *o, int root_rank, json_t **root,
                             struct fr_err *err);

/* FR_USAGE names the difference if the state is of another run. */
enum fr_rc resume_same_run(const struct tr_resume *r, const struct tr_optim *o, const json_t *root,
                           struct fr_err *err);

enum fr_rc resume_read_progress(const struct tr_resume *r, const json_t *root, struct tr_optim *o,
                                struct tr_progress *p, struct fr_err *err);

/* ---- parts: resume_parts.c writes, resume_copies.c copies, resume_find.c finds, resume_take.c
 * reads ---- */

/* What a rank says of its part. */
struct resume_record {
    struct fr_err err;
    int64_t bytes;
    char sha[FR_SHA256_TEXT], host[64];
};

/* A search for the newest state <= limit. */
struct resume_search {
    const struct tr_resume *r;
    struct tr_optim *o;
    int64_t limit;
    struct fr_buf damaged; /* owns: the reason for each unusable state */
};

/* Elements [first, first+n) of a tensor. */
struct resume_entry {
    const char *name;
    int64_t first, n;
    int part;
};

/* A state whose parts lie on one node or several. Matrices are (ranks, n) and, like all of it but
 * the open files, the same on every rank. */
struct resume_parts {
    struct fr_arena arena; /* names, matrices */
    struct resume_part {
        char path[PATH_MAX]; /* here */
        const char *sha, *host;
        int64_t bytes;
        struct tr_st *st; /* owns; NULL: this rank does not read it */
    } * parts;
    int n, ranks;
    unsigned char *sees;          /* enum resume_sight */
    unsigned char *needs;         /* whether the rank has elements of it */
    struct resume_entry *entries; /* by name, then first */
    size_t nentries;
};

enum resume_sight { RESUME_ABSENT, RESUME_CUT, RESUME_SEEN };

/* The name of part k of n, in dir. */
void resume_part_path(const char *dir, int k, int n, char out[PATH_MAX]);

/* "master:NAME@FIRST", and so on; in the arena. */
char *resume_key(struct fr_arena *arena, enum tr_optim_what what, const char *name, int64_t first);

/* "HOST: " in front of what is wrong with a file of this node. */
void resume_name_host(struct fr_err *err);

/* Every rank writes its part; the state is whole when all are. An error is the same on every rank.
 */
enum fr_rc resume_parts_save(const struct tr_resume *r, struct tr_optim *o,
                             const struct tr_progress *p, struct fr_err *err);

/* Copies every rank's part from dir, where its node wrote it, to dir of the copies - 1 nodes after
 * that node, counted round, unless it is seen there. Every rank calls. *mine: an error of this
 * rank's files; rc: one of the transport. */
enum fr_rc resume_parts_copy(const struct tr_optim *o, const struct resume_record *parts,
                             const char *dir, int copies, struct fr_err *mine, struct fr_err *err);

/* *step: the newest state whose parts are on some node and whole, its state.json in *root on every
 * rank and its parts in *out, which the caller destroys; RESUME_NONE or RESUME_ALL_DAMAGED. Every
 * rank calls. Damaged ones are logged and skipped; one of another run is FR_USAGE. */
enum fr_rc resume_parts_find(struct resume_search *h, int64_t *step, json_t **root,
                             struct resume_parts **out, struct fr_err *err);
void resume_parts_destroy(struct resume_parts *s);

/* The entry that holds element `at` of a tensor; NULL: none. */
const struct resume_entry *resume_entry_at(const struct resume_parts *s, const char *name,
                                           int64_t at);
/* Who reads part k for a rank: itself, or the first rank that sees the part. */
int resume_reader(const struct resume_parts *s, int rank, int k);

/* This rank's masters and moments, of the parts that it sees, and from other ranks of the others;
 * then the weights. */
enum fr_rc resume_parts_take(const struct resume_parts *s, struct tr_optim *o, struct fr_err *err);

#endif
