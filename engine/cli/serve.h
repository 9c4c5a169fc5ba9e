/* A host that stays, behind its options (serve.c). */
#ifndef FR_CLI_SERVE_H
#define FR_CLI_SERVE_H

#include "engine/cli/cli.h"

struct cli_systemd;
struct cli_served { /* zero it; drive may be prepared by a test */
    struct cli_drive drive;
    const char **folders; /* of pipelines with schedules: absolute, without links */
    size_t n_folders;
    bool standby;    /* while the home has a host, wait until it is gone */
    const char *log; /* the file that stdout and stderr are; NULL: they stay as they are */
    /* Borrowed. Pages for browsers: "ADDRESS:PORT" … */
    struct cli_list http, hosts, proxies;
    struct cli_list metrics; /* "ADDRESS:PORT" of figures alone */
    const char *base;        /* NULL: none */
    bool open_view;
    /* cli_serve_go()'s own */
    char cookie[32];
    struct cli_systemd *systemd;
    bool ready, log_failed;
};

/* Is the home's host until a signal ends it. */
enum cli_exit cli_serve_go(struct cli_served *s);

#endif
