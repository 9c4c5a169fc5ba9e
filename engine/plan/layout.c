/* The boxes and edges of a picture: folding, the layers that an edge crosses, positions. */
#include "engine/plan/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    LAYER_GAP = 56, /* between the boxes of two layers */
    BOX_MIN_W = 48,
    BOX_PAD = 20, /* of a box's width, beside its name */
    HOOK_STEP = 36,
};

struct link { /* boxes */
    uint32_t from, to;
    bool critical;
};

struct making {
    const struct fr_plan *plan;
    struct fr_arena *arena; /* of the result */
    struct fr_arena *work;
    struct fr_layout *out;
    struct fr_layout_box *boxes;
    uint32_t *box_of; /* of a task */
    struct link *links;
    uint32_t n_tasks; /* without hooks */
    struct graph g;
    uint32_t *via; /* the vertex after link i's start; NULL-like UINT32_MAX: its end itself */
    int *layer_x, *layer_w;
};

/* ---- boxes ---- */

struct twin { /* a task, to be sorted so that those that may be folded lie side by side */
    const struct fr_plan_task *task;
    uint32_t t;
};

static int by_list(const uint32_t *a, uint32_t n_a, const uint32_t *b, uint32_t n_b)
{
    if (n_a != n_b)
        return n_a < n_b ? -1 : 1;
    for (uint32_t i = 0; i < n_a; i++)
        if (a[i] != b[i])
            return a[i] < b[i] ? -1 : 1;
    return 0;
}

/* Of tasks with the same needs: do they start for the same reasons? */
static int by_rules(const struct fr_plan_task *a, const struct fr_plan_task *b)
{
    static const struct fr_need_rule none = {0};
    int c = (int)a->spec->run_if - (int)b->spec->run_if;

    for (uint32_t i = 0; i < a->n_needs && c == 0; i++) {
        const struct fr_need_rule *x = a->rules != NULL ? &a->rules[i] : &none;
        const struct fr_need_rule *y = b->rules != NULL ? &b->rules[i] : &none;

        c = (int)x->states - (int)y->states;
        c = c != 0 ? c : (int)x->skip_with - (int)y->skip_with;
    }
    return c;
}

static int alike(const struct twin *a, const struct twin *b)
{
    int c = by_list(a->task->needs, a->task->n_needs, b->task->needs, b->task->n_needs);

    c = c != 0 ? c : by_list(a->task->users, a->task->n_users, b->task->users, b->task->n_users);
    return c != 0 ? c : by_rules(a->task, b->task);
}

static int by_twin(const void *x, const void *y)
{
    const struct twin *a = x, *b = y;
    int c = alike(a, b);

    return c != 0 ? c : (a->t > b->t) - (a->t < b->t);
}

/* Folds n tasks that are alike into the box of the first, but for those that lie apart. */
static void fold_twins(const struct twin *twins, uint32_t n, const bool *apart, uint32_t *first)
{
    uint32_t box = UINT32_MAX;

    for (uint32_t i = 0; i < n; i++) {
        if (apart != NULL && apart[twins[i].t])
            continue;
        box = box == UINT32_MAX ? twins[i].t : box;
        first[twins[i].t] = box;
    }
}

/* first[t]: the task in whose box t lies. Tasks with the same needs are of one layer. */
static enum fr_rc fold(struct making *m, const struct fr_layout_opts *opts, uint32_t *first)
{
    struct twin *twins = fr_arena_array(m->work, m->n_tasks + 1, sizeof(*twins));
    uint32_t limit = opts->fold != 0 ? opts->fold : FR_LAYOUT_FOLD;
    uint32_t least = m->n_tasks > limit ? 2 : opts->alike;

    if (twins == NULL)
        return FR_NOMEM;
    for (uint32_t t = 0; t < m->n_tasks; t++) {
        first[t] = t;
        twins[t] = (struct twin){&m->plan->tasks[t], t};
    }
    if (least == 0)
        return FR_OK;
    qsort(twins, m->n_tasks, sizeof(*twins), by_twin);
    for (uint32_t i = 0, n = 1; i < m->n_tasks; i += n, n = 1) {
        while (i + n < m->n_tasks && alike(&twins[i], &twins[i + n]) == 0)
            n++;
        if (n >= least)
            fold_twins(&twins[i], n, opts->apart, first);
    }
    return FR_OK;
}

