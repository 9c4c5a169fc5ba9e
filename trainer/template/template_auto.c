/* --template auto: the template that stands for the chat template of a checkpoint. */
#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/sys.h"
#include "trainer/template/template.h"
#include "trainer/text/text.h"

#include <string.h>

enum { FILE_MAX_BYTES = 64 << 20 };

/*
 * Known chat templates by the SHA-256 of their text without blanks and line ends after it. Over
 * conversations with and without a system text, of one turn and of several, each gives the text
 * that our template gives, but for the empty thoughts of templates that reason (transformers'
 * apply_chat_template).
 */
static const struct known {
    const char *sha256, *name;
} known[] = {
    {"55b2f4a26ac9ee719330a61a0c39d9e538b0e9322212f048326318cff4f8674a", "qwen"}, /* 2.5 */
    {"87a2728cb8dc9fe424d624542f6060ec05a1d285ebbec578bb078900e33396b5", "qwen3"},
    {"3b8267e54b67df6500f231ffa969955cc9d26b3444a291ced4eb96ca7d3ca1ea", "deepseek3"},
    {"3a3036eeb96ca0e48565fc1f19b4d7d3fa17ada32bb1b3d5ed539ae74cf22923", "deepseekr1"},
    {"563b1ce7d61d50a9b4c7439a912a1116f095b712df5b5e4d3e1116049874eb64", "deepseekr1"}, /* 0528 */
    {"56a1447ad31926fdc21fb07e56e5642bd9c850c4f52d8c8af7bbe5f079a84f5f",
     "deepseekr1"}, /* Distill */
    {"64f85b198065d0fba2a81f37e10ed68161ce2c19a754c7100e67e0ca2ee9c326",
     "qwen3_nothink"}, /* 2507 */
    {"ba03a121d097859c7b5b9cd03af99aafe95275210d2876f642ad9929a150f122", "llama3.0"},
    {"93c0e9aa3629bbd77e68dbc0f5621f6e6b23aa8d74b932595cdb8d64684526d7", "llama3.1"}, /* and 3.3 */
    {"d82792f95932f1c9cef5c4bd992f171225e3bf8c7b609b4557c9e1ec96be819f", "llama3.2"},
    {"9bcc2b35f15730186459ff95c30804d7b97eeb97360b71b432f5564aab789f04", "llama4"},
    {"0d19c3a601c02d8f788799efcaceee9f0cda955e165b9c137ea9f7198fea4d37", "kimi_k2"},
};

enum { KNOWN = sizeof(known) / sizeof(known[0]) };

/* The text, or of a list of named ones that of "default". */
static const json_t *text_of(const json_t *v)
{
    const json_t *one;
    size_t i;

    json_array_foreach(v, i, one)
    {
        const char *name = json_string_value(json_object_get(one, "name"));

        if (name != NULL && strcmp(name, "default") == 0)
            return json_object_get(one, "template");
    }
    return v;
}

enum fr_rc tr_template_read_chat(const char *dir, struct fr_buf *out, struct fr_err *err)
{
    char path[PATH_MAX];
    json_t *root = NULL;
    const json_t *text;
    struct stat st;
    enum fr_rc rc;

    if ((rc = tr_path(path, dir, "chat_template.jinja", err)) != FR_OK)
        return rc;
    if (fr_sys.lstat(path, &st) == 0)
        return fr_file_read(path, FILE_MAX_BYTES, out, err);
    if ((rc = tr_path(path, dir, "tokenizer_config.json", err)) != FR_OK ||
        fr_sys.lstat(path, &st) != 0)
        return rc;
    if ((rc = fr_json_load(path, FILE_MAX_BYTES, &root, err)) != FR_OK)
        return rc;
    text = text_of(json_object_get(root, "chat_template"));
    if (json_is_string(text))
        fr_buf_add(out, json_string_value(text), json_string_length(text));
    json_decref(root);
    return out->bad ? fr_fail(err, FR_NOMEM, "no memory for a chat template") : FR_OK;
}

static enum fr_rc find_known(const char *dir, struct fr_str text, const struct known **out,
                             struct fr_err *err)
{
    char sha[FR_SHA256_TEXT];
    size_t k = 0;

    while (text.n > 0 && strchr(" \t\r\n", text.p[text.n - 1]) != NULL)
        text.n--;
    if (text.n == 0)
        return fr_fail(err, FR_USAGE,
                       "--template auto: %s has no chat template: name one (qwen, llama3 …)", dir);
    fr_sha256(text.p, text.n, sha);
    while (k < KNOWN && strcmp(sha, known[k].sha256) != 0)
        k++;
    if (k == KNOWN)
        return fr_fail(err, FR_USAGE,
                       "--template auto: the chat template of %s is none of those known here "
                       "(SHA-256 %.12s…): name one (qwen, llama3 …)",
                       dir, sha);
    *out = &known[k];
    return FR_OK;
}

enum fr_rc tr_template_choose(const char *name, const char *model_dir,
                              const struct tr_template **out, struct fr_err *err)
{
    const struct known *k = NULL;
    struct fr_buf text = {0};
    enum fr_rc rc;

    *out = NULL;
    if (strcmp(name, "auto") != 0)
        return tr_template_find(name, out, err);
    rc = tr_template_read_chat(model_dir, &text, err);
    if (rc == FR_OK)
        rc = find_known(model_dir, (struct fr_str){text.p != NULL ? text.p : "", text.n}, &k, err);
    fr_buf_finish(&text);
    return rc == FR_OK ? tr_template_find(k->name, out, err) : rc;
}
