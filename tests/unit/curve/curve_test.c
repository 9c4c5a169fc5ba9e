/* Curves: lines, parts, what a resume replaces, buckets that do not move, what is drawn, the cache.
 */
#include "engine/base/sys.h"
#include "engine/curve/cache.h"
#include "engine/wire/message.h"
#include "tests/unit/check.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- lines ---- */

#define A16 "aaaaaaaaaaaaaaaa"
#define A64 A16 A16 A16 A16

static const struct {
    const char *name, *line;
    enum fr_curve_line kind;
    const char *want; /* "STEP key=value …" */
} lines[] = {
    {"a row", "{\"step\":3,\"loss\":1.5}", FR_CURVE_ROW, "3 loss=1.5"},
    {"of flowtrain", "{\"current_steps\":3,\"total_steps\":9,\"elapsed_time\":\"1:02:03\"}",
     FR_CURVE_ROW, "3 total_steps=9 elapsed_time=3723"},
    {"days", "{\"step\":1,\"elapsed_time\":\"2 days, 0:00:01\"}", FR_CURVE_ROW,
     "1 elapsed_time=172801"},
    {"one day", "{\"step\":1,\"elapsed_time\":\"1 day, 1:00:00\"}", FR_CURVE_ROW,
     "1 elapsed_time=90000"},
    {"a clock with more behind it", "{\"step\":1,\"elapsed_time\":\"1:02:03.5\"}", FR_CURVE_ROW,
     "1"},
    {"days that are none", "{\"step\":1,\"elapsed_time\":\"soon, 1:02:03\"}", FR_CURVE_ROW, "1"},
    {"a clock elsewhere", "{\"step\":1,\"other\":\"1:02:03\"}", FR_CURVE_ROW, "1"},
    {"not a clock", "{\"step\":1,\"elapsed_time\":\"soon\"}", FR_CURVE_ROW, "1"},
    {"step comes first", "{\"current_steps\":1,\"step\":2}", FR_CURVE_ROW, "2 current_steps=1"},
    {"no numbers", "{\"step\":1,\"a\":\"b\",\"c\":[1],\"d\":{},\"e\":true}", FR_CURVE_ROW, "1"},
    {"null", "{\"step\":1,\"loss\":null}", FR_CURVE_ROW, "1 loss=nan"},
    {"NaN", "{\"step\":1,\"loss\":NaN,\"b\":-Infinity,\"c\":Infinity}", FR_CURVE_ROW,
     "1 loss=nan b=nan c=nan"},
    {"NaN with a sign", "{\"step\":1,\"loss\":-NaN}", FR_CURVE_ROW, "1 loss=nan"},
    {"names of 64 bytes and of 65", "{\"step\":1,\"" A64 "\":2,\"b" A64 "\":3}", FR_CURVE_ROW,
     "1 " A64 "=2"},
    {"NaN in a text", "{\"step\":1,\"NaN\\\"NaN\":2,\"loss\":NaN}", FR_CURVE_ROW,
     "1 NaN\"NaN=2 loss=nan"},
    {"a large whole number", "{\"step\":1,\"n\":99999999999999999999}", FR_CURVE_ROW, "1 n=1e+20"},
    {"NaN behind a text that ends with a backslash", "{\"step\":1,\"a\":\"NaN\\\\\",\"b\":NaN}",
     FR_CURVE_ROW, "1 b=nan"},
    {"no step", "{\"loss\":1}", FR_CURVE_BAD, ""},
    {"a step that is no number", "{\"step\":\"1\",\"loss\":1}", FR_CURVE_BAD, ""},
    {"half a row", "{\"step\":1,", FR_CURVE_BAD, ""},
    {"no object", "[1]", FR_CURVE_BAD, ""},
    {"text", "hello", FR_CURVE_BAD, ""},
    {"a part", "{\"flowrun\":\"part\"}", FR_CURVE_PART, ""},
    {"half a mark", "{\"flowrun\":\"par\"}", FR_CURVE_BAD, ""},
    {"no more", "{\"flowrun\":\"full\"}", FR_CURVE_FULL, ""},
};

