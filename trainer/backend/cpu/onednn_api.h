/* The calls that differ between oneDNN 2 (onednn2.c) and 3 (onednn3.c); a build has one of the
 * files. */
#ifndef TR_BACKEND_CPU_ONEDNN_API_H
#define TR_BACKEND_CPU_ONEDNN_API_H

#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>
#include <stdint.h>

/* A matrix (rows, cols) whose stored rows are ld elements apart; turned: it is stored as (cols,
 * rows). ld 0: oneDNN chooses the layout. */
struct cpu_matrix {
    int64_t rows, cols, ld;
    bool turned;
    dnnl_data_type_t type;
};

/* The description of a primitive c = a b, which the caller destroys. attr may be NULL. */
dnnl_status_t cpu_dnnl_matmul(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                              const struct cpu_matrix abc[3], const_dnnl_primitive_attr_t attr);

/* Multiplies the product by alpha, before the ops in post. */
dnnl_status_t cpu_dnnl_scale(dnnl_primitive_attr_t attr, dnnl_post_ops_t post, float alpha);

/* Adds beta times the old c. */
dnnl_status_t cpu_dnnl_sum(dnnl_post_ops_t post, float beta);

#endif
