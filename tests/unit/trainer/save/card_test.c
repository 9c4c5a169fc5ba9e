/* The card of an adapter and of a model, to the byte, and which losses it has. */
#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "tests/unit/check.h"
#include "trainer/save/card.h"

#include <unistd.h>

static char dir[] = "/tmp/flowtrain-card-XXXXXX";

static void check_file(const char *name, const char *want)
{
    char path[100];
    struct fr_buf got = {0};

    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    if (CHECK_INT(fr_file_read(path, 1 << 20, &got, NULL), FR_OK)) {
        fr_buf_add(&got, "", 1);
        CHECK_TEXT(got.p, want);
    }
    fr_buf_finish(&got);
}

static void add(json_t *history, int step, const char *key, double value)
{
    CHECK_INT(json_array_append_new(history, json_pack("{s:i, s:f, s:f}", "step", step, "epoch",
                                                       step / 8.0, key, value)),
              0);
}

#define HEAD(tags, library, title, type)                                                           \
    "---\nbase_model: some/model\nlibrary_name: " library "\npipeline_tag: text-generation\n"      \
    "tags:\n- " tags "\n- flowtrain\n---\n\n# " title "\n\n| | |\n|---|---|\n"                     \
    "| base model | `some/model` |\n| stage | sft |\n| data set | `a,b` |\n| template | `qwen` "   \
    "|\n" type
#define TAIL                                                                                       \
    "| learning rate | 0.0002 |\n| samples a step | 24 |\n| steps | 9 of 12 |\n"                   \
    "| cutoff length | 512 |\n| seed | 7 |\n"

static struct tr_args args;
static const struct tr_derived derived = {
    .examples = 100, .total_batch = 24, .total_steps = 12, .epochs = 3};

static void set_args(void)
{
    tr_args_init(&args);
    args.model_name_or_path = "some/model";
    args.stage = "sft";
    args.dataset = "a,b";
    args.learning_rate = 2e-4;
    args.cutoff_len = 512;
    args.seed = 7;
}

static void test_adapter(void)
{
    struct tr_lora_config lora = {.r = 8, .alpha = 16, .dropout = 0.05};
    json_t *history = json_array();
    struct tr_card c = {.args = &args,
                        .lora = &lora,
                        .derived = &derived,
                        .template_name = "qwen",
                        .step = 9,
                        .history = history,
                        .chat = {"{{ x }}", 7}};
    char path[100];

    check_row("an adapter");
    CHECK_INT(tr_card_write(dir, &c, NULL), FR_OK);
    check_file("README.md", HEAD("lora", "peft", "LoRA adapter",
                                 "| rank | 8 |\n| alpha | 16 |\n| dropout | 0.05 |\n") TAIL);
    check_file("chat_template.jinja", "{{ x }}");
    check_row("with figures, and no chat template");
    (void)snprintf(path, sizeof(path), "%s/chat_template.jinja", dir);
    CHECK_INT(fr_sys.unlink(path), 0);
    c.chat.n = 0;
    args.eval_dataset = "few";
    add(history, 4, "loss", 2.34567);
    add(history, 4, "eval_few_loss", 2.5);
    add(history, 4, "eval_few_accuracy", 0.25);
    add(history, 4, "eval_few_runtime", 12);
    add(history, 8, "loss", 1.5);
    add(history, 9, "train_loss", 1.75);
    CHECK_INT(tr_card_write(dir, &c, NULL), FR_OK);
    check_file("README.md", HEAD("lora", "peft", "LoRA adapter",
                                 "| data set for evaluation | `few` |\n| rank | 8 |\n"
                                 "| alpha | 16 |\n| dropout | 0.05 |\n") TAIL
               "\n## Losses\n\n| step | epoch | | |\n|---|---|---|---|\n"
               "| 4 | 0.5 | loss | 2.3457 |\n| 4 | 0.5 | eval_few_loss | 2.5000 |\n"
               "| 4 | 0.5 | eval_few_accuracy | 0.2500 |\n| 8 | 1 | loss | 1.5000 |\n"
               "| 9 | 1.125 | train_loss | 1.7500 |\n");
    CHECK(access(path, F_OK) != 0);
    json_decref(history);
}

/* Training losses at even distances, twelve at most; the last one is there. */
static void test_losses(void)
{
    static const struct {
        int losses;
        const char *steps;
    } rows[] = {{1, " 1"},
                {12, " 1 2 3 4 5 6 7 8 9 10 11 12"},
                {13, " 1 3 5 7 9 11 13"},
                {24, " 2 4 6 8 10 12 14 16 18 20 22 24"},
                {25, " 1 4 7 10 13 16 19 22 25"}};

    args.eval_dataset = NULL;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        json_t *history = json_array();
        struct tr_card c = {.args = &args,
                            .derived = &derived,
                            .template_name = "qwen",
                            .step = 9,
                            .history = history};
        struct fr_buf want = {0};
        const char *p = rows[i].steps;
        int step, n;

        check_row(rows[i].steps);
        for (int k = 1; k <= rows[i].losses; k++)
            add(history, k, "loss", k / 2.0);
        CHECK_INT(tr_card_write(dir, &c, NULL), FR_OK);
        fr_buf_text(&want, HEAD("full", "transformers", "Fine-tuned model", "") TAIL
                    "\n## Losses\n\n| step | epoch | | |\n|---|---|---|---|\n");
        for (; sscanf(p, "%d%n", &step, &n) == 1; p += n)
            fr_buf_fmt(&want, "| %d | %g | loss | %.4f |\n", step, step / 8.0, step / 2.0);
        check_file("README.md", want.p);
        fr_buf_finish(&want);
        json_decref(history);
    }
}

int main(void)
{
    if (mkdtemp(dir) == NULL)
        return EXIT_FAILURE;
    set_args();
    test_adapter();
    test_losses();
    check_row("no folder");
    CHECK_INT(fr_remove_tree(dir, NULL), FR_OK);
    CHECK(tr_card_write(
              dir,
              &(struct tr_card){
                  .args = &args, .derived = &derived, .template_name = "qwen", .history = NULL},
              NULL) != FR_OK);
    tr_args_finish(&args);
    return check_done();
}
