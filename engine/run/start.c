/*
 * What an attempt needs on its node before it is sent: files from another node come into the spool,
 * then all its files and programs are put into the node's store, then the request goes out. An
 * engine that dies meanwhile leaves nothing but an attempt that the node does not know.
 */
#include "engine/run/gather.h"
#include "engine/run/inside.h"

#include <string.h>

struct run_start {
    struct fr_arena arena;
    bool gang;
    bool asking;    /* commands of secrets have not all answered */
    bool hashing;   /* its shipped files are not hashed yet */
    uint64_t since; /* the shipment's turn from which on its files are read; 0: not begun */
    size_t own_put; /* n_put before prepare() */
    const struct run_shipped *own_shipped;
    struct run_order order;
    struct run_gather gather;
    struct fr_ship_file *put; /* what goes into the node's store */
    size_t n_put;
    struct run_path *paths;
};

struct run_path { /* a path of `with` that becomes one of the node's */
    struct run_path *next;
    const char *key;
    const char *rel; /* below the store folder */
};

static void drop_with(struct run_start *s)
{
    json_decref(s->order.with);
    for (size_t i = 0; s->order.sidecars != NULL && s->order.sidecars[i] != NULL; i++)
        json_decref(s->order.sidecars[i]);
    s->order.with = NULL;
    s->order.sidecars = NULL;
}

void run_start_drop(struct fr_run *run, struct run_start *s)
{
    if (s == NULL)
        return;
    run_secrets_drop(s->order.secrets);
    run_gather_remove(run, &s->gather);
    drop_with(s);
    fr_arena_finish(&s->arena);
    fr_sys.free(s);
}

/* ---- needs ---- */

static enum fr_rc add_put(struct run_start *s, const struct fr_ship_file *files, size_t n,
                          struct fr_err *err)
{
    for (size_t i = 0; i < n; i++) {
        struct fr_ship_file *more = fr_arena_grow(&s->arena, s->put, s->n_put, sizeof(*more));

        if (more == NULL)
            return fr_fail(err, FR_NOMEM, "no memory for files to ship");
        s->put = more;
        s->put[s->n_put++] = files[i];
    }
    return FR_OK;
}

static enum fr_rc add_shipped(struct run_start *s, struct run_shipped item, struct fr_err *err)
{
    struct run_shipped *copy = fr_arena_alloc(&s->arena, sizeof(*copy));

    if (copy == NULL || item.path == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for files to ship");
    *copy = item;
    copy->next = (struct run_shipped *)s->order.shipped;
    s->order.shipped = copy;
    return FR_OK;
}

static bool is_local(const struct fr_run *run, const struct run_attempt *at,
                     const struct run_start *s)
{
    return run_node_local(run, run_node_of(run, at->inst)) && !s->order.in_container;
}

static enum fr_rc need_programs(struct fr_run *run, const struct run_attempt *at,
                                struct run_start *s, struct fr_err *err)
{
    const struct fr_action *act = &run_task_of(run, at->inst)->spec->act;
    bool local = is_local(run, at, s);
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; rc == FR_OK && i < act->n_programs; i++) {
        struct fr_shipment_program *b = NULL;
        struct run_shipped item = {.what = act->programs[i]};

        rc = fr_shipment_program(&run->shipment, act->programs[i], !local, &b, err);
        if (rc == FR_OK && !local)
            rc = add_put(s, b->bundle.v, b->bundle.n, err);
        if (rc == FR_OK) {
            item.path = local ? b->program : b->bundle.program;
            rc = add_shipped(s, item, err);
        }
    }
    return rc;
}

/* A path that came from another machine's output is not shipped from here: such a node could ask
 * for any file. */
static enum fr_rc not_from_other_node(const struct run_scope *scope, const char *path,
                                      struct fr_err *err)
{
    if (scope->other_node == NULL)
        return FR_OK;
    return fr_fail(err, FR_DENIED,
                   "'%s' comes from node %s, which may not name files of this machine "
                   "(node:${{ … }} names one of the node's own)",
                   path, scope->other_node);
}

