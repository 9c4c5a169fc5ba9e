/*
 * safetensors files: a JSON header of names, types, shapes and byte ranges, then the bytes.
 * The reader validates the whole header first (exact cover, no overlap, no overflow, no duplicate
 * name), opens a single file or a folder with an index of shards, and reads byte ranges by pread,
 * so a rank reads only its own bytes. The writer gives the byte layout of the reference library and
 * replaces the target atomically. Source: the safetensors format text (huggingface/safetensors,
 * README, "Format").
 */
#ifndef TR_TENSOR_SAFETENSORS_H
#define TR_TENSOR_SAFETENSORS_H

#include "engine/base/err.h"
#include "trainer/tensor/tensor.h"
#include "trainer/tensor/twice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Every type a file may hold, in the order in which the writer sorts (last first). Only those
 * with a tr_dtype can be computed with; the others are known by size and copied as bytes. */
enum tr_st_type {
    TR_ST_BOOL,
    TR_ST_F4,
    TR_ST_F6_E2M3,
    TR_ST_F6_E3M2,
    TR_ST_U8,
    TR_ST_I8,
    TR_ST_F8_E5M2,
    TR_ST_F8_E4M3,
    TR_ST_F8_E8M0,
    TR_ST_F8_E4M3FNUZ,
    TR_ST_F8_E5M2FNUZ,
    TR_ST_I16,
    TR_ST_U16,
    TR_ST_F16,
    TR_ST_BF16,
    TR_ST_I32,
    TR_ST_U32,
    TR_ST_F32,
    TR_ST_C64,
    TR_ST_F64,
    TR_ST_I64,
    TR_ST_U64,
    TR_ST_TYPES
};

enum { TR_ST_DIMS = 8 }; /* a tensor with more dimensions is refused */

const char *tr_st_type_name(enum tr_st_type type); /* "BF16" */
unsigned tr_st_type_bits(enum tr_st_type type);
/* The type to compute with; FR_DTYPE for those that have none (U16, C64 …). */
enum fr_rc tr_st_dtype(enum tr_st_type type, enum tr_dtype *out, struct fr_err *err);
enum tr_st_type tr_st_type_of(enum tr_dtype dtype);

struct tr_st_tensor {
    const char *name; /* owned by the checkpoint */
    enum tr_st_type type;
    int ndim; /* 0: a scalar */
    int64_t shape[TR_ST_DIMS];
    int64_t elements, bytes;
    int file;    /* which of the checkpoint's files */
    bool absent; /* the file is missing: type, shape and offset are unknown */
    bool over;   /* it was laid over one of the type `under` (tr_st_lay_over) */
    enum tr_st_type under;
    int64_t offset; /* first byte, from the start of that file */
};

/* An open checkpoint: its files' descriptors and all headers. Reading is safe from several
 * threads. */
struct tr_st;

/* One file. Its whole header is validated. */
enum fr_rc tr_st_open(const char *path, struct tr_st **out, struct fr_err *err);

/* A model folder: model.safetensors, else model.safetensors.index.json and its shards. Every mapped
 * name must be in the shard of its mapping. FR_NOTFOUND names all missing shards; none is read
 * then. part: for a machine with some of the files, or none: tensors of missing files are absent,
 * and reading one is FR_NOTFOUND. twice, which may be NULL, gets a row for each ignored file of
 * weights. */
enum fr_rc tr_st_open_folder(const char *dir, bool part, struct tr_twice *twice, struct tr_st **out,
                             struct fr_err *err);

/* The same with part, without twice. */
enum fr_rc tr_st_open_part(const char *dir, struct tr_st **out, struct fr_err *err);

void tr_st_close(struct tr_st *st);

/* Makes the names whole that AutoModel's save_pretrained() writes without the first component of
 * one of the n roots: "layers.…" of the root "model.layers" becomes "model.layers.…". A name that
 * exists in both forms stays and is ignored. */
enum fr_rc tr_st_whole_names(struct tr_st *st, const char *const *roots, size_t n,
                             struct tr_twice *twice, struct fr_err *err);

/* Renames a tensor. Invalidates pointers to tensors. */
enum fr_rc tr_st_rename(struct tr_st *st, const struct tr_st_tensor *t, const char *name,
                        struct fr_err *err);

/* A second name for a tensor. Invalidates pointers to tensors. */
enum fr_rc tr_st_alias(struct tr_st *st, const struct tr_st_tensor *t, const char *name,
                       struct fr_err *err);

/* From now on `name` of st, which may have one or not, is tensor t of another checkpoint, which may
 * be closed after that. Invalidates pointers to tensors. */
enum fr_rc tr_st_lay_over(struct tr_st *st, const struct tr_st *from, const struct tr_st_tensor *t,
                          const char *name, struct fr_err *err);

/* Whether two tensors hold the same numbers once rounded to dtype. Reads both; neither is absent.
 */
enum fr_rc tr_st_same(const struct tr_st *st, const struct tr_st_tensor *const pair[2],
                      enum tr_dtype dtype, bool *same, struct fr_err *err);

