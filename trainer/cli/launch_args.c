#include "trainer/cli/launch_args.h"

#include "engine/base/sys.h"
#include "trainer/cli/cli.h"
#include "trainer/comm/launchers.h"

#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* What the flags say, before anything is made of it. */
struct words {
    const char *nproc, *nnodes, *node, *addr, *port, *restarts, *id, *backend, *endpoint, *conf;
    const char *idle[12]; /* values of flags without effect */
    int standalone, no_python, module, run_path, virtual_rank, help;
};

enum { FLAGS = 32 };

static const char *const shorts[] = {"r", "redirects", "t", "tee", "m", "module", NULL};

/* The table over w; returns how many rows. */
static size_t flags_of(struct words *w, struct tr_flag out[FLAGS])
{
    const struct tr_flag rows[] = {
        {"nproc_per_node", &w->nproc, NULL, "ranks on this node: a number, gpu, cpu or auto"},
        {"nnodes", &w->nnodes, NULL, "nodes: N or N:N"},
        {"node_rank", &w->node, NULL, "number of this node, from 0"},
        {"master_addr", &w->addr, NULL, "address of node 0"},
        {"master_port", &w->port, NULL, "rendezvous port on node 0"},
        {"max_restarts", &w->restarts, NULL, "how often to start all again after a failure"},
        {"rdzv_id", &w->id, NULL, "name of the run; ranks of another run are refused"},
        {"rdzv_endpoint", &w->endpoint, NULL, "HOST[:PORT] of node 0"},
        {"rdzv_backend", &w->backend, NULL, "static, or c10d with --rdzv_endpoint"},
        {"rdzv_conf", &w->conf, NULL, "rank=N is --node_rank; the rest has no effect"},
        {"standalone", NULL, &w->standalone, "one node, a free port"},
        {"monitor_interval", &w->idle[0], NULL, "no effect"},
        {"role", &w->idle[1], NULL, "no effect"},
        {"log_dir", &w->idle[2], NULL, "no effect: ranks write to this terminal"},
        {"redirects", &w->idle[3], NULL, "no effect: ranks write to this terminal"},
        {"tee", &w->idle[4], NULL, "no effect: ranks write to this terminal"},
        {"local_ranks_filter", &w->idle[5], NULL, "no effect: ranks write to this terminal"},
        {"local_addr", &w->idle[6], NULL, "no effect"},
        {"start_method", &w->idle[7], NULL, "no effect"},
        {"signals_to_handle", &w->idle[8], NULL, "no effect: SIGTERM, SIGINT, SIGHUP, SIGQUIT"},
        {"event_log_handler", &w->idle[9], NULL, "no effect"},
        {"logs_specs", &w->idle[10], NULL, "no effect: ranks write to this terminal"},
        {"numa_binding", &w->idle[11], NULL, "no effect: a rank is bound to the node of its GPU"},
        {"virtual_local_rank", NULL, &w->virtual_rank,
         "no effect: a rank takes the GPU of its number"},
        {"no_python", NULL, &w->no_python, "no effect: no Python is run"},
        {"run_path", NULL, &w->run_path, "no effect: no Python is run"},
        {"module", NULL, &w->module, "refused: no Python is run"},
        {"help", NULL, &w->help, "this text"},
    };

    memcpy(out, rows, sizeof(rows));
    return sizeof(rows) / sizeof(rows[0]);
}

/* PET_<NAME>, else <NAME>; NULL where neither is set. */
static const char *variable(const char *flag)
{
    char name[64] = "PET_";
    const char *v;

    for (size_t i = 0; flag[i] != '\0' && i + 5 < sizeof(name); i++)
        name[i + 4] = (char)toupper((unsigned char)flag[i]);
    v = getenv(name);
    return v != NULL ? v : getenv(name + 4);
}

/* PET_<NAME>=1 is the switch. */
static enum fr_rc switch_of(const char *flag, int *on, struct fr_err *err)
{
    char name[64] = "PET_";
    const char *v;

