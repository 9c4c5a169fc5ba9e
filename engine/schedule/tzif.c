/* Zones from files: TZif of RFC 9636, section 3. */
#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "engine/schedule/zone.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

enum {
    HEADER = 44,
    OFFSET_MAX = 26 * 3600, /* RFC 9636: -24:59:59 … 25:59:59 */
    NAME_MAX_BYTES = FR_ZONE_NAME - 1
};

struct block { /* the counts of a header, and where its parts lie */
    uint8_t version;
    uint32_t isut, isstd, leap, times, types, chars;
    const uint8_t *at; /* first byte after the header */
    size_t bytes;
};

static uint32_t get32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static int64_t get64(const uint8_t *p)
{
    return (int64_t)((uint64_t)get32(p) << 32 | get32(p + 4));
}

/* Reads the block at *from; width is that of a time. Moves *from past it. */
static bool read_block(struct fr_str *from, size_t width, struct block *b)
{
    const uint8_t *p = (const uint8_t *)from->p;

    if (from->n < HEADER || memcmp(p, "TZif", 4) != 0)
        return false;
    *b = (struct block){.version = p[4],
                        .isut = get32(p + 20),
                        .isstd = get32(p + 24),
                        .leap = get32(p + 28),
                        .times = get32(p + 32),
                        .types = get32(p + 36),
                        .chars = get32(p + 40),
                        .at = p + HEADER};
    if (b->isut > 256 || b->isstd > 256 || b->types > 256 || b->chars > FR_ZONE_MAX_BYTES ||
        b->times > FR_ZONE_MAX_BYTES || b->leap > FR_ZONE_MAX_BYTES)
        return false;
    b->bytes = b->times * (width + 1) + b->types * 6u + b->chars + b->leap * (width + 4) +
               b->isstd + b->isut;
    if (from->n - HEADER < b->bytes)
        return false;
    *from = (struct fr_str){from->p + HEADER + b->bytes, from->n - HEADER - b->bytes};
    return true;
}

/* The mistake in the table, or NULL. Adds its changes of offset to zone. */
static const char *read_table(struct fr_zone *zone, const struct block *b)
{
    const uint8_t *type_of = b->at + b->times * 8u, *types = type_of + b->times;
    int32_t now;

    for (uint32_t i = 0; i < b->types; i++) {
        int64_t offset = (int32_t)get32(types + i * 6u);

        if (offset <= -OFFSET_MAX || offset >= OFFSET_MAX)
            return "an offset is out of range";
    }
    zone->first = now = (int32_t)get32(types);
    for (uint32_t i = 0; i < b->times; i++) {
        int64_t at = get64(b->at + i * 8u);
        int32_t offset;

        if (type_of[i] >= b->types)
            return "a transition has a type that is not there";
        if (i > 0 && at <= zone->table_end)
            return "its transitions are not in order";
        zone->table_end = at;
        offset = (int32_t)get32(types + type_of[i] * 6u);
        if (offset != now)
            zone->changes[zone->n++] = (struct fr_zone_change){at, now, offset};
        now = offset;
    }
    return NULL;
}

/* The offset that the footer's rule gives for the instant t. */
static int32_t rule_offset(const struct fr_zone *zone, int64_t t)
{
    struct fr_zone whole = *zone;
    struct fr_zone_change c;

    whole.table_end = INT64_MIN;
    if (!zone->summer)
        return zone->std;
    if (fr_zone_rule_change(&whole, t, false, &c))
        return c.after;
    return fr_zone_rule_change(&whole, t, true, &c) ? c.before : zone->dst;
}

/* Newline, rule, newline. An empty rule: the last offset holds for ever. */
static enum fr_rc read_footer(struct fr_zone *zone, struct fr_str rest, struct fr_err *err)
{
    int32_t last = zone->n > 0 ? zone->changes[zone->n - 1].after : zone->first;
    const char *end = rest.n > 1 ? memchr(rest.p + 1, '\n', rest.n - 1) : NULL;
    struct fr_str rule;
    enum fr_rc rc;