static enum fr_rc make_boxes(struct making *m, const struct fr_layout_opts *opts)
{
    uint32_t shown = opts->hooks ? m->plan->n_tasks : m->n_tasks;
    uint32_t *first = fr_arena_array(m->work, shown + 1, sizeof(*first));
    uint32_t *next = fr_arena_array(m->work, shown + 1, sizeof(*next));
    uint32_t *tasks = fr_arena_array(m->arena, shown + 1, sizeof(*tasks)), at = 0;

    m->boxes = fr_arena_array(m->arena, shown + 1, sizeof(*m->boxes));
    m->box_of = fr_arena_array(m->work, shown + 1, sizeof(*m->box_of));
    if (first == NULL || next == NULL || tasks == NULL || m->boxes == NULL || m->box_of == NULL ||
        fold(m, opts, first) != FR_OK)
        return FR_NOMEM;
    for (uint32_t t = m->n_tasks; t < shown; t++)
        first[t] = t;
    for (uint32_t t = 0; t < shown; t++) { /* the first task of a box comes before its others */
        if (first[t] == t)
            m->box_of[t] = m->out->n_boxes++;
        m->box_of[t] = m->box_of[first[t]];
        m->boxes[m->box_of[t]].n_tasks++;
    }
    for (uint32_t b = 0; b < m->out->n_boxes; b++) {
        m->boxes[b].tasks = tasks + at;
        next[b] = at;
        at += m->boxes[b].n_tasks;
    }
    for (uint32_t t = 0; t < shown; t++)
        tasks[next[m->box_of[t]]++] = t;
    m->out->n_hooks = shown - m->n_tasks;
    m->out->boxes = m->boxes;
    return FR_OK;
}

/* ---- edges ---- */

/* One link for all edges between two boxes. */
static enum fr_rc make_links(struct making *m)
{
    uint32_t n_boxes = m->out->n_boxes - m->out->n_hooks, n = 0;
    uint32_t *seen = fr_arena_array(m->work, n_boxes + 1, sizeof(*seen)); /* 1 + link, per user */
    size_t most = 0;

    for (uint32_t t = 0; t < m->n_tasks; t++)
        most += m->plan->tasks[t].n_needs;
    m->links = fr_arena_array(m->work, most + 1, sizeof(*m->links));
    if (seen == NULL || m->links == NULL)
        return FR_NOMEM;
    for (uint32_t b = 0; b < n_boxes; b++) {
        uint32_t from_link = n;

        for (uint32_t k = 0; k < m->boxes[b].n_tasks; k++) {
            const struct fr_plan_task *task = &m->plan->tasks[m->boxes[b].tasks[k]];

            for (uint32_t i = 0; i < task->n_needs; i++) {
                uint32_t from = m->box_of[task->needs[i]];

                if (seen[from] <= from_link)
                    m->links[n++] = (struct link){.from = from, .to = b}, seen[from] = n;
                m->links[seen[from] - 1].critical |=
                    plan_follows(m->plan, task->needs[i], m->boxes[b].tasks[k]);
            }
        }
    }
    m->out->n_edges = n;
    return FR_OK;
}

static uint32_t layer_of(const struct making *m, uint32_t box)
{
    return m->plan->tasks[m->boxes[box].tasks[0]].depth;
}

/* ---- the graph ---- */

/* Calls for each pair of neighbours that a link makes; the first vertex of link i is via[i]. */
static void each_segment(const struct making *m,
                         void (*fn)(struct graph *g, uint32_t a, uint32_t b), struct graph *g)
{
    for (uint32_t i = 0; i < m->out->n_edges; i++) {
        const struct link *link = &m->links[i];
        uint32_t span = layer_of(m, link->to) - layer_of(m, link->from), at = link->from;

        for (uint32_t k = 1; k < span; k++) {
            fn(g, at, m->via[i] + k - 1);
            at = m->via[i] + k - 1;
        }
        fn(g, at, link->to);
    }
}

static void count_segment(struct graph *g, uint32_t a, uint32_t b)
{
    g->out_at[a + 1]++;
    g->in_at[b + 1]++;
    g->n_segments++;
}

/* The tables of where lists begin are moved on by one meanwhile, and are right again behind all. */
static void add_segment(struct graph *g, uint32_t a, uint32_t b)
{
    g->out[g->out_at[a]++] = b;
    g->in[g->in_at[b]++] = a;
}

static void move_back(uint32_t *at, uint32_t n)
{
    memmove(at + 1, at, n * sizeof(*at));
    at[0] = 0;
}

static enum fr_rc make_vertices(struct making *m)
{
    struct graph *g = &m->g;
    uint32_t n_boxes = m->out->n_boxes - m->out->n_hooks;

