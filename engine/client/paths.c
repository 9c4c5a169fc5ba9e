/* Paths of flowrun's programs, the home, its store and its configuration. */
#include "engine/client/session.h"

#include "engine/spec/config.h"

#include "engine/base/sys.h"
#include "engine/store/home.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *text(struct fr_buf *b)
{
    if (!b->bad && b->p != NULL)
        return b->p;
    fr_buf_finish(b);
    return NULL;
}

/* The text of b, if it is the path of a program that this process may run, else NULL; frees b. */
static char *runnable(struct fr_buf *b)
{
    char *path = text(b);

    if (path != NULL && access(path, X_OK) == 0)
        return path;
    fr_sys.free(path);
    return NULL;
}

/* Folders of programs relative to this one: installation and build folder. */
static const char *const below[] = {"", "../libexec/flowrun/", "../../tasks/",
                                    "../../trainer/cli/"};

/* The path of one of flowrun's programs, or NULL. */
static char *beside(const struct cli_paths *p, const char *name)
{
    const char *libexec = getenv("FLOWRUN_LIBEXEC");
    const char *slash = strrchr(p->self, '/');
    int dir = slash != NULL ? (int)(slash - p->self) + 1 : 0;
    struct fr_buf b = {0};
    char *path = NULL, real[4096];

    if (libexec != NULL && libexec[0] != '\0') {
        fr_buf_fmt(&b, "%s/%s", libexec, name);
        path = runnable(&b);
    }
    for (size_t i = 0; path == NULL && i < sizeof(below) / sizeof(below[0]); i++) {
        b = (struct fr_buf){0};
        fr_buf_fmt(&b, "%.*s%s%s", dir, p->self, below[i], name);
        path = runnable(&b);
        if (path == NULL)
            continue;
        b = (struct fr_buf){0};
        if (realpath(path, real) != NULL)
            fr_buf_text(&b, real);
        fr_sys.free(path);
        path = text(&b);
    }
    return path;
}

enum fr_rc cli_paths_find(struct cli_paths *out, struct fr_err *err)
{
    struct fr_buf self = {0};
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
    char *flownode;

    *out = (struct cli_paths){0};
    if (n < 0)
        return fr_fail_errno(err, errno, "finding this program");
    path[n] = '\0';
    fr_buf_text(&self, path);
    out->self = text(&self);
    if (out->self == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a path");
    if (getcwd(out->cwd, sizeof(out->cwd)) == NULL)
        return fr_fail_errno(err, errno, "finding the current folder");
    flownode = beside(out, "flownode");
    if (flownode == NULL)
        return fr_fail(err, FR_NOTFOUND,
                       "there is no flownode beside %s (FLOWRUN_LIBEXEC names "
                       "its folder)",
                       out->self);
    *strrchr(flownode, '/') = '\0';
    out->flownode_dir = flownode;
    return FR_OK;
}

void cli_paths_finish(struct cli_paths *p)
{
    fr_sys.free(p->self);
    fr_sys.free(p->flownode_dir);
    *p = (struct cli_paths){0};
}

enum fr_rc cli_program(void *arg, const char *name, struct fr_buf *out, struct fr_err *err)
{
    char *path = beside(arg, name);

    if (path == NULL)
        return fr_fail(err, FR_NOTFOUND,
                       "there is no program %s beside flowrun (FLOWRUN_LIBEXEC "
                       "names its folder)",
                       name);
    fr_buf_text(out, path);
    fr_sys.free(path);
    return out->bad ? fr_fail(err, FR_NOMEM, "no memory for a path") : FR_OK;
}

enum fr_rc cli_home(struct fr_buf *out, struct fr_err *err)
{
    enum fr_rc rc = fr_home_find(out, err);

    if (rc == FR_OK)
        rc = fr_home_resolve(out, err);
    if (rc == FR_OK)
        rc = fr_home_make(out->p, err);
    if (rc == FR_NOTFOUND)
        err->rc = rc = FR_IO; /* the home is missing, not the named object */
    return rc;
}

enum fr_rc cli_store_read(struct fr_store **out, struct fr_err *err)
{
    struct fr_buf home = {0};
    enum fr_rc rc = cli_home(&home, err);

    *out = NULL;
    if (rc == FR_OK)
        rc = fr_store_open_read(home.p, out, err);
    fr_buf_finish(&home);
    if (rc == FR_NOTFOUND)
        err->rc = rc = FR_IO;
    return rc;
}

enum fr_rc cli_config(const char *file, struct fr_config **out, struct fr_issues *issues,
                      struct fr_err *err)
{
    struct fr_buf path = {0};
    enum fr_rc rc = FR_OK;

    *out = NULL;
    if (file != NULL)
        fr_buf_text(&path, file);
    else if ((rc = fr_home_find(&path, err)) == FR_OK)
        fr_buf_text(&path, "/" FR_CONFIG_FILE);
    if (rc == FR_OK && path.bad)
        rc = fr_fail(err, FR_NOMEM, "no memory for a path");
    if (rc == FR_OK)
        rc = fr_config_load(path.p, out, issues, err);
    if (rc == FR_OK && file != NULL && !(*out)->there)
        rc = fr_fail(err, FR_NOTFOUND, "there is no file %s", file);
    fr_buf_finish(&path);
    return rc;
}
