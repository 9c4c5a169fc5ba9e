/* clang-format off */
/*
 * Every message between flowrun and a flownode: its number, its name, its fields and the answer to
 * it. message.h and message.c make the enum, the structs and the tables of the encoding from this
 * list, so a field is one row and a message is one block here.
 *
 *   FR_MESSAGE(number, ID, name, struct)   FR_MSG_ID, member `name` of struct fr_msg
 *   FR_FIELD(kind, member)                 kinds of codec.h; I32, I64: a signed number
 *   FR_INNER(STRUCT or LIST, struct, member)
 *
 * Fields are sent in this order. A new field comes last: an older side skips it, and reads zero for
 * one that a newer side expects (wire.h). A number is never used again; 28 and 57 were
 * messages that are gone.
 *
 * This file is included several times. Each time the macros above are defined before it.
 */

/* ---- both ways ---- */

FR_MESSAGE(1, HELLO, hello, fr_hello)
    FR_FIELD(U32, proto_min)
    FR_FIELD(U32, proto_max)   /* the connection speaks the smaller maximum */
    FR_FIELD(TEXT, build)      /* the linker's id of the program */
    /* node: id of its home. engine: id of its store. A node compares the epochs of connections
     * with the same id only. */
    FR_FIELD(ID, home)
    FR_FIELD(TEXT, boot)       /* node: the machine's boot id; engine: random name of its process */
    FR_FIELD(U64, epoch)       /* engine: of this connection; node: 0 */
    FR_FIELD(I64, mono_ms)     /* the sender's clocks, now */
    FR_FIELD(I64, wall_ms)
    FR_FIELD(U32, keep_days)   /* engine: days that acknowledged attempts stay (prune.h); 0: none */
    FR_FIELD(U64, keep_bytes)  /* engine: their total size; 0: no limit */
    FR_FIELD(BOOL, same_disk)  /* engine: its copies of logs lie on the node's disk */
    FR_FIELD(ID, channel)      /* engine: a connection ends an older one with the same channel */
    FR_FIELD(BOOL, samples)    /* engine: wants SAMPLE messages */
FR_END
FR_MESSAGE(2, PING, ping, fr_ping)
    FR_FIELD(I64, mono_ms) /* of the sender */
FR_END
FR_MESSAGE(3, PONG, pong, fr_pong)
    FR_FIELD(I64, ping_ms) /* mono_ms of the ping */
    FR_FIELD(I64, mono_ms) /* the answering side's clocks */
    FR_FIELD(I64, wall_ms)
FR_END
FR_MESSAGE(4, CREDIT, credit, fr_credit)
    FR_FIELD(U64, bytes) /* granted in addition */
FR_END
FR_MESSAGE(5, ERROR, error, fr_error)
    FR_FIELD(U64, ref) /* 0: the whole connection */
    FR_FIELD(U32, rc)  /* enum fr_rc */
    FR_FIELD(TEXT, text)
FR_END
/* ---- engine to node: attempts ---- */

/* Answer: prepared or busy. For an attempt that the node has already: state; nothing changes. */
FR_MESSAGE(16, PREPARE, prepare, fr_prepare)
    FR_FIELD(ID, attempt)
    FR_FIELD(ID, run)
    FR_FIELD(TEXT, instance) /* key of the instance within the run */
    FR_FIELD(U32, generation)
    FR_FIELD(TEXT, spec_hash)
    FR_FIELD(BOOL, go_now)   /* launch as soon as prepared: no gang waits */
    FR_INNER(STRUCT, fr_request, request)
FR_END
/* Answer: launched, or ended with start_failed; state for an attempt that is not prepared here. */
FR_MESSAGE(17, GO, go, fr_go)
    FR_FIELD(ID, attempt)
    FR_FIELD(TEXTS, env) /* "K=V" in addition to the request's: the rendezvous address, known now */
