/* The store behind each commit, beside what it was: schedules that come, change and go, rows of
 * instants that change. What is new among those is judged (fires_judge.c). */
#include "tests/fault/fires.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DAY_MS = 86400000 };

/* ---- rows that change ---- */

static void judge_change(struct fires_court *c, struct fires_judged *j, const struct fires_row *old,
                         const struct fires_row *now)
{
    bool superseded = strcmp(old->decision, "ran") == 0 && strcmp(now->decision, "superseded") == 0;

    if (strcmp(old->outcome, now->outcome) != 0)
        j->ended_us = c->w->sim.now_us;
    if (old->first_ms != now->first_ms || old->count != now->count ||
        old->decided_wall != now->decided_wall || old->run != now->run)
        fires_wrong(c, j, now, "a decision changed");
    else if (strcmp(old->decision, now->decision) != 0 && !superseded)
        fires_wrong(c, j, now, "a decision became another one");
    else if (old->outcome[0] != '\0' && strcmp(old->outcome, now->outcome) != 0)
        fires_wrong(c, j, now, "an outcome became another one");
    else if (strcmp(now->decision, "superseded") == 0 && now->outcome[0] != '\0' &&
             strcmp(now->outcome, "cancelled") != 0)
        fires_wrong(c, j, now, "its run was not cancelled");
}

/* A schedule as it is now, beside what it was. */
struct beside {
    struct fires_court *c;
    struct fires_judged *j;         /* as it was */
    const struct fires_judged *now; /* but for its rows: */
    const struct fires_rows *rows;
    bool resumed; /* with what was paused */
};

static bool has_instant(const struct fires_rows *rows, int64_t ms, const struct fires_row *but)
{
    for (size_t i = 0; i < rows->n; i++)
        if (&rows->rows[i] != but && rows->rows[i].first_ms <= ms && ms <= rows->rows[i].at_ms)
            return true;
    return false;
}

/* The instants from first to last that no row has, but for one. */
static int64_t count_free(const struct beside *b, const struct fires_version *v,
                          const struct fires_row *of, const struct fires_row *but)
{
    int64_t n = 0;

    for (size_t i = almanac_upto(&v->fires, of->first_ms / 1000 - 1); i < v->fires.n; i++) {
        int64_t ms = v->fires.fires[i] * 1000;

        if (ms > of->at_ms || ms > b->now->seen_ms)
            break;
        n += !has_instant(b->rows, ms, but);
    }
    return n;
}

/* It was decided by a rule that the schedule has no more. */
static bool is_of_before(const struct beside *b, const struct fires_row *r)
{
    return r->at_ms <= b->j->since_ms || strcmp(b->j->print, b->now->print) != 0;
}

/* The row went with no part of it that seen has passed. */
static void judge_passed(const struct beside *b, const struct fires_row *r)
{
    const struct fires_judged *j = b->j;
    int64_t left = 1;

    if (is_of_before(b, r))
        left = r->first_ms <= b->now->seen_ms && !has_instant(b->rows, r->first_ms, NULL);
    for (size_t v = j->oldest; v < j->plan->n && left > 0 && !is_of_before(b, r); v++)
        if (fires_may_go_by(j, v))
            left = count_free(b, &j->plan->versions[v], r, NULL);
    if (left > 0)
        fires_wrong(b->c, j, r, "its row is gone with instants that are past");
}

/* The row of before of which now is what is left; NULL: none. */
static const struct fires_row *find_whole(const struct fires_judged *j, const struct fires_row *now)
{
    for (size_t i = 0; i < j->n_rows; i++) {
        const struct fires_row *r = &j->rows[i];

        if (r->decided_wall == now->decided_wall && strcmp(r->decision, now->decision) == 0 &&
            r->first_ms <= now->first_ms && now->at_ms < r->at_ms)
            return r;
    }
    return NULL;
}

/* What is left of a row once the clock was set back: the instants that seen has passed. */
static void judge_part(const struct beside *b, const struct fires_row *whole,
                       const struct fires_row *part)
{
    const struct fires_judged *j = b->j;
    bool right = is_of_before(b, whole) && part->count == 1 && part->at_ms == whole->first_ms;

    for (size_t v = j->oldest; v < j->plan->n && !right; v++)
        right = fires_may_go_by(j, v) &&
                part->count == count_free(b, &j->plan->versions[v], part, part) &&
                part->first_ms == whole->first_ms;
    if (!right || b->c->back_us < 0 || part->at_ms > b->now->seen_ms)
        fires_wrong(b->c, j, part, "it is not what is left of its row");
}

