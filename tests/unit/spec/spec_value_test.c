/* Expressions of a spec, given the values that a run would have: texts, inputs as JSON, when:. */
#include "tests/unit/spec/spec_load.h"

/* Values as a run would give them: what is asked for, in brackets. */
static enum fr_rc get(void *self, const struct fr_ref *ref, struct fr_buf *out, struct fr_err *err)
{
    const struct fr_spec *spec = self;

    if (ref->kind == FR_REF_ATTEMPT) {
        fr_buf_text(out, "2");
    } else if (ref->kind == FR_REF_NODE && strcmp(ref->name, "name") == 0) {
        fr_buf_text(out, "n2");
    } else if (ref->kind == FR_REF_NODE && strcmp(ref->name, "gpus") == 0) {
        fr_buf_text(out, "10");
    } else if (ref->kind == FR_REF_OUTPUT) {
        fr_buf_fmt(out, "[%s %s %d]", spec->tasks[ref->task].act.name, ref->name, (int)ref->where);
    } else if (ref->kind == FR_REF_SUCCESS || ref->kind == FR_REF_FAILURE) {
        fr_buf_text(out, ref->kind == FR_REF_FAILURE ? "true" : "false");
    } else if (ref->kind == FR_REF_RUN) {
        fr_buf_text(out, "r1");
    } else {
        return fr_fail(err, FR_NOTFOUND, "no value");
    }
    return FR_OK;
}

static void check_text_is(const struct fr_text *t, const struct fr_resolver *r, const char *want)
{
    struct fr_buf b = {0};
    struct fr_err err = {0};

    if (fr_text_eval(t, r, &b, &err) == FR_OK)
        CHECK_TEXT(b.p ? b.p : "", want);
    else
        CHECK_TEXT(err.msg, want);
    fr_buf_finish(&b);
}

static bool count_refs(void *arg, const struct fr_ref *ref)
{
    (void)ref;
    return ++*(int *)arg < 2;
}

static void test_values(void)
{
    struct fr_spec *spec = load_full(NULL, 0);
    struct fr_resolver r = {.self = spec, .get = get};
    const struct fr_task *report, *train;
    json_t *json;
    bool when;
    int n = 0;

    if (spec == NULL)
        return;
    report = &spec->tasks[3];
    train = &spec->tasks[2];

    check_text_is(&report->act.argv[1], &r, "[train final_loss 2]");
    check_text_is(&report->act.cwd, &r, "/tmp/n2");
    check_text_is(&variable_of(&train->act, "IF")->value, &r, "[probe iface 0]");
    check_text_is(&variable_of(&train->act, "T")->value, &r, "${{ secrets.token }}: no value");
    CHECK_INT(fr_text_true(&report->when, &r, &when, NULL), FR_OK);
    CHECK(when);
    CHECK_INT(fr_text_true(&(struct fr_text){0}, NULL, &when, NULL), FR_OK);
    CHECK(when);
    fr_text_refs(&report->when, count_refs, &n);
    CHECK_INT(n, 2);
    CHECK_INT(fr_with_json(&train->act, "/w", &r, &json, NULL), FR_OK);
    CHECK_TEXT(json_string_value(json_object_get(json, "model")), "/w/models/tiny");
    CHECK_TEXT(json_string_value(json_object_get(json, "dataset_dir")), "node:/data");
    CHECK_TEXT(json_string_value(json_object_get(json, "output_dir")), "out/r1");
    CHECK_INT(json_integer_value(json_object_get(json, "max_steps")), 40);
    CHECK_INT(json_integer_value(json_object_get(json, "lora_rank")), 2);
    CHECK_INT(json_integer_value(json_object_get(json, "ddp_timeout")), 120000);
    CHECK(json_is_true(json_object_get(json, "overwrite_output_dir")));
    CHECK(json_object_get(json, "bf16") == NULL);
    json_decref(json);
    CHECK_INT(fr_with_json(&spec->tasks[0].act, "/w", &r, &json, NULL), FR_OK);
    CHECK_INT(json_array_size(json_object_get(json, "mounts")), 2);
    CHECK_TEXT(json_string_value(json_array_get(json_object_get(json, "mounts"), 1)), "/x:n2");
    CHECK_INT(json_array_size(json_object_get(json, "setup")), 1);
    CHECK_INT(json_integer_value(json_object_get(json, "shm_size")), 1 << 30);
    CHECK_TEXT(json_string_value(json_object_get(json_object_get(json, "env"), "K")), "v");
    json_decref(json);
    fr_spec_destroy(spec);
}

