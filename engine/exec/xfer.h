/*
 * Puts and gets of files, inside. On a node at most one put and one get of a run are under way; the
 * others wait in the order of their requests. Pieces of the puts of several runs are sent in turn.
 * A new connection starts the active ones again from the length that the other side reports.
 */
#ifndef FR_EXEC_XFER_H
#define FR_EXEC_XFER_H

#include "engine/exec/private.h"
#include "engine/ship/source.h"

#include "engine/base/arena.h"

struct fr_sync; /* a file that is being written to the disk, in a thread */

/* A put: ASK (begin sent), SEND (data), CHECK (end sent). A get: ASK (requested), SYNC (complete,
 * being written to the disk), CHECK (being hashed). */
enum phase { ASK, SEND, SYNC, CHECK };

struct fr_xfer {
    struct fr_xfer *next;
    struct fr_use *use;    /* borrows: whose it is */
    struct fr_arena arena; /* owns all text below */
    uint64_t ref, asked;   /* the channel's, and the run's */
    uint64_t turn;         /* of its newest piece: the longest wait goes first */
    bool is_put;
    bool active; /* asked on this connection */
    enum phase phase;
    /* put */
    struct fr_ship_file *files;
    size_t n, at; /* files, the one under way */
    uint64_t offset;
    struct fr_source *source; /* owns: of the file under way; NULL */
    bool reading;             /* its next bytes are not here yet */
    const char *dir;          /* the node's store folder, once known */
    /* get */
    int fd; /* of the file under way, -1 */
    const char *path, *local, *part;
    uint64_t max_bytes;
    uint32_t mode;
    struct fr_hash *hash; /* owns; CHECK */
    struct fr_sync *sync; /* one is under way */
    uint64_t sync_from;   /* bytes that had come when the newest was started */
    uint64_t synced;      /* … when the newest that has ended was: these are on the disk */
    uint64_t until;       /* the bytes before it may come */
    bool whole;           /* SYNC: the one under way has all of them */
};

/* xfer.c */
struct fr_xfer *fr_xfer_new(struct fr_use *use, uint64_t ref, bool put); /* NULL: no memory */
enum fr_rc fr_xfer_add(struct fr_xfer *x);
void fr_xfer_free(struct fr_xfer *x);
void fr_xfer_close(struct fr_xfer *x); /* the file under way */
/* Posts ev (NULL: nothing), takes x off and frees it; the next of its kind begins. */
void fr_xfer_end(struct fr_chan *ch, struct fr_xfer *x, struct fr_exec_event *ev);
void fr_xfer_fail(struct fr_chan *ch, struct fr_xfer *x, const struct fr_err *err);

/* xfer_get.c */
void fr_get_begin(struct fr_chan *ch, struct fr_xfer *x);
/* Messages about x. An error ends the get. */
enum fr_rc fr_get_data(struct fr_chan *ch, struct fr_xfer *x, const struct fr_get_data *d,
                       struct fr_err *err);
enum fr_rc fr_get_end(struct fr_chan *ch, struct fr_xfer *x, const struct fr_get_end *e,
                      struct fr_err *err);
void fr_get_forget(struct fr_xfer *x); /* its sync, if one is under way */

#endif
