#include "engine/base/log.h"

#include "engine/base/str.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct {
    int fd;
    enum fr_log_level level;
    struct fr_printer printer; /* put NULL: stdout and stderr themselves */
    int error;                 /* errno of the first failed write to stdout */
} sink = {.fd = 2, .level = FR_LOG_INFO};

void fr_log_level(enum fr_log_level level)
{
    sink.level = level;
}

void fr_log_to(int fd)
{
    sink.fd = fd;
}

void fr_log(enum fr_log_level level, const char *module, const char *fmt, ...)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    char text[2048], line[2048];
    va_list ap;

    if (level > sink.level || sink.fd < 0)
        return;
    int n = snprintf(text, sizeof(text), "%s %s ", names[level], module);
    va_start(ap, fmt);
    vsnprintf(text + n, sizeof(text) - (size_t)n, fmt, ap);
    va_end(ap);
    fr_visible(line, sizeof(line) - 1, text, strlen(text));
    size_t len = strlen(line);
    line[len++] = '\n';
    if (sink.fd == 2 && sink.printer.put != NULL) {
        sink.printer.put(sink.printer.arg, 2, line, len);
        return;
    }
    ssize_t written = write(sink.fd, line, len); /* a log that cannot be written is not an error */
    (void)written;
}

struct fr_printer fr_print_by(const struct fr_printer *printer)
{
    struct fr_printer before = sink.printer;
    int error = fr_print_ok() ? 0 : sink.error;

    sink.printer = printer != NULL ? *printer : (struct fr_printer){0};
    sink.error = error;
    return before;
}

static void note_error(int error)
{
    if (sink.error == 0)
        sink.error = error != 0 ? error : EIO;
}

void fr_print(const char *fmt, ...)
{
    struct fr_buf text = {0};
    va_list ap;

    va_start(ap, fmt);
    if (sink.printer.put == NULL) {
        if (vfprintf(stdout, fmt, ap) < 0)
            note_error(errno);
    } else {
        fr_buf_vfmt(&text, fmt, ap);
        if (!text.bad && text.n > 0)
            sink.printer.put(sink.printer.arg, 1, text.p, text.n);
    }
    va_end(ap);
    fr_buf_finish(&text);
}

void fr_print_bytes(const char *text, size_t n)
{
    if (sink.printer.put != NULL)
        sink.printer.put(sink.printer.arg, 1, text, n);
    else if (n > 0 && fwrite(text, 1, n, stdout) != n)
        note_error(errno);
}

bool fr_print_ok(void)
{
    if (sink.printer.put != NULL && sink.printer.error(sink.printer.arg) != 0)
        note_error(sink.printer.error(sink.printer.arg));
    else if (sink.printer.put == NULL && (fflush(stdout) != 0 || ferror(stdout) != 0))
        note_error(errno);
    return sink.error == 0;
}

bool fr_print_left(void)
{
    return !fr_print_ok() && sink.error == EPIPE;
}

void fr_complain(const char *fmt, ...)
{
    struct fr_buf text = {0}, seen = {0};
    va_list ap;

    va_start(ap, fmt);
    fr_buf_vfmt(&text, fmt, ap);
    va_end(ap);
    for (size_t at = 0; at < text.n;) {
        const char *nl = memchr(text.p + at, '\n', text.n - at);
        size_t n = nl != NULL ? (size_t)(nl - text.p) - at : text.n - at;

        fr_buf_visible(&seen, text.p + at, n);
        fr_buf_text(&seen, nl != NULL ? "\n" : "");
        at += n + (nl != NULL);
    }
    if (seen.p == NULL || seen.bad)
        fr_buf_finish(&seen);
    const char *shown = seen.p != NULL ? seen.p : "no memory for a message\n";
    if (sink.printer.put != NULL) {
        sink.printer.put(sink.printer.arg, 2, shown, strlen(shown));
    } else {
        (void)fr_print_ok();
        fputs(shown, stderr);
    }
    fr_buf_finish(&text);
    fr_buf_finish(&seen);
}
