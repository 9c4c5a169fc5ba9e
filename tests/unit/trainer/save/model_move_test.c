/* A model takes the place of an earlier one in a folder: at no moment does an index name files that
 * are gone or not there yet, and what is not the model's stays. */
#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "tests/unit/check.h"
#include "trainer/save/export_model.h"

#include <errno.h>
#include <unistd.h>

static char dir[] = "/tmp/flowtrain-move-XXXXXX";
static const char index_name[] = "model.safetensors.index.json";

static struct {
    int unlinks, renames; /* so far */
    int fail_at;          /* of both, from 1; 0: none */
    bool on, syncs;       /* looked at; the folder was synced since the last change */
} seen;

static void put(const char *path)
{
    CHECK_INT(fr_file_write(path, "x", 1, 0644, NULL), FR_OK);
}

static bool there(const char *path)
{
    return access(path, F_OK) == 0;
}

static bool ends_in(const char *path, const char *end)
{
    size_t n = strlen(path), k = strlen(end);

    return n >= k && strcmp(path + n - k, end) == 0;
}

static bool fails(void)
{
    if (seen.unlinks + seen.renames != seen.fail_at)
        return false;
    errno = EACCES;
    return true;
}

/* Weights go when no index is there any more, and its going is synced. */
static int see_unlink(const char *path)
{
    if (!seen.on || strncmp(path, "out/", 4) != 0)
        return fr_sys_real.unlink(path);
    seen.unlinks++;
    if (!ends_in(path, index_name))
        CHECK(!there("out/model.safetensors.index.json"));
    if (fails())
        return -1;
    seen.syncs = false;
    return fr_sys_real.unlink(path);
}

/* An index comes when all weights are there. */
static int see_rename(const char *from, const char *to)
{
    if (!seen.on || strncmp(to, "out/", 4) != 0)
        return fr_sys_real.rename(from, to);
    seen.renames++;
    CHECK(!there("out/model.safetensors") && !there("out/model-00009-of-00009.safetensors"));
    if (ends_in(to, index_name)) {
        CHECK(there("out/model-00001-of-00002.safetensors") &&
              there("out/model-00002-of-00002.safetensors") && seen.syncs);
    } else {
        CHECK(!there("out/model.safetensors.index.json"));
    }
    if (fails())
        return -1;
    seen.syncs = false;
    return fr_sys_real.rename(from, to);
}

static int see_sync(int fd)
{
    seen.syncs = true;
    return fr_sys_real.fdatasync(fd);
}

/* An earlier model in two forms, an adapter of its own, and files of others. */
static const char *const old[] = {"model.safetensors", "model-00009-of-00009.safetensors",
                                  "model.safetensors.index.json", "adapter_config.json",
                                  "adapter_model.safetensors"};
static const char *const kept[] = {"modeling.py", "model_notes.txt", "other.safetensors",
                                   "trainer_log.jsonl", "adapter_notes.json"};
static const char *const fresh[] = {"model-00001-of-00002.safetensors",
                                    "model-00002-of-00002.safetensors",
                                    "model.safetensors.index.json", "config.json"};

static void check_all(const char *const *names, size_t n, bool want)
{
    char path[100];

    for (size_t i = 0; i < n; i++) {
        (void)snprintf(path, sizeof(path), "out/%s", names[i]);
        if (!CHECK(there(path) == want))
            printf("   %s\n", path);
    }
}

static void make(void)
{
    char path[100];

    seen.on = false;
    CHECK_INT(fr_remove_tree("out", NULL), FR_OK);
    CHECK_INT(fr_remove_tree("new", NULL), FR_OK);
    CHECK(fr_mkdirs("out", 0755, NULL) == FR_OK && fr_mkdirs("new", 0755, NULL) == FR_OK);
    for (size_t i = 0; i < sizeof(old) / sizeof(old[0]); i++) {
        (void)snprintf(path, sizeof(path), "out/%s", old[i]);
        put(path);
    }
    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
        (void)snprintf(path, sizeof(path), "out/%s", kept[i]);
        put(path);
    }
    for (size_t i = 0; i < sizeof(fresh) / sizeof(fresh[0]); i++) {
        (void)snprintf(path, sizeof(path), "new/%s", fresh[i]);
        put(path);
    }
    memset(&seen, 0, sizeof(seen));
    seen.on = true;
}

static void test_move(void)
{
    struct fr_err err = {0};

    check_row("in place of an earlier model");
    make();
    CHECK_INT(tr_export_model_move("new", "out", &err), FR_OK);
    CHECK_INT(seen.unlinks, 5);
    CHECK_INT(seen.renames, 4);
    CHECK(seen.syncs && !there("new"));
    check_all(old, 2, false);
    check_all(old + 3, 2, false);
    check_all(kept, sizeof(kept) / sizeof(kept[0]), true);
    check_all(fresh, sizeof(fresh) / sizeof(fresh[0]), true);
    for (int k = 1; k <= 9; k++) {
        check_row("a call fails");
        make();
        seen.fail_at = k;
        err = (struct fr_err){0};
        CHECK_INT(tr_export_model_move("new", "out", &err), FR_IO);
        CHECK(strstr(err.msg, k <= 5 ? "cannot remove out/" : "cannot rename new/") != NULL);
        CHECK_INT(seen.unlinks + seen.renames, k);
        CHECK(there("new"));
        check_all(kept, sizeof(kept) / sizeof(kept[0]), true);
    }
    check_row("no folder");
    CHECK_INT(tr_export_model_move("nowhere", "out", &err), FR_IO);
}

static void test_clear(void)
{
    check_row("cleared");
    make();
    CHECK_INT(tr_export_model_clear("out", NULL), FR_OK);
    CHECK(seen.syncs);
    check_all(old, sizeof(old) / sizeof(old[0]), false);
    check_all(kept, sizeof(kept) / sizeof(kept[0]), true);
}

int main(void)
{
    if (mkdtemp(dir) == NULL || chdir(dir) != 0)
        return EXIT_FAILURE;
    fr_sys.unlink = see_unlink;
    fr_sys.rename = see_rename;
    fr_sys.fdatasync = see_sync;
    test_move();
    test_clear();
    fr_sys = fr_sys_real;
    CHECK(chdir("/") == 0 && fr_remove_tree(dir, NULL) == FR_OK);
    return check_done();
}