static void test_lines(void)
{
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        struct fr_curve_row row;
        struct fr_buf got = {0};

        check_row(lines[i].name);
        fr_curve_row_read(fr_str_of(lines[i].line), &row);
        CHECK_INT(row.kind, lines[i].kind);
        if (row.kind == FR_CURVE_ROW)
            fr_buf_fmt(&got, "%g", row.step);
        for (size_t k = 0; k < row.n; k++)
            fr_buf_fmt(&got, isnan(row.items[k].value) ? " %s=nan" : " %s=%g", row.items[k].name,
                       row.items[k].value);
        CHECK_TEXT(got.p != NULL ? got.p : "", lines[i].want);
        fr_buf_finish(&got);
        fr_curve_row_finish(&row);
    }
    check_row("");
}

/* ---- files ---- */

static void feed(struct fr_curve *c, const char *text, size_t piece)
{
    for (size_t at = 0, n = strlen(text); at < n; at += piece)
        CHECK(fr_curve_feed(c, text + at, n - at < piece ? n - at : piece, NULL) == FR_OK);
}

/* "part | part": of each row "STEP" and of each key "key:row=value". */
static void show(const struct fr_curve *c, struct fr_buf *out)
{
    for (size_t p = 0; p < c->n_parts; p++) {
        const struct fr_curve_part *part = c->parts[p];

        fr_buf_text(out, p > 0 ? " |" : "");
        for (size_t i = 0; i < part->n; i++)
            fr_buf_fmt(out, " %g", part->step[i]);
        for (size_t k = 0; k < c->n_names; k++)
            for (size_t i = 0; i < part->cols[k].n; i++)
                fr_buf_fmt(out, isnan(part->cols[k].value[i]) ? " %s:%u=nan" : " %s:%u=%g",
                           c->names[k], part->cols[k].row[i], part->cols[k].value[i]);
        fr_buf_text(out, part->full ? " full" : "");
    }
}

static const struct {
    const char *name, *text, *want;
} files[] = {
    {"nothing", "", ""},
    {"rows", "{\"step\":1,\"a\":1}\n{\"step\":2,\"b\":2}\n{\"step\":3,\"a\":3}\n",
     " 1 2 3 a:0=1 a:2=3 b:1=2"},
    {"a row without its end waits", "{\"step\":1}\n{\"step\":2}", " 1"},
    {"equal steps are one part", "{\"step\":1,\"a\":1}\n{\"step\":1,\"b\":2}\n",
     " 1 1 a:0=1 b:1=2"},
    {"a step back is a part", "{\"step\":5}\n{\"step\":4}\n", " 5 | 4"},
    {"so is the node's mark", "{\"step\":1}\n" FR_METRICS_PART "{\"step\":2}\n", " 1 | 2"},
    {"a mark is of one part", "{\"step\":1}\n" FR_METRICS_PART "{\"step\":2}\n{\"step\":3}\n",
     " 1 | 2 3"},
    {"two marks", "{\"step\":1}\n" FR_METRICS_PART FR_METRICS_PART "{\"step\":2}\n", " 1 | 2"},
    {"a mark before any row", FR_METRICS_PART "{\"step\":1}\n{\"step\":2}\n", " 1 2"},
    {"the limit", "{\"step\":1}\n" FR_METRICS_FULL, " 1 full"},
    {"the limit of a later part", "{\"step\":5}\n{\"step\":4}\n" FR_METRICS_FULL, " 5 | 4 full"},
    {"the limit before any row", FR_METRICS_FULL "{\"step\":1}\n", " 1"},
    {"null before a number is nothing",
     "{\"step\":1,\"a\":null}\n{\"step\":2,\"a\":1}\n"
     "{\"step\":3,\"a\":null}\n",
     " 1 2 3 a:1=1 a:2=nan"},
    {"lines that are no rows", "x\n\n{\"step\":1}\n{}\n", " 1"},
};

