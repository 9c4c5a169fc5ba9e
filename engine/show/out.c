#include "engine/show/out.h"

#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "engine/base/thread.h"
#include "engine/show/show.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    OUTPUT_BYTES = 16 << 20, /* bound of task output */
    SCREEN_BYTES = 1 << 20,  /* likewise on a terminal */
    EVENT_BYTES = 64 << 20,  /* bound of all lines */
    WRITE_BYTES = 4 << 10,   /* one write(), so that progress of a slow reader is seen */
    FILE_BYTES = 64 << 10,   /* buffer for a regular file */
    KEEP_BYTES = 256 << 10,  /* a larger buffer is freed once it is written */
    STACK_BYTES = 64 << 10,
    STALL_MS = 10000, /* a reader that takes nothing for so long is given up */
    LEAVE_MS = 1000,  /* likewise, once the user wants to leave */
    TICK_MS = 100,
};

/* A writer thread and its output. Loop and thread pass a byte over a socket pair; the side that got
 * the byte last owns text and error. */
struct writer {
    int fd;
    int loop_end, thread_end;
    struct fr_buf text;
    int error;               /* errno of a failed write() */
    atomic_uint users;       /* loop and thread; the last user frees */
    atomic_uint_fast64_t at; /* bytes written so far */
};

struct stream { /* an output: stdout, stderr */
    struct cli_out *out;
    int fd;
    bool regular;          /* a regular file: no thread */
    size_t output_bytes;   /* bound of task output */
    struct writer *writer; /* owns one use; NULL: a regular file, or a reader given up */
    pthread_t thread;
    struct fr_watch *watch;
    bool busy;            /* the writer owns its text */
    struct fr_buf lines;  /* not yet handed to the writer */
    uint64_t missed;      /* lines dropped after these */
    bool wanted;          /* a frame is due once the writer is free */
    int error;            /* errno of a failed write(): the rest is dropped */
    cli_out_frame_fn *fn; /* NULL: lines are written as they are */
    void *arg;
};

struct cli_out {
    struct fr_loop *loop;
    bool json;
    int64_t run;
    struct stream streams[2]; /* stdout; stderr, unused when it is the same file */
    bool same;
    struct fr_timer *tick;
};

/* ---- the thread ---- */

static void let_go(struct writer *w)
{
    if (atomic_fetch_sub(&w->users, 1) > 1)
        return;
    fr_buf_finish(&w->text);
    fr_sys.free(w);
}

/* Writes all of p. Returns errno, or 0. Another process may have made the descriptor non-blocking.
 */
static int write_out(int fd, const char *p, size_t n, atomic_uint_fast64_t *at)
{
    while (n > 0) {
        ssize_t k = fr_sys.write(fd, p, n < WRITE_BYTES ? n : WRITE_BYTES);
        struct pollfd wait = {.fd = fd, .events = POLLOUT};

        if (k < 0 && errno == EAGAIN)
            (void)fr_sys.poll(&wait, 1, -1);
        else if (k < 0 && errno != EINTR)
            return errno;
        if (k < 0)
            continue;
        p += k;
        n -= (size_t)k;
        atomic_fetch_add(at, (uint64_t)k);
    }
    return 0;
}

static void *writer_main(void *arg)
{
    struct writer *w = arg;
    char byte;

    while (fr_sys.read(w->thread_end, &byte, 1) == 1) {
        if (w->error == 0 && w->text.n > 0)
            w->error = write_out(w->fd, w->text.p, w->text.n, &w->at);
        if (send(w->thread_end, "", 1, MSG_NOSIGNAL) != 1)
            break;
    }
    fr_sys.close(w->thread_end);
    let_go(w);
    return NULL;
}

static void stream_written(void *arg, int what);

/* The thread blocks all signals, SIGTTOU included: a background job under stty tostop then writes
 * instead of being stopped. */
static enum fr_rc writer_start(struct stream *s, struct fr_err *err)
{
    struct writer *w = fr_sys.alloc(sizeof(*w));
    pthread_attr_t attr;
    int fds[2], rc;

    if (w == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for output");
    if (fr_sys.socketpair(fds) != 0) {
        fr_sys.free(w);
        return fr_fail_errno(err, errno, "making a socket pair");
    }
    *w = (struct writer){.fd = s->fd, .loop_end = fds[0], .thread_end = fds[1], .users = 2};
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    rc = fr_thread_start(&s->thread, &attr, writer_main, w);
    pthread_attr_destroy(&attr);
    if (rc != 0) {
        fr_sys.close(fds[0]);
        fr_sys.close(fds[1]);
        fr_sys.free(w);
        return fr_fail_errno(err, rc, "starting a thread for output");
    }
    s->writer = w;
    if (fr_loop_watch(s->out->loop, w->loop_end, stream_written, s, &s->watch) != FR_OK)
        return fr_fail(err, FR_NOMEM, "no memory for output");
    fr_loop_want(s->out->loop, s->watch, FR_LOOP_READ);
    return FR_OK;
}

/* ---- a stream ---- */

/* Appends a number as "12,345". */
static void add_count(struct fr_buf *b, uint64_t n)
{
    char digits[24];
    int len = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)n);

    for (int i = 0; i < len; i++)
        fr_buf_fmt(b, "%c%s", digits[i], i + 1 < len && (len - i - 1) % 3 == 0 ? "," : "");
}

