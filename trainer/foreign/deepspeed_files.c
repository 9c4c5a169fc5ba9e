#include "trainer/foreign/deepspeed_files.h"

#include "engine/base/file.h"
#include "engine/base/str.h"
#include "engine/base/sys.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS_MAX = 1 << 16, TAG_MAX = 4096 };

static bool ends(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);

    return n >= k && strcmp(s + n - k, end) == 0;
}

/* ---- the folder of one step ---- */

static enum fr_rc holds_states(const char *dir, bool *yes, struct fr_err *err)
{
    char **names = NULL;
    size_t n = 0;

    *yes = false;
    if (fr_sys.list(dir, &names, &n) != 0)
        return fr_fail(err, FR_NOTFOUND, "cannot read the folder %s", dir);
    for (size_t i = 0; i < n; i++)
        *yes = *yes || ends(names[i], "_states.pt");
    fr_sys_names_free(names, n);
    return FR_OK;
}

/* The folder that dir/name names. FR_NOTFOUND: there is no such file. */
static enum fr_rc follow(const char *dir, const char *name, struct fr_arena *arena,
                         const char **out, struct fr_err *err)
{
    char path[PATH_MAX];
    struct fr_buf tag = {0};
    enum fr_rc rc;

    if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path))
        return fr_fail(err, FR_USAGE, "a folder's name is too long: %s", dir);
    rc = fr_file_read(path, TAG_MAX, &tag, err);
    while (rc == FR_OK && tag.n > 0 && strchr(" \r\n", tag.p[tag.n - 1]) != NULL)
        tag.p[--tag.n] = '\0';
    if (rc == FR_OK &&
        (tag.n == 0 || strlen(tag.p) != tag.n || strchr(tag.p, '/') != NULL || tag.p[0] == '.'))
        rc = fr_fail(err, FR_CORRUPT, "%s does not name a folder beside it", path);
    if (rc == FR_OK && (*out = fr_arena_fmt(arena, "%s/%s", dir, tag.p)) == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory");
    fr_buf_finish(&tag);
    return rc;
}

static enum fr_rc find_step(const char *dir, struct fr_arena *arena, const char **out,
                            struct fr_err *err)
{
    bool here = false;
    enum fr_rc rc = holds_states(dir, &here, err);

    if (rc != FR_OK)
        return rc;
    if (here)
        return (*out = fr_arena_dup(arena, dir)) != NULL ? FR_OK : fr_fail(err, FR_NOMEM, "memory");
    if ((rc = follow(dir, "latest", arena, out, err)) == FR_NOTFOUND)
        rc = follow(dir, "latest_universal", arena, out, err);
    if (rc == FR_NOTFOUND)
        return fr_fail(err, FR_NOTFOUND,
                       "%s is no checkpoint of DeepSpeed: it has no file 'latest' and no "
                       "*_states.pt; of a run of the Hugging Face Trainer give checkpoint-N",
                       dir);
    return rc != FR_OK ? rc : holds_states(*out, &here, err);
}

/* ---- its files ---- */

struct listing {
    const char *dir;
    struct fr_arena *arena;
    const char **model, **optim; /* (RANKS_MAX) own */
};

/* "zero_pp_rank_3_mp_rank_00" as its numbers; rank is 0 where it is not said. */
static bool numbers(const char *s, long *rank, long *part)
{
    static const char first[] = "zero_pp_rank_", second[] = "mp_rank_";
    char *end;

    *rank = 0;
    if (fr_has_prefix(s, "bf16_") || fr_has_prefix(s, "fp16_"))
        s += 5;
    if (fr_has_prefix(s, first)) {
        *rank = strtol(s + sizeof(first) - 1, &end, 10);
        if (*end != '_')
            return false;
        s = end + 1;
    }
    if (!fr_has_prefix(s, second))
        return false;
    *part = strtol(s + sizeof(second) - 1, &end, 10);
    return *end == '_';
}

