#include "trainer/dataset/tokenise.h"

#include "engine/base/arena.h"
#include "engine/base/sys.h"
#include "trainer/dataset/answers.h"
#include "trainer/dataset/columns.h"
#include "trainer/dataset/mt.h"
#include "trainer/text/pyjson.h"

#include <omp.h>
#include <string.h>

enum { MAX_WARNINGS = 20, MAX_REASONS = 3 };

enum { BATCH = 256, MAX_WORKERS = BATCH }; /* records that are read before any is encoded */

/* A record of the batch and its tokens, or why it is dropped. */
struct slot {
    struct fr_str line;    /* its JSON, to be parsed; {NULL}: it was */
    json_t *record;        /* owns */
    const char *where;     /* in arena */
    struct fr_arena arena; /* of this record */
    struct tr_ids ids, labels;
    const char *why; /* it is dropped */
    enum fr_rc rc;
    struct fr_err err;
};

/* The state of tokenising. */
struct job {
    const struct tr_dataset_opts *o;
    struct fr_buf eos;                        /* owns: its text; pretrain */
    struct tr_encoder *encoders[MAX_WORKERS]; /* own: one a thread */
    int workers;
    const struct tr_data_entry *entry;
    struct slot *slots; /* own: BATCH of them */
    int nslots;
    struct tr_tokens *out;
    size_t cap;                /* of out->offsets */
    int64_t first;             /* where this data set's samples begin */
    int64_t records;           /* of this data set */
    unsigned columns;          /* those that one of these has, as bits by tr_record_column */
    bool left;                 /* records after max_samples were not looked at */
    struct fr_buf keys;        /* owns: of the first of these */
    struct tr_answers answers; /* of this data set */
    struct fr_buf *warnings;
    struct fr_buf reasons; /* owns: the first of the dropped records, "WHERE: WHY" */
    int64_t dropped;       /* of all data sets */
    int64_t cut;           /* samples that --cutoff_len left no targets, of all data sets */
    int64_t taken;         /* records of all data sets */
    struct tr_mt draw;     /* of num_samples, one after the other */
    bool mixing;           /* records that are dropped keep their places until all sets are read */
    struct fr_err *err;
};

static enum fr_rc grow(struct job *j, struct fr_err *err)
{
    size_t need = (size_t)j->out->n + 2;
    void *p = fr_grow(j->out->offsets, need, &j->cap, sizeof(int64_t));

