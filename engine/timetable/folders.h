/*
 * Scans the served folders for pipeline files with schedules. A scan may take long (network file
 * system, many files), so it runs in a thread and borrows nothing from the host.
 *
 * A file counts once it has not changed for a second, since editors write in pieces. A file that
 * cannot be read or has mistakes is reported as BROKEN; the caller keeps its previous content.
 */
#ifndef FR_TIMETABLE_FOLDERS_H
#define FR_TIMETABLE_FOLDERS_H

#include "engine/spec/spec.h"

enum { FR_FOLDER_QUIET_MS = 1000 };

struct fr_folder_mark { /* a version of a file */
    uint64_t inode;
    int64_t size, mtime_ns;
};

enum fr_folder_found {
    FR_FOUND_SAME,   /* unchanged */
    FR_FOUND_FRESH,  /* just written: scan again */
    FR_FOUND_NONE,   /* no pipeline with schedules */
    FR_FOUND_BROKEN, /* see error; it may be a pipeline, or had schedules */
    FR_FOUND_LOADED  /* spec and tables */
};

struct fr_folder_file {
    const char *path;
    enum fr_folder_found found;
    struct fr_folder_mark mark;
    const char *name; /* of the pipeline in it; NULL: none that can be used, or SAME, or FRESH */
    /* LOADED; BROKEN: from its kept text, where that can be used; else NULL. Owned, until taken.
     * The first source of spec is the text. */
    struct fr_spec *spec;
    struct fr_timetable *tables; /* one a schedule */
    const char *error;           /* BROKEN */
};

struct fr_folder_known { /* a file of an earlier scan */
    const char *path;
    bool scheduled;              /* the file has or had schedules */
    struct fr_folder_mark mark;  /* zero: it was not looked at */
    const struct fr_zone *zones; /* of its schedules: only name and file are looked at */
    size_t n_zones;
    const char *text; /* its last usable content; NULL: not needed */
};

struct fr_folder_look {
    /* in; all of it lives in the arena */
    const char *const *folders; /* absolute, without links */
    size_t n_folders;
    const struct fr_folder_known *known; /* by path */
    size_t n_known;
    struct fr_zones zones;
    const char *(*getenv)(void *self, const char *name);
    void *getenv_self;
    struct fr_arena arena; /* owns */
    /* out */
    struct fr_folder_file *files; /* owns; of each folder by path */
    size_t n_files, cap_files;
    struct fr_err err; /* FR_NOMEM: the result is incomplete, drop it */
};

void fr_folders_look(struct fr_folder_look *look);
/* Frees the specs and tables that the caller did not take. */
void fr_folders_finish(struct fr_folder_look *look);
void fr_folder_tables_close(struct fr_timetable *tables, size_t n); /* NULL is fine */

#endif
