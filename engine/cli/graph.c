#include "engine/cli/cli.h"
#include "engine/cli/cluster.h"
#include "engine/cli/fires.h"

#include "engine/base/log.h"
#include "engine/plan/layout.h"

#include <limits.h>
#include <string.h>

static enum fr_rc load(struct cli_call *c, struct fr_spec **spec, struct fr_plan **plan,
                       struct fr_err *err)
{
    struct fr_spec_opts so;
    enum fr_rc rc = cli_pipeline(c, c->args.v[0], &so, err);

    so.scheduled = true;
    if (rc == FR_OK)
        rc = fr_spec_load(&so, spec, &c->issues, err);
    if (rc == FR_OK)
        rc = fr_plan_make(*spec, &c->arena, plan, err);
    return rc;
}

/* The allocations that a run of it may ask for. */
static void print_allocations(const struct fr_slurm_spec *slurm)
{
    for (size_t i = 0; slurm != NULL && i < slurm->n_allocations; i++) {
        const struct fr_allocation_spec *a = &slurm->allocations[i];
        char time[24];

        fr_show_duration(a->time_ms, time);
        cli_print_size(a);
        fr_print(" for %s, %s1", time, a->name);
        if (fr_allocation_places(a) > 1)
            fr_print(" to %s%d", a->name, fr_allocation_places(a));
        fr_print("\n");
    }
}

enum fr_rc cli_validate(struct cli_call *c, struct fr_err *err)
{
    struct fr_run_shell shell = cli_shell("/");
    struct fr_spec *spec = NULL;
    struct fr_plan *plan;
    char file[4 * PATH_MAX];
    enum fr_rc rc = load(c, &spec, &plan, err);

    if (rc == FR_OK)
        rc = fr_run_check(plan, &shell, NULL, &c->issues, err);
    if (rc == FR_OK) {
        fr_visible(file, sizeof(file), c->args.v[0], strlen(c->args.v[0]));
        for (size_t i = 0; i < spec->n_notes; i++)
            fr_print("%s\n", spec->notes[i]);
        fr_print("%s: %zu task%s on %zu node%s, nothing wrong\n", file, spec->n_tasks,
                 fr_plural(spec->n_tasks), spec->n_nodes, fr_plural(spec->n_nodes));
        print_allocations(spec->slurm);
        rc = cli_print_schedules(spec, &c->spec.zones, err);
    }
    fr_spec_destroy(spec);
    return rc;
}

/* ---- graph ---- */

static enum fr_rc draw_svg(struct cli_call *c, const struct fr_plan *plan,
                           const struct fr_plan_draw *how, struct fr_buf *out, struct fr_err *err)
{
    struct fr_layout *layout;
    enum fr_rc rc = fr_plan_layout(plan, &(struct fr_layout_opts){.hooks = how->hooks}, &c->arena,
                                   &layout, err);

    if (rc == FR_OK)
        fr_plan_draw_svg(plan, layout, how, out);
    return rc;
}

enum fr_rc cli_graph(struct cli_call *c, struct fr_err *err)
{
    struct fr_plan_draw how = {.nodes = cli_has(c, "--show-nodes"), .hooks = true};
    struct fr_spec *spec = NULL;
    struct fr_plan *plan;
    struct fr_buf b = {0};
    const char *format;
    enum fr_rc rc = load(c, &spec, &plan, err);

    if (rc == FR_OK && (rc = cli_word(c, "--format", "text", &format, err)) == FR_OK) {
        if (format[0] == 't')
            fr_plan_draw_text(plan, &how, &b);
        else if (format[0] == 'd')
            fr_plan_draw_dot(plan, &how, &b);
        else
            rc = draw_svg(c, plan, &how, &b, err);
    }
    if (rc == FR_OK && b.bad)
        rc = fr_fail(err, FR_NOMEM, "no memory to draw");
    if (rc == FR_OK)
        fr_print("%s", b.p != NULL ? b.p : "");
    fr_buf_finish(&b);
    fr_spec_destroy(spec);
    return rc;
}
