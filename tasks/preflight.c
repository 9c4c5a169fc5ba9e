/*
 * preflight: looks at every node before anything is started, compares them, and prints one table
 * with the differences marked.
 */
#include "tasks/rendezvous.h"
#include "tasks/nodefacts.h"
#include "tasks/task.h"

#include "engine/base/log.h"
#include "engine/base/sys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CELL = 64 };

/* Columns of the table; key of the facts. */
static const struct {
    const char *title, *key;
    bool same;  /* a difference fails (with `same`) */
    bool marks; /* a difference is marked */
} columns[] = {
    {"node", "name", false, false},       {"driver", "driver", true, true},
    {"CUDA", "cuda", true, true},         {"fabric mgr", "fabric", false, true},
    {"GPUs", "gpus", true, true},         {"kernel", "kernel", false, true},
    {"interface", "iface", false, false}, {"disk free", "disk", false, false},
    {"memory", "memory", false, false},   {"open files", "nofile", false, true},
    {"clock", NULL, false, false},
};

enum { COLUMNS = sizeof(columns) / sizeof(columns[0]) };

static void show_cell(const struct fr_member *who, size_t column, char out[CELL])
{
    const char *key = columns[column].key;
    const json_t *v = key != NULL ? json_object_get(who->facts, key) : NULL;
    int64_t n = json_integer_value(v);

    if (key == NULL && who->line.fd >= 0)
        snprintf(out, CELL, "%+.1f s", who->skew_ms / 1000);
    else if (json_is_string(v))
        snprintf(out, CELL, "%.60s", json_string_value(v)[0] != '\0' ? json_string_value(v) : "-");
    else if (json_is_integer(v) && n < 0)
        snprintf(out, CELL, "-");
    else if (json_is_integer(v) && strcmp(key, "nofile") != 0) {
        char size[24];
        fr_show_size(n, size);
        snprintf(out, CELL, "%s", size);
    } else if (json_is_integer(v))
        snprintf(out, CELL, "%lld", (long long)n);
    else
        snprintf(out, CELL, "-");
}

/* The value that most nodes have in a column; of equals the one seen first. */
static int64_t most_common(const struct fr_rendezvous *m, size_t column)
{
    char a[CELL], b[CELL];
    int64_t best = 0, best_count = 0;

    for (int64_t i = 0; i < m->nodes; i++) {
        int64_t count = 0;
        show_cell(&m->members[i], column, a);
        for (int64_t k = 0; k < m->nodes; k++) {
            show_cell(&m->members[k], column, b);
            count += strcmp(a, b) == 0;
        }
        if (count > best_count) {
            best = i;
            best_count = count;
        }
    }
    return best;
}

static bool differs(const struct fr_rendezvous *m, int64_t i, size_t column)
{
    char mine[CELL], usual[CELL];

    show_cell(&m->members[i], column, mine);
    show_cell(&m->members[most_common(m, column)], column, usual);
    return columns[column].marks && strcmp(mine, usual) != 0;
}

static void print_table(const struct fr_rendezvous *m)
{
    size_t width[COLUMNS];
    char cell[CELL];
    bool marked = false;

    for (size_t c = 0; c < COLUMNS; c++) {
        width[c] = strlen(columns[c].title);
        for (int64_t i = 0; i < m->nodes; i++) {
            show_cell(&m->members[i], c, cell);
            width[c] = strlen(cell) + 1 > width[c] ? strlen(cell) + 1 : width[c];
        }
        fr_print("%-*s%s", (int)width[c], columns[c].title, c + 1 < COLUMNS ? "  " : "\n");
    }
    for (int64_t i = 0; i < m->nodes; i++)
        for (size_t c = 0; c < COLUMNS; c++) {
            bool mark = differs(m, i, c);
            marked = marked || mark;
            show_cell(&m->members[i], c, cell);
            fr_print("%s%-*s%s", mark ? "*" : "", (int)width[c] - mark, cell,
                     c + 1 < COLUMNS ? "  " : "\n");
        }
    if (marked)
        fr_print("* differs from most of the nodes\n");
}

