/* Pages for man(1), in the macros of man(7). */
#ifndef FR_BASE_MAN_H
#define FR_BASE_MAN_H

#include "engine/base/str.h"

/* The head and the section NAME: "program - what". */
void fr_man_begin(struct fr_buf *out, const char *program, const char *version, const char *what);
void fr_man_section(struct fr_buf *out, const char *title);
void fr_man_part(struct fr_buf *out, const char *title); /* of a section */
/* A paragraph. Lines that begin with blanks stay as they are. */
void fr_man_text(struct fr_buf *out, const char *text);
/* An entry: words in bold, args in roman, and their meaning. */
void fr_man_entry(struct fr_buf *out, const char *words, const char *args, const char *meaning);

#endif
