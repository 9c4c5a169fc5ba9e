/* Views of logs: lines by number, when they came, and where something stands. */
#include "engine/base/mark.h"
#include "engine/view/line_index.h"
#include "engine/view/view.h"
#include "engine/store/home.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <errno.h>
#include <fcntl.h>
#include <pcre2.h>

enum {
    LINE_MOST = 8 << 10,    /* bytes of a line that are shown */
    HIT_MOST = 200,         /* bytes around a hit */
    HITS = 1000,            /* of one answer */
    MARKS = 1000,           /* likewise */
    SEEK_MS = 3000,         /* an answer comes by then, with what was found */
    READ_BYTES = 256 << 10, /* at once; a longer line is taken in pieces */
    PART_MOST = 64 << 10,   /* of a pattern's match that goes on in the next piece */
    MATCH_LIMIT = 100000
};

/* ---- lines ---- */

struct reader {
    int fd;
    uint64_t at;     /* of the next byte to read */
    struct fr_buf b; /* read and not taken */
    size_t taken;    /* of b */
    size_t seen;     /* of what is not taken: it was in the piece before, too */
    bool end;
};

static enum fr_rc read_more(struct reader *r, struct fr_err *err)
{
    char *space = fr_sys.alloc(READ_BYTES);
    ssize_t n;

    if (space == NULL)
        return fr_fail(err, FR_NOMEM, "no memory to read a log");
    fr_buf_cut(&r->b, r->taken);
    r->taken = 0;
    do
        n = fr_sys.pread(r->fd, space, READ_BYTES, (off_t)r->at);
    while (n < 0 && errno == EINTR);
    if (n > 0)
        fr_buf_add(&r->b, space, (size_t)n);
    fr_sys.free(space);
    if (n < 0)
        return fr_fail_errno(err, errno, "reading a log");
    r->at += (uint64_t)n;
    r->end = n == 0;
    return r->b.bad ? fr_fail(err, FR_NOMEM, "no memory to read a log") : FR_OK;
}

struct line {
    struct fr_str text; /* without its newline; until the next one is read */
    uint64_t offset;
    size_t seen; /* of text: it was looked at with the piece before */
    bool whole;  /* else a piece: more of it follows */
};

/* The next piece begins with the last n bytes of the one that was read, and no hit with the first
 * `seen` of them. */
static void see_again(struct reader *r, size_t n, size_t seen)
{
    r->taken -= n;
    r->seen = seen;
}

/* *out NULL text: the end. */
static enum fr_rc next_line(struct reader *r, struct line *out, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    *out = (struct line){0};
    for (;;) {
        size_t have = r->b.n - r->taken;
        const char *p = have > 0 ? r->b.p + r->taken : NULL;
        const char *nl = have > 0 ? memchr(p, '\n', have) : NULL;

        if (nl != NULL || have >= READ_BYTES || (r->end && have > 0)) {
            size_t n = nl != NULL ? (size_t)(nl - p) : have;

            *out = (struct line){{p, n}, r->at - have, r->seen, nl != NULL || r->end};
            r->taken += n + (nl != NULL);
            r->seen = 0;
            return FR_OK;
        }
        if (r->end)
            return FR_OK;
        if ((rc = read_more(r, err)) != FR_OK)
            return rc;
    }
}

/* Bytes as text: what is not UTF-8 becomes U+FFFD, so that it can stand in JSON. */
static json_t *text_of(struct fr_str s)
{
    struct fr_buf b = {0};
    json_t *out;

    for (size_t i = 0; i < s.n;) {
        size_t k = 1;

        while (k < 4 && i + k <= s.n && !fr_utf8_valid(s.p + i, k))
            k++;
        if (i + k <= s.n && fr_utf8_valid(s.p + i, k)) {
            fr_buf_add(&b, s.p + i, k);
            i += k;
        } else {
            fr_buf_text(&b, "\xef\xbf\xbd");
            i++;
        }
    }
    out = b.bad ? NULL : json_stringn(b.n > 0 ? b.p : "", b.n);
    fr_buf_finish(&b);
    return out;
}

static struct fr_str cut(struct fr_str s, size_t most)
{
    return (struct fr_str){s.p, s.n < most ? s.n : most};
}