FR_END
/* Answer: state, then log and metrics as they grow, and ended when the attempt is over. */
FR_MESSAGE(18, ATTACH, attach, fr_attach)
    FR_FIELD(ID, attempt)
    FR_FIELD(U64, offset)     /* first byte of the log to send */
    FR_FIELD(BOOL, tail)      /* send the tail of a full log before its end, too … */
    FR_FIELD(U64, tail_at)    /* … from this byte on */
    FR_FIELD(BOOL, metrics)   /* send the metrics, too … */
    FR_FIELD(U64, metrics_at) /* … from this byte on */
FR_END
/* Answer: ended, once every process is gone or the survivors are named. May be repeated. A keeper
 * gives node_lost as the cause when its job ends: the end then has that cause. */
FR_MESSAGE(19, STOP, stop, fr_stop)
    FR_FIELD(ID, attempt)
    FR_FIELD(I64, grace_ms)
    FR_FIELD(U32, stop_cause)
    FR_FIELD(BOOL, notice) /* a keeper's: only an attempt whose request has a notice is stopped */
FR_END
/* Answer: one state for each, followed by ended where the attempt has ended. */
FR_MESSAGE(20, QUERY, query, fr_query)
    FR_FIELD(IDS, attempts)
FR_END
/* The attempt may not start any more. Answer: state (tombstoned if it never started). */
FR_MESSAGE(21, TOMBSTONE, tombstone, fr_tombstone)
    FR_FIELD(ID, attempt)
FR_END
/* The engine has stored the end and the log, so the node may remove the attempt. No answer. */
FR_MESSAGE(22, ACK_END, ack_end, fr_ack_end)
    FR_FIELD(ID, attempt)
FR_END
/* Renews the leases of all attempts of the run here. Answer: leased. */
FR_MESSAGE(23, LEASE, lease, fr_lease)
    FR_FIELD(U64, ref)
    FR_FIELD(ID, run)
FR_END

/* ---- engine to node: files ---- */

/* Ships a file to STORE/path, STORE being the store folder of the node's home. Answer: put_state
 * with the first offset to send (size: the node has the file). Then put_data against credit, then
 * put_end. The last answer is put_state with done, or error. */
FR_MESSAGE(24, PUT_BEGIN, put_begin, fr_put_begin)
    FR_FIELD(U64, ref)
    FR_FIELD(TEXT, path) /* relative, without "." and ".." parts */
    FR_FIELD(TEXT, sha256)
    FR_FIELD(U64, size)
    FR_FIELD(U32, mode)
    FR_FIELD(ID, run)
FR_END
FR_MESSAGE(25, PUT_DATA, put_data, fr_put_data)
    FR_FIELD(U64, ref) FR_FIELD(U64, offset) FR_FIELD(BYTES, bytes)
FR_END
FR_MESSAGE(26, PUT_END, put_end, fr_put_end)
    FR_FIELD(U64, ref)
FR_END
/* Reads a regular file of the node. Answer: get_data against credit, then get_end; or error. */
FR_MESSAGE(27, GET, get, fr_get)
    FR_FIELD(U64, ref)
    FR_FIELD(TEXT, path)  /* a relative path is below the node home */
    FR_FIELD(U64, offset) /* first byte to send */
    FR_FIELD(U64, window) /* bytes that may come before get_more allows more; 0: no limit */
    FR_FIELD(ID, run)     /* runs get their bytes in turn */
FR_END
/* Answer: facts_are. */
FR_MESSAGE(29, FACTS, facts, fr_facts)
    FR_FIELD(U64, ref)
FR_END

/* ---- engine to node: runs and requests ---- */

/* The engine drives the run: the node looks after its attempts and containers. No answer. */
FR_MESSAGE(30, JOIN, join, fr_join)
    FR_FIELD(ID, run)
FR_END
/* The engine no longer drives the run: the node sends nothing more about it and drops its gets and
 * puts. Its attempts go on. No answer. */
