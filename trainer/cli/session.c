#include "trainer/cli/session.h"

#include "engine/base/log.h"
#include "trainer/backend/device.h"
#include "trainer/comm/launch_env.h"
#include "trainer/report/pace.h"

#include <string.h>

enum fr_rc tr_session_int(const char *name, const char *text, int64_t min, int64_t max,
                          int64_t *out, struct fr_err *err)
{
    if (fr_parse_i64(fr_str_of(text), out, NULL) == FR_OK && *out >= min && *out <= max)
        return FR_OK;
    return fr_fail(err, FR_USAGE, "--%s is '%s', expected %lld to %lld", name, text, (long long)min,
                   (long long)max);
}

enum fr_rc tr_session_real(const char *name, const char *text, double min, double max, double *out,
                           struct fr_err *err)
{
    if (fr_parse_f64(fr_str_of(text), out, NULL) == FR_OK && *out >= min && *out <= max)
        return FR_OK;
    return fr_fail(err, FR_USAGE, "--%s is '%s', expected %g to %g", name, text, min, max);
}

/* --bf16, --fp16 and --infer_dtype. */
static enum fr_rc read_dtype(struct tr_session *s, const struct tr_session_flags *f,
                             struct fr_err *err)
{
    static const struct {
        const char *name;
        enum tr_dtype type;
    } names[] = {{"float32", TR_F32}, {"bfloat16", TR_BF16}, {"float16", TR_F16}};
    size_t i = 0;

    if (f->bf16 && f->fp16)
        return fr_fail(err, FR_USAGE, "--bf16 and --fp16 exclude each other");
    s->compute = f->bf16 ? TR_BF16 : f->fp16 ? TR_F16 : TR_F32;
    if (strcmp(f->dtype, "auto") == 0)
        return FR_OK;
    while (i < 3 && strcmp(f->dtype, names[i].name) != 0)
        i++;
    if (i == 3)
        return fr_fail(err, FR_USAGE,
                       "--infer_dtype is '%s', expected auto, float32, bfloat16 or float16",
                       f->dtype);
    if (s->compute != TR_F32 && s->compute != names[i].type)
        return fr_fail(err, FR_USAGE, "--infer_dtype %s and --%s exclude each other", f->dtype,
                       f->bf16 ? "bf16" : "fp16");
    s->compute = names[i].type;
    return FR_OK;
}

static enum fr_rc read_flags(struct tr_session *s, const struct tr_session_flags *f,
                             struct fr_err *err)
{
    static const char *const transports[] = {"auto", "nccl", "host"};
    int64_t seconds = 0;
    bool thinking;
    size_t t = 0;
    enum fr_rc rc;

    if (f->model_dir == NULL)
        return fr_fail(err, FR_USAGE, "--model_name_or_path is missing");
    if ((rc = read_dtype(s, f, err)) != FR_OK)
        return rc;
    if (fr_parse_bool(fr_str_of(f->thinking), &thinking, NULL) != FR_OK)
        return fr_fail(err, FR_USAGE, "--enable_thinking is '%s', expected true or false",
                       f->thinking);
    s->no_thinking = !thinking;
    while (t < 3 && strcmp(f->transport, transports[t]) != 0)
        t++;
    if (t == 3)
        return fr_fail(err, FR_USAGE, "--transport is '%s', expected auto, nccl or host",
                       f->transport);
    s->ranks.transport = (enum tr_transport)t;
    s->stay = f->experts != NULL;
    s->owners = s->stay && strcmp(f->experts, "node") == 0 ? TR_EXPERTS_NODE : TR_EXPERTS_WORLD;
    if (s->stay && s->owners == TR_EXPERTS_WORLD && strcmp(f->experts, "world") != 0)
        return fr_fail(err, FR_USAGE, "--experts is '%s', expected node or world", f->experts);
    s->max_samples = -1;
    if ((rc = tr_session_int("cutoff_len", f->cutoff_len, 1, 1 << 24, &s->cutoff_len, err)) ==
            FR_OK &&
        (rc = tr_session_int("batch", f->batch, 1, 1 << 16, &s->batch, err)) == FR_OK &&
        (rc = tr_session_int("ddp_timeout", f->timeout, 1, 1 << 30, &seconds, err)) == FR_OK &&
        f->max_samples != NULL)
        rc = tr_session_int("max_samples", f->max_samples, 1, INT64_MAX, &s->max_samples, err);
    s->comm_opts.timeout_ms = seconds * 1000;
    return rc == FR_OK ? tr_device_parse(f->device, &s->ranks.device, err) : rc;
}

static void tell_tokenizer(const struct tr_tokenizer *t)
{
    struct fr_buf notes = {0};

    tr_tokenizer_notes(t, &notes);
    if (notes.n > 0)
        fr_complain("%s", notes.p);
    fr_buf_finish(&notes);
}

enum fr_rc tr_session_open(struct tr_session *s, const struct tr_session_flags *f,
                           const struct tr_arg_map *map, struct fr_err *err)
{
    int64_t timeout_ms;
    enum fr_rc rc = read_flags(s, f, err);

    timeout_ms = s->comm_opts.timeout_ms;
    if (rc == FR_OK)
        rc = tr_launch_env(&s->comm_opts, err);
    s->comm_opts.timeout_ms = timeout_ms;
    if (rc == FR_OK && s->comm_opts.rank == 0)
        tr_arg_map_tell(map);
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

void tr_session_close(struct tr_session *s, const struct fr_err *why)
{
    if (why != NULL && s->ranks.comm != NULL)
        tr_comm_abort(s->ranks.comm, why->msg);
    tr_comm_destroy(s->ranks.comm);
    tr_backend_destroy(s->ranks.be);
    tr_comm_opts_finish(&s->comm_opts);
    tr_tokenizer_destroy(s->tokenizer);
}

enum fr_rc tr_session_data(const struct tr_session *s, const struct tr_session_flags *f,
                           struct tr_dataset **out, struct fr_err *err)
{
    struct tr_dataset_opts o = {
        .dataset = f->dataset,
        .dataset_dir = f->dataset_dir,
        .templ = s->templ,
        .text = {.cutoff_len = s->cutoff_len,
                 .default_system = f->system,
                 .no_thinking = s->no_thinking},
        .max_samples = s->max_samples,
        .seed = 42,
    };
    struct tr_pace pace = tr_pace_begin("Tokenizing", "records", 0);
    struct fr_buf warnings = {0};
    enum fr_rc rc;

    if (s->ranks.comm->rank == 0)
        o.tell = (struct tr_data_tell){tr_pace_tell, &pace};
    if (s->templ == NULL)
        return fr_fail(err, FR_USAGE, "--template is missing (deepseek3, default, empty …)");
    rc = tr_dataset_load(&o, s->tokenizer, out, &warnings, err);
    if (rc == FR_OK && s->ranks.comm->rank == 0 && warnings.n > 0)
        fr_complain("%s", warnings.p);
    fr_buf_finish(&warnings);
    return rc;
}
