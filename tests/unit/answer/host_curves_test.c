/* What is shown of a run's metrics: whole answers, to the last byte. */
#include "tests/unit/host/host_bed.h"

#include "engine/run/metrics.h"

#include <fcntl.h>
#include <semaphore.h>
#include <sys/stat.h>

static struct host_bed bed = HOST_BED;

#define METRICS "/api/v1/runs/1/metrics"

static const struct fr_id run_id = {.b = {0xaa}};

static const struct fr_inst_row insts[] = {
    {.idx = 0, .key = "a@n1", .task = "a", .node = "n1", .state = FR_ST_RUNNING},
    {.idx = 3, .key = "b@n2", .task = "b", .node = "n2", .state = FR_ST_RUNNING},
    {.idx = 4, .key = "c@n1", .task = "c", .node = "n1", .state = FR_ST_RUNNING},
};

static const struct {
    struct fr_attempt_row row;
    const char *key, *text;
} attempts[] = {
    {{.id = {.b = {1}},
      .idx = 0,
      .no = 1,
      .node = "n1",
      .state = FR_ST_SUCCEEDED,
      .log = "",
      .started_wall = 1000},
     "a@n1",
     "{\"step\":1,\"loss\":4,\"tokens\":100}\n{\"step\":2,\"loss\":3,\"tokens\":200}\n"
     "{\"step\":3,\"loss\":2,\"tokens\":300}\n{\"step\":4,\"loss\":1,\"tokens\":400}\n"},
    {{.id = {.b = {2}},
      .idx = 0,
      .no = 2,
      .node = "n1",
      .state = FR_ST_RUNNING,
      .log = "",
      .started_wall = 5000},
     "a@n1",
     "{\"step\":3,\"loss\":2.5,\"rate\":7,\"total_steps\":10}\n{\"step\":4,\"loss\":NaN}\n"
     "{\"step\":5,\"loss\":0.5,\"epoch\":2}\n"},
    {{.id = {.b = {3}},
      .idx = 3,
      .no = 1,
      .node = "n2",
      .state = FR_ST_RUNNING,
      .log = "",
      .started_wall = 3000},
     "b@n2",
     "{\"step\":7,\"acc\":0.25,\"elapsed_time\":\"0:00:09\"}\nno row\n{\"flowrun\":\"full\"}\n"},
    {{.id = {.b = {4}},
      .idx = 4,
      .no = 1,
      .node = "n1",
      .state = FR_ST_RUNNING,
      .log = "",
      .started_wall = 9000},
     "c@n1",
     NULL},
};

static void put_rows(void)
{
    struct fr_run_row run = {.id = run_id,
                             .name = "p",
                             .source = "/p.yaml",
                             .state = FR_RUN_OVER,
                             .outcome = FR_OUT_FAILED,
                             .origin = FR_ORIGIN_CLI,
                             .params = "{}"};
    static const struct timespec times[] = {{5, 0}, {5, 0}};

    CHECK_INT(fr_store_begin(bed.st, NULL), FR_OK);
    CHECK_INT(fr_store_run_add(bed.st, &run, NULL), FR_OK);
    for (size_t i = 0; i < sizeof(insts) / sizeof(insts[0]); i++)
        CHECK_INT(fr_store_inst_put(bed.st, run_id, &insts[i], NULL), FR_OK);
    for (size_t i = 0; i < sizeof(attempts) / sizeof(attempts[0]); i++) {
        struct fr_buf path = {0}, dir = {0};

        CHECK_INT(fr_store_attempt_put(bed.st, run_id, &attempts[i].row, NULL), FR_OK);
        fr_home_at(bed.home, FR_HOME_RUN, run_id, &path);
        fr_buf_text(&path, "/");
        fr_run_metrics_name(&path, attempts[i].key, (uint32_t)attempts[i].row.no);
        fr_buf_add(&dir, path.p, (size_t)(strrchr(path.p, '/') - path.p));
        CHECK_INT(fr_mkdirs(dir.p, 0700, NULL), FR_OK);
        if (attempts[i].text != NULL) {
            CHECK_INT(fr_file_write(path.p, attempts[i].text, strlen(attempts[i].text), 0600, NULL),
                      FR_OK);
            CHECK_INT(utimensat(AT_FDCWD, path.p, times, 0), 0);
        }
        fr_buf_finish(&path);
        fr_buf_finish(&dir);
    }
    CHECK_INT(fr_store_commit(bed.st, NULL), FR_OK);
}

