#include "trainer/tensor/safetensors_open.h"

#include "engine/base/arena.h"
#include "engine/base/json.h"
#include "engine/base/str.h"
#include "engine/base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    HEADER_MAX_BYTES = 100000000,
    INDEX_MAX_BYTES = 100000000,
    NAME_MAX_BYTES = 4096,
    LACKS_NAMED = 8
};
/* as the published schema of the header */
static const int64_t NUMBER_MAX = ((int64_t)1 << 48) - 1;

static enum fr_rc no_memory(struct fr_err *err, const char *path)
{
    return fr_fail(err, FR_NOMEM, "%s: no memory for its header", path);
}

/* A non-negative JSON integer below 2^48. */
static bool number(const json_t *v, int64_t *out)
{
    if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > NUMBER_MAX)
        return false;
    *out = json_integer_value(v);
    return true;
}

static bool type_by_name(const json_t *v, enum tr_st_type *out)
{
    if (!json_is_string(v))
        return false;
    for (int i = 0; i < TR_ST_TYPES; i++)
        if (strcmp(json_string_value(v), tr_st_type_name((enum tr_st_type)i)) == 0 &&
            strlen(json_string_value(v)) == json_string_length(v)) {
            *out = (enum tr_st_type)i;
            return true;
        }
    return false;
}

static enum fr_rc read_shape(const json_t *shape, struct tr_st_tensor *t, struct fr_err *err)
{
    uint64_t n = 1;

    if (!json_is_array(shape))
        return fr_fail(err, FR_CORRUPT, "shape is missing or not a list");
    if (json_array_size(shape) > TR_ST_DIMS)
        return fr_fail(err, FR_CORRUPT, "more than %d dimensions", TR_ST_DIMS);
    t->ndim = (int)json_array_size(shape);
    for (int i = 0; i < t->ndim; i++) {
        if (!number(json_array_get(shape, (size_t)i), &t->shape[i]))
            return fr_fail(err, FR_CORRUPT, "shape has an entry that is no integer of 0..2^48-1");
        if (__builtin_mul_overflow(n, (uint64_t)t->shape[i], &n))
            return fr_fail(err, FR_CORRUPT, "shape overflows");
    }
    uint64_t bits;
    if (__builtin_mul_overflow(n, (uint64_t)tr_st_type_bits(t->type), &bits) || bits > INT64_MAX)
        return fr_fail(err, FR_CORRUPT, "shape overflows");
    if (bits % 8 != 0)
        return fr_fail(err, FR_CORRUPT, "does not end at a whole byte");
    t->elements = (int64_t)n;
    t->bytes = (int64_t)(bits / 8);
    return FR_OK;
}

/* One entry of the header; offset becomes the begin within the data. */
static enum fr_rc read_entry(const json_t *v, struct tr_st_tensor *t, struct fr_err *err)
{
    const json_t *range = json_object_get(v, "data_offsets");
    int64_t begin, end;
    enum fr_rc rc;

    if (!json_is_object(v))
        return fr_fail(err, FR_CORRUPT, "its entry is not an object");
    if (!type_by_name(json_object_get(v, "dtype"), &t->type))
        return fr_fail(err, FR_CORRUPT, "unknown or missing dtype");
    if ((rc = read_shape(json_object_get(v, "shape"), t, err)) != FR_OK)
        return rc;
    if (!json_is_array(range) || json_array_size(range) != 2 ||
        !number(json_array_get(range, 0), &begin) || !number(json_array_get(range, 1), &end) ||
        end < begin)
        return fr_fail(err, FR_CORRUPT, "invalid data_offsets");
    if (end - begin != t->bytes)
        return fr_fail(err, FR_CORRUPT, "shape needs %lld bytes, data_offsets give %lld",
                       (long long)t->bytes, (long long)(end - begin));
    t->offset = begin;
    return FR_OK;
}

static enum fr_rc check_meta(const json_t *meta, struct fr_err *err)
{
    const char *key;
    json_t *v;

    if (meta == NULL || json_is_null(meta))
        return FR_OK;
    if (!json_is_object(meta))
        return fr_fail(err, FR_CORRUPT, "__metadata__ is not an object");
    json_object_foreach((json_t *)meta, key, v) if (!json_is_string(v)) return fr_fail(
        err, FR_CORRUPT, "__metadata__ value of '%s' is not a string", key);
    return FR_OK;
}

