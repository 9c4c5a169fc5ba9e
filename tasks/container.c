/*
 * container: starts the container in which later tasks run. What they need from outside is mounted
 * under the same path inside: the node's home, its work folder, and the flownode program, which is
 * also the container's first process (`flownode hold`), so an image needs nothing of ours.
 */
#include "tasks/rendezvous.h"
#include "tasks/runtime.h"
#include "tasks/task.h"

#include "engine/base/file.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { WORDS = 240 };

struct box {
    struct fr_job *job;
    const char *runtime; /* NULL: none */
    const char *image, *name, *pull, *gpus, *network, *ipc, *user;
    const char **mounts, **options, **setup, **checks;
    size_t n_mounts, n_options, n_setup, n_checks;
    bool recreate, write_test, same_image;
    bool of_job; /* of Slurm: it ends with the keeper of its node, and is removed then */
    int64_t shm_size;
    char self[PATH_MAX]; /* flownode */
    const char *home, *work;
    char digest[80];
    const char *words[WORDS + 1]; /* of `run` */
    size_t n_words;
    bool full;
};

static void word(struct box *b, const char *text)
{
    if (b->n_words == WORDS || text == NULL)
        b->full = true;
    else
        b->words[b->n_words++] = text;
    b->words[b->n_words] = NULL;
}

static void pair(struct box *b, const char *option, const char *value)
{
    word(b, option);
    word(b, value);
}

static enum fr_rc read_inputs(struct box *b, struct fr_err *err)
{
    const char *wanted = fr_input_text(b->job, "runtime");
    struct fr_job *job = b->job;
    ssize_t n = readlink("/proc/self/exe", b->self, sizeof(b->self) - 1);
    enum fr_rc rc;

    b->self[n > 0 ? n : 0] = '\0';
    b->image = fr_input_text(job, "image");
    b->name = fr_input_text(job, "name");
    b->pull = fr_input_text(job, "pull");
    b->gpus = fr_input_text(job, "gpus");
    b->network = fr_input_text(job, "network");
    b->ipc = fr_input_text(job, "ipc");
    b->user = fr_input_text(job, "user");
    b->mounts = fr_input_list(job, "mounts", &b->n_mounts);
    b->options = fr_input_list(job, "options", &b->n_options);
    b->setup = fr_input_list(job, "setup", &b->n_setup);
    b->checks = fr_input_list(job, "checks", &b->n_checks);
    b->recreate = fr_input_bool(job, "recreate", true);
    b->write_test = fr_input_bool(job, "write_test", true);
    b->same_image = fr_input_bool(job, "same_image", true);
    b->shm_size = fr_input_int(job, "shm_size", 0);
    b->home = fr_env("FLOWRUN_NODE_HOME", NULL);
    b->of_job = strcmp(fr_env("FLOWRUN_EXECUTOR", ""), "slurm") == 0;
    b->work = fr_work_folder(job);
    if ((rc = fr_inputs_ok(job, err)) != FR_OK)
        return rc;
    if (b->image != NULL && b->image[0] == '\0')
        b->image = NULL;
    if (wanted == NULL)
        wanted = "auto";
    if (strcmp(wanted, "auto") == 0 && b->image == NULL)
        wanted = "none";
    if (b->name == NULL || b->name[0] == '\0')
        b->name = "flowrun";
    rc = fr_runtime_choose(wanted, &b->runtime, err);
    if (rc == FR_OK && b->runtime != NULL && b->image == NULL)
        rc = fr_fail(err, FR_USAGE, "input 'image' is missing: %s needs one", b->runtime);
    if (rc == FR_OK && b->runtime != NULL && b->home == NULL)
        rc = fr_fail(err, FR_USAGE,
                     "FLOWRUN_NODE_HOME is not set: a container is started by flowrun");
    return rc;
}

/* ---- the image ---- */

static enum fr_rc image_digest(struct box *b, struct fr_err *err)
{
    const char *const words[] = {"image", "inspect", "--format", "{{.Id}}", b->image, NULL};
    struct fr_buf out = {0};
    enum fr_rc rc = fr_runtime_run(b->runtime, words, &out, err);
    struct fr_str id = fr_last_line(&out);
    bool prefixed = id.n > 7 && memcmp(id.p, "sha256:", 7) == 0;

    snprintf(b->digest, sizeof(b->digest), "%s%.*s", prefixed ? "" : "sha256:", (int)id.n, id.p);
    fr_buf_finish(&out);
    return rc;
}

static enum fr_rc have_image(struct box *b, struct fr_err *err)
{
    const char *const words[] = {"pull", b->image, NULL};
    const char *pull = b->pull != NULL ? b->pull : "missing";
    struct fr_err why;
    bool here = image_digest(b, &why) == FR_OK;

