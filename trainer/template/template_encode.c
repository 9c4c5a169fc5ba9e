#include "trainer/template/template.h"

#include "engine/base/sys.h"
#include "trainer/text/pyjson.h"
#include "trainer/template/template_row.h"

#include <string.h>

/* State of one encoding. */
struct work {
    const struct tr_template *t;
    struct tr_encoder *e;
    struct fr_buf text;    /* one slot with its content */
    struct fr_buf content; /* text made for a message: tools, function calls */
    struct fr_buf fused;   /* what begins the first user message, and that message */
    struct fr_buf thought; /* an answer without its thoughts */
    struct tr_ids source, target;
    const enum tr_tool_format *tools; /* NULL: the template's own */
    struct fr_err *err;
};

/* Appends the token at *p and moves *p past it. */
static enum fr_rc put_token(struct work *w, const char **p, struct tr_ids *out)
{
    const struct tr_tokenizer *tok = tr_encoder_tokenizer(w->e);
    const char *at = (*p)++;
    int32_t id = *at == BOS[0] ? tr_tokenizer_bos(tok) : *at == EOS[0] ? tr_tokenizer_eos(tok) : -1;

    if (*at == TOKEN[0]) {
        char name[32];
        size_t n = strcspn(*p, TOKEN);
        (void)snprintf(name, sizeof(name), "%.*s", (int)n, *p);
        *p += n + 1;
        if ((id = tr_tokenizer_id(tok, name)) < 0)
            return fr_fail(w->err, FR_USAGE,
                           "template '%s' needs the token %s, which the tokenizer does not have: "
                           "is it the template of this model? (--template auto finds the one)",
                           w->t->name, name);
    }
    return id >= 0 ? tr_ids_add(out, &id, 1, w->err) : FR_OK;
}

/* Appends a run of slots with content put in. */
static enum fr_rc put_slots(struct work *w, const char *slots, struct fr_str content,
                            struct tr_ids *out)
{
    static const char mark[] = "{{content}}";
    bool used = false;
    enum fr_rc rc = FR_OK;

    for (const char *p = slots; rc == FR_OK && *p != '\0';) {
        size_t n = strcspn(p, BOS EOS TOKEN SPLIT);
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
        if (rc == FR_OK && *p != '\0')
            rc = put_token(w, &p, out);
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
    if (role == TR_FUNCTION && t->function != NULL)
        return t->function;
    if (role == TR_ASSISTANT || role == TR_FUNCTION)
        return t->answer != NULL ? t->answer : "{{content}}" EOS;
    return role == TR_OBSERVATION && t->observation != NULL ? t->observation : t->user;
}

/* Delimiters of thoughts, and of calls in the data. */
static struct tr_tool_words words_of(const struct tr_template *t)
{
    return (struct tr_tool_words){
        .call = t->call != NULL ? t->call : "<tool_call>",
        .called = t->called != NULL ? t->called : "</tool_call>",
        .think = t->think != NULL ? t->think : "<think>\n",
        .thought = t->thought != NULL ? t->thought : "\n</think>\n\n",
    };
}

/* text as a JSON string. */
static void put_quoted(struct fr_str text, struct fr_buf *out)
{
    json_t *v = json_stringn(text.p, text.n);

    if (v == NULL)
        out->bad = true; /* or no UTF-8, which no record has */
    else
        tr_pyjson_dump(v, out);
    json_decref(v);
}

/* The text of a message that does not stand in the data as it is written. */
static enum fr_rc make_content(struct work *w, const struct tr_message *m, struct fr_str *content)
{
    struct tr_tool_words words = words_of(w->t);
    enum fr_rc rc = FR_OK;

    w->content.n = 0;
    if (m->role == TR_FUNCTION)
        rc = tr_tools_call(tools_of(w), &words, m->text, &w->content, w->err);
    else
        put_quoted(m->text, &w->content);
    *content = (struct fr_str){w->content.p, w->content.n};
    if (rc == FR_OK && w->content.bad)
        rc = fr_fail(w->err, FR_NOMEM, "no memory for a message");
    return rc;
}

static enum fr_rc put_message(struct work *w, const struct tr_message *m, struct tr_ids *out)
{
    bool trims = w->t->trims && (m->role == TR_USER || m->role == TR_ASSISTANT);
    bool makes = m->role == TR_FUNCTION || (m->role == TR_OBSERVATION && w->t->quotes);
    struct fr_str content = trims ? tr_py_strip(m->text) : m->text;
    enum fr_rc rc;

    if (makes && (rc = make_content(w, m, &content)) != FR_OK)
        return rc;
    if (m->role == TR_USER && w->fused.n > 0) {
        fr_buf_add(&w->fused, content.p, content.n);
        if (w->fused.bad)
            return fr_fail(w->err, FR_NOMEM, "no memory for a message");
        content = (struct fr_str){w->fused.p, w->fused.n};
    }
    rc = put_slots(w, slots_of(w, m->role), content, out);
    w->fused.n = 0; /* a first message of another role loses that text, as in the reference */
    return rc;
}

/* The system slot, a literal around the content, waits for the first user message. */
static enum fr_rc fuse(struct work *w)
{
    static const char mark[] = "{{content}}";
    const char *at = strstr(w->t->system, mark);

