/* serve: the host of a home until a signal ends it. */
#ifndef FR_CLI_SERVE_H
#define FR_CLI_SERVE_H

#include "engine/cli/cli.h"

struct cli_systemd;
struct cli_served { /* zero it; drive may be prepared by a test */
    struct cli_drive drive;
    const char **folders; /* of pipelines with schedules: absolute, without links */
    size_t n_folders;
    bool standby;    /* if the home has a host, wait until that host ends */
    const char *log; /* file for stdout and stderr, already open; NULL: none */
    /* Borrowed. Pages for browsers: "ADDRESS:PORT" … */
    struct cli_list http, hosts, proxies;
    struct cli_list metrics; /* "ADDRESS:PORT" that serves /metrics alone */
    const char *base;        /* path of the pages; NULL: the root */
    bool open_view;
    /* Used by cli_serve_go() alone. */
    char cookie[32];
    struct cli_systemd *systemd;
    bool ready, log_failed;
};

/* Is the home's host until a signal ends it. */
enum cli_exit cli_serve_go(struct cli_served *s);

#endif
