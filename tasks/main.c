/* flownode: the program that runs on every node. */
#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/base/proc.h"
#include "engine/base/sys.h"
#include "engine/base/built.h"
#include "engine/supervise/home.h"
#include "engine/node/keep.h"
#include "engine/node/serve.h"
#include "engine/node/shim.h"
#include "engine/submit/folder.h"
#include "tasks/login.h"
#include "tasks/privilege.h"
#include "tasks/task.h"

#include <elf.h>
#include <link.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

extern char **environ;

enum {
    KILL_WAIT_MAX = 86400, /* s */
    LEASE_MAX = 366 * 86400,
    RELAY_NO_KEEPER = 3 /* exit status: see keep.h */
};

static const char usage[] =
    "usage: flownode serve --home DIR                  speak with flowrun on stdin and stdout\n"
    "       flownode task NAME [ARGUMENTS]             run a built-in task\n"
    "       flownode shim --home DIR --attempt ID      supervise an attempt inside a container\n"
    "       flownode keep --alloc FOLDER [--kill-wait SECONDS] [--lease SECONDS] [--image IMAGE "
    "…]\n"
    "                                                  keep a node of a job of Slurm\n"
    "       flownode relay --alloc FOLDER --place K    join stdin and stdout with that keeper\n"
    "       flownode folder make|script|read|remove FOLDER  the folder of a job of Slurm\n"
    "       flownode hold [--home DIR]                 be a container's first process\n"
    "       flownode version\n";

/* The value of option in argv, NULL when it is not there. */
static const char *option(int argc, char **argv, const char *name)
{
    for (int i = 0; i + 1 < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return argv[i + 1];
    return NULL;
}

static bool own_path(char out[FR_NODE_PATH])
{
    ssize_t n = readlink("/proc/self/exe", out, FR_NODE_PATH - 1);

    out[n > 0 ? n : 0] = '\0';
    return n > 0;
}

/* Reads the id that the linker gave the program, a note in its memory: elf(5), dl_iterate_phdr(3).
 * The program is the first object; "" when it was linked without. */
static int take_build_id(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct fr_buf *out = arg;

    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        const char *p = (const char *)info->dlpi_addr + h->p_vaddr, *end = p + h->p_memsz;

        while (h->p_type == PT_NOTE && p + sizeof(ElfW(Nhdr)) <= end) {
            const ElfW(Nhdr) *n = (const void *)p;
            size_t name = (n->n_namesz + 3u) & ~3u;

            p += sizeof(*n) + name;
            for (size_t k = 0; n->n_type == NT_GNU_BUILD_ID && k < n->n_descsz; k++)
                fr_buf_fmt(out, "%02x", (unsigned)(uint8_t)p[k]);
            p += (n->n_descsz + 3u) & ~3u;
        }
    }
    return 1;
}

static int serve(int argc, char **argv)
{
    char self[FR_NODE_PATH];
    struct fr_buf build = {0};
    const char *home = option(argc, argv, "--home");
    struct fr_err err;

    if (home == NULL || home[0] != '/' || !own_path(self)) {
        fr_complain("flownode serve: --home needs an absolute folder\n");
        return 2;
    }
    dl_iterate_phdr(take_build_id, &build);
    struct fr_serve_args a = {.home = home,
                              .self = self,
                              .build = build.p != NULL ? build.p : "",
                              .environ = (const char *const *)environ,
                              .in = 0,
                              .out = 1,
                              .descriptors = fr_proc_raise_descriptors()};
    enum fr_rc rc = fr_serve(&a, &err);
    if (rc != FR_OK)
        fr_complain("flownode serve: %s\n", err.msg);
    fr_buf_finish(&build);
    return rc == FR_OK ? 0 : 1;
}

/* text: NULL: *out stays. */
static bool seconds(const char *text, int64_t max, int64_t *out)
{
    return text == NULL ||
           (fr_parse_i64(fr_str_of(text), out, NULL) == FR_OK && *out >= 0 && *out <= max);
}

