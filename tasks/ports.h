/* A range of ports: held open on one node, tried from another. */
#ifndef TASKS_PORTS_H
#define TASKS_PORTS_H

#include "tasks/job.h"

enum { FR_PORTS_MAX = 256 };

struct fr_ports {
    int64_t first, n;      /* n <= FR_PORTS_MAX */
    int fds[FR_PORTS_MAX]; /* listening; -1 */
};

/* Listens on each port but spare (already listened on, 0 none). Busy ones are named in problems. */
void fr_ports_open(struct fr_ports *p, int64_t spare, json_t *problems);
void fr_ports_close(struct fr_ports *p);

/* Connects to each port of address (numeric) and closes at once. Ports that were not reached within
 * timeout_ms are added to problems in one line with who. */
void fr_ports_try(const struct fr_ports *p, const char *address, const char *who,
                  int64_t timeout_ms, json_t *problems);

#endif
