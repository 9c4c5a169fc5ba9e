/*
 * The messages between flowrun and a flownode: what each carries and what answers it. They are open
 * values; the memory they point to belongs to whoever made them (after decoding: an arena).
 */
#ifndef FR_WIRE_MESSAGE_H
#define FR_WIRE_MESSAGE_H

#include "engine/base/str.h"
#include "engine/wire/piece.h"
#include "engine/wire/request.h"
#include "engine/wire/transfer.h"

#include <stdint.h>

enum fr_msg_type {
    /* both ways */
    FR_MSG_HELLO = 1,
    FR_MSG_PING,
    FR_MSG_PONG,
    FR_MSG_CREDIT,
    FR_MSG_ERROR,
    /* engine to node */
    FR_MSG_PREPARE = 16,
    FR_MSG_GO,
    FR_MSG_ATTACH,
    FR_MSG_STOP,
    FR_MSG_QUERY,
    FR_MSG_TOMBSTONE,
    FR_MSG_ACK_END,
    FR_MSG_LEASE,
    FR_MSG_PUT_BEGIN,
    FR_MSG_PUT_DATA,
    FR_MSG_PUT_END,
    FR_MSG_GET,
    FR_MSG_LIST,
    FR_MSG_FACTS,
    FR_MSG_JOIN,
    FR_MSG_LEAVE,
    FR_MSG_CANCEL,
    FR_MSG_GET_MORE,
    /* node to engine */
    FR_MSG_PREPARED = 48,
    FR_MSG_LAUNCHED,
    FR_MSG_BUSY,
    FR_MSG_LOG,
    FR_MSG_ENDED,
    FR_MSG_STATE,
    FR_MSG_PUT_STATE,
    FR_MSG_GET_DATA,
    FR_MSG_GET_END,
    FR_MSG_LISTING,
    FR_MSG_FACTS_ARE,
    FR_MSG_LEASED,
    FR_MSG_TAIL,
    FR_MSG_METRICS,
    FR_MSG_SAMPLE,
    /* inside a node */
    FR_MSG_GREW = 80,
    FR_MSG_HANDOVER
};

/* What a node knows of an attempt. */
enum fr_attempt_status {
    /* Nothing of it lives that the node knows of. Without .prepared: no record of it, or one that
     * is acknowledged; connections older than the one that is answered cannot start it any more.
     * With it: it was prepared, and whoever was to start it may only stand still; a tombstone says
     * whether it ever starts. */
    FR_AT_UNKNOWN,
    FR_AT_PREPARED,   /* starts on go, now or once it is ready: prepared follows */
    FR_AT_RUNNING,    /* launched, its supervisor lives (also while it is being stopped) */
    FR_AT_ENDED,      /* over: its processes are gone, or listed as survivors; ended follows */
    FR_AT_TOMBSTONED, /* never started, and never will */
    FR_AT_SWEEPING    /* its supervisor is gone; what is left is being stopped, ended will follow */
};

enum fr_end_cause {
    FR_END_EXIT = 1, /* code */
    FR_END_SIGNAL,   /* code is the signal, not sent by us */
    FR_END_TIMEOUT,
    FR_END_OOM,          /* killed by the kernel for memory */
    FR_END_START_FAILED, /* prepare or exec failed, or no go in time: the command did not run */
    FR_END_LOST,   /* supervisor killed, node rebooted, or its container gone: outcome unknown */
    FR_END_LEASE,  /* lease ran out, so the node stopped it */
    FR_END_STOPPED /* stop_cause of the stop that did it */
};

struct fr_hello {
    uint32_t proto_min, proto_max; /* the connection speaks the smaller maximum */
    struct fr_str build;           /* the linker's id of the program */
    struct fr_id home;  /* node: id of its home; engine: whose connections these are, the id of its
                         * store. Epochs are compared among hellos of the same one */
    struct fr_str boot; /* node: boot id of the machine; flowrun: its process, by a random name */
    uint64_t epoch;     /* engine: of this connection; node: 0 */
    int64_t mono_ms, wall_ms; /* of the sender, now */
    uint32_t keep_days;       /* engine: how long acknowledged attempts stay on the node … */
    uint64_t keep_bytes;  /* … and how large they may be (prune.h); 0 days: none; 0 bytes: any */
    bool same_disk;       /* engine: its copies of logs lie on this disk */
    struct fr_id channel; /* engine: of its connections with the same one, a newer ends an older */
    bool samples;         /* engine: it takes samples */
};
struct fr_ping {
    int64_t mono_ms; /* of the sender */
};
struct fr_pong {
    int64_t ping_ms; /* mono_ms of the ping answered */
    int64_t mono_ms, wall_ms;
};
struct fr_credit {
    uint64_t bytes; /* granted in addition */
};
struct fr_error {
    uint64_t ref; /* 0: the connection */
    uint32_t rc;  /* enum fr_rc */
    struct fr_str text;
};

/* Answer: prepared or busy; for an attempt it knows already, state (a repeat changes nothing). */
struct fr_prepare {
    struct fr_id attempt, run;
    struct fr_str instance; /* key of the instance within the run */
    uint32_t generation;
    struct fr_str spec_hash;
    bool go_now; /* launch as soon as prepared: no gang waits */
    struct fr_request request;
};

/* env: "K=V" added to the request's, e.g. the rendezvous address known only now. Answer: launched,
 * or ended with start_failed; an attempt not prepared here: state. */
