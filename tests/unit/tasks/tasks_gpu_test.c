/* What nvidia-smi and the Fabric Manager say of a node's GPUs, and preflight, which compares it
 * over nodes. Their output was recorded. */
#include "tasks/gpu.h"
#include "tests/unit/tasks/tasks_bed.h"

#include <sys/wait.h>

#define FIXTURES SOURCE_ROOT "/tests/unit/fixtures"

static void read_fixture(const char *name, struct fr_buf *out)
{
    struct fr_buf path = {0};

    fr_buf_fmt(&path, FIXTURES "/%s", name);
    CHECK(fr_file_read(path.p, 1 << 20, out, NULL) == FR_OK);
    fr_buf_finish(&path);
}

static void test_gpus(void)
{
    static const struct {
        const char *fabric;
        bool switches, fails;
        const char *word;
    } rows[] = {
        {"", false, false, ""},
        {"", true, true, "no Fabric Manager"},
        {"fabric-manager.txt", true, false, ""},
        {"fabric-manager-old.txt", true, true, "535.104.05 is not the driver's 535.129.03"},
        {"fabric-manager-old.txt", false, true, "nvidia-fabricmanager-535 in version 535.129.03"},
    };
    struct fr_gpus g = {.n = 0};
    struct fr_buf csv = {0}, banner = {0};
    struct fr_err err;
    char why[512];

    read_fixture("nvidia-smi-query.csv", &csv);
    read_fixture("nvidia-smi-banner.txt", &banner);
    CHECK(fr_gpus_parse(&g, csv.p, &err) == FR_OK);
    fr_gpus_parse_banner(&g, banner.p);
    CHECK_INT(g.n, 3);
    CHECK_TEXT(g.v[0].bus, "00000000:07:00.0"); /* by PCI address, not by number */
    CHECK_INT(g.v[0].index, 1);
    CHECK_TEXT(g.v[1].name, "NVIDIA A100-PCIE-40GB");
    CHECK_INT(g.v[2].memory_mib, 81920);
    CHECK_TEXT(g.driver, "535.129.03");
    CHECK_TEXT(g.cuda, "12.2");
    CHECK(fr_gpus_parse(&g, "No devices were found\n", &err) == FR_PROTO);
    CHECK(fr_gpus_parse(&g, csv.p, &err) == FR_OK);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fr_buf text = {0};
        g.fabric[0] = '\0';
        if (rows[i].fabric[0] != '\0') {
            read_fixture(rows[i].fabric, &text);
            fr_gpus_parse_fabric(&g, text.p);
        }
        g.switches = rows[i].switches;
        check_row(rows[i].word);
        CHECK_INT(fr_gpus_error_802(&g, why), rows[i].fails);
        CHECK(strstr(why, rows[i].word) != NULL);
        fr_buf_finish(&text);
    }
    check_row("");
    CHECK(fr_version_compare("535.104.05", "535.129.03") < 0);
    CHECK(fr_version_compare("550.54", "535.129.03") > 0);
    CHECK(fr_version_compare("12.2", "12.2") == 0);
    CHECK(fr_version_compare("12", "12.1") < 0);
    fr_buf_finish(&csv);
    fr_buf_finish(&banner);
}

/* A folder with nvidia-smi and nv-fabricmanager that print recorded output. */
static char *plant_gpus(struct bed *b, const char *fabric)
{
    char *dir = text_at(b, "%s/%s", "planted");
    struct fr_buf path = {0}, script = {0};

    CHECK(fr_mkdirs(dir, 0755, NULL) == FR_OK);
    fr_buf_fmt(&path, "%s/nvidia-smi", dir);
    put(path.p, "#!/bin/sh\ncase $1 in\n--query-gpu*) cat " FIXTURES
                "/nvidia-smi-query.csv;;\n--query-compute*) cat " FIXTURES
                "/nvidia-smi-apps.csv;;\n*) cat " FIXTURES "/nvidia-smi-banner.txt;;\nesac\n");
    path.n = 0;
    fr_buf_fmt(&path, "%s/nv-fabricmanager", dir);
    fr_buf_fmt(&script, "#!/bin/sh\ncat " FIXTURES "/%s\n", fabric);
    put(path.p, script.p);
    fr_buf_finish(&path);
    fr_buf_finish(&script);
    return dir;
}

/* Node n2, in a process of its own, with planted GPUs. Its exit status is the task's. */
static pid_t start_second(struct bed *b, const char *with, const char *planted)
{
    pid_t pid = fork();

    if (pid == 0) {
        struct fr_buf path = {0};
        fr_buf_fmt(&path, "%s:%s", planted, getenv("PATH"));
        setenv("PATH", path.p, 1);
        setenv("NODE_RANK", "1", 1);
        setenv("FLOWRUN_NODE", "n2", 1);
        struct said s = run_task(b, "preflight", with);
        _exit(s.code);
    }
    return pid;
}

static void test_preflight_gang(struct bed *b)
{
    static const char with[] = "{\"disk\": 1, \"fabric_manager\": \"require\"}";
    char *planted = plant_gpus(b, "fabric-manager-old.txt"), port_text[16];
    int port, status = 0, fd = fr_sys.hold_port(0, &port);

    fr_sys.close(fd);
    snprintf(port_text, sizeof(port_text), "%d", port);
    setenv("NNODES", "2", 1);
    setenv("FLOWRUN_RUN", "r1", 1);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("MASTER_PORT", port_text, 1);
    pid_t second = start_second(b, with, planted);
    setenv("NODE_RANK", "0", 1);
    setenv("FLOWRUN_NODE", "n1", 1);
    struct said s = run_task(b, "preflight", with);
    waitpid(second, &status, 0);
    CHECK_INT(s.code, 1);
    CHECK_INT(WEXITSTATUS(status), 1);
    CHECK(says(&s.out, "*535.129.03")); /* n2's driver, marked */
    CHECK(says(&s.out, "problem: n2: driver 535.129.03, n1 has -"));
    CHECK(says(&s.out,
               "problem: n2: Fabric Manager 535.104.05 is not the driver's 535.129.03: CUDA "
               "fails with error 802"));
    CHECK(says(&s.out, "warning: n2: nvidia-smi's order is not that of PCI"));
    CHECK(says(&s.out, "note: n1: no nvidia-smi here"));
    said_finish(&s);

    second = start_second(b, "{\"disk\": 1, \"same\": false}", planted);
    s = run_task(b, "preflight", "{\"disk\": 1, \"same\": false}");
    waitpid(second, &status, 0);
    CHECK_INT(s.code, 0);
    CHECK_INT(status, 0);
    CHECK(says(&s.out, "warning: n2: Fabric Manager"));
    static const char *const vars[] = {"NNODES",      "NODE_RANK",    "MASTER_ADDR",
                                       "MASTER_PORT", "FLOWRUN_NODE", "FLOWRUN_RUN"};
    for (size_t i = 0; i < sizeof(vars) / sizeof(vars[0]); i++)
        unsetenv(vars[i]);
    said_finish(&s);
}

int main(int argc, char **argv)
{
    struct bed b;

    if (!bed_begin(&b, argc, argv))
        return EXIT_FAILURE;
    test_gpus();
    test_preflight_gang(&b);
    bed_end(&b);
    return check_done();
}