/* Tensors in ascending order of names (bytewise). */
size_t tr_st_count(const struct tr_st *st);
const struct tr_st_tensor *tr_st_at(const struct tr_st *st, size_t i);
const struct tr_st_tensor *tr_st_find(const struct tr_st *st, const char *name); /* NULL: none */

size_t tr_st_files(const struct tr_st *st);
const char *tr_st_file_name(const struct tr_st *st, size_t file); /* without its folder */
bool tr_st_file_here(const struct tr_st *st, size_t file);

/* Reads bytes [at, at+n) of a file that had them when it was opened, path in errors. FR_CORRUPT: it
 * became shorter since. */
enum fr_rc tr_st_pread(int fd, const char *path, void *dst, size_t n, int64_t at,
                       struct fr_err *err);
/* Reads bytes [at, at+n) of tensor t into dst. FR_IO names file and tensor; a file that became
 * shorter since it was opened is FR_CORRUPT. */
enum fr_rc tr_st_read(const struct tr_st *st, const struct tr_st_tensor *t, int64_t at, void *dst,
                      size_t n, struct fr_err *err);

/* Bytes [at, at+n) of a tensor. */
struct tr_st_piece {
    const struct tr_st_tensor *t;
    int64_t at;
    size_t n;
};

/* Reads a piece as tr_st_read does. *lacked: the end of the piece that the page cache lacked
 * before, n 0 if none. tr_st_drop drops those pages, so that reading a checkpoint evicts nothing
 * else. */
enum fr_rc tr_st_read_piece(const struct tr_st *st, const struct tr_st_piece *p, void *dst,
                            struct tr_st_piece *lacked, struct fr_err *err);
void tr_st_drop(const struct tr_st *st, const struct tr_st_piece *lacked);

/*
 * Reads of uncached pages past the page cache (O_DIRECT): they evict nothing, and several at a time
 * reach the disk's speed. The caller cuts a span by tr_st_direct_cut first. Cached spans, and spans
 * of a file system without O_DIRECT, are read as pieces.
 */
struct tr_st_direct;
enum { TR_ST_PAGE = 4096, TR_ST_SPAN = 1 << 22 };

/* Whole pages [at, at+n) of a file; n at most TR_ST_SPAN. The last may pass the file's end. */
struct tr_st_span {
    int file;
    int64_t at;
    size_t n;
    unsigned char cached[TR_ST_SPAN / TR_ST_PAGE]; /* out: the page cache had the page */
};

/* Opens the files once more, with O_DIRECT if possible; st is borrowed. */
enum fr_rc tr_st_direct_open(const struct tr_st *st, struct tr_st_direct **out, struct fr_err *err);
void tr_st_direct_close(struct tr_st_direct *d);

/* Notes which pages of [at, at+n) are cached. Call it before reading. */
void tr_st_direct_note(struct tr_st_direct *d, int file, int64_t at, size_t n);
/* Drops the pages that were not cached, when all are read: readers share read-ahead, and the kernel
 * drops no part of a large folio. */
void tr_st_direct_drop(struct tr_st_direct *d, int file, int64_t at, size_t n);

/* Cuts the span to a beginning that is read in one way; true: past the page cache. */
bool tr_st_direct_cut(const struct tr_st_direct *d, struct tr_st_span *s);
/* Reads a cut span to a page-aligned place. false: read this span, and all later spans of the file,
 * as pieces, whose errors give the reason. */
bool tr_st_direct_read(struct tr_st_direct *d, const struct tr_st_span *s, void *to);

/* FR_CORRUPT names a file that changed since it was opened. */
enum fr_rc tr_st_unchanged(const struct tr_st *st, struct fr_err *err);

/* FR_SHAPE, naming both shapes, unless t has exactly this shape. */
enum fr_rc tr_st_want_shape(const struct tr_st_tensor *t, int ndim, const int64_t *shape,
                            struct fr_err *err);

/* Appends "[24, 7]". */
struct fr_buf;
void tr_st_shape_text(struct fr_buf *b, int ndim, const int64_t *shape);

/* A tensor to write. Its bytes are at data, or, if data is NULL, from fill, called with ascending
 * offsets. */
struct tr_st_item {
    const char *name;
    enum tr_st_type type;
    int ndim;
    int64_t shape[TR_ST_DIMS];
    const void *data;
    enum fr_rc (*fill)(void *arg, const struct tr_st_item *item, int64_t at, void *dst, size_t n,
                       struct fr_err *err);
    void *arg;
};

struct tr_st_pair {
    const char *key, *value;
};

/* Writes path: tensors by descending type, then by name; header padded to 8; __metadata__ first.
 * Writes a temporary file in the same folder, syncs and renames it; a failure leaves no file. */
enum fr_rc tr_st_write(const char *path, const struct tr_st_item *items, size_t n,
                       const struct tr_st_pair *meta, size_t nmeta, struct fr_err *err);

/* Writes a model folder's weights: model.safetensors, or shards of at most shard_bytes with an
 * index when the sum is larger. Items keep their order over the shards. Metadata is
 * {"format":"pt"}. */
enum fr_rc tr_st_write_model(const char *dir, const struct tr_st_item *items, size_t n,
                             int64_t shard_bytes, struct fr_err *err);

#endif