static void test_files(void)
{
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        for (size_t piece = 1; piece < 40; piece += 6) {
            struct fr_curve c = {0};
            struct fr_buf got = {0};

            check_row(files[i].name);
            feed(&c, files[i].text, piece);
            show(&c, &got);
            CHECK_TEXT(got.p != NULL ? got.p : "", files[i].want);
            CHECK_INT(c.taken, strlen(files[i].text));
            fr_buf_finish(&got);
            fr_curve_finish(&c);
        }
    check_row("");
}

static void test_limits(void)
{
    struct fr_curve c = {0};
    struct fr_buf text = {0};

    check_row("keys beyond the limits");
    for (int i = 0; i < 100; i++)
        fr_buf_fmt(&text, "{\"step\":%d,\"k%d\":1}\n", i, i);
    fr_buf_fmt(&text, "{\"step\":100,\"%070d\":1}\n", 0);
    CHECK(fr_curve_feed(&c, text.p, text.n, NULL) == FR_OK);
    CHECK_INT(c.n_names, FR_CURVE_KEYS);
    CHECK_INT(c.left_out, 100 - FR_CURVE_KEYS + 1);
    CHECK_INT(c.parts[0]->n, 101);
    fr_curve_finish(&c);

    check_row("parts beyond the limit");
    fr_buf_cut(&text, text.n);
    for (int i = 0; i < FR_CURVE_PARTS + 7; i++)
        fr_buf_fmt(&text, "{\"step\":%d}\n", 10000 - i);
    CHECK(fr_curve_feed(&c, text.p, text.n, NULL) == FR_OK);
    CHECK_INT(c.n_parts, FR_CURVE_PARTS);
    CHECK_INT(c.left_out, 7);
    fr_curve_finish(&c);

    check_row("rows beyond the limit of a part");
    fr_buf_cut(&text, text.n);
    for (int i = 0; i < FR_METRICS_ROWS + 2; i++)
        fr_buf_text(&text, "{\"step\":1}\n");
    CHECK(fr_curve_feed(&c, text.p, text.n, NULL) == FR_OK);
    CHECK_INT(c.parts[0]->n, FR_METRICS_ROWS);
    CHECK_INT(c.left_out, 2);
    fr_curve_finish(&c);

    check_row("keys of a row beyond the limit");
    fr_buf_cut(&text, text.n);
    fr_buf_text(&text, "{\"step\":1");
    for (int i = 0; i < FR_CURVE_KEYS + 3; i++)
        fr_buf_fmt(&text, ",\"k%d\":1", i);
    fr_buf_text(&text, "}\n{}\n");
    CHECK(fr_curve_feed(&c, text.p, text.n, NULL) == FR_OK);
    CHECK(c.left_out == 3 && c.bad == 1);
    fr_curve_finish(&c);

    check_row("a line as long as may be, and longer ones in pieces");
    fr_buf_cut(&text, text.n);
    for (int more = 0; more < 2; more++)
        fr_buf_fmt(&text, "{\"step\":%d}%*s\n", more, FR_CURVE_LINE - 10 + more, "");
    fr_buf_fmt(&text, "{\"step\":2}%*s\n{\"step\":3}\n", 3 * FR_CURVE_LINE, "");
    for (size_t piece = 30000; piece < 400000; piece *= 3) {
        fr_buf_add(&text, "", 1);
        feed(&c, text.p, piece);
        text.n--;
        CHECK(c.bad == 2 && c.parts[0]->n == 2 && c.parts[0]->step[1] == 3);
        fr_curve_finish(&c);
    }
    fr_buf_finish(&text);
    check_row("");
}

/* ---- what is drawn ---- */

static void points_of(const struct fr_curve_points *p, struct fr_buf *out)
{
    for (size_t i = 0; i < p->n; i++)
        fr_buf_fmt(out, isnan(p->v[i].y) ? "%s%g:nan" : "%s%g:%g", i > 0 ? " " : "", p->v[i].x,
                   p->v[i].y);
}

