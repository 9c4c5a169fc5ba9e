/* Allocations of a cluster under Slurm, in an inventory, and the nodes that they make: places. */
#include "engine/spec/load.h"

#include <ctype.h>
#include <string.h>

enum {
    PLACES_MAX = 100000, /* of all allocations */
    NAME_MAX_BYTES = 59, /* with the number of a place it is the name of a node */
    WORD_MAX = 1000,
    GPUS_MAX = 1024
};

static const int64_t TIME_MAX_MS = (int64_t)365 * 24 * 3600 * 1000;
static const int64_t MEMORY_LEAST = (int64_t)1 << 20, MEMORY_MOST = (int64_t)1 << 50;

/* ---- values ---- */

static void refuse(struct loader *l, const struct fr_yaml *y, const char *what, const char *text,
                   const char *expected)
{
    if (strlen(text) <= 100)
        complain(l, pos_of(l, y), expected, "%s is '%s'", what, text);
    else
        complain(l, pos_of(l, y), expected, "%s is a text of %zu bytes", what, strlen(text));
}

/* One argument of a command, which prints in one line. */
static bool one_word(const char *text)
{
    size_t n = strlen(text);

    for (size_t i = 0; i < n; i++)
        if (isspace((unsigned char)text[i]) || iscntrl((unsigned char)text[i]))
            return false;
    return n > 0 && n <= WORD_MAX;
}

/* "a,,b" */
static bool lacks_name(const char *list)
{
    size_t n = strlen(list);

    return list[0] == ',' || (n > 0 && list[n - 1] == ',') || strstr(list, ",,") != NULL;
}

static bool only_digits(const char *text)
{
    return text[0] != '\0' && strspn(text, "0123456789") == strlen(text);
}

void read_slurm_word(struct loader *l, const struct fr_yaml *y, const struct field *f, void *target)
{
    const char *text = read_now(l, y);

    if (text == NULL)
        return;
    if (!one_word(text) || text[0] == '-')
        refuse(l, y, f->name, text, "one word that does not begin with '-'");
    else if (lacks_name(text))
        refuse(l, y, f->name, text, "a name on both sides of each comma");
    else
        *(const char **)(void *)((char *)target + f->at) = text;
}

/* A folder of this machine that stands in scripts, in arguments of Slurm's commands, which expand
 * some signs, and in PATH. */
void read_slurm_folder(struct loader *l, const struct fr_yaml *y, const struct field *f,
                       void *target)
{
    const char *text = read_now(l, y);
    size_t n = text != NULL ? strlen(text) : 0;
    bool ok = text != NULL && slurm_path_ok((struct fr_str){text, n});

    if (text == NULL)
        return;
    while (n > 1 && text[n - 1] == '/')
        n--;
    if (ok && (text = load_keep(l, fr_arena_text(l->arena, text, n))) == NULL)
        return;
    if (!ok)
        refuse(l, y, f->name, text,
               "an absolute path of letters, digits, '_', '-', '.', '+' and '@', without '.' and "
               "'..', like /scratch/me/flowrun");
    else
        *(const char **)(void *)((char *)target + f->at) = absolute(l, text);
}

void read_slurm_time(struct loader *l, const struct fr_yaml *y, const struct field *f, void *target)
{
    const char *text = read_now(l, y);
    int64_t ms = 0;

    if (text == NULL)
        return;
    if (only_digits(text))
        refuse(l, y, f->name, text,
               fr_arena_fmt(l->arena, "a unit: %.12sm or %.12ss (to Slurm %.12s would be minutes)",
                            text, text, text));
    else if (fr_parse_duration(fr_str_of(text), &ms, NULL) != FR_OK || ms <= 0 || ms > TIME_MAX_MS)
        refuse(l, y, f->name, text, "a duration above zero, at most 365d, like 12h or 1h30m");
    else
        *(int64_t *)(void *)((char *)target + f->at) = ms;
}

void read_slurm_memory(struct loader *l, const struct fr_yaml *y, const struct field *f,
                       void *target)
{
    const char *text = read_now(l, y);
    int64_t bytes = 0;

    if (text == NULL)
        return;
    if (only_digits(text))
        refuse(
            l, y, f->name, text,
            fr_arena_fmt(l->arena, "a unit: %.12sGiB (to Slurm %.12s would be MiB)", text, text));
    else if (fr_parse_size(fr_str_of(text), &bytes, NULL) != FR_OK || bytes < MEMORY_LEAST ||
             bytes > MEMORY_MOST)
        refuse(l, y, f->name, text, "a size from 1MiB to 1024TiB, like 64GiB");
    else
        *(int64_t *)(void *)((char *)target + f->at) = bytes;
}

