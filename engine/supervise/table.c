#include "engine/supervise/table.h"

#include "engine/base/arena.h"
#include "engine/base/file.h"
#include "engine/supervise/cgroup.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { DAY_MS = 86400000, REC_LEAST = 120 /* bytes of a record, its texts empty */ };

struct fr_attempt *fr_table_find(const struct fr_table *t, struct fr_id id)
{
    const uint64_t *place;

    for (size_t at = 0; (place = fr_map_next(&t->places, fr_id_key(id), &at)) != NULL;)
        if (fr_id_eq(t->v[*place]->id, id))
            return t->v[*place];
    return NULL;
}

static struct fr_attempt *find_or_add(struct fr_table *t, struct fr_id id)
{
    struct fr_attempt *a = fr_table_find(t, id);
    struct fr_attempt **v;

    if (a != NULL)
        return a;
    if ((v = fr_grow(t->v, t->n + 1, &t->cap, sizeof(struct fr_attempt *))) == NULL)
        return NULL;
    t->v = v;
    if ((a = fr_sys.alloc(sizeof(*a))) == NULL)
        return NULL;
    if (!fr_map_add(&t->places, fr_id_key(id), t->n)) {
        fr_sys.free(a);
        return NULL;
    }
    *a = (struct fr_attempt){.id = id, .socket_id = id};
    t->v[t->n++] = a;
    return a;
}

static bool keep_text(char **to, struct fr_str s)
{
    char *copy = fr_sys.alloc(s.n + 1);

    if (copy == NULL)
        return false;
    memcpy(copy, s.p, s.n);
    copy[s.n] = '\0';
    fr_sys.free(*to);
    *to = copy;
    return true;
}

static void keep_boot(struct fr_attempt *a, struct fr_str boot)
{
    snprintf(a->boot, sizeof(a->boot), "%.*s", (int)boot.n, boot.p);
}

static void forget_texts(struct fr_attempt *a)
{
    fr_sys.free(a->instance);
    fr_sys.free(a->spec_hash);
    fr_sys.free(a->container);
    fr_sys.free(a->cgroup);
    a->instance = a->spec_hash = a->container = a->cgroup = NULL;
    fr_buf_finish(&a->end);
}

static bool take_prepared(struct fr_table *t, struct fr_attempt *a, const struct fr_rec *r)
{
    if (a->launched || a->ended || a->tombstoned)
        return true;
    a->prepared = true;
    if (!a->listed) {
        a->open = t->open;
        t->open = a;
        a->listed = true;
    }
    a->run = r->run;
    a->generation = r->generation;
    keep_boot(a, r->boot);
    return keep_text(&a->instance, r->instance) && keep_text(&a->spec_hash, r->spec_hash);
}

static bool take_launched(struct fr_attempt *a, const struct fr_rec *r)
{
    char cgroup[FR_NODE_PATH];

    if (a->tombstoned || a->launched || a->ended)
        return true;
    a->launched = true;
    a->supervisor = (struct fr_proc){(pid_t)r->sup_pid, r->sup_start};
    a->launched_ms = r->launched_ms;
    a->grace_ms = r->grace_ms;
    if (!fr_id_zero(r->socket_id))
        a->socket_id = r->socket_id;
    keep_boot(a, r->boot);
    fr_cgroup_path(r->cgroup, a->socket_id, cgroup);
    return keep_text(&a->container, r->container) &&
           (cgroup[0] == '\0' || keep_text(&a->cgroup, fr_str_of(cgroup)));
}

static bool take_end(struct fr_attempt *a, const struct fr_rec *r)
{
    if (a->acked || (a->ended && r->kind == FR_REC_EXITED))
        return true;
    a->end_wall_ms = a->exited || a->ended ? a->end_wall_ms : r->wall_ms;
    a->exited = a->exited || r->kind == FR_REC_EXITED;
    a->ended = r->kind == FR_REC_ENDED; /* a later one: survivors are gone by now */
    fr_buf_finish(&a->end);
    fr_buf_add(&a->end, r->ended.p, r->ended.n);
    return !a->end.bad;
}

struct fr_fence *fr_table_fence(const struct fr_table *t, struct fr_id id)
{
    const uint64_t *place;

    for (size_t at = 0; (place = fr_map_next(&t->fence_places, fr_id_key(id), &at)) != NULL;)
        if (fr_id_eq(t->fences[*place].id, id))
            return &t->fences[*place];
    return NULL;
}