static void check_drawn(const struct fr_curve_span *s, const struct fr_curve_ask *ask,
                        const char *want)
{
    struct fr_curve_points points = {0};
    struct fr_buf got = {0};

    fr_curve_reduce(s, ask, &points);
    points_of(&points, &got);
    CHECK_TEXT(got.p != NULL ? got.p : "", want);
    fr_buf_finish(&got);
    fr_sys.free(points.v);
}

static void test_drawn(void)
{
    struct fr_curve c = {0};
    struct fr_curve_span s = {.curve = &c, .until = INFINITY};
    struct fr_curve_ask ask = {.key = "a", .from = -INFINITY, .to = INFINITY, .bucket = 4};

    feed(&c,
         "{\"step\":0,\"a\":5}\n{\"step\":1,\"a\":9}\n{\"step\":2,\"a\":1}\n{\"step\":3,\"a\":4}\n"
         "{\"step\":4,\"a\":7}\n{\"step\":5,\"a\":null}\n{\"step\":6,\"a\":7}\n"
         "{\"step\":7,\"a\":null,\"tokens\":9,\"total_tokens\":70,\"time\":1,\"elapsed_time\":\"0:"
         "00:07\"}\n"
         "{\"step\":8,\"a\":2,\"tokens\":9,\"total_tokens\":80,\"time\":1,\"elapsed_time\":\"0:00:"
         "08\"}\n",
         1000);
    s.part = c.parts[0];
    check_row("first, largest, smallest, last of each bucket");
    check_drawn(&s, &ask, "0:5 1:9 2:1 3:4 4:7 5:nan 6:7 8:2");
    check_row("a window");
    ask.from = 1;
    ask.to = 2;
    check_drawn(&s, &ask, "1:9 2:1");
    ask.from = -INFINITY;
    ask.to = INFINITY;
    check_row("replaced rows by themselves");
    s.until = 4;
    check_drawn(&s, &ask, "0:5 1:9 2:1 3:4");
    ask.lost = true;
    check_drawn(&s, &ask, "4:7 5:nan 6:7 8:2");
    check_row("another axis: all tokens, not those of a step");
    ask.x = FR_CURVE_TOKENS;
    check_drawn(&s, &ask, "70:nan 80:2");
    check_row("an axis, up to its ends");
    ask.from = ask.to = 80;
    check_drawn(&s, &ask, "80:2");
    ask.from = 80.5;
    check_drawn(&s, &ask, "");
    ask.from = -INFINITY;
    ask.to = INFINITY;
    check_row("the clock of the whole run, not that of a step");
    ask.x = FR_CURVE_TIME;
    check_drawn(&s, &ask, "7:nan 8:2");
    check_row("no such key, no such axis");
    ask.key = "b";
    check_drawn(&s, &ask, "");
    ask.key = "a";
    ask.x = FR_CURVE_EPOCH;
    check_drawn(&s, &ask, "");
    fr_curve_finish(&c);
    check_row("");
}

/* Of equal values the first; what is not finite once a bucket; an axis that steps back stays in its
 * bucket. */
static void test_equal(void)
{
    struct fr_curve c = {0};
    struct fr_curve_span s = {.curve = &c, .until = INFINITY};
    struct fr_curve_ask ask = {.key = "a", .from = -INFINITY, .to = INFINITY, .bucket = 8};
    double from = INFINITY, to = -INFINITY;

    feed(&c,
         "{\"step\":0,\"a\":5,\"time\":1}\n{\"step\":1,\"a\":9,\"time\":9}\n"
         "{\"step\":2,\"a\":9,\"time\":7}\n{\"step\":3,\"a\":null,\"time\":15}\n"
         "{\"step\":4,\"a\":2}\n{\"step\":5,\"a\":null,\"time\":15}\n"
         "{\"step\":6,\"a\":2,\"time\":null}\n{\"step\":7,\"a\":2,\"time\":12}\n",
         1000);
    s.part = c.parts[0];
    check_row("equal values");
    check_drawn(&s, &ask, "0:5 1:9 3:nan 4:2 7:2");
    check_row("on a clock");
    CHECK(fr_curve_x_parse("time", &ask.x) && ask.x == FR_CURVE_TIME);
    check_drawn(&s, &ask, "1:5 9:9 15:nan 12:2");
    fr_curve_extent(&s, ask.x, &from, &to);
    CHECK(from == 1 && to == 15);
    check_row("words of axes");
    CHECK(fr_curve_x_parse("epoch", &ask.x) && ask.x == FR_CURVE_EPOCH);
    CHECK(fr_curve_x_parse("tokens", &ask.x) && ask.x == FR_CURVE_TOKENS);
    CHECK(fr_curve_x_parse("step", &ask.x) && ask.x == FR_CURVE_STEP);
    CHECK(!fr_curve_x_parse("day", &ask.x));
    check_row("no extent on an axis that is not there");
    fr_curve_extent(&s, FR_CURVE_EPOCH, &from, &to);
    CHECK(from == 1 && to == 15);
    fr_curve_finish(&c);
}

