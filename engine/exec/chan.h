/*
 * Inside the "node" executor. Each node has a channel. The channel keeps a link up, exchanges
 * messages over it, and repeats commands until they are answered. Only engine/exec includes this.
 *
 *   chan.c      connecting, hello, back-off, bytes in and out
 *   chan_ping.c limits for silence: while connecting, and of a node that is up
 *   chan_msg.c  what came from the node, turned into events
 *   route.c     which link a node is reached by
 *   pend.c      commands waiting for their answer, and the logs that are followed
 *   xfer.c      puts and gets
 *   node.c      the executor: fr_exec_ops over an array of channels
 */
#ifndef FR_EXEC_CHAN_H
#define FR_EXEC_CHAN_H

#include "engine/exec/exec.h"
#include "engine/exec/ship.h"
#include "engine/exec/sshconf.h"

enum {
    FR_CHAN_QUIET_MS = 30000 /* the link took none of the bytes that wait for it */
};

enum fr_chan_state {
    FR_CHAN_IDLE,       /* no command needs it, or a permanent error: waits for connect() */
    FR_CHAN_QUEUED,     /* waits for one of FR_EXEC_CONNECTS */
    FR_CHAN_CONNECTING, /* link, flownode, hello */
    FR_CHAN_UP,
    FR_CHAN_PAUSING /* back-off */
};

/* A command without an answer: sent when the node is up, and again after each reconnection. */
struct fr_pend {
    struct fr_pend *next;
    enum fr_msg_type type;
    struct fr_id attempt;
    uint64_t ref;        /* list, facts */
    bool go_now;         /* prepare */
    bool sent;           /* on this connection */
    uint32_t machine;    /* the channel's machine when it was first sent */
    int64_t sent_ms;     /* ack_end is done when a ping sent after this is answered */
    struct fr_buf bytes; /* owns: the frames */
};

struct fr_pends { /* owns its commands, oldest first */
    struct fr_pend *first, **last;
};

/* A log that is followed, from have on. */
struct fr_follow {
    struct fr_follow *next;
    struct fr_id attempt;
    uint64_t have; /* bytes posted so far */
    uint64_t tail; /* of the tail, too */
    bool ended;
    uint64_t log_bytes; /* once ended */
};

struct fr_xfer; /* a put or a get */

struct fr_chan {
    struct fr_nodes *ex; /* borrows: the executor */
    size_t index;
    const struct fr_exec_node *node; /* borrows */
    enum fr_chan_state state;
    struct fr_link link;    /* owns; made at the first connect */
    struct fr_link ask;     /* owns: `ssh -G`, before there is a link */
    struct fr_buf answer;   /* owns: what it printed */
    struct fr_arena conf_arena; /* owns what conf points to */
    struct fr_ssh_conf conf;    /* of a node behind SSH that has a link */
    struct fr_timer *timer; /* pings while up, deadline while connecting, the pause's end */
    struct fr_buf folders;  /* owns: boot's, made with the link */
    struct fr_boot boot;
    bool booting;
    struct fr_wire_in in;
    struct fr_buf out;           /* owns: frames to send, in order */
    struct fr_post flush;        /* sends the commands of one turn together */
    struct fr_pends asked, acks; /* commands without an answer; ack_end without a later pong */
    struct fr_follow *follows;
    struct fr_xfer *xfers;       /* the first put and the first get are active */
    struct fr_post hash;         /* the next slice of a file that came */
    struct fr_exec_event *spare; /* owns: the next message is decoded into its arena */
    uint64_t epoch;
    struct fr_id home; /* of the newest hello */
    char boot_id[40];
    uint32_t machine;    /* counts changes of home or boot id */
    int64_t received_ms; /* last byte from the node, or progress while connecting */
    int64_t written_ms;  /* the link last took bytes, or there were none for it */
    int64_t opened_ms;
    int64_t away_ms;  /* this outage began; -1: none, it is up */
    int64_t ping_ms;  /* last ping sent */
    int64_t unanswered_ms; /* first ping sent since the last byte came; -1: none */
    int64_t pause_ms;      /* the next pause between two tries */
    int64_t offset_ms;
    bool fenced; /* another flowrun owns the run there: no more connections */
    bool was_up; /* was up before: permanent errors are tried again, too */
    bool link_up;
    bool holds_slot;         /* of FR_EXEC_CONNECTS: until the login is done */
    bool unknown_ref_logged; /* an error for an unknown ref was logged on this connection */
    bool failed;     /* no memory for what was to be sent: falls at the next tick */
    uint32_t serial; /* of the connection; changes when it is lost */
    int64_t due_ms;  /* of the next look at it: a late one was our own doing */
    int64_t rtt_ms;  /* of the offset's measurement */
    uint64_t credit; /* bulk bytes we may send */
    int64_t window,
        owed;        /* bulk bytes the node may have in flight; received and not granted again */
    int64_t allowed; /* granted, and not yet received: a node that sends more is cut off */
    int64_t up_ms;   /* when it came up */
    int short_connections;             /* connections in a row that fell at once */
    int64_t rate_since_ms, rate_bytes; /* to size the window */
};

struct fr_nodes {
    struct fr_loop *loop;
    struct fr_exec_sink sink;
    struct fr_exec_node_args args;
    struct fr_ship *ship;   /* owns: flownode for each machine type */
    struct fr_buf ssh_defaults; /* owns: what `ssh -G` prints without a configuration */
    uint32_t connects;      /* for the epoch */
    char owner[FR_ID_TEXT]; /* of this process alone: a copy of its home has another */
    size_t connecting;      /* channels that hold one of FR_EXEC_CONNECTS */
    struct fr_post kick;    /* starts queued connects, from the loop's turn */
    struct fr_chan *chans;
    size_t n;
};

