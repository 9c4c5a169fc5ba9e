/* Learning rates, counted operations, the loss scaler and event records against the reference's
 * numbers; sums, result files and what makes a run the same run. */
#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/str.h"
#include "engine/base/sys.h"
#include "tests/unit/check.h"
#include "trainer/config/args_table.h"
#include "trainer/save/identity.h"
#include "trainer/train/loading.h"
#include "trainer/report/metrics.h"
#include "trainer/report/progress_log.h"
#include "trainer/optim/scaler.h"
#include "trainer/train/schedule.h"
#include "trainer/report/tensorboard.h"

#include <math.h>

static json_t *golden(void)
{
    struct fr_err err;
    json_t *root = NULL;

    if (!CHECK_INT(fr_json_load(SOURCE_ROOT "/tests/golden/trainer.json", 1 << 20, &root, &err),
                   FR_OK))
        printf("   %s\n", err.msg);
    return root;
}

static const char *text_of(const json_t *row, const char *key)
{
    return json_string_value(json_object_get(row, key));
}

static double number_of(const json_t *row, const char *key)
{
    return json_number_value(json_object_get(row, key));
}

static enum fr_rc take(struct tr_args *a, const char *flag, const char *value, struct fr_err *err)
{
    return tr_arg_set(a, tr_arg_find(flag, strlen(flag)), value, err);
}

/* Every rate of the row; a row without any is one that the reference refuses. */
static void compare(const struct tr_schedule *s, const json_t *want, enum fr_rc rc)
{
    size_t k;
    json_t *v;

    if (!json_is_array(want)) {
        CHECK_INT(rc, FR_USAGE);
        return;
    }
    if (!CHECK_INT(rc, FR_OK))
        return;
    CHECK(json_array_size(want) > 10);
    json_array_foreach(want, k, v)
    {
        double got = tr_schedule_lr(s, (int64_t)k), ref = json_number_value(v);
        if (!CHECK(fabs(got - ref) <= 1e-12 * fabs(ref) + 1e-18))
            printf("   update %zu: %.17g, want %.17g\n", k, got, ref);
    }
}

static void rates(const json_t *root)
{
    const json_t *rows = json_object_get(root, "schedules");
    size_t i;
    json_t *row;

    CHECK(json_array_size(rows) > 60);
    json_array_foreach(rows, i, row)
    {
        struct tr_args a;
        struct tr_ds_config ds = {0};
        struct tr_derived d = {.total_steps = (int64_t)number_of(row, "total"),
                               .warmup_steps = (int64_t)number_of(row, "warmup")};
        struct tr_schedule s;
        struct fr_err err;
        char *kwargs = json_dumps(json_object_get(row, "kwargs"), JSON_PRESERVE_ORDER);
        check_row(text_of(row, "name"));
        tr_args_init(&a);
        a.learning_rate = number_of(row, "lr");
        a.lr_scheduler_kwargs = kwargs;
        CHECK_INT(take(&a, "lr_scheduler_type", text_of(row, "type"), &err), FR_OK);
        compare(&s, json_object_get(row, "rates"), tr_schedule_make(&a, &ds, &d, &s, &err));
        tr_args_finish(&a);
        free(kwargs);
    }
}

static void deepspeed_rates(const json_t *root)
{
    const json_t *rows = json_object_get(root, "deepspeed");
    size_t i;
    json_t *row;

    CHECK(json_array_size(rows) > 5);
    json_array_foreach(rows, i, row)
    {
        struct tr_args a;
        struct tr_ds_config ds;
        struct tr_schedule s;
        struct tr_derived d = {.total_steps = 10};
        struct tr_ds_flags flags = {.args = &a, .world = 1, .hidden_size = 8};
        struct fr_err err;
        json_t *block = json_pack("{s:{s:i}, s:{s:O, s:O}}", "zero_optimization", "stage", 3,
                                  "scheduler", "type", json_object_get(row, "type"), "params",
                                  json_object_get(row, "params"));
        char *text = json_dumps(block, 0);
        check_row(text_of(row, "name"));
        tr_args_init(&a);
        a.learning_rate = number_of(row, "lr");
        if (!CHECK_INT(tr_ds_load(text, &flags, &ds, NULL, &err), FR_OK))
            printf("   %s\n", err.msg);
        compare(&s, json_object_get(row, "rates"), tr_schedule_make(&a, &ds, &d, &s, &err));
        tr_args_finish(&a);
        json_decref(block);
        free(text);
    }
}

