#include "trainer/config/model_read.h"

#include <stdio.h>
#include <string.h>

static const char *const kinds_by_name[] = {[TR_ROPE_DEFAULT] = "default",
                                            [TR_ROPE_LINEAR] = "linear",
                                            [TR_ROPE_DYNAMIC] = "dynamic",
                                            [TR_ROPE_LLAMA3] = "llama3",
                                            [TR_ROPE_YARN] = "yarn"};
enum { KINDS = sizeof(kinds_by_name) / sizeof(kinds_by_name[0]) };

static enum fr_rc read_kind(const struct tr_fields *s, unsigned kinds, enum tr_rope_kind *out,
                            struct fr_err *err)
{
    const char *type = "default", *words = "";
    char done[64] = "";
    size_t n = 0, k = 0;
    enum fr_rc rc;

    if (json_is_null(json_object_get(s->object, "rope_type")))
        return tr_field_bad(s, "rope_type", "a type; without one, take the key out", err);
    if ((rc = tr_field_text(s, "type", &type, err)) != FR_OK ||
        (rc = tr_field_text(s, "rope_type", &type, err)) != FR_OK)
        return rc;
    while (k < KINDS && (!(kinds >> k & 1) || strcmp(type, kinds_by_name[k]) != 0))
        k++;
    if (k < KINDS) {
        *out = (enum tr_rope_kind)k;
        return FR_OK;
    }
    for (k = 0; k < KINDS; k++)
        if (kinds >> k & 1) {
            n += (size_t)snprintf(done + n, sizeof(done) - n, "%s%s", words, kinds_by_name[k]);
            words = ", ";
        }
    return fr_fail(err, FR_UNSUPPORTED, "%s: rope type '%s', only %s are done", s->where, type,
                   done);
}

static enum fr_rc read_llama3(const struct tr_fields *s, struct tr_rope_config *r,
                              struct fr_err *err)
{
    enum fr_rc rc;

    if ((rc = tr_field_need(s, "low_freq_factor", err)) != FR_OK ||
        (rc = tr_field_f64(s, "low_freq_factor", &r->low_freq_factor, err)) != FR_OK ||
        (rc = tr_field_need(s, "high_freq_factor", err)) != FR_OK ||
        (rc = tr_field_f64(s, "high_freq_factor", &r->high_freq_factor, err)) != FR_OK)
        return rc;
    if (!(r->low_freq_factor > 0))
        return tr_field_bad(s, "low_freq_factor", "above 0", err);
    if (!(r->high_freq_factor > r->low_freq_factor))
        return tr_field_bad(s, "high_freq_factor", "above low_freq_factor", err);
    return FR_OK;
}

/* beta_fast and beta_slow of 0 are their defaults, truncate of null is false: as the reference's
 * code has it. */
static enum fr_rc read_yarn(const struct tr_fields *s, struct tr_rope_config *r, struct fr_err *err)
{
    enum fr_rc rc;

    if (json_is_null(json_object_get(s->object, "truncate")))
        r->truncate = false;
    if ((rc = tr_field_f64(s, "beta_fast", &r->beta_fast, err)) != FR_OK ||
        (rc = tr_field_f64(s, "beta_slow", &r->beta_slow, err)) != FR_OK ||
        (rc = tr_field_f64(s, "mscale", &r->mscale, err)) != FR_OK ||
        (rc = tr_field_f64(s, "mscale_all_dim", &r->mscale_all_dim, err)) != FR_OK ||
        (rc = tr_field_f64(s, "attention_factor", &r->attention_factor, err)) != FR_OK ||
        (rc = tr_field_bool(s, "truncate", &r->truncate, err)) != FR_OK)
        return rc;
    r->beta_fast = r->beta_fast == 0 ? 32 : r->beta_fast;
    r->beta_slow = r->beta_slow == 0 ? 1 : r->beta_slow;
    return FR_OK;
}

/* The rotary part of a config.json. */
struct rope {
    const struct tr_model_read *r;
    struct tr_fields s; /* the object that counts; its where names it */
    const char *name;   /* of that object */
    char where[512];
};

/* The trained length, from the top of config.json, or else the object; default: all positions. */
static enum fr_rc read_length(const struct rope *p, struct fr_err *err)
{
    static const char key[] = "original_max_position_embeddings";
    struct tr_model_config *c = p->r->c;
    bool top = json_object_get(p->r->f.object, key) != NULL;
    const struct tr_fields *f = top ? &p->r->f : &p->s;
    enum fr_rc rc;

