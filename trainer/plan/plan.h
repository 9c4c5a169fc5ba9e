/*
 * Memory and time of a run in each layout, from the model's configuration and a description of the
 * machines. Needs no weights and no device. Memory is the table that the run itself would print;
 * bytes, operations and seconds are formulas. Seconds are lower bounds: full overlap of work and
 * links, no gaps between kernels, routing that is even except for `skew`.
 *
 * Letters: W ranks (n nodes of g GPUs), T tokens of a rank and micro-batch, M bytes of the frozen
 * weights, H hidden size, K experts a token, L' MoE layers, A weights that multiply a token, V*H
 * those of the head, core = attention's operations a token.
 *
 *   operations a token   2A forward, 2A recomputed, 2A to the inputs (the base is frozen),
 *                        4.6 core (1 forward, 1 recomputed, 2.6 backward), 4VH of a token that
 *                        has a target (all, where it is not known how many), 8 * adapters
 *   on the CPU           and, beside the products, the bytes of all other ops and the numbers that
 *                        dropout draws: those of the blocks, rehearsed
 *   ZeRO-3               p M (W-1)/W out of a node and to each GPU, p passes over the weights but
 *                        one over the head, none over the embedding and the routers, less what
 *                        windows keep until its next use: the gathers of a micro-batch, rehearsed
 *   experts that stay    T * (nodes, ranks that a token goes to) * L' rows of
 *                        5 H elements (x; y; x, dy, dx backward) and 12 K bytes of routing weights;
 *                        the choices of T tokens, 4 K bytes each, round a ring of the group;
 *                        2 passes over the other weights inside a node
 *   weights that train   P of them in all, Q in linears and routers, o of these in the last product
 *                        of attention or FFN: 6Q + 2(Q - o) + 4.6 core + 8VH operations a token;
 *                        6Q + 3.6 core + 8VH where activations are kept; below the lowest that
 *                        trains 2Q + core, and 4Q where a weight does not train itself. At every
 *                        stage each micro-batch sends its gradients to their owners, c bytes each
 *                        (4: f32): g (W-g)/W cP out of a node; or from node to node 4P out of the
 *                        busiest, in a step's later ones (n+1)/n of it if n > 2. Below stage 3
 *                        (norms: at all) an update is followed by a gather of the weights. AdamW
 *                        moves 32 bytes and one weight an element, a reduction W c + 8 bytes of an
 *                        owner's (W c + 8 (n+1) from node to node), rounding W (4 + c) more. With
 *                        the optimizer in the host's memory 4P/W go there from each rank in each
 *                        micro-batch; AdamW moves 28 bytes and one weight of a node's memory. With
 *                        a disk 12P/W of each rank are read and written in a step, beside AdamW.
 *                        8-bit moments: 12 less. Muon: 8 an element between ranks, 28 to a host
 *   adapters' gradients  once a step: ordered sums g (W-g)/W * 4, and copies (W-1)/W * 2 bytes
 *   stages               2 n g T H elements out of a node, (m + n - 1) / m of the work, of as many
 *                        tokens as the other layouts have; m micro-batches in a row
 *
 * A failure costs the time to read the weights again and half of the time between two checkpoints.
 * The loss is smallest with a checkpoint every sqrt(2 C F) seconds: C seconds for one checkpoint, F
 * the mean time between failures (Young 1974).
 */
#ifndef TR_PLAN_PLAN_H
#define TR_PLAN_PLAN_H

#include "engine/base/err.h"
#include "trainer/config/lora_config.h"
#include "trainer/config/model_config.h"
#include "trainer/optim/optim.h"

#include <stdbool.h>
#include <stdint.h>

struct tr_gpu {
    const char *name;
    double flops;  /* a second: measured products of bf16 matrices, not the data sheet's; 0:
                      unknown */
    double rows;   /* bytes a second of ops other than products; 0: not counted */
    double draws;  /* numbers a second that dropout draws; 0: ditto */
    double memory; /* bytes */
    double stream; /* bytes a second, of its own memory */
    double link;   /* bytes a second of a gather from the GPUs of its node */
    double swap;   /* the same of an exchange among them */
    double host;   /* the same from the host's memory */
};

