#include "engine/cli/cli.h"
#include "engine/client/pipeline.h"
#include "engine/cli/fires.h"

#include "engine/base/log.h"
#include "engine/plan/layout.h"

#include <limits.h>
#include <string.h>

/* A pipeline and its plan. */
struct loaded {
    struct cli_spec spec; /* what the options of the command fill */
    struct cli_list args;
    struct fr_issues issues;
    struct fr_spec *pipeline;
    struct fr_arena arena;
    struct fr_plan *plan;
};

static enum fr_rc load(struct loaded *l, const struct cli_command *cmd, const struct cli_opt *opts,
                       char **argv, struct fr_err *err)
{
    struct fr_spec_opts so;
    enum fr_rc rc = cli_parse(cmd, opts, argv, &l->args, err);

    if (rc != FR_OK)
        return rc;
    l->spec.file = l->args.v[0];
    rc = cli_spec_opts(&l->spec, &so, err);
    so.scheduled = true;
    if (rc == FR_OK)
        rc = fr_spec_load(&so, &l->pipeline, &l->issues, err);
    if (rc == FR_OK)
        rc = fr_plan_make(l->pipeline, &l->arena, &l->plan, err);
    return rc;
}

/* Prints the error, if there is one, and returns the exit code. */
static int unload(struct loaded *l, enum fr_rc rc, const struct fr_err *err)
{
    int code = rc != FR_OK ? cli_fail_issues(&l->issues, err) : CLI_OK;

    fr_issues_finish(&l->issues);
    fr_arena_finish(&l->arena);
    fr_spec_destroy(l->pipeline);
    cli_spec_finish(&l->spec);
    cli_list_finish(&l->args);
    return code;
}

int cli_validate(const struct cli_command *cmd, char **argv)
{
    struct loaded l = {0};
    const struct cli_opt opts[] = {
        {"--param", 'p', "NAME=VALUE", "set a parameter of the pipeline", .list = &l.spec.params},
        {"--nodes", 0, "FILE", "inventory: the same as -p nodes=FILE", .value = &l.spec.nodes},
        {.name = NULL},
    };
    struct fr_err err = {0};
    struct fr_run_shell shell = cli_shell("/");
    enum fr_rc rc = load(&l, cmd, opts, argv, &err);

    if (rc == FR_OK)
        rc = fr_run_check(l.plan, &shell, NULL, &l.issues, &err);
    if (rc == FR_OK) {
        char file[4 * PATH_MAX];
        fr_visible(file, sizeof(file), l.spec.file, strlen(l.spec.file));
        for (size_t i = 0; i < l.pipeline->n_notes; i++)
            fr_print("%s\n", l.pipeline->notes[i]);
        fr_print("%s: %zu tasks on %zu nodes, nothing wrong\n", file, l.pipeline->n_tasks,
                 l.pipeline->n_nodes);
        rc = cli_print_schedules(l.pipeline, &l.spec.zones, &err);
    }
    return unload(&l, rc, &err);
}

/* ---- graph ---- */

static enum fr_rc draw_svg(const struct loaded *l, const struct fr_plan_draw *how,
                           struct fr_buf *out, struct fr_err *err)
{
    struct fr_arena arena = {0};
    struct fr_layout *layout;
    enum fr_rc rc = fr_plan_layout(l->plan, &(struct fr_layout_opts){.hooks = how->hooks}, &arena,
                                   &layout, err);

    if (rc == FR_OK)
        fr_plan_draw_svg(l->plan, layout, how, out);
    fr_arena_finish(&arena);
    return rc;
}

static enum fr_rc print_graph(const struct loaded *l, const char *format, bool nodes,
                              struct fr_err *err)
{
    struct fr_plan_draw how = {.nodes = nodes, .hooks = true};
    struct fr_buf b = {0};
    enum fr_rc rc = FR_OK;

    if (strcmp(format, "text") == 0)
        fr_plan_draw_text(l->plan, &how, &b);
    else if (strcmp(format, "dot") == 0)
        fr_plan_draw_dot(l->plan, &how, &b);
    else if (strcmp(format, "svg") == 0)
        rc = draw_svg(l, &how, &b, err);
    else
        return fr_fail(err, FR_USAGE, "graph: --format is text, dot or svg, not '%s'", format);
    if (rc == FR_OK && b.bad)
        rc = fr_fail(err, FR_NOMEM, "no memory to draw");
    if (rc == FR_OK)
        fr_print("%s", b.p != NULL ? b.p : "");
    fr_buf_finish(&b);
    return rc;
}

int cli_graph(const struct cli_command *cmd, char **argv)
{
    struct loaded l = {0};
    const char *format = "text";
    bool nodes = false;
    const struct cli_opt opts[] = {
        {"--format", 'f', "FORMAT", "text (default), dot or svg", .value = &format,
         .words = "text dot svg"},
        {"--show-nodes", 0, NULL, "name the nodes of each task", .flag = &nodes},
        {"--param", 'p', "NAME=VALUE", "set a parameter of the pipeline", .list = &l.spec.params},
        {"--nodes", 0, "FILE", "inventory: the same as -p nodes=FILE", .value = &l.spec.nodes},
        {.name = NULL},
    };
    struct fr_err err = {0};
    enum fr_rc rc = load(&l, cmd, opts, argv, &err);

    if (rc == FR_OK)
        rc = print_graph(&l, format, nodes, &err);
    return unload(&l, rc, &err);
}
