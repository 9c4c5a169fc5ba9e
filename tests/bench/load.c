/*
 * How fast a checkpoint is loaded beside plain reads of its files, by turns: into one buffer of
 * 16 MB, into small pages for all of it, and into memory of the backend as a load takes it (large
 * pages where the kernel has them), that by one thread, by two, and by four past the page cache.
 * Seconds by the clock and of the processors. Every other round goes backward. Before each way as
 * much memory as two of them take is written to and given back: a virtual machine pays for pages
 * that its host has to find, and whichever way came first would pay for the others.
 * usage: load MODEL [ROUNDS [cold]]; cold: the page cache is emptied of the files before each.
 */
#include "engine/base/sys.h"
#include "trainer/comm/comm.h"
#include "trainer/model/model.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER = 16 << 20, STEP = 4 << 20, PAGE = 4096, FILES = 512, THREADS = 4 };

static char paths[FILES][512];
static int files;

struct took {
    double clock, cpu;
};

static struct took now(void)
{
    struct timespec t;
    struct rusage u;

    clock_gettime(CLOCK_MONOTONIC, &t);
    getrusage(RUSAGE_SELF, &u);
    return (struct took){(double)t.tv_sec + (double)t.tv_nsec * 1e-9,
                         (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
                             (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6};
}

static void show(const char *what, struct took from, double bytes)
{
    struct took to = now();

    printf("%-28s %6.2f s, %6.2f GB/s, %6.2f s of processors\n", what, to.clock - from.clock,
           bytes * 1e-9 / (to.clock - from.clock), to.cpu - from.cpu);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void find(const char *model)
{
    DIR *d = opendir(model);
    struct dirent *e;

    while (d != NULL && (e = readdir(d)) != NULL && files < FILES)
        if (strstr(e->d_name, ".safetensors") != NULL && strstr(e->d_name, ".json") == NULL)
            snprintf(paths[files++], sizeof(paths[0]), "%.200s/%.255s", model, e->d_name);
    if (d != NULL)
        closedir(d);
    qsort(paths, (size_t)files, sizeof(paths[0]), by_text);
}

static void forget(void)
{
    for (int i = 0; i < files; i++) {
        int fd = open(paths[i], O_RDONLY | O_CLOEXEC);

        (void)fdatasync(fd);
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        close(fd);
    }
}

/* Bytes; all: NULL, or room for them. */
static double read_plainly(char *all)
{
    char *buffer = all != NULL ? all : malloc(BUFFER);
    double sum = 0;

    for (int i = 0; i < files; i++) {
        int fd = open(paths[i], O_RDONLY | O_CLOEXEC);
        ssize_t n;

        while ((n = read(fd, buffer, BUFFER)) > 0) {
            sum += (double)n;
            buffer += all != NULL ? n : 0;
        }
        close(fd);
    }
    if (all == NULL)
        free(buffer);
    return sum;
}

/* Reads by several threads: each takes the next STEP bytes of a file. */
struct together {
    char *to[FILES]; /* of each file; at a page */
    int fds[FILES];
    int64_t sizes[FILES];
    atomic_int_least64_t next; /* in steps over all files */
    atomic_int bad;
};

static bool find_step(const struct together *t, int64_t step, int *file, int64_t *at)
{
    for (*file = 0; *file < files; ++*file) {
        int64_t steps = (t->sizes[*file] + STEP - 1) / STEP;

        *at = step * STEP;
        if (step < steps)
            return true;
        step -= steps;
    }
    return false;
}

static void *read_steps(void *arg)
{
    struct together *t = arg;
    int64_t at;
    int file;

    while (find_step(t, t->next++, &file, &at)) {
        int64_t left = t->sizes[file] - at, want = left < STEP ? left : STEP, n;

        n = pread(t->fds[file], t->to[file] + at, (size_t)((want + PAGE - 1) / PAGE * PAGE), at);
        if (n != want)
            t->bad = 1;
    }
    return NULL;
}

static int read_together(char *all, int threads, int flags)
{
    static struct together t;
    pthread_t ids[THREADS];
    struct stat st;

    t.next = t.bad = 0;
    all += PAGE - (uintptr_t)all % PAGE;
    for (int i = 0; i < files; i++) {
        t.fds[i] = open(paths[i], O_RDONLY | O_CLOEXEC | flags);
        if (t.fds[i] < 0 || fstat(t.fds[i], &st) != 0)
            return 1;
        t.sizes[i] = st.st_size;
        t.to[i] = all;
        all += (st.st_size + 2 * PAGE - 1) / PAGE * PAGE;
    }
    for (int i = 0; i < threads; i++)
        t.bad += pthread_create(&ids[i], NULL, read_steps, &t) != 0;
    for (int i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    for (int i = 0; i < files; i++)
        close(t.fds[i]);
    return t.bad;
}

/* So that the host of a virtual machine has pages behind what is free here. */
static void find_memory(double bytes)
{
    size_t n = (size_t)(2 * bytes) + ((size_t)1 << 29);
    char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        return;
    (void)madvise(p, n, MADV_HUGEPAGE);
    for (size_t i = 0; i < n; i += PAGE)
        p[i] = 1;
    (void)munmap(p, n);
}

/* A model, and what it is made with. */
struct loaded {
    struct tr_model_config config;
    struct tr_model_opts o;
    struct tr_st *st;
    struct tr_model *m;
};

static int load(const char *path, struct loaded *l)
{
    struct fr_err err = {0};
    enum fr_rc rc;

    *l = (struct loaded){
        .o = {.config = &l->config, .compute = TR_BF16, .tokens_max = 8, .samples_max = 1}};
    l->o.in_flight = 1;
    l->o.limits = (struct tr_shard_limits){.max_live = INT64_MAX};
    if ((rc = tr_cpu_create(&l->o.be, &err)) == FR_OK &&
        (rc = tr_comm_single(l->o.be, &l->o.comm, &err)) == FR_OK &&
        (rc = tr_model_config_load(path, &l->config, &err)) == FR_OK &&
        (rc = tr_st_open_folder(path, false, NULL, &l->st, &err)) == FR_OK &&
        (rc = tr_model_create(&l->o, &l->m, NULL, &err)) == FR_OK)
        rc = tr_model_load(l->m, l->st, NULL, &err);
    if (rc != FR_OK)
        printf("%s\n", err.msg);
    return rc == FR_OK ? 0 : 1;
}

static void unload(struct loaded *l)
{
    tr_model_destroy(l->m);
    tr_st_close(l->st);
    tr_comm_destroy(l->o.comm);
    tr_backend_destroy(l->o.be);
}

enum way { BY_BUFFER, TO_SMALL_PAGES, TO_MEMORY, BY_TWO, PAST_CACHE, LOAD, WAYS };

static int read_all(enum way way, char *all)
{
    if (way == BY_TWO)
        return read_together(all, 2, 0);
    if (way == PAST_CACHE)
        return read_together(all, THREADS, O_DIRECT);
    read_plainly(all);
    return 0;
}

static int measure(enum way way, const char *model, double bytes)
{
    static const char *const names[] = {
        "read into a buffer", "read into small pages",       "read into memory",
        "read by two",        "read by four past the cache", "load"};
    static struct loaded loaded;
    struct tr_backend *be = NULL;
    size_t room = (size_t)bytes + BUFFER + (size_t)(2 * files + 1) * PAGE;
    bool ours = way == TO_MEMORY || way == BY_TWO || way == PAST_CACHE;
    void *all = NULL;
    int bad = ours && tr_cpu_create(&be, NULL) != FR_OK;
    struct took from = now();

    if (way == TO_SMALL_PAGES)
        all = malloc(room);
    if (ours && !bad)
        bad = tr_mem_alloc(be, TR_MEM_DEVICE, room, &all, NULL) != FR_OK;
    if (!bad)
        bad = way == LOAD ? load(model, &loaded) : read_all(way, all);
    show(names[way], from, bytes);
    if (way == TO_SMALL_PAGES)
        free(all);
    if (ours)
        tr_mem_free(be, TR_MEM_DEVICE, all);
    tr_backend_destroy(be);
    if (way == LOAD)
        unload(&loaded);
    return bad;
}

int main(int argc, char **argv)
{
    int rounds = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 5, bad = argc < 2;
    double bytes;

    if (bad)
        return 1;
    find(argv[1]);
    bytes = read_plainly(NULL);
    for (int i = 0; i < WAYS * rounds && !bad; i++) {
        if (argc > 3)
            forget();
        find_memory(bytes);
        bad =
            measure((enum way)(i / WAYS % 2 == 0 ? i % WAYS : WAYS - 1 - i % WAYS), argv[1], bytes);
    }
    return bad;
}
