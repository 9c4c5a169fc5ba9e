/*
 * Templates against transformers' apply_chat_template (tests/golden/chat.py): the text of whole
 * conversations, and of prompts that wait for an answer. And templates as chat templates
 * (tests/golden/jinja.py).
 */
#include "tests/unit/check.h"
#include "trainer/template/template_files.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"

#include <jansson.h>
#include <stdlib.h>
#include <unistd.h>

enum { MESSAGES = 8 };

static const char tokenizer[] = SOURCE_ROOT "/tests/golden/tokenizer/deepseek.json";
static struct fr_err err;

/* A row as an example; its text is the row's. */
static struct tr_example example_of(const json_t *row, struct tr_message *m)
{
    const json_t *texts = json_object_get(row, "messages"),
                 *system = json_object_get(row, "system");
    const char *roles = json_string_value(json_object_get(row, "roles"));
    struct tr_example x = {.messages = m, .n = json_array_size(texts)};

    CHECK(x.n <= MESSAGES && (roles == NULL || strlen(roles) == x.n));
    for (size_t i = 0; i < x.n && i < MESSAGES; i++) {
        const json_t *text = json_array_get(texts, i);
        char role = "ua"[i % 2];

        if (roles != NULL)
            role = roles[i];
        m[i] = (struct tr_message){role == 'u'   ? TR_USER
                                   : role == 'a' ? TR_ASSISTANT
                                   : role == 'f' ? TR_FUNCTION
                                                 : TR_OBSERVATION,
                                   {json_string_value(text), json_string_length(text)}};
    }
    x.tools = fr_str_of(json_string_value(json_object_get(row, "tools")));
    x.system = (struct fr_str){json_string_value(system), json_string_length(system)};
    return x;
}

/* The text of ids; of a template that reasons without the empty thoughts. */
static void decode(const struct tr_tokenizer *t, const struct tr_ids *ids, struct fr_buf *out)
{
    static const char thought[] = "<think>\n\n</think>\n\n";
    char *at;

    out->n = 0;
    CHECK_INT(tr_tokenizer_decode(t, ids->v, ids->n, false, out, &err), FR_OK);
    while ((at = memmem(out->p, out->n, thought, strlen(thought))) != NULL) {
        size_t behind = out->n - (size_t)(at - out->p) - strlen(thought);
        memmove(at, at + strlen(thought), behind);
        out->n -= strlen(thought);
    }
}

static void test_text(const struct fr_buf *got, const char *want)
{
    char digest[FR_SHA256_TEXT];

    fr_sha256(got->p, got->n, digest);
    if (!CHECK_TEXT(digest, want))
        printf("   got %.*s\n", (int)got->n, got->p);
}

static void test_row(const json_t *row)
{
    const char *name = json_string_value(json_object_get(row, "template"));
    const char *want = json_string_value(json_object_get(row, "text"));
    struct tr_message m[MESSAGES];
    struct tr_example x = example_of(row, m);
    struct tr_template_opts o = {.cutoff_len = 100000};
    struct tr_ids ids = {0}, labels = {0};
    struct fr_buf text = {0}, answer = {0};
    struct tr_tokenizer *t = NULL;
    struct tr_encoder *e = NULL;
    const struct tr_template *templ = NULL;

    CHECK_INT(tr_template_find(name, &templ, &err), FR_OK);
    CHECK_INT(tr_tokenizer_load(tokenizer, &t, &err), FR_OK);
    CHECK_INT(tr_encoder_create(t, &e, &err), FR_OK);
    CHECK_INT(tr_template_encode(templ, e, &x, &o, (struct tr_encoded){&ids, &labels}, &err),
              FR_OK);
    decode(t, &ids, &text);
    test_text(&text, want);

    /* the prompt of the last answer is what stands before it */
    ids.n = 0;
    x.n--;
    CHECK_INT(tr_template_prompt(templ, e, &x, &o, &ids, &err), FR_OK);
    decode(t, &ids, &answer);
    CHECK(answer.n < text.n && memcmp(answer.p, text.p, answer.n) == 0);
    fr_buf_finish(&answer);
    fr_buf_finish(&text);
    tr_ids_finish(&ids);
    tr_ids_finish(&labels);
    tr_encoder_destroy(e);
    tr_tokenizer_destroy(t);
}

