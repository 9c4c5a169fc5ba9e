/*
 * Samples of the machine for engines that take them: load, memory, network and disk from /proc
 * (proc(5)), GPUs from one nvidia-smi that runs as long as serve does. The first sample comes a
 * second after hello: a short connection has none.
 */
#include "engine/base/file.h"
#include "engine/supervise/environ.h"
#include "engine/node/private.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_MS = 1000, PROC_MAX = 1 << 20, GPU_TEXT = 64 << 10, GPUS = 64 };

#define GPU_QUERY                                                                                  \
    "--query-gpu=index,utilization.gpu,memory.used,memory.total,temperature.gpu,power.draw,name"

void srv_samples_begin(struct srv *s)
{
    s->samples.due_ms = fr_sys.mono_ms() + FIRST_MS;
    s->samples.gpu_fd = -1;
}

static bool read_proc(const char *path, struct fr_buf *out)
{
    struct fr_err err;

    return fr_file_read(path, PROC_MAX, out, &err) == FR_OK && out->n > 0;
}

/* The line "cpu" of /proc/stat: user nice system idle iowait irq softirq steal. */
static bool read_cpu(uint64_t *busy, uint64_t *all)
{
    unsigned long long v[8] = {0};
    struct fr_buf text = {0};
    bool fine = read_proc("/proc/stat", &text) &&
                sscanf(text.p, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &v[0], &v[1], &v[2],
                       &v[3], &v[4], &v[5], &v[6], &v[7]) >= 4;

    *all = 0;
    for (int i = 0; i < 8; i++)
        *all += v[i];
    *busy = *all - v[3] - v[4];
    fr_buf_finish(&text);
    return fine;
}

/* Bytes received and sent by all interfaces but lo. */
static void read_net(uint64_t *rx, uint64_t *tx)
{
    struct fr_buf text = {0};

    *rx = *tx = 0;
    if (read_proc("/proc/net/dev", &text))
        for (const char *p = text.p; p != NULL && *p != '\0'; p = strchr(p, '\n')) {
            char name[32];
            unsigned long long in, out;

            p += *p == '\n';
            if (sscanf(p, " %31[^:]: %llu %*u %*u %*u %*u %*u %*u %*u %llu", name, &in, &out) ==
                    3 &&
                strcmp(name, "lo") != 0) {
                *rx += in;
                *tx += out;
            }
        }
    fr_buf_finish(&text);
}

/* A line of /proc/meminfo, in bytes. */
static uint64_t memory(const struct fr_buf *text, const char *name)
{
    const char *line = text->p != NULL ? strstr(text->p, name) : NULL;
    unsigned long long kib = 0;

    if (line != NULL)
        (void)sscanf(line + strlen(name), " %llu", &kib);
    return kib << 10;
}

static void read_rest(const struct srv *s, struct fr_sample *to)
{
    struct fr_buf text = {0};
    double load = 0;
    int64_t disk = fr_sys.disk_free(s->home.path);

    if (read_proc("/proc/meminfo", &text)) {
        to->mem_bytes = memory(&text, "MemTotal:");
        to->mem_used = to->mem_bytes - memory(&text, "MemAvailable:");
    }
    fr_buf_finish(&text);
    if (read_proc("/proc/loadavg", &text) && sscanf(text.p, "%lf", &load) == 1)
        to->load = (uint32_t)(load * 100);
    fr_buf_finish(&text);
    to->disk_free = disk > 0 ? (uint64_t)disk : 0;
}

/* ---- GPUs ---- */

static void end_gpus(struct srv *s)
{
    struct fr_wait w;

    if (s->samples.gpu_fd < 0)
        return;
    fr_sys.close(s->samples.gpu_fd);
    s->samples.gpu_fd = -1;
    fr_sys.kill(s->samples.gpu, SIGKILL);
    (void)fr_sys.wait(s->samples.gpu.pid, &w, 0);
    fr_buf_finish(&s->samples.gpu_text);
}

