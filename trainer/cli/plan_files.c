#include "trainer/cli/plan_files.h"

#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "trainer/config/arch.h"
#include "trainer/config/folder.h"
#include "trainer/train/experts.h"

#include <stdio.h>
#include <string.h>

struct walk {
    const struct tr_planned *p;
    const struct tr_st *st;
    int64_t node;
    int32_t *owners;      /* owns: (MoE layers, E); NULL: experts are sharded as the rest */
    unsigned char *files; /* owns: which are needed */
    int64_t layer, moe;   /* the last one, and its number among those with experts */
};

/* Whether a rank of the node owns the expert: ranks of a group are numbered from 0 in each. */
static bool owns(const struct walk *w, int64_t moe, int64_t expert)
{
    int64_t g = w->p->cluster.gpus, P = w->p->way.experts;
    int32_t owner = w->owners[moe * w->p->config.n_routed_experts + expert];

    for (int64_t i = 0; i < g; i++)
        if ((w->node * g + i) % P == owner)
            return true;
    return false;
}

static enum fr_rc mark(struct walk *w, const char *name, struct fr_err *err)
{
    const struct tr_st_tensor *t = tr_st_find(w->st, name);

    if (t == NULL)
        return fr_fail(err, FR_NOTFOUND, "%s: no such tensor in the checkpoint", name);
    w->files[t->file] = 1;
    return FR_OK;
}

static enum fr_rc look(void *arg, const struct tr_model_tensor *t, struct fr_err *err)
{
    struct walk *w = arg;
    char scale[TR_NAME_MAX + 16];
    enum fr_rc rc;

    if (t->expert >= 0 && t->layer != w->layer) {
        w->layer = t->layer;
        w->moe++;
    }
    if (t->expert >= 0 && w->owners != NULL && !owns(w, w->moe, t->expert))
        return FR_OK;
    rc = mark(w, t->name, err);
    if (rc != FR_OK || !w->p->config.fp8 || t->role != TR_ROLE_LINEAR)
        return rc;
    (void)snprintf(scale, sizeof(scale), "%s_scale_inv", t->name);
    return mark(w, scale, err);
}

/* As the run places its experts. */
static enum fr_rc place(struct walk *w, struct fr_err *err)
{
    const struct tr_model_config *c = &w->p->config;
    int64_t E = c->n_routed_experts, L = tr_model_moe_count(c), P = w->p->way.experts;
    struct tr_expert_places places = {.numbers = NULL};
    enum fr_rc rc;

    if (P == 0)
        return FR_OK;
    if (w->p->ds.expert_placement[0] != '\0') {
        rc = tr_experts_read(w->p->ds.expert_placement, c, &places, err);
        if (rc == FR_OK)
            rc = tr_experts_place(&places, c, (int)P, &w->owners, err);
        fr_sys.free(places.numbers);
        return rc;
    }
    if ((w->owners = fr_sys.alloc((size_t)(L * E) * sizeof(*w->owners))) == NULL)
        return fr_fail(err, FR_NOMEM, "owners of %lld experts", (long long)(L * E));
    for (int64_t i = 0; i < L * E; i++)
        w->owners[i] = (int32_t)(i % E * P / E);
    return FR_OK;
}

enum fr_rc tr_plan_files(const struct tr_planned *p, const char *model, int64_t node,
                         struct fr_err *err)
{
    struct walk w = {.p = p, .node = node, .layer = -1, .moe = -1};
    struct tr_st *st = NULL;
    enum fr_rc rc;

    if (node < 0 || node >= p->cluster.nodes)
        return fr_fail(err, FR_USAGE, "--files %lld: expected a node, 0 to %lld", (long long)node,
                       (long long)p->cluster.nodes - 1);
    if ((rc = tr_st_open_part(model, &st, err)) != FR_OK)
        return rc;
    w.st = st;
    rc = tr_folder_names(&p->config, st, NULL, err);
    if (rc == FR_OK && (w.files = fr_sys.alloc(tr_st_files(st) + 1)) == NULL)
        rc = fr_fail(err, FR_NOMEM, "a list of %zu files", tr_st_files(st));
    if (rc == FR_OK)
        memset(w.files, 0, tr_st_files(st) + 1);
    if (rc == FR_OK)
        rc = place(&w, err);
    if (rc == FR_OK)
        rc = tr_model_tensors(&p->config, look, &w, err);
    /* it says whether the head is the embedding */
    if (rc == FR_OK && tr_st_find(st, tr_names_of(&p->config)->head) != NULL)
        rc = mark(&w, tr_names_of(&p->config)->head, err);
    for (size_t k = 0; k < tr_st_files(st) && rc == FR_OK; k++)
        if (w.files[k] != 0)
            fr_print("%s\n", tr_st_file_name(st, k));
    fr_sys.free(w.owners);
    fr_sys.free(w.files);
    tr_st_close(st);
    return rc;
}
