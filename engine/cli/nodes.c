/* nodes: lists the nodes of a pipeline; with --check reaches each. */
#include "engine/cli/cli.h"
#include "engine/cli/cluster.h"

#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "engine/base/yaml.h"

#include <string.h>

enum { CHECK_MS = 60000 };

struct answer {
    bool done, up;
    bool place; /* of an allocation: not asked */
    char text[FR_ERR_MAX];
    const char *config; /* the effective ssh directives, one a line; NULL: unknown */
};

struct check {
    struct fr_arena *arena; /* of answers */
    struct answer *answers;
    size_t left;
    struct fr_store *st;    /* owns */
    struct fr_nodes *links; /* owns */
    struct fr_exec exec;
};

static void finish_one(struct check *c, size_t node, bool up, const char *text, size_t n)
{
    struct answer *a = &c->answers[node];

    if (a->done)
        return;
    a->done = true;
    a->up = up;
    (void)fr_visible(a->text, sizeof(a->text), text, n);
    c->left--;
}

#define LOGIND_KILLS                                                                               \
    "its logind ends tasks when the connection closes (KillUserProcesses=yes): set it to no, or "  \
    "add the user to KillExcludeUsers, in /etc/systemd/logind.conf; lingering alone does not help"

static void take_facts(struct check *c, const struct fr_exec_event *ev)
{
    static const char *const shown[] = {
        "hostname=", "kernel=", "cpus=", "mem_bytes=", "disk_free_bytes="};
    struct fr_buf b = {0};

    for (size_t i = 0; i < ev->facts.facts.n; i++)
        for (size_t k = 0; k < sizeof(shown) / sizeof(shown[0]); k++) {
            struct fr_str f = ev->facts.facts.v[i];
            size_t len = strlen(shown[k]);
            char size[24];
            int64_t bytes;

            if (k == 0 && fr_str_is(f, "logind_kills=yes"))
                fr_buf_fmt(&b, "%s" LOGIND_KILLS, b.n > 0 ? "; " : "");
            if (f.n <= len || memcmp(f.p, shown[k], len) != 0)
                continue;
            fr_buf_text(&b, b.n > 0 ? ", " : "");
            if (strstr(shown[k], "bytes") != NULL &&
                fr_parse_i64((struct fr_str){f.p + len, f.n - len}, &bytes, NULL) == FR_OK) {
                fr_show_size(bytes, size);
                fr_buf_fmt(&b, "%s %s", shown[k][0] == 'm' ? "memory" : "disk free", size);
            } else {
                fr_buf_visible(&b, f.p, f.n);
            }
        }
    finish_one(c, ev->node, true, b.p != NULL ? b.p : "", b.n);
    fr_buf_finish(&b);
}

static void take_config(struct check *c, const struct fr_exec_event *ev)
{
    const char *copy = fr_arena_text(c->arena, ev->text.p, ev->text.n);

    if (copy != NULL) /* without memory -v shows less */
        c->answers[ev->node].config = copy;
}

static void on_event(void *arg, struct fr_exec_event *ev)
{
    struct check *c = arg;

    if (ev->kind == FR_EXEC_UP)
        (void)c->exec.ops->facts(c->exec.self, ev->node, ev->node + 1, NULL);
    else if (ev->kind == FR_EXEC_DOWN)
        finish_one(c, ev->node, false, ev->err.msg, strlen(ev->err.msg));
    else if (ev->kind == FR_EXEC_CONFIG)
        take_config(c, ev);
    else if (ev->kind == FR_EXEC_FACTS)
        take_facts(c, ev);
    else if (ev->kind == FR_EXEC_FAILED)
        finish_one(c, ev->node, false, ev->err.msg, strlen(ev->err.msg));
    fr_exec_event_free(ev);
}

static enum fr_rc ask_all(struct check *c, const struct fr_spec *spec, struct cli_drive *d,
                          struct fr_err *err)
{
    struct fr_exec_node *nodes = fr_sys.alloc(spec->n_nodes * sizeof(*nodes));
    struct fr_nodes_run args = {.nodes = nodes, .n = spec->n_nodes, .sink = {on_event, c}};
    int64_t until = fr_sys.mono_ms() + CHECK_MS;
    enum fr_rc rc;