/* chan.c */
enum fr_rc fr_chan_init(struct fr_chan *ch, struct fr_nodes *ex, size_t index, struct fr_err *err);
void fr_chan_connect(struct fr_chan *ch); /* also ends a pause */
void fr_chan_needed(struct fr_chan *ch);  /* a command waits: connects when idle */
void fr_chan_start(struct fr_chan *ch);   /* from QUEUED, in the loop's turn */
void fr_chan_open(struct fr_chan *ch);    /* opens ch->link */
void fr_chan_finish(struct fr_chan *ch);
/* Appends m to what goes out; the connection falls on failure. */
void fr_chan_put(struct fr_chan *ch, const struct fr_msg *m);
void fr_chan_flush(struct fr_chan *ch);
/* Ends the connection for err's reason, posts DOWN, tries again after a pause (or not: see link.h).
 */
void fr_chan_lost(struct fr_chan *ch, const struct fr_err *err, bool silent);
/* The node's hello: from CONNECTING to UP. ev is taken. */
enum fr_rc fr_chan_hello(struct fr_chan *ch, const struct fr_hello *h, struct fr_exec_event *ev,
                         struct fr_err *err);
/* Counts bulk bytes that came, and grants new credit when enough is used. FR_PROTO: more came than
 * credit allowed. */
enum fr_rc fr_chan_received_bulk(struct fr_chan *ch, size_t bytes, struct fr_err *err);
/* A new event of this channel, to be filled and posted; NULL: no memory. */
struct fr_exec_event *fr_chan_event(struct fr_chan *ch, enum fr_exec_kind kind);
void fr_chan_post(struct fr_chan *ch, struct fr_exec_event *ev);

/* route.c: makes ch->link, or begins to ask for the SSH configuration and opens the link when that
 * is known; sets booting. Posts a note on the way taken, and the configuration. */
enum fr_rc fr_chan_route(struct fr_chan *ch, struct fr_err *err);

/* chan_ping.c */
/* What the node's login shell said before flownode came, put behind err; and, when that shell ended
 * or hangs without having begun with our script (ran), what may be wrong with it. */
void fr_chan_explain(const struct fr_chan *ch, struct fr_err *err, bool ran);
/* true: the node has been connecting for longer than it may, and the connection was lost. */
bool fr_chan_slow(struct fr_chan *ch, int64_t now);
/* Pings a node that is up when it is time, and gives the time of the next check; 0: the connection
 * was lost for silence. late: this process was held up, so answers may still wait to be read. */
int64_t fr_chan_check_alive(struct fr_chan *ch, int64_t now, bool late);
void fr_chan_queued(struct fr_chan *ch); /* out has grown: the next ping comes sooner */
enum fr_rc fr_chan_pong(struct fr_chan *ch, const struct fr_pong *p, struct fr_err *err);

/* chan_msg.c */
void fr_chan_note(struct fr_chan *ch, const char *text); /* posts a FR_EXEC_NOTE */
/* Takes ev, into whose arena m was decoded. */
enum fr_rc fr_chan_message(struct fr_chan *ch, const struct fr_msg *m, struct fr_exec_event *ev,
                           struct fr_err *err);

/* Checks a time from a node: sums with it must not overflow. FR_PROTO. */
enum fr_rc fr_chan_time(int64_t ms, struct fr_err *err);

/* pend.c */
enum fr_rc fr_pend_add(struct fr_chan *ch, const struct fr_msg *m, struct fr_id attempt,
                       uint64_t ref, struct fr_err *err);
void fr_pend_send(struct fr_chan *ch); /* all of them, on a new connection */
void fr_pend_state(struct fr_chan *ch, const struct fr_state *s);
/* Drops the commands that a message of type by answers; true: there were some. */
bool fr_pend_answered(struct fr_chan *ch, struct fr_id attempt, enum fr_msg_type by);
bool fr_pend_go_now(const struct fr_chan *ch, struct fr_id attempt);
bool fr_pend_ref(struct fr_chan *ch, uint64_t ref); /* drops the request; false: unknown */
void fr_pend_ponged(struct fr_chan *ch, int64_t ping_ms);
void fr_pend_finish(struct fr_chan *ch);
enum fr_rc fr_follow_add(struct fr_chan *ch, struct fr_id attempt, uint64_t offset,
                         struct fr_err *err);
struct fr_follow *fr_follow_find(struct fr_chan *ch, struct fr_id attempt);
void fr_follow_drop(struct fr_chan *ch, struct fr_id attempt);

/* xfer.c */
enum fr_rc fr_xfer_put(struct fr_chan *ch, uint64_t ref, const struct fr_exec_file *v, size_t n,
                       struct fr_err *err);
enum fr_rc fr_xfer_get(struct fr_chan *ch, const struct fr_exec_get *get, struct fr_err *err);
void fr_xfer_restart(struct fr_chan *ch); /* a new connection */
void fr_xfer_pump(struct fr_chan *ch);    /* sends as much as credit and room allow */
/* A message with a transfer's ref; false: no such transfer. ev is borrowed. */
bool fr_xfer_message(struct fr_chan *ch, const struct fr_msg *m);
void fr_xfer_hash(void *chan); /* the next slice of a file that came */
void fr_xfer_finish(struct fr_chan *ch);

#endif