    if (!here && strcmp(pull, "never") == 0)
        return fr_fail(err, FR_NOTFOUND, "image %s is not on this node, and pull is never",
                       b->image);
    if (here && strcmp(pull, "always") != 0)
        return FR_OK;
    fr_note(b->job, "did", "pull image %s", b->image);
    if (b->job->dry_run)
        return FR_OK;
    enum fr_rc rc = fr_runtime_run(b->runtime, words, NULL, err);
    return rc == FR_OK ? image_digest(b, err) : rc;
}

/* In a gang the nodes compare their digests. */
static enum fr_rc compare_digests(struct box *b, struct fr_err *err)
{
    struct fr_rendezvous m;
    struct fr_buf text = {0};
    enum fr_rc rc;

    if (!b->same_image || fr_env_int("NNODES", 1) < 2 || b->job->dry_run)
        return FR_OK;
    if ((rc = fr_rendezvous_init(b->job, &m, err)) != FR_OK)
        return rc;
    m.ports.n = 0;
    rc = fr_rendezvous_run(&m,
                           json_pack("{s:s, s:s, s:s, s:[]}", "name", fr_env("FLOWRUN_NODE", "?"),
                                     "digest", b->digest, "machine", "", "problems"),
                           err);
    for (int64_t i = 1; rc == FR_OK && m.rank == 0 && i < m.nodes; i++) {
        const char *other = json_string_value(json_object_get(m.members[i].facts, "digest"));
        if (other == NULL || strcmp(other, b->digest) != 0)
            fr_buf_fmt(&text, "%snode %s has image %s as %.19s, the head as %.19s",
                       text.n > 0 ? "; " : "", fr_peer_name(b->job, i), b->image,
                       other != NULL ? other : "?", b->digest);
    }
    if (rc == FR_OK)
        rc = fr_rendezvous_end(&m, text.n == 0, text.p != NULL ? text.p : "", err);
    fr_buf_finish(&text);
    fr_rendezvous_finish(&m);
    return rc;
}

/* ---- its start ---- */

