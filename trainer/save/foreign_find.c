#include "trainer/save/foreign.h"

#include "engine/base/sys.h"
#include "trainer/save/export.h"
#include "trainer/save/resume.h"

#include <stdio.h>
#include <string.h>

static bool has(const char *dir, const char *name)
{
    char path[PATH_MAX];
    struct stat st;

    return snprintf(path, sizeof(path), "%s/%s", dir, name) < (int)sizeof(path) &&
           fr_sys.lstat(path, &st) == 0;
}

static bool has_ending(const char *dir, const char *ending)
{
    char **names = NULL;
    size_t n = 0;
    bool found = false;

    if (fr_sys.list(dir, &names, &n) != 0)
        return false;
    for (size_t i = 0; i < n; i++)
        found = found || fr_str_ends(fr_str_of(names[i]), ending);
    fr_sys_names_free(names, n);
    return found;
}

static enum tr_foreign_kind kind_of(const char *dir)
{
    if (has(dir, "latest") || has(dir, "latest_universal") || has_ending(dir, "_states.pt"))
        return TR_FOREIGN_DEEPSPEED;
    return has(dir, "optimizer.pt") ? TR_FOREIGN_TRAINER : TR_FOREIGN_NONE;
}

/* What a folder is that no resume state belongs to either. */
static enum fr_rc refuse_others(const char *dir, struct fr_err *err)
{
    static const char *const files[] = {"optimizer.bin", "optimizer_0", "pytorch_model_fsdp_0"};

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        if (has(dir, files[i]))
            return fr_fail(err, FR_UNSUPPORTED,
                           "--resume_from_checkpoint %s: %s is of FSDP or of accelerate's "
                           "save_state, whose states are not read: begin with its weights, "
                           "--model_name_or_path %s without --resume_from_checkpoint",
                           dir, files[i], dir);
    return FR_OK;
}

static bool any_word(const char *from)
{
    return from == NULL || strcmp(from, "last") == 0 || strcmp(from, "true") == 0 ||
           strcmp(from, "True") == 0;
}

static void find_newest(const char *output_dir, struct tr_foreign *out)
{
    int64_t steps[1024], newest = -1;
    size_t n = tr_export_steps(output_dir, steps, sizeof(steps) / sizeof(steps[0]));

    for (size_t i = 0; i < n; i++)
        newest = steps[i] > newest ? steps[i] : newest;
    if (newest < 0 || snprintf(out->dir, sizeof(out->dir), "%s/checkpoint-%lld", output_dir,
                               (long long)newest) >= (int)sizeof(out->dir))
        return;
    out->kind = kind_of(out->dir);
}

static enum fr_rc look(const char *from, const char *output_dir, struct tr_foreign *out,
                       struct fr_err *err)
{
    if (any_word(from)) {
        find_newest(output_dir, out);
        return FR_OK;
    }
    if (snprintf(out->dir, sizeof(out->dir), "%s", from) >= (int)sizeof(out->dir))
        return fr_fail(err, FR_USAGE, "--resume_from_checkpoint: a folder's name is too long");
    out->kind = kind_of(from);
    return out->kind == TR_FOREIGN_NONE ? refuse_others(from, err) : FR_OK;
}

enum fr_rc tr_foreign_find(const char *from, const char *output_dir, struct tr_comm *world,
                           struct tr_foreign *out, struct fr_err *err)
{
    struct fr_err mine = {0}, first = {0};
    double states = any_word(from) && tr_resume_any(output_dir);
    enum fr_rc rc = tr_comm_host_sum(world, &states, 1, err);

    *out = (struct tr_foreign){.kind = TR_FOREIGN_NONE};
    if (rc != FR_OK || states > 0)
        return rc;
    if (world->rank == 0)
        mine.rc = look(from, output_dir, out, &mine);
    rc = tr_comm_host_first_error(world, &mine, &first, err);
    if (rc == FR_OK && first.rc != FR_OK)
        return fr_fail(err, first.rc, "%s", first.msg);
    return rc == FR_OK ? tr_comm_host_broadcast(world, out, sizeof(*out), 0, err) : rc;
}