/* Whether the value of a key of `with` is one that may name a file of this machine. */
static enum fr_rc check_path(struct fr_run *run, const struct run_attempt *at,
                             const struct run_start *s, const char *key, struct fr_err *err)
{
    const struct fr_action *act = &run_task_of(run, at->inst)->spec->act;
    struct run_scope scope = {run, at->inst, at->no, s->order.secrets, NULL, false};
    struct fr_resolver resolver = run_resolver(&scope);
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; rc == FR_OK && i < act->n_with; i++) {
        struct fr_buf value = {0};

        if (strcmp(act->with[i].key->name, key) != 0 || act->with[i].n != 1)
            continue;
        rc = run_value(&scope, fr_text_eval(&act->with[i].items[0].value, &resolver, &value, err));
        if (rc == FR_OK && (rc = not_from_other_node(&scope, value.p ? value.p : "", err)) != FR_OK)
            fr_while(err, "%s", key);
        fr_buf_finish(&value);
    }
    return rc;
}

/* A path of control in `with`: the file is shipped, and the node's path replaces it later. */
static enum fr_rc need_path(struct fr_run *run, uint32_t inst, struct run_start *s, const char *key,
                            const char *path, struct fr_err *err)
{
    struct run_path *p = fr_arena_alloc(&s->arena, sizeof(*p));
    const char *slash = strrchr(path, '/');
    struct fr_shipment_item *ship;
    enum fr_rc rc = run_ship(run, inst, path, NULL, &ship, err);

    if (rc != FR_OK || p == NULL)
        return rc != FR_OK ? fr_while(err, "%s", key)
                           : fr_fail(err, FR_NOMEM, "no memory for files to ship");
    p->key = key;
    p->rel = ship->manifest->folder ? ship->manifest->hash
                                    : fr_arena_fmt(&s->arena, "%s/%s", ship->manifest->hash,
                                                   slash != NULL ? slash + 1 : path);
    p->next = s->paths;
    s->paths = p;
    return add_put(s, ship->manifest->files, ship->manifest->n, err);
}

static enum fr_rc need_paths(struct fr_run *run, const struct run_attempt *at, struct run_start *s,
                             struct fr_err *err)
{
    const struct fr_action *act = &run_task_of(run, at->inst)->spec->act;
    enum fr_rc rc = FR_OK;

    if (act->what != FR_USES)
        return FR_OK;
    for (const struct fr_key *k = act->uses->keys; rc == FR_OK && k->name != NULL; k++) {
        const char *value = json_string_value(json_object_get(s->order.with, k->name));

        if (k->type != FR_T_PATH || value == NULL)
            continue;
        if (fr_has_prefix(value, "node:"))
            json_object_set_new(s->order.with, k->name, json_string(value + 5));
        else if ((!is_local(run, at, s) || run_kept(run, value)) &&
                 (rc = check_path(run, at, s, k->name, err)) == FR_OK)
            rc = need_path(run, at->inst, s, k->name, value, err);
    }
    return rc;
}

static enum fr_rc add_manifest(struct run_start *s, const char *name, const struct fr_manifest *l,
                               struct fr_err *err)
{
    enum fr_rc rc = add_put(s, l->files, l->n, err);

    for (size_t f = 0; rc == FR_OK && f < l->n; f++) {
        const char *rel = l->files[f].path + FR_SHA256_TEXT; /* after "HASH/" */

        rc = add_shipped(s,
                         (struct run_shipped){
                             .name = l->folder ? fr_arena_fmt(&s->arena, "%s/%s", name, rel) : name,
                             .path = l->files[f].path,
                             .mode = l->files[f].mode},
                         err);
    }
    return rc;
}

/* `files:` are copies in the attempt's folder, also on a local node. */
static enum fr_rc need_files(struct fr_run *run, const struct run_attempt *at, struct run_start *s,
                             struct fr_err *err)
{
    const struct fr_task *task = run_task_of(run, at->inst)->spec;
    struct run_scope scope = {run, at->inst, at->no, s->order.secrets, NULL, false};
    struct fr_resolver resolver = run_resolver(&scope);
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; rc == FR_OK && i < task->n_files; i++) {
        const struct fr_kv *kv = &task->files[i];
        struct fr_buf path = {0};
        struct fr_shipment_item *ship = NULL;
        char *full;

        scope.other_node = NULL;
        rc = run_value(&scope, fr_text_eval(&kv->value, &resolver, &path, err));
        if (rc != FR_OK) {
            fr_buf_finish(&path);
            break;
        }
        if (path.p != NULL && fr_has_prefix(path.p, "node:")) {
            rc = add_shipped(s,
                             (struct run_shipped){.name = kv->name,
                                                  .mode = 0644,
                                                  .path = fr_arena_dup(&s->arena, path.p + 5)},
                             err);
            fr_buf_finish(&path);
            continue;
        }
        full = fr_arena_fmt(&s->arena, "%s%s%s",
                            path.p != NULL && path.p[0] == '/' ? "" : run->spec->folder,
                            path.p != NULL && path.p[0] == '/' ? "" : "/", path.p ? path.p : "");
        fr_buf_finish(&path);
        rc = full == NULL           ? fr_fail(err, FR_NOMEM, "no memory for a path")
             : is_local(run, at, s) ? FR_OK
                                    : not_from_other_node(&scope, full, err);
        if (rc == FR_OK)
            rc = run_ship(run, at->inst, full, &task->excludes[i], &ship, err);
        if (rc == FR_OK)
            rc = add_manifest(s, kv->name, ship->manifest, err);
    }
    return rc;
}

