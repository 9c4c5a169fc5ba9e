#include "engine/base/log.h"

#include "engine/base/str.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct {
    int fd;
    enum fr_log_level level;
} sink = {2, FR_LOG_INFO};

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
    ssize_t written = write(sink.fd, line, len); /* a log that cannot be written is not an error */
    (void)written;
}

void fr_print(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vfprintf(stdout, fmt, ap);
    va_end(ap);
}

bool fr_print_ok(void)
{
    return fflush(stdout) == 0 && ferror(stdout) == 0;
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
    fflush(stdout);
    fputs(seen.p != NULL && !seen.bad ? seen.p : "no memory for a message\n", stderr);
    fr_buf_finish(&text);
    fr_buf_finish(&seen);
}
