/* schedule: of a pipeline. */
#include "engine/spec/load.h"

#include <ctype.h>
#include <string.h>

static const char *const days_choices[] = {"any", "all", NULL};
static const char *const catchup_choices[] = {FR_CATCHUPS(FR_WORD_TEXT) NULL};
#define OVERLAP_HELP(id, word, makes) " " word ": " makes "."
static const char *const overlap_choices[] = {FR_OVERLAPS(FR_WORD_TEXT) NULL};

/* A schedule while it is read. */
struct entry {
    struct fr_schedule s; /* first: tables name its fields */
    const char *cron, *start, *end;
    int days;
    bool bad; /* something of its times was reported */
};

#define IN_SCHEDULE(member) .at = offsetof(struct entry, s.member)
#define IN_ENTRY(member) .at = offsetof(struct entry, member)

static const struct field schedule_fields[] = {
    {"name", SHAPE_STRING, IN_SCHEDULE(name),
     .help = "Its name: lower-case letters, digits and '-'. One of a file may have none."},
    {"cron", SHAPE_STRING, IN_ENTRY(cron),
     .help = "Minute, hour, day of month, month, day of week: 30 2 * * mon-fri; or @hourly, "
             "@daily, @weekly, @monthly, @yearly."},
    {"every", SHAPE_DURATION, IN_SCHEDULE(every_ms), .min = FR_EVERY_MIN_MS,
     .help = "A period in elapsed time, counted from start, else from 1970-01-01T00:00Z."},
    {"at", SHAPE_TIMES, IN_SCHEDULE(at),
     .help = "Times in its zone, 2026-12-24T02:00, or with Z or an offset; each fires once."},
    {"days", SHAPE_CHOICE, IN_ENTRY(days), .choices = days_choices, .first = FR_DAYS_ANY,
     .help = "Of cron: where day of month and day of week are both restricted, any of the two "
             "matches, or all do."},
    {"zone", SHAPE_STRING, IN_SCHEDULE(zone),
     .help = "Time zone, as the IANA database calls it: Europe/Berlin. Default: the home's."},
    {"start", SHAPE_STRING, IN_ENTRY(start), .help = "No fire before that time."},
    {"end", SHAPE_STRING, IN_ENTRY(end), .help = "No fire from that time on."},
    {"jitter", SHAPE_DURATION, IN_SCHEDULE(jitter_ms), .preset = "0s",
     .help = "Starts are put off by less than that: always the same delay for a schedule."},
    {"catchup", SHAPE_CHOICE, IN_SCHEDULE(catchup), .choices = catchup_choices, .preset = "none",
     .help = "Which of the fires run that passed while no host was there: none of them (the newest "
             "within grace), the last, or all."},
    {"catchup_limit", SHAPE_INT, IN_SCHEDULE(catchup_limit), .min = 1, .max = FR_CATCHUP_LIMIT_MAX,
     .preset = "10", .help = "Of catchup: all: at most so many, the newest."},
    {"grace", SHAPE_DURATION, IN_SCHEDULE(grace_ms), .preset = "10m",
     .help = "Of catchup: none: a fire that is not later than that still runs."},
    {"overlap", SHAPE_CHOICE, IN_SCHEDULE(overlap), .choices = overlap_choices, .preset = "skip",
     .help =
         "What a fire makes while a run of the pipeline is not over." FR_OVERLAPS(OVERLAP_HELP)},
    {"queue_max", SHAPE_INT, IN_SCHEDULE(queue_max), .min = 1, .max = 10000, .preset = "1",
     .help = "Of overlap: queue: so many runs wait; a newer one takes the place of the oldest."},
    {"priority", SHAPE_INT, IN_SCHEDULE(priority), .min = -100, .max = 100, .preset = "0",
     .help = "Of its runs in the queue: the larger goes first."},
    {"pause_after", SHAPE_INT, IN_SCHEDULE(pause_after), .min = 1, .max = 1000,
     .help = "Pauses the schedule when so many of its runs in a row have failed. Default: never."},
    {"params", SHAPE_GIVEN, IN_SCHEDULE(params), .n_at = offsetof(struct entry, s.n_params),
     .help = "Values of params for its runs, as -p gives them."},
    {0},
};
const struct object object_schedule = {"a schedule", "schedule", schedule_fields, "cron"};

