/*
 * Strings, growing buffers, and the one parser of each small textual value: numbers, durations,
 * sizes, ids. Inside, text is (pointer, length); it is NUL-terminated only for system calls.
 */
#ifndef FR_BASE_STR_H
#define FR_BASE_STR_H

#include "engine/base/err.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fr_str {
    const char *p;
    size_t n;
};

#define FR_STR(literal) ((struct fr_str){(literal), sizeof(literal) - 1})

struct fr_str fr_str_of(const char *s); /* NULL gives the empty string */
bool fr_str_eq(struct fr_str a, struct fr_str b);
bool fr_str_is(struct fr_str a, const char *b);
bool fr_has_prefix(const char *s, const char *prefix);
static inline const char *fr_plural(uint64_t n) /* the ending of a word that is counted */
{
    return n == 1 ? "" : "s";
}
bool fr_str_ends(struct fr_str s, const char *ending); /* s must be longer than ending */
/* Takes the first line of *rest, without its newline. False: nothing is left. */
bool fr_next_line(struct fr_str *rest, struct fr_str *line);
int fr_by_text(const void *a, const void *b); /* orders an array of char *, for qsort and bsearch */

/* A growing byte buffer; zero it to start. p[n] is always 0 once anything was added. After an
 * allocation fails, bad is set, further calls do nothing, and the owner reports FR_NOMEM once. */
struct fr_buf {
    char *p;
    size_t n, cap;
    bool bad;
};

void fr_buf_add(struct fr_buf *b, const void *p, size_t n);
void fr_buf_room(struct fr_buf *b, size_t n); /* n more bytes will need no other memory */
void fr_buf_text(struct fr_buf *b, const char *s);
void fr_buf_fmt(struct fr_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void fr_buf_vfmt(struct fr_buf *b, const char *fmt, va_list ap);
void fr_buf_cut(struct fr_buf *b, size_t n); /* drops the first n bytes */
void fr_buf_finish(struct fr_buf *b);

/* Decimal integers and floats, whole text, no blanks. "" or trailing text is FR_USAGE. */
enum fr_rc fr_parse_i64(struct fr_str s, int64_t *out, struct fr_err *err);
enum fr_rc fr_parse_f64(struct fr_str s, double *out, struct fr_err *err);

/* "250ms", "10s", "1h30m", "2d": milliseconds, never negative; a bare number is refused. */
enum fr_rc fr_parse_duration(struct fr_str s, int64_t *ms, struct fr_err *err);

/* "512", "64KiB", "10GB", "1.5GiB": bytes. */
enum fr_rc fr_parse_size(struct fr_str s, int64_t *bytes, struct fr_err *err);

/* true, false, yes, no, 1, 0, t, f, y, n in any case. */
enum fr_rc fr_parse_bool(struct fr_str s, bool *out, struct fr_err *err);

/* "1.2s", "3m04s", "2h05m" */
void fr_show_duration(int64_t ms, char out[24]);
/* "812 B", "1.2 MiB" */
void fr_show_size(int64_t bytes, char out[24]);

/* Whether word is one of words, which single blanks part. */
bool fr_word_in(const char *words, const char *word);
/* Adds "a, b or c" of "a b c". */
void fr_buf_words(struct fr_buf *b, const char *words);

/* The entry of words[0..n) nearest to word, or NULL when none is near enough to be meant. */
const char *fr_suggest(const char *word, const char *const *words, size_t n);

/* Whether text as a whole is what pattern means: '*' is any text and '?' any byte; all else,
 * brackets too, is itself. fold: without letters' case. The time is at most the product of both
 * lengths. */
bool fr_star_match(struct fr_str pattern, const char *text, bool fold);

bool fr_utf8_valid(const char *p, size_t n);

/* Adds text with control bytes and invalid UTF-8 shown as \xNN: safe for a terminal. */
void fr_buf_visible(struct fr_buf *b, const char *p, size_t n);

/* The same into out, NUL-terminated: as many whole characters of text as fit into cap bytes.
 * Returns how many bytes of text that are. */
size_t fr_visible(char *out, size_t cap, const char *p, size_t n);

/* 128 random bits: runs, attempts, homes. Text is 32 hexadecimal digits. */
struct fr_id {
    uint8_t b[16];
};

enum { FR_ID_TEXT = 33 };

enum fr_rc fr_id_new(struct fr_id *id, struct fr_err *err);
void fr_id_text(struct fr_id id, char out[FR_ID_TEXT]);
bool fr_id_parse(struct fr_str s, struct fr_id *id);
bool fr_id_eq(struct fr_id a, struct fr_id b);
bool fr_id_zero(struct fr_id a);
uint64_t fr_id_key(struct fr_id a); /* its first bytes, for a hash table: they are random */

/* Whether a node takes it as a place in an attempt's folder: relative, at most so long, each part a
 * name of a file (not "", "." or ".."). */
enum { FR_PATH_INNER_MAX = 700 };
bool fr_path_is_inner(struct fr_str path);

#endif