static void put_missed(struct stream *s)
{
    struct fr_buf *b = &s->lines;

    if (s->missed == 0)
        return;
    if (s->out->json && s->fd == 1) {
        fr_buf_fmt(b, "{\"event\":\"not_shown\",\"time_ms\":%lld,\"run\":%lld,\"lines\":%llu}\n",
                   (long long)fr_sys.wall_ms(), (long long)s->out->run,
                   (unsigned long long)s->missed);
    } else {
        fr_buf_text(b, "… ");
        add_count(b, s->missed);
        fr_buf_fmt(b, " line%s not shown, see 'flowrun logs %lld'\n", fr_plural(s->missed),
                   (long long)s->out->run);
    }
    s->missed = 0;
}

/* Whether no text is left to write. */
static bool is_idle(const struct stream *s)
{
    return !s->busy && s->lines.n == 0 && s->missed == 0 && !s->wanted;
}

static void drop_lines(struct stream *s)
{
    s->lines.n = 0;
    s->missed = 0;
    s->wanted = false;
}

/* Moves the text of the next write into to. */
static void compose(struct stream *s, struct fr_buf *to)
{
    to->n = 0;
    put_missed(s);
    if (s->fn != NULL) {
        s->fn(s->arg, (struct fr_str){s->lines.p != NULL ? s->lines.p : "", s->lines.n}, to);
        s->lines.n = 0;
    } else { /* the buffers take turns */
        struct fr_buf free = *to;

        *to = s->lines;
        s->lines = free;
    }
    s->wanted = false;
    if (s->lines.cap > KEEP_BYTES)
        fr_buf_finish(&s->lines);
    if (to->bad || s->lines.bad) { /* out of memory: these lines are lost, later ones are not */
        fr_buf_finish(to);
        fr_buf_finish(&s->lines);
    }
}

static void stream_flush(struct stream *s)
{
    if (s->error != 0 || (!s->regular && s->writer == NULL)) {
        drop_lines(s);
    } else if (s->regular) {
        atomic_uint_fast64_t at = 0;

        put_missed(s);
        s->error = write_out(s->fd, s->lines.p, s->lines.n, &at);
        drop_lines(s);
    } else if (!s->busy) {
        compose(s, &s->writer->text);
        if (s->writer->text.n > 0)
            s->busy = send(s->writer->loop_end, "", 1, MSG_NOSIGNAL) == 1;
    }
}

static bool has_work(const struct stream *s)
{
    return s->fn != NULL ? s->wanted : s->lines.n > 0 || s->missed > 0;
}

static void stream_written(void *arg, int what)
{
    struct stream *s = arg;
    char byte;

    (void)what;
    if (fr_sys.read(s->writer->loop_end, &byte, 1) != 1)
        return;
    s->busy = false;
    s->error = s->writer->error;
    if (s->writer->text.cap > KEEP_BYTES)
        fr_buf_finish(&s->writer->text);
    if (has_work(s))
        stream_flush(s);
}

static void stream_add(struct stream *s, enum cli_out_kind kind, const char *text, size_t n)
{
    size_t most = kind == CLI_OUT_OUTPUT ? s->output_bytes : EVENT_BYTES;

    if (s->error != 0 || (!s->regular && s->writer == NULL))
        return;
    if (s->regular && s->lines.n >= FILE_BYTES)
        stream_flush(s);
    if (s->lines.n + n > most || (kind == CLI_OUT_OUTPUT && s->missed > 0)) {
        for (const char *p = text; (p = memchr(p, '\n', n - (size_t)(p - text))) != NULL; p++)
            s->missed++;
        return;
    }
    put_missed(s);
    fr_buf_add(&s->lines, text, n);
    if (s->lines.bad) { /* no memory to keep lines for this reader */
        fr_buf_finish(&s->lines);
        s->missed++;
    }
}

/* Ends the stream's thread; a thread that waits for a reader is detached. */
static void stream_give_up(struct stream *s)
{
    struct writer *w = s->writer;

    if (s->watch != NULL)
        fr_loop_unwatch(s->out->loop, &s->watch);
    s->writer = NULL;
    drop_lines(s);
    if (w == NULL)
        return;
    fr_sys.close(w->loop_end); /* the thread reads its end, or fails to answer */
    if (s->busy)
        pthread_detach(s->thread);
    else
        pthread_join(s->thread, NULL);
    s->busy = false;
    let_go(w);
}

