#include "trainer/shard/read.h"

#include "engine/base/arena.h"
#include "engine/base/sys.h"
#include "engine/base/thread.h"
#include "trainer/shard/group.h"
#include "trainer/shard/private.h"
#include "trainer/shard/values.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum {
    SLOT = 16 << 20,   /* bytes of a group of parts, on disk and in memory */
    GROUP_PARTS = 256, /* parts of a group, at most */
    PAGE = 4096,       /* parts end at page boundaries of the file */
    READERS = 4,       /* threads of a rank: the disk works while one of them copies */
    HUGE = 1 << 21,    /* a large page of the system */
    TELL_MS = 1000
};

/* ---- parts ---- */

/* Elements of the first piece of a part. */
static size_t first_piece(const struct read_part *p)
{
    size_t disk = tr_dtype_bytes(p->disk), memory = tr_dtype_bytes(p->t->dtype);
    size_t most = SLOT / (disk > memory ? disk : memory);
    int64_t from = part_at(p), to = (from + (int64_t)(most * disk)) / PAGE * PAGE;

    return p->n <= most ? p->n : (size_t)(to - from) / disk;
}

enum fr_rc read_add(struct read_parts *p, const struct read_part *part, struct fr_err *err)
{
    struct read_part left = *part, *parts;

    if (!values_convert(part->disk, part->t->dtype))
        return fr_fail(err, FR_DTYPE, "%s: is %s, %s is needed", part->t->name,
                       tr_dtype_name(part->disk), tr_dtype_name(part->t->dtype));
    while (left.n > 0) {
        if ((parts = fr_grow(p->parts, p->n + 1, &p->cap, sizeof(*parts))) == NULL)
            return fr_fail(err, FR_NOMEM, "a list of %zu parts of weights", p->n + 1);
        p->parts = parts;
        parts += p->n++;
        *parts = left;
        parts->n = first_piece(&left);
        left.at += (int64_t)parts->n;
        left.dst += part_bytes(parts);
        left.n -= parts->n;
    }
    return FR_OK;
}

void read_finish(struct read_parts *p)
{
    tr_st_direct_close(p->direct);
    fr_sys.free(p->parts);
    *p = (struct read_parts){.parts = NULL};
}

static int by_place(const void *a, const void *b)
{
    const struct read_part *x = a, *y = b;
    int64_t xat = part_at(x), yat = part_at(y);

    if (x->d->file != y->d->file)
        return x->d->file < y->d->file ? -1 : 1;
    return (xat > yat) - (xat < yat);
}

/* ---- reading, on any thread ---- */

enum state { FREE, FILLING, FULL };

/* A slot of the ring: bytes of a group on their way to the device. */
struct slot {
    char *p;
    enum state state;
    size_t group;
};

struct reading {
    const struct read_opts *o;
    struct tr_st_direct *direct; /* borrows */
    struct read_part *parts;
    size_t *first; /* owns: the first part of each group, then the number of parts */
    size_t groups;
    int64_t all; /* bytes on disk */
    struct slot slots[READERS + 1];
    int nslots;     /* 0: everything goes to the host's memory */
    void *ring;     /* owns: the slots, and found */
    int64_t *found; /* non-finite values of each part of a group */
    int64_t told_ms;

    pthread_mutex_t lock; /* guards all below, and slots */
    pthread_cond_t changed;
    size_t next, done;      /* groups taken; groups whose bytes are in place */
    int64_t bytes;          /* of groups that are done */
    struct read_late *late; /* borrows */
    size_t failed;          /* the first group with an error; SIZE_MAX: none */
    struct fr_err why;
};

static enum fr_rc read_group(struct reading *r, size_t g, const struct slot *slot, char *spare,
                             struct fr_err *err)
{
    struct group group = {.parts = &r->parts[r->first[g]],
                          .n = r->first[g + 1] - r->first[g],
                          .slot = slot != NULL ? slot->p : NULL,
                          .spare = spare,
                          .st = r->o->st,
                          .direct = r->direct,
                          .late = r->late,
                          .lock = &r->lock};