/* The GPU of a name in any case; NULL: unknown. tr_gpu_names: all names, separated by commas. "cpu"
 * is a rank on the processors of a machine; its speed is unknown and its memory is the host's. */
const struct tr_gpu *tr_gpu_find(const char *name);
bool tr_gpu_is_cpu(const struct tr_gpu *gpu);
const char *tr_gpu_names(void);

struct tr_cluster {
    int64_t nodes, gpus; /* GPUs of each node */
    struct tr_gpu gpu;
    double network;     /* bytes a second of a node, each way */
    double disk;        /* bytes a second that a node reads or writes */
    double host_memory; /* bytes of a node; 0: not known */
    double failure_s;   /* mean time between two failures of the whole run */
};

/* The distribution of weights over ranks. */
struct tr_plan_way {
    bool whole;      /* every rank has all weights, except those of owned experts */
    bool host;       /* shards are in the host's memory */
    bool states;     /* so are sums and the optimizer's state of weights that train */
    bool disk;       /* with states: masters and moments are on a disk of the node */
    int64_t experts; /* ranks of a group that owns the routed experts; 0: sharded like the rest */
};

struct tr_plan_job {
    const struct tr_model_config *config;
    const struct tr_lora_config *lora; /* NULL: no adapters */
    const struct tr_trained *trained;  /* weights that train; NULL: none */
    bool coded, muon, muon_gram; /* their moments have 8 bits; matrices are Muon's (newton.h) */
    enum tr_dtype compute, wire; /* wire: of their gradients, as of tr_grads_opts */
    bool beside, beside_sharded; /* summed beside the backward; where weights are sharded alone */
    int64_t batch, cutoff;       /* samples of a micro-batch, tokens of the longest */
    int64_t accumulation;        /* micro-batches a step */
    int64_t micro_batches;       /* that stages have in flight */
    struct tr_shard_limits limits;
    size_t keep_bytes;   /* limit of activations kept for the backward */
    size_t pack_bytes;   /* limit of packed weights, which take the memory that is left */
    int64_t tile;        /* elements that the host steps on at once, at most */
    int64_t tiles;       /* with a disk: of these, in memory at once; 0: the default */
    double epoch_tokens; /* 0: not known */
    double supervised;   /* share of tokens with a target; 0: unknown, all assumed */
    double skew;         /* rows of the busiest rank over the mean, 1: even */
    const struct tr_plan_way *asked; /* the configured distribution; NULL: unknown */
};

enum tr_plan_kind {
    TR_PLAN_ZERO3,        /* weights sharded over all ranks */
    TR_PLAN_ZERO3_THREE,  /* the same as DeepSpeed does it: three passes, a layer held */
    TR_PLAN_ZERO3_HOST,   /* shards in the host's memory */
    TR_PLAN_WHOLE,        /* all weights on every rank */
    TR_PLAN_ZERO3_STATES, /* as TR_PLAN_ZERO3, the optimizer in the host's memory */
    TR_PLAN_WHOLE_STATES, /* as TR_PLAN_WHOLE, ditto */
    TR_PLAN_EXPERTS_ALL,  /* one set of experts over all ranks */
    TR_PLAN_EXPERTS_NODE, /* a set of experts on each node */
    TR_PLAN_STAGES,       /* a stage of layers on each node, its experts over the node's ranks */
    TR_PLAN_ASKED,        /* as configured, if that is none of the others */
    TR_PLAN_KINDS
};

/* Payload of all ranks: to themselves, to others of their node, and to other nodes. */
struct tr_plan_moves {
    double self, node, far;
};

/* Micro-batches that differ in gathers. Windows keep weights from the second micro-batch on, and
 * across micro-batches from the third on. All later ones equal the third. After an update of
 * weights that train nothing is kept: the first three (or as many as a step has) of each of the
 * first steps, of which the last is like all later ones. */
enum { TR_PLAN_LATER = 2, TR_PLAN_STEPS = 6, TR_PLAN_FIRSTS = TR_PLAN_STEPS * (TR_PLAN_LATER + 1) };

