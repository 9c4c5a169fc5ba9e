/*
 * gather-adapters: the engine has moved the adapter's files to this node (engine/run/gather.c), or
 * they are on it already. They are copied into the folder `to`, hashed on the way, checked by
 * `flowtrain inspect --verify`, and only then take the place of what was there.
 */
#include "tasks/filelist.h"
#include "tasks/launch.h"
#include "tasks/task.h"

#include "engine/base/sys.h"

#include <errno.h>
#include <string.h>

struct gather {
    struct fr_job *job;
    const char *from, *to;
    const char **files; /* below from */
    size_t n;
    const char *stage; /* beside to */
};

static enum fr_rc read_inputs(struct gather *g, struct fr_err *err)
{
    static const char *standard[] = {"adapter_config.json", "adapter_model.safetensors", NULL};
    enum fr_rc rc;

    g->from = fr_input_path(g->job, "from");
    g->to = fr_input_path(g->job, "to");
    g->files = fr_input_list(g->job, "files", &g->n);
    if (g->n == 0) {
        g->files = standard;
        g->n = 2;
    }
    rc = fr_inputs_ok(g->job, err);
    if (rc == FR_OK && g->from == NULL)
        rc = fr_fail(err, FR_USAGE, "input 'from' is missing");
    if (g->to == NULL)
        g->to = fr_arena_fmt(&g->job->arena, "%s/adapter", fr_work_folder(g->job));
    g->stage =
        fr_arena_fmt(&g->job->arena, "%s.gather-%.16s", g->to, fr_env("FLOWRUN_ATTEMPT", "hand"));
    if (rc == FR_OK && (g->to == NULL || g->stage == NULL))
        rc = fr_fail(err, FR_NOMEM, "no memory for a path");
    for (size_t i = 0; rc == FR_OK && i < g->n; i++)
        if (g->files[i][0] == '/' || g->files[i][0] == '\0' || strstr(g->files[i], "..") != NULL)
            rc = fr_fail(err, FR_USAGE, "files: '%s' is not a path below the folder `from`",
                         g->files[i]);
    return rc;
}

static enum fr_rc copy_one(struct gather *g, const char *name, struct fr_err *err)
{
    const char *path = fr_arena_fmt(&g->job->arena, "%s/%s", g->from, name);
    struct fr_listed f = {.path = name};
    struct stat st;
    enum fr_rc rc;

    if (path == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a path");
    if (fr_sys.lstat(path, &st) != 0)
        return fr_fail_errno(err, errno, "%s is not there", path);
    if (!S_ISREG(st.st_mode) || st.st_size == 0)
        return fr_fail(err, FR_CORRUPT, "%s is %s", path,
                       S_ISREG(st.st_mode) ? "empty" : "no file");
    f.bytes = st.st_size;
    rc = fr_sha256_file(path, f.sha256, err);
    if (rc == FR_OK)
        rc = fr_filelist_copy(g->job, &f, g->from, g->stage, err);
    if (rc == FR_OK)
        fr_note(g->job, "files", "%s: %lld bytes, SHA-256 %s", name, (long long)f.bytes, f.sha256);
    return rc;
}

static enum fr_rc verify(struct gather *g, struct fr_err *err)
{
    const char *argv[] = {fr_flowtrain(g->job), "inspect", g->stage, "--verify", "--json", NULL};
    struct fr_command c = {.argv = argv};
    enum fr_rc rc = fr_command_run(&c, err);
    struct fr_str why = fr_last_line(&c.err), line = fr_last_line(&c.out);
    json_t *doc = NULL;

    if (rc == FR_NOTFOUND)
        fr_fail(err, rc, "flowtrain is not on this node, so the adapter cannot be checked");
    else if (rc == FR_OK && (c.code != 0 || c.signaled))
        rc = fr_fail(err, FR_CORRUPT, "the adapter is not sound: %.*s",
                     (int)(why.n < 600 ? why.n : 600), why.p);
    else if (rc == FR_OK && (doc = json_loadb(line.p, line.n, 0, NULL)) == NULL)
        rc = fr_fail(err, FR_PROTO, "flowtrain inspect gave no report");
    if (doc != NULL)
        json_object_set_new(g->job->did, "verified", doc);
    fr_command_finish(&c);
    return rc;
}

/* The new folder takes the old one's place; one of both is there whenever this is cut short. */
static enum fr_rc put_in_place(struct gather *g, struct fr_err *err)
{
    const char *old = fr_arena_fmt(&g->job->arena, "%s.old", g->stage);
    struct stat st;
    bool replaced = fr_sys.lstat(g->to, &st) == 0;

    if (old == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a path");
    (void)fr_remove_tree(old, NULL);
    if (replaced && fr_sys.rename(g->to, old) != 0)
        return fr_fail_errno(err, errno, "cannot replace %s", g->to);
    if (fr_sys.rename(g->stage, g->to) != 0) {
        int e = errno;
        if (replaced)
            fr_sys.rename(old, g->to);
        return fr_fail_errno(err, e, "cannot make %s", g->to);
    }
    return replaced ? fr_remove_tree(old, err) : FR_OK;
}

static enum fr_rc gather(struct fr_job *job, struct fr_err *err)
{
    struct gather g = {.job = job};
    enum fr_rc rc = read_inputs(&g, err);
    bool check = fr_input_bool(job, "verify", true);

    if (rc == FR_OK && job->dry_run) {
        fr_note(job, "did", "copy %zu files from %s to %s%s", g.n, g.from, g.to,
                check ? " and check them" : "");
        return fr_output(job, err, "adapter_dir", "%s", g.to);
    }
    if (rc == FR_OK)
        rc = fr_remove_tree(g.stage, err);
    if (rc == FR_OK)
        rc = fr_mkdirs(g.stage, 0755, err);
    for (size_t i = 0; rc == FR_OK && i < g.n; i++)
        rc = copy_one(&g, g.files[i], err);
    if (rc == FR_OK && check)
        rc = verify(&g, err);
    if (rc == FR_OK)
        rc = put_in_place(&g, err);
    if (rc != FR_OK && g.stage != NULL)
        (void)fr_remove_tree(g.stage, NULL);
    return rc == FR_OK ? fr_output(job, err, "adapter_dir", "%s", g.to) : rc;
}

int fr_task_gather(int argc, char **argv)
{
    return fr_job_main("gather-adapters", argc, argv, gather);
}
