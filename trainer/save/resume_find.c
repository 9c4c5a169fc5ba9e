#include "trainer/save/resume_private.h"

#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/base/sys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One state. Its steps are made on every rank until one sets `why`, the same on every rank: the
 * state is not usable. A step returns errors that end the search. */
struct attempt {
    struct resume_search *h;
    struct resume_parts *s;
    int64_t step;
    json_t *root;
    struct fr_err why;
};

static struct tr_comm *world_of(const struct attempt *t)
{
    return t->h->o->world;
}

/* ---- state.json ---- */

static enum fr_rc share_json(struct attempt *t, struct fr_err *err)
{
    struct tr_comm *world = world_of(t);
    struct fr_err *all = fr_sys.alloc((size_t)world->size * sizeof(*all)), mine = {0};
    int root = -1;
    enum fr_rc rc;

    if (all == NULL)
        return fr_fail(err, FR_NOMEM, "no memory to compare ranks");
    if (world->local_rank == 0)
        mine.rc = resume_read_json(t->h->r, t->step, &t->root, &mine);
    else
        (void)fr_fail(&mine, FR_NOTFOUND, "not read");
    rc = tr_comm_host_all_gather(world, all, &mine, sizeof(mine), err);
    for (int k = world->size; k-- > 0 && rc == FR_OK;)
        if (all[k].rc == FR_OK)
            root = k;
        else if (t->why.rc == FR_OK || all[k].rc != FR_NOTFOUND)
            t->why = all[k];
    fr_sys.free(all);
    if (rc != FR_OK || root < 0)
        return rc;
    t->why = (struct fr_err){0};
    return resume_share_json(t->h->o, root, &t->root, err);
}

static enum fr_rc check_run(struct attempt *t, struct fr_err *err)
{
    t->why.rc = resume_same_run(t->h->r, t->h->o, t->root, &t->why);
    return t->why.rc == FR_USAGE ? fr_fail(err, FR_USAGE, "%s", t->why.msg) : FR_OK;
}

static enum fr_rc list_parts(struct attempt *t, struct fr_err *err)
{
    const json_t *list = json_object_get(t->root, "parts");
    struct resume_parts *s = t->s;
    char dir[PATH_MAX];
    size_t cells;

    s->n = (int)json_array_size(list);
    s->ranks = world_of(t)->size;
    cells = (size_t)s->n * (size_t)s->ranks + 1;
    s->parts = fr_arena_array(&s->arena, (size_t)s->n + 1, sizeof(*s->parts));
    for (int k = 0; k < s->n && s->parts != NULL; k++)
        s->parts[k] = (struct resume_part){0};
    s->sees = fr_arena_array(&s->arena, cells, 1);
    s->needs = fr_arena_array(&s->arena, cells, 1);
    if (s->parts == NULL || s->sees == NULL || s->needs == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %d parts", s->n);
    if (s->n == 0)
        t->why.rc = fr_fail(&t->why, FR_CORRUPT, "state.json lists no parts");
    resume_dir(t->h->r, t->step, "", dir);
    for (int k = 0; k < s->n; k++) {
        struct resume_part *p = &s->parts[k];
        json_int_t bytes;

        if (json_unpack(json_array_get(list, (size_t)k), "{s:I, s:s, s:s}", "bytes", &bytes,
                        "sha256", &p->sha, "host", &p->host) != 0)
            t->why.rc = fr_fail(&t->why, FR_CORRUPT, "state.json: part %d is not described", k);
        p->bytes = bytes;
        resume_part_path(dir, k, s->n, p->path);
    }
    return FR_OK;
}

/* ---- who sees what ---- */

static int first_with(const struct resume_parts *s, int k, enum resume_sight sight)
{
    for (int r = 0; r < s->ranks; r++)
        if (s->sees[r * s->n + k] == sight)
            return r;
    return -1;
}

int resume_reader(const struct resume_parts *s, int rank, int k)
{
    return s->sees[rank * s->n + k] == RESUME_SEEN ? rank : first_with(s, k, RESUME_SEEN);
}

static enum resume_sight look_at(const struct resume_part *p)
{
    struct stat st;
    int fd;

    if (fr_file_open(p->path, &fd, &st, NULL) != FR_OK)
        return RESUME_ABSENT;
    fr_sys.close(fd);
    return st.st_size == p->bytes ? RESUME_SEEN : RESUME_CUT;
}

static enum fr_rc look(struct attempt *t, struct fr_err *err)
{
    struct resume_parts *s = t->s;
    struct tr_comm *world = world_of(t);
    unsigned char *mine = fr_arena_array(&s->arena, (size_t)s->n, 1);
    struct fr_err wrong = {0};
    enum fr_rc rc;

