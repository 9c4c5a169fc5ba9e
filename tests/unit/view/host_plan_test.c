/* What is shown of a pipeline, of its plan and its file: whole answers, to the last byte. */
#include "engine/store/occurrences.h"
#include "tests/unit/host/host_bed.h"

static struct host_bed bed = HOST_BED;

static void write_file(const char *name, const char *text)
{
    char path[300];

    (void)snprintf(path, sizeof(path), "%s/%s", bed.home, name);
    CHECK_INT(fr_file_write(path, text, strlen(text), 0600, NULL), FR_OK);
}

static void check(enum fr_api_method method, const char *path, const char *body, const char *want)
{
    struct fr_api_response res = ask(&bed, method, path, body);

    check_row(path);
    fr_buf_add(&res.body, "", 1);
    CHECK_INT(res.status, 200);
    CHECK_TEXT(res.body.p, want);
    fr_api_response_finish(&res);
}

/* Nine tasks that stand between the same ones, a gang, a hook. */
static const char wide[] = "name: w\n"
                           "nodes: nodes.yaml\n"
                           "tasks:\n"
                           "  a: {run: x, description: begins}\n"
                           "  b1: {needs: [a], run: x}\n"
                           "  b2: {needs: [a], run: x}\n"
                           "  b3: {needs: [a], run: x}\n"
                           "  b4: {needs: [a], run: x}\n"
                           "  b5: {needs: [a], run: x}\n"
                           "  b6: {needs: [a], run: x}\n"
                           "  b7: {needs: [a], run: x}\n"
                           "  b8: {needs: [a], run: x}\n"
                           "  c: {needs: [b1, b2, b3, b4, b5, b6, b7, b8], run: x, on: all, gang: "
                           "true}\n"
                           "on_exit: [{name: e, run: x}]\n";

#define B(i, critical)                                                                             \
    ",{\"name\":\"b" #i "\",\"hook\":\"\",\"gang\":false,\"first\":" #i                            \
    ",\"count\":1,\"needs\":[0],\"critical\":" critical ",\"help\":\"\"}"
#define TASKS                                                                                      \
    "\"tasks\":[{\"name\":\"a\",\"hook\":\"\",\"gang\":false,\"first\":0,\"count\":1,\"needs\":[]" \
    ","                                                                                            \
    "\"critical\":true,\"help\":\"begins\"}" B(1, "true") B(2, "false") B(3, "false")              \
        B(4, "false") B(5, "false") B(6, "false") B(7, "false")                                    \
            B(8, "false") ",{\"name\":\"c\",\"hook\":\"\",\"gang\":true,\"first\":9,\"count\":2,"  \
                          "\"needs\":[1,2,3,4,5,6,7,8],"                                           \
                          "\"critical\":true,\"help\":\"\"},{\"name\":\"e\",\"hook\":\"on_exit\"," \
                          "\"gang\":false,\"first\":11,"                                           \
                          "\"count\":1,\"needs\":[],\"critical\":false,\"help\":\"\"}]}"
#define FOLDED                                                                                     \
    "{\"width\":482,\"height\":48,\"layers\":3,\"hooks\":1,\"boxes\":[{\"tasks\":[0],\"x\":12,"    \
    "\"y\":12,"                                                                                    \
    "\"w\":62},{\"tasks\":[1,2,3,4,5,6,7,8],\"x\":130,\"y\":12,\"w\":104},{\"tasks\":[9],\"x\":"   \
    "290,"                                                                                         \
    "\"y\":12,\"w\":62},{\"tasks\":[10],\"x\":408,\"y\":12,\"w\":62}],\"edges\":[{\"from\":0,"     \
    "\"to\":1,"                                                                                    \
    "\"critical\":true,\"points\":[74,24,130,24]},{\"from\":1,\"to\":2,\"critical\":true,"         \
    "\"points\":["                                                                                 \
    "234,24,290,24]}]," TASKS

