/*
 * The table of arguments against the reference's (tests/golden/arguments.py): every argument of it
 * is there, with its default, and is accepted at it. And what the documentation says of the table.
 */
#include "tests/unit/check.h"
#include "trainer/config/args_table.h"
#include "trainer/config/yaml_json.h"

#include "engine/base/file.h"

#include <jansson.h>
#include <stdlib.h>
#include <unistd.h>

static struct fr_err err;
static char dir[] = "/tmp/arguments.XXXXXX", file[64];

static void put(const char *text)
{
    (void)snprintf(file, sizeof(file), "%s/a.yaml", dir);
    CHECK_INT(fr_file_write(file, text, strlen(text), 0644, &err), FR_OK);
}

/* All values of the file followed by a word, which may be NULL. */
static void read_into(const char *word, struct fr_buf *out, struct tr_args *a)
{
    const char *argv[] = {file, word};

    if (!CHECK_INT(tr_args_read(a, word != NULL ? 2 : 1, argv, NULL, &err), FR_OK)) {
        printf("   %s\n", err.msg);
        return;
    }
    CHECK_INT(tr_args_json(a, out, &err), FR_OK);
}

/* The default of the reference as it would be written. */
static const char *written(const json_t *v, char text[64])
{
    if (json_is_null(v))
        return "null";
    if (json_is_boolean(v))
        return json_is_true(v) ? "true" : "false";
    if (json_is_number(v)) {
        (void)snprintf(text, 64, json_is_integer(v) ? "%.0f" : "%g", json_number_value(v));
        return text;
    }
    return json_is_array(v) ? "" : json_string_value(v);
}

/* This program's own default, where it is another one. */
static const struct {
    const char *name, *why;
} others[] = {
    {"gradient_checkpointing", "5.23 has none where others have false"},
    {"disable_tqdm", "none there means false"},
    {"optim", "the fused one is a word of choices"},
};

static bool has_other(const char *name)
{
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (strcmp(others[i].name, name) == 0)
            return true;
    return false;
}

static bool kind_fits(enum tr_arg_kind kind, const char *type)
{
    switch (kind) {
    case TR_ARG_BOOL:
    case TR_ARG_MAYBE:
        return strcmp(type, "bool") == 0;
    case TR_ARG_INT:
        return strcmp(type, "int") == 0;
    case TR_ARG_FLOAT:
        return strcmp(type, "float") == 0 || strcmp(type, "int") == 0;
    case TR_ARG_TEXT:
    case TR_ARG_CHOICE:
    case TR_ARG_SIZE:
        return strcmp(type, "text") == 0;
    case TR_ARG_JSON:
        return strcmp(type, "json") == 0;
    }
    return false;
}

static void test_reference(void)
{
    json_t *rows = json_load_file(SOURCE_ROOT "/tests/golden/arguments.json", 0, NULL);
    struct tr_args a;

    CHECK_INT(json_array_size(rows), 375);
    tr_args_init(&a);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i), *def = json_object_get(row, "default");
        const char *name = json_string_value(json_object_get(row, "name"));
        const char *type = json_string_value(json_object_get(row, "type"));
        const struct tr_arg *arg = tr_arg_find(name, strlen(name));
        char text[64];
        const char *value = written(def, text);

        check_row(name);
        if (!CHECK(arg != NULL))
            continue;
        if (!CHECK(kind_fits(arg->kind, type)))
            printf("   it is %s\n", type);
        if (!has_other(name) && !CHECK(tr_arg_is_default(arg, value)))
            printf("   default %s, there %s\n", arg->def != NULL ? arg->def : "none", value);
        if (arg->def != NULL && json_is_null(def))
            continue; /* null leaves the default */
        if (!CHECK_INT(tr_arg_set(&a, arg, value, &err), FR_OK))
            printf("   %s\n", err.msg);
    }
    tr_args_finish(&a);
    json_decref(rows);
}