    if (mine == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %d parts", s->n);
    for (int k = 0; k < s->n; k++)
        mine[k] = (unsigned char)look_at(&s->parts[k]);
    rc = tr_comm_host_all_gather(world, s->sees, mine, (size_t)s->n, err);
    for (int k = 0; k < s->n && rc == FR_OK && wrong.rc == FR_OK; k++) {
        int cut = first_with(s, k, RESUME_CUT);

        if (first_with(s, k, RESUME_SEEN) >= 0)
            continue;
        if (cut == world->rank) {
            fr_fail(&wrong, FR_CORRUPT, "%s has not the %lld bytes that were written",
                    s->parts[k].path, (long long)s->parts[k].bytes);
            resume_name_host(&wrong);
        } else if (cut < 0) {
            fr_fail(&wrong, FR_CORRUPT, "%s, which %s wrote, is on no node", s->parts[k].path,
                    s->parts[k].host);
        }
    }
    return rc == FR_OK ? tr_comm_host_first_error(world, &wrong, &t->why, err) : rc;
}

/* ---- what is where ---- */

/* How many states st has of a range, whose master is there; 0: not all, or of other sizes. */
static size_t states_of(struct resume_parts *s, const struct tr_st *st,
                        const struct resume_entry *e)
{
    size_t n = 1;
    bool coded = false;

    for (int k = TR_OPTIM_M; k < TR_OPTIM_WHATS && e->name != NULL; k++) {
        enum tr_optim_what what = (enum tr_optim_what)k;
        char *key = resume_key(&s->arena, what, e->name, e->first);
        const struct tr_st_tensor *t = key != NULL ? tr_st_find(st, key) : NULL;

        if (what == TR_OPTIM_M)
            coded = t != NULL && t->type == TR_ST_U8;
        if (!coded && (tr_optim_block(what) > 1 || (what == TR_OPTIM_V && t == NULL)))
            continue; /* a matrix of Muon has no v */
        if (t == NULL || t->elements != tr_optim_values(what, e->n) ||
            t->type != (coded && tr_optim_block(what) == 1 ? TR_ST_U8 : TR_ST_F32))
            return 0;
        n++;
    }
    return coded && e->first % TR_CODED_BLOCK != 0 ? 0 : n;
}

/* Opens a part and appends a line "FIRST N NAME" for each range of a tensor. */
static enum fr_rc index_part(struct resume_parts *s, struct resume_part *p, struct fr_buf *lines,
                             struct fr_err *err)
{
    static const char prefix[] = "master:";
    size_t n = 0;
    enum fr_rc rc = tr_st_open(p->path, &p->st, err);

    for (size_t i = 0; rc == FR_OK && i < tr_st_count(p->st); i++) {
        const struct tr_st_tensor *t = tr_st_at(p->st, i);
        const char *end = strrchr(t->name, '@'), *name = t->name + sizeof(prefix) - 1;
        bool whole = fr_has_prefix(t->name, prefix) && end != NULL && t->type == TR_ST_F32;
        int64_t first = 0;
        size_t states = 0;

        if (!fr_has_prefix(t->name, prefix))
            continue;
        whole = whole && fr_parse_i64(fr_str_of(end + 1), &first, NULL) == FR_OK && first >= 0;
        if (whole)
            states = states_of(
                s, p->st,
                &(struct resume_entry){.name = fr_arena_text(&s->arena, name, (size_t)(end - name)),
                                       .first = first,
                                       .n = t->elements});
        if (!whole || states == 0)
            return fr_fail(err, FR_CORRUPT, "%s: %s is no part of a state", p->path, t->name);
        fr_buf_fmt(lines, "%lld %lld %.*s\n", (long long)first, (long long)t->elements,
                   (int)(end - name), name);
        n += states;
    }
    if (rc == FR_OK && n != tr_st_count(p->st))
        rc = fr_fail(err, FR_CORRUPT, "%s has other tensors than a state", p->path);
    return rc == FR_OK && lines->bad ? fr_fail(err, FR_NOMEM, "no memory for tensors") : rc;
}

static enum fr_rc share_lines(struct tr_comm *world, int root, struct fr_buf *lines,
                              struct fr_err *err)
{
    uint64_t n = lines->n;
    enum fr_rc rc = tr_comm_host_broadcast(world, &n, sizeof(n), root, err);

