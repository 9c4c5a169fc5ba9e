#include "trainer/data/tok_class.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum fr_rc no_memory(struct fr_err *err)
{
    return fr_fail(err, FR_NOMEM, "no memory for the tokenizer's files");
}

/* A token's text, whether it is written as text or as an object. */
static const json_t *content_of(const json_t *v)
{
    return json_is_object(v) ? json_object_get(v, "content") : v;
}

/* Which of the two files names a token otherwise. */
static void tell(struct tr_twice *twice, const char *key, bool map_counts, const json_t *map,
                 const json_t *config)
{
    static const char *const files[] = {"tokenizer_config.json", "special_tokens_map.json"};
    const json_t *taken = content_of(map_counts ? map : config),
                 *passed = content_of(map_counts ? config : map);

    tr_twice_add_json(
        twice,
        (struct tr_twice_row){.what = key, .from = files[map_counts], .over = files[!map_counts]},
        taken, passed);
}

#define EXTRA "extra_special_tokens"
#define ADDITIONAL "additional_special_tokens"
#define OWN "model_specific_special_tokens"

/* A token of the map: what is written as an object is special. */
static json_t *mapped(const json_t *v)
{
    json_t *copy = json_deep_copy(v);

    if (json_is_object(copy))
        json_object_set_new(copy, "special", json_true());
    return copy;
}

/* extra_special_tokens of both files, those of the configuration first. */
static json_t *joined(const json_t *first, const json_t *more)
{
    json_t *list = json_is_array(first) ? json_deep_copy(first) : json_array(), *v;
    size_t i;

    json_array_foreach((json_t *)more, i, v) json_array_append_new(list, mapped(v));
    return list;
}

/* Tokens of a map in extra_special_tokens have names of a model's own. */
static void move_extra(json_t *config)
{
    json_t *extra = json_object_get(config, EXTRA), *v;
    const char *key;

    if (!json_is_object(extra))
        return;
    json_object_foreach(extra, key, v) json_array_append(json_object_get(config, OWN), v);
    json_object_del(config, EXTRA);
}

/* The old name counts where there is nothing under the new one; filled: or no token. */
static void rename_additional(json_t *config, bool filled)
{
    json_t *old = json_object_get(config, ADDITIONAL), *extra = json_object_get(config, EXTRA);

    if (old == NULL ||
        (extra != NULL && (!filled || json_array_size(extra) > 0 || json_object_size(extra) > 0)))
        return;
    json_object_set(config, EXTRA, old);
    json_object_del(config, ADDITIONAL);
}

/* A null of the map takes a token away. */
static void tell_none(struct tr_twice *twice, const char *key, const json_t *config)
{
    char *text = json_dumps(content_of(config), JSON_ENCODE_ANY);

    tr_twice_add(twice, &(struct tr_twice_row){.what = key,
                                               .from = "special_tokens_map.json",
                                               .value = "null",
                                               .over = "tokenizer_config.json",
                                               .other = text});
    free(text);
}

static enum fr_rc merge_map(struct tr_tok_files *f, struct tr_twice *twice, struct fr_err *err)
{
    const char *key;
    json_t *v;

    json_object_foreach(f->map, key, v)
    {
        const json_t *old = json_object_get(f->config, key);
        json_t *made;

        if (json_is_string(content_of(v)))
            tell(twice, key, f->legacy, v, old);
        else if (json_is_null(v) && f->legacy && json_is_string(content_of(old)))
            tell_none(twice, key, old);
        if (!f->legacy || (old != NULL && json_equal(old, v)))
            continue;
        if (strcmp(key, EXTRA) != 0)
            made = mapped(v);
        else
            made = json_is_array(v) ? joined(old, v) : json_deep_copy(v);
        if (made == NULL || json_object_set_new(f->config, key, made) != 0)
            return no_memory(err);
        f->merged = true;
    }
    return FR_OK;
}

