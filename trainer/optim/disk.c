#include "engine/base/sys.h"
#include "engine/base/thread.h"
#include "trainer/backend/philox.h"
#include "trainer/optim/disk_private.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

enum {
    PAGE = 4096, /* of offsets, sizes and buffers */
    PAGE_OF = PAGE / sizeof(float),
    TILE = 16 << 20, /* elements */
    BLOCK = 1 << 20,
    BLOCK_MAX = 8 << 20,
    ALL = (1 << TR_DISK_STATES) - 1
};

/* Buffers of a tile. A set is busy from the begin of a read or write of its tile until the end. */
struct set {
    char *state[TR_DISK_STATES];
    int64_t tile; /* -1: none */
    int blocks;   /* of the read or write under way that are not done */
};

/* A read or write of some states of a set's tile. */
struct request {
    int set;
    unsigned states; /* bits: those that are not done */
    bool write;
    int next; /* block of the first of these states */
};

struct tr_disk {
    struct tr_disk_opts o;
    struct disk_place place;
    struct tr_backend *be; /* borrows */
    struct tr_disk_shape shape;
    int64_t tile, tiles;
    size_t most[TR_DISK_STATES]; /* bytes of a state of the tile that has most */
    int per_state;               /* blocks of the largest */
    size_t *begins;              /* owns: where each state of each tile begins; then the end */
    uint64_t *sums;              /* owns: of tile, state, block; 0: never written */
    bool is_new;
    void *memory; /* owns, pinned */
    struct set sets[TR_DISK_SETS_MAX];
    int64_t asked;            /* tiles of this pass that are read, or asked for */
    unsigned loaded, changed; /* states of the tile in set 0, between passes */

    pthread_t threads[TR_DISK_THREADS_MAX];
    int nthreads;
    pthread_mutex_t lock; /* guards all below, and the sets' blocks */
    pthread_cond_t asks, done;
    struct request queue[TR_DISK_SETS_MAX];
    size_t first, queued;
    bool ends;
    struct fr_err why; /* the first error */
};