    w->fused.n = 0;
    fr_buf_add(&w->fused, w->t->system, (size_t)(at - w->t->system));
    fr_buf_add(&w->fused, w->content.p, w->content.n);
    fr_buf_text(&w->fused, at + sizeof(mark) - 1);
    return w->fused.bad ? fr_fail(w->err, FR_NOMEM, "no memory for a system message") : FR_OK;
}

static void put_opening(struct work *w)
{
    char day[32];

    if (w->t->opening != NULL)
        fr_buf_text(&w->content, w->t->opening);
    if (!w->t->dated)
        return;
    tr_tools_day(day);
    fr_buf_fmt(&w->content, "%s\n\n", day);
}

/* Tools that stand neither in the system text nor after it: for the first question, or declared
 * before the system text. None: w->fused is empty. */
static enum fr_rc put_tools_apart(struct work *w, const struct tr_example *x, struct tr_ids *out)
{
    enum tr_tool_format format = tools_of(w);
    enum fr_rc rc = FR_OK;

    w->fused.n = 0;
    if (x->tools.n == 0 || (format != TR_TOOLS_LLAMA31 && format != TR_TOOLS_KIMI))
        return FR_OK;
    rc = tr_tools_text(format, x->tools, &w->fused, w->err);
    if (rc == FR_OK && format == TR_TOOLS_KIMI) {
        rc = put_slots(w, "{{content}}", (struct fr_str){w->fused.p, w->fused.n}, out);
        w->fused.n = 0;
    }
    return rc;
}

/* The system text: opening, day, text, tools. */
static enum fr_rc make_system(struct work *w, const struct tr_example *x, struct fr_str system)
{
    enum tr_tool_format format = tools_of(w);
    enum fr_rc rc = FR_OK;

    w->content.n = 0;
    if (w->fused.n > 0) /* of the chat templates that put tools into the first question */
        fr_buf_text(&w->content, "Environment: ipython\n");
    put_opening(w);
    if (w->t->trims)
        system = tr_py_strip(system);
    fr_buf_add(&w->content, system.p, system.n);
    if (x->tools.n > 0 && format != TR_TOOLS_LLAMA31 && format != TR_TOOLS_KIMI)
        rc = tr_tools_text(format, x->tools, &w->content, w->err);
    if (rc == FR_OK && w->content.bad)
        rc = fr_fail(w->err, FR_NOMEM, "no memory for a system message");
    return rc;
}

/* The text before the first message: prefix, system, tools. */
static enum fr_rc put_front(struct work *w, const struct tr_example *x,
                            const struct tr_template_opts *o, struct tr_ids *out)
{
    const char *own = o->default_system != NULL ? o->default_system : w->t->default_system;
    struct fr_str system = x->system.n > 0 ? x->system : fr_str_of(own);
    enum fr_rc rc = FR_OK;

    if (w->t->prefix != NULL)
        rc = put_slots(w, w->t->prefix, (struct fr_str){"", 0}, out);
    if (rc == FR_OK)
        rc = put_tools_apart(w, x, out);
    if (rc != FR_OK || (system.n == 0 && x->tools.n == 0 && w->t->opening == NULL))
        return rc;
    if ((rc = make_system(w, x, system)) != FR_OK)
        return rc;
    if (w->t->fused)
        return fuse(w);
    return put_slots(w, w->t->system != NULL ? w->t->system : "{{content}}",
                     (struct fr_str){w->content.p, w->content.n}, out);
}

/* text without its thoughts, and without the line ends that it then begins with. */
static enum fr_rc without_thoughts(struct work *w, struct fr_str text, struct fr_str *out)
{
    struct tr_tool_words words = words_of(w->t);
    size_t open = strlen(words.think), close = strlen(words.thought), skip = 0;
    const char *p = text.p, *end = text.p + text.n, *from, *to;

    w->thought.n = 0;
    while ((from = memmem(p, (size_t)(end - p), words.think, open)) != NULL &&
           (to = memmem(from + open, (size_t)(end - from) - open, words.thought, close)) != NULL) {
        fr_buf_add(&w->thought, p, (size_t)(from - p));
        p = to + close;
    }
    fr_buf_add(&w->thought, p, (size_t)(end - p));
    if (w->thought.bad)
        return fr_fail(w->err, FR_NOMEM, "no memory for an answer");
    while (skip < w->thought.n && w->thought.p[skip] == '\n')
        skip++;
    *out = (struct fr_str){w->thought.n > 0 ? w->thought.p + skip : "", w->thought.n - skip};
    return FR_OK;
}

static bool thinks(const struct work *w, struct fr_str text)
{
    struct tr_tool_words words = words_of(w->t);
    struct fr_str open = tr_py_strip(fr_str_of(words.think));
    struct fr_str close = tr_py_strip(fr_str_of(words.thought));

    return memmem(text.p, text.n, open.p, open.n) != NULL ||
           memmem(text.p, text.n, close.p, close.n) != NULL;
}

static enum fr_rc put_empty_thought(struct work *w, struct tr_ids *out)
{
    struct tr_tool_words words = words_of(w->t);

