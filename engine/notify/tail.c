/* The end of a task's output, for messages. */
#include "engine/notify/notify.h"

#include <string.h>

enum { LINES = 20, LINE_BYTES = 300 };

/* Behind the escape sequence that begins at p[i] (ECMA-48, 5.4). */
static size_t skip_escape(const char *p, size_t n, size_t i)
{
    if (++i < n && p[i] == '[')
        for (i++; i < n && !(p[i] >= '@' && p[i] <= '~'); i++)
            ;
    return i < n ? i + 1 : n;
}

/* The line as a terminal shows it: the piece after the last carriage return, without escapes. */
static json_t *shown_line(const char *p, size_t n)
{
    struct fr_buf bare = {0};
    char line[LINE_BYTES];
    const char *cr;

    while (n > 0 && p[n - 1] == '\r')
        n--;
    if ((cr = memrchr(p, '\r', n)) != NULL) {
        n -= (size_t)(cr + 1 - p);
        p = cr + 1;
    }
    for (size_t i = 0; i < n;) {
        if (p[i] == '\033') {
            i = skip_escape(p, n, i);
            continue;
        }
        fr_buf_add(&bare, p[i] == '\t' ? " " : &p[i], 1);
        i++;
    }
    fr_visible(line, sizeof(line), bare.p, bare.n);
    fr_buf_finish(&bare);
    return json_string(line);
}

json_t *fr_message_tail(const char *p, size_t n, bool whole)
{
    json_t *list = json_array();

    if (n > 0 && p[n - 1] == '\n')
        n--;
    while (n > 0 && json_array_size(list) < LINES) {
        const char *before = memrchr(p, '\n', n);
        size_t from = before != NULL ? (size_t)(before + 1 - p) : 0;

        if (from == 0 && !whole)
            break;
        json_array_insert_new(list, 0, shown_line(p + from, n - from));
        n = from > 0 ? from - 1 : 0;
    }
    return list;
}
