#include "tasks/job.h"

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "tasks/task.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RESULT_MAX = 60 << 10 }; /* below what one output may hold */

const char *fr_env(const char *name, const char *otherwise)
{
    const char *text = getenv(name);

    return text != NULL && text[0] != '\0' ? text : otherwise;
}

bool fr_machine_shared(void)
{
    return fr_word_in("local slurm", fr_env("FLOWRUN_EXECUTOR", "ssh"));
}

int64_t fr_env_int(const char *name, int64_t otherwise)
{
    int64_t value;

    return fr_parse_i64(fr_str_of(fr_env(name, "")), &value, NULL) == FR_OK ? value : otherwise;
}

const char *fr_peer_name(struct fr_job *job, int64_t rank)
{
    const char *p = fr_env("FLOWRUN_PEERS", ""); /* a line each */

    for (int64_t i = 0; i < rank && *p != '\0'; i++) {
        p += strcspn(p, "\n");
        p += *p == '\n';
    }
    return *p != '\0' ? fr_arena_text(&job->arena, p, strcspn(p, " \n"))
                      : fr_arena_fmt(&job->arena, "node %lld", (long long)rank);
}

const char *fr_text_at(const json_t *object, const char *key)
{
    const char *s = json_string_value(json_object_get(object, key));

    return s != NULL ? s : "";
}

/* ---- inputs ---- */

enum {
    TEXT = 1 << JSON_STRING,
    WHOLE = 1 << JSON_INTEGER,
    NUMBER = WHOLE | 1 << JSON_REAL,
    SWITCH = 1 << JSON_TRUE | 1 << JSON_FALSE,
    LIST = 1 << JSON_ARRAY
};

/* The input of that name, where its type is one of types; all items of a list are texts. */
static json_t *input(struct fr_job *job, const char *key, unsigned types, const char *expected)
{
    json_t *value = json_object_get(job->with, key), *item;
    bool fits;
    size_t i;

    if (value == NULL || json_is_null(value))
        return NULL;
    fits = (types >> json_typeof(value) & 1) != 0;
    json_array_foreach(value, i, item) fits = fits && json_is_string(item);
    if (fits)
        return value;
    if (job->wrong.rc == FR_OK)
        fr_fail(&job->wrong, FR_USAGE, "input '%s' is not %s", key, expected);
    return NULL;
}

const char *fr_input_text(struct fr_job *job, const char *key)
{
    return json_string_value(input(job, key, TEXT, "a text"));
}

int64_t fr_input_int(struct fr_job *job, const char *key, int64_t otherwise)
{
    json_t *v = input(job, key, WHOLE, "a whole number");

    return v != NULL ? json_integer_value(v) : otherwise;
}

double fr_input_real(struct fr_job *job, const char *key, double otherwise)
{
    json_t *v = input(job, key, NUMBER, "a number");

    return v != NULL ? json_number_value(v) : otherwise;
}

bool fr_input_bool(struct fr_job *job, const char *key, bool otherwise)
{
    json_t *v = input(job, key, SWITCH, "true or false");

    return v != NULL ? json_is_true(v) : otherwise;
}

const char **fr_input_list(struct fr_job *job, const char *key, size_t *n)
{
    json_t *v = input(job, key, LIST, "a list of texts");
    const char **list = fr_arena_array(&job->arena, json_array_size(v) + 1, sizeof(*list));

    *n = list != NULL ? json_array_size(v) : 0;
    for (size_t i = 0; i < *n; i++)
        list[i] = json_string_value(json_array_get(v, i));
    return list;
}

const char *fr_work_folder(struct fr_job *job)
{
    const char *work = fr_env("FLOWRUN_WORK", NULL), *home = fr_env("FLOWRUN_NODE_HOME", NULL);
    const char *user = fr_env("HOME", "");
    char cwd[PATH_MAX];

    if (work != NULL && work[0] == '/')
        return fr_arena_dup(&job->arena, work);
    if (work != NULL)
        return fr_arena_fmt(&job->arena, "%s/%s", user,
                            fr_has_prefix(work, "~/") ? work + 2 : work);
    if (home != NULL)
        return fr_arena_fmt(&job->arena, "%s/work", home);
    return fr_arena_dup(&job->arena, getcwd(cwd, sizeof(cwd)) != NULL ? cwd : "/");
}

const char *fr_input_path(struct fr_job *job, const char *key)
{
    const char *path = fr_input_text(job, key);

    if (path == NULL)
        return NULL;
    if (fr_has_prefix(path, "node:"))
        path += 5;
    if (path[0] == '/')
        return path;
    if (path[0] == '~' && path[1] == '/')
        return fr_arena_fmt(&job->arena, "%s/%s", fr_env("HOME", ""), path + 2);
    return fr_arena_fmt(&job->arena, "%s/%s", fr_work_folder(job), path);
}

enum fr_rc fr_inputs_ok(const struct fr_job *job, struct fr_err *err)
{
    return job->wrong.rc == FR_OK ? FR_OK : fr_fail(err, job->wrong.rc, "%s", job->wrong.msg);
}

/* ---- what it did ---- */

static json_t *child(json_t *parent, const char *key, json_t *(*make)(void))
{
    json_t *v = json_object_get(parent, key);

    if (v == NULL && json_object_set_new(parent, key, make()) == 0)
        v = json_object_get(parent, key);
    return v;
}

