/*
 * Streams of server-sent events (text/event-stream, HTML Standard 9.2) about the home. An event
 * names a change; the store has the state.
 *
 *   hello {epoch, version, now_ms}           a stream begins
 *   run {run, state, outcome}                the run itself changed; topic list
 *   inst {run, seq, changes: [[idx, state, attempt, cause, code, reason, wall, due, unreachable],
 *         …]}                                instances changed: attempt is its number; cause, code
 *                                            and reason as in the instance's row; wall: when, in ms
 *                                            since 1970; due: when a retry is due, else 0;
 *                                            unreachable: 1 while the node does not answer, else 0
 *   log {run, attempt, bytes}                an attempt's output has grown to so many bytes
 *   metric {run, attempt, bytes}             its metrics file has
 *   note {run, wall, text, node, up, idx}    no row has this: a node's connection, trouble; a
 *                                            stream begins with the newest note of each node
 *   queue {}, schedule {}                    the queue or a schedule changed; topics queue,
 *                                            schedules
 *   reset {run}                              events are missing: read all again
 *   bye {reason}                             the stream ends
 *
 * A stream gets the events of the runs that it names (?runs=41,42), and the events of its topics
 * (&topics=list,queue,nodes,schedules) for all runs. The topic nodes has the notes about nodes.
 * Without runs and topics a stream gets everything.
 *
 * An event's id is "EPOCH-RANDOM.N", N counting over the life of the host. The random part tells
 * hosts apart whose homes count epochs alike, such as a restored home. A ring keeps the newest
 * events. A slow reader, or one that returns with Last-Event-ID or ?last=, goes on in the ring. A
 * reader that is too far behind, or whose id has another prefix, gets a reset.
 */
#ifndef FR_STREAM_STREAM_H
#define FR_STREAM_STREAM_H

#include "engine/api/api.h"

struct fr_host;
struct host_part;

extern const struct host_part stream_part;

/* As of struct fr_api; arg is the host. */
void feed_open(void *host, const struct fr_api_request *req, const struct fr_api_sink *sink,
               struct fr_api_response *res, struct fr_api_stream **out);
void feed_drained(void *host, struct fr_api_stream *s);
void feed_gone(void *host, struct fr_api_stream *s);

size_t feed_streams(const struct fr_host *host); /* the number of open streams */

#endif
