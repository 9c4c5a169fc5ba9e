/*
 * flowtrain inspect: what a model or an adapter holds, and whether it is whole.
 */
#include "trainer/cli/inspect.h"

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "trainer/cli/cli.h"
#include "trainer/text/text.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUMS_MAX_BYTES = 1 << 20 };

static bool has_file(const char *dir, const char *name)
{
    char path[PATH_MAX];
    struct stat st;

    return snprintf(path, sizeof(path), "%s/%s", dir, name) < PATH_MAX &&
           fr_sys.lstat(path, &st) == 0;
}

static void print_value(const char *key, const json_t *v)
{
    char number[32];

    if (json_is_integer(v)) {
        tr_show_count(json_integer_value(v), number);
        fr_print("  %-22s %s\n", key, number);
    } else if (json_is_string(v))
        fr_print("  %-22s %s\n", key, json_string_value(v));
    else {
        char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_REAL_PRECISION(8));
        fr_print("  %-22s %s\n", key, text != NULL ? text : "");
        free(text);
    }
}

/* Each value of a configuration and where it came from. */
static void print_config(const json_t *config)
{
    const char *key;
    json_t *v;

    fr_print("  config\n");
    json_object_foreach((json_t *)config, key, v)
    {
        char *text =
            json_dumps(json_object_get(v, "value"), JSON_ENCODE_ANY | JSON_REAL_PRECISION(8));

        fr_print("    %-24s %-12s %s\n", key, text != NULL ? text : "",
                 json_string_value(json_object_get(v, "from")));
        free(text);
    }
}

static const char *text_of(const json_t *row, const char *key)
{
    return json_string_value(json_object_get(row, key));
}

static void print_twice(const json_t *list)
{
    struct tr_twice t = {.n = 0};
    struct fr_buf lines = {0};
    size_t i;
    json_t *row;

    json_array_foreach(list, i, row)
        tr_twice_add(&t, &(struct tr_twice_row){text_of(row, "what"), text_of(row, "from"),
                                                text_of(row, "value"), text_of(row, "over"),
                                                text_of(row, "other")});
    tr_twice_notes(&t, &lines);
    fr_print("%s", lines.p != NULL ? lines.p : "");
    fr_buf_finish(&lines);
    tr_twice_finish(&t);
}

static void print_lines(const json_t *out)
{
    const char *key;
    json_t *v;

    fr_print("%s %s\n", json_string_value(json_object_get(out, "kind")),
             json_string_value(json_object_get(out, "path")));
    json_object_foreach((json_t *)out, key, v)
    {
        if (strcmp(key, "config") == 0)
            print_config(v);
        else if (strcmp(key, "said_twice") != 0 && strcmp(key, "kind") != 0 &&
                 strcmp(key, "path") != 0)
            print_value(key, v);
    }
    print_twice(json_object_get(out, "said_twice"));
}

/* Lines "SHA-256  NAME" of a file made by sha256sum, names below dir. */
static enum fr_rc check_sums(const char *dir, const char *sums, struct fr_err *err)
{
    struct fr_buf text = {0};
    enum fr_rc rc = fr_file_read(sums, SUMS_MAX_BYTES, &text, err);
    int lines = 0;

    for (char *p = text.p, *next; rc == FR_OK && p != NULL && *p != '\0'; p = next, lines++) {
        char path[PATH_MAX], got[FR_SHA256_TEXT];
        next = strchr(p, '\n');
        next = next != NULL ? next + 1 : p + strlen(p);
        int n = (int)(next - p) - (next > p && next[-1] == '\n');
        if (n < 67 || p[64] != ' ' || memchr(p + 66, '/', (size_t)n - 66) != NULL)
            rc = fr_fail(err, FR_USAGE, "%s: line %d is not 'SHA-256  NAME'", sums, lines + 1);
        else if (snprintf(path, sizeof(path), "%s/%.*s", dir, n - 66, p + 66) >= PATH_MAX)
            rc = fr_fail(err, FR_USAGE, "%s: line %d: name too long", sums, lines + 1);
        else if ((rc = fr_sha256_file(path, got, err)) == FR_OK && memcmp(got, p, 64) != 0)
            rc = fr_fail(err, FR_CORRUPT, "%s has checksum %s, expected %.64s", path, got, p);
    }
    if (rc == FR_OK && lines == 0)
        rc = fr_fail(err, FR_USAGE, "%s names no file", sums);
    fr_buf_finish(&text);
    return rc;
}

struct inspect {
    const char *base, *sums;
    bool verify, json;
};

static enum fr_rc inspect(struct tr_call *call, struct fr_err *err)
{
    const struct inspect *in = call->options;
    const char *path = call->plain[0];
    json_t *out = json_object();
    bool adapter = path != NULL && has_file(path, "adapter_config.json");
    enum fr_rc rc;

    if (path == NULL)
        rc = fr_fail(err, FR_USAGE, "a folder or a config.json is needed");
    else if (out == NULL ||
             json_object_set_new(out, "kind", json_string(adapter ? "adapter" : "model")) ||
             json_object_set_new(out, "path", json_string(path)))
        rc = fr_fail(err, FR_NOMEM, "no memory for what is found");
    else if (adapter)
        rc = tr_inspect_adapter(path, in->base, in->verify, out, err);
    else
        rc = tr_inspect_model(path, in->verify, out, err);
    if (rc == FR_OK && in->sums != NULL)
        rc = check_sums(path, in->sums, err);
    if (rc == FR_OK && in->json)
        rc = fr_json_print(out, JSON_REAL_PRECISION(8), err);
    else if (rc == FR_OK)
        print_lines(out);
    json_decref(out);
    return rc;
}

#define AT(member) offsetof(struct inspect, member)

static const struct tr_flag flags[] = {
    TR_FLAG("verify", TR_SWITCH, AT(verify),
            "check names, shapes, and that all numbers are finite"),
    TR_FLAG("model", TR_TEXT, AT(base),
            "the adapter's base model, where its own word does not lead to it"),
    TR_FLAG("checksums", TR_TEXT, AT(sums), "a file as sha256sum writes it, to check against"),
    TR_FLAG("json", TR_SWITCH, AT(json), "one JSON line"),
    TR_FLAG_HELP,
};

const struct tr_command tr_cmd_inspect = {
    .name = "inspect",
    .summary = "show what a model or an adapter holds, and check it",
    .usage = "flowtrain inspect PATH: what a model folder, a config.json or an adapter folder "
             "holds\n\n",
    TR_FLAGS(flags, struct inspect),
    .most_words = 1,
    .run = inspect,
};