    w->text.n = 0;
    fr_buf_text(&w->text, w->t->closes ? "" : words.think);
    fr_buf_text(&w->text, words.thought);
    return w->text.bad ? fr_fail(w->err, FR_NOMEM, "no memory for a thought")
                       : tr_encode(w->e, (struct fr_str){w->text.p, w->text.n}, out, w->err);
}

/* The answer of pair i of n, and the empty thought of one that has none: trained as part of the
 * answer, or given with the question where thinking is off. With a masked history thoughts stay in
 * the last answer alone. */
static enum fr_rc put_answer(struct work *w, const struct tr_example *x, size_t i,
                             const struct tr_template_opts *o)
{
    struct tr_message m = x->messages[2 * i + 1];
    bool last = 2 * i + 2 == x->n, history = o->mask_history && !o->preserve_thinking;
    enum fr_rc rc = FR_OK;

    if (w->t->reasons && (o->no_thinking || (history && !last)))
        rc = without_thoughts(w, m.text, &m.text);
    if (rc == FR_OK && w->t->reasons && !thinks(w, m.text) && (last || !history))
        rc = put_empty_thought(w, o->no_thinking ? &w->source : &w->target);
    return rc == FR_OK ? put_message(w, &m, &w->target) : rc;
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
    size_t from = labels->n;
    enum fr_rc rc = tr_ids_add(labels, ids, (size_t)n, err);

    for (size_t i = from; !trained && i < labels->n; i++)
        labels->v[i] = TR_IGNORE;
    return rc;
}

/* Moves the last n entries of ids to position `at`: with a masked history the pairs are built from
 * the last one back. */
static void rotate(struct tr_ids *ids, size_t at, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        int32_t x = ids->v[ids->n - n + k];
        memmove(ids->v + at + k + 1, ids->v + at + k, (ids->n - n - at) * sizeof(ids->v[0]));
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
            rc = put_answer(w, x, i, o);
        if (rc == FR_OK)
            rc = put_pair(w, o, room, &p);
    }
    return rc;
}

/* Borrows the encoder's buffers until finish(). */
static struct work begin(const struct tr_template *t, struct tr_encoder *e,
                         const struct tr_template_opts *o, struct fr_err *err)
{
    const struct tr_encoder_room *r = tr_encoder_room(e);
    struct work w = {.t = t,
                     .e = e,
                     .text = r->text[0],
                     .content = r->text[1],
                     .fused = r->text[2],
                     .thought = r->text[3],
                     .source = r->ids[0],
                     .target = r->ids[1],
                     .tools = o->tools,
                     .err = err};

    w.text.n = w.content.n = w.fused.n = w.thought.n = 0;
    w.text.bad = w.content.bad = w.fused.bad = w.thought.bad = false;
    w.source.n = w.target.n = 0;
    return w;
}

static void finish(const struct work *w)
{
    *tr_encoder_room(w->e) = (struct tr_encoder_room){
        .text = {w->text, w->content, w->fused, w->thought}, .ids = {w->source, w->target}};
}

enum fr_rc tr_template_encode(const struct tr_template *t, struct tr_encoder *e,
                              const struct tr_example *x, const struct tr_template_opts *o,
                              struct tr_encoded out, struct fr_err *err)
{
    struct work w;
    int32_t eos = tr_tokenizer_eos(tr_encoder_tokenizer(e));
    enum fr_rc rc;

    if (t->efficient_eos && o->train_on_prompt)
        return fr_fail(err, FR_USAGE, "--train_on_prompt does not go with template '%s'", t->name);
    w = begin(t, e, o, err);
    rc = encode_pairs(&w, x, o, out);
    if (rc == FR_OK && t->efficient_eos && eos >= 0 &&
        (rc = tr_ids_add(out.ids, &eos, 1, err)) == FR_OK)
        rc = tr_ids_add(out.labels, &eos, 1, err);
    finish(&w);
    return rc;
}

enum fr_rc tr_template_prompt(const struct tr_template *t, struct tr_encoder *e,
                              const struct tr_example *x, const struct tr_template_opts *o,
                              struct tr_ids *ids, struct fr_err *err)
{
    struct work w = begin(t, e, o, err);
    enum fr_rc rc = put_front(&w, x, o, ids);

    for (size_t i = 0; rc == FR_OK && i < x->n; i++) {
        struct tr_message m = x->messages[i];

        if (t->reasons && i % 2 == 1 && !o->preserve_thinking)
            rc = without_thoughts(&w, m.text, &m.text);
        if (rc == FR_OK)
            rc = put_message(&w, &m, ids);
    }
    if (rc == FR_OK && t->reasons && o->no_thinking)
        rc = put_empty_thought(&w, ids);
    finish(&w);
    return rc;
}
