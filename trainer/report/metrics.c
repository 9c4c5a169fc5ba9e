#include "trainer/report/metrics.h"

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "trainer/text/pyjson.h"
#include "trainer/text/text.h"
#include "trainer/report/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BAR_CELLS = 30 };

void tr_say(const char *fmt, ...)
{
    char text[1024], when[32];
    int64_t ms = fr_sys.wall_ms();
    time_t s = (time_t)(ms / 1000);
    struct tm tm;
    va_list ap;

    localtime_r(&s, &tm);
    strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &tm);
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    fr_complain("[INFO|train] %s,%03d >> %s\n", when, (int)(ms % 1000), text);
}

/* "1:02:03" or "1 day, 0:00:01", as Python's timedelta prints whole seconds. */
void tr_log_seconds(double seconds, char out[48])
{
    int64_t s = seconds > 0 ? (int64_t)seconds : 0, days = s / 86400;
    char clock[24];

    snprintf(clock, sizeof(clock), "%lld:%02lld:%02lld", (long long)(s % 86400 / 3600),
             (long long)(s / 60 % 60), (long long)(s % 60));
    if (days > 0)
        snprintf(out, 48, "%lld day%s, %s", (long long)days, days > 1 ? "s" : "", clock);
    else
        snprintf(out, 48, "%s", clock);
}

double tr_metrics_epoch(const struct tr_derived *d, const struct tr_progress *p)
{
    return (double)p->epoch + (double)p->micro / (double)d->micro_shown;
}

double tr_metrics_token_flops(const struct tr_model_counts *c, int64_t adapters)
{
    return 6 * (double)(c->total - c->router_biases - c->embedding + adapters);
}

double tr_log_flos(const struct tr_metrics *m, const struct tr_progress *p)
{
    return m->flops_per_token * (double)p->padded_tokens;
}

static double elapsed(const struct tr_metrics *m, const struct tr_progress *p)
{
    return p->seconds + (double)(fr_sys.mono_ms() - m->start_ms) / 1000;
}

static void log_path(const struct tr_metrics *m, char out[PATH_MAX])
{
    snprintf(out, PATH_MAX, "%s/trainer_log.jsonl", m->args->output_dir);
}

static void open_events(struct tr_metrics *m, int64_t resume_step)
{
    char dir[PATH_MAX], when[32], host[65] = "host";
    time_t s = (time_t)(fr_sys.wall_ms() / 1000);
    struct tm tm;
    struct fr_buf args = {0}, text = {0};

    m->events.fd = -1;
    if (m->args->report_to == TR_REPORT_NONE)
        return;
    localtime_r(&s, &tm);
    strftime(when, sizeof(when), "%b%d_%H-%M-%S", &tm);
    gethostname(host, sizeof(host) - 1);
    if (m->args->logging_dir != NULL)
        snprintf(dir, sizeof(dir), "%s", m->args->logging_dir);
    else
        snprintf(dir, sizeof(dir), "%s/runs/%s_%s", m->args->output_dir, when, host);
    tr_events_open(&m->events, dir, resume_step);
    if (tr_args_json(m->args, &args, NULL) == FR_OK && !args.bad) {
        fr_buf_text(&text, "    ");
        for (size_t i = 0; i < args.n; i++) { /* an indented block is shown as it is */
            fr_buf_add(&text, args.p + i, 1);
            if (args.p[i] == '\n')
                fr_buf_text(&text, "    ");
        }
        tr_events_text(&m->events, "args/text_summary", (struct fr_str){text.p, text.n});
    }
    fr_buf_finish(&args);
    fr_buf_finish(&text);
}

enum fr_rc tr_metrics_start(struct tr_metrics *m, const struct tr_metrics_opts *o,
                            const struct tr_progress *p, struct fr_err *err)
{
    char path[PATH_MAX];

    *m = (struct tr_metrics){.args = o->args,
                             .derived = o->derived,
                             .events = {.fd = -1},
                             .start_ms = fr_sys.mono_ms(),
                             .last_log_ms = fr_sys.mono_ms(),
                             .last_tokens = p->tokens,
                             .start_step = p->step,
                             .checkpoint = p->step,
                             .flops_per_token = o->flops_per_token,
                             .quiet = o->quiet,
                             .resumed = o->resumed};
    if (o->quiet)
        return FR_OK;
    m->bar = !o->args->disable_tqdm && isatty(STDERR_FILENO);
    log_path(m, path);
    if (!o->resumed && fr_sys.unlink(path) != 0 && errno != ENOENT)
        return fr_fail_errno(err, errno, "cannot remove the old %s", path);
    open_events(m, o->resumed ? p->step + 1 : -1);
    return FR_OK;
}

void tr_metrics_finish(struct tr_metrics *m)
{
    if (m->args != NULL)
        tr_events_close(&m->events);
}