static void test_graph(void)
{
    write_file("nodes.yaml", "nodes: [{name: n1, executor: local}, {name: n2, executor: local}]\n");
    write_file("w.yaml", wide);
    submit(&bed, "w.yaml", 1, "", "running");
    check(GET, "/api/v1/runs/1/graph", NULL, FOLDED);
    check(GET, "/api/v1/runs/1/graph?apart=2", NULL,
          "{\"width\":482,\"height\":84,\"layers\":3,\"hooks\":1,\"boxes\":[{\"tasks\":[0],\"x\":"
          "12,\"y\":"
          "30,\"w\":62},{\"tasks\":[1,3,4,5,6,7,8],\"x\":130,\"y\":12,\"w\":104},{\"tasks\":[2],"
          "\"x\":130,"
          "\"y\":48,\"w\":69},{\"tasks\":[9],\"x\":290,\"y\":30,\"w\":62},{\"tasks\":[10],\"x\":"
          "408,\"y\":"
          "12,\"w\":62}],\"edges\":[{\"from\":0,\"to\":1,\"critical\":true,\"points\":[74,42,130,"
          "24]},{"
          "\"from\":0,\"to\":2,\"critical\":false,\"points\":[74,42,130,60]},{\"from\":1,\"to\":3,"
          "\"critical\":true,\"points\":[234,24,290,42]},{\"from\":2,\"to\":3,\"critical\":false,"
          "\"points\":[199,60,290,42]}]," TASKS);
}

static const char *of_pages(void *self, const char *name)
{
    (void)self;
    return strcmp(name, "WHO") == 0 ? "pages" : NULL;
}

/* The file as a run of now would read it: paths count from its folder, variables are this
 * process's. */
static void test_page(void)
{
    struct fr_run_shell shell = {.cwd = "/", .getenv = of_pages};

    CHECK_INT(fr_host_pages(bed.host, "http://127.0.0.1:1/", &shell, NULL), FR_OK);
    check_row("a pipeline");
    check_answer(ask(&bed, GET, "/api/v1/pipelines/w", NULL), 200,
                 "\"description\":\"\",\"params\":[],\"graph\":" FOLDED ",\"schedules\":[]}");
    check_row("its file now");
    write_file("w.yaml", "name: w\ndescription: now\nparams: {p: {default: \"${{ env.WHO }}\"}}\n"
                         "tasks: {a: {run: x}}\n");
    check_answer(
        ask(&bed, GET, "/api/v1/pipelines/w", NULL), 200,
        "\"description\":\"now\",\"params\":[{\"name\":\"p\",\"type\":\"string\",\"value\":"
        "\"pages\",\"default\":\"pages\",\"help\":\"\",\"from\":\"default\",\"choices\":[],"
        "\"required\":false,\"secret\":false}],\"graph\":{");
    check_row("its file with two mistakes: the first is said, and how it was is shown");
    write_file("w.yaml", "name: w\ntasks: {a: {runn: x}, b: {rum: x}}\n");
    check_answer(ask(&bed, GET, "/api/v1/pipelines/w", NULL), 200, "/w.yaml:2:9: 'a' does nothing");
    check_answer(ask(&bed, GET, "/api/v1/pipelines/w", NULL), 200, "\"graph\":" FOLDED);
    check_row("tasks that need each other");
    write_file("w.yaml", "name: w\ntasks: {a: {needs: [b], run: x}, b: {needs: [a], run: x}}\n");
    check_answer(ask(&bed, GET, "/api/v1/pipelines/w", NULL), 200, "\"error\":\"");
}