/* 2026-01-02, 12:00 UTC: the day that llama3.2 names. */
static int64_t that_day(void)
{
    return 1767355200000;
}

/* A token that stands in a template by its name and is in no tokenizer: told, not left out. */
static void test_named(void)
{
    struct tr_message m = {.role = TR_USER, .text = {"hi", 2}};
    struct tr_example x = {.messages = &m, .n = 1};
    struct tr_template_opts o = {.cutoff_len = 100};
    const struct tr_template *templ = NULL;
    struct tr_tokenizer *t = NULL;
    struct tr_encoder *e = NULL;
    struct tr_ids ids = {0};

    check_row("named token");
    CHECK_INT(tr_template_find("yuan", &templ, &err), FR_OK);
    CHECK_INT(tr_tokenizer_load(tokenizer, &t, &err), FR_OK);
    CHECK_INT(tr_encoder_create(t, &e, &err), FR_OK);
    CHECK_INT(tr_template_prompt(templ, e, &x, &o, &ids, &err), FR_USAGE);
    CHECK_TEXT(
        err.msg,
        "template 'yuan' needs the token <sep>, which the tokenizer does not have: is it the "
        "template of this model? (--template auto finds the one)");
    tr_ids_finish(&ids);
    tr_encoder_destroy(e);
    tr_tokenizer_destroy(t);
}

/* Of a folder without a chat template; one that has one keeps it, or loses it to some templates. */
static void test_saved(const json_t *row, const char *bare, const char *own)
{
    const char *name = json_string_value(json_object_get(row, "template"));
    const struct tr_template *templ = NULL;
    struct tr_tokenizer *t = NULL;
    struct fr_buf out = {0};

    check_row(name);
    CHECK_INT(tr_template_find(name, &templ, &err), FR_OK);
    CHECK_INT(tr_tokenizer_load(tokenizer, &t, &err), FR_OK);
    CHECK_INT(tr_template_fix(templ, t, &err), FR_OK);
    CHECK_INT(tr_template_chat(templ, t, bare, &out, &err), FR_OK);
    CHECK_TEXT(out.p != NULL ? out.p : "", json_string_value(json_object_get(row, "text")));
    out.n = 0;
    CHECK_INT(tr_template_chat(templ, t, own, &out, &err), FR_OK);
    CHECK((out.n > 0) == (strstr("default chatml chatml_de vicuna alpaca fewshot", name) != NULL));
    fr_buf_finish(&out);
    tr_tokenizer_destroy(t);
}

static void test_jinja(void)
{
    json_t *rows = json_load_file(SOURCE_ROOT "/tests/golden/jinja.json", 0, NULL);
    char dir[] = "/tmp/flowrun-chat-XXXXXX", own[64];

    CHECK(mkdtemp(dir) != NULL);
    (void)snprintf(own, sizeof(own), "%s/own", dir);
    CHECK_INT(fr_mkdirs(own, 0755, &err), FR_OK);
    (void)snprintf(own, sizeof(own), "%s/own/chat_template.jinja", dir);
    CHECK_INT(fr_file_write(own, "{{ x }}", 7, 0644, &err), FR_OK);
    *strrchr(own, '/') = '\0';
    CHECK_INT(json_array_size(rows), 33);
    for (size_t i = 0; i < json_array_size(rows); i++)
        test_saved(json_array_get(rows, i), dir, own);
    CHECK_INT(fr_remove_tree(dir, &err), FR_OK);
    json_decref(rows);
}

/* ---- the tokenizer's files behind a template (tests/golden/special.py) ---- */

static char bed[] = "/tmp/flowrun-special-XXXXXX";