static void test_replace(void)
{
    struct fr_curve c = {0};
    struct fr_curve_span s[3];

    check_row("a later part replaces from its first step on");
    feed(&c, "{\"step\":1}\n{\"step\":9}\n{\"step\":5}\n{\"step\":8}\n{\"step\":7}\n", 1000);
    for (size_t i = 0; i < 3; i++)
        s[i] = (struct fr_curve_span){&c, c.parts[i], 0};
    fr_curve_replace(s, 3);
    CHECK(s[0].until == 5 && s[1].until == 7 && isinf(s[2].until));
    fr_curve_finish(&c);
    check_row("one that went further back replaces those before it, too");
    feed(&c, "{\"step\":1}\n{\"step\":9}\n{\"step\":8}\n{\"step\":4}\n", 1000);
    for (size_t i = 0; i < 3; i++)
        s[i] = (struct fr_curve_span){&c, c.parts[i], 0};
    fr_curve_replace(s, 3);
    CHECK(s[0].until == 4 && s[1].until == 4 && isinf(s[2].until));
    fr_curve_finish(&c);
    check_row("");
}

/* 50 spikes of one step in noise, 100,000 rows: each is drawn, in at most 2 * width points; and
 * with more rows the same buckets show the same. */
static void test_spikes(void)
{
    enum { ROWS = 100000, WIDTH = 1000 };
    struct fr_curve c = {0};
    struct fr_curve_span s = {.curve = &c, .until = INFINITY};
    struct fr_curve_ask ask = {.key = "a"};
    struct fr_curve_points points = {0}, more = {0};
    struct fr_buf text = {0};
    unsigned noise = 1;
    size_t kept = 0;

    check_row("spikes");
    for (int i = 0; i < ROWS + ROWS / 100; i++) {
        noise = noise * 1103515245u + 12345u;
        fr_buf_fmt(&text, "{\"step\":%d,\"a\":%g}\n", i,
                   (noise >> 16) % 1000 / 6667.0 + (i % 2000 == 777 ? 1 : 0));
        if (i + 1 == ROWS) {
            CHECK(fr_curve_feed(&c, text.p, text.n, NULL) == FR_OK);
            fr_buf_cut(&text, text.n);
            s.part = c.parts[0];
            fr_curve_extent(&s, FR_CURVE_STEP, &(double){0}, &ask.to);
            ask.bucket = fr_curve_bucket(0, ROWS - 1, WIDTH);
            ask.to = INFINITY;
            fr_curve_reduce(&s, &ask, &points);
        }
    }
    CHECK(points.n <= 2 * WIDTH && points.n > WIDTH / 2);
    for (size_t i = 0; i < points.n; i++)
        kept += points.v[i].y >= 1;
    CHECK_INT(kept, 50);
    CHECK(fr_curve_feed(&c, text.p, text.n, NULL) == FR_OK);
    CHECK(fr_curve_bucket(0, ROWS + ROWS / 100 - 1, WIDTH) == ask.bucket);
    fr_curve_reduce(&s, &ask, &more);
    CHECK(more.n > points.n && memcmp(more.v, points.v, (points.n - 4) * sizeof(*points.v)) == 0);
    fr_sys.free(points.v);
    fr_sys.free(more.v);
    fr_buf_finish(&text);
    fr_curve_finish(&c);
    check_row("");
}