/* No name twice, every row with a meaning, a refused one with another value than the default. */
static void test_table(void)
{
    struct tr_args a;

    tr_args_init(&a);
    for (size_t i = 0; i < tr_arg_count; i++) {
        const struct tr_arg *arg = &tr_arg_table[i];
        const char *other = arg->kind == TR_ARG_BOOL && tr_arg_is_default(arg, "true") ? "false"
                            : arg->kind == TR_ARG_BOOL                                 ? "true"
                                                                                       : "7777";
        check_row(arg->name);
        CHECK(tr_arg_find(arg->name, strlen(arg->name)) == arg);
        CHECK(arg->help[0] != '\0');
        CHECK((arg->at == TR_ARG_NOWHERE) == (arg->use != TR_ARG_WORKS));
        CHECK((arg->kind == TR_ARG_CHOICE) <= (arg->choices != NULL));
        if (arg->use == TR_ARG_WORKS)
            continue;
        CHECK_INT(tr_arg_set(&a, arg, other, &err),
                  arg->use == TR_ARG_REFUSED ? FR_UNSUPPORTED : FR_OK);
        if (arg->use == TR_ARG_REFUSED)
            CHECK(strstr(err.msg, arg->help) != NULL && strstr(err.msg, arg->name) != NULL);
    }
    tr_args_finish(&a);
}

static const struct {
    const char *name, *value;
} needed[] = {{"do_train", "true"},
              {"model_name_or_path", "m"},
              {"dataset", "a"},
              {"template", "empty"},
              {"output_dir", "o"}};

static bool is_needed(const char *name)
{
    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
        if (strcmp(needed[i].name, name) == 0)
            return true;
    return false;
}

/* A file with these lines, then a word that may be NULL: all arguments are as want says. */
static void same_as(const struct fr_buf *want, const char *lines, const char *word)
{
    struct fr_buf text = {0}, got = {0};
    struct tr_args a;

    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
        fr_buf_fmt(&text, "%s: %s\n", needed[i].name, needed[i].value);
    fr_buf_text(&text, lines);
    put(text.p);
    read_into(word, &got, &a);
    if (want->n > 0)
        CHECK(got.n == want->n && memcmp(got.p, want->p, got.n) == 0);
    tr_args_finish(&a);
    fr_buf_finish(&text);
    fr_buf_finish(&got);
}

/* Null is the default of every argument: in a file, and behind one that says another value. */
static void test_null(void)
{
    struct fr_buf want = {0};
    struct tr_args a;

    same_as(&want, "", NULL);
    read_into(NULL, &want, &a);
    tr_args_finish(&a);
    for (size_t i = 0; i < tr_arg_count; i++) {
        char line[128], word[128];

        check_row(tr_arg_table[i].name);
        if (is_needed(tr_arg_table[i].name))
            continue;
        (void)snprintf(line, sizeof(line), "%s: null\n", tr_arg_table[i].name);
        (void)snprintf(word, sizeof(word), "%s=%s", tr_arg_table[i].name, i % 2 ? "null" : "~");
        same_as(&want, line, NULL);
        same_as(&want, "", word);
    }
    check_row("null behind a value");
    same_as(&want, "warmup_ratio: 0.5\n", "warmup_ratio=null");
    same_as(&want, "max_steps: 7\n", "max_steps=Null");
    same_as(&want, "bf16: true\n", "bf16=");
    same_as(&want, "lora_dropout: 0.5\n", "--lora_dropout=null");
    same_as(&want, "save_total_limit: NULL\n", NULL);
    fr_buf_finish(&want);
}

