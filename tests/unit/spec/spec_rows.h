/* Tables of small pipelines: what a text gives, or the mistakes that are told of it. */
#ifndef TESTS_UNIT_SPEC_ROWS_H
#define TESTS_UNIT_SPEC_ROWS_H

#include "tests/unit/spec/spec_load.h"

#include "engine/plan/plan.h"

struct spec_row {
    const char *name, *text, *want; /* want: what put() writes; or the mistakes, with line ends */
};

static inline void check_spec_rows(const struct spec_row *rows, size_t n,
                                   void (*put)(const struct fr_spec *spec, struct fr_buf *out))
{
    for (size_t i = 0; i < n; i++) {
        struct fr_issues issues = {0};
        struct fr_buf got = {0};
        struct fr_spec *spec;

        check_row(rows[i].name);
        if (load(rows[i].text, NULL, 0, &spec, &issues) == FR_OK)
            put(spec, &got);
        for (size_t k = 0; k < issues.n; k++)
            fr_buf_fmt(&got, "%s%s", k > 0 ? "\n" : "", issues.lines[k]);
        CHECK_TEXT(got.p != NULL ? got.p : "", rows[i].want);
        fr_buf_finish(&got);
        fr_issues_finish(&issues);
        fr_spec_destroy(spec);
    }
    check_row("");
}

/* The keys of all instances, with blanks between them; or why there is no plan. */
static inline void put_keys(const struct fr_spec *spec, struct fr_buf *out)
{
    struct fr_arena arena = {0};
    struct fr_plan *plan;
    struct fr_err err;

    if (fr_plan_make(spec, &arena, &plan, &err) != FR_OK)
        fr_buf_text(out, err.msg);
    else
        for (uint32_t i = 0; i < plan->n_insts; i++) {
            fr_buf_fmt(out, "%s%s", i > 0 ? " " : "", plan->insts[i].key);
            CHECK_INT(fr_plan_inst(plan, plan->insts[i].key), i);
        }
    fr_arena_finish(&arena);
}

#endif
