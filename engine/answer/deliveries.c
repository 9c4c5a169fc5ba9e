/* Messages of the home's rules, and the channels that they go through. */
#include "engine/answer/call.h"
#include "engine/deliver/outbox.h"

enum { ROWS_USUAL = 50, ROWS_MOST = 200 };

static enum fr_rc read_filter(struct call *c, struct fr_delivery_filter *f, struct fr_err *err)
{
    int64_t limit = 0;
    enum fr_rc rc =
        query_range(c, "limit", (struct query_range){1, ROWS_MOST, ROWS_USUAL}, &limit, err);

    *f = (struct fr_delivery_filter){.channel = query_text(c, "channel"),
                                     .state = query_text(c, "state")};
    if (rc == FR_OK)
        rc = query_number(c, "before", INT64_MAX, &f->before, err);
    if (rc == FR_OK)
        rc = query_number(c, "run", 0, &f->run, err);
    if (rc == FR_OK && f->channel != NULL &&
        json_object_get(outbox_channels(c->host), f->channel) == NULL)
        rc = fr_fail(err, FR_NOTFOUND, "config.yaml of the home has no channel '%s'", f->channel);
    f->limit = (size_t)limit;
    return rc;
}

/* The path of the page that follows the row. Names of channels need no encoding. */
static json_t *next_page(const struct fr_delivery_filter *f, const struct fr_delivery_row *last)
{
    struct fr_buf b = {0};
    json_t *path;

    fr_buf_fmt(&b, "/api/v1/deliveries?limit=%zu&before=%lld", f->limit, (long long)last->id);
    if (f->channel != NULL)
        fr_buf_fmt(&b, "&channel=%s", f->channel);
    if (f->state != NULL)
        fr_buf_fmt(&b, "&state=%s", f->state);
    if (f->run != 0)
        fr_buf_fmt(&b, "&run=%lld", (long long)f->run);
    path = b.bad ? NULL : json_string(b.p);
    fr_buf_finish(&b);
    return path;
}

/* ?channel=, state=, run=, before=, limit= */
enum fr_rc get_deliveries(struct call *c, struct fr_err *err)
{
    struct fr_delivery_filter f;
    struct fr_delivery_rows rows = {0};
    json_t *out;
    enum fr_rc rc = read_filter(c, &f, err);

    if (rc == FR_OK)
        rc = fr_store_deliveries(c->host->env.store, &f, &c->arena, &rows, err);
    if (rc != FR_OK)
        return rc;
    out = json_pack("{s:o}", "items", fr_rows_json(&fr_delivery_type, rows.rows, rows.n));
    if (rows.n == f.limit)
        json_object_set_new(out, "next", next_page(&f, &rows.rows[rows.n - 1]));
    return answer_json(c, 200, out, err);
}

/* With the message itself. */
enum fr_rc get_deliveries_id(struct call *c, struct fr_err *err)
{
    struct fr_delivery_row row;
    json_t *message = NULL, *out;
    enum fr_rc rc = fr_store_delivery(c->host->env.store, c->schedule, &c->arena, &row, err);

    if (rc == FR_OK)
        rc = fr_json_parse(fr_str_of(row.body), "a stored message", &message, err);
    if (rc != FR_OK)
        return rc;
    out = fr_row_json(&fr_delivery_type, &row);
    json_object_set_new(out, "message", message);
    return answer_json(c, 200, out, err);
}

/* {channel}: sends a test message there, and switches the channel on. */
enum fr_rc post_deliveries(struct call *c, struct fr_err *err)
{
    struct fr_delivery_row row;
    const char *channel;
    enum fr_rc rc;

    if (json_unpack(c->doc, "{s:s !}", "channel", &channel) != 0)
        return fr_fail(err, FR_USAGE, "the body must be {\"channel\": \"…\"}");
    rc = outbox_try(c->host, channel, &c->arena, &row, err);
    if (rc != FR_OK)
        return rc;
    fr_buf_fmt(&c->res->location, "/api/v1/deliveries/%lld", (long long)row.id);
    return answer_json(c, 201, fr_row_json(&fr_delivery_type, &row), err);
}

enum fr_rc post_deliveries_id_again(struct call *c, struct fr_err *err)
{
    struct fr_delivery_row row;
    enum fr_rc rc = outbox_again(c->host, c->schedule, err);

    if (rc == FR_OK)
        rc = fr_store_delivery(c->host->env.store, c->schedule, &c->arena, &row, err);
    return rc == FR_OK ? answer_json(c, 202, fr_row_json(&fr_delivery_type, &row), err) : rc;
}

/* Names and kinds alone: addresses may be secrets. */
enum fr_rc get_channels(struct call *c, struct fr_err *err)
{
    const json_t *rules = outbox_rules(c->host);
    json_t *items = json_array(), *channel;
    const char *name, *note;
    enum fr_rc rc = FR_OK;

    json_object_foreach((json_t *)outbox_channels(c->host), name, channel)
    {
        if (rc == FR_OK)
            rc = fr_store_channel_note(c->host->env.store, name, &c->arena, &note, err);
        if (rc == FR_OK)
            json_array_append_new(items, json_pack("{s:s, s:O, s:s}", "name", name, "kind",
                                                   json_object_get(channel, "kind"), "off",
                                                   note != NULL ? note : ""));
    }
    if (rc == FR_OK)
        return answer_json(c, 200,
                           json_pack("{s:o, s:o}", "items", items, "rules",
                                     rules != NULL ? json_incref((json_t *)rules) : json_array()),
                           err);
    json_decref(items);
    return rc;
}
