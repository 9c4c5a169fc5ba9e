#include "trainer/tensor/safetensors.h"

#include "engine/base/arena.h"
#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/str.h"
#include "engine/base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIECE_BYTES = 1 << 20, HEADER_MAX_BYTES = 100000000 };

static int by_type_and_name(const void *a, const void *b)
{
    const struct tr_st_item *x = *(const struct tr_st_item *const *)a;
    const struct tr_st_item *y = *(const struct tr_st_item *const *)b;

    if (x->type != y->type)
        return x->type > y->type ? -1 : 1;
    return strcmp(x->name, y->name);
}

static enum fr_rc item_bytes(const struct tr_st_item *item, int64_t *out, struct fr_err *err)
{
    int64_t n = tr_st_type_bits(item->type);

    for (int i = 0; i < item->ndim; i++)
        if (item->shape[i] < 0 || __builtin_mul_overflow(n, item->shape[i], &n))
            return fr_fail(err, FR_SHAPE, "tensor '%s': its shape overflows", item->name);
    if (n % 8 != 0)
        return fr_fail(err, FR_SHAPE, "tensor '%s' does not end at a whole byte", item->name);
    *out = n / 8;
    return FR_OK;
}

/* A JSON string: other Unicode stays as it is. */
static void quote(struct fr_buf *b, const char *s)
{
    fr_buf_text(b, "\"");
    for (; *s != '\0'; s++) {
        if (*s == '"' || *s == '\\')
            fr_buf_fmt(b, "\\%c", *s);
        else if ((unsigned char)*s < 0x20)
            fr_buf_fmt(b, "\\u%04x", (unsigned)(unsigned char)*s);
        else
            fr_buf_add(b, s, 1);
    }
    fr_buf_text(b, "\"");
}

static enum fr_rc header(const struct tr_st_item *const *items, size_t n,
                         const struct tr_st_pair *meta, size_t nmeta, struct fr_buf *b,
                         struct fr_err *err)
{
    int64_t at = 0, bytes;
    enum fr_rc rc;

    fr_buf_add(b, "\0\0\0\0\0\0\0\0{", 9);
    if (nmeta > 0)
        fr_buf_text(b, "\"__metadata__\":{");
    for (size_t i = 0; i < nmeta; i++) {
        quote(b, meta[i].key);
        fr_buf_text(b, ":");
        quote(b, meta[i].value);
        fr_buf_text(b, i + 1 < nmeta ? "," : n > 0 ? "}," : "}");
    }
    for (size_t i = 0; i < n; i++) {
        if ((rc = item_bytes(items[i], &bytes, err)) != FR_OK)
            return rc;
        quote(b, items[i]->name);
        fr_buf_fmt(b, ":{\"dtype\":\"%s\",\"shape\":[", tr_st_type_name(items[i]->type));
        for (int d = 0; d < items[i]->ndim; d++)
            fr_buf_fmt(b, "%s%" PRId64, d > 0 ? "," : "", items[i]->shape[d]);
        fr_buf_fmt(b, "],\"data_offsets\":[%" PRId64 ",%" PRId64 "]}%s", at, at + bytes,
                   i + 1 < n ? "," : "");
        at += bytes;
    }
    fr_buf_text(b, "}");
    while (b->n % 8 != 0 && !b->bad)
        fr_buf_text(b, " ");
    if (b->bad)
        return fr_fail(err, FR_NOMEM, "no memory for a header of %zu tensors", n);
    if (b->n - 8 > HEADER_MAX_BYTES)
        return fr_fail(err, FR_UNSUPPORTED, "a header of %zu bytes is too large", b->n);
    for (int i = 0; i < 8; i++)
        b->p[i] = (char)((uint64_t)(b->n - 8) >> (8 * i) & 0xff);
    return FR_OK;
}

static enum fr_rc write_item(int fd, const struct tr_st_item *item, char *piece, struct fr_err *err)
{
    int64_t bytes, done = 0;
    enum fr_rc rc = item_bytes(item, &bytes, err);

