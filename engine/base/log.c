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
    va_list ap;

    fflush(stdout);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
}
