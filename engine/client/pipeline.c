#include "engine/client/pipeline.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "engine/base/yaml.h"
#include "engine/spec/config.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum fr_rc cli_list_add(struct cli_list *list, const char *value, struct fr_err *err)
{
    const char **more = fr_sys.realloc(list->v, (list->n + 1) * sizeof(*more));

    if (more == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for arguments");
    list->v = more;
    list->v[list->n++] = value;
    return FR_OK;
}

void cli_list_finish(struct cli_list *list)
{
    fr_sys.free(list->v);
    *list = (struct cli_list){0};
}

static enum fr_rc read_zones(struct cli_spec *s, struct fr_err *err)
{
    struct fr_issues issues = {0};
    enum fr_rc rc = cli_config(NULL, &s->config, &issues, err);

    fr_issues_finish(&issues);
    if (rc == FR_OK)
        s->zones = (struct fr_zones){getenv("TZDIR"), s->config->zone, fr_sys.wall_ms()};
    return rc;
}

const struct fr_source *cli_spec_taken(const struct cli_spec *s, const char *path)
{
    for (size_t i = 0; i < s->n_own; i++)
        if (strcmp(s->own[i].path, path) == 0)
            return &s->own[i];
    return NULL;
}

enum fr_rc cli_spec_take(struct cli_spec *s, const char *path, struct fr_err *err)
{
    struct fr_source *own = &s->own[s->n_own];
    struct fr_buf text = {0};
    struct stat st;
    enum fr_rc rc;

    if (cli_spec_taken(s, path) != NULL || stat(path, &st) != 0 ||
        (!S_ISFIFO(st.st_mode) && !S_ISCHR(st.st_mode)))
        return FR_OK;
    if (s->n_own == CLI_OWN_FILES)
        return fr_fail(err, FR_USAGE, "more than %d pipes among the files that are named",
                       CLI_OWN_FILES);
    if ((rc = fr_file_read_any(path, FR_YAML_MAX_BYTES, &text, err)) == FR_OK) {
        own->path = fr_arena_dup(&s->arena, path);
        own->text.p = fr_arena_text(&s->arena, text.p != NULL ? text.p : "", text.n);
        own->text.n = text.n;
        s->n_own++;
        if (own->path == NULL || own->text.p == NULL)
            rc = fr_fail(err, FR_NOMEM, "no memory for %s", path);
    }
    fr_buf_finish(&text);
    return rc;
}

/* Whether path is a descriptor of this process, as of the shell's <(…). */
static bool is_descriptor(const char *path)
{
    return strcmp(path, "/dev/stdin") == 0 || fr_has_prefix(path, "/dev/fd/") ||
           fr_has_prefix(path, "/proc/self/fd/");
}

static enum fr_rc take_all(struct cli_spec *s, struct fr_err *err)
{
    enum fr_rc rc = s->file != NULL ? cli_spec_take(s, s->file, err) : FR_OK;

    for (size_t i = 0; rc == FR_OK && i < s->params.n; i++) {
        const char *value = strchr(s->params.v[i], '=');

        if (value != NULL && is_descriptor(value + 1))
            rc = cli_spec_take(s, value + 1, err);
    }
    return rc;
}

enum fr_rc cli_spec_opts(struct cli_spec *s, struct fr_spec_opts *out, struct fr_err *err)
{
    struct fr_buf b = {0};
    enum fr_rc rc = FR_OK;

    if (getcwd(s->cwd, sizeof(s->cwd)) == NULL)
        return fr_fail(err, FR_IO, "the current folder is gone");
    if (s->nodes != NULL) {
        fr_buf_fmt(&b, "nodes=%s", s->nodes);
        if (b.bad)
            return fr_fail(err, FR_NOMEM, "no memory for arguments");
        s->nodes_param = b.p;
        rc = cli_list_add(&s->params, s->nodes_param, err);
    }
    if (rc == FR_OK)
        rc = read_zones(s, err);
    if (rc == FR_OK)
        rc = take_all(s, err);
    *out = (struct fr_spec_opts){.path = s->file,
                                 .cwd = s->cwd,
                                 .params = s->params.v,
                                 .n_params = s->params.n,
                                 .zones = &s->zones,
                                 .sources = s->own,
                                 .n_sources = s->n_own,
                                 .getenv = cli_getenv};
    return rc;
}

enum fr_rc cli_spec_shared(const struct fr_spec_opts *opts, const char *home, struct fr_err *err)
{
    if (opts->n_sources == 0)
        return FR_OK;
    return fr_fail(err, FR_USAGE,
                   "%s is a pipe, which this process alone can read; the run would be driven by "
                   "the host of %s, which is another one: write it into a file first",
                   opts->sources[0].path, home);
}

void cli_spec_finish(struct cli_spec *s)
{
    cli_list_finish(&s->params);
    fr_sys.free(s->nodes_param);
    s->nodes_param = NULL;
    fr_config_destroy(s->config);
    s->config = NULL;
    fr_arena_finish(&s->arena);
    s->n_own = 0;
}
