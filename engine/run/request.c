/* The request to a node for one attempt: command, environment, limits. */
#include "engine/run/inside.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    CLUSTER_PORT = 39500, /* rendezvous between machines when nobody says otherwise: … */
    CLUSTER_PORTS = 32,   /* … the first free one of those that preflight looks at */
    WITH_MAX = 120000,    /* of one variable */
    REPORT_TASKS = 50,
};

struct build { /* a request in the making */
    struct fr_run *run;
    const struct run_attempt *at;
    const struct run_order *order;
    struct fr_arena *arena;
    struct fr_resolver resolver;
    struct fr_request *out;
    struct fr_err *err;
};

static enum fr_rc no_memory(struct build *b)
{
    return fr_fail(b->err, FR_NOMEM, "no memory for a request");
}

const char *run_on_node(const struct fr_run *run, const struct run_attempt *at,
                        const struct run_order *order, const char *rel)
{
    const char *store = run->nodes[run_node_of(run, at->inst)].store;
    size_t home = store != NULL && strlen(store) > 6 ? strlen(store) - 6 : 0; /* "/store" */

    if (rel[0] == '/' || store == NULL)
        return fr_arena_dup(order->arena, rel);
    if (order->in_container)
        return fr_arena_fmt(order->arena, "%.*s%s/%s", (int)order->container.home.n,
                            order->container.home.p, store + home, rel);
    return fr_arena_fmt(order->arena, "%s/%s", store, rel);
}

/* ---- secrets ---- */

struct collect {
    struct build *b;
    enum fr_rc rc;
};

static bool mask_ref(void *arg, const struct fr_ref *ref)
{
    struct collect *c = arg;
    struct fr_buf value = {0};

    if (ref->kind != FR_REF_SECRET)
        return true;
    c->rc = run_secret(c->b->resolver.self, ref->name, &value, c->b->err);
    if (c->rc == FR_OK && value.n > 0 && !run_add(c->b->arena, &c->b->out->mask, "%s", value.p))
        c->rc = no_memory(c->b);
    fr_buf_finish(&value);
    return c->rc == FR_OK;
}

/* Every secret that the text holds is masked by itself, too. */
static enum fr_rc mask_of(struct build *b, const struct fr_text *text)
{
    struct collect c = {b, FR_OK};

    if (text->secret)
        fr_text_refs(text, mask_ref, &c);
    return c.rc;
}

static enum fr_rc value_of(struct build *b, const struct fr_text *text, struct fr_buf *out)
{
    return run_value(b->resolver.self, fr_text_eval(text, &b->resolver, out, b->err));
}

/* ---- environment ---- */

static enum fr_rc add_kv(struct build *b, const struct fr_kv *kv, size_t n, bool secrets_ok,
                         struct fr_strs *plain)
{
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; rc == FR_OK && i < n; i++) {
        struct fr_buf value = {0};
        struct fr_strs *to = kv[i].value.secret ? &b->out->secret_env : plain;

        rc = value_of(b, &kv[i].value, &value);
        if (rc == FR_OK && kv[i].value.secret && !secrets_ok)
            rc = fr_fail(b->err, FR_USAGE, "env %s: a sidecar cannot be given secrets", kv[i].name);
        if (rc == FR_OK && !run_add(b->arena, to, "%s=%s", kv[i].name, value.p ? value.p : ""))
            rc = no_memory(b);
        if (rc == FR_OK)
            rc = mask_of(b, &kv[i].value);
        fr_buf_finish(&value);
    }
    return rc;
}

static bool add_peers(struct build *b, struct fr_plan_unit gang, struct fr_strs *env)
{
    struct fr_buf text = {0};
    bool ok;

    for (uint32_t i = 0; i < gang.n; i++) {
        uint32_t node = b->run->plan->insts[gang.first + i].node;

        fr_buf_fmt(&text, "%s%s %s", i > 0 ? "\n" : "", b->run->plan->nodes[node].name,
                   run_node_address(b->run, node));
    }
    ok = !text.bad && run_add(b->arena, env, "FLOWRUN_PEERS=%s", text.p != NULL ? text.p : "");
    fr_buf_finish(&text);
    return ok;
}