    if (end == NULL || rest.p[0] != '\n')
        return fr_fail(err, FR_CORRUPT, "it has no footer");
    rule = (struct fr_str){rest.p + 1, (size_t)(end - rest.p - 1)};
    if (rule.n == 0)
        return FR_OK;
    if ((rc = fr_zone_read_footer(zone, rule, err)) != FR_OK)
        return rc;
    if (zone->table_end == INT64_MIN) /* no transition: the rule holds at all times */
        zone->first = rule_offset(zone, 0);
    else if (rule_offset(zone, zone->table_end) != last)
        return fr_fail(err, FR_CORRUPT, "its table and its footer disagree");
    return FR_OK;
}

enum fr_rc fr_zone_parse(struct fr_zone *zone, const char *name, struct fr_str bytes,
                         struct fr_err *err)
{
    struct block first, b;
    const char *wrong;
    enum fr_rc rc = FR_OK;

    *zone = (struct fr_zone){.table_end = INT64_MIN};
    (void)snprintf(zone->name, sizeof(zone->name), "%s", name);
    if (!read_block(&bytes, 4, &first))
        return fr_fail(err, FR_CORRUPT, "zone %s: not a TZif file", zone->name);
    if (first.version < '2')
        return fr_fail(err, FR_CORRUPT,
                       "zone %s: TZif of version 1, which ends in 2037; "
                       "install a tzdata that is not so old",
                       zone->name);
    if (!read_block(&bytes, 8, &b) || b.types == 0 || (b.isut != 0 && b.isut != b.types) ||
        (b.isstd != 0 && b.isstd != b.types))
        return fr_fail(err, FR_CORRUPT, "zone %s: its 64-bit table is cut or wrong", zone->name);
    if (b.leap > 0)
        return fr_fail(err, FR_USAGE,
                       "zone %s counts leap seconds, which this machine's clock "
                       "does not",
                       zone->name);
    zone->changes = fr_sys.alloc((b.times > 0 ? b.times : 1) * sizeof(*zone->changes));
    if (zone->changes == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for zone %s", zone->name);
    wrong = read_table(zone, &b);
    if (wrong != NULL)
        rc = fr_fail(err, FR_CORRUPT, "%s", wrong);
    else
        rc = read_footer(zone, bytes, err);
    if (rc != FR_OK) {
        rc = fr_while(err, "zone %s", zone->name);
        fr_zone_finish(zone);
    }
    return rc;
}

/* Letters, digits, - + _ in parts between slashes: never "", "." or "..". */
static bool name_ok(const char *name)
{
    size_t n = strlen(name);

    if (n > NAME_MAX_BYTES || !isalpha((unsigned char)name[0]) || name[n - 1] == '/' ||
        strstr(name, "//") != NULL)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)name[i]) && strchr("-+_/", name[i]) == NULL)
            return false;
    return true;
}

/* "+02:00", "UTC+2", "GMT-3", "Etc/GMT+5" */
static bool is_offset(const char *name)
{
    static const char *const fronts[] = {"Etc/GMT", "Etc/UTC", "UTC", "GMT", ""};

    for (size_t i = 0; i < sizeof(fronts) / sizeof(fronts[0]); i++)
        if (fr_has_prefix(name, fronts[i])) {
            const char *rest = name + strlen(fronts[i]);

            return (*rest == '+' || *rest == '-') && strpbrk(rest, "123456789") != NULL;
        }
    return false;
}

/* A few capitals: CEST, PST. */
static bool is_abbreviation(const char *name)
{
    size_t n = strlen(name);

    return n >= 2 && n <= 5 && strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == n;
}

static enum fr_rc unknown(const char *folder, const char *name, struct fr_err *err)
{
    static const char *const older[] = {"US/", "Canada/", "Brazil/", "Mexico/", "Chile/"};
    struct fr_buf path = {0};
    struct stat st;
    int rc;

    fr_buf_fmt(&path, "%s/Etc/UTC", folder);
    rc = path.bad ? 0 : fr_sys.lstat(path.p, &st);
    fr_buf_finish(&path);
    if (rc != 0)
        return fr_fail(err, FR_NOTFOUND,
                       "no time zones in %s: install the package tzdata, or "
                       "write UTC",
                       folder);
    if (is_abbreviation(name))
        return fr_fail(err, FR_USAGE,
                       "'%s' is an abbreviation, not a zone; write a place such as "
                       "Europe/Berlin, or UTC",
                       name);
    for (size_t i = 0; i < sizeof(older) / sizeof(older[0]); i++)
        if (fr_has_prefix(name, older[i]))
            return fr_fail(err, FR_USAGE,
                           "no zone '%s' in %s; names of this older kind come with "
                           "the package tzdata-legacy, else write a place such as "
                           "America/New_York",
                           name, folder);
    return fr_fail(err, FR_USAGE,
                   "no zone '%s' in %s; write one as the IANA database names it, "
                   "such as Europe/Berlin, or UTC",
                   name, folder);
}

