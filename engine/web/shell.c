#include "engine/web/private.h"

#include "engine/base/json.h"
#include "engine/api/problem.h"
#include "engine/web/pages.h"

#include <string.h>

/* How a run's states look; the page's scripts have all states in static/states.js. */
static const struct {
    const char *state, *outcome; /* NULL: any */
    const char *glyph, *word, *look;
} looks[] = {
    {"over", "succeeded", "✓", "succeeded", "succeeded"},
    {"over", "failed", "✗", "failed", "failed"},
    {"over", "cancelled", "■", "cancelled", "cancelled"},
    {"running", NULL, "▶", "running", "running"},
    {"queued", NULL, "○", "queued", "ready"},
    {"cancelling", NULL, "◫", "cancelling", "stopping"},
    {"hooks", NULL, "▶", "running hooks", "running"},
};

/* ---- texts ---- */

static void add_text(struct fr_buf *out, const char *s)
{
    for (; *s != '\0'; s++) {
        const char *name = *s == '&'   ? "&amp;"
                           : *s == '<' ? "&lt;"
                           : *s == '>' ? "&gt;"
                           : *s == '"' ? "&quot;"
                                       : NULL;

        fr_buf_add(out, name != NULL ? name : s, name != NULL ? strlen(name) : 1);
    }
}

/* A segment of a path. */
static void add_segment(struct fr_buf *out, const char *s)
{
    for (; *s != '\0'; s++)
        if (strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~") > 0)
            fr_buf_add(out, s, 1);
        else
            fr_buf_fmt(out, "%%%02X", (unsigned char)*s);
}

/* JSON in a script: "<" stands only in its texts, and could end the script there. */
static void add_json(struct fr_buf *out, struct fr_str json)
{
    for (size_t i = 0; i < json.n; i++)
        if (json.p[i] == '<')
            fr_buf_text(out, "\\u003c");
        else
            fr_buf_add(out, &json.p[i], 1);
}

/* ---- documents of the interface ---- */

/* The answer to who asks for the page; false: it is an error. */
static bool ask(struct conn *c, const char *path, const struct fr_api_pair *query,
                struct fr_api_response *res)
{
    const struct fr_api *api = c->server->api;
    struct fr_api_request req = {.method = FR_API_GET,
                                 .path = path,
                                 .query = query,
                                 .n_query = query != NULL,
                                 .content_type = "",
                                 .range = "",
                                 .if_none_match = "",
                                 .last_event_id = "",
                                 .caller = &c->caller};

    *res = (struct fr_api_response){.fd = -1};
    api->answer(api->self, &req, res);
    return res->status == 200 && !res->file && !res->body.bad;
}

struct known {
    const char *no; /* of the run, as the path has it */
    struct fr_api_response me, row;
};

static bool ask_known(struct conn *c, struct known *k)
{
    static const struct fr_api_pair form = {"form", "row"};
    char path[64];

    snprintf(path, sizeof(path), "/api/v1/runs/%s", k->no);
    return ask(c, path, &form, &k->row) && ask(c, "/api/v1/me", NULL, &k->me);
}

/* ---- the page ---- */

static void add_known(struct fr_buf *out, const struct known *k)
{
    fr_buf_text(out, "<script type=\"application/json\" id=\"known\">{\"me\":");
    add_json(out, (struct fr_str){k->me.body.p, k->me.body.n});
    fr_buf_fmt(out, ",\"runs/%s?form=row\":", k->no);
    add_json(out, (struct fr_str){k->row.body.p, k->row.body.n});
    fr_buf_text(out, "}</script>\n");
}

static void add_title(struct fr_buf *out, const char *glyph, const char *no, const char *pipeline)
{
    fr_buf_fmt(out, "<title>%s %s ", glyph, no);
    add_text(out, pipeline);
    fr_buf_text(out, " · flowrun</title>");
}

static void add_head(struct fr_buf *out, size_t look, const char *no, const char *pipeline)
{
    fr_buf_fmt(out,
               "<main id=\"main\" tabindex=\"-1\" class=\"run-page\"><div class=\"runhead early\">"
               "<div class=\"title\"><h1 class=\"st-%s\"><span class=\"badge st-%s\">"
               "<span class=\"glyph\" aria-hidden=\"true\">%s</span>"
               "<span class=\"word\">%s</span></span></h1>"
               "<h1><span class=\"no\">#%s</span> <a class=\"quiet\" href=\"pipelines/",
               looks[look].look, looks[look].look, looks[look].glyph, looks[look].word, no);
    add_segment(out, pipeline);
    fr_buf_text(out, "\">");
    add_text(out, pipeline);
    fr_buf_text(out, "</a></h1></div></div></main>");
}

/* Adds what of *text stands before the mark, which *text goes behind. */
static void up_to(struct fr_buf *out, const char **text, const char *mark)
{
    const char *at = strstr(*text, mark);

    fr_buf_add(out, *text, (size_t)(at - *text));
    *text = at + strlen(mark);
}

/* The index in looks of the state of the row; SIZE_MAX: none. */
static size_t look_of(const json_t *row)
{
    for (size_t i = 0; i < sizeof(looks) / sizeof(looks[0]); i++)
        if (strcmp(looks[i].state, fr_json_text(row, "state")) == 0 &&
            (looks[i].outcome == NULL ||
             strcmp(looks[i].outcome, fr_json_text(row, "outcome")) == 0))
            return i;
    return SIZE_MAX;
}

static bool draw(const struct conn *c, const char *text, const struct known *k, struct fr_buf *out)
{
    json_t *row = json_loadb(k->row.body.p, k->row.body.n, 0, NULL);
    size_t look = look_of(row);
    const char *pipeline = fr_json_text(row, "pipeline");

    if (look != SIZE_MAX) {
        up_to(out, &text, WEB_MARK_BASE);
        fr_buf_fmt(out, "<base href=\"%s/\">", c->server->gate.base);
        up_to(out, &text, WEB_MARK_TITLE);
        add_title(out, looks[look].glyph, k->no, pipeline);
        up_to(out, &text, WEB_MARK_KNOWN);
        add_known(out, k);
        up_to(out, &text, WEB_MARK_MAIN);
        add_head(out, look, k->no, pipeline);
        fr_buf_text(out, text);
    }
    json_decref(row);
    return look != SIZE_MAX && !out->bad;
}

bool shell_of_run(struct conn *c, const char *no, const char *text, struct fr_buf *out)
{
    struct known k = {.no = no};
    bool drawn = false;

    if (c->caller.role == FR_ROLE_NONE || no[0] == '\0' || no[0] == '0' || strlen(no) > 18 ||
        no[strspn(no, "0123456789")] != '\0')
        return false;
    if (ask_known(c, &k))
        drawn = draw(c, text, &k, out);
    if (!drawn)
        fr_buf_finish(out);
    fr_api_response_finish(&k.me);
    fr_api_response_finish(&k.row);
    return drawn;
}