/* The variables that flowrun itself sets for every command. They replace those of the user. */
static enum fr_rc add_own(struct build *b, struct fr_strs *env)
{
    const struct fr_plan_inst *pi = &b->run->plan->insts[b->at->inst];
    const struct fr_plan_task *task = &b->run->plan->tasks[pi->task];
    struct fr_plan_unit unit = fr_plan_unit(b->run->plan, b->at->inst);
    const struct fr_node *node = b->run->plan->nodes[pi->node].spec;
    long long deadline = b->run->nodes[pi->node].deadline_wall / 1000;
    const struct fr_items *items = task->spec->items;
    const struct fr_item *item = items != NULL ? &items->v[pi->item] : NULL;
    struct fr_arena *a = b->arena;
    char id[FR_ID_TEXT], home[FR_ID_TEXT], attempt[FR_ID_TEXT];
    bool ok;

    fr_id_text(b->run->id, id);
    fr_id_text(b->at->id, attempt);
    fr_id_text(fr_store_home_id(b->run->env.store), home);
    ok = run_add(a, env, "FLOWRUN_RUN=%s", id) && run_add(a, env, "FLOWRUN_HOME_ID=%s", home) &&
         run_add(a, env, "TRACEPARENT=00-%s-%.16s-01", id, attempt) && /* W3C Trace Context */
         run_add(a, env, "FLOWRUN_RUN_NAME=%s", b->run->spec->name) &&
         run_add(a, env, "FLOWRUN_TASK=%s", task->name) &&
         run_add(a, env, "FLOWRUN_NODE=%s", b->run->plan->nodes[pi->node].name) &&
         run_add(a, env, "FLOWRUN_ATTEMPT_NO=%u", b->at->no) &&
         run_add(a, env, "FLOWRUN_GENERATION=%u", b->at->generation) &&
         run_add(a, env, "FLOWRUN_EXECUTOR=%s", fr_executor_name(node)) &&
         (deadline == 0 || run_add(a, env, "FLOWRUN_DEADLINE=%lld", deadline)) &&
         run_add(a, env, "FLOWRUN_GPUS=%d", node != NULL ? node->gpus : 0) &&
         run_add(a, env, "NNODES=%u", unit.n) &&
         run_add(a, env, "NODE_RANK=%u", task->gang ? pi->member : 0);
    if (ok && node != NULL && node->work != NULL)
        ok = run_add(a, env, "FLOWRUN_WORK=%s", node->work);
    if (ok && task->gang)
        ok = add_peers(b, unit, env);
    if (ok && item != NULL)
        ok = run_add(a, env, "FLOWRUN_ITEM=%s", item->text != NULL ? item->text : item->key) &&
             run_add(a, env, "FLOWRUN_ITEM_INDEX=%u", pi->item);
    ok = ok && run_occasion_env(b->run, a, env);
    for (const struct run_shipped *s = b->order->shipped; ok && s != NULL; s = s->next) {
        char *name = s->what != NULL ? fr_arena_dup(a, s->what) : NULL;

        if (s->what == NULL)
            continue;
        for (char *p = name; p != NULL && *p != '\0'; p++)
            *p = isalnum((unsigned char)*p) ? (char)toupper((unsigned char)*p) : '_';
        ok = name != NULL && run_add(a, env, "FLOWRUN_PROGRAM_%s=%s", name,
                                     run_on_node(b->run, b->at, b->order, s->path));
    }
    return ok ? FR_OK : no_memory(b);
}

/* Hooks get the outcome of the run. */
static enum fr_rc add_report(struct build *b, struct fr_strs *env)
{
    struct fr_run *run = b->run;
    struct fr_run_now now = fr_sched_now(run->sched);
    char id[FR_ID_TEXT], *text;
    json_t *doc, *failed = json_array();
    enum fr_rc rc = FR_OK;

    for (uint32_t i = 0; i < run->plan->n_insts && json_array_size(failed) < REPORT_TASKS; i++) {
        struct fr_row row = fr_sched_row(run->sched, i, fr_sys.mono_ms());

        if (row.state > FR_ST_SUCCEEDED && row.state < FR_ST_SKIPPED &&
            run_task_of(run, i)->hook < 0)
            json_array_append_new(
                failed, json_pack("{s:s, s:s, s:s, s:s}", "task", run_task_of(run, i)->name, "node",
                                  run->plan->nodes[run_node_of(run, i)].name, "state",
                                  fr_state_name(row.state), "reason", run->insts[i].reason));
    }
    fr_id_text(run->id, id);
    doc = json_pack("{s:s, s:I, s:s, s:s, s:o}", "run", id, "number", (json_int_t)run->row.no,
                    "pipeline", run->spec->name, "status", fr_outcome_name(now.outcome), "failed",
                    failed);
    text = doc != NULL ? json_dumps(doc, JSON_COMPACT) : NULL;
    if (text == NULL || !run_add(b->arena, env, "FLOWRUN_REPORT=%s", text) ||
        !run_add(b->arena, env, "FLOWRUN_STATUS=%s", fr_outcome_name(now.outcome)))
        rc = no_memory(b);
    free(text);
    json_decref(doc);
    return rc;
}

