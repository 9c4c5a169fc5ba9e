/* Files that a request may not name: those outside of its folders. The check is on the text of the
 * pipeline that a parameter of the request is part of; of a path that exists or does not, the same
 * is said. */
#include "engine/spec/load.h"

#include "engine/base/file.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

static bool is_below(const char *path, const char *folder)
{
    size_t n = strcmp(folder, "/") == 0 ? 0 : strlen(folder);

    return strncmp(path, folder, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

/* Where path leads, as far as it exists: the rest, which holds no "..", is cut off. False: that
 * cannot be known. */
static bool resolve(const char *path, char out[PATH_MAX])
{
    char part[PATH_MAX], *slash;
    struct stat st;
    int failed, linked;

    if (path[0] != '/' || strlen(path) >= sizeof(part))
        return false;
    memcpy(part, path, strlen(path) + 1);
    while (fr_file_real_soon(part[0] != '\0' ? part : "/", out, &failed, NULL) == FR_OK) {
        if (failed == 0)
            return true;
        slash = strrchr(part, '/');
        if ((failed != ENOENT && failed != ENOTDIR) || slash == NULL || strcmp(slash, "/..") == 0 ||
            fr_file_look_soon(part, &st, &linked, NULL) != FR_OK ||
            (failed == ENOENT && linked == 0)) /* a link to nowhere */
            return false;
        *slash = '\0';
    }
    return false;
}

static bool holds(const struct fr_fence *f, const char *path)
{
    char real[PATH_MAX];

    if (!resolve(path, real))
        return false;
    for (size_t i = 0; i < f->n_folders; i++)
        if (is_below(real, f->folders[i]))
            return true;
    return false;
}

void guard_path(struct loader *l, const char *path)
{
    if (l->fenced && !holds(l->opts->fence, path))
        complain(l, l->text_pos,
                 "a path in a folder of 'flowrun serve', or the default "
                 "of the parameter",
                 "'%s' is no file that %s may name", path, l->opts->fence->whose);
}

void guard_late(struct loader *l)
{
    if (l->fenced)
        complain(
            l, l->text_pos, "the default of the parameter",
            "a parameter is part of a path that shows when the task starts: %s may not give it",
            l->opts->fence->whose);
}

void guard_name(struct loader *l, const char *what)
{
    if (l->fenced)
        complain(l, l->text_pos, "the default of the parameter",
                 "a parameter is part of the %s of a secret: %s may not give it", what,
                 l->opts->fence->whose);
}
