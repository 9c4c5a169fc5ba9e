/* The table of requests; schema/routes.py makes it from schema/openapi.json. */
#ifndef FR_ANSWER_ROUTES_H
#define FR_ANSWER_ROUTES_H

#include "engine/answer/call.h"

enum { CHOICES_MOST = 4 };

struct choice {               /* a query parameter that takes one of some words */
    const char *name, *words; /* separated by blanks; name NULL: unused */
    bool filter;              /* "" is valid, too, and means absent */
};

struct route {
    enum fr_api_method method;
    const char *path;  /* "*": a run; "#": a number; ends in "/": more follows, in call.rest */
    enum fr_role role; /* the least role */
    handler *run;
    const char *query; /* valid names, separated by blanks; "*": any */
    struct choice choices[CHOICES_MOST];
};

extern const struct route routes[]; /* ended by one without a path */

/* FR_USAGE for unknown or repeated names and invalid words, which would be ignored silently. */
enum fr_rc query_check(const struct call *c, const struct route *route, struct fr_err *err);

#endif
