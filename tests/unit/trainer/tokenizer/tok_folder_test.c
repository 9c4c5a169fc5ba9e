/* Folders of tokenizers: special tokens and ids of each are those that tests/golden/folder.py
 * recorded from AutoTokenizer. */
#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/sys.h"
#include "tests/unit/check.h"
#include "trainer/tokenizer/tokenizer.h"
#include "trainer/tensor/twice.h"

#include <stdlib.h>
#include <string.h>

#define GOLDEN SOURCE_ROOT "/tests/golden/"

static const char *const files[] = {"tokenizer.json", "tokenizer_config.json",
                                    "special_tokens_map.json", "added_tokens.json", "config.json"};

static void write_json(const char *dir, const char *name, const json_t *v)
{
    char path[256], *text;

    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    (void)unlink(path);
    if (v == NULL || json_is_null(v))
        return;
    text = json_dumps(v, JSON_COMPACT);
    CHECK_INT(fr_file_write(path, text, strlen(text), 0644, NULL), FR_OK);
    free(text);
}

/* The row's tokenizer.json: its base, with more added tokens behind the last one. */
static json_t *made(const json_t *row)
{
    const json_t *more = json_object_get(row, "added");
    const char *base = json_string_value(json_object_get(row, "base"));
    json_t *root = NULL, *list, *v;
    json_int_t last = 0;
    const char *key;
    char path[256];
    size_t i;

    (void)snprintf(path, sizeof(path), GOLDEN "tokenizer/%.*s.json", (int)strcspn(base, "+"), base);
    if (!CHECK_INT(fr_json_load(path, 64 << 20, &root, NULL), FR_OK))
        return NULL;
    json_object_foreach(json_object_get(json_object_get(root, "model"), "vocab"), key, v) last =
        json_integer_value(v) > last ? json_integer_value(v) : last;
    if (strchr(base, '+') != NULL)
        json_object_set_new(root, "padding",
                            json_pack("{s:s}", "pad_token", strchr(base, '+') + 1));
    list = json_object_get(root, "added_tokens");
    json_array_foreach(list, i, v) last = json_integer_value(json_object_get(v, "id")) > last
                                              ? json_integer_value(json_object_get(v, "id"))
                                              : last;
    json_array_foreach(more, i, v)
    {
        last += 1 + json_integer_value(json_array_get(v, 3));
        json_array_append_new(
            list, json_pack("{s:I, s:O, s:b, s:b, s:b, s:O, s:O}", "id", last, "content",
                            json_array_get(v, 0), "single_word", 0, "lstrip", 0, "rstrip", 0,
                            "special", json_array_get(v, 1), "normalized", json_array_get(v, 2)));
    }
    return root;
}

static int64_t id_of(const json_t *row, const char *key)
{
    const json_t *v = json_object_get(row, key);

    return json_is_integer(v) ? json_integer_value(v) : -1;
}

/* ids of a text, and with decoded what they decode to without special tokens. */
static void check_one(struct tr_encoder *e, const json_t *one, const json_t *want,
                      const json_t *decoded)
{
    const json_t *text = json_object_get(one, "text");
    struct tr_ids ids = {0};
    struct fr_buf out = {0};
    bool same;

    CHECK_INT(tr_encode(e, (struct fr_str){json_string_value(text), json_string_length(text)}, &ids,
                        NULL),
              FR_OK);
    same = ids.n == json_array_size(want);
    for (size_t k = 0; same && k < ids.n; k++)
        same = ids.v[k] == json_integer_value(json_array_get(want, k));
    if (!CHECK(same))
        printf("   text: %s\n", json_string_value(text));
    if (decoded != NULL) {
        CHECK_INT(tr_tokenizer_decode(tr_encoder_tokenizer(e), ids.v, ids.n, true, &out, NULL),
                  FR_OK);
        if (!CHECK(fr_str_eq(
                (struct fr_str){out.p, out.n},
                (struct fr_str){json_string_value(decoded), json_string_length(decoded)})))
            printf("   decoded: %.*s\n", (int)out.n, out.n > 0 ? out.p : "");
    }
    fr_buf_finish(&out);
    tr_ids_finish(&ids);
}

static void check_texts(struct tr_tokenizer *t, const json_t *texts)
{
    for (int split = 0; split < 2; split++) {
        struct tr_encoder *e = NULL;
        json_t *one;
        size_t i;

        if (split)
            tr_tokenizer_split_special(t);
        CHECK_INT(tr_encoder_create(t, &e, NULL), FR_OK);
        json_array_foreach(texts, i, one)
        {
            const json_t *other = json_object_get(one, "split"), *ids = json_object_get(one, "ids");
            check_one(e, one, split && other != NULL ? other : ids,
                      split ? NULL : json_object_get(one, "decoded"));
        }
        tr_encoder_destroy(e);
    }
}

