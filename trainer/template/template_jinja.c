/*
 * A template as Jinja, the language of chat templates: what LLaMA-Factory saves with a tokenizer
 * that has none. Source: its documentation of templates; transformers' of chat templates.
 */
#include "trainer/template/template.h"
#include "trainer/template/template_row.h"

#include <string.h>

#define CONTENT "{{content}}"

struct jinja {
    const struct tr_tokenizer *tok;
    struct fr_buf *out;
    struct fr_err *err;
    const char *name; /* of the variable in the place of the content */
    int parts;        /* of the sum so far */
};

static void put_sign(struct jinja *j)
{
    fr_buf_text(j->out, j->parts++ > 0 ? " + " : "");
}

static void put_escaped(struct fr_buf *out, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        fr_buf_text(out, p[i] == '\'' ? "\\" : "");
        fr_buf_add(out, p + i, 1);
    }
}

static void put_literal(struct jinja *j, const char *p, size_t n)
{
    if (n == 0)
        return;
    put_sign(j);
    fr_buf_text(j->out, "'");
    put_escaped(j->out, p, n);
    fr_buf_text(j->out, "'");
}

/* Text of a slot up to a marked token, with the variable for the first content. */
static void put_text(struct jinja *j, const char *p, size_t n)
{
    const char *at = memmem(p, n, CONTENT, strlen(CONTENT));

    put_literal(j, p, at != NULL ? (size_t)(at - p) : n);
    if (at == NULL)
        return;
    put_sign(j);
    fr_buf_text(j->out, j->name);
    at += strlen(CONTENT);
    put_literal(j, at, n - (size_t)(at - p));
}

static enum fr_rc put_token(struct jinja *j, bool bos)
{
    int32_t id = bos ? tr_tokenizer_bos(j->tok) : tr_tokenizer_eos(j->tok);
    enum fr_rc rc;

    if (id < 0)
        return FR_OK;
    put_sign(j);
    fr_buf_text(j->out, "'");
    rc = tr_tokenizer_decode(j->tok, &id, 1, false, j->out, j->err);
    fr_buf_text(j->out, "'");
    return rc;
}

/* A slot as a sum; name stands for the content. */
static enum fr_rc put_slot(struct jinja *j, const char *slot, const char *name)
{
    enum fr_rc rc = FR_OK;

    j->name = name;
    j->parts = 0;
    for (const char *p = slot; rc == FR_OK && *p != '\0';) {
        size_t n = strcspn(p, BOS EOS);

        put_text(j, p, n);
        p += n;
        if (*p != '\0')
            rc = put_token(j, *p++ == BOS[0]);
    }
    return rc;
}

/* "{{ " and the slot before text. */
static enum fr_rc put_shown(struct jinja *j, const char *slot, const char *text)
{
    enum fr_rc rc;

    fr_buf_text(j->out, "{{ ");
    rc = put_slot(j, slot, "content");
    fr_buf_text(j->out, text);
    return rc;
}

#define FIRST_IS_SYSTEM                                                                            \
    "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}"               \
    "{% set system_message = messages[0]['content'] %}{% else %}"                                  \
    "{% set loop_messages = messages %}{% endif %}"

/* The system text, before all messages or in the first one, and the head of the loop. */
static enum fr_rc put_system(struct jinja *j, const struct tr_template *t)
{
    const char *slot = t->system != NULL ? t->system : CONTENT;
    enum fr_rc rc;

    fr_buf_text(j->out, FIRST_IS_SYSTEM);
    fr_buf_text(j->out, t->fused ? "{% for message in loop_messages %}"
                                   "{% if loop.index0 == 0 and system_message is defined %}"
                                   "{% set content = "
                                 : "{% if system_message is defined %}{{ ");
    rc = put_slot(j, slot, "system_message");
    fr_buf_text(j->out, t->fused ? " + message['content'] %}{% else %}"
                                   "{% set content = message['content'] %}{% endif %}"
                                 : " }}{% endif %}{% for message in loop_messages %}"
                                   "{% set content = message['content'] %}");
    return rc;
}

static enum fr_rc put_template(struct jinja *j, const struct tr_template *t)
{
    size_t before = j->out->n;
    enum fr_rc rc = FR_OK;

    if (t->prefix != NULL && (rc = put_shown(j, t->prefix, " }}")) == FR_OK && j->parts == 0)
        j->out->n = before; /* of tokens that the tokenizer lacks */
    if (rc == FR_OK && t->default_system != NULL) {
        fr_buf_text(j->out, "{% set system_message = '");
        put_escaped(j->out, t->default_system, strlen(t->default_system));
        fr_buf_text(j->out, "' %}");
    }
    if (rc == FR_OK)
        rc = put_system(j, t);
    fr_buf_text(j->out, "{% if message['role'] == 'user' %}");
    if (rc == FR_OK)
        rc = put_shown(j, t->user, " }}{% elif message['role'] == 'assistant' %}");
    if (rc == FR_OK)
        rc =
            put_shown(j, t->answer != NULL ? t->answer : CONTENT EOS, " }}{% endif %}{% endfor %}");
    return rc == FR_OK && j->out->bad ? fr_fail(j->err, FR_NOMEM, "no memory for a chat template")
                                      : rc;
}

enum fr_rc tr_template_chat(const struct tr_template *t, const struct tr_tokenizer *tok,
                            const char *model_dir, struct fr_buf *out, struct fr_err *err)
{
    struct jinja j = {.tok = tok, .out = out, .err = err};
    struct fr_buf own = {0};
    enum fr_rc rc = t->replaces_chat ? FR_OK : tr_template_read_chat(model_dir, &own, err);
    /* LLaMA-Factory writes none either where a token stands by its name */
    bool named = strchr(t->user, TOKEN[0]) != NULL;
    bool keeps = own.n > 0 || t->opening != NULL || named;

    fr_buf_finish(&own);
    return rc != FR_OK || keeps ? rc : put_template(&j, t);
}
