/* Parts of a run that need no node: rows that are joined by idx. */
#include "engine/run/inside.h"
#include "tests/unit/check.h"

enum { INSTS = 5000, OUTPUTS = 4 };

/* Each even idx has a row, each idx is asked for OUTPUTS times: one pass over the rows serves all,
 * whatever is asked for. */
static void test_cursor(void)
{
    static struct fr_inst_row rows[INSTS];
    struct run_cursor c = {.insts = {rows, INSTS}};
    size_t right = 0, calls = 0;

    for (size_t i = 0; i < INSTS; i++)
        rows[i].idx = (int64_t)(2 * i);
    for (int64_t idx = -1; idx < 2 * INSTS + 10; idx++)
        for (int k = 0; k < OUTPUTS; k++, calls++) {
            const struct fr_inst_row *got = run_cursor_to(&c, idx);
            bool there = idx >= 0 && idx % 2 == 0 && idx < 2 * INSTS;

            right += there ? got == &rows[idx / 2] : got == NULL;
        }
    CHECK_INT(right, calls);
    CHECK_INT(c.steps, INSTS);

    c = (struct run_cursor){0};
    CHECK(run_cursor_to(&c, 0) == NULL);
}

int main(void)
{
    test_cursor();
    return check_done();
}
