#include "trainer/data/template.h"

#include "engine/base/sys.h"
#include "trainer/data/tools.h"

#include <string.h>

/* In a slot, BOS and EOS stand for the ids of those tokens. Text before, between and behind them is
 * tokenised separately. {{content}} is replaced once. */
#define BOS "\x01"
#define EOS "\x02"
#define BAR "\xef\xbd\x9c"

struct tr_template {
    const char *name;
    const char *prefix;         /* before the first message */
    const char *system;         /* NULL: the content alone */
    const char *user;
    const char *assistant;      /* NULL: content and EOS */
    const char *observation;    /* NULL: as user */
    const char *default_system;
    const char *stop;           /* a token that replaces eos */
    const char *stop_too;       /* another one */
    enum tr_tool_format tools;
    bool efficient_eos;         /* one EOS at the end instead of one a turn */
};

#define QWEN_SYSTEM "<|im_start|>system\n{{content}}<|im_end|>\n"
#define QWEN_USER "<|im_start|>user\n{{content}}<|im_end|>\n<|im_start|>assistant\n"
#define QWEN_ASSISTANT "{{content}}<|im_end|>\n"
#define QWEN_OBSERVATION                                                                          \
    "<|im_start|>user\n<tool_response>\n{{content}}\n</tool_response><|im_end|>\n"              \
    "<|im_start|>assistant\n"
#define LLAMA3_TURN(role)                                                                         \
    "<|start_header_id|>" role "<|end_header_id|>\n\n{{content}}<|eot_id|>"                      \
    "<|start_header_id|>assistant<|end_header_id|>\n\n"

static const struct tr_template templates[] = {
    {.name = "default",
     .system = "System: {{content}}" EOS "\n",
     .user = "Human: {{content}}" EOS "\nAssistant:",
     .assistant = "{{content}}" EOS "\n"},
    {.name = "deepseek3",
     .prefix = BOS,
     .user = "<" BAR "User" BAR ">{{content}}<" BAR "Assistant" BAR ">"},
    {.name = "deepseek",
     .prefix = BOS,
     .system = "{{content}}\n\n",
     .user = "User: {{content}}\n\nAssistant:"},
    {.name = "empty", .user = "{{content}}", .assistant = "{{content}}"},
    {.name = "llama3",
     .prefix = BOS,
     .system = "<|start_header_id|>system<|end_header_id|>\n\n{{content}}<|eot_id|>",
     .user = LLAMA3_TURN("user"),
     .assistant = "{{content}}<|eot_id|>",
     .observation = LLAMA3_TURN("ipython"),
     .stop = "<|eot_id|>",
     .stop_too = "<|eom_id|>",
     .tools = TR_TOOLS_LLAMA3},
    {.name = "qwen",
     .system = QWEN_SYSTEM,
     .user = QWEN_USER,
     .assistant = QWEN_ASSISTANT,
     .observation = QWEN_OBSERVATION,
     .default_system = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
     .stop = "<|im_end|>",
     .tools = TR_TOOLS_QWEN},
    {.name = "qwen3_nothink",
     .system = QWEN_SYSTEM,
     .user = QWEN_USER,
     .assistant = QWEN_ASSISTANT,
     .observation = QWEN_OBSERVATION,
     .stop = "<|im_end|>",
     .tools = TR_TOOLS_QWEN},
    {.name = "chatml",
     .system = QWEN_SYSTEM,
     .user = QWEN_USER,
     .assistant = QWEN_ASSISTANT,
     .observation = "<|im_start|>tool\n{{content}}<|im_end|>\n<|im_start|>assistant\n",
     .stop = "<|im_end|>",
     .stop_too = "<|im_start|>"},
    {.name = "alpaca",
     .user = "### Instruction:\n{{content}}\n\n### Response:\n",
     .assistant = "{{content}}" EOS "\n\n",
     .default_system = "Below is an instruction that describes a task. "
                       "Write a response that appropriately completes the request.\n\n"},
    {.name = "fewshot", .user = "{{content}}", .assistant = "{{content}}\n\n",
     .efficient_eos = true},
};

enum { NTEMPLATES = sizeof(templates) / sizeof(templates[0]) };

enum fr_rc tr_template_find(const char *name, const struct tr_template **out, struct fr_err *err)
{
    const char *names[NTEMPLATES], *near;

    for (size_t i = 0; i < NTEMPLATES; i++) {
        names[i] = templates[i].name;
        if (strcmp(names[i], name) == 0) {
            *out = &templates[i];
            return FR_OK;
        }
    }
    *out = NULL;
    near = fr_suggest(name, names, NTEMPLATES);
    return fr_fail(err, FR_USAGE, "unknown template '%s'%s%s%s", name,
                   near != NULL ? ": did you mean '" : "", near != NULL ? near : "",
                   near != NULL ? "'?" : " (deepseek3, default, empty, qwen, llama3 …)");
}

const char *tr_template_name(const struct tr_template *t)
{
    return t->name;
}

