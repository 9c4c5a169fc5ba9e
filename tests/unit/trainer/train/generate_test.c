/*
 * Generation against transformers' greedy answers in f32 (tests/golden/generate.py), by caches of
 * several sizes; the same through a recomputed forward; sampling.
 */
#include "tests/unit/check.h"
#include "trainer/train/generate.h"
#include "trainer/train/infer.h"

#include "engine/base/json.h"
#include "engine/base/log.h"
#include "engine/base/sys.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

enum { PROMPTS = 200, TOKENS = 64, NEW = 64 };

static const char *const models[] = {
    "deepseek_v3/yarn",      "deepseek_v3/plain",      "deepseek_v3/no_q_lora",
    "deepseek_v3/one_group", "deepseek_v3/two_shared", "dense/llama_plain",
    "dense/llama_llama3",    "dense/mistral_one_kv",   "dense/qwen2_yarn",
    "dense/qwen3_biases",    "dense/mistral_window",   "dense/qwen3_window",
};

struct list {
    int32_t v[TOKENS];
    int64_t n;
};

static void read_list(const json_t *from, struct list *to)
{
    to->n = (int64_t)json_array_size(from);
    for (int64_t i = 0; i < to->n && i < TOKENS; i++)
        to->v[i] = (int32_t)json_integer_value(json_array_get(from, (size_t)i));
}

struct bed {
    struct tr_backend *be;
    struct tr_comm *comm;
    struct tr_infer x;
};

/* The files of a golden model without the adapter that lies beside them: links in dir. */
static const char *const own[] = {"config.json", "model.safetensors"};

static void link_model(const char *golden, char dir[512])
{
    char from[600], to[600];

    snprintf(dir, 512, "%s", "/tmp/generate_test.XXXXXX");
    CHECK(mkdtemp(dir) != NULL);
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        snprintf(from, sizeof(from), "%s/%s", golden, own[i]);
        snprintf(to, sizeof(to), "%s/%s", dir, own[i]);
        CHECK_INT(symlink(from, to), 0);
    }
}

static void unlink_model(const char *dir)
{
    char path[600];

    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", dir, own[i]);
        unlink(path);
    }
    rmdir(dir);
}

static bool open_typed(struct bed *b, const char *name, bool adapter, int64_t sequences,
                       enum tr_dtype compute)
{
    char golden[400], dir[512];
    struct fr_err err = {0};
    enum fr_rc rc;

    snprintf(golden, sizeof(golden), SOURCE_ROOT "/tests/golden/%s", name);
    link_model(golden, dir);
    struct tr_infer_opts o = {.be = b->be,
                              .comm = b->comm,
                              .model_dir = dir,
                              .adapter_dir = adapter ? golden : NULL,
                              .compute = compute,
                              .tokens_max = TOKENS,
                              .samples_max = sequences,
                              .cache_sequences = sequences,
                              .cache_tokens = TOKENS};
    rc = tr_infer_open(&b->x, &o, &err);
    unlink_model(dir);
    if (CHECK_INT(rc, FR_OK))
        return true;
    printf("   message: %s\n", err.msg);
    return false;
}

static bool open_model(struct bed *b, const char *name, bool adapter, int64_t sequences)
{
    return open_typed(b, name, adapter, sequences, TR_F32);
}

/* An answer against that of the golden model; gaps: in bf16, where another choice is right while
 * the two largest logits are closer than bound. */
static void check_answer(const struct tr_answer *got, const json_t *wanted, const json_t *gaps,
                         double bound)
{
    struct list want;
    int64_t k = 0;

    read_list(wanted, &want);
    CHECK_INT(got->end, TR_ANSWER_LENGTH);
    if (!CHECK_INT(got->ids.n, want.n))
        return;
    for (; k < want.n && (gaps == NULL || got->ids.v[k] == want.v[k]); k++)
        CHECK_INT(got->ids.v[k], want.v[k]);
    if (k < want.n)
        CHECK(json_number_value(json_array_get(gaps, (size_t)k)) < bound);
}

