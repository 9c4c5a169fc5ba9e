/* Samples of machines: what stays for how long, means, what is asked of them. */
#include "engine/metrics/machines.h"

#include "engine/base/file.h"
#include "tests/unit/check.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void take(struct fr_machines *all, uint8_t id, int64_t wall_ms, uint32_t cpu)
{
    struct fr_exec_up up = {
        .home = {{id}}, .boot = FR_STR("b"), .build = FR_STR("v"), .how = FR_STR("local")};
    struct fr_str fact = FR_STR("cpus=8");
    struct fr_sample sample = {.cpu = cpu, .mem_used = 100, .mem_bytes = 1000};
    char name[8];

    if (wall_ms == 10003) /* the first one of a connection */
        sample.facts = (struct fr_strs){.v = &fact, .n = 1};

    snprintf(name, sizeof(name), "n%u", id);
    fr_machines_take(all, &(struct fr_exec_sampled){name, &up, 5, 1, &sample}, wall_ms);
}

static void check_list(const json_t *doc, const char *name, const char *want)
{
    char *got = json_dumps(json_object_get(doc, name), JSON_COMPACT | JSON_REAL_PRECISION(4));

    CHECK_TEXT(got, want);
    free(got);
}

static void test_samples(void)
{
    struct fr_machines *all = fr_machines_create(NULL);
    struct fr_machine *m;
    json_t *doc;

    check_row("each sample, where there is room for it");
    take(all, 1, 1000, 100);
    take(all, 1, 11000, 200);
    take(all, 1, 21000, 600);
    m = fr_machines_named(all, "n1");
    doc = fr_machine_samples(all, m, 0, 30000, 100);
    check_list(doc, "t", "[1000,11000,21000]");
    check_list(doc, "cpu", "[0.1,0.2,0.6]");
    check_list(doc, "gpu", "[null,null,null]");
    json_decref(doc);
    check_row("means in buckets of 16 s");
    doc = fr_machine_samples(all, m, 0, 30000, 2);
    check_list(doc, "t", "[0,16000]");
    check_list(doc, "cpu", "[0.15,0.6]");
    json_decref(doc);
    check_row("a part of the time");
    doc = fr_machine_samples(all, m, 5000, 20000, 100);
    check_list(doc, "t", "[11000]");
    json_decref(doc);
    fr_machines_destroy(all);
}

/* Of two machines of a name the one that was heard of last is it. A disk is told of once, and again
 * when it had room between. */
static void test_found(void)
{
    struct fr_machines *all = fr_machines_create(NULL);
    static const struct {
        uint64_t free;
        bool told;
    } disks[] = {{100, false}, {99, true},   {50, false}, {109, false},
                 {99, false},  {110, false}, {99, true},  {0, false}};
    struct fr_machine *m;

    take(all, 1, 1000, 100);
    take(all, 2, 3000, 100);
    take(all, 3, 2000, 100);
    for (uint8_t id = 1; id <= 3; id++) {
        m = (struct fr_machine *)fr_machines_find(all, (struct fr_id){.b = {id}});
        if (CHECK(m != NULL))
            (void)snprintf(m->name, sizeof(m->name), "same");
    }
    m = fr_machines_named(all, "same");
    CHECK(m != NULL && m->seen_wall == 3000);
    CHECK(fr_machines_named(all, "sam") == NULL);
    m->disk_free = 0;
    for (size_t i = 0; i < sizeof(disks) / sizeof(disks[0]); i++) {
        m->disk_free = disks[i].free;
        CHECK((fr_machines_disk_low(all, 100) == m) == disks[i].told);
    }
    fr_machines_destroy(all);
}

/* Two days of samples: those of the last 24 hours, and means of five minutes before. */
static void test_days(void)
{
    enum { DAYS = 2, A_DAY = 24 * 360, MS = 10000 };
    struct fr_machines *all = fr_machines_create(NULL);
    struct fr_machine *m;
    json_t *doc;
    int64_t last = (int64_t)DAYS * A_DAY * MS;

    check_row("two days");
    for (int64_t t = MS; t <= last; t += MS)
        take(all, 1, t, t <= last / 2 ? 500 : 250);
    m = fr_machines_named(all, "n1");
    CHECK_INT(m->cap_fine, FR_LOAD_FINE_MS / FR_SAMPLE_MS + 1);
    doc = fr_machine_samples(all, m, 0, last / 2 - 600000, 4000);
    CHECK_INT(json_array_size(json_object_get(doc, "t")), 24 * 12 - 1);
    CHECK(fabs(json_real_value(json_array_get(json_object_get(doc, "cpu"), 100)) - 0.5) < 1e-6);
    json_decref(doc);
    doc = fr_machine_samples(all, m, last / 2 + MS, last, 100000);
    CHECK_INT(json_array_size(json_object_get(doc, "t")), A_DAY);
    CHECK(fabs(json_real_value(json_array_get(json_object_get(doc, "cpu"), 7)) - 0.25) < 1e-6);
    json_decref(doc);
    fr_machines_destroy(all);
}

