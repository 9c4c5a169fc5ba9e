/*
 * What a power cut may take from the trainer. The machine's calls are watched: a file's content is
 * pending from its write to its fdatasync, a name from its making to the fdatasync of its folder.
 *
 *   nothing is renamed into place while it holds something pending
 *   when a resume state gets its name, no checkpoint is pending
 *   an older state or checkpoint is removed when a newer one stands and nothing is pending
 *   at the end nothing is pending: adapter or model, checkpoints, resume states
 */
#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "tests/unit/check.h"
#include "trainer/cli/example.h"
#include "trainer/tensor/safetensors.h"
#include "trainer/train/train.h"

#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <unistd.h>

enum { PENDING = 256, FDS = 256 };

static char root[] = "/tmp/flowrun-durable-XXXXXX";

struct pending {
    char path[300];
    bool name; /* else content */
};

static struct {
    struct pending list[PENDING];
    size_t n;
    char open[FDS][300]; /* by descriptor; "": not below root */
    long syncs, renames, removals;
} watch;

/* ---- what is pending ---- */

static bool below(const char *path, const char *folder)
{
    size_t n = strlen(folder);

    return strncmp(path, folder, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

/* What counts in the end; logs and caches may be lost. */
static bool matters(const char *path)
{
    return strstr(path, "/resume") != NULL || strstr(path, "checkpoint-") != NULL ||
           strstr(path, "/adapter_") != NULL || strstr(path, "/out/model.") != NULL ||
           strstr(path, "weights.safetensors") != NULL || strcmp(strrchr(path, '/'), "/out") == 0 ||
           strcmp(strrchr(path, '/'), "/new") == 0;
}

static void mark(const char *path, bool name)
{
    if (!below(path, root) || watch.n == PENDING)
        return;
    for (size_t i = 0; i < watch.n; i++)
        if (watch.list[i].name == name && strcmp(watch.list[i].path, path) == 0)
            return;
    (void)snprintf(watch.list[watch.n].path, sizeof(watch.list[0].path), "%s", path);
    watch.list[watch.n++].name = name;
}

static void drop(size_t i)
{
    watch.list[i] = watch.list[--watch.n];
}

static bool in_folder(const char *path, const char *folder)
{
    size_t n = strlen(folder);

    return below(path, folder) && path[n] == '/' && strchr(path + n + 1, '/') == NULL;
}

static void synced(const char *path)
{
    for (size_t i = watch.n; i-- > 0;)
        if (watch.list[i].name ? in_folder(watch.list[i].path, path)
                               : strcmp(watch.list[i].path, path) == 0)
            drop(i);
}

static void forget(const char *path)
{
    for (size_t i = watch.n; i-- > 0;)
        if (below(watch.list[i].path, path))
            drop(i);
}

/* Nothing pending that matters and holds `part`. */
static void check_none(const char *when, const char *part)
{
    for (size_t i = 0; i < watch.n; i++)
        if (matters(watch.list[i].path) && strstr(watch.list[i].path, part) != NULL &&
            !CHECK(!"pending"))
            printf("   %s: %s of %s\n", when, watch.list[i].name ? "name" : "content",
                   watch.list[i].path);
    CHECK(true);
}

/* ---- the machine's calls ---- */

static int watch_open(const char *path, int flags, mode_t mode)
{
    struct stat st;
    bool there = fr_sys_real.lstat(path, &st) == 0;
    int fd = fr_sys_real.open(path, flags, mode);

    if (fd >= 0 && fd < FDS)
        (void)snprintf(watch.open[fd], sizeof(watch.open[fd]), "%s", path);
    if (fd >= 0 && !there)
        mark(path, true);
    if (fd >= 0 && (flags & O_TRUNC))
        mark(path, false);
    return fd;
}

static void wrote(int fd)
{
    if (fd < FDS && watch.open[fd][0] != '\0')
        mark(watch.open[fd], false);
}

static ssize_t watch_write(int fd, const void *p, size_t n)
{
    wrote(fd);
    return fr_sys_real.write(fd, p, n);
}

static ssize_t watch_pwrite(int fd, const void *p, size_t n, off_t at)
{
    wrote(fd);
    return fr_sys_real.pwrite(fd, p, n, at);
}

static int watch_close(int fd)
{
    if (fd < FDS)
        watch.open[fd][0] = '\0';
    return fr_sys_real.close(fd);
}

static int watch_sync(int fd)
{
    watch.syncs++;
    if (fd < FDS)
        synced(watch.open[fd]);
    return fr_sys_real.fdatasync(fd);
}

static int watch_mkdir(const char *path, mode_t mode)
{
    int rc = fr_sys_real.mkdir(path, mode);

    if (rc == 0)
        mark(path, true);
    return rc;
}

static int watch_rename(const char *from, const char *to)
{
    int rc;

    watch.renames++;
    for (size_t i = 0; i < watch.n; i++) {
        const struct pending *p = &watch.list[i];

        if (below(p->path, from) && !(p->name && strcmp(p->path, from) == 0) && matters(p->path) &&
            !CHECK(!"renamed into place while pending"))
            printf("   %s: %s of %s\n", to, p->name ? "name" : "content", p->path);
    }
    if (strstr(to, "/resume/step-") != NULL && strstr(from, "/resume/.tmp-") != NULL) {
        check_none("a resume state before its checkpoint", "checkpoint-");
        for (size_t i = 0; i < watch.n; i++)
            CHECK(strcmp(strrchr(watch.list[i].path, '/'), "/resume") != 0);
    }
    forget(from);
    rc = fr_sys_real.rename(from, to);
    if (rc == 0)
        mark(to, true);
    return rc;
}

/* The folder of path holds one with the same prefix and a higher number. */
static bool newer_stands(const char *path)
{
    char folder[300], **names = NULL;
    const char *name = strrchr(path, '/') + 1, *dash = strchr(name, '-');
    size_t n = 0, prefix = (size_t)(dash + 1 - name);
    bool newer = false;

    (void)snprintf(folder, sizeof(folder), "%.*s", (int)(name - path), path);
    if (fr_sys_real.list(folder, &names, &n) != 0)
        return false;
    for (size_t i = 0; i < n; i++)
        newer = newer || (strncmp(names[i], name, prefix) == 0 &&
                          strtol(names[i] + prefix, NULL, 10) > strtol(name + prefix, NULL, 10));
    fr_sys_names_free(names, n);
    return newer;
}

static bool named(const char *path, const char *prefix)
{
    return strncmp(strrchr(path, '/') + 1, prefix, strlen(prefix)) == 0;
}

static void removing(const char *path)
{
    bool state = strstr(path, "/resume/step-") != NULL;

    watch.removals += state;
    if (state)
        check_none("an older state goes", "/resume");
    if (strstr(path, "/checkpoint-") != NULL)
        check_none("an older checkpoint goes", "checkpoint-");
    forget(path);
}

static int watch_unlink(const char *path)
{
    removing(path);
    return fr_sys_real.unlink(path);
}

static int watch_rmdir(const char *path)
{
    if (named(path, "step-") || named(path, "checkpoint-"))
        CHECK(newer_stands(path));
    removing(path);
    return fr_sys_real.rmdir(path);
}

static void begin_watch(void)
{
    memset(&watch, 0, sizeof(watch));
    fr_sys.open = watch_open;
    fr_sys.close = watch_close;
    fr_sys.write = watch_write;
    fr_sys.pwrite = watch_pwrite;
    fr_sys.fdatasync = watch_sync;
    fr_sys.mkdir = watch_mkdir;
    fr_sys.rename = watch_rename;
    fr_sys.unlink = watch_unlink;
    fr_sys.rmdir = watch_rmdir;
}

/* ---- what is watched ---- */

static void test_tensors(void)
{
    static const float data[3] = {1, 2, 3};
    const struct tr_st_item item = {
        .name = "x", .type = TR_ST_F32, .ndim = 1, .shape = {3}, .data = data};
    char path[300];
    struct fr_err err = {0};

    check_row("a file of tensors");
    (void)snprintf(path, sizeof(path), "%s/weights.safetensors", root);
    begin_watch();
    CHECK_INT(tr_st_write(path, &item, 1, NULL, 0, &err), FR_OK);
    fr_sys = fr_sys_real;
    check_none("written", "");
    CHECK(watch.syncs >= 2);
}

static struct tr_train_counts counts;

static enum fr_rc train(int argc, const char *const *argv, struct fr_err *err)
{
    struct tr_backend *be = NULL;
    struct tr_comm *comm = NULL;
    struct tr_args a;
    enum fr_rc rc = tr_args_read(&a, argc, argv, NULL, err);

    if (rc == FR_OK)
        rc = tr_cpu_create(&be, err);
    if (rc == FR_OK)
        rc = tr_comm_single(be, &comm, err);
    if (rc == FR_OK)
        rc = tr_train(&a, &(struct tr_train_env){be, comm, -1, &counts}, err);
    tr_comm_destroy(comm);
    tr_backend_destroy(be);
    tr_args_finish(&a);
    return rc;
}

static void test_run(const char *type, const char *name, const char *steps, const char *limit)
{
    char model[300], data[300], out[300];
    const char *argv[] = {"--stage",    "sft",
                          "--do_train", "--model_name_or_path",
                          model,        "--dataset",
                          "arithmetic", "--dataset_dir",
                          data,         "--template",
                          "default",    "--finetuning_type",
                          type,         "--lora_target",
                          "q_a_proj",   "--lora_rank",
                          "2",          "--output_dir",
                          out,          "--per_device_train_batch_size",
                          "1",          "--max_samples",
                          "8",          "--gradient_accumulation_steps",
                          "2",          "--logging_steps",
                          "1",          "--save_steps",
                          "1",          "--max_steps",
                          steps,        "--save_total_limit",
                          limit,        "--resume_from_checkpoint",
                          "last",       "--overwrite_output_dir"};
    struct fr_err err = {0};

    check_row(name);
    (void)snprintf(model, sizeof(model), "%s/ex/model", root);
    (void)snprintf(data, sizeof(data), "%s/ex/data", root);
    (void)snprintf(out, sizeof(out), "%s/new/out", root);
    begin_watch();
    if (!CHECK_INT(train((int)(sizeof(argv) / sizeof(argv[0])), argv, &err), FR_OK))
        printf("   %s\n", err.msg);
    fr_sys = fr_sys_real;
    check_none("at the end", "");
}

static int64_t ticking_ms(void)
{
    static int64_t ms;

    return ms += 7;
}

static int64_t logged_tokens(void)
{
    char path[300];
    struct fr_buf log = {0};
    long long tokens = 0;

    (void)snprintf(path, sizeof(path), "%s/new/out/trainer_log.jsonl", root);
    CHECK_INT(fr_file_read(path, 1 << 20, &log, NULL), FR_OK);
    for (const char *p = log.p; p != NULL && (p = strstr(p, "\"total_tokens\":")) != NULL; p++)
        CHECK_INT(sscanf(p, "\"total_tokens\":%lld", &tokens), 1);
    fr_buf_finish(&log);
    return tokens;
}

/* What was counted of the steps that this call did, of two micro-batches each. */
static void check_step_counts(int64_t steps, int64_t tokens, int64_t targets)
{
    double ms = counts.seconds * 1000;

    check_row("counts");
    CHECK_INT(counts.steps, steps);
    CHECK_INT(counts.micros, 2 * steps);
    CHECK_INT(counts.tokens, tokens);
    CHECK_INT(counts.targets, targets);
    CHECK(counts.tokens_max > 0 && counts.tokens_max < 100 && counts.kept > 0);
    CHECK(counts.memory >= 0);
    CHECK(ms >= 7 * (double)steps - 0.001 && fabs(ms / 7 - round(ms / 7)) < 1e-6);
}

int main(void)
{
    const struct tr_example_kind *kind;
    char example[300];
    int64_t tokens;
    struct fr_err err = {0};

    if (mkdtemp(root) == NULL)
        return EXIT_FAILURE;
    (void)snprintf(example, sizeof(example), "%s/ex", root);
    if (!CHECK_INT(tr_example_find("deepseek", &kind, &err), FR_OK) ||
        !CHECK_INT(tr_example_write(example, kind, 42, 20, false, &err), FR_OK))
        printf("   %s\n", err.msg);
    test_tensors();
    fr_sys.mono_ms = ticking_ms;
    test_run("lora", "a new folder", "4", "1");
    tokens = logged_tokens();
    check_step_counts(4, tokens, 144);
    CHECK(watch.renames > 8 && watch.removals > 2);
    fr_sys.mono_ms = ticking_ms;
    test_run("lora", "more steps", "6", "2");
    check_step_counts(2, logged_tokens() - tokens, 71);
    CHECK(watch.renames > 4);
    (void)snprintf(example, sizeof(example), "%s/new", root);
    CHECK_INT(fr_remove_tree(example, &err), FR_OK);
    test_run("full", "all weights", "3", "1");
    test_run("full", "more steps of all weights", "5", "2");
    CHECK(watch.renames > 8 && watch.removals > 2);
    CHECK_INT(fr_remove_tree(root, &err), FR_OK);
    return check_done();
}
