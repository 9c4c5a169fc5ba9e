/* Private to trainer/optim: the file of disk.h and its folder. */
#ifndef TR_OPTIM_DISK_PRIVATE_H
#define TR_OPTIM_DISK_PRIVATE_H

#include "trainer/optim/disk.h"

#include <limits.h>

/* A rank's file in the folder of its job. */
struct disk_place {
    char dir[PATH_MAX], file[PATH_MAX];
    int lock, fd; /* owns; -1: none */
};

/* Makes folder and file, with room for so many bytes. */
enum fr_rc disk_place_open(struct disk_place *p, const char *path, const struct tr_disk_file *f,
                           int64_t bytes, struct fr_err *err);
void disk_place_close(struct disk_place *p);

#endif