/* -1 and no error: nothing was written yet. */
static enum fr_rc open_log(const char *path, int *fd, struct fr_err *err)
{
    *fd = fr_sys.open(path, O_RDONLY | O_NOFOLLOW, 0);
    return *fd >= 0 || errno == ENOENT ? FR_OK : fr_fail_errno(err, errno, "opening a log");
}

static enum fr_rc add_lines(struct reader *r, int64_t no, int64_t n, json_t *items,
                            struct fr_err *err)
{
    enum fr_rc rc = FR_OK;
    bool begins = true;

    while (rc == FR_OK && n > 0) {
        struct line line;

        rc = next_line(r, &line, err);
        if (rc != FR_OK || line.text.p == NULL)
            break;
        if (begins) {
            json_array_append_new(items, json_pack("{s:I, s:I, s:o, s:b}", "line", (json_int_t)no++,
                                                   "offset", (json_int_t)line.offset, "text",
                                                   text_of(cut(line.text, LINE_MOST)), "cut",
                                                   line.text.n > LINE_MOST));
            n--;
        }
        begins = line.whole;
    }
    return rc;
}

enum fr_rc view_lines(struct view *v, struct fr_err *err)
{
    struct reader r = {.fd = -1};
    struct host_line_at at = {0};
    int64_t from = v->text->numbers[0];
    json_t *items = json_array();
    enum fr_rc rc = open_log(v->text->args[0], &r.fd, err);

    if (rc == FR_OK && r.fd >= 0)
        rc = line_index_find(v->text->lines, v->text->args[0], r.fd, (uint64_t)from, &at, err);
    r.at = at.offset;
    if (rc == FR_OK && r.fd >= 0)
        rc = add_lines(&r, from, v->text->numbers[1], items, err);
    v->doc = json_pack("{s:I, s:I, s:o}", "total", (json_int_t)at.lines, "bytes",
                       (json_int_t)at.bytes, "items", items);
    fr_buf_finish(&r.b);
    if (r.fd >= 0)
        fr_sys.close(r.fd);
    return rc;
}

/* ---- hits ---- */

struct sought {
    struct fr_str text;
    int64_t until;    /* by mono_ms: then the answer is what was found */
    pcre2_code *code; /* NULL: the text itself is sought */
    pcre2_match_data *match;
    pcre2_match_context *limits;
    uint32_t behind; /* how far a pattern looks behind where its match begins */
};

static enum fr_rc sought_begin(struct sought *s, const char *text, bool pattern, struct fr_err *err)
{
    int code = 0;
    PCRE2_SIZE at = 0;
    PCRE2_UCHAR why[120] = "";

    *s = (struct sought){.text = fr_str_of(text), .until = fr_sys.mono_ms() + SEEK_MS};
    if (!pattern)
        return FR_OK;
    s->code = pcre2_compile((PCRE2_SPTR)text, s->text.n, PCRE2_NEVER_BACKSLASH_C, &code, &at, NULL);
    if (s->code == NULL) {
        (void)pcre2_get_error_message(code, why, sizeof(why));
        return fr_fail(err, FR_USAGE, "the pattern is wrong at character %zu: %s", at + 1,
                       (const char *)why);
    }
    s->match = pcre2_match_data_create_from_pattern(s->code, NULL);
    s->limits = pcre2_match_context_create(NULL);
    if (s->match == NULL || s->limits == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a pattern");
    pcre2_set_match_limit(s->limits, MATCH_LIMIT);
    (void)pcre2_pattern_info(s->code, PCRE2_INFO_MAXLOOKBEHIND, &s->behind);
    return FR_OK;
}

static void sought_finish(struct sought *s)
{
    pcre2_match_data_free(s->match);
    pcre2_match_context_free(s->limits);
    pcre2_code_free(s->code);
}

struct found {
    size_t at;   /* where it stands in the line; SIZE_MAX: it does not */
    size_t open; /* of a piece: from there on more of the line is needed to tell */
};

/* A line on which a pattern takes too long has none. end: what the end of a piece stands for. */
static int match(const struct sought *s, const struct line *line, uint32_t end)
{
    return pcre2_match(s->code, (PCRE2_SPTR)line->text.p, line->text.n, line->seen,
                       line->whole ? 0 : end, s->match, s->limits);
}

static struct found find_pattern(const struct sought *s, const struct line *line)
{
    struct found out = {SIZE_MAX, line->text.n};
    int rc = match(s, line, PCRE2_PARTIAL_HARD);

