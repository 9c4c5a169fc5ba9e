/*
 * All that a run's log writes and prints, by a clock that the test sets, against texts and pictures
 * that were read in review (tests/golden/run); `results_test write` makes them anew.
 */
#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "tests/unit/check.h"
#include "trainer/report/metrics.h"
#include "trainer/report/plot.h"
#include "trainer/report/tensorboard.h"
#include "trainer/train/loading.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <time.h>

enum { LARGEST = 1 << 20 };

static char dir[] = "/tmp/flowtrain-results-XXXXXX";
static bool anew;
static int64_t mono, wall;

static int64_t mono_now(void)
{
    return mono;
}

static int64_t wall_now(void)
{
    return wall;
}

/* ---- against what is kept ---- */

static void keep(const char *name, const void *p, size_t n)
{
    char path[4096];
    struct fr_buf want = {0};

    check_row(name);
    (void)snprintf(path, sizeof(path), SOURCE_ROOT "/tests/golden/run/%s", name);
    if (anew)
        CHECK_INT(fr_file_write(path, p, n, 0644, NULL), FR_OK);
    if (CHECK_INT(fr_file_read(path, LARGEST, &want, NULL), FR_OK) &&
        !CHECK(want.n == n && memcmp(want.p, p, n) == 0) && memchr(p, '\0', n) == NULL)
        printf("   got:\n%.*s\n", (int)n, (const char *)p);
    fr_buf_finish(&want);
}

static void keep_file(const char *name, const char *path)
{
    struct fr_buf got = {0};

    check_row(path);
    if (CHECK_INT(fr_file_read(path, LARGEST, &got, NULL), FR_OK))
        keep(name, got.p, got.n);
    fr_buf_finish(&got);
}

static void hear(void *arg, int fd, const char *text, size_t n)
{
    fr_buf_text(arg, fd == 1 ? "" : "! ");
    fr_buf_add(arg, text, n);
}

static int no_error(void *arg)
{
    (void)arg;
    return 0;
}

/* ---- event files ---- */

static uint64_t varint(const unsigned char **p)
{
    uint64_t v = 0;

    for (int at = 0;; at += 7) {
        v |= (uint64_t)(**p & 0x7f) << at;
        if (*(*p)++ < 0x80)
            return v;
    }
}

/* The fields of an Event, of its summary and of the value there, one line each; texts but for what
 * an argument more would change. */
static void show_event(const unsigned char *p, size_t n, const char *in, struct fr_buf *out)
{
    const unsigned char *end = p + n;

    while (p < end) {
        uint64_t key = varint(&p), field = key >> 3;
        double real;
        float single;

        fr_buf_fmt(out, "%s%d", in, (int)field);
        if ((key & 7) == 0)
            fr_buf_fmt(out, " %lld\n", (long long)varint(&p));
        else if ((key & 7) == 1) {
            memcpy(&real, p, 8);
            fr_buf_fmt(out, " %.3f\n", real);
            p += 8;
        } else if ((key & 7) == 5) {
            memcpy(&single, p, 4);
            fr_buf_fmt(out, " %.9g\n", (double)single);
            p += 4;
        } else {
            uint64_t length = varint(&p);
            const void *text = memmem(p, length, "    {", 5); /* the arguments */

            if (field == 5 || (field == 1 && strcmp(in, ".") == 0)) {
                fr_buf_text(out, "\n");
                show_event(p, length, in[0] == '\0' ? "." : "..", out);
            } else if (field == 8 && text != NULL)
                fr_buf_fmt(out, " %.16s\n", (const char *)text);
            else {
                for (uint64_t i = 0; i < length; i++)
                    fr_buf_fmt(out, p[i] < ' ' ? " %02x" : "%c", p[i]);
                fr_buf_text(out, "\n");
            }
            p += length;
        }
    }
}

