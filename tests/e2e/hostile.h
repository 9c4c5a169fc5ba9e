/*
 * What the ways to break the protocol (hostile_ways.c) and the flownode that takes one of them
 * (hostile_node.c) have in common: what such a node knows, and how it speaks.
 */
#ifndef TESTS_E2E_HOSTILE_H
#define TESTS_E2E_HOSTILE_H

#include "engine/wire/codec.h"
#include "engine/wire/wire.h"

#define ESCAPES                                                                                    \
    "\x1b[2J\x1b]0;owned\x07\x9b"                                                                  \
    "31m\xc2\x9b"                                                                                  \
    "1m\xff"

struct node {
    const char *home;
    bool behaves; /* this is not its first connection */
    struct fr_wire_in in;
    int got; /* HOME/got */
    struct fr_id attempt;
    uint64_t rng;
};

struct way {
    const char *name;
    void (*first)(struct node *n);   /* instead of a hello */
    void (*started)(struct node *n); /* when asked to start an attempt */
};

const struct way *way_named(const char *name); /* NULL: none */

/* Each ends the program when flowrun does not listen any more. */
void node_put(const void *p, size_t n); /* these bytes */
void node_say(const struct fr_msg *m);
void node_frame(uint32_t len, uint8_t type, const void *p, size_t n); /* len is what it claims */
void node_hello(int64_t mono_ms, uint32_t proto, struct fr_str boot);
void node_launched(struct node *n);
void node_refuse(struct fr_id attempt, const char *text);
void node_ended(struct fr_id attempt, int code, struct fr_strs outputs, uint64_t log_bytes);

#endif
