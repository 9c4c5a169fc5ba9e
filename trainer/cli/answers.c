#include "trainer/cli/answers.h"

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/log.h"
#include "engine/base/sys.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONFIG_MAX = 1 << 20 };

void tr_tasks_finish(struct tr_tasks *t)
{
    for (int64_t i = 0; i < t->n; i++) {
        tr_ids_finish(&t->v[i].ids);
        fr_sys.free(t->v[i].prompt);
        fr_sys.free(t->v[i].label);
        tr_answer_finish(&t->v[i].answer);
    }
    fr_sys.free(t->v);
    *t = (struct tr_tasks){.n = 0};
}

static struct tr_task *add_task(struct tr_tasks *t, struct fr_err *err)
{
    void *v = fr_grow(t->v, (size_t)t->n + 1, &t->cap, sizeof(*t->v));

    if (v == NULL) {
        (void)fr_fail(err, FR_NOMEM, "no memory for %lld prompts", (long long)t->n + 1);
        return NULL;
    }
    t->v = v;
    memset(&t->v[t->n], 0, sizeof(*t->v));
    return &t->v[t->n++];
}

static char *copy_text(const char *p, size_t n)
{
    char *out = fr_sys.alloc(n + 1);

    if (out != NULL) {
        memcpy(out, p, n);
        out[n] = '\0';
    }
    return out;
}

enum fr_rc tr_tasks_prompt(struct tr_tasks *t, const struct tr_session *s, const char *system,
                           struct fr_str text, struct fr_err *err)
{
    struct tr_message m = {TR_USER, text};
    struct tr_example x = {.messages = &m, .n = 1};
    struct tr_template_opts o = {.default_system = system, .no_thinking = !s->flags->thinking};
    struct tr_task *task = add_task(t, err);
    struct tr_encoder *e = NULL;
    enum fr_rc rc = task == NULL ? FR_NOMEM : tr_encoder_create(s->tokenizer, &e, err);