static bool has_word(int argc, char **argv, const char *name)
{
    for (int i = 0; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return true;
    return false;
}

/* The values of all --mount. NULL: no memory. */
static const char *const *mounts_of(int argc, char **argv, size_t *n)
{
    const char **all = fr_sys.alloc(((size_t)argc + 1) * sizeof(*all));

    *n = 0;
    for (int i = 0; all != NULL && i + 1 < argc; i++)
        if (strcmp(argv[i], "--mount") == 0)
            all[(*n)++] = argv[++i];
    return all;
}

/* Beside the container that its image makes, or as a keeper. */
static enum fr_rc keep_with(const struct fr_keep_args *a, int argc, char **argv, struct fr_err *err)
{
    struct fr_keep_box box = {.image = option(argc, argv, "--image"),
                              .program = option(argc, argv, "--program"),
                              .nv = has_word(argc, argv, "--nv")};
    enum fr_rc rc;

    if (box.image == NULL)
        return fr_keep(a, err);
    if (box.program == NULL)
        box.program = "apptainer";
    box.mounts = mounts_of(argc, argv, &box.n_mounts);
    rc = box.mounts != NULL ? fr_keep_boxed(a, &box, err)
                            : fr_fail(err, FR_NOMEM, "no memory for mounts");
    fr_sys.free((void *)box.mounts);
    return rc;
}

static int keep(int argc, char **argv)
{
    char self[FR_NODE_PATH];
    struct fr_buf build = {0};
    const char *folder = option(argc, argv, "--alloc");
    int64_t kill_wait = 0, lease = 0;
    struct fr_err err;

    if (folder == NULL || !own_path(self) ||
        !seconds(option(argc, argv, "--kill-wait"), KILL_WAIT_MAX, &kill_wait) ||
        !seconds(option(argc, argv, "--lease"), LEASE_MAX, &lease)) {
        fr_complain("usage: flownode keep --alloc FOLDER [--kill-wait SECONDS] [--lease SECONDS]\n"
                    "       [--base FOLDER] [--inside] [--guarded]\n"
                    "       [--image IMAGE [--program P] [--nv] [--mount M]…]\n");
        return 2;
    }
    dl_iterate_phdr(take_build_id, &build);
    struct fr_keep_args a = {.folder = folder,
                             .kill_wait_ms = kill_wait * 1000,
                             .lease_ms = lease * 1000,
                             .base = option(argc, argv, "--base"),
                             .inside = has_word(argc, argv, "--inside"),
                             .guarded = has_word(argc, argv, "--guarded"),
                             .self = self,
                             .build = build.p != NULL ? build.p : "",
                             .environ = (const char *const *)environ,
                             .descriptors = fr_proc_raise_descriptors()};
    enum fr_rc rc = keep_with(&a, argc, argv, &err);
    if (rc != FR_OK)
        fr_complain("flownode keep: %s\n", err.msg);
    fr_buf_finish(&build);
    return rc == FR_OK ? 0 : 1;
}

static int relay(int argc, char **argv)
{
    const char *folder = option(argc, argv, "--alloc"), *text = option(argc, argv, "--place");
    int64_t place = 0;
    struct fr_err err;

    if (folder == NULL || text == NULL || fr_parse_i64(fr_str_of(text), &place, NULL) != FR_OK ||
        place < 1 || place > INT32_MAX) {
        fr_complain("usage: flownode relay --alloc FOLDER --place K\n");
        return 2;
    }
    enum fr_rc rc = fr_relay(folder, (int)place, 0, 1, &err);
    if (rc != FR_OK)
        fr_complain("flownode relay: %s\n", err.msg);
    return rc == FR_OK ? 0 : rc == FR_NOTFOUND ? RELAY_NO_KEEPER : 1;
}

/* What a control elsewhere has a login node do with the folder of an allocation. */
static int folder(int argc, char **argv)
{
    const char *call = argc > 1 ? argv[0] : "", *path = argc > 1 ? argv[1] : "";
    struct fr_arena arena = {0};
    struct fr_buf out = {0};
    const char *program = NULL;
    char self[FR_NODE_PATH];
    struct fr_err err = {0};
    enum fr_rc rc;

    if (strcmp(call, "make") == 0 && argc == 2 && own_path(self)) {
        rc = fr_folder_make(path, self, &arena, &program, &err);
        fr_buf_text(&out, rc == FR_OK ? program : "");
    } else if (strcmp(call, "script") == 0 && argc == 3) {
        rc = fr_folder_script(path, argv[2], &err);
    } else if (strcmp(call, "read") == 0 && argc == 2) {
        rc = fr_folder_read(path, &out, &err);
    } else if (strcmp(call, "remove") == 0 && argc == 2) {
        rc = fr_folder_remove(path, &err);
    } else {
        rc = fr_fail(&err, FR_USAGE,
                     "usage: flownode folder make|read|remove FOLDER, or "
                     "flownode folder script FOLDER TEXT");
    }
    if (rc == FR_OK && (out.bad || !fr_write_full(1, out.p, out.n)))
        rc = fr_fail(&err, FR_IO, "its output is closed");
    if (rc != FR_OK)
        fr_complain("%s\n", err.msg);
    fr_buf_finish(&out);
    fr_arena_finish(&arena);
    return rc == FR_OK ? 0 : rc == FR_USAGE ? 2 : 1;
}

static int shim(int argc, char **argv)
{
    char self[FR_NODE_PATH];
    const char *home = option(argc, argv, "--home"), *id = option(argc, argv, "--attempt");
    struct fr_shim_args a = {.home = home, .self = self, .environ = (const char *const *)environ};
    struct fr_err err;

    if (home == NULL || id == NULL || !fr_id_parse(fr_str_of(id), &a.attempt) || !own_path(self)) {
        fr_complain("usage: flownode shim --home DIR --attempt ID\n");
        return 2;
    }
    if (fr_shim(&a, &err) != FR_OK) {
        fr_complain("flownode shim: %s\n", err.msg);
        return 1;
    }
    return 0;
}

static int task(int argc, char **argv)
{
    const struct fr_task *t = argc > 0 ? fr_task_find(argv[0]) : NULL;

    if (t != NULL)
        return t->run(argc, argv);
    fr_complain(argc > 0 ? "flownode: there is no task \"%s\"; there are:\n" : "tasks:%s\n",
                argc > 0 ? argv[0] : "");
    for (t = fr_task_table(); t->name != NULL; t++)
        fr_complain("  %-16s %s\n", t->name, t->help);
    return 2;
}

int main(int argc, char **argv)
{
    const char *command = argc > 1 ? argv[1] : "";

    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file as long as is allowed fails, as on a full disk */
    /* these and the supervisors they become have secrets in their memory: no core, no look inside;
     * a task keeps what every program has */
    if (strcmp(command, "serve") == 0 || strcmp(command, "shim") == 0 ||
        strcmp(command, "keep") == 0 || strcmp(command, "relay") == 0)
        prctl(PR_SET_DUMPABLE, 0);
    if (strcmp(command, "serve") == 0)
        return serve(argc - 2, argv + 2);
    if (strcmp(command, "shim") == 0)
        return shim(argc - 2, argv + 2);
    if (strcmp(command, "keep") == 0)
        return keep(argc - 2, argv + 2);
    if (strcmp(command, "relay") == 0)
        return relay(argc - 2, argv + 2);
    if (strcmp(command, "folder") == 0)
        return folder(argc - 2, argv + 2);
    if (strcmp(command, "task") == 0)
        return task(argc - 2, argv + 2);
    if (strcmp(command, "become") == 0)
        return fr_become();
    if (strcmp(command, "signal") == 0)
        return fr_signal(argc - 1, argv + 1);
    if (strcmp(command, "login") == 0)
        return fr_login(argc - 1, argv + 1);
    if (strcmp(command, "hold") == 0)
        return fr_hold(option(argc - 2, argv + 2, "--home"));
    if (strcmp(command, "version") == 0) {
        fr_print("flownode %s (%s)\n", FLOWRUN_VERSION, fr_built);
        return 0;
    }
    fr_complain("%s", usage);
    return 2;
}
