#include "tests/unit/check.h"
#include "trainer/tokenizer/tok.h"

#include "engine/base/file.h"
#include "engine/base/json.h"

#include <unistd.h>

/* Encodes every line's text and compares with its ids; checks the decoded text where it has one. */
static void test_golden(const char *tokenizer, const char *golden)
{
    struct tr_tokenizer *t = NULL;
    struct tr_encoder *e = NULL;
    struct tr_ids ids = {0};
    struct fr_err err;
    char *line = NULL;
    size_t cap = 0, lines = 0;
    ssize_t n;
    FILE *f = fopen(golden, "r");

    check_row(golden);
    if (!CHECK(f != NULL) || !CHECK_INT(tr_tokenizer_load(tokenizer, &t, &err), FR_OK))
        return;
    CHECK_INT(tr_encoder_create(t, &e, &err), FR_OK);
    while ((n = getline(&line, &cap, f)) > 0) {
        json_t *v = NULL;
        CHECK_INT(fr_json_parse((struct fr_str){line, (size_t)n}, golden, &v, &err), FR_OK);
        const json_t *text = json_object_get(v, "text"), *want = json_object_get(v, "ids");
        const char *decoded = json_string_value(json_object_get(v, "decoded"));
        bool same;
        ids.n = 0;
        CHECK_INT(tr_encode(e, (struct fr_str){json_string_value(text), json_string_length(text)},
                            &ids, &err),
                  FR_OK);
        same = ids.n == json_array_size(want);
        for (size_t i = 0; same && i < ids.n; i++)
            same = ids.v[i] == json_integer_value(json_array_get(want, i));
        if (!CHECK(same))
            printf("   text: %s\n", json_string_value(text));
        if (decoded != NULL) {
            struct fr_buf back = {0};
            CHECK_INT(tr_tokenizer_decode(t, ids.v, ids.n, true, &back, &err), FR_OK);
            CHECK_TEXT(back.p != NULL ? back.p : "", decoded);
            fr_buf_finish(&back);
        }
        json_decref(v);
        lines++;
    }
    CHECK(lines > 50);
    free(line);
    (void)fclose(f);
    tr_ids_finish(&ids);
    tr_encoder_destroy(e);
    tr_tokenizer_destroy(t);
}

/* Characters that the patterns tell apart, some beyond ASCII. */
static void draw_text(unsigned *state, struct fr_buf *out)
{
    static const char *const parts[] = {"a",
                                        "Z",
                                        "s",
                                        "S",
                                        "t",
                                        "re",
                                        "VE",
                                        "ll",
                                        "d",
                                        "m",
                                        "'",
                                        "'s",
                                        "'L",
                                        "1",
                                        "23",
                                        "456",
                                        "0",
                                        " ",
                                        "  ",
                                        "   ",
                                        "\n",
                                        "\r",
                                        "\t",
                                        "\v",
                                        "\x01",
                                        "\x1f",
                                        "\x7f",
                                        "!",
                                        "_",
                                        "$",
                                        "`",
                                        "#",
                                        "..",
                                        "\r\n",
                                        "\xc5\xbf",
                                        "\xc3\xa9",
                                        "\xc2\xa0",
                                        "\xcc\x81",
                                        "\xc2\xb2",
                                        "\xe4\xb8\xad",
                                        "\xe3\x81\x82",
                                        "\xe2\x80\xa8",
                                        "\xf0\x9f\x98\x8a",
                                        "\xe2\x84\xaa"};
    enum { ASCII = 34, ALL = sizeof(parts) / sizeof(parts[0]) };
    unsigned among = (*state = *state * 1664525u + 1013904223u) >> 30 ? ASCII : ALL, n;

    n = 1 + ((*state = *state * 1664525u + 1013904223u) >> 8) % 12;
    for (out->n = 0; n > 0; n--)
        fr_buf_text(out, parts[((*state = *state * 1664525u + 1013904223u) >> 8) % among]);
}

/* Every match that a scanner finds is the pattern's. */
static void test_scanners(const char *kind, int scanners)
{
    struct tr_tokenizer *t = NULL;
    pcre2_match_data *md = pcre2_match_data_create(1, NULL);
    struct fr_buf text = {0};
    struct fr_err err;
    char path[256];
    unsigned state = 7;
    long by_hand = 0, asked = 0, wrong = 0;

    (void)snprintf(path, sizeof(path), SOURCE_ROOT "/tests/golden/tokenizer/%s.json", kind);
    check_row(kind);
    CHECK_INT(tr_tokenizer_load(path, &t, &err), FR_OK);
    for (int i = 0; i < 20000 * t->nsteps; i++) {
        const struct tr_tok_step *s = &t->steps[i % t->nsteps];
        const PCRE2_SIZE *want = pcre2_get_ovector_pointer(md);
        const char *found[2];

        draw_text(&state, &text);
        if (s->scan == NULL)
            continue;
        for (size_t at = 0; at < text.n; at = want[1]) {
            if (pcre2_match(s->re, (PCRE2_SPTR)text.p, text.n, at, 0, md, NULL) < 0)
                ((PCRE2_SIZE *)want)[0] = ((PCRE2_SIZE *)want)[1] = text.n;
            if (!s->scan(text.p + at, text.p + text.n, found))
                asked++;
            else if (by_hand++, found[0] != text.p + want[0] || found[1] != text.p + want[1])
                wrong++;
        }
    }
    CHECK_INT(wrong, 0);
    CHECK(by_hand > 2 * asked && asked > 0);
    for (int i = 0; i < t->nsteps; i++)
        scanners -= t->steps[i].scan != NULL;
    CHECK_INT(scanners, 0);
    fr_buf_finish(&text);
    pcre2_match_data_free(md);
    tr_tokenizer_destroy(t);
}

