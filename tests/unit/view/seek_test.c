/* What is sought in a log: a line that is read in pieces has each hit that it would have as a
 * whole, wherever the pieces end. */
#include "engine/view/view.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "tests/unit/check.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 256 << 10, LINE = 2 * PIECE + 5000 };

static char dir[] = "/tmp/seek_test.XXXXXX", path[64];
static struct fr_err err;

static json_t *seek(const char *what, bool pattern)
{
    struct host_text text = {.args = {path, what, pattern ? "1" : NULL}, .numbers = {1}};
    struct view v = {.text = &text};

    CHECK_INT(view_hits(&v, &err), FR_OK);
    return v.doc;
}

static void write_log(const char *p, size_t n)
{
    int fd = fr_sys.open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

    CHECK(fd >= 0 && fr_write_full(fd, p, n));
    fr_sys.close(fd);
}

static int64_t number(const json_t *hit, const char *name)
{
    return json_integer_value(json_object_get(hit, name));
}

/* A line of dots that has `text` at `at`, and a second line that has it, too. */
struct place {
    const char *name, *sought;
    bool pattern;
    const char *text;
    int hit; /* where in text it begins; -1: there is none */
};

static void check_place(const struct place *p, size_t at)
{
    static char log[LINE + 2000];
    size_t n = strlen(p->text);
    char row[100];
    json_t *doc, *items, *hit;
    size_t want = p->hit >= 0;

    (void)snprintf(row, sizeof(row), "%s at %zu", p->name, at);
    check_row(row);
    memset(log, '.', LINE);
    memcpy(log + at, p->text, n);
    (void)snprintf(log + LINE, 2000, "\n..%s..\n", p->text);
    write_log(log, strlen(log));
    doc = seek(p->sought, p->pattern);
    items = json_object_get(doc, "items");
    CHECK_INT(json_array_size(items), 2 * want);
    for (size_t i = 0; i < json_array_size(items) && i < 2; i++) {
        hit = json_array_get(items, i);
        CHECK_INT(number(hit, "line"), i + 1);
        CHECK_INT(number(hit, "offset"), (i == 0 ? at : LINE + 3) + (size_t)p->hit);
        CHECK(strstr(json_string_value(json_object_get(hit, "text")), "..") != NULL);
    }
    json_decref(doc);
}

#define X50 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"

static void places(void)
{
    static const struct place rows[] = {
        {"a text", "needle", false, "needle", 0},
        {"a letter", "n", false, "hay n hay", 4},
        {"twice", "needle", false, "needle needle", 0},
        {"its beginning before it", "nnb", false, "nnnb", 1},
        {"most of it", "needles", false, "needle", -1},
        {"a pattern", "n[e]+dle", true, "needle", 0},
        {"one that takes all it can", "n.{0,9}e", true, "neddle", 0},
        {"at a word's end", "need\\b", true, "needle", -1},
        {"at a word's begin", "\\bedle", true, "needle", -1},
        {"a word", "\\bneedle\\b", true, "needle", 0},
        {"what stands before it", "(?<=hay )needle", true, "hay needle", 4},
        {"what does not", "(?<!hay )needle", true, "hay needle", -1},
        {"what comes behind it", "hay(?= needle)", true, "hay needle", 0},
        {"what does not come", "hay(?! needle)", true, "hay needle", -1},
        {"at a line's begin", "^needle", true, "needle", -1},
        {"at a text's begin", "\\Aneedle", true, "needle", -1},
        {"at a line's end", "needle$", true, "needle", -1},
        {"at a text's end", "needle\\z", true, "needle", -1},
    };

    /* more before it than is shown */
    static const struct place far_before = {"what stands far before it", "(?<=x{150})needle", true,
                                            X50 X50 X50 "needle", 150};

    check_place(&far_before, PIECE - 140);
    check_place(&far_before, PIECE + 10);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t n = strlen(rows[i].text);

        for (size_t end = PIECE; end <= 2 * PIECE; end += PIECE)
            for (size_t at = end - n - 2; at <= end + 2; at++)
                check_place(&rows[i], at);
        check_place(&rows[i], PIECE - 100); /* where the second piece begins */
        check_place(&rows[i], 7);
    }
}

/* Where the line itself begins and ends, beside the end of a piece. */
static void ends(void)
{
    static char log[2 * PIECE + 20];

    for (size_t n = PIECE - 8; n <= PIECE + 8; n++) {
        char row[40];
        json_t *doc;

        (void)snprintf(row, sizeof(row), "a line of %zu bytes", n);
        check_row(row);
        memset(log, '.', n);
        memcpy(log + n - 6, "needle", 6);
        memcpy(log, "needle", 6);
        write_log(log, n); /* without a newline, too */
        for (int i = 0; i < 2; i++) {
            doc = seek("needle$", true);
            CHECK_INT(json_array_size(json_object_get(doc, "items")), 1);
            CHECK_INT(number(json_array_get(json_object_get(doc, "items"), 0), "offset"), n - 6);
            json_decref(doc);
            doc = seek("^needle", true);
            CHECK_INT(json_array_size(json_object_get(doc, "items")), 1);
            json_decref(doc);
            log[n] = '\n';
            write_log(log, n + 1);
        }
    }
}

/* A match that goes on in the next piece is found where it begins in the last 64 KiB of its own. */
static void far(void)
{
    static const struct {
        size_t before;
        const char *sought;
        size_t hits;
    } rows[] = {
        {60000, "hay[^n]*needle", 1},
        {60000, "hay.*?needle", 1},
        {70000, "hay[^n]*needle", 0},
    };
    static char log[LINE + 1];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t at = PIECE - rows[i].before;
        json_t *doc, *items;

        check_row(rows[i].sought);
        memset(log, '.', LINE);
        memcpy(log + at, "hay", 3);
        memcpy(log + PIECE + 20000, "needle", 6);
        write_log(log, LINE);
        doc = seek(rows[i].sought, true);
        items = json_object_get(doc, "items");
        if (CHECK_INT(json_array_size(items), rows[i].hits) && rows[i].hits > 0)
            CHECK_INT(number(json_array_get(items, 0), "offset"), at);
        json_decref(doc);
    }
}

int main(void)
{
    CHECK(mkdtemp(dir) != NULL);
    (void)snprintf(path, sizeof(path), "%s/log", dir);
    places();
    ends();
    far();
    CHECK(fr_remove_tree(dir, &err) == FR_OK);
    return check_done();
}
