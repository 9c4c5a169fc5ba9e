#include "tests/sim/told.h"

#include "engine/base/json.h"
#include "engine/run/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INSTS = 64, ATTEMPTS = 80 };

struct line { /* of one instance */
    char key[40];
    struct fr_buf want, got; /* changes, a line each */
    enum fr_state_of state;  /* of want: the last one */
    bool away;
    int printed[ATTEMPTS]; /* lines of its output, by attempt */
};

struct told {
    struct world *w;
    const struct client *c;
    size_t i; /* among the clients */
    struct line lines[INSTS];
    size_t n;
    int overs; /* ends of the run */
    char outcome[16];
};

__attribute__((format(printf, 2, 3))) static void wrong(struct told *t, const char *fmt, ...)
{
    struct fr_buf b = {0};
    va_list ap;

    va_start(ap, fmt);
    fr_buf_vfmt(&b, fmt, ap);
    va_end(ap);
    world_violated(t->w, "client %zu%s of run %.8s: %.400s", t->i, t->c->json ? " (JSON)" : "",
                   t->c->run, b.p);
    fr_buf_finish(&b);
}

static struct line *line_of(struct told *t, const char *key)
{
    for (size_t i = 0; i < t->n; i++)
        if (strcmp(t->lines[i].key, key) == 0)
            return &t->lines[i];
    return NULL;
}

/* It saw the end of its run. */
static bool is_complete(const struct client *c)
{
    return c->code == 0 || c->code == 1 || c->code == 3 || c->code == 6;
}

/* ---- what the store says ---- */

struct event {
    long seq, wall;
    int idx, no;
    char kind[24];
};

static bool next_event(const char **at, struct event *e)
{
    if (sscanf(*at, "%ld|%ld|%d|%d|%23[a-z_]", &e->seq, &e->wall, &e->idx, &e->no, e->kind) != 5)
        return false;
    *at += strcspn(*at, "\n") + 1;
    return true;
}

static bool is_state(const char *kind, enum fr_state_of *state)
{
    return fr_state_parse(kind, state);
}

/* Waiting is said by some alone. */
static bool is_silent(enum fr_state_of state)
{
    return state == FR_ST_WAITING || state == FR_ST_READY;
}

/* People are not told twice of one state. */
static void want(struct told *t, const struct event *e, enum fr_state_of state, bool away)
{
    struct line *l = &t->lines[e->idx];

    if (is_silent(state))
        ;
    else if (t->c->json)
        fr_buf_fmt(&l->want, "%s %d%s\n", fr_state_name(state), e->no, away ? " away" : "");
    else if (state != l->state || away != l->away)
        fr_buf_fmt(&l->want, "%s\n", fr_state_name(state));
    l->state = state;
    l->away = away;
}

/* A state and its node's being away at the same time are one change. */
static void take_events(struct told *t, const char *rows)
{
    struct event e, next;

    for (bool more = next_event(&rows, &e); more;) {
        const char *behind = rows;
        enum fr_state_of state, other;

        more = next_event(&rows, &next);
        if (e.idx >= 0 && (size_t)e.idx < t->n) {
            const struct event *last = &e;
            bool away = t->lines[e.idx].away, changes = is_state(e.kind, &state);
            bool both = changes && more && next.idx == e.idx && next.wall == e.wall &&
                        !is_state(next.kind, &other);

            if (both)
                last = &next;
            if (!changes)
                state = t->lines[e.idx].state;
            if (strcmp(last->kind, "unreachable") == 0 || strcmp(last->kind, "reachable") == 0)
                away = last->kind[0] == 'u';
            want(t, &e, state, away);
            behind = both ? rows : behind;
        }
        rows = behind;
        more = next_event(&rows, &e);
    }
}

static void read_store(struct told *t)
{
    struct fr_buf sql = {0}, rows = {0};

    fr_buf_fmt(&sql, "SELECT key FROM instance WHERE run = x'%s' ORDER BY idx", t->c->run);
    world_rows(t->w, sql.p, &rows);
    for (const char *p = rows.n > 0 ? rows.p : ""; *p != '\0' && t->n < INSTS;
         p += strcspn(p, "\n") + 1)
        sscanf(p, "%39[^\n]", t->lines[t->n++].key);
    sql.n = rows.n = 0;
    fr_buf_fmt(&sql,
               "SELECT seq, wall, idx, attempt_no, kind FROM event WHERE run = x'%s' AND seq <= "
               "%ld ORDER BY seq",
               t->c->run, is_complete(t->c) ? t->c->seq : 1L << 40);
    world_rows(t->w, sql.p, &rows);
    if (rows.n > 0)
        take_events(t, rows.p);
    fr_buf_finish(&rows);
    fr_buf_finish(&sql);
}

