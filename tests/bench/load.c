/*
 * How fast a checkpoint is loaded beside plain reads of its files, by turns: into one buffer of
 * 16 MB, into small pages for all of it, and into memory of the backend as a load takes it (large
 * pages where the kernel has them). Seconds by the clock and of the processors. Every other round
 * goes backward: memory that was just freed is cheaper to take on a virtual machine.
 * usage: load MODEL [ROUNDS [cold]]; cold: the page cache is emptied of the files before each.
 */
#include "engine/base/sys.h"
#include "trainer/comm/comm.h"
#include "trainer/model/model.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER = 16 << 20, FILES = 512 };

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
        (rc = tr_st_open_model(path, &l->st, &err)) == FR_OK &&
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

/* One way to read all of it: 0 a buffer, 1 small pages, 2 the backend's memory, 3 a load. */
static int measure(int way, const char *model, double bytes)
{
    static const char *const names[] = {"read into a buffer", "read into small pages",
                                        "read into memory", "load"};
    static struct loaded loaded;
    struct tr_backend *be = NULL;
    struct took from;
    void *all = NULL;
    int bad = way == 2 && tr_cpu_create(&be, NULL) != FR_OK;

    from = now();
    if (way == 1)
        all = malloc((size_t)bytes + BUFFER);
    if (way == 2 && !bad)
        bad = tr_mem_alloc(be, TR_MEM_DEVICE, (size_t)bytes + BUFFER, &all, NULL) != FR_OK;
    if (way < 3 && !bad)
        read_plainly(all);
    else if (way == 3)
        bad = load(model, &loaded);
    show(names[way], from, bytes);
    if (way == 1)
        free(all);
    if (way == 2)
        tr_mem_free(be, TR_MEM_DEVICE, all);
    tr_backend_destroy(be);
    if (way == 3)
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
    for (int i = 0; i < 4 * rounds && !bad; i++) {
        if (argc > 3)
            forget();
        bad = measure(i / 4 % 2 == 0 ? i % 4 : 3 - i % 4, argv[1], bytes);
    }
    return bad;
}
