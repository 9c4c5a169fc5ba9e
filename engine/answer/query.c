/* The query of a request: which names and words it may have. */
#include "engine/answer/call.h"

#include "engine/schedule/decide.h"
#include "engine/store/outbox.h"

const char *query_text(const struct call *c, const char *name)
{
    for (size_t i = 0; i < c->req->n_query; i++)
        if (strcmp(c->req->query[i].name, name) == 0)
            return c->req->query[i].value;
    return NULL;
}

enum fr_rc query_number(const struct call *c, const char *name, int64_t usual, int64_t *out,
                        struct fr_err *err)
{
    const char *text = query_text(c, name);

    *out = usual;
    if (text == NULL)
        return FR_OK;
    if (fr_parse_i64(fr_str_of(text), out, NULL) != FR_OK || *out < 0)
        return fr_fail(err, FR_USAGE, "'%s' must be a whole number, not '%s'", name, text);
    return FR_OK;
}

/* The names that a query may have, parted by blanks; "*": any. Of other handlers: none. */
static const struct {
    handler *run;
    const char *names;
} queries[] = {
    {get_health, "*"},
    {get_ready, "*"},
    {get_node, "from to width"},
    {get_figures, "*"},
    {get_runs, "state pipeline origin schedule since "
               "until q sort before cursor limit count"},
    {get_run, "form seq"},
    {get_instances, "form task node state"},
    {get_events, "after"},
    {get_metrics, "task keys x from to width"},
    {get_graph, "apart"},
    {get_spec, "form"},
    {get_merged, "task times tail"},
    {get_log, "from to n q re"},
    {get_found, "task q re attempt from"},
    {get_pipeline, "apart"},
    {get_schedules, "pipeline"},
    {get_fires, "before limit"},
    {get_deliveries, "channel state run before limit"},
    {get_audit, "before limit"},
};

/* ---- words ---- */

static void add_word(struct fr_buf *out, const char *word)
{
    fr_buf_fmt(out, "%s%s", out->n > 0 ? " " : "", word);
}

/* What a run is, or how it ended. */
static void add_run_words(struct fr_buf *out)
{
    add_word(out, "live");
    for (int i = FR_RUN_RUNNING; i <= FR_RUN_QUEUED; i++)
        if (i != FR_RUN_OVER)
            add_word(out, fr_run_state_name((enum fr_run_state)i));
    for (int i = FR_OUT_SUCCEEDED; i <= FR_OUT_CANCELLED; i++)
        add_word(out, fr_outcome_name((enum fr_outcome)i));
}

static void add_states(struct fr_buf *out)
{
    for (int i = 0; i < FR_ST_N; i++)
        add_word(out, fr_state_name((enum fr_state_of)i));
}

static void add_origins(struct fr_buf *out)
{
    for (int i = 0; i < FR_ORIGIN_N; i++)
        add_word(out, fr_origin_name((enum fr_origin)i));
}

static void add_sorts(struct fr_buf *out)
{
    for (size_t i = 0; host_sorts[i] != NULL; i++)
        add_word(out, host_sorts[i]);
}

/* Values that are one of some words: of a filter also nothing, which is as if it were not there. */
static const struct choice {
    handler *run;
    const char *name, *words; /* parted by blanks; NULL: add says them */
    void (*add)(struct fr_buf *out);
    bool filter;
} choices[] = {
    {get_runs, "state", .add = add_run_words, .filter = true},
    {get_runs, "origin", .add = add_origins, .filter = true},
    {get_runs, "sort", .add = add_sorts},
    {get_runs, "count", .words = "0 1"},
    {get_run, "form", .words = "row"},
    {get_instances, "form", .words = "columns rows"},
    {get_instances, "state", .add = add_states, .filter = true},
    {get_metrics, "x", .words = "step tokens time epoch"},
    {get_spec, "form", .words = "now"},
    {get_merged, "times", .words = "1 ms"},
    {get_log, "re", .words = "1"},
    {get_found, "re", .words = "1"},
    {get_deliveries, "state", .words = FR_DELIVERY_STATES, .filter = true},
};

static enum fr_rc check_choice(const struct choice *choice, const char *value, struct fr_err *err)
{
    struct fr_buf words = {0}, list = {0};
    enum fr_rc rc = FR_OK;

    if (choice->words != NULL)
        fr_buf_text(&words, choice->words);
    else
        choice->add(&words);
    if (!words.bad)
        fr_buf_words(&list, words.p);
    if (words.bad || list.bad)
        rc = fr_fail(err, FR_NOMEM, "no memory for a request");
    else if (!fr_word_in(words.p, value) && !(choice->filter && value[0] == '\0'))
        rc = fr_fail(err, FR_USAGE, "'%s' must be %s, not '%s'", choice->name, list.p, value);
    fr_buf_finish(&words);
    fr_buf_finish(&list);
    return rc;
}

/* ---- the whole of it ---- */

enum fr_rc query_check(const struct call *c, handler *run, struct fr_err *err)
{
    const char *known = "";
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; i < sizeof(queries) / sizeof(queries[0]); i++)
        known = queries[i].run == run ? queries[i].names : known;
    for (size_t i = 0; i < c->req->n_query && known[0] != '*'; i++) {
        const char *name = c->req->query[i].name;

        if (!fr_word_in(known, name))
            return fr_fail(err, FR_USAGE, "there is no parameter '%s' here%s%s", name,
                           known[0] != '\0' ? ", but: " : "", known);
        if (query_text(c, name) != c->req->query[i].value)
            return fr_fail(err, FR_USAGE, "the parameter '%s' comes twice", name);
    }
    for (size_t i = 0; rc == FR_OK && i < sizeof(choices) / sizeof(choices[0]); i++) {
        const char *value = choices[i].run == run ? query_text(c, choices[i].name) : NULL;

        if (value != NULL)
            rc = check_choice(&choices[i], value, err);
    }
    return rc;
}
