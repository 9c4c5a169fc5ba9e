/* Which rule wants an event. */
#include "engine/notify/notify.h"
#include "engine/notify/otel.h"

#include <stdlib.h>
#include <string.h>

/* '*' stands for any text, also none. */
static bool matches(const char *pattern, const char *name)
{
    const char *star = NULL, *from = NULL;

    while (*name != '\0')
        if (*pattern == '*') {
            star = pattern++;
            from = name;
        } else if (*pattern == *name) {
            pattern++;
            name++;
        } else if (star != NULL) {
            pattern = star + 1;
            name = ++from;
        } else {
            return false;
        }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

bool fr_notify_wants(const json_t *rule, const char *kind, const char *pipeline)
{
    const json_t *on = json_object_get(rule, "on"), *names = json_object_get(rule, "pipelines");
    bool wanted = false, named = json_array_size(names) == 0;

    for (size_t i = 0; i < json_array_size(on) && !wanted; i++)
        wanted = strcmp(json_string_value(json_array_get(on, i)), kind) == 0;
    for (size_t i = 0; i < json_array_size(names) && !named; i++)
        named = matches(json_string_value(json_array_get(names, i)), pipeline);
    return wanted && named;
}

int64_t fr_notify_quiet_end(const json_t *rule, const struct fr_zone *zone, int64_t now_ms)
{
    const json_t *quiet = json_object_get(rule, "quiet");
    int64_t from = json_integer_value(json_array_get(quiet, 0)) * 60;
    int64_t to = json_integer_value(json_array_get(quiet, 1)) * 60;
    int64_t now = fr_div_down(now_ms, 1000), wall = now + fr_zone_offset(zone, now);
    int64_t day = fr_div_down(wall, FR_DAY_S) * FR_DAY_S, at = wall - day, end;

    if (from < to ? at < from || at >= to : at < from && at >= to)
        return 0;
    end = fr_zone_instant(zone, (struct fr_when){.s = day + to + (at < to ? 0 : FR_DAY_S)});
    return end > now ? end * 1000 : 0; /* a clock that is set back may show that time again */
}

void fr_notify_type(const char *kind, struct fr_buf *out)
{
    const char *of = strcmp(kind, "stalled") == 0 || strcmp(kind, "not_finite") == 0 ? "task"
                     : strcmp(kind, "test") == 0                                     ? "channel"
                     : strcmp(kind, "disk_low") == 0                                 ? "node"
                                                                                     : "run";

    if (fr_has_prefix(kind, "node_"))
        fr_buf_fmt(out, "node.%s", kind + strlen("node_"));
    else if (fr_has_prefix(kind, "schedule_"))
        fr_buf_fmt(out, "schedule.%s", kind + strlen("schedule_"));
    else
        fr_buf_fmt(out, "%s.%s", of, kind);
}

static bool is_set(const char *name)
{
    const char *value = getenv(name);

    return value != NULL && value[0] != '\0';
}

bool fr_notify_collector(json_t *channels, json_t *rules)
{
    static const char all[] = "OTEL_EXPORTER_OTLP_ENDPOINT",
                      own[] = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
                      all_headers[] = "OTEL_EXPORTER_OTLP_HEADERS",
                      own_headers[] = "OTEL_EXPORTER_OTLP_TRACES_HEADERS";
    const char *headers = is_set(own_headers)   ? own_headers
                          : is_set(all_headers) ? all_headers
                                                : NULL;
    json_t *channel;

    if (!fr_otel_wanted() || (!is_set(own) && !is_set(all)) ||
        json_object_get(channels, FR_COLLECTOR) != NULL)
        return false;
    channel = json_pack("{s:s, s:{s:s}}", "kind", "otlp", "url", "env", is_set(own) ? own : all);
    if (!is_set(own))
        json_object_set_new(channel, "path", json_string("/v1/traces"));
    if (headers != NULL)
        json_object_set_new(channel, "headers", json_pack("{s:s}", "env", headers));
    json_object_set_new(channels, FR_COLLECTOR, channel);
    json_array_append_new(rules, json_pack("{s:[s, s, s], s:[], s:[s], s:i}", "on", "succeeded",
                                           "failed", "cancelled", "pipelines", "to", FR_COLLECTOR,
                                           "throttle_ms", 0));
    return true;
}
