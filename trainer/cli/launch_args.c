#include "trainer/cli/launch_args.h"

#include "engine/base/sys.h"
#include "trainer/cli/arg_map.h"
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

/* The flags' values as text. */
struct words {
    const char *nproc, *nnodes, *node, *addr, *port, *restarts, *id, *backend, *endpoint, *conf;
    bool standalone, module;
};

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
static enum fr_rc switch_of(const char *flag, bool *on, struct fr_err *err)
{
    char name[64] = "PET_";
    const char *v;

    for (size_t i = 0; flag[i] != '\0' && i + 5 < sizeof(name); i++)
        name[i + 4] = (char)toupper((unsigned char)flag[i]);
    if ((v = getenv(name)) == NULL || strcmp(v, "0") == 0)
        return FR_OK;
    if (strcmp(v, "1") != 0)
        return fr_fail(err, FR_USAGE, "environment variable %s is '%s', expected 0 or 1", name, v);
    *on = true;
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

static void note_idle(struct tr_call *call, const struct words *w)
{
    for (size_t i = 0; i < call->command->nflags; i++) {
        const struct tr_flag *f = &call->command->flags[i];

        if (call->text[i] != NULL && fr_has_prefix(f->help, "no effect"))
            fr_buf_fmt(&call->notes, "--%s has no effect%s\n", f->name,
                       f->help + strlen("no effect"));
    }
    if (w->conf != NULL)
        fr_buf_fmt(&call->notes, "--rdzv_conf: %s\n", "only rank=N has an effect");
}

/* A launcher that another launcher started once per node forms one world only if it knows of the
 * other nodes. */
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

static enum fr_rc launch(struct tr_call *call, struct fr_err *err)
{
    struct words *w = call->options;
    struct tr_launch_args a = {
        .nproc = 1, .nnodes = 1, .port = 29500, .nwords = call->nwords, .words = call->words};
    enum fr_rc rc;

    if ((rc = switch_of("standalone", &w->standalone, err)) != FR_OK ||
        (rc = switch_of("module", &w->module, err)) != FR_OK)
        return rc;
    if (call->nwords == 0)
        return fr_fail(err, FR_USAGE,
                       "what shall the ranks run? flowtrain launch --nproc_per_node N … -- train "
                       "ARGS");
    if ((rc = read_words(w, &a, err)) != FR_OK)
        return rc;
    note_idle(call, w);
    tr_arg_map_tell(call);
    return tr_launch(&a, err);
}

#define AT(member) offsetof(struct words, member)

static const struct tr_flag flags[] = {
    TR_FLAG("nproc_per_node", TR_TEXT, AT(nproc), "ranks on this node: a number, gpu, cpu or auto"),
    TR_FLAG("nnodes", TR_TEXT, AT(nnodes), "nodes: N or N:N"),
    TR_FLAG("node_rank", TR_TEXT, AT(node), "number of this node, from 0"),
    TR_FLAG("master_addr", TR_TEXT, AT(addr), "address of node 0"),
    TR_FLAG("master_port", TR_TEXT, AT(port), "rendezvous port on node 0"),
    TR_FLAG("max_restarts", TR_TEXT, AT(restarts), "how often to start all again after a failure"),
    TR_FLAG("rdzv_id", TR_TEXT, AT(id), "name of the run; ranks of another run are refused"),
    TR_FLAG("rdzv_endpoint", TR_TEXT, AT(endpoint), "HOST[:PORT] of node 0"),
    TR_FLAG("rdzv_backend", TR_TEXT, AT(backend), "static, or c10d with --rdzv_endpoint"),
    TR_FLAG("rdzv_conf", TR_TEXT, AT(conf), "rank=N is --node_rank; the rest has no effect"),
    TR_FLAG("standalone", TR_SWITCH, AT(standalone), "one node, a free port"),
    TR_FLAG("monitor_interval", TR_TEXT, TR_FLAG_NOWHERE, "no effect"),
    TR_FLAG("role", TR_TEXT, TR_FLAG_NOWHERE, "no effect"),
    TR_FLAG("log_dir", TR_TEXT, TR_FLAG_NOWHERE, "no effect: ranks write to this terminal"),
    TR_FLAG("redirects", TR_TEXT, TR_FLAG_NOWHERE, "no effect: ranks write to this terminal"),
    TR_FLAG("tee", TR_TEXT, TR_FLAG_NOWHERE, "no effect: ranks write to this terminal"),
    TR_FLAG("local_ranks_filter", TR_TEXT, TR_FLAG_NOWHERE,
            "no effect: ranks write to this terminal"),
    TR_FLAG("local_addr", TR_TEXT, TR_FLAG_NOWHERE, "no effect"),
    TR_FLAG("start_method", TR_TEXT, TR_FLAG_NOWHERE, "no effect"),
    TR_FLAG("signals_to_handle", TR_TEXT, TR_FLAG_NOWHERE,
            "no effect: SIGTERM, SIGINT, SIGHUP, SIGQUIT"),
    TR_FLAG("event_log_handler", TR_TEXT, TR_FLAG_NOWHERE, "no effect"),
    TR_FLAG("logs_specs", TR_TEXT, TR_FLAG_NOWHERE, "no effect: ranks write to this terminal"),
    TR_FLAG("numa_binding", TR_TEXT, TR_FLAG_NOWHERE,
            "no effect: a rank is bound to the node of its GPU"),
    TR_FLAG("virtual_local_rank", TR_SWITCH, TR_FLAG_NOWHERE,
            "no effect: a rank takes the GPU of its number"),
    TR_FLAG("no_python", TR_SWITCH, TR_FLAG_NOWHERE, "no effect: no Python is run"),
    TR_FLAG("run_path", TR_SWITCH, TR_FLAG_NOWHERE, "no effect: no Python is run"),
    TR_FLAG("module", TR_SWITCH, AT(module), "refused: no Python is run"),
    TR_FLAG_HELP,
};

static const char *const shorts[] = {"r", "redirects", "t", "tee", "m", "module", NULL};

const struct tr_command tr_cmd_launch = {
    .name = "launch",
    .summary = "start the ranks of one node, as torchrun does",
    .usage = "flowtrain launch [FLAGS] -- COMMAND ARGUMENTS\n\n",
    TR_FLAGS(flags, struct words),
    .leading = true,
    .shorts = shorts,
    .run = launch,
};
