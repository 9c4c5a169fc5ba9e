/* Sources: the manuals of sinfo and slurm.conf; what sinfo 22.05 printed. */
#include "engine/slurm/fields.h"
#include "engine/slurm/partitions.h"

#include <string.h>

enum { SECOND_MS = 1000, MINUTE_S = 60, HOUR_S = 3600, DAY_S = 86400 };

/* The name is last: only it may have any character. */
#define FORMAT "--format=%a|%l|%F|%s|%G|%P"

enum { AVAIL, LIMIT, NODES, SIZE, GRES, NAME, FIELDS };

const char *const *fr_sinfo_args(struct fr_arena *arena)
{
    static const char *const words[] = {"sinfo", "--noheader", "--all", "--exact", FORMAT, NULL};
    const char **argv = fr_arena_array(arena, sizeof(words) / sizeof(words[0]), sizeof(*argv));

    if (argv != NULL)
        memcpy(argv, words, sizeof(words));
    return argv;
}

/* The number before the first of those characters, or at the end; *s moves behind it. */
static bool next_number(struct fr_str *s, const char *ends, int64_t *n)
{
    size_t len = 0;

    while (len < s->n && strchr(ends, s->p[len]) == NULL)
        len++;
    if (!fr_field_number((struct fr_str){s->p, len}, n) || *n > INT32_MAX)
        return false;
    len += len < s->n;
    *s = (struct fr_str){s->p + len, s->n - len};
    return true;
}

/* "1-00:00:00", "12:00:00", "30:00", "infinite", "n/a" */
static bool read_limit(struct fr_str s, int64_t *ms)
{
    static const int64_t worth[] = {1, MINUTE_S, HOUR_S};
    int64_t part[3] = {0}, days = 0, sum = 0;
    size_t n = 0;

    *ms = INT64_MAX;
    if (fr_str_is(s, "infinite") || fr_str_is(s, "n/a"))
        return true;
    if (s.n > 0 && memchr(s.p, '-', s.n) != NULL && !next_number(&s, "-", &days))
        return false;
    while (n < 3 && s.n > 0)
        if (!next_number(&s, ":", &part[n++]))
            return false;
    for (size_t i = 0; i < n; i++)
        sum += part[i] * worth[n - 1 - i];
    *ms = (days * DAY_S + sum) * SECOND_MS;
    return n >= 2 && s.n == 0;
}

/* Allocated, idle, other, in all: "1/2/0/3" */
static bool read_nodes(struct fr_str s, struct fr_partition_line *to)
{
    int64_t allocated, idle, others;
    bool whole = next_number(&s, "/", &allocated) && next_number(&s, "/", &idle) &&
                 next_number(&s, "/", &others) && next_number(&s, "/", &to->nodes) && s.n == 0;

    to->usable = whole ? allocated + idle : 0;
    return whole;
}

/* "1-infinite", "1-2", "2" */
static bool read_most(struct fr_str s, int64_t *most)
{
    const char *dash = s.n > 0 ? memchr(s.p, '-', s.n) : NULL;

    if (dash != NULL)
        s = (struct fr_str){dash + 1, s.n - (size_t)(dash + 1 - s.p)};
    *most = INT64_MAX;
    return fr_str_is(s, "infinite") || (next_number(&s, "", most) && s.n == 0);
}

static const char *shown(struct fr_arena *arena, struct fr_str s)
{
    char *text = fr_arena_alloc(arena, 3 * s.n + 1);

    if (text == NULL)
        return NULL;
    text[0] = '\0';
    if (s.n > 0)
        fr_visible(text, 3 * s.n + 1, s.p, s.n);
    return text;
}

static enum fr_rc read_line(struct fr_str line, struct fr_arena *arena,
                            struct fr_partition_line *to, struct fr_err *err)
{
    struct fr_str f[FIELDS] = {{NULL, 0}};

    if (!fr_fields(line, f, FIELDS) || f[NAME].n == 0 ||
        !fr_field_only(f[AVAIL], FR_NAME_CHARACTERS) || !read_limit(f[LIMIT], &to->limit_ms) ||
        !read_nodes(f[NODES], to) || !read_most(f[SIZE], &to->most))
        return fr_fields_refuse(err, "sinfo", line);
    to->preset = f[NAME].p[f[NAME].n - 1] == '*';
    f[NAME].n -= to->preset;
    to->name = shown(arena, f[NAME]);
    to->avail = shown(arena, f[AVAIL]);
    to->gres = shown(arena, f[GRES]);
    if (to->name == NULL || to->avail == NULL || to->gres == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for partitions");
    return FR_OK;
}

enum fr_rc fr_sinfo_read(struct fr_str out, struct fr_arena *arena, struct fr_partitions *to,
                         struct fr_err *err)
{
    struct fr_str rest = out, line;
    enum fr_rc rc = FR_OK;
    size_t n = 0;

    *to = (struct fr_partitions){0};
    if (out.n > 0 && out.p[out.n - 1] != '\n')
        return fr_fail(err, FR_CORRUPT, "what sinfo printed has no end");
    while (fr_next_line(&rest, &line))
        n++;
    to->lines = fr_arena_array(arena, n + 1, sizeof(*to->lines));
    if (to->lines == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for partitions");
    for (rest = out; rc == FR_OK && fr_next_line(&rest, &line);) {
        to->lines[to->n] = (struct fr_partition_line){0};
        rc = read_line(line, arena, &to->lines[to->n], err);
        to->n += rc == FR_OK;
    }
    if (rc != FR_OK)
        to->n = 0;
    return rc;
}

/* "gpu:8", "gpu:a100:8": its number, if it is of that type. */
static int64_t gpus_of(struct fr_str item, const char *type)
{
    const char *first = memchr(item.p, ':', item.n), *last = memrchr(item.p, ':', item.n);
    struct fr_str of = {NULL, 0};
    int64_t n = 0;

    if (first == NULL || first - item.p != 3 || memcmp(item.p, "gpu", 3) != 0)
        return 0;
    if (last > first)
        of = (struct fr_str){first + 1, (size_t)(last - first - 1)};
    if ((type != NULL && !fr_str_is(of, type)) ||
        !fr_field_number((struct fr_str){last + 1, item.n - (size_t)(last + 1 - item.p)}, &n) ||
        n > INT32_MAX)
        return 0;
    return n;
}

int64_t fr_gres_gpus(const char *gres, const char *type)
{
    int64_t sum = 0;

    while (*gres != '\0') {
        size_t n = strcspn(gres, ",(");

        if (n > 0)
            sum += gpus_of((struct fr_str){gres, n}, type);
        gres += n + strcspn(gres + n, ","); /* "(S:0,2)", its sockets, has no item of that form */
        gres += *gres == ',';
    }
    return sum;
}
