#include "trainer/train/evaluate.h"

#include "trainer/tensor/tensor.h"
#include "engine/base/sys.h"
#include "trainer/dataset/sampler.h"
#include "trainer/report/progress_log.h"

#include <math.h>
#include <string.h>

/* Sums of one batch, in this order. */
enum {
    SUM_LOSS, /* over its targets */
    SUM_TARGETS,
    SUM_HITS,
    SUM_ACCURACY, /* over its samples that have targets */
    SUM_SCORED,   /* how many these are */
    SUMS
};

/* One evaluation. A piece is what one call of the model computes: neighbours of one batch. */
struct job {
    const struct tr_eval_opts *o;
    int64_t n, batches;
    double *sums;           /* owns: (batches, SUMS), zero where other ranks compute */
    struct tr_sample *pick; /* owns: a piece */
    struct tr_batch packed; /* owns */
    double *loss;           /* owns: (tokens_max) */
    bool *hit;              /* owns: (tokens_max) */
};

/* Samples of the piece that begins at sample i, of a batch that ends before end. */
static int64_t piece(const struct job *j, int64_t i, int64_t end)
{
    int64_t n = 0, tokens = 0, examples = 0;

    for (; i + n < end; n++) {
        struct tr_sample s = tr_dataset_at(j->o->data, i + n);

        tokens += s.n;
        examples += s.parts;
        if (n > 0 && (tokens > j->o->tokens_max || examples > j->o->samples_max))
            break;
    }
    return n;
}

static int64_t batch_end(const struct job *j, int64_t batch)
{
    int64_t end = (batch + 1) * j->o->batch;

    return end < j->n ? end : j->n;
}

/* Calls of the model for one batch. */
static int64_t pieces(const struct job *j, int64_t batch)
{
    int64_t count = 0, end = batch < j->batches ? batch_end(j, batch) : 0;

    for (int64_t i = batch * j->o->batch; i < end; i += piece(j, i, end))
        count++;
    return count;
}

/* The tokens [begin, end) of the call, which are one sample. */
static void add_sample(const struct job *j, int64_t begin, int64_t end, double *sums)
{
    const struct tr_batch *b = &j->packed;
    double targets = 0, hits = 0;

    for (int64_t t = begin; t < end; t++) {
        if (b->targets[t] < 0)
            continue;
        targets++;
        hits += j->hit[t];
        sums[SUM_LOSS] += j->loss[t];
    }
    sums[SUM_TARGETS] += targets;
    sums[SUM_HITS] += hits;
    if (targets > 0) {
        sums[SUM_ACCURACY] += hits / targets;
        sums[SUM_SCORED]++;
    }
}

/* n samples from sample i, of this batch; none: this rank takes part in the collectives alone. */
static enum fr_rc one_call(struct job *j, int64_t i, int64_t n, double *sums, struct fr_err *err)
{
    static const int32_t none = TR_IGNORE;
    struct tr_batch *b = &j->packed;
    struct tr_micro mb = {.offsets = (const int64_t[]){0}, .targets = &none};
    struct tr_token_scores scores = {j->loss, j->hit};
    enum fr_rc rc = FR_OK;

    for (int64_t k = 0; k < n; k++)
        j->pick[k] = tr_dataset_at(j->o->data, i + k);
    if (n > 0 && (rc = tr_batch_pack(j->pick, n, b, err)) == FR_OK)
        mb = (struct tr_micro){.T = b->tokens,
                               .B = b->samples,
                               .ids = b->ids,
                               .pos = b->pos,
                               .targets = b->targets,
                               .offsets = b->attn_offsets};
    if (rc == FR_OK)
        rc = tr_model_score(j->o->model, &mb, &scores, err);
    for (int64_t k = 0, t = 0; k < n && rc == FR_OK; t += j->pick[k++].n)
        add_sample(j, t, t + j->pick[k].n, sums);
    return rc;
}

/* The batches first .. first+W, one a rank. All ranks make as many calls as the largest needs. */
static enum fr_rc one_round(struct job *j, int64_t first, struct fr_err *err)
{
    int64_t mine = first + j->o->comm->rank, calls = 0;
    int64_t end = mine < j->batches ? batch_end(j, mine) : 0, i = mine * j->o->batch;
    double none[SUMS] = {0}, *sums = mine < j->batches ? j->sums + mine * SUMS : none;
    enum fr_rc rc = FR_OK;

