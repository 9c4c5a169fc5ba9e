/*
 * The table of arguments against the reference's (tests/golden/arguments.py): every argument of it
 * is there, with its default, and is accepted at it. And what the documentation says of the table.
 */
#include "tests/unit/check.h"
#include "trainer/config/args_table.h"

#include "engine/base/file.h"

#include <jansson.h>

static struct fr_err err;

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
    {"warmup_ratio", "5.6 has none where 4.57 has 0"},
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

int main(void)
{
    test_reference();
    test_table();
    test_document();
    return check_done();
}