static void test_bucket(void)
{
    for (double range = 0.001; range < 1e9; range *= 3)
        for (size_t width = 10; width < 4000; width *= 7) {
            double size = fr_curve_bucket(range, 2 * range, width), power = log2(size);

            CHECK(power == floor(power));
            CHECK((floor(2 * range / size) - floor(range / size) + 1) * 5 <= 2 * (double)width);
            CHECK((range / size + 2) * 5 * 2 >= 2 * (double)width / 2);
        }
    CHECK(fr_curve_bucket(5, 5, 100) == 1);
    CHECK(fr_curve_bucket(0, 3, 5) == 2 && fr_curve_bucket(0, 3, 4) == 8);
}

/* ---- head ---- */

static void test_head(void)
{
    struct fr_curve c = {0};
    struct fr_buf text = {0};

    check_row("speed and time left are medians");
    for (int i = 1; i <= 60; i++)
        fr_buf_fmt(&text,
                   "{\"step\":%d,\"total_steps\":100,\"loss\":2,\"throughput\":%d,"
                   "\"time\":%d}\n",
                   i, i == 60 ? 9000 : 100, 2 * i + (i == 60 ? 500 : 0));
    feed(&c, text.p, 999);
    CHECK(c.head.step == 60 && c.head.rate == 9000 && fr_curve_head_rate(&c.head) == 100);
    CHECK(fr_curve_head_eta_s(&c.head) == 80);
    CHECK(fabs(c.head.smooth - 2) < 1e-12 && isnan(c.head.bad_since));
    check_row("a clock of whole seconds");
    struct fr_curve fast = {0};
    for (int i = 1; i <= 40; i++) {
        char line[80];

        snprintf(line, sizeof(line), "{\"step\":%d,\"total_steps\":80,\"time\":%d}\n", i, i / 10);
        feed(&fast, line, 99);
    }
    CHECK(fabs(fr_curve_head_eta_s(&fast.head) - 40 * 4 / 39.0) < 1e-9);
    fr_curve_finish(&fast);
    check_row("a loss that is not finite");
    feed(&c, "{\"step\":61,\"loss\":null}\n{\"step\":62,\"loss\":null}\n", 999);
    CHECK(c.head.bad_since == 61 && c.head.loss == 2);
    feed(&c, "{\"step\":63,\"loss\":3}\n", 999);
    CHECK(isnan(c.head.bad_since) && c.head.loss == 3);
    CHECK(fabs(c.head.smooth - (2 * 0.6 + 3 * 0.4)) < 1e-9);
    check_row("the last evaluation");
    CHECK(isnan(c.head.eval_loss) && isnan(c.head.eval_accuracy));
    feed(&c, "{\"step\":63,\"eval_loss\":2.5,\"eval_accuracy\":0.25}\n{\"step\":64,\"loss\":3}\n",
         999);
    CHECK(c.head.eval_loss == 2.5 && c.head.eval_accuracy == 0.25);
    feed(&c, "{\"step\":64,\"eval_loss\":2.25}\n", 999);
    CHECK(c.head.eval_loss == 2.25 && isnan(c.head.eval_accuracy));
    check_row("a resume counts anew");
    feed(&c, "{\"step\":49,\"loss\":3}\n", 999);
    CHECK(isnan(c.head.elapsed_s));
    feed(&c, "{\"step\":50,\"loss\":3,\"time\":1}\n", 999);
    CHECK(isnan(fr_curve_head_eta_s(&c.head)) && isnan(fr_curve_head_rate(&c.head)));
    feed(&c, "{\"step\":51,\"time\":3,\"throughput\":50}\n", 999);
    CHECK(fr_curve_head_eta_s(&c.head) == 49 * 2 && fr_curve_head_rate(&c.head) == 50);
    check_row("of an even number of values the median is the mean of two");
    feed(&c, "{\"step\":52,\"time\":7,\"throughput\":20}\n", 999);
    CHECK(fr_curve_head_eta_s(&c.head) == 48 * 3 && fr_curve_head_rate(&c.head) == 35);
    check_row("a checkpoint that was there before the first row");
    struct fr_curve saved = {0};
    feed(&saved, "{\"step\":41,\"time\":7,\"checkpoint\":40}\n", 999);
    CHECK(saved.head.checkpoint == 40 && isnan(saved.head.checkpoint_s));
    check_row("the newest one, and when it was told first");
    feed(&saved, "{\"step\":51,\"time\":17,\"checkpoint\":50}\n", 999);
    feed(&saved, "{\"step\":52,\"time\":27,\"checkpoint\":50}\n{\"step\":53,\"time\":37}\n", 999);
    CHECK(saved.head.checkpoint == 50 && saved.head.checkpoint_s == 17 &&
          saved.head.elapsed_s == 37);
    fr_curve_finish(&saved);
    fr_buf_finish(&text);
    fr_curve_finish(&c);
    check_row("");
}