static const struct fr_param *find_param(const struct loader *l, const char *name)
{
    for (size_t i = 0; i < l->spec->n_params; i++)
        if (strcmp(l->spec->params[i].name, name) == 0)
            return &l->spec->params[i];
    return NULL;
}

void read_given(struct loader *l, const struct fr_yaml *y, const struct field *f, void *target)
{
    const char **list;
    size_t n = 0;

    if (!is_map(l, y, "params", "a map of names and values") ||
        (list = load_alloc(l, y->n, sizeof(*list))) == NULL)
        return;
    for (size_t i = 0; i < y->n; i++) {
        const struct fr_yaml_pair *pair = &y->pairs[i];
        const struct fr_param *param = find_param(l, pair->key.p);
        const char *value;

        l->key = pair->key.p;
        value = read_now(l, pair->value);
        if (param == NULL)
            complain(l, pos_of_key(l, pair),
                     "a name under params:", "the pipeline has no param '%s'", pair->key.p);
        else if (value != NULL && param_allows(l, pos_of(l, pair->value), param, value))
            list[n++] = load_keep(l, fr_arena_fmt(l->arena, "%s=%s", param->name, value));
    }
    put_list(f, target, list, n);
}

static bool read_time(struct loader *l, const struct fr_yaml *y, const char *text,
                      struct fr_when *out)
{
    struct fr_err err;

    if (fr_when_parse(fr_str_of(text), out, &err) == FR_OK)
        return true;
    complain(l, pos_of(l, y), NULL, "%s", err.msg);
    return false;
}

void read_times(struct loader *l, const struct fr_yaml *y, const struct field *f, void *target)
{
    struct entry *e = target;
    struct items items = items_of(&y);
    struct fr_when *list = load_alloc(l, items.n, sizeof(*list));

    (void)f;
    if (items.n == 0 || items.n > FR_SCHEDULE_AT_MAX) {
        wrong_value(l, y, "at", "one time or a list of 1 to 1000");
        e->bad = true;
    }
    e->s.at = list;
    for (size_t i = 0; list != NULL && i < items.n && !e->bad; i++) {
        const char *text = read_now(l, items.v[i]);

        e->bad |= text == NULL || !read_time(l, items.v[i], text, &list[e->s.n_at++]);
    }
}

static bool schedule_name_ok(const char *name)
{
    size_t n = strlen(name);

    for (size_t i = 0; i < n; i++)
        if (!islower((unsigned char)name[i]) && !isdigit((unsigned char)name[i]) &&
            (name[i] != '-' || i == 0))
            return false;
    return n > 0 && n <= FR_SCHEDULE_NAME;
}

static void check_name(struct loader *l, const struct fr_yaml *y, struct entry *e)
{
    if (e->s.name == NULL)
        e->s.name = "default";
    else if (!schedule_name_ok(e->s.name))
        wrong_value(l, fr_yaml_get(y, "name"), "the name of a schedule",
                    "lower-case letters, digits and '-', at most 63");
}

static void read_cron(struct loader *l, const struct fr_yaml *y, struct entry *e)
{
    struct text_reader r = {.l = l, .y = y, .bare = true};
    struct fr_buf notes = {0};
    struct fr_err err;
    size_t at;

    e->s.cron_text = e->cron;
    if (fr_cron_parse(fr_str_of(e->cron), (enum fr_cron_days)e->days, &e->s.cron, &at, &err) !=
        FR_OK) {
        bool as_written = strcmp(e->cron, y->text.p) == 0; /* no expression in it */

        complain(l, as_written ? pos_inside(&r, at) : pos_of(l, y), NULL, "cron: %s", err.msg);
        e->bad = true;
        return;
    }
    fr_cron_notes(&e->s.cron, &notes);
    l->no_memory |= notes.bad;
    if (notes.n > 0)
        add_note(l, pos_of(l, y), fr_arena_fmt(l->arena, "cron: %s", notes.p));
    fr_buf_finish(&notes);
}

