/* notify: and channels:, as they are read, and as JSON. */
#include "engine/spec/load.h"

#include <string.h>

static const char *const names[] = {FR_NOTICES(FR_WORD_TEXT) NULL};
static const char *const kinds[] = {"webhook", "slack", "teams", "email", "command", "otlp", NULL};

const char *fr_notice_name(enum fr_notice kind)
{
    return names[kind];
}

const char *fr_channel_kind_name(enum fr_channel_kind kind)
{
    return kinds[kind];
}

/* ---- rules ---- */

#define RULE_FIELDS                                                                                \
    {"to", SHAPE_NAMES, ATN(fr_notify, to), .required = true,                                      \
     .help = "Names of channels, which the home's config.yaml has: one or a list."},               \
        {"quiet", SHAPE_QUIET, AT(fr_notify, quiet),                                               \
         .help =                                                                                   \
             "Hours without messages, like 22:00-07:00 in the zone of config.yaml: what happens "  \
             "then is told at their end."},                                                        \
    {                                                                                              \
        "throttle", SHAPE_DURATION, AT(fr_notify, throttle_ms),                                    \
            .help = "Of an event of a pipeline one message in this time; the next one says how "   \
                    "many were held back. Default: all are sent."                                  \
    }

static const struct field notify_fields[] = {
    {"on", SHAPE_EVENTS, AT(fr_notify, on), .choices = names, .first = FR_NOTICE_SCHEDULE_MISSED,
     .required = true, .help = "Events of its runs: one or a list."},
    RULE_FIELDS,
    {0},
};
const struct object object_notify = {"a rule of notify", "notify", notify_fields, NULL};

static const struct field home_notify_fields[] = {
    {"on", SHAPE_EVENTS, AT(fr_notify, on), .choices = names, .first = FR_NOTICE_N,
     .required = true, .help = "Events: one or a list."},
    {"pipelines", SHAPE_STRINGS, ATN(fr_notify, pipelines),
     .help = "Names of pipelines; * stands for any text. Default: all."},
    RULE_FIELDS,
    {0},
};
const struct object object_home_notify = {"a rule of notify", "notify", home_notify_fields, NULL};

void read_events(struct loader *l, const struct fr_yaml *y, const struct field *f, void *target)
{
    unsigned *out = (void *)((char *)target + f->at);
    const char *offered[FR_NOTICE_N];
    size_t n = 0, n_offered = (size_t)f->first;
    const char **words = read_strings(l, y, false, &n);

    memcpy(offered, f->choices, n_offered * sizeof(offered[0]));
    if (n == 0)
        wrong_value(l, y, f->name, "at least one event");
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;

        while (k < n_offered && strcmp(offered[k], words[i]) != 0)
            k++;
        if (k < n_offered)
            *out |= 1u << k;
        else
            complain_near(
                l, pos_of(l, y->kind == FR_YAML_LIST ? y->items[i] : y),
                &(struct hint){word_list(l, offered, n_offered), words[i], offered, n_offered},
                "%s is '%s'", f->name, words[i]);
    }
}

/* "22:00" at p in minutes; -1: it is no time of a day. */
static int minutes_at(const char *p)
{
    int hour, minute;

    for (int i = 0; i < 5; i++)
        if (i == 2 ? p[i] != ':' : p[i] < '0' || p[i] > '9')
            return -1;
    hour = 10 * (p[0] - '0') + p[1] - '0';
    minute = 10 * (p[3] - '0') + p[4] - '0';
    return hour < 24 && minute < 60 ? 60 * hour + minute : -1;
}

void read_quiet(struct loader *l, const struct fr_yaml *y, const struct field *f, void *target)
{
    struct fr_quiet *out = (void *)((char *)target + f->at);
    const char *text = read_now(l, y);
    int from, to;

    if (text == NULL)
        return;
    from = minutes_at(text);
    to = from >= 0 && text[5] == '-' ? minutes_at(text + 6) : -1;
    if (to < 0 || text[11] != '\0' || from == to)
        wrong_value(l, y, f->name, "two times of a day like 22:00-07:00");
    else
        *out = (struct fr_quiet){from, to};
}

