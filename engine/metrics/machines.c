#include "engine/metrics/machines.h"

#include "engine/base/json.h"
#include "engine/base/sys.h"
#include "engine/metrics/machine_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_SAMPLES = 64, VALUES = 6 };

struct fr_machines {
    struct fr_machine *v[FR_MACHINES]; /* own */
    size_t n;
    char *dir;     /* owns; NULL: there are no files */
    bool recalled; /* the files were looked at */
    bool heard;    /* there is news of one */
};

struct fr_machines *fr_machines_create(const char *dir)
{
    struct fr_machines *all = fr_sys.alloc(sizeof(*all));
    size_t n = dir != NULL ? strlen(dir) + 1 : 0;

    if (all == NULL)
        return NULL;
    *all = (struct fr_machines){.dir = dir != NULL ? fr_sys.alloc(n) : NULL};
    if (all->dir != NULL)
        memcpy(all->dir, dir, n);
    return all;
}

static void drop(struct fr_machine *m)
{
    json_decref(m->facts);
    json_decref(m->gpus);
    fr_sys.free(m->fine);
    fr_sys.free(m->means);
    fr_sys.free(m);
}

void fr_machines_destroy(struct fr_machines *all)
{
    for (size_t i = 0; all != NULL && i < all->n; i++)
        drop(all->v[i]);
    if (all != NULL)
        fr_sys.free(all->dir);
    fr_sys.free(all);
}

const struct fr_machine *fr_machines_at(const struct fr_machines *all, size_t i)
{
    return i < all->n ? all->v[i] : NULL;
}

const struct fr_machine *fr_machines_find(const struct fr_machines *all, struct fr_id home)
{
    for (size_t i = 0; i < all->n; i++)
        if (fr_id_eq(all->v[i]->home, home))
            return all->v[i];
    return NULL;
}

struct fr_machine *fr_machines_named(const struct fr_machines *all, const char *name)
{
    struct fr_machine *newest = NULL;

    for (size_t i = 0; i < all->n; i++)
        if (strcmp(all->v[i]->name, name) == 0 &&
            (newest == NULL || all->v[i]->seen_wall > newest->seen_wall))
            newest = all->v[i];
    return newest;
}

/* A place for one more: that of the machine which was not heard of the longest, if all are taken.
 */
static struct fr_machine *add(struct fr_machines *all, struct fr_id home)
{
    struct fr_machine *m = fr_sys.alloc(sizeof(*m));
    size_t oldest = 0;

    if (m == NULL)
        return NULL;
    *m = (struct fr_machine){.home = home, .unread = all->dir != NULL};
    for (size_t i = 1; i < all->n; i++)
        if (all->v[i]->seen_wall < all->v[oldest]->seen_wall)
            oldest = i;
    if (all->n < FR_MACHINES)
        return all->v[all->n++] = m;
    drop(all->v[oldest]);
    return all->v[oldest] = m;
}

void fr_machines_recall(struct fr_machines *all)
{
    size_t n;
    struct fr_id *homes =
        all->dir != NULL && !all->recalled ? fr_machine_files(all->dir, &n) : NULL;

    for (size_t i = 0; homes != NULL && i < n && i < FR_MACHINES; i++) {
        struct fr_machine one = {.home = homes[i], .unread = true}, *m = NULL;

        if (fr_machines_find(all, homes[i]) == NULL &&
            fr_machine_read_head(all->dir, homes[i], &one))
            m = add(all, homes[i]);
        if (m != NULL)
            *m = one;
        else
            json_decref(one.facts);
    }
    fr_sys.free(homes);
    all->recalled = true;
}

bool fr_machines_heard(struct fr_machines *all)
{
    bool heard = all->heard;

    all->heard = false;
    return heard;
}

/* ---- a sample ---- */

static json_t *json_of_facts(const struct fr_strs *facts)
{
    json_t *out = json_object();

    for (size_t i = 0; i < facts->n; i++) {
        const char *eq = memchr(facts->v[i].p, '=', facts->v[i].n);
        char name[64];

        if (eq == NULL || eq - facts->v[i].p >= (ptrdiff_t)sizeof(name))
            continue;
        snprintf(name, sizeof(name), "%.*s", (int)(eq - facts->v[i].p), facts->v[i].p);
        json_object_set_new(out, name,
                            json_stringn(eq + 1, facts->v[i].n - (size_t)(eq + 1 - facts->v[i].p)));
    }
    return out;
}

/* "0, 35, 1024, 81559, 40, 300.5, NVIDIA H100"; "[N/A]" is null. */
static json_t *json_of_gpu(struct fr_str line)
{
    static const char *const names[] = {"index",   "use",   "memory_used", "memory",
                                        "degrees", "watts", "name"};
    json_t *gpu = json_object();
    const char *p = line.p, *end = line.p + line.n;

    for (size_t i = 0; i < 7 && p <= end; i++) {
        const char *comma = i < 6 ? memchr(p, ',', (size_t)(end - p)) : NULL;
        const char *stop = comma != NULL ? comma : end;
        char text[96], *rest;

        while (p < stop && *p == ' ')
            p++;
        snprintf(text, sizeof(text), "%.*s", (int)(stop - p), p);
        double v = strtod(text, &rest);
        json_object_set_new(gpu, names[i],
                            i == 6         ? json_string(text)
                            : rest == text ? json_null()
                                           : json_real(v));
        p = stop + 1;
    }
    return gpu;
}

