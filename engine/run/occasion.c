/* schedule.* of a run: its logical time, and the schedule that it belongs to. */
#include "engine/run/inside.h"

#include <string.h>

/* As in expressions. Stored as texts with the run, so that they never change. */
static const char *const names[RUN_OCCASION_N] = {FR_OCCASIONS(FR_WORD_TEXT)};

const char *run_occasion(const struct fr_run *run, const char *name)
{
    for (int i = 0; i < RUN_OCCASION_N; i++)
        if (strcmp(names[i], name) == 0 && run->occasion[i] != NULL)
            return run->occasion[i];
    return "";
}

bool run_occasion_env(const struct fr_run *run, struct fr_arena *arena, struct fr_strs *env)
{
    bool ok = true;

    for (int i = 0; ok && i < RUN_OCCASION_N; i++) {
        char name[40] = "FLOWRUN_SCHEDULE_";
        size_t n = strlen(name);

        if (run->occasion[i] == NULL) /* an older flowrun made the run */
            continue;
        for (const char *p = names[i]; *p != '\0'; p++)
            name[n++] = *p == '_' ? '_' : (char)(*p - 'a' + 'A');
        ok = run_add(arena, env, "%s=%s", name, run->occasion[i]);
    }
    return ok;
}

json_t *run_occasion_pack(const struct fr_run *run)
{
    json_t *doc = json_object();

    for (int i = 0; i < RUN_OCCASION_N; i++)
        if (run->occasion[i] != NULL)
            json_object_set_new(doc, names[i], json_string(run->occasion[i]));
    return doc;
}

enum fr_rc run_occasion_read(struct fr_run *run, struct fr_err *err)
{
    json_t *doc = NULL, *from;
    enum fr_rc rc = fr_json_parse(fr_str_of(run->row.params), "stored parameters", &doc, err);

    from = json_object_get(doc, "schedule");
    for (int i = 0; rc == FR_OK && i < RUN_OCCASION_N; i++) {
        const char *text = json_string_value(json_object_get(from, names[i]));

        if (text != NULL && (run->occasion[i] = fr_arena_dup(&run->arena, text)) == NULL)
            rc = fr_fail(err, FR_NOMEM, "no memory for a run");
    }
    json_decref(doc);
    return rc;
}

/* The schedule that made the run; of one by hand the pipeline's only one. */
static const struct fr_schedule *schedule_of(const struct fr_spec *spec, const char *name)
{
    for (size_t i = 0; i < spec->n_schedules; i++)
        if (name != NULL ? strcmp(spec->schedules[i].name, name) == 0 : spec->n_schedules == 1)
            return &spec->schedules[i];
    return NULL;
}

const struct fr_schedule *fr_run_schedule(const struct fr_run *run)
{
    const char *name = run->occasion[OCCASION_NAME];

    return run->row.schedule != 0 && name != NULL ? schedule_of(run->spec, name) : NULL;
}

const struct fr_schedule *fr_run_stored_schedule(const struct fr_stored *stored,
                                                 const struct fr_run_row *row)
{
    const struct fr_schedule *s = NULL;
    const char *name = NULL;
    json_t *doc = NULL;

    if (row->schedule != 0 &&
        fr_json_parse(fr_str_of(row->params), "stored parameters", &doc, NULL) == FR_OK)
        name = json_string_value(json_object_get(json_object_get(doc, "schedule"), "name"));
    if (name != NULL)
        s = schedule_of(stored->spec, name);
    json_decref(doc);
    return s;
}

static enum fr_rc time_of(const struct fr_occasion *o, const struct fr_zone *zone, int64_t *at_ms,
                          struct fr_err *err)
{
    struct fr_when when;

    *at_ms = o->at_ms != 0 ? o->at_ms : fr_div_down(fr_sys.wall_ms(), 1000) * 1000;
    if (o->at == NULL)
        return FR_OK;
    if (fr_when_parse(fr_str_of(o->at), &when, err) != FR_OK)
        return fr_while(err, "the time of the run");
    *at_ms = fr_zone_instant(zone, when) * 1000;
    return FR_OK;
}

static const char *time_text(struct fr_run *run, const struct fr_zone *zone, int64_t ms)
{
    int64_t s = fr_div_down(ms, 1000);
    char text[FR_TIME_TEXT];

    fr_time_text(s, fr_zone_offset(zone, s), text);
    return fr_arena_dup(&run->arena, text);
}

static enum fr_rc fill(struct fr_run *run, const struct fr_schedule *s,
                       const struct fr_timetable *t, const struct fr_occasion *what,
                       struct fr_err *err)
{
    bool by_hand = run->row.origin == FR_ORIGIN_CLI || run->row.origin == FR_ORIGIN_API;
    int64_t at_ms = what->at_ms, from_ms = at_ms;
    const char **o = run->occasion;

    /* the interval is the rule's, whatever ran; of single times it is empty */
    if (s != NULL && s->kind != FR_RULE_AT)
        (void)fr_rule_prev(&t->rule, at_ms, &from_ms);
    o[OCCASION_TIME] = o[OCCASION_TO] = time_text(run, &t->zone, at_ms);
    o[OCCASION_FROM] = time_text(run, &t->zone, from_ms);
    o[OCCASION_UNIX] = fr_arena_fmt(&run->arena, "%lld", (long long)fr_div_down(at_ms, 1000));
    o[OCCASION_DATE] = o[OCCASION_TIME] != NULL
                           ? fr_arena_text(&run->arena, o[OCCASION_TIME], sizeof("2026-12-24") - 1)
                           : NULL;
    o[OCCASION_NAME] = s != NULL ? fr_arena_dup(&run->arena, s->name) : "";
    o[OCCASION_ZONE] = fr_arena_dup(&run->arena, t->zone.name);
    o[OCCASION_PREVIOUS] =
        what->previous_ms != 0 ? time_text(run, &t->zone, what->previous_ms) : "";
    o[OCCASION_ORIGIN] = by_hand ? "manual" : fr_origin_name(run->row.origin);
    for (int i = 0; i < RUN_OCCASION_N; i++)
        if (o[i] == NULL)
            return fr_fail(err, FR_NOMEM, "no memory for a run");
    return FR_OK;
}

enum fr_rc run_occasion_make(struct fr_run *run, const struct fr_submit *submit, struct fr_err *err)
{
    static const struct fr_zones utc = {.home = "UTC"};
    const struct fr_zones *zones = submit->spec.zones != NULL ? submit->spec.zones : &utc;
    const struct fr_schedule *s = schedule_of(run->spec, submit->occasion.schedule);
    struct fr_occasion what = submit->occasion;
    struct fr_timetable t = {.at = NULL};
    enum fr_rc rc;

    if (s != NULL)
        rc = fr_timetable_open(&t, s, zones, err);
    else
        rc = fr_zone_load(&t.zone, zones->folder, zones->home != NULL ? zones->home : "UTC", err);
    if (rc == FR_OK)
        rc = time_of(&submit->occasion, &t.zone, &what.at_ms, err);
    if (rc == FR_OK)
        rc = fill(run, s, &t, &what, err);
    fr_timetable_close(&t);
    return rc;
}