#define VOCAB "\"vocab\":{\"a\":0,\"b\":1,\"ab\":2}"
#define MODEL "\"model\":{\"type\":\"BPE\"," VOCAB ",\"merges\":[\"a b\"]}"
#define BYTES "\"pre_tokenizer\":{\"type\":\"ByteLevel\"}"

static const struct {
    const char *name, *json, *want;
    enum fr_rc rc;
} rows[] = {
    {"least", "{\"version\":\"1.0\"," MODEL "," BYTES "}", "", FR_OK},
    {"no version", "{" MODEL "," BYTES "}", "version is ''", FR_USAGE},
    {"unigram", "{\"version\":\"1.0\",\"model\":{\"type\":\"Unigram\"}}", "'Unigram'",
     FR_UNSUPPORTED},
    {"no vocab", "{\"version\":\"1.0\",\"model\":{\"merges\":[]}}", "no vocab", FR_USAGE},
    {"id", "{\"version\":\"1.0\",\"model\":{\"vocab\":{\"a\":-1},\"merges\":[]}}", "the id of 'a'",
     FR_USAGE},
    {"merge", "{\"version\":\"1.0\",\"model\":{\"vocab\":{\"a\":1},\"merges\":[\"a c\"]}}",
     "entry 0 names a token outside", FR_USAGE},
    {"merge of three",
     "{\"version\":\"1.0\",\"model\":{\"vocab\":{\"a\":1},\"merges\":[\"a a "
     "a\"]}}",
     "entry 0 is not two tokens", FR_USAGE},
    {"dropout",
     "{\"version\":\"1.0\",\"model\":{\"vocab\":{\"a\":1},\"merges\":[],\"dropout\":0.1}}",
     "dropout", FR_UNSUPPORTED},
    {"a metaspace without a mark",
     "{\"version\":\"1.0\"," MODEL ",\"pre_tokenizer\":{\"type\":\"Metaspace\"}}", "replacement",
     FR_USAGE},
    {"a scheme",
     "{\"version\":\"1.0\"," MODEL ",\"pre_tokenizer\":{\"type\":\"Metaspace\","
     "\"prepend_scheme\":\"last\"}}",
     "prepend_scheme 'last'", FR_USAGE},
    {"whitespace", "{\"version\":\"1.0\"," MODEL ",\"pre_tokenizer\":{\"type\":\"Whitespace\"}}",
     "'Whitespace'", FR_UNSUPPORTED},
    {"no pre-tokenizer", "{\"version\":\"1.0\"," MODEL "}", "without a ByteLevel pre-tokenizer",
     FR_UNSUPPORTED},
    {"characters", "{\"version\":\"1.0\"," MODEL ",\"decoder\":{\"type\":\"Fuse\"}}", "", FR_OK},
    {"an unknown token that is none",
     "{\"version\":\"1.0\",\"model\":{\"unk_token\":\"<u>\"," VOCAB ",\"merges\":[]}}",
     "unk_token '<u>'", FR_USAGE},
    {"normalizer",
     "{\"version\":\"1.0\"," MODEL "," BYTES ",\"normalizer\":{\"type\":\"Lowercase\"}}",
     "'Lowercase'", FR_UNSUPPORTED},
    {"pattern",
     "{\"version\":\"1.0\"," MODEL ",\"pre_tokenizer\":{\"type\":\"Sequence\","
     "\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(a\"},\"behavior\":"
     "\"Isolated\"},{\"type\":\"ByteLevel\"}]}}",
     "pattern '(a'", FR_USAGE},
    {"anchor",
     "{\"version\":\"1.0\"," MODEL ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":"
     "{\"Regex\":\"^a\"},\"behavior\":\"Isolated\"}}",
     "'^' there is not done", FR_UNSUPPORTED},
    {"added id",
     "{\"version\":\"1.0\",\"model\":{\"vocab\":{\"a\":0,\"b\":2},\"merges\":[]}," BYTES
     ",\"added_tokens\":[{\"id\":7,\"content\":\"<x>\"}]}",
     "has the id 2 of another", FR_USAGE},
    {"truncated", "{\"version\":\"1.0\"," MODEL, ":1:", FR_USAGE},
};