static json_t *json_of_gpus(const struct fr_strs *lines)
{
    json_t *out = json_array();

    for (size_t i = 0; i < lines->n; i++)
        if (lines->v[i].n > 0)
            json_array_append_new(out, json_of_gpu(lines->v[i]));
    return out;
}

static double number(const json_t *gpu, const char *name)
{
    return json_number_value(json_object_get(gpu, name));
}

/* Use and memory of all GPUs; of none both stay as they are. */
static void add_gpus(const json_t *gpus, struct fr_load *to)
{
    size_t n = json_array_size(gpus);
    double use = 0, memory = 0;

    for (size_t i = 0; i < n; i++) {
        use += number(json_array_get(gpus, i), "use");
        memory += number(json_array_get(gpus, i), "memory_used");
    }
    if (n > 0) {
        to->gpu = (float)(use / 100 / (double)n);
        to->gpu_memory = (float)(memory * 1048576);
    }
}

static float *values(struct fr_load *l)
{
    return &l->cpu;
}

/* Five minutes are over: their mean is kept. */
static void close_mean(const char *dir, struct fr_machine *m)
{
    struct fr_load mean = m->sum;

    for (int i = 0; i < VALUES; i++)
        values(&mean)[i] /= (float)m->n_sum;
    if (dir != NULL)
        fr_machine_put_mean(dir, m->home, &mean);
    if (m->means == NULL && (m->means = fr_sys.alloc(FR_LOAD_MEANS * sizeof(*m->means))) == NULL)
        return;
    m->means[m->n_means++ % FR_LOAD_MEANS] = mean;
}

static void add_to_mean(const char *dir, struct fr_machine *m, const struct fr_load *l)
{
    struct fr_load copy = *l;

    if (m->n_sum > 0 && m->sum.wall_ms / FR_LOAD_MEAN_MS != l->wall_ms / FR_LOAD_MEAN_MS) {
        close_mean(dir, m);
        m->n_sum = 0;
    }
    if (m->n_sum == 0)
        m->sum = (struct fr_load){.wall_ms = l->wall_ms / FR_LOAD_MEAN_MS * FR_LOAD_MEAN_MS};
    for (int i = 0; i < VALUES; i++)
        values(&m->sum)[i] += values(&copy)[i];
    m->n_sum++;
}

/* The ring grows up to its full size: most machines are there for less than a day. */
static void add_fine(struct fr_machine *m, const struct fr_load *l)
{
    if (m->n_fine == m->cap_fine && m->cap_fine < FR_MACHINE_FINE) {
        size_t cap = m->cap_fine == 0 ? FIRST_SAMPLES : 2 * m->cap_fine;
        void *more;

        cap = cap < FR_MACHINE_FINE ? cap : FR_MACHINE_FINE;
        if ((more = fr_sys.realloc(m->fine, cap * sizeof(*m->fine))) == NULL)
            return;
        m->fine = more;
        m->cap_fine = cap;
    }
    m->fine[m->n_fine++ % m->cap_fine] = *l;
}

static void set_text(char *to, size_t n, struct fr_str text)
{
    snprintf(to, n, "%.*s", (int)text.n, text.p);
}

void fr_machines_take(struct fr_machines *all, const struct fr_exec_sampled *s, int64_t wall_ms)
{
    struct fr_machine *m = (struct fr_machine *)fr_machines_find(all, s->up->home);
    const struct fr_sample *in = s->sample;
    struct fr_load l = {
        wall_ms, (float)in->cpu / 1000, (float)in->mem_used, (float)in->rx, (float)in->tx, NAN,
        NAN};

    all->heard = true;
    if (m == NULL && (m = add(all, s->up->home)) == NULL)
        return;
    if (m->name[0] == '\0')
        snprintf(m->name, sizeof(m->name), "%s", s->node);
    set_text(m->boot, sizeof(m->boot), s->up->boot);
    set_text(m->build, sizeof(m->build), s->up->build);
    set_text(m->how, sizeof(m->how), s->up->how);
    m->seen_wall = wall_ms;
    m->offset_ms = s->offset_ms;
    m->rtt_ms = s->rtt_ms;
    m->wall_offset_ms = s->up->wall_offset_ms;
    m->mem_bytes = in->mem_bytes;
    m->disk_free = in->disk_free;
    m->load = in->load;
    if (in->facts.n > 0) {
        json_decref(m->facts);
        m->facts = json_of_facts(&in->facts);
    }
    json_decref(m->gpus);
    m->gpus = json_of_gpus(&in->gpus);
    add_gpus(m->gpus, &l);
    add_fine(m, &l);
    add_to_mean(all->dir, m, &l);
    if (all->dir == NULL)
        return;
    if (in->facts.n > 0)
        fr_machine_put_head(all->dir, m);
    fr_machine_put_sample(all->dir, m->home, &l);
}