static void put(const char *name, const json_t *value)
{
    char path[96], *text = json_dumps(value, 0);

    (void)snprintf(path, sizeof(path), "%s/%s", bed, name);
    CHECK_INT(fr_file_write(path, text, strlen(text), 0644, &err), FR_OK);
    free(text);
}

static json_t *get(const char *name)
{
    char path[96];

    (void)snprintf(path, sizeof(path), "%s/%s", bed, name);
    return json_load_file(path, JSON_ALLOW_NUL, NULL);
}

/* The row's tokenizer in bed; its tokens stand in both files. */
static void make_bed(const json_t *row)
{
    json_t *file = json_load_file(tokenizer, JSON_ALLOW_NUL, NULL), *one;
    json_t *added = json_object_get(file, "added_tokens"), *config, *decoder = json_object();
    json_int_t id = 423;
    char path[96];
    size_t i;

    json_array_foreach(json_object_get(row, "tokens"), i, one)
    {
        const char *content = json_string_value(json_array_get(one, 0));
        int special = json_is_true(json_array_get(one, 1));

        json_array_append_new(added, json_pack("{s:I, s:s, s:b, s:b, s:b, s:b, s:b}", "id", id,
                                               "content", content, "single_word", 0, "lstrip", 0,
                                               "rstrip", 0, "normalized", 0, "special", special));
        (void)snprintf(path, sizeof(path), "%d", (int)id++);
        json_object_set_new(decoder, path,
                            json_pack("{s:s, s:b}", "content", content, "special", special));
    }
    config = json_deep_copy(json_object_get(row, "config"));
    if (json_object_size(decoder) > 0 && !json_is_object(json_object_get(row, "map")))
        json_object_set(config, "added_tokens_decoder", decoder);
    json_decref(decoder);
    put("tokenizer.json", file);
    put("tokenizer_config.json", config);
    (void)snprintf(path, sizeof(path), "%s/special_tokens_map.json", bed);
    (void)unlink(path);
    if (json_is_object(json_object_get(row, "map")))
        put("special_tokens_map.json", json_object_get(row, "map"));
    json_decref(file);
    json_decref(config);
}

static const char *text_of(const json_t *token)
{
    return json_string_value(json_is_object(token) ? json_object_get(token, "content") : token);
}

/* Of a file that names special tokens; one that does not need to have all of them. */
static void check_names(const json_t *file, const json_t *row, bool all)
{
    const json_t *list = json_object_get(file, "additional_special_tokens"), *one, *same;
    const char *keys[] = {"eos", "pad"}, *got;
    char key[16];
    size_t i, k;

    for (k = 0; k < 2; k++) {
        (void)snprintf(key, sizeof(key), "%s_token", keys[k]);
        got = text_of(json_object_get(file, key));
        if (all || got != NULL)
            CHECK_TEXT(got, json_string_value(json_object_get(row, keys[k])));
    }
    CHECK_INT(json_array_size(list), json_array_size(json_object_get(row, "special")));
    json_array_foreach(list, i, one)
    {
        bool found = false;

        json_array_foreach(json_object_get(row, "special"), k, same) found =
            found || json_equal(one, same);
        CHECK(found);
    }
}

/* The map alone names it: it is added whenever the folder is loaded. */
static bool added_on_loading(const json_t *row, const char *content)
{
    const char *eos = text_of(json_object_get(json_object_get(row, "map"), "eos_token"));

    return eos != NULL && strcmp(eos, content) == 0;
}