    if (rc == PCRE2_ERROR_PARTIAL)
        out.open = pcre2_get_ovector_pointer(s->match)[0];
    if (line->text.n - out.open > PART_MOST) { /* what there is has to do */
        out.open = line->text.n - PART_MOST;
        rc = match(s, line, PCRE2_NOTEOL);
    }
    if (rc >= 0)
        out.at = pcre2_get_ovector_pointer(s->match)[0];
    return out;
}

static struct found find_text(const struct sought *s, const struct line *line)
{
    size_t part = s->text.n - 1, n = line->text.n - line->seen;
    const char *p = line->text.p + line->seen;
    const char *at = n > 0 ? memmem(p, n, s->text.p, s->text.n) : NULL;

    return (struct found){at != NULL ? (size_t)(at - line->text.p) : SIZE_MAX,
                          line->text.n - (part < n ? part : n)};
}

/* Behind a piece without a hit: the next one begins with what was left open, and with what is
 * shown, or looked at, before that; so no line begins there for a pattern. */
static void leave_open(struct reader *r, const struct sought *s, const struct line *line,
                       size_t open)
{
    size_t before = s->behind > HIT_MOST / 2 ? s->behind : HIT_MOST / 2;

    before = before < open ? before : open;
    see_again(r, line->text.n - open + before, before);
}

static json_t *json_of_hit(int64_t no, const struct line *line, size_t at)
{
    size_t from = at > HIT_MOST / 2 ? at - HIT_MOST / 2 : 0;
    struct fr_str shown = {line->text.p + from, line->text.n - from};

    return json_pack("{s:I, s:I, s:o}", "line", (json_int_t)no, "offset",
                     (json_int_t)(line->offset + at), "text", text_of(cut(shown, HIT_MOST)));
}

/* *no: the line that is looked at; of the answer: where to go on, 0 at the end. */
static enum fr_rc seek(struct reader *r, const struct sought *s, int64_t *no, json_t *items,
                       struct fr_err *err)
{
    bool found = false;
    enum fr_rc rc = FR_OK;

    while (rc == FR_OK && json_array_size(items) < HITS) {
        struct found hit = {SIZE_MAX, 0};
        struct line line;

        rc = next_line(r, &line, err);
        if (rc != FR_OK || line.text.p == NULL) {
            *no = 0;
            break;
        }
        if (!found)
            hit = s->code != NULL ? find_pattern(s, &line) : find_text(s, &line);
        if (hit.at != SIZE_MAX)
            json_array_append_new(items, json_of_hit(*no, &line, hit.at));
        found |= hit.at != SIZE_MAX;
        if (!found && !line.whole)
            leave_open(r, s, &line, hit.open);
        found &= !line.whole;
        *no += line.whole;
        if (*no % 1024 == 0 && fr_sys.mono_ms() > s->until)
            break;
    }
    return rc;
}

/* In the log at path, from line *no on; *no as of seek(). */
static enum fr_rc seek_in(struct view *v, const char *path, const struct sought *s, int64_t *no,
                          json_t *items, struct fr_err *err)
{
    struct reader r = {.fd = -1};
    struct host_line_at at = {0};
    enum fr_rc rc = open_log(path, &r.fd, err);

    if (rc == FR_OK && r.fd >= 0 && *no > 1)
        rc = line_index_find(v->text->lines, path, r.fd, (uint64_t)*no, &at, err);
    r.at = at.offset;
    if (rc == FR_OK && r.fd >= 0)
        rc = seek(&r, s, no, items, err);
    else
        *no = 0;
    fr_buf_finish(&r.b);
    if (r.fd >= 0)
        fr_sys.close(r.fd);
    return rc;
}

enum fr_rc view_hits(struct view *v, struct fr_err *err)
{
    struct sought s;
    int64_t no = v->text->numbers[0];
    json_t *items = json_array();
    enum fr_rc rc = sought_begin(&s, v->text->args[1], v->text->args[2] != NULL, err);