static void keep_events(const char *name, const char *folder)
{
    DIR *d = opendir(folder);
    struct fr_buf raw = {0}, out = {0};
    char path[4096] = "";

    for (struct dirent *e = d != NULL ? readdir(d) : NULL; e != NULL; e = readdir(d))
        if (e->d_name[0] == 'e')
            (void)snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
    if (d != NULL)
        (void)closedir(d);
    check_row(name);
    CHECK(strstr(path, "/events.out.tfevents.1700000000.") != NULL);
    CHECK_INT(fr_file_read(path, LARGEST, &raw, NULL), FR_OK);
    for (size_t at = 0; at + 16 <= raw.n;) {
        uint64_t n;

        memcpy(&n, raw.p + at, sizeof(n));
        show_event((const unsigned char *)raw.p + at + 12, n, "", &out);
        at += n + 16;
    }
    keep(name, out.p, out.n);
    fr_buf_finish(&raw);
    fr_buf_finish(&out);
}

/* ---- runs ---- */

struct bed {
    struct tr_args args;
    struct tr_derived derived;
    struct tr_progress progress;
    struct tr_metrics metrics;
    struct fr_buf said;
    struct fr_printer before;
};

static void begin(struct bed *b, const char *out)
{
    memset(b, 0, sizeof(*b));
    tr_args_init(&b->args);
    b->args.output_dir = out;
    b->args.eval_strategy = TR_STRATEGY_STEPS;
    b->args.per_device_train_batch_size = 2;
    b->args.gradient_accumulation_steps = 3;
    b->args.num_train_epochs = 2.5;
    b->args.report_to = TR_REPORT_NONE;
    b->derived = (struct tr_derived){.examples = 1234,
                                     .world = 4,
                                     .micro_per_rank = 16,
                                     .micro_shown = 16,
                                     .steps_per_epoch = 6,
                                     .total_steps = 12,
                                     .epochs = 3,
                                     .total_batch = 24,
                                     .save_every = 5,
                                     .log_every = 2,
                                     .eval_every = 4};
    b->progress.history = json_array();
    b->before = fr_print_by(&(struct fr_printer){hear, no_error, &b->said});
    mono = 1000;
    wall = 1700000000123;
}

static void start(struct bed *b, bool resumed, bool quiet)
{
    struct tr_metrics_opts o = {.args = &b->args,
                                .derived = &b->derived,
                                .flops_per_token = 6e6,
                                .resumed = resumed,
                                .quiet = quiet};

    CHECK_INT(tr_metrics_start(&b->metrics, &o, &b->progress, NULL), FR_OK);
    b->metrics.bar = false; /* whatever stderr is */
}

static void end(struct bed *b)
{
    (void)fr_print_by(b->before.put != NULL ? &b->before : NULL);
    tr_metrics_finish(&b->metrics);
    json_decref(b->progress.history);
    fr_buf_finish(&b->said);
    tr_args_finish(&b->args);
}

static void step(struct bed *b, double loss, int64_t ms)
{
    mono += ms;
    wall += ms;
    b->progress.tokens += 700;
    b->progress.padded_tokens += 768;
    tr_progress_advance(&b->progress, 3, loss);
}

static void evaluated(struct bed *b, double loss)
{
    json_t *figures =
        json_pack("{s:o, s:f, s:f, s:f, s:f, s:f, s:f}", "eval_loss",
                  isfinite(loss) ? json_real(loss) : json_null(), "eval_accuracy", 0.75,
                  "eval_odd_loss", 2.0, "eval_runtime", 1.5, "eval_samples_per_second", 80.25,
                  "eval_steps_per_second", 10.5, "epoch", 0.56789);

    CHECK_INT(tr_metrics_evaluated(&b->metrics, &b->progress, figures, NULL), FR_OK);
    json_decref(figures);
}