    return group_read(&group, err);
}

static int64_t group_bytes(const struct reading *r, size_t g)
{
    int64_t sum = 0;

    for (size_t i = r->first[g]; i < r->first[g + 1]; i++)
        sum += (int64_t)part_disk_bytes(&r->parts[i]);
    return sum;
}

/* With the lock held. */
static void group_failed(struct reading *r, size_t g, const struct fr_err *why)
{
    if (g >= r->failed)
        return;
    r->failed = g;
    r->why = *why;
}

static void group_done(struct reading *r, size_t g)
{
    r->done++;
    r->bytes += group_bytes(r, g);
}

/* The slot of the first group in that state, before a failed group. */
static struct slot *find_slot(struct reading *r, enum state state)
{
    struct slot *found = NULL;

    for (int i = 0; i < r->nslots; i++) {
        struct slot *s = &r->slots[i];

        if (s->state == state && (state == FREE || s->group < r->failed) &&
            (found == NULL || s->group < found->group))
            found = s;
    }
    return found;
}

/* Whether all groups, or all before a failed one, are in place. Groups are taken in order, so each
 * of these has a slot if the device gets them. */
static bool settled(struct reading *r)
{
    if (r->failed == SIZE_MAX)
        return r->done == r->groups;
    return find_slot(r, FILLING) == NULL && find_slot(r, FULL) == NULL;
}

/* Takes a group and reads it; the lock is released while reading. */
static void take_group(struct reading *r, struct slot *slot, char *spare)
{
    struct fr_err err = {0};
    size_t g = r->next++;
    enum fr_rc rc;

    if (slot != NULL)
        *slot = (struct slot){slot->p, FILLING, g};
    pthread_mutex_unlock(&r->lock);
    rc = spare != NULL ? read_group(r, g, slot, spare, &err)
                       : fr_fail(&err, FR_NOMEM, "a read buffer");
    pthread_mutex_lock(&r->lock);
    if (rc != FR_OK)
        group_failed(r, g, &err);
    else if (slot != NULL)
        slot->state = FULL;
    else
        group_done(r, g);
    pthread_cond_broadcast(&r->changed);
}

static void *read_groups(void *arg)
{
    struct reading *r = arg;
    char *block = fr_sys.alloc(GROUP_STEP + HUGE), *spare = block;

    if (block != NULL) { /* large pages: a disk request has few ranges of memory */
        spare += HUGE - (uintptr_t)block % HUGE;
        (void)madvise(spare, GROUP_STEP, MADV_HUGEPAGE);
    }
    pthread_mutex_lock(&r->lock);
    while (r->next < r->groups && r->failed == SIZE_MAX) {
        struct slot *slot = find_slot(r, FREE);

        if (slot == NULL && r->nslots > 0)
            pthread_cond_wait(&r->changed, &r->lock);
        else
            take_group(r, slot, spare);
    }
    pthread_mutex_unlock(&r->lock);
    fr_sys.free(block);
    return NULL;
}

/* ---- what follows, on the thread of the device ---- */

/* Copies a full slot to the device and checks the values there. */
static enum fr_rc put_group(struct reading *r, const struct slot *slot, struct fr_err *err)
{
    const struct read_opts *o = r->o;
    size_t first = r->first[slot->group], n = r->first[slot->group + 1] - first, at = 0;
    enum fr_rc rc = FR_OK;

