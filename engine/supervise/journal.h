/*
 * The journal of a node's home: one append-only file of checksummed records, written by serve and
 * by every supervisor, each record in one write before its effect. The order in the file decides
 * every race: of two records that exclude each other (launched and tombstone), the first one
 * counts.
 *
 * Record: u32 magic, u32 length, u32 CRC-32 (as in ISO 3309), payload (fields by codec.h). A torn
 * record (power cut, full disk) is skipped: reading goes on at the next magic whose checksum is
 * right.
 *
 * Records are synced a moment later, several at once. A power cut may take the newest ones; the
 * engine then treats the attempt as lost. After a failed sync, the kernel may have dropped the data
 * and count it as written, so a second sync proves nothing. Then the records are appended again
 * and synced; a repeated record changes nothing. If that fails too,
 * serve ends its connection and names the reason: no attempt starts on a node that cannot keep its
 * journal. Attempts that run go on.
 *
 * A process that holds the home's lock exclusively (home.h) replaces a long journal by a shorter
 * one (compact.h). No other process has the journal open then.
 */
#ifndef FR_SUPERVISE_JOURNAL_H
#define FR_SUPERVISE_JOURNAL_H

#include "engine/base/arena.h"
#include "engine/base/err.h"
#include "engine/base/str.h"
#include "engine/wire/wire.h"

enum fr_rec_kind {
    FR_REC_HOME = 1, /* attempt: the home's id; the first one counts */
    /* A connection of that epoch was accepted; run: the fence's id (table.h), also in attempt if it
     * is that of a store. */
    FR_REC_EPOCH,
    FR_REC_PREPARED,  /* a supervisor is about to be started */
    FR_REC_LAUNCHED,  /* the command is about to be started */
    FR_REC_EXITED,    /* the command ended; its processes may still be there */
    FR_REC_ENDED,     /* the attempt is over: ended */
    FR_REC_TOMBSTONE, /* never to be started */
    FR_REC_ACKED      /* the engine has end and log: its files may be removed (prune.h) */
};

struct fr_rec {
    uint32_t kind;
    struct fr_id attempt;
    uint64_t epoch;
    struct fr_id run; /* prepared, and so on to generation */
    struct fr_str instance, spec_hash;
    uint32_t generation;
    struct fr_str boot; /* boot id of the machine: prepared, launched; epoch: whose it is */
    uint32_t sup_pid;   /* launched: the supervisor, whose session the command is in */
    uint64_t sup_start;
    int64_t launched_ms;
    int64_t grace_ms;        /* launched: for stopping the processes of a dead supervisor */
    struct fr_str container; /* launched: its name, "" on the host */
    struct fr_str ended;     /* exited, ended: fields of struct fr_ended */
    struct fr_id
        socket_id; /* launched: its supervisor listens at HOME/s/SOCKET_ID; zero: at s/attempt */
    struct fr_str
        cgroup;      /* launched: above the one that the supervisor has, by socket_id; "": none */
    int64_t wall_ms; /* when it was written, by the calendar; 0: now */
};

enum { FR_REC_MAX = 2 << 20 };

/* Opens path for reading and appending, making it (0600) when it is not there. */
enum fr_rc fr_journal_open(const char *path, int *fd, struct fr_err *err);

/* Adds the record's bytes in the format of the file. */
enum fr_rc fr_journal_put(struct fr_buf *b, const struct fr_rec *rec, struct fr_err *err);

/* One write; not synced. FR_FULL or FR_IO: the record does not count. */
enum fr_rc fr_journal_append(int fd, const struct fr_rec *rec, struct fr_err *err);

/* Calls take for each record from *at on, and moves *at to the end of the last whole one. A torn
 * record does not hide later ones. Text of rec is valid during the call only. */
enum fr_rc fr_journal_read(int fd, uint64_t *at, void (*take)(void *arg, const struct fr_rec *rec),
                           void *arg, struct fr_err *err);

/* The fields of an end as kept in fr_rec.ended. */
void fr_ended_put(const struct fr_ended *e, struct fr_buf *out);
enum fr_rc fr_ended_get(struct fr_str bytes, struct fr_arena *arena, struct fr_ended *e,
                        struct fr_err *err);

#endif