    if (p == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %zu samples", need);
    j->out->offsets = p;
    return FR_OK;
}

static void warn(struct job *j, const char *where, const char *why)
{
    j->dropped++;
    if (j->dropped <= MAX_REASONS)
        fr_buf_fmt(&j->reasons, "; %s: %s", where, why);
    if (j->warnings != NULL && j->dropped <= MAX_WARNINGS)
        fr_buf_fmt(j->warnings, "%s: Dropped invalid example: %s\n", where, why);
}

/* A text and the eos token after it, as one string. */
static void encode_text(const struct job *j, struct slot *s, struct tr_encoder *e)
{
    int32_t pad = tr_tokenizer_pad(tr_encoder_tokenizer(e)), none = TR_IGNORE;
    struct fr_buf both = {0};
    struct fr_str text = {0};

    s->rc = tr_record_text(j->entry, s->record, &s->arena, &text, &s->why, &s->err);
    if (s->rc != FR_OK || s->why != NULL)
        return;
    fr_buf_add(&both, text.p, text.n);
    fr_buf_add(&both, j->eos.p, j->eos.n);
    s->rc = both.bad ? fr_fail(&s->err, FR_NOMEM, "no memory for a text")
                     : tr_encode(e, (struct fr_str){both.p, both.n}, &s->ids, &s->err);
    fr_buf_finish(&both);
    if (j->o->text.cutoff_len > 0 && s->ids.n > (size_t)j->o->text.cutoff_len)
        s->ids.n = (size_t)j->o->text.cutoff_len;
    for (size_t i = 0; s->rc == FR_OK && i < s->ids.n; i++)
        s->rc = tr_ids_add(&s->labels, s->ids.v[i] == pad ? &none : &s->ids.v[i], 1, &s->err);
}

static void encode_slot(const struct job *j, struct slot *s, struct tr_encoder *e)
{
    struct tr_example x;

    s->ids.n = s->labels.n = 0;
    s->rc = FR_OK;
    s->why = NULL;
    if (s->line.p != NULL &&
        (s->rc = tr_record_parse(s->line, s->where, &s->record, &s->err)) != FR_OK)
        return;
    if (j->o->pretrain) {
        encode_text(j, s, e);
        return;
    }
    s->rc = tr_record_convert(j->entry, s->record, &s->arena, &x, &s->why, &s->err);
    if (s->rc == FR_OK && s->why == NULL)
        s->rc = tr_template_encode(j->o->templ, e, &x, &j->o->text,
                                   (struct tr_encoded){&s->ids, &s->labels}, &s->err);
    if (s->rc == FR_OK && s->why == NULL && s->ids.n == 0)
        s->why = "it has no tokens";
}

/* num_samples is drawn among all records: those that are dropped leave when it is done. */
static bool keeps_dropped(const struct job *j)
{
    return j->o->keep_dropped || j->mixing || j->entry->num_samples >= 0;
}

/* Whether the sample was cut after its prompt. One that is shorter never had targets. */
static bool is_cut(const struct job *j, const struct slot *s)
{
    if (j->o->text.cutoff_len <= 0 || (int64_t)s->ids.n + 1 < j->o->text.cutoff_len)
        return false;
    for (size_t i = 0; i < s->labels.n; i++)
        if (s->labels.v[i] != TR_IGNORE)
            return false;
    return true;
}

static enum fr_rc take_slot(struct job *j, const struct slot *s, struct fr_err *err)
{
    enum fr_rc rc;

