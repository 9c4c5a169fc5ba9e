#include "engine/wire/message.h"

#include "engine/wire/codec.h"

#include <stddef.h>

#define AT(kind, member)                                                                           \
    {                                                                                              \
        FR_FIELD_##kind, offsetof(struct OF, member), NULL                                         \
    }
#define IN(kind, member, sh)                                                                       \
    {                                                                                              \
        FR_FIELD_##kind, offsetof(struct OF, member), &(sh)                                        \
    }
#define SHAPE(name, ...)                                                                           \
    static const struct fr_field name##_fields[] = {__VA_ARGS__};                                  \
    static const struct fr_shape name##_shape = {#name, sizeof(struct OF), name##_fields,          \
                                                 sizeof(name##_fields) / sizeof(name##_fields[0])}

#define OF fr_file_want
SHAPE(file, AT(TEXT, store), AT(TEXT, path), AT(U32, mode));
#undef OF
#define OF fr_sidecar
SHAPE(sidecar, AT(TEXT, name), AT(TEXTS, argv), AT(TEXTS, env), AT(TEXT, cwd));
#undef OF
#define OF fr_container
SHAPE(container, AT(TEXT, runtime), AT(TEXT, name), AT(TEXT, flownode), AT(TEXT, home));
#undef OF
#define OF fr_request
SHAPE(request, AT(TEXTS, argv), AT(TEXTS, env), AT(TEXTS, secret_env), AT(TEXTS, mask),
      AT(TEXT, cwd), AT(BYTES, input), AT(U64, timeout_ms), AT(U64, grace_ms), AT(U64, lease_ms),
      AT(U64, log_max_bytes), AT(U32, log_on_full), AT(TEXTS, outputs), IN(LIST, files, file_shape),
      IN(LIST, sidecars, sidecar_shape), IN(STRUCT, container, container_shape), AT(BOOL, become),
      AT(U32, port), AT(U32, ports_more), AT(BOOL, leaves), AT(U32, umask), AT(TEXT, metrics));
#undef OF

#define OF fr_hello
SHAPE(hello, AT(U32, proto_min), AT(U32, proto_max), AT(TEXT, build), AT(ID, home), AT(TEXT, boot),
      AT(U64, epoch), AT(U64, mono_ms), AT(U64, wall_ms), AT(U32, keep_days), AT(U64, keep_bytes),
      AT(BOOL, same_disk), AT(ID, channel), AT(BOOL, samples));
#undef OF
#define OF fr_ping
SHAPE(ping, AT(U64, mono_ms));
#undef OF
#define OF fr_pong
SHAPE(pong, AT(U64, ping_ms), AT(U64, mono_ms), AT(U64, wall_ms));
#undef OF
#define OF fr_credit
SHAPE(credit, AT(U64, bytes));
#undef OF
#define OF fr_error
SHAPE(error, AT(U64, ref), AT(U32, rc), AT(TEXT, text));
#undef OF
#define OF fr_prepare
SHAPE(prepare, AT(ID, attempt), AT(ID, run), AT(TEXT, instance), AT(U32, generation),
      AT(TEXT, spec_hash), AT(BOOL, go_now), IN(STRUCT, request, request_shape));
#undef OF
#define OF fr_go
SHAPE(go, AT(ID, attempt), AT(TEXTS, env));
#undef OF
#define OF fr_attach
SHAPE(attach, AT(ID, attempt), AT(U64, offset), AT(BOOL, tail), AT(U64, tail_at), AT(BOOL, metrics),
      AT(U64, metrics_at));
#undef OF
#define OF fr_stop
SHAPE(stop, AT(ID, attempt), AT(U64, grace_ms), AT(U32, stop_cause));
#undef OF
#define OF fr_query
SHAPE(query, AT(IDS, attempts));
#undef OF
#define OF fr_attempt_ref
SHAPE(tombstone, AT(ID, attempt));
#undef OF
#define OF fr_attempt_ref
SHAPE(ack_end, AT(ID, attempt));
#undef OF
#define OF fr_msg_ref
SHAPE(cancel, AT(U64, ref));
#undef OF
#define OF fr_run_ref
SHAPE(join, AT(ID, run));
#undef OF
#define OF fr_run_ref
SHAPE(leave, AT(ID, run));
#undef OF
#define OF fr_lease
SHAPE(lease, AT(U64, ref), AT(ID, run));
#undef OF
#define OF fr_put_begin
SHAPE(put_begin, AT(U64, ref), AT(TEXT, path), AT(TEXT, sha256), AT(U64, size), AT(U32, mode),
      AT(ID, run));
#undef OF
#define OF fr_put_data
SHAPE(put_data, AT(U64, ref), AT(U64, offset), AT(BYTES, bytes));
#undef OF
#define OF fr_msg_ref
SHAPE(put_end, AT(U64, ref));
#undef OF
#define OF fr_get
SHAPE(get, AT(U64, ref), AT(TEXT, path), AT(U64, offset), AT(U64, window), AT(ID, run));
#undef OF
#define OF fr_get_more
SHAPE(get_more, AT(U64, ref), AT(U64, bytes));
#undef OF
#define OF fr_list
SHAPE(list, AT(U64, ref), AT(TEXT, path));
#undef OF
#define OF fr_msg_ref
SHAPE(facts, AT(U64, ref));
#undef OF
#define OF fr_prepared
SHAPE(prepared, AT(ID, attempt), AT(U32, rc), AT(TEXT, text), AT(U32, port));
#undef OF
#define OF fr_launched
SHAPE(launched, AT(ID, attempt), AT(U32, pid), AT(U64, mono_ms));
#undef OF
#define OF fr_busy
SHAPE(busy, AT(ID, attempt), AT(ID, other), AT(U32, generation), AT(TEXT, spec_hash));
#undef OF
#define OF fr_log_piece
SHAPE(log, AT(ID, attempt), AT(U64, offset), AT(U64, mono_ms), AT(BYTES, bytes));
#undef OF
#define OF fr_tail_piece
SHAPE(tail, AT(ID, attempt), AT(U64, head), AT(U64, keep), AT(U64, at), AT(U64, joined),
      AT(U64, dropped), AT(U64, mono_ms), AT(BYTES, bytes));
#undef OF
#define OF fr_metrics_piece
SHAPE(metrics, AT(ID, attempt), AT(U64, offset), AT(BYTES, bytes));
#undef OF
#define OF fr_sample
SHAPE(sample, AT(U64, wall_ms), AT(U32, cpu), AT(U32, load), AT(U64, mem_used), AT(U64, mem_bytes),
      AT(U64, disk_free), AT(U64, rx), AT(U64, tx), AT(TEXTS, gpus), AT(TEXTS, facts));
#undef OF
#define OF fr_ended
SHAPE(ended, AT(ID, attempt), AT(U32, cause), AT(U32, code), AT(U32, stop_cause),
      AT(BOOL, launched), AT(U64, launched_ms), AT(U64, ended_ms), AT(U64, log_bytes),
      AT(U64, dropped_bytes), AT(TEXTS, outputs), AT(TEXT, text), AT(TEXTS, survivors),
      AT(U64, metrics_bytes), AT(U64, launched_boot_ms), AT(U64, ended_boot_ms),
      AT(U64, sent_boot_ms));
#undef OF
#define OF fr_state
SHAPE(state, AT(ID, attempt), AT(U32, status), AT(U32, generation), AT(TEXT, spec_hash),
      AT(U32, pid), AT(U64, launched_ms), AT(U64, log_bytes), AT(U32, port), AT(BOOL, prepared));
#undef OF
#define OF fr_put_state
SHAPE(put_state, AT(U64, ref), AT(U64, offset), AT(BOOL, done), AT(TEXT, path));
#undef OF
#define OF fr_get_data
SHAPE(get_data, AT(U64, ref), AT(U64, offset), AT(BYTES, bytes));
#undef OF
#define OF fr_get_end
SHAPE(get_end, AT(U64, ref), AT(U64, size), AT(U32, mode));
#undef OF
#define OF fr_listing
SHAPE(listing, AT(U64, ref), AT(TEXTS, files));
#undef OF
#define OF fr_facts_are
SHAPE(facts_are, AT(U64, ref), AT(TEXTS, facts));
#undef OF
#define OF fr_leased
SHAPE(leased, AT(U64, ref), AT(U64, boot_ms), AT(ID, run));
#undef OF
#define OF fr_grew
SHAPE(grew, AT(ID, attempt), AT(U64, log_bytes));
#undef OF

#define OF fr_handover
SHAPE(handover, AT(BYTES, bytes));
#undef OF

static const struct fr_shape *const shapes[] = {
    [FR_MSG_HELLO] = &hello_shape,
    [FR_MSG_PING] = &ping_shape,
    [FR_MSG_PONG] = &pong_shape,
    [FR_MSG_CREDIT] = &credit_shape,
    [FR_MSG_ERROR] = &error_shape,
    [FR_MSG_PREPARE] = &prepare_shape,
    [FR_MSG_GO] = &go_shape,
    [FR_MSG_ATTACH] = &attach_shape,
    [FR_MSG_STOP] = &stop_shape,
    [FR_MSG_QUERY] = &query_shape,
    [FR_MSG_TOMBSTONE] = &tombstone_shape,
    [FR_MSG_ACK_END] = &ack_end_shape,
    [FR_MSG_LEASE] = &lease_shape,
    [FR_MSG_PUT_BEGIN] = &put_begin_shape,
    [FR_MSG_PUT_DATA] = &put_data_shape,
    [FR_MSG_PUT_END] = &put_end_shape,
    [FR_MSG_GET] = &get_shape,
    [FR_MSG_LIST] = &list_shape,
    [FR_MSG_FACTS] = &facts_shape,
    [FR_MSG_JOIN] = &join_shape,
    [FR_MSG_LEAVE] = &leave_shape,
    [FR_MSG_CANCEL] = &cancel_shape,
    [FR_MSG_GET_MORE] = &get_more_shape,
    [FR_MSG_PREPARED] = &prepared_shape,
    [FR_MSG_LAUNCHED] = &launched_shape,
    [FR_MSG_BUSY] = &busy_shape,
    [FR_MSG_LOG] = &log_shape,
    [FR_MSG_ENDED] = &ended_shape,
    [FR_MSG_STATE] = &state_shape,
    [FR_MSG_PUT_STATE] = &put_state_shape,
    [FR_MSG_GET_DATA] = &get_data_shape,
    [FR_MSG_GET_END] = &get_end_shape,
    [FR_MSG_LISTING] = &listing_shape,
    [FR_MSG_FACTS_ARE] = &facts_are_shape,
    [FR_MSG_LEASED] = &leased_shape,
    [FR_MSG_TAIL] = &tail_shape,
    [FR_MSG_METRICS] = &metrics_shape,
    [FR_MSG_SAMPLE] = &sample_shape,
    [FR_MSG_GREW] = &grew_shape,
    [FR_MSG_HANDOVER] = &handover_shape,
};

const struct fr_shape *fr_msg_shape(enum fr_msg_type type)
{
    size_t i = (size_t)type;

    return i < sizeof(shapes) / sizeof(shapes[0]) ? shapes[i] : NULL;
}

const char *fr_msg_name(enum fr_msg_type type)
{
    const struct fr_shape *shape = fr_msg_shape(type);

    return shape != NULL ? shape->name : "?";
}

size_t fr_msg_bulk(const struct fr_msg *m)
{
    switch (m->type) {
    case FR_MSG_LOG:
        return m->log.bytes.n;
    case FR_MSG_TAIL:
        return m->tail.bytes.n;
    case FR_MSG_METRICS:
        return m->metrics.bytes.n;
    case FR_MSG_GET_DATA:
        return m->get_data.bytes.n;
    case FR_MSG_PUT_DATA:
        return m->put_data.bytes.n;
    default:
        return 0;
    }
}