/* Destinations of one token, on average over all ranks of a group. */
struct tr_plan_spread {
    double far;  /* other nodes with an expert of the token */
    double near; /* ranks that receive the token from a rank of their node */
    double self; /* ranks with an expert of the token that have the token already */
};

struct tr_plan_layout {
    enum tr_plan_kind kind;
    struct tr_plan_way way;
    char name[96];
    const char *config; /* setting in the DeepSpeed file; NULL: not implemented */
    bool fits;
    char why[200]; /* reason if it does not fit */

    struct tr_plan_spread spread; /* of its experts */
    double flat, sums; /* elements of the adapters, of a rank's gradients; gaps included */
    struct tr_grads_shares shares;  /* of weights that train */
    struct tr_grads_way ways[2];    /* of their gradients: first in a step, and later */
    double fetched[TR_PLAN_FIRSTS]; /* bytes of whole weights gathered by a group */
    struct tr_row_work rows_work;   /* of a micro-batch, if every rank computes its own tokens */
    double memory;                  /* bytes a GPU */
    struct tr_muon_moves matrices;  /* if the job has Muon */
    double host, disk; /* bytes of a node: of memory, pinned; of its disk: masters and moments */
    struct tr_memory_row rows[TR_MEMORY_ROWS + 3]; /* parts of memory; none: memory is a formula */
    size_t n_rows;

    double work_s;     /* of a micro-batch, computing */
    double far_bytes;  /* of a micro-batch, out of a node */
    double near_bytes; /* of a micro-batch, to a GPU from others of its node */
    double host_bytes; /* of a micro-batch, to a GPU from the host's memory */
    double step_bytes; /* of a step, out of a node: the adapters' gradients and copies, or weights
                          after an update */
    double step_near;  /* of a step, to a GPU from others of its node: the same of weights */
    double update_s;   /* of a step: the optimizer, where weights train */
    double disk_s;     /* of a step, in update_s: a node's disk reads its part, and writes it */
    double tokens;     /* of all ranks, a step */
    double read_bytes; /* of the checkpoint, that a node reads */
    int passes;

    /* The bytes of all ranks, as counters report them: gathers of the first micro-batches, choices
     * of each micro-batch, rows of one token, gradients and copies of a step. */
    struct tr_plan_moves gathers[TR_PLAN_FIRSTS], choices, token, adapters;
    struct tr_plan_moves embedding; /* of one token, if all tokens of a micro-batch differ */
    /* Weights that train: of a step's first micro-batch, of a later one; of a step. */
    struct tr_plan_moves gradients[2], updated;
};

/* Seconds of a layout. On GPUs links overlap with the computation; on the CPU they follow it. */
struct tr_plan_time {
    double moves_s; /* of a micro-batch: the slowest of its links */
    double step_s, tokens_s;
    const char *bound; /* the bottleneck: "computing", "network", "links inside a node", … */
};
struct tr_plan_time tr_plan_time(const struct tr_plan_layout *l, const struct tr_cluster *c,
                                 int64_t accumulation);

/* Weights that train; none: all zero. */
struct tr_plan_trained {
    double elements;
    double coded;                  /* of these, with moments of 8 bits if the job has some */
    double matrices;               /* of these, Muon's if the job has it */
    bool experts, embedding, head; /* whether some of routed experts, … are among them */
    double flops; /* operations of a token but for adapters, in place of tr_plan_flops */
};

struct tr_plan {
    struct tr_model_counts counts;
    double weights;     /* bytes of the frozen weights as they are stored */
    double experts;     /* of weights: routed experts */
    double floats;      /* weights that are not FP8 */
    double head, never; /* of weights: gathered once a micro-batch; never gathered */
    double adapters;    /* trainable parameters of adapters */
    struct tr_plan_trained trained;
    double flops;                    /* of a token, for a sample of cutoff tokens */
    struct tr_row_work rows_work;    /* of a micro-batch, on the CPU */
    struct tr_plan_spread all, node; /* experts over all ranks; over those of a node */
    double checkpoint;               /* bytes of the adapter, or the model, and the state */
    struct tr_plan_layout layouts[TR_PLAN_KINDS];
    size_t n;
    int best;           /* index of the fastest layout that is implemented and fits; -1: none */
    int asked;          /* index of the job's layout; -1: unknown */
    double wins_tokens; /* T above which experts over all ranks move more bytes than ZeRO-3; 0:
                           there is no such layout */
};

