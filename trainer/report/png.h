/*
 * Pictures of few colours as PNG files (ISO/IEC 15948), compressed (RFC 1950, 1951) by the fixed
 * codes and by runs alone: enough for lines on an even ground.
 */
#ifndef TR_REPORT_PNG_H
#define TR_REPORT_PNG_H

#include "engine/base/err.h"

#include <stdint.h>

enum { TR_PNG_COLOURS = 8 };

struct tr_picture {
    int width, height;
    uint8_t *at; /* (height, width) row by row: the number of a colour */
    uint8_t colours[TR_PNG_COLOURS][3];
};

/* FR_NOMEM, or what fr_file_write() gives: the file is whole or not there. */
enum fr_rc tr_png_write(const char *path, const struct tr_picture *p, struct fr_err *err);

#endif