/* All prompts of a golden model through caches for so many sequences. */
static void answers_of(struct bed *b, const json_t *golden, const char *kind, int64_t sequences)
{
    const json_t *prompts = json_object_get(golden, "prompts"),
                 *wants = json_object_get(golden, kind);
    const json_t *gaps = strcmp(kind, "bf16") == 0 ? json_object_get(golden, "gaps") : NULL;
    double bound = json_number_value(json_object_get(golden, "bound"));
    struct list ids[PROMPTS], want;
    struct tr_prompt in[PROMPTS];
    struct tr_answer out[PROMPTS] = {{.text = NULL}};
    int64_t n = (int64_t)json_array_size(prompts);
    struct fr_err err = {0};

    for (int64_t i = 0; i < n && CHECK(n <= PROMPTS); i++) {
        read_list(json_array_get(prompts, (size_t)i), &ids[i]);
        in[i] = (struct tr_prompt){ids[i].v, ids[i].n};
    }
    read_list(json_array_get(wants, 0), &want);
    struct tr_generate_opts o = {.model = b->x.model,
                                 .comm = b->comm,
                                 .vocab_size = b->x.config.vocab_size,
                                 .tokens_max = TOKENS,
                                 .sequences = sequences,
                                 .cache_tokens = TOKENS,
                                 .max_new_tokens = want.n};
    if (!CHECK_INT(tr_generate(&o, in, n, out, &err), FR_OK))
        printf("   message: %s\n", err.msg);
    for (int64_t i = 0; i < n; i++) {
        check_answer(&out[i], json_array_get(wants, (size_t)i), json_array_get(gaps, (size_t)i),
                     bound);
        tr_answer_finish(&out[i]);
    }
    CHECK(n >= 5);
}

static void test_golden(struct bed *b, const json_t *golden)
{
    static const int64_t sequences[] = {1, 2, 5};
    char row[64];

    for (size_t m = 0; m < sizeof(models) / sizeof(models[0]); m++)
        for (int adapter = 0; adapter < 2; adapter++)
            for (size_t s = 0; s < 3; s++) {
                const char *kind = adapter ? "adapter" : "base";

                snprintf(row, sizeof(row), "%s, %s, %d at once", models[m], kind,
                         (int)sequences[s]);
                check_row(row);
                if (open_model(b, models[m], adapter, sequences[s]))
                    answers_of(b, json_object_get(golden, models[m]), kind, sequences[s]);
                tr_infer_finish(&b->x);
            }
}

/* 200 prompts of one model of each kind, in f32 and in bf16. */
static void test_many(struct bed *b, const char *path)
{
    json_t *golden = NULL;
    const char *name;
    struct fr_err err;
    json_t *one;

    if (!CHECK_INT(fr_json_load(path, 1 << 20, &golden, &err), FR_OK))
        return;
    CHECK_INT(json_object_size(golden), 2);
    json_object_foreach(golden, name, one)
    {
        check_row(name);
        CHECK_INT(json_array_size(json_object_get(one, "prompts")), 200);
        if (open_typed(b, name, false, 8, TR_F32))
            answers_of(b, one, "base", 8);
        tr_infer_finish(&b->x);
        if (open_typed(b, name, false, 8, TR_BF16))
            answers_of(b, one, "bf16", 8);
        tr_infer_finish(&b->x);
    }
    json_decref(golden);
}

