/*
 * One-pass parser for common records: objects, lists, literals, short integers, strings without \u.
 * Its results equal jansson's; the caller falls back to jansson for everything else.
 */
#ifndef TR_TEXT_QUICKJSON_H
#define TR_TEXT_QUICKJSON_H

#include "engine/base/str.h"

#include <jansson.h>

/* NULL: the text needs jansson, is no JSON, or there is no memory. */
json_t *tr_quick_json(struct fr_str text);

#endif