static void bad_kwargs(void)
{
    static const struct {
        const char *type, *kwargs, *lr, *want;
    } rows[] = {
        {"cosine", "{\"min_lr_rat\": 0.1}", "1", "unknown key 'min_lr_rat', this schedule has num"},
        {"linear", "{\"power\": 2}", "1", "unknown key 'power', this schedule has none"},
        {"cosine", "[]", "1", "not a JSON object"},
        {"cosine", "{\"num_cycles\": \"1\"}", "1", "'num_cycles' is not a number"},
        {"warmup_stable_decay", "{\"decay_type\": \"log\"}", "1", "linear, cosine or 1-sqrt"},
        {"warmup_stable_decay", "{\"num_stable_steps\": -1}", "1", "expected 0 to 1e12"},
        {"cosine_with_min_lr", NULL, "1", "there is neither"},
        {"cosine_with_min_lr", "{\"min_lr\": 1, \"min_lr_rate\": 1}", "1", "not both"},
        {"cosine_with_min_lr", "{\"min_lr\": 1e-6}", "0", "--learning_rate, which is 0"},
        {"polynomial", NULL, "0", "lr_end (1e-07) must be smaller than --learning_rate (0)"},
        {"inverse_sqrt", "{\"timescale\": 0}", "1", "timescale must be above 0"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tr_args a;
        struct tr_schedule s;
        struct tr_ds_config ds = {0};
        struct tr_derived d = {.total_steps = 10};
        struct fr_err err = {.msg = ""};
        check_row(rows[i].want);
        tr_args_init(&a);
        CHECK_INT(take(&a, "lr_scheduler_type", rows[i].type, &err), FR_OK);
        CHECK_INT(take(&a, "learning_rate", rows[i].lr, &err), FR_OK);
        a.lr_scheduler_kwargs = rows[i].kwargs;
        CHECK_INT(tr_schedule_make(&a, &ds, &d, &s, &err), FR_USAGE);
        if (!CHECK(strstr(err.msg, rows[i].want) != NULL))
            printf("   %s\n", err.msg);
        tr_args_finish(&a);
    }
}

/* Which keys each schedule takes. */
static void known_kwargs(void)
{
    static const struct {
        const char *type, *want;
    } rows[] = {
        {"linear", "none"},
        {"cosine", "num_cycles"},
        {"cosine_with_restarts", "num_cycles"},
        {"polynomial", "power, lr_end"},
        {"inverse_sqrt", "timescale"},
        {"cosine_with_min_lr", "num_cycles, min_lr, min_lr_rate"},
        {"warmup_stable_decay", "num_cycles, min_lr_ratio, num_stable_steps, num_decay_steps, "
                                "warmup_type, decay_type"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tr_args a;
        struct tr_schedule s;
        struct tr_ds_config ds = {0}, own = {.scheduler = TR_DS_LR_WARMUP};
        struct tr_derived d = {.total_steps = 10};
        struct fr_err err = {.msg = ""};
        char want[200];
        check_row(rows[i].type);
        tr_args_init(&a);
        CHECK_INT(take(&a, "lr_scheduler_type", rows[i].type, &err), FR_OK);
        a.lr_scheduler_kwargs = "{\"x\": 1}";
        CHECK_INT(tr_schedule_make(&a, &ds, &d, &s, &err), FR_USAGE);
        (void)snprintf(want, sizeof(want),
                       "--lr_scheduler_kwargs: unknown key 'x', this schedule has %s",
                       rows[i].want);
        CHECK_TEXT(err.msg, want);
        CHECK_INT(tr_schedule_make(&a, &own, &d, &s, &err), FR_OK); /* DeepSpeed's is taken */
        tr_args_finish(&a);
    }
}

static double slope(const char *type, double p) /* from 0 to 1 */
{
    return strcmp(type, "linear") == 0   ? p
           : strcmp(type, "cosine") == 0 ? (1 - cos(M_PI * p)) / 2
                                         : 1 - sqrt(1 - p);
}

/* Rise, plateau, fall and rest of every pair of forms; the lengths as given and as they follow. */
static void stable(void)
{
    static const char *const forms[] = {"linear", "cosine", "1-sqrt"};
    static const struct {
        const char *name, *kwargs;
        int64_t stable, falling;
    } rows[] = {
        {"both", "\"num_stable_steps\": 5, \"num_decay_steps\": 6, ", 5, 6},
        {"stable", "\"num_stable_steps\": 5, ", 5, 12},
        {"decay", "\"num_decay_steps\": 6, ", 11, 6},
        {"neither", "", 5, 12},
        {"no plateau", "\"num_stable_steps\": 0, \"num_decay_steps\": 4, ", 0, 4},
        {"no fall", "\"num_stable_steps\": 3, \"num_decay_steps\": 0, ", 3, 0},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) * 9; i++) {
        const char *up = forms[i % 3], *down = forms[i / 3 % 3];
        int64_t n = rows[i / 9].stable, fall = rows[i / 9].falling;
        struct tr_args a;
        struct tr_schedule s;
        struct tr_ds_config ds = {0};
        struct tr_derived d = {.total_steps = 21, .warmup_steps = 4};
        struct fr_err err = {.msg = ""};
        char text[200];

        check_row(rows[i / 9].name);
        (void)snprintf(text, sizeof(text),
                       "{%s\"min_lr_ratio\": 0.1, \"warmup_type\": \"%s\", \"decay_type\": \"%s\"}",
                       rows[i / 9].kwargs, up, down);
        tr_args_init(&a);
        CHECK_INT(take(&a, "lr_scheduler_type", "warmup_stable_decay", &err), FR_OK);
        a.lr_scheduler_kwargs = text;
        a.learning_rate = 2;
        if (!CHECK_INT(tr_schedule_make(&a, &ds, &d, &s, &err), FR_OK))
            printf("   %s\n", err.msg);
        for (int64_t k = 0; k < 24; k++) {
            double p = fall > 0 ? (double)(k - 4 - n) / (double)fall : 1;
            double f = k < 4                         ? slope(up, (double)k / 4)
                       : k < 4 + n                   ? 1
                       : k >= 4 + n + fall           ? 0
                       : strcmp(down, "1-sqrt") == 0 ? 1 - sqrt(p)
                                                     : 1 - slope(down, p);

            CHECK(fabs(tr_schedule_lr(&s, k) - 2 * (0.1 + 0.9 * f)) < 1e-12);
        }
        tr_args_finish(&a);
    }
}

/* DeepSpeed's fall in one step, and what a schedule is when no step is left. */
static void short_falls(void)
{
    static const struct {
        enum tr_ds_lr kind;
        double want[5]; /* behind updates 0, 1, 2 … */
    } rows[] = {
        {TR_DS_LR_WARMUP_DECAY, {0, 0.5, 1, 0, 0}},
        {TR_DS_LR_WARMUP_COSINE, {0, 0.5, 0, 0, 0}},
        {TR_DS_LR_WARMUP, {0, 0.5, 1, 1, 1}},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tr_args a;
        struct tr_schedule s;
        struct tr_ds_config ds = {.scheduler = rows[i].kind,
                                  .optimizer = true,
                                  .lr = 1,
                                  .warmup_max_lr = 1,
                                  .warmup_linear = true,
                                  .total_num_steps = 3,
                                  .warmup_num_steps = 1};
        struct tr_derived d = {.total_steps = 10};

        check_row("short falls");
        tr_args_init(&a);
        CHECK_INT(tr_schedule_make(&a, &ds, &d, &s, NULL), FR_OK);
        for (int k = 0; k < 5; k++)
            if (!CHECK(fabs(tr_schedule_logged(&s, k) - rows[i].want[k]) < 1e-12 &&
                       tr_schedule_lr(&s, k + 1) == tr_schedule_logged(&s, k)))
                printf("   %d: %g\n", k, tr_schedule_logged(&s, k));
        tr_args_finish(&a);
    }
}

static void flops(const json_t *root)
{
    const json_t *rows = json_object_get(root, "flops");
    size_t i;
    json_t *row;

    CHECK(json_array_size(rows) > 5);
    json_array_foreach(rows, i, row)
    {
        struct tr_model_config c;
        struct tr_model_counts n;
        struct fr_err err;
        char dir[4096];
        check_row(text_of(row, "model"));
        snprintf(dir, sizeof(dir), SOURCE_ROOT "/tests/golden/deepseek_v3/%s",
                 text_of(row, "model"));
        if (!CHECK_INT(tr_model_config_load(dir, &c, &err), FR_OK))
            continue;
        tr_model_count(&c, &n);
        CHECK(tr_metrics_token_flops(&n, (int64_t)number_of(row, "trainable")) ==
              number_of(row, "flops"));
    }
}

static double in_file(const char *dir, const char *file, const char *key)
{
    char path[4096];
    json_t *root = NULL;
    struct fr_err err;
    double x = NAN;

    snprintf(path, sizeof(path), "%s/%s", dir, file);
    if (CHECK_INT(fr_json_load(path, 1 << 20, &root, &err), FR_OK))
        x = number_of(root, key);
    json_decref(root);
    return x;
}

/* The sums of a step whose loss is not finite, or that has no targets, and the files of the end. */
static void progress_and_files(void)
{
    static const double losses[] = {NAN, 3, 1, INFINITY};
    struct tr_args a;
    struct tr_derived d = {
        .examples = 16, .micro_per_rank = 8, .micro_shown = 8, .total_steps = 4, .total_batch = 4};
    struct tr_metrics m;
    struct tr_progress p = {.history = json_array(), .padded_tokens = 10};
    char dir[] = "/tmp/train_test.XXXXXX";
    struct fr_err err;

    check_row("progress");
    CHECK(mkdtemp(dir) != NULL);
    tr_args_init(&a);
    a.output_dir = dir;
    struct tr_metrics_opts o = {.args = &a, .derived = &d, .flops_per_token = 1e9};
    CHECK_INT(tr_metrics_start(&m, &o, &p, &err), FR_OK);
    tr_progress_advance(&p, 2, losses[0]); /* nothing before it: no part of any mean */
    CHECK(p.loss_total == 0 && p.step == 1 && p.micro == 2 && p.empty == 1);
    CHECK(tr_progress_loss(&p) == 0);
    CHECK_INT(tr_metrics_log(&m, &p, 0, 1e-3, &err), FR_OK);
    for (size_t i = 1; i < 4; i++)
        tr_progress_advance(&p, 2, losses[i]); /* the last counts as (3 + 1) / 2 */
    CHECK(p.loss_since_log == 6 && p.loss_total == 6 && p.steps_since_log == 3);
    CHECK_INT(tr_metrics_log(&m, &p, 0, 1e-3, &err), FR_OK);
    const json_t *line = json_array_get(p.history, 1);
    CHECK(number_of(line, "loss") == 2 && number_of(line, "step") == 4);
    CHECK(number_of(line, "grad_norm") == 0 && number_of(line, "epoch") == 1);
    tr_progress_advance(&p, 0, NAN); /* none since the log line: the mean of the run */
    CHECK(p.loss_since_log == 2 && p.loss_total == 8 && p.empty == 1);
    CHECK_INT(tr_metrics_end(&m, &p, &err), FR_OK);
    CHECK(in_file(dir, "trainer_state.json", "total_flos") == 1e10);
    CHECK(in_file(dir, "train_results.json", "total_flos") == 1e10);
    CHECK(in_file(dir, "all_results.json", "train_loss") == 2);
    CHECK(in_file(dir, "all_results.json", "train_steps_per_second") >= 0);
    CHECK(in_file(dir, "all_results.json", "train_samples_per_second") >= 0);
    tr_metrics_finish(&m);
    tr_args_finish(&a);
    json_decref(p.history);
    CHECK_INT(fr_remove_tree(dir, &err), FR_OK);
}

/* One value changed each time: the text of the configuration differs there and says so. */
static void identity(void)
{
    static const struct tr_lora_pattern there[] = {{"q_proj", 8}, {"o_proj", 4}},
                                        other[] = {{"q_proj", 8}, {"o_proj", 2}};
    static const char *const targets[] = {"q_proj", "o_proj"},
                             *const turned[] = {"o_proj", "q_proj"},
                             *const fewer[] = {"q_proj", "k_proj"};
    static const struct {
        const char *flag, *value, *want; /* flag NULL: a pattern changes */
    } rows[] = {
        {"lr_scheduler_kwargs", "{\"a\": 1, \"b\": 3}",
         "--lr_scheduler_kwargs is {\"a\":1,\"b\":2} there, {\"a\":1,\"b\":3} here"},
        {"lr_scheduler_kwargs", "{\"b\": 2, \"a\": 1}", NULL},
        {"warmup_steps", "3", "--warmup_steps is 0 there, 3 here"},
        {"warmup_ratio", "0.5", "--warmup_ratio is 0 there, 0.5 here"},
        {"max_steps", "9", NULL},
        {NULL, "rank", "rank_pattern is q_proj: 8, o_proj: 4 there, q_proj: 8, o_proj: 2 here"},
        {NULL, "alpha", "alpha_pattern is none there, q_proj: 8, o_proj: 2 here"},
        {NULL, "order", NULL},
        {NULL, "targets", "--lora_target is o_proj,q_proj there, k_proj,q_proj here"},
    };
    static char before[TR_IDENTITY_TEXT], after[TR_IDENTITY_TEXT];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tr_args a;
        struct tr_derived d = {.total_batch = 4};
        struct tr_ds_config ds = {.precision = TR_PRECISION_BF16};
        struct tr_lora_config l = {
            .r = 8, .rank_pattern = there, .nrank = 2, .targets = targets, .ntargets = 2};
        struct tr_identity id = {&a, &d, &ds, &l, false};
        struct fr_buf said = {0};
        struct fr_err err;
        check_row(rows[i].want != NULL ? rows[i].want : rows[i].value);
        tr_args_init(&a);
        a.lr_scheduler_kwargs = "{\"a\":1, \"b\":2}";
        CHECK_INT(tr_identity_config(&id, before, &err), FR_OK);
        if (rows[i].flag != NULL)
            CHECK_INT(take(&a, rows[i].flag, rows[i].value, &err), FR_OK);
        else if (strcmp(rows[i].value, "rank") == 0)
            l.rank_pattern = other;
        else if (strcmp(rows[i].value, "alpha") == 0)
            l.alpha_pattern = other, l.nalpha = 2;
        else
            l.targets = strcmp(rows[i].value, "order") == 0 ? turned : fewer;
        CHECK_INT(tr_identity_config(&id, after, &err), FR_OK);
        if (rows[i].want == NULL) {
            CHECK_TEXT(after, before);
        } else {
            tr_identity_difference(before, after, &said);
            CHECK_TEXT(said.p, rows[i].want);
        }
        fr_buf_finish(&said);
        tr_args_finish(&a);
    }
    struct fr_buf said = {0};
    tr_identity_difference("a=1\n", "a=1\nb=2\n", &said);
    CHECK_TEXT(said.p, "b=2 is only here");
    fr_buf_finish(&said);
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
    s.scale = 3;
    s.min_scale = 2;
    CHECK_INT(tr_scaler_update(&s, true, &err), FR_OK);
    CHECK(s.scale == 2);
    ds.loss_scale = 1; /* static, as any number above 0 */
    tr_scaler_init(&s, &ds, true);
    CHECK(!s.dynamic && s.scale == 1);
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

/* What is said while weights are read. */
static void loading(void)
{
    static const struct {
        int64_t bytes, of, ms;
        const char *want;
    } rows[] = {
        {(int64_t)3 << 30, (int64_t)28 << 30, 1500, "3.0 GiB of 28.0 GiB, 2.0 GiB/s, 12.5s left"},
        {0, 1000, 7000, "0 B of 1000 B, 0 B/s, ? left"},
        {1000, 1000, 0, "1000 B of 1000 B, 976.6 KiB/s, 0ms left"},
    };
    char text[128];

    check_row("loading");
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        tr_loading_text(rows[i].bytes, rows[i].of, rows[i].ms, text);
        CHECK_TEXT(text, rows[i].want);
    }
}