    if (s->rc != FR_OK) {
        fr_fail(err, s->rc, "%s", s->err.msg);
        return s->record != NULL ? fr_while(err, "%s", s->where) : s->rc; /* the parser names it */
    }
    if (s->why != NULL) {
        warn(j, s->where, s->why);
        if (!keeps_dropped(j))
            return FR_OK;
        if ((rc = grow(j, err)) == FR_OK)
            j->out->offsets[++j->out->n] = (int64_t)j->out->ids.n;
        return rc;
    }
    j->cut += is_cut(j, s);
    if ((rc = grow(j, err)) == FR_OK &&
        (rc = tr_ids_add(&j->out->ids, s->ids.v, s->ids.n, err)) == FR_OK &&
        (rc = tr_ids_add(&j->out->labels, s->labels.v, s->labels.n, err)) == FR_OK)
        j->out->offsets[++j->out->n] = (int64_t)j->out->ids.n;
    return rc == FR_OK ? rc : fr_while(err, "%s", s->where);
}

/* Takes down which columns a record has. */
static void note_columns(struct job *j, const json_t *record)
{
    const char *name, *key;
    json_t *v;

    for (size_t i = 0; i < TR_RECORD_COLUMNS; i++) {
        (void)tr_record_column(j->entry, i, &name);
        if (name != NULL && json_object_get(record, name) != NULL)
            j->columns |= 1u << i;
    }
    if (j->keys.n == 0)
        json_object_foreach((json_t *)record, key, v)
            fr_buf_fmt(&j->keys, "%s%s", j->keys.n > 0 ? ", " : "", key);
}

/* Answers that LLaMA-Factory would not see as text. */
static void note_answer(struct job *j, const json_t *record)
{
    const char *file = j->entry->files[0];

    if (j->o->pretrain || j->entry->form != TR_FORM_ALPACA || j->entry->response == NULL ||
        tr_is_columns(fr_str_of(file)))
        return;
    tr_answers_note(&j->answers, strstr(file, ".csv") != NULL,
                    json_object_get(record, j->entry->response));
}

static void tell_answers(struct job *j)
{
    const char *kind = tr_answers_are(&j->answers);

    if (kind != NULL && j->warnings != NULL)
        fr_buf_fmt(j->warnings,
                   "data set '%s': all answers in the column '%s' are %s, which datasets gives a "
                   "type of their own: LLaMA-Factory drops these records, here their text is "
                   "trained on\n",
                   j->entry->name, j->entry->response, kind);
}

/* A column that no record has is a name that is wrong in dataset_info.json, or in the data. */
static enum fr_rc check_columns(struct job *j, struct fr_err *err)
{
    for (size_t i = 0; j->records > 0 && i < TR_RECORD_COLUMNS; i++) {
        const char *name, *key = tr_record_column(j->entry, i, &name);
        bool asked = i == 0 || !j->left; /* others may be in records that are left out */
        bool answers = strcmp(key, "response") == 0 && j->o->pretrain;

        if (name != NULL && asked && !answers && (j->columns & 1u << i) == 0)
            return fr_fail(err, FR_USAGE,
                           "%s: none of %lld records of data set '%s' has the column '%s', its %s; "
                           "the first has: %s. Name it in dataset_info.json: \"columns\": "
                           "{\"%s\": …}",
                           j->entry->files[0], (long long)j->records, j->entry->name, name, key,
                           j->keys.n > 0 ? j->keys.p : "nothing", key);
    }
    return FR_OK;
}

static void note_record(struct job *j, const json_t *record)
{
    note_columns(j, record);
    note_answer(j, record);
}

/* Encodes the batch on all threads and takes it up in the order of the file, so that samples,
 * warnings and the first error are the same with any number of them. */
static enum fr_rc flush(struct job *j, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    if (j->nslots == 0)
        return FR_OK;
#pragma omp parallel for num_threads(j->workers) schedule(dynamic, 4) if (j->workers > 1)
    for (int i = 0; i < j->nslots; i++)
        encode_slot(j, &j->slots[i], j->encoders[omp_get_thread_num()]);
    for (int i = 0; i < j->nslots; i++) {
        struct slot *s = &j->slots[i];
        if (rc == FR_OK)
            rc = take_slot(j, s, err);
        if (rc == FR_OK)
            note_record(j, s->record);
        json_decref(s->record);
        s->record = NULL;
        fr_arena_reset(&s->arena);
    }
    j->taken += j->nslots;
    j->nslots = 0;
    if (j->o->tell.so_far != NULL && !j->o->tell.so_far(j->o->tell.arg, j->taken) && rc == FR_OK)
        rc = fr_fail(err, FR_STOPPED, "stopped as asked, while data set '%s' was read",
                     j->entry->name);
    return rc;
}

/* The next slot gets the record, or the line that it stands in. */
static enum fr_rc put_record(struct job *j, json_t *record, struct fr_str line, const char *where,
                             struct fr_err *err)
{
    struct slot *s = &j->slots[j->nslots];

    /* with num_samples the choice is made among all records */
    if (j->o->max_samples >= 0 && j->entry->num_samples < 0 && j->records >= j->o->max_samples) {
        j->left = true;
        return FR_OK;
    }
    j->records++;
    if ((s->where = fr_arena_dup(&s->arena, where)) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a record");
    s->record = json_incref(record);
    s->line = line;
    return ++j->nslots == BATCH ? flush(j, err) : FR_OK;
}

static enum fr_rc one_record(void *arg, const json_t *record, const char *where, struct fr_err *err)
{
    return put_record(arg, (json_t *)record, (struct fr_str){NULL, 0}, where, err);
}

static enum fr_rc one_line(void *arg, struct fr_str line, const char *where, struct fr_err *err)
{
    return put_record(arg, NULL, line, where, err);
}

/* A file's records. An error in a record wins over a read error after that record. */
static enum fr_rc one_file(struct job *j, const char *path, struct fr_buf *bytes,
                           struct fr_err *err)
{
    struct tr_record_sink sink = {one_record, one_line, j, bytes};
    struct fr_err earlier;
    enum fr_rc rc = tr_records_read(path, &sink, err), flushed = flush(j, &earlier);