/* Plans all layouts. FR_USAGE: an impossible description; FR_UNSUPPORTED as tr_model_create. */
enum fr_rc tr_plan_make(const struct tr_plan_job *job, const struct tr_cluster *cluster,
                        struct tr_plan *out, struct fr_err *err);

/* ---- parts of tr_plan_make ---- */

/* A simulation: 20,000 tokens choose K of E experts by scores of equal distribution, in the best
 * groups if the router has groups. nodes * gpus ranks own neighbouring experts. */
enum fr_rc tr_plan_spread(const struct tr_model_config *c, int64_t nodes, int64_t gpus,
                          struct tr_plan_spread *out, struct fr_err *err);

/* The number of trainable parameters. */
enum fr_rc tr_plan_adapters(const struct tr_plan_job *job, double *out, struct fr_err *err);

/* How often each of the TR_PLAN_FIRSTS comes in a run of so many steps and micro-batches a step. */
void tr_plan_times(const struct tr_plan_job *job, double steps, double micros,
                   double times[TR_PLAN_FIRSTS]);

/* Operations of a token, on average over a sample of job->cutoff tokens, with `adapters` trainable
 * parameters. */
double tr_plan_flops(const struct tr_plan_job *job, const struct tr_model_counts *n,
                     double adapters);

/* Of these, attention's own in the layers [first, last), forward. */
double tr_plan_core(const struct tr_model_config *c, double tokens, int64_t first, int64_t last);

/* Operations of a frozen head for a token, on average: 4VH if it has a target, else 0. */
double tr_plan_head_flops(const struct tr_plan_job *job);

/* With the optimizer in the host's memory: adds the way of gradients there, and sets the update,
 * the slower of the host's steps and of the weights' way back. */
void tr_plan_step_on_host(const struct tr_plan_job *job, const struct tr_cluster *c,
                          struct tr_plan_layout *l);

/* With Muon: adds the ways of its matrices and its products, of the busiest node and rank. */
void tr_plan_step_matrices(const struct tr_plan *p, const struct tr_cluster *c,
                           struct tr_plan_layout *l);

/* Bytes of a checkpoint: what is saved, adapters and what trains beside them in f32, and the
 * optimizer's state. Of *p weights, floats, adapters and trained are set. */
double tr_plan_checkpoint(const struct tr_plan_job *job, const struct tr_plan *p);

/* Of job->trained, which is not NULL. */
enum fr_rc tr_plan_trained(const struct tr_plan_job *job, struct tr_plan_trained *out,
                           struct fr_err *err);

/* Fills memory, host, disk, rows, flat to fetched of l for rank 0, with the distribution l->way. */
enum fr_rc tr_plan_memory(const struct tr_plan_job *job, const struct tr_cluster *cluster,
                          struct tr_plan_layout *l, struct fr_err *err);

/* The backend and the clock of a measurement. */
struct tr_plan_bench {
    struct tr_backend *be; /* borrowed */
    double (*now_s)(void);
    double seconds; /* all ranks of a machine measure at once for so long; 0: one rank alone */
};

/* Measures flops, rows and draws of a backend, by products of the job's shapes and ops on as many
 * rows; 0 after an error. */
enum fr_rc tr_plan_rate(const struct tr_plan_job *job, const struct tr_plan_bench *on,
                        struct tr_gpu *out, struct fr_err *err);

/* As tr_plan_rate, of this machine's processors with OMP_NUM_THREADS threads. */
enum fr_rc tr_plan_cpu_rate(const struct tr_plan_job *job, double seconds, struct tr_gpu *out,
                            struct fr_err *err);

/* Seconds to write a checkpoint and to continue from one, and the best interval. */
struct tr_plan_care {
    double save_s, load_s;
    int64_t save_steps;
    double lost_s; /* lost by one failure, with save_steps */
};
struct tr_plan_care tr_plan_care(const struct tr_plan *p, const struct tr_plan_layout *l,
                                 const struct tr_cluster *c, double step_s);

#endif