/* Appends "KEY=VALUE" to $FLOWRUN_OUTPUT, when that is set. */
static enum fr_rc append_output(const char *key, const char *value, struct fr_err *err)
{
    const char *path = fr_env("FLOWRUN_OUTPUT", NULL);
    struct fr_buf line = {0};
    enum fr_rc rc = FR_OK;
    int fd;

    if (path == NULL)
        return FR_OK;
    fr_buf_fmt(&line, "%s=%s\n", key, value);
    fd = line.bad ? -1 : fr_sys.open(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW, 0600);
    if (line.bad)
        rc = fr_fail(err, FR_NOMEM, "no memory for the output '%s'", key);
    else if (fd < 0 || !fr_write_full(fd, line.p, line.n))
        rc = fr_fail_errno(err, errno, "cannot write outputs to %s", path);
    if (fd >= 0)
        fr_sys.close(fd);
    fr_buf_finish(&line);
    return rc;
}

enum fr_rc fr_output(struct fr_job *job, struct fr_err *err, const char *key, const char *fmt, ...)
{
    const char *text;
    va_list ap;

    va_start(ap, fmt);
    text = fr_arena_vfmt(&job->arena, fmt, ap);
    va_end(ap);
    json_object_set_new(child(job->did, "outputs", json_object), key, json_string(text));
    if (text == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the output '%s'", key);
    if (strchr(text, '\n') != NULL)
        return fr_fail(err, FR_USAGE, "the output '%s' holds a line break", key);
    return append_output(key, text, err);
}

/* Prints text with the paths below the work folder relative to it, as the inputs name them. */
static void print_note(struct fr_job *job, const char *text)
{
    const char *work = fr_work_folder(job);
    size_t n = work != NULL ? strlen(work) : 0;
    struct fr_buf out = {0};

    for (const char *p = text; *p != '\0'; p++) {
        bool begins = p == text || strchr(" '\"=(,", p[-1]) != NULL;

        if (begins && n > 1 && strncmp(p, work, n) == 0 && p[n] == '/' && p[n + 1] != '\0')
            p += n + 1;
        fr_buf_add(&out, p, 1);
    }
    fr_print("%s: %s%s\n", job->name, job->dry_run ? "would: " : "", out.bad ? text : out.p);
    fr_buf_finish(&out);
}

void fr_note(struct fr_job *job, const char *key, const char *fmt, ...)
{
    const char *text;
    va_list ap;

    va_start(ap, fmt);
    text = fr_arena_vfmt(&job->arena, fmt, ap);
    va_end(ap);
    if (text != NULL) {
        job->n_notes++;
        print_note(job, text);
        json_array_append_new(child(job->did, key, json_array), json_string(text));
    }
    fflush(stdout);
}

/* ---- all of it ---- */

static enum fr_rc read_inputs(struct fr_job *job, int argc, char **argv, struct fr_err *err)
{
    const char *text = argc > 1 ? argv[1] : fr_env("FLOWRUN_WITH", "{}");

    if (argc > 2)
        return fr_fail(err, FR_USAGE, "one argument at most: a JSON object of inputs");
    if (fr_json_parse(fr_str_of(text), "inputs", &job->with, err) != FR_OK) {
        err->rc = FR_USAGE;
        return FR_USAGE;
    }
    return json_is_object(job->with) ? FR_OK
                                     : fr_fail(err, FR_USAGE, "inputs: expected a JSON object");
}

/* Writes the result to the task's outputs; prints it if the task is run by hand. A task that has
 * done its work does not fail for it. */
static void give_result(struct fr_job *job)
{
    char *line = json_dumps(job->did, JSON_COMPACT | JSON_REAL_PRECISION(9));
    const struct fr_task *task = fr_task_find(job->name);
    struct fr_err err;

    if (fr_env("FLOWRUN_OUTPUT", NULL) == NULL)
        fr_print("%s\n", line != NULL ? line : "{}");
    else if (line != NULL && strlen(line) < RESULT_MAX && (task == NULL || !task->sidecar) &&
             append_output(FR_JOB_RESULT, line, &err) != FR_OK)
        fr_complain("%s: %s\n", job->name, err.msg);
    free(line);
}

int fr_job_main(const char *name, int argc, char **argv, fr_job_body *body)
{
    struct fr_job job = {.name = name, .did = json_object()};
    struct fr_err err = {.rc = FR_OK};
    int64_t began = fr_sys.mono_ms();
    enum fr_rc rc = read_inputs(&job, argc, argv, &err);

    job.dry_run = rc == FR_OK && fr_input_bool(&job, "dry_run", false);
    if (rc == FR_OK)
        rc = fr_inputs_ok(&job, &err);
    json_object_set_new(job.did, "task", json_string(name));
    json_object_set_new(job.did, "ok", json_false());
    if (job.dry_run)
        json_object_set_new(job.did, "dry_run", json_true());
    if (rc == FR_OK)
        rc = body(&job, &err);
    json_object_set_new(job.did, "ok", json_boolean(rc == FR_OK));
    json_object_set_new(job.did, "seconds", json_real((double)(fr_sys.mono_ms() - began) / 1000));
    if (rc != FR_OK)
        json_object_set_new(job.did, "error", json_string(err.msg));
    if (rc != FR_OK)
        fr_complain("%s: %s\n", name, err.msg);
    if (rc == FR_OK && job.n_notes == 0 && !job.no_summary)
        fr_print("%s: nothing to do\n", name);
    give_result(&job);
    fflush(stdout);
    json_decref(job.with);
    json_decref(job.did);
    fr_arena_finish(&job.arena);
    return rc == FR_OK ? 0 : rc == FR_USAGE ? FR_JOB_USAGE : 1;
}
