/* config: prints the home's configuration; schema: prints the schemas of pipelines and config.yaml.
 */
#include "engine/cli/cli.h"

#include "engine/base/log.h"
#include "engine/spec/config.h"

#include <string.h>

static void print_count(const char *name, int64_t n, const char *unit)
{
    if (n == 0)
        fr_print("%-24s no limit\n", name);
    else
        fr_print("%-24s %lld%s\n", name, (long long)n, unit);
}

static void print_list(const char *word, const char *const *names, size_t n)
{
    if (n > 0)
        fr_print("%s", word);
    for (size_t i = 0; i < n; i++)
        fr_print("%s%s", i > 0 ? ", " : "", names[i]);
}

/* Addresses are not shown: they may be secrets. */
static void print_rule(const struct fr_notify *rule)
{
    const char *events[FR_NOTICE_N];
    const struct fr_quiet *quiet = &rule->quiet;
    size_t n = 0;
    char time[24];

    for (size_t k = 0; k < FR_NOTICE_N; k++)
        if ((rule->on >> k & 1u) != 0)
            events[n++] = fr_notice_name((enum fr_notice)k);
    fr_print("%-24s ", "notify");
    print_list("", events, n);
    print_list(" of ", rule->pipelines, rule->n_pipelines);
    print_list(" to ", rule->to, rule->n_to);
    fr_show_duration(rule->throttle_ms, time);
    if (rule->throttle_ms > 0)
        fr_print(", one in %s", time);
    if (quiet->from_min != quiet->to_min)
        fr_print(", quiet %02d:%02d-%02d:%02d", quiet->from_min / 60, quiet->from_min % 60,
                 quiet->to_min / 60, quiet->to_min % 60);
    fr_print("\n");
}

static void print(const struct fr_config *c)
{
    char size[24], time[24];

    fr_print("%-24s %s\n", "zone", c->zone);
    print_count("limits.max_active_runs", c->limits.max_active_runs, "");
    print_count("limits.max_queued", c->limits.max_queued, "");
    fr_show_duration(c->limits.secret_wait_ms, time);
    fr_print("%-24s %s\n", "limits.secret_wait",
             c->limits.secret_wait_ms == 0 ? "never ends" : time);
    fr_show_duration(c->limits.stalled_ms, time);
    fr_print("%-24s %s\n", "limits.stalled", c->limits.stalled_ms == 0 ? "never" : time);
    fr_show_size(c->limits.disk_low_bytes, size);
    fr_print("%-24s %s\n", "limits.disk_low", c->limits.disk_low_bytes == 0 ? "never" : size);
    for (size_t i = 0; i < c->limits.n_pools; i++)
        fr_print("pools.%-18s %d\n", c->limits.pools[i].name, c->limits.pools[i].runs);
    print_count("keep.runs", c->keep.runs, "");
    print_count("keep.days", c->keep.days, "");
    print_count("keep.failed_days", c->keep.failed_days, "");
    fr_show_size(c->keep.bytes, size);
    fr_print("%-24s %s\n", "keep.bytes", c->keep.bytes == 0 ? "no limit" : size);
    for (size_t i = 0; i < c->n_channels; i++)
        fr_print("channels.%-15s %s\n", c->channels[i].name,
                 fr_channel_kind_name(c->channels[i].kind));
    for (size_t i = 0; i < c->n_notify; i++)
        print_rule(&c->notify[i]);
}

static void print_json(const struct fr_config *c)
{
    json_t *channels = json_object(), *pools = json_object();

    for (size_t i = 0; i < c->limits.n_pools; i++)
        json_object_set_new(pools, c->limits.pools[i].name, json_integer(c->limits.pools[i].runs));
    for (size_t i = 0; i < c->n_channels; i++)
        json_object_set_new(channels, c->channels[i].name,
                            json_string(fr_channel_kind_name(c->channels[i].kind)));
    cli_put_json(json_pack(
        "{s:s, s:{s:i, s:i, s:I, s:I, s:I}, s:o, s:{s:i, s:i, s:i, s:I}, s:o, s:o}", "zone",
        c->zone, "limits", "max_active_runs", c->limits.max_active_runs, "max_queued",
        c->limits.max_queued, "secret_wait_ms", (json_int_t)c->limits.secret_wait_ms, "stalled_ms",
        (json_int_t)c->limits.stalled_ms, "disk_low_bytes", (json_int_t)c->limits.disk_low_bytes,
        "pools", pools, "keep", "runs", c->keep.runs, "days", c->keep.days, "failed_days",
        c->keep.failed_days, "bytes", (json_int_t)c->keep.bytes, "channels", channels, "notify",
        fr_notify_json(c->notify, c->n_notify)));
}

enum fr_rc cli_show_config(struct cli_call *c, struct fr_err *err)
{
    enum fr_rc rc = cli_config(cli_arg(c, 0), &c->config, &c->issues, err);

    if (rc == FR_OK && c->json)
        print_json(c->config);
    else if (rc == FR_OK)
        print(c->config);
    return rc;
}

enum fr_rc cli_schema(struct cli_call *c, struct fr_err *err)
{
    const char *which = cli_arg(c, 0);
    struct fr_buf b = {0};
    enum fr_rc rc;

    if (which == NULL || strcmp(which, "pipeline") == 0)
        rc = fr_spec_schema(&b, err);
    else if (strcmp(which, "config") == 0)
        rc = fr_config_schema(&b, err);
    else
        rc =
            fr_fail(err, FR_USAGE, "there is no schema '%s'; there are pipeline and config", which);
    if (rc == FR_OK)
        fr_print("%s", b.p);
    fr_buf_finish(&b);
    return rc;
}