/* An id of the golden answer as the end: the answer stops in front of it. */
static void test_ends(struct bed *b, const json_t *golden)
{
    const json_t *one = json_object_get(golden, "deepseek_v3/yarn");
    struct list prompt, want;
    struct tr_answer out = {.text = NULL};
    struct fr_err err = {0};

    check_row("eos");
    read_list(json_array_get(json_object_get(one, "prompts"), 1), &prompt);
    read_list(json_array_get(json_object_get(one, "base"), 1), &want);
    struct tr_prompt in = {prompt.v, prompt.n};
    int64_t at = 0;
    while (at < want.n && want.v[at] != want.v[5])
        at++;
    if (!open_model(b, "deepseek_v3/yarn", false, 1))
        return;
    struct tr_generate_opts o = {.model = b->x.model,
                                 .comm = b->comm,
                                 .vocab_size = b->x.config.vocab_size,
                                 .tokens_max = TOKENS,
                                 .sequences = 1,
                                 .cache_tokens = TOKENS,
                                 .max_new_tokens = 1000,
                                 .eos = (const int32_t[]){-1, want.v[5]},
                                 .neos = 2};
    CHECK_INT(tr_generate(&o, &in, 1, &out, &err), FR_OK);
    CHECK_INT(out.end, TR_ANSWER_EOS);
    CHECK_INT(out.ids.n, at);
    tr_answer_finish(&out);
    check_row("a full cache");
    o.neos = 0;
    CHECK_INT(tr_generate(&o, &in, 1, &out, &err), FR_OK);
    CHECK_INT(out.end, TR_ANSWER_LENGTH);
    CHECK_INT(out.ids.n, TOKENS - prompt.n + 1);
    tr_answer_finish(&out);
    check_row("a prompt that does not fit");
    in.n = TOKENS;
    CHECK_INT(tr_generate(&o, &in, 1, &out, &err), FR_USAGE);
    CHECK(strstr(err.msg, "prompt 0 has 64 tokens: expected 1 to 63") != NULL);
    tr_infer_finish(&b->x);
}

/* ---- sampling ---- */

static const struct {
    const char *name;
    struct tr_sampling s;
    float logits[5];
    double share[5]; /* of draws */
} draws[] = {
    {"greedy, the first of equals", {0, 0, 0, 1}, {1, 3, 3, 0, -1}, {0, 1, 0, 0, 0}},
    {"temperature 1", {1, 0, 1, 1}, {0, 1, 2, -INFINITY, 0}, {.08231, .22374, .60822, 0, .08231}},
    {"temperature 0.5", {0.5, 0, 0, 1}, {0, 1, 0, 0, 0}, {.0879, .6488, .0879, .0879, .0879}},
    {"top_k", {1, 2, 0, 1}, {0, 1, 2, 0.5F, 0}, {0, .26894, .73106, 0, 0}},
    {"top_k of equals takes the first", {1, 2, 0, 1}, {1, 1, 1, 1, 2}, {.26894, 0, 0, 0, .73106}},
    {"a top_k of more than there are",
     {1, 50, 0, 1},
     {0, 1, 2, -INFINITY, 0},
     {.08231, .22374, .60822, 0, .08231}},
    {"top_p", {1, 0, 0.6, 1}, {0, 1, 2, -9, 0}, {0, 0, 1, 0, 0}},
    {"top_p that the first reaches alone",
     {1, 0, 0.5, 1},
     {0, -800, -800, -800, 0},
     {1, 0, 0, 0, 0}},
    {"top_p reaches over two", {1, 0, 0.7, 1}, {0, 1, 2, -9, 0}, {0, .26894, .73106, 0, 0}},
    {"both", {2, 3, 0.5, 9}, {0, 1, 2, -9, 0}, {0, 0, 1, 0, 0}},
};

/* Of "temperature 1", eight tokens of the first stream and of the second. */
static const int32_t drawn[16] = {2, 2, 4, 2, 2, 2, 2, 1, 2, 1, 2, 0, 1, 2, 4, 2};

static void test_draws(void)
{
    enum { N = 20000 };
    struct fr_err err;
    int32_t id;

    for (size_t i = 0; i < sizeof(draws) / sizeof(draws[0]); i++) {
        int64_t seen[5] = {0};

        check_row(draws[i].name);
        for (uint64_t k = 0; k < N; k++) {
            CHECK_INT(
                tr_sample(&draws[i].s, &(struct tr_row){draws[i].logits, 5, k % 7, k}, &id, &err),
                FR_OK);
            seen[id]++;
        }
        for (int k = 0; k < 5; k++)
            CHECK(fabs((double)seen[k] / N - draws[i].share[k]) < 0.012);
    }
    for (int k = 0; k < 2; k++) {
        float bad[] = {k == 0 ? NAN : 0, k == 1 ? NAN : 0};
        char want[64];

        check_row("no number");
        snprintf(want, sizeof(want), "logit %d of token 5 is not a number", k);
        CHECK_INT(tr_sample(&draws[0].s, &(struct tr_row){bad, 2, 0, 5}, &id, &err), FR_CORRUPT);
        CHECK_TEXT(err.msg, want);
    }
    check_row("a seed has the same draws in every version");
    for (uint64_t k = 0; k < sizeof(drawn) / sizeof(drawn[0]); k++) {
        CHECK_INT(tr_sample(&draws[1].s, &(struct tr_row){draws[1].logits, 5, k / 8, k}, &id, &err),
                  FR_OK);
        CHECK_INT(id, drawn[k]);
    }
}

