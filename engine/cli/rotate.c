#include "engine/cli/rotate.h"

#include "engine/base/str.h"
#include "engine/base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

enum fr_rc cli_rotate_open(const char *path, struct fr_err *err)
{
    int fd = fr_sys.open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0600);
    struct stat st;
    enum fr_rc rc = FR_OK;

    if (fd < 0)
        return fr_fail_errno(err, errno, "--log %s", path);
    if (fr_sys.fstat(fd, &st) == 0 && !S_ISREG(st.st_mode))
        rc = fr_fail(err, FR_USAGE, "--log %s: it is no regular file", path);
    else if (dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0)
        rc = fr_fail_errno(err, errno, "--log %s", path);
    fr_sys.close(fd);
    return rc;
}

static void name(struct fr_buf *out, const char *path, int i)
{
    fr_buf_cut(out, out->n);
    fr_buf_text(out, path);
    if (i > 0)
        fr_buf_fmt(out, ".%d", i);
}

enum fr_rc cli_rotate(const char *path, int64_t max, struct fr_err *err)
{
    struct fr_buf from = {0}, to = {0};
    struct stat st;
    enum fr_rc rc = FR_OK;

    if (fr_sys.fstat(STDERR_FILENO, &st) != 0 || st.st_size < max)
        return FR_OK;
    for (int i = CLI_ROTATE_FILES - 2; rc == FR_OK && i >= 0; i--) {
        name(&from, path, i);
        name(&to, path, i + 1);
        if (from.bad || to.bad)
            rc = fr_fail(err, FR_NOMEM, "no memory for a path");
        else if (fr_sys.rename(from.p, to.p) != 0 && errno != ENOENT)
            rc = fr_fail_errno(err, errno, "renaming %s to %s", from.p, to.p);
    }
    fr_buf_finish(&from);
    fr_buf_finish(&to);
    return rc == FR_OK ? cli_rotate_open(path, err) : rc;
}
