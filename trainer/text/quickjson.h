/*
 * The JSON that most records are, read in one pass: objects, lists, words, short integers, strings
 * without \u. What it reads is what jansson reads; anything else is left to jansson.
 */
#ifndef TR_TEXT_QUICKJSON_H
#define TR_TEXT_QUICKJSON_H

#include "engine/base/str.h"

#include <jansson.h>

/* NULL: text is other JSON, or none, or there is no memory. */
json_t *tr_quick_json(struct fr_str text);

#endif
