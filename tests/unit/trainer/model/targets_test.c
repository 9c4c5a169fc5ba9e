/*
 * Micro-batches of which some tokens have no target: the head computes the others alone. Its loss,
 * scores and gradients, that of its input row by row, must be those that a micro-batch has whose
 * tokens all have a target. Each case is followed by the one of the other tokens: sums of both are
 * those of all. In double on the reference backend, in f32 and bf16 on the CPU; on ranks that have
 * different cases at once.
 */
#include "tests/ref/ref.h"
#include "tests/unit/check.h"
#include "tests/unit/trainer/comm/ranks.h"
#include "tests/unit/trainer/model/tiny_model.h"
#include "trainer/model/private.h"

#include <math.h>

enum { H = 12, V = 23, ELEMENTS = 256 };

static const struct {
    const char *name;
    bool has[TINY_T];
} cases[] = {
    {"all tokens", {1, 1, 1, 1, 1, 1, 1, 1, 1}},
    {"no token", {0}},
    {"the first token", {1}},
    {"all but the first", {0, 1, 1, 1, 1, 1, 1, 1, 1}},
    {"the last token", {0, 0, 0, 0, 0, 0, 0, 0, 1}},
    {"all but the last", {1, 1, 1, 1, 1, 1, 1, 1, 0}},
    {"the first segment", {1, 1, 1, 1}},
    {"the second segment", {0, 0, 0, 0, 1, 1, 1, 1, 1}},
    {"odd tokens", {0, 1, 0, 1, 0, 1, 0, 1}},
    {"even tokens", {1, 0, 1, 0, 1, 0, 1, 0, 1}},
};
enum { CASES = sizeof(cases) / sizeof(cases[0]) };

/* The lowest adapter is in the last block, which reads the gradient of the head's input and leaves
 * it as it is. */
static const struct tiny models[] = {
    {.kv_heads = 2, .lora = {"layers.2.mlp.down_proj"}},
    {.kv_heads = 2, .head_rows = 7, .lora = {"layers.2.mlp.down_proj"}},
    {.kv_heads = 2, .tied = true, .head_rows = 7, .lora = {"layers.2.mlp.down_proj"}},
};

/* What a micro-batch gives. */
struct result {
    double loss;
    double d[TINY_T][H]; /* gradient of the head's input */
    double grad[ELEMENTS];
    double token[TINY_T]; /* loss of each */
    bool hit[TINY_T];
};

struct job {
    enum tr_dtype type;
    struct tiny tiny;
    struct result of[CASES];
    int failed;
};

static struct tr_backend *ref, *cpu;

static int32_t targets[TINY_T];

static void set_targets(struct tiny_model *t, int which)
{
    for (int i = 0; i < TINY_T; i++)
        t->targets[i] = cases[which].has[i] ? targets[i] : -1 - i;
}

/* Every third target is the model's choice, as its logits say. */
static enum fr_rc choose(void *arg, const float *logits, int64_t col0, int64_t ncols,
                         struct fr_err *err)
{
    float *most = arg;

    (void)err;
    for (int64_t i = 0; i < TINY_T * ncols; i++) {
        int64_t t = i / ncols;

        if (t % 3 == 0 && (col0 + i % ncols == 0 || logits[i] > most[t])) {
            most[t] = logits[i];
            targets[t] = (int32_t)(col0 + i % ncols);
        }
    }
    return FR_OK;
}

static void choose_targets(struct rank_self *self, void *arg)
{
    struct job *j = arg;
    struct tr_comm comm = ranks_comm(self, ref);
    struct tiny_model t = {0};
    struct fr_err err = {0};
    float most[TINY_T];
    struct tr_logits logits = {choose, most};
    struct tr_micro mb;

    for (int i = 0; i < TINY_T; i++)
        targets[i] = (5 * i + 2) % V;
    j->failed = tiny_make(&t, &j->tiny, &comm, TR_F64, &err) != FR_OK;
    mb = tiny_micro(&t);
    mb.targets = NULL;
    j->failed = j->failed || tr_model_forward(t.model, &mb, &logits, &err) != FR_OK;
    tiny_finish(&t);
}

static void read_gradients(const struct tiny_model *t, struct result *r)
{
    struct tr_params p;

    tr_model_params(t->model, &p);
    for (int64_t e = 0; e < p.padded && e < ELEMENTS; e++)
        r->grad[e] = tr_get(p.grad, e);
    for (int64_t e = 0; e < TINY_T * (int64_t)H; e++)
        r->d[e / H][e % H] = tr_get(t->model->d, e);
}

/* The buffer of d holds anything before. */
static enum fr_rc run_case(struct tiny_model *t, struct result *r, struct fr_err *err)
{
    struct tr_micro mb = tiny_micro(t);
    struct tr_params p;
    enum fr_rc rc;

    tr_model_params(t->model, &p);
    memset(p.grad.p, 0, tr_view_bytes(p.grad));
    for (int64_t e = 0; e < tr_view_count(t->model->d); e++)
        tr_set(t->model->d, e, 1000);
    rc = tr_model_forward_backward(t->model, &mb, err);
    if (rc == FR_OK)
        rc = tr_model_take_loss(t->model, &r->loss, err);
    if (rc != FR_OK)
        return rc;
    read_gradients(t, r);
    return tr_model_score(t->model, &mb, &(struct tr_token_scores){r->token, r->hit}, err);
}