/* ---- what was printed ---- */

/* The first line of an attempt is 1; whoever came later may have missed some. */
static void take_output(struct told *t, const char *key, const char *text)
{
    struct line *l = line_of(t, key);
    int no, line;

    if (l == NULL || sscanf(text, "%*[^.].%d line %d", &no, &line) != 2 || no < 1 || no >= ATTEMPTS)
        return;
    if (line != l->printed[no] + 1 && (l->printed[no] > 0 || t->c->file[0] != '\0'))
        wrong(t, "%s: line %d of attempt %d follows line %d", key, line, no, l->printed[no]);
    l->printed[no] = line;
}

static void take_json(struct told *t, const char *p, size_t n)
{
    json_t *doc = json_loadb(p, n, 0, NULL);
    const char *event = json_string_value(json_object_get(doc, "event"));
    const char *state = json_string_value(json_object_get(doc, "state"));
    const char *text = json_string_value(json_object_get(doc, "text"));
    const char *task = json_string_value(json_object_get(doc, "task"));
    const char *node = json_string_value(json_object_get(doc, "node"));
    char key[40] = "";
    enum fr_state_of is;
    struct line *l;

    if (task != NULL && node != NULL)
        snprintf(key, sizeof(key), "%s@%s", task, node);
    l = line_of(t, key);
    if (event == NULL)
        wrong(t, "not understood: %.*s", (int)n, p);
    else if (strcmp(event, "log") == 0 && text != NULL)
        take_output(t, key, text);
    else if (strcmp(event, "state") == 0 && l != NULL && state != NULL && is_state(state, &is) &&
             !is_silent(is))
        fr_buf_fmt(&l->got, "%s %d%s\n", state,
                   (int)json_integer_value(json_object_get(doc, "attempt")),
                   json_is_true(json_object_get(doc, "unreachable")) ? " away" : "");
    else if (strcmp(event, "run") == 0 && state != NULL && strcmp(state, "over") == 0) {
        const char *outcome = json_string_value(json_object_get(doc, "outcome"));
        snprintf(t->outcome, sizeof(t->outcome), "%s", outcome != NULL ? outcome : "");
        t->overs++;
    }
    json_decref(doc);
}

/* "12:00:00 KEY | text", "12:00:00 KEY state …", "12:00:00 run 1 succeeded". */
static void take_text(struct told *t, const char *p, size_t n)
{
    char text[256], key[40], word[24];
    enum fr_state_of state;
    struct line *l;

    if (n < 10 || p[2] != ':' || p[5] != ':')
        return;
    snprintf(text, sizeof(text), "%.*s", (int)n - 9, p + 9);
    if (sscanf(text, "%39s %23[^ :,]", key, word) != 2)
        return;
    l = line_of(t, key);
    if (l != NULL && strcmp(word, "|") == 0)
        take_output(t, key, text + strlen(key) + 3);
    else if (l != NULL && is_state(word, &state))
        fr_buf_fmt(&l->got, "%s\n", word);
    else if (strcmp(key, "run") == 0 && sscanf(text, "run %*d %15[a-z]", word) == 1 &&
             (strcmp(word, "succeeded") == 0 || strcmp(word, "failed") == 0 ||
              strcmp(word, "cancelled") == 0)) {
        snprintf(t->outcome, sizeof(t->outcome), "%.15s", word);
        t->overs++;
    }
}

static void read_printed(struct told *t)
{
    struct fr_str all = client_printed(t->w, t->i);

    for (size_t at = 0; at < all.n;) {
        const char *p = all.p + at, *nl = memchr(p, '\n', all.n - at);
        size_t n = nl != NULL ? (size_t)(nl - p) : all.n - at;

        if (p[0] == '{')
            take_json(t, p, n);
        else
            take_text(t, p, n);
        at += n + 1;
    }
}

/* ---- the verdict ---- */

