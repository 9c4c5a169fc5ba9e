/* The actions of notify: list deliveries, test a channel, send one again; and --deliver, the
 * process that sends one for the host. */
#include "engine/cli/cli.h"

#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "engine/notify/notify.h"
#include "engine/notify/trace.h"
#include "engine/spec/config.h"
#include "engine/store/outbox.h"
#include "engine/store/types.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LIST_MOST = 200, JOB_BYTES = 1 << 20 };

/* Channels of config.yaml, and the collector of the environment. */
static const json_t *find_channel(json_t *channels, const char *name)
{
    (void)fr_notify_collector(channels, NULL);
    return json_object_get(channels, name);
}

static enum fr_rc no_channel(const char *name, struct fr_err *err)
{
    return fr_fail(err, FR_USAGE,
                   "config.yaml has no channel '%s'; 'flowrun config' lists those it has", name);
}

/* ---- list ---- */

static void print_one(const struct fr_delivery_row *r, bool json)
{
    char made[32], next[32] = "";

    cli_date(r->made_wall, made);
    if (r->state == FR_DELIVERY_WAITING && r->tries > 0)
        cli_date(r->due_wall, next);
    if (json)
        cli_put_json(fr_row_json(&fr_delivery_type, r));
    else
        fr_print("%8lld  %-19s  %-12s  %-16s  %5lld  %-20s  %-7s  %5lld  %s%s%s\n",
                 (long long)r->id, made, r->channel, r->kind, (long long)r->run, r->name,
                 fr_word(&fr_delivery_state_words, r->state), (long long)r->tries, r->answer,
                 next[0] != '\0' ? "; next try " : "", next);
}

/* Reads the channels of config.yaml; the caller drops *out. */
static enum fr_rc read_channels(struct cli_call *c, json_t **out, struct fr_err *err)
{
    enum fr_rc rc = cli_config(NULL, &c->config, &c->issues, err);

    *out = rc == FR_OK ? fr_channels_json(c->config->channels, c->config->n_channels) : NULL;
    return rc;
}

/* Checks a channel without deliveries; one with deliveries may no longer be in config.yaml. */
static enum fr_rc check_channel(struct cli_call *c, const char *name, struct fr_err *err)
{
    json_t *channels;
    enum fr_rc rc = read_channels(c, &channels, err);

    if (rc == FR_OK && find_channel(channels, name) == NULL)
        rc = no_channel(name, err);
    json_decref(channels);
    return rc;
}

enum fr_rc cli_deliveries_list(struct cli_call *c, struct fr_err *err)
{
    const char *channel = cli_value(c, "--channel");
    struct fr_delivery_filter f = {INT64_MAX, 0, channel != NULL ? channel : "", "", LIST_MOST};
    struct fr_delivery_rows rows = {0};
    enum fr_rc rc = cli_word(c, "--state", "", &f.state, err);

    if (rc == FR_OK)
        rc = cli_store_read(&c->home.st, err);
    if (rc == FR_OK)
        rc = fr_store_deliveries(c->home.st, &f, &c->arena, &rows, err);
    if (rc == FR_OK && f.channel[0] != '\0' && rows.n == 0)
        rc = check_channel(c, f.channel, err);
    if (rc == FR_OK && !c->json && rows.n == 0)
        fr_print(f.channel[0] != '\0' || f.state[0] != '\0'
                     ? "there is no such delivery\n"
                     : "there is no delivery; channels: and notify: of config.yaml make some\n");
    else if (rc == FR_OK && !c->json)
        fr_print("%8s  %-19s  %-12s  %-16s  %5s  %-20s  %-7s  %5s  %s\n", "delivery", "made",
                 "channel", "event", "run", "pipeline", "state", "tries", "answer");
    for (size_t i = 0; rc == FR_OK && i < rows.n; i++)
        print_one(&rows.rows[i], c->json);
    return rc;
}

/* ---- test ---- */

static json_t *test_message(void)
{
    struct tm t;
    time_t now = (time_t)(fr_sys.wall_ms() / 1000);
    char when[32];

    gmtime_r(&now, &t);
    strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &t);
    return json_pack("{s:s, s:s, s:{s:s}}", "type", "channel.test", "timestamp", when, "data",
                     "text", "somebody tries whether messages of this home arrive");
}

static bool is_collector(const json_t *channel)
{
    const char *kind = json_string_value(json_object_get(channel, "kind"));

    return kind != NULL && strcmp(kind, fr_channel_kind_name(FR_CHANNEL_OTLP)) == 0;
}