static struct fr_fence *add_fence(struct fr_table *t, struct fr_id id)
{
    struct fr_fence *v = fr_grow(t->fences, t->n_fences + 1, &t->cap_fences, sizeof(*v));

    if (v != NULL)
        t->fences = v;
    if (v == NULL || !fr_map_add(&t->fence_places, fr_id_key(id), t->n_fences))
        return NULL;
    v[t->n_fences] = (struct fr_fence){.id = id};
    return &v[t->n_fences++];
}

static bool take_epoch(struct fr_table *t, const struct fr_rec *r)
{
    struct fr_fence *f = fr_table_fence(t, r->run);

    if (f == NULL && (f = add_fence(t, r->run)) == NULL)
        return false;
    if (r->epoch > f->epoch) {
        f->epoch = r->epoch;
        snprintf(f->owner, sizeof(f->owner), "%.*s", (int)r->boot.n, r->boot.p);
    }
    f->of_store = f->of_store || fr_id_eq(r->attempt, r->run);
    f->wall_ms = r->wall_ms;
    return true;
}

static void take(void *arg, const struct fr_rec *r)
{
    struct fr_table *t = arg;
    struct fr_attempt *a;
    bool ok = true;

    if (r->kind == FR_REC_HOME && fr_id_zero(t->home))
        t->home = r->attempt;
    if (r->kind == FR_REC_EPOCH)
        ok = take_epoch(t, r);
    t->bad = t->bad || !ok;
    if (r->kind < FR_REC_PREPARED || r->kind > FR_REC_ACKED ||
        (t->only && !fr_id_eq(r->attempt, t->only_id)))
        return;
    if ((a = find_or_add(t, r->attempt)) == NULL) {
        t->bad = true;
        return;
    }
    if (r->kind == FR_REC_PREPARED) {
        ok = take_prepared(t, a, r);
    } else if (r->kind == FR_REC_LAUNCHED) {
        ok = take_launched(a, r);
    } else if (r->kind == FR_REC_TOMBSTONE) {
        a->tombstoned = a->tombstoned || (!a->launched && !a->ended);
        a->over_ms = r->wall_ms;
    } else if (r->kind == FR_REC_ACKED) {
        a->acked = true;
        a->over_ms = r->wall_ms;
        forget_texts(a);
    } else {
        ok = take_end(a, r);
    }
    t->bad = t->bad || !ok;
}

enum fr_rc fr_table_read(struct fr_table *t, int journal, struct fr_err *err)
{
    enum fr_rc rc = fr_journal_read(journal, &t->at, take, t, err);

    if (rc == FR_OK && t->bad)
        rc = fr_fail(err, FR_NOMEM, "no memory for the attempts of this node");
    return rc;
}

struct fr_attempt *fr_table_rival(struct fr_table *t, const struct fr_prepare *p)
{
    struct fr_attempt **at = &t->open;

    while (*at != NULL) {
        struct fr_attempt *a = *at;
        if (a->ended || a->tombstoned || a->acked) {
            *at = a->open;
            a->listed = false;
        } else if (!fr_id_eq(a->id, p->attempt) && fr_id_eq(a->run, p->run) &&
                   fr_str_is(p->instance, a->instance)) {
            return a;
        } else {
            at = &a->open;
        }
    }
    return NULL;
}

/* An attempt as records, in their original order. */
static enum fr_rc put_attempt(const struct fr_attempt *a, struct fr_buf *out, struct fr_err *err)
{
    struct fr_rec rec = {.attempt = a->id,
                         .run = a->run,
                         .generation = a->generation,
                         .boot = fr_str_of(a->boot),
                         .sup_pid = (uint32_t)a->supervisor.pid,
                         .sup_start = a->supervisor.start,
                         .launched_ms = a->launched_ms,
                         .grace_ms = a->grace_ms,
                         .socket_id =
                             fr_id_eq(a->socket_id, a->id) ? (struct fr_id){{0}} : a->socket_id};
    const struct {
        bool is;
        enum fr_rec_kind kind;
    } steps[] = {{a->prepared, FR_REC_PREPARED},
                 {a->tombstoned, FR_REC_TOMBSTONE},
                 {a->launched, FR_REC_LAUNCHED},
                 {a->exited && !a->ended, FR_REC_EXITED},
                 {a->ended, FR_REC_ENDED}};
    enum fr_rc rc = FR_OK;