/* Differences and clocks become problems of the nodes concerned. */
static void compare(struct fr_job *job, struct fr_rendezvous *m)
{
    bool same = fr_input_bool(job, "same", true);
    double limit = (double)fr_input_int(job, "clock_skew", 2000);
    char mine[CELL], usual[CELL];

    for (int64_t i = 0; i < m->nodes; i++) {
        struct fr_member *who = &m->members[i];
        for (size_t c = 0; c < COLUMNS; c++) {
            if (!columns[c].same || !differs(m, i, c))
                continue;
            show_cell(who, c, mine);
            show_cell(&m->members[most_common(m, c)], c, usual);
            fr_facts_add(
                who->facts, same ? "problems" : "warnings", "%s %s, %s has %s", columns[c].title,
                mine,
                json_string_value(json_object_get(m->members[most_common(m, c)].facts, "name")),
                usual);
        }
        double off = who->skew_ms < 0 ? -who->skew_ms : who->skew_ms;
        if (i > 0 && off > limit + who->rtt_ms / 2)
            fr_facts_add(who->facts, "problems",
                         "its clock is %.1f s %s the head's, more than %.1f s", off / 1000,
                         who->skew_ms < 0 ? "behind" : "before", limit / 1000);
    }
}

/* Prints what was found at each node, and puts problems into text: "n2: …; n3: …". */
static void print_findings(struct fr_rendezvous *m, struct fr_buf *text)
{
    static const char *const kinds[] = {"problems", "warnings", "notes"};
    static const char *const words[] = {"problem", "warning", "note"};

    for (int64_t i = 0; i < m->nodes; i++)
        for (size_t k = 0; k < 3; k++) {
            const char *name = json_string_value(json_object_get(m->members[i].facts, "name"));
            size_t n;
            json_t *line;
            json_array_foreach(json_object_get(m->members[i].facts, kinds[k]), n, line)
            {
                const char *what = json_string_value(line);
                fr_print("%s: %s: %s\n", words[k], name, what != NULL ? what : "?");
                if (k == 0)
                    fr_buf_fmt(text, "%s%s: %s", text->n > 0 ? "; " : "", name,
                               what != NULL ? what : "?");
            }
        }
}

static enum fr_rc conclude(struct fr_job *job, struct fr_rendezvous *m, struct fr_err *err)
{
    struct fr_buf text = {0};
    json_t *nodes = json_array();
    enum fr_rc rc;

    compare(job, m);
    print_table(m);
    print_findings(m, &text);
    fflush(stdout);
    for (int64_t i = 0; i < m->nodes; i++) {
        json_object_set_new(m->members[i].facts, "clock_ms", json_real(m->members[i].skew_ms));
        json_array_append(nodes, m->members[i].facts);
    }
    json_object_set_new(job->did, "nodes", nodes);
    rc = fr_rendezvous_end(m, text.n == 0, text.p != NULL ? text.p : "", err);
    fr_buf_finish(&text);
    return rc;
}

static enum fr_rc preflight(struct fr_job *job, struct fr_err *err)
{
    struct fr_rendezvous m;
    json_t *facts = NULL;
    enum fr_rc rc = fr_rendezvous_init(job, &m, err);

    if (rc == FR_OK && job->dry_run) {
        fr_note(
            job, "checks",
            "look at driver, CUDA, Fabric Manager, GPUs, disk, memory, limits, "
            "clock, interface and commands of %lld nodes, and try ports %lld to +%lld between them",
            (long long)m.nodes, (long long)m.ports.first, (long long)m.ports.n - 1);
    } else if (rc == FR_OK) {
        rc = fr_node_facts(job, m.head_addr, &facts, err);
        if (rc == FR_OK)
            rc = fr_inputs_ok(job, err);
        if (rc == FR_OK)
            rc = fr_rendezvous_run(&m, json_incref(facts), err);
        if (rc == FR_OK && m.rank == 0)
            rc = conclude(job, &m, err);
        else if (rc == FR_OK) {
            json_object_set(job->did, "facts", facts);
            rc = fr_rendezvous_end(&m, true, "", err);
        }
    }
    json_decref(facts);
    fr_rendezvous_finish(&m);
    return rc;
}

int fr_task_preflight(int argc, char **argv)
{
    return fr_job_main("preflight", argc, argv, preflight);
}
