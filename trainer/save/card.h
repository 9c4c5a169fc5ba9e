/*
 * Files beside an adapter: README.md, the model card with base, data, parameters and losses; and
 * the chat template if the base has none.
 */
#ifndef TR_SAVE_CARD_H
#define TR_SAVE_CARD_H

#include "engine/base/str.h"
#include "trainer/config/args.h"
#include "trainer/config/lora_config.h"

#include <jansson.h>

struct tr_card {
    const struct tr_args *args;
    const struct tr_lora_config *lora; /* NULL: a model, all of whose weights were trained */
    const struct tr_derived *derived;
    const char *template_name;
    int64_t step;
    const json_t *history; /* log entries of trainer_state.json */
    struct fr_str chat;    /* text of chat_template.jinja; empty: that of the base stays */
};

enum fr_rc tr_card_write(const char *dir, const struct tr_card *c, struct fr_err *err);

#endif