static enum fr_rc check_name(const char *name, struct fr_err *err)
{
    if (is_offset(name))
        return fr_fail(err, FR_USAGE,
                       "'%.64s' is a fixed offset, not a zone; write a place such "
                       "as Europe/Berlin, or UTC",
                       name);
    if (!name_ok(name))
        return fr_fail(err, FR_USAGE,
                       "'%.64s' is not the name of a zone; write one such as "
                       "Europe/Berlin, or UTC",
                       name);
    if (fr_has_prefix(name, "right/") || fr_has_prefix(name, "posix/"))
        return fr_fail(err, FR_USAGE, "'%s' is a variant of '%s'; write that", name, name + 6);
    if (strcmp(name, "localtime") == 0 || strcmp(name, "posixrules") == 0)
        return fr_fail(err, FR_USAGE,
                       "'%s' is this machine's zone, not a zone; write a place such "
                       "as Europe/Berlin, or UTC",
                       name);
    return FR_OK;
}

/* The file of a zone, open; -1 and errno. */
static int open_zone(const char *folder, const char *name, struct stat *st)
{
    struct fr_buf path = {0};
    int fd = -1;

    fr_buf_fmt(&path, "%s/%s", folder, name);
    if (!path.bad)
        fd = fr_sys.open(path.p, O_RDONLY | O_NONBLOCK, 0);
    fr_buf_finish(&path);
    if (fd >= 0 && (fr_sys.fstat(fd, st) != 0 || !S_ISREG(st->st_mode))) {
        fr_sys.close(fd);
        fd = -1;
    }
    return fd;
}

static int64_t mtime_ns(const struct stat *st)
{
    return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

enum fr_rc fr_zone_load(struct fr_zone *zone, const char *folder, const char *name,
                        struct fr_err *err)
{
    struct stat st;
    enum fr_rc rc;
    char *bytes;
    int fd;

    *zone = (struct fr_zone){.name = "UTC"};
    if (strcmp(name, "UTC") == 0)
        return FR_OK;
    if ((rc = check_name(name, err)) != FR_OK)
        return rc;
    folder = folder != NULL ? folder : FR_ZONE_FOLDER;
    if ((fd = open_zone(folder, name, &st)) < 0)
        return unknown(folder, name, err);
    if (st.st_size > FR_ZONE_MAX_BYTES) {
        fr_sys.close(fd);
        return fr_fail(err, FR_USAGE, "zone %s: its file is larger than 1 MiB", name);
    }
    bytes = fr_sys.alloc((size_t)st.st_size + 1);
    if (bytes == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for zone %s", name);
    else if (!fr_read_full(fd, bytes, (size_t)st.st_size))
        rc = fr_fail(err, FR_IO, "zone %s: its file cannot be read", name);
    else
        rc = fr_zone_parse(zone, name, (struct fr_str){bytes, (size_t)st.st_size}, err);
    fr_sys.free(bytes);
    fr_sys.close(fd);
    if (rc == FR_OK) {
        zone->file.inode = (uint64_t)st.st_ino;
        zone->file.size = st.st_size;
        zone->file.mtime_ns = mtime_ns(&st);
    }
    return rc;
}

bool fr_zone_replaced(const struct fr_zone *zone, const char *folder)
{
    struct stat st;
    int fd;

    if (zone->file.inode == 0 && zone->file.size == 0) /* UTC */
        return false;
    fd = open_zone(folder != NULL ? folder : FR_ZONE_FOLDER, zone->name, &st);
    if (fd < 0)
        return false;
    fr_sys.close(fd);
    return (uint64_t)st.st_ino != zone->file.inode || st.st_size != zone->file.size ||
           mtime_ns(&st) != zone->file.mtime_ns;
}
