#include "trainer/cli/example.h"

#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "trainer/cli/weights.h"
#include "trainer/config/model_config.h"
#include "trainer/text/text.h"

#include <limits.h>
#include <string.h>

static const char dataset_info[] =
    "{\n"
    "  \"arithmetic\": {\n"
    "    \"file_name\": \"arithmetic.jsonl\",\n"
    "    \"columns\": {\"prompt\": \"instruction\", \"query\": \"input\", \"response\": "
    "\"output\"}\n"
    "  }\n"
    "}\n";

static enum fr_rc put(const char *dir, const char *name, const char *p, size_t n,
                      struct fr_err *err)
{
    char path[PATH_MAX];
    enum fr_rc rc = tr_path(path, dir, name, err);

    return rc == FR_OK ? fr_file_write(path, p, n, 0644, err) : rc;
}

static enum fr_rc put_tokenizer_config(const char *dir, const struct tr_example_kind *kind,
                                       struct fr_err *err)
{
    struct fr_buf text = {0};
    enum fr_rc rc;

    fr_buf_fmt(&text,
               "{\n  \"add_bos_token\": false,\n  \"add_eos_token\": false,\n"
               "  \"bos_token\": \"%s\",\n  \"eos_token\": \"%s\",\n  \"pad_token\": \"%s\",\n"
               "  \"model_max_length\": 4096,\n"
               "  \"tokenizer_class\": \"PreTrainedTokenizerFast\"\n}\n",
               kind->begin, kind->end, kind->end);
    rc = text.bad ? fr_fail(err, FR_NOMEM, "no memory for tokenizer_config.json")
                  : put(dir, "tokenizer_config.json", text.p, text.n, err);
    fr_buf_finish(&text);
    return rc;
}

static enum fr_rc write_model(const char *dir, const struct tr_example_kind *kind,
                              struct fr_str text, uint64_t seed, struct fr_err *err)
{
    char model[PATH_MAX], path[PATH_MAX];
    struct fr_buf json = {0};
    struct tr_model_config c;
    enum fr_rc rc;

    if ((rc = tr_path(model, dir, "model", err)) != FR_OK ||
        (rc = tr_path(path, model, "config.json", err)) != FR_OK)
        return rc;
    rc = fr_mkdirs(model, 0755, err);
    if (rc == FR_OK)
        rc = put(model, "config.json", kind->config, strlen(kind->config), err);
    if (rc == FR_OK)
        rc = tr_learn_tokenizer(kind, text, &json, err);
    if (rc == FR_OK)
        rc = put(model, "tokenizer.json", json.p, json.n, err);
    if (rc == FR_OK)
        rc = put_tokenizer_config(model, kind, err);
    if (rc == FR_OK)
        rc = tr_model_config_load(path, &c, err);
    if (rc == FR_OK)
        rc = tr_weights_write(model, &c, seed, INT64_MAX, err);
    fr_buf_finish(&json);
    return rc;
}

enum fr_rc tr_example_write(const char *dir, const struct tr_example_kind *kind, uint64_t seed,
                            int64_t records, bool overwrite, struct fr_err *err)
{
    char data[PATH_MAX], last[PATH_MAX];
    struct fr_buf lines = {0}, text = {0};
    struct stat st;
    enum fr_rc rc;

    if ((rc = tr_path(data, dir, "data", err)) != FR_OK ||
        (rc = tr_path(last, data, "dataset_info.json", err)) != FR_OK)
        return rc;
    if (!overwrite && fr_sys.lstat(last, &st) == 0) {
        fr_print("%s is there already\n", dir);
        return FR_OK;
    }
    rc = tr_exercises(seed, records, &lines, &text, err);
    if (rc == FR_OK)
        rc = write_model(dir, kind, (struct fr_str){text.p, text.n}, seed, err);
    if (rc == FR_OK)
        rc = fr_mkdirs(data, 0755, err);
    if (rc == FR_OK)
        rc = put(data, "arithmetic.jsonl", lines.p, lines.n, err);
    if (rc == FR_OK)
        rc = put(data, "dataset_info.json", dataset_info, sizeof(dataset_info) - 1, err);
    if (rc == FR_OK)
        fr_print("wrote %s/model and %s: %lld records, seed %llu\n", dir, data, (long long)records,
                 (unsigned long long)seed);
    fr_buf_finish(&lines);
    fr_buf_finish(&text);
    return rc;
}