/* A run from its first step on, with an evaluation that is the best, and another. */
static void test_whole(void)
{
    struct bed b;

    begin(&b, "out");
    b.args.early_stopping_steps = 2;
    CHECK_INT(fr_mkdirs("out/checkpoint-4", 0755, NULL), FR_OK);
    CHECK_INT(fr_file_write("out/trainer_log.jsonl", "of another run\n", 15, 0644, NULL), FR_OK);
    CHECK_INT(fr_file_write("out/all_results.json", "[]", 2, 0644, NULL), FR_OK);
    start(&b, false, false);
    tr_metrics_banner(&b.metrics, &b.progress, 1234567);
    step(&b, 2.34567891, 1500);
    step(&b, 2.5, 1250);
    CHECK_INT(tr_metrics_log(&b.metrics, &b.progress, 0.123456789, 1.5e-4, NULL), FR_OK);
    step(&b, NAN, 100);
    step(&b, 1.25, 400);
    CHECK_INT(tr_metrics_log(&b.metrics, &b.progress, NAN, 0, NULL), FR_OK);
    evaluated(&b, 1.2345678);
    b.progress.best_step = 4;
    b.progress.best_metric = 1.2345678;
    b.metrics.checkpoint = 4;
    for (int i = 0; i < 4; i++)
        step(&b, 1, 36 * 1000);
    CHECK_INT(tr_metrics_log(&b.metrics, &b.progress, 1, 1e-5, NULL), FR_OK);
    CHECK_INT(tr_metrics_log(&b.metrics, &b.progress, 1, 1e-5, NULL), FR_OK); /* nothing since */
    evaluated(&b, NAN);
    b.progress.not_better = 1;
    b.progress.epoch = 1;
    b.progress.micro = 8;
    check_row("whether it is over");
    CHECK(!tr_metrics_over(&b.metrics, &b.progress));
    b.progress.not_better = 2;
    CHECK(tr_metrics_over(&b.metrics, &b.progress));
    mono += 6000;
    CHECK_INT(tr_metrics_end(&b.metrics, &b.progress, NULL), FR_OK);
    keep("printed.out", b.said.p, b.said.n);
    keep_file("log.out", "out/trainer_log.jsonl");
    keep_file("state.out", "out/trainer_state.json");
    keep_file("train_results.out", "out/train_results.json");
    keep_file("train_results.out", "out/all_results.json");
    end(&b);
}

/* One that goes on from step 5, with events; a number of steps was asked for. */
static void test_resumed(void)
{
    struct bed b;

    begin(&b, "again");
    b.args.max_steps = 12;
    b.args.eval_strategy = TR_STRATEGY_NO;
    b.args.report_to = TR_REPORT_TENSORBOARD;
    b.args.logging_dir = "events";
    b.progress.step = 5;
    b.progress.epoch = 1;
    b.progress.micro = 12345;
    b.progress.tokens = 3500;
    b.progress.padded_tokens = 4000;
    b.progress.loss_total = 10;
    b.progress.seconds = 200000;
    CHECK_INT(fr_mkdirs("again", 0755, NULL), FR_OK);
    CHECK_INT(fr_file_write("again/trainer_log.jsonl", "{}\n", 3, 0644, NULL), FR_OK);
    CHECK_INT(
        fr_file_write("again/all_results.json", "{\"eval_loss\": 2, \"epoch\": 1}", 28, 0644, NULL),
        FR_OK);
    start(&b, true, false);
    tr_metrics_banner(&b.metrics, &b.progress, 999);
    b.progress.micro = 1;
    for (int i = 0; i < 7; i++) {
        step(&b, i == 4 ? NAN : 4.5 - i, 1000); /* as the mean since the last line */
        if (i % 2 == 0)
            CHECK_INT(tr_metrics_log(&b.metrics, &b.progress, 2.5, 1e-4, NULL), FR_OK);
    }
    evaluated(&b, 0.5);
    b.progress.best_step = 3; /* its checkpoint is gone */
    b.progress.best_metric = 0.5;
    check_row("over at the last step");
    CHECK(tr_metrics_over(&b.metrics, &b.progress));
    b.progress.step--;
    CHECK(!tr_metrics_over(&b.metrics, &b.progress));
    b.progress.step++;
    CHECK_INT(tr_metrics_end(&b.metrics, &b.progress, NULL), FR_OK);
    CHECK_INT(tr_metrics_save_state(&b.metrics, &b.progress, "again", NULL), FR_OK);
    b.progress.best_step = b.progress.step; /* its checkpoint is being written */
    CHECK_INT(tr_metrics_save_state(&b.metrics, &b.progress, "events", NULL), FR_OK);
    keep("resumed_printed.out", b.said.p, b.said.n);
    keep_file("resumed_log.out", "again/trainer_log.jsonl");
    keep_file("resumed_state.out", "again/trainer_state.json");
    keep_file("best_state.out", "events/trainer_state.json");
    keep_file("resumed_all_results.out", "again/all_results.json");
    end(&b);
    keep_events("resumed_events.out", "events");
}

