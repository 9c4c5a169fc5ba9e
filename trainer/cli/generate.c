/*
 * flowtrain generate: answers to prompts. One prompt is answered on the terminal as its text comes;
 * several, or with --output, one JSON object a line: prompt, predict, finish, and label where the
 * prompts are a data set's (the names of LLaMA-Factory's generated_predictions.jsonl).
 */
#include "trainer/cli/answers.h"

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/log.h"

#include <stdio.h>
#include <string.h>

enum { INPUT_MAX = 1 << 30 };

struct asked {
    struct tr_session_flags common;
    struct tr_answer_flags how;
    struct tr_list prompts;
    const char *input;
};

/* {"prompt": text, "system": text} a line. */
static enum fr_rc read_line(struct tr_tasks *t, const struct tr_session *s, const struct asked *q,
                            const json_t *line, struct fr_err *err)
{
    const json_t *text = json_object_get(line, "prompt"), *sys = json_object_get(line, "system");

    if (!json_is_string(text) || (sys != NULL && !json_is_string(sys)))
        return fr_fail(err, FR_USAGE,
                       "expected an object {\"prompt\": TEXT}, with \"system\": TEXT if wanted");
    return tr_tasks_prompt(t, s, sys != NULL ? json_string_value(sys) : q->common.system,
                           (struct fr_str){json_string_value(text), json_string_length(text)}, err);
}

static enum fr_rc read_input(struct tr_tasks *t, const struct tr_session *s, const struct asked *q,
                             struct fr_err *err)
{
    struct fr_buf text = {0};
    enum fr_rc rc = fr_file_read_any(q->input, INPUT_MAX, &text, err);
    int64_t number = 0;

    for (const char *p = text.p; rc == FR_OK && p != NULL && *p != '\0';) {
        size_t n = strcspn(p, "\n");
        json_t *line = NULL;

        number++;
        if (strspn(p, " \t\r") < n) {
            rc = fr_json_parse((struct fr_str){p, n}, q->input, &line, err);
            if (rc != FR_NOMEM) /* other text is no object either */
                rc = read_line(t, s, q, line, err);
            json_decref(line);
            if (rc != FR_OK)
                fr_while(err, "%s:%lld", q->input, (long long)number);
        }
        p += n + (p[n] == '\n');
    }
    fr_buf_finish(&text);
    return rc;
}

static enum fr_rc read_tasks(struct tr_tasks *t, const struct tr_session *s, const struct asked *q,
                             struct fr_err *err)
{
    struct tr_dataset *data = NULL;
    enum fr_rc rc = FR_OK;

    if (q->prompts.n == 0 && q->input == NULL && q->common.dataset == NULL)
        return fr_fail(err, FR_USAGE, "--prompt, --input or --dataset is needed");
    if (s->templ == NULL)
        return fr_fail(err, FR_USAGE, "--template is missing (deepseek3, default, empty …)");
    for (int i = 0; i < q->prompts.n && rc == FR_OK; i++)
        rc = tr_tasks_prompt(t, s, q->common.system, fr_str_of(q->prompts.v[i]), err);
    if (rc == FR_OK && q->input != NULL)
        rc = read_input(t, s, q, err);
    if (rc == FR_OK && q->common.dataset != NULL) {
        rc = tr_session_data(s, &data, err);
        if (rc == FR_OK)
            rc = tr_tasks_data(t, s, data, err);
        tr_dataset_destroy(data);
    }
    return rc == FR_OK && t->n == 0 ? fr_fail(err, FR_USAGE, "%s holds no prompt", q->input) : rc;
}

static void show_piece(void *arg, int64_t prompt, struct fr_str text)
{
    (void)arg;
    (void)prompt;
    (void)fwrite(text.p, 1, text.n, stdout);
    (void)fflush(stdout);
}

static enum fr_rc run(struct tr_session *s, const void *options, struct fr_err *err)
{
    const struct asked *q = options;
    struct tr_tasks t = {.n = 0};
    struct tr_infer x = {.model = NULL};
    struct tr_asking a;
    struct tr_infer_opts o = tr_session_model(s);
    bool first = s->ranks.comm->rank == 0, one;
    enum fr_rc rc = read_tasks(&t, s, q, err);

    one = t.n == 1 && q->common.output == NULL;
    if (rc == FR_OK)
        rc = tr_asking_read(&a, s, &q->how, err);
    if (rc == FR_OK) {
        tr_asking_size(&a, &t, &o);
        rc = tr_infer_open(&x, &o, err);
    }
    if (rc == FR_OK) {
        a.infer = &x;
        a.o.piece = one && first ? show_piece : NULL;
        rc = tr_ask(&a, &t, err);
    }
    if (rc == FR_OK && one && first)
        fr_print("\n");
    else if (rc == FR_OK && first)
        rc = tr_tasks_write(&t, q->common.output, err);
    tr_infer_finish(&x);
    tr_tasks_finish(&t);
    return rc;
}

static enum fr_rc generate(struct tr_call *call, struct fr_err *err)
{
    struct asked *q = call->options;

    tr_answer_flags_fill(&q->how, call);
    return tr_session_run(call, &q->common, run, err);
}

static const struct tr_arg_rule rules[] = {
    TR_SESSION_RULES,
    {"do_predict", TR_ARG_TOLD, "each record is answered as it is", NULL},
    {"predict_with_generate", TR_ARG_TOLD, "each record is answered as it is", NULL},
};

static const struct tr_flag flags[] = {
    TR_FLAG("prompt", TR_LIST, offsetof(struct asked, prompts), "a user's text; may be repeated"),
    TR_FLAG("input", TR_TEXT, offsetof(struct asked, input),
            "file with an object {\"prompt\": TEXT} a line"),
    TR_ANSWER_FLAGS(struct asked, how),
    TR_SESSION_FLAGS(struct asked, common),
};

const struct tr_command tr_cmd_generate = {
    .name = "generate",
    .summary = "answer prompts by a model, with an adapter or without",
    .usage = "flowtrain generate [FILE.yaml]: answers to prompts, by one rank or, below flowtrain "
             "launch, by several; LLaMA-Factory's files of arguments are read\n\n",
    TR_FLAGS(flags, struct asked),
    TR_RULES(rules),
    .initial = &(const struct asked){.common = TR_SESSION_DEFAULTS, .how = TR_ANSWER_DEFAULTS},
    .needs = "model_name_or_path",
    .run = generate,
};
