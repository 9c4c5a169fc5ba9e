#include "trainer/template/template_files.h"

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "trainer/template/template_row.h"
#include "trainer/text/text.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { FILE_MAX_BYTES = 64 << 20, STOPS = 2 };

/* The changes to the files. */
struct change {
    const struct tr_tokenizer *tok;
    const char *eos, *pad; /* NULL: stays */
    const char *stops[STOPS];
    size_t nstops;
};

/* *root NULL: there is no such file. */
static enum fr_rc load(const char *dir, const char *name, json_t **root, struct fr_err *err)
{
    char path[PATH_MAX];
    enum fr_rc rc = tr_path(path, dir, name, err);

    *root = NULL;
    if (rc != FR_OK)
        return rc;
    rc = fr_json_load(path, FILE_MAX_BYTES, root, err);
    return rc == FR_NOTFOUND ? FR_OK : rc;
}

/* The text of a token, which is a string or an object; NULL: there is none. */
static const char *content_of(const json_t *token)
{
    return json_is_object(token) ? json_string_value(json_object_get(token, "content"))
                                 : json_string_value(token);
}

/* Whether the token is the one that the files name: the map counts where the configuration lists no
 * added tokens. */
static bool is_named(const json_t *config, const json_t *map, const char *key, const char *token)
{
    bool legacy = json_object_get(config, "added_tokens_decoder") == NULL;
    const json_t *v = legacy ? json_object_get(map, key) : NULL;
    const char *name = content_of(v != NULL ? v : json_object_get(config, key));

    return name != NULL && strcmp(name, token) == 0;
}

/* tok is the tokenizer with the template applied. */
static struct change plan(const struct tr_template *t, const struct tr_tokenizer *tok,
                          const json_t *config, const json_t *map)
{
    bool replaces = t->stop != NULL && !t->keeps_eos;
    const char *eos = tr_tokenizer_added(tok, tr_tokenizer_eos(tok));
    struct change c = {.tok = tok};

    if (eos != NULL && !is_named(config, map, "eos_token", eos))
        c.eos = eos;
    if (eos != NULL && tr_tokenizer_pad(tok) == tr_tokenizer_eos(tok) &&
        !is_named(config, map, "pad_token", eos))
        c.pad = eos;
    if (t->stop != NULL && !replaces)
        c.stops[c.nstops++] = t->stop;
    if (t->stop_too != NULL)
        c.stops[c.nstops++] = t->stop_too;
    return c;
}

/* A token of a list of added ones; NULL: it is none of them. */
static const json_t *find(const json_t *list, const char *content)
{
    json_t *one;
    size_t i;

    json_array_foreach((json_t *)list, i, one)
    {
        const char *name = json_string_value(json_object_get(one, "content"));

        if (name != NULL && strcmp(name, content) == 0)
            return one;
    }
    return NULL;
}

/* Whether it is a special one without flags. */
static bool is_plain(const json_t *one)
{
    static const char *const off[] = {"single_word", "lstrip", "rstrip", "normalized"};
    bool plain = json_is_true(json_object_get(one, "special"));

    for (size_t i = 0; i < sizeof(off) / sizeof(off[0]); i++)
        plain = plain && json_is_false(json_object_get(one, off[i]));
    return plain;
}

/* The list as an added_tokens_decoder. */
static int set_decoder(json_t *config, const json_t *list)
{
    json_t *decoder = json_object(), *one;
    int failed = json_object_set_new(config, "added_tokens_decoder", decoder);
    char key[16];
    size_t i;

    json_array_foreach((json_t *)list, i, one)
    {
        json_t *token = json_copy(one);

        (void)snprintf(key, sizeof(key), "%d", (int)json_integer_value(json_object_get(one, "id")));
        json_object_del(token, "id");
        failed |= json_object_set_new(decoder, key, token);
    }
    return failed;
}

/* Stop words after the other special tokens of a file. */
static void add_stops(const struct change *c, json_t *file)
{
    json_t *list = json_object_get(file, "extra_special_tokens"), *one;
    bool known;
    size_t k;

    if (!json_is_array(list))
        list = json_object_get(file, "additional_special_tokens");
    for (size_t i = 0; i < c->nstops; i++) {
        known = false;
        if (!json_is_array(list)) {
            json_object_set_new(file, "additional_special_tokens", json_array());
            list = json_object_get(file, "additional_special_tokens");
        }
        json_array_foreach(list, k, one)
        {
            const char *name = content_of(one);

            known = known || (name != NULL && strcmp(name, c->stops[i]) == 0);
        }
        if (!known)
            json_array_append_new(list, json_string(c->stops[i]));
    }
}

