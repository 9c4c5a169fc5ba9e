/* Whether each decision is right. The store is looked at behind each commit; what is new in it is
 * compared with what follows from the rows of before, the clock and the lists of fires. */
#include "tests/fault/fires.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LATE_US = 300000000, /* so long something may stay undecided under a steady host */
    EARLY_MS = 8,
    EXPECTED = 8, /* decisions at a time: a limit and one more */
};

static const char *const run_words[] = {"ran", "skipped", "invalid", NULL};

/* ---- the clock ---- */

int64_t fires_wall_ms(void)
{
    struct sim_proc *cur = sim->cur;
    int64_t ms;

    sim->cur = NULL;
    ms = fr_sys.wall_ms();
    sim->cur = cur;
    return ms;
}

void fires_unsteady(struct fires_court *c, int64_t until_us)
{
    if (c->steady_us < until_us)
        c->steady_us = until_us;
}

bool fires_is_steady(const struct fires_court *c, int64_t us)
{
    return c->w->sim.now_us - c->steady_us > us;
}

/* ---- versions ---- */

bool fires_may_go_by(const struct fires_judged *j, size_t v)
{
    return v >= j->oldest &&
           almanac_same(&j->plan->versions[v].rule, &j->plan->versions[j->rule].rule);
}

/* The first one that a steady host may go by: of a whole file only the newest. */
static size_t first_known(const struct fires_judged *j)
{
    size_t v = j->file->broken ? j->oldest : j->plan->n - 1;

    while (v + 1 < j->plan->n && !fires_may_go_by(j, v))
        v++;
    return v;
}

/* ---- what is due ---- */

/* A schedule at a version, at a time: what is asked of it. */
struct at {
    struct fires_court *c;
    const struct fires_judged *j;
    const struct fires_version *v;
    int64_t now_ms;
};

struct fires_run *fires_run(struct fires_court *c, int64_t no)
{
    size_t n = (size_t)no + 1;

    if (n > c->n_runs) {
        c->runs = realloc(c->runs, 2 * n * sizeof(*c->runs));
        if (c->runs == NULL)
            abort();
        memset(c->runs + c->n_runs, 0, (2 * n - c->n_runs) * sizeof(*c->runs));
        c->n_runs = 2 * n;
    }
    return &c->runs[no];
}

static bool is_covered(const struct fires_judged *j, int64_t ms)
{
    for (size_t i = 0; i < j->n_rows; i++)
        if (j->rows[i].first_ms <= ms && ms <= j->rows[i].at_ms)
            return true;
    return false;
}

/* The first fire that is not decided, of version v; INT64_MAX: none. */
static int64_t undecided(const struct fires_judged *j, const struct fires_version *v)
{
    for (size_t i = almanac_upto(&v->fires, j->seen_ms / 1000 - (j->seen_ms % 1000 < 0));
         i < v->fires.n; i++)
        if (v->fires.fires[i] * 1000 > j->seen_ms && !is_covered(j, v->fires.fires[i] * 1000))
            return v->fires.fires[i] * 1000;
    return INT64_MAX;
}

struct expected {
    bool runs;
    bool late;
    int64_t first_ms, at_ms, count;
};

struct due {
    int64_t *list;
    size_t n;
};

static struct due list_due(const struct at *at)
{
    const struct fires_judged *j = at->j;
    const struct fires_version *v = at->v;
    struct due due = {NULL, 0};
    size_t from = almanac_upto(&v->fires, j->seen_ms / 1000 - (j->seen_ms % 1000 < 0));

    due.list = malloc((v->fires.n - from + 1) * sizeof(*due.list));
    for (size_t i = from; i < v->fires.n; i++) {
        int64_t ms = v->fires.fires[i] * 1000;

        if (ms + v->delay_ms > at->now_ms)
            break;
        if (ms > j->seen_ms && !is_covered(j, ms))
            due.list[due.n++] = ms;
    }
    return due;
}