enum fr_rc tr_template_fix(const struct tr_template *t, struct tr_tokenizer *tok,
                           struct fr_err *err)
{
    const char *eos = t->stop != NULL              ? t->stop
                      : tr_tokenizer_eos(tok) < 0 ? "<|endoftext|>"
                                                  : NULL;
    enum fr_rc rc = eos != NULL ? tr_tokenizer_set_eos(tok, eos, err) : FR_OK;

    if (rc == FR_OK && t->stop_too != NULL)
        rc = tr_tokenizer_add(tok, t->stop_too, err);
    return rc == FR_OK ? rc : fr_while(err, "template '%s'", t->name);
}

/* State of one encoding. */
struct work {
    const struct tr_template *t;
    struct tr_encoder *e;
    struct fr_buf text;    /* one slot with its content */
    struct fr_buf content; /* text made for a message: tools, function calls */
    struct tr_ids source, target;
    const enum tr_tool_format *tools; /* NULL: the template's own */
    struct fr_err *err;
};

/* Appends a run of slots with content put in. */
static enum fr_rc put_slots(struct work *w, const char *slots, struct fr_str content,
                            struct tr_ids *out)
{
    static const char mark[] = "{{content}}";
    bool used = false;
    enum fr_rc rc = FR_OK;

    for (const char *p = slots; rc == FR_OK && *p != '\0';) {
        size_t n = strcspn(p, BOS EOS);
        const char *at = used ? NULL : memmem(p, n, mark, sizeof(mark) - 1);
        w->text.n = 0;
        if (at != NULL) {
            fr_buf_add(&w->text, p, (size_t)(at - p));
            fr_buf_add(&w->text, content.p, content.n);
            at += sizeof(mark) - 1;
            fr_buf_add(&w->text, at, n - (size_t)(at - p));
        } else
            fr_buf_add(&w->text, p, n);
        if (w->text.bad)
            return fr_fail(w->err, FR_NOMEM, "no memory for a message");
        if (w->text.n > 0)
            rc = tr_encode(w->e, (struct fr_str){w->text.p, w->text.n}, out, w->err);
        p += n;
        if (rc == FR_OK && *p != '\0') {
            const struct tr_tokenizer *tok = tr_encoder_tokenizer(w->e);
            int32_t id = *p++ == BOS[0] ? tr_tokenizer_bos(tok) : tr_tokenizer_eos(tok);
            if (id >= 0)
                rc = tr_ids_add(out, &id, 1, w->err);
        }
    }
    return rc;
}

static enum tr_tool_format tools_of(const struct work *w)
{
    return w->tools != NULL ? *w->tools : w->t->tools;
}

/* A call in another format than the template's stands alone. */
static const char *slots_of(const struct work *w, enum tr_role role)
{
    const struct tr_template *t = w->t;

    if (role == TR_FUNCTION && w->tools != NULL)
        return t->efficient_eos ? "{{content}}" : "{{content}}" EOS;
    if (role == TR_ASSISTANT || role == TR_FUNCTION)
        return t->assistant != NULL ? t->assistant : "{{content}}" EOS;
    return role == TR_OBSERVATION && t->observation != NULL ? t->observation : t->user;
}

static enum fr_rc put_message(struct work *w, const struct tr_message *m, struct tr_ids *out)
{
    struct fr_str content = m->text;
    enum fr_rc rc;

    if (m->role == TR_FUNCTION) {
        w->content.n = 0;
        if ((rc = tr_tools_call(tools_of(w), m->text, &w->content, w->err)) != FR_OK)
            return rc;
        content = (struct fr_str){w->content.p, w->content.n};
    }
    return put_slots(w, slots_of(w, m->role), content, out);
}

/* The text in front of the first message: prefix, system, tools. */
static enum fr_rc put_front(struct work *w, const struct tr_example *x,
                            const struct tr_template_opts *o, struct tr_ids *out)
{
    const char *own = o->default_system != NULL ? o->default_system : w->t->default_system;
    struct fr_str system = x->system.n > 0 ? x->system : fr_str_of(own);
    enum fr_rc rc = FR_OK;

    if (w->t->prefix != NULL)
        rc = put_slots(w, w->t->prefix, (struct fr_str){"", 0}, out);
    if (rc != FR_OK || (system.n == 0 && x->tools.n == 0))
        return rc;
    w->content.n = 0;
    fr_buf_add(&w->content, system.p, system.n);
    if (x->tools.n > 0)
        rc = tr_tools_text(tools_of(w), x->tools, &w->content, w->err);
    if (rc == FR_OK && w->content.bad)
        rc = fr_fail(w->err, FR_NOMEM, "no memory for a system message");
    if (rc != FR_OK)
        return rc;
    return put_slots(w, w->t->system != NULL ? w->t->system : "{{content}}",
                     (struct fr_str){w->content.p, w->content.n}, out);
}

void tr_fit(int64_t s, int64_t t, int64_t c, int64_t *source, int64_t *target)
{
    int64_t m;

    if (t * 2 < c)
        m = c;
    else if (s * 2 < c)
        m = c - s;
    else
        m = (int64_t)((double)c * ((double)t / (double)(s + t)));
    *target = m < t ? m : t;
    m = c - *target > 0 ? c - *target : 0;
    *source = m < s ? m : s;
}

