/*
 * Inside the "node" executor. Each node has a channel. The channel keeps a link up, exchanges
 * messages over it, and repeats commands until they are answered. Only engine/exec includes this.
 *
 *   chan.c      connecting, hello, back-off, bytes in and out
 *   chan_ping.c limits for silence: while connecting, and of a node that is up
 *   chan_msg.c  messages from the node become events
 *   route.c     which link a node is reached by
 *   agents.c    which agent a login uses
 *   pend.c      commands waiting for their answer
 *   track.c     the run of each attempt, and how far its log has come
 *   xfer.c      puts and gets
 *   login.c     commands that a login node runs
 *   nodes.c     all channels of the process, and the runs that use them
 *   node.c      the executor of a run: its commands become messages
 */
#ifndef FR_EXEC_PRIVATE_H
#define FR_EXEC_PRIVATE_H

#include "engine/exec/exec.h"
#include "engine/ship/ship.h"
#include "engine/link/sshconf.h"

enum {
    FR_CHAN_QUIET_MS = 30000, /* the link took none of the bytes that wait for it */
    FR_CHAN_BUCKETS = 64
};

enum fr_chan_state {
    FR_CHAN_IDLE,       /* no command needs it, or a permanent error: waits for connect() */
    FR_CHAN_QUEUED,     /* waits for one of FR_EXEC_CONNECTS */
    FR_CHAN_CONNECTING, /* link, flownode, hello */
    FR_CHAN_UP,
    FR_CHAN_PAUSING /* back-off */
};

/* A run at a channel. It gets events of the node from its first command on. */
struct fr_use {
    struct fr_use *next;   /* of the channel */
    struct fr_use **at;    /* the pointer to it there */
    struct fr_joined *run; /* borrows */
    struct fr_chan *ch;    /* borrows */
    size_t index;          /* of the node, in the run's list */
    int64_t since_ms;      /* of the first command; -1: none yet */
    bool up_due;           /* the run joined while the node was up: post UP */
};

/* A run, as its executor. */
struct fr_joined {
    struct fr_nodes *ex; /* borrows */
    struct fr_id id;
    struct fr_exec_sink sink;
    struct fr_use *uses; /* owns; one a node */
    size_t n;
};

/* A command without an answer: sent when the node is up, and again after each reconnection. */
struct fr_pend {
    struct fr_pend *next;
    struct fr_use *use; /* borrows: whose it is; NULL: an ack_end of a run that has left */
    enum fr_msg_type type;
    struct fr_id attempt;
    uint64_t ref, asked; /* facts: the channel's, and the run's */
    bool go_now;         /* prepare */
    bool sent;           /* on this connection */
    uint32_t machine;    /* the channel's machine when it was first sent */
    int64_t sent_ms;     /* ack_end is done when a ping sent after this is answered */
    struct fr_buf bytes; /* owns: the frames */
};

struct fr_pends { /* owns its commands, oldest first */
    struct fr_pend *first, **last;
};

/* An attempt that a run sent a command about, until it acknowledges its end. */
struct fr_tracked {
    struct fr_tracked *next; /* of its bucket */
    struct fr_use *use;      /* borrows: whose it is */
    struct fr_id attempt;
    bool followed; /* log and metrics are, from have on */
    bool ended;
    struct fr_exec_have have; /* bytes posted so far */
    uint64_t tail;            /* of the tail, too */
    struct fr_exec_have all;  /* once ended */
};

struct fr_xfer; /* a put or a get */
struct fr_pipe; /* a command that a login node runs */

