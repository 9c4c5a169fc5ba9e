#include "engine/base/owner.h"

#include "engine/base/str.h"
#include "engine/base/sys.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

bool fr_owner_trusted(const struct stat *st)
{
    const char *caller = getenv("SUDO_UID");
    int64_t uid;

    if (st->st_uid == 0 || st->st_uid == fr_sys.uid())
        return true;
    return fr_sys.uid() == 0 && caller != NULL &&
           fr_parse_i64(fr_str_of(caller), &uid, NULL) == FR_OK && uid == (int64_t)st->st_uid;
}

/* The target of a link is checked. */
enum fr_rc fr_check_private(const char *path, const char *what, const char *remedy,
                            struct fr_err *err)
{
    char real[PATH_MAX];
    struct stat st;

    if (fr_sys.lstat(path, &st) != 0)
        return fr_fail_errno(err, errno, "looking at %s", path);
    if (S_ISLNK(st.st_mode) && fr_owner_trusted(&st) && realpath(path, real) != NULL &&
        fr_sys.lstat(real, &st) != 0)
        return fr_fail_errno(err, errno, "looking at %s", real);
    if (!fr_owner_trusted(&st))
        return fr_fail(err, FR_DENIED,
                       "%s %s belongs to uid %u (mode %04o), who could decide what runs for uid "
                       "%u: %s",
                       what, path, (unsigned)st.st_uid, (unsigned)st.st_mode & 07777,
                       (unsigned)fr_sys.uid(), remedy);
    if ((st.st_mode & 022) != 0)
        return fr_fail(err, FR_DENIED,
                       "%s %s (uid %u, mode %04o) can be written by others, who could decide what "
                       "runs: chmod go-w %s, or %s",
                       what, path, (unsigned)st.st_uid, (unsigned)st.st_mode & 07777, path, remedy);
    return FR_OK;
}

enum fr_rc fr_check_above(const char *path, struct fr_err *err)
{
    char above[PATH_MAX], *slash;
    struct stat st;

    if (strlen(path) >= sizeof(above))
        return fr_fail(err, FR_USAGE, "%s: the path is too long", path);
    memcpy(above, path, strlen(path) + 1);
    while ((slash = strrchr(above, '/')) != NULL && slash > above) {
        *slash = '\0';
        if (fr_sys.lstat(above, &st) == 0 && S_ISDIR(st.st_mode) && (st.st_mode & 01002) == 0002)
            return fr_fail(err, FR_DENIED,
                           "%s, above %s, is writable for everybody (uid %u, mode %04o): chmod o-w "
                           "%s, or chmod +t %s",
                           above, path, (unsigned)st.st_uid, (unsigned)st.st_mode & 07777, above,
                           above);
    }
    return FR_OK;
}
