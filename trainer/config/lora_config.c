#include "trainer/config/lora_config.h"

#include "trainer/config/regex.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void tr_lora_finish(struct tr_lora_config *c)
{
    if (c == NULL)
        return;
    fr_arena_finish(&c->arena);
    *c = (struct tr_lora_config){.r = 0};
}

/* "a, b" as a list in the arena. */
static enum fr_rc split(struct fr_arena *arena, const char *text, const char *const **out,
                        size_t *n, struct fr_err *err)
{
    size_t most = 1;

    for (const char *p = text; *p != '\0'; p++)
        most += *p == ',';
    const char **list = fr_arena_array(arena, most, sizeof(*list));
    if (list == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for --lora_target");
    *n = 0;
    for (const char *p = text; *p != '\0';) {
        size_t len = strcspn(p, ","), skip = len;
        while (len > 0 && isspace((unsigned char)*p))
            p++, len--, skip--;
        while (len > 0 && isspace((unsigned char)p[len - 1]))
            len--;
        if (len > 0 && (list[(*n)++] = fr_arena_text(arena, p, len)) == NULL)
            return fr_fail(err, FR_NOMEM, "no memory for --lora_target");
        p += skip + (p[skip] == ',');
    }
    *out = list;
    return *n > 0 ? FR_OK : fr_fail(err, FR_USAGE, "--lora_target names no module");
}

enum fr_rc tr_lora_from_args(const struct tr_args *a, struct tr_lora_config *out,
                             struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    *out = (struct tr_lora_config){.r = a->lora_rank,
                                   .alpha = a->lora_alpha,
                                   .dropout = a->lora_dropout,
                                   .rslora = a->use_rslora};
    out->base_model = fr_arena_dup(&out->arena, a->model_name_or_path);
    out->all_linear = strcmp(a->lora_target, "all") == 0;
    if (!out->all_linear)
        rc = split(&out->arena, a->lora_target, &out->targets, &out->ntargets, err);
    if (rc == FR_OK && out->base_model == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for the adapter's configuration");
    if (rc != FR_OK)
        tr_lora_finish(out);
    return rc;
}

/* The names that "all" stands for (see the header). A name matches whole components from the end.
 */
static const char *const linears[] = {"q_proj",
                                      "k_proj",
                                      "v_proj",
                                      "q_a_proj",
                                      "q_b_proj",
                                      "kv_a_proj_with_mqa",
                                      "kv_b_proj",
                                      "o_proj",
                                      "mlp.gate_proj",
                                      "mlp.up_proj",
                                      "mlp.down_proj",
                                      "shared_experts.gate_proj",
                                      "shared_experts.up_proj",
                                      "shared_experts.down_proj"};
enum { LINEARS = sizeof(linears) / sizeof(linears[0]) };

/* module is t, or ends with "." t. */
static bool suffix_hit(const char *module, const char *t)
{
    size_t n = strlen(module), k = strlen(t);

    return n >= k && strcmp(module + n - k, t) == 0 && (n == k || module[n - k - 1] == '.');
}

/* Which of the linears a model has. */
static enum fr_rc note_linear(void *arg, const struct tr_model_tensor *t, struct fr_err *err)
{
    bool *has = arg;
    char module[TR_NAME_MAX];

    (void)err;
    if (t->role != TR_ROLE_LINEAR || !tr_model_module(t, module))
        return FR_OK;
    for (size_t i = 0; i < LINEARS; i++)
        has[i] = has[i] || suffix_hit(module, linears[i]);
    return FR_OK;
}

enum fr_rc tr_lora_resolve(struct tr_lora_config *c, const struct tr_model_config *m,
                           struct fr_err *err)
{
    size_t skip = m->n_routed_experts == 0 ? strlen("mlp.") : 0; /* no expert has such a name */
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
    for (size_t i = 0; i < LINEARS; i++)
        if (has[i])
            list[c->ntargets++] = linears[i] + (strncmp(linears[i], "mlp.", 4) == 0 ? skip : 0);
    c->targets = list;
    c->all_linear = false;
    return FR_OK;
}

static bool listed(const char *module, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (suffix_hit(module, list[i]))
            return true;
    return false;
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
    if (c->exclude_regex != NULL &&
        (rc = tr_regex_whole(c->exclude_regex, module, &out, err)) != FR_OK)
        return rc;
    if (out || listed(module, c->excludes, c->nexcludes))
        return FR_OK;
    if (c->target_regex != NULL)
        return tr_regex_whole(c->target_regex, module, hit, err);
    *hit =
        c->all_linear ? listed(module, linears, LINEARS) : listed(module, c->targets, c->ntargets);
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

static bool holds(const struct tr_lora_modules *m, const char *suffix)
{
    size_t i = 0;

    while (i < m->n && !suffix_hit(m->names[i], suffix))
        i++;
    return i < m->n;
}

/* Adds a line to notes for each target of the list that no name ends with. */
static void note_unused(const struct tr_lora_config *c, const struct tr_lora_modules *m,
                        struct fr_buf *notes)
{
    for (size_t k = 0; notes != NULL && k < c->ntargets; k++)
        if (!holds(m, c->targets[k]))
            fr_buf_fmt(notes, "lora_target '%s' matches no module\n", c->targets[k]);
}

/* "q_proj, k_proj, …": the last names of the model's linears. */
static void show_linears(const struct tr_lora_modules *m, struct fr_buf *out)
{
    for (size_t i = 0; i < LINEARS; i++) {
        size_t k = 0;

        while (k < m->n && !(m->linear[k] && suffix_hit(m->names[k], linears[i])))
            k++;
        if (k < m->n)
            fr_buf_fmt(out, "%s%s", out->n > 0 ? ", " : "", linears[i]);
    }
}

/* PEFT >= 0.19 takes these names for parameters of fused routed experts. */
static bool rewritten(const char *module)
{
    static const char *const names[] = {"gate_proj", "up_proj", "down_proj"};

    return listed(module, names, sizeof(names) / sizeof(names[0]));
}

/* The modules that targets match. experts: the model has routed experts, adapted or not. */
struct tally {
    bool experts;
    size_t hits, routed, rewritten;
    int64_t routed_params;
    const char *first_routed, *first_rewritten;
};

static enum fr_rc count(const struct tr_lora_config *c, const struct tr_lora_modules *m, size_t i,
                        struct tally *t, struct fr_err *err)
{
    const char *name = m->names[i];
    struct tr_lora_hit hit;
    enum fr_rc rc = tr_lora_match(c, name, &hit, err);

    t->experts = t->experts || m->routed[i] > 0;
    if (rc != FR_OK || !hit.adapted)
        return rc;
    if (!m->linear[i])
        return fr_fail(err, FR_USAGE,
                       "LoRA target %s is no linear map of attention, FFN or experts", name);
    t->hits++;
    if (m->routed[i] > 0) {
        t->first_routed = t->routed++ == 0 ? name : t->first_routed;
        t->routed_params += hit.r * m->routed[i];
    } else if (rewritten(name)) {
        t->first_rewritten = t->rewritten++ == 0 ? name : t->first_rewritten;
    }
    return FR_OK;
}

/* The linears of a model's attention. */
static const char *attention_of(const struct tr_lora_modules *m)
{
    if (holds(m, "k_proj"))
        return "q_proj,k_proj,v_proj,o_proj";
    return holds(m, "q_proj") ? "q_proj,kv_a_proj_with_mqa,kv_b_proj,o_proj"
                              : "q_a_proj,q_b_proj,kv_a_proj_with_mqa,kv_b_proj,o_proj";
}

static void note_rewritten(const struct tr_lora_modules *m, const struct tally *t,
                           struct fr_buf *notes)
{
    if (notes != NULL && t->experts && t->rewritten > 0)
        fr_buf_fmt(notes,
                   "%zu of %zu adapters are on FFNs (%s …): PEFT up to 0.18 and transformers 4 "
                   "load them, PEFT 0.19 and later on transformers 5 take their names for routed "
                   "experts and do not; an adapter that loads on every stack has --lora_target "
                   "%s\n",
                   t->rewritten, t->hits, t->first_rewritten, attention_of(m));
}

static enum fr_rc no_match(const struct tr_lora_config *c, const struct tr_lora_modules *m,
                           struct fr_err *err)
{
    struct fr_buf names = {0};

    show_linears(m, &names);
    (void)fr_fail(err, FR_USAGE, "LoRA targets (%s%s) match no module of the model (%s)",
                  c->ntargets > 0 ? c->targets[0] : "", c->ntargets > 1 ? ", …" : "",
                  names.p != NULL ? names.p : "");
    fr_buf_finish(&names);
    return FR_USAGE;
}

enum fr_rc tr_lora_refuse_head(const struct tr_lora_config *c, struct fr_err *err)
{
    struct tr_lora_hit hit;
    enum fr_rc rc = tr_lora_match(c, "lm_head", &hit, err);

    if (rc != FR_OK || !hit.adapted)
        return rc;
    return fr_fail(err, FR_UNSUPPORTED,
                   "LoRA target lm_head: adapters of the head are not done. PEFT adapts the head "
                   "alone; where it is tied, the embedding stays as it is and merging changes "
                   "both. Take lm_head out of the targets");
}

static enum fr_rc check(const struct tr_lora_config *c, const struct tr_lora_modules *m,
                        size_t *hits, struct fr_buf *notes, struct fr_err *err)
{
    struct tally t = {0};
    enum fr_rc rc = tr_lora_refuse_head(c, err);

    *hits = 0;
    for (size_t i = 0; i < m->n && rc == FR_OK; i++)
        rc = count(c, m, i, &t, err);
    if (rc != FR_OK)
        return rc;
    if (t.hits == 0)
        return no_match(c, m, err);
    if (t.routed > 0)
        return fr_fail(err, FR_UNSUPPORTED,
                       "LoRA targets hit %zu linears of routed experts (%s …): their adapters have "
                       "%lld parameters, held by every rank, and are not supported; name dense "
                       "FFNs as mlp.gate_proj and shared experts as shared_experts.gate_proj, or "
                       "take --lora_target all",
                       t.routed, t.first_routed, (long long)t.routed_params);
    note_unused(c, m, notes);
    note_rewritten(m, &t, notes);
    *hits = t.hits;
    return FR_OK;
}

enum fr_rc tr_lora_check(const struct tr_lora_config *c, const struct tr_lora_modules *m,
                         size_t *hits, struct fr_buf *notes, struct fr_err *err)
{
    enum fr_rc rc = check(c, m, hits, notes, err);

    if (rc == FR_OK || c->dir == NULL)
        return rc;
    return fr_while(err, "the adapter in %s, which was made for %s, does not fit this model",
                    c->dir, c->base_model != NULL ? c->base_model : "another one");
}
