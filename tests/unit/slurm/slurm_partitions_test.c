/* Partitions of a cluster: what sinfo of Slurm 22.05.8 printed, and GPUs of nodes. */
#include "engine/slurm/partitions.h"

#include "tests/unit/check.h"

#include <stdio.h>

static void test_sinfo(void)
{
    static const struct {
        const char *name, *out, *want; /* an error begins with '!' */
    } rows[] = {
        {"nothing", "", ""},
        {"the default", "up|infinite|0/2/1/3|1-infinite|gpu:a100:2|all*\n",
         "all* up -1 -1 3 2 gpu:a100:2\n"},
        {"limits, a name with anything in it",
         "up|30:00|0/1/0/1|1-2|(null)|a|b c\ninactive|1-02:03:04|3/4/5/12|4|gpu:8(S:0,1)|x\n",
         "a|b c up 1800000 2 1 1 (null)\nx inactive 93784000 4 12 7 gpu:8(S:0,1)\n"},
        {"hours", "up|12:00:00|0/0/0/0|1-infinite|(null)|x\nup|n/a|0/0/0/0|1-2|(null)|y\n",
         "x up 43200000 -1 0 0 (null)\ny up -1 2 0 0 (null)\n"},
        {"no end", "up|infinite|0/2/1/3|1-infinite|gpu:2|a", "!no end"},
        {"no name", "up|infinite|0/2/1/3|1-infinite|gpu:2|\n", "!sinfo printed 'up|infinite"},
        {"no such limit", "up|soon|0/2/1/3|1-infinite|gpu:2|a\n", "!soon"},
        {"seconds alone", "up|30|0/2/1/3|1-infinite|gpu:2|a\n", "!|30|"},
        {"too many parts", "up|1:2:3:4|0/2/1/3|1-infinite|gpu:2|a\n", "!1:2:3:4"},
        {"half a limit", "up|30:|0/2/1/3|1-infinite|gpu:2|a\n", "!|30:|"},
        {"too few nodes", "up|infinite|0/2/1|1-infinite|gpu:2|a\n", "!0/2/1|"},
        {"no number of nodes", "up|infinite|0/2/1/x|1-infinite|gpu:2|a\n", "!0/2/1/x"},
        {"no size", "up|infinite|0/2/1/3|1-|gpu:2|a\n", "!|1-|"},
        {"no word", "|infinite|0/2/1/3|1-2|gpu:2|a\n", "!|infinite"},
        {"an error among lines",
         "up|infinite|0/2/1/3|1-infinite|gpu:2|a\nslurm_load_partitions: Unable\n", "!Unable"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fr_arena arena = {0};
        struct fr_partitions p;
        struct fr_buf got = {0};
        struct fr_err err = {0};
        enum fr_rc rc = fr_sinfo_read(fr_str_of(rows[i].out), &arena, &p, &err);

        check_row(rows[i].name);
        for (size_t k = 0; k < p.n; k++) {
            const struct fr_partition_line *l = &p.lines[k];

            fr_buf_fmt(&got, "%s%s %s %lld %lld %lld %lld %s\n", l->name, l->preset ? "*" : "",
                       l->avail, l->limit_ms == INT64_MAX ? -1LL : (long long)l->limit_ms,
                       l->most == INT64_MAX ? -1LL : (long long)l->most, (long long)l->nodes,
                       (long long)l->usable, l->gres);
        }
        if (rows[i].want[0] == '!') {
            CHECK_INT(rc, FR_CORRUPT);
            CHECK(strstr(err.msg, rows[i].want + 1) != NULL);
            CHECK_INT(p.n, 0);
        } else {
            CHECK_INT(rc, FR_OK);
            CHECK_TEXT(got.n > 0 ? got.p : "", rows[i].want);
        }
        fr_buf_finish(&got);
        fr_arena_finish(&arena);
    }
}

static void test_gpus(void)
{
    static const struct {
        const char *gres, *type;
        int64_t want;
    } rows[] = {
        {"(null)", NULL, 0},
        {"", NULL, 0},
        {"gpu:8", NULL, 8},
        {"gpu:8", "a100", 0},
        {"gpu:a100:8", NULL, 8},
        {"gpu:a100:8", "a100", 8},
        {"gpu:a100:8", "a10", 0},
        {"gpu:a100:8(S:0,1),gpu:v100:2(S:0-1)", NULL, 10},
        {"gpu:a100:8(S:0,1),gpu:v100:2(S:0-1)", "v100", 2},
        {"shard:64,gpu:4,craynetwork:2", NULL, 4},
        {"gpus:4,gpu,gpu:,gpu:x", NULL, 0},
        {"gpu:99999999999", NULL, 0},
        {"gpu:2(S:0", NULL, 2},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        check_row(rows[i].gres);
        CHECK_INT(fr_gres_gpus(rows[i].gres, rows[i].type), rows[i].want);
    }
}

static void found(void *arg, const struct fr_slurm_finding *f)
{
    fr_buf_fmt(arg, "%s%d %s\n", f->bad ? "bad " : "", (int)f->key, f->text);
}

static void test_check(void)
{
    static const char sinfo[] = "up|infinite|0/2/1/3|1-infinite|gpu:2|all*\n"
                                "up|1:00:00|0/1/0/1|1-2|gpu:2|short\n"
                                "up|1:00:00|0/4/0/4|1-2|(null)|short\n"
                                "down|infinite|0/9/0/9|1-infinite|gpu:2|off\n";
    static const struct {
        const char *name;
        struct fr_allocation_spec spec;
        const char *want;
    } rows[] = {
        {"it fits", {.nodes = 2, .time_ms = 3600000, .gpus = 2}, ""},
        {"the default has too few nodes",
         {.nodes = 4},
         "bad 3 allocation 'a' asks for 4 nodes; partition 'all' has 3\n"},
        {"a minute is what Slurm counts",
         {.nodes = 1, .time_ms = 3600001, .partition = "short"},
         "bad 2 time of allocation 'a' is 1h00m; expected at most 1h00m, the limit of partition "
         "'short'\n"},
        {"nodes of several kinds are one partition's", {.nodes = 2, .partition = "short"}, ""},
        {"a limit of nodes",
         {.nodes = 3, .partition = "short"},
         "bad 3 nodes of allocation 'a' is 3; expected at most 2, the limit of partition "
         "'short'\n"},
        {"which a quality of service may lift",
         {.nodes = 3, .partition = "short", .qos = "x"},
         "3 nodes of allocation 'a' is 3; expected at most 2, the limit of partition 'short'\n"},
        {"GPUs of too few nodes",
         {.nodes = 2, .partition = "short", .gpus = 1},
         "bad 4 allocation 'a' asks for 2 nodes with 1 GPU; partition 'short' has 1\n"},
        {"of several, one that fits is enough",
         {.nodes = 2, .partition = "off,all"},
         "1 partition 'off' of allocation 'a' is down; expected one that is up\n"},
        {"but all must be there",
         {.nodes = 2, .partition = "all,,x"},
         "bad 1 partition of allocation 'a': Slurm has no partition 'x'; expected one of all, "
         "short, off\n"},
        {"none fits",
         {.nodes = 3, .partition = "off,short"},
         "bad 1 partition 'off' of allocation 'a' is down; expected one that is up\n"
         "bad 3 nodes of allocation 'a' is 3; expected at most 2, the limit of partition "
         "'short'\n"},
    };
    struct fr_arena arena = {0};
    struct fr_partitions p;
    struct fr_err err = {0};

    CHECK_INT(fr_sinfo_read(FR_STR(sinfo), &arena, &p, &err), FR_OK);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fr_allocation_spec spec = rows[i].spec;
        struct fr_buf got = {0};

        check_row(rows[i].name);
        spec.name = "a";
        fr_slurm_check_allocation(&p, &spec, (struct fr_slurm_sink){found, &got});
        CHECK_TEXT(got.n > 0 ? got.p : "", rows[i].want);
        fr_buf_finish(&got);
    }
    fr_arena_finish(&arena);
}

static void test_config(void)
{
    static const struct {
        struct fr_slurm_config config;
        bool old;
        size_t lines;
    } rows[] = {
        {{.version = {20, 2}, .cgroups = true, .accounting = true}, true, 1},
        {{.version = {20, 11}, .cgroups = true, .accounting = true}, false, 0},
        {{.version = {24, 5}, .cgroups = true, .accounting = true, .rpc = 12}, false, 0},
        {{.version = {24, 5}, .cgroups = true, .accounting = true, .rpc = 11}, false, 1},
        {{.version = {24, 5}}, false, 2},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fr_buf got = {0};
        size_t n = 0;

        check_row("");
        CHECK_INT(fr_slurm_too_old(&rows[i].config), rows[i].old);
        fr_slurm_check_config(&rows[i].config, 12, (struct fr_slurm_sink){found, &got});
        for (size_t k = 0; k < got.n; k++)
            n += got.p[k] == '\n';
        CHECK_INT(n, rows[i].lines);
        fr_buf_finish(&got);
    }
}

int main(void)
{
    test_sinfo();
    test_gpus();
    test_check();
    test_config();
    return check_done();
}
