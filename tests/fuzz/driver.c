/*
 * Runs the seeds of targets, then inputs made from them by flipping, cutting, doubling and joining
 * bytes and by words that parsers look for. The same numbers give the same inputs.
 *
 * usage: fuzz SEEDS TARGET COUNT    the files of SEEDS/TARGET, then COUNT inputs
 *        fuzz SEEDS TARGET FILE     this input alone
 *        fuzz SEEDS --seeds         writes the seeds that are made by code
 *        fuzz SEEDS --list          names of the targets
 */
#include "tests/fuzz/fuzz.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "tests/unit/check.h"

enum { SEEDS_MAX = 256, SEED_BYTES = 1 << 20 };

static struct {
    struct fr_buf seeds[SEEDS_MAX];
    size_t n;
    uint64_t rng;
} all = {.rng = 88172645463325252u};

/* Marsaglia's xorshift64 (Journal of Statistical Software 8(14), 2003). */
static size_t pick(size_t n)
{
    all.rng ^= all.rng << 13;
    all.rng ^= all.rng >> 7;
    all.rng ^= all.rng << 17;
    return (size_t)(all.rng % n);
}

static void splice(struct fr_buf *b, size_t at, size_t drop, struct fr_str in)
{
    struct fr_buf out = {0};

    drop = drop < b->n - at ? drop : b->n - at;
    if (at > 0)
        fr_buf_add(&out, b->p, at);
    fr_buf_add(&out, in.p, in.n);
    if (b->n > at + drop)
        fr_buf_add(&out, b->p + at + drop, b->n - at - drop);
    fr_buf_finish(b);
    *b = out;
}

/* clang-format off */
static const char *const words[] = {
    "null", "-1", "1e999", "18446744073709551616", "\"\"", "[]", "{}", "\\u0000", "\xff",
    "\x1b[", "true", "0", "9223372036854775807", "\"auto\"", ",", "}", "[[[[[[[[", "${{", "}}",
    "&a ", "*a", "<<", "\n", "../", "/", "\x7f\xff\xff\xff", "'", "\"", ": ", "- ", "!", "*",
    "#", "=", "%", " ", "\t"};
/* clang-format on */

static void double_bytes(struct fr_buf *b, size_t at, size_t n)
{
    char copy[16];

    n = n < sizeof(copy) ? n : sizeof(copy);
    n = n < b->n - at ? n : b->n - at;
    if (n > 0) {
        memcpy(copy, b->p + at, n);
        splice(b, at, 0, (struct fr_str){copy, n});
    }
}

/* A piece of another seed, instead of what stands there or in front of it. */
static void graft(struct fr_buf *b, size_t at)
{
    const struct fr_buf *other = &all.seeds[pick(all.n)];
    size_t from = pick(other->n + 1), n = pick(64);

    n = n < other->n - from ? n : other->n - from;
    if (n > 0)
        splice(b, at, pick(2) * n, (struct fr_str){other->p + from, n});
}

static void mutate(struct fr_buf *b)
{
    for (size_t k = 1 + pick(4); k > 0; k--) {
        size_t at = pick(b->n + 1), n = 1 + pick(16);
        struct fr_str w = fr_str_of(words[pick(sizeof(words) / sizeof(words[0]))]);

        switch (pick(7)) {
        case 0:
            splice(b, at, 1, (struct fr_str){&(char){(char)pick(256)}, 1});
            break;
        case 1:
            splice(b, at, b->n, FR_STR(""));
            break;
        case 2:
            splice(b, at, w.n, w);
            break;
        case 3:
            splice(b, at, 0, w);
            break;
        case 4:
            splice(b, at, n, FR_STR(""));
            break;
        case 5:
            double_bytes(b, at, n);
            break;
        default:
            graft(b, at);
        }
    }
}

