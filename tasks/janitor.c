/*
 * janitor: a sidecar of a training task. At each look it removes the oldest checkpoint-N folders
 * that lie beyond its limits; never the newest keep_checkpoints, never resume/ or anything else.
 */
#include "tasks/task.h"
#include "tasks/job.h"

#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/base/sys.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { DEPTH_MAX = 32 };

struct janitor {
    struct fr_job *job;
    const char *dir;
    int64_t max_size, min_free, max_age_ms; /* 0: no limit */
    int64_t keep, interval_ms;
    int64_t removed, freed;
};

struct checkpoint {
    int64_t step, bytes, changed_ms;
    char *name; /* owned by the listing */
};

/* Bytes that the tree takes on its disk; links are not followed. */
static int64_t tree_bytes(const char *path, int depth)
{
    struct fr_buf below = {0};
    struct stat st;
    char **names = NULL;
    size_t n = 0;
    int64_t bytes;

    if (fr_sys.lstat(path, &st) != 0)
        return 0;
    bytes = (int64_t)st.st_blocks * 512;
    if (!S_ISDIR(st.st_mode) || depth > DEPTH_MAX || fr_sys.list(path, &names, &n) != 0)
        return bytes;
    for (size_t i = 0; i < n; i++) {
        below.n = 0;
        fr_buf_fmt(&below, "%s/%s", path, names[i]);
        if (!below.bad)
            bytes += tree_bytes(below.p, depth + 1);
    }
    fr_buf_finish(&below);
    fr_sys_names_free(names, n);
    return bytes;
}

static int by_step(const void *a, const void *b)
{
    int64_t x = ((const struct checkpoint *)a)->step, y = ((const struct checkpoint *)b)->step;

    return (x > y) - (x < y);
}

static bool is_checkpoint(const char *name, int64_t *step)
{
    return fr_has_prefix(name, "checkpoint-") &&
           fr_parse_i64(fr_str_of(name + sizeof("checkpoint-") - 1), step, NULL) == FR_OK &&
           *step >= 0;
}

static enum fr_rc remove_one(struct janitor *j, const struct checkpoint *c, const char *why,
                             struct fr_err *err)
{
    struct fr_buf from = {0}, aside = {0};
    char size[24];
    enum fr_rc rc = FR_OK;

    fr_show_size(c->bytes, size);
    fr_print("janitor: %sremove %s/%s (%s): %s\n", j->job->dry_run ? "would: " : "", j->dir,
             c->name, size, why);
    fflush(stdout);
    fr_buf_fmt(&from, "%s/%s", j->dir, c->name);
    fr_buf_fmt(&aside, "%s/.%s.removing", j->dir, c->name);
    if (from.bad || aside.bad)
        rc = fr_fail(err, FR_NOMEM, "no memory for a path");
    else if (!j->job->dry_run && fr_sys.rename(from.p, aside.p) == 0) /* never half a checkpoint */
        rc = fr_remove_tree(aside.p, err);
    else if (!j->job->dry_run &&
             errno != ENOENT) /* or a janitor of a node that shares the folder */
        rc = fr_fail_errno(err, errno, "cannot remove %s", from.p);
    fr_buf_finish(&from);
    fr_buf_finish(&aside);
    j->removed += rc == FR_OK;
    j->freed += rc == FR_OK ? c->bytes : 0;
    return rc;
}

/* Takes the oldest of n checkpoints away while a limit is passed. */
static enum fr_rc thin_out(struct janitor *j, const struct checkpoint *c, size_t n,
                           struct fr_err *err)
{
    int64_t used = tree_bytes(j->dir, 0), now = fr_sys.wall_ms(), gone = 0;
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; rc == FR_OK && (int64_t)(n - i) > j->keep; i++) {
        const char *why = NULL;
        int64_t left = fr_sys.disk_free(j->dir);
        if (j->max_age_ms > 0 && now - c[i].changed_ms > j->max_age_ms)
            why = "older than max_age";
        else if (j->max_size > 0 && used > j->max_size)
            why = "the folder is beyond max_size";
        else if (j->min_free > 0 && left >= 0 && left + (j->job->dry_run ? gone : 0) < j->min_free)
            why = "the disk has less than min_free";
        if (why == NULL)
            break;
        rc = remove_one(j, &c[i], why, err);
        used -= c[i].bytes;
        gone += c[i].bytes;
    }
    return rc;
}

