#include "engine/base/yaml.h"

#include "tests/unit/check.h"

/* A file of the given head, middle repeated n times, and tail. */
static struct fr_buf repeat(const char *head, const char *middle, size_t n, const char *tail)
{
    struct fr_buf b = {0};

    fr_buf_text(&b, head);
    for (size_t i = 0; i < n; i++)
        fr_buf_text(&b, middle);
    fr_buf_text(&b, tail);
    return b;
}

#define TAGS                                                                                       \
    "tags (!x) are not used here; expected the value alone, or quotes around a text that begins "  \
    "with '!'"

static const struct {
    const char *name, *text, *want;
} wrong[] = {
    {"tab indent", "a:\n\tb: 1\n", "f:2:1: a tab; expected spaces"},
    {"duplicate key", "a: 1\nb: 2\na: 3\n",
     "f:3:1: key 'a' stands here a second time; first at line 1"},
    {"duplicate in flow", "{x: {k: 1, k: 2}}",
     "f:1:12: key 'k' stands here a second time; first at line 1"},
    {"earliest duplicate", "{z: 1, z: 2, a: 3, a: 4}",
     "f:1:8: key 'z' stands here a second time; first at line 1"},
    {"bad UTF-8", "a: 1\nb: \xc3(\n", "f:2:4: a byte that is not UTF-8"},
    {"column counts characters", "b: \xc3\xa4\xff\n", "f:1:5: a byte that is not UTF-8"},
    {"cut UTF-8", "a: \xe2\x82", "f:1:4: a byte that is not UTF-8"},
    {"control character", "a: \x01\n", "f:1:4: a control character"},
    {"escaped NUL", "a: \"x\\0y\"\n", "f:1:4: a text cannot hold the character NUL"},
    {"tag", "a: !!int 3\n", "f:1:4: " TAGS},
    {"tag on a map", "a: !x {b: 1}\n", "f:1:4: " TAGS},
    {"list as key", "? [a, b]\n: 1\n", "f:1:3: a key must be a plain text, not a list or map"},
    {"alias as key of a map", "a: &x {b: 1}\n*x : 2\n",
     "f:2:1: a key must be a plain text, not a list or map"},
    {"unknown alias", "a: *nope\n", "f:1:4: alias *nope has no anchor &nope before it"},
    {"alias inside itself", "a: &x [1, *x]\n",
     "f:1:11: an alias cannot stand inside its own anchor"},
    {"two documents", "a: 1\n---\nb: 2\n", "f:2:1: a second document; expected one a file"},
    {"open list", "a: [1, 2\nb: 3\n",
     "f:2:2: did not find expected ',' or ']' while parsing a flow sequence that began at line 1; "
     "expected quotes around a text with brackets, commas or ': ' in it"},
    {"open quote", "a: \"x\n",
     "f:2:1: found unexpected end of stream while scanning a quoted scalar that began at line 1"},
    {"value after value", "a: b: c\n",
     "f:1:5: mapping values are not allowed in this context; expected quotes around a text with ': "
     "' in it, or the key in the column of its map"},
    {"value after value in flow", "{a: b: c}",
     "f:1:6: did not find expected ',' or '}' while parsing a flow mapping that began at line 1; "
     "expected quotes around a text with braces, commas or ': ' in it"},
    {"a text that begins with an alias", "a: x\nb: &&\n",
     "f:2:5: did not find expected alphabetic or numeric character while scanning an anchor that "
     "began at line 2; expected quotes around a text with '&' or '*' in it"},
    {"a text that begins with @", "a: @x\n",
     "f:1:4: found character that cannot start any token while scanning for the next token that "
     "began at line 1; expected quotes around a text that begins with '@', '%' or '`'"},
    {"keys in two columns", "a:\n   b: 1\n  c: 2\n",
     "f:3:3: did not find expected key while parsing a block mapping that began at line 1; "
     "expected "
     "all keys of a map in one column"},
    {"merge of a text", "a: &x 1\nc: {d: 1, <<: *x}\n",
     "f:2:11: << takes a map, *NAME of one, or a list of at most 16 of them"},
    {"merge of nothing", "c: {<<: }\n",
     "f:1:5: << takes a map, *NAME of one, or a list of at most 16 of them"},
    {"merge of a list of texts", "c: {<<: [{a: 1}, b]}\n",
     "f:1:5: << takes a map, *NAME of one, or a list of at most 16 of them"},
    {"merge of many",
     "c: {<<: [{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}]}\n",
     "f:1:5: << takes a map, *NAME of one, or a list of at most 16 of them"},
    {"two merges", "a: &x {b: 1}\nc: {<<: *x, <<: *x}\n",
     "f:2:13: key '<<' stands here a second time; first at line 2"},
    {"merge of itself", "a: &x {b: 1, <<: *x}\n",
     "f:1:18: an alias cannot stand inside its own anchor"},
};

