/*
 * Evaluations against the scores of each sample by itself: every figure of evaluate.h by its words,
 * for batches of several sizes, with samples and whole batches that have no target, on several
 * ranks.
 */
#include "tests/unit/check.h"
#include "tests/unit/trainer/comm/ranks.h"
#include "tests/unit/trainer/train/score_data.h"
#include "trainer/train/evaluate.h"
#include "trainer/train/infer.h"
#include "trainer/train/setup.h"

#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/base/sys.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

enum { SAMPLES = 14, TOKENS = 24 };

/* Tokens of each sample, and how many of them behind the first are no targets; more: none is. */
static const int64_t lengths[SAMPLES] = {5, 9, 3, 12, 4, 7, 1, 6, 2, 8, 10, 5, 3, 11};
static const int64_t prompts[SAMPLES] = {0, 4, 9, 2, 3, 9, 0, 9, 0, 3, 0, 1, 9, 4};

/* What the model says of each. */
struct scored {
    double loss, targets, hits;
};

static void score_each(struct tr_model *m, const struct tr_dataset *d, struct scored out[SAMPLES])
{
    for (int64_t i = 0; i < SAMPLES; i++) {
        struct tr_sample s = tr_dataset_at(d, i);
        int32_t pos[TOKENS], targets[TOKENS];
        int64_t offsets[] = {0, s.n};
        double loss[TOKENS];
        bool hit[TOKENS];
        struct tr_micro mb = {
            .T = s.n, .B = 1, .ids = s.ids, .pos = pos, .targets = targets, .offsets = offsets};
        struct fr_err err = {0};

        for (int64_t k = 0; k < s.n; k++) {
            pos[k] = (int32_t)k;
            targets[k] = k + 1 < s.n ? s.labels[k + 1] : TR_IGNORE;
        }
        CHECK_INT(tr_model_score(m, &mb, &(struct tr_token_scores){loss, hit}, &err), FR_OK);
        out[i] = (struct scored){0};
        for (int64_t k = 0; k < s.n; k++)
            if (targets[k] != TR_IGNORE) {
                out[i].loss += loss[k];
                out[i].targets++;
                out[i].hits += hit[k];
            }
    }
}