static int64_t jumping_ms(void)
{
    static int64_t ms;

    return ms += 3000;
}

static void hear(void *arg, int fd, const char *text, size_t n)
{
    (void)fd;
    fr_buf_add(arg, text, n);
}

static int no_error(void *arg)
{
    (void)arg;
    return 0;
}

/* How far it is, by a clock on which each look takes three seconds. */
static void test_pace(struct bed *b)
{
    static const int32_t ids[] = {5, 6, 7};
    struct tr_prompt in[] = {{ids, 3}, {ids, 2}, {ids, 1}};
    struct tr_answer out[3] = {{.text = NULL}};
    int64_t (*clock)(void) = fr_sys.mono_ms;
    struct fr_buf said = {0};
    struct fr_err err = {0};

    check_row("pace");
    if (open_model(b, models[0], false, 1)) {
        struct tr_generate_opts o = {.model = b->x.model,
                                     .comm = b->comm,
                                     .vocab_size = b->x.config.vocab_size,
                                     .tokens_max = TOKENS,
                                     .sequences = 1,
                                     .cache_tokens = TOKENS,
                                     .max_new_tokens = 4};
        struct fr_printer before = fr_print_by(&(struct fr_printer){hear, no_error, &said});

        fr_sys.mono_ms = jumping_ms;
        CHECK_INT(tr_generate(&o, in, 3, out, &err), FR_OK);
        fr_sys.mono_ms = clock;
        (void)fr_print_by(before.put != NULL ? &before : NULL);
        CHECK(said.n > 0 && strstr(said.p, "Generation: 0 of 3 answers, ? left") != NULL);
        CHECK(said.n > 0 && strstr(said.p, "Generation: 2 of 3 answers, ") != NULL);
    }
    for (int i = 0; i < 3; i++)
        tr_answer_finish(&out[i]);
    fr_buf_finish(&said);
    tr_infer_finish(&b->x);
}

/* ---- pieces ---- */

#define CUT "\xef\xbf\xbd" /* what a part of a character is decoded to */

static const struct {
    const char *name, *stops[4], *want;
} pieces[] = {
    {"no stop string", {NULL}, "|J|:|B|" CUT "5|o|" CUT "+|(|V|o|V"},
    {"one that has not begun", {"~~~~~~~~", NULL}, "|J|:|B|" CUT "5|o|" CUT "+|(|V|o|V"},
    {"one that may have begun", {"V~~~", NULL}, "|J|:|B|" CUT "5|o|" CUT "+|(|Vo|V"},
    {"one that goes on", {"Vo~~", NULL}, "|J|:|B|" CUT "5|o|" CUT "+|(|VoV"},
    {"a shorter one after it", {"Vo~~", "~", NULL}, "|J|:|B|" CUT "5|o|" CUT "+|(|VoV"},
    {"one of two", {"o~", "V~", NULL}, "|J|:|B|" CUT "5|o" CUT "+|(|V|oV"},
    {"two that end together", {"oV", "VoV", NULL}, "|J|:|B|" CUT "5|o" CUT "+|("},
};

static void hear_piece(void *arg, int64_t prompt, struct fr_str text)
{
    CHECK_INT(prompt, 0);
    CHECK(text.n > 0);
    fr_buf_text(arg, "|");
    fr_buf_add(arg, text.p, text.n);
}