/* Means go back two weeks, whatever came before them. */
static void test_weeks(void)
{
    enum { MS = 10000, DAY_MS = 24 * 3600 * 1000 };
    struct fr_machines *all = fr_machines_create(NULL);
    int64_t last = 17 * (int64_t)DAY_MS;
    json_t *doc, *times;

    check_row("17 days");
    for (int64_t t = MS; t <= last; t += MS)
        take(all, 1, t, 500);
    doc = fr_machine_samples(all, fr_machines_named(all, "n1"), 0, last, 1 << 20);
    times = json_object_get(doc, "t");
    CHECK_INT(json_array_size(times), 13 * 24 * 12 + 24 * 360 + 1);
    CHECK_INT(json_integer_value(json_array_get(times, 0)), last - 14 * (int64_t)DAY_MS);
    json_decref(doc);
    fr_machines_destroy(all);
}

static void test_many(void)
{
    struct fr_machines *all = fr_machines_create(NULL);
    struct fr_exec_up up = {0};
    struct fr_sample sample = {0};
    size_t n = 0;

    check_row("of too many, the one that was silent the longest goes");
    for (int i = 0; i < FR_MACHINES + 3; i++) {
        up.home = (struct fr_id){{(uint8_t)i, (uint8_t)(i >> 8), 1}};
        fr_machines_take(all, &(struct fr_exec_sampled){"n", &up, 0, 0, &sample}, 1000 + i);
    }
    while (fr_machines_at(all, n) != NULL)
        n++;
    CHECK_INT(n, FR_MACHINES);
    CHECK(fr_machines_find(all, (struct fr_id){{2, 0, 1}}) == NULL);
    CHECK(fr_machines_find(all, (struct fr_id){{3, 0, 1}}) != NULL);
    fr_machines_destroy(all);
    check_row("");
}

/* ---- files ---- */

static char dir[] = "/tmp/machines_test.XXXXXX", files[64];

static struct fr_machine *recalled(struct fr_machines *all)
{
    fr_machines_recall(all);
    return fr_machines_named(all, "n1");
}

static json_t *all_samples(struct fr_machines *all, size_t width)
{
    struct fr_machine *m = recalled(all);

    return m != NULL ? fr_machine_samples(all, m, 0, INT64_MAX / 4, width) : NULL;
}

/* All but the newest load and how its clock stands. */
static void check_same(const struct fr_machine *a, const struct fr_machine *b)
{
    static const char *const now[] = {"load",           "gpus",   "clock_offset_ms",
                                      "wall_offset_ms", "rtt_ms", "seen_wall"};
    json_t *want = fr_machine_json(a), *got = fr_machine_json(b);
    char *want_text, *got_text;

    for (size_t i = 0; i < sizeof(now) / sizeof(now[0]); i++) {
        json_object_del(want, now[i]);
        json_object_del(got, now[i]);
    }
    want_text = json_dumps(want, JSON_COMPACT);
    got_text = json_dumps(got, JSON_COMPACT);
    CHECK_TEXT(got_text, want_text);
    CHECK(a->mem_bytes == b->mem_bytes);
    free(want_text);
    free(got_text);
    json_decref(want);
    json_decref(got);
}

