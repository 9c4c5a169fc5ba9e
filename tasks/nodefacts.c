#include "tasks/nodefacts.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "tasks/command.h"
#include "tasks/gpu.h"
#include "tasks/netline.h"
#include "tasks/owner.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

void fr_facts_add(json_t *facts, const char *key, const char *fmt, ...)
{
    struct fr_buf text = {0};
    va_list ap;

    va_start(ap, fmt);
    fr_buf_vfmt(&text, fmt, ap);
    va_end(ap);
    if (text.p != NULL)
        json_array_append_new(json_object_get(facts, key), json_string(text.p));
    fr_buf_finish(&text);
}

/* The list for a finding by its input (ignore, warn, require); NULL: none. */
static const char *severity(struct fr_job *job, const char *input)
{
    const char *strict = fr_input_text(job, input);

    if (strict != NULL && strcmp(strict, "ignore") == 0)
        return NULL;
    return strict != NULL && strcmp(strict, "require") == 0 ? "problems" : "warnings";
}

/* ---- GPUs ---- */

/* Kinds in PCI order: "8 x NVIDIA A100-SXM4-80GB". */
static void show_gpus(const struct fr_gpus *g, struct fr_buf *out)
{
    for (size_t i = 0, same; i < g->n; i += same) {
        for (same = 1; i + same < g->n && strcmp(g->v[i].name, g->v[i + same].name) == 0; same++) {
        }
        fr_buf_fmt(out, "%s%zu x %s", i > 0 ? ", " : "", same, g->v[i].name);
    }
}

static void judge_gpus(struct fr_job *job, const struct fr_gpus *g, json_t *facts)
{
    const char *driver = fr_input_text(job, "driver"), *cuda = fr_input_text(job, "cuda");
    const char *fabric = severity(job, "fabric_manager");
    int64_t wanted = fr_input_int(job, "gpus", fr_env_int("FLOWRUN_GPUS", 0));
    char why[512];

    if ((int64_t)g->n < wanted)
        fr_facts_add(facts, "problems", "%zu GPUs, %lld are wanted", g->n, (long long)wanted);
    if (driver != NULL && fr_version_compare(g->driver, driver) < 0)
        fr_facts_add(facts, "problems", "driver %s is older than %s", g->driver, driver);
    if (cuda != NULL && fr_version_compare(g->cuda, cuda) < 0)
        fr_facts_add(facts, "problems", "the driver offers CUDA %s, %s is wanted", g->cuda, cuda);
    if (fabric != NULL && fr_gpus_error_802(g, why))
        fr_facts_add(facts, fabric, "%s", why);
    for (size_t i = 0; i + 1 < g->n; i++)
        if (g->v[i].index > g->v[i + 1].index) {
            fr_facts_add(facts, "warnings",
                         "nvidia-smi's order is not that of PCI: set "
                         "CUDA_DEVICE_ORDER=PCI_BUS_ID");
            break;
        }
}

static enum fr_rc look_at_gpus(struct fr_job *job, json_t *facts, struct fr_err *err)
{
    struct fr_gpus *g = fr_arena_alloc(&job->arena, sizeof(*g));
    struct fr_buf kinds = {0};
    struct fr_err why;
    enum fr_rc rc;