static void test_late_type(void)
{
    static const char text[] = "tasks:\n  b: {run: x, outputs: [port]}\n"
                               "  a: {uses: cleanup, needs: [b], with: {port: '${{ "
                               "tasks.b.outputs.port }}'}}\n";
    struct fr_issues issues = {0};
    struct fr_spec *spec;
    struct fr_err err = {0};
    json_t *json;

    if (!CHECK_INT(load(text, NULL, 0, &spec, &issues), FR_OK))
        return;
    CHECK_INT(
        fr_with_json(&spec->tasks[1].act, "/w", &(struct fr_resolver){spec, get}, &json, &err),
        FR_USAGE);
    CHECK(json == NULL);
    CHECK_TEXT(err.msg, "task 'a': input 'port' is '[b port 0]'; expected a whole number");
    fr_spec_destroy(spec);
}

static const struct {
    const char *when, *want; /* want: true, false */
} conditions[] = {
    {"true", "true"},
    {"!true", "false"},
    {"!(1 == 2)", "true"},
    {"1 == 1.0", "true"},
    {"'1' == 1", "true"},
    {"'a' == 'a' && 'a' != 'b'", "true"},
    {"2 < 10", "true"},
    {"node.gpus > 9", "true"},
    {"node.gpus >= 10 && node.gpus <= 10", "true"},
    {"node.name == \"n2\"", "true"},
    {"node.name == 'it''s'", "false"},
    {"false || false || attempt == 2", "true"},
    {"false && node.nothing_here == 1 || true", ""},
    {"success()", "false"},
    {"failure()", "true"},
    {"success() || always()", "true"},
    {"-1 < 0", "true"},
    {"''", "false"},
    {"0", "false"},
    {"${{ node.name == 'n2' }}", "true"},
    {"${{ node.name }}", "true"},
    {"true || 'a' < 'b'", "true"},
    {" ${{ node.name == 'n1' }} ", "false"},
    {"0.0", "false"},
    {"-0", "false"},
    {"0.5", "true"},
    {"'00'", "false"},
    {"'no'", "true"},
    {"!''", "true"},
    /* && binds closer than ||, != closer than &&, and ! closest of all */
    {"true || attempt == 1 && false", "true"},
    {"true || true && false", "true"},
    {"false && true || true", "true"},
    {"attempt == 2 || success() && success()", "true"},
    {"success() && success() || attempt == 2", "true"},
    {"(attempt == 2 || true) && success()", "false"},
    {"attempt == 2 && 1 != 1", "false"},
    {"!success() && false", "false"},
    {"!(success() && false)", "true"},
};

/* What an expression gives, in a text. */
static const struct {
    const char *text, *want;
} values[] = {
    {"${{ attempt == 2 && 'again' || 'first' }}", "again"},
    {"${{ attempt == 1 && 'first' || 'again' }}", "again"},
    {"${{ node.name && node.gpus }}", "10"},
    {"${{ '' && node.gpus }}|", "|"},
    {"${{ '' || node.name }}", "n2"},
    {"${{ 0 || '' }}|", "|"},
    {"${{ false || 0 }}", "0"},
    {"${{ node.name || node.gpus }}", "n2"},
    {"${{ true || attempt && false }}", "true"},
    {"${{ 'a' || attempt && 'b' }}", "a"},
    {"${{ '' && attempt || 'c' }}", "c"},
    {"${{ !node.name }}", "false"},
    {"${{ 'x' && 'y' }}", "y"}, /* known when the file is read */
    {"${{ '' || 'y' || 'z' }}", "y"},
};

