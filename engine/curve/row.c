#include "engine/curve/curve.h"

#include "engine/wire/message.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Length of the word at p that is no JSON; 0: there is none. */
static size_t bad_word(const char *p, size_t n)
{
    static const char *const words[] = {"NaN", "-NaN", "Infinity", "-Infinity"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (n >= strlen(words[i]) && memcmp(p, words[i], strlen(words[i])) == 0)
            return strlen(words[i]);
    return 0;
}

/* The line with null in place of these words. Texts stay as they are. */
static void mend(struct fr_str line, struct fr_buf *out)
{
    bool text = false;

    for (size_t i = 0; i < line.n;) {
        size_t word = text ? 0 : bad_word(line.p + i, line.n - i);
        size_t n = word > 0 ? word : text && line.p[i] == '\\' && i + 1 < line.n ? 2 : 1;

        text = text != (line.p[i] == '"');
        if (word > 0)
            fr_buf_text(out, "null");
        else
            fr_buf_add(out, line.p + i, n);
        i += n;
    }
}

/* "1:02:03", "2 days, 1:02:03" */
static bool clock_seconds(const char *text, double *out)
{
    int days = 0, hours, minutes, seconds, end = 0;
    const char *clock = strstr(text, ", ");

    if (clock != NULL && sscanf(text, "%d day", &days) != 1)
        return false;
    clock = clock != NULL ? clock + 2 : text;
    if (sscanf(clock, "%d:%d:%d%n", &hours, &minutes, &seconds, &end) != 3 || clock[end] != '\0')
        return false;
    *out = ((days * 24.0 + hours) * 60 + minutes) * 60 + seconds;
    return true;
}

static bool number_of(const char *name, const json_t *v, double *out)
{
    if (json_is_number(v)) {
        *out = json_number_value(v);
        return true;
    }
    if (json_is_null(v)) {
        *out = NAN;
        return true;
    }
    return json_is_string(v) && strcmp(name, "elapsed_time") == 0 &&
           clock_seconds(json_string_value(v), out);
}

static void take_items(struct fr_curve_row *row, const char *step)
{
    const char *name;
    json_t *v;

    json_object_foreach(row->doc, name, v)
    {
        double value;

        if (strcmp(name, step) == 0 || !number_of(name, v, &value))
            continue;
        if (row->n == FR_CURVE_KEYS || strlen(name) > FR_CURVE_KEY_MAX)
            row->left_out++;
        else
            row->items[row->n++] = (struct fr_curve_item){name, value};
    }
}

static bool is_mark(struct fr_str line, const char *mark)
{
    return line.n + 1 == strlen(mark) && memcmp(line.p, mark, line.n) == 0;
}

static json_t *parse(struct fr_str line)
{
    struct fr_buf copy = {0};
    json_t *doc = json_loadb(line.p, line.n, JSON_DECODE_INT_AS_REAL, NULL);

    if (doc != NULL)
        return doc;
    mend(line, &copy);
    if (!copy.bad && copy.n > 0)
        doc = json_loadb(copy.p, copy.n, JSON_DECODE_INT_AS_REAL, NULL);
    fr_buf_finish(&copy);
    return doc;
}

void fr_curve_row_read(struct fr_str line, struct fr_curve_row *row)
{
    static const char *const steps[] = {"step", "current_steps"};

    row->kind = FR_CURVE_BAD;
    row->n = row->left_out = 0;
    row->doc = NULL;
    if (is_mark(line, FR_METRICS_PART) || is_mark(line, FR_METRICS_FULL)) {
        row->kind = is_mark(line, FR_METRICS_PART) ? FR_CURVE_PART : FR_CURVE_FULL;
        return;
    }
    row->doc = line.n <= FR_CURVE_LINE ? parse(line) : NULL;
    for (size_t i = 0; i < 2 && row->kind == FR_CURVE_BAD; i++) {
        const json_t *v = json_object_get(row->doc, steps[i]);

        if (!json_is_number(v))
            continue;
        row->kind = FR_CURVE_ROW;
        row->step = json_number_value(v);
        take_items(row, steps[i]);
    }
}

void fr_curve_row_finish(struct fr_curve_row *row)
{
    json_decref(row->doc);
    row->doc = NULL;
}

double fr_curve_row_get(const struct fr_curve_row *row, const char *name, bool *there)
{
    *there = true;
    for (size_t i = 0; i < row->n; i++)
        if (strcmp(row->items[i].name, name) == 0)
            return row->items[i].value;
    *there = false;
    return NAN;
}

void fr_curve_lines(struct fr_buf *rest, const char *p, size_t n, fr_curve_line_fn *fn, void *arg)
{
    while (n > 0) {
        const char *nl = memchr(p, '\n', n);
        size_t k = nl != NULL ? (size_t)(nl - p) + 1 : n;

        if (nl != NULL && rest->n == 0) {
            fn(arg, (struct fr_str){p, k - 1});
        } else {
            if (rest->n <= FR_CURVE_LINE) /* of a longer line nothing is used */
                fr_buf_add(rest, p, nl != NULL ? k - 1 : k);
            if (nl != NULL && !rest->bad)
                fn(arg, (struct fr_str){rest->n > 0 ? rest->p : "", rest->n});
            if (nl != NULL)
                fr_buf_cut(rest, rest->n);
        }
        p += k;
        n -= k;
    }
}