/* The answer's pieces with these stop strings, each behind a '|'. */
static void pieces_of(struct tr_generate_opts *o, const char *const *stops, struct fr_buf *out)
{
    static const int32_t ids[] = {5, 6, 7};
    struct tr_prompt in = {ids, 3};
    struct tr_answer answer = {.text = NULL};
    struct fr_err err = {0};

    o->stops = stops;
    for (o->nstops = 0; stops[o->nstops] != NULL;)
        o->nstops++;
    o->piece = hear_piece;
    o->arg = out;
    out->n = 0;
    if (!CHECK_INT(tr_generate(o, &in, 1, &answer, &err), FR_OK))
        printf("   message: %s\n", err.msg);
    fr_buf_text(out, "");
    tr_answer_finish(&answer);
}

/* All of the answer without stop strings. */
#define ALL "J:B" CUT "5o" CUT "+(VoV"

/* The text of an answer is cut before the stop string that comes first in it. */
static const struct {
    const char *name, *stops[4];
} stopped[] = {{"none", {NULL}},
               {"none of these", {"oVo", "JB", NULL}},
               {"a token", {":", NULL}},
               {"within a text", {"5o", NULL}},
               {"the second is first in the text", {"(V", "B", NULL}},
               {"of two that end together", {":B", "B", NULL}},
               {"of two that begin together", {"oV", "oVX", NULL}},
               {"at the beginning", {"J", NULL}},
               {"at the end", {"VoV", NULL}}};

static void test_stops(struct bed *b, struct tr_tokenizer *t)
{
    static const int32_t ids[] = {5, 6, 7};
    struct tr_prompt in = {ids, 3};
    struct tr_generate_opts o = {.model = b->x.model,
                                 .comm = b->comm,
                                 .tokenizer = t,
                                 .vocab_size = b->x.config.vocab_size,
                                 .tokens_max = TOKENS,
                                 .sequences = 1,
                                 .cache_tokens = TOKENS,
                                 .max_new_tokens = 12};

    for (size_t i = 0; i < sizeof(stopped) / sizeof(stopped[0]); i++) {
        size_t at = strlen(ALL), n = 0;
        struct tr_answer answer = {.text = NULL};
        struct fr_buf heard = {0};
        struct fr_err err = {0};

        check_row(stopped[i].name);
        for (; stopped[i].stops[n] != NULL; n++) {
            const char *hit = strstr(ALL, stopped[i].stops[n]);

            at = hit != NULL && (size_t)(hit - ALL) < at ? (size_t)(hit - ALL) : at;
        }
        o.stops = stopped[i].stops;
        o.nstops = n;
        o.piece = i % 2 == 0 ? hear_piece : NULL;
        o.arg = &heard;
        CHECK_INT(tr_generate(&o, &in, 1, &answer, &err), FR_OK);
        CHECK_INT(answer.end, at < strlen(ALL) ? TR_ANSWER_STOP : TR_ANSWER_LENGTH);
        CHECK_INT(answer.text_n, at);
        CHECK(answer.text != NULL && strncmp(answer.text, ALL, at) == 0 && answer.text[at] == '\0');
        CHECK((heard.n > 0) == (o.piece != NULL && at > 0));
        CHECK(answer.ids.n <= 12 && (at == strlen(ALL)) <= (answer.ids.n == 12));
        fr_buf_finish(&heard);
        tr_answer_finish(&answer);
        CHECK(answer.text == NULL && answer.ids.v == NULL && answer.ids.n == 0);
    }
    CHECK_TEXT(tr_answer_end_name(TR_ANSWER_EOS), "eos");
    CHECK_TEXT(tr_answer_end_name(TR_ANSWER_STOP), "stop");
    CHECK_TEXT(tr_answer_end_name(TR_ANSWER_LENGTH), "length");
}