static bool same(double a, double b)
{
    return (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-5 * fabs(b);
}

static void check(const struct tr_eval_result *got, const struct scored *s, int64_t batch,
                  bool whole)
{
    struct scored all = {0};
    double loss = 0, weight = 0, accuracy = 0, with = 0;

    for (int64_t from = 0; from < SAMPLES; from += batch) {
        struct scored b = {0};
        int64_t end = from + batch < SAMPLES ? from + batch : SAMPLES;
        double n = (double)(whole ? batch : end - from);

        for (int64_t i = from; i < end; i++) {
            b.loss += s[i].loss;
            b.targets += s[i].targets;
            all.hits += s[i].hits;
            accuracy += s[i].targets > 0 ? s[i].hits / s[i].targets : 0;
            with += s[i].targets > 0;
        }
        all.loss += b.loss;
        all.targets += b.targets;
        if (b.targets > 0) {
            loss += n * b.loss / b.targets;
            weight += n;
        }
    }
    CHECK(all.hits > 3 && all.hits < all.targets);
    CHECK(same(got->loss, loss / weight));
    CHECK(same(got->accuracy, accuracy / with));
    CHECK(same(got->token_loss, all.loss / all.targets));
    CHECK(same(got->token_accuracy, all.hits / all.targets));
    CHECK_INT(got->samples, SAMPLES);
    CHECK_INT(got->batches, (SAMPLES + batch - 1) / batch);
    CHECK_INT(got->targets, all.targets);
    CHECK_INT(got->unscored, SAMPLES - (int64_t)with);
}

static int64_t clock_ms;

static int64_t ticking_ms(void)
{
    return clock_ms += 10;
}

static void evaluate(struct tr_model *m, struct tr_comm *comm, const struct tr_dataset *d)
{
    static const int64_t batches[] = {1, 2, 3, 4, SAMPLES, 100};
    struct scored s[SAMPLES];

    score_each(m, d, s);
    for (size_t i = 0; i < sizeof(batches) / sizeof(batches[0]); i++)
        for (int k = 0; k < 4; k++) {
            struct tr_eval_opts o = {.model = m,
                                     .comm = comm,
                                     .data = d,
                                     .batch = batches[i],
                                     .tokens_max = TOKENS,
                                     .samples_max = k < 2 ? 2 : 4,
                                     .whole = k % 2 == 1};
            struct tr_eval_result got = {0};
            struct fr_err err = {0};
            char row[60];

            snprintf(row, sizeof(row), "batches of %d, at most %d at once%s", (int)o.batch,
                     (int)o.samples_max, o.whole ? ", the last one whole" : "");
            check_row(row);
            fr_sys.mono_ms = ticking_ms;
            clock_ms = 100000;
            if (!CHECK_INT(tr_evaluate(&o, &got, &err), FR_OK))
                printf("   %s\n", err.msg);
            fr_sys.mono_ms = fr_sys_real.mono_ms;
            CHECK(fabs(got.seconds - (double)(clock_ms - 100010) / 1000) < 1e-9);
            check(&got, s, o.batch, o.whole);
        }
    check_row("");
}

/* ---- ranks ---- */

struct part {
    const char *dir;
    const struct tr_dataset *d;
    int64_t batch;
    struct tr_eval_result got;
    json_t *figures; /* owns: of the evaluation inside of a training */
    int failed;
};

static _Atomic int64_t shared_ms;

static int64_t seconds_ms(void)
{
    return shared_ms += 1000;
}

/* The same as a training has it. */
static enum fr_rc evaluate_inside(struct part *p, struct tr_model *m, struct tr_comm *comm,
                                  struct fr_err *err)
{
    struct tr_args a = {.per_device_eval_batch_size = p->batch, .compute_accuracy = true};
    struct tr_eval_set set = {.name = "odd", .data = (struct tr_dataset *)p->d};
    struct tr_run r = {.args = &a,
                       .env = {.comm = comm},
                       .model = m,
                       .evals = &set,
                       .nevals = 1,
                       .derived = {.micro_shown = 4},
                       .progress = {.epoch = 1, .micro = 3, .history = json_array()},
                       .metrics = {.quiet = true},
                       .tokens_max = TOKENS,
                       .samples_max = 2};
    enum fr_rc rc = tr_run_evaluate(&r, &p->figures, err);

    p->failed += json_array_size(r.progress.history) != 1;
    json_decref(r.progress.history);
    return rc;
}

static void body(struct rank_self *self, void *arg)
{
    struct part *p = arg;
    struct fr_err err = {0};
    struct tr_infer_opts o = {.model_dir = p->dir,
                              .compute = TR_F32,
                              .tokens_max = TOKENS,
                              .samples_max = 2,
                              .score = true};
    struct tr_infer x = {.model = NULL};
    struct tr_comm comm;

    p->failed += tr_cpu_create(&o.be, &err) != FR_OK;
    comm = ranks_comm(self, o.be);
    o.comm = &comm;
    p->failed += tr_infer_open(&x, &o, &err) != FR_OK;
    struct tr_eval_opts e = {.model = x.model,
                             .comm = &comm,
                             .data = p->d,
                             .batch = p->batch,
                             .tokens_max = TOKENS,
                             .samples_max = 2};
    p->failed += tr_evaluate(&e, &p->got, &err) != FR_OK;
    p->failed += evaluate_inside(p, x.model, &comm, &err) != FR_OK;
    if (p->failed > 0)
        printf("rank %d: %s\n", self->rank, err.msg);
    tr_infer_finish(&x);
    tr_backend_destroy(o.be);
}

static double figure(const struct part *p, const char *key)
{
    return json_number_value(json_object_get(p->figures, key));
}

/* Whole batches count for the loss inside of a training; a step is a batch of each rank. */
static void check_figures(const struct part *p, int W, const struct scored *each)
{
    struct tr_eval_result got = p->got;
    double runtime = figure(p, "eval_odd_runtime");
    double steps = (double)((SAMPLES + p->batch * W - 1) / (p->batch * W));

    got.loss = figure(p, "eval_odd_loss");
    got.accuracy = figure(p, "eval_odd_accuracy");
    check(&got, each, p->batch, true);
    CHECK(runtime >= 1 && runtime < 1000);
    CHECK(fabs(figure(p, "eval_odd_steps_per_second") - steps / runtime) <= 0.00051);
    CHECK(fabs(figure(p, "eval_odd_samples_per_second") - SAMPLES / runtime) <= 0.00051);
    CHECK(figure(p, "epoch") == 1.75);
    CHECK_INT(json_object_size(p->figures), 6);
}

/* Each rank has the figures of all, with more ranks than batches too. */
static void test_ranks(const char *dir, const struct tr_dataset *d, const struct scored *each)
{
    static const int64_t batches[] = {1, 2, 4, SAMPLES};

    for (int W = 2; W <= 3; W++)
        for (size_t i = 0; i < sizeof(batches) / sizeof(batches[0]); i++) {
            struct part p[3] = {{.failed = 0}};
            void *args[3];
            char row[60];

            snprintf(row, sizeof(row), "%d ranks, batches of %d", W, (int)batches[i]);
            check_row(row);
            for (int k = 0; k < W; k++) {
                p[k] = (struct part){.dir = dir, .d = d, .batch = batches[i]};
                args[k] = &p[k];
            }
            fr_sys.mono_ms = seconds_ms;
            shared_ms = 0;
            ranks_run(W, body, args);
            fr_sys.mono_ms = fr_sys_real.mono_ms;
            for (int k = 0; k < W; k++) {
                check_figures(&p[k], W, each);
                json_decref(p[k].figures);
                CHECK_INT(p[k].failed, 0);
                check(&p[k].got, each, batches[i], false);
                CHECK(p[k].got.loss == p[0].got.loss);
            }
        }
    check_row("");
}

/* ---- what goes wrong ---- */

static size_t left;
static void *(*own_alloc)(size_t n);

static void *alloc_others(size_t n)
{
    return left-- == 0 ? NULL : own_alloc(n);
}

static void test_wrong(struct tr_model *m, struct tr_comm *comm, const struct tr_dataset *d)
{
    struct tr_eval_opts o = {
        .model = m, .comm = comm, .data = d, .batch = 2, .tokens_max = 12, .samples_max = 4};
    struct tr_eval_result got;
    struct fr_err err = {0};
    bool done = false;

    check_row("as long as the model allows");
    CHECK_INT(tr_evaluate(&o, &got, &err), FR_OK);
    check_row("a sample that is too long");
    o.tokens_max = 11;
    CHECK_INT(tr_evaluate(&o, &got, &err), FR_USAGE);
    CHECK_TEXT(err.msg, "a sample has 12 tokens, the model was made for 11");
    check_row("no memory");
    o.tokens_max = TOKENS;
    own_alloc = fr_sys.alloc;
    fr_sys.alloc = alloc_others;
    for (size_t n = 0; n < 1000 && !done; n++) {
        err = (struct fr_err){0};
        left = n;
        done = tr_evaluate(&o, &got, &err) == FR_OK;
        CHECK(done || err.rc == FR_NOMEM);
    }
    fr_sys.alloc = own_alloc;
    CHECK(done);
}

/* ---- how far it is ---- */

static int64_t jumping_ms(void)
{
    static int64_t ms;

    return ms += 6000;
}

static void hear(void *arg, int fd, const char *text, size_t n)
{
    (void)fd;
    fr_buf_add(arg, text, n);
}

static int no_error(void *arg)
{
    (void)arg;
    return 0;
}

static void test_pace(struct tr_model *m, struct tr_comm *comm, const struct tr_dataset *d)
{
    struct tr_eval_opts o = {
        .model = m, .comm = comm, .data = d, .batch = 5, .tokens_max = TOKENS, .samples_max = 4};
    int64_t (*clock)(void) = fr_sys.mono_ms;
    struct fr_buf said = {0};
    struct fr_printer before = fr_print_by(&(struct fr_printer){hear, no_error, &said});
    struct tr_eval_result got;
    struct fr_err err;

    check_row("pace");
    fr_sys.mono_ms = jumping_ms;
    CHECK_INT(tr_evaluate(&o, &got, &err), FR_OK);
    fr_sys.mono_ms = clock;
    (void)fr_print_by(before.put != NULL ? &before : NULL);
    CHECK(said.n > 0 && strstr(said.p, "Evaluation: 0 of") == NULL);
    CHECK(said.n > 0 && strstr(said.p, "Evaluation: 1 of 3 batches, ") != NULL);
    CHECK(said.n > 0 && strstr(said.p, "Evaluation: 2 of 3 batches, ") != NULL);
    CHECK(got.seconds >= 12 && got.seconds < 120 && fmod(got.seconds, 6) == 0);
    fr_buf_finish(&said);
}

/* The files of a golden model without the adapter that lies beside them. */
static void link_model(const char *dir)
{
    static const char *const own[] = {"config.json", "model.safetensors"};
    char from[400], to[100];

    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        snprintf(from, sizeof(from), SOURCE_ROOT "/tests/golden/dense/llama_plain/%s", own[i]);
        snprintf(to, sizeof(to), "%s/%s", dir, own[i]);
        CHECK_INT(symlink(from, to), 0);
    }
}

