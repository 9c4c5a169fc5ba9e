/* Curves as text: what is drawn where. */
#include "engine/show/plot.h"
#include "tests/unit/check.h"

#include <math.h>
#include <string.h>

static const struct {
    const char *name;
    double y[8];
    size_t n;
    unsigned columns, rows;
    const char *want;
} rows[] = {
    {"no point", {0}, 0, 12, 2, "            |            "},
    {"one point", {5}, 1, 12, 2, "       5  * |       5    "},
    {"falls", {4, 3, 2, 1}, 4, 11, 2, "       4 * |       1  *"},
    {"rises", {1, 2, 3, 4}, 4, 11, 2, "       4  *|       1 * "},
    {"a spike is joined", {1, 1, 9, 1, 1}, 5, 14, 2, "       9   ** |       1 ** **"},
    {"what is not finite is left out", {1, NAN, INFINITY, 1}, 4, 11, 2, "       1 **|       1   "},
    {"large and small", {123456, 1e-7}, 2, 10, 2, "  123456 *|   1e-07 *"},
    {"too long for its columns", {-1.2345e-100, 1}, 2, 10, 2, "       1 *| -1e-100 *"},
};

static void test_rows(void)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fr_curve_point points[8];
        struct cli_plot plot = {points, rows[i].n, rows[i].columns, rows[i].rows, false};
        struct fr_buf got = {0};

        check_row(rows[i].name);
        for (size_t k = 0; k < rows[i].n; k++)
            points[k] = (struct fr_curve_point){(double)k, rows[i].y[k], (double)k};
        for (unsigned row = 0; row < rows[i].rows; row++) {
            fr_buf_text(&got, row > 0 ? "|" : "");
            cli_plot_row(&plot, row, &got);
        }
        CHECK_TEXT(got.p, rows[i].want);
        fr_buf_finish(&got);
    }
    check_row("");
}

/* A line from the lowest left dot to the highest right one of 2 by 2 cells. */
static void test_dots(void)
{
    struct fr_curve_point points[] = {{0, 0, 0}, {1, 1, 0}};
    struct cli_plot plot = {points, 2, PLOT_LABEL + 2, 2, true};
    struct fr_buf got = {0};

    cli_plot_row(&plot, 0, &got);
    fr_buf_text(&got, "|");
    cli_plot_row(&plot, 1, &got);
    CHECK_TEXT(got.p, "       1  \u285c|       0 \u285c ");
    fr_buf_finish(&got);
}

int main(void)
{
    test_rows();
    test_dots();
    return check_done();
}