/* The text of a token that the configuration has as a text, or the map as either. */
static const char *settled(const json_t *v)
{
    return json_is_object(v) && !json_is_true(json_object_get(v, "special"))
               ? NULL
               : json_string_value(content_of(v));
}

/* Whether a text is one of the special tokens that are named or listed. */
static bool is_special(const json_t *config, const char *text)
{
    static const char *const names[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token"};
    const char *one;
    json_t *v;
    size_t i;

    for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++)
        if ((one = settled(json_object_get(config, names[k]))) != NULL && strcmp(one, text) == 0)
            return true;
    json_array_foreach(json_object_get(config, EXTRA), i,
                       v) if ((one = settled(v)) != NULL && strcmp(one, text) == 0) return true;
    return false;
}

/* added_tokens.json as an added_tokens_decoder, but for the numbers that tokenizer.json has. */
static enum fr_rc merge_added(struct tr_tok_files *f, struct fr_err *err)
{
    json_t *list = json_object_get(f->root, "added_tokens"), *decoder = json_object(), *v, *one;
    const char *text;
    char key[24];
    size_t i;

    if (decoder == NULL || json_object_set_new(f->config, "added_tokens_decoder", decoder) != 0)
        return no_memory(err);
    json_object_foreach(f->added, text, v)
    {
        bool there = !json_is_integer(v), special = is_special(f->config, text);

        json_array_foreach(list, i, one) there = there || json_equal(json_object_get(one, "id"), v);
        if (there)
            continue;
        (void)snprintf(key, sizeof(key), "%lld", (long long)json_integer_value(v));
        one = json_pack("{s:s, s:b, s:b, s:b, s:b, s:b}", "content", text, "single_word", 0,
                        "lstrip", 0, "rstrip", 0, "normalized", !special, "special", special);
        if (one == NULL || json_object_set_new(decoder, key, one) != 0)
            return no_memory(err);
        f->merged = true;
    }
    return FR_OK;
}

/* Whether key is a name of a model's own for a token ("image_token"). */
static bool is_own_name(const char *key)
{
    static const char *const common[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                         "pad_token", "cls_token", "mask_token"};
    size_t n = strlen(key);

    for (size_t i = 0; i < sizeof(common) / sizeof(common[0]); i++)
        if (strcmp(common[i], key) == 0)
            return false;
    return n > 6 && strcmp(key + n - 6, "_token") == 0;
}

/* Tokens with names of a model's own, in front of those of a map. */
static enum fr_rc list_own(json_t *config, struct fr_err *err)
{
    json_t *v, *list = json_array();
    const char *key;

    if (list == NULL)
        return no_memory(err);
    json_object_foreach(config, key, v) if (json_is_string(v) && is_own_name(key))
        json_array_append(list, v);
    json_array_extend(list, json_object_get(config, OWN));
    return json_object_set_new(config, OWN, list) == 0 ? FR_OK : no_memory(err);
}

enum fr_rc tr_tok_settle(struct tr_tok_files *f, struct tr_twice *twice, struct fr_err *err)
{
    enum fr_rc rc;

    if (f->config == NULL && (f->config = json_object()) == NULL)
        return no_memory(err);
    f->legacy = json_object_get(f->config, "added_tokens_decoder") == NULL;
    if (json_object_set_new(f->config, OWN, json_array()) != 0)
        return no_memory(err);
    rename_additional(f->config, true);
    move_extra(f->config);
    if ((rc = merge_map(f, twice, err)) == FR_OK) {
        move_extra(f->config);
        rename_additional(f->config, false);
        if (f->legacy && f->added != NULL)
            rc = merge_added(f, err);
    }
    if (rc == FR_OK)
        rc = tr_tok_apply_class(f, twice, err);
    return rc == FR_OK ? list_own(f->config, err) : rc;
}

void tr_tok_files_finish(struct tr_tok_files *f)
{
    json_decref(f->root);
    json_decref(f->config);
    json_decref(f->map);
    json_decref(f->added);
    json_decref(f->model);
    *f = (struct tr_tok_files){.root = NULL};
}
