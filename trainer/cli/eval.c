/*
 * flowtrain eval: how well a model does on a data set: loss, perplexity and token accuracy, and
 * with --generate the share of its answers that are those of the data set.
 */
#include "trainer/cli/answers.h"

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/log.h"
#include "trainer/report/log.h"
#include "trainer/text/pyjson.h"
#include "trainer/train/evaluate.h"

#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct asked {
    struct tr_session_flags common;
    struct tr_answer_flags how;
    const char *dir; /* of what predict writes; NULL: nowhere */
    enum { TEXT, NUMBER } answer;
    bool generate, predict;
};

/* ---- answers ---- */

/* Text without blanks at its ends, and each run of blanks as one. */
static bool next_char(const char **p, int *c)
{
    const char *at = *p;

    while (isspace((unsigned char)*at))
        at++;
    if (*at == '\0')
        return false;
    *c = at > *p ? ' ' : (unsigned char)*at;
    *p = at > *p ? at : at + 1;
    return true;
}

static bool same_text(const char *a, const char *b)
{
    int x = 0, y = 0;
    bool more_a, more_b;

    while (isspace((unsigned char)*a))
        a++;
    while (isspace((unsigned char)*b))
        b++;
    do {
        more_a = next_char(&a, &x);
        more_b = next_char(&b, &y);
        if (more_a != more_b || (more_a && x != y))
            return false;
    } while (more_a);
    return true;
}

/* The last number of a text, without the commas between its thousands. */
static bool last_number(const char *text, double *out)
{
    bool found = false;

    for (const char *p = text; *p != '\0';) {
        char digits[64];
        size_t n = 0;
        bool minus = *p == '-' && isdigit((unsigned char)p[1]);

        if (!minus && !isdigit((unsigned char)*p)) {
            p++;
            continue;
        }
        do {
            if (*p != ',' && n < sizeof(digits) - 1)
                digits[n++] = *p;
            p++;
        } while (isdigit((unsigned char)*p) ||
                 ((*p == '.' || *p == ',') && isdigit((unsigned char)p[1])));
        digits[n] = '\0';
        *out = strtod(digits, NULL);
        found = true;
    }
    return found;
}

static bool right(const struct asked *q, const struct tr_task *t)
{
    double got, want;

    if (q->answer == TEXT)
        return same_text(t->answer.text, t->label);
    return last_number(t->answer.text, &got) && last_number(t->label, &want) &&
           fabs(got - want) <= 1e-6 * fmax(1, fabs(want));
}

/* ---- figures ---- */

static enum fr_rc put_scores(json_t *figures, struct tr_infer *x, const struct tr_infer_opts *o,
                             const struct tr_session *s, const struct tr_dataset *data,
                             struct fr_err *err)
{
    struct tr_eval_opts e = {.model = x->model,
                             .comm = s->ranks.comm,
                             .data = data,
                             .batch = s->flags->batch,
                             .tokens_max = o->tokens_max,
                             .samples_max = o->samples_max,
                             .whole = true};
    struct tr_eval_result r;
    enum fr_rc rc = tr_evaluate(&e, &r, err);

    if (rc != FR_OK)
        return rc;
    tr_log_number(figures, "eval_loss", r.loss);
    tr_log_number(figures, "eval_accuracy", r.accuracy);
    tr_log_number(figures, "token_loss", r.token_loss);
    tr_log_number(figures, "token_accuracy", r.token_accuracy);
    tr_log_number(figures, "perplexity", exp(r.token_loss));
    json_object_set_new(figures, "samples", json_integer(r.samples));
    json_object_set_new(figures, "targets", json_integer(r.targets));
    return FR_OK;
}

static void put_answers(json_t *figures, const struct asked *q, const struct tr_tasks *t)
{
    int64_t hits = 0;

    for (int64_t i = 0; i < t->n; i++)
        hits += right(q, &t->v[i]);
    tr_log_number(figures, "answer_accuracy", (double)hits / (double)t->n);
    json_object_set_new(figures, "answers", json_integer(t->n));
}

static enum fr_rc show(const json_t *figures, const char *path, struct fr_err *err)
{
    const char *key;
    char text[32];
    json_t *v;

    json_object_foreach((json_t *)figures, key, v)
    {
        tr_show_float(json_is_number(v) ? json_number_value(v) : NAN, text);
        if (json_is_integer(v))
            fr_print("%-16s %lld\n", key, (long long)json_integer_value(v));
        else
            fr_print("%-16s %s\n", key, text);
    }
    return path != NULL ? fr_json_save(figures, path, JSON_INDENT(4) | JSON_SORT_KEYS, 0644, err)
                        : FR_OK;
}

/* Writes the files of LLaMA-Factory's do_predict. */
static enum fr_rc leave(const struct asked *q, const json_t *figures, const struct tr_tasks *t,
                        struct fr_err *err)
{
    char path[PATH_MAX];
    enum fr_rc rc;

