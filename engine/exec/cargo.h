/*
 * What is shipped from control: files, folders and programs, made ready for a put. Each is listed
 * and hashed once, in slices, so that nothing waits for a large one.
 */
#ifndef FR_EXEC_CARGO_H
#define FR_EXEC_CARGO_H

#include "engine/base/arena.h"
#include "engine/base/file.h"
#include "engine/exec/exec.h"
#include "engine/exec/ignore.h"
#include "engine/exec/ship.h"
#include "engine/spec/spec.h"

struct fr_cargo_dir;

struct fr_cargo_item { /* a file or a folder */
    struct fr_cargo_item *next;
    const char *path;          /* control's, absolute */
    char hash[FR_SHA256_TEXT]; /* of the file, or of the tree */
    bool folder;
    const struct fr_excludes *exclude; /* as given; NULL: none */
    struct fr_ignore ignore;           /* those of the folder itself, and these */
    struct fr_cargo_dir *dir;          /* owns: the folder being listed, and those above it */
    int depth;                         /* of dir */
    struct fr_exec_file *files;        /* paths start with the hash; arena */
    size_t n;
    size_t hashed;       /* files whose hash is known; the next is under way in now */
    struct fr_hash *now; /* owns */
    bool ready;          /* hash is that of all */
    struct fr_err err;   /* why it cannot be shipped: for all who wait for it, then it is reset */
};

struct fr_cargo_program {
    struct fr_cargo_program *next;
    const char *name;
    const char *program; /* on control */
    bool opened;         /* bundle is filled: some node needed it shipped */
    bool made;           /* and hashed */
    struct fr_err err;   /* likewise */
    struct fr_bundle bundle;
    struct fr_exec_file *files; /* bundle.n */
};

struct fr_cargo {
    struct fr_arena *arena; /* borrows: for all that is listed */
    /* Appends where the bytes of a file are. true: in a copy of what it held once, with its mode of
     * then, whatever path is now; false: at path itself. */
    bool (*source)(void *arg, const char *path, struct fr_buf *out, uint32_t *mode);
    /* Appends the path of a program on control. */
    enum fr_rc (*program)(void *arg, const char *name, struct fr_buf *out, struct fr_err *err);
    void *source_arg, *program_arg;
    struct fr_cargo_item *items;
    struct fr_cargo_program *programs;
};

/* The file or folder, ready to be put, without what the patterns of exclude (NULL: none) and of its
 * own FR_IGNORE_FILE leave out; exclude is borrowed for the cargo's life. FR_BUSY: each
 * fr_cargo_step() lists or hashes a slice of it; ask again when that returns true. FR_NOTFOUND,
 * FR_DENIED, FR_IO name the file. */
enum fr_rc fr_cargo_path(struct fr_cargo *c, const char *path, const struct fr_excludes *exclude,
                         struct fr_cargo_item **out, struct fr_err *err);
/* The program; ship: made into a bundle. FR_BUSY: likewise. */
enum fr_rc fr_cargo_program(struct fr_cargo *c, const char *name, bool ship,
                            struct fr_cargo_program **out, struct fr_err *err);
/* One slice more; true: something is complete, or has failed. */
bool fr_cargo_step(struct fr_cargo *c);
/* Forgets what could not be hashed, so that the next try reads it again. */
void fr_cargo_forget(struct fr_cargo *c);
void fr_cargo_finish(struct fr_cargo *c);

#endif
