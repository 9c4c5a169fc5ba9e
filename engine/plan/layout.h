/*
 * Where the boxes and edges of a plan's picture lie: layers from left to right by the longest chain
 * of needs, few crossings, long edges straight (K. Sugiyama, S. Tagawa, M. Toda, "Methods for
 * visual understanding of hierarchical system structures", IEEE Trans. SMC 11, 1981; E. Gansner et
 * al., "A technique for drawing directed graphs", IEEE Trans. SE 19, 1993). Hooks stand in a column
 * of their own at the right.
 *
 * Pure: the same plan gives the same picture. Units are CSS pixels, y grows downwards.
 */
#ifndef FR_PLAN_LAYOUT_H
#define FR_PLAN_LAYOUT_H

#include "engine/plan/plan.h"

enum {
    FR_LAYOUT_FOLD = 400,  /* pictures of more tasks than these are folded */
    FR_LAYOUT_BOX_H = 24,  /* height of a box */
    FR_LAYOUT_BOX_W = 180, /* its width, at most */
    FR_LAYOUT_CHAR_W = 7,  /* of a character of its name */
    FR_LAYOUT_MARGIN = 12, /* around all */
};

struct fr_layout_point {
    int x, y;
};

/* A task, or tasks of one layer that have the same needs and the same users, folded. */
struct fr_layout_box {
    const uint32_t *tasks; /* ascending */
    uint32_t n_tasks;
    int x, y, w; /* upper left corner */
};

struct fr_layout_edge {
    uint32_t from, to;                    /* boxes; to needs from */
    bool critical;                        /* on the longest chain */
    const struct fr_layout_point *points; /* from box to box; between points 2k and 2k+1 it bends,
                                           * from 2k+1 to 2k+2 it passes a layer, level */
    uint32_t n_points;                    /* even */
};

struct fr_layout {
    const struct fr_layout_box *boxes; /* tasks in the file's order, then hooks */
    const struct fr_layout_edge *edges;
    uint32_t n_boxes, n_hooks, n_edges; /* n_boxes counts all; the last n_hooks are hooks */
    uint32_t n_layers;                  /* without that of the hooks */
    uint64_t crossings;                 /* of edges between neighbouring layers */
    uint64_t crossings_before;          /* likewise, in the file's order */
    int width, height;
};

struct fr_layout_opts { /* zero is the default */
    bool hooks;         /* show hooks too */
    uint32_t fold;      /* fold when there are more tasks than this; 0: FR_LAYOUT_FOLD */
    uint32_t alike;     /* with fewer too, fold this many tasks or more that are alike; 0: none */
    const bool *apart;  /* of each task: it has a box of its own; NULL: none */
};

/* All lies in the arena. Takes O(edges × log tasks) for each of at most 16 passes. FR_NOMEM. */
enum fr_rc fr_plan_layout(const struct fr_plan *plan, const struct fr_layout_opts *opts,
                          struct fr_arena *arena, struct fr_layout **out, struct fr_err *err);

/* The layout as a picture of its own (SVG 1.1, UTF-8): a box has its name, its number of instances,
 * and how's word and colour; its title lists its tasks. */
void fr_plan_draw_svg(const struct fr_plan *plan, const struct fr_layout *layout,
                      const struct fr_plan_draw *how, struct fr_buf *out);

#endif
