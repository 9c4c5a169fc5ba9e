/* Small commands of flownode for its own use: two that a supervisor runs through `sudo -n`
 * (engine/node), and one that is the first process of a container. */
#ifndef TASKS_PRIVILEGE_H
#define TASKS_PRIVILEGE_H

/* `flownode become`: takes command and environment from the head of stdin ("ARGC ENVC BYTES\n",
 * then NUL-terminated texts) and becomes the command, which gets the rest of stdin. Returns only on
 * failure. */
int fr_become(void);

/* `flownode signal SIG PID:START …`: signals just those processes. */
int fr_signal(int argc, char **argv);

/* `flownode hold`: reaps children until SIGTERM or SIGINT, with the home of a keeper
 * (node/keep.h) also until that keeper is gone. Returns 0; 1: there is no such home. */
int fr_hold(const char *home);

#endif
