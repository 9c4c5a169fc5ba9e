/*
 * A pipeline file as a whole: one of everything, -p flags, the inventory, the schema, our examples;
 * and the same file broken at each byte, or read while memory is short.
 */
#include "tests/unit/spec/spec_load.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"

static void check_top(const struct fr_spec *spec)
{
    CHECK_TEXT(spec->name, "full");
    CHECK_TEXT(spec->help, "One of everything.");
    CHECK_INT(spec->n_sources, 2);
    CHECK_TEXT(spec->sources[1].path, "/w/inv.yaml");
    CHECK_INT(spec->max_parallel, 4);
    CHECK_INT(spec->timeout_ms, 7200000);
    CHECK_INT(spec->max_active_runs, 2);
    CHECK_INT(spec->rendezvous_port, 4000);
    CHECK(spec->rendezvous_address == NULL);
    CHECK_INT(spec->n_params, 5);
    CHECK_TEXT(spec->params[2].value, "/w/models/tiny");
    CHECK_TEXT(spec->params[3].value, "/home/ada/x");
    CHECK_INT(spec->n_env_used, 1);
    CHECK_TEXT(spec->env_used[0].name, "HOME");
    CHECK_INT(spec->n_secrets, 2);
    CHECK_INT(spec->secrets[1].from, FR_SECRET_COMMAND);
    CHECK_TEXT(spec->secrets[1].arg, "pass show token");
    CHECK_INT(spec->n_nodes, 3);
    CHECK_INT(spec->nodes[0].executor, FR_EXECUTOR_LOCAL);
    CHECK_INT(spec->nodes[1].executor, FR_EXECUTOR_SSH);
    CHECK_INT(spec->nodes[1].transport, FR_VIA_OPENSSH);
    CHECK_INT(spec->nodes[1].keep.days, 3);
    CHECK_INT(spec->nodes[1].slots, 8);
    CHECK_INT(spec->nodes[1].connect.timeout_ms, 5000);
    CHECK_INT(spec->nodes[1].connect.retry_for_ms, 30000);
    CHECK_INT(spec->nodes[2].connect.timeout_ms, 5000);
    CHECK_TEXT(spec->nodes[2].address, "::1");
    CHECK_INT(spec->nodes[2].connect.retry_for_ms, 0);
    CHECK_INT(fr_spec_node(spec, "n3"), 2);
    CHECK_INT(fr_spec_node(spec, "n4"), -1);
    CHECK_INT(fr_spec_task(spec, "train"), 2);
}

static void check_train(const struct fr_spec *spec)
{
    const struct fr_task *task = &spec->tasks[2];

    CHECK(task->gang && task->on == FR_ON_ALL);
    CHECK_INT(task->n_nodes, 3);
    CHECK_INT(task->in, 0);
    CHECK_INT(task->n_needs, 1);
    CHECK_INT(task->needs[0], 1);
    CHECK_INT(task->retry.times, 5);
    CHECK_INT(task->retry.delay_ms, 3000);
    CHECK_INT(task->retry.causes, 1u << FR_CAUSE_OOM | 1u << FR_CAUSE_EXIT);
    CHECK_INT(task->retry.n_codes, 1);
    CHECK_INT(task->retry.codes[0], 75);
    CHECK_INT(task->timeout_ms, 0);
    CHECK_INT(task->grace_ms, 30000);
    CHECK_INT(task->lost_after_ms, 300000);
    CHECK_INT(task->log.max_bytes, 1 << 20);
    CHECK_INT(task->become, FR_BECOME_SUDO);
    CHECK_INT(task->slots, 2);
    CHECK_INT(task->n_outputs, 5);
    CHECK_TEXT(task->outputs[4], FR_RESULT);
    CHECK_TEXT(task->act.programs[0], "flowtrain");
    CHECK_INT(task->act.n_env, 5);
    CHECK_TEXT(variable_of(&task->act, "A")->value.s, "two");
    CHECK_TEXT(variable_of(&task->act, "B")->value.s, "p40");
    CHECK(variable_of(&task->act, "T")->value.secret);
    CHECK(!variable_of(&task->act, "IF")->value.secret);
    CHECK_INT(task->n_sidecars, 2);
    CHECK_TEXT(task->sidecars[0].name, "janitor");
    CHECK_TEXT(task->sidecars[1].name, "sidecar.1");
    CHECK_INT(task->sidecars[1].n_env, 6);
}