/* Draws follow the prompt's number and the token's, not what else is in work. */
static void test_streams(struct bed *b)
{
    enum { N = 4 };
    static const int32_t ids[] = {5, 6, 7};
    struct tr_prompt in[N] = {{ids, 3}, {ids, 3}, {ids, 3}, {ids, 3}};
    struct tr_answer out[2][N] = {{{.text = NULL}}};
    struct fr_err err = {0};

    for (int k = 0; k < 2; k++) {
        struct tr_generate_opts o = {.model = b->x.model,
                                     .comm = b->comm,
                                     .vocab_size = b->x.config.vocab_size,
                                     .tokens_max = k == 0 ? 7 : 3,
                                     .sequences = 3 - k,
                                     .cache_tokens = TOKENS,
                                     .max_new_tokens = 9,
                                     .sampling = {.temperature = 1, .seed = 3}};

        CHECK_INT(tr_generate(&o, in, N, out[k], &err), FR_OK);
    }
    check_row("draws of each prompt");
    for (int i = 0; i < N; i++) {
        size_t bytes = 9 * sizeof(int32_t);

        if (CHECK_INT(out[0][i].ids.n, 9) && CHECK_INT(out[1][i].ids.n, 9)) {
            CHECK(memcmp(out[0][i].ids.v, out[1][i].ids.v, bytes) == 0);
            CHECK(i == 0 || memcmp(out[0][i].ids.v, out[0][i - 1].ids.v, bytes) != 0);
        }
    }
    for (int i = 0; i < 2 * N; i++)
        tr_answer_finish(&out[i / N][i % N]);
}

static size_t left;
static void *(*own_alloc)(size_t n);

static void *alloc_others(size_t n)
{
    return left-- == 0 ? NULL : own_alloc(n);
}

/* Prompts that are refused, and each allocation that fails. */
static void test_refused(struct bed *b, struct tr_tokenizer *t)
{
    static const int32_t ids[] = {5, 6, 7};
    static const char *const stops[] = {"V", NULL};
    struct tr_prompt in[] = {{ids, 3}, {ids, 0}};
    struct tr_answer out[2] = {{.text = NULL}};
    struct tr_generate_opts o = {.model = b->x.model,
                                 .comm = b->comm,
                                 .tokenizer = t,
                                 .vocab_size = b->x.config.vocab_size,
                                 .tokens_max = 2,
                                 .sequences = 2,
                                 .cache_tokens = 5,
                                 .max_new_tokens = 3,
                                 .stops = stops,
                                 .nstops = 1,
                                 .sampling = {.temperature = 1}};
    struct fr_err err = {0};
    bool done = false;

    check_row("refused");
    CHECK_INT(tr_generate(&o, in, 1, out, &err), FR_USAGE);
    CHECK(strstr(err.msg, "prompt 0 has 3 tokens: expected 1 to 2") != NULL);
    o.tokens_max = 3;
    CHECK_INT(tr_generate(&o, in, 2, out, &err), FR_USAGE);
    CHECK(strstr(err.msg, "prompt 1 has 0 tokens: expected 1 to 3") != NULL);
    check_row("no memory");
    own_alloc = fr_sys.alloc;
    fr_sys.alloc = alloc_others;
    for (size_t n = 0; n < 1000 && !done; n++) {
        err = (struct fr_err){0};
        left = n;
        done = tr_generate(&o, in, 1, out, &err) == FR_OK;
        CHECK(done || err.rc == FR_NOMEM);
        tr_answer_finish(&out[0]);
    }
    fr_sys.alloc = own_alloc;
    CHECK(done);
}

/* What cannot be the beginning of a stop string is shown at once. */
static void test_pieces(struct bed *b)
{
    struct fr_buf out = {0};
    struct tr_tokenizer *t = NULL;
    struct fr_err err = {0};

    CHECK_INT(tr_tokenizer_load(SOURCE_ROOT "/tests/golden/tokenizer/deepseek.json", &t, &err),
              FR_OK);
    if (open_model(b, models[0], false, 1)) {
        struct tr_generate_opts o = {.model = b->x.model,
                                     .comm = b->comm,
                                     .tokenizer = t,
                                     .vocab_size = b->x.config.vocab_size,
                                     .tokens_max = TOKENS,
                                     .sequences = 1,
                                     .cache_tokens = TOKENS,
                                     .max_new_tokens = 12};

        for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
            check_row(pieces[i].name);
            pieces_of(&o, pieces[i].stops, &out);
            CHECK_TEXT(out.p, pieces[i].want);
        }
        test_stops(b, t);
        test_refused(b, t);
    }
    tr_infer_finish(&b->x);
    if (open_model(b, models[0], false, 3)) {
        test_streams(b);
    }
    fr_buf_finish(&out);
    tr_tokenizer_destroy(t);
    tr_infer_finish(&b->x);
}