static const struct {
    const char *path;
    int status;
    const char *text; /* the body; of an error, a part of it */
} rows[] = {
    {METRICS, 200,
     "{\"x\":\"step\",\"from\":1.0,\"to\":7.0,\"bucket\":0.015625,\"keys\":[\"loss\",\"tokens\","
     "\"rate\",\"total_steps\",\"epoch\",\"acc\",\"elapsed_time\"],\"parts\":[{\"instance\":\"a@"
     "n1\",\"node\":\"n1\",\"attempt\":\"01000000000000000000000000000000\",\"attempt_no\":1,"
     "\"started_wall\":1000,\"rows\":4,\"first\":1.0,\"last\":4.0,\"until\":3.0,\"full\":false},{"
     "\"instance\":\"a@n1\",\"node\":\"n1\",\"attempt\":\"02000000000000000000000000000000\","
     "\"attempt_no\":2,\"started_wall\":5000,\"rows\":3,\"first\":3.0,\"last\":5.0,\"until\":null,"
     "\"full\":false},{\"instance\":\"b@n2\",\"node\":\"n2\",\"attempt\":"
     "\"03000000000000000000000000000000\",\"attempt_no\":1,\"started_wall\":3000,\"rows\":1,"
     "\"first\":7.0,\"last\":7.0,\"until\":null,\"full\":true}],\"series\":[{\"key\":\"loss\","
     "\"part\":0,\"lost\":false,\"x\":[1.0,2.0],\"y\":[4.0,3.0]},{\"key\":\"loss\",\"part\":0,"
     "\"lost\":true,\"x\":[3.0,4.0],\"y\":[2.0,1.0]},{\"key\":\"loss\",\"part\":1,\"lost\":false,"
     "\"x\":[3.0,4.0,5.0],\"y\":[2.5,null,0.5]},{\"key\":\"tokens\",\"part\":0,\"lost\":false,"
     "\"x\":[1.0,2.0],\"y\":[100.0,200.0]},{\"key\":\"tokens\",\"part\":0,\"lost\":true,\"x\":[3.0,"
     "4.0],\"y\":[300.0,400.0]},{\"key\":\"rate\",\"part\":1,\"lost\":false,\"x\":[3.0],\"y\":[7.0]"
     "},{\"key\":\"total_steps\",\"part\":1,\"lost\":false,\"x\":[3.0],\"y\":[10.0]},{\"key\":"
     "\"epoch\",\"part\":1,\"lost\":false,\"x\":[5.0],\"y\":[2.0]},{\"key\":\"acc\",\"part\":2,"
     "\"lost\":false,\"x\":[7.0],\"y\":[0.25]},{\"key\":\"elapsed_time\",\"part\":2,\"lost\":false,"
     "\"x\":[7.0],\"y\":[9.0]}],\"head\":{\"instance\":\"a@n1\",\"step\":5.0,\"total\":10.0,"
     "\"loss\":0.5,\"loss_smooth\":1.25,\"rate\":null,\"rate_median\":null,\"epoch\":2.0,\"elapsed_"
     "s\":null,\"eta_s\":null,\"bad_since\":null,\"checkpoint\":null,\"checkpoint_age_s\":null,"
     "\"wall\":5000},\"bad_lines\":1,\"left_out\":0}"},
    {METRICS "?task=b", 200,
     "{\"x\":\"step\",\"from\":7.0,\"to\":7.0,\"bucket\":1.0,\"keys\":[\"acc\",\"elapsed_time\"],"
     "\"parts\":[{\"instance\":\"b@n2\",\"node\":\"n2\",\"attempt\":"
     "\"03000000000000000000000000000000\",\"attempt_no\":1,\"started_wall\":3000,\"rows\":1,"
     "\"first\":7.0,\"last\":7.0,\"until\":null,\"full\":true}],\"series\":[{\"key\":\"acc\","
     "\"part\":0,\"lost\":false,\"x\":[7.0],\"y\":[0.25]},{\"key\":\"elapsed_time\",\"part\":0,"
     "\"lost\":false,\"x\":[7.0],\"y\":[9.0]}],\"head\":{\"instance\":\"b@n2\",\"step\":7.0,"
     "\"total\":null,\"loss\":null,\"loss_smooth\":null,\"rate\":null,\"rate_median\":null,"
     "\"epoch\":null,\"elapsed_s\":9.0,\"eta_s\":null,\"bad_since\":null,\"checkpoint\":null,"
     "\"checkpoint_age_s\":null,\"wall\":5000},\"bad_lines\":1,\"left_out\":0}"},
    {METRICS "?task=a@n1&keys=loss", 200,
     "{\"x\":\"step\",\"from\":1.0,\"to\":5.0,\"bucket\":0.015625,\"keys\":[\"loss\",\"tokens\","
     "\"rate\",\"total_steps\",\"epoch\"],\"parts\":[{\"instance\":\"a@n1\",\"node\":\"n1\","
     "\"attempt\":\"01000000000000000000000000000000\",\"attempt_no\":1,\"started_wall\":1000,"
     "\"rows\":4,\"first\":1.0,\"last\":4.0,\"until\":3.0,\"full\":false},{\"instance\":\"a@n1\","
     "\"node\":\"n1\",\"attempt\":\"02000000000000000000000000000000\",\"attempt_no\":2,\"started_"
     "wall\":5000,\"rows\":3,\"first\":3.0,\"last\":5.0,\"until\":null,\"full\":false}],\"series\":"
     "[{\"key\":\"loss\",\"part\":0,\"lost\":false,\"x\":[1.0,2.0],\"y\":[4.0,3.0]},{\"key\":"
     "\"loss\",\"part\":0,\"lost\":true,\"x\":[3.0,4.0],\"y\":[2.0,1.0]},{\"key\":\"loss\","
     "\"part\":1,\"lost\":false,\"x\":[3.0,4.0,5.0],\"y\":[2.5,null,0.5]}],\"head\":{\"instance\":"
     "\"a@n1\",\"step\":5.0,\"total\":10.0,\"loss\":0.5,\"loss_smooth\":1.25,\"rate\":null,\"rate_"
     "median\":null,\"epoch\":2.0,\"elapsed_s\":null,\"eta_s\":null,\"bad_since\":null,"
     "\"checkpoint\":null,\"checkpoint_age_s\":null,\"wall\":5000},\"bad_lines\":0,\"left_out\":"
     "0}"},
    {METRICS "?task=c", 200,
     "{\"x\":\"step\",\"from\":0.0,\"to\":0.0,\"bucket\":1.0,\"keys\":[],\"parts\":[],\"series\":[]"
     ",\"head\":null,\"bad_lines\":0,\"left_out\":0}"},
    {METRICS "?keys=los", 200,
     "{\"x\":\"step\",\"from\":1.0,\"to\":7.0,\"bucket\":0.015625,\"keys\":[\"loss\",\"tokens\","
     "\"rate\",\"total_steps\",\"epoch\",\"acc\",\"elapsed_time\"],\"parts\":[{\"instance\":\"a@"
     "n1\",\"node\":\"n1\",\"attempt\":\"01000000000000000000000000000000\",\"attempt_no\":1,"
     "\"started_wall\":1000,\"rows\":4,\"first\":1.0,\"last\":4.0,\"until\":3.0,\"full\":false},{"
     "\"instance\":\"a@n1\",\"node\":\"n1\",\"attempt\":\"02000000000000000000000000000000\","
     "\"attempt_no\":2,\"started_wall\":5000,\"rows\":3,\"first\":3.0,\"last\":5.0,\"until\":null,"
     "\"full\":false},{\"instance\":\"b@n2\",\"node\":\"n2\",\"attempt\":"
     "\"03000000000000000000000000000000\",\"attempt_no\":1,\"started_wall\":3000,\"rows\":1,"
     "\"first\":7.0,\"last\":7.0,\"until\":null,\"full\":true}],\"series\":[],\"head\":{"
     "\"instance\":\"a@n1\",\"step\":5.0,\"total\":10.0,\"loss\":0.5,\"loss_smooth\":1.25,\"rate\":"
     "null,\"rate_median\":null,\"epoch\":2.0,\"elapsed_s\":null,\"eta_s\":null,\"bad_since\":null,"
     "\"checkpoint\":null,\"checkpoint_age_s\":null,\"wall\":5000},\"bad_lines\":1,\"left_out\":"
     "0}"},
    {METRICS "?task=b&keys=loss,acc,rate", 200,
     "{\"x\":\"step\",\"from\":7.0,\"to\":7.0,\"bucket\":1.0,\"keys\":[\"acc\",\"elapsed_time\"],"
     "\"parts\":[{\"instance\":\"b@n2\",\"node\":\"n2\",\"attempt\":"
     "\"03000000000000000000000000000000\",\"attempt_no\":1,\"started_wall\":3000,\"rows\":1,"
     "\"first\":7.0,\"last\":7.0,\"until\":null,\"full\":true}],\"series\":[{\"key\":\"acc\","
     "\"part\":0,\"lost\":false,\"x\":[7.0],\"y\":[0.25]}],\"head\":{\"instance\":\"b@n2\","
     "\"step\":7.0,\"total\":null,\"loss\":null,\"loss_smooth\":null,\"rate\":null,\"rate_median\":"
     "null,\"epoch\":null,\"elapsed_s\":9.0,\"eta_s\":null,\"bad_since\":null,\"checkpoint\":null,"
     "\"checkpoint_age_s\":null,\"wall\":5000},\"bad_lines\":1,\"left_out\":0}"},
    {METRICS "?task=a&keys=loss&from=2&to=4", 200,
     "{\"x\":\"step\",\"from\":2.0,\"to\":4.0,\"bucket\":0.0078125,\"keys\":[\"loss\",\"tokens\","
     "\"rate\",\"total_steps\",\"epoch\"],\"parts\":[{\"instance\":\"a@n1\",\"node\":\"n1\","
     "\"attempt\":\"01000000000000000000000000000000\",\"attempt_no\":1,\"started_wall\":1000,"
     "\"rows\":4,\"first\":1.0,\"last\":4.0,\"until\":3.0,\"full\":false},{\"instance\":\"a@n1\","
     "\"node\":\"n1\",\"attempt\":\"02000000000000000000000000000000\",\"attempt_no\":2,\"started_"
     "wall\":5000,\"rows\":3,\"first\":3.0,\"last\":5.0,\"until\":null,\"full\":false}],\"series\":"
     "[{\"key\":\"loss\",\"part\":0,\"lost\":false,\"x\":[2.0],\"y\":[3.0]},{\"key\":\"loss\","
     "\"part\":0,\"lost\":true,\"x\":[3.0,4.0],\"y\":[2.0,1.0]},{\"key\":\"loss\",\"part\":1,"
     "\"lost\":false,\"x\":[3.0,4.0],\"y\":[2.5,null]}],\"head\":{\"instance\":\"a@n1\",\"step\":5."
     "0,\"total\":10.0,\"loss\":0.5,\"loss_smooth\":1.25,\"rate\":null,\"rate_median\":null,"
     "\"epoch\":2.0,\"elapsed_s\":null,\"eta_s\":null,\"bad_since\":null,\"checkpoint\":null,"
     "\"checkpoint_age_s\":null,\"wall\":5000},\"bad_lines\":0,\"left_out\":0}"},
    {METRICS "?task=a&keys=loss&x=tokens", 200,
     "{\"x\":\"tokens\",\"from\":100.0,\"to\":400.0,\"bucket\":1.0,\"keys\":[\"loss\",\"tokens\","
     "\"rate\",\"total_steps\",\"epoch\"],\"parts\":[{\"instance\":\"a@n1\",\"node\":\"n1\","
     "\"attempt\":\"01000000000000000000000000000000\",\"attempt_no\":1,\"started_wall\":1000,"
     "\"rows\":4,\"first\":1.0,\"last\":4.0,\"until\":3.0,\"full\":false},{\"instance\":\"a@n1\","
     "\"node\":\"n1\",\"attempt\":\"02000000000000000000000000000000\",\"attempt_no\":2,\"started_"
     "wall\":5000,\"rows\":3,\"first\":3.0,\"last\":5.0,\"until\":null,\"full\":false}],\"series\":"
     "[{\"key\":\"loss\",\"part\":0,\"lost\":false,\"x\":[100.0,200.0],\"y\":[4.0,3.0]},{\"key\":"
     "\"loss\",\"part\":0,\"lost\":true,\"x\":[300.0,400.0],\"y\":[2.0,1.0]}],\"head\":{"
     "\"instance\":\"a@n1\",\"step\":5.0,\"total\":10.0,\"loss\":0.5,\"loss_smooth\":1.25,\"rate\":"
     "null,\"rate_median\":null,\"epoch\":2.0,\"elapsed_s\":null,\"eta_s\":null,\"bad_since\":null,"
     "\"checkpoint\":null,\"checkpoint_age_s\":null,\"wall\":5000},\"bad_lines\":0,\"left_out\":"
     "0}"},
    {METRICS "?task=b&keys=acc&x=time", 200,
     "{\"x\":\"time\",\"from\":9.0,\"to\":9.0,\"bucket\":1.0,\"keys\":[\"acc\",\"elapsed_time\"],"
     "\"parts\":[{\"instance\":\"b@n2\",\"node\":\"n2\",\"attempt\":"
     "\"03000000000000000000000000000000\",\"attempt_no\":1,\"started_wall\":3000,\"rows\":1,"
     "\"first\":7.0,\"last\":7.0,\"until\":null,\"full\":true}],\"series\":[{\"key\":\"acc\","
     "\"part\":0,\"lost\":false,\"x\":[9.0],\"y\":[0.25]}],\"head\":{\"instance\":\"b@n2\","
     "\"step\":7.0,\"total\":null,\"loss\":null,\"loss_smooth\":null,\"rate\":null,\"rate_median\":"
     "null,\"epoch\":null,\"elapsed_s\":9.0,\"eta_s\":null,\"bad_since\":null,\"checkpoint\":null,"
     "\"checkpoint_age_s\":null,\"wall\":5000},\"bad_lines\":1,\"left_out\":0}"},
    {METRICS "?task=a&keys=loss&x=epoch", 200,
     "{\"x\":\"epoch\",\"from\":2.0,\"to\":2.0,\"bucket\":1.0,\"keys\":[\"loss\",\"tokens\","
     "\"rate\",\"total_steps\",\"epoch\"],\"parts\":[{\"instance\":\"a@n1\",\"node\":\"n1\","
     "\"attempt\":\"01000000000000000000000000000000\",\"attempt_no\":1,\"started_wall\":1000,"
     "\"rows\":4,\"first\":1.0,\"last\":4.0,\"until\":3.0,\"full\":false},{\"instance\":\"a@n1\","
     "\"node\":\"n1\",\"attempt\":\"02000000000000000000000000000000\",\"attempt_no\":2,\"started_"
     "wall\":5000,\"rows\":3,\"first\":3.0,\"last\":5.0,\"until\":null,\"full\":false}],\"series\":"
     "[{\"key\":\"loss\",\"part\":1,\"lost\":false,\"x\":[2.0],\"y\":[0.5]}],\"head\":{"
     "\"instance\":\"a@n1\",\"step\":5.0,\"total\":10.0,\"loss\":0.5,\"loss_smooth\":1.25,\"rate\":"
     "null,\"rate_median\":null,\"epoch\":2.0,\"elapsed_s\":null,\"eta_s\":null,\"bad_since\":null,"
     "\"checkpoint\":null,\"checkpoint_age_s\":null,\"wall\":5000},\"bad_lines\":0,\"left_out\":"
     "0}"},
    {METRICS "?task=b&keys=accuracy", 200,
     "{\"x\":\"step\",\"from\":7.0,\"to\":7.0,\"bucket\":1.0,\"keys\":[\"acc\",\"elapsed_time\"],"
     "\"parts\":[{\"instance\":\"b@n2\",\"node\":\"n2\",\"attempt\":"
     "\"03000000000000000000000000000000\",\"attempt_no\":1,\"started_wall\":3000,\"rows\":1,"
     "\"first\":7.0,\"last\":7.0,\"until\":null,\"full\":true}],\"series\":[],\"head\":{"
     "\"instance\":\"b@n2\",\"step\":7.0,\"total\":null,\"loss\":null,\"loss_smooth\":null,"
     "\"rate\":null,\"rate_median\":null,\"epoch\":null,\"elapsed_s\":9.0,\"eta_s\":null,\"bad_"
     "since\":null,\"checkpoint\":null,\"checkpoint_age_s\":null,\"wall\":5000},\"bad_lines\":1,"
     "\"left_out\":0}"},
    {METRICS "?width=9", 400, "'width' must be 10 to 4000"},
    {METRICS "?width=4001", 400, "'width' must be 10 to 4000"},
    {METRICS "?task=none&width=10", 200,
     "{\"x\":\"step\",\"from\":0.0,\"to\":0.0,\"bucket\":1.0,\"keys\":[],\"parts\":[],\"series\":[]"
     ",\"head\":null,\"bad_lines\":0,\"left_out\":0}"},
    {METRICS "?task=none&width=4000", 200,
     "{\"x\":\"step\",\"from\":0.0,\"to\":0.0,\"bucket\":1.0,\"keys\":[],\"parts\":[],\"series\":[]"
     ",\"head\":null,\"bad_lines\":0,\"left_out\":0}"},
    {METRICS "?from=2x", 400, "'from' must be a number, not '2x'"},
    {METRICS "?to=", 400, "'to' must be a number, not ''"},
    {METRICS "?to=inf", 400, "'to' must be a number, not 'inf'"},
    {METRICS "?from=3&to=2", 400, "'from' must not be larger than 'to'"},
    {METRICS "?task=none&from=3&to=3", 200,
     "{\"x\":\"step\",\"from\":3.0,\"to\":3.0,\"bucket\":1.0,\"keys\":[],\"parts\":[],\"series\":[]"
     ",\"head\":null,\"bad_lines\":0,\"left_out\":0}"},
};