/* A line every five seconds of a start, none when all is there, and one that says what it took. */
static void test_loading(void)
{
    static const struct {
        int64_t ms, mib;
    } steps[] = {{4999, 9}, {5000, 10}, {5001, 11}, {9999, 12}, {10000, 20}, {16000, 100}};
    struct fr_buf said = {0};
    struct fr_printer before = fr_print_by(&(struct fr_printer){hear, no_error, &said});
    struct tr_loading l;

    check_row("loading");
    wall = 1700000000123;
    mono = 1000;
    tr_loading_begin(&l);
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        mono = 1000 + steps[i].ms;
        l.tell.so_far(l.tell.arg, steps[i].mib << 20, 100 << 20);
    }
    mono = 1000 + 20000;
    tr_loading_end(&l);
    (void)fr_print_by(before.put != NULL ? &before : NULL);
    fr_buf_add(&said, "", 1);
#define LINE "! [INFO|train] 2023-11-14 22:13:20,123 >> "
    CHECK_TEXT(said.p, LINE "Loading weights: 10.0 MiB of 100.0 MiB, 2.0 MiB/s, 45.0s left\n" LINE
                            "Loading weights: 20.0 MiB of 100.0 MiB, 2.0 MiB/s, 40.0s left\n" LINE
                            "Weights loaded: 100.0 MiB in 20.0s, 5.0 MiB/s\n");
    fr_buf_finish(&said);
}

static int opened; /* files of events that were tried to be made */
static int open_error;

static int open_none(const char *path, int flags, mode_t mode)
{
    if (strstr(path, "tfevents") == NULL)
        return fr_sys_real.open(path, flags, mode);
    opened++;
    errno = open_error;
    return -1;
}

/* Two of a process in one second have a file each; what cannot be made is told once. */
static void test_events(void)
{
    static const struct {
        const char *name;
        int error, tries;
    } rows[] = {{"a folder that cannot be written", EACCES, 1},
                {"all names are taken", EEXIST, 1000}};
    struct tr_events e[2];
    struct fr_buf said = {0};
    struct fr_printer before = fr_print_by(&(struct fr_printer){hear, no_error, &said});
    char **names = NULL;
    size_t n = 0;

    check_row("two files of one second");
    wall = 1700000000123;
    for (int i = 0; i < 2; i++)
        tr_events_open(&e[i], "twice", -1);
    CHECK(e[0].fd >= 0 && e[1].fd >= 0);
    tr_events_scalar(&e[0], "x", 1, 1);
    for (int i = 0; i < 2; i++)
        tr_events_close(&e[i]);
    CHECK_INT(fr_sys.list("twice", &names, &n), 0);
    CHECK_INT(n, 2);
    for (size_t i = 0; i < n; i++)
        CHECK(strcmp(strrchr(names[i], '.'), ".0") == 0 ||
              strcmp(strrchr(names[i], '.'), ".1") == 0);
    fr_sys_names_free(names, n);
    CHECK_INT(said.n, 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        check_row(rows[i].name);
        fr_sys.open = open_none;
        opened = 0;
        open_error = rows[i].error;
        said.n = 0;
        tr_events_open(&e[0], "twice", -1);
        fr_sys.open = fr_sys_real.open;
        CHECK_INT(e[0].fd, -1);
        CHECK_INT(opened, rows[i].tries);
        fr_buf_add(&said, "", 1);
        CHECK(strstr(said.p, "no events are written: cannot make twice/events.out.tfevents.") !=
                  NULL &&
              strstr(said.p, strerror(rows[i].error)) != NULL);
    }
    (void)fr_print_by(before.put != NULL ? &before : NULL);
    fr_buf_finish(&said);
}

