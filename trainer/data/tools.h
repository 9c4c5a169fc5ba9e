/*
 * How a template writes the tools it offers and the calls of a function message.
 */
#ifndef TR_DATA_TOOLS_H
#define TR_DATA_TOOLS_H

#include "engine/base/err.h"
#include "engine/base/str.h"

enum tr_tool_format {
    TR_TOOLS_DEFAULT, /* a list in words; calls as Action and Action Input */
    TR_TOOLS_QWEN,    /* <tools> and <tool_call> */
    TR_TOOLS_LLAMA3,  /* indented JSON behind the day's date; calls as JSON */
    TR_TOOLS_MISTRAL, /* [AVAILABLE_TOOLS] and a list; calls as a list */
    TR_TOOLS_GLM4,    /* a section a tool; one call: a line with the name, then JSON */
    TR_TOOLS_GLM_MOE, /* <tools>; calls with <arg_key> and <arg_value> */
    TR_TOOLS_NONE     /* of the template's own format, which is not done */
};

/* The day as a text names it: "02 Jan 2026". */
void tr_tools_day(char out[32]);

/* By the name that --tool_format gives. FR_UNSUPPORTED for others of the reference. */
enum fr_rc tr_tools_find(const char *name, enum tr_tool_format *out, struct fr_err *err);

/* Appends the text about tools, a JSON list of functions, that follows the system text. It and
 * tr_tools_call: FR_UNSUPPORTED for TR_TOOLS_NONE. */
enum fr_rc tr_tools_text(enum tr_tool_format format, struct fr_str tools, struct fr_buf *out,
                         struct fr_err *err);

/*
 * Appends the text of a function message: JSON {name, arguments} or a list of them. Where a call
 * stands in <tool_call> and </tool_call>, the text around it comes in front of it; a thought in
 * <think> and </think> in front of plain JSON stays there. FR_USAGE for other text.
 */
enum fr_rc tr_tools_call(enum tr_tool_format format, struct fr_str call, struct fr_buf *out,
                         struct fr_err *err);

#endif
