#include "engine/base/tail.h"

#include "engine/base/file.h"

#include "engine/base/sys.h"

#include <string.h>

enum { HEADER = 128, LOOKS = 1000 };

static const uint64_t magic = 0x316c696174726c66; /* "flrtail1" */

struct header { /* as on disk: the machine's byte order, it never leaves the machine */
    uint64_t magic;
    struct fr_tail_head h;
    uint64_t sum;
};

/* A header that was read while it was written does not fit its sum. */
static uint64_t sum_of(const struct fr_tail_head *h)
{
    uint64_t v[sizeof(*h) / sizeof(uint64_t)], sum = magic;

    memcpy(v, h, sizeof(v));
    for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++)
        sum = (sum ^ v[i]) * 0x100000001b3;
    return sum;
}

static bool put_header(int fd, const struct fr_tail_head *h)
{
    struct header on_disk = {magic, *h, sum_of(h)};

    return fr_pwrite_full(fd, &on_disk, sizeof(on_disk), 0);
}

bool fr_tail_put(int fd, struct fr_tail_head *h, const char *p, size_t n)
{
    struct fr_tail_head next = *h;

    next.end += n;
    if (n > FR_TAIL_MAX) {
        p += n - FR_TAIL_MAX;
        n = FR_TAIL_MAX;
    }
    for (size_t done = 0, k; done < n; done += k) {
        uint64_t at = (next.end - n + done) % FR_TAIL_RING;

        k = n - done < FR_TAIL_RING - at ? n - done : (size_t)(FR_TAIL_RING - at);
        if (!fr_pwrite_full(fd, p + done, k, HEADER + at))
            return false;
    }
    if (!put_header(fd, &next))
        return false;
    *h = next;
    return true;
}

bool fr_tail_join(int fd, struct fr_tail_head *h, uint64_t joined, uint64_t dropped)
{
    h->joined = joined;
    h->dropped = dropped;
    return put_header(fd, h);
}

void fr_tail_empty(int fd)
{
    (void)!fr_sys.ftruncate(fd, HEADER);
}

bool fr_tail_look(int fd, struct fr_tail_head *h)
{
    struct header on_disk;

    for (int i = 0; i < LOOKS; i++) {
        if (fr_sys.pread(fd, &on_disk, sizeof(on_disk), 0) != (ssize_t)sizeof(on_disk) ||
            on_disk.magic != magic)
            return false;
        *h = on_disk.h;
        if (on_disk.sum == sum_of(h))
            return h->keep <= FR_TAIL_MAX && h->from <= h->end;
    }
    return false;
}

uint64_t fr_tail_oldest(const struct fr_tail_head *h)
{
    uint64_t oldest = h->end > FR_TAIL_MAX ? h->end - FR_TAIL_MAX : 0;

    return oldest > h->from ? oldest : h->from;
}

size_t fr_tail_read(int fd, uint64_t *at, char *p, size_t n, struct fr_tail_head *h)
{
    for (int i = 0; i < LOOKS && fr_tail_look(fd, h); i++) {
        uint64_t oldest = fr_tail_oldest(h), from = *at > oldest ? *at : oldest;
        uint64_t place = from % FR_TAIL_RING, left = from < h->end ? h->end - from : 0;
        size_t k = n < left ? n : (size_t)left;

        if (k > FR_TAIL_RING - place)
            k = (size_t)(FR_TAIL_RING - place);
        if (k > 0 && fr_sys.pread(fd, p, k, (off_t)(HEADER + place)) != (ssize_t)k)
            break; /* the log has its tail: the ring was given back */
        if (k > 0 && (!fr_tail_look(fd, h) || fr_tail_oldest(h) > from))
            continue; /* it was overwritten meanwhile */
        *at = from;
        return k;
    }
    return 0;
}
