/*
 * The functions of NCCL that the trainer calls, opened at run time: neither the build nor a start
 * without GPUs needs NCCL. Types and values are those of NCCL's public interface, version 2.14 and
 * later. Source: NVIDIA NCCL documentation, "API" and "Fault tolerance".
 */
#ifndef TR_COMM_NCCL_API_H
#define TR_COMM_NCCL_API_H

#include "engine/base/err.h"

#include <stddef.h>

enum tr_nccl_result { TR_NCCL_OK = 0, TR_NCCL_IN_PROGRESS = 7 };
enum { TR_NCCL_BYTES = 1 }; /* the type of a byte */
#define TR_NCCL_MAGIC 0xcafebeefu
enum {
    TR_NCCL_VERSION = 21400, /* 2.14: the first with communicators that do not block */
    TR_NCCL_ORDERS = 22600   /* 2.26: the first with NCCL_LAUNCH_ORDER_IMPLICIT */
};

struct tr_nccl_id {
    char bytes[128];
};

/* The head of ncclConfig_t as version 2.14 had it; later versions take it by its size. */
struct tr_nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking;
};

typedef struct ncclComm *tr_nccl_comm;

/* A call of a communicator that does not block returns IN_PROGRESS; get_async_error has its result.
 */
struct tr_nccl_api {
    int (*get_version)(int *version);
    int (*get_unique_id)(struct tr_nccl_id *id);
    int (*comm_init)(tr_nccl_comm *comm, int size, struct tr_nccl_id id, int rank,
                     struct tr_nccl_config *config);
    int (*comm_finalize)(tr_nccl_comm comm);
    int (*comm_destroy)(tr_nccl_comm comm);
    int (*comm_abort)(tr_nccl_comm comm);
    int (*get_async_error)(tr_nccl_comm comm, int *result);
    const char *(*error_string)(int result);
    int (*group_start)(void);
    int (*group_end)(void);
    int (*send)(const void *p, size_t n, int type, int peer, tr_nccl_comm comm, void *stream);
    int (*recv)(void *p, size_t n, int type, int peer, tr_nccl_comm comm, void *stream);
    int (*all_gather)(const void *in, void *out, size_t n, int type, tr_nccl_comm comm,
                      void *stream);
    int (*broadcast)(const void *in, void *out, size_t n, int type, int root, tr_nccl_comm comm,
                     void *stream);
};

/* Opens the library at path (NULL: libnccl.so.2); it stays open. FR_UNSUPPORTED: absent, too old.
 */
enum fr_rc tr_nccl_open(const char *path, struct tr_nccl_api *api, struct fr_err *err);

#endif
