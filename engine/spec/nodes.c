/* The inventory: inline, or in a file of its own. */
#include "engine/spec/load.h"

#include <ctype.h>
#include <string.h>

enum { EXECUTOR_UNSAID = 99, NODES_MAX = 4096 };

static const char NO_NAME[] = "";

bool node_name_reserved(const char *name)
{
    return strcmp(name, "all") == 0 || strcmp(name, "head") == 0 || strcmp(name, "control") == 0;
}

/* What ssh could take for an option, or for two words, is refused. */
static void check_word(struct loader *l, const struct fr_node *node, const char *key,
                       const char *value)
{
    bool bad = value != NULL && (value[0] == '-' || value[0] == '\0');

    for (const char *p = value; p != NULL && *p != '\0'; p++)
        bad |= isspace((unsigned char)*p) || iscntrl((unsigned char)*p) || *p == '@';
    if (bad)
        complain(l, node->pos, "one word without '@'", "%s of node '%s' is '%s'", key, node->name,
                 value);
}

/* "10.0.0.1:22": a port stands in a key of its own. An IPv6 address has more colons. */
static void check_port(struct loader *l, const struct fr_node *node)
{
    const char *colon = node->address != NULL ? strchr(node->address, ':') : NULL;

    if (colon != NULL && colon[1] != '\0' && strspn(colon + 1, "0123456789") == strlen(colon + 1))
        complain(l, node->pos,
                 "a name or an address; the port goes to port:", "address of node '%s' is '%s'",
                 node->name, node->address);
}

/* On the node it is absolute, or below the user's home. What looks like something else is refused,
 * as it would be a folder of that name there. */
static void check_work(struct loader *l, const struct fr_node *node)
{
    const char *work = node->work;

    if (work == NULL || work[0] == '/' || strcmp(work, "~") == 0 || fr_has_prefix(work, "~/"))
        return;
    if (work[0] == '\0' || work[0] == '$' || work[0] == '~' || fr_has_prefix(work, "node:"))
        complain(l, node->pos,
                 "a path of the node: /DIR, or ~/DIR below the user's "
                 "home there",
                 "work of node '%s' is '%s'", node->name, work);
}

static void check_reached(struct loader *l, const struct fr_node *node)
{
    if (node->executor == FR_EXECUTOR_SSH && node->address == NULL)
        complain(l, node->pos, "address: HOST", "node '%s' has no address", node->name);
    check_word(l, node, "address", node->address);
    check_word(l, node, "user", node->user);
    check_port(l, node);
    check_work(l, node);
}

static void check_node(struct loader *l, const struct fr_node *nodes, size_t i)
{
    const struct fr_node *node = &nodes[i];

    for (size_t j = 0; j < i; j++)
        if (nodes[j].name != NULL && strcmp(nodes[j].name, node->name) == 0)
            complain(l, node->pos, "a name of its own", "node '%s' is there already, at line %d",
                     node->name, nodes[j].pos.line);
    if (!label_ok(node->name) || strchr("-.", node->name[0]) != NULL ||
        node_name_reserved(node->name))
        complain(l, node->pos,
                 LABEL ", the first neither '-' nor '.', and "
                       "not all, head or control",
                 "'%s' cannot be the name of a node", node->name);
    check_reached(l, node);
}

static void check_labels(struct loader *l, const struct fr_node *nodes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < nodes[i].n_labels; k++) {
            const char *label = nodes[i].labels[k];

            if (node_name_reserved(label) || fr_spec_node(l->spec, label) >= 0)
                complain(l, nodes[i].pos, "another word",
                         "label '%s' of node '%s' is the name of a node or place", label,
                         nodes[i].name);
        }
}

/* "[::1]", as URLs have it, is ::1. */
static void strip_brackets(struct loader *l, struct fr_node *node)
{
    size_t n = node->address != NULL ? strlen(node->address) : 0;

    if (n > 2 && node->address[0] == '[' && node->address[n - 1] == ']')
        node->address = load_keep(l, fr_arena_text(l->arena, node->address + 1, n - 2));
    if (node->address != NULL && strpbrk(node->address, "[]") != NULL)
        complain(l, node->pos, "a name, or an address like ::1", "address of node '%s' is '%s'",
                 node->name, node->address);
}

static void read_node(struct loader *l, const struct fr_yaml *y, struct fr_node *node)
{
    *node = l->node_base;
    node->pos = pos_of(l, y);
    read_object(l, &object_node, y, node);
    if ((int)node->executor == EXECUTOR_UNSAID)
        node->executor = node->address ? FR_EXECUTOR_SSH : FR_EXECUTOR_LOCAL;
    if (node->executor == FR_EXECUTOR_LOCAL && node->address == NULL)
        node->address = "127.0.0.1";
    if (node->name == NULL)
        node->name = NO_NAME; /* reported */
    strip_brackets(l, node);
}

