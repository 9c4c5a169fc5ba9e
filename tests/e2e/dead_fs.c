/* Loaded into a program in front of the C library: below the folder DEAD_FS nothing is answered
 * while the file DEAD_FS.dead is there, as on a mount of a server that is gone. Each call that
 * waits leaves a line in DEAD_FS.waits. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void wait_for(const char *path)
{
    const char *dead = getenv("DEAD_FS");
    size_t n = dead != NULL ? strlen(dead) : 0;
    char mark[4096], waits[4096];
    FILE *f;

    if (n == 0 || strncmp(path, dead, n) != 0 || path[n] != '/')
        return;
    snprintf(mark, sizeof(mark), "%s.dead", dead);
    snprintf(waits, sizeof(waits), "%s.waits", dead);
    if (access(mark, F_OK) == 0 && (f = fopen(waits, "ae")) != NULL) {
        fprintf(f, "%s\n", path);
        fclose(f);
    }
    while (access(mark, F_OK) == 0)
        usleep(10000);
}

/* The two names of open(2) are one function where files are large anyway. */
static int open_next(const char *name, const char *path, int flags, mode_t mode)
{
    int (*next)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, name);

    wait_for(path);
    return next(path, flags, mode);
}

#define OPEN(name)                                                                                 \
    int name(const char *path, int flags, ...)                                                     \
    {                                                                                              \
        mode_t mode = 0;                                                                           \
        va_list ap;                                                                                \
                                                                                                   \
        va_start(ap, flags);                                                                       \
        if ((flags & (O_CREAT | O_TMPFILE)) != 0)                                                  \
            mode = va_arg(ap, mode_t);                                                             \
        va_end(ap);                                                                                \
        return open_next(#name, path, flags, mode);                                                \
    }

#define LOOK(name, type)                                                                           \
    int name(const char *path, struct type *st)                                                    \
    {                                                                                              \
        int (*next)(const char *, struct type *) =                                                 \
            (int (*)(const char *, struct type *))dlsym(RTLD_NEXT, #name);                         \
                                                                                                   \
        wait_for(path);                                                                            \
        return next(path, st);                                                                     \
    }

#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#undef open
#undef lstat
OPEN(open64)
LOOK(lstat64, stat64)