/* Steps of warm-up as LLaMA-Factory's parser and scheduler have them (tests/golden/warmup.py). */
static void test_warmup(void)
{
    json_t *rows = json_load_file(SOURCE_ROOT "/tests/golden/warmup.json", 0, NULL);

    CHECK_INT(json_array_size(rows), 13);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        json_t *given = json_deep_copy(json_object_get(row, "given"));
        struct fr_buf all = {0};
        struct tr_derived d;
        struct tr_args a;
        char *text = json_dumps(given, 0);

        check_row(text);
        for (size_t k = 0; k < sizeof(needed) / sizeof(needed[0]); k++)
            json_object_set_new(given, needed[k].name, json_string(needed[k].value));
        json_object_set_new(given, "max_steps", json_incref(json_object_get(row, "total")));
        char *whole = json_dumps(given, 0);
        put(whole);
        read_into(NULL, &all, &a);
        CHECK_INT(tr_args_derive(&a, 100, 1, &d, &err), FR_OK);
        CHECK_INT(d.warmup_steps, json_integer_value(json_object_get(row, "warmup")));
        CHECK_INT(json_integer_value(json_object_get(row, "largest")), d.warmup_steps);
        tr_args_finish(&a);
        fr_buf_finish(&all);
        free(whole);
        free(text);
        json_decref(given);
    }
    json_decref(rows);
}

/* `flowtrain help arguments` prints what docs/arguments.md holds. */
static void test_document(void)
{
    struct fr_buf want = {0}, got = {0};

    check_row("docs/arguments.md is current: flowtrain help arguments > docs/arguments.md");
    CHECK_INT(fr_file_read(SOURCE_ROOT "/docs/arguments.md", 1 << 20, &want, &err), FR_OK);
    tr_args_markdown(&got);
    CHECK(got.n == want.n && memcmp(got.p, want.p, got.n) == 0);
    fr_buf_finish(&want);
    fr_buf_finish(&got);
}

#define BASE                                                                                       \
    "model_name_or_path: m\nstage: sft\ndo_train: true\nfinetuning_type: lora\n"                   \
    "dataset: d\ntemplate: default\noutput_dir: o\n"

/* A YAML text is the value that OmegaConf has for it; NULL: it refuses the text, which a program
 * may do as well. */
static void same_value(const char *text, const char *key, const json_t *want)
{
    struct fr_arena arena = {0};
    struct fr_yaml *root = NULL;
    struct fr_buf out = {0};
    json_t *got = NULL;
    enum fr_rc rc;

    check_row(text);
    rc = fr_yaml_parse(fr_str_of(text), "text", &arena, &arena, &root, &err);
    if (rc == FR_OK && key != NULL)
        root = fr_yaml_get(root, key);
    if (rc == FR_OK)
        rc = tr_yaml_json(root, &out, &err);
    if (want != NULL && CHECK_INT(rc, FR_OK)) {
        got = json_loads(out.p, JSON_DECODE_ANY, NULL);
        if (!CHECK(json_equal(got, want)))
            printf("   got %s\n", out.p);
    }
    json_decref(got);
    fr_buf_finish(&out);
    fr_arena_finish(&arena);
}

/* A word about a part of a map goes into the file's. */
static void same_part(const char *word, const json_t *want)
{
    struct tr_args a;
    char text[128];
    const char *argv[] = {file, text};
    json_t *got;

    check_row(word);
    (void)snprintf(text, sizeof(text), "lr_scheduler_kwargs%s", word + 1);
    if (!CHECK_INT(tr_args_read(&a, 2, argv, NULL, &err), FR_OK))
        printf("   %s\n", err.msg);
    else {
        got = json_loads(a.lr_scheduler_kwargs, 0, NULL);
        if (!CHECK(json_equal(got, want)))
            printf("   got %s\n", a.lr_scheduler_kwargs);
        json_decref(got);
    }
    tr_args_finish(&a);
}

static void values(void)
{
    json_t *all = json_load_file(SOURCE_ROOT "/tests/golden/yaml_values.json", 0, NULL), *row;
    size_t i;

    json_array_foreach(json_object_get(all, "files"), i, row) same_value(
        json_string_value(json_object_get(row, "text")), "k", json_object_get(row, "value"));
    CHECK(i > 100);
    json_array_foreach(json_object_get(all, "words"), i, row) same_value(
        json_string_value(json_object_get(row, "word")) + 2, NULL, json_object_get(row, "value"));
    CHECK(i > 100);
    put(BASE "lr_scheduler_type: cosine_with_min_lr\nlr_scheduler_kwargs: {x: 1, y: [2]}\n");
    json_array_foreach(json_object_get(all, "parts"), i, row)
        same_part(json_string_value(json_object_get(row, "word")), json_object_get(row, "value"));
    CHECK(i > 5);
    json_decref(all);
}

