#include "trainer/train/generate.h"

#include "engine/base/sys.h"
#include "trainer/report/progress_log.h"

#include <string.h>

/* A sequence of the caches, and the answer in work there. */
struct place {
    int64_t prompt; /* -1: free */
    int64_t past;   /* cached tokens */
    int32_t next;   /* chosen, not yet cached */
    size_t shown;   /* bytes of its text that were handed out */
};

struct job {
    const struct tr_generate_opts *o;
    const struct tr_prompt *prompts;
    struct tr_answer *answers;
    int64_t n, waiting;   /* waiting: this rank's next prompt */
    struct place *places; /* owns: sequences */
    int32_t *ids, *pos;   /* own: (tokens_max) of a call */
    int64_t *offsets;     /* owns: (sequences + 1) */
    int32_t *sequence;    /* owns: (sequences) */
    int64_t *past;        /* owns: (sequences) */
    float *logits;        /* owns: (sequences, V) */
    struct fr_buf text;   /* owns */
};

const char *tr_answer_end_name(enum tr_answer_end end)
{
    return end == TR_ANSWER_EOS ? "eos" : end == TR_ANSWER_STOP ? "stop" : "length";
}

void tr_answer_finish(struct tr_answer *a)
{
    tr_ids_finish(&a->ids);
    fr_sys.free(a->text);
    *a = (struct tr_answer){.text = NULL};
}

/* Where the first stop string begins in text; text.n when there is none. */
static size_t find_stop(const struct tr_generate_opts *o, struct fr_str text)
{
    size_t at = text.n;

    for (size_t i = 0; i < o->nstops; i++) {
        const char *hit = memmem(text.p, text.n, o->stops[i], strlen(o->stops[i]));

        if (hit != NULL && (size_t)(hit - text.p) < at)
            at = (size_t)(hit - text.p);
    }
    return at;
}

/* Bytes of text that no later token can change: not the last characters when they may be a part of
 * one (U+FFFD), or the beginning of a stop string. */
static size_t certain(const struct tr_generate_opts *o, struct fr_str text)
{
    static const char unknown[] = "\xef\xbf\xbd";
    size_t n = text.n, most = 0;

    while (n >= 3 && memcmp(text.p + n - 3, unknown, 3) == 0)
        n -= 3;
    for (size_t i = 0; i < o->nstops; i++) {
        size_t len = strlen(o->stops[i]), k = len < n ? len : n;

        for (; k > most; k--)
            if (memcmp(text.p + n - k, o->stops[i], k) == 0)
                break;
        most = k > most ? k : most;
    }
    return n - most;
}

/* Decodes the answer so far; a stop string ends it. */
static enum fr_rc read_text(struct job *j, struct place *p, bool *over, struct fr_err *err)
{
    struct tr_answer *a = &j->answers[p->prompt];
    enum fr_rc rc;
    size_t stop;

    if (j->o->tokenizer == NULL)
        return FR_OK;
    j->text.n = 0;
    fr_buf_text(&j->text, ""); /* so that p is there */
    if ((rc = tr_tokenizer_decode(j->o->tokenizer, a->ids.v, a->ids.n, true, &j->text, err)) !=
        FR_OK)
        return rc;
    struct fr_str text = {j->text.p != NULL ? j->text.p : "", j->text.n};
    if ((stop = find_stop(j->o, text)) < text.n) {
        text.n = stop;
        a->end = TR_ANSWER_STOP;
        *over = true;
    }
    size_t shown = *over ? text.n : certain(j->o, text);
    if (j->o->piece != NULL && shown > p->shown)
        j->o->piece(j->o->arg, p->prompt, (struct fr_str){text.p + p->shown, shown - p->shown});
    p->shown = shown > p->shown ? shown : p->shown;
    if (*over && (a->text = fr_sys.alloc(text.n + 1)) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for an answer of %zu bytes", text.n);
    if (*over) {
        memcpy(a->text, text.p, text.n);
        a->text[text.n] = '\0';
        a->text_n = text.n;
    }
    return FR_OK;
}

static bool is_eos(const struct tr_generate_opts *o, int32_t id)
{
    for (size_t i = 0; i < o->neos; i++)
        if (o->eos[i] == id)
            return true;
    return false;
}

/* The token that follows a sequence. */
static enum fr_rc take_token(struct job *j, struct place *p, const float *logits,
                             struct fr_err *err)
{
    const struct tr_generate_opts *o = j->o;
    struct tr_answer *a = &j->answers[p->prompt];
    struct tr_row row = {logits, o->vocab_size, (uint64_t)p->prompt, a->ids.n};
    bool over = false;
    enum fr_rc rc = tr_sample(&o->sampling, &row, &p->next, err);

    if (rc != FR_OK)
        return fr_while(err, "prompt %lld", (long long)p->prompt);
    if (is_eos(o, p->next)) {
        a->end = TR_ANSWER_EOS;
        over = true;
    } else if ((rc = tr_ids_add(&a->ids, &p->next, 1, err)) == FR_OK &&
               ((int64_t)a->ids.n >= o->max_new_tokens || p->past + 1 > o->cache_tokens)) {
        a->end = TR_ANSWER_LENGTH;
        over = true;
    }
    if (rc == FR_OK)
        rc = read_text(j, p, &over, err);
    if (over)
        p->prompt = -1;
    return rc;
}

/* A segment of the call. */
static void put_segment(struct job *j, struct tr_micro *mb, int64_t place, const int32_t *ids,
                        int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        j->ids[mb->T + i] = ids[i];
        j->pos[mb->T + i] = (int32_t)(j->places[place].past + i);
    }
    j->sequence[mb->B] = (int32_t)place;
    j->past[mb->B] = j->places[place].past;
    mb->T += n;
    j->offsets[++mb->B] = mb->T;
}

