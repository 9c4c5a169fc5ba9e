#include "trainer/train/experts.h"

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/sys.h"
#include "trainer/report/metrics.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int64_t tr_experts_layer(const struct tr_model_config *c, int64_t i)
{
    int64_t l = 0;

    while (!tr_model_is_moe(c, l) || i-- > 0)
        l++;
    return l;
}

/* ---- writing ---- */

/* The sum over all ranks, owned by the caller. */
static enum fr_rc sum_rows(const struct tr_expert_report *r, size_t n, int64_t **out,
                           struct fr_err *err)
{
    size_t W = (size_t)r->world->size;
    int64_t *all = fr_sys.alloc(W * n * sizeof(*all));
    enum fr_rc rc;

    *out = all;
    if (all == NULL)
        return fr_fail(err, FR_NOMEM, "counts of %zu experts of %zu ranks", n, W);
    rc = tr_comm_host_all_gather(r->world, all, tr_model_expert_rows(r->model), n * sizeof(*all),
                                 err);
    for (size_t k = 1; k < W && rc == FR_OK; k++)
        for (size_t i = 0; i < n; i++)
            all[i] += all[k * n + i];
    return rc;
}

static json_t *file_of(const struct tr_model_config *c, const int64_t *rows)
{
    json_t *layers = json_array();
    int64_t E = c->n_routed_experts;

    for (int64_t i = 0; i < tr_model_moe_count(c); i++) {
        json_t *list = json_array();

        for (int64_t e = 0; e < E; e++)
            json_array_append_new(list, json_integer(rows[i * E + e]));
        json_array_append_new(layers, json_pack("{s:I, s:o}", "layer",
                                                (json_int_t)tr_experts_layer(c, i), "rows", list));
    }
    return json_pack("{s:I, s:I, s:o}", "experts", (json_int_t)E, "experts_per_token",
                     (json_int_t)c->num_experts_per_tok, "layers", layers);
}

static enum fr_rc write_rows(const struct tr_expert_report *r, const int64_t *rows,
                             struct fr_err *err)
{
    char path[PATH_MAX];
    json_t *root = file_of(r->config, rows);
    char *text = root != NULL ? json_dumps(root, JSON_COMPACT) : NULL;
    enum fr_rc rc = FR_NOMEM;

    (void)snprintf(path, sizeof(path), "%s/expert_counts.json", r->output_dir);
    if (text != NULL)
        rc = fr_file_write(path, text, strlen(text), 0644, err);
    else
        (void)fr_fail(err, FR_NOMEM, "no memory for %s", path);
    free(text);
    json_decref(root);
    return rc;
}

/* The worst layer as it is, and as its counts would place it. */
static enum fr_rc say_skew(const struct tr_expert_report *r, const int64_t *rows,
                           struct fr_err *err)
{
    int64_t E = r->config->n_routed_experts, L = tr_model_moe_count(r->config), worst = 0;
    int32_t *placed = fr_sys.alloc(2 * (size_t)E * sizeof(*placed));
    double most = 0, then = 0;
    enum fr_rc rc = placed != NULL ? FR_OK : fr_fail(err, FR_NOMEM, "a table of owners");

    for (int64_t i = 0; i < L && rc == FR_OK; i++) {
        double now =
            tr_owners_skew(E, r->group->size, rows + i * E, tr_model_owners(r->model, i)->rank);

        rc = tr_owners_place(E, r->group->size, rows + i * E, placed, placed + E, err);
        then = fmax(then, tr_owners_skew(E, r->group->size, rows + i * E, placed));
        worst = now > most ? i : worst;
        most = fmax(most, now);
    }
    if (rc == FR_OK && most > 0)
        tr_say("Rows of experts: the busiest rank has %.2f times the mean (layer %lld); placed by "
               "expert_counts.json (moe.expert_placement) it would have %.2f",
               most, (long long)tr_experts_layer(r->config, worst), then);
    fr_sys.free(placed);
    return rc;
}

enum fr_rc tr_experts_report(const struct tr_expert_report *r, struct fr_err *err)
{
    size_t n = (size_t)(tr_model_moe_count(r->config) * r->config->n_routed_experts);
    int64_t *rows;
    enum fr_rc rc;

    if (r->group == NULL)
        return FR_OK;
    rc = sum_rows(r, n, &rows, err);
    if (rc == FR_OK && r->world->rank == 0)
        rc = write_rows(r, rows, err);
    if (rc == FR_OK && r->world->rank == 0 && r->say)
        rc = say_skew(r, rows, err);
    fr_sys.free(rows);
    return rc;
}
