/* The executor of a run: its commands become messages, remembered by the node's channel. */
#include "engine/exec/private.h"

#include "engine/base/sys.h"
#include "engine/spec/spec.h"

#include <assert.h>

static struct fr_use *use_of(void *self, size_t node)
{
    struct fr_joined *run = self;

    assert(node < run->n);
    return &run->uses[node];
}

static enum fr_rc node_connect(void *self, size_t node, struct fr_err *err)
{
    struct fr_use *use = use_of(self, node);

    (void)err;
    fr_use_begin(use);
    fr_chan_connect(use->ch);
    return FR_OK;
}

static enum fr_rc send_prepare(void *self, const struct fr_exec_member *mb, bool go_now,
                               struct fr_err *err)
{
    struct fr_msg m = {.type = FR_MSG_PREPARE, .prepare = mb->prepare};

    m.prepare.go_now = go_now;
    return fr_pend_add(use_of(self, mb->node), &m, mb->prepare.attempt, 0, err);
}

static enum fr_rc node_prepare(void *self, const struct fr_exec_member *mb, struct fr_err *err)
{
    return send_prepare(self, mb, false, err);
}

static enum fr_rc node_start(void *self, const struct fr_exec_member *mb, struct fr_err *err)
{
    return send_prepare(self, mb, true, err);
}

static enum fr_rc node_go(void *self, const struct fr_exec_member *mb, struct fr_err *err)
{
    struct fr_msg m = {.type = FR_MSG_GO, .go = {mb->prepare.attempt, mb->go_env}};

    return fr_pend_add(use_of(self, mb->node), &m, mb->prepare.attempt, 0, err);
}

static enum fr_rc node_attach(void *self, struct fr_exec_attempt a, struct fr_exec_have have,
                              struct fr_err *err)
{
    return fr_follow_add(use_of(self, a.node), a.attempt, have, err);
}

static enum fr_rc node_query(void *self, const struct fr_exec_attempt *v, size_t n,
                             struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; i < n && rc == FR_OK; i++) {
        struct fr_id id = v[i].attempt;
        struct fr_msg m = {.type = FR_MSG_QUERY, .query = {{&id, 1}}};

        rc = fr_pend_add(use_of(self, v[i].node), &m, id, 0, err);
    }
    return rc;
}

static enum fr_rc node_stop(void *self, struct fr_exec_attempt a, int64_t grace_ms,
                            uint32_t stop_cause, struct fr_err *err)
{
    struct fr_msg m = {.type = FR_MSG_STOP, .stop = {a.attempt, grace_ms, stop_cause, false}};

    return fr_pend_add(use_of(self, a.node), &m, a.attempt, 0, err);
}

static enum fr_rc node_tombstone(void *self, struct fr_exec_attempt a, struct fr_err *err)
{
    struct fr_msg m = {.type = FR_MSG_TOMBSTONE, .tombstone = {a.attempt}};

    return fr_pend_add(use_of(self, a.node), &m, a.attempt, 0, err);
}

static enum fr_rc node_ack_end(void *self, struct fr_exec_attempt a, struct fr_err *err)
{
    struct fr_msg m = {.type = FR_MSG_ACK_END, .ack_end = {a.attempt}};
    struct fr_use *use = use_of(self, a.node);

    fr_untrack(use->ch, a.attempt);
    fr_pend_answered(use->ch, a.attempt, FR_MSG_ENDED);
    return fr_pend_add(use, &m, a.attempt, 0, err);
}

static enum fr_rc node_lease(void *self, size_t node, struct fr_err *err)
{
    struct fr_use *use = use_of(self, node);
    struct fr_chan *ch = use->ch;
    struct fr_msg m = {.type = FR_MSG_LEASE, .lease = {.run = use->run->id}};

    (void)err;
    if (ch->state != FR_CHAN_UP || use->since_ms < 0)
        return FR_OK; /* without a connection there is no renewal and no LEASED */
    fr_chan_put(ch, &m);
    fr_chan_flush(ch);
    return FR_OK;
}

static enum fr_rc node_put(void *self, const struct fr_exec_put *p, struct fr_err *err)
{
    return fr_xfer_put(use_of(self, p->node), p->ref, p->v, p->n, err);
}

static enum fr_rc node_get(void *self, const struct fr_exec_get *g, struct fr_err *err)
{
    return fr_xfer_get(use_of(self, g->node), g, err);
}

static enum fr_rc node_facts(void *self, size_t node, uint64_t ref, struct fr_err *err)
{
    struct fr_msg m = {.type = FR_MSG_FACTS, .facts = {ref}};

    return fr_pend_add(use_of(self, node), &m, (struct fr_id){0}, ref, err);
}

static int64_t node_clock_offset(void *self, size_t node)
{
    return use_of(self, node)->ch->offset_ms;
}

const struct fr_exec_ops fr_node_ops = {
    .name = "node",
    .connect = node_connect,
    .prepare = node_prepare,
    .go = node_go,
    .start = node_start,
    .attach = node_attach,
    .query = node_query,
    .stop = node_stop,
    .tombstone = node_tombstone,
    .ack_end = node_ack_end,
    .lease = node_lease,
    .put = node_put,
    .get = node_get,
    .facts = node_facts,
    .clock_offset = node_clock_offset,
    .destroy = fr_joined_leave,
};

struct fr_exec_node fr_exec_node_of(const struct fr_node *n, struct fr_id run)
{
    struct fr_exec_node out = {.name = n->name,
                               .transport = FR_TRANSPORT_LOCAL,
                               .work = n->work,
                               .keep_days = n->keep.days,
                               .keep_bytes = n->keep.bytes,
                               .connect_ms = n->connect.timeout_ms,
                               .retry_for_ms = n->connect.retry_for_ms};

    if (n->executor == FR_EXECUTOR_SLURM) {
        out.transport = FR_TRANSPORT_PLACE;
        out.run = run;
    }
    if (n->executor != FR_EXECUTOR_SSH)
        return out;
    out.transport = n->transport == FR_VIA_LIBSSH2   ? FR_TRANSPORT_LIBSSH2
                    : n->transport == FR_VIA_OPENSSH ? FR_TRANSPORT_OPENSSH
                                                     : FR_TRANSPORT_AUTO;
    out.ssh = (struct fr_ssh_target){.host = n->address,
                                     .user = n->user,
                                     .port = n->port,
                                     .key = n->key,
                                     .config = n->ssh_config,
                                     .known_hosts = n->known_hosts,
                                     .connect_ms = (int)n->connect.timeout_ms};
    return out;
}