    *g = (struct graph){.n_boxes = n_boxes, .n = n_boxes};
    m->via = fr_arena_array(m->work, m->out->n_edges + 1, sizeof(*m->via));
    if (m->via == NULL)
        return FR_NOMEM;
    for (uint32_t i = 0; i < m->out->n_edges; i++) {
        m->via[i] = g->n;
        g->n += layer_of(m, m->links[i].to) - layer_of(m, m->links[i].from) - 1;
    }
    g->layer = fr_arena_array(m->work, g->n + 1, sizeof(*g->layer));
    g->pos = fr_arena_array(m->work, g->n + 1, sizeof(*g->pos));
    g->in_at = fr_arena_array(m->work, g->n + 2, sizeof(*g->in_at));
    g->out_at = fr_arena_array(m->work, g->n + 2, sizeof(*g->out_at));
    g->order = fr_arena_array(m->work, g->n + 1, sizeof(*g->order));
    if (g->layer == NULL || g->pos == NULL || g->in_at == NULL || g->out_at == NULL ||
        g->order == NULL)
        return FR_NOMEM;
    for (uint32_t b = 0; b < n_boxes; b++) {
        g->layer[b] = layer_of(m, b);
        g->n_layers = g->layer[b] + 1 > g->n_layers ? g->layer[b] + 1 : g->n_layers;
    }
    for (uint32_t i = 0; i < m->out->n_edges; i++) {
        uint32_t end = i + 1 < m->out->n_edges ? m->via[i + 1] : g->n;

        for (uint32_t v = m->via[i]; v < end; v++)
            g->layer[v] = layer_of(m, m->links[i].from) + 1 + (v - m->via[i]);
    }
    each_segment(m, count_segment, g);
    g->in = fr_arena_array(m->work, g->n_segments + 1, sizeof(*g->in));
    g->out = fr_arena_array(m->work, g->n_segments + 1, sizeof(*g->out));
    if (g->in == NULL || g->out == NULL)
        return FR_NOMEM;
    for (uint32_t v = 0; v < g->n; v++) {
        g->in_at[v + 1] += g->in_at[v];
        g->out_at[v + 1] += g->out_at[v];
    }
    each_segment(m, add_segment, g);
    move_back(g->in_at, g->n);
    move_back(g->out_at, g->n);
    return FR_OK;
}

/* Layers in the file's order: a layer's boxes, then what crosses it. */
static enum fr_rc fill_layers(struct making *m)
{
    struct graph *g = &m->g;
    uint32_t *next = fr_arena_array(m->work, g->n_layers + 1, sizeof(*next));

    g->layer_at = fr_arena_array(m->work, g->n_layers + 2, sizeof(*g->layer_at));
    if (next == NULL || g->layer_at == NULL)
        return FR_NOMEM;
    for (uint32_t v = 0; v < g->n; v++)
        g->layer_at[g->layer[v] + 1]++;
    for (uint32_t l = 0; l < g->n_layers; l++) {
        g->layer_at[l + 1] += g->layer_at[l];
        next[l] = g->layer_at[l];
    }
    for (uint32_t v = 0; v < g->n; v++) {
        uint32_t l = g->layer[v];

        g->pos[v] = next[l] - g->layer_at[l];
        g->order[next[l]++] = v;
    }
    return FR_OK;
}

/* ---- the picture ---- */