static int by_offset(const void *a, const void *b)
{
    const struct tr_st_tensor *x = a, *y = b;

    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static int by_name(const void *a, const void *b)
{
    const struct tr_st_tensor *x = a, *y = b;

    return strcmp(x->name, y->name);
}

void st_sort(struct tr_st *st)
{
    if (st->ntensors > 0)
        qsort(st->tensors, st->ntensors, sizeof(st->tensors[0]), by_name);
}

static bool grow(struct tr_st *st, size_t more)
{
    void *p = fr_grow(st->tensors, st->ntensors + more, &st->cap, sizeof(st->tensors[0]));

    if (p != NULL)
        st->tensors = p;
    return p != NULL || st->ntensors + more == 0;
}

/* Adds the header's tensors to st and checks that they cover data_bytes exactly. */
static enum fr_rc read_tensors(struct tr_st *st, int file, const json_t *root, int64_t data_at,
                               struct fr_err *err)
{
    struct st_file *f = &st->files[file];
    size_t first = st->ntensors;
    enum fr_rc rc;

    if (!grow(st, json_object_size(root)))
        return no_memory(err, f->path);
    for (void *it = json_object_iter((json_t *)root); it != NULL;
         it = json_object_iter_next((json_t *)root, it)) {
        struct fr_str key = fr_json_key(it);
        const char *name = key.p;
        size_t n = key.n;
        struct tr_st_tensor *t = &st->tensors[st->ntensors];
        if (strcmp(name, "__metadata__") == 0)
            continue;
        if (n == 0 || n > NAME_MAX_BYTES || strlen(name) != n)
            return fr_fail(err, FR_CORRUPT, "%s: a tensor's name is empty, too long or has a NUL",
                           f->path);
        *t = (struct tr_st_tensor){.file = file, .name = fr_arena_text(&st->arena, name, n)};
        if (t->name == NULL)
            return no_memory(err, f->path);
        if ((rc = read_entry(json_object_iter_value(it), t, err)) != FR_OK)
            return fr_while(err, "%s: tensor '%s'", f->path, name);
        st->ntensors++;
    }
    if (st->ntensors > first)
        qsort(st->tensors + first, st->ntensors - first, sizeof(st->tensors[0]), by_offset);
    int64_t pos = 0;
    for (size_t i = first; i < st->ntensors; i++) {
        struct tr_st_tensor *t = &st->tensors[i];
        if (t->offset != pos)
            return fr_fail(err, FR_CORRUPT, "%s: tensor '%s' starts at %lld, expected %lld: %s",
                           f->path, t->name, (long long)t->offset, (long long)pos,
                           t->offset < pos ? "tensors overlap" : "a hole in the data");
        pos += t->bytes;
        t->offset += data_at;
    }
    if (data_at + pos != f->bytes)
        return fr_fail(err, FR_CORRUPT,
                       "%s: file not fully covered: header and tensors take %lld bytes, it has "
                       "%lld%s",
                       f->path, (long long)(data_at + pos), (long long)f->bytes,
                       f->bytes < data_at + pos ? ": it is cut, fetch it again" : "");
    return FR_OK;
}

/* The header's JSON value, checked to be one object of valid UTF-8. */
static enum fr_rc read_header(struct st_file *f, int64_t *data_at, json_t **root,
                              struct fr_err *err)
{
    uint8_t head[8];
    uint64_t n = 0;
    enum fr_rc rc;

    if (f->bytes < 8)
        return fr_fail(err, FR_CORRUPT, "%s: header too small: the file has %lld bytes", f->path,
                       (long long)f->bytes);
    if ((rc = tr_st_pread(f->fd, f->path, head, 8, 0, err)) != FR_OK)
        return rc;
    if (memcmp(head, "version ", 8) == 0)
        return fr_fail(err, FR_CORRUPT,
                       "%s is a pointer of Git LFS, not the weights: fetch them by git lfs pull",
                       f->path);
    for (int i = 7; i >= 0; i--)
        n = n << 8 | head[i];
    if (n > HEADER_MAX_BYTES)
        return fr_fail(err, FR_CORRUPT, "%s: header too large: %llu bytes", f->path,
                       (unsigned long long)n);
    if ((int64_t)n + 8 > f->bytes)
        return fr_fail(err, FR_CORRUPT, "%s: invalid header length: %llu, the file has %lld bytes",
                       f->path, (unsigned long long)n, (long long)f->bytes);
    char *text = fr_sys.alloc((size_t)n + 1);
    if (text == NULL)
        return no_memory(err, f->path);
    rc = tr_st_pread(f->fd, f->path, text, (size_t)n, 8, err);
    if (rc == FR_OK && !fr_utf8_valid(text, (size_t)n))
        rc = fr_fail(err, FR_CORRUPT, "%s: its header is not UTF-8", f->path);
    if (rc == FR_OK && fr_json_parse((struct fr_str){text, (size_t)n}, f->path, root, err) != FR_OK)
        rc = err == NULL ? FR_CORRUPT : (err->rc = err->rc == FR_NOMEM ? FR_NOMEM : FR_CORRUPT);
    if (rc == FR_OK && !json_is_object(*root))
        rc = fr_fail(err, FR_CORRUPT, "%s: its header is not a JSON object", f->path);
    fr_sys.free(text);
    *data_at = (int64_t)n + 8;
    return rc;
}

/* Opens file number i, whose path is set, and adds its tensors. */
static enum fr_rc open_file(struct tr_st *st, int i, struct fr_err *err)
{
    struct st_file *f = &st->files[i];
    json_t *root = NULL;
    int64_t data_at = 0;
    struct stat s;
    enum fr_rc rc;

    if ((f->fd = fr_sys.open(f->path, O_RDONLY | O_NONBLOCK, 0)) < 0)
        return fr_fail_errno(err, errno, "cannot open %s", f->path);
    /* no read-ahead: it would fill the page cache with unused pages */
    (void)posix_fadvise(f->fd, 0, 0, POSIX_FADV_RANDOM);
    if (fr_sys.fstat(f->fd, &s) != 0)
        return fr_fail_errno(err, errno, "cannot stat %s", f->path);
    if (!S_ISREG(s.st_mode))
        return fr_fail(err, FR_USAGE, "%s is not a file", f->path);
    f->bytes = (int64_t)s.st_size;
    f->written = s.st_mtim;
    rc = read_header(f, &data_at, &root, err);
    if (rc == FR_OK && (rc = check_meta(json_object_get(root, "__metadata__"), err)) != FR_OK)
        fr_while(err, "%s", f->path);
    if (rc == FR_OK)
        rc = read_tensors(st, i, root, data_at, err);
    json_decref(root);
    return rc;
}

static struct tr_st *create(size_t nfiles)
{
    struct tr_st *st = fr_sys.alloc(sizeof(*st));

    if (st == NULL)
        return NULL;
    *st = (struct tr_st){.nfiles = 0};
    st->files = fr_arena_array(&st->arena, nfiles, sizeof(st->files[0]));
    if (st->files == NULL) {
        tr_st_close(st);
        return NULL;
    }
    for (st->nfiles = 0; st->nfiles < nfiles; st->nfiles++)
        st->files[st->nfiles].fd = -1;
    return st;
}

void tr_st_close(struct tr_st *st)
{
    if (st == NULL)
        return;
    for (size_t i = 0; i < st->nfiles; i++)
        if (st->files[i].fd >= 0)
            fr_sys.close(st->files[i].fd);
    fr_sys.free(st->tensors);
    fr_arena_finish(&st->arena);
    fr_sys.free(st);
}

enum fr_rc tr_st_open(const char *path, struct tr_st **out, struct fr_err *err)
{
    struct tr_st *st = create(1);
    enum fr_rc rc;

    *out = NULL;
    if (st == NULL || (st->files[0].path = fr_arena_dup(&st->arena, path)) == NULL)
        rc = no_memory(err, path);
    else
        rc = open_file(st, 0, err);
    if (rc != FR_OK) {
        tr_st_close(st);
        return rc;
    }
    st_sort(st);
    *out = st;
    return FR_OK;
}

/* A shard's file name may not lead out of the folder. */
static bool plain_name(const char *s, size_t n)
{
    return n > 0 && strlen(s) == n && strchr(s, '/') == NULL && strchr(s, '\\') == NULL &&
           strstr(s, "..") == NULL && strcmp(s, ".") != 0;
}

/* Fills names with the distinct shards of map, in the order of first use. */
static enum fr_rc list_shards(const char *path, const json_t *map, json_t *names,
                              struct fr_err *err)
{
    const char *tensor;
    json_t *v;

    json_object_foreach((json_t *)map, tensor, v)
    {
        const char *file = json_string_value(v);
        if (file == NULL || !plain_name(file, json_string_length(v)))
            return fr_fail(err, FR_CORRUPT, "%s: tensor '%s' is mapped to no plain file name", path,
                           tensor);
        if (json_object_get(names, file) == NULL &&
            json_object_set_new(names, file, json_integer((json_int_t)json_object_size(names))) !=
                0)
            return no_memory(err, path);
    }
    return FR_OK;
}

/* Checks, when all shards are read and sorted: names are unique, and mapped ones are in their
 * shard. */
static enum fr_rc check_map(struct tr_st *st, const char *path, const json_t *map,
                            const json_t *shards, struct fr_err *err)
{
    const char *name;
    json_t *v;

    for (size_t i = 1; i < st->ntensors; i++)
        if (strcmp(st->tensors[i].name, st->tensors[i - 1].name) == 0)
            return fr_fail(err, FR_CORRUPT, "tensor '%s' is in %s and in %s", st->tensors[i].name,
                           st->files[st->tensors[i - 1].file].path,
                           st->files[st->tensors[i].file].path);
    json_object_foreach((json_t *)map, name, v)
    {
        const struct tr_st_tensor *t = tr_st_find(st, name);
        int want = (int)json_integer_value(json_object_get(shards, json_string_value(v)));
        if (t == NULL)
            return fr_fail(err, FR_CORRUPT, "%s: tensor '%s' is not in %s", path, name,
                           json_string_value(v));
        if (t->file != want)
            return fr_fail(err, FR_CORRUPT, "%s: tensor '%s' is mapped to %s but is in %s", path,
                           name, json_string_value(v), st->files[t->file].path);
    }
    return FR_OK;
}

/* Fails, naming all missing files, before any file is read. */
static enum fr_rc find_files(const struct tr_st *st, const char *path, struct fr_err *err)
{
    struct fr_buf names = {0};
    size_t lacks = 0;
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; i < st->nfiles; i++) {
        const char *name = strrchr(st->files[i].path, '/') + 1;

        if (access(st->files[i].path, F_OK) == 0)
            continue;
        if (lacks++ < LACKS_NAMED)
            fr_buf_fmt(&names, "%s%s", lacks > 1 ? ", " : "", name);
    }
    if (lacks > LACKS_NAMED)
        fr_buf_fmt(&names, " and %zu more", lacks - LACKS_NAMED);
    if (lacks > 0)
        rc = fr_fail(err, FR_NOTFOUND, "%zu of the %zu files that %s names are not there: %s",
                     lacks, st->nfiles, path, names.p != NULL ? names.p : "");
    fr_buf_finish(&names);
    return rc;
}

