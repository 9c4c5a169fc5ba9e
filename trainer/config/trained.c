#include "trainer/config/trained.h"

#include "trainer/config/lora_saves.h"

#include <string.h>

/* The next name of a comma list, without spaces; false: none is left. */
static bool next_name(const char **list, struct fr_str *out)
{
    const char *p = *list;
    size_t n;

    if (p == NULL)
        return false;
    p += strspn(p, ", ");
    n = strcspn(p, ", ");
    *out = (struct fr_str){p, n};
    *list = p + n;
    return n > 0;
}

/* The module of a layer that holds the tensor: what follows "layers.N." up to a dot. */
static struct fr_str module_of(const struct tr_model_tensor *t)
{
    const char *p = strstr(t->name, "layers.");

    p = p != NULL ? strchr(p + 7, '.') : NULL;
    if (t->layer < 0 || p == NULL)
        return (struct fr_str){NULL, 0};
    return (struct fr_str){p + 1, strcspn(p + 1, ".")};
}

static bool has_part(const char *name, struct fr_str part)
{
    size_t n = strlen(name);

    for (size_t i = 0; i + part.n <= n; i++)
        if (memcmp(name + i, part.p, part.n) == 0)
            return true;
    return false;
}

static bool names_module(const char *list, const struct tr_model_tensor *t)
{
    struct fr_str module = module_of(t), name;

    if (list == NULL)
        return true;
    while (next_name(&list, &name))
        if (module.n >= name.n && memcmp(module.p, name.p, name.n) == 0)
            return true;
    return false;
}

static bool names_part(const char *list, const char *tensor)
{
    struct fr_str name;

    while (next_name(&list, &name))
        if (has_part(tensor, name))
            return true;
    return false;
}

void tr_trained_beside(struct tr_trained *r, const struct tr_lora_config *l)
{
    if (l->nsaves == 0)
        return;
    r->beside = l;
    r->save_masters = true;
}

bool tr_trained_any(const struct tr_trained *r)
{
    return r->all || r->beside != NULL;
}

bool tr_trained_has(const struct tr_trained *r, const struct tr_model_tensor *t)
{
    if (r->beside != NULL && t->role != TR_ROLE_ROUTER_BIAS)
        return tr_lora_saves_tensor(r->beside, t->name);
    if (!r->all || t->role == TR_ROLE_ROUTER_BIAS)
        return false;
    if (!r->freeze)
        return true;
    if (t->layer >= r->first && t->layer < r->last && names_module(r->modules, t))
        return true;
    return names_part(r->extra, t->name) ||
           (t->role == TR_ROLE_EMBED && r->tied && names_part(r->extra, "lm_head.weight"));
}

/* ---- reading ---- */

/* A name of a list, what it may be, and in how many tensors' names it is. */
struct search {
    struct fr_str name;
    bool extra;          /* a module outside the layers */
    struct fr_buf found; /* modules there are, each once */
    int64_t hits;
};

static bool in_list(const char *list, struct fr_str name)
{
    struct fr_str one;

    while (next_name(&list, &one))
        if (one.n == name.n && memcmp(one.p, name.p, name.n) == 0)
            return true;
    return false;
}

static void offer(struct search *s, struct fr_str module)
{
    if (s->found.n == 0 || !in_list(s->found.p, module))
        fr_buf_fmt(&s->found, "%s%.*s", s->found.n > 0 ? ", " : "", (int)module.n, module.p);
}

static enum fr_rc each(void *arg, const struct tr_model_tensor *t, struct fr_err *err)
{
    struct search *s = arg;
    const char *p = t->name + (strncmp(t->name, "model.", 6) == 0 ? 6 : 0);

    (void)err;
    s->hits += has_part(t->name, s->name);
    if (s->extra != (t->layer >= 0))
        offer(s, s->extra ? (struct fr_str){p, strcspn(p, ".")} : module_of(t));
    return FR_OK;
}

/* Every name of the list is a module that the model has. */
static enum fr_rc check_list(const struct tr_model_config *c, const char *list, bool extra,
                             struct fr_buf *notes, struct fr_err *err)
{
    struct fr_str name;
    enum fr_rc rc = FR_OK;

    while (rc == FR_OK && next_name(&list, &name)) {
        struct search s = {.name = name, .extra = extra};

        if (!extra && fr_str_is(name, "all"))
            continue;
        rc = tr_model_tensors(c, each, &s, err);
        if (extra && c->tie_word_embeddings)
            offer(&s, FR_STR("lm_head"));
        if (rc == FR_OK && (s.found.bad || !in_list(s.found.p, name)))
            rc = fr_fail(err, FR_USAGE, "--%s: Module %.*s is not found, please choose from %s",
                         extra ? "freeze_extra_modules" : "freeze_trainable_modules", (int)name.n,
                         name.p, s.found.n > 0 ? s.found.p : "none");
        if (rc == FR_OK && extra && s.hits > 1 && notes != NULL)
            fr_buf_fmt(notes, "--freeze_extra_modules %.*s: %lld tensors have it in their names\n",
                       (int)name.n, name.p, (long long)s.hits);
        fr_buf_finish(&s.found);
    }
    return rc;
}

struct counted {
    const struct tr_trained *trained;
    int64_t n;
};

static enum fr_rc count(void *arg, const struct tr_model_tensor *t, struct fr_err *err)
{
    struct counted *d = arg;

    (void)err;
    d->n += tr_trained_has(d->trained, t);
    return FR_OK;
}

/* Lists of commas name nothing. */
static enum fr_rc check_any(const struct tr_args *a, const struct tr_model_config *c,
                            const struct tr_trained *trained, struct fr_err *err)
{
    struct counted d = {.trained = trained};
    enum fr_rc rc = tr_model_tensors(c, count, &d, err);

    if (rc != FR_OK || d.n > 0)
        return rc;
    return fr_fail(err, FR_USAGE,
                   "freeze trains nothing: freeze_trainable_layers %lld, freeze_trainable_modules "
                   "'%s' and freeze_extra_modules '%s' name no weight",
                   (long long)a->freeze_trainable_layers, a->freeze_trainable_modules,
                   a->freeze_extra_modules != NULL ? a->freeze_extra_modules : "");
}

enum fr_rc tr_trained_read(const struct tr_args *a, const struct tr_model_config *c,
                           struct tr_trained *out, struct fr_buf *notes, struct fr_err *err)
{
    int64_t n = a->freeze_trainable_layers, all = c->num_hidden_layers;
    enum fr_rc rc;

    *out = (struct tr_trained){.freeze = strcmp(a->finetuning_type, "freeze") == 0,
                               .tied = c->tie_word_embeddings,
                               .save_masters = a->save_dtype == TR_SAVE_FLOAT32};
    out->all = out->freeze || strcmp(a->finetuning_type, "full") == 0;
    if (!out->freeze)
        return FR_OK;
    if (n == 0 && a->freeze_extra_modules == NULL)
        return fr_fail(err, FR_USAGE,
                       "freeze trains nothing: freeze_trainable_layers is 0 and there is no "
                       "freeze_extra_modules");
    out->first = n > 0 ? (n < all ? all - n : 0) : 0;
    out->last = n > 0 ? all : (-n < all ? -n : all);
    out->extra = a->freeze_extra_modules;
    if (!in_list(a->freeze_trainable_modules, FR_STR("all")))
        out->modules = a->freeze_trainable_modules;
    rc = check_list(c, a->freeze_trainable_modules, false, notes, err);
    if (rc == FR_OK)
        rc = check_list(c, out->extra, true, notes, err);
    return rc == FR_OK ? check_any(a, c, out, err) : rc;
}