static void change_names(const struct change *c, json_t *file)
{
    if (c->eos != NULL)
        json_object_set_new(file, "eos_token", json_string(c->eos));
    if (c->pad != NULL)
        json_object_set_new(file, "pad_token", json_string(c->pad));
    add_stops(c, file);
}

static enum fr_rc print(const json_t *root, struct fr_buf *out, struct fr_err *err)
{
    fr_json_add(out, root, JSON_INDENT(2));
    fr_buf_text(out, "\n");
    return out->bad ? fr_fail(err, FR_NOMEM, "no memory for a tokenizer's files") : FR_OK;
}

/* All added tokens where the files list some, so that none gets another's id or flags:
 * tokenizer.json where a token of the change is none of its special ones, and the configuration. */
static enum fr_rc change_tokens(const struct change *c, const char *model_dir, json_t *config,
                                struct fr_buf *out, struct fr_err *err)
{
    const char *words[STOPS + 1] = {c->eos, c->stops[0], c->stops[1]};
    json_t *root = NULL, *list = tr_tokenizer_added_list(c->tok);
    bool changed = false, failed = list == NULL;
    enum fr_rc rc = load(model_dir, "tokenizer.json", &root, err);
    const json_t *there = json_object_get(root, "added_tokens");

    for (size_t i = 0; i < STOPS + 1; i++)
        changed = changed || (words[i] != NULL && !is_plain(find(there, words[i])));
    /* named twice it would lose the flags that its first form gave it */
    changed =
        changed || (c->pad != NULL && find(there, c->pad) == NULL && !is_plain(find(list, c->pad)));
    if (!failed && json_is_object(json_object_get(config, "added_tokens_decoder")))
        failed = set_decoder(config, list) != 0;
    if (!failed && changed && root != NULL)
        failed = json_object_set(root, "added_tokens", list) != 0;
    if (rc == FR_OK && failed)
        rc = fr_fail(err, FR_NOMEM, "no memory for a tokenizer's files");
    if (rc == FR_OK && changed && root != NULL)
        rc = print(root, out, err);
    json_decref(root);
    json_decref(list);
    return rc;
}

enum fr_rc tr_template_files_make(const struct tr_template *t, const struct tr_tokenizer *tok,
                                  const char *model_dir, struct tr_template_files *out,
                                  struct fr_err *err)
{
    json_t *config = NULL, *map = NULL;
    struct change c = {.eos = NULL};
    enum fr_rc rc = load(model_dir, "tokenizer_config.json", &config, err);

    *out = (struct tr_template_files){.config = {0}};
    if (rc == FR_OK && config != NULL)
        rc = load(model_dir, "special_tokens_map.json", &map, err);
    if (rc == FR_OK && config != NULL)
        c = plan(t, tok, config, map);
    if (rc == FR_OK && (c.eos != NULL || c.pad != NULL || c.nstops > 0))
        rc = change_tokens(&c, model_dir, config, &out->tokenizer, err);
    if (rc == FR_OK && (c.eos != NULL || c.pad != NULL || c.nstops > 0)) {
        change_names(&c, config);
        rc = print(config, &out->config, err);
        if (rc == FR_OK && map != NULL) {
            change_names(&c, map);
            rc = print(map, &out->map, err);
        }
    }
    json_decref(config);
    json_decref(map);
    return rc == FR_OK ? rc
                       : fr_while(err, "template '%s': the tokenizer of %s", t->name, model_dir);
}

enum fr_rc tr_template_files_write(const struct tr_template_files *f, const char *dir,
                                   struct fr_err *err)
{
    const struct {
        const char *name;
        const struct fr_buf *text;
    } files[] = {{"tokenizer.json", &f->tokenizer},
                 {"tokenizer_config.json", &f->config},
                 {"special_tokens_map.json", &f->map}};
    char path[PATH_MAX];
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; i < 3 && rc == FR_OK; i++) {
        if (files[i].text->n == 0)
            continue;
        if ((rc = tr_path(path, dir, files[i].name, err)) == FR_OK)
            rc = fr_file_write(path, files[i].text->p, files[i].text->n, 0644, err);
    }
    return rc;
}

void tr_template_files_finish(struct tr_template_files *f)
{
    fr_buf_finish(&f->tokenizer);
    fr_buf_finish(&f->config);
    fr_buf_finish(&f->map);
}