static enum fr_rc look(struct janitor *j, struct fr_err *err)
{
    char **names = NULL;
    size_t n = 0, found = 0;
    enum fr_rc rc = FR_OK;
    struct checkpoint *c;

    if (fr_sys.list(j->dir, &names, &n) != 0)
        return errno == ENOENT ? FR_OK : fr_fail_errno(err, errno, "cannot look into %s", j->dir);
    c = fr_sys.alloc((n + 1) * sizeof(*c));
    for (size_t i = 0; c != NULL && i < n; i++) {
        struct fr_buf path = {0};
        struct stat st;
        int64_t step;
        fr_buf_fmt(&path, "%s/%s", j->dir, names[i]);
        if (!path.bad && is_checkpoint(names[i], &step) && fr_sys.lstat(path.p, &st) == 0 &&
            S_ISDIR(st.st_mode))
            c[found++] = (struct checkpoint){step, tree_bytes(path.p, 0),
                                             (int64_t)st.st_mtim.tv_sec * 1000, names[i]};
        else if (!path.bad && !j->job->dry_run && fr_has_prefix(names[i], ".checkpoint-") &&
                 strstr(names[i], ".removing") != NULL)
            (void)fr_remove_tree(path.p, NULL); /* a janitor before us was cut short */
        fr_buf_finish(&path);
    }
    if (c == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for the checkpoints");
    if (found > 0) {
        qsort(c, found, sizeof(*c), by_step);
        rc = thin_out(j, c, found, err);
    }
    fr_sys.free(c);
    fr_sys_names_free(names, n);
    return rc;
}

/* Looks until it is asked to stop; a look that fails is reported, and tried again. */
static enum fr_rc watch(struct janitor *j, struct fr_err *err)
{
    struct pollfd p = {.events = POLLIN};
    struct fr_err why;
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, NULL);
    p.fd = signalfd(-1, &set, SFD_CLOEXEC);
    if (p.fd < 0)
        return fr_fail_errno(err, errno, "signalfd");
    do {
        if (look(j, &why) != FR_OK)
            fr_complain("janitor: %s\n", why.msg);
    } while (fr_sys.poll(&p, 1, (int)j->interval_ms) <= 0);
    fr_sys.close(p.fd);
    return FR_OK;
}

static enum fr_rc janitor(struct fr_job *job, struct fr_err *err)
{
    struct janitor j = {.job = job,
                        .dir = fr_input_path(job, "dir"),
                        .max_size = fr_input_int(job, "max_size", 0),
                        .min_free = fr_input_int(job, "min_free", 0),
                        .max_age_ms = fr_input_int(job, "max_age", 0),
                        .keep = fr_input_int(job, "keep_checkpoints", 2),
                        .interval_ms = fr_input_int(job, "interval", 30000)};
    enum fr_rc rc = fr_inputs_ok(job, err);

    job->no_summary = true;
    if (rc == FR_OK && j.dir == NULL)
        rc = fr_fail(err, FR_USAGE, "input 'dir' is missing");
    if (rc == FR_OK && (j.keep < 0 || j.interval_ms < 1 || j.interval_ms > INT32_MAX))
        rc = fr_fail(err, FR_USAGE,
                     "keep_checkpoints is %lld, interval %lld ms: expected 0 or more, "
                     "and 1 ms to 24 days",
                     (long long)j.keep, (long long)j.interval_ms);
    if (rc == FR_OK)
        rc = job->dry_run ? look(&j, err) : watch(&j, err);
    json_object_set_new(job->did, "removed", json_integer(j.removed));
    json_object_set_new(job->did, "freed_bytes", json_integer(j.freed));
    return rc;
}

int fr_task_janitor(int argc, char **argv)
{
    return fr_job_main("janitor", argc, argv, janitor);
}