FR_MESSAGE(31, LEAVE, leave, fr_leave)
    FR_FIELD(ID, run)
FR_END
/* Ends a get or a put. No answer. */
FR_MESSAGE(32, CANCEL, cancel, fr_cancel)
    FR_FIELD(U64, ref)
FR_END
/* The engine has written so many bytes to its disk: the node may send as many more. No answer. */
FR_MESSAGE(33, GET_MORE, get_more, fr_get_more)
    FR_FIELD(U64, ref) FR_FIELD(U64, bytes)
FR_END

/* ---- node to engine: attempts ---- */

FR_MESSAGE(48, PREPARED, prepared, fr_prepared)
    FR_FIELD(ID, attempt)
    FR_FIELD(U32, rc)   /* FR_OK: prepared. Else nothing of the attempt is left */
    FR_FIELD(TEXT, text)
    FR_FIELD(U32, port) /* held for request.port; 0: none */
FR_END
FR_MESSAGE(49, LAUNCHED, launched, fr_launched)
    FR_FIELD(ID, attempt)
    FR_FIELD(U32, pid)
    FR_FIELD(I64, mono_ms)
FR_END
/* Another attempt of the same run and instance lives here. The requested one was not started. */
FR_MESSAGE(50, BUSY, busy, fr_busy)
    FR_FIELD(ID, attempt)
    FR_FIELD(ID, other)
    FR_FIELD(U32, generation) /* of other */
    FR_FIELD(TEXT, spec_hash) /* of other */
FR_END
/* Byte-exact piece of the log file. */
FR_MESSAGE(51, LOG, log, fr_log_piece)
    FR_FIELD(ID, attempt)
    FR_FIELD(U64, offset)
    FR_FIELD(I64, mono_ms) /* when its first byte was written */
    FR_FIELD(BYTES, bytes)
FR_END
FR_MESSAGE(52, ENDED, ended, fr_ended)
    FR_FIELD(ID, attempt)
    FR_FIELD(U32, cause)          /* enum fr_end_cause */
    FR_FIELD(I32, code)           /* exit status or signal */
    FR_FIELD(U32, stop_cause)     /* as given by stop */
    FR_FIELD(BOOL, launched)      /* the command did run */
    FR_FIELD(I64, launched_ms)    /* node's mono_ms, like ended_ms; 0: unknown */
    FR_FIELD(I64, ended_ms)
    FR_FIELD(U64, log_bytes)      /* final size of the log */
    FR_FIELD(U64, dropped_bytes)  /* output not kept: log full or disk full */
    FR_FIELD(TEXTS, outputs)      /* "K=V"; values may hold newlines */
    FR_FIELD(TEXT, text)          /* why: start_failed, lost, bad outputs, a failed built-in task */
    FR_FIELD(TEXTS, survivors)    /* "pid comm state"; not empty: stop_unproven */
    FR_FIELD(U64, metrics_bytes)  /* final size of the metrics */
    /* By the node's boot clock, which counts sleep, too; 0: unknown. The three times are on one
     * scale, also if the node has rebooted in between. */
    FR_FIELD(I64, launched_boot_ms)
    FR_FIELD(I64, ended_boot_ms)
    FR_FIELD(I64, sent_boot_ms)   /* when this message was sent */
FR_END
FR_MESSAGE(53, STATE, state, fr_state)
    FR_FIELD(ID, attempt)
    FR_FIELD(U32, status)     /* enum fr_attempt_status */
    FR_FIELD(U32, generation)
    FR_FIELD(TEXT, spec_hash)
    FR_FIELD(U32, pid)        /* of the command; 0: there is none */
    FR_FIELD(I64, launched_ms)
    FR_FIELD(U64, log_bytes)  /* now */
    FR_FIELD(U32, port)       /* held or used for request.port */
    FR_FIELD(BOOL, prepared)  /* see FR_AT_UNKNOWN */
FR_END

/* ---- node to engine: files and facts ---- */

