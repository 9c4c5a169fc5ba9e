#include "trainer/train/output.h"

#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "trainer/save/export.h"
#include "trainer/save/resume.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RUN_NAME_MAX = 4096 };

static void lock_path(const char *dir, char out[PATH_MAX])
{
    (void)snprintf(out, PATH_MAX, "%s/.training.lock", dir);
}

/* The output folder, and its name and those above it on the disk. A folder above it that may not be
 * read is not ours to sync. */
static enum fr_rc make_output(const char *path, struct fr_err *err)
{
    char above[PATH_MAX];
    size_t n = (size_t)snprintf(above, sizeof(above), "%s", path);
    enum fr_rc rc = fr_mkdirs(path, 0755, err);

    if (rc != FR_OK || n >= sizeof(above))
        return rc;
    for (; n > 0; n--)
        if (above[n - 1] == '/') {
            above[n == 1 ? 1 : n - 1] = '\0';
            (void)fr_sync_dir(above, NULL);
        }
    if (path[0] != '/')
        (void)fr_sync_dir(".", NULL);
    return FR_OK;
}

static enum fr_rc busy(const char *dir, int fd, struct fr_err *err)
{
    char who[128];
    ssize_t n = fr_sys.pread(fd, who, sizeof(who) - 1, 0);

    who[n > 0 ? n : 0] = '\0';
    who[strcspn(who, "\n")] = '\0';
    return fr_fail(err, FR_BUSY,
                   "another training writes --output_dir %s (%s): wait for its end, or name "
                   "another folder. Processes that shall be one training are started by flowtrain "
                   "launch, torchrun, srun or mpirun",
                   dir, who[0] != '\0' ? who : "it has just begun");
}

static void sign(int fd)
{
    char host[65] = "", text[128];

    (void)gethostname(host, sizeof(host) - 1);
    int n = snprintf(text, sizeof(text), "process %d on %s\n", (int)getpid(), host);
    if (fr_sys.ftruncate(fd, 0) == 0)
        (void)fr_sys.pwrite(fd, text, (size_t)n, 0); /* for a message only */
}

static enum fr_rc claim(const char *dir, int *lock, struct fr_err *err)
{
    char path[PATH_MAX];
    enum fr_rc rc = FR_OK;

    lock_path(dir, path);
    for (;;) {
        int fd = fr_sys.open(path, O_RDWR | O_CREAT, 0644);

        if (fd < 0)
            return fr_fail_errno(err, errno, "cannot open %s", path);
        int e = fr_sys.lock(fd) == 0 ? 0 : errno;
        if (!fr_file_is_named(fd, path)) {
            (void)fr_sys.close(fd);
            continue;
        }
        if (e == 0) {
            sign(fd);
            *lock = fd;
            return FR_OK;
        }
        if (e == EAGAIN || e == EACCES)
            rc = busy(dir, fd, err);
        else
            fr_log(FR_LOG_WARN, "train",
                   "%s cannot be locked (%s): nothing hinders a second training in this folder",
                   path, strerror(e));
        (void)fr_sys.close(fd);
        return rc;
    }
}

/* Whether the result, or the removal of old checkpoints, would take the model that is read. */
static bool takes_model(const struct tr_args *a)
{
    char model[PATH_MAX], out[PATH_MAX], *name;

    if (strcmp(a->finetuning_type, "lora") == 0 || a->model_name_or_path == NULL ||
        realpath(a->model_name_or_path, model) == NULL || realpath(a->output_dir, out) == NULL)
        return false;
    if (strcmp(model, out) == 0)
        return true;
    name = strrchr(model, '/');
    *name = '\0';
    return strncmp(name + 1, "checkpoint-", 11) == 0 && strcmp(model, out) == 0;
}

static void run_path(const char *dir, char out[PATH_MAX])
{
    (void)snprintf(out, PATH_MAX, "%.4000s/.training.run", dir);
}

bool tr_output_is_of(const char *dir, const char *run)
{
    struct fr_buf b = {0};
    char path[PATH_MAX];
    bool is;

    run_path(dir, path);
    is = run != NULL && fr_file_read(path, RUN_NAME_MAX, &b, NULL) == FR_OK && !b.bad &&
         fr_str_is((struct fr_str){b.p, b.n}, run);
    fr_buf_finish(&b);
    return is;
}

enum fr_rc tr_output_sign(const char *dir, const char *run, struct fr_err *err)
{
    char path[PATH_MAX];

    if (tr_output_is_of(dir, run))
        return FR_OK;
    run_path(dir, path);
    return fr_file_write(path, run, strlen(run), 0600, err);
}

