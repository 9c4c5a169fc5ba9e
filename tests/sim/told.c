#include "tests/sim/told.h"

#include "engine/base/json.h"
#include "engine/run/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INSTS = 64, ATTEMPTS = 80 };

static const int64_t SILENT_US = 10000000; /* who waits longer for the host gives up */

/* A row of the run's story. */
struct event {
    long seq, wall;
    int idx, no;
    char kind[24];
};

/* Lines of an attempt's output, each with its number. */
struct printed {
    int first, last; /* 0: none */
};

struct line { /* of one instance */
    char key[40];
    struct fr_buf want, got; /* changes, a line each */
    enum fr_state_of state;  /* of want: the last one */
    bool away;
    struct printed printed[ATTEMPTS];
};

struct told {
    struct world *w;
    const struct client *c;
    size_t i;      /* among the clients */
    unsigned held; /* see told_check() */
    struct line lines[INSTS];
    size_t n;
    struct event *events; /* owns: those that were committed while it lived, in their order */
    size_t n_events;
    long from;  /* the newest event that it knew before it showed any */
    int begins; /* of the run, as printed … */
    int overs;  /* … and its ends */
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
    return c->code == 0 || c->code == 3;
}

/* Its run began with it: nothing happened before. */
static bool is_first(const struct client *c)
{
    return c->file[0] != '\0';
}

/* ---- what the store says ---- */

static void read_keys(struct told *t)
{
    struct fr_buf sql = {0}, rows = {0};

    fr_buf_fmt(&sql, "SELECT key FROM instance WHERE run = x'%s' ORDER BY idx", t->c->run);
    world_rows(t->w, sql.p, &rows);
    for (const char *p = rows.n > 0 ? rows.p : ""; *p != '\0' && t->n < INSTS;
         p += strcspn(p, "\n") + 1)
        sscanf(p, "%39[^\n]", t->lines[t->n++].key);
    fr_buf_finish(&rows);
    fr_buf_finish(&sql);
}

static void read_events(struct told *t)
{
    struct fr_buf sql = {0}, rows = {0};
    size_t n = 0;

    fr_buf_fmt(&sql,
               "SELECT seq, wall, idx, attempt_no, kind FROM event WHERE run = x'%s' AND seq <= "
               "%ld ORDER BY seq",
               t->c->run, t->c->seq);
    world_rows(t->w, sql.p, &rows);
    for (size_t i = 0; i < rows.n; i++)
        n += rows.p[i] == '\n';
    t->events = calloc(n + 1, sizeof(*t->events));
    for (const char *p = n > 0 ? rows.p : ""; *p != '\0'; p += strcspn(p, "\n") + 1) {
        struct event *e = &t->events[t->n_events];

        t->n_events +=
            sscanf(p, "%ld|%ld|%d|%d|%23[a-z_]", &e->seq, &e->wall, &e->idx, &e->no, e->kind) == 5;
    }
    fr_buf_finish(&rows);
    fr_buf_finish(&sql);
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

    if (e->seq <= t->from || is_silent(state))
        ;
    else if (t->c->json)
        fr_buf_fmt(&l->want, "%s %d%s\n", fr_state_name(state), e->no, away ? " away" : "");
    else if (state != l->state || away != l->away)
        fr_buf_fmt(&l->want, "%s\n", fr_state_name(state));
    l->state = state;
    l->away = away;
}

/* An end, and that its node's being away matters no more, are one change. How many rows it has. */
static size_t want_change(struct told *t, size_t i)
{
    const struct event *e = &t->events[i], *last = e;
    enum fr_state_of state = t->lines[e->idx].state;
    bool away = t->lines[e->idx].away, changes = fr_state_parse(e->kind, &state);

    if (changes && i + 1 < t->n_events && e[1].idx == e->idx && e[1].wall == e->wall &&
        strcmp(e[1].kind, "reachable") == 0)
        last = &e[1];
    if (strcmp(last->kind, "unreachable") == 0 || strcmp(last->kind, "reachable") == 0)
        away = last->kind[0] == 'u';
    want(t, e, state, away);
    return (size_t)(last - e) + 1;
}

/* What who knew all up to t->from was to print. */
static void want_all(struct told *t)
{
    for (size_t i = 0; i < t->n; i++) {
        struct line *l = &t->lines[i];

        l->want.n = 0;
        l->state = FR_ST_WAITING;
        l->away = false;
    }
    for (size_t i = 0; i < t->n_events;)
        i += t->events[i].idx >= 0 && (size_t)t->events[i].idx < t->n ? want_change(t, i) : 1;
}