int main(void)
{
    char dir[] = "/tmp/score_test.XXXXXX";
    struct tr_infer_opts o = {
        .model_dir = dir, .compute = TR_F32, .tokens_max = TOKENS, .samples_max = 4, .score = true};
    struct tr_infer x = {.model = NULL};
    struct tr_dataset *d = score_data(lengths, prompts, SAMPLES);
    struct fr_err err = {0};

    CHECK(mkdtemp(dir) != NULL);
    link_model(dir);
    fr_log_level(FR_LOG_WARN);
    if (CHECK_INT(tr_cpu_create(&o.be, &err), FR_OK) &&
        CHECK_INT(tr_comm_single(o.be, &o.comm, &err), FR_OK) &&
        CHECK_INT(tr_infer_open(&x, &o, &err), FR_OK)) {
        struct scored each[SAMPLES];

        evaluate(x.model, o.comm, d);
        test_wrong(x.model, o.comm, d);
        test_pace(x.model, o.comm, d);
        score_each(x.model, d, each);
        test_ranks(dir, d, each);
    } else {
        printf("   %s\n", err.msg);
    }
    tr_infer_finish(&x);
    tr_comm_destroy(o.comm);
    tr_backend_destroy(o.be);
    tr_dataset_destroy(d);
    CHECK_INT(fr_remove_tree(dir, NULL), FR_OK);
    return check_done();
}