static size_t whole_pages(size_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

/* ---- sizes ---- */

static int64_t within(int64_t x, int64_t least, int64_t most)
{
    return x < least ? least : x > most ? most : x;
}

enum fr_rc tr_disk_create(const struct tr_disk_opts *o, struct tr_disk **out, struct fr_err *err)
{
    struct tr_disk *d = fr_sys.alloc(sizeof(*d));
    int64_t block = o->block > 0 ? o->block : BLOCK;

    if (d == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the optimizer's file");
    memset(d, 0, sizeof(*d));
    d->o = *o;
    d->o.block = within((block + PAGE - 1) / PAGE * PAGE, PAGE, BLOCK_MAX);
    d->o.threads = (int)within(o->threads, TR_DISK_THREADS_MIN, TR_DISK_THREADS_MAX);
    d->o.sets =
        (int)within(o->sets > 0 ? o->sets : TR_DISK_SETS, TR_DISK_SETS_MIN, TR_DISK_SETS_MAX);
    d->place.lock = d->place.fd = -1;
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->asks, NULL);
    pthread_cond_init(&d->done, NULL);
    *out = d;
    return FR_OK;
}

const char *tr_disk_path(const struct tr_disk *d)
{
    return d->o.path;
}

int64_t tr_disk_tile(const struct tr_disk *d, int64_t n)
{
    int64_t tile = d->o.tile > 0 && d->o.tile < TILE ? d->o.tile : TILE;

    tile = tile < n ? tile : n;
    return tile > 0 ? (tile + PAGE_OF - 1) / PAGE_OF * PAGE_OF : PAGE_OF;
}

/* Where states begin, if begins is not NULL, and the most of each. Returns the end. */
static size_t lay_out(const struct tr_disk *d, const struct tr_disk_shape *s, size_t *begins,
                      size_t most[TR_DISK_STATES])
{
    int64_t tile = tr_disk_tile(d, s->n);
    size_t end = 0;

    memset(most, 0, TR_DISK_STATES * sizeof(*most));
    for (int64_t at = 0; at < s->n; at += tile)
        for (int i = 0; i < TR_DISK_STATES; i++) {
            int64_t n = s->n - at < tile ? s->n - at : tile;
            size_t bytes = whole_pages(s->bytes != NULL ? s->bytes(s->self, i, at, n)
                                                        : (size_t)n * sizeof(float));

            if (begins != NULL)
                begins[at / tile * TR_DISK_STATES + i] = end;
            end += bytes;
            most[i] = bytes > most[i] ? bytes : most[i];
        }
    return end;
}

int64_t tr_disk_bytes(const struct tr_disk *d, const struct tr_disk_shape *s)
{
    size_t most[TR_DISK_STATES];

    return (int64_t)lay_out(d, s, NULL, most);
}

size_t tr_disk_pinned(const struct tr_disk *d, const struct tr_disk_shape *s)
{
    size_t most[TR_DISK_STATES], set = 0;

    (void)lay_out(d, s, NULL, most);
    for (int i = 0; i < TR_DISK_STATES; i++)
        set += most[i];
    return (size_t)d->o.sets * set + PAGE;
}

/* ---- blocks, on any thread ---- */

static int64_t tile_elements(const struct tr_disk *d, int64_t k)
{
    int64_t left = d->shape.n - k * d->tile;

    return left < d->tile ? left : d->tile;
}

/* Blocks of a state of tile k. */
static int blocks_of(const struct tr_disk *d, int64_t k, int state)
{
    const size_t *begin = &d->begins[k * TR_DISK_STATES + state];
    size_t block = (size_t)d->o.block;

    return (int)((begin[1] - begin[0] + block - 1) / block);
}

/* A change of one word changes the sum. */
static uint64_t sum_of(const char *p, size_t bytes)
{
    uint64_t h[4] = {1, 2, 3, 4}, sum = 0;

    for (size_t i = 0; i < bytes; i += sizeof(h))
        for (int k = 0; k < 4; k++) {
            uint64_t w;

            memcpy(&w, p + i + (size_t)k * sizeof(w), sizeof(w));
            h[k] = (h[k] ^ w) * UINT64_C(0x9E3779B97F4A7C15);
            h[k] ^= h[k] >> 29;
        }
    for (int k = 0; k < 4; k++)
        sum = tr_mix64(sum ^ h[k]);
    return sum != 0 ? sum : 1;
}

/* Where a block is. */
struct block {
    char *p;
    size_t n;
    off_t at;
    uint64_t *sum;
};

static struct block block_of(const struct tr_disk *d, const struct request *r, int state, int i)
{
    const struct set *s = &d->sets[r->set];
    const size_t *begin = &d->begins[s->tile * TR_DISK_STATES + state];
    size_t bytes = begin[1] - begin[0], from = (size_t)i * (size_t)d->o.block;
    size_t n = bytes - from < (size_t)d->o.block ? bytes - from : (size_t)d->o.block;

    return (struct block){
        .p = s->state[state] + from,
        .n = n,
        .at = (off_t)(begin[0] + from),
        .sum = &d->sums[(s->tile * TR_DISK_STATES + state) * d->per_state + i],
    };
}

static enum fr_rc failed(const struct tr_disk *d, const struct block *b, const char *what,
                         ssize_t done, struct fr_err *err)
{
    const char *cure = "look at the disk (dmesg), or give another nvme_path; the last resume "
                       "state is whole";
    struct fr_err why = {0};

    if (done >= 0)
        return fr_fail(err, FR_IO, "%s: cannot %s %zu bytes at offset %lld: only %zd came; %s",
                       d->place.file, what, b->n, (long long)b->at, done, cure);
    (void)fr_fail_errno(&why, errno, "%s: cannot %s %zu bytes at offset %lld", d->place.file, what,
                        b->n, (long long)b->at);
    return fr_fail(err, why.rc, "%s; %s", why.msg,
                   why.rc == FR_FULL ? "make room there, or give another nvme_path; the last "
                                       "resume state is whole"
                                     : cure);
}

static enum fr_rc write_block(const struct tr_disk *d, const struct block *b, struct fr_err *err)
{
    ssize_t done;

    *b->sum = sum_of(b->p, b->n);
    do
        done = fr_sys.pwrite(d->place.fd, b->p, b->n, b->at);
    while (done < 0 && errno == EINTR);
    return done == (ssize_t)b->n ? FR_OK : failed(d, b, "write", done, err);
}

static enum fr_rc read_block(const struct tr_disk *d, const struct block *b, struct fr_err *err)
{
    ssize_t done;

    if (*b->sum == 0) {
        memset(b->p, 0, b->n);
        return FR_OK;
    }
    do
        done = fr_sys.pread(d->place.fd, b->p, b->n, b->at);
    while (done < 0 && errno == EINTR);
    if (done != (ssize_t)b->n)
        return failed(d, b, "read", done, err);
    if (sum_of(b->p, b->n) == *b->sum)
        return FR_OK;
    return fr_fail(err, FR_CORRUPT,
                   "%s: %zu bytes at offset %lld do not match their checksum: the disk gave other "
                   "bytes than were written; give another nvme_path, the last resume state is "
                   "whole",
                   d->place.file, b->n, (long long)b->at);
}

/* The next block of the oldest request, with the lock held. false: there is none. */
static bool next_block(struct tr_disk *d, struct request *r, struct block *b)
{
    struct request *all;
    int state = 0;

    if (d->queued == 0)
        return false;
    all = &d->queue[d->first];
    *r = *all;
    while ((r->states >> state & 1) == 0)
        state++;
    *b = block_of(d, r, state, r->next);
    if (++all->next == blocks_of(d, d->sets[all->set].tile, state)) {
        all->states &= ~(1U << state);
        all->next = 0;
    }
    if (all->states == 0) {
        d->first = (d->first + 1) % TR_DISK_SETS_MAX;
        d->queued--;
    }
    return true;
}

static void *serve(void *arg)
{
    struct tr_disk *d = arg;
    struct request r;
    struct block b;

    pthread_mutex_lock(&d->lock);
    for (;;) {
        struct fr_err why = {0};
        bool skip = d->why.rc != FR_OK || d->ends; /* the file is removed at the end */

        if (!next_block(d, &r, &b)) {
            if (d->ends)
                break;
            pthread_cond_wait(&d->asks, &d->lock);
            continue;
        }
        pthread_mutex_unlock(&d->lock);
        if (!skip)
            (void)(r.write ? write_block : read_block)(d, &b, &why);
        pthread_mutex_lock(&d->lock);
        if (why.rc != FR_OK && d->why.rc == FR_OK)
            d->why = why;
        if (--d->sets[r.set].blocks == 0)
            pthread_cond_broadcast(&d->done);
    }
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

/* ---- one thread ---- */

static void wait_for(struct tr_disk *d, const struct set *s)
{
    pthread_mutex_lock(&d->lock);
    while (s->blocks > 0)
        pthread_cond_wait(&d->done, &d->lock);
    pthread_mutex_unlock(&d->lock);
}

static enum fr_rc error_of(struct tr_disk *d, struct fr_err *err)
{
    struct fr_err why;

    pthread_mutex_lock(&d->lock);
    why = d->why;
    pthread_mutex_unlock(&d->lock);
    return why.rc == FR_OK ? FR_OK : fr_fail(err, why.rc, "%s", why.msg);
}

/* Of a set that is not busy and has a tile: at most one request a set is queued. */
static void ask(struct tr_disk *d, int set, unsigned states, bool write)
{
    struct set *s = &d->sets[set];

    pthread_mutex_lock(&d->lock);
    for (int i = 0; i < TR_DISK_STATES; i++) {
        int blocks = (states >> i & 1) != 0 ? blocks_of(d, s->tile, i) : 0;

        states &= blocks == 0 ? ~(1U << i) : ~0U;
        s->blocks += blocks;
    }
    if (states == 0) { /* they are empty in this tile */
        pthread_mutex_unlock(&d->lock);
        return;
    }
    d->queue[(d->first + d->queued++) % TR_DISK_SETS_MAX] =
        (struct request){.set = set, .states = states, .write = write};
    pthread_cond_broadcast(&d->asks);
    pthread_mutex_unlock(&d->lock);
}

enum fr_rc tr_disk_open(struct tr_disk *d, const struct tr_disk_file *f, struct fr_err *err)
{
    size_t states, sums, most = 0;

    d->shape = f->shape;
    d->tile = tr_disk_tile(d, f->shape.n);
    d->tiles = (f->shape.n + d->tile - 1) / d->tile;
    d->is_new = true;
    states = (size_t)d->tiles * TR_DISK_STATES;
    if ((d->begins = fr_sys.alloc((states + 1) * sizeof(*d->begins))) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %zu states of tiles", states);
    d->begins[states] = lay_out(d, &d->shape, d->begins, d->most);
    for (int i = 0; i < TR_DISK_STATES; i++)
        most = d->most[i] > most ? d->most[i] : most;
    d->per_state = (int)((most + (size_t)d->o.block - 1) / (size_t)d->o.block);
    sums = states * (size_t)d->per_state * sizeof(*d->sums);
    if ((d->sums = fr_sys.alloc(sums + 1)) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %zu bytes of checksums", sums);
    memset(d->sums, 0, sums + 1);
    return disk_place_open(&d->place, d->o.path, f, (int64_t)d->begins[states], err);
}

enum fr_rc tr_disk_start(struct tr_disk *d, struct tr_backend *be, struct fr_err *err)
{
    size_t bytes = tr_disk_pinned(d, &d->shape);
    enum fr_rc rc = tr_mem_alloc(be, TR_MEM_PINNED, bytes, &d->memory, err);
    char *p;

    if (rc != FR_OK)
        return rc;
    d->be = be;
    memset(d->memory, 0, bytes);
    p = (char *)d->memory + (PAGE - (uintptr_t)d->memory % PAGE) % PAGE;
    for (int i = 0; i < d->o.sets; i++) {
        d->sets[i].tile = -1;
        for (int k = 0; k < TR_DISK_STATES; k++) {
            d->sets[i].state[k] = p;
            p += d->most[k];
        }
    }
    while (d->nthreads < d->o.threads &&
           fr_thread_start(&d->threads[d->nthreads], NULL, serve, d) == 0)
        d->nthreads++;
    return d->nthreads > 0 ? FR_OK : fr_fail(err, FR_NOMEM, "no thread for %s", d->place.file);
}

void tr_disk_destroy(struct tr_disk *d)
{
    if (d == NULL)
        return;
    pthread_mutex_lock(&d->lock);
    d->ends = true;
    pthread_cond_broadcast(&d->asks);
    pthread_mutex_unlock(&d->lock);
    while (d->nthreads > 0)
        pthread_join(d->threads[--d->nthreads], NULL);
    pthread_cond_destroy(&d->done);
    pthread_cond_destroy(&d->asks);
    pthread_mutex_destroy(&d->lock);
    if (d->memory != NULL)
        tr_mem_free(d->be, TR_MEM_PINNED, d->memory);
    disk_place_close(&d->place);
    fr_sys.free(d->begins);
    fr_sys.free(d->sums);
    fr_sys.free(d);
}

bool tr_disk_is_new(const struct tr_disk *d)
{
    return d->is_new;
}

int64_t tr_disk_tiles(const struct tr_disk *d)
{
    return d->tiles;
}

/* Set 0 has no tile after it. */
static void save_span(struct tr_disk *d)
{
    if (d->changed != 0)
        ask(d, 0, d->changed, true);
    wait_for(d, &d->sets[0]);
    d->changed = d->loaded = 0;
    d->sets[0].tile = -1;
}

enum fr_rc tr_disk_take(struct tr_disk *d, int64_t k, struct tr_disk_tile *out, struct fr_err *err)
{
    struct set *s = &d->sets[k % d->o.sets];

    if (k == 0) {
        save_span(d);
        d->asked = 0;
    }
    for (; d->asked < d->tiles && d->asked <= k + d->o.sets - 2; d->asked++) {
        int next = (int)(d->asked % d->o.sets);

        wait_for(d, &d->sets[next]); /* until the tile before is written */
        d->sets[next].tile = d->asked;
        ask(d, next, ALL, false);
    }
    wait_for(d, s);
    *out = (struct tr_disk_tile){.at = k * d->tile, .n = tile_elements(d, k)};
    for (int i = 0; i < TR_DISK_STATES; i++)
        out->state[i] = (float *)(void *)s->state[i];
    return error_of(d, err);
}

void tr_disk_give(struct tr_disk *d, int64_t k)
{
    ask(d, (int)(k % d->o.sets), ALL, true);
}

enum fr_rc tr_disk_settle(struct tr_disk *d, struct fr_err *err)
{
    save_span(d);
    for (int i = 0; i < d->o.sets; i++) {
        wait_for(d, &d->sets[i]);
        d->sets[i].tile = -1;
    }
    d->is_new = false;
    return error_of(d, err);
}

enum fr_rc tr_disk_span(struct tr_disk *d, struct tr_disk_span *s, struct fr_err *err)
{
    int64_t k = s->at / d->tile;
    unsigned bit = 1U << s->state;

    if (d->sets[0].tile != k) {
        save_span(d);
        d->sets[0].tile = k;
    }
    if ((d->loaded & bit) == 0) {
        ask(d, 0, bit, false);
        wait_for(d, &d->sets[0]);
        d->loaded |= bit;
    }
    if (s->write) {
        d->changed |= bit;
        d->is_new = false;
    }
    s->p = (float *)(void *)d->sets[0].state[s->state];
    s->from = s->at % d->tile;
    s->n = tile_elements(d, k) - s->from;
    return error_of(d, err);
}
