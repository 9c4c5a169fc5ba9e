/*
 * JSON as Python's json module reads and writes it, for the JSON of a data set that the model sees:
 * tools and the arguments of calls. Numbers keep their value: integers of any size, floats in the
 * fewest digits that read back as the same double.
 * Source: docs.python.org/3/library/json.html; docs.python.org/3/tutorial/floatingpoint.html.
 */
#ifndef TR_TEXT_PYJSON_H
#define TR_TEXT_PYJSON_H

#include "engine/base/json.h"

#include <stdbool.h>

/* As fr_json_parse, but for a duplicate key the last value counts. A number that jansson cannot
 * hold (an integer beyond 64 bits, a float beyond double's range, NaN, Infinity) becomes a value of
 * which tr_pyjson_number() is true. */
enum fr_rc tr_pyjson_parse(struct fr_str text, const char *name, json_t **out, struct fr_err *err);

/* Whether v is such a number, which jansson takes for a string. */
bool tr_pyjson_number(const json_t *v);
/* Whether v is a string and no such number. */
bool tr_pyjson_is_text(const json_t *v);

/* Appends v as json.dumps(v, ensure_ascii=False): ", " and ": " as separators, Unicode not escaped.
 */
void tr_pyjson_dump(const json_t *v, struct fr_buf *out);

/* As json.dumps(v, ensure_ascii=False, indent=indent): a member a line. */
void tr_pyjson_pretty(const json_t *v, int indent, struct fr_buf *out);

/* Appends v as Python's str() of the value that json.loads makes of it: text as it is, None, True,
 * ['a', 1]. */
void tr_pyjson_str(const json_t *v, struct fr_buf *out);

/* text without leading and trailing Unicode white space, as str.strip(). */
struct fr_str tr_py_strip(struct fr_str text);

/* The shortest decimal that reads back as x, as Python prints it: "4.98e-05", "1.0", "nan". */
void tr_show_float(double x, char out[32]);

#endif