/* Of very many parts the newest are shown. */
static void test_many_parts(void)
{
    struct fr_buf path = {0}, text = {0};
    struct fr_api_response res;
    size_t n = 0;

    check_row("300 parts");
    fr_home_at(bed.home, FR_HOME_RUN, run_id, &path);
    fr_buf_text(&path, "/");
    fr_run_metrics_name(&path, "c@n1", 1);
    for (int step = 300; step > 0; step--)
        fr_buf_fmt(&text, "{\"step\":%d}\n", step);
    CHECK_INT(fr_file_write(path.p, text.p, text.n, 0600, NULL), FR_OK);
    res = ask(&bed, GET, METRICS "?task=c", NULL);
    fr_buf_add(&res.body, "", 1);
    for (const char *p = res.body.p; (p = strstr(p, "\"until\":")) != NULL; p++)
        n++;
    CHECK_INT(n, 256);
    CHECK(strstr(res.body.p, "\"first\":257.0,") == NULL);
    CHECK(strstr(res.body.p, "\"first\":256.0,") != NULL);
    CHECK(strstr(res.body.p, "\"first\":1.0,") != NULL);
    fr_api_response_finish(&res);
    fr_buf_finish(&path);
    fr_buf_finish(&text);
}

/* ---- beside each other ---- */