static void check_report(const struct fr_spec *spec)
{
    const struct fr_task *task = &spec->tasks[3], *hook = spec->hooks[FR_HOOK_FAILURE];

    CHECK_INT(task->on, FR_ON_NAMED);
    CHECK_INT(task->n_nodes, 3);
    CHECK(task->run_if == FR_RUN_IF_ALWAYS && task->best_effort && !task->gang);
    CHECK_INT(task->timeout_ms, 3600000);
    CHECK_INT(task->act.what, FR_ARGV);
    CHECK_TEXT(task->act.argv[2].s, "--debug=false");
    CHECK_TEXT(task->files[0].name, "a/b.txt");
    CHECK_TEXT(task->files[0].value.s, "/w/data/b.txt");
    CHECK_TEXT(task->files[1].value.s, "node:/etc/c");
    CHECK_TEXT(task->outputs[0], "sum");
    CHECK_INT(spec->n_hooks[FR_HOOK_FAILURE], 1);
    CHECK_TEXT(hook->act.name, "on_failure.0");
    CHECK_INT(hook->nodes[0], FR_NODE_CONTROL);
    CHECK(fr_with_secret(&hook->act));
    CHECK_TEXT(spec->hooks[FR_HOOK_EXIT][0].act.name, "tidy");
    CHECK_INT(spec->hooks[FR_HOOK_EXIT][0].n_nodes, 3);
    CHECK_INT(spec->n_hooks[FR_HOOK_SUCCESS], 0);
}

static void test_full(void)
{
    struct fr_spec *spec = load_full(NULL, 0);

    if (spec == NULL)
        return;
    check_top(spec);
    check_train(spec);
    check_report(spec);
    fr_spec_destroy(spec);
}

static const struct {
    const char *name, *flags[2], *want;
} flags[] = {
    {"unknown",
     {"stpes=1", NULL},
     "-p 'stpes': the pipeline has no such param; did you mean 'steps'?"},
    {"no value", {"steps", NULL}, "-p 'steps' is not right; expected -p NAME=VALUE"},
    {"type", {"steps=ten", NULL}, "param 'steps' is 'ten'; expected a whole number"},
    {"last wins", {"steps=1", "steps=x"}, "param 'steps' is 'x'; expected a whole number"},
};

static void test_flags(void)
{
    static const char *const good[] = {"steps=7", "model=/m"};
    struct fr_spec *spec = load_full(good, 2);

    if (spec == NULL)
        return;
    CHECK_TEXT(spec->params[1].value, "7");
    CHECK_TEXT(spec->params[2].value, "/m");
    CHECK(spec->params[1].given && !spec->params[0].given);
    fr_spec_destroy(spec);
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        struct fr_issues issues = {0};

        check_row(flags[i].name);
        CHECK_INT(load("params: {steps: {type: int, default: 1}}\ntasks: {a: {run: x}}",
                       flags[i].flags, flags[i].flags[1] ? 2 : 1, &spec, &issues),
                  FR_USAGE);
        CHECK_INT(issues.n, 1);
        CHECK_TEXT(issues.n > 0 ? issues.lines[0] : "", flags[i].want);
        fr_issues_finish(&issues);
    }
    check_row("");
}

/* Mistakes in the inventory name its file; the default is one local node. */
static void test_inventory(void)
{
    struct fr_source sources[] = {{"p.yaml", FR_STR("nodes: bad.yaml\ntasks: {a: {run: x}}")},
                                  {"/w/bad.yaml", FR_STR("- {name: n1, adress: h}\n")}};
    struct fr_spec_opts opts = {.path = "p.yaml", .cwd = "/w", .sources = sources, .n_sources = 2};
    struct fr_issues issues = {0};
    struct fr_spec *spec;
    struct fr_err err = {0};

    CHECK_INT(fr_spec_load(&opts, &spec, &issues, &err), FR_USAGE);
    CHECK_TEXT(err.msg, "/w/bad.yaml:1:14: a node has no key 'adress'; did you mean 'address'?");
    fr_issues_finish(&issues);
    sources[1].text = FR_STR("a: [\n");
    CHECK_INT(fr_spec_load(&opts, &spec, &issues, &err), FR_USAGE);
    CHECK(fr_has_prefix(err.msg, "/w/bad.yaml:2:1: did not find expected node content"));
    fr_issues_finish(&issues);
    opts.path = "/nonexistent/p.yaml";
    CHECK_INT(fr_spec_load(&opts, &spec, &issues, &err), FR_NOTFOUND);
    CHECK(spec == NULL);
    CHECK_INT(load("tasks: {a: {run: x}}", NULL, 0, &spec, &issues), FR_OK);
    CHECK_TEXT(spec->name, "p");
    CHECK_INT(spec->n_nodes, 1);
    CHECK_TEXT(spec->nodes[0].address, "127.0.0.1");
    CHECK_INT(spec->tasks[0].n_nodes, 1);
    CHECK_TEXT(spec->tasks[0].act.shell, "sh");
    fr_spec_destroy(spec);
}

