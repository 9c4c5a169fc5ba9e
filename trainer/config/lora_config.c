#include "trainer/config/lora_config.h"

#include "engine/base/sys.h"
#include "trainer/config/arch.h"
#include "trainer/config/lora_saves.h"
#include "trainer/config/regex.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tr_lora_finish(struct tr_lora_config *c)
{
    if (c == NULL)
        return;
    fr_arena_finish(&c->arena);
    *c = (struct tr_lora_config){.r = 0};
}

/* A flag's names, comma between. */
struct names_flag {
    const char *flag, *text;
};

/* "a, b" as a list in the arena. */
static enum fr_rc split(struct fr_arena *arena, struct names_flag f, const char *const **out,
                        size_t *n, struct fr_err *err)
{
    const char *text = f.text;
    size_t most = 1;

    for (const char *p = text; *p != '\0'; p++)
        most += *p == ',';
    const char **list = fr_arena_array(arena, most, sizeof(*list));
    if (list == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for --%s", f.flag);
    *n = 0;
    for (const char *p = text; *p != '\0';) {
        size_t len = strcspn(p, ","), skip = len;
        while (len > 0 && isspace((unsigned char)*p))
            p++, len--, skip--;
        while (len > 0 && isspace((unsigned char)p[len - 1]))
            len--;
        if (len > 0 && (list[(*n)++] = fr_arena_text(arena, p, len)) == NULL)
            return fr_fail(err, FR_NOMEM, "no memory for --%s", f.flag);
        p += skip + (p[skip] == ',');
    }
    *out = list;
    return *n > 0 ? FR_OK : fr_fail(err, FR_USAGE, "--%s names no module", f.flag);
}

enum fr_rc tr_lora_from_args(const struct tr_args *a, struct tr_lora_config *out,
                             struct fr_err *err)
{
    const char *saves = a->additional_target != NULL ? a->additional_target
                        : a->resize_vocab            ? "embed_tokens,lm_head"
                                                     : NULL;
    enum fr_rc rc = FR_OK;

    *out = (struct tr_lora_config){.r = a->lora_rank,
                                   .alpha = a->lora_alpha,
                                   .dropout = a->lora_dropout,
                                   .rslora = a->use_rslora};
    out->base_model = fr_arena_dup(&out->arena, a->model_name_or_path);
    out->all_linear = strcmp(a->lora_target, "all") == 0;
    if (!out->all_linear)
        rc = split(&out->arena, (struct names_flag){"lora_target", a->lora_target}, &out->targets,
                   &out->ntargets, err);
    if (rc == FR_OK && saves != NULL)
        rc = split(&out->arena, (struct names_flag){"additional_target", saves}, &out->saves,
                   &out->nsaves, err);
    if (rc == FR_OK && out->base_model == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for the adapter's configuration");
    if (rc != FR_OK)
        tr_lora_finish(out);
    return rc;
}

/* The linears that "all" stands for: those of attention, of dense FFNs, of shared experts. */
enum { LINEARS = TR_LIN_DOWN + TR_OF_SHARED + 1 };

/* The target of a linear, the end of its name: "q_proj", of an FFN "mlp.up_proj" or
 * "shared_experts.up_proj", so that it is no routed expert's. brief: "up_proj". */
static const char *target_of(const char *name, bool brief)
{
    const char *p = name + strlen(name);

    for (int components = brief ? 1 : 2; p > name && (p[-1] != '.' || --components > 0); p--)
        ;
    return p;
}

/* Which of the linears a model has. */
static enum fr_rc note_linear(void *arg, const struct tr_model_tensor *t, struct fr_err *err)
{
    bool *has = arg;

    (void)err;
    if (t->role == TR_ROLE_LINEAR && t->expert < 0)
        has[t->kind + (t->expert == -2 ? TR_OF_SHARED : 0)] = true;
    return FR_OK;
}

enum fr_rc tr_lora_resolve(struct tr_lora_config *c, const struct tr_model_config *m,
                           struct fr_err *err)
{
    bool has[LINEARS] = {false};
    const char **list;
    enum fr_rc rc;

    if (!c->all_linear)
        return FR_OK;
    if ((list = fr_arena_array(&c->arena, LINEARS, sizeof(*list))) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for --lora_target");
    if ((rc = tr_model_tensors(m, note_linear, has, err)) != FR_OK)
        return rc;
    c->ntargets = 0;
    for (int i = 0; i < LINEARS; i++)
        if (has[i])
            list[c->ntargets++] = target_of(tr_names_of(m)->linear[i],
                                            i < TR_LIN_ATTENTION || m->n_routed_experts == 0);
    c->targets = list;
    c->all_linear = false;
    return FR_OK;
}

static bool listed(const char *module, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (tr_module_ends(module, list[i]))
            return true;
    return false;
}

/* Whether "all" of some architecture has the module. */
static bool any_linear(const char *module)
{
    const struct tr_arch_row *arch;
    bool hit = false;

    for (size_t k = 0; (arch = tr_arch_at(k)) != NULL; k++)
        hit = hit || (unsigned)tr_names_linear(arch->names, module) < LINEARS;
    return hit;
}

/* The first path component that is a number and follows another, -1 when there is none. */
static int64_t layer_of(const char *module)
{
    for (const char *p = strchr(module, '.'); p != NULL; p = strchr(p + 1, '.')) {
        char *end;
        if (!isdigit((unsigned char)p[1]))
            continue;
        long long n = strtoll(p + 1, &end, 10);
        if (*end == '.' || *end == '\0')
            return n;
    }
    return -1;
}

static enum fr_rc targeted(const struct tr_lora_config *c, const char *module, bool *hit,
                           struct fr_err *err)
{
    bool out = false;
    enum fr_rc rc;

    *hit = false;
    if (tr_lora_saves(c, module))
        return FR_OK;
    if (c->exclude_regex != NULL &&
        (rc = tr_regex_whole(c->exclude_regex, module, &out, err)) != FR_OK)
        return rc;
    if (out || listed(module, c->excludes, c->nexcludes))
        return FR_OK;
    if (c->target_regex != NULL)
        return tr_regex_whole(c->target_regex, module, hit, err);
    *hit = c->all_linear ? any_linear(module) : listed(module, c->targets, c->ntargets);
    if (*hit && c->nlayers > 0) {
        int64_t layer = layer_of(module);
        *hit = false;
        for (size_t i = 0; i < c->nlayers; i++)
            *hit = *hit || c->layers[i] == layer;
    }
    return FR_OK;
}

/* The value of the first pattern that applies to module; *value stays otherwise. */
static enum fr_rc by_pattern(const struct tr_lora_pattern *p, size_t n, const char *module,
                             double *value, struct fr_err *err)
{
    for (size_t i = 0; i < n; i++) {
        struct fr_buf re = {0};
        bool hit = false;
        fr_buf_fmt(&re, "(.*\\.)?(%s)", p[i].key);
        enum fr_rc rc = re.bad ? fr_fail(err, FR_NOMEM, "no memory for a pattern")
                               : tr_regex_whole(re.p, module, &hit, err);
        fr_buf_finish(&re);
        if (rc != FR_OK)
            return rc;
        if (hit) {
            *value = p[i].value;
            return FR_OK;
        }
    }
    return FR_OK;
}

enum fr_rc tr_lora_match(const struct tr_lora_config *c, const char *module,
                         struct tr_lora_hit *out, struct fr_err *err)
{
    double r = (double)c->r, alpha = c->alpha;
    enum fr_rc rc;

    *out = (struct tr_lora_hit){.adapted = false};
    if ((rc = targeted(c, module, &out->adapted, err)) != FR_OK || !out->adapted)
        return rc;
    if ((rc = by_pattern(c->rank_pattern, c->nrank, module, &r, err)) != FR_OK ||
        (rc = by_pattern(c->alpha_pattern, c->nalpha, module, &alpha, err)) != FR_OK)
        return rc;
    out->r = (int64_t)r;
    out->alpha = alpha;
    out->scale = (float)(alpha / (c->rslora ? sqrt(r) : r));
    return FR_OK;
}

enum fr_rc tr_lora_match_tensor(const struct tr_lora_config *c, const struct tr_model_tensor *t,
                                char module[TR_NAME_MAX], struct tr_lora_hit *out,
                                struct fr_err *err)
{
    *out = (struct tr_lora_hit){.adapted = false};
    return t->role == TR_ROLE_LINEAR && tr_model_module(t->name, module)
               ? tr_lora_match(c, module, out, err)
               : FR_OK;
}

/* PEFT >= 0.19 takes these names for parameters of fused routed experts. */
static bool rewritten(const char *module)
{
    static const char *const names[] = {"gate_proj", "up_proj", "down_proj"};

    return listed(module, names, sizeof(names) / sizeof(names[0]));
}

/* What targets match in a model. */
struct tally {
    const struct tr_lora_config *c;
    bool *used;        /* owns: of each target of the list, whether a module has its name */
    bool has[LINEARS]; /* which linears the model has */
    bool experts;      /* it has routed experts, adapted or not */
    size_t hits, routed, rewritten;
    int64_t routed_params;
    char first_routed[TR_NAME_MAX], first_rewritten[TR_NAME_MAX];
};

/* Counts one more module; the first one's name stays. */
static void count(size_t *n, char first[TR_NAME_MAX], const char *module)
{
    if ((*n)++ == 0)
        (void)snprintf(first, TR_NAME_MAX, "%s", module);
}

static enum fr_rc look(void *arg, const struct tr_model_tensor *t, struct fr_err *err)
{
    struct tally *k = arg;
    char module[TR_NAME_MAX];
    struct tr_lora_hit hit;
    enum fr_rc rc;

    if (!tr_model_module(t->name, module))
        return FR_OK;
    for (size_t i = 0; i < k->c->ntargets; i++)
        k->used[i] = k->used[i] || tr_module_ends(module, k->c->targets[i]);
    (void)note_linear(k->has, t, err);
    k->experts = k->experts || t->expert >= 0;
    if ((rc = tr_lora_match(k->c, module, &hit, err)) != FR_OK || !hit.adapted)
        return rc;
    if (t->role != TR_ROLE_LINEAR)
        return fr_fail(err, FR_USAGE,
                       "LoRA target %s is no linear map of attention, FFN or experts", module);
    k->hits++;
    if (t->expert >= 0) {
        count(&k->routed, k->first_routed, module);
        k->routed_params += hit.r * (t->shape[0] + t->shape[1]);
    } else if (rewritten(module)) {
        count(&k->rewritten, k->first_rewritten, module);
    }
    return FR_OK;
}

/* "q_proj,k_proj,…": the targets of the first n linears, of those that the model has. */
static void list_linears(const struct tally *k, const struct tr_tensor_names *names, int n,
                         const char *between, struct fr_buf *out)
{
    size_t start = out->n;

    for (int i = 0; i < n; i++)
        if (k->has[i])
            fr_buf_fmt(out, "%s%s", out->n > start ? between : "",
                       target_of(names->linear[i], i < TR_LIN_ATTENTION));
}

static void put_notes(const struct tally *k, const struct tr_tensor_names *names,
                      struct fr_buf *notes)
{
    for (size_t i = 0; i < k->c->ntargets; i++)
        if (!k->used[i])
            fr_buf_fmt(notes, "lora_target '%s' matches no module\n", k->c->targets[i]);
    if (!k->experts || k->rewritten == 0)
        return;
    fr_buf_fmt(notes,
               "%zu of %zu adapters are on FFNs (%s …): PEFT up to 0.18 and transformers 4 "
               "load them, PEFT 0.19 and later on transformers 5 take their names for routed "
               "experts and do not; an adapter that loads on every stack has --lora_target ",
               k->rewritten, k->hits, k->first_rewritten);
    list_linears(k, names, TR_LIN_ATTENTION, ",", notes);
    fr_buf_text(notes, "\n");
}

static enum fr_rc no_match(const struct tally *k, const struct tr_tensor_names *names,
                           struct fr_err *err)
{
    const struct tr_lora_config *c = k->c;
    struct fr_buf linears = {0};

    list_linears(k, names, LINEARS, ", ", &linears);
    (void)fr_fail(err, FR_USAGE, "LoRA targets (%s%s) match no module of the model (%s)",
                  c->ntargets > 0 ? c->targets[0] : "", c->ntargets > 1 ? ", …" : "",
                  linears.p != NULL ? linears.p : "");
    fr_buf_finish(&linears);
    return FR_USAGE;
}

enum fr_rc tr_lora_refuse_head(const struct tr_lora_config *c, struct fr_err *err)
{
    const struct tr_arch_row *arch;
    struct tr_lora_hit hit;
    enum fr_rc rc;

    for (size_t k = 0; (arch = tr_arch_at(k)) != NULL; k++) {
        char head[TR_NAME_MAX];

        (void)tr_model_module(arch->names->head, head);
        if ((rc = tr_lora_match(c, head, &hit, err)) != FR_OK)
            return rc;
        if (hit.adapted)
            return fr_fail(err, FR_UNSUPPORTED,
                           "LoRA target %s: adapters of the head are not done. PEFT adapts the "
                           "head alone; where it is tied, the embedding stays as it is and merging "
                           "changes both. Take %s out of the targets",
                           head, head);
    }
    return FR_OK;
}

static enum fr_rc check(struct tally *k, const struct tr_model_config *m, struct fr_buf *notes,
                        struct fr_err *err)
{
    const struct tr_tensor_names *names = tr_names_of(m);
    enum fr_rc rc = tr_lora_refuse_head(k->c, err);

    if (rc == FR_OK)
        rc = tr_lora_check_saves(k->c, m, err);
    if (rc != FR_OK || (rc = tr_model_tensors(m, look, k, err)) != FR_OK)
        return rc;
    if (k->hits == 0)
        return no_match(k, names, err);
    if (k->routed > 0)
        return fr_fail(err, FR_UNSUPPORTED,
                       "LoRA targets hit %zu linears of routed experts (%s …): their adapters have "
                       "%lld parameters, held by every rank, and are not supported; name dense "
                       "FFNs as mlp.gate_proj and shared experts as shared_experts.gate_proj, or "
                       "take --lora_target all",
                       k->routed, k->first_routed, (long long)k->routed_params);
    if (notes != NULL)
        put_notes(k, names, notes);
    return FR_OK;
}

enum fr_rc tr_lora_check(const struct tr_lora_config *c, const struct tr_model_config *m,
                         size_t *hits, struct fr_buf *notes, struct fr_err *err)
{
    struct tally k = {.c = c, .used = fr_sys.alloc(c->ntargets + 1)};
    enum fr_rc rc;

    *hits = 0;
    if (k.used == NULL)
        return fr_fail(err, FR_NOMEM, "%zu LoRA targets", c->ntargets);
    memset(k.used, 0, c->ntargets + 1);
    rc = check(&k, m, notes, err);
    fr_sys.free(k.used);
    if (rc == FR_OK)
        *hits = k.hits;
    if (rc == FR_OK || c->dir == NULL)
        return rc;
    return fr_while(err, "the adapter in %s, which was made for %s, does not fit this model",
                    c->dir, c->base_model != NULL ? c->base_model : "another one");
}
