/*
 * What must follow from a killed supervisor, by the records alone. Its node's journal says whether
 * the end of its attempt was known when it died:
 *
 *   - launched, and no end: this one attempt is `lost`, and one successor follows
 *   - an end, or the exit: it is recorded as it was; nobody is lost, and there is no attempt more
 *   - not launched: nobody is lost. The attempt is handed to another supervisor, or it is never
 *     started (tombstone) and another one follows
 *
 * No successor follows an attempt whose end came to the store after a cancel.
 */
#ifndef TESTS_FAULT_KILLED_H
#define TESTS_FAULT_KILLED_H

#include "engine/wire/wire.h"

#include <stdbool.h>
#include <sys/types.h>

struct killed {
    pid_t pid;           /* in: the supervisor */
    struct fr_id newest; /* the attempt that it launched last */
    bool launched;       /* it launched one … */
    bool open;           /* … of which it wrote no end */
};

/* Reads a journal from its beginning; of several, only the one that knows the pid changes k. */
bool killed_read(struct killed *k, int journal);

/* Attempts that came to nothing because somebody died: of the attempt d. */
#define KILLED_NOTHING                                                                             \
    "d.cause IN ('lost', 'start_failed') OR d.state = 'cancelled' AND d.cause = ''"

/* An instance i: the pipeline of its run, and its key. */
#define KILLED_KEY "(SELECT name || ' ' FROM run WHERE id = i.run) || i.key"

/* The name of its gang: its key without the node. */
#define KILLED_GANG(i) "substr(" i ".key, 1, instr(" i ".key, '@') - 1)"

/* Rows KEY|HAS|MUST, one column: an instance, its attempts, and how many they must be if
 * one of it, or of its gang, came to nothing: one after that, or none; else 0, as many as
 * undisturbed. gangs: names of tasks. */
#define KILLED_ATTEMPTS(gangs)                                                                     \
    "SELECT " KILLED_KEY " || '|' || (SELECT count(*) FROM attempt a WHERE a.run = i.run AND "     \
    "a.idx = i.idx) || '|' || coalesce((SELECT max(d.no + NOT EXISTS (SELECT 1 FROM event e, "     \
    "event c WHERE c.run = d.run AND c.idx = -1 AND c.kind = 'cancelling' AND e.run = d.run AND "  \
    "e.idx = d.idx AND e.attempt_no = d.no AND e.cause = d.cause AND e.seq > c.seq)) FROM "        \
    "attempt d, instance j WHERE j.run = d.run AND d.run = i.run AND j.idx = d.idx AND "           \
    "(" KILLED_NOTHING ") AND (j.idx = i.idx OR " KILLED_GANG("j") " = " KILLED_GANG(              \
        "i") " AND "                                                                               \
             "j.task IN (" gangs "))), 0) "                                                        \
             "FROM instance i WHERE EXISTS (SELECT 1 FROM attempt a WHERE a.run = i.run AND "      \
             "a.idx = "                                                                            \
             "i.idx)"

/* The first of these lines that is not so; NULL: all are. undisturbed: lines KEY|HAS. */
const char *killed_wrong(const char *rows, const char *undisturbed);

#endif