    for (int64_t b = first; b < first + j->o->comm->size; b++) {
        int64_t n = pieces(j, b);

        calls = n > calls ? n : calls;
    }
    for (; calls > 0 && rc == FR_OK; calls--) {
        int64_t n = i < end ? piece(j, i, end) : 0;

        rc = one_call(j, i, n, sums, err);
        i += n;
    }
    return rc;
}

static enum fr_rc begin(struct job *j, struct fr_err *err)
{
    const struct tr_eval_opts *o = j->o;
    size_t tokens = (size_t)o->tokens_max + 1, sums = (size_t)j->batches * SUMS;

    if (tr_dataset_longest(o->data) > o->tokens_max)
        return fr_fail(err, FR_USAGE, "a sample has %lld tokens, the model was made for %lld",
                       (long long)tr_dataset_longest(o->data), (long long)o->tokens_max);
    j->sums = fr_sys.alloc((sums + 1) * sizeof(*j->sums));
    j->pick = fr_sys.alloc((size_t)o->samples_max * sizeof(*j->pick));
    j->loss = fr_sys.alloc(tokens * sizeof(*j->loss));
    j->hit = fr_sys.alloc(tokens * sizeof(*j->hit));
    if (j->sums == NULL || j->pick == NULL || j->loss == NULL || j->hit == NULL)
        return fr_fail(err, FR_NOMEM, "no memory to evaluate %lld samples", (long long)j->n);
    memset(j->sums, 0, sums * sizeof(*j->sums));
    return FR_OK;
}

/* All but one rank add zeros: nothing is rounded. */
static enum fr_rc share_sums(struct job *j, struct fr_err *err)
{
    size_t n = (size_t)j->batches * SUMS, most = 12 * SUMS;
    enum fr_rc rc = FR_OK;

    for (size_t at = 0; at < n && rc == FR_OK; at += most)
        rc = tr_comm_host_sum(j->o->comm, j->sums + at, n - at < most ? n - at : most, err);
    return rc;
}

static double share(double sum, double n)
{
    return n > 0 ? sum / n : NAN;
}

static void conclude(const struct job *j, struct tr_eval_result *out)
{
    double loss = 0, weight = 0, all[SUMS] = {0};

    for (int64_t b = 0; b < j->batches; b++) {
        const double *s = j->sums + b * SUMS;
        int64_t end = j->o->whole ? (b + 1) * j->o->batch : batch_end(j, b);
        double samples = (double)(end - b * j->o->batch);

        for (int k = 0; k < SUMS; k++)
            all[k] += s[k];
        if (s[SUM_TARGETS] > 0) {
            loss += samples * (s[SUM_LOSS] / s[SUM_TARGETS]);
            weight += samples;
        }
    }
    *out = (struct tr_eval_result){
        .loss = share(loss, weight),
        .accuracy = share(all[SUM_ACCURACY], all[SUM_SCORED]),
        .token_loss = share(all[SUM_LOSS], all[SUM_TARGETS]),
        .token_accuracy = share(all[SUM_HITS], all[SUM_TARGETS]),
        .samples = j->n,
        .batches = j->batches,
        .targets = (int64_t)all[SUM_TARGETS],
        .unscored = j->n - (int64_t)all[SUM_SCORED],
    };
}

enum fr_rc tr_evaluate(const struct tr_eval_opts *o, struct tr_eval_result *out, struct fr_err *err)
{
    int64_t n = tr_dataset_size(o->data), began = fr_sys.mono_ms();
    struct job j = {.o = o, .n = n, .batches = tr_div_up(n, o->batch)};
    struct tr_progress_log log = tr_progress_log_begin("Evaluation", "batches", j.batches);
    enum fr_rc rc = begin(&j, err);

    for (int64_t b = 0; b < j.batches && rc == FR_OK; b += o->comm->size) {
        rc = one_round(&j, b, err);
        if (o->comm->rank == 0)
            (void)tr_progress_log_at(&log, b + o->comm->size);
    }
    if (rc == FR_OK)
        rc = share_sums(&j, err);
    if (rc == FR_OK) {
        conclude(&j, out);
        out->seconds = (double)(fr_sys.mono_ms() - began) / 1000;
    }
    fr_sys.free(j.sums);
    fr_sys.free(j.pick);
    fr_sys.free(j.loss);
    fr_sys.free(j.hit);
    tr_batch_finish(&j.packed);
    return rc;
}
