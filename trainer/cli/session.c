#include "trainer/cli/session.h"

#include "engine/base/log.h"
#include "trainer/comm/launch_env.h"
#include "trainer/report/progress_log.h"

#include <string.h>

/* --bf16, --fp16 and --infer_dtype. */
static enum fr_rc read_dtype(struct tr_session *s, const struct tr_session_flags *f,
                             struct fr_err *err)
{
    static const struct {
        const char *name;
        enum tr_dtype type;
    } types[] = {[TR_DTYPE_AUTO] = {"auto", TR_F32},
                 [TR_DTYPE_F32] = {"float32", TR_F32},
                 [TR_DTYPE_BF16] = {"bfloat16", TR_BF16},
                 [TR_DTYPE_F16] = {"float16", TR_F16}};

    if (f->bf16 && f->fp16)
        return fr_fail(err, FR_USAGE, "--bf16 and --fp16 exclude each other");
    s->compute = f->bf16 ? TR_BF16 : f->fp16 ? TR_F16 : types[f->dtype].type;
    if (f->dtype != TR_DTYPE_AUTO && s->compute != types[f->dtype].type)
        return fr_fail(err, FR_USAGE, "--infer_dtype %s and --%s exclude each other",
                       types[f->dtype].name, f->bf16 ? "bf16" : "fp16");
    return FR_OK;
}

static enum fr_rc read_flags(struct tr_session *s, const struct tr_session_flags *f,
                             struct fr_err *err)
{
    if (f->model_dir == NULL)
        return fr_fail(err, FR_USAGE, "--model_name_or_path is missing");
    s->flags = f;
    s->ranks.device = f->device;
    s->ranks.transport = f->transport;
    s->stay = f->experts >= 0;
    s->owners = f->experts == 0 ? TR_EXPERTS_NODE : TR_EXPERTS_WORLD;
    return read_dtype(s, f, err);
}

static void tell_tokenizer(const struct tr_tokenizer *t)
{
    struct fr_buf notes = {0};

    tr_tokenizer_notes(t, &notes);
    if (notes.n > 0)
        fr_complain("%s", notes.p);
    fr_buf_finish(&notes);
}

static enum fr_rc open_session(struct tr_session *s, const struct tr_session_flags *f,
                               const struct tr_call *call, struct fr_err *err)
{
    enum fr_rc rc = read_flags(s, f, err);

    if (rc == FR_OK)
        rc = tr_launch_env(&s->comm_opts, err);
    s->comm_opts.timeout_ms = f->timeout * 1000;
    if (rc == FR_OK && s->comm_opts.rank == 0)
        tr_arg_map_tell(call);
    if (rc == FR_OK && f->template_name != NULL)
        rc = tr_template_choose(f->template_name, f->model_dir, &s->templ, err);
    if (rc == FR_OK && s->templ != NULL)
        rc = tr_tokenizer_load(f->model_dir, &s->tokenizer, err);
    if (rc == FR_OK && s->tokenizer != NULL && s->comm_opts.rank == 0)
        tell_tokenizer(s->tokenizer);
    if (rc == FR_OK && s->templ != NULL)
        rc = tr_template_fix(s->templ, s->tokenizer, err);
    return rc == FR_OK ? tr_ranks_join(&s->ranks, &s->comm_opts, err) : rc;
}

enum fr_rc tr_session_run(struct tr_call *call, const struct tr_session_flags *f,
                          enum fr_rc (*run)(struct tr_session *s, const void *options,
                                            struct fr_err *err),
                          struct fr_err *err)
{
    struct tr_session s = {.tokenizer = NULL};
    enum fr_rc rc = open_session(&s, f, call, err);

    if (rc == FR_OK)
        rc = run(&s, call->options, err);
    if (rc != FR_OK && s.ranks.comm != NULL)
        tr_comm_abort(s.ranks.comm, err->msg);
    tr_comm_destroy(s.ranks.comm);
    tr_backend_destroy(s.ranks.be);
    tr_comm_opts_finish(&s.comm_opts);
    tr_tokenizer_destroy(s.tokenizer);
    return rc;
}

struct tr_infer_opts tr_session_model(const struct tr_session *s)
{
    return (struct tr_infer_opts){.be = s->ranks.be,
                                  .comm = s->ranks.comm,
                                  .model_dir = s->flags->model_dir,
                                  .adapter_dir = s->flags->adapter_dir,
                                  .compute = s->compute,
                                  .stay = s->stay,
                                  .owners = s->owners};
}

enum fr_rc tr_session_data(const struct tr_session *s, struct tr_dataset **out, struct fr_err *err)
{
    const struct tr_session_flags *f = s->flags;
    struct tr_dataset_opts o = {
        .dataset = f->dataset,
        .dataset_dir = f->dataset_dir,
        .templ = s->templ,
        .text = {.cutoff_len = f->cutoff_len,
                 .default_system = f->system,
                 .no_thinking = !f->thinking},
        .max_samples = f->max_samples,
        .seed = 42,
    };
    struct tr_progress_log log = tr_progress_log_begin("Tokenizing", "records", 0);
    struct fr_buf warnings = {0};
    enum fr_rc rc;

    if (s->ranks.comm->rank == 0)
        o.tell = (struct tr_data_tell){tr_progress_log_tell, &log};
    if (s->templ == NULL)
        return fr_fail(err, FR_USAGE, "--template is missing (deepseek3, default, empty …)");
    rc = tr_dataset_load(&o, s->tokenizer, out, &warnings, err);
    if (rc == FR_OK && s->ranks.comm->rank == 0 && warnings.n > 0)
        fr_complain("%s", warnings.p);
    fr_buf_finish(&warnings);
    return rc;
}