    while (rc == FR_OK && done < bytes) {
        size_t n = bytes - done < PIECE_BYTES ? (size_t)(bytes - done) : PIECE_BYTES;
        const char *p = piece;
        if (item->data != NULL)
            p = (const char *)item->data + done;
        else
            rc = item->fill(item->arg, item, done, piece, n, err);
        if (rc == FR_OK && !fr_write_full(fd, p, n))
            rc = fr_fail_errno(err, errno, "cannot write tensor '%s'", item->name);
        done += (int64_t)n;
    }
    return rc;
}

static enum fr_rc write_all(const char *temp, const struct fr_buf *head,
                            const struct tr_st_item *const *items, size_t n, struct fr_err *err)
{
    char *piece = fr_sys.alloc(PIECE_BYTES);
    enum fr_rc rc = FR_OK;
    int fd;

    if (piece == NULL)
        return fr_fail(err, FR_NOMEM, "no memory to write %s", temp);
    if ((fd = fr_sys.open(temp, O_WRONLY | O_CREAT | O_TRUNC, 0644)) < 0) {
        fr_sys.free(piece);
        return fr_fail_errno(err, errno, "cannot create %s", temp);
    }
    if (!fr_write_full(fd, head->p, head->n))
        rc = fr_fail_errno(err, errno, "cannot write %s", temp);
    for (size_t i = 0; rc == FR_OK && i < n; i++)
        if ((rc = write_item(fd, items[i], piece, err)) != FR_OK)
            fr_while(err, "%s", temp);
    if (rc == FR_OK && fr_sys.fdatasync(fd) != 0)
        rc = fr_fail_errno(err, errno, "cannot sync %s", temp);
    if (fr_sys.close(fd) != 0 && rc == FR_OK)
        rc = fr_fail_errno(err, errno, "cannot close %s", temp);
    fr_sys.free(piece);
    return rc;
}

