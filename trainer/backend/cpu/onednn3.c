/* Source: oneDNN Developer Guide v3.6, "Matrix Multiplication", "Primitive Attributes: Post-ops"
 * and "Transition from v2.x to v3.x". */
#include "trainer/backend/cpu/onednn_api.h"

static dnnl_status_t describe(dnnl_memory_desc_t *md, const struct cpu_matrix *m)
{
    dnnl_dims_t dims = {m->rows, m->cols}, strides = {m->ld, 1};

    if (m->ld == 0)
        return dnnl_memory_desc_create_with_tag(md, 2, dims, m->type, dnnl_format_tag_any);
    if (m->turned) {
        strides[0] = 1;
        strides[1] = m->ld;
    }
    return dnnl_memory_desc_create_with_strides(md, 2, dims, m->type, strides);
}

dnnl_status_t cpu_dnnl_matmul(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                              const struct cpu_matrix abc[3], const_dnnl_primitive_attr_t attr)
{
    dnnl_memory_desc_t md[3] = {NULL, NULL, NULL};
    dnnl_status_t st = dnnl_success;

    for (int i = 0; i < 3 && st == dnnl_success; i++)
        st = describe(&md[i], &abc[i]);
    if (st == dnnl_success)
        st = dnnl_matmul_primitive_desc_create(out, engine, md[0], md[1], NULL, md[2], attr);
    for (int i = 0; i < 3; i++)
        if (md[i] != NULL)
            dnnl_memory_desc_destroy(md[i]);
    return st;
}

/* oneDNN 3 takes scales as memory at run time; a post-op is fixed. */
dnnl_status_t cpu_dnnl_scale(dnnl_primitive_attr_t attr, dnnl_post_ops_t post, float alpha)
{
    (void)attr;
    return dnnl_post_ops_append_eltwise(post, dnnl_eltwise_linear, alpha, 0);
}

dnnl_status_t cpu_dnnl_sum(dnnl_post_ops_t post, float beta)
{
    return dnnl_post_ops_append_sum(post, beta, 0, dnnl_data_type_undef);
}
