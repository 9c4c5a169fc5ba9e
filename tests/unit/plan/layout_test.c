/* Pictures of plans: where boxes and edges lie, in small graphs and in random ones. */
#include "engine/plan/layout.h"

#include "engine/base/sys.h"
#include "tests/unit/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1200, MOST_NEEDS = 12 };

/* A plan whose tasks need earlier ones; only what a picture looks at is filled. */
struct picture {
    struct fr_plan plan;
    struct fr_spec spec;
    struct fr_plan_task tasks[MOST];
    char names[MOST][24];
    uint32_t needs[MOST][MOST_NEEDS];
    uint32_t *users[MOST];
    uint32_t critical[MOST];
};

static const struct fr_task plain, rescue = {.run_if = FR_RUN_IF_FAILURE};

static void begin(struct picture *p, uint32_t n)
{
    memset(p, 0, sizeof(*p));
    p->spec.name = "demo";
    p->plan.spec = &p->spec;
    p->plan.tasks = p->tasks;
    p->plan.n_tasks = n;
    p->plan.critical = p->critical;
    for (uint32_t t = 0; t < n; t++) {
        snprintf(p->names[t], sizeof(p->names[t]), "t%u", t);
        p->tasks[t] = (struct fr_plan_task){.name = p->names[t],
                                            .spec = &plain,
                                            .hook = -1,
                                            .count = 1,
                                            .width = 1,
                                            .needs = p->needs[t]};
    }
}

static void need(struct picture *p, uint32_t user, uint32_t need)
{
    struct fr_plan_task *task = &p->tasks[user];

    p->needs[user][task->n_needs++] = need;
    if (task->depth < p->tasks[need].depth + 1)
        task->depth = p->tasks[need].depth + 1;
}

/* Users, and a longest chain. */
static void end(struct picture *p)
{
    uint32_t last = 0;

    for (uint32_t t = 0; t < p->plan.n_tasks; t++) {
        p->users[t] = calloc(p->plan.n_tasks + 1, sizeof(uint32_t));
        p->tasks[t].users = p->users[t];
        for (uint32_t i = 0; i < p->tasks[t].n_needs; i++)
            p->users[p->needs[t][i]][p->tasks[p->needs[t][i]].n_users++] = t;
        if (p->tasks[t].depth > p->tasks[last].depth)
            last = t;
    }
    p->plan.n_critical = p->tasks[last].depth + 1;
    for (uint32_t d = p->plan.n_critical; d-- > 0;) {
        p->critical[d] = last;
        for (uint32_t i = p->tasks[last].n_needs; d > 0 && i-- > 0;)
            if (p->tasks[p->needs[p->critical[d]][i]].depth == d - 1)
                last = p->needs[p->critical[d]][i]; /* the first of them */
    }
}

static void drop(struct picture *p)
{
    for (uint32_t t = 0; t < p->plan.n_tasks; t++)
        free(p->users[t]);
}

/* Each task needs up to `most` of the `back` tasks before it. */
static void draw_at_random(struct picture *p, uint32_t n, uint32_t most, uint32_t back)
{
    begin(p, n);
    for (uint32_t t = 1; t < n; t++) {
        uint32_t k = (uint32_t)rand() % (most + 1);

        for (uint32_t s = t > back ? t - back : 0; s < t && p->tasks[t].n_needs < k; s++)
            if (rand() % 3 == 0)
                need(p, t, s);
    }
    end(p);
}

static const struct fr_layout_box *box_of(const struct fr_layout *l, uint32_t task, uint32_t *index)
{
    for (*index = 0; *index < l->n_boxes; ++*index)
        for (uint32_t i = 0; i < l->boxes[*index].n_tasks; i++)
            if (l->boxes[*index].tasks[i] == task)
                return &l->boxes[*index];
    return NULL;
}

/* ---- what holds for each picture ---- */

static void check_boxes(const struct fr_layout *l)
{
    for (uint32_t a = 0; a < l->n_boxes; a++) {
        const struct fr_layout_box *box = &l->boxes[a];

        CHECK(box->x >= FR_LAYOUT_MARGIN && box->y >= FR_LAYOUT_MARGIN);
        CHECK(box->x + box->w + FR_LAYOUT_MARGIN <= l->width);
        CHECK(box->y + FR_LAYOUT_BOX_H + FR_LAYOUT_MARGIN <= l->height);
        CHECK(box->w <= FR_LAYOUT_BOX_W);
        for (uint32_t b = a + 1; b < l->n_boxes; b++)
            if (l->boxes[b].x == box->x)
                CHECK(abs(l->boxes[b].y - box->y) >= FR_LAYOUT_BOX_H + 12);
    }
}