/* One that did not run yet: of a schedule, beside one of another pipeline. */
static void test_scheduled(void)
{
    char source[300];
    struct fr_schedule_row rows[] = {
        {.source = "/none.yaml", .name = "x", .pipeline = "u", .state = FR_SCHEDULE_ACTIVE},
        {.source = source,
         .name = "s",
         .pipeline = "v",
         .rule = "daily",
         .state = FR_SCHEDULE_PAUSED,
         .note = "why",
         .state_wall = 7},
        {.source = source,
         .name = "t",
         .pipeline = "v",
         .rule = "weekly",
         .state = FR_SCHEDULE_ACTIVE,
         .gone_wall = 9}};

    check_row("a pipeline that has schedules alone");
    (void)snprintf(source, sizeof(source), "%s/v.yaml", bed.home);
    write_file("v.yaml", "name: v\ndescription: later\ntasks: {a: {run: x}}\n");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        CHECK_INT(fr_store_schedule_add(bed.st, &rows[i], NULL), FR_OK);
    check_answer(ask(&bed, GET, "/api/v1/pipelines/v", NULL), 200, "\"description\":\"later\"");
    check_answer(
        ask(&bed, GET, "/api/v1/pipelines/v", NULL), 200,
        "\"schedules\":[{\"id\":2,\"etag\":\"\\\"7.paused\\\"\",\"pipeline\":\"v\",\"name\":\"s\","
        "\"rule\":\"daily\",\"state\":\"paused\",\"state_wall\":7,\"note\":\"why\",\"gone_wall\":0}"
        ",{"
        "\"id\":3,\"etag\":\"\\\"0.active\\\"\",\"pipeline\":\"v\",\"name\":\"t\",\"rule\":"
        "\"weekly\","
        "\"state\":\"active\",\"state_wall\":0,\"note\":\"\",\"gone_wall\":9}]}");
    check_answer(ask(&bed, GET, "/api/v1/pipelines/v/history", NULL), 200,
                 "{\"tasks\":[],\"items\":[],\"gaps\":[]}");
}

#define TASK(i, name, hook, needs, critical)                                                       \
    "{\"name\":\"" name "\",\"hook\":\"" hook "\",\"gang\":false,\"first\":" #i                    \
    ",\"count\":1,\"needs\":[" needs "],\"critical\":" critical ",\"help\":\"\"}"

static void test_validate(void)
{
    check(
        POST, "/api/v1/pipelines/validate",
        "{\"text\": \"name: x\\ntasks: {a: {run: y}, b: {run: y, needs: [a]}}\\non_failure: "
        "[{name: h, run: z}]\"}",
        "{\"valid\":true,\"issues\":[],\"notes\":[],\"graph\":{\"width\":322,\"height\":48,"
        "\"layers\":2,\"hooks\":1,\"boxes\":[{\"tasks\":[0],\"x\":12,\"y\":12,\"w\":62},{\"tasks\":"
        "["
        "1],\"x\":130,\"y\":12,\"w\":62},{\"tasks\":[2],\"x\":248,\"y\":12,\"w\":62}],\"edges\":[{"
        "\"from\":0,\"to\":1,\"critical\":true,\"points\":[74,24,130,24]}],\"tasks\":[" TASK(
            0, "a", "", "", "true") "," TASK(1, "b", "", "0", "true") "," TASK(2, "h", "on_failure",
                                                                               "", "false") "]}}");
    check_row("whoever writes a file reads no variable and no file of the host by it");
    check(
        POST, "/api/v1/pipelines/validate",
        "{\"text\": \"name: x\\nparams: {p: {default: \\\"${{ env.WHO }}\\\"}}\\ntasks: {a: {run: "
        "y}}\"}",
        "{\"valid\":false,\"issues\":[{\"file\":\"/pipeline.yaml\",\"line\":2,\"col\":28,\"text\":"
        "\"variable WHO is not set; expected it in the environment of flowrun, or a param\"}],"
        "\"notes\":[]}");
    check_answer(ask(&bed, POST, "/api/v1/pipelines/validate",
                     "{\"text\": \"name: x\\nnodes: /etc/hostname\\ntasks: {a: {run: y}}\"}"),
                 200,
                 "{\"valid\":true,\"issues\":[],\"notes\":[{\"file\":\"/"
                 "pipeline.yaml\",\"line\":2,\"col\":8,"
                 "\"text\":\"note: the inventory /etc/hostname is not opened here: ");
}

int main(void)
{
    make_pipelines(&bed);
    open_host(&bed);
    test_graph();
    test_page();
    test_scheduled();
    test_validate();
    close_host(&bed);
    remove_home(bed.home);
    return check_done();
}