/* N, or TYPE:N. */
void read_slurm_gpus(struct loader *l, const struct fr_yaml *y, const struct field *f, void *target)
{
    struct fr_allocation_spec *spec = &((struct allocation_entry *)target)->spec;
    const char *text = read_now(l, y), *colon = text != NULL ? strchr(text, ':') : NULL;
    const char *type = NULL;
    int64_t n = -1;
    bool ok;

    if (text == NULL)
        return;
    if (colon != NULL)
        type = load_keep(l, fr_arena_text(l->arena, text, (size_t)(colon - text)));
    if (colon != NULL && type == NULL)
        return;
    ok = fr_parse_i64(fr_str_of(colon != NULL ? colon + 1 : text), &n, NULL) == FR_OK &&
         n >= (type != NULL) && n <= GPUS_MAX &&
         (type == NULL || (label_ok(type) && type[0] != '-'));
    if (!ok) {
        refuse(l, y, f->name, text, "a whole number from 0 to 1024, or TYPE:N like a100:8");
        return;
    }
    spec->gpus = (int)n;
    spec->gpu_type = type;
}

/* ---- options ---- */

static const char *const allowed[] = {
    "--licenses",     "--switches",    "--gpu-bind",  "--gpu-freq",  "--mem-bind",
    "--tmp",          "--nice",        "--mail-type", "--mail-user", "--prefer",
    "--core-spec",    "--thread-spec", "--network",   "--wckey",     "--hint",
    "--distribution", "--exclude",     "--nodelist",  "--mincpus",   "--gres-flags",
    "--cpus-per-gpu", "--mem-per-gpu"};
enum { N_ALLOWED = sizeof(allowed) / sizeof(allowed[0]) };

/* What flowrun sets itself, or what changes the life of a job. */
static const struct {
    const char *names; /* as fr_word_in() takes them */
    const char *instead;
} own[] = {
    {"--nodes -N --ntasks -n --ntasks-per-node --ntasks-per-socket --ntasks-per-core "
     "--ntasks-per-gpu --nodefile -F",
     "nodes: N"},
    {"--partition -p", "partition: NAME"},
    {"--account -A", "account: NAME"},
    {"--qos -q", "qos: NAME"},
    {"--reservation", "reservation: NAME"},
    {"--constraint -C", "constraint: FEATURES"},
    {"--time -t --time-min --deadline", "time: 12h"},
    {"--gres --gpus -G --gpus-per-node --gpus-per-task --gpus-per-socket", "gpus: N or TYPE:N"},
    {"--cpus-per-task -c --sockets-per-node --cores-per-socket --threads-per-core -B "
     "--extra-node-info --overcommit -O",
     "cpus: N"},
    {"--mem --mem-per-cpu", "memory: 64GiB"},
    {"--exclusive --oversubscribe -s --share", "exclusive: true or false"},
    {"--requeue --no-requeue", "chain: N, how often it is followed by another"},
    {"--array -a", "copies: N, allocations of one node each"},
    {"--dependency -d --kill-on-invalid-dep", "needs: of a task"},
    {"--begin -b", "schedule: of the pipeline"},
    {"--export --export-file --get-user-env", "env:"},
    {"--chdir -D", "work:, or cwd: of a task"},
    {"--output -o --error -e --input -i --open-mode", "log: of a task"},
    {"--signal", "grace: of a task"},
    {"--job-name -J --comment --parsable --quiet -Q --verbose -v --no-kill -k --wrap --test-only "
     "--hold -H --wait -W --wait-all-nodes --clusters -M --uid --gid --propagate --usage --help -h "
     "--version -V --het-group --ignore-pbs --spread-job --use-min-nodes --power --reboot "
     "--contiguous --profile --acctg-freq --bb --bbf --container --delay-boot --priority "
     "--cluster-constraint",
     NULL},
};

/* The option's name: "--tmp" of "--tmp=1G", "-N" of "-N4". */
static const char *option_name(struct loader *l, const char *text)
{
    size_t n = fr_has_prefix(text, "--") ? strcspn(text, "=") : 2;

    return load_keep(l, fr_arena_text(l->arena, text, n));
}

static void unknown_option(struct loader *l, const struct fr_yaml *y, const char *name)
{
    struct hint hint = {.word = name, .words = allowed, .n_words = N_ALLOWED};

    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        if (fr_word_in(own[i].names, name)) {
            complain(l, pos_of(l, y), own[i].instead, "option '%s' is flowrun's own to set%s", name,
                     own[i].instead == NULL ? ": leave it out" : "");
            return;
        }
    if (fr_suggest(name, allowed, N_ALLOWED) == NULL)
        hint.expected = word_list(l, allowed, N_ALLOWED);
    complain_near(l, pos_of(l, y), &hint, "option '%s' cannot stand here", name);
}