    return flushed != FR_OK ? fr_fail(err, flushed, "%s", earlier.msg) : rc;
}

/* The samples first + order[0..n) take the place of those from first on; with keep, those without
 * tokens too. */
static enum fr_rc reorder(struct tr_tokens *t, int64_t first, const int64_t *order, int64_t n,
                          struct job *j)
{
    struct tr_tokens kept = {.offsets = fr_sys.alloc(((size_t)n + 1) * sizeof(int64_t))};
    bool keep = j->o->keep_dropped || j->mixing;
    enum fr_rc rc = FR_OK;

    if (kept.offsets == NULL)
        return fr_fail(j->err, FR_NOMEM, "no memory for the order of %lld samples", (long long)n);
    for (int64_t i = 0; rc == FR_OK && i < n; i++) {
        int64_t at = t->offsets[first + order[i]];
        size_t len = (size_t)(t->offsets[first + order[i] + 1] - at);
        kept.offsets[i] = (int64_t)len;
        if (len == 0) /* of records that were all dropped there is no array */
            continue;
        if ((rc = tr_ids_add(&kept.ids, t->ids.v + at, len, j->err)) == FR_OK)
            rc = tr_ids_add(&kept.labels, t->labels.v + at, len, j->err);
    }
    t->ids.n = t->labels.n = (size_t)t->offsets[first];
    t->n = first;
    for (int64_t i = 0, end = t->offsets[first]; rc == FR_OK && i < n; i++) {
        end += kept.offsets[i];
        if ((kept.offsets[i] > 0 || keep) && (rc = grow(j, j->err)) == FR_OK)
            t->offsets[++t->n] = end;
    }
    if (rc == FR_OK && (rc = tr_ids_add(&t->ids, kept.ids.v, kept.ids.n, j->err)) == FR_OK)
        rc = tr_ids_add(&t->labels, kept.labels.v, kept.labels.n, j->err);
    tr_tokens_finish(&kept);
    return rc;
}

/* Keeps num_samples of the records [first, n), in the order of the reference's draw. */
static enum fr_rc resample(struct job *j, struct fr_err *err)
{
    int64_t n = j->out->n - j->first, want = j->entry->num_samples, most = want > n ? want : n;
    int64_t *order = fr_sys.alloc(((size_t)most + 1) * sizeof(int64_t));
    enum fr_rc rc;

    if (order == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the order of %lld samples", (long long)most);
    if (n == 0)
        want = 0;
    tr_mt_choose(&j->draw, n, want, order);
    if (j->o->max_samples >= 0 && j->o->max_samples < want)
        want = j->o->max_samples;
    rc = reorder(j->out, j->first, order, want, j);
    fr_sys.free(order);
    return rc;
}

/* The n data sets in the order of the mixture. */
static enum fr_rc mix(struct job *j, size_t n, struct fr_err *err)
{
    double probs[TR_SETS_MAX];
    struct tr_mix_opts o = {.strategy = j->o->mix, .seed = (uint64_t)j->o->seed};
    int64_t *order = NULL, count = 0;
    enum fr_rc rc = FR_OK;

    if (j->o->mix_probs != NULL && (rc = tr_mix_probs(j->o->mix_probs, n, probs, err)) == FR_OK)
        o.probs = probs;
    j->mixing = false;
    if (rc == FR_OK && (rc = tr_mix(j->out->sets, n, &o, &order, &count, err)) == FR_OK)
        rc = reorder(j->out, 0, order, count, j);
    j->out->nsets = 0;
    fr_sys.free(order);
    return rc == FR_OK ? rc : fr_while(err, "--dataset %s", j->o->dataset);
}

/* LLaMA-Factory ends texts with another token where the template is llama3. */
static enum fr_rc name_eos(struct job *j, const struct tr_tokenizer *tok, struct fr_err *err)
{
    int32_t eos = tr_tokenizer_eos(tok);
    enum fr_rc rc = FR_OK;

