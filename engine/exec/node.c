/* The "node" executor: its commands become messages, remembered by the node's channel. */
#include "engine/exec/chan.h"

#include "engine/base/sys.h"
#include "engine/spec/spec.h"

#include <assert.h>

static struct fr_chan *chan(void *self, size_t node)
{
    struct fr_nodes *ex = self;

    assert(node < ex->n);
    return &ex->chans[node];
}

static enum fr_rc node_connect(void *self, size_t node, struct fr_err *err)
{
    (void)err;
    fr_chan_connect(chan(self, node));
    return FR_OK;
}

static enum fr_rc send_prepare(void *self, const struct fr_exec_member *mb, bool go_now,
                               struct fr_err *err)
{
    struct fr_msg m = {.type = FR_MSG_PREPARE, .prepare = mb->prepare};

    m.prepare.go_now = go_now;
    return fr_pend_add(chan(self, mb->node), &m, mb->prepare.attempt, 0, err);
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

    return fr_pend_add(chan(self, mb->node), &m, mb->prepare.attempt, 0, err);
}

static enum fr_rc node_attach(void *self, struct fr_exec_attempt a, uint64_t offset,
                              struct fr_err *err)
{
    return fr_follow_add(chan(self, a.node), a.attempt, offset, err);
}

static enum fr_rc node_query(void *self, const struct fr_exec_attempt *v, size_t n,
                             struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; i < n && rc == FR_OK; i++) {
        struct fr_id id = v[i].attempt;
        struct fr_msg m = {.type = FR_MSG_QUERY, .query = {{&id, 1}}};

        rc = fr_pend_add(chan(self, v[i].node), &m, id, 0, err);
    }
    return rc;
}

static enum fr_rc node_stop(void *self, struct fr_exec_attempt a, int64_t grace_ms,
                            uint32_t stop_cause, struct fr_err *err)
{
    struct fr_msg m = {.type = FR_MSG_STOP, .stop = {a.attempt, grace_ms, stop_cause}};

    return fr_pend_add(chan(self, a.node), &m, a.attempt, 0, err);
}

static enum fr_rc node_tombstone(void *self, struct fr_exec_attempt a, struct fr_err *err)
{
    struct fr_msg m = {.type = FR_MSG_TOMBSTONE, .tombstone = {a.attempt}};

    return fr_pend_add(chan(self, a.node), &m, a.attempt, 0, err);
}

static enum fr_rc node_ack_end(void *self, struct fr_exec_attempt a, struct fr_err *err)
{
    struct fr_msg m = {.type = FR_MSG_ACK_END, .ack_end = {a.attempt}};
    struct fr_chan *ch = chan(self, a.node);

    fr_follow_drop(ch, a.attempt);
    fr_pend_answered(ch, a.attempt, FR_MSG_ENDED);
    return fr_pend_add(ch, &m, a.attempt, 0, err);
}

static enum fr_rc node_lease(void *self, size_t node, struct fr_err *err)
{
    struct fr_chan *ch = chan(self, node);
    struct fr_msg m = {.type = FR_MSG_LEASE};

    (void)err;
    if (ch->state != FR_CHAN_UP)
        return FR_OK; /* without a connection there is no renewal and no LEASED */
    fr_chan_put(ch, &m);
    fr_chan_flush(ch);
    return FR_OK;
}

static enum fr_rc node_put(void *self, const struct fr_exec_put *p, struct fr_err *err)
{
    return fr_xfer_put(chan(self, p->node), p->ref, p->v, p->n, err);
}

static enum fr_rc node_get(void *self, const struct fr_exec_get *g, struct fr_err *err)
{
    return fr_xfer_get(chan(self, g->node), g, err);
}

static enum fr_rc node_list(void *self, size_t node, uint64_t ref, const char *path,
                            struct fr_err *err)
{
    struct fr_msg m = {.type = FR_MSG_LIST, .list = {ref, fr_str_of(path)}};

    return fr_pend_add(chan(self, node), &m, (struct fr_id){0}, ref, err);
}

static enum fr_rc node_facts(void *self, size_t node, uint64_t ref, struct fr_err *err)
{
    struct fr_msg m = {.type = FR_MSG_FACTS, .facts = {ref}};

    return fr_pend_add(chan(self, node), &m, (struct fr_id){0}, ref, err);
}

static int64_t node_clock_offset(void *self, size_t node)
{
    return chan(self, node)->offset_ms;
}

static void node_destroy(void *self)
{
    struct fr_nodes *ex = self;

    fr_loop_withdraw(ex->loop, &ex->kick);
    for (size_t i = 0; i < ex->n; i++)
        fr_chan_finish(&ex->chans[i]);
    fr_ship_destroy(ex->ship);
    fr_buf_finish(&ex->ssh_defaults);
    fr_sys.free(ex->chans);
    fr_sys.free(ex);
}

static const struct fr_exec_ops node_ops = {
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
    .list = node_list,
    .facts = node_facts,
    .clock_offset = node_clock_offset,
    .destroy = node_destroy,
};

/* Starts as many of the queued connects as may run, in the order of the nodes. */
static void on_kick(void *arg)
{
    struct fr_nodes *ex = arg;

    for (size_t i = 0; i < ex->n && ex->connecting < FR_EXEC_CONNECTS; i++)
        if (ex->chans[i].state == FR_CHAN_QUEUED)
            fr_chan_start(&ex->chans[i]);
}

struct fr_exec_node fr_exec_node_of(const struct fr_node *n)
{
    struct fr_exec_node out = {.name = n->name,
                               .transport = FR_TRANSPORT_LOCAL,
                               .work = n->work,
                               .keep_days = n->keep.days,
                               .keep_bytes = n->keep.bytes,
                               .connect_ms = n->connect.timeout_ms,
                               .retry_for_ms = n->connect.retry_for_ms};

    if (n->executor == FR_EXECUTOR_LOCAL)
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

enum fr_rc fr_exec_node_create(struct fr_exec *out, const struct fr_exec_node_args *args,
                               struct fr_err *err)
{
    struct fr_nodes *ex = fr_sys.alloc(sizeof(*ex));
    size_t bytes = 0;
    struct fr_id owner;
    enum fr_rc rc = FR_OK;

    *out = (struct fr_exec){0};
    if (ex == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the executor");
    *ex = (struct fr_nodes){.loop = args->loop, .sink = args->sink, .args = *args};
    ex->kick = (struct fr_post){.run = on_kick, .arg = ex};
    if (!fr_mul_size(args->n + 1, sizeof(*ex->chans), &bytes) ||
        (ex->chans = fr_sys.alloc(bytes)) == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for %zu nodes", args->n);
    if (rc == FR_OK && (rc = fr_id_new(&owner, err)) == FR_OK)
        fr_id_text(owner, ex->owner);
    if (rc == FR_OK && args->make_link == NULL)
        rc = fr_ship_create(&ex->ship, args->flownode_dir, err);
    while (rc == FR_OK && ex->n < args->n) {
        rc = fr_chan_init(&ex->chans[ex->n], ex, ex->n, err);
        if (rc == FR_OK)
            ex->n++;
    }
    if (rc != FR_OK) {
        node_destroy(ex);
        return rc;
    }
    *out = (struct fr_exec){&node_ops, ex};
    return FR_OK;
}