/* A row went. Once the clock was set back, what it had decided ahead; with a resume, what was
 * paused; and what is too old. */
static void judge_gone(const struct beside *b, const struct fires_row *r)
{
    struct fires_court *c = b->c;
    const struct fires_judged *j = b->j;
    int64_t now = fires_wall_ms(), days = 30;
    bool without_run = strcmp(r->decision, "missed") == 0 || strcmp(r->decision, "dropped") == 0;

    if (now - r->at_ms > days * DAY_MS && now - r->at_ms < 400LL * DAY_MS) {
        size_t i = j->plan->n - 1; /* often: more than 100 a day */
        const struct almanac *a = &j->plan->versions[i].fires;

        if (almanac_upto(a, now / 1000) - almanac_upto(a, now / 1000 - 86400) <= 100)
            days = 400;
    }
    if (now - r->at_ms > days * DAY_MS || j->gone_wall != 0)
        return;
    if ((without_run && c->back_us >= 0) || (b->resumed && strcmp(r->decision, "paused") == 0))
        judge_passed(b, r);
    else
        fires_wrong(c, j, r, "its row is gone");
}

/* ---- a schedule ---- */

static bool fits_clock(const struct fires_court *c, int64_t ms)
{
    int64_t now = fires_wall_ms();

    return ms <= now + 1 && (ms > now - 120000 || !fires_is_steady(c, FIRES_SETTLE_US));
}

/* It begins, for the first time or again: from now on its fires count. */
static void judge_begin(struct fires_court *c, struct fires_judged *j, const char *why)
{
    j->rule = j->oldest = j->plan->n - 1;
    if (j->seen_ms != j->since_ms)
        world_violated(c->w, "%s/%s, %s: seen %lld, since %lld", j->source, j->name, why,
                       (long long)j->seen_ms, (long long)j->since_ms);
    if (!j->file->there || j->file->broken || !j->plan->there)
        world_violated(c->w, "%s/%s, %s: its file does not have it", j->source, j->name, why);
    if (!fits_clock(c, j->since_ms))
        world_violated(c->w, "%s/%s, %s: since %lld, and it is %lld", j->source, j->name, why,
                       (long long)j->since_ms, (long long)fires_wall_ms());
}

/* Its last N runs have failed. */
static bool failed_often(const struct fires_judged *j)
{
    for (size_t v = j->oldest; v < j->plan->n; v++) {
        int left = j->plan->versions[v].pause_after;
        bool all = left > 0;

        for (size_t i = j->n_rows; i-- > 0 && left > 0;)
            if (j->rows[i].outcome[0] != '\0') {
                all = all && strcmp(j->rows[i].outcome, "failed") == 0;
                left--;
            }
        if (all && left == 0)
            return true;
    }
    return false;
}

/* What seen becomes when it is resumed with what was paused: from before the pause on, or from
 * before the first instant that it held up. */
static int64_t resumed_from(const struct fires_judged *j)
{
    int64_t pause = j->state_wall > j->since_ms ? j->state_wall : j->since_ms, seen = pause;

    for (size_t i = 0; i < j->n_rows; i++) {
        const struct fires_row *r = &j->rows[i];

        if (r->at_ms > pause && strcmp(r->decision, "paused") == 0 && r->first_ms <= seen &&
            r->first_ms > j->since_ms)
            seen = r->first_ms - 1;
    }
    return seen;
}

static void judge_state(struct fires_court *c, struct fires_judged *j,
                        const struct fires_judged *old, int64_t resumed_ms)
{
    bool asked = j->asked > 0;

    if (j->paused && !(asked && j->ask_pause) && !failed_often(j))
        world_violated(c->w, "%s/%s is paused by nobody", j->source, j->name);
    if (!j->paused && !(asked && !j->ask_pause))
        world_violated(c->w, "%s/%s is resumed by nobody", j->source, j->name);
    if (!j->paused && !j->ask_catchup && !(c->back_us >= 0 && j->seen_ms == old->seen_ms) &&
        (j->seen_ms != j->since_ms || !fits_clock(c, j->seen_ms)))
        world_violated(c->w, "%s/%s is resumed, and seen is %lld", j->source, j->name,
                       (long long)j->seen_ms);
    if (!j->paused && j->ask_catchup && j->seen_ms != resumed_ms)
        world_violated(c->w, "%s/%s is resumed with what passed, and seen is %lld", j->source,
                       j->name, (long long)j->seen_ms);
    if (j->asked > 0 && j->paused == j->ask_pause)
        j->asked = 0;
}