/* Each need is an edge, once; it leads from box to box and passes no box on its way. */
static void check_edges(const struct picture *p, const struct fr_layout *l)
{
    uint32_t from = 0, to = 0, found = 0;

    for (uint32_t i = 0; i < l->n_edges; i++) {
        const struct fr_layout_edge *e = &l->edges[i];
        const struct fr_layout_box *a = &l->boxes[e->from], *b = &l->boxes[e->to];
        const struct fr_layout_point *q = e->points;

        CHECK(e->n_points >= 2 && e->n_points % 2 == 0);
        CHECK(q[0].x == a->x + a->w && q[0].y == a->y + FR_LAYOUT_BOX_H / 2);
        CHECK(q[e->n_points - 1].x == b->x && q[e->n_points - 1].y == b->y + FR_LAYOUT_BOX_H / 2);
        for (uint32_t k = 1; k < e->n_points; k++)
            CHECK(q[k].x >= q[k - 1].x);
        for (uint32_t k = 1; k + 1 < e->n_points; k += 2) {
            CHECK(q[k].y == q[k + 1].y);
            for (uint32_t c = 0; c < l->n_boxes; c++)
                if (l->boxes[c].x == q[k].x)
                    CHECK(abs(l->boxes[c].y + FR_LAYOUT_BOX_H / 2 - q[k].y) >= 24);
        }
        for (uint32_t k = 0; k < i; k++)
            CHECK(l->edges[k].from != e->from || l->edges[k].to != e->to);
    }
    for (uint32_t t = 0; t < p->plan.n_tasks; t++)
        for (uint32_t i = 0; i < p->tasks[t].n_needs; i++) {
            bool there = false;

            CHECK(box_of(l, p->needs[t][i], &from) != NULL && box_of(l, t, &to) != NULL);
            for (uint32_t k = 0; k < l->n_edges && !there; k++)
                there = l->edges[k].from == from && l->edges[k].to == to;
            CHECK(there);
            found += there;
        }
    CHECK(found >= l->n_edges);
}

/* Crossings counted one pair at a time, from what is drawn. */
static uint64_t crossings_seen(const struct picture *p, const struct fr_layout *l)
{
    struct {
        uint32_t layer;
        int a, b;
    } * s;
    uint64_t n = 0, all = 0;

    for (uint32_t i = 0; i < l->n_edges; i++)
        n += l->edges[i].n_points / 2;
    s = calloc(n + 1, sizeof(*s));
    n = 0;
    for (uint32_t i = 0; i < l->n_edges; i++)
        for (uint32_t k = 0; k + 1 < l->edges[i].n_points; k += 2, n++) {
            s[n].layer = p->tasks[l->boxes[l->edges[i].from].tasks[0]].depth + k / 2;
            s[n].a = l->edges[i].points[k].y;
            s[n].b = l->edges[i].points[k + 1].y;
        }
    for (uint64_t i = 0; i < n; i++)
        for (uint64_t k = 0; k < i; k++)
            all += s[i].layer == s[k].layer &&
                   ((s[i].a < s[k].a && s[i].b > s[k].b) || (s[i].a > s[k].a && s[i].b < s[k].b));
    free(s);
    return all;
}

static bool same(const struct fr_layout *a, const struct fr_layout *b)
{
    bool is = a->n_boxes == b->n_boxes && a->width == b->width && a->height == b->height;

    for (uint32_t i = 0; is && i < a->n_boxes; i++)
        is = a->boxes[i].x == b->boxes[i].x && a->boxes[i].y == b->boxes[i].y;
    return is;
}

/* How good pictures are: crossings, and how far edges lead up and down. */
struct quality {
    uint64_t crossings, bends;
};

static uint64_t bends_of(const struct fr_layout *l)
{
    uint64_t all = 0;

    for (uint32_t i = 0; i < l->n_edges; i++)
        for (uint32_t k = 1; k < l->edges[i].n_points; k++)
            all += (uint64_t)abs(l->edges[i].points[k].y - l->edges[i].points[k - 1].y);
    return all;
}