/* got is want; of one that did not see the end its beginning, of one that came later its end. */
static bool fits(const struct client *c, const struct fr_buf *want, const struct fr_buf *got)
{
    size_t first = c->file[0] != '\0' ? 0 : want->n - got->n, last = is_complete(c) ? want->n : 0;

    if (got->n > want->n)
        return false;
    if (got->n == 0)
        return c->file[0] == '\0' || !is_complete(c) || want->n == 0;
    if (c->file[0] == '\0' && !is_complete(c)) { /* anywhere */
        for (first = 0; first + got->n <= want->n; first++)
            if (memcmp(want->p + first, got->p, got->n) == 0)
                return true;
        return false;
    }
    return (last == 0 || first + got->n == last) && memcmp(want->p + first, got->p, got->n) == 0;
}

static void check_changes(struct told *t)
{
    for (size_t i = 0; i < t->n; i++) {
        struct line *l = &t->lines[i];

        if (t->c->file[0] == '\0' && !t->c->json)
            continue; /* what it knew before it came does not show */
        if (!fits(t->c, &l->want, &l->got))
            wrong(t, "%s changed\n%.*s and it printed\n%.*s", l->key, (int)l->want.n, l->want.p,
                  (int)l->got.n, l->got.p);
    }
}

static int lines_at_home(const struct world *w, const char *run, const char *log)
{
    char path[400];
    const struct sim_inode *inode;
    int n = 0;

    snprintf(path, sizeof(path), "%s/runs/%s/%s", w->home, run, log);
    inode = sim_lookup(&w->sim.machines[0], path);
    for (size_t i = 0; inode != NULL && i < inode->n; i++)
        n += inode->data[i] == '\n';
    return n;
}

/* Of one that saw all of its run. */
static void check_output(struct told *t)
{
    struct fr_buf sql = {0}, rows = {0};
    char key[40], log[128];
    int no;

    fr_buf_fmt(&sql,
               "SELECT i.key, a.no, a.log FROM attempt a JOIN instance i ON i.run = a.run AND "
               "i.idx = a.idx WHERE a.run = x'%s' AND a.log <> '' AND a.ended_wall <= "
               "(SELECT max(wall) FROM event e WHERE e.run = a.run AND e.seq <= %ld)",
               t->c->run, t->c->seq);
    world_rows(t->w, sql.p, &rows);
    for (const char *p = rows.n > 0 ? rows.p : ""; *p != '\0'; p += strcspn(p, "\n") + 1) {
        const struct line *l;
        int want;

        if (sscanf(p, "%39[^|]|%d|%127[^\n]", key, &no, log) != 3 || no >= ATTEMPTS)
            continue;
        l = line_of(t, key);
        want = lines_at_home(t->w, t->c->run, log);
        if (l != NULL && l->printed[no] != want)
            wrong(t, "%s attempt %d has %d lines, %d were printed", key, no, want, l->printed[no]);
    }
    fr_buf_finish(&rows);
    fr_buf_finish(&sql);
}

static void check_code(struct told *t)
{
    static const struct {
        const char *outcome;
        int code;
    } ends[] = {{"succeeded", 0}, {"cancelled", 3}, {"failed", 1}};
    const struct client *c = t->c;

    for (size_t i = 0; is_complete(c) && i < 3; i++)
        if (strcmp(c->outcome, ends[i].outcome) == 0 && c->code != ends[i].code &&
            !(c->code == 6 && ends[i].code == 1))
            wrong(t, "its run %s, and its exit code is %d", c->outcome, c->code);
    if (is_complete(c) && c->outcome[0] == '\0')
        wrong(t, "its exit code is %d, and its run is not over", c->code);
    if (is_complete(c) && c->file[0] != '\0' &&
        (t->overs != 1 || strcmp(t->outcome, c->outcome) != 0))
        wrong(t, "it printed %d ends of its run, which %s: %s", t->overs, c->outcome, t->outcome);
}

static void check_one(struct told *t, bool whole)
{
    read_store(t);
    read_printed(t);
    check_changes(t);
    check_code(t);
    if (whole && is_complete(t->c) && t->c->file[0] != '\0')
        check_output(t);
    for (size_t i = 0; i < t->n; i++) {
        fr_buf_finish(&t->lines[i].want);
        fr_buf_finish(&t->lines[i].got);
    }
}

void told_check(struct world *w, bool whole)
{
    for (size_t i = 0; i < w->n_clients && !w->failed; i++)
        if (w->clients[i].run[0] != '\0') {
            struct told *t = calloc(1, sizeof(*t));

            *t = (struct told){.w = w, .c = &w->clients[i], .i = i};
            check_one(t, whole);
            free(t);
        }
}