    if (nodes == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the nodes");
    for (size_t i = 0; i < spec->n_nodes; i++)
        nodes[i] = fr_exec_node_of(&spec->nodes[i], (struct fr_id){0});
    if ((rc = fr_id_new(&args.id, err)) == FR_OK)
        rc = cli_store_read(&c->st, err);
    if (rc == FR_OK)
        rc = fr_nodes_create(&c->links,
                             &(struct fr_nodes_args){.loop = &d->loop,
                                                     .control = fr_store_home_id(c->st),
                                                     .flownode_dir = d->paths.flownode_dir,
                                                     .home = fr_store_home(c->st)},
                             err);
    if (rc == FR_OK)
        rc = fr_nodes_join(c->links, &args, &c->exec, err);
    for (size_t i = 0; rc == FR_OK && i < spec->n_nodes; i++)
        if (!c->answers[i].place)
            rc = c->exec.ops->connect(c->exec.self, i, err);
    while (rc == FR_OK && c->left > 0 && fr_sys.mono_ms() < until)
        rc = fr_loop_turn(&d->loop, true, err);
    fr_exec_destroy(&c->exec);
    fr_sys.free(nodes);
    return rc;
}

static void print_node(const struct fr_node *n, const struct answer *a)
{
    fr_print("%-12s %-6s %-24s gpus %-3d slots %-3d", n->name, fr_executor_name(n),
             n->address != NULL ? n->address : "-", n->gpus, n->slots);
    for (size_t i = 0; i < n->n_labels; i++)
        fr_print("%s%s", i > 0 ? "," : " labels ", n->labels[i]);
    if (a != NULL && a->place)
        fr_print("  not asked: its host comes with an allocation");
    else if (a != NULL)
        fr_print("  %s%s%s", a->done && a->up ? "ok" : "cannot be used", a->text[0] ? ": " : "",
                 a->done ? a->text : ": no answer");
    fr_print("\n");
}

static json_t *node_json(const struct fr_node *n, const struct answer *a, bool verbose)
{
    json_t *labels = json_array(), *doc;
    const char *state = "not_asked";

    for (size_t i = 0; i < n->n_labels; i++)
        json_array_append_new(labels, json_string(n->labels[i]));
    doc = json_pack("{s:s, s:s, s:s, s:i, s:i, s:o}", "name", n->name, "executor",
                    fr_executor_name(n), "address", n->address != NULL ? n->address : "", "gpus",
                    n->gpus, "slots", n->slots, "labels", labels);
    if (a != NULL && !a->place)
        state = a->done && a->up ? "ok" : "failed";
    json_object_set_new(doc, "state", json_string(state));
    json_object_set_new(doc, "text", json_string(a == NULL ? "" : a->done ? a->text : "no answer"));
    if (verbose && a != NULL && a->config != NULL)
        json_object_set_new(doc, "ssh_config", json_string(a->config));
    return doc;
}

/* The effective ssh directives of a node. */
static void print_config(const struct answer *a)
{
    for (const char *p = a->config; p != NULL && *p != '\0';) {
        size_t n = strcspn(p, "\n");

        fr_print("    %.*s\n", (int)n, p);
        p += n + (p[n] == '\n');
    }
}

/* The pipeline with which an inventory is checked. */
static const char idle[] = "name: nodes\n"
                           "params: {nodes: {type: path}}\n"
                           "nodes: ${{ params.nodes }}\n"
                           "tasks: {none: {run: ':'}}\n";

static enum fr_rc load(struct cli_call *c, bool inventory, struct fr_spec **out, struct fr_err *err)
{
    struct fr_spec_opts so;
    struct fr_source made[CLI_OWN_FILES + 1] = {{"nodes", {idle, sizeof(idle) - 1}}};
    enum fr_rc rc;

