/* Source: oneDNN Developer Guide v2.6, "MatMul" and "Primitive Attributes". */
#include "trainer/backend/cpu/onednn_api.h"

static dnnl_status_t describe(dnnl_memory_desc_t *md, const struct cpu_matrix *m)
{
    dnnl_dims_t dims = {m->rows, m->cols}, strides = {m->ld, 1};

    if (m->ld == 0)
        return dnnl_memory_desc_init_by_tag(md, 2, dims, m->type, dnnl_format_tag_any);
    if (m->turned) {
        strides[0] = 1;
        strides[1] = m->ld;
    }
    return dnnl_memory_desc_init_by_strides(md, 2, dims, m->type, strides);
}

dnnl_status_t cpu_dnnl_matmul(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                              const struct cpu_matrix abc[3], const_dnnl_primitive_attr_t attr)
{
    dnnl_memory_desc_t md[3];
    dnnl_matmul_desc_t desc;
    dnnl_status_t st = dnnl_success;

    for (int i = 0; i < 3 && st == dnnl_success; i++)
        st = describe(&md[i], &abc[i]);
    if (st == dnnl_success)
        st = dnnl_matmul_desc_init(&desc, &md[0], &md[1], NULL, &md[2]);
    if (st == dnnl_success)
        st = dnnl_primitive_desc_create(out, &desc, attr, engine, NULL);
    return st;
}

dnnl_status_t cpu_dnnl_scale(dnnl_primitive_attr_t attr, dnnl_post_ops_t post, float alpha)
{
    (void)post;
    return dnnl_primitive_attr_set_output_scales(attr, 1, 0, &alpha);
}

dnnl_status_t cpu_dnnl_sum(dnnl_post_ops_t post, float beta)
{
    return dnnl_post_ops_append_sum(post, beta);
}
