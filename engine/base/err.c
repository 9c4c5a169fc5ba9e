#include "engine/base/err.h"

#include "engine/base/str.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char cut_mark[] = "\xe2\x80\xa6";

/* Formats into buf; a text that does not fit ends in "…", cut at a character boundary. */
static void format(char *buf, size_t cap, const char *fmt, va_list ap)
{
    int n = vsnprintf(buf, cap, fmt, ap);

    if (n < 0) {
        buf[0] = '\0';
        return;
    }
    if ((size_t)n < cap)
        return;
    size_t at = cap - sizeof(cut_mark);
    while (at > 0 && ((unsigned char)buf[at] & 0xc0) == 0x80)
        at--;
    memcpy(buf + at, cut_mark, sizeof(cut_mark));
}

enum fr_rc fr_fail(struct fr_err *err, enum fr_rc rc, const char *fmt, ...)
{
    char text[FR_ERR_MAX];
    va_list ap;
    size_t n;

    if (err == NULL)
        return rc;
    err->rc = rc;
    va_start(ap, fmt);
    format(text, sizeof(text), fmt, ap);
    va_end(ap);
    n = strlen(text);
    if (fr_visible(err->msg, sizeof(err->msg), text, n) < n) {
        fr_visible(err->msg, sizeof(err->msg) - sizeof(cut_mark), text, n);
        memcpy(err->msg + strlen(err->msg), cut_mark, sizeof(cut_mark));
    }
    return rc;
}

static enum fr_rc rc_of_errno(int errnum)
{
    switch (errnum) {
    case ENOSPC:
    case EDQUOT:
        return FR_FULL;
    case ENOMEM:
        return FR_NOMEM;
    case EACCES:
    case EPERM:
    case EROFS:
        return FR_DENIED;
    case ENOENT:
        return FR_NOTFOUND;
    default:
        return FR_IO;
    }
}

enum fr_rc fr_fail_errno(struct fr_err *err, int errnum, const char *fmt, ...)
{
    enum fr_rc rc = rc_of_errno(errnum);
    char text[FR_ERR_MAX];
    va_list ap;

    va_start(ap, fmt);
    format(text, sizeof(text), fmt, ap);
    va_end(ap);
    return fr_fail(err, rc, "%s: %s", text, strerror(errnum));
}

enum fr_rc fr_while(struct fr_err *err, const char *fmt, ...)
{
    char front[FR_ERR_MAX], rest[FR_ERR_MAX];
    va_list ap;

    if (err == NULL)
        return FR_BUG;
    va_start(ap, fmt);
    format(front, sizeof(front), fmt, ap);
    va_end(ap);
    memcpy(rest, err->msg, sizeof(rest));
    return fr_fail(err, err->rc, "%s: %s", front, rest);
}

const char *fr_rc_name(enum fr_rc rc)
{
    static const char *const names[] = {
        [FR_OK] = "ok",
        [FR_USAGE] = "usage",
        [FR_NOTFOUND] = "not_found",
        [FR_IO] = "io",
        [FR_FULL] = "full",
        [FR_NOMEM] = "no_memory",
        [FR_BUSY] = "busy",
        [FR_DENIED] = "denied",
        [FR_UNREACHABLE] = "unreachable",
        [FR_PROTO] = "protocol",
        [FR_CORRUPT] = "corrupt",
        [FR_SHAPE] = "shape",
        [FR_DTYPE] = "dtype",
        [FR_UNSUPPORTED] = "unsupported",
        [FR_TIMEOUT] = "timeout",
        [FR_PEER] = "peer",
        [FR_STOPPED] = "stopped",
        [FR_BUG] = "bug",
    };

    return (size_t)rc < sizeof(names) / sizeof(names[0]) ? names[rc] : "?";
}
