/* Slurm's accounting: what sacct is asked, and what that of Slurm 22.05.8 printed. */
#include "engine/slurm/accounting.h"

#include "tests/unit/check.h"

#include <stdio.h>

#define TAG "00112233445566778899aabbccddeef"
#define ARRAY "00112233445566778899aabbccd"

static void test_args(void)
{
    static const struct {
        const char *name;
        struct fr_accounted jobs[2];
        size_t n;
        const char *want;
    } rows[] = {
        {"one",
         {{4711, 0, "A", 1796009403000}},
         1,
         "--jobs=4711 --name=fr-A --starttime=2026-11-30T03:20:03"},
        {"the earliest counts",
         {{2, 0, "A", 1796009463000}, {9, 0, "B", 1796009403000}},
         2,
         "--jobs=2,9 --name=fr-A,fr-B --starttime=2026-11-30T03:20:03"},
        {"one whose submit nobody saw",
         {{2, 0, "A", 1796009463000}, {9, 0, "B", 0}},
         2,
         "--jobs=2,9 --name=fr-A,fr-B --starttime=1970-01-01T00:00:00"},
        {"two of an array, which have one name",
         {{7, 1, ARRAY "00000", 1796009403000}, {7, 3, ARRAY "00002", 1796009403000}},
         2,
         "--jobs=7_0,7_2 --name=fr-" ARRAY "00000 --starttime=2026-11-30T03:20:03"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fr_arena arena = {0};
        const char *const *argv = fr_sacct_args(rows[i].jobs, rows[i].n, &arena);
        struct fr_buf text = {0};

        check_row(rows[i].name);
        for (size_t k = 5; argv != NULL && k < 8; k++)
            fr_buf_fmt(&text, "%s%s", k > 5 ? " " : "", argv[k]);
        CHECK_TEXT(text.p, rows[i].want);
        CHECK(argv != NULL && argv[9] == NULL && strcmp(argv[0], "sacct") == 0);
        CHECK_TEXT(argv != NULL ? argv[8] : "",
                   "--format=JobID,State,ElapsedRaw,Submit,End,MaxRSS,ConsumedEnergyRaw,"
                   "AllocTRES,JobName");
        fr_buf_finish(&text);
        fr_arena_finish(&arena);
    }
}

static void on_record(void *arg, const struct fr_account *a)
{
    char job[FR_SLURM_JOB_TEXT];

    fr_buf_fmt(arg, "%s %s '%s' %lld+%lld %lld %lld %s%s%s\n",
               fr_slurm_job_text(a->job, a->element, job), a->tag + 30, a->state,
               (long long)a->submit_wall / 1000, (long long)a->elapsed_ms, (long long)a->max_rss,
               (long long)a->energy_j, a->tres, a->ended ? " ended" : "", a->whole ? " whole" : "");
}

static const struct {
    const char *name, *out, *want; /* an error begins with '!' */
} table[] = {
    {"nothing", "", ""},
    {"a job that ended well",
     "1|COMPLETED|4|2026-11-30T11:17:35|2026-11-30T11:17:39||0|billing=1,cpu=1,node=1|fr-" TAG "1\n"
     "1.batch|COMPLETED|4|2026-11-30T11:17:35|2026-11-30T11:17:39|9314304|0|cpu=1,mem=0,node=1|"
     "batch\n"
     "1.0|COMPLETED|4|2026-11-30T11:17:35|2026-11-30T11:17:39|33107968|0|cpu=1,mem=0,node=1|"
     "sh\n",
     "1 f1 'COMPLETED' 1796037455+4000 33107968 0 billing=1,cpu=1,node=1 ended whole\n"},
    {"cancelled, with GPUs",
     "2|CANCELLED by 0|4|2026-11-30T11:17:35|2026-11-30T11:17:39||0|billing=2,cpu=2,gres/"
     "gpu=4,node=2|fr-" TAG "2\n"
     "2.batch|FAILED|4|2026-11-30T11:17:35|2026-11-30T11:17:39|9400320|0|cpu=1,gres/"
     "gpu=2,mem=0,node=1|batch\n"
     "2.0|CANCELLED|2|2026-11-30T11:17:37|2026-11-30T11:17:39|33153024|0|cpu=2,gres/"
     "gpu=4,mem=0,node=2|sh\n",
     "2 f2 'CANCELLED by 0' 1796037455+4000 33153024 0 billing=2,cpu=2,gres/gpu=4,node=2 ended "
     "whole\n"},
    {"cancelled while it waited",
     "3|CANCELLED by 0|0|2026-11-30T11:17:39|2026-11-30T11:17:39||0||fr-" TAG "3\n",
     "3 f3 'CANCELLED by 0' 1796037459+0 0 0  ended whole\n"},
    {"requeued, and cancelled then",
     "5|REQUEUED|5|2026-11-30T11:17:39|2026-11-30T11:17:44|||billing=1,cpu=1,node=1|fr-" TAG "5\n"
     "5.0|CANCELLED|4|2026-11-30T11:17:40|2026-11-30T11:17:44|33042432|0|cpu=1,mem=0,node=1|"
     "sh\n"
     "5|CANCELLED by 0|0|2026-11-30T11:17:44|2026-11-30T11:17:46||0||fr-" TAG "5\n",
     "5 f5 'REQUEUED' 1796037459+5000 33042432 0 billing=1,cpu=1,node=1 ended whole\n"
     "5 f5 'CANCELLED by 0' 1796037464+0 0 0  ended whole\n"},
    {"elements of an array, and those that never began",
     "9_0|COMPLETED|2|2026-11-30T11:17:39|2026-11-30T11:17:41||0|cpu=1|fr-" ARRAY "00000\n"
     "9_0.0|COMPLETED|2|2026-11-30T11:17:39|2026-11-30T11:17:41|3||cpu=1|sh\n"
     "9_12|COMPLETED|3|2026-11-30T11:17:39|2026-11-30T11:17:42||0|cpu=1|fr-" ARRAY "00000\n"
     "9_0.1|COMPLETED|2|2026-11-30T11:17:39|2026-11-30T11:17:41|5||cpu=1|sh\n"
     "9_12.0|COMPLETED|3|2026-11-30T11:17:39|2026-11-30T11:17:42|4||cpu=1|sh\n"
     "9_[13-15]|CANCELLED by 0|0|2026-11-30T11:17:39|2026-11-30T11:17:42||0||fr-" ARRAY "00000\n",
     "9_0 00 'COMPLETED' 1796037459+2000 3 0 cpu=1 ended whole\n"
     "9_12 12 'COMPLETED' 1796037459+3000 4 0 cpu=1 ended whole\n"},
    {"of others",
     "6|COMPLETED|2|2026-11-30T11:17:39|2026-11-30T11:17:41||0|billing=1,cpu=1,node=1|fr-a|b\n"
     "6.0|COMPLETED|2|2026-11-30T11:17:39|2026-11-30T11:17:41|33292288|0|cpu=1,mem=0,node=1|"
     "sh\n",
     ""},
    {"one that runs",
     "7|RUNNING|12|2026-11-30T11:17:46|Unknown|||billing=1,cpu=1,node=1|fr-" TAG "7\n"
     "7.batch|RUNNING|12|2026-11-30T11:17:47|Unknown||0|cpu=1,mem=0,node=1|batch\n",
     "7 f7 'RUNNING' 1796037466+12000 0 0 billing=1,cpu=1,node=1\n"},
    {"a step that has not ended yet, and one of another job",
     "8|COMPLETED|2|2026-11-30T11:17:39|2026-11-30T11:17:41||0|cpu=1|fr-" TAG "8\n"
     "8.0|RUNNING|2|2026-11-30T11:17:39|Unknown|7||cpu=1|sh\n"
     "9.0|COMPLETED|2|2026-11-30T11:17:39|2026-11-30T11:17:41|99||cpu=1|sh\n",
     "8 f8 'COMPLETED' 1796037459+2000 7 0 cpu=1 ended\n"},
    {"units, energy of steps, and what stands for none",
     "1|COMPLETED|4|Unknown|2026-11-30T11:17:39||18446744073709551614|cpu=1|fr-" TAG "1\n"
     "1.batch|COMPLETED|4|Unknown|2026-11-30T11:17:39|9096K|100|cpu=1|batch\n"
     "1.0|COMPLETED|4|Unknown|2026-11-30T11:17:39|1.50G|250|cpu=1|sh\n"
     "1.1|COMPLETED|4|Unknown|2026-11-30T11:17:39|2M|50|cpu=1|sh\n",
     "1 f1 'COMPLETED' 0+4000 1610612736 250 cpu=1 ended whole\n"},
    {"no end", "1|COMPLETED|4|2026-11-30T11:17:35|Unknown|||cpu=1|fr-00", "!no end"},
    {"an error among lines",
     "1|COMPLETED|4|2026-11-30T11:17:35|2026-11-30T11:17:39|||cpu=1|fr-" TAG "1\n"
     "sacct: error: Problem talking to the database\n",
     "!sacct printed 'sacct: error: Problem"},
    {"no id", "x|COMPLETED|4|Unknown|Unknown|||cpu=1|fr-x\n", "!x|COMPLETED"},
    {"no state", "1||4|Unknown|Unknown|||cpu=1|fr-x\n", "!1||4"},
    {"no seconds", "1|COMPLETED|1:04|Unknown|Unknown|||cpu=1|fr-x\n", "!1:04"},
    {"too many seconds", "1|COMPLETED|99999999999|Unknown|Unknown|||cpu=1|fr-x\n", "!9999"},
    {"a time of another kind", "1|COMPLETED|4|30/11/2026|Unknown|||cpu=1|fr-x\n", "!30/11"},
    {"no size", "1|COMPLETED|4|Unknown|Unknown|K||cpu=1|fr-x\n", "!|K|"},
    {"too large a size", "1|COMPLETED|4|Unknown|Unknown|9999999P||cpu=1|fr-x\n", "!9999999P"},
    {"half a size", "1|COMPLETED|4|Unknown|Unknown|1.|0|cpu=1|fr-x\n", "!|1.|"},
    {"no energy", "1|COMPLETED|4|Unknown|Unknown||much|cpu=1|fr-x\n", "!much"},
    {"no list", "1|COMPLETED|4|Unknown|Unknown|||a b|fr-x\n", "!a b"},
    {"too few fields", "1|COMPLETED|4|Unknown|Unknown|||cpu=1\n", "!1|COMPLETED"},
};

static void test_table(void)
{
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct fr_buf got = {0};
        struct fr_err err = {0};
        enum fr_rc rc = fr_sacct_read(fr_str_of(table[i].out), on_record, &got, &err);

        check_row(table[i].name);
        if (table[i].want[0] == '!') {
            CHECK_INT(rc, FR_CORRUPT);
            CHECK(strstr(err.msg, table[i].want + 1) != NULL);
            CHECK_INT(got.n, 0);
        } else {
            CHECK_INT(rc, FR_OK);
            CHECK_TEXT(got.n > 0 ? got.p : "", table[i].want);
        }
        fr_buf_finish(&got);
    }
}