    rec.instance = a->instance != NULL ? fr_str_of(a->instance) : FR_STR("");
    rec.spec_hash = a->spec_hash != NULL ? fr_str_of(a->spec_hash) : FR_STR("");
    rec.container = a->container != NULL ? fr_str_of(a->container) : FR_STR("");
    rec.cgroup = fr_cgroup_above(a->cgroup != NULL ? a->cgroup : "");
    rec.ended = (struct fr_str){a->end.p, a->end.n};
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && rc == FR_OK; i++) {
        rec.kind = steps[i].kind;
        rec.wall_ms = i < 3 ? a->over_ms : a->end_wall_ms;
        if (steps[i].is)
            rc = fr_journal_put(out, &rec, err);
    }
    return rc;
}

static bool has_attempts(const struct fr_table *t, const struct fr_fence *f)
{
    for (size_t i = 0; i < t->n; i++)
        if ((f->of_store || fr_id_eq(t->v[i]->run, f->id)) && !t->v[i]->acked)
            return true;
    return false;
}

static bool keeps_fence(const struct fr_table *t, const struct fr_fence *f, int64_t long_ago)
{
    return f->wall_ms == 0 || f->wall_ms > long_ago || has_attempts(t, f);
}

static bool keeps_attempt(const struct fr_attempt *a, int64_t long_ago)
{
    return !a->acked && (!a->tombstoned || a->launched || a->over_ms == 0 || a->over_ms > long_ago);
}

size_t fr_table_least(const struct fr_table *t, int64_t wall_ms)
{
    const int64_t long_ago = wall_ms - (int64_t)FR_FENCE_DAYS * DAY_MS;
    size_t n = 0;

    for (size_t i = 0; i < t->n_fences; i++)
        n += t->fences[i].wall_ms > long_ago ? REC_LEAST : 0;
    for (size_t i = 0; i < t->n; i++)
        n += keeps_attempt(t->v[i], long_ago) ? t->v[i]->end.n : 0;
    return n;
}

enum fr_rc fr_table_put(const struct fr_table *t, int64_t wall_ms, struct fr_buf *out,
                        struct fr_err *err)
{
    const int64_t long_ago = wall_ms - (int64_t)FR_FENCE_DAYS * DAY_MS;
    struct fr_rec rec = {.kind = FR_REC_HOME, .attempt = t->home};
    enum fr_rc rc = fr_id_zero(t->home) ? FR_OK : fr_journal_put(out, &rec, err);

    for (size_t i = 0; i < t->n_fences && rc == FR_OK; i++) {
        const struct fr_fence *f = &t->fences[i];
        if (!keeps_fence(t, f, long_ago))
            continue;
        rec = (struct fr_rec){.kind = FR_REC_EPOCH,
                              .attempt = f->of_store ? f->id : (struct fr_id){{0}},
                              .run = f->id,
                              .epoch = f->epoch,
                              .boot = fr_str_of(f->owner),
                              .wall_ms = f->wall_ms};
        rc = fr_journal_put(out, &rec, err);
    }
    for (size_t i = 0; i < t->n && rc == FR_OK; i++)
        if (keeps_attempt(t->v[i], long_ago))
            rc = put_attempt(t->v[i], out, err);
    return rc;
}

enum fr_rc fr_table_rewrite(struct fr_table *t, int journal, struct fr_err *err)
{
    struct fr_buf b = {0};
    enum fr_rc rc = fr_table_read(t, journal, err);

    if (rc == FR_OK)
        rc = fr_table_put(t, fr_sys.wall_ms(), &b, err);
    if (rc == FR_OK && !fr_write_full(journal, b.p, b.n))
        rc = fr_fail_errno(err, errno, "cannot write the journal");
    if (rc == FR_OK && fr_sys.fdatasync(journal) != 0)
        rc = fr_fail_errno(err, errno, "cannot sync the journal");
    fr_buf_finish(&b);
    return rc;
}

void fr_table_finish(struct fr_table *t)
{
    for (size_t i = 0; i < t->n; i++) {
        forget_texts(t->v[i]);
        fr_sys.free(t->v[i]);
    }
    fr_sys.free(t->v);
    fr_sys.free(t->fences);
    fr_map_finish(&t->places);
    fr_map_finish(&t->fence_places);
    *t = (struct fr_table){0};
}
