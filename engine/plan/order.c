/* The order of each layer: passes to and fro, each vertex to the mean of its neighbours' places. */
#include "engine/plan/internal.h"

#include <stdlib.h>
#include <string.h>

enum { PASSES = 16, IDLE_PASSES = 4 };

struct ranked { /* sum/n: the mean place of the neighbours */
    uint64_t sum, n;
    uint32_t pos, v;
};

struct sorter {
    struct graph *g;
    struct ranked *ranked; /* of a layer */
    uint32_t *places;      /* of the neighbours of a vertex */
    uint32_t *tree;        /* Fenwick tree over a layer's places */
};

static int by_mean(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    uint64_t left = x->sum * y->n, right = y->sum * x->n;

    if (left != right)
        return left < right ? -1 : 1;
    return (x->pos > y->pos) - (x->pos < y->pos);
}

static int by_place(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

/* Crossings between layer l and the next (W. Barth, M. Jünger, P. Mutzel, "Simple and efficient
 * bilayer cross counting", 2002): pairs of edges whose ends are in opposite order. */
static uint64_t crossings_behind(struct sorter *s, uint32_t l)
{
    const struct graph *g = s->g;
    uint32_t size = g->layer_at[l + 2] - g->layer_at[l + 1];
    uint64_t crossings = 0, seen = 0;

    memset(s->tree, 0, (size + 1) * sizeof(*s->tree));
    for (uint32_t i = g->layer_at[l]; i < g->layer_at[l + 1]; i++) {
        uint32_t v = g->order[i], n = g->out_at[v + 1] - g->out_at[v];

        for (uint32_t k = 0; k < n; k++)
            s->places[k] = g->pos[g->out[g->out_at[v] + k]];
        qsort(s->places, n, sizeof(*s->places), by_place);
        for (uint32_t k = 0; k < n; k++) { /* ends of earlier edges that lie after this one */
            uint64_t upto = 0;

            for (uint32_t p = s->places[k] + 1; p > 0; p -= p & -p)
                upto += s->tree[p];
            crossings += seen - upto;
        }
        for (uint32_t k = 0; k < n; k++, seen++)
            for (uint32_t p = s->places[k] + 1; p <= size; p += p & -p)
                s->tree[p]++;
    }
    return crossings;
}

static uint64_t crossings_of(struct sorter *s)
{
    uint64_t all = 0;

    for (uint32_t l = 0; l + 1 < s->g->n_layers; l++)
        all += crossings_behind(s, l);
    return all;
}

static void sort_layer(struct sorter *s, uint32_t l, bool by_in)
{
    struct graph *g = s->g;
    uint32_t first = g->layer_at[l], n = g->layer_at[l + 1] - first;
    const uint32_t *at = by_in ? g->in_at : g->out_at, *of = by_in ? g->in : g->out;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t v = g->order[first + i];
        struct ranked r = {.pos = i, .v = v};

        for (uint32_t k = at[v]; k < at[v + 1]; k++, r.n++)
            r.sum += g->pos[of[k]];
        if (r.n == 0) /* it stays where it is */
            r = (struct ranked){.sum = i, .n = 1, .pos = i, .v = v};
        s->ranked[i] = r;
    }
    qsort(s->ranked, n, sizeof(*s->ranked), by_mean);
    for (uint32_t i = 0; i < n; i++) {
        g->order[first + i] = s->ranked[i].v;
        g->pos[s->ranked[i].v] = i;
    }
}

static void pass(struct sorter *s, bool forward)
{
    for (uint32_t l = 1; l < s->g->n_layers; l++)
        sort_layer(s, forward ? l : s->g->n_layers - 1 - l, forward);
}

enum fr_rc graph_order(struct graph *g, struct fr_arena *arena, uint64_t *before, uint64_t *after)
{
    struct sorter s = {.g = g,
                       .ranked = fr_arena_array(arena, g->n + 1, sizeof(*s.ranked)),
                       .places = fr_arena_array(arena, g->n_segments + 1, sizeof(*s.places)),
                       .tree = fr_arena_array(arena, g->n + 2, sizeof(*s.tree))};
    uint32_t *best = fr_arena_array(arena, g->n + 1, sizeof(*best));
    uint64_t now;

    if (s.ranked == NULL || s.places == NULL || s.tree == NULL || best == NULL)
        return FR_NOMEM;
    *before = *after = crossings_of(&s);
    memcpy(best, g->order, g->n * sizeof(*best));
    for (int i = 0, idle = 0; i < PASSES && idle<IDLE_PASSES && * after> 0; i++) {
        pass(&s, i % 2 == 0);
        now = crossings_of(&s);
        idle = now < *after ? 0 : idle + 1;
        if (now < *after) {
            *after = now;
            memcpy(best, g->order, g->n * sizeof(*best));
        }
    }
    memcpy(g->order, best, g->n * sizeof(*best));
    for (uint32_t l = 0; l < g->n_layers; l++)
        for (uint32_t i = g->layer_at[l]; i < g->layer_at[l + 1]; i++)
            g->pos[g->order[i]] = i - g->layer_at[l];
    return FR_OK;
}
