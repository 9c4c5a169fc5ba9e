/* The table of requests; schema/routes.py makes it from schema/openapi.json. */
#ifndef FR_ANSWER_ROUTES_H
#define FR_ANSWER_ROUTES_H

#include "engine/answer/call.h"

enum { CHOICES_MOST = 4 };

struct choice {               /* a value of a query that is one of some words */
    const char *name, *words; /* parted by blanks; name NULL: there is none */
    bool filter;              /* also nothing, which is as if it were not there */
};

struct route {
    enum fr_api_method method;
    const char *path;  /* "*": a run; "#": a number; ends in "/": more follows, in call.rest */
    enum fr_role role; /* the least that may */
    handler *run;
    const char *query; /* names that it may have, parted by blanks; "*": any */
    struct choice choices[CHOICES_MOST];
};

extern const struct route routes[]; /* ended by one without a path */

/* Refuses a name that the request does not know or that comes twice, and a word that its value
 * cannot be: either would change the answer without a message. */
enum fr_rc query_check(const struct call *c, const struct route *route, struct fr_err *err);

#endif