void read_rules(struct loader *l, const struct fr_yaml *y, const struct field *f, void *target)
{
    struct items items = items_of(&y);
    struct fr_notify *list = load_alloc(l, items.n, sizeof(*list));

    for (size_t i = 0; list != NULL && i < items.n; i++) {
        const struct fr_yaml *to = fr_yaml_get(items.v[i], "to");

        read_object(l, f->object, items.v[i], &list[i]);
        if (to != NULL && list[i].n_to == 0 && to->kind != FR_YAML_SCALAR)
            wrong_value(l, to, "to", "at least one name of a channel");
    }
    put_list(f, target, list, list != NULL ? items.n : 0);
}

/* ---- channels ---- */

static const struct field given_fields[] = {
    {"env", SHAPE_STRING, AT(fr_given, env), .help = "Variable of the host's environment."},
    {"file", SHAPE_PATH, AT(fr_given, file), .help = "File; a newline at its end is cut."},
    {0},
};
const struct object object_given = {"a secret", "given", given_fields, "env"};

static const struct field channel_fields[] = {
    {"kind", SHAPE_CHOICE, AT(fr_channel, kind), .choices = kinds, .required = true,
     .help =
         "webhook: the event as JSON, by HTTP; slack: a text for an incoming webhook; teams: an "
         "adaptive card for a workflow of Microsoft Teams; email; command: the event as JSON on "
         "its standard input; otlp: the run as a trace, by "
         "OTLP/HTTP."},
    {"url", SHAPE_GIVEN_TEXT, AT(fr_channel, url), .object = &object_given,
     .help = "Of webhook, slack, teams and otlp: http:// or https://, or {env: NAME} or {file: "
             "PATH}, where it is a secret."},
    {"sign_with", SHAPE_GIVEN_SECRET, AT(fr_channel, sign_with), .object = &object_given,
     .help = "Of webhook: whsec_ and base64, as Standard Webhooks has it; several with blanks "
             "between them give a signature each."},
    {"headers", SHAPE_GIVEN_SECRET, AT(fr_channel, headers), .object = &object_given,
     .help = "Of otlp: NAME=VALUE,NAME=VALUE, as OTEL_EXPORTER_OTLP_HEADERS has them."},
    {"server", SHAPE_STRING, AT(fr_channel, server),
     .help =
         "Of email: smtp://HOST:PORT or smtps://HOST:PORT. TLS is required, unless the server is "
         "this machine and no ca is given."},
    {"from", SHAPE_STRING, AT(fr_channel, from), .help = "Of email: address of the sender."},
    {"to", SHAPE_STRINGS, ATN(fr_channel, to), .help = "Of email: one address or a list."},
    {"user", SHAPE_STRING, AT(fr_channel, user), .help = "Of email: login; default: none."},
    {"password", SHAPE_GIVEN_SECRET, AT(fr_channel, password), .object = &object_given,
     .help = "Of email."},
    {"ca", SHAPE_PATH, AT(fr_channel, ca),
     .help = "File of certificates that are trusted, in place of the system's."},
    {"command", SHAPE_STRINGS, ATN(fr_channel, command),
     .help = "Of command: program and arguments, started without a shell; exit code 0: delivered."},
    {0},
};
const struct object object_channel = {"a channel", "channel", channel_fields, NULL};

void read_given_text(struct loader *l, const struct fr_yaml *y, const struct field *f, void *target)
{
    struct fr_given *out = (void *)((char *)target + f->at);

    if (y->kind == FR_YAML_SCALAR && f->shape == SHAPE_GIVEN_TEXT) {
        out->text = read_now(l, y);
        return;
    }
    if (y->kind != FR_YAML_MAP) { /* the text is not quoted: it may be the secret */
        complain(l, pos_of(l, y), "{env: NAME} or {file: PATH}",
                 "%s does not stand in the file itself", f->name);
        return;
    }
    read_object(l, &object_given, y, out);
    if ((out->env != NULL) == (out->file != NULL))
        complain(l, pos_of(l, y), "one of env or file", "%s is not complete", f->name);
}

