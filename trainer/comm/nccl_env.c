#include "trainer/comm/nccl_env.h"

#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/base/str.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILE_MAX = 1 << 20 };

static const char PREFIX[] = "NCCL_";

/* Whether `pair` turns off a link between GPUs of one node. */
static bool gives_up(const char *pair)
{
    static const char *const off[] = {"NCCL_P2P_DISABLE=", "NCCL_SHM_DISABLE="};

    for (size_t i = 0; i < sizeof(off) / sizeof(off[0]); i++)
        if (strncmp(pair, off[i], strlen(off[i])) == 0)
            return strtol(pair + strlen(off[i]), NULL, 10) != 0;
    return strcmp(pair, "NCCL_P2P_LEVEL=LOC") == 0 || strcmp(pair, "NCCL_P2P_LEVEL=0") == 0;
}

struct found {
    struct fr_buf names; /* " NAME=" of each */
    struct fr_buf text;  /* for the log */
    struct fr_buf slow;  /* the first that turns off a link, and its source; empty: none */
};

static void take(struct found *f, const char *pair, const char *file)
{
    size_t n = strcspn(pair, "=");
    char name[128];

    if (strncmp(pair, PREFIX, strlen(PREFIX)) != 0 || pair[n] != '=' ||
        snprintf(name, sizeof(name), " %.*s=", (int)n, pair) >= (int)sizeof(name) ||
        (f->names.n > 0 && strstr(f->names.p, name) != NULL))
        return;
    fr_buf_text(&f->names, name);
    fr_buf_fmt(&f->text, file != NULL ? " %s (%s)" : " %s", pair, file);
    if (f->slow.n == 0 && gives_up(pair))
        fr_buf_fmt(&f->slow, "%s in %s", pair, file != NULL ? file : "the environment");
}

static void take_file(struct found *f, const char *path)
{
    struct fr_buf text = {0};
    char *rest, *line;

    if (path != NULL && fr_file_read(path, FILE_MAX, &text, NULL) == FR_OK && text.n > 0)
        for (line = strtok_r(text.p, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
            take(f, line, path);
    fr_buf_finish(&text);
}

struct tr_nccl_vars tr_nccl_vars_here(char *room, size_t bytes)
{
    struct tr_nccl_vars vars = {.env = environ, .user = room, .system = "/etc/nccl.conf"};
    const char *given = getenv("NCCL_CONF_FILE");
    const struct passwd *me = getpwuid(getuid());

    if (given != NULL && given[0] != '\0')
        snprintf(room, bytes, "%s", given);
    else
        snprintf(room, bytes, "%s/.nccl.conf", me != NULL ? me->pw_dir : "");
    return vars;
}

static void take_all(struct found *f, const struct tr_nccl_vars *vars)
{
    for (char *const *env = vars->env; *env != NULL; env++)
        take(f, *env, NULL);
    take_file(f, vars->user);
    take_file(f, vars->system);
}

static void finish(struct found *f)
{
    fr_buf_finish(&f->names);
    fr_buf_finish(&f->text);
    fr_buf_finish(&f->slow);
}

bool tr_nccl_set(const struct tr_nccl_vars *vars, const char *name)
{
    struct found f = {0};
    char word[130];
    bool set;

    take_all(&f, vars);
    (void)snprintf(word, sizeof(word), " %s=", name);
    set = f.names.n > 0 && strstr(f.names.p, word) != NULL;
    finish(&f);
    return set;
}

enum fr_rc tr_nccl_env(const struct tr_nccl_vars *vars, int local_size, bool allow,
                       struct fr_err *err)
{
    struct found f = {0};
    enum fr_rc rc = FR_OK;

    take_all(&f, vars);
    if (f.slow.n > 0 && local_size > 1 && !allow)
        rc = fr_fail(err, FR_USAGE,
                     "%s turns off NVLink or shared memory between the %d GPUs of this node: unset "
                     "it, or pass --allow_slow_links",
                     f.slow.p, local_size);
    fr_log(FR_LOG_INFO, "comm", "nccl environment:%s", f.text.n > 0 ? f.text.p : " nothing set");
    finish(&f);
    return rc;
}
