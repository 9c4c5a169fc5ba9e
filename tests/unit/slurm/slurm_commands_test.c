/* The commands of Slurm: what they are given, and what Slurm 22.05.8 printed. */
#include "engine/slurm/commands.h"
#include "engine/slurm/reason.h"

#include "tests/unit/check.h"

#include <stdio.h>

#define TAG "00112233445566778899aabbccddeeff"
#define ARRAY "00112233445566778899aabbccd" /* and an index */
#define OTHERS "f0112233445566778899aabbccd"

static const char *joined(const char *const *args)
{
    static char text[2000];
    size_t n = 0;

    text[0] = '\0';
    for (; args != NULL && *args != NULL && n < sizeof(text); args++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", n > 0 ? " " : "", *args);
    return text;
}

#define FIXED                                                                                      \
    "sbatch --parsable --export=NONE --chdir=/ --output=/w/alloc/T/job.log "                       \
    "--open-mode=append --no-requeue --no-kill --job-name=fr-T --comment=flowrun:1:x "
#define SCRIPT " /w/alloc/T/job.sh"

static void test_sbatch(void)
{
    static const char *const options[] = {"--licenses=matlab", "--nice=10"};
    static const struct {
        const char *name;
        struct fr_allocation_spec spec;
        const char *account, *want;
    } rows[] = {
        {"the least",
         {.nodes = 1, .time_ms = 60000},
         NULL,
         FIXED "--nodes=1 --ntasks-per-node=1 --time=1" SCRIPT},
        {"minutes are rounded up",
         {.nodes = 1, .time_ms = 60001},
         NULL,
         FIXED "--nodes=1 --ntasks-per-node=1 --time=2" SCRIPT},
        {"all",
         {.nodes = 4,
          .time_ms = 43200000,
          .partition = "a,b",
          .qos = "long",
          .reservation = "r1",
          .constraint = "a100&nvlink",
          .gpus = 8,
          .gpu_type = "a100",
          .cpus = 16,
          .memory = (64LL << 30) + 1,
          .exclusive = true,
          .options = options,
          .n_options = 2},
         "proj",
         FIXED "--nodes=4 --ntasks-per-node=1 --time=720 --gres=gpu:a100:8 --cpus-per-task=16 "
               "--mem=65537M --exclusive --partition=a,b --account=proj --qos=long "
               "--reservation=r1 --constraint=a100&nvlink --licenses=matlab --nice=10" SCRIPT},
        {"all memory of exclusive nodes, own account",
         {.nodes = 2, .time_ms = 60000, .gpus = 1, .exclusive = true, .account = "own"},
         "proj",
         FIXED "--nodes=2 --ntasks-per-node=1 --time=1 --gres=gpu:1 --mem=0 --exclusive "
               "--account=own" SCRIPT},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fr_arena arena = {0};
        struct fr_slurm_submit s = {.spec = &rows[i].spec,
                                    .account = rows[i].account,
                                    .tag = "T",
                                    .folder = "/w/alloc/T",
                                    .comment = "flowrun:1:x",
                                    .flownode = "/w/bin/flownode"};

        check_row(rows[i].name);
        CHECK_TEXT(joined(fr_sbatch_args(&s, &arena)), rows[i].want);
        fr_arena_finish(&arena);
    }
}

static void test_array(void)
{
    static const int64_t elements[] = {1, 2, 3, 8, 100000};
    struct fr_allocation_spec spec = {.nodes = 1, .copies = 9, .time_ms = 60000};
    struct fr_slurm_submit s = {.spec = &spec,
                                .tag = ARRAY "00007",
                                .folder = "/w'/alloc/" ARRAY "00007",
                                .comment = "flowrun:1:x",
                                .flownode = "/w/bin/flownode",
                                .elements = elements,
                                .n_elements = 5,
                                .binds = true};
    struct fr_arena arena = {0};
    char tag[33];

    check_row("an array");
    CHECK_TEXT(joined(fr_sbatch_args(&s, &arena)),
               "sbatch --parsable --export=NONE --chdir=/ --output=/dev/null --open-mode=append "
               "--no-requeue --no-kill --job-name=fr-" ARRAY "00000 --array=0-2,7,99999 "
               "--comment=flowrun:1:x --nodes=1 --ntasks-per-node=1 --time=1 /w'/alloc/" ARRAY
               "00007/job.sh");
    check_row("its script");
    CHECK_TEXT(fr_slurm_script(&s, &arena),
               "#!/bin/sh\nunset SLURM_EXPORT_ENV\n"
               "FOLDER='/w'\\''/alloc/" ARRAY "'$(printf %05d \"$SLURM_ARRAY_TASK_ID\")\n"
               "[ -d \"$FOLDER\" ] || mkdir -m 700 \"$FOLDER\" || exit 1\n"
               "exec >>\"$FOLDER/job.log\" 2>&1\n"
               "exec srun -Q -N1 -n1 --ntasks-per-node=1 --overlap --mem=0 --kill-on-bad-exit=0 "
               "--wait=0 --cpu-bind=none --input=none -o none '/w/bin/flownode' keep --alloc "
               "\"$FOLDER\"\n");
    check_row("its script with a container");
    spec.container.pyxis = "image";
    CHECK(strstr(fr_slurm_script(&s, &arena), " -o none -e \"$FOLDER/job.log\" ") != NULL);
    check_row("tags");
    fr_slurm_tag(TAG, 0, tag);
    CHECK_TEXT(tag, TAG);
    fr_slurm_tag(ARRAY "deeff", 43, tag);
    CHECK_TEXT(tag, ARRAY "00042");
    CHECK(fr_slurm_same_array(tag, ARRAY "00000") && !fr_slurm_same_array(tag, OTHERS "00042"));
    fr_arena_finish(&arena);
}

static void test_others(void)
{
    static const struct fr_slurm_named names[] = {{"A", 0},           {ARRAY "00000", 1},
                                                  {ARRAY "00007", 8}, {ARRAY "00107", 108},
                                                  {"B", 0},           {OTHERS "00003", 4}};
    static const struct fr_slurm_id ids[] = {{4711, 0}, {9, 1}, {9, 108}};
    struct fr_allocation_spec spec = {.nodes = 2};
    struct fr_slurm_submit s = {
        .spec = &spec, .folder = "/w x/it's", .flownode = "/w/$b/flownode", .binds = true};
    struct fr_slurm_step step = {4711, "nid001", "/w/alloc/T", "/w/bin/flownode", 2};
    struct fr_arena arena = {0};

    check_row("the script");
    CHECK_TEXT(fr_slurm_script(&s, &arena),
               "#!/bin/sh\nunset SLURM_EXPORT_ENV\n"
               "exec srun -Q -N2 -n2 --ntasks-per-node=1 --overlap --mem=0 --kill-on-bad-exit=0 "
               "--wait=0 --cpu-bind=none --input=none -o none '/w/$b/flownode' keep --alloc "
               "'/w x/it'\\''s'\n");
    check_row("where nothing is bound, srun is not told of it");
    s.binds = false;
    CHECK(strstr(fr_slurm_script(&s, &arena), " --wait=0 --input=none ") != NULL);
    s.kill_wait_ms = 30000;
    s.lease_ms = 1800000;
    CHECK(strstr(fr_slurm_script(&s, &arena), "s' --kill-wait 30 --lease 1800\n") != NULL);
    check_row("a link");
    CHECK_TEXT(joined(fr_srun_args(&step, &arena)),
               "srun -u -Q --overlap -N1 -n1 --mem=0 --gres=none --export=NONE --input=all "
               "--chdir=/ --jobid=4711 --nodelist=nid001 /w/bin/flownode relay --alloc "
               "/w/alloc/T --place 2");
    check_row("questions");
    CHECK_TEXT(joined(fr_squeue_args(names, 6, &arena)),
               "squeue --noheader --me --array --states=all -o %i|%A|%T|%r|%M|%L|%S|%e|%N|%B|%j "
               "--name=fr-A,fr-" ARRAY "00000,fr-B,fr-" OTHERS "00000");
    CHECK_TEXT(joined(fr_scancel_args(ids, 1, &arena)), "scancel 4711");
    CHECK_TEXT(joined(fr_scancel_args(ids, 3, &arena)), "scancel 4711 9_0 9_107");
    CHECK_TEXT(joined(fr_slurm_config_args(&arena)), "scontrol show config");
    fr_arena_finish(&arena);
}

static void test_sbatch_end_table(void)
{
    static const struct {
        int code;
        const char *out, *errors;
        enum fr_sbatch_end want;
        int64_t job;
        const char *refusal;
    } rows[] = {
        {0, "4711\n", "", FR_SBATCH_JOB, 4711, ""},
        {0, "4711;hpc\n", "", FR_SBATCH_JOB, 4711, ""},
        {0, "Submitted batch job 12\n", "", FR_SBATCH_JOB, 12, ""},
        {0, "Submitted batch job 12 on cluster a\n", "", FR_SBATCH_JOB, 12, ""},
        {0, "project has 3 hours left\n77\n", "sbatch: note\n", FR_SBATCH_JOB, 77, "note"},
        {0, "", "", FR_SBATCH_UNCLEAR, 0, ""},
        {0, "12x\n", "", FR_SBATCH_UNCLEAR, 0, ""},
        {0, "0\n", "", FR_SBATCH_UNCLEAR, 0, ""},
        {0, "99999999999999999999\n", "", FR_SBATCH_UNCLEAR, 0, ""},
        {-1, "4711\n", "", FR_SBATCH_UNCLEAR, 0, ""},
        {-1, "", "sbatch: no end within 60 s", FR_SBATCH_UNCLEAR, 0, "no end within 60 s"},
        {1, "", "", FR_SBATCH_UNCLEAR, 0, ""},
        {1, "",
         "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect "
         "failure)\n",
         FR_SBATCH_UNCLEAR, 0, "Unable to contact slurm controller (connect failure)"},
        {1, "",
         "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation\n",
         FR_SBATCH_UNCLEAR, 0, "Socket timed out on send/recv operation"},
        {1, "",
         "sbatch: error: resolve_ctls_from_dns_srv: res_nsearch error: Unknown host\n"
         "sbatch: error: fetch_config: DNS SRV lookup failed\n"
         "sbatch: error: _establish_config_source: failed to fetch config\n"
         "sbatch: fatal: Could not establish a configuration source\n",
         FR_SBATCH_UNCLEAR, 0,
         "resolve_ctls_from_dns_srv: res_nsearch error: Unknown host; fetch_config: DNS SRV lookup "
         "failed; _establish_config_source: failed to fetch config; Could not establish a "
         "configuration source"},
        {1, "",
         "sbatch: error: invalid partition specified: gpux\n"
         "sbatch: error: Batch job submission failed: Invalid partition name specified\n",
         FR_SBATCH_REFUSED, 0,
         "invalid partition specified: gpux; Invalid partition name specified"},
        {1, "", "sbatch: error: Invalid generic resource (gres) specification\n", FR_SBATCH_REFUSED,
         0, "Invalid generic resource (gres) specification"},
        {255, "",
         "sbatch: unrecognized option '--bogus'\nTry \"sbatch --help\" for more information\n",
         FR_SBATCH_REFUSED, 0, "unrecognized option '--bogus'"},
        {127, "", "there is no program sbatch in PATH", FR_SBATCH_REFUSED, 0,
         "there is no program sbatch in PATH"},
        {1, "",
         "sbatch: error: QOSMaxSubmitJobPerUserLimit\nsbatch: error: Batch job submission failed: "
         "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)\n",
         FR_SBATCH_LATER, 0,
         "QOSMaxSubmitJobPerUserLimit; Job violates accounting/QOS policy (job submit limit, "
         "user's "
         "size and/or time limits)"},
        {1, "", "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying\n",
         FR_SBATCH_LATER, 0, "Slurm temporarily unable to accept job, sleeping and retrying"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fr_arena arena = {0};
        int64_t job = -1;

        check_row(rows[i].errors[0] != '\0' ? rows[i].errors : rows[i].out);
        CHECK_INT(
            fr_sbatch_read(rows[i].code, fr_str_of(rows[i].out), fr_str_of(rows[i].errors), &job),
            rows[i].want);
        CHECK_INT(job, rows[i].job);
        CHECK_TEXT(fr_sbatch_refusal(fr_str_of(rows[i].errors), &arena), rows[i].refusal);
        fr_arena_finish(&arena);
    }
}

static void on_job(void *arg, const struct fr_squeue_line *line)
{
    struct fr_buf *out = arg;

    fr_buf_fmt(out, "%.6s %lld %s %s %.*s %lld %lld\n", line->tag + 26, (long long)line->job.job,
               line->job.state, line->job.reason, (int)line->job.hosts.n,
               line->job.hosts.n > 0 ? line->job.hosts.p : "", (long long)line->job.start_wall,
               (long long)line->job.end_wall);
}

static void test_squeue_table(void)
{
    static const struct {
        const char *name, *out, *want; /* an error begins with '!' */
    } rows[] = {
        {"none", "", ""},
        {"one that runs",
         "1|1|RUNNING|None|0:07|4:53|2026-11-30T03:30:03|2026-11-30T03:35:03|node1|node1|fr-" TAG
         "\n",
         "ddeeff 1 RUNNING None node1 1796009403000 1796009703000\n"},
        {"two nodes, past its limit",
         "24|24|RUNNING|None|0:07|INVALID|2026-11-30T03:31:48|2026-11-30T03:36:48|node[1-2]|node1|"
         "fr-" TAG "\n",
         "ddeeff 24 RUNNING None node[1-2] 1796009508000 1796009808000\n"},
        {"one that waits", "2|2|PENDING|Resources|0:00|5:00|N/A|N/A||n/a|fr-" TAG "\n",
         "ddeeff 2 PENDING Resources  0 0\n"},
        {"with an estimate, requeued",
         "2|2|PENDING|BeginTime|0:00|5:00|2026-11-30T03:32:15|2026-11-30T03:37:15||n/a|fr-" TAG
         "\n",
         "ddeeff 2 PENDING BeginTime  1796009535000 1796009835000\n"},
        {"ended",
         "20|20|FAILED|JobLaunchFailure|0:00|1:00|2026-11-30T03:30:34|2026-11-30T03:30:34|node1|"
         "node1|fr-" TAG "\n"
         "21|21|PREEMPTED|None|1:13|INVALID|2026-11-30T03:30:34|2026-11-30T03:31:47|node1|node1|"
         "fr-" TAG "\n",
         "ddeeff 20 FAILED JobLaunchFailure node1 1796009434000 1796009434000\n"
         "ddeeff 21 PREEMPTED None node1 1796009434000 1796009507000\n"},
        {"names of others",
         "3|3|PENDING|Priority|0:00|1:00|N/A|N/A||n/a|a|b c\n"
         "4|4|PENDING|Priority|0:00|1:00|N/A|N/A||n/a|fr-zz\n"
         "5|5|PENDING|Priority|0:00|1:00|N/A|N/A||n/a|fr-" TAG "0\n"
         "16_[0-1]|16|PENDING|Priority|0:00|5:00|N/A|N/A||n/a|arr\n",
         ""},
        {"elements of an array, and what is none",
         "9_3|9|PENDING|Resources|0:00|5:00|N/A|N/A||n/a|fr-" ARRAY "00000\n"
         "9_0|12|RUNNING|None|0:07|4:53|2026-11-30T03:30:03|2026-11-30T03:35:03|node1|node1|"
         "fr-" ARRAY "00000\n",
         "d00003 9 PENDING Resources  0 0\n"
         "d00000 9 RUNNING None node1 1796009403000 1796009703000\n"},
        {"several elements in a line",
         "9_[3-5]|9|PENDING|Resources|0:00|5:00|N/A|N/A||n/a|fr-" ARRAY "00000\n", "!9_[3-5]"},
        {"an index of too many digits",
         "9_100000|9|PENDING|Resources|0:00|5:00|N/A|N/A||n/a|fr-" ARRAY "00000\n", "!9_100000"},
        {"a reason with more in it",
         "9|9|PENDING|ReqNodeNotAvail, UnavailableNodes:node[1-2]|0:00|1:00|N/A|N/A||n/a|fr-" TAG
         "\n",
         "ddeeff 9 PENDING ReqNodeNotAvail, UnavailableNodes:node[1-2]  0 0\n"},
        {"no end", "2|2|PENDING|Resources|0:00|5:00|N/A|N/A||n/a|fr-00", "!no end"},
        {"an error among lines",
         "1|1|RUNNING|None|0:07|4:53|N/A|N/A|node1|node1|fr-" TAG "\n"
         "slurm_load_jobs error: Invalid job id specified\n",
         "!slurm_load_jobs error"},
        {"no id", "1|x|RUNNING|None|0|0|N/A|N/A|node1|node1|fr-" TAG "\n", "!1|x|RUNNING"},
        {"no state", "1|1||None|0|0|N/A|N/A|node1|node1|fr-" TAG "\n", "!1|1||None"},
        {"a time of another kind", "1|1|RUNNING|None|0|0|30/11/2026|N/A|n|n|fr-" TAG "\n",
         "!30/11/2026"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fr_buf got = {0};
        struct fr_err err = {0};
        enum fr_rc rc = fr_squeue_read(fr_str_of(rows[i].out), on_job, &got, &err);

        check_row(rows[i].name);
        if (rows[i].want[0] == '!') {
            CHECK_INT(rc, FR_CORRUPT);
            CHECK(strstr(err.msg, rows[i].want + 1) != NULL);
            CHECK_INT(got.n, 0);
        } else {
            CHECK_INT(rc, FR_OK);
            CHECK_TEXT(got.n > 0 ? got.p : "", rows[i].want);
        }
        fr_buf_finish(&got);
    }
}

static void test_config(void)
{
    static const char said[] = "Configuration data as of 2026-11-30T03:30:16\n"
                               "AccountingStorageType   = accounting_storage/none\n"
                               "ClusterName             = e2e\n"
                               "JobAcctGatherFrequency  = 30\n"
                               "KillWait                = 30 sec\n"
                               "MaxArraySize            = 1001\n"
                               "MinJobAge               = 300 sec\n"
                               "PowerPlugin             = \n"
                               "ProctrackType           = proctrack/linuxproc\n"
                               "SlurmctldParameters     = (null)\n"
                               "SLURM_VERSION           = 22.05.8\n"
                               "TaskPlugin              = task/none\n"
                               "\nSlurmctld(primary) at vm is UP\n";
    static const char other[] = "AccountingStorageType   = accounting_storage/slurmdbd\n"
                                "ProctrackType           = proctrack/cgroup\n"
                                "SlurmctldParameters     = "
                                "enable_configless,rl_enable,rl_refill_rate=4,rl_refill_period=10\n"
                                "SLURM_VERSION           = 24.11.5\n"
                                "TaskPlugin              = task/cgroup,task/affinity\n";
    struct fr_slurm_config c;
    struct fr_err err = {0};

    check_row("22.05");
    CHECK_INT(fr_slurm_config_read(FR_STR(said), &c, &err), FR_OK);
    CHECK(c.version[0] == 22 && c.version[1] == 5 && !c.cgroups && !c.accounting);
    CHECK(!c.binds);
    CHECK_TEXT(c.cluster, "e2e");
    CHECK(c.min_age_ms == 300000 && c.kill_wait_ms == 30000 && c.max_array == 1001 && c.rpc == 0);
    check_row("24.11, with a rate limit");
    CHECK_INT(fr_slurm_config_read(FR_STR(other), &c, &err), FR_OK);
    CHECK(c.version[0] == 24 && c.version[1] == 11 && c.cgroups && c.accounting);
    CHECK(c.binds);
    CHECK_INT(c.rpc, 12); /* half of 24 a minute */
    check_row("rate limits");
    fr_slurm_config_read(FR_STR("SlurmctldParameters = rl_enable\nSLURM_VERSION = 23.11\n"), &c,
                         &err);
    CHECK_INT(c.rpc, 60);
    CHECK(c.binds); /* it does not say */
    fr_slurm_config_read(FR_STR("SlurmctldParameters = rl_enable,rl_refill_rate=0\n"), &c, &err);
    CHECK_INT(c.rpc, 1);
    check_row("something else");
    CHECK_INT(fr_slurm_config_read(FR_STR("hello\n=\n"), &c, &err), FR_CORRUPT);
    CHECK_TEXT(err.msg, "scontrol show config says no SLURM_VERSION");
}

static void test_reasons(void)
{
    static const struct {
        const char *reason, *words;
        bool final;
    } rows[] = {
        {"", "", false},
        {"None", "", false},
        {"Priority", "others come first (Priority)", false},
        {"Resources", "nodes are busy (Resources)", false},
        {"QOSMaxJobsPerUserLimit", "your limit is used up (QOSMaxJobsPerUserLimit)", false},
        {"AssocGrpCpuLimit", "your limit is used up (AssocGrpCpuLimit)", false},
        {"QOSMaxCpuPerJobLimit", "it will not start as it is (QOSMaxCpuPerJobLimit)", true},
        {"BadConstraints", "it will not start as it is (BadConstraints)", true},
        {"ReqNodeNotAvail, UnavailableNodes:n1",
         "it will not start as it is (ReqNodeNotAvail, UnavailableNodes:n1)", true},
        {"JobHeldAdmin", "held by an administrator (JobHeldAdmin)", false},
        {"BurstBufferOperation", "BurstBufferOperation", false},
    };
    char buf[200];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        check_row(rows[i].reason);
        CHECK_TEXT(fr_slurm_reason(rows[i].reason, buf, sizeof(buf)), rows[i].words);
        CHECK_INT(fr_slurm_reason_final(rows[i].reason), rows[i].final);
    }
}

int main(void)
{
    test_sbatch();
    test_array();
    test_others();
    test_sbatch_end_table();
    test_squeue_table();
    test_config();
    test_reasons();
    return check_done();
}