static void check_folder(const char *dir, const json_t *row)
{
    static const char *const parts[] = {NULL, "config", "map", "more", "model"};
    struct tr_tokenizer *t = NULL;
    struct fr_err err = {0};
    json_t *root = made(row);

    check_row(json_string_value(json_object_get(row, "name")));
    write_json(dir, files[0], root);
    json_decref(root);
    for (size_t i = 1; i < 5; i++)
        write_json(dir, files[i], json_object_get(row, parts[i]));
    if (!CHECK_INT(tr_tokenizer_load(dir, &t, &err), FR_OK)) {
        printf("   %s\n", err.msg);
        return;
    }
    CHECK_INT(tr_tokenizer_bos(t), id_of(row, "bos"));
    CHECK_INT(tr_tokenizer_eos(t), id_of(row, "eos"));
    /* Where there is none a template makes it eos. */
    CHECK_INT(tr_tokenizer_pad(t), id_of(row, "pad") >= 0 ? id_of(row, "pad") : id_of(row, "eos"));
    check_texts(t, json_object_get(row, "texts"));
    tr_tokenizer_destroy(t);
}

/* The lines about one folder. */
static void check_notes(const char *dir, const char *config, const char *map, const char *want)
{
    struct tr_tokenizer *t = NULL;
    struct fr_buf lines = {0};
    json_t *a = json_loads(config, 0, NULL), *b = json_loads(map, 0, NULL);

    check_row(config);
    write_json(dir, files[1], a);
    write_json(dir, files[2], b);
    CHECK_INT(tr_tokenizer_load(dir, &t, NULL), FR_OK);
    tr_tokenizer_notes(t, &lines);
    if (!CHECK(want[0] == '\0' ? lines.n == 0 : lines.n > 0 && strstr(lines.p, want) != NULL))
        printf("   got: %s\n", lines.n > 0 ? lines.p : "nothing");
    fr_buf_finish(&lines);
    tr_tokenizer_destroy(t);
    json_decref(a);
    json_decref(b);
}

static void notes(const char *dir)
{
    json_t *root = NULL;

    CHECK_INT(fr_json_load(GOLDEN "tokenizer/deepseek.json", 64 << 20, &root, NULL), FR_OK);
    write_json(dir, files[0], root);
    json_decref(root);
    write_json(dir, files[3], NULL);
    write_json(dir, files[4], NULL);
    check_notes(dir, "{\"tokenizer_class\":\"PreTrainedTokenizerFast\"}", "{}", "");
    check_notes(dir,
                "{\"added_tokens_decoder\":{\"420\":{\"content\":\"<s>\"},"
                "\"431\":{\"content\":\"<x>\"},\"432\":{\"content\":\"<y>\"}}}",
                "{}",
                "said twice, number of <x> and of what follows: order of added tokens 423 is "
                "taken, tokenizer_config.json 431 is passed over\n");
    root = json_pack("{s:i}", "<new>", 900);
    write_json(dir, files[3], root);
    json_decref(root);
    check_notes(dir, "{}", "{}",
                "said twice, number of <new> and of what follows: order of added tokens 423 is "
                "taken, added_tokens.json 900 is passed over\n");
    write_json(dir, files[3], NULL);
    check_notes(dir, "{\"image_token\":\"<i>\"}", "{\"image_token\":\"<j>\"}",
                "said twice, image_token: tokenizer_config.json \"<i>\" is taken, "
                "special_tokens_map.json \"<j>\" is passed over\n");
    check_notes(dir, "{\"tokenizer_class\":\"Qwen2TokenizerFast\"}", "{}",
                "said twice, normalizer: tokenizer_class Qwen2Tokenizer: {\"type\":\"NFC\"} is "
                "taken, tokenizer.json: null is passed over\n");
    check_notes(dir, "{\"tokenizer_class\":\"RobertaTokenizer\"}", "{}",
                "tokenizer_class RobertaTokenizer: transformers puts a pipeline");
    check_notes(dir, "{\"eos_token\":\"<s>\"}", "{\"eos_token\":{\"content\":\"</s>\"}}",
                "said twice, eos_token: special_tokens_map.json \"</s>\" is taken, "
                "tokenizer_config.json \"<s>\" is passed over\n");
    check_notes(dir, "{\"eos_token\":\"<s>\"}", "{\"eos_token\":null}",
                "said twice, eos_token: special_tokens_map.json null is taken, "
                "tokenizer_config.json \"<s>\" is passed over\n");
    check_notes(dir, "{\"eos_token\":\"<s>\",\"added_tokens_decoder\":{}}",
                "{\"eos_token\":\"</s>\"}",
                "said twice, eos_token: tokenizer_config.json \"<s>\" is taken, "
                "special_tokens_map.json \"</s>\" is passed over\n");
}

int main(void)
{
    char dir[] = "/tmp/fr.tok.XXXXXX", path[64];
    json_t *rows = NULL, *row;
    size_t i;

    if (mkdtemp(dir) == NULL)
        return EXIT_FAILURE;
    CHECK_INT(fr_json_load(GOLDEN "folder.json", 64 << 20, &rows, NULL), FR_OK);
    json_array_foreach(rows, i, row) check_folder(dir, row);
    CHECK(i > 200);
    json_decref(rows);
    notes(dir);
    for (i = 0; i < 5; i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", dir, files[i]);
        (void)unlink(path);
    }
    CHECK_INT(rmdir(dir), 0);
    return check_done();
}