/* "SOURCE:TARGET[:OPTIONS]" in parts; source with ~ expanded. */
static enum fr_rc split_mount(struct box *b, const char *mount, const char **source,
                              const char **target, struct fr_err *err)
{
    const char *colon = strchr(mount, ':');
    size_t n = colon != NULL ? strcspn(colon + 1, ":") : 0;

    if (colon == NULL || colon == mount || n == 0 || colon[1] != '/')
        return fr_fail(err, FR_USAGE, "mounts: '%s' is not SOURCE:TARGET or SOURCE:TARGET:ro",
                       mount);
    *source = fr_has_prefix(mount, "~/")
                  ? fr_arena_fmt(&b->job->arena, "%s/%.*s", fr_env("HOME", ""),
                                 (int)(colon - mount - 2), mount + 2)
                  : fr_arena_text(&b->job->arena, mount, (size_t)(colon - mount));
    *target = fr_arena_text(&b->job->arena, colon + 1, n);
    if (*source == NULL || *target == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for mounts");
    if ((*source)[0] == '/' && access(*source, F_OK) != 0)
        return fr_fail(err, FR_NOTFOUND, "mounts: %s is not on this node", *source);
    return FR_OK;
}

static enum fr_rc add_mounts(struct box *b, struct fr_err *err)
{
    struct fr_arena *a = &b->job->arena;
    size_t home = strlen(b->home);
    bool work_in_home = strncmp(b->work, b->home, home) == 0 && b->work[home] == '/';
    enum fr_rc rc = FR_OK;

    pair(b, "--volume", fr_arena_fmt(a, "%s:%s", b->home, b->home));
    pair(b, "--volume", fr_arena_fmt(a, "%s:%s:ro", b->self, b->self));
    if (!work_in_home && !b->job->dry_run)
        rc = fr_mkdirs(b->work, 0755, err);
    if (!work_in_home)
        pair(b, "--volume", fr_arena_fmt(a, "%s:%s", b->work, b->work));
    for (size_t i = 0; rc == FR_OK && i < b->n_mounts; i++) {
        const char *source, *target, *rest;
        rc = split_mount(b, b->mounts[i], &source, &target, err);
        if (rc == FR_OK) {
            rest = strchr(b->mounts[i], ':') + 1 + strlen(target);
            pair(b, "--volume", fr_arena_fmt(a, "%s:%s%s", source, target, rest));
        }
    }
    return rc;
}

static void add_gpus(struct box *b)
{
    bool docker = strcmp(b->runtime, "docker") == 0;
    int64_t count;

    if (b->gpus == NULL || strcmp(b->gpus, "none") == 0 || strcmp(b->gpus, "0") == 0)
        return;
    if (strcmp(b->gpus, "all") == 0 && fr_env_int("FLOWRUN_GPUS", 0) == 0)
        return; /* all of none: the inventory gives this node no GPU */
    if (docker)
        pair(b, "--gpus", b->gpus);
    else if (fr_parse_i64(fr_str_of(b->gpus), &count, NULL) != FR_OK)
        pair(b, "--device", fr_arena_fmt(&b->job->arena, "nvidia.com/gpu=%s", b->gpus));
    else
        for (int64_t i = 0; i < count && i < 64; i++)
            pair(b, "--device", fr_arena_fmt(&b->job->arena, "nvidia.com/gpu=%lld", (long long)i));
}

static enum fr_rc make_words(struct box *b, struct fr_err *err)
{
    struct fr_arena *a = &b->job->arena;
    const char *key;
    json_t *value;
    enum fr_rc rc;

    word(b, "run");
    word(b, "--detach");
    if (b->of_job)
        word(b, "--rm");
    pair(b, "--name", b->name);
    pair(b, "--label", fr_arena_fmt(a, FR_CONTAINER_LABEL "=%s", b->home));
    pair(b, "--label", fr_arena_fmt(a, FR_RUN_LABEL "=%s", fr_env("FLOWRUN_RUN", "")));
    pair(b, "--label", fr_arena_fmt(a, FR_ATTEMPT_LABEL "=%s", fr_env("FLOWRUN_ATTEMPT", "")));
    if (b->network != NULL)
        pair(b, "--network", b->network);
    if (b->ipc != NULL)
        pair(b, "--ipc", b->ipc);
    if (b->shm_size > 0 && (b->ipc == NULL || strcmp(b->ipc, "host") != 0))
        pair(b, "--shm-size", fr_arena_fmt(a, "%lld", (long long)b->shm_size));
    if (b->user != NULL)
        pair(b, "--user", b->user);
    if ((rc = add_mounts(b, err)) != FR_OK)
        return rc;
    add_gpus(b);
    json_object_foreach(json_object_get(b->job->with, "env"), key, value)
        pair(b, "--env",
             fr_arena_fmt(a, "%s=%s", key,
                          json_string_value(value) != NULL ? json_string_value(value) : ""));
    for (size_t i = 0; i < b->n_options; i++)
        word(b, b->options[i]);
    pair(b, "--entrypoint", b->self);
    word(b, b->image);
    word(b, "hold");
    if (b->of_job)
        pair(b, "--home", b->home);
    return b->full ? fr_fail(err, FR_USAGE, "more than %d arguments for %s run", WORDS, b->runtime)
                   : FR_OK;
}

/* Removes the container that was looked at, and no other that has its name by now. */
static enum fr_rc remove_box(struct box *b, const struct fr_box *box, struct fr_err *err)
{
    const char *const words[] = {"rm", "--force", box->id, NULL};

    return fr_runtime_run(b->runtime, words, NULL, err);
}

/* A container that has the name already: may this task take it over? */
static enum fr_rc may_take(struct box *b, const struct fr_box *box, struct fr_err *err)
{
    bool used = false;
    enum fr_rc rc;

    if (!box->ours)
        return fr_fail(err, FR_BUSY,
                       "a container %s is here already that this flowrun did not start; give the "
                       "task another name (name: %s-${{ run.id }}), or remove it: %s rm %s",
                       b->name, b->name, b->runtime, b->name);
    if ((rc = fr_box_used(b->runtime, box, &used, err)) != FR_OK)
        return rc;
    return used ? fr_fail(err, FR_BUSY,
                          "container %s is in use by run %.8s; give the task a name of its own "
                          "(name: %s-${{ run.id }}), or wait until that run is over",
                          b->name, box->run, b->name)
                : FR_OK;
}

/* Removes a container that `run` created but could not start. */
static void remove_failed(struct box *b)
{
    struct fr_box box;

    if (fr_box_look(b->runtime, b->name, &box, NULL) == FR_OK && box.state != FR_BOX_ABSENT &&
        box.ours && strcmp(box.attempt, fr_env("FLOWRUN_ATTEMPT", "")) == 0)
        (void)remove_box(b, &box, NULL);
}

static enum fr_rc start(struct box *b, bool *started, struct fr_err *err)
{
    struct fr_box box;
    const char *const again[] = {"start", box.id, NULL};
    enum fr_rc rc = fr_box_look(b->runtime, b->name, &box, err);

    *started = false;
    if (rc != FR_OK || (box.state != FR_BOX_ABSENT && (rc = may_take(b, &box, err)) != FR_OK))
        return rc;
    if (box.state == FR_BOX_RUNNING && !b->recreate) {
        fr_note(b->job, "did", "use container %s again", b->name);
        return FR_OK;
    }
    if (box.state != FR_BOX_ABSENT && b->recreate) {
        fr_note(b->job, "did", "remove container %s", b->name);
        if (!b->job->dry_run && (rc = remove_box(b, &box, err)) != FR_OK)
            return rc;
        box.state = FR_BOX_ABSENT;
    }
    if ((rc = make_words(b, err)) != FR_OK)
        return rc;
    fr_note(b->job, "did", "start container %s of image %s with %s", b->name, b->image, b->runtime);
    if (b->job->dry_run)
        return FR_OK;
    rc = fr_runtime_run(b->runtime, box.state == FR_BOX_STOPPED ? again : b->words, NULL, err);
    if (rc != FR_OK)
        remove_failed(b);
    *started = rc == FR_OK;
    return rc;
}

/* ---- inside ---- */

static enum fr_rc inside(struct box *b, const char *what, const char *script, const char *argument,
                         struct fr_err *err)
{
    const char *argv[] = {b->runtime, "exec", b->name, "sh", "-c", script, "sh", argument, NULL};
    struct fr_command c = {.argv = argv, .tee = true};
    enum fr_rc rc;

    fr_note(b->job, "did", "%s: %s", what, argument != NULL ? argument : script);
    if (b->job->dry_run)
        return FR_OK;
    rc = fr_command_run(&c, err);
    struct fr_str why = fr_last_line(&c.out);
    if (rc == FR_OK && (c.code != 0 || c.signaled))
        rc = fr_fail(err, FR_IO, "%s in container %s: '%s' exited with status %d%s%.*s", what,
                     b->name, argument != NULL ? argument : script, c.code, why.n > 0 ? ": " : "",
                     (int)(why.n < 300 ? why.n : 300), why.p);
    fr_command_finish(&c);
    return rc;
}

/* All that must hold inside before a later task may run there. */
static enum fr_rc prove(struct box *b, bool started, struct fr_err *err)
{
    static const char touch[] = "f=\"$1/.flowrun-write-test\"; : >\"$f\" && rm -f \"$f\"";
    const char *const version[] = {"exec", b->name, b->self, "version", NULL};
    enum fr_rc rc = FR_OK;

    if (!b->job->dry_run && (rc = fr_runtime_run(b->runtime, version, NULL, err)) != FR_OK)
        return fr_while(err, "flownode does not run in the container");
    for (size_t i = 0; rc == FR_OK && (started || b->job->dry_run) && i < b->n_setup; i++)
        rc = inside(b, "setup", b->setup[i], NULL, err);
    for (size_t i = 0; rc == FR_OK && b->write_test && i < b->n_mounts; i++) {
        const char *source, *target, *options = strrchr(b->mounts[i], ':');
        rc = split_mount(b, b->mounts[i], &source, &target, err);
        if (rc == FR_OK && strcmp(options, ":ro") != 0)
            rc = inside(b, "write test", touch, target, err);
    }
    for (size_t i = 0; rc == FR_OK && i < b->n_checks; i++)
        rc = inside(b, "check", b->checks[i], NULL, err);
    return rc;
}

static enum fr_rc give_outputs(struct box *b, struct fr_err *err)
{
    bool none = b->runtime == NULL || b->job->dry_run;
    const struct {
        const char *key, *value;
    } outputs[] = {{"runtime", b->runtime},
                   {"name", b->name},
                   {"flownode", b->self},
                   {"home", b->home},
                   {"digest", b->digest}};
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; rc == FR_OK && i < sizeof(outputs) / sizeof(outputs[0]); i++)
        rc = fr_output(b->job, err, outputs[i].key, "%s", none ? "" : outputs[i].value);
    return rc;
}

static enum fr_rc container(struct fr_job *job, struct fr_err *err)
{
    struct box *b = fr_arena_alloc(&job->arena, sizeof(*b));
    bool started = false;
    enum fr_rc rc;

    if (b == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a container");
    b->job = job;
    if ((rc = read_inputs(b, err)) != FR_OK)
        return rc;
    if (b->runtime == NULL) {
        fr_note(job, "did", "use no container: tasks run on the host");
        return give_outputs(b, err);
    }
    rc = have_image(b, err);
    if (rc == FR_OK)
        rc = compare_digests(b, err);
    if (rc == FR_OK)
        rc = start(b, &started, err);
    if (rc == FR_OK)
        rc = prove(b, started, err);
    if (rc == FR_OK)
        rc = give_outputs(b, err);
    if (rc != FR_OK && started)
        remove_failed(b);
    return rc;
}

int fr_task_container(int argc, char **argv)
{
    return fr_job_main("container", argc, argv, container);
}