FR_MESSAGE(54, PUT_STATE, put_state, fr_put_state)
    FR_FIELD(U64, ref)
    FR_FIELD(U64, offset)
    FR_FIELD(BOOL, done)
    FR_FIELD(TEXT, path) /* absolute */
FR_END
FR_MESSAGE(55, GET_DATA, get_data, fr_get_data)
    FR_FIELD(U64, ref) FR_FIELD(U64, offset) FR_FIELD(BYTES, bytes)
FR_END
FR_MESSAGE(56, GET_END, get_end, fr_get_end)
    FR_FIELD(U64, ref)
    FR_FIELD(U64, size) /* of the whole file */
    FR_FIELD(U32, mode)
FR_END
FR_MESSAGE(58, FACTS_ARE, facts_are, fr_facts_are)
    FR_FIELD(U64, ref)
    FR_FIELD(TEXTS, facts) /* "K=V": hostname user uid kernel arch cpus mem_bytes home … */
FR_END
/* Each lease of the run now ends at boot_ms + its length. */
FR_MESSAGE(59, LEASED, leased, fr_leased)
    FR_FIELD(U64, ref)
    FR_FIELD(I64, boot_ms)
    FR_FIELD(ID, run)
FR_END

/* ---- node to engine: more output ---- */

/* Piece of the tail of a full log, for a reader who does not wait for its end (base/tail.h).
 * Dropped bytes leave gaps in the numbers. */
FR_MESSAGE(60, TAIL, tail, fr_tail_piece)
    FR_FIELD(ID, attempt)
    FR_FIELD(U64, head)    /* head, keep: as in struct fr_tail_head */
    FR_FIELD(U64, keep)
    FR_FIELD(U64, at)      /* number of the first byte */
    FR_FIELD(U64, joined)  /* not 0: the last piece: bytes is empty, at is one past the last byte */
    FR_FIELD(U64, dropped)
    FR_FIELD(I64, mono_ms) /* when its last byte was written */
    FR_FIELD(BYTES, bytes)
FR_END
/* Byte-exact piece of an attempt's metrics, as its node keeps them (supervise/metrics.h). */
FR_MESSAGE(61, METRICS, metrics, fr_metrics_piece)
    FR_FIELD(ID, attempt) FR_FIELD(U64, offset) FR_FIELD(BYTES, bytes)
FR_END
/* The state of the node's machine, every FR_SAMPLE_MS. */
FR_MESSAGE(62, SAMPLE, sample, fr_sample)
    FR_FIELD(I64, wall_ms)  /* of the node */
    FR_FIELD(U32, cpu)      /* thousandths of all its CPUs, since the sample before */
    FR_FIELD(U32, load)     /* hundredths: the load average of one minute */
    FR_FIELD(U64, mem_used)
    FR_FIELD(U64, mem_bytes)
    FR_FIELD(U64, disk_free)
    FR_FIELD(U64, rx)       /* bytes a second, of all interfaces but lo */
    FR_FIELD(U64, tx)
    /* One for each GPU, as nvidia-smi prints it: "INDEX, USE %, MEMORY USED MiB, MEMORY MiB,
     * DEGREES, WATTS, NAME". */
    FR_FIELD(TEXTS, gpus)
    FR_FIELD(TEXTS, facts)  /* "K=V", in the first sample alone */
FR_END

/* ---- inside a node: a supervisor and its serve ---- */

FR_MESSAGE(80, GREW, grew, fr_grew)
    FR_FIELD(ID, attempt)
    FR_FIELD(U64, log_bytes)
FR_END
FR_MESSAGE(81, HANDOVER, handover, fr_handover)
    FR_FIELD(BYTES, bytes) /* an attempt, by fr_supervise_put */
FR_END

#include "engine/wire/protocol_pipe.h"

#undef FR_MESSAGE
#undef FR_FIELD
#undef FR_INNER
#undef FR_END
    /* clang-format on */
