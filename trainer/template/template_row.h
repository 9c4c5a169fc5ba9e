/*
 * Private to trainer/template: a template as a row of slots (template_table.c). In a slot, BOS and
 * EOS stand for the ids of those tokens, TOKEN "name" TOKEN for the id of a token by its name,
 * which the tokenizer must have, SPLIT for nothing. Text before, between and after them is
 * tokenised separately. {{content}} is replaced once.
 */
#ifndef TR_TEMPLATE_TEMPLATE_ROW_H
#define TR_TEMPLATE_TEMPLATE_ROW_H

#include "trainer/template/tools.h"

#include <stdbool.h>
#include <stddef.h>

#define BOS "\x01"
#define EOS "\x02"
#define TOKEN "\x03"
#define SPLIT "\x04"

struct tr_template {
    const char *name;
    const char *prefix; /* before the first message */
    const char *system; /* NULL: the content alone */
    const char *user;
    const char *answer;      /* NULL: content and EOS */
    const char *function;    /* a call; NULL: as answer */
    const char *observation; /* NULL: as user */
    const char *default_system;
    const char *stop;     /* a token that replaces eos, or the first that ends an answer too */
    const char *stop_too; /* another one */
    bool keeps_eos;       /* stop does not replace eos */
    enum tr_tool_format tools;
    bool efficient_eos;  /* one EOS at the end instead of one a turn */
    bool fused;          /* the system text begins the first user message */
    const char *opening; /* begins every system text, which is then always there */
    bool dated;          /* the day stands between the opening and the system text */
    bool trims;          /* system text, questions and answers lose the blanks at their ends */
    bool replaces_chat;  /* the chat template of the checkpoint */
    bool reasons;        /* answers begin with a thought, an empty one where they have none */
    const char *think, *thought; /* around a thought; NULL: those of DeepSeek-R1 */
    bool closes;                 /* an empty thought is the second of them alone */
    const char *call, *called;   /* around a call in the data; NULL: <tool_call>, </tool_call> */
    bool quotes;                 /* results of calls are JSON strings */
};

/* Template number i; NULL after the last one. */
const struct tr_template *tr_template_row(size_t i);

#endif
