/* Rotary frequencies and softmax scale: DeepSeek-V3 (671B config), plain and YaRN; Llama 3. */
#include "tests/unit/check.h"
#include "trainer/model/rope.h"

#include <math.h>

static const struct tr_rope_config yarn = {.theta = 10000,
                                           .kind = TR_ROPE_YARN,
                                           .factor = 40,
                                           .beta_fast = 32,
                                           .beta_slow = 1,
                                           .mscale = 1,
                                           .mscale_all_dim = 1,
                                           .original_max_positions = 4096,
                                           .truncate = true,
                                           .interleave = true};

/* Where the ramp lies: pairs 11 to 22. Below it the plain frequency, above it a fortieth. */
static const double ramp[] = {0.0390069266,  0.0268793601,   0.0183781462,   0.0124479559,
                              0.00833450895, 0.0055,         0.00356199749,  0.0022493653,
                              0.00137051364, 0.000790569415, 0.000414990398, 0.000177827941};

static void check_yarn(void)
{
    double inv[32];

    check_row("yarn");
    tr_rope_frequencies(&yarn, 64, inv);
    for (int i = 0; i < 32; i++) {
        double plain = pow(10000, -i / 32.0);
        double want = i <= 10 ? plain : i >= 23 ? plain / 40 : ramp[i - 11];

        CHECK(fabs(inv[i] - want) <= 1e-7 * want);
    }
    CHECK(fabs(tr_rope_attention_factor(&yarn) - 1) < 1e-15);
}

static void check_factor(void)
{
    struct tr_rope_config r = yarn;

    check_row("attention factor");
    r.mscale = r.mscale_all_dim = 0;
    CHECK(fabs(tr_rope_attention_factor(&r) - 1.368887945411) < 1e-9);
    r.mscale = 0.5;
    r.mscale_all_dim = 1;
    CHECK(fabs(tr_rope_attention_factor(&r) - 1.1844439727 / 1.368887945411) < 1e-9);
    r.attention_factor = 1.25;
    CHECK(fabs(tr_rope_attention_factor(&r) - 1.25) < 1e-15);
    r.kind = TR_ROPE_DEFAULT;
    CHECK(fabs(tr_rope_attention_factor(&r) - 1) < 1e-15);
}

static void check_scale(void)
{
    struct tr_model_config c = {.qk_nope_head_dim = 128, .qk_rope_head_dim = 64, .rope = yarn};

    check_row("softmax scale");
    CHECK(fabs(tr_rope_softmax_scale(&c) - 0.135233778861) < 1e-9);
    c.rope.mscale_all_dim = 0;
    CHECK(fabs(tr_rope_softmax_scale(&c) - 0.072168783649) < 1e-9);
    c.rope = (struct tr_rope_config){.theta = 10000};
    CHECK(fabs(tr_rope_softmax_scale(&c) - 0.072168783649) < 1e-9);
}

/* beta_fast = beta_slow, as in other models of the family: the ramp is a step of width 0.001. */
static void check_step(void)
{
    struct tr_rope_config r = yarn;
    double inv[32];
    int scaled = 0;

    check_row("step");
    r.beta_fast = r.beta_slow = 1;
    r.theta = 50000;
    tr_rope_frequencies(&r, 64, inv);
    for (int i = 0; i < 32; i++) {
        double plain = pow(50000, -i / 32.0);
        bool low = fabs(inv[i] - plain / 40) < 1e-7 * plain;

        CHECK(low || fabs(inv[i] - plain) < 1e-7 * plain || i == 19 || i == 20);
        scaled += low;
    }
    CHECK(scaled >= 11 && scaled <= 13);
}

/* Where Llama 3.1 (heads of 128) and 3.2 (of 64) leave, blend and divide frequencies. */
static const struct {
    int64_t dr;
    double factor;
    int i;
    double inv;
} llama3[] = {
    {128, 8, 28, 0.00321144599},  {128, 8, 29, 0.00216657076},  {128, 8, 30, 0.00137189357},
    {128, 8, 31, 0.000856751413}, {128, 8, 32, 0.000524846161}, {128, 8, 33, 0.00031269375},
    {128, 8, 34, 0.000178507813}, {128, 8, 36, 7.78465527e-05}, {64, 32, 15, 0.00129054793},
    {64, 32, 16, 0.000429556797}, {64, 32, 17, 9.7082878e-05},  {64, 32, 20, 8.57025549e-06},
};

static void check_llama3(void)
{
    check_row("llama3");
    for (size_t k = 0; k < sizeof(llama3) / sizeof(llama3[0]); k++) {
        struct tr_rope_config r = {.theta = 500000,
                                   .kind = TR_ROPE_LLAMA3,
                                   .factor = llama3[k].factor,
                                   .low_freq_factor = 1,
                                   .high_freq_factor = 4,
                                   .original_max_positions = 8192};
        double inv[64];

        tr_rope_frequencies(&r, llama3[k].dr, inv);
        /* the recorded ones were computed in f32 */
        CHECK(fabs(inv[llama3[k].i] - llama3[k].inv) <= 1e-6 * llama3[k].inv);
    }
}

static void check_linear(void)
{
    struct tr_rope_config r = {.theta = 10000, .kind = TR_ROPE_LINEAR, .factor = 2.5};
    struct tr_model_config c = {.arch = TR_ARCH_llama, .head_dim = 64, .rope = r};
    struct fr_err err = {0};
    double inv[32];

    check_row("linear");
    tr_rope_frequencies(&r, 64, inv);
    for (int i = 0; i < 32; i++)
        CHECK(fabs(inv[i] - pow(10000, -i / 32.0) / 2.5) <= 1e-15);
    CHECK(tr_rope_softmax_scale(&c) == 0.125 && tr_rope_check(&c, 1 << 20, &err) == FR_OK);
    check_row("dynamic");
    c.rope.kind = TR_ROPE_DYNAMIC;
    c.max_position_embeddings = 100;
    tr_rope_frequencies(&c.rope, 64, inv);
    for (int i = 0; i < 32; i++)
        CHECK(fabs(inv[i] - pow(10000, -i / 32.0)) <= 1e-15);
    CHECK_INT(tr_rope_check(&c, 100, &err), FR_OK);
    CHECK_INT(tr_rope_check(&c, 101, &err), FR_UNSUPPORTED);
}

static void check_tables(void)
{
    static float cosines[5 * 32], sines[5 * 32];
    struct tr_view c = tr_view2(cosines, TR_F32, 5, 32), s = tr_view2(sines, TR_F32, 5, 32);

    check_row("tables");
    tr_rope_tables(&yarn, c, s);
    for (int i = 0; i < 32; i++)
        CHECK(cosines[i] == 1 && sines[i] == 0);
    CHECK(fabsf(cosines[4 * 32] - cosf(4)) < 1e-6F && fabsf(sines[4 * 32] - sinf(4)) < 1e-6F);
    CHECK(fabsf(sines[32 + 16] - 0.0055F) < 1e-7F);
}

int main(void)
{
    check_yarn();
    check_factor();
    check_scale();
    check_step();
    check_llama3();
    check_linear();
    check_tables();
    return check_done();
}