static int64_t clock_ms;

static int64_t this_clock(void)
{
    return clock_ms;
}

/* When it is said how far long work is. */
static void pace(void)
{
    static const struct {
        int64_t ms, done;
        bool said;
    } rows[] = {
        {4999, 1, false},   {5000, 1, true},     {9999, 2, false},
        {10000, 599, true}, {15000, 600, false}, {20000, 601, false},
    };
    int64_t (*real)(void) = fr_sys.mono_ms;
    struct tr_progress_log p;
    char left[24];

    check_row("pace");
    fr_sys.mono_ms = this_clock;
    clock_ms = 0;
    p = tr_progress_log_begin("Evaluation", "batches", 600);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        clock_ms = rows[i].ms;
        CHECK(tr_progress_log_at(&p, rows[i].done) == rows[i].said);
    }
    p = tr_progress_log_begin("Tokenizing", "records", 0);
    clock_ms += 5000;
    CHECK(tr_progress_log_at(&p, 7) && !tr_progress_log_at(&p, 8));
    fr_sys.mono_ms = real;
    tr_progress_log_left(120, 600, 10000, left);
    CHECK_TEXT(left, "40.0s");
    tr_progress_log_left(1, 601, 10, left);
    CHECK_TEXT(left, "6.0s");
    tr_progress_log_left(0, 600, 10000, left);
    CHECK_TEXT(left, "?");
}

int main(void)
{
    loading();
    pace();
    json_t *root = golden();

    rates(root);
    deepspeed_rates(root);
    bad_kwargs();
    known_kwargs();
    stable();
    short_falls();
    flops(root);
    progress_and_files();
    identity();
    scaler();
    events();
    json_decref(root);
    return check_done();
}