static enum fr_rc add_with(struct build *b, const struct fr_action *act, json_t *with,
                           struct fr_strs *env)
{
    bool secret = fr_with_secret(act);
    char *text = json_dumps(with, JSON_COMPACT | JSON_SORT_KEYS);
    enum fr_rc rc = FR_OK;

    if (text == NULL)
        return no_memory(b);
    if (strlen(text) > WITH_MAX)
        rc = fr_fail(b->err, FR_USAGE, "with: holds more than %d bytes", WITH_MAX);
    else if (!run_add(b->arena, secret ? &b->out->secret_env : env, FR_ENV_WITH "=%s", text))
        rc = no_memory(b);
    free(text);
    for (size_t i = 0; rc == FR_OK && secret && i < act->n_with; i++)
        for (size_t k = 0; rc == FR_OK && k < act->with[i].n; k++)
            rc = mask_of(b, &act->with[i].items[k].value);
    return rc;
}

/* ---- commands ---- */

/* In front of a command: flownode gives it the environment of a login. Variables that the pipeline
 * or the inventory sets are named, as the login has others of their names. */
static bool add_login(struct build *b, const struct fr_action *act, struct fr_strs *argv)
{
    const struct fr_node *node = b->run->plan->nodes[run_node_of(b->run, b->at->inst)].spec;
    struct fr_buf names = {0};
    bool ok;

    for (size_t i = 0; node != NULL && i < node->n_env; i++)
        fr_buf_fmt(&names, ",%s", node->env[i].name);
    for (size_t i = 0; i < act->n_env; i++)
        fr_buf_fmt(&names, ",%s", act->env[i].name);
    ok = !names.bad && run_add(b->arena, argv, FR_ARGV_FLOWNODE) &&
         run_add(b->arena, argv, "login") &&
         run_add(b->arena, argv, "%s", names.n > 0 ? names.p : "");
    fr_buf_finish(&names);
    return ok;
}

static enum fr_rc add_argv(struct build *b, const struct fr_action *act, struct fr_strs *argv)
{
    struct fr_arena *a = b->arena;
    bool ok = !act->login || add_login(b, act, argv);
    enum fr_rc rc = FR_OK;

    if (!ok)
        return no_memory(b);
    if (act->what == FR_USES && act->uses->control) {
        ok = run_add(a, argv, "%s", b->run->env.self) && run_add(a, argv, "%s", act->uses->name);
    } else if (act->what == FR_USES) {
        ok = run_add(a, argv, FR_ARGV_FLOWNODE) && run_add(a, argv, "task") &&
             run_add(a, argv, "%s", act->uses->name);
    } else if (act->what == FR_RUN) {
        ok = run_add(a, argv, "%s", act->shell) && run_add(a, argv, "-e") &&
             run_add(a, argv, "-c") && run_add(a, argv, "%s", act->run) &&
             run_add(a, argv, "%s", act->name);
    }
    for (size_t i = 0; ok && rc == FR_OK && act->what == FR_ARGV && i < act->n_argv; i++) {
        struct fr_buf value = {0};

        rc = value_of(b, &act->argv[i], &value);
        if (rc == FR_OK)
            ok = run_add(a, argv, "%s", value.p != NULL ? value.p : "");
        fr_buf_finish(&value);
    }
    return rc != FR_OK ? rc : ok ? FR_OK : no_memory(b);
}

static enum fr_rc eval_text(struct build *b, const struct fr_text *text, struct fr_str *out)
{
    struct fr_buf value = {0};
    enum fr_rc rc = FR_OK;

