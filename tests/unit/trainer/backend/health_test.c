/*
 * A GPU before a run: recorded texts of nvidia-smi and of the kernel, each with one thing wrong,
 * and a machine of two NUMA nodes.
 */
#include "trainer/backend/health.h"

#include "engine/base/file.h"
#include "tests/unit/check.h"

#include <limits.h>
#include <unistd.h>

#define FIXTURES SOURCE_ROOT "/tests/unit/fixtures/"

static const struct tr_device_id gpu = {"GPU-0a1b2c3d-1111-2222-3333-444455556666", "0000:18:00.0"};

/* A fixture in which the n-th place of `what` holds `now`; NULL: as it is. */
static struct fr_buf fixture(const char *name, const char *what, const char *now)
{
    struct fr_buf whole = {0}, text = {0};
    char path[PATH_MAX];
    const char *at;

    snprintf(path, sizeof(path), FIXTURES "%s", name);
    CHECK(fr_file_read(path, 1 << 20, &whole, NULL) == FR_OK);
    if (what == NULL)
        return whole;
    at = strstr(whole.p, what);
    if (!CHECK(at != NULL))
        return whole;
    fr_buf_add(&text, whole.p, (size_t)(at - whole.p));
    fr_buf_text(&text, now);
    fr_buf_text(&text, at + strlen(what));
    fr_buf_finish(&whole);
    return text;
}

/* What is changed in nvidia-smi's text, and what is said of it. */
static void smi_cases(void)
{
    static const struct {
        const char *name, *what, *now;
        bool fails;
        const char *says; /* "": nothing */
    } rows[] = {
        {"a sound GPU", NULL, NULL, false, ""},
        {"uncorrected DRAM", "DRAM Uncorrectable            : 0", "DRAM Uncorrectable : 2", true,
         "2 uncorrected memory errors (ECC): reset it by `nvidia-smi --gpu-reset -i GPU-0a1b2c3d"},
        {"uncorrected SRAM", "SRAM Uncorrectable SEC-DED    : 0", "SRAM Uncorrectable SEC-DED : 1",
         true, "1 uncorrected memory errors"},
        {"no ECC", "DRAM Uncorrectable            : 0", "DRAM Uncorrectable : N/A", false, ""},
        {"rows that wait", "Pending                           : No", "Pending : Yes", false,
         "rows that wait to be remapped: reset it"},
        {"rows that are lost", "Occurred        : No", "Occurred : Yes", true,
         "could not be remapped: leave it out of CUDA_VISIBLE_DEVICES"},
        {"no fabric yet", "State                             : Completed", "State : In Progress",
         true, "NVSwitch fabric (state: In Progress): start Fabric Manager"},
        {"no NVSwitch", "State                             : Completed", "State : N/A", false, ""},
        {"another program's text", "==============NVSMI LOG==============", "ECC Errors", false,
         ""},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fr_buf text = fixture("nvidia-smi-q.txt", rows[i].what, rows[i].now), notes = {0};
        struct tr_health h = {.smi = text.p};
        struct fr_err err = {0};
        enum fr_rc rc = tr_health_check(&h, &gpu, &notes, &err);
        const char *said = rc != FR_OK ? err.msg : notes.n > 0 ? notes.p : "";

        check_row(rows[i].name);
        CHECK_INT(rc, rows[i].fails ? FR_UNSUPPORTED : FR_OK);
        CHECK(rc == FR_OK || notes.n == 0);
        if (rows[i].says[0] == '\0')
            CHECK_TEXT(said, "");
        else if (!CHECK(strstr(said, rows[i].says) != NULL))
            printf("%s\n", said);
        fr_buf_finish(&text);
        fr_buf_finish(&notes);
    }
}

static void kernel_cases(void)
{
    static const struct {
        const char *name, *bus, *says;
    } rows[] = {
        {"the last one that counts", "0000:18:00.0", "the kernel's log has Xid 94 since"},
        {"another device", "0000:3B:00.0", "Xid 79"}, /* in either case of letters */
        {"none", "0000:19:00.0", ""},
    };
    struct fr_buf text = fixture("kernel-xid.txt", NULL, NULL);

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tr_health h = {.kernel = text.p};
        struct tr_device_id id = gpu;
        struct fr_buf notes = {0};

        check_row(rows[i].name);
        snprintf(id.bus, sizeof(id.bus), "%s", rows[i].bus);
        CHECK_INT(tr_health_check(&h, &id, &notes, NULL), FR_OK);
        if (rows[i].says[0] == '\0')
            CHECK_INT(notes.n, 0);
        else
            CHECK(notes.n > 0 && strstr(notes.p, rows[i].says) != NULL);
        fr_buf_finish(&notes);
    }
    fr_buf_finish(&text);
}

static void put(const char *root, const char *dir, const char *name, const char *text)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s%s", root, dir);
    CHECK(fr_mkdirs(path, 0755, NULL) == FR_OK);
    snprintf(path, sizeof(path), "%s%s/%s", root, dir, name);
    CHECK(fr_file_write(path, text, strlen(text), 0644, NULL) == FR_OK);
}

static void numa_cases(void)
{
    char root[] = "/tmp/health_test.XXXXXX";
    cpu_set_t cpus;
    int node = -1;

    check_row("NUMA");
    CHECK(mkdtemp(root) != NULL);
    put(root, "/sys/bus/pci/devices/0000:18:00.0", "numa_node", "1\n");
    put(root, "/sys/bus/pci/devices/0000:19:00.0", "numa_node", "-1\n");
    put(root, "/sys/devices/system/node/node1", "cpulist", "4-7,12,14-15\n");
    CHECK(tr_numa_of(root, "0000:18:00.0", &node, &cpus));
    CHECK_INT(node, 1);
    CHECK_INT(CPU_COUNT(&cpus), 7);
    CHECK(CPU_ISSET(4, &cpus) && CPU_ISSET(12, &cpus) && CPU_ISSET(15, &cpus));
    CHECK(!CPU_ISSET(8, &cpus) && !CPU_ISSET(13, &cpus));
    CHECK(!tr_numa_of(root, "0000:19:00.0", &node, &cpus));
    CHECK(!tr_numa_of(root, "0000:20:00.0", &node, &cpus));
    CHECK(!tr_numa_of(root, "", &node, &cpus));
    CHECK(fr_remove_tree(root, NULL) == FR_OK);
}

int main(void)
{
    smi_cases();
    kernel_cases();
    numa_cases();
    return check_done();
}
