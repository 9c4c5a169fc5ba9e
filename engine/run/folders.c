#include "engine/run/folders.h"

#include "engine/base/arena.h"
#include "engine/base/file.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { SHOWN = 250 /* bytes of a path */ };

__attribute__((format(printf, 3, 4))) static void wrong(struct fr_slurm_sink sink,
                                                        enum fr_slurm_key key, const char *fmt, ...)
{
    struct fr_slurm_finding f = {.bad = true, .key = key};
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(f.text, sizeof(f.text), fmt, ap);
    va_end(ap);
    sink.found(sink.arg, &f);
}

struct found {
    bool known; /* else that was told */
    int failed; /* errno: nothing is here; 0: something is */
    bool folder;
};

static enum fr_rc look(const char *path, enum fr_slurm_key key, struct fr_slurm_sink sink,
                       struct found *out, struct fr_err *err)
{
    struct stat st = {0};
    enum fr_rc rc = fr_file_look_soon(path, &st, &out->failed, err);

    out->known = rc == FR_OK;
    out->folder = out->known && out->failed == 0 && S_ISDIR(st.st_mode);
    if (rc != FR_TIMEOUT)
        return rc;
    wrong(sink, key, "%s", err->msg);
    return FR_OK;
}

/* work is made where its parent is there; where that is not, a file system is not mounted, or the
 * path is wrong. */
static enum fr_rc check_work(const char *work, struct fr_slurm_sink sink, struct fr_arena *arena,
                             struct fr_err *err)
{
    const char *parent = fr_arena_text(arena, work, (size_t)(strrchr(work, '/') - work));
    struct found f;
    enum fr_rc rc;

    if (parent == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a path");
    rc = look(work, FR_SLURM_KEY_WORK, sink, &f, err);
    if (rc == FR_OK && f.known && f.failed == ENOENT && parent[0] != '\0') {
        rc = look(parent, FR_SLURM_KEY_WORK, sink, &f, err);
        if (rc == FR_OK && f.known && !f.folder)
            wrong(sink, FR_SLURM_KEY_WORK,
                  "work of slurm: %.*s: there is no folder %.*s to make it in", SHOWN / 2, work,
                  SHOWN / 2, parent);
    } else if (rc == FR_OK && f.known && f.failed != ENOENT && !f.folder) {
        wrong(sink, FR_SLURM_KEY_WORK,
              "work of slurm: %.*s: %s; expected a folder that compute nodes share", SHOWN, work,
              f.failed != 0 ? strerror(f.failed) : "no folder");
    }
    return rc;
}

enum fr_rc fr_run_check_folders(const struct fr_slurm_spec *s, struct fr_slurm_sink sink,
                                struct fr_err *err)
{
    struct fr_arena arena = {0};
    struct found f;
    enum fr_rc rc = FR_OK;

    if (s->login != NULL)
        return FR_OK;
    rc = check_work(s->work, sink, &arena, err);
    if (rc == FR_OK && s->path != NULL) {
        rc = look(s->path, FR_SLURM_KEY_PATH, sink, &f, err);
        if (rc == FR_OK && f.known && !f.folder)
            wrong(sink, FR_SLURM_KEY_PATH,
                  "path of slurm: %.*s: %s; expected the folder of Slurm's commands", SHOWN,
                  s->path, f.failed != 0 ? strerror(f.failed) : "no folder");
    }
    fr_arena_finish(&arena);
    return rc;
}
