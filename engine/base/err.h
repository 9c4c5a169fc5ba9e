/*
 * Results and error text. Everything that can fail returns enum fr_rc and fills a struct fr_err:
 * a fixed buffer, so reporting out-of-memory needs no memory. The failing line says what and where;
 * each caller that knows more puts it in front with fr_while().
 */
#ifndef FR_BASE_ERR_H
#define FR_BASE_ERR_H

#include <stddef.h>

enum fr_rc {
    FR_OK = 0,
    FR_USAGE,       /* the user's file, flag, value or data is wrong: fix it and run again */
    FR_NOTFOUND,    /* a named thing does not exist */
    FR_IO,          /* a system call on a file, pipe or socket failed */
    FR_FULL,        /* no space left on a disk or quota */
    FR_NOMEM,       /* no memory */
    FR_BUSY,        /* somebody else holds it (lock, port, run) */
    FR_DENIED,      /* permission or authentication refused */
    FR_UNREACHABLE, /* a node or peer cannot be reached; nothing is concluded about its work */
    FR_PROTO,       /* the other side broke the protocol, or speaks another version */
    FR_CORRUPT,     /* stored data fails its check */
    FR_SHAPE,       /* a tensor has the wrong shape */
    FR_DTYPE,       /* a tensor has the wrong type */
    FR_UNSUPPORTED, /* this build, machine or backend cannot do it */
    FR_TIMEOUT,     /* a deadline passed */
    FR_PEER,        /* another rank or process of the group ended or failed */
    FR_STOPPED,     /* asked to stop */
    FR_BUG          /* our own invariant is broken */
};

enum { FR_ERR_MAX = 1024 };

struct fr_err {
    enum fr_rc rc;
    /* One line, cut with "…" when it is longer. Control bytes and invalid UTF-8 are shown as \xNN,
     * so that the text may quote foreign input and be shown on a terminal. */
    char msg[FR_ERR_MAX];
};

/* Sets err to rc and the formatted text; returns rc. err may be NULL. */
enum fr_rc fr_fail(struct fr_err *err, enum fr_rc rc, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* As fr_fail, with ": " and the text of errnum appended; rc is chosen from errnum (ENOSPC, EDQUOT:
 * FR_FULL; ENOMEM: FR_NOMEM; EACCES, EPERM: FR_DENIED; ENOENT: FR_NOTFOUND). */
enum fr_rc fr_fail_errno(struct fr_err *err, int errnum, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts "TEXT: " in front of err's message; returns err's rc. */
enum fr_rc fr_while(struct fr_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A short name of rc ("busy"), for logs and JSON. */
const char *fr_rc_name(enum fr_rc rc);

#endif