    if (rc != FR_OK || n == 0)
        return rc;
    if (world->rank != root)
        fr_buf_room(lines, n);
    if (lines->bad)
        return fr_fail(err, FR_NOMEM, "no memory for tensors");
    lines->n = n;
    return tr_comm_host_broadcast(world, lines->p, n, root, err);
}

static int by_place(const void *a, const void *b)
{
    const struct resume_entry *x = a, *y = b;
    int order = strcmp(x->name, y->name);

    return order != 0 ? order : x->first < y->first ? -1 : x->first > y->first;
}

static enum fr_rc add_entries(struct resume_parts *s, const struct fr_buf *lines,
                              struct fr_err *err)
{
    size_t n = 0;

    for (int k = 0; k < s->n; k++)
        for (size_t i = 0; i < lines[k].n; i++)
            n += lines[k].p[i] == '\n';
    if ((s->entries = fr_arena_array(&s->arena, n + 1, sizeof(*s->entries))) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %zu tensors", n);
    for (int k = 0; k < s->n; k++)
        for (size_t i = 0; i < lines[k].n;) {
            const char *line = lines[k].p + i, *stop = memchr(line, '\n', lines[k].n - i);
            struct resume_entry *e = &s->entries[s->nentries++];
            char *p;

            e->part = k;
            e->first = strtoll(line, &p, 10);
            e->n = strtoll(p + 1, &p, 10);
            if ((e->name = fr_arena_text(&s->arena, p + 1, (size_t)(stop - p - 1))) == NULL)
                return fr_fail(err, FR_NOMEM, "no memory for %zu tensors", n);
            i += (size_t)(stop - line) + 1;
        }
    if (n > 0)
        qsort(s->entries, n, sizeof(*s->entries), by_place);
    return FR_OK;
}

static enum fr_rc make_index(struct attempt *t, struct fr_err *err)
{
    struct resume_parts *s = t->s;
    struct tr_comm *world = world_of(t);
    struct fr_buf *lines = fr_arena_array(&s->arena, (size_t)s->n, sizeof(*lines));
    struct fr_err wrong = {0};
    enum fr_rc rc;

    if (lines == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %d parts", s->n);
    for (int k = 0; k < s->n; k++)
        lines[k] = (struct fr_buf){0};
    for (int k = 0; k < s->n && wrong.rc == FR_OK; k++)
        if (first_with(s, k, RESUME_SEEN) == world->rank &&
            index_part(s, &s->parts[k], &lines[k], &wrong) != FR_OK)
            resume_name_host(&wrong);
    rc = tr_comm_host_first_error(world, &wrong, &t->why, err);
    for (int k = 0; k < s->n && rc == FR_OK && t->why.rc == FR_OK; k++)
        rc = share_lines(world, first_with(s, k, RESUME_SEEN), &lines[k], err);
    if (rc == FR_OK && t->why.rc == FR_OK)
        rc = add_entries(s, lines, err);
    for (int k = 0; k < s->n; k++)
        fr_buf_finish(&lines[k]);
    return rc;
}

const struct resume_entry *resume_entry_at(const struct resume_parts *s, const char *name,
                                           int64_t at)
{
    struct resume_entry want = {.name = name, .first = at};
    size_t low = 0, high = s->nentries; /* of those that begin at `at` or before, the last */

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (by_place(&s->entries[mid], &want) <= 0)
            low = mid + 1;
        else
            high = mid;
    }
    if (low == 0)
        return NULL;
    const struct resume_entry *e = &s->entries[low - 1];
    return strcmp(e->name, name) == 0 && at < e->first + e->n ? e : NULL;
}

static enum fr_rc find_needs(struct attempt *t, struct fr_err *err)
{
    struct resume_parts *s = t->s;
    unsigned char *mine = fr_arena_array(&s->arena, (size_t)s->n, 1);
    const struct tr_grads_range *r;
    struct fr_err lacks = {0};
    enum fr_rc rc;
    size_t n;

    if (mine == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %d parts", s->n);
    memset(mine, 0, (size_t)s->n);
    r = tr_optim_ranges(t->h->o, &n);
    for (size_t i = 0; i < n && lacks.rc == FR_OK; i++)
        for (int64_t at = r[i].first; at < r[i].first + r[i].n;) {
            const struct resume_entry *e = resume_entry_at(s, r[i].name, at);

            if (e == NULL) {
                fr_fail(&lacks, FR_CORRUPT, "step-%lld lacks %s from element %lld on",
                        (long long)t->step, r[i].name, (long long)at);
                break;
            }
            mine[e->part] = 1;
            at = e->first + e->n;
        }
    rc = tr_comm_host_all_gather(world_of(t), s->needs, mine, (size_t)s->n, err);
    return rc == FR_OK ? tr_comm_host_first_error(world_of(t), &lacks, &t->why, err) : rc;
}

/* ---- checksums ---- */

/* Whether a rank reads part k, for itself or another. */
static bool reads(const struct resume_parts *s, int rank, int k)
{
    for (int r = 0; r < s->ranks; r++)
        if (s->needs[r * s->n + k] && resume_reader(s, r, k) == rank)
            return true;
    return false;
}

/* The first rank of a node that reads a part. */
static bool checks(const struct resume_parts *s, const struct tr_comm *world, int k)
{
    const int *node = world->node_of;

    for (int r = 0; r < world->rank; r++)
        if ((node == NULL || node[r] == node[world->rank]) && reads(s, r, k))
            return false;
    return true;
}

static enum fr_rc check(struct attempt *t, struct fr_err *err)
{
    struct resume_parts *s = t->s;
    struct tr_comm *world = world_of(t);
    struct fr_err wrong = {0};
    char sha[FR_SHA256_TEXT];