    c->rope.original_max_positions = c->max_position_embeddings;
    if (c->rope.kind != TR_ROPE_YARN && c->rope.kind != TR_ROPE_LLAMA3)
        return FR_OK;
    tr_twice_add_json(tr_read_twice(p->r),
                      (struct tr_twice_row){.what = key, .from = "config.json", .over = p->name},
                      json_object_get(p->r->f.object, key), json_object_get(p->s.object, key));
    if ((rc = tr_field_i64(f, key, &c->rope.original_max_positions, err)) != FR_OK)
        return rc;
    if (json_is_null(json_object_get(f->object, key)) || c->rope.original_max_positions < 1)
        return tr_field_bad(f, key, "at least 1", err);
    return FR_OK;
}

/* For YaRN, a factor of null is the ratio of the lengths. */
static enum fr_rc read_factor(const struct rope *p, struct fr_err *err)
{
    struct tr_rope_config *r = &p->r->c->rope;
    const json_t *v = json_object_get(p->s.object, "factor");
    enum fr_rc rc;

    if (r->kind == TR_ROPE_YARN && json_is_null(v))
        r->factor = (double)p->r->c->max_position_embeddings / (double)r->original_max_positions;
    else if ((rc = tr_field_need(&p->s, "factor", err)) != FR_OK ||
             (rc = tr_field_f64(&p->s, "factor", &r->factor, err)) != FR_OK)
        return rc;
    return r->factor >= 1 ? FR_OK : tr_field_bad(&p->s, "factor", "at least 1", err);
}

static bool filled(const json_t *v)
{
    return v != NULL && !json_is_null(v) && !(json_is_object(v) && json_object_size(v) == 0);
}

/* A rope_scaling that is not empty replaces rope_parameters altogether, the base included. */
static enum fr_rc choose(struct rope *p, struct fr_err *err)
{
    const json_t *scaling = json_object_get(p->r->f.object, "rope_scaling");
    const json_t *parameters = json_object_get(p->r->f.object, "rope_parameters");

    p->name = filled(scaling) ? "rope_scaling" : "rope_parameters";
    p->s.object = tr_field(&p->r->f, p->name);
    (void)snprintf(p->where, sizeof(p->where), "%.400s: %s", p->r->f.where, p->name);
    p->s.where = p->where;
    if (p->s.object != NULL && !json_is_object(p->s.object))
        return tr_field_bad(&p->r->f, p->name, "an object", err);
    if (filled(scaling) && filled(parameters))
        tr_twice_add_json(tr_read_twice(p->r),
                          (struct tr_twice_row){.what = "rope parameters",
                                                .from = "rope_scaling",
                                                .over = "rope_parameters"},
                          scaling, parameters);
    return FR_OK;
}

/* The base in the object wins over that at the top, which the table has read. */
static enum fr_rc read_theta(const struct rope *p, struct fr_err *err)
{
    const json_t *own = json_object_get(p->s.object, "rope_theta");
    double *theta = &p->r->c->rope.theta;
    enum fr_rc rc;

    if (own == NULL)
        return FR_OK;
    tr_twice_add_json(
        tr_read_twice(p->r),
        (struct tr_twice_row){.what = "rope_theta", .from = p->name, .over = "config.json"}, own,
        json_object_get(p->r->f.object, "rope_theta"));
    if ((rc = tr_field_f64(&p->s, "rope_theta", theta, err)) != FR_OK)
        return rc;
    return json_is_null(own) || !(*theta > 1)
               ? tr_field_bad(&p->s, "rope_theta", "a number above 1", err)
               : FR_OK;
}

/* Keys that a kind of rope does not have. The reference warns and goes on; objects would be the
 * parameters of some layers. */
static enum fr_rc note_unknown(const struct rope *p, struct fr_err *err)
{
    static const char *const known[] = {
        "type",       "rope_type",       "factor",
        "rope_theta", "low_freq_factor", "high_freq_factor",
        "beta_fast",  "beta_slow",       "original_max_position_embeddings",
        "mscale",     "mscale_all_dim",  "attention_factor",
        "truncate",   "finetuned",       "partial_rotary_factor"};
    const char *key;
    json_t *v;

