/*
 * How the members of a preflight meet. Each connects to the head at MASTER_ADDR:MASTER_PORT and
 * tells its facts; the head measures their clocks, tells all who is there, and when all hold their
 * ports, lets each try the ports of all others; then it hears what each found. One connection a
 * member, JSON lines:
 *
 *   member  {"run", "rank", "facts"}        head  {"ping": n} several times
 *   member  {"wall": ms}                    head  {"peers": [{"name", "address", "machine"}]}
 *   member  {"bound": true, "problems"}     head  {"go": true}
 *   member  {"facts"} with what it found    head  {"ok", "text"}
 */
#ifndef TASKS_MEETING_H
#define TASKS_MEETING_H

#include "tasks/netline.h"
#include "tasks/ports.h"

struct fr_member {
    struct fr_netline line; /* owns; fd -1: the head itself, or not here */
    json_t *facts;          /* owns; NULL until it came */
    char address[64];       /* as the others reach it */
    double skew_ms;         /* its clock minus the head's; error at most half of rtt_ms */
    double rtt_ms;
};

struct fr_meeting {
    struct fr_job *job;
    int64_t nodes, rank;
    const char *head_addr;
    int64_t head_port;
    struct fr_ports ports;     /* first and n as asked for; n 0: none are tried */
    struct fr_member *members; /* of the head: nodes, in the job's arena. Of others: itself at 0 */
    int listener;              /* owns; of the head; -1 */
    json_t *peers;             /* owns */
};

/* Reads the gang from the environment and the ports from the inputs. */
enum fr_rc fr_meeting_init(struct fr_job *job, struct fr_meeting *m, struct fr_err *err);

/* Up to the point where the facts of all (own: this node's, taken over) are complete: at the head
 * in members, elsewhere only its own. */
enum fr_rc fr_meeting_run(struct fr_meeting *m, json_t *own, struct fr_err *err);

/* Of the head: tells the others; of the others: waits for it. FR_PEER with the text when not ok. */
enum fr_rc fr_meeting_end(struct fr_meeting *m, bool ok, const char *text, struct fr_err *err);

/* Name of a member that did not come: from FLOWRUN_PEERS; in the job's arena. */
const char *fr_meeting_name(struct fr_meeting *m, int64_t rank);

void fr_meeting_finish(struct fr_meeting *m);

#endif