static void check_picture(const struct picture *p, uint32_t fold, struct quality *all)
{
    struct fr_layout_opts opts = {.fold = fold};
    struct fr_arena arena = {0};
    struct fr_layout *l, *again;

    if (!CHECK(fr_plan_layout(&p->plan, &opts, &arena, &l, NULL) == FR_OK))
        return;
    check_boxes(l);
    check_edges(p, l);
    CHECK(l->crossings <= l->crossings_before);
    CHECK_INT(l->crossings, crossings_seen(p, l));
    CHECK(fr_plan_layout(&p->plan, &opts, &arena, &again, NULL) == FR_OK && same(l, again));
    all->crossings += l->crossings;
    all->bends += bends_of(l);
    fr_arena_finish(&arena);
}

static void test_random(struct picture *p)
{
    struct quality all = {0}, large = {0};

    srand(7);
    for (uint32_t i = 0; i < 200; i++) {
        check_row("random");
        draw_at_random(p, 1 + i % 40, 1 + i % 4, 4 + i % 12);
        check_picture(p, i % 3 == 0 ? 1 : 0, &all);
        drop(p);
    }
    check_row("1,000 tasks");
    draw_at_random(p, 1000, 3, 60);
    check_picture(p, 2000, &large);
    drop(p);
    check_row("no more crossings than today, no edges that are less straight");
    CHECK(all.crossings <= 1947 && large.crossings <= 16605);
    CHECK(all.bends <= 156200 && large.bends <= 725400); /* rounding is the compiler's */
}

/* ---- small ones ---- */

static struct fr_layout *lay(const struct picture *p, bool hooks, struct fr_arena *arena)
{
    struct fr_layout *l = NULL;

    CHECK(fr_plan_layout(&p->plan, &(struct fr_layout_opts){.hooks = hooks}, arena, &l, NULL) ==
          FR_OK);
    return l;
}

static void test_small(struct picture *p)
{
    struct fr_arena arena = {0};
    struct fr_layout *l;

    check_row("nothing");
    begin(p, 0);
    l = lay(p, false, &arena);
    CHECK(l->n_boxes == 0 && l->n_edges == 0 && l->width > 0 && l->height > 0);

    check_row("a crossing that the file's order has is taken out");
    begin(p, 4);
    need(p, 2, 1);
    need(p, 3, 0);
    end(p);
    l = lay(p, false, &arena);
    CHECK_INT(l->crossings_before, 1);
    CHECK_INT(l->crossings, 0);
    drop(p);

    check_row("one that only the way back finds");
    begin(p, 5);
    need(p, 3, 0);
    need(p, 3, 2);
    need(p, 4, 1);
    end(p);
    CHECK_INT(lay(p, false, &arena)->crossings, 0);
    drop(p);
    fr_arena_finish(&arena);
}

static void test_edges(struct picture *p)
{
    struct fr_arena arena = {0};
    struct fr_layout *l;

    check_row("a box makes room for a long edge, not the edge for the box");
    begin(p, 8);
    need(p, 5, 2); /* in the middle of five */
    need(p, 6, 2);
    need(p, 6, 5);
    end(p);
    l = lay(p, false, &arena);
    for (uint32_t i = 0; i < l->n_edges; i++)
        if (l->edges[i].n_points == 4)
            CHECK(abs(l->edges[i].points[1].y - l->edges[i].points[0].y) <= 4);
    drop(p);

    check_row("a long edge is level, the chain beside it too");
    begin(p, 5);
    for (uint32_t t = 1; t < 5; t++)
        need(p, t, t - 1);
    need(p, 4, 0);
    end(p);
    l = lay(p, false, &arena);
    for (uint32_t i = 0; i < l->n_edges; i++)
        for (uint32_t k = 2; l->edges[i].to == 4 && k + 1 < l->edges[i].n_points; k++)
            CHECK_INT(l->edges[i].points[k].y, l->edges[i].points[1].y);
    CHECK(l->boxes[1].y == l->boxes[2].y && l->boxes[2].y == l->boxes[3].y);
    for (uint32_t i = 0; i < l->n_edges; i++)
        CHECK(l->edges[i].critical == (l->edges[i].to == l->edges[i].from + 1));
    drop(p);

    check_row("one among many lies at their middle");
    begin(p, 6);
    for (uint32_t t = 0; t < 5; t++)
        need(p, 5, t);
    end(p);
    l = lay(p, false, &arena);
    CHECK_INT(l->boxes[5].y, l->boxes[2].y);
    drop(p);

    check_row("hooks stand at the right");
    begin(p, 4);
    need(p, 1, 0);
    end(p);
    p->plan.n_hooks = 2;
    p->tasks[2].hook = p->tasks[3].hook = 0;
    CHECK_INT(lay(p, false, &arena)->n_boxes, 2);
    l = lay(p, true, &arena);
    CHECK(l->n_boxes == 4 && l->n_hooks == 2);
    CHECK(l->boxes[2].x > l->boxes[1].x + l->boxes[1].w && l->boxes[3].x == l->boxes[2].x);
    check_boxes(l);
    drop(p);
    fr_arena_finish(&arena);
}