/* The container that `in:` names, as its task's outputs describe it. */
static enum fr_rc need_container(struct fr_run *run, const struct run_attempt *at,
                                 struct run_start *s, struct fr_err *err)
{
    const struct fr_task *task = run_task_of(run, at->inst)->spec;
    struct fr_container *c = &s->order.container;
    const char *runtime;
    uint32_t inst;

    if (task->in < 0)
        return FR_OK;
    inst = fr_plan_inst_on(run->plan, (uint32_t)task->in, 0, run_node_of(run, at->inst));
    if (inst == FR_PLAN_NONE)
        return fr_fail(err, FR_USAGE, "its container %s does not run on this node",
                       run->plan->tasks[task->in].name);
    runtime = run_output(run, inst, "runtime");
    if (runtime == NULL)
        return fr_fail(err, FR_NOTFOUND, "%s gave no output 'runtime'", run->plan->insts[inst].key);
    if (runtime[0] == '\0' || strcmp(runtime, "none") == 0)
        return FR_OK;
    s->order.in_container = true;
    c->runtime = fr_str_of(runtime);
    c->name = fr_str_of(run_output(run, inst, "name"));
    c->flownode = fr_str_of(run_output(run, inst, "flownode"));
    c->home = fr_str_of(run_output(run, inst, "home"));
    return FR_OK;
}

static enum fr_rc need_with(struct fr_run *run, const struct run_attempt *at, struct run_start *s,
                            struct fr_err *err)
{
    const struct fr_task *task = run_task_of(run, at->inst)->spec;
    struct run_scope scope = {run, at->inst, at->no, s->order.secrets, NULL, false};
    struct fr_resolver resolver = run_resolver(&scope);
    enum fr_rc rc = FR_OK;

    if (task->act.what == FR_USES)
        rc = run_value(&scope,
                       fr_with_json(&task->act, run->spec->folder, &resolver, &s->order.with, err));
    s->order.sidecars = fr_arena_array(&s->arena, task->n_sidecars + 1, sizeof(json_t *));
    if (rc == FR_OK && s->order.sidecars == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for sidecars");
    for (size_t i = 0, n = 0; rc == FR_OK && i < task->n_sidecars; i++) {
        const struct fr_action *act = &task->sidecars[i];
        json_t *dir = json_object_get(s->order.with, "output_dir");
        json_t *doc = NULL;

        if (act->what == FR_USES)
            rc = run_value(&scope, fr_with_json(act, run->spec->folder, &resolver, &doc, err));
        else if ((doc = json_object()) == NULL)
            rc = fr_fail(err, FR_NOMEM, "no memory for a sidecar");
        if (rc != FR_OK)
            return fr_while(err, "sidecar %s", act->name);
        if (act->what == FR_USES && strcmp(act->uses->name, "janitor") == 0 && dir != NULL &&
            json_object_get(doc, "dir") == NULL)
            json_object_set(doc, "dir", dir);
        s->order.sidecars[n++] = doc;
    }
    return rc;
}

/* ---- the way to the node ---- */

/* Paths of `with` as they are on the node, now that its store is known. */
static void put_in_paths(struct fr_run *run, const struct run_attempt *at, struct run_start *s)
{
    for (struct run_path *p = s->paths; p != NULL; p = p->next)
        json_object_set_new(s->order.with, p->key,
                            json_string(run_on_node(run, at, &s->order, p->rel)));
    if (s->gather.n > 0) {
        char id[FR_ID_TEXT];
        const char *rel;

        fr_id_text(at->id, id);
        rel = fr_arena_fmt(&s->arena, "gather/%s", id);
        json_object_set_new(s->order.with, "from",
                            json_string(run_on_node(run, at, &s->order, rel != NULL ? rel : "")));
        json_object_del(s->order.with, "node");
    }
}

static enum fr_rc send(struct fr_run *run, struct run_attempt *at, struct run_start *s,
                       struct fr_err *err)
{
    struct fr_exec_member m = {.node = run_node_of(run, at->inst)};
    enum fr_rc rc;