/* A rank that is not the first keeps the history, and says and writes nothing. */
static void test_quiet(void)
{
    struct bed b;

    begin(&b, "quiet");
    b.args.report_to = TR_REPORT_ALL;
    start(&b, false, true);
    step(&b, 3, 1000);
    CHECK_INT(tr_metrics_log(&b.metrics, &b.progress, 1, 2, NULL), FR_OK);
    evaluated(&b, 3);
    check_row("a quiet rank");
    CHECK_INT(json_array_size(b.progress.history), 2);
    CHECK_INT(b.said.n, 0);
    CHECK(access("quiet", F_OK) != 0);
    CHECK_INT(b.progress.steps_since_log, 0);
    end(&b);
}

/* A folder that cannot be written costs the log, and is told once. */
static void test_broken(void)
{
    struct bed b;

    begin(&b, "nowhere");
    start(&b, false, false);
    step(&b, 3, 1000);
    for (int i = 0; i < 2; i++)
        CHECK_INT(tr_metrics_log(&b.metrics, &b.progress, 1, 2, NULL), FR_OK);
    check_row("a log that cannot be written");
    CHECK(b.said.p != NULL &&
          strstr(b.said.p, "cannot write nowhere/trainer_log.jsonl: No such") != NULL &&
          strstr(strstr(b.said.p, "cannot write") + 1, "cannot write") == NULL);
    CHECK(tr_metrics_end(&b.metrics, &b.progress, NULL) != FR_OK);
    end(&b);
}

/* ---- on a terminal ---- */

static void test_bar(void)
{
    static const int64_t steps[] = {0, 1, 6, 11, 12};
    struct bed b;
    struct fr_buf got = {0};
    int fd = open("bar", O_RDWR | O_CREAT | O_TRUNC, 0600), own = dup(STDERR_FILENO);

    begin(&b, "out");
    start(&b, true, false);
    CHECK(fd >= 0 && own >= 0 && dup2(fd, STDERR_FILENO) >= 0);
    tr_metrics_bar(&b.metrics, &b.progress); /* none where there is no terminal */
    b.metrics.bar = true;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        b.progress.step = steps[i];
        mono = 1000 + steps[i] * 61500;
        tr_metrics_bar(&b.metrics, &b.progress);
    }
    CHECK_INT(tr_metrics_log(&b.metrics, &b.progress, 1, 2, NULL), FR_OK);
    evaluated(&b, 1);
    CHECK(dup2(own, STDERR_FILENO) >= 0);
    (void)close(own);
    (void)close(fd);
    check_row("the bar");
    CHECK_INT(fr_file_read("bar", LARGEST, &got, NULL), FR_OK);
    CHECK_TEXT(got.p, "\r  0%|..............................| 0/12 [0:00:00<0:00:00]\x1b[K"
                      "\r  8%|##............................| 1/12 [0:01:01<0:11:16]\x1b[K"
                      "\r 50%|###############...............| 6/12 [0:06:09<0:06:09]\x1b[K"
                      "\r 92%|###########################...| 11/12 [0:11:16<0:01:01]\x1b[K"
                      "\r100%|##############################| 12/12 [0:12:18<0:00:00]\x1b[K\n"
                      "\r\x1b[K\r\x1b[K");
    fr_buf_finish(&got);
    end(&b);
}

