/*
 * flowtrain tokenize: a JSON string a line in, a JSON array of token ids a line out.
 */
#include "trainer/cli/cli.h"

#include "engine/base/json.h"
#include "engine/base/log.h"
#include "trainer/tokenizer/tokenizer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum fr_rc one_line(struct tr_encoder *e, struct fr_str line, const char *name,
                           struct tr_ids *ids, struct fr_err *err)
{
    json_t *v = NULL;
    enum fr_rc rc = fr_json_parse(line, name, &v, err);

    ids->n = 0;
    if (rc == FR_NOMEM)
        return rc;
    if (!json_is_string(v))
        rc = fr_fail(err, FR_USAGE, "%s: expected a JSON string, as \"text in quotes\"", name);
    else
        rc = tr_encode(e, (struct fr_str){json_string_value(v), json_string_length(v)}, ids, err);
    json_decref(v);
    return rc;
}

static enum fr_rc put_ids(const struct tr_ids *ids, struct fr_buf *out, struct fr_err *err)
{
    out->n = 0;
    fr_buf_text(out, "[");
    for (size_t i = 0; i < ids->n; i++)
        fr_buf_fmt(out, "%s%d", i > 0 ? ", " : "", ids->v[i]);
    fr_buf_text(out, "]\n");
    if (out->bad)
        return fr_fail(err, FR_NOMEM, "no memory for %zu ids", ids->n);
    if (fwrite(out->p, 1, out->n, stdout) != out->n)
        return fr_fail_errno(err, errno, "cannot write the ids");
    return FR_OK;
}

static enum fr_rc all_lines(struct tr_encoder *e, FILE *in, struct fr_err *err)
{
    struct tr_ids ids = {0};
    struct fr_buf out = {0};
    char *line = NULL, name[32];
    size_t cap = 0;
    enum fr_rc rc = FR_OK;
    ssize_t n;

    for (int64_t i = 1; rc == FR_OK && (n = getline(&line, &cap, in)) >= 0; i++) {
        (void)snprintf(name, sizeof(name), "line %lld", (long long)i);
        rc = one_line(e, (struct fr_str){line, (size_t)n}, name, &ids, err);
        if (rc == FR_OK)
            rc = put_ids(&ids, &out, err);
    }
    if (rc == FR_OK && (ferror(in) || fflush(stdout) != 0))
        rc = fr_fail_errno(err, errno, "cannot read or write");
    free(line);
    fr_buf_finish(&out);
    tr_ids_finish(&ids);
    return rc;
}

struct tokenize {
    const char *tokenizer;
};

static enum fr_rc tokenize(struct tr_call *call, struct fr_err *err)
{
    const struct tokenize *o = call->options;
    const char *input = call->plain[0];
    struct tr_tokenizer *t = NULL;
    struct tr_encoder *e = NULL;
    struct fr_buf notes = {0};
    FILE *in = stdin;
    enum fr_rc rc;

    if (input != NULL && (in = fopen(input, "r")) == NULL)
        return fr_fail_errno(err, errno, "cannot open %s", input);
    rc = tr_tokenizer_load(o->tokenizer, &t, err);
    if (rc == FR_OK)
        tr_tokenizer_notes(t, &notes);
    if (notes.n > 0)
        fr_complain("%s", notes.p);
    fr_buf_finish(&notes);
    if (rc == FR_OK)
        rc = tr_encoder_create(t, &e, err);
    if (rc == FR_OK)
        rc = all_lines(e, in, err);
    tr_encoder_destroy(e);
    tr_tokenizer_destroy(t);
    if (in != stdin)
        (void)fclose(in);
    return rc;
}

static const struct tr_flag flags[] = {
    TR_FLAG("tokenizer", TR_TEXT, offsetof(struct tokenize, tokenizer), NULL),
    TR_FLAG("help", TR_SWITCH, TR_FLAG_NOWHERE, NULL),
};

const struct tr_command tr_cmd_tokenize = {
    .name = "tokenize",
    .summary = "turn JSON strings into token ids",
    .usage = "flowtrain tokenize --tokenizer FILE [INPUT]: a JSON string a line in, a JSON "
             "array of ids a line out\n",
    TR_FLAGS(flags, struct tokenize),
    .needs = "tokenizer",
    .most_words = 1,
    .run = tokenize,
};