    put_in_paths(run, at, s);
    m.prepare = (struct fr_prepare){.attempt = at->id,
                                    .run = run->id,
                                    .instance = fr_str_of(run->plan->insts[at->inst].key),
                                    .generation = at->generation,
                                    .spec_hash = fr_str_of(run->row.spec_hash)};
    if ((rc = run_request(run, at, &s->order, &m.prepare.request, err)) != FR_OK)
        return rc;
    rc = s->gang ? run->exec.ops->prepare(run->exec.self, &m, err)
                 : run->exec.ops->start(run->exec.self, &m, err);
    if (rc != FR_OK)
        return rc;
    at->sent = true;
    if (!s->gang)
        run_follow(run, at);
    return FR_OK;
}

/* The next step: get missing files, put them, send. */
static void step(struct fr_run *run, struct run_attempt *at)
{
    struct run_start *s = at->start;
    const char *name = run_gather_next(&s->gather);
    struct fr_err err;
    enum fr_rc rc = FR_OK;
    uint64_t ref;

    if (name != NULL) {
        char *path = fr_arena_fmt(&s->arena, "%s/%s", s->gather.from, name);
        char *local = fr_arena_fmt(&s->arena, "%s/%s", s->gather.spool, name);

        ref = run_job_add(run, at);
        rc = path != NULL && local != NULL && ref != 0
                 ? run->exec.ops->get(run->exec.self,
                                      &(struct fr_exec_get){s->gather.source, ref, path, local,
                                                            s->gather.max_bytes},
                                      &err)
                 : fr_fail(&err, FR_NOMEM, "no memory to move files");
    } else if (s->n_put > 0) {
        ref = run_job_add(run, at);
        rc = ref != 0 ? run->exec.ops->put(run->exec.self,
                                           &(struct fr_exec_put){run_node_of(run, at->inst), ref,
                                                                 s->put, s->n_put},
                                           &err)
                      : fr_fail(&err, FR_NOMEM, "no memory to ship files");
    } else {
        rc = send(run, at, s, &err);
        if (rc == FR_OK) {
            run_start_drop(run, s);
            at->start = NULL;
        }
    }
    if (rc != FR_OK)
        run_start_failed(run, at, &err);
}

static enum fr_rc got_file(struct run_attempt *at, const struct fr_exec_event *ev,
                           struct fr_err *err)
{
    struct run_start *s = at->start;
    struct run_gather *g = &s->gather;
    struct fr_ship_file *f = &g->files[g->have];
    char id[FR_ID_TEXT];