/* Whether text is one of allowed, with a value that is fit for it. */
static bool option_ok(struct loader *l, const struct fr_yaml *y, const char *text)
{
    const char *value, *name;
    bool known = false, hosts;

    if (text[0] != '-' || text[1] == '\0') {
        refuse(l, y, "an option", text, "--NAME=VALUE");
        return false;
    }
    if ((name = option_name(l, text)) == NULL)
        return false;
    for (size_t i = 0; i < N_ALLOWED; i++)
        known = known || strcmp(allowed[i], name) == 0;
    if (!known) {
        unknown_option(l, y, name);
        return false;
    }
    value = text + strlen(name);
    hosts = fr_word_in("--exclude --nodelist", name);
    if (value[0] == '\0' ? strcmp(name, "--nice") != 0 : !one_word(text) || value[1] == '\0')
        refuse(l, y, "an option", text,
               fr_arena_fmt(l->arena, "%s=VALUE, the value without blanks", name));
    else if (hosts && strchr(value, '/') != NULL)
        refuse(l, y, "an option", text, "names of hosts, no file with them");
    else
        return true;
    return false;
}

static bool has_option(const struct fr_allocation_spec *spec, const char *name)
{
    size_t n = strlen(name);

    for (size_t i = 0; i < spec->n_options; i++)
        if (strncmp(spec->options[i], name, n) == 0 && strchr("=", spec->options[i][n]) != NULL)
            return true;
    return false;
}

void read_slurm_options(struct loader *l, const struct fr_yaml *y, const struct field *f,
                        void *target)
{
    struct fr_allocation_spec *spec = &((struct allocation_entry *)target)->spec;
    struct items items = items_of(&y);
    size_t n = y->kind == FR_YAML_NULL ? 0 : items.n;
    const char **out = load_alloc(l, n, sizeof(*out));

    (void)f;
    spec->options = out;
    for (size_t i = 0; out != NULL && i < n; i++) {
        const char *text = read_now(l, items.v[i]), *name;

        if (text == NULL || !option_ok(l, items.v[i], text) ||
            (name = option_name(l, text)) == NULL)
            continue;
        if (has_option(spec, name))
            complain(l, pos_of(l, items.v[i]), NULL, "option '%s' stands here twice", name);
        else
            out[spec->n_options++] = text;
    }
}

/* Slurm refuses two statements about the same thing. */
static void check_options(struct loader *l, const struct fr_yaml *y,
                          const struct fr_allocation_spec *spec)
{
    const struct fr_yaml *options = fr_yaml_get(y, "options");

    if (has_option(spec, "--mem-per-gpu") && (spec->memory > 0 || spec->exclusive))
        complain(l, pos_of(l, options), "one of them", "option '--mem-per-gpu' stands beside %s",
                 spec->memory > 0 ? "memory:" : "exclusive:, which takes all of the memory");
    if (has_option(spec, "--cpus-per-gpu") && spec->cpus > 0)
        complain(l, pos_of(l, options), "one of them",
                 "option '--cpus-per-gpu' stands beside cpus:");
}

/* ---- names ---- */

/* Which place of the allocation has that name; 0: none. */
static int place_of(const struct fr_allocation_spec *spec, const char *name)
{
    size_t n = strlen(spec->name);
    int64_t k = 0;

    if (strncmp(name, spec->name, n) != 0 || !only_digits(name + n) || name[n] == '0' ||
        fr_parse_i64(fr_str_of(name + n), &k, NULL) != FR_OK || k > fr_allocation_places(spec))
        return 0;
    return (int)k;
}

static bool has_label(const struct fr_node *node, const char *label)
{
    for (size_t i = 0; i < node->n_labels; i++)
        if (strcmp(node->labels[i], label) == 0)
            return true;
    return false;
}