/* What is decided then; its number. */
static size_t expect(const struct at *at, struct expected out[EXPECTED])
{
    const struct fires_version *v = at->v;
    int64_t now_ms = at->now_ms;
    struct due due = list_due(at);
    size_t n = 0, runs = 0, rest;
    int64_t grace_ms = v->grace_s * 1000;

    if (due.n > 0 && !at->j->paused)
        runs = v->catchup == CATCH_ALL    ? (size_t)v->limit
               : v->catchup == CATCH_LAST ? 1
                                          : now_ms - due.list[due.n - 1] - v->delay_ms <= grace_ms;
    rest = due.n > runs ? due.n - runs : 0;
    if (rest > 0)
        out[n++] = (struct expected){false, false, due.list[0], due.list[rest - 1], (int64_t)rest};
    for (size_t i = rest; i < due.n; i++)
        out[n++] = (struct expected){true, now_ms - due.list[i] - v->delay_ms > grace_ms,
                                     due.list[i], due.list[i], 1};
    free(due.list);
    return n;
}

/* ---- runs ---- */

static const struct fires_live *find_live(const struct fires_live *live, size_t n, int64_t no)
{
    for (size_t i = 0; i < n; i++)
        if (live[i].no == no)
            return &live[i];
    return NULL;
}

void fires_read_live(struct fires_court *c)
{
    struct fr_buf rows = {0};
    size_t cap = 0;

    free(c->before);
    c->before = c->live;
    c->n_before = c->n_live;
    c->live = NULL;
    c->n_live = 0;
    world_rows(c->w,
               "SELECT no, schedule, name, origin, state FROM run WHERE state <> 'over' ORDER BY "
               "no",
               &rows);
    for (const char *p = rows.n > 0 ? rows.p : ""; *p != '\0'; p += strcspn(p, "\n") + 1) {
        struct fires_live *r;

        if (c->n_live == cap) {
            cap = cap > 0 ? 2 * cap : 16;
            c->live = realloc(c->live, cap * sizeof(*c->live));
        }
        r = &c->live[c->n_live];
        if (sscanf(p, "%" SCNd64 "|%" SCNd64 "|%7[^|]|%11[^|]|%11[^\n]", &r->no, &r->schedule,
                   r->pipeline, r->origin, r->state) == 5)
            c->n_live++;
    }
    fr_buf_finish(&rows);
}

/* It counts for the overlap of a run of j. */
static bool counts(const struct fires_judged *j, const struct fires_live *r, const char *origin)
{
    if (strcmp(r->pipeline, j->file->pipeline) != 0 || strcmp(r->origin, "backfill") == 0)
        return false;
    return !(r->schedule == j->id && strcmp(origin, "catchup") == 0 &&
             strcmp(r->origin, "catchup") == 0);
}

struct run_row {
    int64_t schedule, at_ms, priority;
    char origin[12], outcome[12], name[8];
};

static bool read_run(struct fires_court *c, int64_t no, struct run_row *out)
{
    struct fr_buf sql = {0}, row = {0};
    bool ok;

    *out = (struct run_row){0};
    fr_buf_fmt(&sql,
               "SELECT schedule, at_ms, priority, name, origin, outcome FROM run WHERE no = %lld",
               (long long)no);
    world_rows(c->w, sql.p, &row);
    ok = row.n > 0 && sscanf(row.p, "%" SCNd64 "|%" SCNd64 "|%" SCNd64 "|%7[^|]|%11[^|]|%11[^\n]",
                             &out->schedule, &out->at_ms, &out->priority, out->name, out->origin,
                             out->outcome) >= 5;
    fr_buf_finish(&row);
    fr_buf_finish(&sql);
    return ok;
}

/* ---- one decision ---- */

void fires_wrong(struct fires_court *c, const struct fires_judged *j, const struct fires_row *r,
                 const char *why)
{
    char at[40];

    almanac_time(0, r->at_ms / 1000, at);
    world_violated(c->w, "%s/%s: %s at %s (%lld since %lld, run %lld, decided %lld): %s", j->source,
                   j->name, r->decision, at, (long long)r->count, (long long)r->first_ms,
                   (long long)r->run, (long long)r->decided_wall, why);
}

/* A run beside which the policy lets none begin; 0: none. */
static int64_t in_the_way(const struct at *at, const char *origin, int64_t no)
{
    for (size_t i = 0; i < at->c->n_live; i++) {
        const struct fires_live *r = &at->c->live[i];

        if (r->no < no && counts(at->j, r, origin) &&
            (at->v->overlap == OVER_SKIP ||
             (at->v->overlap == OVER_CANCEL && r->schedule != at->j->id)))
            return r->no;
    }
    return 0;
}

