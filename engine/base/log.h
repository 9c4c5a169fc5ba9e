/*
 * Log lines for people and files: "level module key=value …", one line an event, to one sink
 * (stderr until fr_log_to), control bytes shown as \xNN. No secrets; progress and metrics are rows
 * elsewhere, not log lines.
 */
#ifndef FR_BASE_LOG_H
#define FR_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>

enum fr_log_level { FR_LOG_ERROR, FR_LOG_WARN, FR_LOG_INFO, FR_LOG_DEBUG };

/* Lines above level are dropped. The default is FR_LOG_INFO. */
void fr_log_level(enum fr_log_level level);

/* Where lines go: an open descriptor, borrowed. -1 drops all. */
void fr_log_to(int fd);

void fr_log(enum fr_log_level level, const char *module, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Output of a command for its user: to stdout unchanged; to stderr with control bytes except
 * newlines shown as \xNN. */
void fr_print(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void fr_complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void fr_print_bytes(const char *text, size_t n); /* to stdout */
bool fr_print_ok(void);   /* everything printed to stdout so far was written */
bool fr_print_left(void); /* a write failed because the reader closed the pipe: no error */

/* Receives the text that goes to stdout and stderr, that of fr_log() included. */
struct fr_printer {
    void (*put)(void *arg, int fd, const char *text, size_t n); /* fd: 1 or 2 */
    int (*error)(void *arg); /* errno of the first text of stdout that could not be written, or 0 */
    void *arg;
};
/* Copied; NULL: the descriptors again. Returns the one before; its put is NULL: there was none. */
struct fr_printer fr_print_by(const struct fr_printer *printer);

#endif
