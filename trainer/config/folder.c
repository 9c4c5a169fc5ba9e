#include "trainer/config/folder.h"

#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "trainer/config/arch.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool tr_folder_same(const char *a, const char *b)
{
    char here[PATH_MAX], there[PATH_MAX];

    return realpath(a, here) != NULL && realpath(b, there) != NULL && strcmp(here, there) == 0;
}

static enum fr_rc refuse_adapter(const struct tr_folder *f, struct fr_err *err)
{
    char path[PATH_MAX];
    struct stat st;

    if (snprintf(path, sizeof(path), "%s/adapter_config.json", f->dir) >= PATH_MAX)
        return fr_fail(err, FR_USAGE, "folder name too long: %s", f->dir);
    if (fr_sys.lstat(path, &st) != 0 ||
        (f->adapter_dir != NULL && tr_folder_same(f->dir, f->adapter_dir)))
        return FR_OK;
    return fr_fail(err, FR_USAGE,
                   "%s lies beside a model: transformers would put that adapter on the model. Move "
                   "adapter_config.json and its weights to a folder of their own, or merge them",
                   path);
}

/* Checks the weights if config.json ties the head to the embedding. */
static enum fr_rc settle_head(const struct tr_folder *f, struct tr_model_config *c,
                              struct tr_st *st, struct tr_twice *twice, struct fr_err *err)
{
    static const enum tr_dtype dtypes[] = {TR_BF16, TR_F16, TR_F32};
    const struct tr_tensor_names *names = tr_names_of(c);
    const struct tr_st_tensor *pair[2] = {tr_st_find(st, names->embed),
                                          tr_st_find(st, names->head)};
    bool same;
    enum fr_rc rc;

    if (!c->tie_word_embeddings || pair[1] == NULL)
        return FR_OK;
    if (pair[0] == NULL)
        return tr_st_rename(st, pair[1], names->embed, err);
    if (pair[0]->absent || pair[1]->absent)
        return fr_fail(err, FR_NOTFOUND,
                       "%s: config.json ties the head to the embedding, but there is a "
                       "%s, and files that say whether it is another are not here: "
                       "fetch %s and %s, or write tie_word_embeddings: false if it is",
                       f->dir, names->head, tr_st_file_name(st, (size_t)pair[0]->file),
                       tr_st_file_name(st, (size_t)pair[1]->file));
    rc = tr_st_same(st, pair, dtypes[c->torch_dtype], &same, err);
    if (rc != FR_OK || same)
        return rc;
    c->tie_word_embeddings = false;
    tr_twice_add(twice, &(struct tr_twice_row){.what = "the head",
                                               .from = names->head,
                                               .over = "tie_word_embeddings",
                                               .other = "true"});
    return FR_OK;
}

enum fr_rc tr_folder_names(const struct tr_model_config *c, struct tr_st *st,
                           struct tr_twice *twice, struct fr_err *err)
{
    const struct tr_tensor_names *names = tr_names_of(c);
    const char *const roots[] = {names->embed, names->layers, names->norm[TR_NORM_FINAL]};

    return tr_st_whole_names(st, roots, sizeof(roots) / sizeof(roots[0]), twice, err);
}

enum fr_rc tr_folder_read(const struct tr_folder *f, struct tr_model_config *c, struct tr_st **st,
                          struct tr_model_said *said, struct fr_err *err)
{
    struct tr_twice *twice = said != NULL ? &said->twice : NULL;
    enum fr_rc rc;

    *st = NULL;
    if ((rc = tr_model_config_read(f->dir, c, said, err)) != FR_OK ||
        (rc = refuse_adapter(f, err)) != FR_OK ||
        (rc = tr_st_open_folder(f->dir, f->part, twice, st, err)) != FR_OK)
        return rc;
    if ((rc = tr_folder_names(c, *st, twice, err)) != FR_OK ||
        (rc = settle_head(f, c, *st, twice, err)) != FR_OK) {
        tr_st_close(*st);
        *st = NULL;
    }
    return rc;
}

bool tr_folder_has_weights(const char *dir)
{
    static const char *const names[] = {"model.safetensors", "model.safetensors.index.json"};
    char file[PATH_MAX];
    struct stat st;

    for (size_t i = 0; i < 2; i++)
        if (snprintf(file, sizeof(file), "%s/%s", dir, names[i]) < PATH_MAX &&
            fr_sys.lstat(file, &st) == 0)
            return true;
    return false;
}

enum fr_rc tr_folder_config(const char *path, struct tr_model_config *c, struct fr_err *err)
{
    const struct tr_folder f = {.dir = path, .part = true};
    enum fr_rc rc = tr_model_config_load(path, c, err);
    struct tr_model_config whole;
    struct tr_st *st = NULL;

    if (rc == FR_OK && c->tie_word_embeddings && tr_folder_has_weights(path) &&
        tr_folder_read(&f, &whole, &st, NULL, NULL) == FR_OK)
        c->tie_word_embeddings = whole.tie_word_embeddings;
    tr_st_close(st);
    return rc;
}

enum fr_rc tr_folder_open(const struct tr_folder *f, struct tr_model_config *c, struct tr_st **st,
                          struct fr_buf *notes, struct fr_err *err)
{
    struct tr_model_said said = {.values = NULL};
    enum fr_rc rc = tr_folder_read(f, c, st, &said, err);

    if (rc == FR_OK && notes != NULL)
        tr_twice_notes(&said.twice, notes);
    tr_model_said_finish(&said);
    return rc;
}

enum fr_rc tr_folder_load(const struct tr_folder *f, struct tr_model_config *c, struct tr_st **st,
                          struct fr_err *err)
{
    struct fr_buf notes = {0};
    enum fr_rc rc = tr_folder_open(f, c, st, &notes, err);

    if (rc == FR_OK && notes.n > 0)
        fr_complain("%s", notes.p);
    fr_buf_finish(&notes);
    return rc;
}