/* An allocation's name is a label: it must be the only thing of that name. */
static void check_name(struct loader *l, const struct allocation_entry *all, size_t n, size_t at)
{
    const struct fr_allocation_spec *spec = &all[at].spec;
    const char *other = "another name";

    if (!label_ok(spec->name) || strlen(spec->name) > NAME_MAX_BYTES ||
        strchr("-.", spec->name[0]) != NULL || node_name_reserved(spec->name))
        complain(l, spec->pos,
                 "letters, digits, '_', '-' and '.', at most 59, the first neither '-' nor '.', "
                 "and not all, head or control",
                 "'%s' cannot be the name of an allocation", spec->name);
    for (size_t i = 0; i < n; i++) {
        const struct fr_allocation_spec *a = &all[i].spec;

        if (i != at && place_of(a, spec->name) > 0)
            complain(l, spec->pos, other,
                     "allocation '%s' has the name of a place of allocation '%s', which has %s1 to "
                     "%s%d",
                     spec->name, a->name, a->name, a->name, fr_allocation_places(a));
        if (i != at && has_label(&all[i].place, spec->name))
            complain(l, spec->pos, other,
                     "allocation '%s' has the name of a label of allocation '%s'", spec->name,
                     a->name);
    }
    for (size_t i = 0; i < l->spec->n_nodes; i++) {
        const struct fr_node *node = &l->spec->nodes[i];

        if (strcmp(node->name, spec->name) == 0)
            complain(l, spec->pos, other, "allocation '%s' has the name of the node at line %d",
                     spec->name, node->pos.line);
        else if (has_label(node, spec->name))
            complain(l, spec->pos, other, "allocation '%s' has the name of a label of node '%s'",
                     spec->name, node->name);
        if (place_of(spec, node->name) > 0)
            complain(l, node->pos, other,
                     "node '%s' has the name of a place of allocation '%s', which has %s1 to %s%d",
                     node->name, spec->name, spec->name, spec->name, fr_allocation_places(spec));
        for (size_t k = 0; k < node->n_labels; k++)
            if (place_of(spec, node->labels[k]) > 0)
                complain(l, node->pos, "another word",
                         "label '%s' of node '%s' is the name of a place of allocation '%s'",
                         node->labels[k], node->name, spec->name);
    }
}

/* Labels of its own are as those of nodes: no name of a node or place. */
static void check_own_labels(struct loader *l, const struct allocation_entry *all, size_t n,
                             size_t at)
{
    const struct fr_node *place = &all[at].place;

    for (size_t k = 0; k < place->n_labels; k++) {
        const char *label = place->labels[k];
        bool bad = node_name_reserved(label) || fr_spec_node(l->spec, label) >= 0;

        for (size_t i = 0; i < n; i++)
            bad = bad || place_of(&all[i].spec, label) > 0;
        if (bad)
            complain(l, all[at].spec.pos, "another word",
                     "label '%s' of allocation '%s' is the name of a node or place", label,
                     all[at].spec.name);
    }
}

/* ---- places ---- */

/* The place that all of an allocation are copies of: its name is the first of their labels. */
static bool make_place(struct loader *l, struct allocation_entry *entry, size_t index)
{
    struct fr_node *place = &entry->place;
    const char **labels = load_alloc(l, place->n_labels + 1, sizeof(*labels));

    if (labels == NULL)
        return false;
    labels[0] = entry->spec.name;
    for (size_t i = 0; i < place->n_labels; i++)
        labels[i + 1] = place->labels[i];
    place->labels = labels;
    place->n_labels++;
    place->pos = entry->spec.pos;
    place->executor = FR_EXECUTOR_SLURM;
    place->allocation = (int)index;
    place->chain = entry->spec.chain;
    place->gpus = entry->spec.gpus;
    place->connect.retry_for_ms = 0; /* its allocation decides how long it is waited for */
    return true;
}

/* Appends the places to the nodes of the spec. */
static void add_places(struct loader *l, struct allocation_entry *all, size_t n, size_t places)
{
    size_t next = l->spec->n_nodes;
    struct fr_node *nodes = load_alloc(l, next + places, sizeof(*nodes));

    if (nodes == NULL)
        return;
    for (size_t i = 0; i < next; i++)
        nodes[i] = l->spec->nodes[i];
    for (size_t i = 0; i < n; i++) {
        struct fr_allocation_spec *spec = &all[i].spec;

        spec->first = (int)next;
        if (!make_place(l, &all[i], i))
            return;
        for (int k = 1; k <= fr_allocation_places(spec); k++) {
            struct fr_node *node = &nodes[next++];

            *node = all[i].place;
            node->place = k;
            node->name = load_keep(l, fr_arena_fmt(l->arena, "%s%d", spec->name, k));
            if (node->name == NULL)
                return;
        }
    }
    l->spec->nodes = nodes;
    l->spec->n_nodes = next;
}

static struct fr_pos pos_of_value(struct loader *l, const struct fr_yaml_pair *allocation,
                                  const char *key)
{
    const struct fr_yaml *value = fr_yaml_get(allocation->value, key);

    return value != NULL ? pos_of(l, value) : pos_of_key(l, allocation);
}