/* What was known of its schedule when the run was made. */
static void keep_previous(struct fires_court *c, const struct fires_judged *j,
                          const struct fires_row *r)
{
    struct fires_run *run = fires_run(c, r->run);

    run->racing = c->w->sim.now_us - j->ended_us < 10000000;
    run->previous_ms = 0;
    for (size_t i = 0; i < j->n_rows; i++)
        if (j->rows[i].at_ms < r->at_ms && strcmp(j->rows[i].outcome, "succeeded") == 0)
            run->previous_ms = j->rows[i].at_ms;
}

static const char *judge_ran(const struct at *at, const struct fires_row *r,
                             const struct expected *e)
{
    struct fires_court *c = at->c;
    const struct fires_judged *j = at->j;
    struct run_row run;
    int64_t way;

    if (!read_run(c, r->run, &run))
        return "its run is not there";
    if (run.schedule != j->id || run.at_ms != r->at_ms || strcmp(run.name, j->file->pipeline) != 0)
        return "its run is another one's";
    if (strcmp(run.origin, "schedule") != 0 && strcmp(run.origin, "catchup") != 0)
        return "its run's origin";
    if (e->late && strcmp(run.origin, "catchup") != 0)
        return "it is late, and its run does not say so";
    if (strcmp(r->decision, "invalid") == 0)
        return strcmp(run.outcome, "failed") == 0 ? NULL : "its run has not failed";
    if (run.priority != at->v->priority)
        return "its run's priority";
    keep_previous(c, j, r);
    way = in_the_way(at, run.origin, r->run);
    if (way != 0 && find_live(c->before, c->n_before, way) != NULL)
        return "it runs beside another one";
    return NULL;
}

static const char *judge_skipped(const struct at *at, const struct fires_row *r)
{
    const struct fires_court *c = at->c;
    const struct fires_live *other = find_live(c->live, c->n_live, r->run);

    if (at->v->overlap == OVER_QUEUE || at->v->overlap == OVER_PARALLEL)
        return "its policy skips nothing";
    if (other == NULL)
        other = find_live(c->before, c->n_before, r->run);
    if (other == NULL)
        return "the run in its way is over";
    if (strcmp(other->pipeline, at->j->file->pipeline) != 0 ||
        (at->v->overlap == OVER_CANCEL && other->schedule == at->j->id))
        return "that run is not in its way";
    return NULL;
}

static bool has_word(const char *const *words, const char *word)
{
    while (*words != NULL && strcmp(*words, word) != 0)
        words++;
    return *words != NULL;
}

/* Of all that is decided then, these rows are the first ones, or all. */
static const char *judge_at(const struct at *at, const struct fires_rows *news)
{
    struct expected e[EXPECTED];
    size_t have = expect(at, e);
    const char *rest = at->j->paused                 ? "paused"
                       : at->v->catchup == CATCH_ALL ? "dropped"
                                                     : "missed";
    const char *why = have < news->n ? "nothing is due" : NULL;

    if (why == NULL && news->n < have && !e[news->n - 1].runs)
        why = "what runs is not decided with it";
    for (size_t i = 0; i < news->n && why == NULL; i++) {
        const struct fires_row *r = &news->rows[i];

        if (r->at_ms != e[i].at_ms || r->first_ms != e[i].first_ms || r->count != e[i].count)
            why = "other fires are due";
        else if (!e[i].runs)
            why = strcmp(r->decision, rest) == 0 ? NULL : "it is not what becomes of it";
        else if (!has_word(run_words, r->decision))
            why = "it should run";
        else if (strcmp(r->decision, "skipped") == 0)
            why = judge_skipped(at, r);
        else
            why = judge_ran(at, r, &e[i]);
    }
    return why;
}