/* Free places take up prompts, as many as a call may hold. */
static void begin_prompts(struct job *j, struct tr_micro *mb)
{
    for (int64_t k = 0; k < j->o->sequences && j->waiting < j->n; k++) {
        const struct tr_prompt *p = &j->prompts[j->waiting];

        if (j->places[k].prompt >= 0)
            continue;
        if (mb->T + p->n > j->o->tokens_max)
            break;
        j->places[k] = (struct place){.prompt = j->waiting};
        put_segment(j, mb, k, p->ids, p->n);
        j->waiting += j->o->comm->size;
    }
}

static void go_on(struct job *j, struct tr_micro *mb)
{
    for (int64_t k = 0; k < j->o->sequences; k++)
        if (j->places[k].prompt >= 0)
            put_segment(j, mb, k, &j->places[k].next, 1);
}

/* One call: prompts that begin, else one token of each answer in work, else nothing. */
static enum fr_rc one_call(struct job *j, struct fr_err *err)
{
    struct tr_micro mb = {.ids = j->ids, .pos = j->pos, .offsets = j->offsets};
    struct tr_next next = {j->sequence, j->past, j->logits};
    enum fr_rc rc;

    j->offsets[0] = 0;
    begin_prompts(j, &mb);
    if (mb.B == 0)
        go_on(j, &mb);
    rc = tr_model_next(j->o->model, &mb, &next, err);
    for (int64_t b = 0; b < mb.B && rc == FR_OK; b++) {
        struct place *p = &j->places[j->sequence[b]];

        p->past += j->offsets[b + 1] - j->offsets[b];
        rc = take_token(j, p, j->logits + b * j->o->vocab_size, err);
    }
    return rc;
}

/* Prompts of this rank without their answer. */
static int64_t unanswered(const struct job *j)
{
    int64_t size = j->o->comm->size;
    int64_t n = j->waiting < j->n ? (j->n - j->waiting + size - 1) / size : 0;

    for (int64_t k = 0; k < j->o->sequences; k++)
        n += j->places[k].prompt >= 0;
    return n;
}

static enum fr_rc check(const struct job *j, struct fr_err *err)
{
    for (int64_t i = 0; i < j->n; i++) {
        int64_t n = j->prompts[i].n;

        if (n < 1 || n > j->o->tokens_max || n >= j->o->cache_tokens)
            return fr_fail(
                err, FR_USAGE, "prompt %lld has %lld tokens: expected 1 to %lld (--cutoff_len)",
                (long long)i, (long long)n,
                (long long)(j->o->tokens_max < j->o->cache_tokens ? j->o->tokens_max
                                                                  : j->o->cache_tokens - 1));
    }
    return FR_OK;
}

static enum fr_rc begin(struct job *j, struct fr_err *err)
{
    size_t S = (size_t)j->o->sequences, T = (size_t)j->o->tokens_max + S;

    j->places = fr_sys.alloc(S * sizeof(*j->places));
    j->ids = fr_sys.alloc(T * sizeof(*j->ids));
    j->pos = fr_sys.alloc(T * sizeof(*j->pos));
    j->offsets = fr_sys.alloc((S + 1) * sizeof(*j->offsets));
    j->sequence = fr_sys.alloc(S * sizeof(*j->sequence));
    j->past = fr_sys.alloc(S * sizeof(*j->past));
    j->logits = fr_sys.alloc(S * (size_t)j->o->vocab_size * sizeof(*j->logits));
    if (j->places == NULL || j->ids == NULL || j->pos == NULL || j->offsets == NULL ||
        j->sequence == NULL || j->past == NULL || j->logits == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %zu answers at once", S);
    for (size_t k = 0; k < S; k++)
        j->places[k] = (struct place){.prompt = -1};
    return check(j, err);
}

enum fr_rc tr_generate(const struct tr_generate_opts *o, const struct tr_prompt *prompts, int64_t n,
                       struct tr_answer *answers, struct fr_err *err)
{
    struct job j = {
        .o = o, .prompts = prompts, .answers = answers, .n = n, .waiting = o->comm->rank};
    struct tr_progress_log log = tr_progress_log_begin("Generation", "answers", n);
    enum fr_rc rc = begin(&j, err);

    while (rc == FR_OK) {
        double left = (double)unanswered(&j);

        if ((rc = tr_comm_host_sum(o->comm, &left, 1, err)) != FR_OK || left == 0)
            break;
        if (o->comm->rank == 0 && o->piece == NULL)
            (void)tr_progress_log_at(&log, n - (int64_t)left);
        rc = one_call(&j, err);
    }
    fr_sys.free(j.places);
    fr_sys.free(j.ids);
    fr_sys.free(j.pos);
    fr_sys.free(j.offsets);
    fr_sys.free(j.sequence);
    fr_sys.free(j.past);
    fr_sys.free(j.logits);
    fr_buf_finish(&j.text);
    return rc;
}
