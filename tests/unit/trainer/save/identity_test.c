/* The text by which a run is known again: every value that decides its steps stands in it, each
 * with a number of its own here. */
#include "tests/unit/check.h"
#include "trainer/save/identity.h"

static void set_args(struct tr_args *a)
{
    tr_args_init(a);
    a->seed = 11;
    a->data_seed = 12;
    a->cutoff_len = 13;
    a->learning_rate = 0.125;
    a->adam_beta1 = 0.5;
    a->adam_beta2 = 0.25;
    a->adam_epsilon = 0.0625;
    a->weight_decay = 0.75;
    a->warmup_steps = 14;
}

/* The difference from `want` is said, should there be one. */
static void check_identity(const char *row, const struct tr_identity *id, const char *want)
{
    static char got[TR_IDENTITY_TEXT];
    struct fr_err err = {0};

    check_row(row);
    CHECK_INT(tr_identity_config(id, got, &err), FR_OK);
    CHECK_TEXT(got, want);
}

#define ADAM                                                                                       \
    "--learning_rate=0.125\n--adam_beta1=0.5\n--adam_beta2=0.25\n--adam_epsilon=0.0625\n"          \
    "--weight_decay=0.75\ngradient clipping=1.5\n"

static void test_adapters(void)
{
    static const char *const targets[] = {"v_proj", "q_proj"};
    static const struct tr_lora_pattern ranks[] = {{"q", 3}}, alphas[] = {{"v", 5}, {"k", 0.5}};
    struct tr_args a;
    struct tr_derived d = {.total_batch = 24};
    struct tr_ds_config ds = {.precision = TR_PRECISION_FP16,
                              .loss_scale = 256,
                              .loss_scale_window = 31,
                              .hysteresis = 3,
                              .consecutive_hysteresis = true,
                              .min_loss_scale = 0.5,
                              .gradient_clipping = 1.5,
                              .scheduler = TR_DS_LR_WARMUP_COSINE,
                              .warmup_min_lr = 0.001,
                              .warmup_max_lr = 0.002,
                              .warmup_linear = true,
                              .warmup_min_ratio = 0.3,
                              .cos_min_ratio = 0.4};
    struct tr_lora_config l = {.r = 8,
                               .alpha = 16.5,
                               .dropout = 0.05,
                               .rslora = true,
                               .targets = targets,
                               .ntargets = 2,
                               .rank_pattern = ranks,
                               .nrank = 1,
                               .alpha_pattern = alphas,
                               .nalpha = 2};
    struct tr_identity id = {&a, &d, &ds, &l, false};

    set_args(&a);
    a.finetuning_type = "lora";
    a.packing = true;
    a.streaming = true;
    a.buffer_size = 15;
    a.val_size = 16;
    a.mix_strategy = TR_MIX_OVER;
    a.interleave_probs = "0.5,0.5";
    a.preprocessing_batch_size = 17;
    a.disable_shuffling = true;
    a.loraplus_lr_ratio = 18;
    a.lr_scheduler_type = TR_LR_COSINE;
    check_identity(
        "adapters", &id,
        "samples of a step=24\n--seed=11\n--data_seed=12\n--cutoff_len=13\n--packing=1\n"
        "--buffer_size=15\n--val_size=16\n--mix_strategy=2\n--interleave_probs=0.5,0.5\n"
        "--preprocessing_batch_size=17\n"
        "--lora_target=q_proj,v_proj\n--lora_rank=8\n--lora_alpha=16.5\n"
        "--lora_dropout=0.05\n--use_rslora=1\nrank_pattern=q: 3\n"
        "alpha_pattern=v: 5, k: 0.5\n" ADAM
        "precision=fp16\nloss_scale=256\nloss_scale_window=31\nhysteresis=3 consecutive\n"
        "min_loss_scale=0.5\n--disable_shuffling=1\n--dataloader_drop_last=0\n"
        "--lr_scheduler_type=cosine\nDeepSpeed scheduler=WarmupCosineLR\n"
        "--lr_scheduler_kwargs=none\n--warmup_steps=14\n--warmup_ratio=0\n"
        "warmup_min_lr=0.001\nwarmup_max_lr=0.002\nwarmup_type=linear\n"
        "warmup_min_ratio=0.3\ncos_min_ratio=0.4\n--loraplus_lr_ratio=18\n");
    tr_args_finish(&a);
}