void tr_metrics_banner(const struct tr_metrics *m, const struct tr_progress *p, int64_t trainable)
{
    const struct {
        const char *name;
        int64_t value;
    } rows[] = {
        {"Num examples", m->derived->examples},
        {"Num Epochs", m->derived->epochs},
        {"Instantaneous batch size per device", m->args->per_device_train_batch_size},
        {"Total train batch size (w. parallel, distributed & accumulation)",
         m->derived->total_batch},
        {"Gradient Accumulation steps", m->args->gradient_accumulation_steps},
        {"Total optimization steps", m->derived->total_steps},
        {"Number of trainable parameters", trainable},
    };
    char count[32];

    tr_say("***** Running training *****");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tr_show_count(rows[i].value, count);
        tr_say("  %s = %s", rows[i].name, count);
    }
    if (!m->resumed)
        return;
    tr_say("  Continuing training from checkpoint, will skip to saved global_step");
    tr_say("  Continuing training from epoch %lld", (long long)p->epoch);
    tr_say("  Continuing training from global step %lld", (long long)p->step);
    tr_say("  Will skip the first %lld epochs then the first %lld batches in the first epoch.",
           (long long)p->epoch, (long long)p->micro);
}

/* A full disk must not end a run: it is logged once. */
static void append_log(struct tr_metrics *m, const json_t *row)
{
    char path[PATH_MAX];
    struct fr_buf line = {0};

    log_path(m, path);
    int fd = fr_sys.open(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
    fr_json_add(&line, row, JSON_COMPACT | JSON_PRESERVE_ORDER);
    fr_buf_text(&line, "\n");
    if (fd < 0 || line.bad || !fr_write_full(fd, line.p, line.n)) {
        if (!m->log_broken)
            fr_log(FR_LOG_WARN, "train", "cannot write %s: %s", path, strerror(errno));
        m->log_broken = true;
    }
    if (fd >= 0)
        fr_sys.close(fd);
    fr_buf_finish(&line);
}

void tr_log_number(json_t *o, const char *key, double v)
{
    json_object_set_new(o, key, fr_json_real(v));
}

/* The figures of an evaluation, without its speed. */
static void put_figures(json_t *row, const json_t *entry)
{
    const char *key;
    json_t *v;

    json_object_foreach((json_t *)entry, key, v)
    {
        if (fr_has_prefix(key, "eval_") && (tr_ends(key, "_loss") || tr_ends(key, "_accuracy")))
            json_object_set(row, key, v);
    }
}

void tr_log_row(struct tr_metrics *m, const struct tr_progress *p, const json_t *entry,
                double tokens_s)
{
    double total = (double)m->derived->total_steps, done = (double)p->step, past = elapsed(m, p);
    char text[48];
    json_t *row = json_object();

    json_object_set_new(row, "current_steps", json_integer(p->step));
    json_object_set_new(row, "total_steps", json_integer(m->derived->total_steps));
    put_figures(row, entry);
    if (json_object_get(entry, "loss") != NULL) {
        json_object_set(row, "loss", json_object_get(entry, "loss"));
        json_object_set(row, "grad_norm", json_object_get(entry, "grad_norm"));
        json_object_set(row, "lr", json_object_get(entry, "learning_rate"));
    }
    tr_log_number(row, "epoch", tr_metrics_epoch(m->derived, p));
    tr_log_number(row, "percentage", round(done / total * 10000) / 100);
    tr_log_seconds(past, text);
    json_object_set_new(row, "elapsed_time", json_string(text));
    tr_log_seconds(done > 0 ? past / done * (total - done) : 0, text);
    json_object_set_new(row, "remaining_time", json_string(text));
    if (tokens_s > 0)
        tr_log_number(row, "throughput", round(tokens_s * 100) / 100);
    json_object_set_new(row, "total_tokens", json_integer(p->tokens));
    if (m->checkpoint > 0)
        json_object_set_new(row, "checkpoint", json_integer(m->checkpoint));
    append_log(m, row);
    json_decref(row);
}

void tr_log_events(struct tr_metrics *m, const json_t *entry, int64_t step)
{
    const char *key;
    json_t *v;
    char tag[96];

    json_object_foreach((json_t *)entry, key, v)
    {
        if (!json_is_number(v) || strcmp(key, "step") == 0)
            continue;
        if (fr_has_prefix(key, "eval_"))
            snprintf(tag, sizeof(tag), "eval/%s", key + 5);
        else
            snprintf(tag, sizeof(tag), "train/%s", key);
        tr_events_scalar(&m->events, tag, json_number_value(v), step);
    }
}

/* As it is: fr_complain() would show control characters as text. */
static void to_terminal(const char *text)
{
    (void)!fr_write_full(STDERR_FILENO, text, strlen(text));
}

/* Writes one log entry to the console, the log file and TensorBoard. */
static void show_entry(struct tr_metrics *m, const struct tr_progress *p, const json_t *entry,
                       double tokens_s)
{
    static const char *const keys[] = {"loss", "grad_norm", "learning_rate", "epoch"};
    static const double places[] = {1e4, 0, 0, 100};
    struct fr_buf line = {0};
    char text[32];

    for (size_t i = 0; i < 4; i++) {
        const json_t *field = json_object_get(entry, keys[i]);
        double v = json_is_number(field) ? json_number_value(field) : NAN;
        tr_show_float(places[i] > 0 ? round(v * places[i]) / places[i] : v, text);
        fr_buf_fmt(&line, "'%s': %s, ", keys[i], text);
    }
    if (m->bar)
        to_terminal("\r\x1b[K");
    fr_print("{%s'tokens_per_second': %.1f}\n", line.p, tokens_s);
    fflush(stdout);
    fr_buf_finish(&line);
    tr_log_row(m, p, entry, tokens_s);
    tr_log_events(m, entry, p->step);
    tr_events_scalar(&m->events, "train/tokens_per_second", tokens_s, p->step);
}

enum fr_rc tr_metrics_log(struct tr_metrics *m, struct tr_progress *p, double grad_norm, double lr,
                          struct fr_err *err)
{
    int64_t now = fr_sys.mono_ms();
    double loss = p->steps_since_log > 0 ? p->loss_since_log / (double)p->steps_since_log : 0;
    double seconds = (double)(now - m->last_log_ms) / 1000;
    double tokens_s = seconds > 0 ? (double)(p->tokens - m->last_tokens) / seconds : 0;
    double epoch = tr_metrics_epoch(m->derived, p);
    json_t *entry = json_object();

    tr_log_number(entry, "loss", loss);
    tr_log_number(entry, "grad_norm", grad_norm);
    tr_log_number(entry, "learning_rate", lr);
    tr_log_number(entry, "epoch", epoch);
    json_object_set_new(entry, "step", json_integer(p->step));
    if (json_array_append(p->history, entry) != 0) {
        json_decref(entry);
        return fr_fail(err, FR_NOMEM, "no memory for the log history");
    }
    if (!m->quiet)
        show_entry(m, p, entry, tokens_s);
    json_decref(entry);
    p->loss_since_log = 0;
    p->steps_since_log = 0;
    m->last_log_ms = now;
    m->last_tokens = p->tokens;
    return FR_OK;
}

enum fr_rc tr_metrics_evaluated(struct tr_metrics *m, struct tr_progress *p, const json_t *figures,
                                struct fr_err *err)
{
    json_t *entry = json_copy((json_t *)figures);
    struct fr_buf line = {0};
    const char *key;
    char text[32];
    json_t *v;

    json_object_foreach(entry, key, v)
    {
        double x = json_is_number(v) ? json_number_value(v) : NAN;
        tr_show_float(strcmp(key, "epoch") == 0 ? round(x * 100) / 100 : x, text);
        fr_buf_fmt(&line, "%s'%s': %s", line.n > 0 ? ", " : "", key, text);
    }
    json_object_set_new(entry, "step", json_integer(p->step));
    if (line.bad || json_array_append(p->history, entry) != 0) {
        json_decref(entry);
        fr_buf_finish(&line);
        return fr_fail(err, FR_NOMEM, "no memory for the log history");
    }
    if (!m->quiet) {
        if (m->bar)
            to_terminal("\r\x1b[K");
        fr_print("{%s}\n", line.p);
        fflush(stdout);
        tr_log_row(m, p, entry, 0);
        tr_log_events(m, entry, p->step);
    }
    json_decref(entry);
    fr_buf_finish(&line);
    return FR_OK;
}

void tr_metrics_bar(const struct tr_metrics *m, const struct tr_progress *p)
{
    double share = (double)p->step / (double)m->derived->total_steps, past = elapsed(m, p);
    int cells = (int)(share * BAR_CELLS);
    char bar[BAR_CELLS + 1], spent[48], left[48], line[256];

    if (!m->bar)
        return;
    for (int i = 0; i < BAR_CELLS; i++)
        bar[i] = i < cells ? '#' : '.';
    bar[BAR_CELLS] = '\0';
    tr_log_seconds(past, spent);
    tr_log_seconds(share > 0 ? past / share - past : 0, left);
    snprintf(line, sizeof(line), "\r%3.0f%%|%s| %lld/%lld [%s<%s]\x1b[K%s", share * 100, bar,
             (long long)p->step, (long long)m->derived->total_steps, spent, left,
             p->step == m->derived->total_steps ? "\n" : "");
    to_terminal(line);
}