/* The token gets that id, and the one that had it the token's. */
static void give_id(json_t *vocab, const char *token, json_int_t id)
{
    json_int_t old = json_integer_value(json_object_get(vocab, token));
    const char *name;
    json_t *value;

    json_object_foreach(vocab, name, value) if (json_integer_value(value) == id)
        json_integer_set(value, old);
    json_integer_set(json_object_get(vocab, token), id);
}

/* Of a character of four byte tokens nothing is shown before it is whole. */
static void test_bytes(struct bed *b)
{
    static const struct {
        const char *token;
        json_int_t id;
    } answered[] = {{"<0xF0>", 41}, {"<0x9F>", 25}, {"<0x98>", 33}, {"<0x80>", 100}, {"o", 20}};
    static const char *const no_stops[] = {NULL};
    char path[] = "/tmp/flowtrain-tokenizer-XXXXXX.json";
    int fd = mkstemps(path, 5);
    json_t *root = NULL;
    struct tr_tokenizer *t = NULL;
    struct fr_buf out = {0};
    struct fr_err err = {0};

    check_row("a character of four tokens");
    CHECK_INT(fr_json_load(SOURCE_ROOT "/tests/golden/tokenizer/llama2.json", 1 << 20, &root, &err),
              FR_OK);
    for (size_t i = 0; i < sizeof(answered) / sizeof(answered[0]); i++)
        give_id(json_object_get(json_object_get(root, "model"), "vocab"), answered[i].token,
                answered[i].id);
    CHECK(fd >= 0 && json_dumpfd(root, fd, 0) == 0);
    if (!CHECK_INT(tr_tokenizer_load(path, &t, &err), FR_OK))
        printf("   %s\n", err.msg);
    if (t != NULL && open_model(b, models[0], false, 1)) {
        struct tr_generate_opts o = {.model = b->x.model,
                                     .comm = b->comm,
                                     .tokenizer = t,
                                     .vocab_size = b->x.config.vocab_size,
                                     .tokens_max = TOKENS,
                                     .sequences = 1,
                                     .cache_tokens = TOKENS,
                                     .max_new_tokens = 5};

        pieces_of(&o, no_stops, &out);
        CHECK_TEXT(out.p, "|\xf0\x9f\x98\x80|o");
    }
    json_decref(root);
    close(fd);
    unlink(path);
    fr_buf_finish(&out);
    tr_tokenizer_destroy(t);
    tr_infer_finish(&b->x);
}

/* generate_test [FILE]: prompts of `generate.py many SEED FILE` instead of those that are kept. */
int main(int argc, char **argv)
{
    struct bed b = {.be = NULL};
    struct fr_err err = {0};
    json_t *golden = NULL;

    test_draws();
    if (CHECK_INT(tr_cpu_create(&b.be, &err), FR_OK) &&
        CHECK_INT(tr_comm_single(b.be, &b.comm, &err), FR_OK) &&
        CHECK_INT(fr_json_load(SOURCE_ROOT "/tests/golden/generate.json", 1 << 20, &golden, &err),
                  FR_OK)) {
        test_pieces(&b);
        test_bytes(&b);
        if (argc > 1)
            test_many(&b, argv[1]);
        else
            test_golden(&b, golden);
        test_many(&b, SOURCE_ROOT "/tests/golden/generate_many.json");
        test_ends(&b, golden);
        test_pace(&b);
    }
    json_decref(golden);
    tr_comm_destroy(b.comm);
    tr_backend_destroy(b.be);
    return check_done();
}