/* Words behind a file and lines of one, and what an argument is then; or how they are refused. */
static void words(void)
{
    static const struct {
        const char *lines, *word, *name, *want;
    } rows[] = {
        {"", "lora_target=[q_proj,v_proj]", "lora_target", "\"q_proj,v_proj\""},
        {"", "dataset=[x]", "dataset", "\"x\""},
        {"", "report_to=[none]", NULL, NULL},
        {"", "max_samples=1_0", "max_samples", "10"},
        {"", "max_samples=1:30", "max_samples", "90"},
        {"", "max_samples=017", "max_samples", "15"},
        {"max_samples: 0x10\n", NULL, "max_samples", "16"},
        {"max_samples: 1_024\n", NULL, "max_samples", "1024"},
        {"max_samples: 08\n", NULL, NULL, "--max_samples 08 is text in YAML, where a 0 in front"},
        {"max_samples: 0o17\n", NULL, NULL, "--max_samples 0o17 is text in YAML"},
        {"", "learning_rate=1_0.5e-6", "learning_rate", "1.05e-5"},
        {"packing: on\n", NULL, "packing", "true"},
        {"", "packing=off", "packing", "false"},
        {"", "overwrite_output_dir=Yes", "overwrite_output_dir", "true"},
        {"resume_from_checkpoint: false\n", NULL, "resume_from_checkpoint", "null"},
        {"resume_from_checkpoint: true\n", NULL, "resume_from_checkpoint", "\"true\""},
        {"", "max_samples=5 # five", "max_samples", "5"},
        {"", "max_samples=", "max_samples", "-1"},
        {"", "run_name='a, b'", NULL, NULL},
        {"", "output_dir=\"017\"", "output_dir", "\"017\""},
        {"", "output_dir=017", "output_dir", "\"017\""},
        {"", "max_samples.x=1", NULL, "--max_samples has no parts: .x"},
        {"", "output_dir=@x", NULL, "the value is read as YAML; quotes make a text of it"},
        {"<<: {max_samples: 7, seed: 3}\nmax_samples: 8\n", NULL, "max_samples", "8"},
        {"<<: {max_samples: 7, seed: 3}\n", NULL, "seed", "3"},
        {"<<: 5\n", NULL, NULL, "<< takes a map, *NAME of one"},
        {"<<: {max_sample: 7}\n", NULL, NULL, "unknown argument --max_sample"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fr_buf out = {0};
        struct tr_args a;
        const char *argv[] = {file, rows[i].word};
        char text[512];

        check_row(rows[i].word != NULL ? rows[i].word : rows[i].lines);
        (void)snprintf(text, sizeof(text), BASE "%s", rows[i].lines);
        put(text);
        enum fr_rc rc = tr_args_read(&a, rows[i].word != NULL ? 2 : 1, argv, NULL, &err);
        if (rows[i].name == NULL && rows[i].want != NULL) {
            check_that(rc != FR_OK && strstr(err.msg, rows[i].want) != NULL, err.msg, __FILE__,
                       __LINE__);
        } else if (CHECK_INT(rc, FR_OK) && rows[i].name != NULL) {
            CHECK_INT(tr_args_json(&a, &out, &err), FR_OK);
            json_t *root = json_loads(out.p, 0, NULL);
            char *got = json_dumps(json_object_get(root, rows[i].name),
                                   JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
            CHECK_TEXT(got, rows[i].want);
            free(got);
            json_decref(root);
        } else if (rc != FR_OK)
            printf("   %s\n", err.msg);
        fr_buf_finish(&out);
        tr_args_finish(&a);
    }
}

int main(void)
{
    if (mkdtemp(dir) == NULL)
        return EXIT_FAILURE;
    test_reference();
    test_null();
    test_warmup();
    values();
    words();
    (void)unlink(file);
    (void)rmdir(dir);
    test_table();
    test_document();
    return check_done();
}