/* The folder of path into dir, "." when it has none. */
static void folder_of(const char *path, char dir[PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    size_t n = slash == NULL ? 0 : slash == path ? 1 : (size_t)(slash - path);

    if (n == 0 || n >= PATH_MAX) {
        memcpy(dir, ".", 2);
        return;
    }
    memcpy(dir, path, n);
    dir[n] = '\0';
}

enum fr_rc tr_st_write(const char *path, const struct tr_st_item *items, size_t n,
                       const struct tr_st_pair *meta, size_t nmeta, struct fr_err *err)
{
    char temp[PATH_MAX], dir[PATH_MAX];
    struct fr_arena arena = {0};
    struct fr_buf head = {0};
    const struct tr_st_item **order = fr_arena_array(&arena, n + 1, sizeof(*order));
    enum fr_rc rc;

    if (order == NULL || snprintf(temp, sizeof(temp), "%s.tmp-%d", path, (int)getpid()) >= PATH_MAX)
        rc = fr_fail(err, FR_NOMEM, "cannot write %s: name too long or no memory", path);
    else {
        for (size_t i = 0; i < n; i++)
            order[i] = &items[i];
        if (n > 0)
            qsort(order, n, sizeof(*order), by_type_and_name);
        rc = FR_OK;
        for (size_t i = 1; i < n && rc == FR_OK; i++)
            if (order[i]->type == order[i - 1]->type &&
                strcmp(order[i]->name, order[i - 1]->name) == 0)
                rc = fr_fail(err, FR_BUG, "two tensors '%s' for %s", order[i]->name, path);
        if (rc == FR_OK)
            rc = header(order, n, meta, nmeta, &head, err);
        if (rc == FR_OK) {
            rc = write_all(temp, &head, order, n, err);
            if (rc == FR_OK && fr_sys.rename(temp, path) != 0)
                rc = fr_fail_errno(err, errno, "cannot rename %s", temp);
            if (rc != FR_OK)
                (void)fr_sys.unlink(temp);
        }
        folder_of(path, dir);
        if (rc == FR_OK)
            rc = fr_sync_dir(dir, err);
    }
    fr_buf_finish(&head);
    fr_arena_finish(&arena);
    return rc;
}

static const struct tr_st_pair format_pt = {"format", "pt"};

struct shards {
    size_t *starts; /* first item of each shard, then n */
    size_t n;
    int64_t total_bytes;
    int64_t parameters; /* elements, but for buffers: biases of routers */
};

static int64_t parameters_of(const struct tr_st_item *item)
{
    int64_t n = strstr(item->name, "e_score_correction_bias") == NULL;

    for (int i = 0; i < item->ndim; i++)
        n *= item->shape[i];
    return n;
}

/* Cuts items into shards: a shard takes items while they fit. */
static enum fr_rc cut(const struct tr_st_item *items, size_t n, int64_t shard_bytes,
                      struct shards *s, struct fr_err *err)
{
    int64_t used = 0, bytes;
    enum fr_rc rc;

    for (size_t i = 0; i < n; i++) {
        if ((rc = item_bytes(&items[i], &bytes, err)) != FR_OK)
            return rc;
        if (i == 0 || used + bytes > shard_bytes) {
            s->starts[s->n++] = i;
            used = 0;
        }
        used += bytes;
        s->total_bytes += bytes;
        s->parameters += parameters_of(&items[i]);
    }
    s->starts[s->n] = n;
    return FR_OK;
}

static enum fr_rc write_shards(const char *dir, const struct tr_st_item *items,
                               const struct shards *s, json_t *map, struct fr_err *err)
{
    char name[64], path[PATH_MAX];
    enum fr_rc rc = FR_OK;

    for (size_t k = 0; rc == FR_OK && k < s->n; k++) {
        (void)snprintf(name, sizeof(name), "model-%05zu-of-%05zu.safetensors", k + 1, s->n);
        if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= PATH_MAX)
            return fr_fail(err, FR_USAGE, "folder name too long: %s", dir);
        size_t first = s->starts[k], last = s->starts[k + 1];
        rc = tr_st_write(path, items + first, last - first, &format_pt, 1, err);
        for (size_t i = first; rc == FR_OK && i < last; i++)
            if (json_object_set_new(map, items[i].name, json_string(name)) != 0)
                rc = fr_fail(err, FR_NOMEM, "no memory for the index of %s", dir);
    }
    return rc;
}

enum fr_rc tr_st_write_model(const char *dir, const struct tr_st_item *items, size_t n,
                             int64_t shard_bytes, struct fr_err *err)
{
    char path[PATH_MAX];
    struct shards s = {.starts = fr_sys.alloc((n + 1) * sizeof(size_t))};
    enum fr_rc rc;

    if (s.starts == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %zu tensors", n);
    rc = cut(items, n, shard_bytes, &s, err);
    if (rc == FR_OK && s.n <= 1) {
        if (snprintf(path, sizeof(path), "%s/model.safetensors", dir) >= PATH_MAX)
            rc = fr_fail(err, FR_USAGE, "folder name too long: %s", dir);
        else
            rc = tr_st_write(path, items, n, &format_pt, 1, err);
    } else if (rc == FR_OK) {
        json_t *map = json_object();
        json_t *root = json_pack("{s:{s:I,s:I},s:O}", "metadata", "total_parameters",
                                 (json_int_t)s.parameters, "total_size", (json_int_t)s.total_bytes,
                                 "weight_map", map);
        rc = root == NULL ? fr_fail(err, FR_NOMEM, "no memory for the index of %s", dir)
                          : write_shards(dir, items, &s, map, err);
        if (rc == FR_OK &&
            snprintf(path, sizeof(path), "%s/model.safetensors.index.json", dir) >= PATH_MAX)
            rc = fr_fail(err, FR_USAGE, "folder name too long: %s", dir);
        if (rc == FR_OK)
            rc = fr_json_save(root, path, JSON_INDENT(2) | JSON_SORT_KEYS, 0644, err);
        json_decref(map);
        json_decref(root);
    }
    fr_sys.free(s.starts);
    return rc;
}