static sem_t comes;
static const char *held; /* the end of paths that are not opened before it comes */

static int open_held(const char *path, int flags, mode_t mode)
{
    size_t n = strlen(path), k = strlen(held);

    if (n > k && strcmp(path + n - k, held) == 0) {
        while (sem_wait(&comes) != 0)
            ;
        sem_post(&comes);
    }
    return fr_sys_real.open(path, flags, mode);
}

struct asked {
    struct fr_api_pair query;
    struct fr_api_waiter waiter;
    struct fr_api_request req;
    struct fr_api_response res;
    bool again;
};

static void begin_ask(struct asked *a, const char *path, const char *task)
{
    *a = (struct asked){.waiter = {.again = on_again},
                        .query = {"task", task},
                        .req = {.path = path,
                                .n_query = task != NULL,
                                .content_type = "",
                                .range = "",
                                .if_none_match = "",
                                .last_event_id = ""}};
    a->waiter.arg = &a->again;
    a->req.query = &a->query;
    a->req.waiter = &a->waiter;
    bed.api.answer(bed.api.self, &a->req, &a->res);
    CHECK_INT(a->res.status, FR_API_LATER);
}

static void end_ask(struct asked *a)
{
    while (!a->again && turn_host(&bed))
        ;
    bed.api.answer(bed.api.self, &a->req, &a->res);
    CHECK(a->res.status != FR_API_LATER);
    fr_api_response_finish(&a->res);
}