static enum fr_rc put_labels(struct tr_ids *labels, const int32_t *ids, int64_t n, bool trained,
                             struct fr_err *err)
{
    static const int32_t ignore = TR_IGNORE;
    enum fr_rc rc = FR_OK;

    if (trained)
        return tr_ids_add(labels, ids, (size_t)n, err);
    for (int64_t i = 0; rc == FR_OK && i < n; i++)
        rc = tr_ids_add(labels, &ignore, 1, err);
    return rc;
}

/* Moves the last n entries of ids to position `at`: with a masked history the pairs are built from
 * the last one back. */
static void rotate(struct tr_ids *ids, size_t at, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        int32_t x = ids->v[ids->n - n + k];
        memmove(ids->v + at + k + 1, ids->v + at + k,
                (ids->n - n - at) * sizeof(ids->v[0]));
        ids->v[at + k] = x;
    }
}

/* Where the example's ids and labels go, from start on. */
struct place {
    struct tr_ids *ids, *labels;
    size_t start;
};

static enum fr_rc put_pair(struct work *w, const struct tr_template_opts *o, int64_t room,
                           const struct place *p)
{
    struct tr_ids *out = p->ids, *labels = p->labels;
    int64_t s, t;
    size_t before = out->n, start = p->start;
    bool first = before == start;
    int32_t eos = tr_tokenizer_eos(tr_encoder_tokenizer(w->e));
    enum fr_rc rc;

    tr_fit((int64_t)w->source.n, (int64_t)w->target.n, room, &s, &t);
    if ((rc = tr_ids_add(out, w->source.v, (size_t)s, w->err)) != FR_OK ||
        (rc = tr_ids_add(out, w->target.v, (size_t)t, w->err)) != FR_OK ||
        (rc = put_labels(labels, w->source.v, s, o->train_on_prompt, w->err)) != FR_OK ||
        (rc = put_labels(labels, w->target.v, t, first || !o->mask_history, w->err)) != FR_OK)
        return rc;
    if (w->t->efficient_eos && before > start && s > 0)
        labels->v[before] = eos;
    if (o->mask_history && before > start) {
        rotate(out, start, out->n - before);
        rotate(labels, start, labels->n - before);
    }
    return FR_OK;
}

static enum fr_rc encode_pairs(struct work *w, const struct tr_example *x,
                               const struct tr_template_opts *o, struct tr_encoded out)
{
    struct place p = {out.ids, out.labels, out.ids->n};
    size_t pairs = x->n / 2;
    int64_t limit = o->cutoff_len - (w->t->efficient_eos ? 1 : 0);
    enum fr_rc rc = FR_OK;

    for (size_t k = 0; rc == FR_OK && k < pairs; k++) {
        size_t i = o->mask_history ? pairs - 1 - k : k;
        int64_t room = limit - (int64_t)(out.ids->n - p.start);
        if (room <= 0)
            break;
        w->source.n = w->target.n = 0;
        if (i == 0)
            rc = put_front(w, x, o, &w->source);
        if (rc == FR_OK)
            rc = put_message(w, &x->messages[2 * i], &w->source);
        if (rc == FR_OK)
            rc = put_message(w, &x->messages[2 * i + 1], &w->target);
        if (rc == FR_OK)
            rc = put_pair(w, o, room, &p);
    }
    return rc;
}

enum fr_rc tr_template_encode(const struct tr_template *t, struct tr_encoder *e,
                              const struct tr_example *x, const struct tr_template_opts *o,
                              struct tr_encoded out, struct fr_err *err)
{
    struct work w = {.t = t, .e = e, .tools = o->tools, .err = err};
    int32_t eos = tr_tokenizer_eos(tr_encoder_tokenizer(e));
    enum fr_rc rc;

    if (t->efficient_eos && o->train_on_prompt)
        return fr_fail(err, FR_USAGE, "--train_on_prompt does not go with template '%s'", t->name);
    rc = encode_pairs(&w, x, o, out);
    if (rc == FR_OK && t->efficient_eos && eos >= 0 &&
        (rc = tr_ids_add(out.ids, &eos, 1, err)) == FR_OK)
        rc = tr_ids_add(out.labels, &eos, 1, err);
    fr_buf_finish(&w.text);
    fr_buf_finish(&w.content);
    tr_ids_finish(&w.source);
    tr_ids_finish(&w.target);
    return rc;
}

enum fr_rc tr_template_prompt(const struct tr_template *t, struct tr_encoder *e,
                              const struct tr_example *x, const char *default_system,
                              struct tr_ids *ids, struct fr_err *err)
{
    struct work w = {.t = t, .e = e, .err = err};
    struct tr_template_opts o = {.default_system = default_system};
    enum fr_rc rc = put_front(&w, x, &o, ids);

    for (size_t i = 0; rc == FR_OK && i < x->n; i++)
        rc = put_message(&w, &x->messages[i], ids);
    fr_buf_finish(&w.text);
    fr_buf_finish(&w.content);
    return rc;
}
