#include "engine/allocate/folder.h"

#include "engine/base/file.h"
#include "engine/base/owner.h"
#include "engine/base/sys.h"
#include "engine/link/link.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
    PROGRAM_MAX = 256 << 20,
    FILE_MAX = 64 << 10, /* of what a keeper writes */
    LOG_BYTES = 600,     /* quoted of the script's output */
};

/* ---- before the submit ---- */

static enum fr_rc make_folder(const char *path, struct fr_err *err)
{
    enum fr_rc rc = fr_mkdirs(path, 0700, err);

    return rc == FR_OK ? fr_check_private(path, "the allocation's folder", "remove it", err) : rc;
}

/* A copy is renamed into place, so what has that name is whole. */
static enum fr_rc copy_program(const char *from, const char *to, struct fr_err *err)
{
    struct fr_buf bytes = {0};
    struct stat st;
    enum fr_rc rc;

    if (fr_sys.lstat(to, &st) == 0 && S_ISREG(st.st_mode))
        return FR_OK;
    rc = fr_file_read(from, PROGRAM_MAX, &bytes, err);
    if (rc == FR_OK)
        rc = fr_file_write(to, bytes.p, bytes.n, 0755, err);
    fr_buf_finish(&bytes);
    return rc;
}

enum fr_rc alloc_folder_make(const struct alloc_folder *f, struct fr_arena *arena,
                             const char **program, struct fr_err *err)
{
    const char *bin = fr_arena_fmt(arena, "%s/bin", f->work);
    const char *alloc = fr_arena_fmt(arena, "%s/alloc", f->work);
    char hash[FR_SHA256_TEXT];
    struct stat st;
    enum fr_rc rc;

    if (bin == NULL || alloc == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a path");
    if (fr_sys.lstat(f->work, &st) != 0 && fr_sys.mkdir(f->work, 0700) != 0)
        return fr_fail_errno(err, errno, "the folder %s (work: of the inventory)", f->work);
    rc = make_folder(alloc, err);
    if (rc == FR_OK)
        rc = make_folder(bin, err);
    if (rc == FR_OK)
        rc = make_folder(f->folder, err);
    if (rc == FR_OK)
        rc = fr_sha256_file(f->flownode, hash, err);
    if (rc == FR_OK && (*program = fr_arena_fmt(arena, "%s/flownode-%.16s", bin, hash)) == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for a path");
    return rc == FR_OK ? copy_program(f->flownode, *program, err) : rc;
}

enum fr_rc alloc_folder_script(const char *folder, const char *script, struct fr_err *err)
{
    struct fr_buf path = {0};
    enum fr_rc rc;

    fr_buf_fmt(&path, "%s/job.sh", folder);
    rc = path.bad ? fr_fail(err, FR_NOMEM, "no memory for a path")
                  : fr_file_write(path.p, script, strlen(script), 0700, err);
    fr_buf_finish(&path);
    return rc;
}

/* ---- what keepers write ---- */

/* The value of a line "KEY VALUE"; "": there is none. */
static struct fr_str value_of(struct fr_str text, const char *key)
{
    size_t n = strlen(key);

    while (text.n > 0) {
        const char *end = memchr(text.p, '\n', text.n);
        size_t line = end != NULL ? (size_t)(end - text.p) : text.n;

        if (line > n && memcmp(text.p, key, n) == 0 && text.p[n] == ' ')
            return (struct fr_str){text.p + n + 1, line - n - 1};
        line += end != NULL;
        text.p += line;
        text.n -= line;
    }
    return (struct fr_str){"", 0};
}

static int64_t number_of(struct fr_str s)
{
    int64_t n = 0;

    for (size_t i = 0; i < s.n && s.p[i] >= '0' && s.p[i] <= '9' && n < INT64_MAX / 100; i++)
        n = n * 10 + (s.p[i] - '0');
    return n;
}

/* The text of FOLDER/NAME; "": there is no such file. */
static enum fr_rc read_one(const char *folder, const char *name, struct fr_buf *out,
                           struct fr_err *err)
{
    struct fr_buf path = {0};
    struct stat st;
    enum fr_rc rc = FR_OK;

    out->n = 0;
    fr_buf_text(out, "");
    fr_buf_fmt(&path, "%s/%s", folder, name);
    if (path.bad || out->bad)
        rc = fr_fail(err, FR_NOMEM, "no memory for a path");
    else if (fr_sys.lstat(path.p, &st) == 0)
        rc = fr_file_read(path.p, FILE_MAX, out, err);
    fr_buf_finish(&path);
    return rc == FR_NOTFOUND ? FR_OK : rc;
}

/* FOLDER/place.K and what follows that name; "" where it is of an older job of the tag. */
static enum fr_rc read_place(const char *folder, int64_t job, const char *name, struct fr_buf *text,
                             struct fr_err *err)
{
    enum fr_rc rc = read_one(folder, name, text, err);

    if (rc == FR_OK && number_of(value_of((struct fr_str){text->p, text->n}, "job")) != job)
        text->n = 0;
    return rc;
}

static enum fr_rc keep(struct fr_arena *arena, struct fr_str s, const char **out,
                       struct fr_err *err)
{
    *out = s.n > 0 ? fr_arena_text(arena, s.p, s.n) : NULL;
    return s.n == 0 || *out != NULL ? FR_OK : fr_fail(err, FR_NOMEM, "no memory for a place");
}

static enum fr_rc read_places(const char *folder, int64_t job, struct fr_arena *arena,
                              struct alloc_seen *out, struct fr_err *err)
{
    struct fr_buf text = {0};
    enum fr_rc rc = FR_OK;

    for (size_t k = 0; rc == FR_OK && k < out->n; k++) {
        struct alloc_place *place = &out->places[k];
        char name[48];

        snprintf(name, sizeof(name), "place.%zu", k + 1);
        rc = read_place(folder, job, name, &text, err);
        if (rc == FR_OK)
            rc = keep(arena, value_of((struct fr_str){text.p, text.n}, "host"), &place->host, err);
        if (rc == FR_OK)
            rc = keep(arena, value_of((struct fr_str){text.p, text.n}, "address"), &place->address,
                      err);
        out->n_known += place->host != NULL && place->address != NULL;
        snprintf(name, sizeof(name), "place.%zu.closed", k + 1);
        if (rc == FR_OK)
            rc = read_place(folder, job, name, &text, err);
        place->closed = rc == FR_OK && text.n > 0;
        out->n_closed += place->closed;
    }
    fr_buf_finish(&text);
    return rc;
}

static enum fr_rc read_error(const char *folder, struct fr_arena *arena, struct alloc_seen *out,
                             struct fr_err *err)
{
    struct fr_buf text = {0}, line = {0};
    enum fr_rc rc = FR_OK;

    for (size_t k = 0; rc == FR_OK && out->error == NULL && k < out->n; k++) {
        char name[48];

        snprintf(name, sizeof(name), "place.%zu.error", k + 1);
        rc = read_one(folder, name, &text, err);
        if (rc != FR_OK || text.n == 0)
            continue;
        fr_link_quote(&line, text.p, text.n);
        out->error = line.bad ? NULL : fr_arena_dup(arena, line.p);
    }
    fr_buf_finish(&text);
    fr_buf_finish(&line);
    return rc;
}

enum fr_rc alloc_folder_read(const char *folder, int64_t job, size_t n, struct fr_arena *arena,
                             struct alloc_seen *out, struct fr_err *err)
{
    struct fr_buf text = {0};
    enum fr_rc rc;

    *out = (struct alloc_seen){.n = n, .places = fr_arena_array(arena, n, sizeof(*out->places))};
    if (out->places == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the places");
    rc = read_one(folder, "claim", &text, err);
    if (rc == FR_OK)
        out->claimed = number_of((struct fr_str){text.p, text.n});
    fr_buf_finish(&text);
    if (rc == FR_OK)
        rc = read_places(folder, job, arena, out, err);
    return rc == FR_OK && out->n_known < n ? read_error(folder, arena, out, err) : rc;
}

const char *alloc_folder_log(const char *folder, struct fr_arena *arena)
{
    struct fr_buf text = {0}, line = {0};
    const char *out = "";

    if (read_one(folder, "job.log", &text, NULL) == FR_OK && text.n > 0) {
        size_t from = text.n > LOG_BYTES ? text.n - LOG_BYTES : 0;

        fr_link_quote(&line, text.p + from, text.n - from);
        out = line.bad ? "" : fr_arena_dup(arena, line.p);
    }
    fr_buf_finish(&text);
    fr_buf_finish(&line);
    return out != NULL ? out : "";
}
