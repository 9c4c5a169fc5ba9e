/*
 * Streams of server-sent events (text/event-stream, HTML Standard 9.2): what happens in the home,
 * to those who follow. An event says where there is news; what is true stands in the store.
 *
 *   hello {epoch, version, now_ms}           a stream begins
 *   run {run, state, outcome}                the run itself changed; topic list
 *   inst {run, seq, changes: [[idx, state, attempt, cause, code, reason, wall, due, unreachable],
 *         …]}                                instances changed: attempt is its number; cause, code
 *                                            and reason as in the instance's row; wall: when, in ms
 *                                            since 1970; due: when a retry is due, else 0;
 *                                            unreachable: 1 while the node does not answer, else 0
 *   log {run, attempt, bytes}                there is more of an attempt's output
 *   metric {run, attempt, bytes}             the same of its metrics
 *   note {run, wall, text, node, up, idx}    what is in no row: how a node is reached, trouble; a
 *                                            stream begins with the newest of each node
 *   queue {}, schedule {}                    what waits changed; a schedule did; topics queue,
 *                                            schedules
 *   reset {run}                              more happened than was told: look at the whole again
 *   bye {reason}                             the stream ends
 *
 * A stream gets the events of the runs that it names (?runs=41,42), and those of its topics
 * (&topics=list,queue,nodes,schedules) of all runs; nodes are notes about them. Without either it
 * gets all.
 *
 * Events are numbered over the life of the host, "EPOCH-RANDOM.N": a home that was restored, and
 * another one behind the same address, count their epochs from where they like. The newest stay in
 * a ring: a reader that is slow, or comes again with Last-Event-ID or ?last=, goes on there; one
 * that is too far behind, or whose id is of elsewhere, gets a reset.
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

size_t feed_streams(const struct fr_host *host); /* how many there are */

#endif
