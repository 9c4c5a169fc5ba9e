/* The end of an attempt: its outputs, its survivors, and the record of both. */
#include "engine/supervise/outputs.h"
#include "engine/supervise/reason.h"
#include "engine/supervise/private.h"

#include <string.h>

enum {
    RECORD_RETRY_MS = 1000,
    LOG_DRAIN_ROUNDS = 64,
    SECRET_MIN = 4 /* bytes: a shorter text occurs anywhere by chance */
};

static void journal_end(struct sup *s, enum fr_rec_kind kind, struct fr_err *err, enum fr_rc *rc)
{
    struct fr_buf b = {0};
    struct fr_rec rec = {.kind = kind, .attempt = s->a->prepare.attempt};

    fr_ended_put(&s->end, &b);
    rec.ended = (struct fr_str){b.p, b.n};
    *rc = b.bad ? fr_fail(err, FR_NOMEM, "no memory for the end")
                : fr_journal_append(s->home.journal, &rec, err);
    fr_buf_finish(&b);
}

/* A short secret may stand in a text by chance: only a text that equals it counts. */
static bool holds_secret(const struct sup *s, const char *p, size_t n)
{
    for (size_t k = 0; k < s->masked.n; k++) {
        struct fr_str secret = s->masked.v[k];
        if (secret.n < SECRET_MIN ? fr_str_eq((struct fr_str){p, n}, secret)
                                  : memmem(p, n, secret.p, secret.n) != NULL)
            return true;
    }
    return false;
}

/* Reads the outputs of the command. Outputs are stored, so one that holds a secret is an error, and
 * there are none then. The error does not quote a secret. */
static enum fr_rc read_outputs(struct sup *s, struct fr_err *err)
{
    struct fr_strs *outs = &s->end.outputs;
    struct fr_buf text = {0};
    enum fr_rc rc = fr_outputs_read(s->output, &text, err);

    *outs = (struct fr_strs){0};
    if (rc == FR_OK && text.n > 0)
        rc = fr_outputs_parse((struct fr_str){text.p, text.n}, &s->req->outputs, &s->arena, outs,
                              err);
    if (rc == FR_USAGE && holds_secret(s, text.p, text.n))
        fr_fail(err, FR_USAGE, "FLOWRUN_OUTPUT is not right, and holds a secret: it is not shown");
    for (size_t i = 0; rc == FR_OK && i < outs->n; i++) {
        struct fr_str out = outs->v[i];
        const char *eq = memchr(out.p, '=', out.n);
        size_t n = eq != NULL ? (size_t)(eq - out.p) : out.n - 1;
        if (holds_secret(s, out.p + n + 1, out.n - n - 1))
            rc = fr_fail(err, FR_USAGE, "output %.*s holds a secret, which would be stored", (int)n,
                         out.p);
    }
    if (rc != FR_OK)
        *outs = (struct fr_strs){0};
    fr_buf_finish(&text);
    return rc;
}

/* The record holds the outputs. If this process is killed now, or a power cut takes their file, the
 * journal has the only copy. */
void sup_journal_exit(struct sup *s)
{
    const struct fr_str text = s->end.text;
    struct fr_err err;
    enum fr_rc rc;

    if (s->exited && s->req->outputs.n > 0 && read_outputs(s, &err) != FR_OK)
        s->end.text = fr_reason_keep(err.msg, &s->arena);
    journal_end(s, FR_REC_EXITED, &err,
                &rc); /* a full disk shows again, and is waited for, at ENDED */
    s->end.text = text;
}

/* Whether the task is a built-in one, whose last line of output is the reason of its failure. */
static bool built_in(const struct fr_request *req)
{
    const struct fr_strs *lists[] = {&req->env, &req->secret_env};

    for (size_t i = 0; i < 2; i++)
        for (size_t k = 0; k < lists[i]->n; k++)
            if (fr_has_prefix(lists[i]->v[k].p, FR_ENV_WITH "="))
                return true;
    return false;
}

void sup_drop_dir(struct sup *s)
{
    char **names;
    size_t n;

    if (s->dir[0] == '\0' || s->end.survivors.n > 0 || s->req->leaves ||
        fr_sys.list(s->dir, &names, &n) != 0)
        return;
    fr_sys_names_free(names, n);
    if (n == 0 && s->process->socket_fd >= 0 && fr_id_zero(s->process->spare_dir))
        s->process->spare_dir = s->a->prepare.attempt;
    else if (n == 0)
        fr_sys.rmdir(s->dir);
}

void sup_gather_end(struct sup *s)
{
    struct fr_err err;

    for (size_t i = 0; i < s->n_streams; i++) {
        for (int k = 0; k < LOG_DRAIN_ROUNDS && s->streams[i].fd >= 0; k++)
            sup_stream_read(s, &s->streams[i]);
        sup_stream_end(s, &s->streams[i]);
    }
    fr_logfile_end(&s->log);
    fr_metrics_end(&s->metrics);
    s->end.metrics_bytes = s->metrics.size;
    s->end.log_bytes = s->log.size;
    s->end.dropped_bytes = s->log.dropped;
    if (s->end.ended_ms == 0) {
        s->end.ended_ms = fr_sys.mono_ms();
        s->end.ended_boot_ms = fr_sys.boot_ms();
    }
    s->end.survivors = fr_stopper_survivors(&s->stopper, &s->arena);
    if (s->end.launched && read_outputs(s, &err) != FR_OK) {
        s->end.text = fr_reason_keep(err.msg, &s->arena);
        fr_sys.unlink(s->output);
    }
    if (s->exited && s->end.code != 0 && built_in(s->req))
        s->end.text = fr_reason_read(s->log.fd, s->log.size, &s->req->sidecars, &s->arena);
    s->phase = SUP_RECORDING;
    s->retry_ms = 0;
}

void sup_record(struct sup *s)
{
    struct fr_err err;
    enum fr_rc rc;

    if (fr_sys.mono_ms() < s->retry_ms)
        return;
    journal_end(s, FR_REC_ENDED, &err, &rc);
    s->retry_ms = fr_sys.mono_ms() + RECORD_RETRY_MS;
    if (rc == FR_OK)
        s->phase = SUP_OVER;
}
