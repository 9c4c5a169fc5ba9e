/*
 * publish: puts a folder under a version and switches `latest` to it.
 *
 *   TO/.publish-XXXX/   being filled: files, then manifest.json; all synced
 *   TO/VERSION/         the same, renamed
 *   TO/latest           a link to VERSION, replaced by a rename
 *
 * Whatever is cut short leaves the old `latest` or the new one, and a .publish- folder that the
 * next call removes. The same content of the same run is published once. TO/.lock lets one publish
 * at a time.
 */
#include "tasks/filelist.h"
#include "tasks/task.h"

#include "engine/base/json.h"
#include "engine/base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MANIFEST_MAX = 256 << 20 };

struct publish {
    struct fr_job *job;
    const char *from, *to, *wanted; /* wanted: the name of the version that was given, or NULL */
    const char *run;
    struct fr_filelist files;
    json_t *listed; /* owns: files as JSON */
    const char *version;
    bool there; /* that version is already published */
    int lock;   /* owns */
};

static const char *at(struct publish *p, const char *name)
{
    const char *path = fr_arena_fmt(&p->job->arena, "%s/%s", p->to, name);

    return path != NULL ? path : "";
}

/* The manifest of a version, NULL when there is none; the caller's. */
static json_t *manifest_of(struct publish *p, const char *version)
{
    const char *path = fr_arena_fmt(&p->job->arena, "%s/%s/manifest.json", p->to, version);
    json_t *doc = NULL;

    if (path == NULL || fr_json_load(path, MANIFEST_MAX, &doc, NULL) != FR_OK)
        return NULL;
    return doc;
}

static bool is_same(struct publish *p, const json_t *manifest)
{
    const char *run = json_string_value(json_object_get(manifest, "run"));

    return run != NULL && strcmp(run, p->run) == 0 &&
           json_equal(json_object_get(manifest, "files"), p->listed);
}

/* Whether an entry of the folder can be a version. */
static bool may_be_version(const char *name)
{
    return name[0] != '.' && strcmp(name, "latest") != 0;
}

/* A version of this run with these files, whatever its name. */
static enum fr_rc find_same(struct publish *p, struct fr_err *err)
{
    char **names = NULL;
    size_t n = 0;

    if (fr_sys.list(p->to, &names, &n) != 0)
        return errno == ENOENT ? FR_OK : fr_fail_errno(err, errno, "cannot look into %s", p->to);
    for (size_t i = 0; i < n && !p->there; i++) {
        json_t *doc =
            may_be_version(names[i]) && (p->wanted == NULL || strcmp(p->wanted, names[i]) == 0)
                ? manifest_of(p, names[i])
                : NULL;
        if (doc != NULL && is_same(p, doc)) {
            p->version = fr_arena_dup(&p->job->arena, names[i]);
            p->there = true;
        }
        json_decref(doc);
    }
    fr_sys_names_free(names, n);
    return FR_OK;
}

static enum fr_rc choose_version(struct publish *p, struct fr_err *err)
{
    struct stat st;
    struct tm tm;
    char when[32];
    time_t now = (time_t)(fr_sys.wall_ms() / 1000);
    enum fr_rc rc = find_same(p, err);

    if (rc != FR_OK || p->there)
        return rc;
    if (p->wanted != NULL) {
        p->version = p->wanted;
        if (fr_sys.lstat(at(p, p->version), &st) == 0)
            return fr_fail(err, FR_USAGE, "version %s is already there with other content",
                           at(p, p->version));
        return FR_OK;
    }
    gmtime_r(&now, &tm);
    strftime(when, sizeof(when), "%Y%m%d-%H%M%S", &tm);
    p->version = fr_arena_fmt(&p->job->arena, "%s-%.8s", when, p->run);
    for (int i = 2; p->version != NULL && fr_sys.lstat(at(p, p->version), &st) == 0; i++)
        p->version = fr_arena_fmt(&p->job->arena, "%s-%.8s-%d", when, p->run, i);
    return p->version != NULL ? FR_OK : fr_fail(err, FR_NOMEM, "no memory for a version");
}

/* ---- writing ---- */

static enum fr_rc write_manifest(struct publish *p, const char *stage, struct fr_err *err)
{
    const char *path = fr_arena_fmt(&p->job->arena, "%s/manifest.json", stage);
    int64_t now = fr_sys.wall_ms();
    json_t *doc =
        json_pack("{s:s, s:s, s:s, s:s, s:I, s:O}", "version", p->version, "run", p->run,
                  "pipeline", fr_env("FLOWRUN_RUN_NAME", ""), "node", fr_env("FLOWRUN_NODE", ""),
                  "published_ms", (json_int_t)now, "files", p->listed);
    enum fr_rc rc = doc == NULL || path == NULL
                        ? fr_fail(err, FR_NOMEM, "no memory for the manifest")
                        : fr_json_save(doc, path, JSON_INDENT(2), 0644, err);