/* ---- what was printed ---- */

static bool is_robbed(const struct world *w)
{
    for (size_t i = 0; i < w->n_clients; i++)
        if (w->clients[i].robbed)
            return true;
    return false;
}

/* A host whose lock was taken away and the next one write the same logs: neither shows what the
 * other one wrote. */
static bool may_skip(const struct told *t)
{
    return t->c->led && is_robbed(t->w);
}

/* The line that was to come, less its end, which its node lost: "line 1" of "line 12". */
static bool is_torn(const struct told *t, const char *key, int want, int got)
{
    bool lost = t->held >> world_machine(strchr(key, '@') + 1) & 1;

    while (lost && want > got)
        want /= 10;
    return lost && want == got;
}

/* A line of an attempt's output, or a part of one: its beginning where the node lost the rest, its
 * end where the client came in the middle of it. */
static void take_output(struct told *t, const char *key, const char *text)
{
    struct line *l = line_of(t, key);
    struct printed *p;
    char whole[64];
    int no = 0, line = 0;

    if (l == NULL)
        return;
    if (sscanf(text, "%*[^.].%d line %d", &no, &line) == 2 && no > 0 && no < ATTEMPTS)
        snprintf(whole, sizeof(whole), "%.*s.%d line %d", (int)strcspn(key, "@"), key, no, line);
    else
        whole[0] = '\0';
    if (strcmp(whole, text) != 0)
        return;
    p = &l->printed[no];
    if (p->last > 0 && line != p->last + 1 && is_torn(t, key, p->last + 1, line))
        return;
    if (p->last > 0 && line != p->last + 1 && (line < p->last || !may_skip(t)))
        wrong(t, "%s: line %d of attempt %d follows line %d", key, line, no, p->last);
    p->first = p->last == 0 ? line : p->first;
    p->last = line;
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
    else if (strcmp(event, "begin") == 0)
        t->begins++;
    else if (strcmp(event, "log") == 0 && text != NULL)
        take_output(t, key, text);
    else if (strcmp(event, "state") == 0 && l != NULL && state != NULL &&
             fr_state_parse(state, &is) && !is_silent(is))
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

/* "run 1 (39fe705e) of p: …", "run 1 succeeded". */
static void take_run(struct told *t, const char *text)
{
    char word[16];

    if (sscanf(text, "run %*d (%15[0-9a-f]) of", word) == 1) {
        t->begins++;
    } else if (sscanf(text, "run %*d %15[a-z]", word) == 1 &&
               (strcmp(word, "succeeded") == 0 || strcmp(word, "failed") == 0 ||
                strcmp(word, "cancelled") == 0)) {
        snprintf(t->outcome, sizeof(t->outcome), "%s", word);
        t->overs++;
    }
}

/* "12:00:00 KEY | text", "12:00:00 KEY state …", "12:00:00 run …". */
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
    else if (l != NULL && fr_state_parse(word, &state))
        fr_buf_fmt(&l->got, "%s\n", word);
    else if (strcmp(key, "run") == 0)
        take_run(t, text);
}

/* The last line of a client that a signal ended may be cut short, and says nothing. */
static void read_printed(struct told *t)
{
    struct fr_str all = client_printed(t->w, t->i);

    for (size_t at = 0; at < all.n;) {
        const char *p = all.p + at, *nl = memchr(p, '\n', all.n - at);
        size_t n = nl != NULL ? (size_t)(nl - p) : all.n - at;

        if (nl == NULL && t->c->code < 0)
            ;
        else if (nl == NULL)
            wrong(t, "its last line has no end: %.*s", (int)n, p);
        else if (p[0] == '{')
            take_json(t, p, n);
        else
            take_text(t, p, n);
        at += n + 1;
    }
}

/* ---- the verdict ---- */

/* got is want; of one that did not see the end, its beginning. */
static bool fits(const struct client *c, const struct line *l)
{
    if (is_complete(c) ? l->got.n != l->want.n : l->got.n > l->want.n)
        return false;
    return l->got.n == 0 || memcmp(l->want.p, l->got.p, l->got.n) == 0;
}

/* An instance whose changes were not those behind t->from; NULL: there is none. */
static const struct line *misfit(struct told *t)
{
    want_all(t);
    for (size_t i = 0; i < t->n; i++)
        if (!fits(t->c, &t->lines[i]))
            return &t->lines[i];
    return NULL;
}