static void test_rows(void)
{
    char path[] = "/tmp/flowrun-tok-XXXXXX.json";
    int fd = mkstemps(path, 5);

    CHECK(fd >= 0);
    (void)close(fd);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tr_tokenizer *t;
        struct fr_err err = {0};
        check_row(rows[i].name);
        CHECK_INT(fr_file_write(path, rows[i].json, strlen(rows[i].json), 0644, &err), FR_OK);
        err.msg[0] = '\0';
        CHECK_INT(tr_tokenizer_load(path, &t, &err), rows[i].rc);
        if (!CHECK(strstr(err.msg, rows[i].want) != NULL))
            printf("   message: %s\n", err.msg);
        tr_tokenizer_destroy(t);
    }
    (void)unlink(path);
}

static void test_special(void)
{
    struct tr_tokenizer *t = NULL;
    struct tr_encoder *e = NULL;
    struct tr_ids ids = {0};
    struct fr_err err;

    check_row("special tokens");
    CHECK_INT(tr_tokenizer_load(SOURCE_ROOT "/tests/golden/tokenizer/deepseek.json", &t, &err),
              FR_OK);
    CHECK_INT(tr_tokenizer_bos(t), tr_tokenizer_id(t, "<s>"));
    CHECK_INT(tr_tokenizer_eos(t), tr_tokenizer_id(t, "</s>"));
    CHECK_INT(tr_tokenizer_set_eos(t, "<think>", &err), FR_OK);
    CHECK_INT(tr_tokenizer_eos(t), tr_tokenizer_id(t, "<think>"));
    CHECK_INT(tr_tokenizer_pad(t), tr_tokenizer_eos(t));
    int32_t size = tr_tokenizer_size(t);
    CHECK_INT(tr_tokenizer_id(t, "<no>"), -1);
    CHECK_INT(tr_tokenizer_set_eos(t, "<no>", &err), FR_OK);
    CHECK_INT(tr_tokenizer_id(t, "<no>"), size);
    CHECK_INT(tr_tokenizer_eos(t), size);
    for (int i = 0; i < 8; i++) {
        const char text[] = {'<', (char)('a' + i), '>', '\0'};
        CHECK_INT(tr_tokenizer_add(t, text, &err), i < 7 ? FR_OK : FR_UNSUPPORTED);
    }
    CHECK_INT((int)strlen(tr_tokenizer_digest(t)), 64);
    CHECK_INT(tr_encoder_create(t, &e, &err), FR_OK);
    CHECK_INT(tr_encode(e, FR_STR("a\xff"), &ids, &err), FR_USAGE);
    CHECK_INT(ids.n, 0);
    check_row("the cache grows, and starts anew when it is full");
    char word[] = "aaaaaa";
    struct tr_ids again = {0};
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 80000; i++) {
            for (int k = 0, left = i; k < 6; k++, left /= 26)
                word[k] = (char)('a' + left % 26);
            if (tr_encode(e, fr_str_of(word), round == 0 ? &ids : &again, &err) != FR_OK)
                CHECK(!"encode");
        }
    CHECK(ids.n == again.n && memcmp(ids.v, again.v, ids.n * sizeof(ids.v[0])) == 0);
    tr_ids_finish(&again);
    tr_ids_finish(&ids);
    tr_encoder_destroy(e);
    tr_tokenizer_destroy(t);
}

int main(void)
{
    static const char *const kinds[] = {"gpt2",   "qwen",    "llama3", "deepseek",
                                        "llama2", "mistral", "words"};
    static const char *const real[] = {"gpt2", "deepseek-r1"};
    const char *data = getenv("FLOWRUN_DATA");
    char tokenizer[512], golden[512];

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        (void)snprintf(tokenizer, sizeof(tokenizer), SOURCE_ROOT "/tests/golden/tokenizer/%s.json",
                       kinds[i]);
        (void)snprintf(golden, sizeof(golden), SOURCE_ROOT "/tests/golden/tokenizer/%s.jsonl",
                       kinds[i]);
        test_golden(tokenizer, golden);
    }
    test_golden(SOURCE_ROOT "/tests/golden/tokenizer/config",
                SOURCE_ROOT "/tests/golden/tokenizer/config/golden.jsonl");
    test_rows();
    test_special();
    test_scanners("gpt2", 1);
    test_scanners("qwen", 1);
    test_scanners("llama3", 1);
    test_scanners("deepseek", 3);
    for (size_t i = 0; data != NULL && i < 2; i++) {
        (void)snprintf(tokenizer, sizeof(tokenizer), "%s/tokenizers/%s", data, real[i]);
        (void)snprintf(golden, sizeof(golden), "%s/tokenizers/%s/golden_encodings.jsonl", data,
                       real[i]);
        test_golden(tokenizer, golden);
    }
    if (data == NULL)
        printf("skipped: the real tokenizers, FLOWRUN_DATA is not set\n");
    return check_done();
}