    *out = (struct fr_str){"", 0};
    if (text->s != NULL || text->expr != NULL)
        rc = value_of(b, text, &value);
    if (rc == FR_OK && value.n > 0) {
        out->p = fr_arena_text(b->arena, value.p, value.n);
        out->n = value.n;
        if (out->p == NULL)
            rc = no_memory(b);
    }
    fr_buf_finish(&value);
    return rc;
}

/* A command on this machine has the shell that its run came from, which may be another one than its
 * host's. In a container, or for root, that means nothing. */
static bool has_shell(const struct build *b, const struct fr_node *node)
{
    return (node == NULL || node->executor == FR_EXECUTOR_LOCAL) && !b->order->in_container &&
           !b->out->become;
}

static enum fr_rc add_shell(struct build *b, struct fr_strs *env)
{
    const struct fr_strs *own = &b->run->shell_env;
    bool ok = true;

    for (size_t i = 0; ok && i < own->n; i++)
        ok = run_add(b->arena, env, "%s", own->v[i].p);
    return ok ? FR_OK : no_memory(b);
}

static enum fr_rc add_env(struct build *b, const struct fr_action *act, json_t *with,
                          bool secrets_ok, struct fr_strs *env)
{
    const struct fr_plan_task *task = run_task_of(b->run, b->at->inst);
    const struct fr_node *node = b->run->plan->nodes[run_node_of(b->run, b->at->inst)].spec;
    enum fr_rc rc = has_shell(b, node) ? add_shell(b, env) : FR_OK;

    if (rc == FR_OK && node != NULL)
        rc = add_kv(b, node->env, node->n_env, secrets_ok, env);
    if (rc == FR_OK)
        rc = add_kv(b, act->env, act->n_env, secrets_ok, env);
    if (rc == FR_OK)
        rc = add_own(b, env);
    if (rc == FR_OK && task->hook >= 0)
        rc = add_report(b, env);
    if (rc == FR_OK && act->what == FR_USES)
        rc = add_with(b, act, with, env);
    return rc;
}

static enum fr_rc add_sidecars(struct build *b, const struct fr_task *task)
{
    enum fr_rc rc = FR_OK;

    if (task->n_sidecars == 0)
        return FR_OK;
    b->out->sidecars.v = fr_arena_array(b->arena, task->n_sidecars, sizeof(*b->out->sidecars.v));
    if (b->out->sidecars.v == NULL)
        return no_memory(b);
    for (size_t i = 0; rc == FR_OK && i < task->n_sidecars; i++) {
        const struct fr_action *act = &task->sidecars[i];
        struct fr_sidecar *sc = &b->out->sidecars.v[b->out->sidecars.n++];

        sc->name = fr_str_of(act->name);
        if (act->what == FR_USES && fr_with_secret(act))
            return fr_fail(b->err, FR_USAGE, "sidecar %s cannot be given secrets", act->name);
        if ((rc = add_argv(b, act, &sc->argv)) == FR_OK &&
            (rc = add_env(b, act, b->order->sidecars[i], false, &sc->env)) == FR_OK)
            rc = eval_text(b, &act->cwd, &sc->cwd);
    }
    return rc;
}

static enum fr_rc add_files(struct build *b)
{
    size_t n = 0;

    for (const struct run_shipped *s = b->order->shipped; s != NULL; s = s->next)
        n += s->what == NULL;
    if (n == 0)
        return FR_OK;
    b->out->files.v = fr_arena_array(b->arena, n, sizeof(*b->out->files.v));
    if (b->out->files.v == NULL)
        return no_memory(b);
    for (const struct run_shipped *s = b->order->shipped; s != NULL; s = s->next)
        if (s->what == NULL)
            b->out->files.v[b->out->files.n++] = (struct fr_file_want){
                .store = fr_str_of(s->path), .path = fr_str_of(s->name), .mode = s->mode};
    return FR_OK;
}

/* The path of a kind's metrics is below its `with`; a relative folder is below the work folder. */
static enum fr_rc add_metrics(struct build *b, const struct fr_plan_task *pt)
{
    const struct fr_task *task = pt->spec;
    const struct fr_kind *kind = task->act.uses;
    const char *dir, *path;

    if (task->metrics.s != NULL || task->metrics.expr != NULL)
        return eval_text(b, &task->metrics, &b->out->metrics);
    if (kind == NULL || kind->metrics == NULL ||
        (pt->gang && b->run->plan->insts[b->at->inst].member != 0))
        return FR_OK;
    dir = json_string_value(json_object_get(b->order->with, kind->metrics_in));
    if (dir == NULL)
        return FR_OK;
    path = fr_arena_fmt(b->arena, "%s%s/%s", dir[0] == '/' ? "" : "$FLOWRUN_WORK/", dir,
                        kind->metrics);
    b->out->metrics = fr_str_of(path);
    return path != NULL ? FR_OK : no_memory(b);
}