static void test_fold(struct picture *p)
{
    struct fr_arena arena = {0};
    struct fr_layout *l;
    uint32_t at;

    check_row("tasks with the same needs and users are one box");
    begin(p, 600);
    for (uint32_t t = 1; t < 598; t++)
        need(p, t, 0);
    for (uint32_t t = 1; t < 4; t++) /* three of them are used by another */
        need(p, 598, t);
    need(p, 599, 598);
    end(p);
    l = lay(p, false, &arena);
    CHECK_INT(l->n_boxes, 5);
    CHECK_INT(box_of(l, 1, &at)->n_tasks, 3);
    CHECK_INT(box_of(l, 4, &at)->n_tasks, 594);
    CHECK(box_of(l, 4, &at)->tasks[593] == 597);
    CHECK_INT(l->n_edges, 4);
    for (uint32_t i = 0; i < l->n_edges; i++)
        CHECK(l->edges[i].critical == (box_of(l, 4, &at) != &l->boxes[l->edges[i].to]));
    check_boxes(l);
    check_edges(p, l);
    CHECK(fr_plan_layout(&p->plan, &(struct fr_layout_opts){.fold = 600}, &arena, &l, NULL) ==
          FR_OK);
    CHECK_INT(l->n_boxes, 600);
    drop(p);
    fr_arena_finish(&arena);
}

/* 0, then twelve that need it, then 13, which needs these. */
static void test_alike(struct picture *p)
{
    bool apart[14] = {[3] = true, [7] = true, [13] = true}, all[14];
    struct fr_layout_opts opts = {.alike = 12};
    struct fr_arena arena = {0};
    struct fr_layout *l;
    uint32_t at;

    check_row("a few that are alike");
    memset(all, true, sizeof(all));
    begin(p, 14);
    for (uint32_t t = 1; t < 13; t++) {
        need(p, t, 0);
        need(p, 13, t);
    }
    end(p);
    CHECK(fr_plan_layout(&p->plan, &opts, &arena, &l, NULL) == FR_OK);
    CHECK(l->n_boxes == 3 && l->n_edges == 2);
    CHECK_INT(box_of(l, 5, &at)->n_tasks, 12);

    check_row("but for those that lie apart");
    opts.apart = apart;
    CHECK(fr_plan_layout(&p->plan, &opts, &arena, &l, NULL) == FR_OK);
    CHECK(l->n_boxes == 5 && l->n_edges == 6);
    CHECK_INT(box_of(l, 1, &at)->n_tasks, 10);
    CHECK_INT(box_of(l, 7, &at)->n_tasks, 1);
    check_boxes(l);
    check_edges(p, l);
    opts.apart = all;
    CHECK(fr_plan_layout(&p->plan, &opts, &arena, &l, NULL) == FR_OK && l->n_boxes == 14);

    check_row("nor one that starts after a failure, or with another rule");
    opts.apart = NULL;
    opts.alike = 10;
    p->tasks[4].spec = &rescue;
    p->tasks[9].rules = &(struct fr_need_rule){.skip_with = true};
    CHECK(fr_plan_layout(&p->plan, &opts, &arena, &l, NULL) == FR_OK && l->n_boxes == 5);
    CHECK_INT(box_of(l, 4, &at)->n_tasks, 1);
    CHECK_INT(box_of(l, 9, &at)->n_tasks, 1);
    CHECK_INT(box_of(l, 5, &at)->n_tasks, 10);

    check_row("fewer than are folded");
    opts = (struct fr_layout_opts){.alike = 13};
    CHECK(fr_plan_layout(&p->plan, &opts, &arena, &l, NULL) == FR_OK && l->n_boxes == 14);
    drop(p);
    fr_arena_finish(&arena);
}