    (void)snprintf(path, sizeof(path), "%s/predict_results.json", q->dir);
    rc = fr_json_save(figures, path, JSON_INDENT(4) | JSON_SORT_KEYS, 0644, err);
    if (rc != FR_OK || !q->generate)
        return rc;
    (void)snprintf(path, sizeof(path), "%s/generated_predictions.jsonl", q->dir);
    return tr_tasks_write(t, path, err);
}

static enum fr_rc measure(const struct asked *q, struct tr_asking *a, struct tr_tasks *t,
                          const struct tr_infer_opts *o, const struct tr_dataset *data,
                          struct fr_err *err)
{
    json_t *figures = json_object();
    const struct tr_session *s = a->session;
    enum fr_rc rc = put_scores(figures, a->infer, o, s, data, err);

    if (rc == FR_OK && q->generate && (rc = tr_ask(a, t, err)) == FR_OK)
        put_answers(figures, q, t);
    if (rc == FR_OK && s->ranks.comm->rank == 0)
        rc = show(figures, q->common.output, err);
    if (rc == FR_OK && s->ranks.comm->rank == 0 && q->dir != NULL)
        rc = leave(q, figures, t, err);
    json_decref(figures);
    return rc;
}

static enum fr_rc run(struct tr_session *s, const void *options, struct fr_err *err)
{
    const struct asked *q = options;
    struct tr_dataset *data = NULL;
    struct tr_tasks t = {.n = 0};
    struct tr_infer x = {.model = NULL};
    struct tr_asking a;
    struct tr_infer_opts o = tr_session_model(s);
    enum fr_rc rc = tr_session_data(s, &data, err);

    o.samples_max = s->flags->batch;
    o.score = true;
    if (rc == FR_OK && q->dir != NULL && s->ranks.comm->rank == 0)
        rc = fr_mkdirs(q->dir, 0755, err);
    if (rc == FR_OK && q->generate)
        rc = tr_tasks_data(&t, s, data, err);
    if (rc == FR_OK)
        rc = tr_asking_read(&a, s, &q->how, err);
    if (rc == FR_OK) {
        o.tokens_max = s->flags->batch * tr_dataset_longest(data);
        if (q->generate)
            tr_asking_size(&a, &t, &o);
        rc = tr_infer_open(&x, &o, err);
    }
    if (rc == FR_OK) {
        a.infer = &x;
        rc = measure(q, &a, &t, &o, data, err);
    }
    tr_infer_finish(&x);
    tr_tasks_finish(&t);
    tr_dataset_destroy(data);
    return rc;
}

/* A training's folder keeps the figures of its own evaluation. */
static void leave_nothing(struct asked *q, struct tr_call *call)
{
    if (q->dir != NULL && !q->predict)
        fr_buf_fmt(&call->notes, "--output_dir has no effect: it belongs to flowtrain train\n");
    if (!q->predict)
        q->dir = NULL;
}

static enum fr_rc eval(struct tr_call *call, struct fr_err *err)
{
    struct asked *q = call->options;

    leave_nothing(q, call);
    if (q->dir != NULL && strlen(q->dir) >= PATH_MAX - 64)
        return fr_fail(err, FR_USAGE, "--output_dir is too long");
    tr_answer_flags_fill(&q->how, call);
    return tr_session_run(call, &q->common, run, err);
}

static const struct tr_arg_rule rules[] = {
    TR_SESSION_RULES,
    {"predict_with_generate", TR_ARG_GIVES, "generate", NULL},
};

#define AT(member) offsetof(struct asked, member)

static const struct tr_flag flags[] = {
    TR_FLAG("generate", TR_SWITCH, AT(generate), "answer the prompts too, and count right answers"),
    TR_FLAG("answer", TR_CHOICE, AT(answer),
            "what is compared: text, or number, the last one [text]", .choices = "text number"),
    TR_FLAG("do_predict", TR_SWITCH, AT(predict),
            "write figures, and with --generate answers, there:"),
    TR_FLAG("output_dir", TR_TEXT, AT(dir),
            "folder of predict_results.json, generated_predictions.jsonl"),
    TR_ANSWER_FLAGS(struct asked, how),
    TR_SESSION_FLAGS(struct asked, common),
};

const struct tr_command tr_cmd_eval = {
    .name = "eval",
    .summary = "loss, perplexity, accuracy of a model over a data set, and of its answers",
    .usage = "flowtrain eval [FILE.yaml] --dataset NAMES: loss and accuracy over a data set, by "
             "one rank or, below flowtrain launch, by several; LLaMA-Factory's files of arguments "
             "are read\n\n",
    TR_FLAGS(flags, struct asked),
    TR_RULES(rules),
    .initial = &(const struct asked){.common = TR_SESSION_DEFAULTS, .how = TR_ANSWER_DEFAULTS},
    .needs = "dataset",
    .run = eval,
};