/* ---- the rendezvous: where the members of a gang meet ---- */

bool run_local(const struct fr_plan *plan, uint32_t node)
{
    const struct fr_node *spec = plan->nodes[node].spec;

    return spec == NULL || spec->executor == FR_EXECUTOR_LOCAL;
}

bool run_node_local(const struct fr_run *run, uint32_t node)
{
    return run_local(run->plan, node);
}

const char *run_node_address(const struct fr_run *run, uint32_t node)
{
    const struct fr_node *spec = run->plan->nodes[node].spec;

    if (run->nodes[node].address != NULL)
        return run->nodes[node].address;
    return spec != NULL && spec->address != NULL ? spec->address : "127.0.0.1";
}

/* First address of a name, numeric. Names were already resolved once, to connect. */
static enum fr_rc numeric(const char *name, struct sockaddr_storage *sa, socklen_t *len,
                          struct fr_err *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM, .ai_flags = AI_ADDRCONFIG};
    struct addrinfo *list = NULL;
    int code = getaddrinfo(name, "9", &hints, &list);

    if (code != 0)
        return fr_fail(err, FR_NOTFOUND, "the address of %s: %s", name, gai_strerror(code));
    memcpy(sa, list->ai_addr, list->ai_addrlen);
    *len = list->ai_addrlen;
    freeaddrinfo(list);
    return FR_OK;
}

static enum fr_rc in_digits(const struct sockaddr_storage *sa, socklen_t len, char out[64],
                            struct fr_err *err)
{
    int code = getnameinfo((const struct sockaddr *)sa, len, out, 64, NULL, 0, NI_NUMERICHOST);

    return code == 0 ? FR_OK : fr_fail(err, FR_IO, "writing an address: %s", gai_strerror(code));
}

/* This machine's own address on the route to another: what the kernel would send from. No packet
 * leaves: connect(2) on a datagram socket only chooses a route. */
static enum fr_rc own_address(const char *to, char out[64], struct fr_err *err)
{
    struct sockaddr_storage sa;
    socklen_t len = 0;
    enum fr_rc rc = numeric(to, &sa, &len, err);
    int fd;

    if (rc != FR_OK)
        return rc;
    fd = socket(sa.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return fr_fail(err, FR_IO, "making a socket");
    if (connect(fd, (struct sockaddr *)&sa, len) != 0) {
        rc = fr_fail(err, FR_UNREACHABLE, "no route from here to %s", to);
    } else {
        len = sizeof(sa);
        rc = getsockname(fd, (struct sockaddr *)&sa, &len) != 0
                 ? fr_fail(err, FR_IO, "asking for the own address")
                 : in_digits(&sa, len, out, err);
    }
    close(fd);
    return rc;
}

enum fr_rc run_rendezvous(struct fr_run *run, uint32_t inst, char out[64], struct fr_err *err)
{
    const struct fr_plan *plan = run->plan;
    struct fr_plan_unit gang = fr_plan_unit(plan, inst);
    uint32_t head = plan->insts[gang.first].node, far = FR_PLAN_NONE;
    struct sockaddr_storage sa;
    socklen_t len = 0;
    enum fr_rc rc;

