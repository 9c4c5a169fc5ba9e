/*
 * How fast a checkpoint is loaded beside plain reads of its files, by turns: into one buffer of
 * 16 MB, and into memory for all of it as a load needs. Seconds by the clock and of the processors.
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

static int load(const char *path)
{
    struct tr_model_config c;
    struct tr_model_opts o = {.config = &c, .compute = TR_BF16, .tokens_max = 8, .samples_max = 1};
    struct tr_model *m = NULL;
    struct tr_st *st = NULL;
    struct fr_err err = {0};
    enum fr_rc rc = tr_cpu_create(&o.be, &err);

    o.in_flight = 1;
    o.limits = (struct tr_shard_limits){.max_live = INT64_MAX};
    if (rc == FR_OK && (rc = tr_comm_single(o.be, &o.comm, &err)) == FR_OK &&
        (rc = tr_model_config_load(path, &c, &err)) == FR_OK &&
        (rc = tr_st_open_model(path, &st, &err)) == FR_OK &&
        (rc = tr_model_create(&o, &m, NULL, &err)) == FR_OK)
        rc = tr_model_load(m, st, NULL, &err);
    if (rc != FR_OK)
        printf("%s\n", err.msg);
    tr_model_destroy(m);
    tr_st_close(st);
    tr_comm_destroy(o.comm);
    tr_backend_destroy(o.be);
    return rc == FR_OK ? 0 : 1;
}

int main(int argc, char **argv)
{
    int rounds = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 5, bad = argc < 2;
    bool cold = argc > 3;
    double bytes;

    if (bad)
        return 1;
    find(argv[1]);
    bytes = read_plainly(NULL);
    for (int i = 0; i < rounds && !bad; i++) {
        struct took from;
        char *all;

        if (cold)
            forget();
        from = now();
        read_plainly(NULL);
        show("read into a buffer", from, bytes);
        if (cold)
            forget();
        from = now();
        all = malloc((size_t)bytes + BUFFER);
        read_plainly(all);
        show("read into memory", from, bytes);
        free(all);
        if (cold)
            forget();
        from = now();
        bad = load(argv[1]);
        show("load", from, bytes);
    }
    return bad;
}