/* Who printed no end of the run knew it before. */
static void take_end_as_known(struct told *t)
{
    long from = t->from;

    if (is_first(t->c) || t->overs > 0)
        return;
    t->from = t->c->seq;
    if (misfit(t) != NULL)
        t->from = from;
}

/* Who came to a run that went on knew what had happened until some moment since then: of all
 * instances the same one. */
static void check_changes(struct told *t)
{
    const struct line *l;

    t->from = is_first(t->c) ? 0 : t->c->since;
    l = misfit(t);
    for (size_t i = 0; l != NULL && !is_first(t->c) && i < t->n_events; i++)
        if (t->events[i].seq > t->c->since) {
            t->from = t->events[i].seq;
            l = misfit(t);
        }
    if (l == NULL) {
        take_end_as_known(t);
        return;
    }
    t->from = is_first(t->c) ? 0 : t->c->since;
    l = misfit(t);
    wrong(t, "behind %ld %s changed\n%.*s and it printed\n%.*s", t->from, l->key, (int)l->want.n,
          l->want.p, (int)l->got.n, l->got.p);
}

static int lines_in(const struct sim_machine *m, const char *path)
{
    const struct sim_inode *inode = sim_lookup(m, path);
    int n = 0;

    for (size_t i = 0; inode != NULL && i < inode->n; i++)
        n += inode->data[i] == '\n';
    return n;
}

/* Whether it knew that the attempt began before it showed anything. */
static bool knew(const struct told *t, const struct line *l, int no)
{
    for (size_t i = 0; i < t->n_events && t->events[i].seq <= t->from; i++)
        if (t->events[i].idx == (int)(l - t->lines) && t->events[i].no == no)
            return true;
    return false;
}

/* An attempt's row. */
struct attempt {
    char id[40], log[128];
    int no;
    int over; /* it ended in the client's time */
    int done; /* its node may forget it */
};

/* It began before the client, which came to a run that went on. No row tells of one that a host had
 * booked. */
static bool is_older(const struct told *t, const struct attempt *a)
{
    const struct record *r = world_record(t->w, a->id);

    return !is_first(t->c) && r != NULL && r->spawned_us < t->c->began_us;
}

/* It ended without the last output, as the host that copies logs was stopped for too long. */
static bool gave_up(const struct told *t)
{
    for (size_t i = 0; i < t->w->n_pauses; i++) {
        const struct client_pause *p = &t->w->pauses[i];

        if (p->host && p->from_us + SILENT_US <= t->c->ended_us && t->c->ended_us <= p->until_us)
            return true;
    }
    return false;
}

/* Nothing is lost: what is not at home is still on the node, which may not forget it. */
static void check_lines(struct told *t, const struct line *l, const struct attempt *a)
{
    const struct printed *p = &l->printed[a->no];
    int machine = world_machine(strchr(l->key, '@') + 1), home, there;
    bool lost = t->held >> machine & 1, late = knew(t, l, a->no) || is_older(t, a);
    bool all = a->over && is_complete(t->c) && !lost && !may_skip(t) && !gave_up(t);
    char path[400];

    snprintf(path, sizeof(path), "%s/runs/%s/%s", t->w->home, t->c->run, a->log);
    home = lines_in(&t->w->sim.machines[0], path);
    snprintf(path, sizeof(path), "/node/log/%s", a->id);
    there = a->done ? 0 : lines_in(&t->w->sim.machines[machine], path);
    if (p->last > (home > there ? home : there) && !lost)
        wrong(t, "%s attempt %d has %d lines (its node %d), and line %d was printed", l->key, a->no,
              home, there, p->last);
    if (p->last > 0 && p->first != 1 && !late && !may_skip(t))
        wrong(t, "%s attempt %d: line %d was printed first", l->key, a->no, p->first);
    if (all && p->last < home && !(late && p->last == 0))
        wrong(t, "%s attempt %d has %d lines, %d were printed", l->key, a->no, home, p->last);
}

