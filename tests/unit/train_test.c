/* Learning rates, the loss scaler and event records against published vectors. */
#include "engine/base/str.h"
#include "tests/unit/check.h"
#include "trainer/train/metrics.h"
#include "trainer/train/scaler.h"
#include "trainer/train/schedule.h"
#include "trainer/train/tensorboard.h"

#include <math.h>

enum { POINTS = 12 };

static const struct {
    const char *name;
    enum tr_lr_type type;
    enum tr_ds_lr ds;
    bool ds_linear;
    int64_t warmup, total;
    double want[POINTS]; /* of updates 0, 1, …; negative: not looked at */
} rate_rows[] = {
    {"linear",
     TR_LR_LINEAR,
     TR_DS_LR_NONE,
     false,
     2,
     10,
     {0, .5, 1, .875, .75, .625, .5, .375, .25, .125, 0, 0}},
    {"cosine",
     TR_LR_COSINE,
     TR_DS_LR_NONE,
     false,
     2,
     10,
     {0, .5, 1, .96194, .853553, .691342, .5, .308658, .146447, .03806, 0, -1}},
    {"constant", TR_LR_CONSTANT, TR_DS_LR_NONE, false, 2, 10, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
    {"constant with warm-up",
     TR_LR_CONSTANT_WARMUP,
     TR_DS_LR_NONE,
     false,
     4,
     10,
     {0, .25, .5, .75, 1, 1, 1, 1, 1, 1, 1, 1}},
    {"warmup, stable, decay",
     TR_LR_WSD,
     TR_DS_LR_NONE,
     false,
     1,
     10,
     {0, 1, 1, 1, 1, .933013, .75, .5, .25, .066987, 0, 0}},
    {"WarmupDecayLR log",
     TR_LR_LINEAR,
     TR_DS_LR_WARMUP_DECAY,
     false,
     4,
     10,
     {0, 0, .5, .792481, 1, 1, .833333, .666667, .5, .333333, .166667, 0}},
    {"WarmupDecayLR linear",
     TR_LR_LINEAR,
     TR_DS_LR_WARMUP_DECAY,
     true,
     4,
     10,
     {0, 0, .25, .5, .75, 1, .833333, .666667, .5, .333333, .166667, 0}},
};

static void rates(void)
{
    for (size_t i = 0; i < sizeof(rate_rows) / sizeof(rate_rows[0]); i++) {
        struct tr_args a;
        tr_args_init(&a);
        a.learning_rate = 1;
        a.lr_scheduler_type = rate_rows[i].type;
        struct tr_ds_config ds = {.scheduler = rate_rows[i].ds,
                                  .warmup_max_lr = 1,
                                  .warmup_num_steps = rate_rows[i].warmup,
                                  .total_num_steps = rate_rows[i].total,
                                  .warmup_linear = rate_rows[i].ds_linear};
        struct tr_derived d = {.total_steps = rate_rows[i].total,
                               .warmup_steps = rate_rows[i].warmup};
        struct tr_schedule s;
        struct fr_err err;
        check_row(rate_rows[i].name);
        CHECK(tr_schedule_make(&a, &ds, &d, &s, &err) == FR_OK);
        for (int64_t k = 0; k < POINTS; k++)
            if (rate_rows[i].want[k] >= 0 &&
                !CHECK(fabs(tr_schedule_lr(&s, k) - rate_rows[i].want[k]) < 2e-6))
                printf("   update %d: %.7f, want %.7f\n", (int)k, tr_schedule_lr(&s, k),
                       rate_rows[i].want[k]);
        tr_args_finish(&a);
    }
}

static void schedule_kwargs(void)
{
    check_row("kwargs");
    struct tr_args a;
    struct fr_err err;
    struct tr_schedule s;
    struct tr_ds_config ds = {0};
    struct tr_derived d = {.total_steps = 10};
    tr_args_init(&a);
    a.lr_scheduler_kwargs = "{\"min_lr_rat\": 0.1}";
    CHECK_INT(tr_schedule_make(&a, &ds, &d, &s, &err), FR_USAGE);
    a.lr_scheduler_type = TR_LR_COSINE_MIN;
    a.learning_rate = 2e-4;
    a.lr_scheduler_kwargs = "{\"min_lr\": 2e-5}";
    CHECK_INT(tr_schedule_make(&a, &ds, &d, &s, &err), FR_OK);
    CHECK(fabs(tr_schedule_lr(&s, 10) - 2e-5) < 1e-12);
    tr_args_finish(&a);
}

/* The vector of DeepSpeed's scaler: power 16, hysteresis 2, window 3. */
static void scaler(void)
{
    static const int overflow[] = {1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0};
    static const int power[] = {16, 15, 14, 14, 14, 14, 15, 15, 15, 15, 15, 15, 15, 16};
    static const int hysteresis[] = {1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 2};
    struct tr_ds_config ds = {
        .initial_scale_power = 16, .loss_scale_window = 3, .hysteresis = 2, .min_loss_scale = 1};
    struct tr_scaler s;
    struct fr_err err;

    check_row("scaler");
    tr_scaler_init(&s, &ds, true);
    for (size_t i = 0; i < sizeof(overflow) / sizeof(overflow[0]); i++) {
        CHECK_INT(tr_scaler_update(&s, overflow[i] != 0, &err), FR_OK);
        CHECK(s.scale == ldexp(1, power[i]));
        CHECK_INT(s.hysteresis, hysteresis[i]);
    }
    s.scale = 1;
    s.hysteresis = 1;
    CHECK_INT(tr_scaler_update(&s, true, &err), FR_CORRUPT);
    tr_scaler_init(&s, &ds, false);
    CHECK(s.scale == 1 && tr_scaler_update(&s, false, &err) == FR_OK);
}

static void check_hex(struct fr_buf *event, const char *want)
{
    struct fr_buf frame = {0}, hex = {0};

    tr_events_frame(&frame, (struct fr_str){event->p, event->n});
    for (size_t i = 0; i < frame.n; i++)
        fr_buf_fmt(&hex, "%02x", (unsigned char)frame.p[i]);
    CHECK_TEXT(hex.p, want);
    fr_buf_finish(&frame);
    fr_buf_finish(&hex);
    fr_buf_finish(event);
}

static void events(void)
{
    struct fr_buf e = {0};

    check_row("event records");
    tr_events_version_event(&e, 1700000000.0);
    check_hex(&e, "1800000000000000a37f4b22090000"
                  "0040fc54d9411a0d627261696e2e4576656e743a32eced8f9d");
    tr_events_scalar_event(&e, 1700000001.5, 10, "train/loss", 1.5f);
    check_hex(&e, "200000000000000029eda9500900006040fc54d941100a2a130a110a0a74"
                  "7261696e2f6c6f7373150000c03fe6c90066");
    tr_events_text_event(&e, 1700000002.0, "args/text_summary", FR_STR("hello"));
    check_hex(&e, "3b000000000000001a23ac5c0900008040fc54d9412a300a2e0a1161726773"
                  "2f746578745f73756d6d617279420f0807120412020801420568656c6c6f4a080a060a"
                  "0474657874b8660d26");
}

static void floats(void)
{
    static const struct {
        double x;
        const char *text;
    } rows[] = {{4.98e-05, "4.98e-05"},  {1, "1.0"},      {0.1, "0.1"},       {0, "0.0"},
                {1.2345, "1.2345"},      {1e16, "1e+16"}, {0.0001, "0.0001"}, {-2.5, "-2.5"},
                {12345678, "12345678.0"}};
    char text[32];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        check_row(rows[i].text);
        tr_show_float(rows[i].x, text);
        CHECK_TEXT(text, rows[i].text);
    }
}

int main(void)
{
    rates();
    schedule_kwargs();
    scaler();
    events();
    floats();
    return check_done();
}