struct fr_chan {
    struct fr_chan *next;     /* of ex */
    struct fr_nodes *ex;      /* borrows */
    struct fr_arena arena;    /* owns the text of node */
    struct fr_id id;          /* random: sent in hello */
    struct fr_exec_node node; /* how the node is reached */
    struct fr_use *uses;      /* the runs that use it */
    enum fr_chan_state state;
    struct fr_link link;        /* owns; made at the first connect */
    struct fr_link ask;         /* owns: `ssh -G`, before there is a link */
    struct fr_buf answer;       /* owns: its output */
    struct fr_arena conf_arena; /* owns what conf points to */
    struct fr_ssh_conf conf;    /* of a node over SSH that has a link */
    struct fr_timer *timer;     /* pings while up, deadline while connecting, the pause's end */
    struct fr_buf folders;      /* owns: boot's, made with the link */
    struct fr_boot boot;
    bool booting;
    struct fr_wire_in in;
    struct fr_buf out;           /* owns: frames to send, in order */
    struct fr_post flush;        /* sends the commands of one turn together */
    struct fr_pends asked, acks; /* commands without an answer; ack_end without a later pong */
    struct fr_tracked *tracked[FR_CHAN_BUCKETS]; /* owns; by attempt */
    size_t n_followed;
    struct fr_xfer *xfers;       /* the first put and the first get of each run are active */
    struct fr_pipe *pipes;       /* borrows: of a login node, whether they run or not */
    size_t n_pipes;              /* that run */
    uint64_t last_ref;           /* of a request: runs number theirs without regard to others */
    uint64_t turns;              /* pieces of puts and commands sent: whose turn it is */
    struct fr_post hash;         /* the next slice of a file that came */
    struct fr_exec_event *spare; /* owns: the next message is decoded into its arena */
    struct fr_exec_up up;        /* of the newest hello; its texts are … */
    char boot_id[65], build[65];
    uint32_t machine;    /* counts changes of home or boot id */
    int64_t received_ms; /* last byte from the node, or progress while connecting */
    int64_t written_ms;  /* the link last took bytes, or there were none for it */
    int64_t opened_ms;
    int64_t away_ms;       /* this outage began; -1: none, it is up */
    int64_t ping_ms;       /* last ping sent */
    int64_t unanswered_ms; /* first ping sent since the last byte came; -1: none */
    int64_t pause_ms;      /* the next pause between two tries */
    int64_t offset_ms;
    size_t agent;                   /* of ex->agents: that of the next try, modulo their number */
    uint32_t agents_seen;           /* ex->agents_change when the newest try began */
    size_t refused;                 /* logins in a row that were refused, each with another one */
    char agent_path[FR_AGENT_PATH]; /* of the newest try */
    bool denied;                    /* IDLE, since each login was refused */
    bool fenced;                    /* a newer host was there: no more connections */
    bool was_up;                    /* was up before: permanent errors are tried again, too */
    bool nowhere;                   /* IDLE: a place that nobody knows yet */
    bool leaves;                    /* UP: a place that is nowhere now, see fr_chan_leave_place() */
    bool link_up;
    bool answered;           /* FR_TRANSPORT_PLACE: a piece of the message that comes was */
    bool holds_slot;         /* of FR_EXEC_CONNECTS: until the login is done */
    bool unknown_ref_logged; /* an error for an unknown ref was logged on this connection */
    bool failed;             /* no memory for a message: the connection ends at the next tick */
    uint32_t serial;         /* of the connection; changes when it is lost */
    int64_t due_ms;          /* of the next look at it: a late one was our own doing */
    int64_t rtt_ms;          /* of the offset's measurement */
    uint64_t credit;         /* bulk bytes we may send */
    int64_t window,
        owed;        /* bulk bytes the node may have in flight; received and not granted again */
    int64_t allowed; /* granted, and not yet received: a node that sends more is cut off */
    int64_t up_ms;   /* when it came up */
    int64_t left_ms; /* its last run left then */
    int short_connections;             /* connections in a row that fell at once */
    int64_t rate_since_ms, rate_bytes; /* to size the window */
};

struct fr_nodes {
    struct fr_loop *loop;
    struct fr_nodes_args args;
    struct fr_id fence;         /* sent in hello */
    struct fr_ship *ship;       /* owns: flownode for each machine type */
    struct fr_buf ssh_defaults; /* owns: what `ssh -G` prints without a configuration */
    uint32_t connects;          /* for the epoch */
    char owner[FR_ID_TEXT];     /* of this process alone: a copy of its home has another */
    size_t connecting;          /* channels that hold one of FR_EXEC_CONNECTS */
    uint32_t agents_change;     /* grows when an agent comes that was not there */
    bool agents_known;          /* fr_nodes_agents() was called */
    char **agents;              /* owns */
    size_t n_agents;
    fr_place_fn *find_place; /* NULL: none */
    void *find_arg;
    struct fr_post kick;     /* starts queued connects, from the loop's turn */
    struct fr_chan *chans;   /* owns; in the order in which they were made */
    struct fr_timer *linger; /* drops those without runs */
};