static void test_wrong(void)
{
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct fr_arena arena = {0};
        struct fr_yaml *root;
        struct fr_err err = {0};

        check_row(wrong[i].name);
        CHECK_INT(fr_yaml_parse(fr_str_of(wrong[i].text), "f", &arena, &arena, &root, &err),
                  FR_USAGE);
        CHECK(root == NULL);
        CHECK_TEXT(err.msg, wrong[i].want);
        fr_arena_finish(&arena);
    }
    check_row("");
}

static void expect_refused(const char *row, struct fr_buf text, const char *want)
{
    struct fr_arena arena = {0};
    struct fr_yaml *root;
    struct fr_err err = {0};

    check_row(row);
    CHECK_INT(fr_yaml_parse((struct fr_str){text.p, text.n}, "f", &arena, &arena, &root, &err),
              FR_USAGE);
    CHECK_TEXT(err.msg, want);
    CHECK(arena.used_bytes < (size_t)256 << 20);
    fr_arena_finish(&arena);
    fr_buf_finish(&text);
    check_row("");
}

static void test_limits(void)
{
    struct fr_buf bomb = {0};

    fr_buf_text(&bomb, "a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for (int i = 1; i < 20; i++)
        fr_buf_fmt(&bomb, "a%d: &a%d [*a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d]\n", i, i,
                   i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1);
    expect_refused("bomb of aliases", bomb,
                   "f:7:25: too large: more than 1500000 values with aliases expanded");
    bomb = repeat("a0: &a0 {", "", 0, "");
    for (int i = 0; i < 3000; i++)
        fr_buf_fmt(&bomb, "k%d: 1, ", i);
    fr_buf_text(&bomb, "}\n");
    for (int i = 1; i < 1000; i++)
        fr_buf_fmt(&bomb, "a%d: &a%d {<<: *a%d, x%d: 1}\n", i, i, i - 1, i);
    expect_refused("bomb of merges", bomb,
                   "f:233:18: too large: more than 1500000 values with aliases expanded");
    expect_refused("deep flow", repeat("", "[", 100000, ""),
                   "f:1:65: nested too deep: more than 64 levels");
    expect_refused("deep block", repeat("", "- ", 100000, "x"),
                   "f:1:129: nested too deep: more than 64 levels");
    expect_refused("many values", repeat("[", "1,", 1600000, "1]"),
                   "f:1:3000000: too large: more than 1500000 values with aliases expanded");
    expect_refused("many anchors", repeat("", "- &a x\n", 1001, ""),
                   "f:1001:3: more than 1000 anchors");
    expect_refused("huge file", repeat("a: ", "xxxxxxxx", FR_YAML_MAX_BYTES / 8, ""),
                   "f:1:1: too large: more than 32 MiB");
}

static void test_tree(void)
{
    static const char text[] = "\xef\xbb\xbf# comment\n"
                               "name: demo\n"
                               "list: [1, '2', ~, null, \"null\"]\n"
                               "empty:\n"
                               "script: |\n"
                               "  a\n"
                               "  b\n"
                               "base: &base {x: 1}\n"
                               "other: *base\n";
    struct fr_arena arena = {0};
    struct fr_yaml *root, *list;

    CHECK_INT(fr_yaml_parse(FR_STR(text), "f", &arena, &arena, &root, NULL), FR_OK);
    if (root == NULL)
        return;
    CHECK_INT(root->kind, FR_YAML_MAP);
    CHECK_INT(root->n, 6);
    CHECK_TEXT(fr_yaml_get(root, "name")->text.p, "demo");
    CHECK_INT(fr_yaml_get(root, "name")->line, 2);
    CHECK_INT(fr_yaml_get(root, "name")->col, 7);
    CHECK_INT(root->pairs[1].line, 3);
    CHECK_INT(root->pairs[1].col, 1);
    list = fr_yaml_get(root, "list");
    CHECK_INT(list->n, 5);
    CHECK(!list->items[0]->quoted && list->items[1]->quoted);
    CHECK_INT(list->items[2]->kind, FR_YAML_NULL);
    CHECK_INT(list->items[3]->kind, FR_YAML_NULL);
    CHECK_INT(list->items[4]->kind, FR_YAML_SCALAR);
    CHECK_INT(fr_yaml_get(root, "empty")->kind, FR_YAML_NULL);
    CHECK_TEXT(fr_yaml_get(root, "script")->text.p, "a\nb\n");
    CHECK(fr_yaml_get(root, "base") == fr_yaml_get(root, "other"));
    CHECK(fr_yaml_get(root, "none") == NULL && fr_yaml_get(list, "x") == NULL);
    fr_arena_finish(&arena);
}

/* "k=v@LINE" of each pair of the last map. */
static void test_merges(void)
{
    static const struct {
        const char *name, *text, *want;
    } rows[] = {
        {"one", "- &a {x: 1, y: 2}\n- {z: 3, <<: *a, w: 4}\n", "z=3@2 x=1@1 y=2@1 w=4@2"},
        {"its own keys win", "- &a {x: 1, y: 2}\n- {<<: *a, y: 3}\n", "x=1@1 y=3@2"},
        {"… wherever they stand", "- &a {x: 1, y: 2}\n- {y: 3, <<: *a}\n", "y=3@2 x=1@1"},
        {"a list, the first wins", "- &a {x: 1}\n- &b {x: 2, y: 2}\n- {<<: [*a, *b]}\n",
         "x=1@1 y=2@2"},
        {"the last of three", "- {<<: [{x: 1}, {y: 1}, {x: 2, y: 2, z: 2}]}\n",
         "x=1@1 y=1@1 z=2@1"},
        {"an inline map", "- {<<: {x: 1}, y: 2}\n", "x=1@1 y=2@1"},
        {"of what was merged", "- &a {x: 1}\n- &b {<<: *a, y: 2}\n- {<<: *b, z: 3}\n",
         "x=1@1 y=2@2 z=3@3"},
        {"of nothing", "- {<<: {}, y: 2}\n- {<<: [], y: 3}\n", "y=3@2"},
        {"quoted: a key", "- {'<<': 1}\n", "<<=1@1"},
        {"in a block", "- &a\n  x: 1\n- <<: *a\n  y: 2\n", "x=1@2 y=2@4"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fr_arena arena = {0};
        struct fr_yaml *root, *map;
        struct fr_err err = {0};
        struct fr_buf got = {0};

        check_row(rows[i].name);
        CHECK_INT(fr_yaml_parse(fr_str_of(rows[i].text), "f", &arena, &arena, &root, &err), FR_OK);
        CHECK_TEXT(err.msg, "");
        map = root != NULL ? root->items[root->n - 1] : NULL;
        for (size_t k = 0; map != NULL && k < map->n; k++) {
            fr_buf_fmt(&got, "%s%s=%s@%d", k > 0 ? " " : "", map->pairs[k].key.p,
                       map->pairs[k].value->text.p, map->pairs[k].line);
            CHECK(fr_yaml_get(map, map->pairs[k].key.p) == map->pairs[k].value);
        }
        CHECK_TEXT(got.p, rows[i].want);
        fr_buf_finish(&got);
        fr_arena_finish(&arena);
    }
    check_row("");
}

static void test_files(void)
{
    struct fr_arena arena = {0};
    struct fr_yaml *root;
    struct fr_err err = {0};

    CHECK_INT(fr_yaml_parse(FR_STR("# nothing\n"), "f", &arena, &arena, &root, &err), FR_OK);
    CHECK(root != NULL && root->kind == FR_YAML_NULL && root->line == 1);
    CHECK_INT(fr_yaml_load("/nonexistent/x.yaml", &arena, &root, &err), FR_NOTFOUND);
    CHECK(root == NULL);
    fr_arena_finish(&arena);
}

int main(void)
{
    test_wrong();
    test_limits();
    test_tree();
    test_merges();
    test_files();
    return check_done();
}
