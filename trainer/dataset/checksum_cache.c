#include "trainer/dataset/checksum_cache.h"

#include "engine/base/json.h"
#include "engine/base/sys.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

enum { LIST_MAX_BYTES = 1 << 24, FRESH_MS = 2000, TEXT = 160 };

/* Reads a file's key, which changes with every write; false: there is no such file. */
static bool look(const char *path, char out[TEXT], int64_t *changed_ms)
{
    struct stat st;
    int fd = fr_sys.open(path, O_RDONLY | O_NONBLOCK, 0);
    bool found = fd >= 0 && fr_sys.fstat(fd, &st) == 0;

    if (fd >= 0)
        fr_sys.close(fd);
    if (!found)
        return false;
    (void)snprintf(out, TEXT, "%llu %llu %lld %lld.%09ld %lld.%09ld", (unsigned long long)st.st_dev,
                   (unsigned long long)st.st_ino, (long long)st.st_size,
                   (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec, (long long)st.st_ctim.tv_sec,
                   st.st_ctim.tv_nsec);
    *changed_ms = (int64_t)st.st_ctim.tv_sec * 1000 + st.st_ctim.tv_nsec / 1000000;
    return true;
}

void tr_checksum_cache_open(struct tr_checksum_cache *s, const char *dir)
{
    struct fr_err err;

    *s = (struct tr_checksum_cache){.seen = json_object()};
    if (dir != NULL && snprintf(s->path, sizeof(s->path), "%s/stamps.json", dir) >= PATH_MAX)
        s->path[0] = '\0';
    if (s->path[0] != '\0' && fr_json_load(s->path, LIST_MAX_BYTES, &s->files, &err) == FR_OK &&
        json_is_object(s->files))
        return;
    json_decref(s->files);
    s->files = json_object();
}

void tr_checksum_cache_close(struct tr_checksum_cache *s)
{
    struct fr_err err;

    if (s->changed && s->path[0] != '\0')
        (void)fr_json_save(s->files, s->path, JSON_INDENT(1), 0644, &err);
    json_decref(s->files);
    json_decref(s->seen);
    *s = (struct tr_checksum_cache){.files = NULL};
}

/* The sum in a list of a file that looks like that; NULL: it is not known. */
static const char *known(const json_t *list, const char *path, const char *looks)
{
    const json_t *one = json_object_get(list, path);
    const char *was = json_string_value(json_object_get(one, "file"));
    const char *sum = json_string_value(json_object_get(one, "sha256"));
    bool same = was != NULL && strcmp(was, looks) == 0;

    return same && sum != NULL && strlen(sum) == FR_SHA256_TEXT - 1 ? sum : NULL;
}

static bool put(json_t *list, const char *path, const char *looks, const char *sha256)
{
    json_t *one = json_pack("{s:s, s:s}", "file", looks, "sha256", sha256);

    return one != NULL && json_object_set_new(list, path, one) == 0;
}

/* A file, how it looked before it was read, and the sum of what was read. */
struct summed {
    const char *path, *looks, *sum;
    int64_t changed_ms; /* when it was written to */
    int64_t began_ms;   /* when reading it began */
};

/* Puts the sum down, unless the file was written to while it was read or shortly before. */
static void keep(struct tr_checksum_cache *s, const struct summed *f)
{
    char after[TEXT];
    int64_t changed_ms;

    if (f->began_ms - f->changed_ms > FRESH_MS && look(f->path, after, &changed_ms) &&
        strcmp(f->looks, after) == 0 && put(s->files, f->path, after, f->sum))
        s->changed = true;
}

enum fr_rc tr_checksum_cache_sha256(struct tr_checksum_cache *s, const char *path,
                                    char out[FR_SHA256_TEXT], struct fr_err *err)
{
    char looks[TEXT] = "";
    struct summed f = {path, looks, out, 0, fr_sys.wall_ms()};
    bool there = look(path, looks, &f.changed_ms);
    const char *sum = there ? known(s->files, path, looks) : NULL;
    enum fr_rc rc = FR_OK;

    if (sum != NULL)
        memcpy(out, sum, FR_SHA256_TEXT);
    else if ((rc = fr_sha256_file(path, out, err)) == FR_OK && there)
        keep(s, &f);
    if (rc == FR_OK && !put(s->seen, path, looks, out))
        rc = fr_fail(err, FR_NOMEM, "no memory for the sum of %s", path);
    return rc;
}

/* A file that was too new to be put down. */
static enum fr_rc sum_again(struct tr_checksum_cache *s, const struct summed *f, struct fr_err *err)
{
    char sum[FR_SHA256_TEXT];
    enum fr_rc rc = fr_sha256_file(f->path, sum, err);

    if (rc == FR_OK && strcmp(sum, f->sum) != 0)
        return fr_fail(err, FR_CORRUPT, "%s was written to or removed while it was read", f->path);
    if (rc == FR_OK)
        keep(s, f);
    return rc;
}

enum fr_rc tr_checksum_cache_settle(struct tr_checksum_cache *s, struct fr_err *err)
{
    const char *path;
    json_t *one;
    enum fr_rc rc;

    json_object_foreach(s->seen, path, one)
    {
        char looks[TEXT];
        struct summed f = {path, looks, NULL, 0, fr_sys.wall_ms()};

        if (!look(path, looks, &f.changed_ms) || (f.sum = known(s->seen, path, looks)) == NULL)
            return fr_fail(err, FR_CORRUPT, "%s was written to or removed while it was read", path);
        if (known(s->files, path, looks) == NULL && f.began_ms - f.changed_ms > FRESH_MS &&
            (rc = sum_again(s, &f, err)) != FR_OK)
            return rc;
    }
    return FR_OK;
}

bool tr_checksum_cache_have(const struct tr_checksum_cache *s, const char *path, const char *sha256)
{
    char looks[TEXT];
    int64_t changed_ms;
    const char *sum = look(path, looks, &changed_ms) ? known(s->files, path, looks) : NULL;

    return sum != NULL && strcmp(sum, sha256) == 0;
}

void tr_checksum_cache_put(struct tr_checksum_cache *s, const char *path, const char *sha256)
{
    char looks[TEXT];
    int64_t changed_ms;

    if (look(path, looks, &changed_ms) && put(s->files, path, looks, sha256))
        s->changed = true;
}
