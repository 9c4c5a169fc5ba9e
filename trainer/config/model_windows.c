/*
 * The layers with a window of tokens, for the Llama family. If the type uses layer_types and the
 * file has it, it lists them. If not, they are all layers from max_window_layers on, which is 0 for
 * types without that key.
 */
#include "trainer/config/model_read.h"

#include <string.h>

static enum fr_rc read_type(const struct tr_fields *f, const json_t *one, bool use, bool *slides,
                            struct fr_err *err)
{
    const char *type = json_is_string(one) ? json_string_value(one) : "";

    *slides = strcmp(type, "sliding_attention") == 0;
    if (!*slides && strcmp(type, "full_attention") != 0)
        return tr_field_bad(f, "layer_types", "full_attention and sliding_attention", err);
    if (*slides && !use)
        return tr_field_bad(f, "layer_types",
                            "full_attention: use_sliding_window is off, or there is no "
                            "sliding_window",
                            err);
    return FR_OK;
}

/* layer_types, a type for each layer. */
static enum fr_rc read_types(const struct tr_model_read *r, bool use, struct fr_err *err)
{
    const json_t *types = tr_field(&r->f, "layer_types"), *one;
    size_t i;

    if (json_array_size(types) != (size_t)r->c->num_hidden_layers)
        return tr_field_bad(&r->f, "layer_types", "a type for each layer", err);
    json_array_foreach(types, i, one)
    {
        bool slides;
        enum fr_rc rc = read_type(&r->f, one, use, &slides, err);

        if (rc != FR_OK)
            return rc;
        r->c->windowed[i / 64] |= (uint64_t)slides << i % 64;
    }
    return FR_OK;
}

/* Layers from `first` on have a window. */
static void set_layers(struct tr_model_config *c, int64_t first)
{
    for (int64_t i = first < 0 ? 0 : first; i < c->num_hidden_layers; i++)
        c->windowed[i / 64] |= (uint64_t)1 << i % 64;
}

enum fr_rc tr_read_windows(const struct tr_model_read *r, struct fr_err *err)
{
    struct tr_model_config *c = r->c;
    bool use =
        c->sliding_window > 0 && (c->use_sliding_window || !tr_key_has(r, "use_sliding_window"));

    if (!use)
        c->sliding_window = 0;
    if (r->type->layer_types && tr_field(&r->f, "layer_types") != NULL)
        return read_types(r, use, err);
    if (use)
        set_layers(c, c->max_window_layers);
    return FR_OK;
}