    if (rc == FR_OK)
        rc = seek_in(v, v->text->args[0], &s, &no, items, err);
    v->doc = json_pack("{s:o, s:b}", "items", items, "truncated", no != 0);
    if (no != 0)
        json_object_set_new(v->doc, "next", json_integer(no));
    sought_finish(&s);
    return rc;
}

/* ---- hits in the logs of a run ---- */

struct hunt {
    struct view *v;
    struct sought s;
    json_t *items, *next; /* next: where to go on; NULL: all was looked at */
    const char *begin;    /* the attempt to begin with; NULL: it has begun */
    int64_t no;           /* the line to begin with */
};

static bool hunt_in(void *arg, const struct fr_attempt_row *row, const char *key, enum fr_rc *rc,
                    struct fr_err *err)
{
    struct hunt *h = arg;
    struct fr_buf path = {0};
    char id[FR_ID_TEXT];
    size_t had = json_array_size(h->items);
    int64_t no = h->no;

    fr_id_text(row->id, id);
    if (h->begin != NULL && strcmp(h->begin, id) != 0)
        return true;
    h->begin = NULL;
    h->no = 1;
    fr_home_at(h->v->home, FR_HOME_RUN, h->v->run.id, &path);
    fr_buf_fmt(&path, "/%s", row->log);
    *rc = path.bad ? fr_fail(err, FR_NOMEM, "no memory for a path")
                   : fr_check_unlinked(path.p, strlen(h->v->home), err);
    if (*rc == FR_OK)
        *rc = seek_in(h->v, path.p, &h->s, &no, h->items, err);
    fr_buf_finish(&path);
    for (; had < json_array_size(h->items); had++) {
        json_t *hit = json_array_get(h->items, had);

        json_object_set_new(hit, "instance", json_string(key));
        json_object_set_new(hit, "attempt", json_string(id));
        json_object_set_new(hit, "attempt_no", json_integer(row->no));
    }
    if (*rc == FR_OK && no != 0)
        h->next = json_pack("{s:s, s:I}", "attempt", id, "from", (json_int_t)no);
    return h->next == NULL;
}

enum fr_rc view_found(struct view *v, struct fr_err *err)
{
    struct hunt h = {
        .v = v, .items = json_array(), .begin = v->text->args[3], .no = v->text->numbers[0]};
    enum fr_rc rc = sought_begin(&h.s, v->text->args[1], v->text->args[2] != NULL, err);

    if (rc == FR_OK)
        rc = view_each_attempt(v, v->text->args[0], hunt_in, &h, err);
    if (rc == FR_OK && h.begin != NULL)
        rc = fr_fail(err, FR_NOTFOUND, "run %lld has no such attempt", (long long)v->run.no);
    v->doc = json_pack("{s:o, s:b, s:o*}", "items", h.items, "truncated", h.next != NULL, "next",
                       h.next);
    sought_finish(&h.s);
    return rc;
}

/* ---- times ---- */

/* The index beside the log says when bytes came: of those from … to. */
enum fr_rc view_times(struct view *v, struct fr_err *err)
{
    uint64_t at = (uint64_t)v->text->numbers[0], to = (uint64_t)v->text->numbers[1];
    struct fr_buf path = {0};
    json_t *items = json_array();
    int fd = -1;
    enum fr_rc rc;

    fr_buf_fmt(&path, "%s.idx", v->text->args[0]);
    rc = path.bad ? fr_fail(err, FR_NOMEM, "no memory for a path") : open_log(path.p, &fd, err);
    while (rc == FR_OK && fd >= 0 && at < to && json_array_size(items) < MARKS) {
        struct fr_log_mark mark = fr_log_mark_find(fd, at, &at);

        if (mark.ms != 0)
            json_array_append_new(
                items, json_pack("[I, I]", (json_int_t)mark.offset, (json_int_t)mark.ms));
    }
    v->doc = json_pack("{s:o}", "items", items);
    if (fd >= 0 && at < to)
        json_object_set_new(v->doc, "next", json_integer((json_int_t)at));
    if (fd >= 0)
        fr_sys.close(fd);
    fr_buf_finish(&path);
    return rc;
}