    json_object_foreach((json_t *)p->s.object, key, v)
    {
        if (json_is_null(v) || tr_is_among(key, known, sizeof(known) / sizeof(known[0])))
            continue;
        if (json_is_object(v))
            return fr_fail(err, FR_UNSUPPORTED,
                           "%s: %s is an object: rope parameters of a part of the layers are not "
                           "done",
                           p->s.where, key);
        tr_twice_idle(tr_read_twice(p->r), p->name, key, v);
    }
    return FR_OK;
}

static enum fr_rc read_object(struct rope *p, unsigned kinds, struct fr_err *err)
{
    struct tr_rope_config *r = &p->r->c->rope;
    enum fr_rc rc;

    if ((rc = read_kind(&p->s, kinds, &r->kind, err)) != FR_OK ||
        (rc = note_unknown(p, err)) != FR_OK || (rc = read_theta(p, err)) != FR_OK)
        return rc;
    tr_twice_add_json(
        tr_read_twice(p->r),
        (struct tr_twice_row){.what = "the type of rope", .from = "rope_type", .over = "type"},
        json_object_get(p->s.object, "rope_type"), json_object_get(p->s.object, "type"));
    if (r->kind == TR_ROPE_DEFAULT || (rc = read_length(p, err)) != FR_OK ||
        (rc = read_factor(p, err)) != FR_OK)
        return rc;
    return r->kind == TR_ROPE_LLAMA3 ? read_llama3(&p->s, r, err)
           : r->kind == TR_ROPE_YARN ? read_yarn(&p->s, r, err)
                                     : FR_OK;
}

#define PART "partial_rotary_factor"

/* The rotated share of each head. In these architectures the reference ignores it for default rope.
 * For other kinds it makes too few angles and fails. */
static enum fr_rc read_part(const struct rope *p, struct fr_err *err)
{
    const json_t *own = json_object_get(p->s.object, PART);
    const struct tr_fields *f = own != NULL ? &p->s : &p->r->f;
    const json_t *v = own != NULL ? own : tr_field(&p->r->f, PART);
    bool whole = v == NULL || json_number_value(v) == 1;

    tr_twice_add_json(tr_read_twice(p->r),
                      (struct tr_twice_row){.what = PART, .from = p->name, .over = "config.json"},
                      own, tr_field(&p->r->f, PART));
    if (p->r->c->rope.kind != TR_ROPE_DEFAULT && !whole)
        return tr_field_bad(f, PART, "1: whole heads are rotated", err);
    if (!whole && !json_is_null(v))
        tr_twice_idle(tr_read_twice(p->r), own != NULL ? p->name : "config.json", PART, v);
    return FR_OK;
}

static enum fr_rc put_values(const struct rope *p, struct fr_err *err)
{
    const struct tr_rope_config *r = &p->r->c->rope;
    const char *theta = json_object_get(p->s.object, "rope_theta") != NULL ? p->name
                        : tr_field(&p->r->f, "rope_theta") != NULL         ? "config.json"
                                                                           : NULL;
    const char *kind = p->s.object != NULL ? p->name : NULL;
    char none[64];
    json_t *values;

    if (p->r->said == NULL)
        return FR_OK;
    (void)snprintf(none, sizeof(none), "default of %s", p->r->c->model_type);
    values = json_pack("{s:{s:f, s:s}, s:{s:s, s:s}}", "rope_theta", "value", r->theta, "from",
                       theta != NULL ? theta : none, "rope_type", "value", kinds_by_name[r->kind],
                       "from", kind != NULL ? kind : none);
    if (values == NULL || json_object_update(p->r->said->values, values) != 0) {
        json_decref(values);
        return fr_fail(err, FR_NOMEM, "no memory for what config.json says");
    }
    json_decref(values);
    return FR_OK;
}

enum fr_rc tr_read_rope(const struct tr_model_read *r, unsigned kinds, struct fr_err *err)
{
    struct rope p = {.r = r};
    enum fr_rc rc;

    r->c->rope.original_max_positions = r->c->max_position_embeddings;
    if ((rc = choose(&p, err)) != FR_OK)
        return rc;
    if (filled(p.s.object) && (rc = read_object(&p, kinds, err)) != FR_OK)
        return rc;
    return (rc = read_part(&p, err)) == FR_OK ? put_values(&p, err) : rc;
}
