/*
 * The few macros that every unit test uses. A failed check prints where and what, and the test goes
 * on; check_done() prints "N passed, N failed" and gives the exit status. A program that checked
 * nothing has failed. All files of one program count together. A program that checks nothing and
 * begins no row for TEST_DEADLINE seconds (150; 0: for ever) names its row and has failed: however
 * slow the machine is, and however much there is to do, one step takes less.
 */
#ifndef TESTS_UNIT_CHECK_H
#define TESTS_UNIT_CHECK_H

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct check_counts {
    int passed, failed;
    const char *row; /* the table row under test, "" outside a table */
    int rows;        /* begun so far */
    volatile int seen;
    unsigned seconds;
};

__attribute__((weak)) struct check_counts check_counts = {0, 0, "", 0, 0, 0};

static inline void check_late(int sig)
{
    static const char text[] = "FAILED: no check for too long, at: ";
    int done = check_counts.passed + check_counts.failed + check_counts.rows, saved = errno;

    (void)sig;
    if (done != check_counts.seen) {
        check_counts.seen = done;
        alarm(check_counts.seconds);
        errno = saved;
        return;
    }
    (void)!write(STDOUT_FILENO, text, sizeof text - 1);
    (void)!write(STDOUT_FILENO, check_counts.row, strlen(check_counts.row));
    (void)!write(STDOUT_FILENO, "\n", 1);
    _exit(EXIT_FAILURE);
}

/* Before main; in each file, which does no harm. */
__attribute__((constructor)) static inline void check_begin(void)
{
    const char *text = getenv("TEST_DEADLINE");
    unsigned seconds = text != NULL ? (unsigned)strtoul(text, NULL, 10) : 150;
    struct sigaction late;

    if (seconds == 0)
        return; /* the signal is somebody else's: libFuzzer's */
    check_counts.seconds = seconds;
    memset(&late, 0, sizeof(late));
    late.sa_handler = check_late;
    late.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &late, NULL);
    alarm(seconds);
}

static inline int check_that(int ok, const char *what, const char *file, int line)
{
    if (ok) {
        check_counts.passed++;
        return 1;
    }
    check_counts.failed++;
    printf("%s:%d: [%s] failed: %s\n", file, line, check_counts.row, what);
    return 0;
}

static inline int check_text(const char *got, const char *want, const char *file, int line)
{
    if (got != NULL && want != NULL && strcmp(got, want) == 0) {
        check_counts.passed++;
        return 1;
    }
    check_counts.failed++;
    printf("%s:%d: [%s]\n   got:  %s\n   want: %s\n", file, line, check_counts.row,
           got ? got : "(null)", want ? want : "(null)");
    return 0;
}

static inline int check_int(long long got, long long want, const char *file, int line)
{
    if (got == want) {
        check_counts.passed++;
        return 1;
    }
    check_counts.failed++;
    printf("%s:%d: [%s] got %lld, want %lld\n", file, line, check_counts.row, got, want);
    return 0;
}

/* Names the table row that the next checks belong to. */
static inline void check_row(const char *row)
{
    check_counts.row = row;
    check_counts.rows++;
}

static inline int check_done(void)
{
    printf("%d passed, %d failed\n", check_counts.passed, check_counts.failed);
    return check_counts.failed == 0 && check_counts.passed > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

static inline int check_skip(const char *why)
{
    printf("skipped: %s\n", why);
    return 77;
}

#define CHECK(cond) check_that((cond) ? 1 : 0, #cond, __FILE__, __LINE__)
#define CHECK_TEXT(got, want) check_text((got), (want), __FILE__, __LINE__)
#define CHECK_INT(got, want) check_int((long long)(got), (long long)(want), __FILE__, __LINE__)

#endif