/* A finished adapter, or model, from an earlier run is never overwritten by accident. */
static enum fr_rc check(const struct tr_args *a, struct fr_err *err)
{
    static const char *const all[] = {"model.safetensors", "model.safetensors.index.json",
                                      "adapter_model.safetensors", NULL};
    const char *const *names = all + (strcmp(a->finetuning_type, "lora") == 0 ? 2 : 0);
    char path[PATH_MAX];
    struct stat st;

    if (takes_model(a))
        return fr_fail(err, FR_USAGE,
                       "the model %s would be overwritten by what is trained: name another "
                       "--output_dir than %s",
                       a->model_name_or_path, a->output_dir);
    if (a->overwrite_output_dir || a->resume_from_checkpoint != NULL ||
        tr_output_is_of(a->output_dir, a->resume_run) || tr_resume_any(a->output_dir))
        return FR_OK;
    for (; *names != NULL; names++) {
        (void)snprintf(path, sizeof(path), "%s/%s", a->output_dir, *names);
        if (fr_sys.lstat(path, &st) == 0)
            return fr_fail(err, FR_USAGE,
                           "Output directory %s already exists and is not empty. Please set "
                           "--overwrite_output_dir.",
                           a->output_dir);
    }
    return FR_OK;
}

enum fr_rc tr_output_open(const struct tr_args *a, bool first, int *lock, struct fr_err *err)
{
    enum fr_rc rc = make_output(a->output_dir, err);

    *lock = -1;
    if (rc == FR_OK && first)
        rc = claim(a->output_dir, lock, err);
    if (rc == FR_OK)
        rc = check(a, err);
    if (rc == FR_OK && first)
        tr_export_sweep(a->output_dir);
    return rc;
}

static void node_mark(const char *dir, uint64_t number, int node, char out[PATH_MAX])
{
    (void)snprintf(out, PATH_MAX, "%.4000s/" TR_EXPORT_TMP "node-%016llx-%d", dir,
                   (unsigned long long)number, node);
}

/* The file of this start and node. */
static enum fr_rc make_mark(const char *path, struct fr_err *err)
{
    int fd = fr_sys.open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);

    if (fd < 0)
        return fr_fail_errno(err, errno, "cannot make %s", path);
    (void)fr_sys.close(fd);
    return FR_OK;
}

/* The first rank of every node leaves a file, and each rank looks which it sees. */
enum fr_rc tr_output_folders(const char *dir, struct tr_comm *comm, int *folders,
                             struct fr_err *err)
{
    int *all, mine = 0;
    uint64_t number = 0;
    struct fr_err why = {0}, first = {0};
    char path[PATH_MAX];
    struct stat st;
    enum fr_rc rc;

    folders[0] = 0;
    if (comm->nodes <= 1)
        return FR_OK;
    if ((all = fr_sys.alloc((size_t)comm->size * sizeof(*all))) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory to compare ranks");
    if (fr_sys.random(&number, sizeof(number)) != 0)
        (void)fr_fail_errno(&why, errno, "no random number");
    rc = tr_comm_host_broadcast(comm, &number, sizeof(number), 0, err);
    node_mark(dir, number, comm->node, path);
    if (rc == FR_OK && why.rc == FR_OK && comm->local_rank == 0)
        why.rc = make_mark(path, &why);
    if (rc == FR_OK)
        rc = tr_comm_host_first_error(comm, &why, &first, err);
    for (; rc == FR_OK && first.rc == FR_OK && mine < comm->node; mine++) {
        char other[PATH_MAX];

        node_mark(dir, number, mine, other);
        if (fr_sys.lstat(other, &st) == 0)
            break;
    }
    if (rc == FR_OK)
        rc = tr_comm_host_all_gather(comm, all, &mine, sizeof(mine), err);
    for (int k = 0; k < comm->size && rc == FR_OK; k++)
        folders[comm->node_of[k]] = all[k];
    if (comm->local_rank == 0 && why.rc == FR_OK)
        (void)fr_sys.unlink(path);
    fr_sys.free(all);
    return rc != FR_OK || first.rc == FR_OK ? rc : fr_fail(err, first.rc, "%s", first.msg);
}

void tr_output_close(const struct tr_args *a, int *lock)
{
    char path[PATH_MAX];

    if (*lock < 0)
        return;
    lock_path(a->output_dir, path);
    (void)fr_sys.unlink(path);
    (void)fr_sys.close(*lock);
    *lock = -1;
}