/* A host that begins knows what the one before knew, and goes on with it. */
static void test_files(void)
{
    enum { N = 3 * 24 * 360, MS = 10000 };
    struct fr_machines *all = fr_machines_create(files), *next;
    json_t *want, *got;

    check_row("three days, of which the day's ring holds one");
    CHECK(fr_machines_named(all, "n1") == NULL);
    for (int64_t i = 1; i <= N; i++)
        take(all, 1, i * MS + 3, (uint32_t)(i % 1000));
    next = fr_machines_create(files);
    want = fr_machine_samples(all, fr_machines_named(all, "n1"), 2 * N / 3 * MS + 4, N * MS + 3,
                              1 << 30);
    CHECK(fr_machines_named(next, "n1") == NULL);
    CHECK(recalled(next) != NULL && recalled(next)->seen_wall > 0);
    got = fr_machine_samples(next, recalled(next), 2 * N / 3 * MS + 4, N * MS + 3, 1 << 30);
    CHECK(json_array_size(json_object_get(want, "t")) == N / 3 && json_equal(want, got));
    json_decref(want);
    json_decref(got);
    check_row("what it is");
    check_same(fr_machines_named(all, "n1"), recalled(next));
    check_row("means of the days before");
    want = fr_machine_samples(all, fr_machines_named(all, "n1"), 0, N / 3 * MS, 1 << 30);
    got = fr_machine_samples(next, recalled(next), 0, N / 3 * MS, 1 << 30);
    CHECK(json_array_size(json_object_get(want, "t")) == 24 * 12 && json_equal(want, got));
    json_decref(want);
    json_decref(got);
    fr_machines_destroy(all);
    fr_machines_destroy(next);

    check_row("a sample that came before the file is read");
    next = fr_machines_create(files);
    take(next, 1, (N + 1) * MS + 3, 77);
    got = fr_machine_samples(next, fr_machines_named(next, "n1"), (N - 1) * MS, (N + 2) * MS,
                             1 << 30);
    CHECK_INT(json_array_size(json_object_get(got, "t")), 3);
    json_decref(got);
    fr_machines_destroy(next);
}

/* Places of the day's ring that nothing was written to since say nothing of the day. */
static void test_gap(void)
{
    struct fr_machines *all = fr_machines_create(files);
    json_t *doc;

    check_row("30 hours without a sample");
    take(all, 2, 10003, 1);
    take(all, 2, 1000003, 500);
    take(all, 2, 1000003 + 30 * 3600 * 1000, 250);
    fr_machines_destroy(all);
    all = fr_machines_create(files);
    fr_machines_recall(all);
    doc = fr_machine_samples(all, fr_machines_named(all, "n2"), 900000, 200000000, 1 << 30);
    check_list(doc, "t", "[900000,109000000]");
    check_list(doc, "cpu", "[0.5,0.25]");
    json_decref(doc);
    fr_machines_destroy(all);
}

/* What is no file of a machine, or an old one: it is not taken, and hurts nothing. */
static void test_odd_files(void)
{
    static const struct {
        const char *what, *text;
        size_t n;
    } rows[] = {
        {"empty", "", 0},
        {"short", "{}", 2},
        {"no JSON", "\0", 5000},
        {"no name", "{\"name\":\"\",\"boot\":\"\",\"build\":\"\",\"how\":\"\",\"memory_bytes\":1}",
         5000},
        {"another type", "{\"name\":7}", 5000},
    };
    char path[128], text[5000];
    struct timespec old[2] = {{1, 0}, {1, 0}};
    struct fr_machines *all;

    (void)snprintf(path, sizeof(path), "%s/01000000000000000000000000000000", files);
    check_row("of 1970");
    CHECK(utimensat(AT_FDCWD, path, old, 0) == 0);
    all = fr_machines_create(files);
    CHECK(recalled(all) == NULL && access(path, F_OK) != 0);
    fr_machines_destroy(all);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        check_row(rows[i].what);
        memset(text, 'x', sizeof(text));
        memcpy(text, rows[i].text, strlen(rows[i].text) + (rows[i].n == sizeof(text)));
        CHECK_INT(fr_file_write(path, text, rows[i].n, 0600, NULL), FR_OK);
        all = fr_machines_create(files);
        CHECK(all_samples(all, 100) == NULL);
        fr_machines_destroy(all);
    }
    check_row("a name that is none");
    CHECK(unlink(path) == 0);
    (void)snprintf(path, sizeof(path), "%s/README", files);
    CHECK_INT(fr_file_write(path, "x", 1, 0600, NULL), FR_OK);
    all = fr_machines_create(files);
    CHECK(recalled(all) == NULL && access(path, F_OK) == 0);
    fr_machines_destroy(all);
}

int main(void)
{
    test_samples();
    test_found();
    test_days();
    test_weeks();
    test_many();
    CHECK(mkdtemp(dir) != NULL);
    (void)snprintf(files, sizeof(files), "%s/machines", dir);
    test_files();
    test_odd_files();
    test_gap();
    CHECK_INT(fr_remove_tree(dir, &(struct fr_err){0}), FR_OK);
    return check_done();
}
