#include "engine/allocate/folder.h"

#include "engine/link/link.h"
#include "engine/submit/folder.h"

#include <string.h>

/* The value of a line "KEY VALUE"; "": there is none. */
static struct fr_str value_of(struct fr_str text, const char *key)
{
    struct fr_str line;
    size_t n = strlen(key);

    while (fr_next_line(&text, &line))
        if (line.n > n && memcmp(line.p, key, n) == 0 && line.p[n] == ' ')
            return (struct fr_str){line.p + n + 1, line.n - n - 1};
    return (struct fr_str){"", 0};
}

static int64_t number_of(struct fr_str s)
{
    int64_t n = 0;

    for (size_t i = 0; i < s.n && s.p[i] >= '0' && s.p[i] <= '9' && n < INT64_MAX / 100; i++)
        n = n * 10 + (s.p[i] - '0');
    return n;
}

static enum fr_rc keep(struct fr_arena *arena, struct fr_str s, const char **out,
                       struct fr_err *err)
{
    *out = s.n > 0 ? fr_arena_text(arena, s.p, s.n) : NULL;
    return s.n == 0 || *out != NULL ? FR_OK : fr_fail(err, FR_NOMEM, "no memory for a place");
}

static enum fr_rc keep_line(struct fr_arena *arena, struct fr_str s, const char **out,
                            struct fr_err *err)
{
    struct fr_buf line = {0};

    fr_link_quote(&line, s.p, s.n);
    *out = line.bad ? NULL : fr_arena_text(arena, line.n > 0 ? line.p : "", line.n);
    fr_buf_finish(&line);
    return *out != NULL ? FR_OK : fr_fail(err, FR_NOMEM, "no memory for a text");
}

/* The number and the rest of "place.K…"; 0: it is no such name. */
static size_t place_of(struct fr_str name, struct fr_str *rest)
{
    static const char prefix[] = "place.";
    size_t n = sizeof(prefix) - 1, at = n;

    if (name.n <= n || memcmp(name.p, prefix, n) != 0)
        return 0;
    while (at < name.n && name.p[at] >= '0' && name.p[at] <= '9')
        at++;
    *rest = (struct fr_str){name.p + at, name.n - at};
    return (size_t)number_of((struct fr_str){name.p + n, at - n});
}

static enum fr_rc see_place(struct fr_str name, struct fr_str text, int64_t job,
                            struct fr_arena *arena, struct alloc_seen *out)
{
    struct fr_str rest = {0};
    size_t k = place_of(name, &rest);
    struct alloc_place *place = k > 0 && k <= out->n ? &out->places[k - 1] : NULL;
    bool ours = number_of(value_of(text, "job")) == job;
    enum fr_rc rc = FR_OK;

    if (place == NULL || !ours)
        return FR_OK;
    if (rest.n == 0) {
        rc = keep(arena, value_of(text, "host"), &place->host, NULL);
        if (rc == FR_OK)
            rc = keep(arena, value_of(text, "address"), &place->address, NULL);
        place->own = number_of(value_of(text, "own"));
        if (place->own == 0) /* of a keeper of before */
            place->own = job;
        out->n_known += place->host != NULL && place->address != NULL;
    } else if (fr_str_is(rest, ".closed") && text.n > 0) {
        place->closed = true;
        out->leased = out->leased || value_of(text, "lease").n > 0;
        out->n_closed++;
    }
    return rc;
}

static bool is_error(struct fr_str name, size_t n, size_t *place)
{
    struct fr_str rest = {0};
    size_t k = place_of(name, &rest);

    if (k == 0 || k > n || !fr_str_is(rest, ".error") || (*place != 0 && *place < k))
        return false;
    *place = k;
    return true;
}

enum fr_rc alloc_folder_seen(struct fr_str files, int64_t job, size_t n, struct fr_arena *arena,
                             struct alloc_seen *out, struct fr_err *err)
{
    struct fr_str name, text, error = {0};
    size_t failed = 0;
    enum fr_rc rc = FR_OK;

    *out = (struct alloc_seen){
        .n = n, .places = fr_arena_array(arena, n, sizeof(*out->places)), .log = ""};
    if (out->places == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the places");
    while (rc == FR_OK && fr_folder_next(&files, &name, &text)) {
        if (fr_str_is(name, "claim"))
            out->claimed = number_of(text);
        else if (fr_str_is(name, "job.log"))
            rc = keep_line(arena, text, &out->log, err);
        else if (text.n > 0 && is_error(name, n, &failed))
            error = text;
        else
            rc = see_place(name, text, job, arena, out);
    }
    if (rc == FR_OK && files.n > 0)
        rc = fr_fail(err, FR_CORRUPT, "the files of an allocation's folder were not understood");
    if (rc == FR_OK && failed > 0 && out->n_known < n)
        rc = keep_line(arena, error, &out->error, err);
    return rc == FR_NOMEM ? fr_fail(err, rc, "no memory for the places") : rc;
}