const struct fr_machine *fr_machines_disk_low(struct fr_machines *all, int64_t least)
{
    for (size_t i = 0; i < all->n; i++) {
        struct fr_machine *m = all->v[i];
        int64_t free = (int64_t)m->disk_free; /* 0: not known */

        if (m->disk_low && free >= least + least / 10)
            m->disk_low = false;
        if (!m->disk_low && free > 0 && free < least) {
            m->disk_low = true;
            return m;
        }
    }
    return NULL;
}

/* ---- what is asked ---- */

static json_t *newest(const struct fr_machine *m)
{
    const struct fr_load *l = m->n_fine > 0 ? &m->fine[(m->n_fine - 1) % m->cap_fine] : NULL;

    if (l == NULL)
        return json_null();
    return json_pack("{s:I, s:o, s:f, s:o, s:I, s:I, s:o, s:o, s:o, s:o}", "wall",
                     (json_int_t)l->wall_ms, "cpu", fr_json_real(l->cpu), "load_1m",
                     m->load / 100.0, "memory", fr_json_real(l->memory), "memory_bytes",
                     (json_int_t)m->mem_bytes, "disk_free", (json_int_t)m->disk_free, "rx",
                     fr_json_real(l->rx), "tx", fr_json_real(l->tx), "gpu", fr_json_real(l->gpu),
                     "gpu_memory", fr_json_real(l->gpu_memory));
}

json_t *fr_machine_json(const struct fr_machine *m)
{
    char home[FR_ID_TEXT];

    fr_id_text(m->home, home);
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:o, s:O*, s:O*}", "name",
                     m->name, "home", home, "boot", m->boot, "build", m->build, "how", m->how,
                     "seen_wall", (json_int_t)m->seen_wall, "clock_offset_ms",
                     (json_int_t)m->offset_ms, "wall_offset_ms", (json_int_t)m->wall_offset_ms,
                     "rtt_ms", (json_int_t)m->rtt_ms, "load", newest(m), "facts", m->facts, "gpus",
                     m->gpus);
}

struct means { /* of a bucket */
    int64_t from_ms;
    double sum[VALUES];
    size_t n;
    json_t *t, *lists[VALUES];
};

static void put_bucket(struct means *b)
{
    if (b->n > 0)
        json_array_append_new(b->t, json_integer(b->from_ms));
    for (int i = 0; i < VALUES && b->n > 0; i++)
        json_array_append_new(b->lists[i], fr_json_real(b->sum[i] / (double)b->n));
    b->n = 0;
}

static void take(struct means *b, const struct fr_load *l, int64_t size_ms)
{
    struct fr_load copy = *l;
    int64_t from = l->wall_ms / size_ms * size_ms;

    if (from != b->from_ms)
        put_bucket(b);
    if (b->n == 0)
        memset(b->sum, 0, sizeof(b->sum));
    b->from_ms = from;
    for (int i = 0; i < VALUES; i++)
        b->sum[i] += values(&copy)[i];
    b->n++;
}

static json_t *samples_of(const struct fr_machine *m, int64_t from, int64_t to, size_t width)
{
    static const char *const names[] = {"cpu", "memory", "rx", "tx", "gpu", "gpu_memory"};
    size_t first = m->n_fine > m->cap_fine ? m->n_fine - m->cap_fine : 0;
    int64_t fine_from = m->n_fine > 0 ? m->fine[first % m->cap_fine].wall_ms : INT64_MAX;
    int64_t size_ms = 1000;
    struct means b = {.from_ms = INT64_MIN, .t = json_array()};
    json_t *out = json_pack("{s:o}", "t", b.t);

    while ((to / size_ms - from / size_ms + 1) > (int64_t)width)
        size_ms *= 2;
    for (int i = 0; i < VALUES; i++)
        json_object_set_new(out, names[i], b.lists[i] = json_array());
    for (size_t i = m->n_means > FR_LOAD_MEANS ? m->n_means - FR_LOAD_MEANS : 0; i < m->n_means;
         i++) {
        const struct fr_load *l = &m->means[i % FR_LOAD_MEANS];

        if (l->wall_ms >= from && l->wall_ms <= to && l->wall_ms < fine_from)
            take(&b, l, size_ms);
    }
    for (size_t i = first; i < m->n_fine; i++) {
        const struct fr_load *l = &m->fine[i % m->cap_fine];

        if (l->wall_ms >= from && l->wall_ms <= to)
            take(&b, l, size_ms);
    }
    put_bucket(&b);
    return out;
}

json_t *fr_machine_samples(const struct fr_machines *all, struct fr_machine *m, int64_t from,
                           int64_t to, size_t width)
{
    if (m->unread)
        m->unread = !fr_machine_read_samples(all->dir, m);
    return samples_of(m, from, to, width);
}