    memset(r->found, 0, n * sizeof(*r->found));
    for (size_t i = 0; i < n && rc == FR_OK; i++) {
        const struct read_part *p = &r->parts[first + i];
        struct tr_nonfinite check = {tr_view1(&r->found[i], TR_I64, 1),
                                     tr_view1(p->dst, p->t->dtype, (int64_t)p->n)};

        if (p->host)
            continue;
        rc = tr_copy(o->be, o->q, p->dst, slot->p + at, part_bytes(p));
        rc = rc == FR_OK ? tr_nonfinite(o->be, o->q, &check, err)
                         : fr_fail(err, rc, "%s: copying it to the device", p->t->name);
        at += round_256(part_bytes(p));
    }
    if (rc == FR_OK)
        rc = tr_sync(o->be, o->q, err);
    for (size_t i = 0; i < n && rc == FR_OK; i++)
        if (r->found[i] != 0)
            rc = values_not_finite(r->parts[first + i].t, err);
    return rc;
}

static void empty_slot(struct reading *r, struct slot *slot)
{
    struct fr_err err = {0};
    enum fr_rc rc;

    pthread_mutex_unlock(&r->lock);
    rc = put_group(r, slot, &err);
    pthread_mutex_lock(&r->lock);
    if (rc != FR_OK)
        group_failed(r, slot->group, &err);
    else
        group_done(r, slot->group);
    slot->state = FREE;
    pthread_cond_broadcast(&r->changed);
}

/* Reports progress about once a second. */
static void tell(struct reading *r)
{
    const struct tr_shard_tell *t = r->o->tell;
    int64_t now = fr_sys.mono_ms(), bytes = r->bytes;
    struct fr_err err;
    bool on;

    if (t == NULL || now - r->told_ms < TELL_MS)
        return;
    r->told_ms = now;
    pthread_mutex_unlock(&r->lock);
    on = t->so_far(t->arg, bytes, r->all);
    pthread_mutex_lock(&r->lock);
    if (on)
        return;
    (void)fr_fail(&err, FR_STOPPED, "stopped as asked, while the weights were read");
    group_failed(r, 0, &err);
    pthread_cond_broadcast(&r->changed);
}

static void wait_a_while(struct reading *r)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec++;
    pthread_cond_timedwait(&r->changed, &r->lock, &t);
}

static void follow(struct reading *r)
{
    struct slot *slot;

    pthread_mutex_lock(&r->lock);
    while (!settled(r)) {
        if ((slot = find_slot(r, FULL)) != NULL)
            empty_slot(r, slot);
        else
            wait_a_while(r);
        tell(r);
    }
    pthread_mutex_unlock(&r->lock);
}

/* ---- all of it ---- */

static size_t room_of(const struct read_part *p)
{
    size_t disk = part_disk_bytes(p), memory = part_bytes(p);

    return round_256(disk > memory ? disk : memory);
}

/* Cuts the parts into groups of neighbours. *most: room of the largest group for the device. */
static enum fr_rc make_groups(struct reading *r, size_t n, size_t *most, struct fr_err *err)
{
    size_t used = 0, staged = 0;

    if ((r->first = fr_sys.alloc((n + 2) * sizeof(*r->first))) == NULL)
        return fr_fail(err, FR_NOMEM, "a list of %zu parts of weights", n);
    *most = 0;
    for (size_t i = 0; i < n; i++) {
        const struct read_part *p = &r->parts[i];
        size_t room = room_of(p);

        if (i == 0 || used + room > SLOT || i - r->first[r->groups - 1] == GROUP_PARTS) {
            r->first[r->groups++] = i;
            used = staged = 0;
        }
        used += room;
        staged += p->host ? 0 : room;
        *most = staged > *most ? staged : *most;
        r->all += (int64_t)part_disk_bytes(p);
    }
    r->first[r->groups] = n;
    return FR_OK;
}

/* The number of reading threads; 1: the calling thread reads. */
static int readers_of(const struct reading *r)
{
    return r->groups < READERS ? r->groups > 1 ? (int)r->groups : 1 : READERS;
}

/* Makes one slot more than readers, for the slot that is copied to the device. */
static enum fr_rc make_ring(struct reading *r, size_t room, int readers, struct fr_err *err)
{
    int n = readers > 1 ? readers + 1 : 1;
    char *p;
    enum fr_rc rc;

