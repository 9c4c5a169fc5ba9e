/*
 * A program made to run elsewhere: the loader (ld.so(8)) lists all its libraries, these are put
 * into one folder, and a script starts the program with that loader and those libraries.
 */
#include "engine/ship/ship.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILES_MAX = 512, LIST_MAX = 1 << 20 };

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? path : slash + 1;
}

/* The loader that an ELF file names (PT_INTERP); "" for a static one. */
static enum fr_rc find_loader(const char *path, struct fr_arena *arena, const char **out,
                              struct fr_err *err)
{
    int fd;
    Elf64_Ehdr eh;
    enum fr_rc rc = fr_file_open(path, &fd, NULL, err);

    *out = "";
    if (rc != FR_OK)
        return rc;
    if (fr_sys.pread(fd, &eh, sizeof(eh), 0) != (ssize_t)sizeof(eh) ||
        memcmp(eh.e_ident, ELFMAG, SELFMAG) != 0 || eh.e_ident[EI_CLASS] != ELFCLASS64)
        rc = fr_fail(err, FR_USAGE, "%s is no 64-bit ELF program", path);
    for (unsigned i = 0; rc == FR_OK && i < eh.e_phnum; i++) {
        Elf64_Phdr ph;
        char name[256];
        off_t at = (off_t)(eh.e_phoff + (uint64_t)i * eh.e_phentsize);

        if (fr_sys.pread(fd, &ph, sizeof(ph), at) != (ssize_t)sizeof(ph))
            rc = fr_fail(err, FR_CORRUPT, "%s is cut short", path);
        else if (ph.p_type == PT_INTERP && ph.p_filesz > 1 && ph.p_filesz < sizeof(name) &&
                 fr_sys.pread(fd, name, ph.p_filesz, (off_t)ph.p_offset) == (ssize_t)ph.p_filesz)
            *out = fr_arena_text(arena, name, (size_t)ph.p_filesz - 1);
    }
    fr_sys.close(fd);
    if (rc == FR_OK && *out == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for a bundle");
    return rc;
}

/* Runs argv, waits for its end and returns its stdout. */
static enum fr_rc capture(const char *const *argv, struct fr_buf *out, struct fr_err *err)
{
    int p[2];
    struct fr_proc proc;
    struct fr_wait w = {0};
    char buf[4096];
    ssize_t n;

    if (fr_sys.pipe(p) != 0)
        return fr_fail_errno(err, errno, "pipe");
    struct fr_spawn s = {.argv = argv,
                         .envp = (const char *const *)environ,
                         .fds = {-1, p[1], 2},
                         .die_with_parent = true};
    if (fr_sys.spawn(&s, &proc) != 0) {
        fr_fail_errno(err, errno, "cannot run %s", argv[0]);
        fr_sys.close(p[0]);
        fr_sys.close(p[1]);
        return err != NULL ? err->rc : FR_IO;
    }
    fr_sys.close(p[1]);
    while ((n = fr_sys.read(p[0], buf, sizeof(buf))) > 0 || (n < 0 && errno == EINTR))
        if (n > 0 && out->n < LIST_MAX)
            fr_buf_add(out, buf, (size_t)n);
    fr_sys.close(p[0]);
    if (fr_sys.wait(proc.pid, &w, 0) != 0 || w.signaled || w.code != 0)
        return fr_fail(err, FR_IO, "%s %s %s failed", argv[0], argv[1], argv[2]);
    return FR_OK;
}

static enum fr_rc add_file(struct fr_bundle *b, const char *local, const char *path, uint32_t mode,
                           struct fr_err *err)
{
    struct fr_ship_file *f = &b->v[b->n];
    struct stat st;
    int fd;
    enum fr_rc rc;

    for (size_t i = 0; i < b->n; i++)
        if (strcmp(b->v[i].path, path) == 0)
            return FR_OK; /* two of them need the same library */
    if (b->n == FILES_MAX)
        return fr_fail(err, FR_USAGE, "more than %d files in a bundle", FILES_MAX);
    if ((rc = fr_file_open(local, &fd, &st, err)) != FR_OK)
        return rc;
    fr_sys.close(fd);
    f->local = fr_arena_dup(&b->arena, local);
    f->path = fr_arena_dup(&b->arena, path);
    f->size = (uint64_t)st.st_size;
    f->mode = mode;
    if (f->local == NULL || f->path == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a bundle");
    b->n++;
    return FR_OK;
}

static enum fr_rc add_lib(struct fr_bundle *b, const char *local, struct fr_err *err)
{
    const char *path = fr_arena_fmt(&b->arena, "lib/%s", base_name(local));

    if (path == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a bundle");
    return add_file(b, local, path, 0644, err);
}

/* One line of `ld.so --list`: "NAME => PATH (0x…)", "NAME => not found", "PATH (0x…)" or the vdso.
 */
static enum fr_rc add_listed(struct fr_bundle *b, const char *of, char *line, struct fr_err *err)
{
    char *arrow = strstr(line, " => "), *path = arrow != NULL ? arrow + 4 : line;
    char *end;

    line += strspn(line, " \t");
    path += strspn(path, " \t");
    if (strncmp(path, "not found", 9) == 0) {
        *arrow = '\0';
        return fr_fail(err, FR_NOTFOUND, "%s needs %s, which is not there", of, line);
    }
    if (path[0] != '/')
        return FR_OK; /* the vdso; "statically linked" */
    if ((end = strstr(path, " (")) != NULL)
        *end = '\0';
    return add_lib(b, path, err);
}

static enum fr_rc add_needed(struct fr_bundle *b, const char *loader, const char *of,
                             struct fr_err *err)
{
    const char *argv[] = {loader, "--list", of, NULL};
    struct fr_buf list = {0};
    enum fr_rc rc = capture(argv, &list, err);
    char *line = list.p;

