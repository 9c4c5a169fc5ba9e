/* Answers that are kept: the newest few, each for its view and tag alone. */
#include "engine/view/response_cache.h"

#include "engine/store/store.h"
#include "tests/unit/check.h"

#include <stdlib.h>
#include <string.h>

static struct host_response_cache cache;

static void put(int view, const char *tag, const char *text)
{
    struct fr_buf json = {0};

    fr_buf_text(&json, text);
    response_cache_put(&cache, view, tag, &json);
    fr_buf_finish(&json);
}

/* want NULL: it is not kept. */
static void check_kept(int view, const char *tag, const char *want)
{
    struct fr_buf got = {0};

    CHECK_INT(response_cache_get(&cache, view, tag, &got), want != NULL);
    CHECK_TEXT(got.p != NULL ? got.p : "", want != NULL ? want : "");
    fr_buf_finish(&got);
}

static void test_newest(void)
{
    char tags[RESPONSES + 1][RESPONSE_TAG];

    check_row("none");
    check_kept(0, "", NULL);
    check_row("of its view and tag");
    put(1, "\"a\"", "one");
    put(2, "\"a\"", "two");
    put(1, "\"b\"", "three");
    check_kept(1, "\"a\"", "one");
    check_kept(2, "\"a\"", "two");
    check_kept(1, "\"b\"", "three");
    check_kept(2, "\"b\"", NULL);
    response_cache_finish(&cache);

    cache = (struct host_response_cache){0};
    for (size_t i = 0; i <= RESPONSES; i++) {
        check_row("as many as are kept");
        (void)snprintf(tags[i], sizeof(tags[i]), "\"%zu\"", i);
        for (size_t k = 0; k < i; k++)
            check_kept(3, tags[k], tags[k]);
        put(3, tags[i], tags[i]);
    }
    check_row("and one more: the oldest is gone");
    check_kept(3, tags[0], NULL);
    for (size_t k = 1; k <= RESPONSES; k++)
        check_kept(3, tags[k], tags[k]);
    response_cache_finish(&cache);
    cache = (struct host_response_cache){0};
}

static void test_large(void)
{
    static char text[RESPONSE_MOST + 2];

    check_row("as large as may be, and larger");
    memset(text, 'x', RESPONSE_MOST + 1);
    put(1, "\"large\"", text);
    check_kept(1, "\"large\"", NULL);
    text[RESPONSE_MOST] = '\0';
    put(1, "\"large\"", text);
    check_kept(1, "\"large\"", text);
    response_cache_finish(&cache);
}

/* Each of the texts that an answer follows from gives it another tag. */
static void test_tags(void)
{
    static const struct fr_run_row row = {
        .spec_hash = "s", .inventory_hash = "i", .params = "p", .source = "/f", .folder = "/"};
    char tag[RESPONSE_TAG], other[RESPONSE_TAG];
    struct fr_run_row rows[] = {row, row, row, row, row, row};

    response_cache_tag(&row, tag);
    CHECK_INT(strlen(tag), 18);
    CHECK(tag[0] == '"' && tag[17] == '"');
    rows[0].spec_hash = "x";
    rows[1].inventory_hash = "x";
    rows[2].params = "x";
    rows[3].source = "x";
    rows[4].folder = "x";
    rows[5].spec_hash = "s\ni"; /* the same, one behind another */
    rows[5].inventory_hash = "";
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        check_row("another tag");
        response_cache_tag(&rows[i], other);
        CHECK(strcmp(tag, other) != 0);
    }
    check_row("the same run later");
    rows[0] = row;
    rows[0].state = FR_RUN_OVER;
    rows[0].ended_wall = 7;
    response_cache_tag(&rows[0], other);
    CHECK_TEXT(other, tag);
}

int main(void)
{
    test_newest();
    test_large();
    test_tags();
    return check_done();
}
