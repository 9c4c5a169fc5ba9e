#include "trainer/tokenizer/tok.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

static const char *type_of(const json_t *v)
{
    const char *type = json_string_value(json_object_get(v, "type"));

    return type != NULL ? type : "";
}

/* The text of a member in the arena. */
static bool keep_text(struct tr_tokenizer *t, const json_t *v, struct fr_str *out)
{
    *out = (struct fr_str){json_string_value(v), json_string_length(v)};
    if (out->p != NULL)
        out->p = fr_arena_text(&t->arena, out->p, out->n);
    return out->p != NULL;
}

static enum fr_rc read_form(struct tr_tokenizer *t, const json_t *v, struct fr_err *err)
{
    static const char *const names[] = {"NFC", "NFD", "NFKC", "NFKD", "Prepend", "Replace"};
    struct tr_tok_form f = {TR_TOK_NFC, {"", 0}, {"", 0}};
    const json_t *pattern = json_object_get(json_object_get(v, "pattern"), "String");
    int i = 0;

    while (i < 6 && strcmp(type_of(v), names[i]) != 0)
        i++;
    f.kind = (enum tr_tok_form_kind)i;
    if (i == 6)
        return fr_fail(err, FR_UNSUPPORTED,
                       "normalizer '%s': only NFC, NFD, NFKC, NFKD, Prepend and Replace are done",
                       type_of(v));
    if (t->nforms == TR_TOK_FORMS)
        return fr_fail(err, FR_UNSUPPORTED, "too many normalizers");
    if (f.kind == TR_TOK_PREPEND && !keep_text(t, json_object_get(v, "prepend"), &f.to))
        return fr_fail(err, FR_USAGE, "normalizer Prepend: expected a text, prepend");
    if (f.kind == TR_TOK_REPLACE && (!keep_text(t, pattern, &f.from) || f.from.n == 0 ||
                                     !keep_text(t, json_object_get(v, "content"), &f.to)))
        return fr_fail(err, FR_UNSUPPORTED,
                       "normalizer Replace: only a pattern String with a content is done");
    t->forms[t->nforms++] = f;
    return FR_OK;
}

enum fr_rc tr_tok_read_normalizer(struct tr_tokenizer *t, const json_t *v, struct fr_err *err)
{
    const json_t *list = json_object_get(v, "normalizers");
    enum fr_rc rc = FR_OK;

    if (v == NULL || json_is_null(v))
        return FR_OK;
    if (strcmp(type_of(v), "Sequence") != 0)
        return read_form(t, v, err);
    for (size_t i = 0; rc == FR_OK && i < json_array_size(list); i++)
        rc = read_form(t, json_array_get(list, i), err);
    return rc;
}

/* What is White_Space in Unicode's PropList.txt, and what is not, as it stands in a class: before
 * 10.40 PCRE2 does not know the property. */
#define SPACES                                                                                     \
    "\\x09-\\x0d\\x20\\x85\\xa0\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}"   \
    "\\x{3000}"
#define NO_SPACES                                                                                  \
    "\\x00-\\x08\\x0e-\\x1f\\x21-\\x84\\x86-\\x9f\\xa1-\\x{167f}\\x{1681}-\\x{1fff}"               \
    "\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}"                 \
    "\\x{3001}-\\x{10ffff}"

/* The pattern for PCRE2: \s and \S are White_Space, the meaning that they have in the reference's
 * engine (PCRE2's own \s also takes U+180E). Syntax in which the two engines differ is refused. */
static enum fr_rc translate(const char *pattern, struct fr_buf *out, struct fr_err *err)
{
    bool in_class = false;

    for (const char *p = pattern; *p != '\0'; p++) {
        if (p[0] == '\\' && p[1] != '\0') {
            p++;
            if (*p == 's' || *p == 'S')
                fr_buf_fmt(out, in_class ? "%s" : "[%s]", *p == 's' ? SPACES : NO_SPACES);
            else if (strchr("hHRXGKAZzb", *p) != NULL)
                return fr_fail(err, FR_UNSUPPORTED, "pattern '%s': \\%c is not done", pattern, *p);
            else
                fr_buf_add(out, p - 1, 2);
            continue;
        }
        if (in_class ? *p == '[' : *p == '^' || *p == '$')
            return fr_fail(err, FR_UNSUPPORTED, "pattern '%s': '%c' there is not done", pattern,
                           *p);
        fr_buf_add(out, p, 1);
        if (*p == '[') {
            in_class = true;
            if (p[1] == '^')
                fr_buf_add(out, ++p, 1);
        } else if (*p == ']')
            in_class = false;
    }
    if (strstr(pattern, "(?m") != NULL || strstr(pattern, "&&") != NULL)
        return fr_fail(err, FR_UNSUPPORTED, "pattern '%s' uses Ruby syntax", pattern);
    return out->bad ? fr_fail(err, FR_NOMEM, "no memory for a pattern") : FR_OK;
}

static enum fr_rc add_regex(struct tr_tokenizer *t, enum tr_tok_step_kind kind, const char *pattern,
                            struct fr_err *err)
{
    struct fr_buf text = {0};
    PCRE2_UCHAR why[128] = "";
    PCRE2_SIZE at = 0;
    int code = 0;
    enum fr_rc rc = translate(pattern, &text, err);