    if (run->spec->rendezvous_address != NULL) {
        snprintf(out, 64, "%s", run->spec->rendezvous_address);
        return FR_OK;
    }
    for (uint32_t i = 1; i < gang.n && far == FR_PLAN_NONE; i++)
        if (!run_node_local(run, plan->insts[gang.first + i].node))
            far = plan->insts[gang.first + i].node;
    if (run_node_local(run, head)) {
        if (far != FR_PLAN_NONE)
            return own_address(run_node_address(run, far), out, err);
        snprintf(out, 64, "127.0.0.1");
        return FR_OK;
    }
    if ((rc = numeric(run_node_address(run, head), &sa, &len, err)) != FR_OK) {
        /* an alias of ~/.ssh/config that no resolver knows */
        return fr_while(err, "the rendezvous of %s (`rendezvous: {address: …}` sets it)",
                        run_task_of(run, inst)->name);
    }
    return in_digits(&sa, len, out, err);
}

/* Which port the head holds: the task's own, the pipeline's, the first free one of a fixed
 * range between machines, any free one when all members are on this machine. */
static int32_t wanted_port(struct build *b, const struct fr_plan_task *task)
{
    json_t *port = json_object_get(b->order->with, "port");
    struct fr_plan_unit gang = fr_plan_unit(b->run->plan, b->at->inst);

    if (!task->gang || b->run->plan->insts[b->at->inst].member != 0)
        return FR_PORT_NONE;
    if (json_is_integer(port) && json_integer_value(port) > 0 && task->spec->act.what == FR_USES &&
        strcmp(task->spec->act.uses->name, "preflight") != 0)
        return (int32_t)json_integer_value(port);
    if (b->run->spec->rendezvous_port > 0)
        return b->run->spec->rendezvous_port;
    for (uint32_t i = 0; i < gang.n; i++)
        if (!run_node_local(b->run, b->run->plan->insts[gang.first + i].node)) {
            b->out->ports_more = CLUSTER_PORTS - 1;
            return CLUSTER_PORT;
        }
    return FR_PORT_ANY;
}

enum fr_rc run_go_env(struct fr_run *run, const struct run_attempt *at, struct fr_arena *arena,
                      struct fr_strs *out, struct fr_err *err)
{
    const struct fr_attempt_row *head = &run->insts[fr_plan_unit(run->plan, at->inst).first].row;

    *out = (struct fr_strs){0};
    if (!run_add(arena, out, "MASTER_ADDR=%s", head->address) ||
        !run_add(arena, out, "MASTER_PORT=%d", (int)head->port))
        return fr_fail(err, FR_NOMEM, "no memory for a request");
    return FR_OK;
}

/* ---- all of it ---- */

static void set_limits(struct build *b, const struct fr_task *task, const struct fr_node *node)
{
    struct fr_request *out = b->out;
    enum fr_become become = task->become;

    if (become == FR_BECOME_INHERIT)
        become = node != NULL ? node->become : FR_BECOME_NONE;
    out->become = become == FR_BECOME_SUDO;
    out->timeout_ms = task->timeout_ms;
    out->grace_ms = task->grace_ms;
    out->lease_ms = task->lost_after_ms;
    out->notice_ms = task->notice_ms;
    out->deadline_wall = b->run->nodes[run_node_of(b->run, b->at->inst)].deadline_wall;
    out->log_max_bytes = task->log.max_bytes;
    out->log_on_full = task->log.on_full == FR_ON_FULL_STOP ? FR_LOG_STOP : FR_LOG_DROP_MIDDLE;
    out->container = b->order->container;
    out->leaves = task->act.uses != NULL && (strcmp(task->act.uses->name, "container") == 0 ||
                                             strcmp(task->act.uses->name, "cleanup") == 0);
}

enum fr_rc run_request(struct fr_run *run, const struct run_attempt *at,
                       const struct run_order *order, struct fr_request *out, struct fr_err *err)
{
    const struct fr_plan_task *pt = run_task_of(run, at->inst);
    const struct fr_task *task = pt->spec;
    struct run_scope scope = {run, at->inst, at->no, order->secrets, NULL, false};
    struct build b = {run, at, order, order->arena, run_resolver(&scope), out, err};
    bool ok = true;
    enum fr_rc rc;

    *out = (struct fr_request){0};
    set_limits(&b, task, run->plan->nodes[run_node_of(run, at->inst)].spec);
    out->port = wanted_port(&b, pt);
    if (has_shell(&b, run->plan->nodes[run_node_of(run, at->inst)].spec))
        out->umask = run->shell_umask;
    for (size_t i = 0; ok && i < task->n_outputs; i++)
        ok = run_add(order->arena, &out->outputs, "%s", task->outputs[i]);
    if (!ok)
        return no_memory(&b);
    if ((rc = add_argv(&b, &task->act, &out->argv)) == FR_OK &&
        (rc = add_env(&b, &task->act, order->with, true, &out->env)) == FR_OK &&
        (rc = eval_text(&b, &task->act.cwd, &out->cwd)) == FR_OK && (rc = add_files(&b)) == FR_OK &&
        (rc = add_metrics(&b, pt)) == FR_OK)
        rc = add_sidecars(&b, task);
    return rc;
}