static size_t left;
static void *(*own_alloc)(size_t n);

static void *alloc_some(size_t n)
{
    return left-- == 0 ? (left = 0, NULL) : own_alloc(n);
}

static void test_no_memory(struct picture *p)
{
    bool done = false;

    draw_at_random(p, 300, 3, 30);
    own_alloc = fr_sys.alloc;
    fr_sys.alloc = alloc_some;
    for (size_t n = 0; n < 1000 && !done; n++) {
        struct fr_arena arena = {0};
        struct fr_layout *l;
        struct fr_err err = {0};

        left = n;
        done = fr_plan_layout(&p->plan, &(struct fr_layout_opts){0}, &arena, &l, &err) == FR_OK;
        CHECK(done == (l != NULL) && done == (err.rc == FR_OK));
        fr_arena_finish(&arena);
    }
    fr_sys.alloc = own_alloc;
    CHECK(done);
    drop(p);
}

/* ---- svg ---- */

static struct fr_plan_look look(void *ctx, uint32_t task)
{
    (void)ctx;
    return (struct fr_plan_look){task == 0 ? "done" : NULL, task == 0 ? "green" : NULL};
}

static const char svg_head[] = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"503\" "
                               "height=\"108\" viewBox=\"0 0 503 108\" "
                               "role=\"img\">\n<title>demo</title>\n";

/* Behind the style sheet. */
static const char svg_rest[] =
    "<path class=\"edge\" d=\"M81 60 C109 60 109 24 137 24\"/>\n"
    "<path class=\"edge critical\" d=\"M81 60 C109 60 109 60 137 60\"/>\n"
    "<path class=\"edge\" d=\"M81 60 C109 60 109 84 137 84 L241 84 C269 84 269 72 297 72\"/>\n"
    "<path class=\"edge critical\" d=\"M206 60 C251 60 251 72 297 72\"/>\n"
    "<g class=\"task critical\">\n"
    "<title>t0, on &lt;n2&gt;</title>\n"
    "<rect x=\"12\" y=\"48\" width=\"69\" height=\"24\" rx=\"4\" style=\"fill:green\"/>\n"
    "<text x=\"20\" y=\"64\">t0 done</text>\n"
    "</g>\n"
    "<g class=\"task\">\n"
    "<title>t1, t2</title>\n"
    "<rect x=\"140\" y=\"15\" width=\"104\" height=\"24\" rx=\"4\"/>\n"
    "<rect x=\"137\" y=\"12\" width=\"104\" height=\"24\" rx=\"4\"/>\n"
    "<text x=\"145\" y=\"28\">2 tasks</text>\n"
    "</g>\n"
    "<g class=\"task critical gang\">\n"
    "<title>t3, a gang, on &lt;n2&gt; n1</title>\n"
    "<rect x=\"137\" y=\"48\" width=\"69\" height=\"24\" rx=\"4\"/>\n"
    "<text x=\"145\" y=\"64\">t3 ×2</text>\n"
    "</g>\n"
    "<g class=\"task critical\">\n"
    "<title>t4, on &lt;n2&gt;</title>\n"
    "<rect x=\"297\" y=\"60\" width=\"69\" height=\"24\" rx=\"4\"/>\n"
    "<text x=\"305\" y=\"76\">t4</text>\n"
    "</g>\n"
    "<g class=\"hook\">\n"
    "<title>t5, on &lt;n2&gt;</title>\n"
    "<rect x=\"422\" y=\"12\" width=\"69\" height=\"24\" rx=\"4\"/>\n"
    "<text x=\"430\" y=\"28\">t5</text>\n"
    "</g>\n"
    "</svg>\n";

