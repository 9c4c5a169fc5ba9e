/* What a folder says twice: the report. */
#include "tests/unit/check.h"
#include "trainer/tensor/twice.h"

static void test_report(void)
{
    struct tr_twice t = {.n = 0};
    struct tr_twice_row row = {.what = "theta", .from = "config.json: a", .over = "config.json: b"};
    struct fr_buf lines = {0};
    json_t *one = json_integer(1), *two = json_real(2.5), *none = json_null(), *list;

    check_row("report");
    tr_twice_add(NULL, &row);
    tr_twice_add_json(&t, row, one, one);
    tr_twice_add_json(&t, row, none, one);
    tr_twice_add_json(&t, row, one, NULL);
    CHECK_INT((long)t.n, 0);
    tr_twice_add_json(&t, row, one, two);
    tr_twice_add(&t, &(struct tr_twice_row){
                         .what = "weights", .from = "model.safetensors", .over = "the index"});
    tr_twice_notes(&t, &lines);
    CHECK_TEXT(lines.p, "said twice, theta: config.json: a 1 is taken, config.json: b 2.5 is "
                        "passed over\n"
                        "said twice, weights: model.safetensors is taken, the index is passed "
                        "over\n");
    list = tr_twice_list(&t);
    CHECK_INT((long)json_array_size(list), 2);
    CHECK_TEXT(json_string_value(json_object_get(json_array_get(list, 0), "other")), "2.5");
    CHECK(json_is_null(json_object_get(json_array_get(list, 1), "value")));
    json_decref(list);
    json_decref(one);
    json_decref(two);
    json_decref(none);
    fr_buf_finish(&lines);
    tr_twice_finish(&t);
}

int main(void)
{
    test_report();
    return check_done();
}