static void test_names(void)
{
    struct fr_curve other = {0};

    check_row("other names, and what no row says");
    feed(&other, "{\"step\":1,\"loss\":null}\n", 999);
    CHECK(isnan(other.head.bad_since) && isnan(other.head.loss) && isnan(other.head.total));
    CHECK(isnan(fr_curve_head_eta_s(&other.head)) && isnan(other.head.epoch));
    feed(&other,
         "{\"step\":2,\"max_steps\":4,\"tokens_per_second\":7,\"epoch\":0.5,\"time\":1}\n"
         "{\"step\":2,\"time\":9}\n{\"step\":3,\"elapsed_time\":\"0:00:12\",\"time\":99}\n",
         999);
    CHECK(other.head.total == 4 && other.head.rate == 7 && other.head.epoch == 0.5);
    CHECK(other.head.elapsed_s == 12 && fr_curve_head_eta_s(&other.head) == 3);
    feed(&other, "{\"step\":4,\"time\":5}\n", 999); /* a clock that goes back */
    CHECK(fr_curve_head_eta_s(&other.head) == 0 && other.head.n_seconds == 1);
    feed(&other, "{\"step\":5}\n", 999);
    CHECK(isnan(fr_curve_head_eta_s(&other.head)) && other.head.elapsed_s == 5);
    fr_curve_finish(&other);
}

/* ---- cache ---- */

static void write_file(const char *path, int flags, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | flags, 0600);

    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

/* Of the cache, with the curve of that file alone. */
static size_t one_bytes(const char *path)
{
    struct fr_curves *cache = fr_curves_create(SIZE_MAX);
    const struct fr_curve *c = NULL;
    size_t n = 0;

    CHECK(fr_curves_get(cache, (struct fr_id){{9}}, path, &c, NULL) == FR_OK);
    n = fr_curves_trim(cache);
    CHECK(n > c->bytes && c->bytes > sizeof(struct fr_curve_part) + 16 * sizeof(double));
    fr_curves_destroy(cache);
    return n;
}

static long failing; /* so many calls for memory succeed; then one fails */

static void *alloc_but_one(size_t n)
{
    return failing-- == 0 ? NULL : fr_sys_real.alloc(n);
}

static void *realloc_but_one(void *p, size_t n)
{
    return failing-- == 0 ? NULL : fr_sys_real.realloc(p, n);
}

/* A curve that was read when memory was short is read anew, whichever call it was that failed. */
static void test_short_memory(const char *path)
{
    bool more = true;

    for (long n = 0; more; n++) {
        struct fr_curves *cache = fr_curves_create(SIZE_MAX);
        const struct fr_curve *c = NULL;
        char row[40];

        snprintf(row, sizeof(row), "no memory at call %ld", n);
        check_row(row);
        failing = n;
        fr_sys.alloc = alloc_but_one;
        fr_sys.realloc = realloc_but_one;
        more = fr_curves_get(cache, (struct fr_id){{1}}, path, &c, NULL) != FR_OK;
        fr_sys = fr_sys_real;
        CHECK((c == NULL) == more && (more || n > 5));
        if (CHECK(fr_curves_get(cache, (struct fr_id){{1}}, path, &c, NULL) == FR_OK))
            CHECK(c->n_parts == 1 && c->parts[0]->n == 1 && fr_curve_key(c, "a") == 0);
        fr_curves_destroy(cache);
    }
}

