/*
 * Puts (files sent to a node) and gets (files fetched from it); private to exec. On a node at most
 * one put and one get of a run are under way; the others wait in the order of their requests.
 * Pieces of the puts of several runs are sent in turn. A new connection starts the active ones
 * again from the length that the other side reports.
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
    uint64_t ref, asked;   /* its number on the channel; the number that the run gave it */
    uint64_t turn;         /* when it sent its newest piece; the lowest turn sends next */
    bool is_put;
    bool active; /* was begun on this connection */
    enum phase phase;
    /* put */
    struct fr_ship_file *files;
    size_t n, at; /* number of files; index of the current one */
    uint64_t offset;
    struct fr_source *source; /* owns: reads the current file; NULL: not open */
    bool reading;             /* source is still reading its next bytes */
    const char *dir;          /* the node's store folder, once known */
    /* get */
    int fd; /* of part; -1: not open */
    const char *path, *local, *part;
    uint64_t max_bytes;
    uint32_t mode;
    struct fr_hash *hash; /* owns: of part, in CHECK; else NULL */
    struct fr_sync *sync; /* the current sync, freed by its work; NULL: none */
    uint64_t sync_from;   /* bytes received when the newest sync began */
    uint64_t synced;      /* bytes on the disk: received before the newest ended sync began */
    uint64_t until;       /* offset up to which the node may send */
    bool whole;           /* SYNC: the current sync covers the whole file */
};

/* xfer.c: the caller makes a transfer, sets files and n, or path, local, part, max_bytes and mode,
 * with text in its arena, and adds it. */
struct fr_xfer *fr_xfer_new(struct fr_use *use, uint64_t ref, bool put); /* NULL: no memory */
enum fr_rc fr_xfer_add(struct fr_xfer *x); /* always FR_OK; the channel owns x from now on */
void fr_xfer_free(struct fr_xfer *x);
void fr_xfer_close(struct fr_xfer *x); /* closes the current file */
/* Posts ev (NULL: nothing), takes x off ch and frees it. The run's next put, or get, begins. */
void fr_xfer_end(struct fr_chan *ch, struct fr_xfer *x, struct fr_exec_event *ev);
/* Ends x with an event FR_EXEC_FAILED that has err. Without memory for it, x is tried again. */
void fr_xfer_fail(struct fr_chan *ch, struct fr_xfer *x, const struct fr_err *err);

/* xfer_get.c */
void fr_get_begin(struct fr_chan *ch, struct fr_xfer *x);
/* Take a message about x. After an error the caller ends x by fr_xfer_fail(). */
enum fr_rc fr_get_data(struct fr_chan *ch, struct fr_xfer *x, const struct fr_get_data *d,
                       struct fr_err *err);
enum fr_rc fr_get_end(struct fr_chan *ch, struct fr_xfer *x, const struct fr_get_end *e,
                      struct fr_err *err);
void fr_get_forget(struct fr_xfer *x); /* withdraws x->sync, if any */

#endif