/* seen without a decision: only where the clock was set back. */
static void judge_seen(struct fires_court *c, const struct fires_judged *j,
                       const struct fires_judged *old, const struct fires_row *newest)
{
    if (newest != NULL && j->seen_ms == newest->at_ms)
        return;
    if (c->back_us >= 0 && j->seen_ms <= old->seen_ms && j->since_ms <= old->since_ms &&
        (j->seen_ms == j->since_ms || fits_clock(c, j->seen_ms) || j->seen_ms == old->seen_ms))
        return;
    world_violated(c->w, "%s/%s: seen %lld becomes %lld, since %lld becomes %lld", j->source,
                   j->name, (long long)old->seen_ms, (long long)j->seen_ms,
                   (long long)old->since_ms, (long long)j->since_ms);
}

/* ---- reading ---- */

static struct fires_judged *find_or_add(struct fires_court *c, int64_t id, const char *source,
                                        const char *name)
{
    struct fires_judged *j = NULL;

    for (size_t i = 0; i < c->n_judged && j == NULL; i++)
        if (strcmp(c->judged[i].source, source) == 0 && strcmp(c->judged[i].name, name) == 0)
            j = &c->judged[i];
    if (j == NULL) {
        if (c->n_judged == FIRES_JUDGED)
            abort();
        j = &c->judged[c->n_judged++];
        *j = (struct fires_judged){.file = &c->files[source[strlen("/served/x")] - '0']};
        snprintf(j->source, sizeof(j->source), "%s", source);
        snprintf(j->name, sizeof(j->name), "%s", name);
        j->plan = &j->file->schedules[name[1] - '0'];
    }
    for (size_t i = 0; j->id != id && i < c->n_judged; i++)
        if (c->judged[i].id == id) /* of one that was removed, and of no run of it */
            c->judged[i].id = 0;
    if (j->id != id) { /* the row of before was removed with all of its fires */
        j->id = id;
        j->n_rows = 0;
        j->print[0] = '\0';
    }
    return j;
}

static void add_row(struct fires_rows *news, const struct fires_row *row)
{
    if (news->n == news->cap) {
        news->cap = news->cap > 0 ? 2 * news->cap : 16;
        news->rows = realloc(news->rows, news->cap * sizeof(*news->rows));
    }
    news->rows[news->n++] = *row;
}

static void read_rows(struct fires_court *c, struct fires_rows *out)
{
    struct fr_buf text = {0};

    world_rows(c->w,
               "SELECT schedule, at_ms, first_ms, count, run, decided_wall, decision, outcome FROM "
               "fire ORDER BY schedule, at_ms",
               &text);
    for (const char *p = text.n > 0 ? text.p : ""; *p != '\0'; p += strcspn(p, "\n") + 1) {
        struct fires_row r = {0};

        if (sscanf(p,
                   "%" SCNd64 "|%" SCNd64 "|%" SCNd64 "|%" SCNd64 "|%" SCNd64 "|%" SCNd64
                   "|%11[^|]|%11[^\n]",
                   &r.schedule, &r.at_ms, &r.first_ms, &r.count, &r.run, &r.decided_wall,
                   r.decision, r.outcome) >= 7)
            add_row(out, &r);
    }
    fr_buf_finish(&text);
}

/* The rows of now of a schedule, beside those of before: changes and ends are judged; what is new
 * goes to out. */
static void compare(const struct beside *b, struct fires_rows *out)
{
    struct fires_court *c = b->c;
    struct fires_judged *j = b->j;
    const struct fires_row *now = b->rows->rows, *whole;
    size_t n = b->rows->n, k = 0;

    for (size_t i = 0; i < n || k < j->n_rows;) {
        if (k < j->n_rows && (i == n || j->rows[k].at_ms < now[i].at_ms)) {
            judge_gone(b, &j->rows[k++]);
        } else if (k == j->n_rows || now[i].at_ms < j->rows[k].at_ms) {
            if ((whole = find_whole(j, &now[i])) != NULL)
                judge_part(b, whole, &now[i]);
            else
                add_row(out, &now[i]);
            i++;
        } else if (now[i].decided_wall != j->rows[k].decided_wall &&
                   now[i].decided_wall > j->since_ms && c->back_us >= 0) {
            judge_gone(b, &j->rows[k++]); /* decided anew */
            add_row(out, &now[i++]);
        } else {
            judge_change(c, j, &j->rows[k++], &now[i++]);
        }
    }
}