struct wait {
    const char *file, *path; /* n requests of that path wait for that file, */
    size_t n;
    const char *last, *task; /* the last one for them, */
    const char *other;       /* and another kind of request for none */
};

static void check_wait(const struct wait *w)
{
    struct asked first[3], behind;

    check_row(w->path);
    held = w->file;
    CHECK_INT(sem_init(&comes, 0, 0), 0);
    fr_sys.open = open_held;
    for (size_t i = 0; i < w->n; i++)
        begin_ask(&first[i], w->path, NULL);
    begin_ask(&behind, w->last, w->task);
    check_answer(ask(&bed, GET, w->other, NULL), 200, NULL);
    settle_host(&bed);
    CHECK(!behind.again && !first[0].again);
    sem_post(&comes);
    for (size_t i = 0; i < w->n; i++)
        end_ask(&first[i]);
    end_ask(&behind);
    fr_sys.open = fr_sys_real.open;
    sem_destroy(&comes);
}

/* Curves are read one at a time, as they have one cache; views leave a thread to others. */
static void test_threads(void)
{
    struct fr_buf name = {0};

    fr_run_metrics_name(&name, attempts[0].key, 1);
    check_wait(&(struct wait){name.p, METRICS, 1, METRICS, "b", "/api/v1/runs/1"});
    fr_buf_finish(&name);
    check_wait(&(struct wait){"/",
                              "/api/v1/runs/1/attempts/01000000000000000000000000000000/log/lines",
                              3, "/api/v1/runs/1", NULL, METRICS});
    check_row("");
}

int main(void)
{
    make_home(bed.home);
    open_host(&bed);
    put_rows();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        check_row(rows[i].path);
        check_whole(ask(&bed, GET, rows[i].path, NULL), rows[i].status, rows[i].text);
    }
    test_many_parts();
    test_threads();
    close_host(&bed);
    remove_home(bed.home);
    return check_done();
}