    if (rc == FR_OK && t->nsteps == TR_TOK_STEPS)
        rc = fr_fail(err, FR_UNSUPPORTED, "too many pre-tokenizers");
    if (rc == FR_OK) {
        pcre2_code *re =
            pcre2_compile((PCRE2_SPTR)text.p, text.n, PCRE2_UTF | PCRE2_UCP, &code, &at, NULL);
        if (re == NULL) {
            (void)pcre2_get_error_message(code, why, sizeof(why));
            rc = fr_fail(err, FR_USAGE, "pattern '%s': %s", pattern, (const char *)why);
        } else {
            (void)pcre2_jit_compile(re, PCRE2_JIT_COMPLETE); /* if it fails: slower matches */
            t->steps[t->nsteps++] =
                (struct tr_tok_step){.kind = kind, .re = re, .scan = tr_tok_scan_of(pattern)};
        }
    }
    fr_buf_finish(&text);
    return rc;
}

/* A literal as a pattern. */
static enum fr_rc add_literal(struct tr_tokenizer *t, enum tr_tok_step_kind kind, const char *text,
                              struct fr_err *err)
{
    struct fr_buf b = {0};
    enum fr_rc rc;

    for (const char *p = text; *p != '\0'; p++)
        fr_buf_fmt(&b, strchr("\\^$.|?*+()[]{}", *p) != NULL ? "\\%c" : "%c", *p);
    rc = b.bad || b.n == 0 ? fr_fail(err, FR_USAGE, "an empty Split pattern")
                           : add_regex(t, kind, b.p, err);
    fr_buf_finish(&b);
    return rc;
}

static enum fr_rc read_split(struct tr_tokenizer *t, const json_t *v, struct fr_err *err)
{
    const json_t *pattern = json_object_get(v, "pattern");
    const char *regex = json_string_value(json_object_get(pattern, "Regex"));
    const char *text = json_string_value(json_object_get(pattern, "String"));
    const char *behavior = json_string_value(json_object_get(v, "behavior"));
    enum tr_tok_step_kind kind = TR_TOK_SPLIT;

    if (behavior != NULL && strcmp(behavior, "Removed") == 0)
        kind = TR_TOK_REMOVE;
    else if (behavior == NULL || strcmp(behavior, "Isolated") != 0)
        return fr_fail(err, FR_UNSUPPORTED,
                       "Split behavior '%s': only Isolated and Removed "
                       "are done",
                       behavior != NULL ? behavior : "");
    if (json_is_true(json_object_get(v, "invert")))
        return fr_fail(err, FR_UNSUPPORTED, "Split with invert is not done");
    if (regex != NULL)
        return add_regex(t, kind, regex, err);
    if (text != NULL)
        return add_literal(t, kind, text, err);
    return fr_fail(err, FR_USAGE, "a Split without a pattern");
}

static enum fr_rc read_scheme(const json_t *v, enum tr_tok_scheme *out, struct fr_err *err)
{
    static const char *const names[] = {"always", "first", "never"};
    const char *scheme = json_string_value(json_object_get(v, "prepend_scheme"));
    int i = 0;

    scheme = scheme != NULL ? scheme : "always";
    if (json_is_false(json_object_get(v, "add_prefix_space")))
        scheme = "never";
    while (i < 3 && strcmp(scheme, names[i]) != 0)
        i++;
    if (i == 3)
        return fr_fail(err, FR_USAGE,
                       "Metaspace: prepend_scheme '%s', expected always, first or "
                       "never",
                       scheme);
    *out = (enum tr_tok_scheme)i;
    return FR_OK;
}

static enum fr_rc read_metaspace(struct tr_tokenizer *t, const json_t *v, struct fr_err *err)
{
    struct tr_tok_step s = {.kind = TR_TOK_METASPACE,
                            .split = !json_is_false(json_object_get(v, "split"))};
    enum fr_rc rc = read_scheme(v, &s.scheme, err);

    if (rc == FR_OK && t->nsteps > 0)
        rc = fr_fail(err, FR_UNSUPPORTED, "Metaspace behind another pre-tokenizer");
    if (rc == FR_OK && (!keep_text(t, json_object_get(v, "replacement"), &s.mark) || s.mark.n == 0))
        rc = fr_fail(err, FR_USAGE, "Metaspace: expected a text, replacement");
    if (rc == FR_OK)
        t->steps[t->nsteps++] = s;
    return rc;
}

static enum fr_rc read_step(struct tr_tokenizer *t, const json_t *v, bool *bytes,
                            struct fr_err *err)
{
    const char *type = type_of(v);

