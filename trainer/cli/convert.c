/*
 * flowtrain convert: a checkpoint in bf16 as FP8 in blocks, as DeepSeek-V3 is released, and back.
 */
#include "trainer/cli/cli.h"

#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "trainer/config/folder.h"
#include "trainer/save/recode.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct convert {
    const char *model_dir, *output, *to, *shard_size;
    struct tr_model_config config;
    struct tr_st *st;
};

static enum fr_rc check(const struct convert *c, struct fr_err *err)
{
    char here[PATH_MAX], there[PATH_MAX];

    if (c->model_dir == NULL || c->output == NULL || c->to == NULL)
        return fr_fail(err, FR_USAGE, "--model_name_or_path, --to and --output are needed");
    if (strcmp(c->to, "fp8") != 0 && strcmp(c->to, "bf16") != 0)
        return fr_fail(err, FR_USAGE, "--to is '%s', expected fp8 or bf16", c->to);
    if (realpath(c->output, here) != NULL && realpath(c->model_dir, there) != NULL &&
        strcmp(here, there) == 0)
        return fr_fail(err, FR_USAGE, "--output %s is the checkpoint itself: give another folder",
                       c->output);
    return FR_OK;
}

static enum fr_rc run(struct convert *c, struct fr_err *err)
{
    struct tr_convert_opts o = {.config = &c->config,
                                .model_dir = c->model_dir,
                                .out_dir = c->output,
                                .fp8 = strcmp(c->to, "fp8") == 0};
    int64_t converted;
    enum fr_rc rc = fr_parse_size(fr_str_of(c->shard_size), &o.shard_bytes, err);

    if (rc != FR_OK || o.shard_bytes < 1)
        return fr_fail(err, FR_USAGE, "--max_shard_size is '%s', expected a size as 5GB",
                       c->shard_size);
    rc = tr_folder_load(&(struct tr_folder){.dir = c->model_dir}, &c->config, &c->st, err);
    if (rc != FR_OK)
        return rc;
    o.st = c->st;
    if ((rc = tr_convert(&o, &converted, err)) == FR_OK)
        fr_print("converted %lld weights to %s in %s\n", (long long)converted, c->to, c->output);
    return rc;
}

enum fr_rc tr_cmd_convert(int argc, const char *const *argv, struct fr_err *err)
{
    struct convert c = {.shard_size = "5GB"};
    const struct tr_flag flags[] = {
        {"model_name_or_path", &c.model_dir, NULL, "a checkpoint folder"},
        {"to", &c.to, NULL, "fp8 (blocks of 128 x 128, a multiplier each) or bf16"},
        {"output", &c.output, NULL, "folder to write"},
        {"max_shard_size", &c.shard_size, NULL, "bytes of a file, at most [5GB]"},
    };
    struct tr_flags fl = {.flags = flags, .n = sizeof(flags) / sizeof(flags[0])};
    enum fr_rc rc;

    if (tr_wants_help(argc, argv))
        return tr_flags_print("flowtrain convert: a checkpoint in FP8 or in bf16", &fl, err);
    rc = tr_flags_read(&fl, argc, argv, err);
    if (rc == FR_OK)
        rc = check(&c, err);
    if (rc == FR_OK)
        rc = run(&c, err);
    tr_st_close(c.st);
    return rc;
}
