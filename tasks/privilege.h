/* The two small commands that a supervisor runs through `sudo -n` (engine/node). */
#ifndef TASKS_PRIVILEGE_H
#define TASKS_PRIVILEGE_H

/* `flownode become`: takes command and environment from the head of stdin ("ARGC ENVC BYTES\n",
 * then NUL-terminated texts) and becomes the command, which gets the rest of stdin. Returns only on
 * failure. */
int fr_become(void);

/* `flownode signal SIG PID:START …`: signals just those processes. */
int fr_signal(int argc, char **argv);

#endif