/* What a script writes and its task does not declare is noted, and the file is accepted. */
static void test_notes(void)
{
    static const char text[] =
        "tasks:\n"
        "  a: {run: 'echo k=1 >> $FLOWRUN_OUTPUT'}\n"
        "  b: {run: 'echo \"k=1\" >> \"$FLOWRUN_OUTPUT\"', outputs: [k]}\n"
        "  c:\n"
        "    outputs: [one]\n"
        "    run: |\n"
        "      echo one=1 >> $FLOWRUN_OUTPUT\n"
        "      { printf 'one=%s\\n' x; printf 'on=%s\\n' x; } >> \"${FLOWRUN_OUTPUT}\"\n"
        "  d: {run: 'python3 work.py > $FLOWRUN_OUTPUT'}\n"
        "  e: {run: 'echo k=1'}\n"
        "  f: {run: \"# echo k=1 > $FLOWRUN_OUTPUT\\necho none\"}\n"
        "  g: {uses: cleanup}\n";
    static const char *const want[] = {
        "p.yaml:2:12: note: the script of 'a' writes the output 'k', which the task does not "
        "declare; expected outputs: [k]",
        "p.yaml:6:10: note: the script of 'c' writes the output 'on', which the task does not "
        "declare; expected outputs: [on]",
        "p.yaml:9:12: note: the script of 'd' writes $FLOWRUN_OUTPUT, and the task declares no "
        "outputs; expected outputs: [NAME]"};
    struct fr_issues issues = {0};
    struct fr_spec *spec;

    if (!CHECK_INT(load(text, NULL, 0, &spec, &issues), FR_OK))
        return;
    CHECK_INT(spec->n_notes, 3);
    for (size_t i = 0; i < spec->n_notes && i < 3; i++)
        CHECK_TEXT(spec->notes[i], want[i]);
    fr_spec_destroy(spec);
}

/* Each beginning of the file, and each with one byte changed, loads or is refused: nothing else. */
static void test_broken_files(void)
{
    struct fr_issues issues = {0};
    struct fr_spec *spec;
    char text[sizeof(full)];
    int refused = 0;

    for (size_t i = 0; i < sizeof(full) - 1; i++) {
        enum fr_rc rc;

        memcpy(text, full, sizeof(full));
        if (i % 2 == 0)
            text[i] = '\0';
        else
            text[i] = "{[:'#*&\n"[i / 2 % 8];
        rc = load(text, NULL, 0, &spec, &issues);
        if (!CHECK((rc == FR_OK) == (spec != NULL) && (rc == FR_OK || issues.n > 0)))
            printf("   at byte %zu\n", i);
        refused += rc != FR_OK;
        fr_spec_destroy(spec);
        fr_issues_finish(&issues);
    }
    CHECK(refused > 1000);
}

static long calls_left; /* the next failure is so many calls away; 0: none */
static bool persist;    /* all calls after it fail too */
static bool fired;

static bool fails(void)
{
    if (calls_left == 0)
        return persist && fired;
    fired |= calls_left == 1;
    return --calls_left == 0;
}

static void *failing_alloc(size_t n)
{
    return fails() ? NULL : fr_sys_real.alloc(n);
}

static void *failing_realloc(void *p, size_t n)
{
    return fails() ? NULL : fr_sys_real.realloc(p, n);
}