/* nodes.c */
/* Called before each command of the run: connects the node, or posts UP if it is up already. */
void fr_use_begin(struct fr_use *use);
void fr_use_join(struct fr_use *use); /* sends join */
void fr_use_post(struct fr_use *use, struct fr_exec_event *ev);
/* Posts UP to the run. FR_NOMEM: UP was not posted. */
enum fr_rc fr_use_up(struct fr_use *use, struct fr_err *err);
/* Posts DOWN. For a run that joined during the outage, the outage counts from its first command. */
void fr_use_down(struct fr_use *use, const struct fr_err *err, int64_t pause, bool silent);
/* Posts the text to all runs that use the node. */
void fr_chan_tell(struct fr_chan *ch, enum fr_exec_kind kind, const char *text);

void fr_nodes_unused(struct fr_nodes *ex); /* a channel without runs is no longer up */

/* node.c */
extern const struct fr_exec_ops fr_node_ops;
void fr_joined_leave(void *joined); /* destroy of these ops */

/* chan.c */
enum fr_rc fr_chan_init(struct fr_chan *ch, struct fr_nodes *ex, const struct fr_exec_node *node,
                        struct fr_err *err);
void fr_chan_connect(struct fr_chan *ch); /* also ends a pause */
void fr_chan_needed(struct fr_chan *ch);  /* a command waits: connects when idle */
void fr_chan_start(struct fr_chan *ch);   /* from QUEUED, in the loop's turn */
void fr_chan_open(struct fr_chan *ch);    /* opens ch->link */
void fr_chan_finish(struct fr_chan *ch);
/* Appends m to the output; on failure the connection ends. */
void fr_chan_put(struct fr_chan *ch, const struct fr_msg *m);
void fr_chan_flush(struct fr_chan *ch);
/* Ends the connection for err's reason, posts DOWN, tries again after a pause (or not: see link.h).
 */
void fr_chan_lost(struct fr_chan *ch, const struct fr_err *err, bool silent);
/* The node's hello: from CONNECTING to UP. */
enum fr_rc fr_chan_hello(struct fr_chan *ch, const struct fr_hello *h, struct fr_err *err);
/* Counts bulk bytes that came, and grants new credit when enough is used. FR_PROTO: more came than
 * credit allowed. */
enum fr_rc fr_chan_received_bulk(struct fr_chan *ch, size_t bytes, struct fr_err *err);
/* A new event, to be filled and posted; NULL: no memory. */
struct fr_exec_event *fr_chan_event(struct fr_chan *ch, enum fr_exec_kind kind);
/* No memory for an event that must be posted: the connection ends, and the next one repeats it. */
void fr_chan_try_again(struct fr_chan *ch);

/* route.c: makes the link of a place. FR_BUSY: it is nowhere yet. */
enum fr_rc fr_chan_find(struct fr_chan *ch, struct fr_err *err);
/* Ends the connection if it is nowhere now, once the acknowledgements are there (keep_lease.h). */
void fr_chan_leave_place(struct fr_chan *ch);
/* Makes ch->link, or starts to ask for the SSH configuration, and then makes and opens the
 * link. Sets booting. Posts a note about the chosen transport, and the configuration. */
enum fr_rc fr_chan_route(struct fr_chan *ch, struct fr_err *err);

/* agents.c */
void fr_chan_pick_agent(struct fr_chan *ch); /* for the next try */
/* Called after a failed try: the next try uses another agent. True: that may help, so a refusal is
 * not final. */
bool fr_chan_next_agent(struct fr_chan *ch, const struct fr_err *err);
void fr_agents_finish(struct fr_nodes *ex);

/* chan_ping.c */
/* Appends to err the output of the node's login shell before flownode started. ran: the shell ended
 * or hangs without running our script; then err also names possible causes. */