enum fr_rc cli_deliveries_test(struct cli_call *c, struct fr_err *err)
{
    const char *name = c->args.v[1];
    json_t *channels, *message = NULL;
    const json_t *channel = NULL;
    char id[FR_ID_TEXT], key[FR_ID_TEXT + 4];
    struct fr_sent sent = {0};
    struct fr_id random;
    enum fr_rc rc = read_channels(c, &channels, err);

    if (rc == FR_OK && (rc = fr_id_new(&random, err)) == FR_OK &&
        (channel = find_channel(channels, name)) == NULL)
        rc = no_channel(name, err);
    if (rc == FR_OK) {
        message = is_collector(channel) ? fr_trace_none() : test_message();
        fr_id_text(random, id);
        snprintf(key, sizeof(key), "msg_%s", id);
        fr_notify_send(channel, key, message, &sent);
        if (!sent.done)
            rc = fr_fail(err, FR_UNREACHABLE, "channel %s: %s", name, sent.text);
    }
    if (rc == FR_OK)
        fr_print("channel %s: delivered (%s)\n", name, sent.text);
    json_decref(message);
    json_decref(channels);
    return rc;
}

/* ---- again ---- */

enum fr_rc cli_deliveries_again(struct cli_call *c, struct fr_err *err)
{
    const char *id = c->args.v[1];
    struct fr_buf home = {0};
    int64_t no = 0;
    enum fr_rc rc = cli_home(&home, err);

    if (rc == FR_OK && (fr_parse_i64(fr_str_of(id), &no, NULL) != FR_OK || no < 1))
        rc = fr_fail(err, FR_USAGE,
                     "notify: 'flowrun notify list' shows the numbers of deliveries, "
                     "'%s' is none",
                     id);
    if (rc == FR_OK)
        rc = cli_ask(home.p, &(struct cli_question){.method = "POST"}, err,
                     "/api/v1/deliveries/%lld/again", (long long)no);
    if (rc == FR_OK)
        fr_print("delivery %lld: the host sends it again; 'flowrun notify list' shows its answer\n",
                 (long long)no);
    else if (rc == FR_UNREACHABLE)
        fr_while(err, "deliveries are sent by the home's host, as 'flowrun serve' is one");
    fr_buf_finish(&home);
    return rc;
}

/* ---- the host's sender ---- */

static enum fr_rc read_job(struct fr_buf *out, struct fr_err *err)
{
    char part[4096];
    ssize_t n;

    while ((n = fr_sys.read(STDIN_FILENO, part, sizeof(part))) != 0 && out->n < JOB_BYTES)
        if (n > 0)
            fr_buf_add(out, part, (size_t)n);
        else if (errno != EINTR)
            return fr_fail_errno(err, errno, "reading a delivery");
    return out->bad ? fr_fail(err, FR_NOMEM, "no memory for a delivery") : FR_OK;
}

/* The spans that a collector gets in place of a message. */
static enum fr_rc trace_of(struct cli_call *c, const json_t *message, json_t **out,
                           struct fr_err *err)
{
    const char *id = json_string_value(json_object_get(json_object_get(message, "data"), "id"));

    if (id != NULL)
        return cli_trace_of(c, id, out, err);
    *out = fr_trace_none();
    return FR_OK;
}

static void deliver(struct cli_call *c, const json_t *job, const char *key, struct fr_sent *sent)
{
    const json_t *channel = json_object_get(job, "channel");
    json_t *message = json_object_get(job, "message"), *spans = NULL;
    struct fr_err err = {0};

    if (!is_collector(channel))
        fr_notify_send(channel, key, message, sent);
    else if (trace_of(c, message, &spans, &err) == FR_OK)
        fr_notify_send(channel, key, spans, sent);
    else
        (void)fr_visible(sent->text, sizeof(sent->text), err.msg, strlen(err.msg));
    json_decref(spans);
}

enum fr_rc cli_deliver(struct cli_call *c, struct fr_err *err)
{
    struct fr_buf text = {0};
    struct fr_sent sent = {0};
    json_t *job = NULL;
    enum fr_rc rc = read_job(&text, err);
    const char *key;

    if (rc == FR_OK)
        rc = fr_json_parse((struct fr_str){text.p, text.n}, "a delivery", &job, err);
    key = json_string_value(json_object_get(job, "key"));
    if (rc == FR_OK && key == NULL)
        rc = fr_fail(err, FR_USAGE, "notify --deliver is for the host: it reads a delivery");
    if (rc == FR_OK) {
        deliver(c, job, key, &sent);
        cli_put_json(fr_sent_json(&sent));
    }
    json_decref(job);
    fr_buf_finish(&text);
    return rc;
}