/* Exactly one of cron, every and at. */
static void read_kind(struct loader *l, const struct fr_yaml *y, struct entry *e)
{
    static const char *const kinds[] = {"cron", "every", "at"};
    int n = 0;

    for (int i = 0; i < 3; i++)
        if (fr_yaml_get(y, kinds[i]) != NULL) {
            e->s.kind = (enum fr_rule_kind)i;
            n++;
        }
    if (n != 1) {
        complain(l, pos_of(l, y), "exactly one of cron, every and at", "schedule '%s' has %s",
                 e->s.name, n == 0 ? "no rule" : "several rules");
        e->bad = true;
        return;
    }
    if (e->s.kind == FR_RULE_CRON && e->cron != NULL)
        read_cron(l, fr_yaml_get(y, "cron"), e);
    else if (e->s.kind == FR_RULE_CRON || (e->s.kind == FR_RULE_EVERY && e->s.every_ms == 0))
        e->bad = true; /* reported */
    if (e->s.kind != FR_RULE_CRON && e->days != FR_DAYS_UNSAID)
        complain(l, pos_of(l, fr_yaml_get(y, "days")), "it with cron:", "days says nothing here");
}

/* Whether the zone that it names is one. */
static void check_zone(struct loader *l, const struct fr_yaml *y, struct entry *e)
{
    struct fr_zone zone;
    struct fr_err err;

    if (fr_zone_load(&zone, l->opts->zones->folder, e->s.zone, &err) != FR_OK) {
        complain(l, pos_of(l, fr_yaml_get(y, "zone")), NULL, "zone: %s", err.msg);
        e->bad = true;
    }
    fr_zone_finish(&zone);
}

/* What needs the zone. */
static void check_times(struct loader *l, const struct fr_schedule *s)
{
    struct fr_timetable t;
    struct fr_err err;

    if (fr_timetable_open(&t, s, l->opts->zones, &err) != FR_OK)
        complain(l, s->pos, NULL, "schedule '%s': %s", s->name, err.msg);
    fr_timetable_close(&t);
}

static void read_schedule(struct loader *l, const struct fr_yaml *y, struct fr_schedule *out)
{
    struct entry e = {.s = {.pos = pos_of(l, y),
                            .grace_ms = FR_GRACE_MS,
                            .catchup_limit = FR_CATCHUP_LIMIT,
                            .queue_max = 1}};

    read_object(l, &object_schedule, y, &e);
    if (y->kind != FR_YAML_MAP)
        return;
    check_name(l, y, &e);
    read_kind(l, y, &e);
    if (e.start != NULL) {
        e.s.has_start = read_time(l, fr_yaml_get(y, "start"), e.start, &e.s.start);
        e.bad |= !e.s.has_start;
    }
    if (e.end != NULL) {
        e.s.has_end = read_time(l, fr_yaml_get(y, "end"), e.end, &e.s.end);
        e.bad |= !e.s.has_end;
    }
    if (l->opts->zones != NULL && e.s.zone != NULL)
        check_zone(l, y, &e);
    if (l->opts->zones != NULL && !e.bad)
        check_times(l, &e.s);
    *out = e.s;
}

void read_schedules(struct loader *l, const struct fr_yaml *y, const struct field *f, void *target)
{
    struct items items = items_of(&y);
    size_t n = y->kind == FR_YAML_LIST || y->kind == FR_YAML_MAP ? items.n : 0;
    struct fr_schedule *list;

    if (n == 0 || n > FR_SCHEDULES_MAX) {
        wrong_value(l, y, "schedule",
                    "one schedule, like {cron: 0 2 * * *}, or a list of 1 to 100");
        return;
    }
    if ((list = load_alloc(l, n, sizeof(*list))) == NULL)
        return;
    for (size_t i = 0; i < n; i++) {
        read_schedule(l, items.v[i], &list[i]);
        for (size_t k = 0; k < i && list[i].name != NULL; k++)
            if (list[k].name != NULL && strcmp(list[k].name, list[i].name) == 0) {
                complain(l, list[i].pos, "a name: of its own", "two schedules are called '%s'",
                         list[i].name);
                break;
            }
    }
    put_list(f, target, list, n);
}
