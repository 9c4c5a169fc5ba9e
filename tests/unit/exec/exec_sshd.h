/* A real sshd on a loopback port, as whoever runs the test, with keys and files for its tests. */
#ifndef TESTS_UNIT_EXEC_SSHD_H
#define TESTS_UNIT_EXEC_SSHD_H

#include "engine/base/arena.h"

#include <sys/types.h>

struct site {
    char dir[64], user[64];
    int port, dead_port; /* nobody listens on the second */
    pid_t sshd, agents[3];
    int silent; /* listens for an agent, and does not answer */
    struct fr_arena arena;
};

/* Why there can be none here; NULL: there can. */
const char *sshd_lacks(void);

/* s is zero. Makes its folder, with keys (hk: the server's, id, other, rsa), known hosts (known,
 * known_*), configurations (config_*), agents (agent has id; agent_other has other; agent_two both;
 * agent_silent answers nothing) and this program as flownode; begins to listen. */
void sshd_begin(struct site *s);
void sshd_end(struct site *s); /* its folder goes, too */

/* The path of one of these; lives until sshd_end. */
const char *sshd_file(struct site *s, const char *name);

#endif