    if (rc == FR_OK && (task->prompt = copy_text(text.p, text.n)) == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for a prompt");
    if (rc == FR_OK)
        rc = tr_template_prompt(s->templ, e, &x, &o, &task->ids, err);
    if (rc == FR_OK && (int64_t)task->ids.n > s->flags->cutoff_len)
        rc = fr_fail(err, FR_USAGE, "a prompt has %zu tokens, more than --cutoff_len %lld",
                     task->ids.n, (long long)s->flags->cutoff_len);
    tr_encoder_destroy(e);
    return rc;
}

static enum fr_rc decode(const struct tr_session *s, const int32_t *ids, int64_t n, bool skip,
                         char **out, struct fr_err *err)
{
    struct fr_buf text = {0};
    enum fr_rc rc = tr_tokenizer_decode(s->tokenizer, ids, (size_t)n, skip, &text, err);

    if (rc == FR_OK && (*out = copy_text(text.p != NULL ? text.p : "", text.n)) == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for %lld tokens of text", (long long)n);
    fr_buf_finish(&text);
    return rc;
}

enum fr_rc tr_tasks_data(struct tr_tasks *t, const struct tr_session *s,
                         const struct tr_dataset *data, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (int64_t i = 0; i < tr_dataset_size(data) && rc == FR_OK; i++) {
        struct tr_sample x = tr_dataset_at(data, i);
        int64_t end = x.n, begin;

        while (end > 0 && x.labels[end - 1] == TR_IGNORE)
            end--;
        for (begin = end; begin > 0 && x.labels[begin - 1] != TR_IGNORE;)
            begin--;
        if (begin == 0)
            continue; /* nothing is asked, or nothing answered */
        struct tr_task *task = add_task(t, err);
        if (task == NULL)
            return FR_NOMEM;
        if ((rc = tr_ids_add(&task->ids, x.ids, (size_t)begin, err)) == FR_OK &&
            (rc = decode(s, x.ids, begin, false, &task->prompt, err)) == FR_OK)
            rc = decode(s, x.ids + begin, end - begin, true, &task->label, err);
    }
    if (rc == FR_OK && t->n == 0)
        rc = fr_fail(err, FR_USAGE, "the data set has no prompt with an answer");
    return rc;
}

static void add_eos(struct tr_asking *a, int64_t id)
{
    for (size_t i = 0; i < a->o.neos; i++)
        if (a->eos[i] == id)
            return;
    if (id >= 0 && id <= INT32_MAX && a->o.neos < TR_FLAG_MANY)
        a->eos[a->o.neos++] = (int32_t)id;
}

/* eos_token_id of generation_config.json: a number or a list; a folder need not have the file. */
static enum fr_rc read_eos(struct tr_asking *a, const char *model_dir, struct fr_err *err)
{
    char path[PATH_MAX];
    json_t *root = NULL, *ids, *one;
    size_t i;
    enum fr_rc rc;

    snprintf(path, sizeof(path), "%s/generation_config.json", model_dir);
    rc = fr_json_load(path, CONFIG_MAX, &root, err);
    if (rc == FR_NOTFOUND)
        return FR_OK;
    if (rc != FR_OK)
        return rc;
    ids = json_object_get(root, "eos_token_id");
    if (json_is_integer(ids))
        add_eos(a, json_integer_value(ids));
    json_array_foreach(ids, i, one)
    {
        if (json_is_integer(one))
            add_eos(a, json_integer_value(one));
    }
    json_decref(root);
    return FR_OK;
}

void tr_answer_flags_fill(struct tr_answer_flags *f, const struct tr_call *call)
{
    bool given = f->temperature >= 0 || f->top_k >= 0 || f->top_p >= 0;

    if (call->file != NULL && f->sample < 0 && given)
        f->sample = 1;
}

/* How a token is taken. */
static void read_sampling(struct tr_sampling *o, const struct tr_answer_flags *f)
{
    bool draw = f->sample > 0;

    o->seed = (uint64_t)f->seed;
    o->top_k = f->top_k >= 0 ? f->top_k : draw ? 50 : 0;
    o->top_p = f->top_p >= 0 ? f->top_p : draw ? 0.7 : 1;
    o->temperature = f->sample == 0 ? 0 : f->temperature >= 0 ? f->temperature : draw ? 0.95 : 0;
}

enum fr_rc tr_asking_read(struct tr_asking *a, const struct tr_session *s,
                          const struct tr_answer_flags *f, struct fr_err *err)
{
    struct tr_generate_opts *o = &a->o;

    *a = (struct tr_asking){.session = s};
    *o = (struct tr_generate_opts){.comm = s->ranks.comm,
                                   .tokenizer = s->tokenizer,
                                   .eos = a->eos,
                                   .max_new_tokens = f->max_new_tokens,
                                   .stops = f->stops.v,
                                   .nstops = (size_t)f->stops.n};
    if (s->tokenizer != NULL) /* first: a long list leaves no room after it */
        add_eos(a, tr_tokenizer_eos(s->tokenizer));
    for (int i = 0; i < f->stops.n; i++)
        if (f->stops.v[i][0] == '\0')
            return fr_fail(err, FR_USAGE, "--stop is empty, expected text");
    read_sampling(&o->sampling, f);
    return read_eos(a, s->flags->model_dir, err);
}

void tr_asking_size(struct tr_asking *a, const struct tr_tasks *t, struct tr_infer_opts *o)
{
    int64_t longest = 1, share = (t->n + a->o.comm->size - 1) / a->o.comm->size;

    for (int64_t i = 0; i < t->n; i++)
        if ((int64_t)t->v[i].ids.n > longest)
            longest = (int64_t)t->v[i].ids.n;
    a->o.sequences = a->session->flags->batch < share ? a->session->flags->batch : share;
    a->o.cache_tokens = longest + a->o.max_new_tokens;
    o->cache_sequences = a->o.sequences;
    o->cache_tokens = a->o.cache_tokens;
    if (o->samples_max < a->o.sequences)
        o->samples_max = a->o.sequences;
    if (o->tokens_max < longest)
        o->tokens_max = longest;
    if (o->tokens_max < o->samples_max)
        o->tokens_max = o->samples_max;
    a->o.tokens_max = o->tokens_max;
}

/* Each answer from the rank that made it. */
static enum fr_rc share_answers(struct tr_comm *comm, struct tr_tasks *t, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (int64_t i = 0; i < t->n && rc == FR_OK && comm->size > 1; i++) {
        struct tr_answer *a = &t->v[i].answer;
        int root = (int)(i % comm->size);
        bool mine = root == comm->rank;
        int64_t head[3] = {mine && a->text != NULL ? (int64_t)a->text_n : -1, (int64_t)a->ids.n,
                           a->end};

        rc = tr_comm_host_broadcast(comm, head, sizeof(head), root, err);
        for (int64_t k = 0; rc == FR_OK && !mine && k < head[1]; k++)
            rc = tr_ids_add(&a->ids, &(int32_t){0}, 1, err);
        if (rc == FR_OK && !mine && head[0] >= 0)
            a->text = fr_sys.alloc((size_t)head[0] + 1);
        if (head[0] >= 0)
            a->text_n = (size_t)head[0];
        if (rc == FR_OK && head[0] >= 0 && a->text == NULL)
            rc = fr_fail(err, FR_NOMEM, "no memory for an answer");
        if (rc == FR_OK && head[1] > 0)
            rc = tr_comm_host_broadcast(comm, a->ids.v, (size_t)head[1] * sizeof(int32_t), root,
                                        err);
        if (rc == FR_OK && head[0] >= 0)
            rc = tr_comm_host_broadcast(comm, a->text, (size_t)head[0] + 1, root, err);
        a->end = (enum tr_answer_end)head[2];
    }
    return rc;
}

enum fr_rc tr_ask(struct tr_asking *a, struct tr_tasks *t, struct fr_err *err)
{
    size_t n = (size_t)t->n;
    struct tr_prompt *prompts = fr_sys.alloc((n + 1) * sizeof(*prompts));
    struct tr_answer *answers = fr_sys.alloc((n + 1) * sizeof(*answers));
    enum fr_rc rc = FR_OK;

    if (prompts == NULL || answers == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for %zu prompts", n);
    for (size_t i = 0; i < n && rc == FR_OK; i++) {
        prompts[i] = (struct tr_prompt){t->v[i].ids.v, (int64_t)t->v[i].ids.n};
        answers[i] = (struct tr_answer){.text = NULL};
    }
    a->o.model = a->infer->model;
    a->o.vocab_size = a->infer->config.vocab_size;
    if (rc == FR_OK) {
        rc = tr_generate(&a->o, prompts, t->n, answers, err);
        for (size_t i = 0; i < n; i++)
            t->v[i].answer = answers[i];
    }
    fr_sys.free(prompts);
    fr_sys.free(answers);
    return rc == FR_OK ? share_answers(a->o.comm, t, err) : rc;
}

enum fr_rc tr_tasks_write(const struct tr_tasks *t, const char *path, struct fr_err *err)
{
    struct fr_buf out = {0};
    enum fr_rc rc = FR_OK;

    for (int64_t i = 0; i < t->n && !out.bad; i++) {
        const struct tr_task *task = &t->v[i];
        json_t *line =
            json_pack("{s:s, s:s%, s:s}", "prompt", task->prompt, "predict", task->answer.text,
                      task->answer.text_n, "finish", tr_answer_end_name(task->answer.end));
        if (task->label != NULL)
            json_object_set_new(line, "label", json_string(task->label));
        fr_json_add(&out, line, JSON_COMPACT | JSON_PRESERVE_ORDER);
        fr_buf_text(&out, "\n");
        json_decref(line);
    }
    if (out.bad)
        rc = fr_fail(err, FR_NOMEM, "no memory for %lld answers", (long long)t->n);
    else if (path != NULL)
        rc = fr_file_write(path, out.p, out.n, 0644, err);
    else
        fr_print("%s", out.p);
    fr_buf_finish(&out);
    return rc;
}