static void test_svg(struct picture *p)
{
    struct fr_plan_draw how = {.look = look};
    struct fr_arena arena = {0};
    struct fr_buf out = {0};

    check_row("svg");
    begin(p, 3);
    need(p, 1, 0);
    need(p, 2, 1);
    need(p, 2, 0);
    end(p);
    snprintf(p->names[0], sizeof(p->names[0]), "<a&\"\033");
    snprintf(p->names[1], sizeof(p->names[1]), "äöüäöüäöü");
    p->tasks[1].count = p->tasks[1].width = 3;
    p->tasks[1].gang = true;
    fr_plan_draw_svg(&p->plan, lay(p, false, &arena), &how, &out);
    CHECK(!out.bad && fr_has_prefix(out.p, "<svg xmlns="));
    CHECK(strstr(out.p, "<title>&lt;a&amp;&quot;\\x1b</title>") != NULL);
    CHECK(strstr(out.p, ">&lt;a&amp;&quot;\\x1b done</text>") != NULL);
    CHECK(strstr(out.p, "style=\"fill:green\"") != NULL);
    CHECK(strstr(out.p, "<title>äöüäöüäöü, a gang</title>") != NULL);
    CHECK(strstr(out.p, ">äöüäöüäöü ×3</text>") != NULL);
    CHECK(strstr(out.p, "class=\"edge critical\"") != NULL &&
          strstr(out.p, "class=\"edge\"") != NULL);
    CHECK(strstr(out.p, " L") != NULL); /* the long edge */
    CHECK(strchr(out.p, '\033') == NULL && fr_utf8_valid(out.p, out.n));
    fr_buf_finish(&out);
    drop(p);

    check_row("a long name ends with an ellipsis, within a character");
    out = (struct fr_buf){0};
    begin(p, 1);
    end(p);
    p->tasks[0].name = "ääääääääääääääääääääääääääääääääääää";
    fr_plan_draw_svg(&p->plan, lay(p, false, &arena), NULL, &out);
    CHECK(strstr(out.p, "ä…</text>") != NULL && fr_utf8_valid(out.p, out.n));
    fr_buf_finish(&out);
    drop(p);

    check_row("a folded box");
    out = (struct fr_buf){0};
    begin(p, 500);
    end(p);
    fr_plan_draw_svg(&p->plan, lay(p, false, &arena), NULL, &out);
    CHECK(strstr(out.p, ">500 tasks</text>") != NULL && strstr(out.p, " and 450 more") != NULL);
    CHECK(strstr(out.p, "<title>t0, t1, t2, ") != NULL);
    fr_buf_finish(&out);
    drop(p);
    fr_arena_finish(&arena);
}

/* A gang, a folded box, a hook; titles name nodes. */
static void test_svg_whole(struct picture *p)
{
    struct fr_plan_draw how = {.look = look, .nodes = true};
    struct fr_arena arena = {0};
    struct fr_layout *l;
    struct fr_buf out = {0};

    check_row("every byte of a picture");
    begin(p, 6);
    for (uint32_t t = 1; t < 4; t++)
        need(p, t, 0);
    need(p, 4, 0);
    need(p, 4, 3);
    end(p);
    p->tasks[3].count = p->tasks[3].width = 2;
    p->tasks[3].gang = true;
    p->tasks[3].first = p->tasks[4].first = 1;
    p->tasks[5].hook = 0;
    p->plan.n_hooks = 1;
    p->plan.nodes = (struct fr_plan_node[]){{.name = "n1"}, {.name = "<n2>"}};
    p->plan.insts = (struct fr_plan_inst[]){{.node = 1}, {.node = 1}, {.node = 0}};
    CHECK(fr_plan_layout(&p->plan, &(struct fr_layout_opts){.hooks = true, .alike = 2}, &arena, &l,
                         NULL) == FR_OK);
    fr_plan_draw_svg(&p->plan, l, &how, &out);
    CHECK(fr_has_prefix(out.p, svg_head));
    CHECK_TEXT(strstr(out.p, "<path"), svg_rest);
    fr_buf_finish(&out);
    drop(p);
    fr_arena_finish(&arena);
}

int main(void)
{
    struct picture *p = malloc(sizeof(*p));

    test_small(p);
    test_edges(p);
    test_fold(p);
    test_random(p);
    test_alike(p);
    test_no_memory(p);
    test_svg(p);
    test_svg_whole(p);
    free(p);
    return check_done();
}
