#include "trainer/save/card.h"

#include "engine/base/file.h"

#include <limits.h>
#include <string.h>

enum { SHOWN = 12 /* training losses at most, the last one among them */ };

static void put_head(struct fr_buf *t, const struct tr_card *c)
{
    const struct tr_args *a = c->args;
    const struct tr_derived *d = c->derived;
    bool full = c->lora == NULL;

    fr_buf_fmt(t,
               "---\nbase_model: %s\nlibrary_name: %s\npipeline_tag: text-generation\ntags:\n"
               "- %s\n- flowtrain\n---\n\n# %s\n\n"
               "| | |\n|---|---|\n| base model | `%s` |\n| stage | %s |\n| data set | `%s` |\n"
               "| template | `%s` |\n",
               a->model_name_or_path, full ? "transformers" : "peft", full ? "full" : "lora",
               full ? "Fine-tuned model" : "LoRA adapter", a->model_name_or_path, a->stage,
               a->dataset != NULL ? a->dataset : "", c->template_name);
    if (a->eval_dataset != NULL)
        fr_buf_fmt(t, "| data set for evaluation | `%s` |\n", a->eval_dataset);
    if (!full)
        fr_buf_fmt(t, "| rank | %lld |\n| alpha | %g |\n| dropout | %g |\n", (long long)c->lora->r,
                   c->lora->alpha, c->lora->dropout);
    fr_buf_fmt(t,
               "| learning rate | %g |\n"
               "| samples a step | %lld |\n| steps | %lld of %lld |\n| cutoff length | %lld |\n"
               "| seed | %lld |\n",
               a->learning_rate, (long long)d->total_batch, (long long)c->step,
               (long long)d->total_steps, (long long)a->cutoff_len, (long long)a->seed);
}

static bool ends_in(const char *text, const char *end)
{
    size_t n = strlen(text), k = strlen(end);

    return n >= k && strcmp(text + n - k, end) == 0;
}

static bool is_evaluation(const char *key)
{
    return strncmp(key, "eval_", 5) == 0 && (ends_in(key, "_loss") || ends_in(key, "_accuracy"));
}

static void put_row(struct fr_buf *t, const json_t *entry, const char *key)
{
    fr_buf_fmt(t, "| %lld | %g | %s | %.4f |\n",
               (long long)json_integer_value(json_object_get(entry, "step")),
               json_number_value(json_object_get(entry, "epoch")), key,
               json_number_value(json_object_get(entry, key)));
}

/* All evaluations, and training losses at even distances. */
static void put_losses(struct fr_buf *t, const json_t *history)
{
    size_t losses = 0, seen = 0, every;

    for (size_t i = 0; i < json_array_size(history); i++)
        losses += json_object_get(json_array_get(history, i), "loss") != NULL;
    every = (losses + SHOWN - 1) / SHOWN;
    fr_buf_text(t, "\n## Losses\n\n| step | epoch | | |\n|---|---|---|---|\n");
    for (size_t i = 0; i < json_array_size(history); i++) {
        json_t *entry = json_array_get(history, i), *v;
        const char *key;

        if (json_object_get(entry, "loss") != NULL && (losses - ++seen) % every == 0)
            put_row(t, entry, "loss");
        if (json_object_get(entry, "train_loss") != NULL)
            put_row(t, entry, "train_loss");
        json_object_foreach(entry, key, v) if (is_evaluation(key)) put_row(t, entry, key);
    }
}

static enum fr_rc write_text(const char *dir, const char *name, struct fr_str text,
                             struct fr_err *err)
{
    char path[PATH_MAX];

    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    return fr_file_write(path, text.p, text.n, 0644, err);
}

enum fr_rc tr_card_write(const char *dir, const struct tr_card *c, struct fr_err *err)
{
    struct fr_buf t = {0};
    enum fr_rc rc;

    put_head(&t, c);
    if (json_array_size(c->history) > 0)
        put_losses(&t, c->history);
    rc = t.bad ? fr_fail(err, FR_NOMEM, "no memory for the card of %s", dir)
               : write_text(dir, "README.md", (struct fr_str){t.p, t.n}, err);
    if (rc == FR_OK && c->chat.n > 0)
        rc = write_text(dir, "chat_template.jinja", c->chat, err);
    fr_buf_finish(&t);
    return rc;
}