static enum fr_rc stream_init(struct stream *s, struct cli_out *out, int fd, struct fr_err *err)
{
    struct stat st;

    *s = (struct stream){.out = out, .fd = fd};
    s->output_bytes = isatty(fd) ? SCREEN_BYTES : OUTPUT_BYTES;
    s->regular = fr_sys.fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    return s->regular ? FR_OK : writer_start(s, err);
}

/* ---- both ---- */

static struct stream *stream_of(struct cli_out *out, int fd)
{
    return &out->streams[fd == 2 && !out->same];
}

static void on_print(void *arg, int fd, const char *text, size_t n)
{
    stream_add(stream_of(arg, fd), CLI_OUT_EVENT, text, n);
}

static int on_error(void *arg)
{
    struct cli_out *out = arg;

    return out->streams[0].error;
}

static void on_tick(void *arg)
{
    (void)arg; /* the turn ends */
}

static bool same_file(void)
{
    struct stat a, b;

    return fr_sys.fstat(1, &a) == 0 && fr_sys.fstat(2, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

enum fr_rc cli_out_create(struct cli_out **out, struct fr_loop *loop, bool json, struct fr_err *err)
{
    struct cli_out *o = fr_sys.alloc(sizeof(*o));
    enum fr_rc rc;

    *out = NULL;
    if (o == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for output");
    *o = (struct cli_out){.loop = loop, .json = json, .same = same_file()};
    o->streams[1].regular = true; /* unused, and idle */
    rc = stream_init(&o->streams[0], o, 1, err);
    if (rc == FR_OK && !o->same)
        rc = stream_init(&o->streams[1], o, 2, err);
    if (rc == FR_OK && fr_loop_timer(loop, on_tick, o, &o->tick) != FR_OK)
        rc = fr_fail(err, FR_NOMEM, "no memory for a timer");
    if (rc != FR_OK) {
        cli_out_destroy(o);
        return rc;
    }
    fr_print_by(&(struct fr_printer){on_print, on_error, o});
    *out = o;
    return FR_OK;
}

void cli_out_destroy(struct cli_out *out)
{
    if (out == NULL)
        return;
    fr_print_by(NULL);
    for (int i = 0; i < 2; i++) {
        stream_give_up(&out->streams[i]);
        fr_buf_finish(&out->streams[i].lines);
    }
    if (out->tick != NULL)
        fr_loop_untimer(out->loop, &out->tick);
    fr_sys.free(out);
}

void cli_out_run(struct cli_out *out, int64_t no)
{
    out->run = no;
}

void cli_out_add(struct cli_out *out, enum cli_out_kind kind, const char *text, size_t n)
{
    stream_add(&out->streams[0], kind, text, n);
}

void cli_out_frames(struct cli_out *out, cli_out_frame_fn *fn, void *arg)
{
    out->streams[0].fn = fn;
    out->streams[0].arg = arg;
}

void cli_out_frame(struct cli_out *out)
{
    out->streams[0].wanted = true;
    stream_flush(&out->streams[0]);
}

void cli_out_flush(struct cli_out *out)
{
    for (int i = 0; i < 2; i++)
        if (out->streams[i].fn == NULL && has_work(&out->streams[i]))
            stream_flush(&out->streams[i]);
}

static uint64_t written(const struct stream *s)
{
    return s->writer != NULL ? atomic_load(&s->writer->at) : 0;
}

/* Gives up a reader that took nothing for too long. */
static void say_given_up(struct cli_out *out, struct stream *s)
{
    bool is_stdout = s == &out->streams[0];

    stream_give_up(s);
    if (is_stdout && !out->same)
        fr_complain("flowrun: nobody reads the output any more: its end is not shown, see "
                    "'flowrun status %lld' and 'flowrun logs %lld'\n",
                    (long long)out->run, (long long)out->run);
}

void cli_out_drain(struct cli_out *out, const bool *leave)
{
    uint64_t seen[2] = {0};
    int64_t since[2] = {fr_sys.mono_ms(), fr_sys.mono_ms()};
    struct fr_err err;

    for (;;) {
        bool idle = true;
        int64_t now = fr_sys.mono_ms();

        for (int i = 0; i < 2; i++) {
            struct stream *s = &out->streams[i];

            if (s->fn != NULL && s->lines.n > 0)
                s->wanted = true;
            if (has_work(s) && !s->busy)
                stream_flush(s);
            if (written(s) != seen[i])
                since[i] = now;
            seen[i] = written(s);
            if (!is_idle(s) && now - since[i] >= (*leave ? LEAVE_MS : STALL_MS))
                say_given_up(out, s);
            idle = idle && is_idle(s);
        }
        if (idle)
            return;
        fr_loop_arm_in(out->loop, out->tick, TICK_MS);
        if (fr_loop_turn(out->loop, true, &err) != FR_OK)
            return;
    }
}
