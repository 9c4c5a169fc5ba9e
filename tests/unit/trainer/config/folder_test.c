/*
 * What a folder says twice: the report, and whole folders as transformers loads them
 * (tests/golden/model_folder.py): which file of weights counts, names with and without that of the
 * trunk, and the head of a model that is tied by its config.json.
 */
#include "tests/unit/check.h"
#include "trainer/config/folder.h"

#include "engine/base/file.h"

static char dir[] = "/tmp/flowrun-folder-XXXXXX";

static void test_report(void)
{
    struct tr_twice t = {.n = 0};
    struct tr_twice_row row = {.what = "theta", .from = "config.json: a", .over = "config.json: b"};
    struct fr_buf lines = {0};
    json_t *one = json_integer(1), *two = json_real(2.5), *none = json_null(), *list;

    check_row("report");
    tr_twice_add(NULL, &row);
    tr_twice_add_json(&t, row, one, one);
    tr_twice_add_json(&t, row, none, one);
    tr_twice_add_json(&t, row, one, NULL);
    CHECK_INT((long)t.n, 0);
    tr_twice_add_json(&t, row, one, two);
    tr_twice_add(&t, &(struct tr_twice_row){
                         .what = "weights", .from = "model.safetensors", .over = "the index"});
    tr_twice_notes(&t, &lines);
    CHECK_TEXT(lines.p, "said twice, theta: config.json: a 1 is taken, config.json: b 2.5 is "
                        "passed over\n"
                        "said twice, weights: model.safetensors is taken, the index is passed "
                        "over\n");
    list = tr_twice_list(&t);
    CHECK_INT((long)json_array_size(list), 2);
    CHECK_TEXT(json_string_value(json_object_get(json_array_get(list, 0), "other")), "2.5");
    CHECK(json_is_null(json_object_get(json_array_get(list, 1), "value")));
    json_decref(list);
    json_decref(one);
    json_decref(two);
    json_decref(none);
    fr_buf_finish(&lines);
    tr_twice_finish(&t);
}

/* What is said of a row, in the order of the report; every other row has nothing said twice. */
static const struct {
    const char *name, *from, *over;
} twice[] = {
    {"one file beside shards", "model.safetensors", "model.safetensors.index.json"},
    {"one file beside an index whose shards are gone", "model.safetensors",
     "model.safetensors.index.json"},
    {"one file beside an index that is none", "model.safetensors", "model.safetensors.index.json"},
    {"one file beside pickled weights", "model.safetensors", "pytorch_model.bin"},
    {"shards beside pickled weights", "model.safetensors.index.json", "pytorch_model.bin"},
    {"tied, a head of zeros", "lm_head.weight", "tie_word_embeddings"},
    {"tied, a head of its own", "lm_head.weight", "tie_word_embeddings"},
    {"names of the trunk, a head of its own", "lm_head.weight", "tie_word_embeddings"},
    {"a tensor by both names", "model.norm.weight", "norm.weight"},
};

enum { NUMBERS = 64, TENSORS = 16 };

static int columns(const char *name)
{
    return strstr(name, "norm") != NULL        ? 0
           : strstr(name, "down_proj") != NULL ? 8
           : strstr(name, ".lora_B") != NULL   ? 1
                                               : 4;
}

static int rows(const char *name)
{
    return strstr(name, "embed") != NULL || strstr(name, "lm_head") != NULL  ? 6
           : strstr(name, "gate") != NULL || strstr(name, "up_proj") != NULL ? 8
           : strstr(name, ".lora_A") != NULL                                 ? 1
                                                                             : 4;
}

static void write_tensors(const char *path, const json_t *content)
{
    static float numbers[TENSORS][NUMBERS];
    struct tr_st_item items[TENSORS];
    struct fr_err err;
    const char *name;
    size_t n = 0;
    json_t *v;

    json_object_foreach((json_t *)content, name, v)
    {
        for (int i = 0; i < NUMBERS; i++)
            numbers[n][i] = (float)json_number_value(v);
        items[n] = (struct tr_st_item){.name = name,
                                       .type = TR_ST_F32,
                                       .ndim = columns(name) == 0 ? 1 : 2,
                                       .shape = {rows(name), columns(name)},
                                       .data = numbers[n]};
        n++;
    }
    CHECK_INT(tr_st_write(path, items, n, NULL, 0, &err), FR_OK);
}

static void write_file(const char *name, const json_t *content)
{
    char path[256];
    struct fr_err err;
    const char *text = json_string_value(content);

    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    if (text != NULL)
        CHECK_INT(fr_file_write(path, text, strlen(text), 0644, &err), FR_OK);
    else if (strstr(name, "index") != NULL) {
        json_t *index = json_pack("{s:{}, s:O}", "metadata", "weight_map", content);

        CHECK_INT(json_dump_file(index, path, 0), 0);
        json_decref(index);
    } else if (strcmp(name, "config.json") == 0)
        CHECK_INT(json_dump_file(content, path, 0), 0);
    else
        write_tensors(path, content);
}

static double first_of(const struct tr_st *st, const char *name)
{
    const struct tr_st_tensor *t = tr_st_find(st, name);
    float x = -1;
    struct fr_err err;

    return t != NULL && tr_st_read(st, t, 0, &x, sizeof(x), &err) == FR_OK ? (double)x : -1;
}

