/* The files for browsers, built in by embed.py from engine/web/static. */
#ifndef FR_WEB_PAGES_H
#define FR_WEB_PAGES_H

#include <stddef.h>

struct web_file {
    const char *name, *type;
    const char *etag; /* of its content, quoted */
    const unsigned char *data;
    size_t n;
    const unsigned char *packed; /* by gzip */
    size_t n_packed;             /* 0: it is not smaller */
};

extern const struct web_file web_files[]; /* ended by a NULL name */
extern const char web_files_hash[];       /* of all of them; files never change below it */

/* What embed.py sees to that a page has, in this order; KNOWN is that of run.html alone. */
#define WEB_MARK_BASE "<base href=\"/\">"
#define WEB_MARK_TITLE "<title>flowrun</title>"
#define WEB_MARK_KNOWN "<!-- known -->\n"
#define WEB_MARK_MAIN "<main id=\"main\" tabindex=\"-1\"></main>"

#endif