/* Every special token of the row is one of tokenizer.json's, and has an entry by its id. */
static void check_tokens(const json_t *file, const json_t *config, const json_t *row,
                         const char *content)
{
    const json_t *decoder = json_object_get(config, "added_tokens_decoder"), *one, *entry;
    const json_t *id = json_object_get(json_object_get(row, "added"), content);
    int found = 0;
    char key[16];
    size_t i;

    json_array_foreach(json_object_get(file, "added_tokens"), i, one)
    {
        if (strcmp(text_of(one), content) != 0)
            continue;
        found++;
        CHECK(json_is_true(json_object_get(one, "special")));
        CHECK(id == NULL || json_equal(id, json_object_get(one, "id")));
        (void)snprintf(key, sizeof(key), "%d", (int)json_integer_value(json_object_get(one, "id")));
        entry = json_object_get(decoder, key);
        if (decoder != NULL && (id != NULL || entry != NULL)) {
            CHECK_TEXT(text_of(entry), content);
            CHECK(json_is_true(json_object_get(entry, "special")));
        }
    }
    CHECK(found == 1 || (found == 0 && added_on_loading(row, content)));
}

/* The tokenizer has all special tokens of the row already, as special ones without flags; eos by a
 * file's word. */
static bool is_special(const json_t *row)
{
    const json_t *config = json_object_get(row, "config"), *map = json_object_get(row, "map");
    const json_t *tokens = json_object_get(row, "tokens"), *one;
    size_t i;

    json_array_foreach(tokens, i, one)
    {
        if (json_is_false(json_array_get(one, 1)))
            return false;
    }
    return json_object_size(json_object_get(row, "added")) == 0 &&
           !json_is_true(json_object_get(json_object_get(config, "eos_token"), "rstrip")) &&
           (json_object_get(config, "eos_token") != NULL ||
            json_object_get(map, "eos_token") != NULL);
}

/* What is written gives all tokens and texts the ids that they had. */
static void check_again(const struct tr_tokenizer *t, const json_t *row)
{
    static const char *const texts[] = {"the <i>the  river", "<|eot_id|><i> <|im_end|> a<s>"};
    const struct tr_tokenizer *both[2] = {t, NULL};
    struct tr_tokenizer *again = NULL;
    struct tr_ids ids[2] = {{NULL, 0, 0}};

    if (!CHECK_INT(tr_tokenizer_load(bed, &again, &err), FR_OK))
        return;
    both[1] = again;
    CHECK_TEXT(tr_tokenizer_added(again, tr_tokenizer_eos(again)),
               json_string_value(json_object_get(row, "eos")));
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        for (size_t k = 0; k < 2; k++) {
            struct tr_encoder *e = NULL;

            ids[k].n = 0;
            CHECK_INT(tr_encoder_create(both[k], &e, &err), FR_OK);
            CHECK_INT(tr_encode(e, fr_str_of(texts[i]), &ids[k], &err), FR_OK);
            tr_encoder_destroy(e);
        }
        CHECK(ids[0].n == ids[1].n &&
              memcmp(ids[0].v, ids[1].v, ids[0].n * sizeof(ids[0].v[0])) == 0);
    }
    CHECK_INT(tr_tokenizer_size(again), tr_tokenizer_size(t));
    tr_ids_finish(&ids[0]);
    tr_ids_finish(&ids[1]);
    tr_tokenizer_destroy(again);
}

static void test_special(const json_t *row)
{
    const json_t *map = json_object_get(row, "map"), *one;
    const struct tr_template *templ = NULL;
    struct tr_tokenizer *t = NULL;
    struct tr_template_files f;
    json_t *file, *config, *names;
    size_t i;

    make_bed(row);
    CHECK_INT(tr_template_find(json_string_value(json_object_get(row, "template")), &templ, &err),
              FR_OK);
    CHECK_INT(tr_tokenizer_load(bed, &t, &err), FR_OK);
    CHECK_INT(tr_template_fix(templ, t, &err), FR_OK);
    if (!CHECK_INT(tr_template_files_make(templ, t, bed, &f, &err), FR_OK))
        printf("   %s\n", err.msg);
    CHECK(f.tokenizer.n == 0 || !is_special(row)); /* the large file stays where it can */
    CHECK_INT(tr_template_files_write(&f, bed, &err), FR_OK);
    tr_template_files_finish(&f);
    file = get("tokenizer.json");
    config = get("tokenizer_config.json");
    names = get("special_tokens_map.json");
    CHECK((names != NULL) == json_is_object(map));
    check_names(config, row, !json_is_object(map));
    if (names != NULL)
        check_names(names, row, false);
    check_tokens(file, config, row, json_string_value(json_object_get(row, "eos")));
    json_array_foreach(json_object_get(row, "special"), i, one)
        check_tokens(file, config, row, json_string_value(one));
    json_decref(file);
    json_decref(config);
    json_decref(names);
    check_again(t, row);
    tr_tokenizer_destroy(t);
}

