/* Title and text of a message. */
#include "engine/notify/notify.h"

#include "engine/base/json.h"

#include <string.h>

static const struct {
    const char *type, *words;
} words[] = {
    {"run.started", "started"},
    {"run.succeeded", "succeeded"},
    {"run.recovered", "succeeded, after a failure"},
    {"run.failed", "failed"},
    {"run.cancelled", "was cancelled"},
    {"task.stalled", "shows no progress"},
    {"task.not_finite", "has a loss that is not finite"},
    {"run.late", "takes longer than it should"},
    {"node.unreachable", "cannot be reached"},
    {"node.disk_low", "has little disk left"},
    {"schedule.missed", "missed a time"},
    {"schedule.paused", "was paused"},
    {"channel.test", "a test message"},
};

static const char *words_of(const json_t *message)
{
    const char *type = fr_json_text(message, "type");

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(words[i].type, type) == 0)
            return words[i].words;
    return type;
}

void fr_message_title(const json_t *message, struct fr_buf *out)
{
    const json_t *data = json_object_get(message, "data"), *no = json_object_get(data, "run");
    const char *type = fr_json_text(message, "type"), *name = fr_json_text(data, "pipeline");
    const char *subject = fr_json_text(data, "subject");
    struct fr_buf line = {0};

    fr_buf_text(&line, name[0] != '\0' ? name : "flowrun");
    if (no != NULL)
        fr_buf_fmt(&line, " run %lld", (long long)json_integer_value(no));
    if (subject[0] != '\0')
        fr_buf_fmt(&line, ": %s%s",
                   fr_has_prefix(type, "node.")       ? "node "
                   : fr_has_prefix(type, "schedule.") ? "schedule "
                                                      : "",
                   subject);
    fr_buf_fmt(&line, "%s%s", fr_has_prefix(type, "channel.") ? ": " : " ", words_of(message));
    if (line.bad)
        out->bad = true;
    else
        fr_buf_visible(out, line.p, line.n);
    fr_buf_finish(&line);
}

static void add_line(struct fr_buf *out, const char *label, const char *text)
{
    if (text[0] == '\0')
        return;
    fr_buf_fmt(out, "%s%s", label, label[0] != '\0' ? ": " : "");
    fr_buf_visible(out, text, strlen(text));
    fr_buf_text(out, "\n");
}

static void add_failure(struct fr_buf *out, const json_t *first)
{
    const json_t *code = json_object_get(first, "code"), *tail = json_object_get(first, "tail");

    if (first == NULL)
        return;
    fr_buf_fmt(out, "first failure: %s on %s, %s", fr_json_text(first, "task"),
               fr_json_text(first, "node"), fr_json_text(first, "cause"));
    if (json_integer_value(code) != 0)
        fr_buf_fmt(out, " %lld", (long long)json_integer_value(code));
    fr_buf_text(out, "\n");
    for (size_t i = 0; i < json_array_size(tail); i++)
        fr_buf_fmt(out, "    %s\n", json_string_value(json_array_get(tail, i)));
}

void fr_message_text(const json_t *message, struct fr_buf *out)
{
    const json_t *data = json_object_get(message, "data");
    long long held = json_integer_value(json_object_get(data, "held"));

    fr_message_title(message, out);
    fr_buf_text(out, "\n");
    add_line(out, "", fr_json_text(data, "reason"));
    add_line(out, "", fr_json_text(data, "text"));
    add_failure(out, json_object_get(data, "first_failure"));
    add_line(out, "started", fr_json_text(data, "started"));
    add_line(out, "ended", fr_json_text(data, "ended"));
    add_line(out, "schedule", fr_json_text(data, "schedule"));
    if (held > 0)
        fr_buf_fmt(out, "%lld more %s held back since the last message of this kind\n", held,
                   held == 1 ? "was" : "were");
    add_line(out, "", fr_json_text(data, "url"));
}