void fr_chan_explain(const struct fr_chan *ch, struct fr_err *err, bool ran);
/* True: the connection was not up within its time limit, and was ended. */
bool fr_chan_slow(struct fr_chan *ch, int64_t now);
/* Pings a node that is up when a ping is due. Returns the time of the next check; 0: the node was
 * silent, and the connection was ended. late: this process was held up, so unread answers may
 * exist. */
int64_t fr_chan_check_alive(struct fr_chan *ch, int64_t now, bool late);
void fr_chan_queued(struct fr_chan *ch); /* ch->out has grown: the next ping is sent sooner */
enum fr_rc fr_chan_pong(struct fr_chan *ch, const struct fr_pong *p, struct fr_err *err);

/* chan_msg.c */
/* Handles a message. Takes ev, whose arena owns m. */
enum fr_rc fr_chan_message(struct fr_chan *ch, const struct fr_msg *m, struct fr_exec_event *ev,
                           struct fr_err *err);

/* Checks a time from a node: sums with it must not overflow. FR_PROTO. */
enum fr_rc fr_chan_time(int64_t ms, struct fr_err *err);

/* pend.c */
/* ref: the run's, of facts; else 0. */
enum fr_rc fr_pend_add(struct fr_use *use, const struct fr_msg *m, struct fr_id attempt,
                       uint64_t ref, struct fr_err *err);
void fr_pend_send(struct fr_chan *ch); /* all of them, on a new connection */
void fr_pend_state(struct fr_chan *ch, const struct fr_state *s);
/* Drops the commands that a message of type by answers. True: there were any. */
bool fr_pend_answered(struct fr_chan *ch, struct fr_id attempt, enum fr_msg_type by);
bool fr_pend_go_now(const struct fr_chan *ch, struct fr_id attempt);
/* Drops the request; *use, *asked: its run and that run's number for it. False: unknown. */
bool fr_pend_ref(struct fr_chan *ch, uint64_t ref, struct fr_use **use, uint64_t *asked);
void fr_pend_ponged(struct fr_chan *ch, int64_t ping_ms);
void fr_pend_leave(struct fr_use *use);  /* drops those of the run, but for acknowledgements */
void fr_pend_finish(struct fr_chan *ch); /* drops all; no run is left */

/* track.c */
struct fr_tracked *fr_tracked_find(const struct fr_chan *ch, struct fr_id attempt);
/* Finds or adds the attempt, which belongs to use from now on. NULL: no memory. */
struct fr_tracked *fr_track(struct fr_use *use, struct fr_id attempt);
void fr_untrack(struct fr_chan *ch, struct fr_id attempt);
void fr_track_leave(struct fr_use *use); /* drops those of the run */
enum fr_rc fr_follow_add(struct fr_use *use, struct fr_id attempt, struct fr_exec_have have,
                         struct fr_err *err);
void fr_follow_end(struct fr_chan *ch, struct fr_tracked *t);
void fr_follow_send(struct fr_chan *ch); /* all of them, on a new connection */

/* login.c */
/* Takes a message about a command. */
enum fr_rc fr_pipe_message(struct fr_chan *ch, const struct fr_msg *m, struct fr_err *err);
void fr_pipe_room(struct fr_chan *ch);                           /* there is credit or room again */
void fr_pipe_lost(struct fr_chan *ch, const struct fr_err *err); /* the connection is */

/* xfer.c */
enum fr_rc fr_xfer_put(struct fr_use *use, uint64_t ref, const struct fr_ship_file *v, size_t n,
                       struct fr_err *err);
enum fr_rc fr_xfer_get(struct fr_use *use, const struct fr_exec_get *get, struct fr_err *err);
void fr_xfer_restart(struct fr_chan *ch); /* a new connection */
void fr_xfer_pump(struct fr_chan *ch);    /* sends as much as credit and room allow */
/* Handles a message with a transfer's ref. False: the transfer is unknown. */
bool fr_xfer_message(struct fr_chan *ch, const struct fr_msg *m);
void fr_xfer_hash(void *chan);          /* the next slice of a file that came */
void fr_xfer_leave(struct fr_use *use); /* drops those of the run */

#endif