static void test_weights(void)
{
    struct tr_args a;
    struct tr_derived d = {.total_batch = 6};
    struct tr_ds_config ds = {.precision = TR_PRECISION_BF16,
                              .communication = TR_PRECISION_FP16,
                              .gradient_clipping = 1.5};
    struct tr_identity id = {&a, &d, &ds, NULL, true};

    set_args(&a);
    a.finetuning_type = "freeze";
    a.freeze_trainable_layers = 19;
    a.freeze_trainable_modules = "mlp";
    a.freeze_extra_modules = NULL;
    a.dataloader_drop_last = true;
    a.lr_scheduler_type = TR_LR_LINEAR;
    a.lr_scheduler_kwargs = "{\"b\": 2, \"a\": 1}";
    a.warmup_ratio = 0.2;
    check_identity(
        "weights of some layers", &id,
        "samples of a step=6\n--seed=11\n--data_seed=12\n--cutoff_len=13\n"
        "--finetuning_type=freeze\n--freeze_trainable_layers=19\n"
        "--freeze_trainable_modules=mlp\n--freeze_extra_modules=none\n" ADAM
        "precision=bf16\nwire of gradients=fp16\n--disable_shuffling=0\n--dataloader_drop_last=1\n"
        "--lr_scheduler_type=linear\nDeepSpeed scheduler=none\n"
        "--lr_scheduler_kwargs={\"a\":1,\"b\":2}\n--warmup_steps=0\n"
        "--warmup_ratio=0.2\n");
    ds.precision = ds.communication = TR_PRECISION_FP32;
    a.finetuning_type = "full";
    a.lr_scheduler_kwargs = NULL;
    a.streaming = true; /* of one set, as it comes */
    a.buffer_size = 15;
    check_identity("all weights", &id,
                   "samples of a step=6\n--seed=11\n--data_seed=12\n--cutoff_len=13\n"
                   "--buffer_size=15\n--finetuning_type=full\n" ADAM
                   "precision=f32\n--disable_shuffling=0\n--dataloader_drop_last=1\n"
                   "--lr_scheduler_type=linear\nDeepSpeed scheduler=none\n"
                   "--lr_scheduler_kwargs=none\n--warmup_steps=0\n--warmup_ratio=0.2\n");
    tr_args_finish(&a);
}

/* Long values are known by their sum, so that they differ where their ends do. */
static void test_long(void)
{
    char text[2][300];
    struct tr_derived d = {.total_batch = 6};
    struct tr_ds_config ds = {.precision = TR_PRECISION_BF16};
    static char of[2][TR_IDENTITY_TEXT];
    struct fr_err err = {0};

    check_row("long values");
    for (int i = 0; i < 2; i++) {
        struct tr_args a;
        struct tr_identity id = {&a, &d, &ds, NULL, true};

        memset(text[i], 'm', sizeof(text[i]));
        text[i][sizeof(text[i]) - 2] = (char)('0' + i);
        text[i][sizeof(text[i]) - 1] = '\0';
        set_args(&a);
        a.finetuning_type = "freeze";
        a.freeze_trainable_modules = text[i];
        CHECK_INT(tr_identity_config(&id, of[i], &err), FR_OK);
        CHECK(strstr(of[i], "mmmm") == NULL);
        tr_args_finish(&a);
    }
    CHECK(strcmp(of[0], of[1]) != 0);
}

static void test_differences(void)
{
    static const struct {
        const char *there, *here, *want;
    } rows[] = {
        {"a=1\nb=2\n", "a=1\nb=3\n", "b is 2 there, 3 here"},
        {"a=1\n", "b=1\n", "b=1 is only here"},
        {"ab=1\n", "a=1\n", "a=1 is only here"},
        {"a=1\nx=1\nc=1\n", "a=1\nc=1\n", "x=1 is only there"},
        {"a=1\nc=1\n", "a=1\nx=1\nc=2\n", "x=1 is only here"},
        {"x=1\nc=1\n", "c=2\n", "c is 1 there, 2 here"},
        {"a=1\nb=1\n", "b=1\na=1\n", "the order of its values differs"},
        {"a=1\nb=2\n", "a=1\n", "b=2 is only there"},
        {"a=1\n", "a=1\nb=2\n", "b=2 is only here"},
        {"a=10\n", "a=1\n", "a is 10 there, 1 here"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fr_buf said = {0};

        check_row(rows[i].want);
        tr_identity_difference(rows[i].there, rows[i].here, &said);
        CHECK_TEXT(said.p, rows[i].want);
        fr_buf_finish(&said);
    }
}

int main(void)
{
    test_adapters();
    test_weights();
    test_long();
    test_differences();
    return check_done();
}