static void check_output(struct told *t)
{
    struct fr_buf sql = {0}, rows = {0};
    char key[40];
    struct attempt a;

    fr_buf_fmt(&sql,
               "SELECT i.key, lower(hex(a.id)), a.no, a.done, a.ended_wall <> 0 AND a.ended_wall "
               "<= (SELECT max(wall) FROM event e WHERE e.run = a.run AND e.seq <= %ld), a.log "
               "FROM attempt a JOIN instance i ON i.run = a.run AND i.idx = a.idx WHERE a.run = "
               "x'%s' AND a.log <> ''",
               t->c->seq, t->c->run);
    world_rows(t->w, sql.p, &rows);
    for (const char *p = rows.n > 0 ? rows.p : ""; *p != '\0'; p += strcspn(p, "\n") + 1) {
        const struct line *l;

        if (sscanf(p, "%39[^|]|%39[^|]|%d|%d|%d|%127[^\n]", key, a.id, &a.no, &a.done, &a.over,
                   a.log) == 6 &&
            a.no < ATTEMPTS && (l = line_of(t, key)) != NULL)
            check_lines(t, l, &a);
    }
    fr_buf_finish(&rows);
    fr_buf_finish(&sql);
}

/* It waited long enough for a host that was stopped; or was stopped itself, which is the same to
 * it. */
static bool met_silence(const struct world *w, const struct client *c)
{
    for (size_t i = 0; i < w->n_pauses; i++) {
        const struct client_pause *p = &w->pauses[i];
        int64_t from = p->from_us > c->began_us ? p->from_us : c->began_us;
        int64_t until = p->until_us < c->ended_us ? p->until_us : c->ended_us;

        if ((p->host || p->who == c) && until - from >= SILENT_US)
            return true;
    }
    return false;
}

static bool said(const struct told *t, const char *what)
{
    struct fr_str all = client_printed(t->w, t->i);

    return memmem(all.p, all.n, what, strlen(what)) != NULL;
}

static bool may_end(const struct told *t)
{
    const struct client *c = t->c;

    if (c->older && is_first(c) && t->n_events > 0)
        return false; /* it is refused */
    switch (c->code) {
    case -1: /* a signal ended it */
        return true;
    case 0:
        return strcmp(c->outcome, "succeeded") == 0;
    case 3:
        return strcmp(c->outcome, "cancelled") == 0;
    case 2: /* its run ended meanwhile, or was not made yet */
        return (!is_first(c) && (c->outcome[0] != '\0' || c->since == 0)) ||
               (c->robbed && c->outcome[0] != '\0');
    case 4: /* one Ctrl-C is enough where no host was asked for its run yet */
        return c->left || (c->nested && c->terminated) ||
               (c->cancelled && said(t, "left (Ctrl-C)"));
    case 5: /* the host does not answer */
        return met_silence(t->w, c);
    case 7: /* another one is the host; or who it asked says so of itself; or it is refused */
        return (is_robbed(t->w) && said(t, "became the host")) ||
               (c->older && (said(t, "use a newer one") || said(t, "is a newer flowrun")));
    default:
        return false; /* no run fails here */
    }
}

static void check_code(struct told *t)
{
    const struct client *c = t->c;
    struct fr_str all = client_printed(t->w, t->i);

    if (!may_end(t))
        wrong(t, "its run %s, and it ended with %d: %.*s", c->outcome, c->code,
              (int)(all.n < 300 ? all.n : 300), all.p + (all.n < 300 ? 0 : all.n - 300));
    if (said(t, "run 0 "))
        wrong(t, "it printed a run 0");
    if (t->begins > 1 || t->overs > 1 ||
        (is_complete(c) && (t->begins != 1 || (t->overs != 1 && t->from < c->seq))))
        wrong(t, "it printed %d begins and %d ends of its run", t->begins, t->overs);
    if (t->overs > 0 && strcmp(t->outcome, c->outcome) != 0)
        wrong(t, "its run %s, and it printed %s", c->outcome, t->outcome);
}

static void check_one(struct told *t)
{
    read_keys(t);
    read_events(t);
    read_printed(t);
    check_changes(t);
    check_code(t);
    check_output(t);
    for (size_t i = 0; i < t->n; i++) {
        fr_buf_finish(&t->lines[i].want);
        fr_buf_finish(&t->lines[i].got);
    }
    free(t->events);
}

void told_check(struct world *w, unsigned held)
{
    for (size_t i = 0; i < w->n_clients && !w->failed; i++)
        if (w->clients[i].run[0] != '\0') {
            struct told *t = calloc(1, sizeof(*t));

            *t = (struct told){.w = w, .c = &w->clients[i], .i = i, .held = held};
            check_one(t);
            free(t);
        }
}
