/*
 * Formats of tool offers and of function calls.
 */
#ifndef TR_TEMPLATE_TOOLS_H
#define TR_TEMPLATE_TOOLS_H

#include "engine/base/err.h"
#include "engine/base/str.h"

#include <jansson.h>

enum tr_tool_format {
    TR_TOOLS_DEFAULT,  /* a list in words; calls as Action and Action Input */
    TR_TOOLS_QWEN,     /* <tools> and <tool_call> */
    TR_TOOLS_LLAMA3,   /* indented JSON after the day's date; calls as JSON */
    TR_TOOLS_MISTRAL,  /* [AVAILABLE_TOOLS] and a list; calls as a list */
    TR_TOOLS_GLM4,     /* a section a tool; one call: a line with the name, then JSON */
    TR_TOOLS_GLM_MOE,  /* <tools>; calls with <arg_key> and <arg_value> */
    TR_TOOLS_QWEN35,   /* <tools>; calls with <function=…> and <parameter=…> */
    TR_TOOLS_MINIMAX1, /* <tools>; a line a call in <tool_calls> */
    TR_TOOLS_MINIMAX2, /* <tool>; calls with <invoke> and <parameter> */
    TR_TOOLS_SEED_OSS, /* a list of JSON; calls with <function=…> in <seed:tool_call> */
    TR_TOOLS_LING,     /* as qwen, and "detailed thinking off" */
    TR_TOOLS_LFM2,     /* a list of JSON; calls as Python writes them */
    TR_TOOLS_GEMMA4,   /* declaration:NAME{…}; calls as call:NAME{…} */
    TR_TOOLS_NAMED,    /* how many --tool_format can name; those that follow belong to templates */
    TR_TOOLS_LLAMA31 = TR_TOOLS_NAMED, /* before the first question; one call, as JSON */
    TR_TOOLS_KIMI,                     /* declared before the system text; no calls */
    TR_TOOLS_PHI4,                     /* the list as it is in <|tool|>; calls as default */
    TR_TOOLS_FORMATS
};

/* Today's date: "02 Jan 2026". */
void tr_tools_day(char out[32]);

/* Looks a format up by its --tool_format name. FR_USAGE: unknown name. */
enum fr_rc tr_tools_find(const char *name, enum tr_tool_format *out, struct fr_err *err);

/* Appends the offer of tools, a JSON list of functions; nothing for an empty list. */
enum fr_rc tr_tools_text(enum tr_tool_format format, struct fr_str tools, struct fr_buf *out,
                         struct fr_err *err);

/* Delimiters of calls and thoughts in the data set's messages. */
struct tr_tool_words {
    const char *call, *called;
    const char *think, *thought;
};

/*
 * Appends the text of a function message: JSON {name, arguments} or a list of them. If the call is
 * delimited, the text around it is written before it. A thought before plain JSON stays there.
 * FR_USAGE for other text, FR_UNSUPPORTED for TR_TOOLS_KIMI.
 */
enum fr_rc tr_tools_call(enum tr_tool_format format, const struct tr_tool_words *words,
                         struct fr_str call, struct fr_buf *out, struct fr_err *err);

/* ---- private to tools*.c ---- */

/* Appends the offer of a list of tools. */
void tr_tools_offer(enum tr_tool_format format, const json_t *tools, struct fr_buf *out);
/* Appends a list of calls. */
void tr_tools_put(enum tr_tool_format format, const json_t *calls, struct fr_buf *out);
/* Of Gemma 4: the tools, and the arguments of a call. */
void tr_tools_gemma_offer(const json_t *tools, struct fr_buf *out);
void tr_tools_gemma_call(const json_t *arguments, struct fr_buf *out);
/* Unwraps {"type": "function", "function": F} to F; returns any other object unchanged. */
const json_t *tr_tools_function(const json_t *tool);
/* The reason why a format cannot write these calls; NULL: it can. */
const char *tr_tools_unwritable(enum tr_tool_format format, const json_t *calls);

#endif
