/* Facts of the node, as "K=V". Source of the numbers: proc(5). */
#include "engine/base/file.h"
#include "engine/supervise/environ.h"
#include "engine/supervise/logind.h"
#include "engine/node/private.h"

#include <string.h>

enum { FACTS = 13, PROC_MAX = 4 << 20 };

#if defined(__x86_64__)
#define ARCH "x86_64"
#elif defined(__aarch64__)
#define ARCH "aarch64"
#elif defined(__riscv)
#define ARCH "riscv64"
#else
#define ARCH "unknown"
#endif

/* A small file of the kernel; "": it cannot be read. */
static const char *text_of(const char *path, struct fr_arena *arena)
{
    struct fr_buf b = {0};
    const char *text = NULL;

    if (fr_file_read(path, PROC_MAX, &b, NULL) == FR_OK && b.n > 0)
        text = fr_arena_text(arena, b.p, b.n);
    fr_buf_finish(&b);
    return text != NULL ? text : "";
}

static char *line_fact(struct fr_arena *arena, const char *name, const char *path)
{
    const char *text = text_of(path, arena);

    return fr_arena_fmt(arena, "%s=%.*s", name, (int)strcspn(text, "\n"), text);
}

static int64_t count_cpus(struct fr_arena *arena)
{
    int64_t n = 0;

    for (const char *p = text_of("/proc/stat", arena); (p = strstr(p, "\ncpu")) != NULL; p++)
        n++;
    return n;
}

/* The first number of /proc/meminfo is MemTotal, in KiB. */
static int64_t memory_bytes(struct fr_arena *arena)
{
    const char *p = text_of("/proc/meminfo", arena);
    int64_t kib = 0;

    p += strcspn(p, "0123456789");
    if (fr_parse_i64((struct fr_str){p, strspn(p, "0123456789")}, &kib, NULL) != FR_OK)
        return 0;
    return kib * 1024;
}

void srv_facts_list(const struct srv *s, struct fr_arena *arena, struct fr_strs *out)
{
    const struct fr_strs *lists[] = {&s->environ};
    const char *const *env = fr_environ_make(lists, 1, arena);
    const char *user = env != NULL ? fr_environ_value(env, "USER") : "";
    const char *texts[] = {
        line_fact(arena, "hostname", "/proc/sys/kernel/hostname"),
        fr_arena_fmt(arena, "user=%s", user),
        fr_arena_fmt(arena, "uid=%u", fr_sys.uid()),
        line_fact(arena, "kernel", "/proc/sys/kernel/osrelease"),
        "arch=" ARCH,
        fr_arena_fmt(arena, "cpus=%lld", (long long)count_cpus(arena)),
        fr_arena_fmt(arena, "mem_bytes=%lld", (long long)memory_bytes(arena)),
        fr_arena_fmt(arena, "disk_free_bytes=%lld", (long long)fr_sys.disk_free(s->home.path)),
        fr_arena_fmt(arena, "home=%s", s->home.path),
        fr_arena_fmt(arena, "user_home=%s", env != NULL ? fr_environ_value(env, "HOME") : ""),
        fr_arena_fmt(arena, "flownode=%s", s->a->self),
        fr_logind_kills("", user, text_of("/proc/self/cgroup", arena)) ? "logind_kills=yes" : NULL,
    };

    *out = (struct fr_strs){fr_arena_array(arena, FACTS, sizeof(struct fr_str)), 0};
    for (size_t i = 0; out->v != NULL && i < sizeof(texts) / sizeof(texts[0]); i++)
        if (texts[i] != NULL)
            out->v[out->n++] = fr_str_of(texts[i]);
}

void srv_facts(struct srv *s, uint64_t ref)
{
    struct fr_arena arena = {0};
    struct fr_msg m = {.type = FR_MSG_FACTS_ARE};

    m.facts_are.ref = ref;
    srv_facts_list(s, &arena, &m.facts_are.facts);
    srv_send(s, &m);
    fr_arena_finish(&arena);
}