static size_t characters(const char *s)
{
    size_t n = 0;

    for (; *s != '\0'; s++)
        n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

static int width_of(const struct making *m, const struct fr_layout_box *box)
{
    size_t n = box->n_tasks > 1 ? 12 : characters(m->plan->tasks[box->tasks[0]].name) + 5;
    int most = FR_LAYOUT_BOX_W, w = BOX_PAD;

    w += n * FR_LAYOUT_CHAR_W < (size_t)most ? (int)n * FR_LAYOUT_CHAR_W : most;
    return w < BOX_MIN_W ? BOX_MIN_W : w > most ? most : w;
}

static enum fr_rc set_boxes(struct making *m, double height)
{
    struct fr_layout *out = m->out;
    struct graph *g = &m->g;
    int x = FR_LAYOUT_MARGIN, top = FR_LAYOUT_MARGIN;

    m->layer_x = fr_arena_array(m->work, g->n_layers + 1, sizeof(int));
    m->layer_w = fr_arena_array(m->work, g->n_layers + 1, sizeof(int));
    if (m->layer_x == NULL || m->layer_w == NULL)
        return FR_NOMEM;
    for (uint32_t b = 0; b < out->n_boxes; b++)
        m->boxes[b].w = width_of(m, &m->boxes[b]);
    for (uint32_t b = 0; b < g->n_boxes; b++)
        if (m->boxes[b].w > m->layer_w[g->layer[b]])
            m->layer_w[g->layer[b]] = m->boxes[b].w;
    for (uint32_t l = 0; l < g->n_layers; l++) {
        m->layer_x[l] = x;
        x += m->layer_w[l] + LAYER_GAP;
    }
    for (uint32_t b = 0; b < g->n_boxes; b++) {
        m->boxes[b].x = m->layer_x[g->layer[b]];
        m->boxes[b].y = top + (int)floor(g->y[b]);
    }
    out->width = x - (g->n_layers > 0 ? LAYER_GAP : 0);
    out->height = g->n_layers > 0 ? (int)floor(height) + FR_LAYOUT_BOX_H : 0;
    x = g->n_layers > 0 ? x : FR_LAYOUT_MARGIN;
    for (uint32_t b = g->n_boxes, i = 0; b < out->n_boxes; b++, i++) {
        m->boxes[b].x = x;
        m->boxes[b].y = top + (int)i * HOOK_STEP;
        out->width = x + m->boxes[b].w > out->width ? x + m->boxes[b].w : out->width;
        if ((int)i * HOOK_STEP + FR_LAYOUT_BOX_H > out->height)
            out->height = (int)i * HOOK_STEP + FR_LAYOUT_BOX_H;
    }
    out->width += FR_LAYOUT_MARGIN;
    out->height += 2 * FR_LAYOUT_MARGIN;
    return FR_OK;
}

static enum fr_rc set_edges(struct making *m)
{
    struct fr_layout_edge *edges = fr_arena_array(m->arena, m->out->n_edges + 1, sizeof(*edges));
    const struct graph *g = &m->g;
    int middle = FR_LAYOUT_MARGIN + FR_LAYOUT_BOX_H / 2;

    if (edges == NULL)
        return FR_NOMEM;
    for (uint32_t i = 0; i < m->out->n_edges; i++) {
        const struct link *link = &m->links[i];
        const struct fr_layout_box *a = &m->boxes[link->from], *b = &m->boxes[link->to];
        uint32_t end = i + 1 < m->out->n_edges ? m->via[i + 1] : g->n, n = 0;
        struct fr_layout_point *p = fr_arena_array(m->arena, 2 + 2 * (end - m->via[i]), sizeof(*p));

        if (p == NULL)
            return FR_NOMEM;
        p[n++] = (struct fr_layout_point){a->x + a->w, a->y + FR_LAYOUT_BOX_H / 2};
        for (uint32_t v = m->via[i]; v < end; v++) {
            int x = m->layer_x[g->layer[v]], y = middle + (int)floor(g->y[v]);

            p[n++] = (struct fr_layout_point){x, y};
            p[n++] = (struct fr_layout_point){x + m->layer_w[g->layer[v]], y};
        }
        p[n++] = (struct fr_layout_point){b->x, b->y + FR_LAYOUT_BOX_H / 2};
        edges[i] = (struct fr_layout_edge){link->from, link->to, link->critical, p, n};
    }
    m->out->edges = edges;
    return FR_OK;
}

enum fr_rc fr_plan_layout(const struct fr_plan *plan, const struct fr_layout_opts *opts,
                          struct fr_arena *arena, struct fr_layout **out, struct fr_err *err)
{
    struct fr_arena work = {0};
    struct making m = {.plan = plan,
                       .arena = arena,
                       .work = &work,
                       .out = fr_arena_alloc(arena, sizeof(*m.out)),
                       .n_tasks = plan->n_tasks - plan->n_hooks};
    double height = 0;
    bool fine = m.out != NULL && make_boxes(&m, opts) == FR_OK && make_links(&m) == FR_OK &&
                make_vertices(&m) == FR_OK && fill_layers(&m) == FR_OK &&
                graph_order(&m.g, &work, &m.out->crossings_before, &m.out->crossings) == FR_OK &&
                graph_place(&m.g, &work, &height) == FR_OK && set_boxes(&m, height) == FR_OK &&
                set_edges(&m) == FR_OK;

    *out = fine ? m.out : NULL;
    if (fine)
        m.out->n_layers = m.g.n_layers;
    fr_arena_finish(&work);
    return fine ? FR_OK : fr_fail(err, FR_NOMEM, "no memory to lay the graph out");
}