    if (g == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the list of GPUs");
    rc = fr_gpus_read(job, g, &why);
    if (rc == FR_NOTFOUND) {
        bool asked = fr_input_int(job, "gpus", fr_env_int("FLOWRUN_GPUS", 0)) > 0 ||
                     fr_input_text(job, "driver") != NULL || fr_input_text(job, "cuda") != NULL;
        if (asked)
            fr_facts_add(facts, "problems", "GPUs are wanted, and %s", why.msg);
        else
            fr_facts_add(facts, "notes", "no nvidia-smi here, so no GPU is looked at");
        return FR_OK;
    }
    if (rc != FR_OK) {
        fr_facts_add(facts, "problems", "%s", why.msg);
        return FR_OK;
    }
    show_gpus(g, &kinds);
    json_object_set_new(facts, "driver", json_string(g->driver));
    json_object_set_new(facts, "cuda", json_string(g->cuda));
    json_object_set_new(facts, "fabric", json_string(g->fabric));
    json_object_set_new(facts, "gpus", json_string(kinds.p != NULL ? kinds.p : ""));
    json_object_set_new(facts, "gpu_count", json_integer((json_int_t)g->n));
    fr_buf_finish(&kinds);
    judge_gpus(job, g, facts);
    return FR_OK;
}

/* ---- the machine ---- */

int64_t fr_available_memory(void)
{
    struct fr_buf text = {0};
    int64_t kib = -1;

    if (fr_file_read("/proc/meminfo", 1 << 20, &text, NULL) == FR_OK && text.p != NULL) {
        const char *p = strstr(text.p, "MemAvailable:");
        if (p != NULL)
            kib = strtoll(p + sizeof("MemAvailable:") - 1, NULL, 10);
    }
    fr_buf_finish(&text);
    return kib < 0 ? -1 : kib * 1024;
}

/* Free space where path is, or will be once it is made. */
static int64_t free_space(const char *path, struct fr_arena *arena)
{
    char *p = fr_arena_dup(arena, path);

    for (;;) {
        int64_t n = p != NULL ? fr_sys.disk_free(p) : -1;
        char *slash = p != NULL ? strrchr(p, '/') : NULL;
        if (n >= 0 || slash == NULL || slash == p)
            return n;
        *slash = '\0';
    }
}

static int64_t limit_of(int resource)
{
    struct rlimit r;

    if (getrlimit((__rlimit_resource_t)resource, &r) != 0 || r.rlim_cur == RLIM_INFINITY)
        return -1;
    return (int64_t)r.rlim_cur;
}

static void check_least(struct fr_job *job, json_t *facts, const char *key, const char *what)
{
    int64_t have = json_integer_value(json_object_get(facts, key));
    int64_t want = fr_input_int(job, key, 0);
    char a[24], b[24];

    if (want <= 0 || have < 0 || have >= want)
        return;
    fr_show_size(have, a);
    fr_show_size(want, b);
    if (strcmp(key, "nofile") == 0)
        fr_facts_add(facts, "problems", "%s: %lld, at least %lld are wanted (ulimit -n)", what,
                     (long long)have, (long long)want);
    else
        fr_facts_add(facts, "problems", "%s: %s, at least %s is wanted", what, a, b);
}

/* Do this user's processes end with its last login session? Source: logind.conf(5), loginctl(1). */
static void look_at_linger(struct fr_job *job, json_t *facts)
{
    const char *linger = severity(job, "linger"), *user = fr_owner_name(job, getuid());
    const char *file = fr_arena_fmt(&job->arena, "/var/lib/systemd/linger/%s", user);
    const char *argv[] = {"busctl",
                          "get-property",
                          "org.freedesktop.login1",
                          "/org/freedesktop/login1",
                          "org.freedesktop.login1.Manager",
                          "KillUserProcesses",
                          NULL};
    struct fr_command c = {.argv = argv, .timeout_ms = 10000};

    if (linger == NULL || getuid() == 0 || file == NULL ||
        fr_machine_shared() /* no login of its own */ || access("/run/systemd/system", F_OK) != 0 ||
        access(file, F_OK) == 0)
        return;
    if (fr_command_must(&c, NULL) == FR_OK && c.out.p != NULL && strstr(c.out.p, "true") != NULL)
        fr_facts_add(facts, linger,
                     "processes of %s end when its last session does: loginctl enable-linger %s",
                     user, user);
    fr_command_finish(&c);
}

static void look_at_machine(struct fr_job *job, json_t *facts)
{
    struct utsname u;
    char boot[40] = "", net[64] = "";
    const char *work = fr_work_folder(job);
    size_t n;
    const char **commands = fr_input_list(job, "commands", &n);
    ssize_t k = readlink("/proc/self/ns/net", net, sizeof(net) - 1);

    net[k > 0 ? k : 0] = '\0';
    fr_sys.boot_id(boot);
    uname(&u);
    json_object_set_new(facts, "machine", json_sprintf("%s %s", boot, net));
    json_object_set_new(facts, "kernel", json_string(u.release));
    json_object_set_new(facts, "work", json_string(work != NULL ? work : ""));
    json_object_set_new(facts, "disk",
                        json_integer(work != NULL ? free_space(work, &job->arena) : -1));
    json_object_set_new(facts, "memory", json_integer(fr_available_memory()));
    json_object_set_new(facts, "nofile", json_integer(limit_of(RLIMIT_NOFILE)));
    json_object_set_new(facts, "memlock", json_integer(limit_of(RLIMIT_MEMLOCK)));
    check_least(job, facts, "disk", fr_arena_fmt(&job->arena, "free space in %s", work));
    check_least(job, facts, "memory", "memory available");
    check_least(job, facts, "nofile", "open files of a process");
    check_least(job, facts, "memlock", "memory that may be locked");
    for (size_t i = 0; i < n; i++)
        if (!fr_program_found(commands[i]))
            fr_facts_add(facts, "problems", "%s is not in PATH", commands[i]);
}

enum fr_rc fr_node_facts(struct fr_job *job, const char *head, json_t **facts, struct fr_err *err)
{
    const char *wanted = fr_input_text(job, "interface");
    struct sockaddr_storage a;
    char iface[32] = "";
    enum fr_rc rc = FR_OK;

    *facts = json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:[], s:[], s:[]}", "name",
                       fr_env("FLOWRUN_NODE", "this node"), "driver", "", "cuda", "", "fabric", "",
                       "gpus", "", "gpu_count", 0, "problems", "warnings", "notes");
    if (*facts == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the facts");
    if (head != NULL && (rc = fr_net_address(head, 9, &a, err)) == FR_OK)
        fr_net_interface(&a, iface);
    json_object_set_new(*facts, "iface", json_string(iface));
    if (rc == FR_OK && wanted != NULL && head != NULL && strcmp(wanted, iface) != 0)
        fr_facts_add(*facts, "problems", "the route to the head takes %s, not %s",
                     iface[0] != '\0' ? iface : "an unknown interface", wanted);
    look_at_machine(job, *facts);
    look_at_linger(job, *facts);
    return rc == FR_OK ? look_at_gpus(job, *facts, err) : rc;
}