    while (rc == FR_OK && line != NULL && *line != '\0') {
        char *end = strchr(line, '\n');

        if (end != NULL)
            *end = '\0';
        rc = add_listed(b, of, line, err);
        line = end == NULL ? NULL : end + 1;
    }
    fr_buf_finish(&list);
    return rc;
}

/* bin/NAME. The loader lies beside it under the program's own name, as lib/run/NAME, so that the
 * process is called NAME in the process table. */
static enum fr_rc add_script(struct fr_bundle *b, const char *name, struct fr_err *err)
{
    struct fr_ship_file *f = &b->v[b->n];

    if (b->n == FILES_MAX)
        return fr_fail(err, FR_USAGE, "more than %d files in a bundle", FILES_MAX);
    const char *script =
        fr_arena_fmt(&b->arena,
                     "#!/bin/sh\n"
                     "p=$0\n"
                     "case $p in */*) ;; *) p=$(command -v \"$p\") ;; esac\n"
                     "case $p in /*) ;; *) p=$PWD/$p ;; esac\n"
                     "d=${p%%/*/*}\n"
                     "export FLOWRUN_BUNDLE=\"$p\"\n"
                     "exec \"$d/lib/run/%s\" --argv0 \"$p\" --library-path "
                     "\"$d/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}\" \"$d/bin/%s.bin\" \"$@\"\n",
                     name, name);
    f->path = fr_arena_fmt(&b->arena, "bin/%s", name);
    if (script == NULL || f->path == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a bundle");
    f->bytes = fr_str_of(script);
    f->size = f->bytes.n;
    f->mode = 0755;
    b->n++;
    return FR_OK;
}

static enum fr_rc add_all(struct fr_bundle *b, const char *program, struct fr_err *err)
{
    const char *name = base_name(program), *loader = "";
    const char *bin = fr_arena_fmt(&b->arena, "bin/%s.bin", name);
    const char *plain = fr_arena_fmt(&b->arena, "bin/%s", name);
    const char *run = fr_arena_fmt(&b->arena, "lib/run/%s", name);
    enum fr_rc rc;

    if (bin == NULL || plain == NULL || run == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a bundle");
    if ((rc = find_loader(program, &b->arena, &loader, err)) != FR_OK)
        return rc;
    if (loader[0] == '\0') /* static: nothing else is needed */
        return add_file(b, program, plain, 0755, err);
    rc = add_file(b, program, bin, 0755, err);
    if (rc == FR_OK)
        rc = add_file(b, loader, run, 0755, err);
    if (rc == FR_OK)
        rc = add_needed(b, loader, program, err);
    return rc == FR_OK ? add_script(b, name, err) : rc;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct fr_ship_file *)a)->path, ((const struct fr_ship_file *)b)->path);
}

static enum fr_rc name_it(struct fr_bundle *b, struct fr_err *err)
{
    enum fr_rc rc = fr_ship_name(b->v, b->n, &b->arena, b->hash, err);
    char *program = rc == FR_OK ? fr_arena_fmt(&b->arena, "%s/%s", b->hash, b->program) : NULL;

    if (rc != FR_OK)
        return rc;
    if (program == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a bundle");
    b->program = program;
    return FR_OK;
}

enum fr_rc fr_bundle_open(struct fr_bundle *out, const char *program, struct fr_err *err)
{
    enum fr_rc rc;

    *out = (struct fr_bundle){0};
    out->v = fr_arena_array(&out->arena, FILES_MAX, sizeof(*out->v));
    rc = out->v == NULL ? fr_fail(err, FR_NOMEM, "no memory for a bundle")
                        : add_all(out, program, err);
    if (rc == FR_OK) {
        qsort(out->v, out->n, sizeof(*out->v), by_path);
        out->program = fr_arena_fmt(&out->arena, "bin/%s", base_name(program));
        if (out->program == NULL)
            rc = fr_fail(err, FR_NOMEM, "no memory for a bundle");
    }
    if (rc != FR_OK) {
        fr_while(err, "bundling %s", program);
        fr_bundle_finish(out);
    }
    return rc;
}

static enum fr_rc hash_some(struct fr_bundle *b, size_t *left, struct fr_err *err)
{
    struct fr_ship_file *f = &b->v[b->hashed];
    char sum[FR_SHA256_TEXT];
    bool done = true;
    enum fr_rc rc = FR_OK;

    if (f->local != NULL)
        rc = fr_hash_slice(&b->now, f->local, left, &done, sum, err);
    else
        fr_sha256(f->bytes.p, f->bytes.n, sum);
    if (rc == FR_OK && done && (f->sha256 = fr_arena_dup(&b->arena, sum)) == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for a bundle");
    b->hashed += rc == FR_OK && done;
    return rc;
}

enum fr_rc fr_bundle_step(struct fr_bundle *b, size_t max_bytes, bool *done, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    while (rc == FR_OK && b->hashed < b->n && max_bytes > 0)
        rc = hash_some(b, &max_bytes, err);
    *done = false;
    if (rc == FR_OK && b->hashed == b->n)
        *done = (rc = name_it(b, err)) == FR_OK;
    return rc == FR_OK ? FR_OK : fr_while(err, "bundling %s", base_name(b->program));
}

void fr_bundle_finish(struct fr_bundle *b)
{
    if (b != NULL) {
        fr_hash_close(b->now);
        fr_arena_finish(&b->arena);
        *b = (struct fr_bundle){0};
    }
}