    if (room == 0)
        return FR_OK;
    rc = tr_mem_alloc(r->o->be, TR_MEM_PINNED, (size_t)n * room + GROUP_PARTS * sizeof(*r->found),
                      &r->ring, err);
    if (rc != FR_OK)
        return fr_while(err, "a ring for reading weights");
    p = r->ring;
    for (r->nslots = 0; r->nslots < n; r->nslots++)
        r->slots[r->nslots].p = p + (size_t)r->nslots * room;
    r->found = (int64_t *)(void *)(p + (size_t)n * room);
    return FR_OK;
}

static enum fr_rc run(struct reading *r, int readers, struct fr_err *err)
{
    pthread_t threads[READERS];
    pthread_condattr_t attr;
    struct fr_err none = {0};
    int n = 0;

    pthread_mutex_init(&r->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&r->changed, &attr);
    pthread_condattr_destroy(&attr);
    while (readers > 1 && n < readers && fr_thread_start(&threads[n], NULL, read_groups, r) == 0)
        n++;
    if (readers == 1) /* a single group: read, then copy, on this thread */
        read_groups(r);
    else if (n == 0) {
        (void)fr_fail(&none, FR_NOMEM, "no thread to read weights");
        group_failed(r, 0, &none);
    }
    follow(r);
    while (n > 0)
        pthread_join(threads[--n], NULL);
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->lock);
    return r->failed == SIZE_MAX ? FR_OK : fr_fail(err, r->why.rc, "%s", r->why.msg);
}

/* Calls each for every contiguous range of the parts in their files. */
static void each_stretch(const struct read_parts *p,
                         void (*each)(struct tr_st_direct *d, int file, int64_t at, size_t n))
{
    for (size_t i = 0, k; i < p->n; i = k) {
        const struct read_part *first = &p->parts[i];
        int64_t at = part_at(first), end = at;

        for (k = i; k < p->n && p->parts[k].d->file == first->d->file; k++) {
            const struct read_part *next = &p->parts[k];
            int64_t to = part_at(next) + (int64_t)part_disk_bytes(next);

            if (part_at(next) > end)
                break;
            end = to > end ? to : end;
        }
        each(p->direct, first->d->file, at, (size_t)(end - at));
    }
}

void read_drop(const struct read_parts *p, const struct tr_st *st, const struct read_late *late)
{
    for (size_t k = 0; k < late->n && k < READ_LATE; k++)
        tr_st_drop(st, &late->pieces[k]);
    if (p->direct != NULL)
        each_stretch(p, tr_st_direct_drop);
}

enum fr_rc read_all(struct read_parts *p, const struct read_opts *o, struct read_late *late,
                    struct fr_err *err)
{
    struct reading r = {
        .o = o, .parts = p->parts, .late = late, .told_ms = fr_sys.mono_ms(), .failed = SIZE_MAX};
    size_t room = 0, taken = o->be->taken;
    int readers;
    enum fr_rc rc;

    if (p->n == 0)
        return FR_OK;
    qsort(p->parts, p->n, sizeof(*p->parts), by_place);
    rc = make_groups(&r, p->n, &room, err);
    readers = readers_of(&r);
    if (rc == FR_OK)
        rc = make_ring(&r, room, readers, err);
    if (rc == FR_OK)
        rc = tr_st_direct_open(o->st, &p->direct, err);
    if (rc == FR_OK)
        each_stretch(p, tr_st_direct_note);
    r.direct = p->direct;
    if (rc == FR_OK)
        rc = run(&r, readers, err);
    if (rc == FR_OK && o->tell != NULL)
        (void)o->tell->so_far(o->tell->arg, r.all, r.all);
    tr_mem_free(o->be, TR_MEM_PINNED, r.ring);
    o->be->taken = taken; /* the ring was given back */
    fr_sys.free(r.first);
    return rc;
}