static void test_operand_values(void)
{
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        struct fr_issues issues = {0};
        struct fr_buf text = {0};
        struct fr_spec *spec;

        check_row(values[i].text);
        fr_buf_fmt(&text, "tasks:\n  a:\n    run: x\n    env: {V: \"%s\"}\n", values[i].text);
        if (CHECK_INT(load(text.p, NULL, 0, &spec, &issues), FR_OK))
            check_text_is(&variable_of(&spec->tasks[0].act, "V")->value,
                          &(struct fr_resolver){spec, get}, values[i].want);
        fr_spec_destroy(spec);
        fr_issues_finish(&issues);
        fr_buf_finish(&text);
    }
    check_row("");
}

/* A bool is true or false however it was written, so that when: can use it. */
static void test_bools(void)
{
    static const char *const no[] = {"dry=no", "dry=0", "dry=False", "dry=f"};
    static const char text[] = "params: {dry: {type: bool, default: yes}}\n"
                               "tasks: {a: {argv: ['${{ params.dry }}'], when: '!params.dry'}}\n";
    struct fr_issues issues = {0};
    struct fr_spec *spec;
    bool got;

    for (size_t i = 0; i <= 4; i++) {
        check_row(i < 4 ? no[i] : "default");
        if (!CHECK_INT(load(text, &no[i], i < 4, &spec, &issues), FR_OK))
            return;
        CHECK_TEXT(spec->tasks[0].act.argv[0].s, i < 4 ? "false" : "true");
        CHECK_INT(fr_text_true(&spec->tasks[0].when, NULL, &got, NULL), FR_OK);
        CHECK_INT(got, i < 4);
        fr_spec_destroy(spec);
    }
    check_row("");
}

/* A run that was stored under rules 1 goes on as it began. */
static void test_rules_1(void)
{
    struct fr_source source = {"p.yaml",
                               FR_STR("params: {dry: {type: bool, default: no}}\n"
                                      "tasks:\n"
                                      "  a: {run: x, when: '${{ params.dry }} == 1'}\n"
                                      "  b: {run: x, env: {V: \"${{ 'x' && 'y' }}\"}}\n"
                                      "  c: {argv: ['${{ params.dry }}'], timeout: 0s}\n")};
    struct fr_spec_opts opts = {
        .path = "p.yaml", .cwd = "/w", .rules = 1, .sources = &source, .n_sources = 1};
    struct fr_issues issues = {0};
    struct fr_spec *spec;
    struct fr_err err = {0};
    bool got = false;

    if (!CHECK_INT(fr_spec_load(&opts, &spec, &issues, &err), FR_OK))
        return;
    CHECK_INT(fr_text_true(&spec->tasks[0].when, NULL, &got, &err), FR_OK);
    CHECK(got);
    check_text_is(&variable_of(&spec->tasks[1].act, "V")->value, NULL, "true");
    CHECK_TEXT(spec->tasks[2].act.argv[0].s, "no");
    CHECK_INT(spec->tasks[2].timeout_ms, 0);
    fr_spec_destroy(spec);
    opts.rules = 0;
    CHECK_INT(fr_spec_load(&opts, &spec, &issues, &err), FR_USAGE);
    fr_issues_finish(&issues);
}

static void test_conditions(void)
{
    for (size_t i = 0; i < sizeof(conditions) / sizeof(conditions[0]); i++) {
        struct fr_issues issues = {0};
        struct fr_buf text = {0};
        struct fr_spec *spec;
        bool got = false;

        check_row(conditions[i].when);
        fr_buf_fmt(&text, "tasks:\n  a:\n    run: x\n    when: >-\n      %s\n", conditions[i].when);
        if (load(text.p, NULL, 0, &spec, &issues) != FR_OK) {
            CHECK_TEXT("", conditions[i].want);
        } else {
            CHECK_INT(
                fr_text_true(&spec->tasks[0].when, &(struct fr_resolver){spec, get}, &got, NULL),
                FR_OK);
            CHECK_TEXT(got ? "true" : "false", conditions[i].want);
        }
        fr_spec_destroy(spec);
        fr_issues_finish(&issues);
        fr_buf_finish(&text);
    }
    check_row("");
}

int main(void)
{
    test_values();
    test_late_type();
    test_conditions();
    test_operand_values();
    test_bools();
    test_rules_1();
    return check_done();
}
