/*
 * The rendezvous of a gang of built-in tasks. Each member connects to the head at
 * MASTER_ADDR:MASTER_PORT and sends its facts. The head measures the members' clocks and sends the
 * list of members. When all listen on their ports, each tries the ports of all others and sends the
 * head what it found. A member has one connection, which carries JSON lines:
 *
 *   member  {"run", "rank", "facts"}        head  {"ping": n} several times
 *   member  {"wall": ms}                    head  {"peers": [{"name", "address", "machine"}]}
 *   member  {"bound": true, "problems"}     head  {"go": true}
 *   member  {"facts"} with what it found    head  {"ok", "text"}
 */
#ifndef TASKS_RENDEZVOUS_H
#define TASKS_RENDEZVOUS_H

#include "tasks/netline.h"
#include "tasks/ports.h"

struct fr_member {
    struct fr_netline line; /* owns; fd -1: the head itself, or not here */
    json_t *facts;          /* owns; NULL until it came */
    char address[64];       /* as the others reach it */
    double skew_ms;         /* its clock minus the head's; error at most half of rtt_ms */
    double rtt_ms;
};

struct fr_rendezvous {
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
enum fr_rc fr_rendezvous_init(struct fr_job *job, struct fr_rendezvous *m, struct fr_err *err);

/* Runs the exchange until all facts are complete. own: this node's facts, taken over. The head has
 * the facts of all in members, other nodes only their own. */
enum fr_rc fr_rendezvous_run(struct fr_rendezvous *m, json_t *own, struct fr_err *err);

/* The head sends the outcome; the others wait for it. FR_PEER with text if the outcome is not ok.
 */
enum fr_rc fr_rendezvous_end(struct fr_rendezvous *m, bool ok, const char *text,
                             struct fr_err *err);

void fr_rendezvous_finish(struct fr_rendezvous *m);

#endif
