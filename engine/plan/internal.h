/* What the files of this folder share; nobody else includes it. */
#ifndef FR_PLAN_INTERNAL_H
#define FR_PLAN_INTERNAL_H

#include "engine/plan/layout.h"

/* Fills p->insts, which has room for them, and says of each task where its instances begin. */
enum fr_rc plan_make_insts(struct fr_plan *p, struct fr_plan_task *tasks, struct fr_arena *arena,
                           struct fr_err *err);

/* The graph with a vertex in each layer that an edge crosses, so that every edge joins neighbours.
 * Vertices 0 … n_boxes-1 are boxes, then come those of edges. All in one arena. */
struct graph {
    uint32_t n_boxes, n, n_layers, n_segments;
    uint32_t *layer;  /* of each vertex */
    uint32_t *pos;    /* its place in its layer */
    uint32_t *in_at;  /* its neighbours in the layer before are in[in_at[v] … in_at[v+1]) */
    uint32_t *out_at; /* likewise, in the layer behind */
    uint32_t *in, *out;
    uint32_t *layer_at; /* layer l is order[layer_at[l] … layer_at[l+1]) */
    uint32_t *order;
    double *y; /* of each vertex's middle */
};

/* The critical chain holds need and user, one behind the other. */
bool plan_follows(const struct fr_plan *plan, uint32_t need, uint32_t user);

/* Finds an order of each layer with few crossings. FR_NOMEM. */
enum fr_rc graph_order(struct graph *g, struct fr_arena *arena, uint64_t *before, uint64_t *after);
/* Sets y: the boxes of a layer do not touch, edges are as straight as that allows. Returns the
 * height of the highest layer in *height. FR_NOMEM. */
enum fr_rc graph_place(struct graph *g, struct fr_arena *arena, double *height);

#endif