/* A copy of exactly n bytes on the heap, so that reading behind the end is found. */
static void run(const struct fuzz_target *t, const struct fr_buf *b)
{
    char *copy = malloc(b->n > 0 ? b->n : 1);

    if (copy == NULL)
        exit(EXIT_FAILURE);
    if (b->n > 0)
        memcpy(copy, b->p, b->n);
    t->run((struct fr_str){copy, b->n});
    free(copy);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void load(const char *dir)
{
    char **names, path[2048];
    size_t n;
    struct fr_err err;

    if (!CHECK(fr_sys_real.list(dir, &names, &n) == 0))
        return;
    if (n > 0)
        qsort(names, n, sizeof(*names), by_name);
    for (size_t i = 0; i < n && all.n < SEEDS_MAX; i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        CHECK_INT(fr_file_read(path, SEED_BYTES, &all.seeds[all.n++], &err), FR_OK);
    }
    fr_sys_names_free(names, n);
}

static void keep_last(const struct fr_buf *b)
{
    FILE *f = fopen("fuzz-last", "w"); /* what to look at when the next run crashes */

    if (f != NULL) {
        (void)fwrite(b->p != NULL ? b->p : "", 1, b->n, f);
        (void)fclose(f);
    }
}

static void fuzz(const struct fuzz_target *t, const char *seeds, long count)
{
    char dir[1024];
    const char *keep = getenv("FUZZ_KEEP");

    (void)snprintf(dir, sizeof(dir), "%s/%s", seeds, t->name);
    check_row(t->name);
    load(dir);
    if (!CHECK(all.n > 0))
        return;
    for (size_t i = 0; i < all.n; i++)
        run(t, &all.seeds[i]);
    for (long i = 0; i < count; i++) {
        struct fr_buf b = {0};
        const struct fr_buf *seed = &all.seeds[pick(all.n)];

        fr_buf_add(&b, seed->p, seed->n);
        mutate(&b);
        if (keep != NULL)
            keep_last(&b);
        run(t, &b);
        fr_buf_finish(&b);
    }
    printf("%s: %zu seeds, %ld inputs\n", t->name, all.n, count);
    CHECK(true);
    for (size_t i = 0; i < all.n; i++)
        fr_buf_finish(&all.seeds[i]);
}

static void put_seed(void *arg, const char *name, struct fr_str bytes)
{
    char path[1024];
    struct fr_err err;

    (void)snprintf(path, sizeof(path), "%s/%s", (const char *)arg, name);
    CHECK_INT(fr_file_write(path, bytes.p, bytes.n, 0644, &err), FR_OK);
}

static void write_seeds(const char *seeds)
{
    char dir[1024];
    struct fr_err err;

    for (const struct fuzz_target *t = fuzz_targets; t->name != NULL; t++) {
        (void)snprintf(dir, sizeof(dir), "%s/%s", seeds, t->name);
        if (t->seeds == NULL || !CHECK_INT(fr_mkdirs(dir, 0755, &err), FR_OK))
            continue;
        t->seeds(put_seed, dir);
    }
}

int main(int argc, char **argv)
{
    const struct fuzz_target *t = argc > 2 ? fuzz_find(argv[2]) : NULL;
    char *end;

    if (argc == 3 && strcmp(argv[2], "--list") == 0) {
        for (t = fuzz_targets; t->name != NULL; t++)
            printf("%s\n", t->name);
        return 0;
    }
    if (argc == 3 && strcmp(argv[2], "--seeds") == 0) {
        write_seeds(argv[1]);
        return check_done();
    }
    if (argc != 4 || t == NULL) {
        fprintf(stderr, "usage: fuzz SEEDS TARGET COUNT|FILE, fuzz SEEDS --seeds|--list\n");
        return 2;
    }
    long count = strtol(argv[3], &end, 10);
    if (*end == '\0') {
        fuzz(t, argv[1], count);
    } else {
        struct fr_buf b = {0};
        struct fr_err err;
        CHECK_INT(fr_file_read(argv[3], SEED_BYTES, &b, &err), FR_OK);
        run(t, &b);
        fr_buf_finish(&b);
    }
    return check_done();
}