/* Adds the tensors of missing files from the index. */
static enum fr_rc add_absent(struct tr_st *st, const char *path, const json_t *map,
                             const json_t *shards, struct fr_err *err)
{
    const char *name;
    json_t *v;

    if (!grow(st, json_object_size(map)))
        return no_memory(err, path);
    json_object_foreach((json_t *)map, name, v)
    {
        int file = (int)json_integer_value(json_object_get(shards, json_string_value(v)));
        struct tr_st_tensor t = {.file = file, .absent = true};

        if (st->files[file].fd >= 0)
            continue;
        if ((t.name = fr_arena_dup(&st->arena, name)) == NULL)
            return no_memory(err, path);
        st->tensors[st->ntensors++] = t;
    }
    return FR_OK;
}

/* Opens all shards, or the existing ones. */
static enum fr_rc open_files(struct tr_st *st, const char *path, bool part, struct fr_err *err)
{
    enum fr_rc rc = part ? FR_OK : find_files(st, path, err);

    for (size_t i = 0; rc == FR_OK && i < st->nfiles; i++)
        if (!part || access(st->files[i].path, F_OK) == 0)
            rc = open_file(st, (int)i, err);
    return rc;
}

static enum fr_rc open_shards(const char *dir, const char *path, const json_t *root, bool part,
                              struct tr_st **out, struct fr_err *err)
{
    const json_t *map = json_object_get(root, "weight_map");
    json_t *shards = json_object(), *v;
    struct tr_st *st = NULL;
    const char *name;
    enum fr_rc rc;