/* A stop word that is an ordinary added token becomes a special one: found in front of the marks
 * for blanks. The ids are those of LLaMA-Factory's tokenizer, before and after. */
static void test_stop_word(void)
{
    static const int32_t before[] = {395, 63, 127, 282, 112, 273, 278, 340, 127, 65, 402},
                         after[] = {395, 520, 436};
    json_t *file = json_load_file(SOURCE_ROOT "/tests/golden/tokenizer/llama2.json", 0, NULL),
           *config = json_pack("{s:s, s:s}", "bos_token", "<s>", "eos_token", "</s>");
    const struct tr_template *templ = NULL;
    struct tr_tokenizer *t = NULL;

    check_row("a stop word that was none");
    json_array_append_new(json_object_get(file, "added_tokens"),
                          json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id", 520, "content",
                                    "<|im_end|>", "single_word", 0, "lstrip", 0, "rstrip", 0,
                                    "normalized", 1, "special", 0));
    put("tokenizer.json", file);
    put("tokenizer_config.json", config);
    json_decref(config);
    json_decref(file);
    CHECK_INT(tr_template_find("qwen", &templ, &err), FR_OK);
    if (!CHECK_INT(tr_tokenizer_load(bed, &t, &err), FR_OK))
        return;
    for (int i = 0; i < 2; i++) {
        const int32_t *want = i == 0 ? before : after;
        size_t n = i == 0 ? sizeof(before) / sizeof(before[0]) : sizeof(after) / sizeof(after[0]);
        struct tr_encoder *e = NULL;
        struct tr_ids ids = {NULL, 0, 0};

        if (i == 1)
            CHECK_INT(tr_template_fix(templ, t, &err), FR_OK);
        CHECK_INT(tr_encoder_create(t, &e, &err), FR_OK);
        CHECK_INT(tr_encode(e, fr_str_of("the<|im_end|> river"), &ids, &err), FR_OK);
        CHECK(ids.n == n && memcmp(ids.v, want, n * sizeof(want[0])) == 0);
        tr_ids_finish(&ids);
        tr_encoder_destroy(e);
    }
    tr_tokenizer_destroy(t);
}

static void test_files(void)
{
    json_t *rows = json_load_file(SOURCE_ROOT "/tests/golden/special.json", 0, NULL);
    char name[64];

    CHECK(mkdtemp(bed) != NULL);
    CHECK_INT(json_array_size(rows), 58);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);

        (void)snprintf(name, sizeof(name), "special %zu, %s", i,
                       json_string_value(json_object_get(row, "template")));
        check_row(name);
        test_special(row);
    }
    test_stop_word();
    CHECK_INT(fr_remove_tree(bed, &err), FR_OK);
    json_decref(rows);
}

/* chat_test [FILE]: rows of chat_drawn.py instead of those that are kept. */
int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : SOURCE_ROOT "/tests/golden/chat.json";
    json_t *rows = json_load_file(path, JSON_ALLOW_NUL, NULL);

    fr_sys.wall_ms = that_day;
    test_named();
    if (argc == 1)
        CHECK_INT(json_array_size(rows), 155);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        char name[64];

        (void)snprintf(name, sizeof(name), "row %zu, %s", i,
                       json_string_value(json_object_get(row, "template")));
        check_row(name);
        test_row(row);
    }
    json_decref(rows);
    test_jinja();
    test_files();
    return check_done();
}
