/* Where routed experts are: this program's moe block, and DeepSpeed's expert_parallel. */
#include "trainer/config/ds_read.h"

#include <stdio.h>
#include <string.h>

static enum fr_rc ranks_of(const struct tr_fields *f, const char *key, int64_t *out,
                           struct fr_err *err)
{
    enum fr_rc rc = tr_ds_auto(tr_field(f, key)) ? FR_OK : tr_field_i64(f, key, out, err);

    if (rc == FR_OK && *out < 0)
        return tr_field_bad(f, key, "a number of ranks", err);
    return rc;
}

/* Reads the ranks of the experts. A block without them belongs to another program and changes
 * nothing. */
static enum fr_rc read_moe(struct tr_ds_read *r, const struct tr_fields *f, struct fr_err *err)
{
    struct tr_ds_config *c = r->out;
    const char *group = "auto", *placement = "";
    bool asked = tr_field(f, "expert_parallel_size") != NULL || tr_field(f, "expert_group") != NULL;
    enum fr_rc rc;

    if ((rc = tr_ds_keys(r, f, "moe", err)) != FR_OK ||
        (rc = tr_field_bool(f, "enabled", &c->experts_stay, err)) != FR_OK ||
        (rc = ranks_of(f, "expert_parallel_size", &c->expert_ranks, err)) != FR_OK ||
        (rc = tr_field_text(f, "expert_group", &group, err)) != FR_OK ||
        (rc = tr_field_text(f, "expert_placement", &placement, err)) != FR_OK)
        return rc;
    if (snprintf(c->expert_placement, TR_DS_PATH, "%s", placement) >= TR_DS_PATH)
        return tr_field_bad(f, "expert_placement", "a shorter path", err);
    c->expert_group = strcmp(group, "node") == 0    ? TR_EXPERTS_NODE
                      : strcmp(group, "world") == 0 ? TR_EXPERTS_WORLD
                                                    : TR_EXPERTS_ANY;
    if (c->expert_group == TR_EXPERTS_ANY && strcmp(group, "auto") != 0)
        return tr_field_bad(f, "expert_group", "\"node\", \"world\" or \"auto\"", err);
    if (c->experts_stay != asked)
        tr_ds_note(r, "moe changes nothing, experts are sharded with everything else: enabled and "
                      "one of expert_group and expert_parallel_size keep them on their ranks");
    c->experts_stay = c->experts_stay && asked;
    return FR_OK;
}

/* Reads the size in DeepSpeed's block. If moe is present, too, both must agree. */
static enum fr_rc read_autoep(struct tr_ds_read *r, const struct tr_fields *f, bool moe,
                              struct fr_err *err)
{
    struct tr_ds_config *c = r->out;
    bool enabled = false;
    int64_t size = 1;
    enum fr_rc rc;

    if ((rc = tr_ds_keys(r, f, "expert_parallel", err)) != FR_OK ||
        (rc = tr_field_bool(f, "enabled", &enabled, err)) != FR_OK ||
        (rc = ranks_of(f, "autoep_size", &size, err)) != FR_OK)
        return rc;
    if (enabled && size < 1)
        return tr_field_bad(f, "autoep_size", "a number of ranks from 1", err);
    if (enabled && size == 1)
        tr_ds_note(r, "expert_parallel: autoep_size 1: experts are sharded with everything else");
    enabled = enabled && size > 1;
    if (moe && (enabled != c->experts_stay ||
                (enabled && c->expert_ranks != 0 && c->expert_ranks != size)))
        return fr_fail(err, FR_USAGE,
                       "%s: expert_parallel and moe say different things: leave one of them out",
                       r->name);
    c->experts_stay = enabled;
    c->expert_ranks = enabled ? size : 0;
    return FR_OK;
}

enum fr_rc tr_ds_experts(struct tr_ds_read *r, struct fr_err *err)
{
    char where[512], where_auto[512];
    struct tr_fields moe, autoep;
    enum fr_rc rc;

    if ((rc = tr_ds_block(r, "moe", &moe, where, err)) != FR_OK ||
        (rc = tr_ds_block(r, "expert_parallel", &autoep, where_auto, err)) != FR_OK)
        return rc;
    if (moe.object != NULL && (rc = read_moe(r, &moe, err)) != FR_OK)
        return rc;
    if (autoep.object != NULL)
        return read_autoep(r, &autoep, moe.object != NULL, err);
    return FR_OK;
}
