#include "engine/submit/folder.h"

#include "engine/base/file.h"
#include "engine/base/owner.h"
#include "engine/base/sys.h"

#include <errno.h>
#include <string.h>

enum {
    PROGRAM_MAX = 256 << 20,
    FILE_MAX = 64 << 10, /* of what a keeper writes */
    LOG_MAX = 1 << 20,
    NAME_MAX_BYTES = 64
};

/* ---- before the submit ---- */

static enum fr_rc make_one(const char *path, struct fr_err *err)
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

/* The length of WORK in WORK/alloc/TAG; 0: folder is no such path. */
static size_t work_of(const char *folder)
{
    static const char alloc[] = "/alloc/";
    size_t n = strlen(folder), m = sizeof(alloc) - 1;
    struct fr_id tag;

    if (n < FR_ID_TEXT + m || folder[0] != '/' ||
        !fr_id_parse(fr_str_of(folder + n - (FR_ID_TEXT - 1)), &tag))
        return 0;
    n -= FR_ID_TEXT - 1 + m;
    return memcmp(folder + n, alloc, m) == 0 ? n : 0;
}

static enum fr_rc check_folder(const char *folder, struct fr_err *err)
{
    return work_of(folder) > 0
               ? FR_OK
               : fr_fail(err, FR_USAGE, "%s is no folder of an allocation, WORK/alloc/TAG", folder);
}

enum fr_rc fr_folder_make(const char *folder, const char *flownode, struct fr_arena *arena,
                          const char **program, struct fr_err *err)
{
    enum fr_rc rc = check_folder(folder, err);
    const char *work = rc == FR_OK ? fr_arena_text(arena, folder, work_of(folder)) : NULL;
    const char *bin = fr_arena_fmt(arena, "%s/bin", work != NULL ? work : "");
    const char *alloc = fr_arena_fmt(arena, "%s/alloc", work != NULL ? work : "");
    char hash[FR_SHA256_TEXT];
    struct stat st;

    if (rc != FR_OK)
        return rc;
    if (work == NULL || bin == NULL || alloc == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a path");
    if (fr_sys.lstat(work, &st) != 0 && fr_sys.mkdir(work, 0700) != 0 &&
        errno != EEXIST) /* that of another allocation was sooner */
        return fr_fail_errno(err, errno, "the folder %s (work: of the inventory)", work);
    rc = make_one(alloc, err);
    if (rc == FR_OK)
        rc = make_one(bin, err);
    if (rc == FR_OK)
        rc = make_one(folder, err);
    if (rc == FR_OK)
        rc = fr_sha256_file(flownode, hash, err);
    if (rc == FR_OK && (*program = fr_arena_fmt(arena, "%s/flownode-%.16s", bin, hash)) == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for a path");
    return rc == FR_OK ? copy_program(flownode, *program, err) : rc;
}

enum fr_rc fr_folder_script(const char *folder, const char *script, struct fr_err *err)
{
    struct fr_buf path = {0};
    enum fr_rc rc = check_folder(folder, err);

    fr_buf_fmt(&path, "%s/job.sh", folder);
    if (rc == FR_OK && path.bad)
        rc = fr_fail(err, FR_NOMEM, "no memory for a path");
    if (rc == FR_OK)
        rc = fr_file_write(path.p, script, strlen(script), 0700, err);
    fr_buf_finish(&path);
    return rc;
}

/* ---- what keepers write ---- */

/* One that goes meanwhile is left out. */
static enum fr_rc read_one(const char *folder, const char *name, struct fr_buf *out,
                           struct fr_err *err)
{
    struct fr_buf path = {0}, bytes = {0};
    bool log = strcmp(name, "job.log") == 0;
    enum fr_rc rc;

    fr_buf_fmt(&path, "%s/%s", folder, name);
    rc = path.bad ? fr_fail(err, FR_NOMEM, "no memory for a path")
                  : fr_file_read(path.p, log ? LOG_MAX : FILE_MAX, &bytes, err);
    if (rc == FR_OK) {
        size_t from = log && bytes.n > FR_FOLDER_LOG ? bytes.n - FR_FOLDER_LOG : 0;

        fr_buf_fmt(out, "%s %zu\n", name, bytes.n - from);
        if (bytes.n > from)
            fr_buf_add(out, bytes.p + from, bytes.n - from);
        fr_buf_text(out, "\n");
    } else if (rc == FR_NOTFOUND || log) {
        rc = FR_OK;
    }
    fr_buf_finish(&path);
    fr_buf_finish(&bytes);
    return rc;
}

static bool is_read(const char *name)
{
    return strlen(name) < NAME_MAX_BYTES && strpbrk(name, " \n") == NULL &&
           (strcmp(name, "claim") == 0 || strcmp(name, "job.log") == 0 ||
            fr_has_prefix(name, "place."));
}

enum fr_rc fr_folder_read(const char *folder, struct fr_buf *out, struct fr_err *err)
{
    char **names = NULL;
    size_t n = 0;
    enum fr_rc rc = check_folder(folder, err);

    if (rc == FR_OK && fr_sys.list(folder, &names, &n) != 0)
        return errno == ENOENT || errno == ENOTDIR
                   ? FR_OK
                   : fr_fail_errno(err, errno, "the folder %s", folder);
    for (size_t i = 0; rc == FR_OK && i < n; i++)
        if (is_read(names[i]))
            rc = read_one(folder, names[i], out, err);
    fr_sys_names_free(names, n);
    if (rc == FR_OK && out->bad)
        rc = fr_fail(err, FR_NOMEM, "no memory for the files of %s", folder);
    return rc;
}

bool fr_folder_next(struct fr_str *rest, struct fr_str *name, struct fr_str *bytes)
{
    struct fr_str all = *rest, line;
    const char *blank;
    int64_t size;

    if (!fr_next_line(&all, &line) || (blank = memchr(line.p, ' ', line.n)) == NULL)
        return false;
    *name = (struct fr_str){line.p, (size_t)(blank - line.p)};
    line.n -= name->n + 1;
    line.p += name->n + 1;
    if (fr_parse_i64(line, &size, NULL) != FR_OK || size < 0 || (uint64_t)size >= all.n)
        return false;
    *bytes = (struct fr_str){all.p, (size_t)size};
    if (all.p[size] != '\n')
        return false;
    *rest = (struct fr_str){all.p + size + 1, all.n - (size_t)size - 1};
    return true;
}

enum fr_rc fr_folder_remove(const char *folder, struct fr_err *err)
{
    enum fr_rc rc = check_folder(folder, err);

    return rc == FR_OK ? fr_remove_tree(folder, err) : rc;
}