static void test_add(void)
{
    static const struct fr_accounted of = {5, 0, TAG "5", 1796037460000};
    static const struct fr_account first = {.job = 5,
                                            .tag = TAG "5",
                                            .state = "REQUEUED",
                                            .submit_wall = 1796037459000,
                                            .elapsed_ms = 5000,
                                            .max_rss = 7,
                                            .energy_j = 9,
                                            .tres = "cpu=1",
                                            .ended = true,
                                            .whole = true};
    struct fr_account sum = {0}, one = first;

    check_row("another job with the name, another name with the id, another time");
    one.job = 6;
    fr_account_add(&sum, &one, &of);
    one = first;
    one.tag[0] = 'f';
    fr_account_add(&sum, &one, &of);
    one = first;
    one.element = 2;
    fr_account_add(&sum, &one, &of);
    one = first;
    one.submit_wall += 601001;
    fr_account_add(&sum, &one, &of);
    one.submit_wall = first.submit_wall - 599001;
    fr_account_add(&sum, &one, &of);
    CHECK_INT(sum.job, 0);
    check_row("the last time that counts, and a submit that nobody saw");
    one.submit_wall = of.submitted_wall - 600000;
    fr_account_add(&sum, &one, &of);
    CHECK_INT(sum.job, 5);
    sum = (struct fr_account){0};
    one.submit_wall = 7;
    fr_account_add(&sum, &one, &(struct fr_accounted){5, 0, TAG "5", 0});
    CHECK_INT(sum.job, 5);
    check_row("two records");
    sum = (struct fr_account){0};
    fr_account_add(&sum, &first, &of);
    one = (struct fr_account){.job = 5,
                              .tag = TAG "5",
                              .state = "CANCELLED by 0",
                              .submit_wall = 1796037464000,
                              .elapsed_ms = 1000,
                              .max_rss = 3,
                              .ended = true};
    fr_account_add(&sum, &one, &of);
    CHECK_INT(sum.elapsed_ms, 6000);
    CHECK(sum.max_rss == 7 && sum.energy_j == 9 && sum.ended && !sum.whole);
    CHECK_TEXT(sum.state, "CANCELLED by 0");
    CHECK_TEXT(sum.tres, "cpu=1");
}