static void test_cache(void)
{
    static const struct fr_id a = {{1}}, b = {{2}};
    struct fr_curves *cache = fr_curves_create(20000);
    const struct fr_curve *c = NULL, *other = NULL;
    struct fr_err err;
    char path[64], moved[80];

    snprintf(path, sizeof(path), "/tmp/curve-test-%d", (int)getpid());
    snprintf(moved, sizeof(moved), "%s.moved", path);
    check_row("no file");
    CHECK(fr_curves_get(cache, a, path, &c, &err) == FR_OK && c->n_parts == 0);
    check_row("a file that grows");
    write_file(path, O_TRUNC, "{\"step\":1}\n{\"st");
    CHECK(fr_curves_get(cache, a, path, &c, &err) == FR_OK && c->parts[0]->n == 1);
    write_file(path, O_APPEND, "ep\":2}\n");
    CHECK(fr_curves_get(cache, a, path, &c, &err) == FR_OK && c->parts[0]->n == 2);
    CHECK_INT(c->taken, 22);
    check_row("written anew");
    write_file(path, O_TRUNC, "{\"step\":7}\n");
    CHECK(fr_curves_get(cache, a, path, &c, &err) == FR_OK && c->parts[0]->step[0] == 7);
    check_row("the newest stays");
    CHECK(fr_curves_get(cache, b, path, &other, &err) == FR_OK && other->parts[0]->n == 1);
    CHECK(c->parts[0]->n == 1); /* until it is trimmed */
    CHECK(fr_curves_trim(cache) <= 20000 && fr_curves_trim(cache) > 0);
    check_row("when it was written");
    CHECK(utimensat(AT_FDCWD, path, (struct timespec[]){{1, 0}, {7, 5000000}}, 0) == 0);
    CHECK(fr_curves_get(cache, a, path, &c, &err) == FR_OK && c->wall_ms == 7005);
    check_row("what was asked for the longest goes first");
    struct fr_curves *small = fr_curves_create(1);
    CHECK(fr_curves_get(small, a, path, &c, &err) == FR_OK && fr_curves_trim(small) == 0);
    fr_curves_destroy(small);
    small = fr_curves_create(one_bytes(path));
    CHECK(fr_curves_get(small, a, path, &c, &err) == FR_OK);
    CHECK(fr_curves_get(small, b, "/no/such", &other, &err) == FR_OK);
    CHECK(fr_curves_get(small, a, path, &c, &err) == FR_OK);
    CHECK_INT(fr_curves_trim(small), one_bytes(path));
    fr_curves_destroy(small);
    write_file(path, O_TRUNC, "{\"step\":7,\"a\":1}\n");
    test_short_memory(path);
    check_row("a file that went");
    CHECK(rename(path, moved) == 0 && symlink(moved, path) == 0);
    CHECK(fr_curves_get(cache, a, path, &c, &err) != FR_OK && c == NULL);
    CHECK(unlink(path) == 0 && fr_curves_get(cache, b, path, &c, &err) == FR_OK);
    CHECK(c->n_parts == 0 && c->wall_ms == 0);
    unlink(moved);
    check_row("a folder in its place");
    CHECK(fr_curves_get(cache, a, "/tmp", &c, &err) != FR_OK && c == NULL);
    fr_curves_destroy(cache);
    unlink(path);
    check_row("");
}

int main(void)
{
    test_lines();
    test_files();
    test_limits();
    test_drawn();
    test_equal();
    test_replace();
    test_spikes();
    test_bucket();
    test_head();
    test_names();
    test_cache();
    return check_done();
}