static void keep_rows(struct fires_judged *j, const struct fires_row *rows, size_t n)
{
    free(j->rows);
    j->rows = malloc((n + 1) * sizeof(*rows));
    if (n > 0)
        memcpy(j->rows, rows, n * sizeof(*rows));
    j->n_rows = n;
}

/* What is left of before, for the judgement of what is new. */
static void keep_old(struct fires_judged *j, const struct fires_row *rows, size_t n)
{
    size_t left = 0;

    for (size_t k = 0; k < j->n_rows; k++)
        for (size_t i = 0; i < n; i++)
            if (rows[i].at_ms == j->rows[k].at_ms &&
                rows[i].decided_wall == j->rows[k].decided_wall) {
                j->rows[left++] = rows[i];
                break;
            }
    j->n_rows = left;
}

static void judge_schedule(struct fires_court *c, struct fires_judged *j,
                           const struct fires_judged *now, const struct fires_rows *rows)
{
    struct fires_judged old = *j;
    struct fires_rows news = {0};
    bool begins = strcmp(now->print, old.print) != 0 || (old.gone_wall != 0 && now->gone_wall == 0);
    bool resumed = old.paused && !now->paused && j->asked > 0 && j->ask_catchup;
    int64_t resumed_ms = resumed_from(j);

    compare(&(struct beside){c, j, now, rows, resumed}, &news);
    keep_old(j, rows->rows, rows->n);
    if (news.n > 0) /* with seen as it was */
        fires_judge(c, j, &news);
    j->seen_ms = now->seen_ms;
    j->since_ms = now->since_ms;
    j->gone_wall = now->gone_wall;
    j->state_wall = now->state_wall;
    j->paused = now->paused;
    memcpy(j->print, now->print, sizeof(j->print));
    if (begins)
        judge_begin(c, j, old.print[0] == '\0' ? "first seen" : "begun anew");
    else if (old.paused != j->paused)
        judge_state(c, j, &old, resumed_ms);
    else if (old.seen_ms != j->seen_ms || old.since_ms != j->since_ms)
        judge_seen(c, j, &old, news.n > 0 ? &news.rows[news.n - 1] : NULL);
    if (old.gone_wall == 0 && j->gone_wall != 0 && j->file->there && !j->file->broken &&
        j->plan->there && strcmp(j->file->path, j->source) == 0)
        world_violated(c->w, "%s/%s is gone, and its file has it", j->source, j->name);
    keep_rows(j, rows->rows, rows->n);
    free(news.rows);
}

static void read_schedules(struct fires_court *c, const struct fires_rows *all)
{
    struct fr_buf text = {0};

    world_rows(c->w,
               "SELECT id, seen_ms, since_ms, gone_wall, state_wall, state = 'paused', source, "
               "name, fingerprint FROM schedule ORDER BY id",
               &text);
    for (const char *p = text.n > 0 ? text.p : ""; *p != '\0' && !c->w->failed;
         p += strcspn(p, "\n") + 1) {
        struct fires_judged now = {0};
        int paused = 0;
        size_t from = 0, n = 0;

        if (sscanf(p,
                   "%" SCNd64 "|%" SCNd64 "|%" SCNd64 "|%" SCNd64 "|%" SCNd64
                   "|%d|%39[^|]|%7[^|]|%71[^\n]",
                   &now.id, &now.seen_ms, &now.since_ms, &now.gone_wall, &now.state_wall, &paused,
                   now.source, now.name, now.print) != 9)
            continue;
        now.paused = paused != 0;
        while (from < all->n && all->rows[from].schedule != now.id)
            from++;
        while (from + n < all->n && all->rows[from + n].schedule == now.id)
            n++;
        judge_schedule(c, find_or_add(c, now.id, now.source, now.name), &now,
                       &(struct fires_rows){all->rows + from, n, n});
    }
    fr_buf_finish(&text);
}

void fires_on_statement(struct world *w, const char *sql)
{
    struct fires_court *c = w->test;

    if (strncmp(sql, "SELECT", 6) != 0 &&
        (strstr(sql, "fire") != NULL || strstr(sql, "schedule") != NULL ||
         strstr(sql, " run") != NULL))
        c->touched = true;
}

void fires_look(struct fires_court *c)
{
    struct sim_proc *cur = sim->cur;
    struct fires_rows all = {0};

    if (!c->dirty || c->w->failed)
        return;
    sim->cur = NULL; /* what is kept outlives every process */
    c->dirty = false;
    fires_read_live(c);
    read_rows(c, &all);
    read_schedules(c, &all);
    free(all.rows);
    sim->cur = cur;
}