void read_node_list(struct loader *l, const struct fr_yaml *y, const struct field *f, void *target)
{
    struct fr_node *nodes;

    (void)f;
    (void)target;
    if (y->kind != FR_YAML_LIST || y->n == 0 || y->n > NODES_MAX) {
        wrong_value(l, y, "nodes", "a list of 1 to 4096 nodes, each a map with a name");
        return;
    }
    if ((nodes = load_alloc(l, y->n, sizeof(*nodes))) == NULL)
        return;
    for (size_t i = 0; i < y->n; i++) {
        read_node(l, y->items[i], &nodes[i]);
        if (nodes[i].name != NO_NAME)
            check_node(l, nodes, i);
    }
    l->spec->nodes = nodes;
    l->spec->n_nodes = y->n;
    check_labels(l, nodes, y->n);
}

void read_login(struct loader *l, const struct fr_yaml *y, const struct field *f, void *target)
{
    const struct fr_node *base = &l->node_base;
    struct fr_slurm_spec *slurm = target;
    struct fr_node *login = load_alloc(l, 1, sizeof(*login));

    if (login == NULL)
        return;
    *login = (struct fr_node){.name = "login",
                              .pos = pos_of(l, y),
                              .executor = FR_EXECUTOR_SSH,
                              .transport = base->transport,
                              .user = base->user,
                              .port = base->port,
                              .key = base->key,
                              .known_hosts = base->known_hosts,
                              .ssh_config = base->ssh_config,
                              .work = base->work,
                              .keep = base->keep,
                              .connect = base->connect};
    read_object(l, f->object, y, login);
    strip_brackets(l, login);
    if (y->kind == FR_YAML_MAP)
        check_reached(l, login);
    slurm->login = login;
}

static void read_map(struct loader *l, const struct fr_yaml *y)
{
    read_object(l, &object_inventory, y, l->spec);
    if (fr_yaml_get(y, "nodes") == NULL && fr_yaml_get(y, "slurm") == NULL)
        complain(l, pos_of(l, y), NULL, "an inventory needs the key 'nodes' or 'slurm'");
}

static void read_inventory(struct loader *l, const struct fr_yaml *y)
{
    if (y->kind == FR_YAML_LIST)
        read_node_list(l, y, NULL, NULL);
    else if (y->kind == FR_YAML_MAP)
        read_map(l, y);
    else
        wrong_value(l, y, "the inventory", "a list of nodes, or a map with nodes: or slurm:");
}

void read_nodes(struct loader *l, const struct fr_yaml *y, const struct field *f, void *target)
{
    struct fr_source *source = &l->spec->sources[1];
    struct fr_yaml *tree;
    const char *path;
    struct fr_err err;

    (void)f;
    (void)target;
    l->node_base.executor = (enum fr_executor)EXECUTOR_UNSAID;
    if (y->kind != FR_YAML_SCALAR) {
        read_inventory(l, y);
        return;
    }
    if ((path = read_now(l, y)) == NULL || (path = absolute(l, path)) == NULL)
        return;
    if (l->opts->alone) {
        l->any_node = true;
        add_note(l, pos_of(l, y),
                 fr_arena_fmt(l->arena,
                              "the inventory %s is not opened here: names of nodes are "
                              "not checked",
                              path));
        default_node(l);
        return;
    }
    if (l->fenced && l->mistakes != NULL)
        return; /* a file that it may not name is not opened */
    if (read_source(l, path, source, &err) != FR_OK) {
        complain(l, pos_of(l, y), "the path of an inventory", "nodes: %s", err.msg);
        return;
    }
    l->spec->n_sources = 2;
    if (fr_yaml_parse(source->text, path, &l->scratch, l->arena, &tree, &err) != FR_OK) {
        complain(l, (struct fr_pos){.file = 1}, NULL, "%s", err.msg); /* it names its place */
        return;
    }
    l->file = 1;
    l->folder[1] = l->opts->rules == 1 ? l->folder[0] : folder_of(l, path);
    read_inventory(l, tree);
    l->file = 0;
}

void default_node(struct loader *l)
{
    struct fr_node *node = load_alloc(l, 1, sizeof(*node));

    if (node == NULL)
        return;
    *node = l->node_base;
    node->name = "local";
    node->executor = FR_EXECUTOR_LOCAL;
    node->address = "127.0.0.1";
    l->spec->nodes = node;
    l->spec->n_nodes = 1;
}
