/* Transfers and times of a run's steps, by its communicators' counters. */
#include "trainer/train/setup.h"

#include "engine/base/sys.h"

static void snapshot(const struct tr_run *r, size_t out[TR_MOVES][TR_LINK_CLASSES])
{
    const struct tr_grads *grads = tr_model_grads(r->model);
    struct tr_grads_moved g = {0};
    struct tr_model_moved m;

    tr_model_moved(r->model, &m);
    if (grads != NULL)
        tr_grads_moved(grads, &g);
    for (int c = 0; c < TR_LINK_CLASSES; c++) {
        out[TR_MOVE_EMBEDDING][c] = m.rows_bytes[c] + g.rows[c];
        out[TR_MOVE_TOKENS][c] = r->experts != NULL ? r->experts->class_bytes[c] : 0;
        out[TR_MOVE_GRADIENTS][c] = g.reduced[c];
        out[TR_MOVE_ADAPTERS][c] = r->steps->class_bytes[c] +
                                   (r->beside != NULL ? r->beside->class_bytes[c] : 0) -
                                   g.reduced[c] - g.rows[c] - g.updated[c];
        out[TR_MOVE_WEIGHTS][c] = r->env.comm->class_bytes[c];
        for (int k = 0; k < TR_MOVES; k++)
            out[TR_MOVE_WEIGHTS][c] -= k != TR_MOVE_WEIGHTS ? out[k][c] : 0;
    }
}

void tr_run_step_begins(struct tr_run *r)
{
    snapshot(r, r->moved);
    r->began_ms = fr_sys.mono_ms();
    r->tokens_before = r->progress.tokens;
}

void tr_run_step_ends(struct tr_run *r, int64_t micros, double targets)
{
    size_t now[TR_MOVES][TR_LINK_CLASSES];
    struct tr_train_counts *n = &r->counts;

    snapshot(r, now);
    for (int m = 0; m < TR_MOVES; m++)
        for (int c = 0; c < TR_LINK_CLASSES; c++)
            n->bytes[m][c] += (double)(now[m][c] - r->moved[m][c]);
    n->seconds += (double)(fr_sys.mono_ms() - r->began_ms) / 1000;
    n->tokens += (double)(r->progress.tokens - r->tokens_before);
    n->targets += targets;
    n->micros += micros;
    n->steps++;
}

enum fr_rc tr_run_sum_counts(struct tr_run *r, struct fr_err *err)
{
    struct tr_train_counts *n = &r->counts;

    struct tr_model_moved m;
    double routes[2];
    enum fr_rc rc;

    tr_model_moved(r->model, &m);
    routes[0] = (double)m.routes.far;
    routes[1] = (double)m.routes.near;
    n->tokens_max = r->tokens_max;
    n->kept = tr_model_kept(r->model);
    n->packed = r->packed_bytes;
    rc = tr_comm_host_sum(r->env.comm, &n->bytes[0][0], (size_t)TR_MOVES * TR_LINK_CLASSES, err);
    if (rc == FR_OK)
        rc = tr_comm_host_sum(r->env.comm, routes, 2, err);
    n->far_rows = routes[0];
    n->near_rows = routes[1];
    return rc;
}
