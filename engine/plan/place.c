/*
 * How high each vertex lies. A layer is placed as near to the medians of its vertices' neighbours
 * as its order and the distances in it allow: with the distances taken off, that is an isotonic
 * regression (R. Barlow et al., "Statistical Inference under Order Restrictions", 1972), solved in
 * one pass by pooling neighbours. Vertices of edges weigh more, so long edges are straight.
 */
#include "engine/plan/internal.h"

#include <stdlib.h>

enum { GAP = 12, EDGE_WEIGHT = 8, ROUNDS = 4 };

struct pool { /* vertices that lie next to each other without space between */
    double sum, weight;
    uint32_t n;
};

struct placer {
    struct graph *g;
    struct pool *pools;
    double *wanted; /* of each vertex of a layer, its distances taken off */
    double *values; /* of a vertex's neighbours */
    double height;  /* of the highest layer */
};

static double half_height(const struct graph *g, uint32_t v)
{
    return v < g->n_boxes ? FR_LAYOUT_BOX_H / 2.0 : 0;
}

static double distance(const struct graph *g, uint32_t a, uint32_t b)
{
    return half_height(g, a) + half_height(g, b) + GAP;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The median of its neighbours; where it is now if it has none. */
static double median(struct placer *p, uint32_t v, bool by_in)
{
    const struct graph *g = p->g;
    const uint32_t *at = by_in ? g->in_at : g->out_at, *of = by_in ? g->in : g->out;
    uint32_t n = at[v + 1] - at[v];

    for (uint32_t k = 0; k < n; k++)
        p->values[k] = g->y[of[at[v] + k]];
    if (n == 0)
        return g->y[v];
    qsort(p->values, n, sizeof(*p->values), by_value);
    return n % 2 == 1 ? p->values[n / 2] : (p->values[n / 2 - 1] + p->values[n / 2]) / 2;
}

/* From the first vertex's middle to the last one's. */
static double extent(const struct graph *g, uint32_t l)
{
    double sum = 0;

    for (uint32_t i = g->layer_at[l] + 1; i < g->layer_at[l + 1]; i++)
        sum += distance(g, g->order[i - 1], g->order[i]);
    return sum;
}

static void place_layer(struct placer *p, uint32_t l, bool by_in)
{
    struct graph *g = p->g;
    uint32_t first = g->layer_at[l], n = g->layer_at[l + 1] - first, n_pools = 0;
    double taken = 0, room = p->height - extent(g, l);

    for (uint32_t i = 0; i < n; i++) {
        uint32_t v = g->order[first + i];

        taken += i > 0 ? distance(g, g->order[first + i - 1], v) : 0;
        p->wanted[i] = median(p, v, by_in) - taken;
    }
    for (uint32_t i = 0; i < n; i++) {
        double weight = g->order[first + i] < g->n_boxes ? 1 : EDGE_WEIGHT;
        struct pool now = {p->wanted[i] * weight, weight, 1};

        while (n_pools > 0 &&
               p->pools[n_pools - 1].sum * now.weight > now.sum * p->pools[n_pools - 1].weight) {
            n_pools--;
            now.sum += p->pools[n_pools].sum;
            now.weight += p->pools[n_pools].weight;
            now.n += p->pools[n_pools].n;
        }
        p->pools[n_pools++] = now;
    }
    taken = 0;
    for (uint32_t k = 0, i = 0; k < n_pools; k++) {
        double at = p->pools[k].sum / p->pools[k].weight;

        at = at < 0 ? 0 : at > room ? room : at; /* no layer is higher than the highest one */
        for (uint32_t end = i + p->pools[k].n; i < end; i++) {
            uint32_t v = g->order[first + i];

            taken += i > 0 ? distance(g, g->order[first + i - 1], v) : 0;
            g->y[v] = at + taken;
        }
    }
}

enum fr_rc graph_place(struct graph *g, struct fr_arena *arena, double *height)
{
    struct placer p = {.g = g,
                       .pools = fr_arena_array(arena, g->n + 1, sizeof(*p.pools)),
                       .wanted = fr_arena_array(arena, g->n + 1, sizeof(*p.wanted)),
                       .values = fr_arena_array(arena, g->n_segments + 1, sizeof(*p.values))};

    g->y = fr_arena_array(arena, g->n + 1, sizeof(*g->y));
    if (p.pools == NULL || p.wanted == NULL || p.values == NULL || g->y == NULL)
        return FR_NOMEM;
    for (uint32_t l = 0; l < g->n_layers; l++) {
        double size = extent(g, l);

        p.height = size > p.height ? size : p.height;
    }
    for (uint32_t l = 0; l < g->n_layers; l++) { /* in the middle, to begin with */
        double at = (p.height - extent(g, l)) / 2;

        for (uint32_t i = g->layer_at[l]; i < g->layer_at[l + 1]; i++) {
            at += i > g->layer_at[l] ? distance(g, g->order[i - 1], g->order[i]) : 0;
            g->y[g->order[i]] = at;
        }
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (uint32_t l = 1; l < g->n_layers; l++)
            place_layer(&p, l, true);
        for (uint32_t l = g->n_layers > 0 ? g->n_layers - 1 : 0; l-- > 0;)
            place_layer(&p, l, false);
    }
    for (uint32_t l = 1; l < g->n_layers; l++)
        place_layer(&p, l, true);
    *height = p.height;
    return FR_OK;
}