    if (shards == NULL)
        return no_memory(err, path);
    if (!json_is_object(map) || json_object_size(map) == 0) {
        json_decref(shards);
        return fr_fail(err, FR_CORRUPT, "%s has no weight_map", path);
    }
    rc = list_shards(path, map, shards, err);
    if (rc == FR_OK && (st = create(json_object_size(shards))) == NULL)
        rc = no_memory(err, path);
    if (rc == FR_OK)
        json_object_foreach(shards, name, v)
        {
            const char **at = &st->files[json_integer_value(v)].path;

            if ((*at = fr_arena_fmt(&st->arena, "%s/%s", dir, name)) == NULL)
                rc = no_memory(err, path);
        }
    if (rc == FR_OK)
        rc = open_files(st, path, part, err);
    if (rc == FR_OK && part)
        rc = add_absent(st, path, map, shards, err);
    if (rc == FR_OK) {
        st_sort(st);
        rc = check_map(st, path, map, shards, err);
    }
    json_decref(shards);
    if (rc == FR_OK)
        *out = st;
    else
        tr_st_close(st);
    return rc;
}

static enum fr_rc open_index(const char *dir, const char *index, bool part, struct tr_st **out,
                             struct fr_err *err)
{
    json_t *root = NULL;
    enum fr_rc rc = fr_json_load(index, INDEX_MAX_BYTES, &root, err);