/* The host decided a moment before it wrote when. */
void fires_judge(struct fires_court *c, struct fires_judged *j, const struct fires_rows *news)
{
    const char *why = "it has no version";
    const struct fires_row *newest = &news->rows[news->n - 1];

    c->decisions += news->n;
    for (size_t v = j->oldest; v < j->plan->n && why != NULL; v++)
        for (int64_t early = 0; early <= EARLY_MS && why != NULL; early += 2)
            if (fires_may_go_by(j, v))
                why = judge_at(
                    &(struct at){c, j, &j->plan->versions[v], newest->decided_wall - early}, news);
    if (why == NULL && fires_is_steady(c, FIRES_SETTLE_US) &&
        strcmp(newest->decision, j->file->broken ? "ran" : "invalid") == 0)
        why = j->file->broken ? "its file is broken" : "its file is whole";
    if (why != NULL)
        fires_wrong(c, j, newest, why);
}

/* ---- between the commits ---- */

static bool is_served(const struct fires_judged *j)
{
    return j->gone_wall == 0 && j->file->there && j->plan->there &&
           strcmp(j->file->path, j->source) == 0;
}

void fires_check_lost(struct fires_court *c)
{
    int64_t then = fires_wall_ms() - LATE_US / 1000;

    if (!fires_is_steady(c, LATE_US + FIRES_SETTLE_US))
        return;
    for (size_t i = 0; i < c->n_judged && !c->w->failed; i++) {
        struct fires_judged *j = &c->judged[i];
        struct expected e[EXPECTED];
        bool lost = is_served(j);

        for (size_t v = first_known(j); lost && v < j->plan->n; v++)
            if (!j->file->broken || fires_may_go_by(j, v))
                lost = expect(&(struct at){c, j, &j->plan->versions[v], then}, e) > 0;
        if (lost)
            world_violated(c->w, "%s/%s: what was due at %lld is not decided", j->source, j->name,
                           (long long)e[0].at_ms);
    }
}

/* Its file is broken: a host that was away when it was left out knows the text of before. */
static bool may_stay(const struct fires_judged *j)
{
    return j->file->there && j->file->broken && strcmp(j->file->path, j->source) == 0;
}

void fires_check_known(struct fires_court *c)
{
    if (!fires_is_steady(c, FIRES_SETTLE_US))
        return;
    for (size_t f = 0; f < FIRES_FILES; f++)
        for (size_t i = 0; i < c->files[f].n && c->files[f].there && !c->files[f].broken; i++) {
            struct fires_judged *j = NULL;

            for (size_t k = 0; k < c->n_judged; k++)
                if (c->judged[k].plan == &c->files[f].schedules[i] && is_served(&c->judged[k]))
                    j = &c->judged[k];
            if (c->files[f].schedules[i].there && j == NULL)
                world_violated(c->w, "%s/s%zu is not known", c->files[f].path, i);
            else if (j != NULL && !almanac_same(&j->plan->versions[j->rule].rule,
                                                &j->plan->versions[j->plan->n - 1].rule))
                world_violated(c->w, "%s/s%zu goes by a rule of before", c->files[f].path, i);
            else if (j != NULL)
                j->oldest = j->plan->n - 1;
        }
    for (size_t k = 0; k < c->n_judged; k++)
        if (c->judged[k].gone_wall == 0 && !is_served(&c->judged[k]) && !may_stay(&c->judged[k]))
            world_violated(c->w, "%s/%s is not gone", c->judged[k].source, c->judged[k].name);
    c->back_us = c->back_us >= 0 && fires_is_steady(c, FIRES_SETTLE_US) ? -1 : c->back_us;
}

int64_t fires_next_us(struct fires_court *c)
{
    int64_t next = INT64_MAX, to_us = c->w->sim.now_us - fires_wall_ms() * 1000;

    for (size_t i = 0; i < c->n_judged; i++) {
        struct fires_judged *j = &c->judged[i];
        const struct fires_version *v = &j->plan->versions[first_known(j)];
        int64_t at = is_served(j) ? undecided(j, v) : INT64_MAX;

        if (at != INT64_MAX && (at + v->delay_ms) * 1000 + to_us < next)
            next = (at + v->delay_ms) * 1000 + to_us;
    }
    return next;
}

bool fires_all_over(const struct fires_court *c)
{
    return c->n_live == 0;
}

void fires_court_free(struct fires_court *c)
{
    for (size_t i = 0; i < c->n_judged; i++)
        free(c->judged[i].rows);
    for (size_t i = 0; i < FIRES_FILES; i++)
        fires_free(&c->files[i]);
    free(c->live);
    free(c->before);
    free(c->runs);
}
