/* Simulates the number of nodes and ranks that a token goes to. */
#include "engine/base/sys.h"
#include "trainer/plan/plan.h"
#include "trainer/shard/owners.h"

#include <stdlib.h>
#include <string.h>

enum { DRAWS = 20000, NODES_MAX = 64 };

/* SplitMix64 (Steele, Lea, Flood 2014). */
static uint64_t draw(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Scores are integers: only their order matters. */
struct drawn {
    const struct tr_model_config *c;
    uint64_t state;
    uint64_t *score; /* (E) */
    bool *open;      /* (E) in a chosen group */
    int32_t *rank;   /* (E) owners */
    int64_t gpus;
};

/* The sum of a group's two best scores, halved so that it fits. */
static uint64_t group_score(const struct drawn *d, int64_t group, int64_t size)
{
    uint64_t best = 0, next = 0;

    for (int64_t e = group * size; e < (group + 1) * size; e++) {
        uint64_t s = d->score[e];

        if (s > best) {
            next = best;
            best = s;
        } else if (s > next) {
            next = s;
        }
    }
    return best / 2 + next / 2;
}

static void choose_groups(struct drawn *d)
{
    int64_t groups = d->c->n_group > 1 ? d->c->n_group : 1;
    int64_t size = d->c->n_routed_experts / groups, take = d->c->topk_group;

    memset(d->open, groups == 1, (size_t)d->c->n_routed_experts * sizeof(*d->open));
    for (int64_t k = 0; groups > 1 && k < take; k++) {
        uint64_t best = 0;
        int64_t at = -1;

        for (int64_t g = 0; g < groups; g++) {
            uint64_t s = group_score(d, g, size);

            if (!d->open[g * size] && (at < 0 || s > best)) {
                best = s;
                at = g;
            }
        }
        for (int64_t e = at * size; at >= 0 && e < (at + 1) * size; e++)
            d->open[e] = true;
    }
}

/* The ranks with experts of one token: for each node, one bit per rank. */
static void draw_token(struct drawn *d, uint64_t ranks[NODES_MAX])
{
    int64_t E = d->c->n_routed_experts;

    for (int64_t e = 0; e < E; e++)
        d->score[e] = draw(&d->state);
    choose_groups(d);
    for (int64_t k = 0; k < d->c->num_experts_per_tok; k++) {
        int64_t best = -1;

        for (int64_t e = 0; e < E; e++)
            if (d->open[e] && (best < 0 || d->score[e] > d->score[best]))
                best = e;
        if (best < 0)
            return;
        d->open[best] = false;
        ranks[d->rank[best] / d->gpus] |= UINT64_C(1) << (d->rank[best] % d->gpus);
    }
}

/* A token of rank (home, place) goes once to each other node, to the rank of the same place, and
 * from there and from its own once to each further rank. */
static void count(const uint64_t ranks[NODES_MAX], int64_t nodes, int64_t gpus,
                  struct tr_plan_spread *sum)
{
    double sources = (double)(nodes * gpus);

    for (int64_t j = 0; j < nodes; j++) {
        int owners = __builtin_popcountll(ranks[j]);

        if (owners == 0)
            continue;
        sum->far += (double)(nodes - 1) / (double)nodes;
        for (int64_t place = 0; place < gpus; place++) {
            int here = (int)(ranks[j] >> place & 1);

            sum->near += (double)nodes * (owners - here) / sources;
            sum->self += (double)nodes * here / sources;
        }
    }
}

enum fr_rc tr_plan_spread(const struct tr_model_config *c, int64_t nodes, int64_t gpus,
                          struct tr_plan_spread *out, struct fr_err *err)
{
    size_t E = (size_t)c->n_routed_experts;
    struct drawn d = {.c = c, .state = 1, .gpus = gpus};
    int32_t *local = fr_sys.alloc(E * sizeof(*local));
    enum fr_rc rc = FR_OK;

    *out = (struct tr_plan_spread){0};
    d.score = fr_sys.alloc(E * sizeof(*d.score));
    d.open = fr_sys.alloc(E * sizeof(*d.open));
    d.rank = fr_sys.alloc(E * sizeof(*d.rank));
    if (local == NULL || d.score == NULL || d.open == NULL || d.rank == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for %zu experts", E);
    else
        rc = tr_owners_place((int64_t)E, (int)(nodes * gpus), NULL, d.rank, local, err);
    for (int i = 0; rc == FR_OK && i < DRAWS; i++) {
        uint64_t ranks[NODES_MAX] = {0};

        draw_token(&d, ranks);
        count(ranks, nodes, gpus, out);
    }
    out->far /= DRAWS;
    out->near /= DRAWS;
    out->self /= DRAWS;
    fr_sys.free(local);
    fr_sys.free(d.score);
    fr_sys.free(d.open);
    fr_sys.free(d.rank);
    return rc;
}
