/*
 * Reads the pickles of torch.save (protocol 2) without running them: an interpreter of the opcodes
 * that builds containers, numbers, texts, records of tensors, and opaque records of a short list
 * of names. Every other name is refused. Nothing is imported, nothing is called.
 * Source: CPython, Lib/pickletools.py; PyTorch, torch/serialization.py and torch/_utils.py.
 */
#ifndef TR_FOREIGN_PICKLE_H
#define TR_FOREIGN_PICKLE_H

#include "engine/base/arena.h"
#include "engine/base/err.h"
#include "engine/base/str.h"
#include "trainer/tensor/safetensors.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tr_pickle_kind {
    TR_PV_NONE,
    TR_PV_BOOL,
    TR_PV_INT,
    TR_PV_FLOAT,
    TR_PV_TEXT,
    TR_PV_LIST,
    TR_PV_TUPLE, /* torch.Size too */
    TR_PV_DICT,  /* OrderedDict too; items: key, value, key, value … */
    TR_PV_NAME,  /* a class or function of the list, not called */
    TR_PV_STORAGE,
    TR_PV_TENSOR,
    TR_PV_OPAQUE /* an object of a listed class; items: what it was made of */
};

enum tr_pickle_role {
    TR_ROLE_OPAQUE,
    TR_ROLE_DICT,
    TR_ROLE_SIZE,
    TR_ROLE_STORAGE,
    TR_ROLE_TENSOR,
    TR_ROLE_TYPED_TENSOR,
    TR_ROLE_PARAMETER
};

/* A name that a pickle may say. */
struct tr_pickle_name {
    const char *module, *name;
    enum tr_pickle_role role;
    enum tr_st_type type; /* of a storage's elements */
};

/* Values live in the arena of the reading; they may share parts, and contain themselves. */
struct tr_pv {
    enum tr_pickle_kind kind;
    int64_t number;     /* BOOL, INT; STORAGE: elements */
    double real;        /* FLOAT */
    struct fr_str text; /* TEXT; STORAGE: its key */
    const struct tr_pv **items;
    size_t n;                          /* of items */
    const struct tr_pickle_name *name; /* NAME, STORAGE, OPAQUE */
    struct tr_pv_tensor {
        const struct tr_pv *storage;
        int64_t first; /* element of the storage */
        int ndim;
        int64_t shape[TR_ST_DIMS];
    } * tensor; /* TENSOR; rows follow each other */
};

struct tr_pickle {
    struct fr_str bytes;
    const char *file; /* for errors */
    struct fr_arena *arena;
};

/* FR_USAGE names the refused name with file and offset; FR_CORRUPT: no pickle of torch.save. */
enum fr_rc tr_pickle_read(const struct tr_pickle *p, const struct tr_pv **out, struct fr_err *err);

/* The value of a key that is a text; the last one where it stands twice. hint: the pair that is
 * asked first. NULL: none, or d (may be NULL) is no dict. */
const struct tr_pv *tr_pv_get(const struct tr_pv *d, const char *key, size_t hint);

/* ---- of the reader's files ---- */

/* NULL: not of the list. */
const struct tr_pickle_name *tr_pickle_name_find(struct fr_str module, struct fr_str name);

/* out becomes what a call of name with args (a tuple) gives. FR_CORRUPT says in words why not. */
enum fr_rc tr_pickle_call(const struct tr_pickle *p, const struct tr_pickle_name *name,
                          const struct tr_pv *args, struct tr_pv *out, struct fr_err *err);
/* The same of a persistent id: ("storage", class, key, device, elements). */
enum fr_rc tr_pickle_storage(const struct tr_pv *id, struct tr_pv *out, struct fr_err *err);

#endif