static void test_tres(void)
{
    static const struct {
        const char *tres, *name;
        int64_t want;
    } rows[] = {
        {"", "node", 0},
        {"billing=2,cpu=2,gres/gpu=4,node=2", "gres/gpu", 4},
        {"billing=2,cpu=2,gres/gpu=4,node=2", "node", 2},
        {"cpu=2,gres/gpu:a100=6,gres/gpu:v100=2,gres/gpu=8", "gres/gpu", 8},
        {"cpu=2,gres/gpu:a100=6,gres/gpu:v100=2", "gres/gpu", 8},
        {"cpu=2,gres/gpumem=99", "gres/gpu", 0},
        {"cpu=2,mem=500M,node", "node", 0},
        {"mem=500M", "mem", 0},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        check_row(rows[i].tres);
        CHECK_INT(fr_tres_count(rows[i].tres, rows[i].name), rows[i].want);
    }
}

static void test_long(void)
{
    struct fr_buf out = {0}, got = {0};
    struct fr_err err = {0};

    check_row("a list that is too long is cut behind an item");
    fr_buf_text(&out, "1|COMPLETED|4|Unknown|Unknown|||cpu=1");
    for (int i = 0; i < 60; i++)
        fr_buf_fmt(&out, ",gres/x%d=1", i);
    fr_buf_text(&out, "|fr-" TAG "1\n");
    CHECK_INT(fr_sacct_read((struct fr_str){out.p, out.n}, on_record, &got, &err), FR_OK);
    CHECK(got.n > 240 && got.n < 300 && strcmp(got.p + got.n - 3, "=1\n") == 0);
    fr_buf_finish(&out);
    fr_buf_finish(&got);
}

int main(void)
{
    test_args();
    test_table();
    test_add();
    test_tres();
    test_long();
    return check_done();
}
