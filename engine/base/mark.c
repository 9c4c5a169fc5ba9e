#include "engine/base/mark.h"

#include "engine/base/sys.h"

struct fr_log_mark fr_log_mark_find(int fd, uint64_t offset, uint64_t *next)
{
    struct fr_log_mark found = {0}, m;
    struct stat st;
    uint64_t lo = 0, hi;

    *next = UINT64_MAX;
    if (fd < 0 || fr_sys.fstat(fd, &st) != 0)
        return found;
    hi = (uint64_t)st.st_size / sizeof(m);
    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;
        if (fr_sys.pread(fd, &m, sizeof(m), (off_t)(mid * sizeof(m))) != (ssize_t)sizeof(m))
            break;
        if (m.offset <= offset) {
            found = m;
            lo = mid + 1;
        } else {
            *next = m.offset;
            hi = mid;
        }
    }
    return found;
}