static void body(struct rank_self *self, void *arg)
{
    struct job *j = arg;
    struct tiny_model t = {0};
    struct fr_err err = {0};
    struct tr_comm comm = ranks_comm(self, j->type == TR_F64 ? ref : cpu);
    enum fr_rc rc = tiny_make(&t, &j->tiny, &comm, j->type, &err);

    for (int i = 0; i < CASES && rc == FR_OK; i++) {
        int which = (i + 3 * self->rank) % CASES;

        set_targets(&t, which);
        rc = run_case(&t, &j->of[which], &err);
    }
    if (rc != FR_OK)
        printf("rank %d: %s\n", self->rank, err.msg);
    j->failed = rc != FR_OK;
    tiny_finish(&t);
}

static void run(int W, enum tr_dtype type, const struct tiny *tiny, struct job *j)
{
    void *args[RANKS_MAX];

    for (int k = 0; k < W; k++) {
        j[k] = (struct job){.type = type, .tiny = *tiny};
        j[k].tiny.partition = W > 1;
        args[k] = &j[k];
    }
    ranks_run(W, body, args);
    for (int k = 0; k < W; k++)
        CHECK_INT(j[k].failed, 0);
}

/* Whether |x + y - want| <= error of |want|, 2-norms. */
static bool near(const double *x, const double *y, const double *want, int64_t n, double error)
{
    double far = 0, norm = 0;

    for (int64_t i = 0; i < n; i++) {
        double diff = x[i] + (y != NULL ? y[i] : 0) - want[i];

        far += diff * diff;
        norm += want[i] * want[i];
    }
    return norm > 0 && sqrt(far) <= error * sqrt(norm);
}

/* Row by row: what it would be were all tokens to have a target, or nothing. */
static void check_tokens(const struct result *r, const struct result *all, const bool *has,
                         double error)
{
    static const double zeros[H];

    for (int i = 0; i < TINY_T; i++) {
        if (!has[i]) {
            CHECK(memcmp(r->d[i], zeros, sizeof(zeros)) == 0);
            CHECK(r->token[i] == 0 && !r->hit[i]);
            continue;
        }
        CHECK(near(r->d[i], NULL, all->d[i], H, error));
        CHECK(near(&r->token[i], NULL, &all->token[i], 1, error));
        CHECK_INT(r->hit[i], all->hit[i]);
    }
}

static void check_type(const struct job *j, const struct job *exact, double error)
{
    const struct result *all = &j->of[0], *want = &exact->of[0];
    double sum = 0;
    int hits = 0;

    CHECK(near(&all->loss, NULL, &want->loss, 1, error));
    CHECK(near(all->grad, NULL, want->grad, ELEMENTS, error));
    CHECK(near(all->d[0], NULL, want->d[0], TINY_T * H, error));
    CHECK(near(all->token, NULL, want->token, TINY_T, error));
    for (int i = 0; i < TINY_T; i++) {
        sum += all->token[i];
        hits += all->hit[i];
    }
    CHECK(hits > 1 && hits < TINY_T);
    CHECK(near(&sum, NULL, &all->loss, 1, 1e-6));
    for (int i = 0; i < CASES; i++) {
        const struct result *r = &j->of[i], *other = &j->of[i ^ 1];

        check_row(cases[i].name);
        check_tokens(r, all, cases[i].has, error);
        CHECK(near(&r->loss, &other->loss, &all->loss, 1, error));
        CHECK(near(r->grad, other->grad, all->grad, ELEMENTS, error));
    }
}

/* Every rank has the bits of one alone, whatever the others have. */
static void check_ranks(const struct job *one, int W)
{
    struct job j[RANKS_MAX];

    run(W, one->type, &one->tiny, j);
    for (int k = 0; k < W; k++)
        for (int i = 0; i < CASES; i++) {
            check_row(cases[i].name);
            CHECK(memcmp(&j[k].of[i], &one->of[i], sizeof(one->of[i])) == 0);
        }
}

int main(void)
{
    static const struct {
        enum tr_dtype type;
        double error;
    } types[] = {{TR_F64, 1e-12}, {TR_F32, 1e-5}, {TR_BF16, 2e-2}};
    static struct job exact, one;
    struct fr_err err = {0};

    if (!CHECK_INT(tr_ref_create(&ref, &err), FR_OK) ||
        !CHECK_INT(tr_cpu_create(&cpu, &err), FR_OK))
        return check_done();
    for (size_t m = 0; m < sizeof(models) / sizeof(models[0]); m++) {
        exact.tiny = models[m];
        ranks_run(1, choose_targets, (void *[]){&exact});
        CHECK_INT(exact.failed, 0);
        run(1, TR_F64, &models[m], &exact);
        for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
            run(1, types[i].type, &models[m], &one);
            check_type(&one, &exact, types[i].error);
            check_ranks(&one, 2);
            check_ranks(&one, 3);
        }
    }
    tr_backend_destroy(ref);
    tr_backend_destroy(cpu);
    return check_done();
}