static bool is_given(const struct fr_given *g)
{
    return g->text != NULL || g->env != NULL || g->file != NULL;
}

static bool is_url(const char *text, const char *one, const char *other)
{
    size_t n = fr_has_prefix(text, one)     ? strlen(one)
               : fr_has_prefix(text, other) ? strlen(other)
                                            : 0;

    for (const char *p = text; *p != '\0'; p++)
        if ((unsigned char)*p <= ' ' || *p == 0x7f)
            return false;
    return n > 0 && text[n] != '\0';
}

/* "name@host", without what would end a line or an address of SMTP. */
static bool is_address(const char *text)
{
    const char *at = strrchr(text, '@');

    for (const char *p = text; *p != '\0'; p++)
        if ((unsigned char)*p <= ' ' || *p == 0x7f || strchr("<>,;\"", *p) != NULL)
            return false;
    return at != NULL && at != text && at[1] != '\0';
}

struct channel_key {
    const char *name;
    unsigned of;   /* bit 1u << enum fr_channel_kind: it may have the key, … */
    bool optional; /* … or must */
};

static void check_key(struct loader *l, const struct fr_yaml *y, const struct fr_channel *c,
                      const struct channel_key *key)
{
    const struct fr_yaml *value = fr_yaml_get(y, key->name);
    bool mine = (key->of >> c->kind & 1u) != 0;

    if (value != NULL && !mine)
        complain(l, pos_of(l, value), NULL, "a channel of kind %s has no %s", kinds[c->kind],
                 key->name);
    if (value == NULL && mine && !key->optional)
        complain(l, pos_of(l, y), NULL, "a channel of kind %s needs the key '%s'", kinds[c->kind],
                 key->name);
}

static void check_mail(struct loader *l, const struct fr_yaml *y, const struct fr_channel *c)
{
    if (c->server != NULL &&
        (!is_url(c->server, "smtp://", "smtps://") || strchr(c->server, '@') != NULL))
        complain(l, pos_of(l, fr_yaml_get(y, "server")),
                 "smtp://HOST:PORT or smtps://HOST:PORT; user: and "
                 "password: have keys of their own",
                 "server is no address of a mail server");
    if (c->from != NULL && !is_address(c->from))
        wrong_value(l, fr_yaml_get(y, "from"), "from", "an address like flowrun@example.org");
    for (size_t i = 0; i < c->n_to; i++)
        if (!is_address(c->to[i]))
            complain(l, pos_of(l, fr_yaml_get(y, "to")), "an address like team@example.org",
                     "to is '%s'", c->to[i]);
    if ((c->user != NULL) != is_given(&c->password))
        complain(l, pos_of(l, y), "both, or none", "user and password belong together");
}

static void check_channel(struct loader *l, const struct fr_yaml *y, const struct fr_channel *c)
{
    static const struct channel_key keys[] = {
        {"url",
         1u << FR_CHANNEL_WEBHOOK | 1u << FR_CHANNEL_SLACK | 1u << FR_CHANNEL_TEAMS |
             1u << FR_CHANNEL_OTLP,
         false},
        {"headers", 1u << FR_CHANNEL_OTLP, true},
        {"sign_with", 1u << FR_CHANNEL_WEBHOOK, true},
        {"server", 1u << FR_CHANNEL_EMAIL, false},
        {"from", 1u << FR_CHANNEL_EMAIL, false},
        {"to", 1u << FR_CHANNEL_EMAIL, false},
        {"user", 1u << FR_CHANNEL_EMAIL, true},
        {"password", 1u << FR_CHANNEL_EMAIL, true},
        {"ca", ~(1u << FR_CHANNEL_COMMAND), true},
        {"command", 1u << FR_CHANNEL_COMMAND, false},
    };

    if (c->kind == FR_CHANNEL_N) /* it was reported */
        return;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        check_key(l, y, c, &keys[i]);
    if (c->url.text != NULL && !is_url(c->url.text, "http://", "https://"))
        complain(l, pos_of(l, fr_yaml_get(y, "url")), NULL,
                 "url does not begin with http:// or https://, or has blanks");
    if (c->kind == FR_CHANNEL_EMAIL)
        check_mail(l, y, c);
}

