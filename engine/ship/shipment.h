/*
 * Files, folders and programs of control, prepared for a put. Threads list files and folders, once
 * for all starts of one turn, and hash them if they changed: they may be large, or their file
 * system may not answer. Programs are flowrun's own; they are hashed once, in slices.
 */
#ifndef FR_SHIP_SHIPMENT_H
#define FR_SHIP_SHIPMENT_H

#include "engine/ship/manifest.h"
#include "engine/loop/loop.h"
#include "engine/ship/ship.h"
#include "engine/spec/spec.h"

struct fr_shipment_making;
struct fr_shipment_item { /* a file or a folder */
    struct fr_shipment_item *next;
    struct fr_shipment *shipment;
    const char *path;                  /* on control, absolute */
    const struct fr_excludes *exclude; /* as given; NULL: none */
    struct fr_shipment_making *made;   /* owns; the newest first, then older ones that starts use */
    const struct fr_manifest *manifest; /* of the newest; NULL: none yet */
    struct fr_shipment_making *making;  /* owns; a thread has it; NULL: no thread runs */
    bool wanted;                        /* a thread is to be started */
    struct fr_err err; /* why it cannot be shipped; fr_shipment_forget() resets it */
};

struct fr_shipment_program {
    struct fr_shipment_program *next;
    const char *name;
    const char *program; /* on control */
    bool opened;         /* bundle is filled: some node needed it shipped */
    bool made;           /* it is made and hashed: bundle.v can be put */
    struct fr_err err;   /* likewise */
    struct fr_bundle bundle;
};

struct fr_shipment {
    struct fr_arena *arena; /* borrows: for all of its own */
    struct fr_loop *loop;   /* borrows */
    /* Gives out, in its arena, the files whose bytes of once are kept: at least those at path and
     * below. False: no memory. */
    bool (*copies)(void *arg, const char *path, struct fr_manifest *out);
    /* An item is ready or has failed; fr_shipment_step() returns true next. */
    void (*ready)(void *arg);
    void *arg;
    /* Appends the path of a program on control. */
    enum fr_rc (*program)(void *arg, const char *name, struct fr_buf *out, struct fr_err *err);
    void *program_arg;
    struct fr_shipment_item *items;
    struct fr_shipment_program *programs;
    struct fr_timer *timer; /* owns */
    uint64_t turn;          /* the user increments it: content read in an earlier turn may be old */
    uint64_t since;         /* content read before this turn is too old for the next request */
    bool news;              /* an item or program is complete, or has failed */
};

/* The file or folder as it lay there in turn c->since or later, ready to be put, without what the
 * patterns of exclude (NULL: none) and of its own FR_IGNORE_FILE leave out; exclude is borrowed for
 * the shipment's life, and manifests stay as long. FR_BUSY: a thread is at it; ask again once
 * fr_shipment_step() returns true. FR_NOTFOUND, FR_DENIED, FR_IO, FR_TIMEOUT (nothing of it came
 * within FR_FILE_SOON_MS) name the file. */
enum fr_rc fr_shipment_path(struct fr_shipment *c, const char *path,
                            const struct fr_excludes *exclude, struct fr_shipment_item **out,
                            struct fr_err *err);
/* The program; ship: made into a bundle. FR_BUSY: each fr_shipment_step() hashes a slice of it. */
enum fr_rc fr_shipment_program(struct fr_shipment *c, const char *name, bool ship,
                               struct fr_shipment_program **out, struct fr_err *err);
/* Hashes a slice of a program. True: an item or program is complete, or has failed. */
bool fr_shipment_step(struct fr_shipment *c);
bool fr_shipment_due(const struct fr_shipment *c); /* a step has work to do, or news */
/* Forgets all failures, so that the next request reads the files again. */
void fr_shipment_forget(struct fr_shipment *c);
void fr_shipment_finish(struct fr_shipment *c);

#endif
