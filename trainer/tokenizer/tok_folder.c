#include "trainer/tokenizer/tok_class.h"

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
#define DECODER "added_tokens_decoder"
#define MAPPED "__mapped" /* ours */

/* Names that special tokens of any model may have, in the order in which those are added. */
static const char *const names[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                    "pad_token", "cls_token", "mask_token"};

enum { NAMES = sizeof(names) / sizeof(names[0]) };

static bool is_added_token(const json_t *v)
{
    const char *type = json_string_value(json_object_get(v, "__type"));

    return type != NULL && strcmp(type, "AddedToken") == 0;
}

/* Whether key is a name that a model has of its own for a token ("image_token"). */
static bool is_own_name(const char *key)
{
    size_t n = strlen(key);

    for (size_t i = 0; i < NAMES; i++)
        if (strcmp(names[i], key) == 0)
            return false;
    return n >= 6 && strcmp(key + n - 6, "_token") == 0;
}

/* A token of the map: one that is written as an object is special, and a token from here on. */
static json_t *mapped(const json_t *v)
{
    json_t *copy = json_deep_copy(v);

    if (json_is_object(copy)) {
        json_object_set_new(copy, "special", json_true());
        json_object_set_new(copy, "__type", json_string("AddedToken"));
        json_object_set_new(copy, MAPPED, json_true());
    }
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

/* extra_special_tokens that is an object names tokens. */
static enum fr_rc move_extra(struct tr_tok_files *f, struct fr_err *err)
{
    json_t *extra = json_object_get(f->config, EXTRA);

    if (!json_is_object(extra))
        return FR_OK;
    if (json_object_update(f->own, extra) != 0)
        return no_memory(err);
    json_object_del(f->config, EXTRA);
    return FR_OK;
}

/* The model's own names that the configuration has for texts, or for what is in its object of
 * them: special_tokens_map.json changes none of these. */
static enum fr_rc take_own(struct tr_tok_files *f, struct fr_err *err)
{
    const json_t *saved = json_object_get(f->config, OWN);
    const char *key;
    json_t *v;
    void *next;
    enum fr_rc rc;

    if ((f->own = json_object()) == NULL)
        return no_memory(err);
    json_object_foreach_safe(f->config, next, key, v)
    {
        if (!json_is_string(v) || !is_own_name(key))
            continue;
        if (json_object_set(f->own, key, v) != 0)
            return no_memory(err);
        json_object_del(f->config, key);
    }
    rc = move_extra(f, err);
    if (rc == FR_OK && json_object_size(f->own) == 0 && json_is_object(saved))
        rc = json_object_update(f->own, (json_t *)saved) == 0 ? FR_OK : no_memory(err);
    return rc;
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
        const json_t *old = json_object_get(f->config, key), *own = json_object_get(f->own, key);
        json_t *made;

        if (json_is_string(content_of(v)))
            tell(twice, key, f->legacy && own == NULL, v, own != NULL ? own : old);
        else if (json_is_null(v) && f->legacy && json_is_string(content_of(old)))
            tell_none(twice, key, old);
        if (!f->legacy || (old != NULL && !json_is_object(old) && json_equal(old, v)))
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
    return json_is_object(v) && !json_is_true(json_object_get(v, MAPPED))
               ? NULL
               : json_string_value(content_of(v));
}

/* Whether a text is one of the special tokens that are named or listed. */
static bool is_special(const json_t *config, const char *text)
{
    const char *one;
    json_t *v;
    size_t i;

    for (size_t k = 0; k < NAMES; k++)
        if ((one = settled(json_object_get(config, names[k]))) != NULL && strcmp(one, text) == 0)
            return true;
    json_array_foreach(json_object_get(config, EXTRA), i,
                       v) if ((one = settled(v)) != NULL && strcmp(one, text) == 0) return true;
    return false;
}

/* Whether tokenizer.json has an added token with this number. */
static bool has_number(const json_t *root, const json_t *id)
{
    json_t *one;
    size_t i;

    json_array_foreach(json_object_get(root, "added_tokens"), i,
                       one) if (json_equal(json_object_get(one, "id"), id)) return true;
    return false;
}

/* A token of an added_tokens_decoder under its number. */
static enum fr_rc put_numbered(json_t *decoder, const json_t *id, json_t *token, struct fr_err *err)
{
    char key[24];

    (void)snprintf(key, sizeof(key), "%lld", (long long)json_integer_value(id));
    return token != NULL && json_object_set_new(decoder, key, token) == 0 ? FR_OK : no_memory(err);
}

/* An added_tokens_decoder of added_tokens.json and of tokenizer.json's list, which has the last
 * word on a number. by_text: all of them, those too that lost their number. */
static enum fr_rc make_decoder(struct tr_tok_files *f, json_t *by_text, struct fr_err *err)
{
    json_t *decoder = json_object(), *v, *token;
    const char *text;
    enum fr_rc rc = FR_OK;
    size_t i;

    if (decoder == NULL || json_object_set_new(f->config, DECODER, decoder) != 0)
        return no_memory(err);
    json_object_foreach(f->added, text, v)
    {
        bool special = is_special(f->config, text);

        if (rc != FR_OK || !json_is_integer(v))
            continue;
        token = json_pack("{s:s, s:b, s:b}", "content", text, "normalized", !special, "special",
                          special);
        f->merged = f->merged || !has_number(f->root, v);
        if ((rc = put_numbered(decoder, v, token, err)) == FR_OK)
            json_object_set(by_text, text, token);
    }
    json_array_foreach(json_object_get(f->root, "added_tokens"), i, v)
    {
        text = json_string_value(json_object_get(v, "content"));
        if (rc == FR_OK && text != NULL &&
            (rc = put_numbered(decoder, json_object_get(v, "id"), json_incref(v), err)) == FR_OK)
            json_object_set(by_text, text, v);
    }
    return rc;
}

/* Named tokens get the flags that the list of numbered ones has for their texts. */
static enum fr_rc take_flags(struct tr_tok_files *f, struct fr_err *err)
{
    json_t *by_text = json_object(), *v;
    const char *key, *text;
    enum fr_rc rc = by_text != NULL ? FR_OK : no_memory(err);

    if (rc == FR_OK && f->legacy)
        rc = make_decoder(f, by_text, err);
    else
        json_object_foreach(json_object_get(f->config, DECODER), key,
                            v) if ((text = json_string_value(json_object_get(v, "content"))) !=
                                   NULL) json_object_set(by_text, text, v);
    for (size_t i = 0; i < NAMES; i++) {
        text = json_string_value(content_of(json_object_get(f->config, names[i])));
        if (text != NULL && (v = json_object_get(by_text, text)) != NULL)
            json_object_set(f->config, names[i], v);
    }
    json_decref(by_text);
    return rc;
}

/* All tokens that have names: those of any model, then its own; of the latter objects and those of
 * the map have the first places, while take_own's count. */
static enum fr_rc list_named(struct tr_tok_files *f, struct fr_err *err)
{
    json_t *all = json_object(), *v;
    json_t *pad = json_object_get(json_object_get(f->root, "padding"), "pad_token");
    const char *key;
    int failed = all == NULL;

    f->named = json_array();
    if (json_object_get(f->config, "pad_token") == NULL && pad != NULL)
        failed |= json_object_set(f->config, "pad_token", pad);
    for (size_t i = 0; i < NAMES; i++) {
        if ((v = json_object_get(f->own, names[i])) != NULL)
            failed |= json_object_set(f->config, names[i], v);
        if ((v = json_object_get(f->config, names[i])) != NULL)
            failed |= json_array_append(f->named, v);
    }
    json_object_foreach(f->config, key,
                        v) if (is_own_name(key) && (json_is_string(v) || is_added_token(v)))
        failed |= json_object_set(all, key, v);
    failed |= json_object_update(all, f->own);
    json_object_foreach(all, key, v) failed |= json_array_append(f->named, v);
    json_decref(all);
    return failed == 0 ? FR_OK : no_memory(err);
}

enum fr_rc tr_tok_settle(struct tr_tok_files *f, struct tr_twice *twice, struct fr_err *err)
{
    enum fr_rc rc;

    if (f->config == NULL && (f->config = json_object()) == NULL)
        return no_memory(err);
    f->legacy = json_object_get(f->config, DECODER) == NULL;
    rename_additional(f->config, true);
    if ((rc = take_own(f, err)) == FR_OK && (rc = merge_map(f, twice, err)) == FR_OK)
        rc = move_extra(f, err);
    if (rc == FR_OK)
        rc = take_flags(f, err);
    rename_additional(f->config, false);
    if (rc == FR_OK)
        rc = tr_tok_apply_class(f, twice, err);
    return rc == FR_OK ? list_named(f, err) : rc;
}

void tr_tok_files_finish(struct tr_tok_files *f)
{
    json_decref(f->root);
    json_decref(f->config);
    json_decref(f->map);
    json_decref(f->added);
    json_decref(f->model);
    json_decref(f->own);
    json_decref(f->named);
    *f = (struct tr_tok_files){.root = NULL};
}