/* The n-th allocation fails: the load succeeds or says that memory is short, and nothing leaks. */
static void test_no_memory(void)
{
    static const char text[] = "params: {n: {default: 1}}\nsecrets: {s: {env: S}}\n"
                               "env: {S: '${{ secrets.s }}', N: '${{ params.n }}'}\n"
                               "tasks:\n"
                               "  a: {run: x, outputs: [k], sidecars: [{run: y}]}\n"
                               "  b: {argv: [x, '${{ tasks.a.outputs.k }}'], needs: [a]}\n"
                               "on_exit: [{uses: notify, with: {url: u, headers: {A: b}}}]\n"
                               "nodes: {slurm: {work: /w/, allocations: {t: {time: 1h, nodes: 2, "
                               "gpus: 'a:1', options: [--tmp=1G], labels: [x]}}}}\n";
    bool more = true;

    fr_sys.alloc = failing_alloc;
    fr_sys.realloc = failing_realloc;
    for (long n = 1; more; n++)
        for (int p = 0; p < 2; p++) {
            struct fr_issues issues = {0};
            struct fr_spec *spec;
            enum fr_rc rc;

            calls_left = n;
            persist = p == 1;
            fired = false;
            rc = load(text, NULL, 0, &spec, &issues);
            if (!CHECK(rc == FR_OK || (rc == FR_NOMEM && spec == NULL)))
                printf("   allocation %ld gave %s: %s\n", n, fr_rc_name(rc),
                       issues.n ? issues.lines[0] : "");
            more = fired;
            calls_left = 0;
            persist = false;
            fr_spec_destroy(spec);
            fr_issues_finish(&issues);
        }
    fr_sys = fr_sys_real;
}

static int write_schema(const char *path)
{
    struct fr_buf text = {0};
    struct fr_err err = {0};
    enum fr_rc rc = fr_spec_schema(&text, &err);

    if (rc == FR_OK)
        rc = fr_file_write(path, text.p, text.n, 0644, &err);
    fr_buf_finish(&text);
    if (rc != FR_OK)
        printf("%s\n", err.msg);
    return rc == FR_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* The committed schema is what the code accepts. After a change: spec_test --write FILE. */
static void test_schema(void)
{
    struct fr_buf made = {0}, stored = {0};

    CHECK_INT(fr_spec_schema(&made, NULL), FR_OK);
    if (CHECK_INT(fr_file_read(SOURCE_ROOT "/schema/pipeline.schema.json", 1 << 20, &stored, NULL),
                  FR_OK))
        CHECK(made.n == stored.n && memcmp(made.p, stored.p, made.n) == 0);
    fr_buf_finish(&made);
    fr_buf_finish(&stored);
}

/* The help of retry: on: and of rerun: on: names the causes that only those get who list them. */
static void test_help(void)
{
    struct fr_buf made = {0}, want = {0};
    struct fr_err err = {0};
    const char *at = NULL;

    fr_buf_text(&want, "efault: all");
    for (int i = 0; i < FR_CAUSE_N; i++)
        if (fr_cause_retryable((enum fr_cause)i) && (fr_causes_preset() >> i & 1) == 0)
            fr_buf_fmt(&want, ", not %s", fr_cause_name((enum fr_cause)i));
    fr_buf_text(&want, ".");
    CHECK_INT(fr_spec_schema(&made, &err), FR_OK);
    at = strstr(made.p, want.p);
    CHECK(at != NULL && strstr(at + 1, want.p) != NULL);
    fr_buf_finish(&made);
    fr_buf_finish(&want);
}

/* What we ship loads, and hello runs on each cluster. */
static void test_examples(void)
{
    static const char *const clusters[] = {"local-3", "ssh-3", "a100-3x8"};

    for (size_t i = 0; i < 3; i++) {
        struct fr_issues issues = {0};
        struct fr_spec *spec;
        struct fr_err err = {0};
        char nodes[64];
        const char *param = nodes;
        struct fr_spec_opts opts = {.path = SOURCE_ROOT "/examples/hello.yaml",
                                    .cwd = SOURCE_ROOT,
                                    .params = &param,
                                    .n_params = 1,
                                    .getenv = variable};

        snprintf(nodes, sizeof(nodes), "nodes=examples/clusters/%s.yaml", clusters[i]);
        check_row(clusters[i]);
        if (!CHECK_INT(fr_spec_load(&opts, &spec, &issues, &err), FR_OK))
            printf("   %s\n", err.msg);
        else
            CHECK_INT(spec->n_nodes, 3);
        fr_spec_destroy(spec);
        fr_issues_finish(&issues);
    }
    check_row("");
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--write") == 0)
        return write_schema(argv[2]);
    test_full();
    test_flags();
    test_inventory();
    test_notes();
    test_broken_files();
    test_no_memory();
    test_schema();
    test_help();
    test_examples();
    return check_done();
}