static bool right_shape(const struct tr_st *st, const struct tr_model_tensor *want)
{
    const struct tr_st_tensor *t = tr_st_find(st, want->name);

    return t != NULL && tr_st_want_shape(t, want->ndim, want->shape, NULL) == FR_OK;
}

static enum fr_rc count_missing(void *arg, const struct tr_model_tensor *t, struct fr_err *err)
{
    const struct tr_st **st = arg;

    return right_shape(*st, t) ? FR_OK : fr_fail(err, FR_CORRUPT, "%s is missing", t->name);
}

static void check_loaded(const json_t *row, const struct tr_model_config *c, const struct tr_st *st)
{
    static const char *const keys[] = {"embed", "norm", "layer", "head"};
    const char *names[] = {"model.embed_tokens.weight", "model.norm.weight",
                           "model.layers.0.self_attn.q_proj.weight",
                           c->tie_word_embeddings ? "model.embed_tokens.weight" : "lm_head.weight"};
    struct fr_err err = {0};
    bool whole = json_array_size(json_object_get(row, "missing")) == 0;

    CHECK_INT(c->tie_word_embeddings, json_is_true(json_object_get(row, "tied")));
    CHECK((tr_model_tensors(c, count_missing, &st, &err) == FR_OK) == whole);
    for (size_t i = 0; whole && i < 4; i++)
        CHECK(first_of(st, names[i]) == json_number_value(json_object_get(row, keys[i])));
}

static void check_said(const char *name, const struct tr_twice *t)
{
    size_t k = 0;

    while (k < sizeof(twice) / sizeof(twice[0]) && strcmp(twice[k].name, name) != 0)
        k++;
    if (k == sizeof(twice) / sizeof(twice[0])) {
        CHECK_INT((long)t->n, 0);
        return;
    }
    if (CHECK_INT((long)t->n, 1)) {
        CHECK_TEXT(t->rows[0].from, twice[k].from);
        CHECK_TEXT(t->rows[0].over, twice[k].over);
    }
}

static void try_row(const json_t *row)
{
    const struct tr_folder f = {.dir = dir};
    struct tr_model_said said = {.values = NULL};
    struct tr_model_config c, planned;
    struct tr_st *st = NULL;
    struct fr_err err = {0};
    const char *name;
    json_t *content;
    bool refused = json_object_get(row, "refused") != NULL ||
                   json_object_get(row, "adapter") != NULL; /* the reference puts it on the model */

    check_row(json_string_value(json_object_get(row, "name")));
    CHECK_INT(fr_remove_tree(dir, &err), FR_OK);
    CHECK_INT(fr_mkdirs(dir, 0700, &err), FR_OK);
    write_file("config.json", json_object_get(row, "config"));
    json_object_foreach(json_object_get(row, "files"), name, content) write_file(name, content);
    enum fr_rc rc = tr_folder_read(&f, &c, &st, &said, &err);
    CHECK((rc != FR_OK) == refused && (rc == FR_OK) == (st != NULL));
    if (rc == FR_OK) {
        CHECK_INT(tr_folder_config(dir, &planned, &err), FR_OK);
        CHECK_INT(planned.tie_word_embeddings, c.tie_word_embeddings);
        check_loaded(row, &c, st);
        check_said(json_string_value(json_object_get(row, "name")), &said.twice);
    } else if (!refused)
        printf("   %s\n", err.msg);
    tr_st_close(st);
    tr_model_said_finish(&said);
}

/* A file that lacks on this machine may be the one that says whether the head is the embedding. */
static void test_part(const json_t *row)
{
    static const char map[] = "{\"weight_map\":{\"model.embed_tokens.weight\":\"a.safetensors\","
                              "\"lm_head.weight\":\"b.safetensors\"}}";
    const struct tr_folder f = {.dir = dir, .part = true};
    struct tr_model_config c;
    struct tr_st *st = NULL;
    struct fr_err err = {0};
    json_t *index = json_string(map);

    check_row("a part of the files");
    CHECK_INT(fr_remove_tree(dir, &err), FR_OK);
    CHECK_INT(fr_mkdirs(dir, 0700, &err), FR_OK);
    write_file("config.json", json_object_get(row, "config"));
    write_file("model.safetensors.index.json", index);
    CHECK_INT(tr_folder_open(&f, &c, &st, NULL, &err), FR_NOTFOUND);
    CHECK(st == NULL && strstr(err.msg, "fetch a.safetensors and b.safetensors") != NULL);
    CHECK_INT(tr_folder_config(dir, &c, &err), FR_OK);
    CHECK(c.tie_word_embeddings);
    json_decref(index);
}

int main(void)
{
    json_error_t e;
    json_t *golden = json_load_file(SOURCE_ROOT "/tests/golden/model_folder.json", 0, &e);
    const json_t *list = json_object_get(golden, "rows"), *row;
    struct fr_err err;
    size_t i;

    test_report();
    if (!CHECK(golden != NULL) || mkdtemp(dir) == NULL)
        return check_done();
    json_array_foreach(list, i, row) try_row(row);
    test_part(json_array_get(list, 0));
    json_decref(golden);
    CHECK_INT(fr_remove_tree(dir, &err), FR_OK);
    return check_done();
}