    if (*bytes)
        return fr_fail(err, FR_UNSUPPORTED, "pre-tokenizer '%s' behind ByteLevel", type);
    if (strcmp(type, "Split") == 0)
        return read_split(t, v, err);
    if (strcmp(type, "Digits") == 0)
        return add_regex(
            t, TR_TOK_SPLIT,
            json_is_true(json_object_get(v, "individual_digits")) ? "\\p{N}" : "\\p{N}+", err);
    if (strcmp(type, "Metaspace") == 0 && t->chars)
        return read_metaspace(t, v, err);
    if (strcmp(type, "ByteLevel") != 0)
        return fr_fail(err, FR_UNSUPPORTED,
                       "pre-tokenizer '%s': only Split, Digits and ByteLevel, or Metaspace without "
                       "it, are done",
                       type);
    *bytes = true;
    if (!json_is_false(json_object_get(v, "add_prefix_space"))) {
        if (t->nsteps == TR_TOK_STEPS)
            return fr_fail(err, FR_UNSUPPORTED, "too many pre-tokenizers");
        t->steps[t->nsteps++] = (struct tr_tok_step){.kind = TR_TOK_PREFIX};
    }
    if (!json_is_false(json_object_get(v, "use_regex")))
        return add_regex(t, TR_TOK_SPLIT, TR_TOK_GPT2, err);
    return FR_OK;
}

bool tr_tok_is_chars(const json_t *v)
{
    const json_t *list = json_object_get(v, "pretokenizers");
    bool bytes = strcmp(type_of(v), "ByteLevel") == 0;

    for (size_t i = 0; i < json_array_size(list); i++)
        bytes = bytes || strcmp(type_of(json_array_get(list, i)), "ByteLevel") == 0;
    return !bytes;
}

enum fr_rc tr_tok_read_steps(struct tr_tokenizer *t, const json_t *v, struct fr_err *err)
{
    const json_t *list = json_object_get(v, "pretokenizers");
    bool bytes = false;
    enum fr_rc rc = FR_OK;

    if (v == NULL || json_is_null(v))
        return FR_OK;
    if (strcmp(type_of(v), "Sequence") != 0)
        return read_step(t, v, &bytes, err);
    for (size_t i = 0; rc == FR_OK && i < json_array_size(list); i++)
        rc = read_step(t, json_array_get(list, i), &bytes, err);
    return rc;
}

static enum fr_rc unicode_form(enum tr_tok_form_kind form, struct fr_str text, struct fr_buf *out,
                               struct fr_err *err)
{
    static const utf8proc_option_t options[] = {
        [TR_TOK_NFC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE,
        [TR_TOK_NFD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE,
        [TR_TOK_NFKC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
        [TR_TOK_NFKD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT,
    };
    utf8proc_uint8_t *got = NULL;
    utf8proc_ssize_t n = utf8proc_map((const utf8proc_uint8_t *)text.p, (utf8proc_ssize_t)text.n,
                                      &got, options[form]);

    if (n < 0)
        return fr_fail(err, FR_NOMEM, "normalizing text: %s", utf8proc_errmsg(n));
    fr_buf_add(out, got, (size_t)n);
    free(got);
    return out->bad ? fr_fail(err, FR_NOMEM, "no memory to normalize text") : FR_OK;
}

static bool is_ascii(struct fr_str text)
{
    for (size_t i = 0; i < text.n; i++)
        if ((uint8_t)text.p[i] >= 0x80)
            return false;
    return true;
}

static void replace(struct fr_str text, const struct tr_tok_form *f, struct fr_buf *out)
{
    const char *end = text.p + text.n, *p = text.p, *q;

    while ((q = memmem(p, (size_t)(end - p), f->from.p, f->from.n)) != NULL) {
        fr_buf_add(out, p, (size_t)(q - p));
        fr_buf_add(out, f->to.p, f->to.n);
        p = q + f->from.n;
    }
    fr_buf_add(out, p, (size_t)(end - p));
}

static enum fr_rc apply_form(const struct tr_tok_form *f, struct fr_str text, struct fr_buf *out,
                             struct fr_err *err)
{
    if (f->kind == TR_TOK_REPLACE) {
        replace(text, f, out);
    } else if (f->kind == TR_TOK_PREPEND) {
        fr_buf_add(out, f->to.p, text.n > 0 ? f->to.n : 0);
        fr_buf_add(out, text.p, text.n);
    } else if (is_ascii(text)) { /* every normal form of itself */
        fr_buf_add(out, text.p, text.n);
    } else {
        return unicode_form(f->kind, text, out, err);
    }
    return out->bad ? fr_fail(err, FR_NOMEM, "no memory to normalize text") : FR_OK;
}

enum fr_rc tr_tok_normalize(const struct tr_tokenizer *t, struct fr_str text, struct fr_buf *out,
                            struct fr_err *err)
{
    struct fr_buf half = {0};
    enum fr_rc rc = FR_OK;

    if (t->nforms == 0)
        fr_buf_add(out, text.p, text.n);
    for (int i = 0; rc == FR_OK && i < t->nforms; i++) {
        struct fr_buf next = {0};
        struct fr_str from = i == 0 ? text : (struct fr_str){half.p != NULL ? half.p : "", half.n};

        rc = apply_form(&t->forms[i], from, i + 1 < t->nforms ? &next : out, err);
        fr_buf_finish(&half);
        half = next;
    }
    fr_buf_finish(&half);
    return rc == FR_OK && out->bad ? fr_fail(err, FR_NOMEM, "no memory to normalize text") : rc;
}