    if (strcmp(tr_template_name(j->o->templ), "llama3") == 0)
        fr_buf_text(&j->eos, "<|end_of_text|>");
    else
        rc = tr_tokenizer_decode(tok, &eos, 1, false, &j->eos, err);
    return rc == FR_OK && j->eos.bad ? fr_fail(err, FR_NOMEM, "no memory for a token") : rc;
}

static enum fr_rc job_begin(struct job *j, const struct tr_tokenizer *tok, struct fr_err *err)
{
    enum fr_rc rc = grow(j, err);

    j->workers = j->o->workers > 0 ? j->o->workers : omp_get_max_threads();
    if (j->workers > MAX_WORKERS)
        j->workers = MAX_WORKERS;
    if (rc == FR_OK && j->o->pretrain)
        rc = name_eos(j, tok, err);
    for (int i = 0; rc == FR_OK && i < j->workers; i++)
        rc = tr_encoder_create(tok, &j->encoders[i], err);
    if (rc == FR_OK && (j->slots = fr_sys.alloc(BATCH * sizeof(*j->slots))) == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for %d records", BATCH);
    if (rc == FR_OK) {
        memset(j->slots, 0, BATCH * sizeof(*j->slots));
        j->out->offsets[0] = 0;
    }
    return rc;
}

static void job_end(struct job *j)
{
    for (int i = 0; i < j->workers; i++)
        tr_encoder_destroy(j->encoders[i]);
    for (int i = 0; j->slots != NULL && i < BATCH; i++) {
        fr_arena_finish(&j->slots[i].arena);
        tr_ids_finish(&j->slots[i].ids);
        tr_ids_finish(&j->slots[i].labels);
    }
    fr_sys.free(j->slots);
    fr_buf_finish(&j->reasons);
    fr_buf_finish(&j->keys);
    fr_buf_finish(&j->eos);
}

enum fr_rc tr_tokenise(const struct tr_sources *s, struct tr_tokens *out, struct fr_buf *warnings,
                       struct fr_err *err)
{
    struct job j = {.o = s->o, .out = out, .warnings = warnings, .err = err};
    struct fr_buf bytes = {0};
    enum fr_rc rc = job_begin(&j, s->tok, err);

    j.mixing = s->o->mix != TR_MIX_CONCAT && s->n > 1 && !s->o->stream;
    tr_mt_seed(&j.draw, (uint32_t)s->o->seed);
    for (size_t i = 0; rc == FR_OK && i < s->n; i++) {
        j.entry = &s->entries[i];
        j.first = out->n;
        j.records = 0;
        j.columns = 0;
        j.left = false;
        j.answers = (struct tr_answers){.seen = 0};
        j.keys.n = 0;
        for (size_t k = 0; rc == FR_OK && k < j.entry->nfiles; k++)
            rc = one_file(&j, j.entry->files[k], &bytes, err);
        if (rc == FR_OK)
            rc = check_columns(&j, err);
        tell_answers(&j);
        if (rc == FR_OK && j.entry->num_samples >= 0)
            rc = resample(&j, err);
        out->sets[i] = out->n - j.first;
    }
    out->nsets = s->n;
    if (rc == FR_OK && j.mixing)
        rc = mix(&j, s->n, err);
    if (rc == FR_OK && out->ids.n == 0)
        rc = fr_fail(err, FR_USAGE,
                     "Cannot find valid samples, check data/README.md for the data format: all "
                     "%lld records of --dataset %s failed%s",
                     (long long)j.dropped, s->o->dataset, j.reasons.n > 0 ? j.reasons.p : "");
    if (rc == FR_OK && warnings != NULL && j.dropped > MAX_WARNINGS)
        fr_buf_fmt(warnings, "%lld invalid examples were dropped in all\n", (long long)j.dropped);
    if (rc == FR_OK && warnings != NULL && j.cut > 0)
        fr_buf_fmt(warnings,
                   "--cutoff_len %lld leaves %lld of %lld samples no targets: their prompts alone "
                   "fill it, and nothing is learned from them\n",
                   (long long)s->o->text.cutoff_len, (long long)j.cut, (long long)out->n);
    job_end(&j);
    fr_buf_finish(&bytes);
    return rc;
}