    for (size_t i = 0; flag[i] != '\0' && i + 5 < sizeof(name); i++)
        name[i + 4] = (char)toupper((unsigned char)flag[i]);
    if ((v = getenv(name)) == NULL || strcmp(v, "0") == 0)
        return FR_OK;
    if (strcmp(v, "1") != 0)
        return fr_fail(err, FR_USAGE, "environment variable %s is '%s', expected 0 or 1", name, v);
    *on = 1;
    return FR_OK;
}

static enum fr_rc number(const char *flag, const char *text, int64_t low, int64_t *out,
                         struct fr_err *err)
{
    if (text == NULL && (text = variable(flag)) == NULL)
        return FR_OK;
    if (fr_parse_i64(fr_str_of(text), out, err) != FR_OK || *out < low || *out > 1 << 20)
        return fr_fail(err, FR_USAGE, "--%s is '%s', expected a whole number from %lld", flag, text,
                       (long long)low);
    return FR_OK;
}

static int64_t processors(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

/* GPUs that ranks will see: those that CUDA_VISIBLE_DEVICES lists, else the device files. */
static int64_t gpus(void)
{
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    char path[32];
    struct stat st;
    int64_t n = 0;

    if (list != NULL) {
        n = list[0] != '\0' && list[0] != '-';
        for (const char *p = list; n > 0 && *p != '\0'; p++)
            n += *p == ',';
        return n;
    }
    for (int i = 0; i < TR_LAUNCH_LOCAL; i++) {
        (void)snprintf(path, sizeof(path), "/dev/nvidia%d", i);
        n += stat(path, &st) == 0;
    }
    return n;
}

static enum fr_rc read_nproc(const struct words *w, struct tr_launch_args *o, struct fr_err *err)
{
    const char *text = w->nproc != NULL ? w->nproc : variable("nproc_per_node");
    bool any = text != NULL && strcmp(text, "auto") == 0;

    if (text != NULL && strcmp(text, "cpu") == 0)
        o->nproc = processors();
    else if (any || (text != NULL && strcmp(text, "gpu") == 0)) {
        o->nproc = gpus();
        if (o->nproc == 0 && !any)
            return fr_fail(err, FR_USAGE, "--nproc_per_node gpu: no GPU is to be seen here");
        if (o->nproc == 0)
            o->nproc = processors();
    } else
        return number("nproc_per_node", text, 1, &o->nproc, err);
    return FR_OK;
}

/* N, or MIN:MAX with the same number twice. */
static enum fr_rc read_nnodes(const struct words *w, struct tr_launch_args *o, struct fr_err *err)
{
    const char *text = w->nnodes != NULL ? w->nnodes : variable("nnodes"), *colon;
    char first[32];
    enum fr_rc rc;

    if (text == NULL || (colon = strchr(text, ':')) == NULL)
        return number("nnodes", text, 1, &o->nnodes, err);
    (void)snprintf(first, sizeof(first), "%.*s", (int)(colon - text), text);
    if ((rc = number("nnodes", first, 1, &o->nnodes, err)) != FR_OK)
        return rc;
    if (strcmp(first, colon + 1) != 0)
        return fr_fail(err, FR_UNSUPPORTED,
                       "--nnodes %s: the count of nodes is fixed here, say --nnodes N", text);
    return FR_OK;
}

/* HOST, HOST:PORT, [ADDRESS] or [ADDRESS]:PORT. */
static enum fr_rc read_endpoint(const char *text, struct tr_launch_args *o, struct fr_err *err)
{
    const char *close = text[0] == '[' ? strchr(text, ']') : NULL, *host = text, *port;
    size_t n;

    if (close != NULL) {
        host = text + 1;
        n = (size_t)(close - host);
        port = close[1] == ':' ? close + 2 : NULL;
    } else {
        n = strcspn(text, ":");
        port = text[n] == ':' ? text + n + 1 : NULL;
        if (port != NULL && strchr(port, ':') != NULL) /* a bare IPv6 address */
            n = strlen(text), port = NULL;
    }
    if (n == 0 || n >= sizeof(o->addr))
        return fr_fail(err, FR_USAGE, "--rdzv_endpoint '%s': expected HOST:PORT of node 0", text);
    memcpy(o->addr, host, n);
    o->addr[n] = '\0';
    return port != NULL ? number("rdzv_endpoint", port, 1, &o->port, err) : FR_OK;
}

/* A port that is free now on this machine, below those of outgoing connections, of which one could
 * take it before the ranks do; of those only where no draw is free. */
static enum fr_rc free_port(int64_t *out, struct fr_err *err)
{
    enum { FIRST = 20000, PORTS = 12000, DRAWS = 64 };
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    enum fr_rc rc = FR_OK;
    bool bound = false;

    for (int i = 0; fd >= 0 && !bound && i <= DRAWS; i++) {
        uint16_t draw = 0;

        fr_sys.random(&draw, sizeof(draw));
        a.sin_port = i < DRAWS ? htons((uint16_t)(FIRST + draw % PORTS)) : 0;
        bound = bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0;
    }
    if (!bound || getsockname(fd, (struct sockaddr *)&a, &n) != 0)
        rc = fr_fail_errno(err, errno, "--standalone: a free port");
    *out = ntohs(a.sin_port);
    if (fd >= 0)
        close(fd);
    return rc;
}

static enum fr_rc read_rendezvous(const struct words *w, struct tr_launch_args *o,
                                  struct fr_err *err)
{
    const char *backend = w->backend != NULL ? w->backend : variable("rdzv_backend");
    const char *endpoint = w->endpoint != NULL ? w->endpoint : variable("rdzv_endpoint");
    const char *pet = getenv("PET_RDZV_CONF");
    const char *conf = w->conf != NULL ? w->conf
                       : pet != NULL   ? pet
                                       : "",
               *rank = strstr(conf, "rank=");
    const char *node = w->node != NULL ? w->node : variable("node_rank");
    const char *addr = w->addr != NULL ? w->addr : variable("master_addr");
    bool c10d = backend != NULL && strcmp(backend, "c10d") == 0;
    char digits[16];
    enum fr_rc rc;

    if (backend != NULL && !c10d && strcmp(backend, "static") != 0)
        return fr_fail(err, FR_UNSUPPORTED,
                       "--rdzv_backend %s: only static, and c10d with --rdzv_endpoint, are done",
                       backend);
    (void)snprintf(o->addr, sizeof(o->addr), "%s", addr != NULL ? addr : "127.0.0.1");
    if (endpoint != NULL && endpoint[0] != '\0' && (rc = read_endpoint(endpoint, o, err)) != FR_OK)
        return rc;
    if (node == NULL && rank != NULL) {
        (void)snprintf(digits, sizeof(digits), "%.*s", (int)strcspn(rank + 5, ","), rank + 5);
        node = digits;
    }
    if (node == NULL && c10d && o->nnodes > 1)
        return fr_fail(err, FR_USAGE,
                       "--rdzv_backend c10d: nodes are numbered by hand here, say --node_rank");
    if ((rc = number("node_rank", node, 0, &o->node_rank, err)) != FR_OK ||
        (rc = number("master_port", w->port, 1, &o->port, err)) != FR_OK || !w->standalone)
        return rc;
    if (o->nnodes != 1 || o->node_rank != 0)
        return fr_fail(err, FR_USAGE, "--standalone is of one node, not of %lld",
                       (long long)o->nnodes);
    (void)snprintf(o->addr, sizeof(o->addr), "127.0.0.1");
    return free_port(&o->port, err);
}

static void note_idle(const struct words *w, const struct tr_flag *flags, size_t n,
                      struct fr_buf *notes)
{
    for (size_t i = 0; i < n; i++)
        if (fr_has_prefix(flags[i].help, "no effect") &&
            (flags[i].value != NULL ? *flags[i].value != NULL : *flags[i].on > 0))
            fr_buf_fmt(notes, "--%s has no effect%s\n", flags[i].name,
                       flags[i].help + strlen("no effect"));
    if (w->conf != NULL)
        fr_buf_fmt(notes, "--rdzv_conf: %s\n", "only rank=N has an effect");
}

/* A launcher that another one started once a node makes one world only if it is told of the others.
 */
static enum fr_rc check_alone(const struct words *w, struct fr_err *err)
{
    struct tr_launched l;

    if (w->nnodes != NULL || variable("nnodes") != NULL || w->standalone ||
        tr_launched(&l, NULL) != FR_OK || l.size == 1)
        return FR_OK;
    return fr_fail(err, FR_USAGE,
                   "%s says that %d processes of this launcher were started, and this is number "
                   "%d: say --nnodes %d --node_rank %d --master_addr HOST, or --standalone for a "
                   "training each",
                   l.size_name, l.size, l.rank, l.size, l.rank);
}

static enum fr_rc read_words(const struct words *w, struct tr_launch_args *o, struct fr_err *err)
{
    const char *id = w->id != NULL ? w->id : variable("rdzv_id");
    enum fr_rc rc;

    if (w->module)
        return fr_fail(err, FR_UNSUPPORTED, "--module: no Python is run here");
    if ((rc = check_alone(w, err)) != FR_OK || (rc = read_nproc(w, o, err)) != FR_OK ||
        (rc = read_nnodes(w, o, err)) != FR_OK || (rc = read_rendezvous(w, o, err)) != FR_OK ||
        (rc = number("max_restarts", w->restarts, 0, &o->max_restarts, err)) != FR_OK)
        return rc;
    o->run_id = id != NULL ? id : "none";
    if (o->nproc > TR_LAUNCH_LOCAL || o->node_rank >= o->nnodes || o->port > 65535)
        return fr_fail(err, FR_USAGE,
                       "--nproc_per_node %lld (at most %d), --node_rank %lld of --nnodes %lld, "
                       "--master_port %lld do not fit together",
                       (long long)o->nproc, TR_LAUNCH_LOCAL, (long long)o->node_rank,
                       (long long)o->nnodes, (long long)o->port);
    return FR_OK;
}

enum fr_rc tr_launch_args(int argc, const char *const *argv, struct tr_launch_args *o,
                          struct fr_err *err)
{
    struct tr_flag flags[FLAGS];
    struct words w = {0};
    struct tr_flags f = {
        .flags = flags, .n = flags_of(&w, flags), .leading = true, .shorts = shorts};
    enum fr_rc rc;

    *o = (struct tr_launch_args){.nproc = 1, .nnodes = 1, .port = 29500};
    if ((rc = tr_flags_read(&f, argc, argv, err)) != FR_OK ||
        (rc = switch_of("standalone", &w.standalone, err)) != FR_OK ||
        (rc = switch_of("module", &w.module, err)) != FR_OK)
        return rc;
    o->program = f.used;
    if (f.used == argc)
        return fr_fail(err, FR_USAGE,
                       "what shall the ranks run? flowtrain launch --nproc_per_node N … -- train "
                       "ARGS");
    if ((rc = read_words(&w, o, err)) == FR_OK)
        note_idle(&w, flags, f.n, &o->notes);
    return rc;
}

enum fr_rc tr_launch_help(struct fr_err *err)
{
    struct tr_flag flags[FLAGS];
    struct words w = {0};
    struct tr_flags f = {.flags = flags, .n = flags_of(&w, flags)};

    return tr_flags_print("flowtrain launch [FLAGS] -- COMMAND ARGUMENTS", &f, err);
}