    if (inventory)
        c->spec.nodes = c->args.v[0];
    if ((rc = cli_pipeline(c, c->args.v[0], &so, err)) != FR_OK)
        return rc;
    if (inventory) {
        so.path = "nodes";
        for (size_t i = 0; i < so.n_sources; i++)
            made[i + 1] = so.sources[i];
        so.sources = made;
        so.n_sources++;
    }
    return fr_spec_load(&so, out, &c->issues, err);
}

/* Whether the file is an inventory: it has no key tasks:. */
static bool is_inventory(const struct cli_spec *s, const char *file)
{
    const struct fr_source *own = cli_spec_taken(s, file);
    struct fr_buf text = {0};
    bool yes;

    if (own != NULL)
        return strstr(own->text.p, "tasks:") == NULL;
    yes = fr_file_read(file, FR_YAML_MAX_BYTES, &text, NULL) == FR_OK && text.p != NULL &&
          strstr(text.p, "tasks:") == NULL;
    fr_buf_finish(&text);
    return yes;
}

/* Reaches each node, fills c->answers, and asks the cluster. */
static enum fr_rc check_all(struct check *c, struct cli_cluster *k, struct cli_drive *d,
                            struct fr_err *err)
{
    const struct fr_spec *spec = k->spec;
    enum fr_rc rc;

    c->answers = fr_arena_array(c->arena, spec->n_nodes, sizeof(*c->answers));
    if (c->answers == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the nodes");
    c->left = spec->n_nodes;
    for (size_t i = 0; i < spec->n_nodes; i++)
        if (spec->nodes[i].executor == FR_EXECUTOR_SLURM) {
            c->answers[i].place = true;
            finish_one(c, i, true, "", 0);
        }
    rc = cli_drive_init(d, &(struct cli_show_opts){.quiet = true}, err);
    if (rc == FR_OK)
        rc = ask_all(c, spec, d, err);
    if (rc == FR_OK && spec->slurm != NULL)
        rc = cli_cluster_check(k, &d->loop, c->links, err);
    fr_nodes_destroy(c->links);
    fr_store_close(c->st);
    return rc;
}

/* answers: NULL: nothing was asked. */
static void show(const struct cli_call *call, const struct cli_cluster *k,
                 const struct answer *answers)
{
    const struct fr_spec *spec = k->spec;
    bool verbose = cli_has(call, "--verbose");
    json_t *doc, *nodes = json_array();

    for (size_t i = 0; i < spec->n_nodes; i++) {
        const struct answer *a = answers != NULL ? &answers[i] : NULL;

        if (call->json) {
            json_array_append_new(nodes, node_json(&spec->nodes[i], a, verbose));
            continue;
        }
        print_node(&spec->nodes[i], a);
        if (a != NULL && verbose)
            print_config(a);
    }
    doc = json_pack("{s:o}", "nodes", nodes);
    if (call->json && answers != NULL && spec->slurm != NULL)
        json_object_set_new(doc, "cluster", cli_cluster_json(k));
    else if (answers != NULL && spec->slurm != NULL)
        cli_cluster_print(k);
    if (call->json)
        cli_put_json(doc);
    else
        json_decref(doc);
}

enum fr_rc cli_nodes(struct cli_call *call, struct fr_err *err)
{
    bool check = cli_has(call, "--check");
    const char *file = call->args.v[0];
    struct cli_drive d = {0};
    struct check c = {.arena = &call->arena};
    struct cli_cluster k = {.arena = &call->arena};
    struct fr_spec *spec = NULL;
    enum fr_rc rc = cli_spec_take(&call->spec, file, err);

    if (rc == FR_OK)
        rc = load(call, is_inventory(&call->spec, file), &spec, err);
    k.spec = spec;
    if (rc == FR_OK && check)
        rc = check_all(&c, &k, &d, err);
    if (rc == FR_OK)
        show(call, &k, check ? c.answers : NULL);
    for (size_t i = 0; rc == FR_OK && check && i < spec->n_nodes; i++)
        if (!(c.answers[i].done && c.answers[i].up))
            call->code = CLI_UNREACHABLE;
    if (k.bad)
        call->code = CLI_UNREACHABLE;
    cli_drive_finish(&d);
    fr_spec_destroy(spec);
    return rc;
}