    fr_id_text(at->id, id);
    *f = (struct fr_ship_file){
        .local = fr_arena_fmt(&s->arena, "%s/%s", g->spool, g->names[g->have]),
        .path = fr_arena_fmt(&s->arena, "gather/%s/%s", id, g->names[g->have]),
        .sha256 = fr_arena_dup(&s->arena, ev->get.sha256),
        .size = ev->get.size,
        .mode = 0644};
    if (f->local == NULL || f->path == NULL || f->sha256 == NULL)
        return fr_fail(err, FR_NOMEM, "no memory to move files");
    g->have++;
    g->max_bytes -= f->size;
    return add_put(s, f, 1, err);
}

void run_start_answer(struct fr_run *run, struct run_attempt *at, const struct fr_exec_event *ev)
{
    struct run_gather *g = &at->start->gather;
    struct fr_err err = ev->err;
    enum fr_rc rc = FR_OK;

    if (run_gather_next(g) != NULL &&
        run_gather_looks(run, g, ev->kind == FR_EXEC_GET_DONE, &err)) {
        step(run, at);
        return;
    }
    if (ev->kind == FR_EXEC_FAILED || g->lacks.rc != FR_OK) {
        run_start_failed(run, at, &err);
        return;
    }
    if (ev->kind == FR_EXEC_GET_DONE)
        rc = got_file(at, ev, &err);
    else if (ev->kind == FR_EXEC_PUT_DONE) {
        at->start->n_put = 0;
        run_gather_remove(run, &at->start->gather);
    }
    if (rc != FR_OK)
        run_start_failed(run, at, &err);
    else
        step(run, at);
}

/* All values are known, and so are the needed files. Called again once those are hashed. */
static void prepare(struct fr_run *run, struct run_attempt *at)
{
    struct run_start *s = at->start;
    struct fr_err err;
    enum fr_rc rc;

    if (s->since == 0)
        s->since = run->shipment.turn;
    run->shipment.since = s->since;
    s->own_put = s->n_put;
    s->own_shipped = s->order.shipped;
    if ((rc = need_with(run, at, s, &err)) == FR_OK &&
        (rc = need_programs(run, at, s, &err)) == FR_OK &&
        (rc = need_paths(run, at, s, &err)) == FR_OK &&
        (rc = need_files(run, at, s, &err)) == FR_OK)
        rc = run_gather_plan(run, at, s->order.with, &s->gather, &err);
    if (rc == FR_BUSY) {
        drop_with(s);
        s->n_put = s->own_put;
        s->order.shipped = s->own_shipped;
        s->paths = NULL;
        s->hashing = true;
        return;
    }
    if (rc == FR_OK && s->gang) { /* a missing rendezvous address fails the start here */
        char address[64];

        rc = run_rendezvous(run, at->inst, address, &err);
    }
    if (rc != FR_OK)
        run_start_failed(run, at, &err);
    else
        step(run, at);
}

/* Those of files and commands are asked for. */
static void ask_secrets(struct fr_run *run, struct run_attempt *at)
{
    const struct fr_task *task = run_task_of(run, at->inst)->spec;
    const struct fr_secret *lacks = run_lacks(run, run->plan->insts[at->inst].task);
    struct run_start *s = at->start;
    struct fr_err err;

    if (lacks != NULL) {
        run_block_fail(run, at, lacks);
        return;
    }
    for (size_t i = 0; i <= task->n_sidecars; i++)
        if (run_secrets_ask(run, i == 0 ? &task->act : &task->sidecars[i - 1], &s->arena,
                            &s->order.secrets, &err) != FR_OK) {
            run_start_failed(run, at, &err);
            return;
        }
    s->asking = s->order.secrets != NULL;
    if (!s->asking)
        prepare(run, at);
}

void run_start_secrets(struct fr_run *run)
{
    struct fr_err err;
    bool passes;

    for (struct run_attempt *at = run->attempts; at != NULL; at = at->next) {
        if (at->start == NULL || !at->start->asking ||
            !run_secrets_ready(at->start->order.secrets, &passes, &err))
            continue;
        at->start->asking = false;
        if (err.rc != FR_OK && passes) /* it is retried */
            run_start_refused(run, at, &err);
        else if (err.rc != FR_OK)
            run_start_failed(run, at, &err);
        else
            prepare(run, at);
    }
}

void run_start_hash(struct fr_run *run)
{
    if (!fr_shipment_step(&run->shipment))
        return;
    for (struct run_attempt *at = run->attempts; at != NULL; at = at->next)
        if (at->start != NULL && at->start->hashing) {
            at->start->hashing = false;
            prepare(run, at);
        }
    fr_shipment_forget(&run->shipment);
}

void run_start(struct fr_run *run, const struct fr_act *act)
{
    struct run_attempt *at = run_attempt_find(run, act->attempt);
    struct run_start *s;
    struct fr_err err;

    if (at == NULL || at->start != NULL)
        return;
    at->ended = at->log_end = at->busy = false; /* it may be started again after a busy node */
    at->generation = act->generation;
    s = fr_sys.alloc(sizeof(*s));
    if (s == NULL) {
        fr_fail(&err, FR_NOMEM, "no memory to start it");
        run_start_failed(run, at, &err);
        return;
    }
    memset(s, 0, sizeof(*s));
    s->gang = act->kind == FR_ACT_PREPARE;
    s->order.arena = s->gather.arena = &s->arena;
    at->start = s;
    if (need_container(run, at, s, &err) == FR_OK)
        ask_secrets(run, at);
    else
        run_start_failed(run, at, &err);
}

void run_start_go(struct fr_run *run, const struct fr_act *act)
{
    struct run_attempt *at = run_attempt_find(run, act->attempt);
    struct fr_arena arena = {0};
    struct fr_exec_member m = {.node = run_node_of(run, act->inst)};
    struct fr_err err;
    enum fr_rc rc;

    if (at == NULL)
        return;
    m.prepare.attempt = at->id;
    rc = run_go_env(run, at, &arena, &m.go_env, &err);
    if (rc == FR_OK)
        rc = run->exec.ops->go(run->exec.self, &m, &err);
    if (rc != FR_OK)
        run_trouble(run, act->inst, "%s", err.msg);
    else
        run_follow(run, at);
    fr_arena_finish(&arena);
}