static void start_gpus(struct srv *s)
{
    static const char *const argv[] = {"nvidia-smi", GPU_QUERY, "--format=csv,noheader,nounits",
                                       "-l",         "10",      NULL};
    const struct fr_strs *base[] = {&s->environ};
    struct fr_arena arena = {0};
    struct fr_spawn sp = {.argv = argv, .fds = {-1, -1, -1}, .die_with_parent = true};
    int fds[2];

    s->samples.gpus_asked = true;
    sp.envp = fr_environ_make(base, 1, &arena);
    if (sp.envp != NULL && fr_sys.pipe(fds) == 0) {
        sp.fds[1] = fds[1];
        bool fine = fr_sys.spawn(&sp, &s->samples.gpu) == 0;

        fr_sys.close(fds[1]);
        if (fine)
            s->samples.gpu_fd = fds[0];
        else
            fr_sys.close(fds[0]);
        if (fine)
            fr_sys.set_nonblock(fds[0], true);
    }
    fr_arena_finish(&arena);
}

/* The newest line of each GPU, in v. */
static size_t take_gpus(struct srv *s, struct fr_str v[GPUS])
{
    struct fr_buf *text = &s->samples.gpu_text;
    char piece[4096];
    ssize_t k = -1;
    size_t n = 0;

    while (s->samples.gpu_fd >= 0 && (k = fr_sys.read(s->samples.gpu_fd, piece, sizeof(piece))) > 0)
        fr_buf_add(text, piece, (size_t)k);
    if (s->samples.gpu_fd >= 0 && (k == 0 || (k < 0 && errno != EAGAIN && errno != EINTR))) {
        end_gpus(s); /* there is no driver */
        return 0;
    }
    if (text->n > GPU_TEXT)
        fr_buf_cut(text, text->n - GPU_TEXT);
    for (size_t at = 0; at < text->n;) {
        const char *line = text->p + at, *nl = memchr(line, '\n', text->n - at);
        unsigned long index = nl != NULL ? strtoul(line, NULL, 10) : GPUS;

        if (nl == NULL)
            break;
        if (index < GPUS && line[0] >= '0' && line[0] <= '9') {
            v[index] = (struct fr_str){line, (size_t)(nl - line)};
            n = index + 1 > n ? index + 1 : n;
        }
        at = (size_t)(nl - text->p) + 1;
    }
    return n;
}

/* ---- a sample ---- */

static uint64_t a_second(uint64_t before, uint64_t now, int64_t ms)
{
    return now > before && ms > 0 ? (now - before) * 1000 / (uint64_t)ms : 0;
}

static void send_sample(struct srv *s, int64_t now, uint64_t busy, uint64_t all)
{
    struct srv_samples *before = &s->samples;
    struct fr_msg m = {.type = FR_MSG_SAMPLE};
    struct fr_str gpus[GPUS];
    struct fr_arena arena = {0};
    uint64_t rx, tx;

    for (size_t i = 0; i < GPUS; i++)
        gpus[i] = (struct fr_str){"", 0};
    m.sample.wall_ms = fr_sys.wall_ms();
    m.sample.cpu = all > before->cpu_all
                       ? (uint32_t)((busy - before->cpu_busy) * 1000 / (all - before->cpu_all))
                       : 0;
    read_net(&rx, &tx);
    m.sample.rx = a_second(before->rx, rx, now - before->at_ms);
    m.sample.tx = a_second(before->tx, tx, now - before->at_ms);
    read_rest(s, &m.sample);
    m.sample.gpus = (struct fr_strs){gpus, take_gpus(s, gpus)};
    if (!before->facts_told)
        srv_facts_list(s, &arena, &m.sample.facts);
    before->facts_told = true;
    srv_send(s, &m);
    fr_arena_finish(&arena);
    before->rx = rx;
    before->tx = tx;
}

void srv_samples_step(struct srv *s)
{
    int64_t now = fr_sys.mono_ms();
    uint64_t busy, all;

    if (now < s->samples.due_ms)
        return;
    s->samples.due_ms = INT64_MAX;
    if (!read_cpu(&busy, &all))
        return;
    if (s->samples.at_ms != 0)
        send_sample(s, now, busy, all);
    else
        read_net(&s->samples.rx, &s->samples.tx);
    if (!s->samples.gpus_asked)
        start_gpus(s);
    s->samples.due_ms = now + (s->samples.at_ms != 0 ? FR_SAMPLE_MS : FIRST_MS);
    s->samples.at_ms = now;
    s->samples.cpu_busy = busy;
    s->samples.cpu_all = all;
}

void srv_samples_finish(struct srv *s)
{
    if (s->samples.due_ms != 0)
        end_gpus(s);
}