/* The bar is for a terminal, where it was not turned off; never that of a quiet rank. */
static void test_terminal(void)
{
    int pty = posix_openpt(O_RDWR | O_NOCTTY), own = dup(STDERR_FILENO), end_of = -1;
    struct bed b;

    check_row("a terminal");
    CHECK(pty >= 0 && grantpt(pty) == 0 && unlockpt(pty) == 0);
    CHECK((end_of = open(ptsname(pty), O_RDWR | O_NOCTTY)) >= 0 &&
          dup2(end_of, STDERR_FILENO) >= 0);
    for (int i = 0; i < 3; i++) {
        begin(&b, "out");
        b.args.disable_tqdm = i == 1;
        CHECK_INT(tr_metrics_start(
                      &b.metrics,
                      &(struct tr_metrics_opts){
                          .args = &b.args, .derived = &b.derived, .quiet = i == 2, .resumed = true},
                      &b.progress, NULL),
                  FR_OK);
        CHECK_INT(b.metrics.bar, i == 0);
        end(&b);
    }
    CHECK(dup2(own, STDERR_FILENO) >= 0);
    (void)close(own);
    (void)close(end_of);
    (void)close(pty);
}

/* ---- pictures ---- */

/* A curve with holes, one of a single point, one of equal values; none of what is not there. */
static void test_pictures(void)
{
    json_t *history = json_array();
    char long_dir[5000];

    for (int i = 0; i < 12; i++) {
        json_t *entry = json_pack("{s:i, s:f, s:f}", "step", 10 * i, "loss",
                                  3 * exp(-i / 5.0) - 0.2, "eval_a/b_loss", 1e-3);

        if (i == 4)
            json_object_set_new(entry, "loss", json_null());
        if (i == 5)
            json_object_del(entry, "step");
        if (i == 6)
            json_object_set_new(entry, "one", json_real(-2.5e6));
        (void)json_array_append_new(history, entry);
    }
    CHECK_INT(fr_mkdirs("drawn", 0755, NULL), FR_OK);
    CHECK_INT(tr_plot_history("drawn", history, "loss", NULL), FR_OK);
    CHECK_INT(tr_plot_history("drawn", history, "eval_a/b_loss", NULL), FR_OK);
    CHECK_INT(tr_plot_history("drawn", history, "one", NULL), FR_OK);
    CHECK_INT(tr_plot_history("drawn", history, "none", NULL), FR_OK);
    keep_file("loss.png", "drawn/training_loss.png");
    keep_file("one.png", "drawn/training_one.png");
    check_row("what is not drawn");
    CHECK(access("drawn/training_eval_a_b_loss.png", F_OK) == 0);
    CHECK(access("drawn/training_none.png", F_OK) != 0);
    memset(long_dir, 'x', sizeof(long_dir) - 1);
    long_dir[sizeof(long_dir) - 1] = '\0';
    CHECK_INT(tr_plot_history(long_dir, history, "loss", NULL), FR_USAGE);
    CHECK(tr_plot_history("nowhere", history, "loss", NULL) != FR_OK);
    json_decref(history);
}

int main(int argc, char **argv)
{
    anew = argc > 1 && strcmp(argv[1], "write") == 0;
    if (mkdtemp(dir) == NULL || chdir(dir) != 0)
        return EXIT_FAILURE;
    (void)setenv("TZ", "UTC", 1);
    tzset();
    fr_sys.mono_ms = mono_now;
    fr_sys.wall_ms = wall_now;
    test_whole();
    test_resumed();
    test_events();
    test_loading();
    test_quiet();
    test_broken();
    test_bar();
    test_terminal();
    test_pictures();
    CHECK(chdir("/") == 0 && fr_remove_tree(dir, NULL) == FR_OK);
    return check_done();
}
