#include "engine/supervise/journal.h"

#include "engine/base/sys.h"
#include "engine/wire/codec.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>

enum { HEAD = 12, FEW = 2 << 10, PIECE = 64 << 10 };

#define MAGIC 0x314a5246u /* "FRJ1" */

#define AT(kind, member)                                                                           \
    {                                                                                              \
        FR_FIELD_##kind, offsetof(struct fr_rec, member), NULL                                     \
    }

static const struct fr_field rec_fields[] = {
    AT(U32, kind),       AT(ID, attempt),     AT(U64, epoch),       AT(ID, run),
    AT(TEXT, instance),  AT(TEXT, spec_hash), AT(U32, generation),  AT(TEXT, boot),
    AT(U32, sup_pid),    AT(U64, sup_start),  AT(U64, launched_ms), AT(U64, grace_ms),
    AT(TEXT, container), AT(BYTES, ended),    AT(ID, socket_id),    AT(U64, wall_ms),
    AT(TEXT, cgroup),
};

static const struct fr_shape rec_shape = {"journal record", sizeof(struct fr_rec), rec_fields,
                                          sizeof(rec_fields) / sizeof(rec_fields[0])};

static uint32_t crc32_of(const char *p, size_t n)
{
    /* four bits a step: the CRC of each value of four bits */
    static const uint32_t step[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac,
                                      0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
                                      0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                      0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    uint32_t crc = ~0u;

    for (size_t i = 0; i < n; i++) {
        crc ^= (uint8_t)p[i];
        crc = (crc >> 4) ^ step[crc & 15];
        crc = (crc >> 4) ^ step[crc & 15];
    }
    return ~crc;
}

enum fr_rc fr_journal_open(const char *path, int *fd, struct fr_err *err)
{
    *fd = fr_sys.open(path, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW, 0600);
    return *fd >= 0 ? FR_OK : fr_fail_errno(err, errno, "cannot open the journal %s", path);
}

enum fr_rc fr_journal_put(struct fr_buf *b, const struct fr_rec *rec, struct fr_err *err)
{
    struct fr_rec r = *rec;
    char head[HEAD] = {0};
    size_t from = b->n;

    if (r.wall_ms == 0)
        r.wall_ms = fr_sys.wall_ms();
    fr_buf_add(b, head, HEAD);
    fr_shape_put(&rec_shape, &r, b);
    if (b->bad)
        return fr_fail(err, FR_NOMEM, "no memory for a journal record");
    size_t n = b->n - from - HEAD;
    if (n > FR_REC_MAX)
        return fr_fail(err, FR_USAGE, "a journal record of %zu bytes", n);
    fr_put_u32(b->p + from, MAGIC);
    fr_put_u32(b->p + from + 4, (uint32_t)n);
    fr_put_u32(b->p + from + 8, crc32_of(b->p + from + HEAD, n));
    return FR_OK;
}

enum fr_rc fr_journal_append(int fd, const struct fr_rec *rec, struct fr_err *err)
{
    struct fr_buf b = {0};
    enum fr_rc rc = fr_journal_put(&b, rec, err);

    if (rc == FR_OK) {
        ssize_t k;
        do {
            k = fr_sys.write(fd, b.p, b.n);
        } while (k < 0 && errno == EINTR);
        if (k != (ssize_t)b.n)
            rc = fr_fail_errno(err, k < 0 ? errno : ENOSPC, "cannot write the journal");
    }
    fr_buf_finish(&b);
    return rc;
}

/* Length of the whole record at p, 0 when more bytes are needed, -1 when there is none. */
static ssize_t record_at(const char *p, size_t n)
{
    if (n < HEAD)
        return n >= 4 && fr_get_u32(p) != MAGIC ? -1 : 0;
    uint32_t len = fr_get_u32(p + 4);
    if (fr_get_u32(p) != MAGIC || len > FR_REC_MAX)
        return -1;
    if (n - HEAD < len)
        return 0;
    return crc32_of(p + HEAD, len) == fr_get_u32(p + 8) ? (ssize_t)(HEAD + len) : -1;
}

/* Whether a whole record begins after the unfinished one at p. */
static bool whole_behind(const char *p, size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (p[i] == (char)(MAGIC & 0xff) && record_at(p + i, n - i) > 0)
            return true;
    return false;
}

struct reading {
    void (*take)(void *arg, const struct fr_rec *rec);
    void *arg;
};

/* Takes the whole records of b; the rest begins with an unfinished one. torn: an unfinished record
 * before a whole one is skipped, too. */
static enum fr_rc take_records(struct fr_buf *b, const struct reading *r, bool torn,
                               struct fr_err *err)
{
    size_t at = 0;
    enum fr_rc rc = FR_OK;

    while (at < b->n && rc == FR_OK) {
        struct fr_arena arena = {0};
        struct fr_rec rec;
        ssize_t n = record_at(b->p + at, b->n - at);
        if (n == 0 && !(torn && whole_behind(b->p + at, b->n - at)))
            break;
        if (n <= 0) {
            at++;
            continue;
        }
        rc = fr_shape_get(&rec_shape, (struct fr_str){b->p + at + HEAD, (size_t)n - HEAD}, &arena,
                          &rec, err);
        if (rc == FR_OK)
            r->take(r->arg, &rec);
        rc = rc == FR_PROTO ? FR_OK : rc; /* a record that only a later version understands */
        fr_arena_finish(&arena);
        at += (size_t)n;
    }
    fr_buf_cut(b, at);
    return rc;
}

/* One pass over the new bytes. *torn in: skip torn records. *torn out: an unfinished record before
 * a whole one was left. */
static enum fr_rc read_new(int fd, uint64_t *at, const struct reading *r, bool *torn,
                           struct fr_err *err)
{
    struct fr_buf b = {0};
    enum fr_rc rc = FR_OK;
    char few[FEW], *many = NULL, *piece = few; /* mostly it is a record or two */
    size_t room = FEW;
    bool end = false;

    while (rc == FR_OK && !end) {
        ssize_t k = fr_sys.pread(fd, piece, room, (off_t)(*at + b.n));
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0) {
            rc = fr_fail_errno(err, errno, "cannot read the journal");
            break;
        }
        end = (size_t)k < room;
        fr_buf_add(&b, piece, (size_t)k);
        size_t before = b.n;
        rc = b.bad ? fr_fail(err, FR_NOMEM, "no memory to read the journal")
                   : take_records(&b, r, *torn && end, err);
        *at += before - b.n;
        if (rc == FR_OK && many == NULL && !end) {
            if ((many = fr_sys.alloc(PIECE)) == NULL)
                rc = fr_fail(err, FR_NOMEM, "no memory to read the journal");
            piece = many;
            room = PIECE;
        }
    }
    *torn = rc == FR_OK && whole_behind(b.p, b.n);
    fr_sys.free(many);
    fr_buf_finish(&b);
    return rc;
}

enum fr_rc fr_journal_read(int fd, uint64_t *at, void (*take)(void *arg, const struct fr_rec *rec),
                           void *arg, struct fr_err *err)
{
    struct reading r = {take, arg};
    bool torn = false;
    enum fr_rc rc = read_new(fd, at, &r, &torn, err);

    /* Appends follow one another. So a record before a whole one that is still unfinished at a
     * second look is torn, by a full disk or a kill. */
    while (rc == FR_OK && torn)
        rc = read_new(fd, at, &r, &torn, err);
    return rc;
}

void fr_ended_put(const struct fr_ended *e, struct fr_buf *out)
{
    fr_shape_put(fr_msg_shape(FR_MSG_ENDED), e, out);
}

enum fr_rc fr_ended_get(struct fr_str bytes, struct fr_arena *arena, struct fr_ended *e,
                        struct fr_err *err)
{
    return fr_shape_get(fr_msg_shape(FR_MSG_ENDED), bytes, arena, e, err);
}