    json_decref(doc);
    return rc;
}

static const char *temporary(struct publish *p)
{
    struct fr_id id;
    char text[FR_ID_TEXT];

    if (fr_id_new(&id, NULL) != FR_OK)
        return NULL;
    fr_id_text(id, text);
    return fr_arena_fmt(&p->job->arena, "%s/.publish-%s", p->to, text);
}

static enum fr_rc make_version(struct publish *p, struct fr_err *err)
{
    const char *stage = temporary(p);
    enum fr_rc rc = FR_OK;

    if (stage == NULL)
        return fr_fail(err, FR_IO, "no random name for a folder");
    if (fr_sys.mkdir(stage, 0755) != 0)
        return fr_fail_errno(err, errno, "cannot make %s", stage);
    for (size_t i = 0; rc == FR_OK && i < p->files.n; i++)
        rc = fr_filelist_copy(p->job, &p->files.v[i], p->from, stage, err);
    if (rc == FR_OK)
        rc = write_manifest(p, stage, err); /* last: it syncs the names in stage, too */
    if (rc == FR_OK && fr_sys.rename(stage, at(p, p->version)) != 0)
        rc = fr_fail_errno(err, errno, "cannot make %s", at(p, p->version));
    if (rc == FR_OK)
        return fr_sync_dir(p->to, err);
    (void)fr_remove_tree(stage, NULL);
    return rc;
}

/* ---- latest ---- */

/* Where `latest` points to, "" when it is not there. */
static enum fr_rc read_latest(struct publish *p, char out[PATH_MAX], struct fr_err *err)
{
    ssize_t n = readlink(at(p, "latest"), out, PATH_MAX - 1);

    out[n > 0 ? n : 0] = '\0';
    if (n < 0 && errno == EINVAL)
        return fr_fail(err, FR_USAGE, "%s is no link, so it is not replaced", at(p, "latest"));
    return n >= 0 || errno == ENOENT ? FR_OK
                                     : fr_fail_errno(err, errno, "cannot read %s", at(p, "latest"));
}

static enum fr_rc switch_latest(struct publish *p, struct fr_err *err)
{
    const char *link = temporary(p);

    if (link == NULL || symlink(p->version, link) != 0)
        return fr_fail_errno(err, errno, "cannot make a link in %s", p->to);
    if (fr_sys.rename(link, at(p, "latest")) != 0) {
        int e = errno;
        fr_sys.unlink(link);
        return fr_fail_errno(err, e, "cannot switch %s", at(p, "latest"));
    }
    return fr_sync_dir(p->to, err);
}

/* ---- old versions ---- */

struct old {
    const char *name;
    int64_t published_ms;
};

static int newest_first(const void *a, const void *b)
{
    int64_t x = ((const struct old *)a)->published_ms, y = ((const struct old *)b)->published_ms;

    return (x < y) - (x > y);
}

static enum fr_rc drop(struct publish *p, const char *name, struct fr_err *err)
{
    const char *aside = temporary(p);

    fr_note(p->job, "removed", "remove the old version %s", name);
    if (p->job->dry_run)
        return FR_OK;
    if (aside == NULL || fr_sys.rename(at(p, name), aside) != 0)
        return fr_fail_errno(err, errno, "cannot remove %s", at(p, name));
    return fr_remove_tree(aside, err);
}

/* Keeps the newest `keep` besides the published one; only folders that have a manifest count. */
static enum fr_rc drop_old(struct publish *p, int64_t keep, struct fr_err *err)
{
    char **names = NULL;
    size_t n = 0, n_old = 0;
    enum fr_rc rc = FR_OK;
    struct old *old;

    if (keep <= 0 || fr_sys.list(p->to, &names, &n) != 0)
        return FR_OK;
    old = fr_arena_array(&p->job->arena, n + 1, sizeof(*old));
    for (size_t i = 0; old != NULL && i < n; i++) {
        json_t *doc = may_be_version(names[i]) && strcmp(names[i], p->version) != 0
                          ? manifest_of(p, names[i])
                          : NULL;
        json_t *when = json_object_get(doc, "published_ms");
        if (json_is_integer(when))
            old[n_old++] = (struct old){names[i], json_integer_value(when)};
        json_decref(doc);
    }
    if (old != NULL)
        qsort(old, n_old, sizeof(*old), newest_first);
    for (size_t i = (size_t)keep; rc == FR_OK && i < n_old; i++)
        rc = drop(p, old[i].name, err);
    fr_sys_names_free(names, n);
    return rc;
}

/* ---- all of it ---- */

