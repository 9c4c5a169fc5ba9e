/* Messages in the shapes of their channels. */
#include "engine/notify/notify.h"

#include "engine/base/sign.h"
#include "engine/base/sys.h"

#include <string.h>
#include <time.h>

/* Slack's three characters that have a meaning (api.slack.com/reference/surfaces/formatting). */
static void add_slack(struct fr_buf *out, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] == '&')
            fr_buf_text(out, "&amp;");
        else if (p[i] == '<')
            fr_buf_text(out, "&lt;");
        else if (p[i] == '>')
            fr_buf_text(out, "&gt;");
        else
            fr_buf_add(out, &p[i], 1);
}

json_t *fr_message_slack(const json_t *message)
{
    struct fr_buf text = {0}, safe = {0};
    json_t *doc = NULL;
    size_t title;

    fr_message_text(message, &text);
    if (!text.bad) {
        title = strcspn(text.p, "\n");
        fr_buf_text(&safe, "*");
        add_slack(&safe, text.p, title);
        fr_buf_text(&safe, "*");
        add_slack(&safe, text.p + title, text.n - title);
    }
    if (!text.bad && !safe.bad)
        doc = json_pack("{s:s}", "text", safe.p);
    fr_buf_finish(&text);
    fr_buf_finish(&safe);
    return doc;
}

/* A line of a card: title or text; lines of output in monospace. */
static json_t *card_line(const char *p, size_t n, bool title)
{
    bool output = n > 4 && memcmp(p, "    ", 4) == 0;
    json_t *run =
        json_pack("{s:s, s:s%, s:s, s:s}", "type", "TextRun", "text", p, n, "weight",
                  title ? "bolder" : "default", "fontType", output ? "monospace" : "default");

    return json_pack("{s:s, s:s, s:[o]}", "type", "RichTextBlock", "spacing",
                     title ? "default" : "none", "inlines", run);
}

json_t *fr_message_teams(const json_t *message)
{
    const char *url = json_string_value(json_object_get(json_object_get(message, "data"), "url"));
    json_t *lines = json_array(), *actions = json_array();
    struct fr_buf text = {0};
    json_t *doc = NULL;

    fr_message_text(message, &text);
    for (const char *p = text.bad ? "" : text.p; *p != '\0';) {
        size_t n = strcspn(p, "\n");

        json_array_append_new(lines, card_line(p, n, p == text.p));
        p += n + (p[n] != '\0');
    }
    if (url != NULL)
        json_array_append_new(actions, json_pack("{s:s, s:s, s:s}", "type", "Action.OpenUrl",
                                                 "title", "Open the run", "url", url));
    if (!text.bad)
        doc =
            json_pack("{s:s, s:[{s:s, s:{s:s, s:s, s:O, s:O}}]}", "type", "message", "attachments",
                      "contentType", "application/vnd.microsoft.card.adaptive", "content", "type",
                      "AdaptiveCard", "version", "1.2", "body", lines, "actions", actions);
    json_decref(lines);
    json_decref(actions);
    fr_buf_finish(&text);
    return doc;
}

/* ---- mail (RFC 5322) ---- */

enum { LINE_BYTES = 900 }; /* of a text without an end; a line of mail may have 998 */

static void add_lines(struct fr_buf *out, const char *text)
{
    size_t column = 0;

    for (; *text != '\0'; text++) {
        if (*text == '\n' || (column >= LINE_BYTES && (*text & 0xc0) != 0x80)) {
            fr_buf_text(out, "\r\n");
            column = 0;
        }
        if (*text != '\n') {
            fr_buf_add(out, text, 1);
            column++;
        }
    }
}

static void add_date(struct fr_buf *out)
{
    static const char days[][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char months[][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    time_t now = (time_t)(fr_sys.wall_ms() / 1000);
    struct tm t;

    gmtime_r(&now, &t);
    fr_buf_fmt(out, "Date: %s, %d %s %d %02d:%02d:%02d +0000\r\n", days[t.tm_wday], t.tm_mday,
               months[t.tm_mon], t.tm_year + 1900, t.tm_hour, t.tm_min, t.tm_sec);
}

/* A title that may have other than ASCII (RFC 2047): encoded in words of at most 75 bytes. */
static void add_subject(struct fr_buf *out, const char *title)
{
    enum { WORD = 42 }; /* bytes, which are 56 of base64 */
    size_t left = strlen(title);
    bool ascii = true;

    for (const char *p = title; *p != '\0'; p++)
        ascii = ascii && (unsigned char)*p < 0x80;
    fr_buf_text(out, "Subject: ");
    if (ascii)
        fr_buf_fmt(out, "%.900s", title);
    while (!ascii && left > 0) {
        size_t n = left < WORD ? left : WORD;

        while (n < left && n > 0 && (title[n] & 0xc0) == 0x80) /* whole characters */
            n--;
        fr_buf_text(out, "=?utf-8?B?");
        fr_base64_put(title, n, out);
        fr_buf_text(out, "?=");
        title += n;
        left -= n;
        if (left > 0)
            fr_buf_text(out, "\r\n ");
    }
    fr_buf_text(out, "\r\n");
}

void fr_message_mail(const json_t *channel, const char *key, const json_t *message,
                     struct fr_buf *out)
{
    const json_t *to = json_object_get(channel, "to");
    const char *id = json_string_value(json_object_get(json_object_get(message, "data"), "id"));
    struct fr_buf title = {0}, text = {0};

    fr_message_title(message, &title);
    fr_message_text(message, &text);
    add_date(out);
    fr_buf_fmt(out, "From: %s\r\nTo: ", json_string_value(json_object_get(channel, "from")));
    for (size_t i = 0; i < json_array_size(to); i++)
        fr_buf_fmt(out, "%s%s", i > 0 ? ",\r\n " : "", json_string_value(json_array_get(to, i)));
    fr_buf_text(out, "\r\n");
    if (!title.bad)
        add_subject(out, title.p);
    fr_buf_fmt(out, "Message-ID: <%s@flowrun>\r\n", key);
    if (id != NULL) /* all mails of a run are one conversation */
        fr_buf_fmt(out, "In-Reply-To: <run-%s@flowrun>\r\nReferences: <run-%s@flowrun>\r\n", id,
                   id);
    fr_buf_text(out, "Auto-Submitted: auto-generated\r\n"
                     "MIME-Version: 1.0\r\n"
                     "Content-Type: text/plain; charset=utf-8\r\n"
                     "Content-Transfer-Encoding: 8bit\r\n\r\n");
    if (!text.bad)
        add_lines(out, text.p);
    out->bad = out->bad || title.bad || text.bad;
    fr_buf_finish(&title);
    fr_buf_finish(&text);
}
