/* The end of homes of keepers. One that is to go gets another name first, so that it is never taken
 * for a home when it is half gone. */
#include "engine/node/closing.h"
#include "engine/node/keep_place.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define GONE ".gone-"

static void remove_home(const char *base, const char *name)
{
    char from[FR_NODE_PATH + 256], to[FR_NODE_PATH + 256];

    (void)snprintf(from, sizeof(from), "%s/%s", base, name);
    (void)snprintf(to, sizeof(to), "%s/" GONE "%s", base, name);
    if (fr_sys.rename(from, to) == 0)
        (void)fr_remove_tree(to, NULL);
}

void keep_remove(const struct keep_place *p)
{
    remove_home(p->base, strrchr(p->home, '/') + 1);
}

/* The lock of the keeper of a home; -1: it lives, or is about to take it: then there is no journal.
 */
static int lock_of(const char *home)
{
    char path[FR_NODE_PATH + 256];
    struct stat st;
    int fd;

    (void)snprintf(path, sizeof(path), "%s/journal", home);
    if (fr_sys.lstat(path, &st) != 0)
        return -1;
    (void)snprintf(path, sizeof(path), "%s/keep.lock", home);
    fd = fr_sys.open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0);
    if (fd >= 0 && fr_sys.lock(fd) != 0)
        fr_fd_close(&fd);
    return fd;
}

static void sweep_one(const char *base, const char *name)
{
    char path[FR_HOME_MAX];
    size_t owed = 0;
    int lock;

    if (snprintf(path, sizeof(path), "%s/%s", base, name) >= (int)sizeof(path))
        return;
    if (fr_has_prefix(name, GONE)) {
        (void)fr_remove_tree(path, NULL);
        return;
    }
    if ((lock = lock_of(path)) < 0)
        return;
    if (fr_closing_owed(path, &owed, NULL) == FR_OK && owed == 0)
        remove_home(base, name);
    fr_fd_close(&lock);
}

void keep_sweep(const struct keep_place *p)
{
    char **names = NULL;
    size_t n = 0;

    if (fr_sys.list(p->base, &names, &n) != 0)
        return;
    for (size_t i = 0; i < n; i++)
        if (strcmp(names[i], strrchr(p->home, '/') + 1) != 0)
            sweep_one(p->base, names[i]);
    fr_sys_names_free(names, n);
}
