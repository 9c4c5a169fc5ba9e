/*
 * flowtrain convert: a checkpoint in bf16 as FP8 in blocks, as DeepSeek-V3 is released, and back; a
 * model folder of a checkpoint that DeepSpeed wrote.
 */
#include "trainer/cli/cli.h"

#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "trainer/config/args.h"
#include "trainer/config/folder.h"
#include "trainer/save/from_deepspeed.h"
#include "trainer/save/quantize.h"

#include <string.h>

struct convert {
    const char *model_dir, *output, *deepspeed;
    const char *to; /* fp8 or bf16; with deepspeed the folder to write */
    enum { FLOAT32, BFLOAT16, FLOAT16 } save_dtype;
    bool fp8;
    int64_t shard_bytes;
    struct tr_model_config config;
    struct tr_st *st;
};

static enum fr_rc check(const struct convert *c, struct fr_err *err)
{
    if (tr_folder_same(c->output, c->model_dir))
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
                                .fp8 = c->fp8};
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

static enum fr_rc from_deepspeed(const struct convert *c, struct fr_err *err)
{
    static const enum tr_dtype types[] = {TR_F32, TR_BF16, TR_F16};
    struct tr_from_deepspeed o = {.checkpoint = c->deepspeed,
                                  .out_dir = c->to,
                                  .type = types[c->save_dtype],
                                  .shard_bytes = c->shard_bytes};
    struct fr_buf said = {0};
    enum fr_rc rc;

    if (c->to == NULL)
        return fr_fail(err, FR_USAGE, "--to is missing: with --from_deepspeed the folder to write");
    if (c->model_dir != NULL || c->output != NULL)
        return fr_fail(err, FR_USAGE, "--from_deepspeed goes without --%s",
                       c->model_dir != NULL ? "model_name_or_path" : "output: --to is the folder");
    if (strcmp(c->to, "fp8") == 0 || strcmp(c->to, "bf16") == 0)
        return fr_fail(err, FR_USAGE,
                       "--to is the folder to write with --from_deepspeed, and --save_dtype the "
                       "type; a folder %s is --to ./%s",
                       c->to, c->to);
    if ((rc = tr_from_deepspeed(&o, &said, err)) == FR_OK)
        fr_print("%s", said.p != NULL ? said.p : "");
    fr_buf_finish(&said);
    return rc;
}

static enum fr_rc from_model(struct convert *c, struct fr_err *err)
{
    enum fr_rc rc;

    if (c->model_dir == NULL || c->to == NULL || c->output == NULL)
        return fr_fail(err, FR_USAGE,
                       "--model_name_or_path, --to and --output are needed, or "
                       "--from_deepspeed and --to");
    if (c->save_dtype != FLOAT32)
        return fr_fail(err, FR_USAGE, "--save_dtype belongs to --from_deepspeed");
    c->fp8 = strcmp(c->to, "fp8") == 0;
    if (!c->fp8 && strcmp(c->to, "bf16") != 0)
        return fr_fail(err, FR_USAGE, "--to is '%s', expected fp8 or bf16", c->to);
    return (rc = check(c, err)) == FR_OK ? run(c, err) : rc;
}

static enum fr_rc convert(struct tr_call *call, struct fr_err *err)
{
    struct convert *c = call->options;
    enum fr_rc rc = c->deepspeed != NULL ? from_deepspeed(c, err) : from_model(c, err);

    tr_st_close(c->st);
    return rc;
}

#define AT(member) offsetof(struct convert, member)

static const struct tr_flag flags[] = {
    TR_FLAG("model_name_or_path", TR_TEXT, AT(model_dir), "a checkpoint folder"),
    TR_FLAG(
        "to", TR_TEXT, AT(to),
        "fp8 (blocks of 128 x 128, a multiplier each) or bf16; with --from_deepspeed the folder "
        "to write"),
    TR_FLAG("from_deepspeed", TR_TEXT, AT(deepspeed),
            "a checkpoint of DeepSpeed: the folder with its file 'latest', or of one step"),
    TR_FLAG("save_dtype", TR_CHOICE, AT(save_dtype),
            "type of the floats of --from_deepspeed [float32]",
            .choices = "float32 bfloat16 float16"),
    TR_FLAG("output", TR_TEXT, AT(output), "folder to write"),
    TR_FLAG("max_shard_size", TR_SIZE, AT(shard_bytes), "bytes of a file, at most [5GB]"),
};

const struct tr_command tr_cmd_convert = {
    .name = "convert",
    .summary = "write a checkpoint in FP8 or in bf16, or one of DeepSpeed as a model folder",
    .usage = "flowtrain convert: a checkpoint in FP8 or in bf16, or one of DeepSpeed as a model "
             "folder\n\n",
    TR_FLAGS(flags, struct convert),
    .initial = &(const struct convert){.shard_bytes = TR_SHARD_BYTES},
    .run = convert,
};
