/*
 * gather-adapters: the engine has moved the files of an adapter to this node (engine/run/gather.c),
 * or they are on it already, as those of a model must be. They are copied into the folder `to`,
 * hashed on the way, checked by `flowtrain inspect --verify`, and only then take the place of what
 * was there.
 */
#include "tasks/filelist.h"
#include "tasks/launch.h"
#include "tasks/task.h"

#include "engine/base/json.h"
#include "engine/base/sys.h"

#include <errno.h>
#include <string.h>

enum { INDEX_MAX = 64 << 20 }; /* bytes of model.safetensors.index.json */

struct gather {
    struct fr_job *job;
    bool model; /* `what` is model */
    const char *from, *to;
    const char **files; /* below from */
    size_t n;
    const char *stage; /* beside to */
};

static bool is_there(struct gather *g, const char *name)
{
    const char *path = fr_arena_fmt(&g->job->arena, "%s/%s", g->from, name);
    struct stat st;

    return path != NULL && fr_sys.lstat(path, &st) == 0;
}

static enum fr_rc add(struct gather *g, const char *name, struct fr_err *err)
{
    const char **files;

    for (size_t i = 0; i < g->n; i++)
        if (strcmp(g->files[i], name) == 0)
            return FR_OK;
    files = fr_arena_grow(&g->job->arena, g->files, g->n, sizeof(*files));
    if (files == NULL || (name = fr_arena_dup(&g->job->arena, name)) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for names of files");
    g->files = files;
    g->files[g->n++] = name;
    return FR_OK;
}

/* The files that the index names, each once. */
static enum fr_rc add_shards(struct gather *g, const char *index, struct fr_err *err)
{
    const char *path = fr_arena_fmt(&g->job->arena, "%s/%s", g->from, index);
    const char *tensor;
    json_t *doc = NULL, *map, *file;
    enum fr_rc rc = path != NULL ? fr_json_load(path, INDEX_MAX, &doc, err)
                                 : fr_fail(err, FR_NOMEM, "no memory for a path");

    map = json_object_get(doc, "weight_map");
    if (rc == FR_OK && json_object_size(map) == 0)
        rc = fr_fail(err, FR_CORRUPT, "%s names no tensors", path);
    json_object_foreach(map, tensor, file)
    {
        if (rc == FR_OK && !json_is_string(file))
            rc = fr_fail(err, FR_CORRUPT, "%s: weight_map has no file for '%s'", path, tensor);
        if (rc == FR_OK)
            rc = add(g, json_string_value(file), err);
    }
    json_decref(doc);
    return rc;
}

/* A model as save_pretrained writes it: weights in one file or in shards, its configuration, and
 * what else belongs to it of the files that are there. */
static enum fr_rc add_model(struct gather *g, struct fr_err *err)
{
    static const char weights[] = "model.safetensors", index[] = "model.safetensors.index.json";
    static const char *const beside[] = {"generation_config.json",
                                         "tokenizer.json",
                                         "tokenizer_config.json",
                                         "tokenizer.model",
                                         "special_tokens_map.json",
                                         "added_tokens.json",
                                         "vocab.json",
                                         "merges.txt",
                                         "chat_template.jinja",
                                         "README.md"};
    bool whole = is_there(g, weights), shards = is_there(g, index);
    enum fr_rc rc = add(g, "config.json", err);

    if (rc == FR_OK && whole && shards)
        rc = fr_fail(err, FR_CORRUPT, "%s has %s and %s: remove those of the older model", g->from,
                     weights, index);
    if (rc == FR_OK && !whole && !shards)
        rc = fr_fail(err, FR_NOTFOUND,
                     "%s has neither %s nor %s: is a training with "
                     "finetuning_type full or freeze saved there?",
                     g->from, weights, index);
    if (rc == FR_OK)
        rc = add(g, whole ? weights : index, err);
    if (rc == FR_OK && shards)
        rc = add_shards(g, index, err);
    for (size_t i = 0; rc == FR_OK && i < sizeof(beside) / sizeof(beside[0]); i++)
        if (is_there(g, beside[i]))
            rc = add(g, beside[i], err);
    return rc;
}

static enum fr_rc add_adapter(struct gather *g, struct fr_err *err)
{
    static const char weights[] = "adapter_model.safetensors";
    enum fr_rc rc = add(g, "adapter_config.json", err);

    if (rc == FR_OK && !is_there(g, weights) &&
        (is_there(g, "model.safetensors") || is_there(g, "model.safetensors.index.json")))
        rc = fr_fail(err, FR_NOTFOUND, "%s has no %s but a whole model: gather it by `what: model`",
                     g->from, weights);
    return rc == FR_OK ? add(g, weights, err) : rc;
}

static enum fr_rc read_inputs(struct gather *g, struct fr_err *err)
{
    const char *what = fr_input_text(g->job, "what");
    enum fr_rc rc;

    g->model = what != NULL && strcmp(what, "model") == 0;
    g->from = fr_input_path(g->job, "from");
    g->to = fr_input_path(g->job, "to");
    g->files = fr_input_list(g->job, "files", &g->n);
    rc = fr_inputs_ok(g->job, err);
    if (rc == FR_OK && g->from == NULL)
        rc = fr_fail(err, FR_USAGE, "input 'from' is missing");
    if (rc == FR_OK && what != NULL && !g->model && strcmp(what, "adapter") != 0)
        rc = fr_fail(err, FR_USAGE, "input 'what' is '%s': expected adapter or model", what);
    if (rc == FR_OK && g->n == 0)
        rc = g->model ? add_model(g, err) : add_adapter(g, err);
    if (g->to == NULL)
        g->to = fr_arena_fmt(&g->job->arena, "%s/%s", fr_work_folder(g->job),
                             g->model ? "model" : "adapter");
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
        fr_fail(err, rc, "flowtrain is not on this node, so the %s cannot be checked",
                g->model ? "model" : "adapter");
    else if (rc == FR_OK && (c.code != 0 || c.signaled))
        rc = fr_fail(err, FR_CORRUPT, "the %s is not sound: %.*s", g->model ? "model" : "adapter",
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

static enum fr_rc give_folder(struct gather *g, struct fr_err *err)
{
    return fr_output(g->job, err, g->model ? "model_dir" : "adapter_dir", "%s", g->to);
}

static enum fr_rc gather(struct fr_job *job, struct fr_err *err)
{
    struct gather g = {.job = job};
    enum fr_rc rc = read_inputs(&g, err);
    bool check = fr_input_bool(job, "verify", true);

    if (rc == FR_OK && job->dry_run) {
        fr_note(job, "did", "copy %zu files from %s to %s%s", g.n, g.from, g.to,
                check ? " and check them" : "");
        return give_folder(&g, err);
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
    return rc == FR_OK ? give_folder(&g, err) : rc;
}

int fr_task_gather(int argc, char **argv)
{
    return fr_job_main("gather-adapters", argc, argv, gather);
}