static enum fr_rc add(struct listing *l, const char *name, struct fr_err *err)
{
    bool optim = ends(name, "_optim_states.pt");
    long rank, part;
    const char **to;

    if (!optim && !ends(name, "_model_states.pt"))
        return FR_OK;
    if (!numbers(name, &rank, &part) || part != 0 || rank < 0 || rank >= RANKS_MAX)
        return fr_fail(err, FR_UNSUPPORTED,
                       "%s/%s: parts of tensors by tensor parallelism, pipelines or DeepSpeed's "
                       "expert parallelism are not put together; DeepSpeed's ds_to_universal.py "
                       "does that, and its result is read",
                       l->dir, name);
    to = &(optim ? l->optim : l->model)[rank];
    if (*to != NULL)
        return fr_fail(err, FR_USAGE, "%s has two files of rank %ld: %s and %s", l->dir, rank, *to,
                       name);
    if ((*to = fr_arena_fmt(l->arena, "%s/%s", l->dir, name)) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory");
    return FR_OK;
}

/* Ranks 0 to n-1 of a list; *n. */
static enum fr_rc count(const struct listing *l, const char *const *files, size_t *n,
                        struct fr_err *err)
{
    size_t last = RANKS_MAX;

    while (last > 0 && files[last - 1] == NULL)
        last--;
    *n = last;
    for (size_t i = 0; i < last; i++)
        if (files[i] == NULL)
            return fr_fail(err, FR_NOTFOUND,
                           "%s: the file of rank %zu is missing, that of rank %zu is %s", l->dir, i,
                           last - 1, files[last - 1]);
    return FR_OK;
}

static enum fr_rc keep(struct fr_arena *arena, const char *const *files, size_t n,
                       const char ***out, struct fr_err *err)
{
    if ((*out = fr_arena_array(arena, n + 1, sizeof(**out))) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %zu files", n);
    for (size_t i = 0; i < n; i++)
        (*out)[i] = files[i];
    return FR_OK;
}

static enum fr_rc list_files(struct listing *l, struct tr_ds_files *out, struct fr_err *err)
{
    char **names = NULL;
    size_t n = 0;
    enum fr_rc rc = FR_OK;

    if (fr_sys.list(l->dir, &names, &n) != 0)
        return fr_fail(err, FR_NOTFOUND, "cannot read the folder %s", l->dir);
    for (size_t i = 0; i < n && rc == FR_OK; i++) {
        rc = add(l, names[i], err);
        out->universal = out->universal || strcmp(names[i], "zero") == 0;
    }
    fr_sys_names_free(names, n);
    if (rc == FR_OK && (rc = count(l, l->model, &out->nmodel, err)) == FR_OK)
        rc = count(l, l->optim, &out->noptim, err);
    if (rc == FR_OK && out->nmodel == 0)
        rc = fr_fail(err, FR_NOTFOUND, "%s has no *_model_states.pt", l->dir);
    if (rc == FR_OK && (rc = keep(l->arena, l->model, out->nmodel, &out->model, err)) == FR_OK)
        rc = keep(l->arena, l->optim, out->noptim, &out->optim, err);
    out->universal = out->universal && out->noptim == 0;
    return rc;
}

enum fr_rc tr_ds_files(const char *dir, struct fr_arena *arena, struct tr_ds_files *out,
                       struct fr_err *err)
{
    size_t bytes = RANKS_MAX * sizeof(char *);
    struct listing l = {.arena = arena};
    enum fr_rc rc = find_step(dir, arena, &out->dir, err);

    if (rc != FR_OK)
        return rc;
    l.dir = out->dir;
    l.model = fr_sys.alloc(bytes);
    l.optim = fr_sys.alloc(bytes);
    if (l.model == NULL || l.optim == NULL) {
        rc = fr_fail(err, FR_NOMEM, "no memory to list %s", l.dir);
    } else {
        memset(l.model, 0, bytes);
        memset(l.optim, 0, bytes);
        rc = list_files(&l, out, err);
    }
    fr_sys.free(l.model);
    fr_sys.free(l.optim);
    return rc;
}
