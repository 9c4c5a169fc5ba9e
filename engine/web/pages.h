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
    size_t n_packed;             /* 0: gzip is not smaller */
};

extern const struct web_file web_files[]; /* ended by a NULL name */
extern const char web_files_hash[];       /* of all files: part of their path, so cached forever */

/* Marks of a page in this order, checked by embed.py; KNOWN is in run.html alone. */
#define WEB_MARK_BASE "<base href=\"/\">"
#define WEB_MARK_TITLE "<title>flowrun</title>"
#define WEB_MARK_KNOWN "<!-- known -->\n"
#define WEB_MARK_MAIN "<main id=\"main\" tabindex=\"-1\"></main>"

#endif