    for (int k = 0; k < s->n && wrong.rc == FR_OK; k++) {
        struct resume_part *p = &s->parts[k];
        enum fr_rc rc = FR_OK;

        if (!reads(s, world->rank, k))
            continue;
        if (checks(s, world, k)) {
            rc = fr_sha256_file(p->path, sha, &wrong);
            if (rc == FR_OK && strcmp(sha, p->sha) != 0)
                rc = fr_fail(&wrong, FR_CORRUPT, "%s does not match its checksum", p->path);
        }
        if (rc == FR_OK && p->st == NULL)
            rc = tr_st_open(p->path, &p->st, &wrong);
        if (rc != FR_OK)
            resume_name_host(&wrong);
    }
    return tr_comm_host_first_error(world, &wrong, &t->why, err);
}

/* ---- the search ---- */

static enum fr_rc try_state(struct attempt *t, struct fr_err *err)
{
    static enum fr_rc (*const steps[])(struct attempt * t, struct fr_err * err) = {
        share_json, check_run, list_parts, look, make_index, find_needs, check};
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && rc == FR_OK && t->why.rc == FR_OK;
         i++)
        rc = steps[i](t, err);
    return rc;
}

/* The newest step <= limit of which any node has a folder. */
static enum fr_rc next_step(const struct resume_search *h, int64_t *step, struct fr_err *err)
{
    struct tr_comm *world = h->o->world;
    int64_t steps[RESUME_STEPS_MAX], mine = RESUME_NONE, *all;
    size_t n = 0;
    enum fr_rc rc;

    if ((all = fr_sys.alloc((size_t)world->size * sizeof(*all))) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory to compare ranks");
    if (world->local_rank == 0)
        n = resume_steps(h->r->output_dir, steps, RESUME_STEPS_MAX);
    for (size_t i = n; i-- > 0;)
        if (steps[i] <= h->limit)
            mine = steps[i];
    rc = tr_comm_host_all_gather(world, all, &mine, sizeof(mine), err);
    *step = RESUME_NONE;
    for (int k = 0; k < world->size && rc == FR_OK; k++)
        *step = all[k] > *step ? all[k] : *step;
    fr_sys.free(all);
    return rc;
}

void resume_parts_destroy(struct resume_parts *s)
{
    if (s == NULL)
        return;
    for (int k = 0; k < s->n && s->parts != NULL; k++)
        tr_st_close(s->parts[k].st);
    fr_arena_finish(&s->arena);
    fr_sys.free(s);
}

enum fr_rc resume_parts_find(struct resume_search *h, int64_t *step, json_t **root,
                             struct resume_parts **out, struct fr_err *err)
{
    enum fr_rc rc;

    *out = NULL;
    while ((rc = next_step(h, step, err)) == FR_OK && *step >= 0) {
        struct attempt t = {.h = h, .step = *step, .s = fr_sys.alloc(sizeof(*t.s))};

        if (t.s == NULL)
            return fr_fail(err, FR_NOMEM, "no memory for a resume state");
        *t.s = (struct resume_parts){0};
        rc = try_state(&t, err);
        if (rc == FR_OK && t.why.rc == FR_OK) {
            *root = t.root;
            *out = t.s;
            return FR_OK;
        }
        resume_parts_destroy(t.s);
        json_decref(t.root);
        if (rc != FR_OK)
            return rc;
        fr_buf_fmt(&h->damaged, "%s%s", h->damaged.n > 0 ? "; " : ": ", t.why.msg);
        if (h->o->world->rank == 0)
            fr_log(FR_LOG_WARN, "resume", "state of step %lld is not usable: %s", (long long)*step,
                   t.why.msg);
        h->limit = *step - 1;
    }
    if (rc == FR_OK && h->damaged.n > 0)
        *step = RESUME_ALL_DAMAGED;
    return rc;
}
