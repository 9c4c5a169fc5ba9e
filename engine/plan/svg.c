/* A layout as SVG. It stands alone: colours and fonts are in it, nothing is loaded. */
#include "engine/plan/layout.h"

#include <string.h>

enum { NAMED = 50 /* tasks of a folded box that its title names */ };

static void add_text(struct fr_buf *out, const char *s)
{
    struct fr_buf seen = {0};

    fr_buf_visible(&seen, s, strlen(s));
    for (size_t i = 0; i < seen.n; i++) {
        const char *name = seen.p[i] == '&'   ? "&amp;"
                           : seen.p[i] == '<' ? "&lt;"
                           : seen.p[i] == '>' ? "&gt;"
                           : seen.p[i] == '"' ? "&quot;"
                                              : NULL;
        if (name != NULL)
            fr_buf_text(out, name);
        else
            fr_buf_add(out, seen.p + i, 1);
    }
    out->bad = out->bad || seen.bad;
    fr_buf_finish(&seen);
}

/* At most max characters; a longer text ends with an ellipsis. */
static void add_clipped(struct fr_buf *out, const char *s, size_t max)
{
    struct fr_buf part = {0};
    size_t n = 0, at = 0, cut = 0;

    for (; s[at] != '\0'; at++)
        if (((unsigned char)s[at] & 0xc0) != 0x80 && ++n == max)
            cut = at;
    if (n <= max) {
        add_text(out, s);
        return;
    }
    fr_buf_add(&part, s, cut);
    fr_buf_text(&part, "…");
    if (part.bad)
        out->bad = true;
    else
        add_text(out, part.p);
    fr_buf_finish(&part);
}

static void add_edge(struct fr_buf *out, const struct fr_layout_edge *e)
{
    const struct fr_layout_point *p = e->points;

    fr_buf_fmt(out, "<path class=\"%s\" d=\"M%d %d", e->critical ? "edge critical" : "edge", p->x,
               p->y);
    for (uint32_t i = 0; i + 1 < e->n_points; i += 2) {
        int mid = (p[i].x + p[i + 1].x) / 2;

        if (i > 0)
            fr_buf_fmt(out, " L%d %d", p[i].x, p[i].y);
        fr_buf_fmt(out, " C%d %d %d %d %d %d", mid, p[i].y, mid, p[i + 1].y, p[i + 1].x,
                   p[i + 1].y);
    }
    fr_buf_text(out, "\"/>\n");
}

static void add_title(const struct fr_plan *plan, const struct fr_layout_box *box,
                      const struct fr_plan_draw *how, struct fr_buf *out)
{
    const struct fr_plan_task *task = &plan->tasks[box->tasks[0]];

    fr_buf_text(out, "<title>");
    for (uint32_t i = 0; i < box->n_tasks && i < NAMED; i++) {
        fr_buf_text(out, i > 0 ? ", " : "");
        add_text(out, plan->tasks[box->tasks[i]].name);
    }
    if (box->n_tasks > NAMED)
        fr_buf_fmt(out, " and %u more", box->n_tasks - NAMED);
    if (task->gang)
        fr_buf_text(out, ", a gang");
    if (box->n_tasks == 1 && task->spec->run_if != FR_RUN_IF_SUCCESS)
        fr_buf_fmt(out, ", run_if: %s", fr_run_if_name(task->spec->run_if));
    for (uint32_t k = 0;
         box->n_tasks == 1 && how != NULL && how->nodes && k < task->width && k < task->count;
         k++) {
        fr_buf_text(out, k > 0 ? " " : ", on ");
        add_text(out, plan->nodes[plan->insts[task->first + k].node].name);
    }
    fr_buf_text(out, "</title>\n");
}

static bool is_critical(const struct fr_plan *plan, const struct fr_layout_box *box)
{
    for (uint32_t i = 0; i < box->n_tasks; i++) {
        uint32_t depth = plan->tasks[box->tasks[i]].depth;

        if (depth < plan->n_critical && plan->critical[depth] == box->tasks[i])
            return true;
    }
    return false;
}

static void add_box(const struct fr_plan *plan, const struct fr_layout_box *box,
                    const struct fr_plan_draw *how, struct fr_buf *out)
{
    const struct fr_plan_task *task = &plan->tasks[box->tasks[0]];
    struct fr_plan_look look = {NULL, NULL};
    size_t max = (size_t)(box->w - 12) / FR_LAYOUT_CHAR_W;

    if (how != NULL && how->look != NULL && box->n_tasks == 1)
        look = how->look(how->ctx, box->tasks[0]);
    fr_buf_fmt(out, "<g class=\"%s%s%s\">\n", task->hook >= 0 ? "hook" : "task",
               is_critical(plan, box) ? " critical" : "", task->gang ? " gang" : "");
    add_title(plan, box, how, out);
    if (box->n_tasks > 1) /* a second edge behind the box */
        fr_buf_fmt(out, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"4\"/>\n",
                   box->x + 3, box->y + 3, box->w, FR_LAYOUT_BOX_H);
    fr_buf_fmt(out, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"4\"", box->x, box->y,
               box->w, FR_LAYOUT_BOX_H);
    if (look.color != NULL) {
        fr_buf_text(out, " style=\"fill:");
        add_text(out, look.color);
        fr_buf_text(out, "\"");
    }
    fr_buf_fmt(out, "/>\n<text x=\"%d\" y=\"%d\">", box->x + 8, box->y + 16);
    if (box->n_tasks > 1)
        fr_buf_fmt(out, "%u tasks", box->n_tasks);
    else
        add_clipped(out, task->name, fr_plan_rows(task) != 1 ? max - 5 : max);
    if (box->n_tasks == 1 && task->awaited)
        fr_buf_text(out, " ×n");
    else if (box->n_tasks == 1 && fr_plan_rows(task) != 1)
        fr_buf_fmt(out, " ×%u", fr_plan_rows(task));
    if (look.word != NULL) {
        fr_buf_text(out, " ");
        add_text(out, look.word);
    }
    fr_buf_text(out, "</text>\n</g>\n");
}

void fr_plan_draw_svg(const struct fr_plan *plan, const struct fr_layout *layout,
                      const struct fr_plan_draw *how, struct fr_buf *out)
{
    fr_buf_fmt(out,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
               "viewBox=\"0 0 %d %d\" role=\"img\">\n<title>",
               layout->width, layout->height, layout->width, layout->height);
    add_text(out, plan->spec->name);
    fr_buf_text(
        out,
        "</title>\n<style>\n"
        "text { font: 12px system-ui, sans-serif; fill: #1c1917; }\n"
        "rect { fill: #ffffff; stroke: #6b7280; }\n"
        ".gang rect { stroke-dasharray: 6 2; }\n"
        ".hook rect { fill: #f3f4f6; }\n"
        ".critical rect { stroke-width: 2; stroke: #1c1917; }\n"
        ".edge { fill: none; stroke: #9ca3af; }\n"
        ".edge.critical { stroke-width: 2; stroke: #1c1917; }\n"
        "</style>\n<rect width=\"100%\" height=\"100%\" style=\"fill:#ffffff;stroke:none\"/>\n");
    for (uint32_t i = 0; i < layout->n_edges; i++)
        add_edge(out, &layout->edges[i]);
    for (uint32_t i = 0; i < layout->n_boxes; i++)
        add_box(plan, &layout->boxes[i], how, out);
    fr_buf_text(out, "</svg>\n");
}