/* Removes folders and links of a killed publish; the lock is held, so they are unused. */
static void sweep(struct publish *p)
{
    char **names = NULL;
    size_t n = 0;

    if (fr_sys.list(p->to, &names, &n) != 0)
        return;
    for (size_t i = 0; i < n; i++)
        if (fr_has_prefix(names[i], ".publish-"))
            (void)fr_remove_tree(at(p, names[i]), NULL);
    fr_sys_names_free(names, n);
}

static enum fr_rc take_lock(struct publish *p, struct fr_err *err)
{
    enum fr_rc rc = fr_mkdirs(p->to, 0755, err);

    if (rc != FR_OK)
        return rc;
    p->lock = fr_sys.open(at(p, ".lock"), O_RDWR | O_CREAT | O_NOFOLLOW, 0644);
    if (p->lock < 0)
        return fr_fail_errno(err, errno, "cannot make %s", at(p, ".lock"));
    if (fr_sys.lock(p->lock) != 0)
        return errno == EAGAIN ? fr_fail(err, FR_BUSY, "somebody else publishes into %s now", p->to)
                               : fr_fail_errno(err, errno, "cannot lock %s", at(p, ".lock"));
    sweep(p);
    return FR_OK;
}

static enum fr_rc read_inputs(struct publish *p, struct fr_err *err)
{
    struct stat st;
    enum fr_rc rc;

    p->from = fr_input_path(p->job, "from");
    p->to = fr_input_path(p->job, "to");
    p->wanted = fr_input_text(p->job, "version");
    p->run = fr_env("FLOWRUN_RUN", "none");
    rc = fr_inputs_ok(p->job, err);
    if (rc == FR_OK && (p->from == NULL || p->to == NULL))
        rc = fr_fail(err, FR_USAGE, "input '%s' is missing", p->from == NULL ? "from" : "to");
    if (rc == FR_OK && p->wanted != NULL &&
        (p->wanted[0] == '\0' || p->wanted[0] == '.' || strchr(p->wanted, '/') != NULL ||
         strcmp(p->wanted, "latest") == 0))
        rc = fr_fail(err, FR_USAGE,
                     "input 'version' is '%s': expected a plain name other than latest", p->wanted);
    if (rc == FR_OK && fr_sys.lstat(p->from, &st) != 0)
        rc = fr_fail_errno(err, errno, "cannot publish %s", p->from);
    else if (rc == FR_OK && !S_ISDIR(st.st_mode))
        rc = fr_fail(err, FR_USAGE, "%s is no folder", p->from);
    if (rc == FR_OK)
        rc = fr_filelist_make(p->job, p->from, &p->files, err);
    if (rc == FR_OK && p->files.n == 0)
        rc = fr_fail(err, FR_USAGE, "%s is empty: there is nothing to publish", p->from);
    for (size_t i = 0; rc == FR_OK && i < p->files.n; i++)
        if (strcmp(p->files.v[i].path, "manifest.json") == 0)
            rc = fr_fail(err, FR_USAGE, "%s holds a manifest.json of its own", p->from);
    if (rc == FR_OK && (p->listed = fr_filelist_json(&p->files)) == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for the manifest");
    return rc;
}

static enum fr_rc write_all(struct publish *p, struct fr_err *err)
{
    char latest[PATH_MAX];
    bool current;
    enum fr_rc rc = p->job->dry_run ? FR_OK : take_lock(p, err);

    if (rc == FR_OK)
        rc = read_latest(p, latest, err);
    if (rc == FR_OK)
        rc = choose_version(p, err);
    if (rc != FR_OK)
        return rc;
    current = p->there && strcmp(latest, p->version) == 0;
    if (!p->there)
        fr_note(p->job, "did", "publish %zu files as %s", p->files.n, at(p, p->version));
    if (!p->there && !p->job->dry_run)
        rc = make_version(p, err);
    if (!current && rc == FR_OK)
        fr_note(p->job, "did", "switch %s from %s to %s", at(p, "latest"),
                latest[0] != '\0' ? latest : "nothing", p->version);
    if (!current && rc == FR_OK && !p->job->dry_run)
        rc = switch_latest(p, err);
    json_object_set_new(p->job->did, "changed", json_boolean(!current));
    if (rc == FR_OK)
        rc = drop_old(p, fr_input_int(p->job, "keep", 0), err);
    if (rc == FR_OK)
        rc = fr_output(p->job, err, "version", "%s", p->version);
    return rc == FR_OK ? fr_output(p->job, err, "path", "%s", at(p, p->version)) : rc;
}

static enum fr_rc publish(struct fr_job *job, struct fr_err *err)
{
    struct publish p = {.job = job, .lock = -1};
    enum fr_rc rc = read_inputs(&p, err);

    if (rc == FR_OK)
        rc = write_all(&p, err);
    if (p.lock >= 0)
        fr_sys.close(p.lock);
    json_decref(p.listed);
    return rc;
}

int fr_task_publish(int argc, char **argv)
{
    return fr_job_main("publish", argc, argv, publish);
}