struct fr_go {
    struct fr_id attempt;
    struct fr_strs env;
};
/* Answer: state, then log from offset on as it grows (and metrics), and ended when it is over. */
struct fr_attach {
    struct fr_id attempt;
    uint64_t offset;
    bool tail;           /* of a log that is full also the tail is sent, before its end … */
    uint64_t tail_at;    /* … from this byte of it on */
    bool metrics;        /* also its metrics are sent … */
    uint64_t metrics_at; /* … from this byte of them on */
};
/* Answer: ended, once every process is gone or the survivors are named. May be repeated. */
struct fr_stop {
    struct fr_id attempt;
    int64_t grace_ms;
    uint32_t stop_cause;
};
/* Answer: one state each, ended behind an ended one. */
struct fr_query {
    struct fr_ids attempts;
};
/* tombstone: answered by state (tombstoned if it never started). ack_end: the engine has its end
 * and its log, so the node may remove it; no answer. */
struct fr_attempt_ref {
    struct fr_id attempt;
};
/* join: the engine drives the run; its attempts here are looked after, and its containers count as
 * used. leave: it does so no more; nothing of the run is sent any longer, its gets and puts end.
 * Its attempts go on. No answer. */
struct fr_run_ref {
    struct fr_id run;
};
/* Renews the leases of all attempts of the run here, answered by leased: each now ends at
 * leased.boot_ms + T. */
struct fr_lease {
    uint64_t ref;
    struct fr_id run;
};
/* facts: answered by facts_are. put_end: see put_begin. cancel: the get or put ends; no answer. */
struct fr_msg_ref {
    uint64_t ref;
};

/* rc FR_OK: prepared, port is the one held for request.port (0: none). Else nothing is left. */
struct fr_prepared {
    struct fr_id attempt;
    uint32_t rc;
    struct fr_str text;
    uint32_t port;
};
struct fr_launched {
    struct fr_id attempt;
    uint32_t pid;
    int64_t mono_ms;
};
/* Another attempt of the same run and instance lives here; the one asked for was not started. */
struct fr_busy {
    struct fr_id attempt, other;
    uint32_t generation;     /* of other */
    struct fr_str spec_hash; /* of other */
};
struct fr_ended {
    struct fr_id attempt;
    uint32_t cause;                /* enum fr_end_cause */
    int32_t code;                  /* exit status or signal */
    uint32_t stop_cause;           /* as given by stop */
    bool launched;                 /* the command did run */
    int64_t launched_ms, ended_ms; /* node's mono_ms; 0 unknown */
    uint64_t log_bytes;            /* final size of the log */
    uint64_t dropped_bytes;        /* output not kept: log full or disk full */
    struct fr_strs outputs;        /* "K=V"; values may hold newlines */
    struct fr_str text; /* why: start_failed, lost, bad outputs, a failed built-in task; else "" */
    struct fr_strs survivors; /* "pid comm state"; not empty: stop_unproven */
    uint64_t metrics_bytes;   /* final size of its metrics */
    /* The node's boot clock, which counts its sleep, too: of the launch and of the end, and when
     * this was sent; 0 unknown. All three are told as by one clock, also across a reboot. */
    int64_t launched_boot_ms, ended_boot_ms, sent_boot_ms;
};
struct fr_state {
    struct fr_id attempt;
    uint32_t status, generation; /* status: enum fr_attempt_status */
    struct fr_str spec_hash;
    uint32_t pid; /* of the command, 0 when there is none */
    int64_t launched_ms;
    uint64_t log_bytes; /* now */
    uint32_t port;      /* held or used for request.port */
    bool prepared;      /* unknown: see there */
};
/* "K=V": hostname user uid kernel arch cpus mem_bytes disk_free_bytes home addr … */
struct fr_facts_are {
    uint64_t ref;
    struct fr_strs facts;
};
struct fr_leased {
    uint64_t ref;
    int64_t boot_ms;
    struct fr_id run;
};
struct fr_grew {
    struct fr_id attempt;
    uint64_t log_bytes;
};
struct fr_handover {
    struct fr_str bytes; /* fr_supervise_put, for a shim */
};
struct fr_msg {
    enum fr_msg_type type;
    union {
        struct fr_hello hello;
        struct fr_ping ping;
        struct fr_pong pong;
        struct fr_credit credit;
        struct fr_error error;
        struct fr_prepare prepare;
        struct fr_go go;
        struct fr_attach attach;
        struct fr_stop stop;
        struct fr_query query;
        struct fr_attempt_ref tombstone;
        struct fr_attempt_ref ack_end;
        struct fr_run_ref join, leave;
        struct fr_lease lease;
        struct fr_put_begin put_begin;
        struct fr_put_data put_data;
        struct fr_msg_ref put_end;
        struct fr_get get;
        struct fr_get_more get_more;
        struct fr_list list;
        struct fr_msg_ref facts;
        struct fr_msg_ref cancel;
        struct fr_prepared prepared;
        struct fr_launched launched;
        struct fr_busy busy;
        struct fr_log_piece log;
        struct fr_ended ended;
        struct fr_state state;
        struct fr_put_state put_state;
        struct fr_get_data get_data;
        struct fr_get_end get_end;
        struct fr_listing listing;
        struct fr_facts_are facts_are;
        struct fr_leased leased;
        struct fr_tail_piece tail;
        struct fr_metrics_piece metrics;
        struct fr_sample sample;
        struct fr_grew grew;
        struct fr_handover handover;
    };
};

/* Bulk bytes that m counts against credit: the length of its data, 0 for a control message. */
size_t fr_msg_bulk(const struct fr_msg *m);

/* "prepare", "log" …; "?" for a number that is none. */
const char *fr_msg_name(enum fr_msg_type type);

/* The fields of a message of that type (codec.h), NULL when there is no such message. */
const struct fr_shape *fr_msg_shape(enum fr_msg_type type);

#endif
