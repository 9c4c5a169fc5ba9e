#include "trainer/config/trained.h"

bool tr_trained_has(const struct tr_trained *r, const struct tr_model_tensor *t)
{
    return r->all && t->role != TR_ROLE_ROUTER_BIAS;
}