/* Keys that only nodes have are none of a place. */
static void read_allocation(struct loader *l, const struct fr_yaml_pair *pair,
                            struct allocation_entry *entry)
{
    const struct fr_node *base = &l->node_base;

    entry->place = (struct fr_node){.slots = base->slots,
                                    .labels = base->labels,
                                    .n_labels = base->n_labels,
                                    .become = base->become,
                                    .keep = base->keep,
                                    .connect = base->connect,
                                    .env = base->env,
                                    .n_env = base->n_env};
    entry->spec = (struct fr_allocation_spec){.name = pair->key.p,
                                              .pos = pos_of_key(l, pair),
                                              .nodes = 1,
                                              .idle_ms = 120000,
                                              .lease_ms = 1800000};
    entry->spec.partition_pos = pos_of_value(l, pair, "partition");
    entry->spec.time_pos = pos_of_value(l, pair, "time");
    entry->spec.nodes_pos = pos_of_value(l, pair, "nodes");
    entry->spec.gpus_pos = pos_of_value(l, pair, "gpus");
    read_object(l, &object_allocation, pair->value, entry);
    check_options(l, pair->value, &entry->spec);
    if (fr_yaml_get(pair->value, "copies") != NULL && fr_yaml_get(pair->value, "nodes") != NULL)
        complain(l, pos_of(l, fr_yaml_get(pair->value, "copies")),
                 "nodes: (one allocation) or copies: (many of one node)",
                 "allocation '%s' has both nodes and copies", entry->spec.name);
}

void read_allocations(struct loader *l, const struct fr_yaml *y, const struct field *f,
                      void *target)
{
    struct allocation_entry *all;
    struct fr_allocation_spec *specs;
    size_t places = 0;

    if (y->kind != FR_YAML_MAP || y->n == 0) {
        wrong_value(l, y, f->name, "a map of names, like {train: {nodes: 4, time: 12h}}");
        return;
    }
    if ((all = load_scratch(l, y->n, sizeof(*all))) == NULL ||
        (specs = load_alloc(l, y->n, sizeof(*specs))) == NULL)
        return;
    for (size_t i = 0; i < y->n; i++) {
        read_allocation(l, &y->pairs[i], &all[i]);
        places += (size_t)fr_allocation_places(&all[i].spec);
    }
    if (places > PLACES_MAX) {
        complain(l, pos_of(l, y), "at most 100000", "all allocations have %zu nodes together",
                 places);
        return;
    }
    for (size_t i = 0; i < y->n; i++) {
        check_name(l, all, y->n, i);
        check_own_labels(l, all, y->n, i);
    }
    add_places(l, all, y->n, places);
    for (size_t i = 0; i < y->n; i++)
        specs[i] = all[i].spec;
    put_list(f, target, specs, y->n);
}

/* What tasks leave in their work folder is there in the next job, too. */
static void give_work(struct loader *l, const struct fr_slurm_spec *slurm)
{
    size_t n = l->spec->n_nodes;
    struct fr_node *nodes = load_alloc(l, n, sizeof(*nodes));

    for (size_t i = 0; i < n && nodes != NULL && slurm->work != NULL; i++) {
        nodes[i] = l->spec->nodes[i];
        if (nodes[i].executor == FR_EXECUTOR_SLURM)
            nodes[i].work =
                load_keep(l, fr_arena_fmt(l->arena, "%s/work/%s", slurm->work, nodes[i].name));
    }
    if (nodes != NULL && slurm->work != NULL)
        l->spec->nodes = nodes;
}

/* Of the value of slurm: itself where it has no such key. */
static struct fr_pos pos_of_own(struct loader *l, const struct fr_yaml *y, const char *key)
{
    const struct fr_yaml *value = fr_yaml_get(y, key);

    return pos_of(l, value != NULL ? value : y);
}

void read_slurm(struct loader *l, const struct fr_yaml *y, const struct field *f, void *target)
{
    struct fr_slurm_spec *slurm = load_alloc(l, 1, sizeof(*slurm));

    (void)target;
    if (slurm == NULL)
        return;
    *slurm = (struct fr_slurm_spec){.pos = pos_of(l, y), .rpc = 12, .max_jobs = 500};
    slurm->work_pos = pos_of_own(l, y, "work");
    slurm->path_pos = pos_of_own(l, y, "path");
    slurm->rpc_pos = pos_of_own(l, y, "rpc");
    read_object(l, f->object, y, slurm);
    give_work(l, slurm);
    l->spec->slurm = slurm;
}