    if (rc == FR_OK)
        rc = open_shards(dir, index, root, part, out, err);
    json_decref(root);
    return rc;
}

/* model.safetensors takes precedence over an index, both over pickled weights. */
enum fr_rc tr_st_open_folder(const char *dir, bool part, struct tr_twice *twice, struct tr_st **out,
                             struct fr_err *err)
{
    static const char *const names[] = {"model.safetensors", "model.safetensors.index.json",
                                        "pytorch_model.bin", "pytorch_model.bin.index.json"};
    enum { NAMES = sizeof(names) / sizeof(names[0]) };
    char path[NAMES][PATH_MAX];
    size_t first = NAMES;
    struct stat s;

    *out = NULL;
    for (size_t i = 0; i < NAMES; i++) {
        if (snprintf(path[i], PATH_MAX, "%s/%s", dir, names[i]) >= PATH_MAX)
            return fr_fail(err, FR_USAGE, "folder name too long: %s", dir);
        if (fr_sys.lstat(path[i], &s) != 0)
            continue;
        if (first < NAMES)
            tr_twice_add(twice, &(struct tr_twice_row){
                                    .what = "weights", .from = names[first], .over = names[i]});
        else
            first = i;
    }
    if (first == 0)
        return tr_st_open(path[0], out, err);
    if (first == 1)
        return open_index(dir, path[1], part, out, err);
    return fr_fail(err, FR_NOTFOUND,
                   "%s holds neither model.safetensors.index.json nor model.safetensors: "
                   "other files of weights (.bin, .gguf) are not read, save_pretrained() "
                   "of transformers writes safetensors",
                   dir);
}

enum fr_rc tr_st_open_part(const char *dir, struct tr_st **out, struct fr_err *err)
{
    return tr_st_open_folder(dir, true, NULL, out, err);
}

size_t tr_st_count(const struct tr_st *st)
{
    return st->ntensors;
}

const struct tr_st_tensor *tr_st_at(const struct tr_st *st, size_t i)
{
    return &st->tensors[i];
}

const struct tr_st_tensor *tr_st_find(const struct tr_st *st, const char *name)
{
    struct tr_st_tensor key = {.name = name};

    if (st->ntensors == 0)
        return NULL;
    return bsearch(&key, st->tensors, st->ntensors, sizeof(key), by_name);
}
