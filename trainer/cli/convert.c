/*
 * flowtrain convert: a checkpoint in bf16 as FP8 in blocks, as DeepSeek-V3 is released, and back.
 */
#include "trainer/cli/cli.h"

#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "trainer/config/folder.h"
#include "trainer/save/quantize.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct convert {
    const char *model_dir, *output;
    enum { FP8, BF16 } to;
    int64_t shard_bytes;
    struct tr_model_config config;
    struct tr_st *st;
};

static enum fr_rc check(const struct convert *c, struct fr_err *err)
{
    char here[PATH_MAX], there[PATH_MAX];

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
                                .shard_bytes = c->shard_bytes,
                                .fp8 = c->to == FP8};
    int64_t converted;
    enum fr_rc rc =
        tr_folder_load(&(struct tr_folder){.dir = c->model_dir}, &c->config, &c->st, err);
    if (rc != FR_OK)
        return rc;
    o.st = c->st;
    if ((rc = tr_convert(&o, &converted, err)) == FR_OK)
        fr_print("converted %lld weights to %s in %s\n", (long long)converted,
                 o.fp8 ? "fp8" : "bf16", c->output);
    return rc;
}

static enum fr_rc convert(struct tr_call *call, struct fr_err *err)
{
    struct convert *c = call->options;
    enum fr_rc rc = check(c, err);

    if (rc == FR_OK)
        rc = run(c, err);
    tr_st_close(c->st);
    return rc;
}

#define AT(member) offsetof(struct convert, member)

static const struct tr_flag flags[] = {
    TR_FLAG("model_name_or_path", TR_TEXT, AT(model_dir), "a checkpoint folder"),
    TR_FLAG("to", TR_CHOICE, AT(to), "fp8 (blocks of 128 x 128, a multiplier each) or bf16",
            .choices = "fp8 bf16"),
    TR_FLAG("output", TR_TEXT, AT(output), "folder to write"),
    TR_FLAG("max_shard_size", TR_SIZE, AT(shard_bytes), "bytes of a file, at most [5GB]"),
};

const struct tr_command tr_cmd_convert = {
    .name = "convert",
    .summary = "write a checkpoint in FP8 or in bf16",
    .usage = "flowtrain convert: a checkpoint in FP8 or in bf16\n\n",
    TR_FLAGS(flags, struct convert),
    .initial = &(const struct convert){.shard_bytes = 5000000000},
    .needs = "model_name_or_path to output",
    .run = convert,
};