void read_channels(struct loader *l, const struct fr_yaml *y, const struct field *f, void *target)
{
    struct fr_channel *list;

    if (!is_map(l, y, f->name, "a map of names and channels") ||
        (list = load_alloc(l, y->n, sizeof(*list))) == NULL)
        return;
    for (size_t i = 0; i < y->n; i++) {
        struct fr_channel *c = &list[i];

        *c = (struct fr_channel){
            .name = y->pairs[i].key.p, .pos = pos_of_key(l, &y->pairs[i]), .kind = FR_CHANNEL_N};
        read_object(l, &object_channel, y->pairs[i].value, c);
        check_channel(l, y->pairs[i].value, c);
        if (!label_ok(c->name))
            complain(l, c->pos, LABEL, "'%s' cannot be the name of a channel", c->name);
    }
    put_list(f, target, list, y->n);
}

/* ---- as JSON ---- */

json_t *fr_notify_json(const struct fr_notify *rules, size_t n)
{
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++) {
        const struct fr_quiet *quiet = &rules[i].quiet;
        json_t *on = json_array(), *rule;

        for (size_t k = 0; k < FR_NOTICE_N; k++)
            if ((rules[i].on >> k & 1u) != 0)
                json_array_append_new(on, json_string(names[k]));
        rule = json_pack("{s:o, s:o, s:o, s:I}", "on", on, "pipelines",
                         fr_json_texts(rules[i].pipelines, rules[i].n_pipelines), "to",
                         fr_json_texts(rules[i].to, rules[i].n_to), "throttle_ms",
                         (json_int_t)rules[i].throttle_ms);
        if (quiet->from_min != quiet->to_min)
            json_object_set_new(rule, "quiet", json_pack("[i, i]", quiet->from_min, quiet->to_min));
        json_array_append_new(list, rule);
    }
    return list;
}

static json_t *given_json(const struct fr_given *g)
{
    return g->text != NULL   ? json_string(g->text)
           : g->env != NULL  ? json_pack("{s:s}", "env", g->env)
           : g->file != NULL ? json_pack("{s:s}", "file", g->file)
                             : NULL;
}

/* NULL: the channel does not have that key. */
static json_t *key_json(const struct fr_channel *c, const struct field *f)
{
    const void *at = (const char *)c + f->at;
    size_t n;

    switch (f->shape) {
    case SHAPE_CHOICE:
        return json_string(kinds[c->kind]);
    case SHAPE_GIVEN_TEXT:
    case SHAPE_GIVEN_SECRET:
        return given_json(at);
    case SHAPE_STRINGS:
        n = *(const size_t *)((const char *)c + f->n_at);
        return n > 0 ? fr_json_texts(*(const char *const *const *)at, n) : NULL;
    default:
        return json_string(*(const char *const *)at);
    }
}

json_t *fr_channels_json(const struct fr_channel *channels, size_t n)
{
    json_t *all = json_object();

    for (size_t i = 0; i < n; i++) {
        json_t *doc = json_object();

        for (const struct field *f = channel_fields; f->name != NULL; f++)
            json_object_set_new(doc, f->name, key_json(&channels[i], f)); /* NULL: sets none */
        json_object_set_new(all, channels[i].name, doc);
    }
    return all;
}
